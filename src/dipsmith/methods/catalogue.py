"""The methods, by the name that the command line and the card use."""

from dipsmith.consistency.graph import GraphModel
from dipsmith.consistency.tree_model import TreeModel
from dipsmith.methods.aim import AIM
from dipsmith.methods.flat import Flat, FlatModel
from dipsmith.methods.forest import Forest
from dipsmith.methods.forest_model import ForestModel
from dipsmith.methods.loglinear import LogLinear, LogLinearModel
from dipsmith.methods.marginals import Marginals, MarginalsModel
from dipsmith.methods.method import Method, Model
from dipsmith.methods.mst import MST
from dipsmith.methods.privbayes import PrivBayes
from dipsmith.methods.steps import Steps
from dipsmith.methods.universal import Universal

METHODS: dict[str, type[Method]] = {
    LogLinear.name: LogLinear,
    Forest.name: Forest,
    MST.name: MST,
    AIM.name: AIM,
    PrivBayes.name: PrivBayes,
    Marginals.name: Marginals,
    Flat.name: Flat,
    Steps.name: Steps,
    Universal.name: Universal,
}

MODELS: dict[str, type[Model]] = {
    LogLinear.name: LogLinearModel,
    Forest.name: ForestModel,
    MST.name: GraphModel,
    AIM.name: GraphModel,
    PrivBayes.name: GraphModel,
    Marginals.name: MarginalsModel,
    Flat.name: FlatModel,
    Steps.name: TreeModel,
    Universal.name: TreeModel,
}
