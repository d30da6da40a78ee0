"""Ranges: parameters of which no levels are listed, only the ends.

Random designs draw from them: a Latin hypercube (McKay, Beckman and Conover, Technometrics 21, 1979) cuts every range
into as many parts as there are settings and takes one value from each, so that few settings still cover all of it. In an
analysis of variance such a parameter is a number: a curve (slope and bend) instead of one mean per level. Tables and
figures show the means of four equal parts of the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, floor, log

import numpy as np

from dipsmith.arrays import Bools, Floats

PARTS = 4
FEW = 6
"""A range of so many whole numbers or fewer is shown number by number."""
DIGITS = 4
"""Significant digits of what is drawn: a setting can be read, typed and run again."""


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both included, equally likely on their scale.

    >>> Range(1, 100, logarithmic=True, whole=True).value(0.5)
    10
    >>> Range(0.1, 2.0).value(0.25)
    0.575
    >>> Range(1, 100, logarithmic=True).labels
    ('1 to 3.16', '3.16 to 10', '10 to 31.6', '31.6 to 100')
    """

    low: float
    high: float
    logarithmic: bool = False
    whole: bool = False

    def value(self, u: float) -> float | int:
        """The number at a share u of the range, 0 ≤ u < 1."""
        if self.whole and not self.logarithmic:
            return int(self.low) + floor(u * (self.high - self.low + 1))  # the ends as likely as the others
        if self.whole:
            return round(self._at(u))
        return min(self.high, max(self.low, float(f"{self._at(u):.{DIGITS}g}")))

    @property
    def labels(self) -> tuple[str, ...]:
        """Its parts, as they are called in tables."""
        if self._is_list:
            return tuple(str(v) for v in range(int(self.low), int(self.high) + 1))
        edges = [f"{e:.0f}" if self.whole else f"{e:.3g}" for e in self._edges]
        return tuple(f"{a} to {b}" for a, b in pairwise(edges))

    def label(self, value: float) -> str:
        """The part that a number lies in."""
        if self._is_list:
            return f"{value:.0f}"
        return self.labels[min(PARTS - 1, int(np.searchsorted(self._edges[1:-1], value, side="right")))]

    def centre(self, values: Floats) -> Floats:
        """From −1 to 1 on the range's scale; 0 where there is no number."""
        a, b, on = self.low, self.high, values
        if self.logarithmic:
            a, b, on = log(a), log(b), np.log(values)
        return np.asarray(np.nan_to_num(2 * (on - a) / (b - a) - 1, nan=0.0))

    def union(self, other: Range) -> Range:
        """One range that holds both, for methods that were given different ones."""
        return Range(
            min(self.low, other.low),
            max(self.high, other.high),
            self.logarithmic and other.logarithmic,
            self.whole and other.whole,
        )

    def __str__(self) -> str:
        kind = "whole numbers, " if self.whole else ""
        return f"{self.low:g} to {self.high:g} ({kind}{'logarithmic' if self.logarithmic else 'linear'})"

    @property
    def _is_list(self) -> bool:
        return self.whole and self.high - self.low < FEW

    @property
    def _edges(self) -> list[float]:
        edges = [self._at(k / PARTS) for k in range(PARTS + 1)]
        return [float(round(e)) for e in edges] if self.whole else edges

    def _at(self, u: float) -> float:
        """The number at a share u of the range, on its scale."""
        if self.logarithmic:
            return exp(log(self.low) + u * (log(self.high) - log(self.low)))
        return self.low + u * (self.high - self.low)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The value of a ranged parameter in each run; nan where a method does not have it."""

    range: Range
    values: Floats

    def where(self, kept: Bools) -> Numbers:
        """Those of some runs."""
        return Numbers(self.range, self.values[kept])

    @property
    def slope(self) -> Floats:
        """One column: where on the range."""
        return self.range.centre(self.values)[:, None]

    @property
    def curve(self) -> Floats:
        """Two columns: slope and bend."""
        z = self.slope
        return np.concatenate([z, z**2], axis=1)


def hypercube(settings: int, seeds: list[int]) -> Floats:
    """A Latin hypercube: one column for each seed, in which every n-th part of [0, 1) occurs once.

    >>> np.sort(np.floor(hypercube(4, [1, 2]) * 4), axis=0).T.tolist()
    [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]
    """
    columns = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        columns.append((rng.permutation(settings) + rng.random(settings)) / settings)
    return np.stack(columns, axis=1) if columns else np.zeros((settings, 0))
