"""A score: how good a candidate is, as a function of counts, with a proven sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.schema import Marginal

C_contra = TypeVar("C_contra", contravariant=True)


class Score(Protocol[C_contra]):
    """What `Curator.choose` compares candidates by.

    What a score needs besides counts (a model's estimate, the public n) is a constructor argument.
    """

    @property
    def name(self) -> str:
        """The name that the ledger shows."""

    def tables(self, candidate: C_contra) -> Sequence[Marginal]:
        """The marginals whose counts decide the candidate's score."""

    def value(self, candidate: C_contra, counts: Sequence[NDArray[np.int64]]) -> float:
        """The score; larger is better."""

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """By how much one unit can change a score."""

    def monotone(self, relation: str) -> bool:
        """Whether one unit moves all scores the same way (halves the noise needed)."""
