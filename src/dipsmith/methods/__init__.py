"""The methods, by the name that the command line and the card use."""

from dipsmith.methods.flat import Flat, FlatModel
from dipsmith.methods.marginals import Marginals, MarginalsModel
from dipsmith.methods.method import Labeller, Method, Model, Planned, PublicFacts

METHODS: dict[str, type[Method]] = {
    Flat.name: Flat,
    Marginals.name: Marginals,
}

MODELS: dict[str, type[Model]] = {
    Flat.name: FlatModel,
    Marginals.name: MarginalsModel,
}

__all__ = ["METHODS", "MODELS", "Labeller", "Method", "Model", "Planned", "PublicFacts"]
