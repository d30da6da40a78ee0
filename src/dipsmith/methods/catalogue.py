"""The methods, by the name that the command line and the card use."""

from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.forest.model import ForestModel
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.marginals import Marginals, MarginalsModel
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.graph.privbayes import PrivBayes
from dipsmith.methods.hierarchy.flat import Flat, FlatModel
from dipsmith.methods.hierarchy.model import TreeModel
from dipsmith.methods.hierarchy.steps import Steps
from dipsmith.methods.hierarchy.universal import Universal
from dipsmith.methods.loglinear.loglinear import LogLinear, LogLinearModel
from dipsmith.methods.method import Method, Model

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
