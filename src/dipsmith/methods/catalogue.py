"""The methods, by the name that the command line and the card use."""

from dipsmith.methods.flat import Flat, FlatModel
from dipsmith.methods.marginals import Marginals, MarginalsModel
from dipsmith.methods.method import Method, Model

METHODS: dict[str, type[Method]] = {
    Flat.name: Flat,
    Marginals.name: Marginals,
}

MODELS: dict[str, type[Model]] = {
    Flat.name: FlatModel,
    Marginals.name: MarginalsModel,
}
