"""Misfit: how far true counts are from a model's estimate, the score by which marginals are chosen.

The score of a set of attributes r with true counts c and expected counts m of a fixed model is

    w_r · (‖c − m‖₁ − E_r) + B_r,

where the weight w_r ≤ 1, the error E_r that the noise will leave and the bonus B_r are public (AIM:
McKenna, Mullins, Sheldon and Miklau, PVLDB 15, 2022, section 4; MST: McKenna, Miklau and Sheldon, JPC
11, 2021, section 3).

Privacy
-------
By the triangle inequality ‖c − m‖₁ moves by at most ‖c − c′‖₁: one unit of at most k rows moves k
counts by one (add-remove) or up to 2k (replace). The rest is a function of earlier answers. Sensitivity:
k or 2k. Not monotone: a count may move towards or away from its estimate. ``docs/proofs/aim.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.methods.graph.junction import Array, Attributes
from dipsmith.privacy import neighbours
from dipsmith.privacy.score import Score
from dipsmith.schema import Marginal, Schema

MOST_TIMES = 4.0
"""A table gets at most so many times the budget of an average one, and at least the inverse."""


@dataclass(frozen=True, eq=False)
class Misfit(Score[Attributes]):
    """L1 distance between a marginal's counts and fixed expected counts, less the noise it would carry.

    `expected` has the model's expected counts of every candidate, shaped as its table; `cost` what to subtract
    from each distance (`noise_left`); `weights` at most 1 each (default 1); `bonus` a public preference in rows.
    """

    schema: Schema
    expected: Mapping[Attributes, Array]
    cost: Mapping[Attributes, float] = field(default_factory=dict)
    weights: Mapping[Attributes, float] = field(default_factory=dict)
    bonus: Mapping[Attributes, float] = field(default_factory=dict)

    name = "misfit"

    def __post_init__(self) -> None:
        if any(not 0 <= w <= 1 for w in self.weights.values()):
            raise UsageError("misfit: expected weights between 0 and 1")

    def tables(self, candidate: Attributes) -> Sequence[Marginal]:
        """The candidate's own marginal."""
        return [Marginal.of(self.schema, candidate)]

    def value(self, candidate: Attributes, counts: Sequence[NDArray[np.int64]]) -> float:
        """The weighted distance less cost, plus bonus."""
        distance = float(np.abs(counts[0] - self.expected[candidate].ravel()).sum())
        weight = self.weights.get(candidate, 1.0)
        return weight * (distance - self.cost.get(candidate, 0.0)) + self.bonus.get(candidate, 0.0)

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """L1 sensitivity of a table of counts: k, or 2k where a row may change."""
        return Fraction(neighbours.l1(relation, max_rows))


def noise_left(expected: Array, sd: float) -> float:
    """How much L1 error the noise is expected to leave in a table, once negative counts are gone.

    A cell whose expected count is below the noise errs by about its own count, not by the noise:
    Σ min(√(2/π)·σ, m).

    >>> noise_left(np.array([1000.0, 0.0, 0.5]), sd=10.0) < 9
    True
    """
    return float(np.minimum(sqrt(2 / pi) * sd, expected).sum())


def budget_weights(cells: Sequence[float], currency: str) -> list[float]:
    """How to share a budget among tables so that their summed L1 error is least.

    The error of a table of n cells is proportional to n/ε (pure) or n/√ρ (zCDP); the least sum has
    ε ∝ n^(1/2) or ρ ∝ n^(2/3).

    >>> budget_weights([1, 8], "rho"), budget_weights([1, 9], "epsilon")
    ([1.0, 4.0], [1.0, 3.0])
    """
    power = 1 / 2 if currency == "epsilon" else 2 / 3
    return [round(n**power, 6) for n in cells]


def relative_shares(
    reached: Mapping[Attributes, float], average: Sequence[Attributes], currency: str
) -> dict[Attributes, float]:
    """How many times the budget of an average table each table should get, between a quarter and four times.

    By `budget_weights`, with the number of cells that noise can reach (`noise_left` in units of the noise) in place of
    all cells: rare combinations stay near 0 whatever the noise. `average` are the tables that the average is of.

    >>> relative_shares({("a", "b"): 1.0, ("a", "c"): 27.0}, [("a", "b"), ("a", "c")], "rho")
    {('a', 'b'): 0.25, ('a', 'c'): 1.8}
    """
    weights = dict(zip(reached, budget_weights(list(reached.values()), currency), strict=True))
    of = [weights[c] for c in average] or list(weights.values())
    mean = max(sum(of) / len(of), 1e-6)
    return {c: min(max(w / mean, 1 / MOST_TIMES), MOST_TIMES) for c, w in weights.items()}
