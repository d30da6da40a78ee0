"""Calibration: how much noise a price asks for, by the relation and what one unit may own."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.events import Chosen, Measured
from dipsmith.privacy.gaussian_price import range_price, variance_needed
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dipsmith.schema import Cells, Marginal, WeightedSums, WeightTotals
from dipsmith.schema.growth import GrowthSums


def sensitivity_for(
    relation: str, max_rows: int, budget: Budget, *, single: bool = False, heaviest: int = 1
) -> Fraction:
    """How far one unit moves a table of counts, or of sums of weights: Δ₁ where the price is an ε, Δ₂² where it is a ρ.

    A row adds its weight where it would add 1, so that both grow with the `heaviest`.
    """
    if isinstance(budget, PureDP):
        return Fraction(neighbours.l1(relation, max_rows, single) * heaviest)
    return Fraction(neighbours.l2_squared(relation, max_rows, single) * heaviest**2)


def noise_of(sensitivity: Fraction, budget: Budget) -> NoiseLaw:
    """The noise that makes counts cost `budget`: scale Δ₁/ε, or what hides as much as a normal variance Δ₂²/(2ρ)."""
    if isinstance(budget, PureDP):
        return DiscreteLaplace(sensitivity / budget.exact)
    return DiscreteGaussian(variance_needed(sensitivity / (2 * budget.exact)))


def noise_for(relation: str, max_rows: int, budget: Budget, *, single: bool = False, heaviest: int = 1) -> NoiseLaw:
    """The noise that makes one table cost `budget`."""
    return noise_of(sensitivity_for(relation, max_rows, budget, single=single, heaviest=heaviest), budget)


def scale_of(law: NoiseLaw) -> float:
    """The scale of a law as people state it: b of the discrete Laplace, σ of the discrete Gaussian."""
    return float(law.scale) if isinstance(law, DiscreteLaplace) else float(law.sigma2) ** 0.5


def price_counts(cells: Cells, sensitivity: Fraction, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
    """The noise that counts of this sensitivity are given for a price, and the event of it."""
    law = noise_of(sensitivity, budget)
    return law, noise_event(law, cells, sensitivity, budget, block)


def noise_event(noise: NoiseLaw, cells: Cells, sensitivity: Fraction, budget: Budget, block: str) -> Measured:
    """The event of a table that is about to be counted; refuses noise that is too small for its price."""
    return Measured(
        block=block,
        cells=cells.key,
        size=cells.size,
        attributes=cells.attributes if isinstance(cells, Marginal) else None,
        weighted=isinstance(cells, WeightedSums | WeightTotals | GrowthSums),
        mechanism=noise.name,
        sensitivity=sensitivity,
        scale=noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma2,
        budget=budget,
    )


def price_table(
    relation: str, max_rows: int, cells: Cells, budget: Budget, single: bool, block: str
) -> tuple[NoiseLaw, Measured]:
    """The noise that a table is given for its price, and the event of it."""
    heaviest = cells.heaviest if isinstance(cells, WeightedSums | WeightTotals) else 1
    sensitivity = sensitivity_for(relation, max_rows, budget, single=single, heaviest=heaviest)
    return price_counts(cells, sensitivity, budget, block)


def price_choice(candidates: int, score: str, law: str, sensitivity: Fraction, budget: Budget, block: str) -> Chosen:
    """The event of a choice by the law of its currency."""
    name = law if isinstance(budget, PureDP) else "exponential mechanism"
    return Chosen(
        block=block, candidates=candidates, score=score, mechanism=name, sensitivity=sensitivity, budget=budget
    )


def choice_epsilon(budget: Budget) -> Fraction:
    """The ε at which a choice costs `budget`: ε itself, or the largest with πε²/16 ≤ ρ, to nine decimals."""
    if isinstance(budget, PureDP):
        return budget.exact
    return Fraction(isqrt(int(budget.exact / range_price(Fraction(1)) * 10**18)), 10**9)
