"""Questions to the values of rows, answered by the curator's verb `ask`: a poll of parts, a public classification.

A question is a frozen value made of public facts. It says how far one unit moves its counts, and is priced by that; what it
counts is for the curator's eyes only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.events import Measured
from dipsmith.privacy.gaussian_price import variance_needed
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Cells


class ValueQuestion(Protocol):
    """A question to the values of all rows."""

    @property
    def cells(self) -> Cells:
        """What is counted: its name, and how many numbers there are."""

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise that the counts are given for a price, and the event of it; refuses what it has no proof for."""

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact counts. Nothing else that can be seen may depend on the rows."""


def noise_of(sensitivity: Fraction, budget: Budget) -> NoiseLaw:
    """The noise at which counts of this sensitivity (Δ₁, or Δ₂² where the price is a ρ) cost the budget."""
    if isinstance(budget, PureDP):
        return DiscreteLaplace(sensitivity / budget.exact)
    return DiscreteGaussian(variance_needed(sensitivity / (2 * budget.exact)))


def scale_of(law: NoiseLaw) -> float:
    """The scale of a law as people state it: b of the discrete Laplace, σ of the discrete Gaussian."""
    return float(law.scale) if isinstance(law, DiscreteLaplace) else float(law.sigma2) ** 0.5
