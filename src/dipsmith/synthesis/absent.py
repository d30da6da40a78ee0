"""A model whose package is not installed: what it says of itself, and what to install."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dipsmith.errors import RegistryError
from dipsmith.schema import Schema


@dataclass(frozen=True)
class AbsentModel:
    """Stands for a model of a kind that no installed package knows; the tables of its release can be used all the same.

    Attributes
    ----------
    schema
        The schema of its rows.
    kind
        The kind of model that its file names.
    reason
        Which package is missing.
    """

    schema: Schema
    kind: str
    reason: str

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("__"):
            raise AttributeError(verb)
        raise RegistryError(self.reason)
