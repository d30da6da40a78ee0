"""How likely a poll is to give a clear answer, from public facts: before anything is asked or spent.

The effect is z standard errors of the whole table from the threshold. A part of one M-th of the rows has an error √M times
as large, so that it says yes with probability q = Φ(z/√M); the number of yeses is Binomial(M, q), and the noise is exact.
The chance of each verdict is a sum over both. For an interval the two ends have their own distances. Fixed effects take a
larger share of a part's rows than of the table's (`PartSize`): with 50 levels, parts of 60 rows hardly know anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Final

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dipsmith.arrays import Floats
from dipsmith.confirm.verdict import Judgement, judge, judge_ends
from dipsmith.privacy.budget import Budget, of_units
from dipsmith.privacy.calibration import noise_of
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.value_question import FEWEST_PARTS, poll_sensitivity

OFFERED: Final = (10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200)
"""Numbers of parts that are compared."""
CLEAR: Final = 0.8
"""A question is proposed that is clear with this probability."""
ROWS_PER_COEFFICIENT: Final = 10
TAIL: Final = 1e-12
LEAST_STEP, MOST_STEP = -20, 12
"""Budgets that are looked through: from 0.01 to 15, in steps of a quarter."""


@dataclass(frozen=True)
class VerdictChances:
    """The chances of each verdict."""

    confirmed: float
    contradicted: float

    @property
    def undecided(self) -> float:
        """That the answer will be "cannot tell"."""
        return max(0.0, 1.0 - self.confirmed - self.contradicted)

    @property
    def clear(self) -> float:
        """That there will be a verdict."""
        return self.confirmed + self.contradicted


@dataclass(frozen=True, eq=False)
class PartSize:
    """The rows of a table, how many coefficients a formula has, and the shares of the levels of each fixed effect."""

    rows: float
    coefficients: int = 0
    effects: tuple[Floats, ...] = ()

    def freedom(self, parts: int) -> float:
        """The rows of a part less the parameters that they are spent on, of fixed effects the levels that are likely there."""
        rows = self.rows / parts
        levels = sum(float((1 - (1 - shares) ** rows).sum()) for shares in self.effects)
        return max(0.0, rows - self.coefficients - max(0.0, levels - max(0, len(self.effects) - 1)))

    def shrink(self, parts: int) -> float:
        """A distance in standard errors of a part, where it is 1 in those of the table; 0 where a part cannot be fitted.

        >>> PartSize(1e6).shrink(100), PartSize(100, 10).shrink(20)
        (0.1, 0.0)
        """
        return sqrt(self.freedom(parts) / max(self.freedom(1), 1e-12))


LARGE_PARTS: Final = PartSize(1e15)
"""Of a table so large that parameters do not matter."""


def outlook(z: float, parts: int, budget: Budget, relation: str, size: PartSize = LARGE_PARTS) -> VerdictChances:
    """The chances of a claim about one side, z standard errors of the whole table on the claimed side of its threshold.

    >>> from dipsmith.privacy.budget import PureDP
    >>> round(outlook(3, 50, PureDP(1), "label").confirmed, 2)
    0.69
    """
    return outlook_of_share(float(ndtr(z * size.shrink(parts))), parts, budget, relation)


def outlook_of_share(share: float, parts: int, budget: Budget, relation: str) -> VerdictChances:
    """The chances where every part says yes with this probability."""
    noise, told = _table(parts, budget.currency, budget.units, relation)
    chance = noise @ binom.pmf(np.arange(parts + 1), parts, min(1.0, max(0.0, share)))
    return VerdictChances(float(chance[told.confirmed].sum()), float(chance[told.contradicted].sum()))


def outlook_of_interval(
    low_z: float, high_z: float, parts: int, budget: Budget, relation: str, size: PartSize = LARGE_PARTS
) -> VerdictChances:
    """The chances of an interval whose lower and upper ends are so many standard errors below and above the truth."""
    below, above = (float(ndtr(-z * size.shrink(parts))) for z in (low_z, high_z))
    law = noise_of(poll_sensitivity(relation, 3, budget), budget)
    number, noisy = np.arange(parts + 1), np.arange(-_reach(law), parts + _reach(law) + 1)
    noise, told = law.pmf(noisy[:, None] - number[None, :]), judge_ends(noisy, noisy, parts, law)
    # Of the parts that are not below, as many are above.
    rest = min(1.0, above / (1 - below)) if below < 1 else 0.0
    truth = binom.pmf(number, parts, below)[:, None] * np.stack([binom.pmf(number, parts - b, rest) for b in number])
    chance = noise @ truth @ noise.T
    return VerdictChances(float(chance[told.confirmed].sum()), float(chance[told.contradicted].sum()))


def most_parts(rows: int, coefficients: int) -> int:
    """The most parts that leave each of them rows enough for its coefficients."""
    return max(FEWEST_PARTS, rows // max(30, ROWS_PER_COEFFICIENT * (coefficients + 1)))


def best_parts(z: float, budget: Budget, relation: str, most: int, size: PartSize = LARGE_PARTS) -> int:
    """The number of parts that makes a clear answer most likely; of equals the smallest."""
    possible = [m for m in OFFERED if m <= most] or [FEWEST_PARTS]
    return max(possible, key=lambda m: (round(outlook(abs(z), m, budget, relation, size).confirmed, 3), -m))


def enough_budget(z: float, like: Budget, relation: str, most: int, size: PartSize = LARGE_PARTS) -> Budget | None:
    """The least budget, in steps of a quarter, at which a clear answer has probability `CLEAR`; None where none has."""

    def suffices(step: int) -> bool:
        budget = _step(like, step)
        parts = best_parts(z, budget, relation, most, size)
        return outlook(abs(z), parts, budget, relation, size).confirmed >= CLEAR

    low, high = LEAST_STEP, MOST_STEP
    if not suffices(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return _step(like, low)


def _step(like: Budget, step: int) -> Budget:
    return type(like)(f"{1.25**step:.2g}")


@lru_cache(maxsize=256)
def _table(parts: int, currency: str, units: int, relation: str) -> tuple[Floats, Judgement]:
    """For every noisy number that is likely at all: its probability given each number of yeses, and how it is judged."""
    budget = of_units(currency, units)
    law = noise_of(poll_sensitivity(relation, 2, budget), budget)
    noisy = np.arange(-_reach(law), parts + _reach(law) + 1)
    return np.asarray(law.pmf(noisy[:, None] - np.arange(parts + 1)[None, :])), judge(noisy, parts, law)


def _reach(law: NoiseLaw) -> int:
    """How far noise goes, but for a probability that does not matter."""
    reach = 8
    while float(law.pmf(np.array([reach]))[0]) > TAIL and reach < 1 << 16:
        reach *= 2
    return reach
