"""Calibration: how much noise a price asks for, by the relation and what one unit may own."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.events import Measured
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dipsmith.schema import Cells, Marginal, WeightedSums


def sensitivity_for(
    relation: str, max_rows: int, budget: Budget, *, single: bool = False, heaviest: int = 1
) -> Fraction:
    """How far one unit moves a table of counts, or of sums of weights: Δ₁ where the price is an ε, Δ₂² where it is a ρ.

    A row adds its weight where it would add 1, so that both grow with the `heaviest`.
    """
    if isinstance(budget, PureDP):
        return Fraction(neighbours.l1(relation, max_rows, single) * heaviest)
    return Fraction(neighbours.l2_squared(relation, max_rows, single) * heaviest**2)


def noise_for(relation: str, max_rows: int, budget: Budget, *, single: bool = False, heaviest: int = 1) -> NoiseLaw:
    """The noise that makes one table cost `budget`: scale Δ₁/ε, or variance Δ₂²/(2ρ)."""
    sensitivity = sensitivity_for(relation, max_rows, budget, single=single, heaviest=heaviest)
    if isinstance(budget, PureDP):
        return DiscreteLaplace(sensitivity / budget.exact)
    return DiscreteGaussian(sensitivity / (2 * budget.exact))


def noise_event(noise: NoiseLaw, cells: Cells, sensitivity: Fraction, budget: Budget, block: str) -> Measured:
    """The event of a table that is about to be counted; refuses noise that is too small for its price."""
    return Measured(
        block=block,
        cells=cells.key,
        size=cells.size,
        attributes=cells.attributes if isinstance(cells, Marginal) else None,
        weighted=isinstance(cells, WeightedSums),
        mechanism=noise.name,
        sensitivity=sensitivity,
        scale=noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma2,
        budget=budget,
    )


def choice_epsilon(budget: Budget) -> Fraction:
    """The ε at which a choice costs `budget`: ε itself, or the largest with ε²/8 ≤ ρ, to nine decimals."""
    if isinstance(budget, PureDP):
        return budget.exact
    return Fraction(isqrt(int(8 * budget.exact * 10**18)), 10**9)
