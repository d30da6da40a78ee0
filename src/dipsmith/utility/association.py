"""Associations: Pearson's χ² test and Cramér's V of every pair of columns, in both tables.

Bowen, Liu and Su (2021, section 4) count how often the test of a pair is significant in both tables or in
neither. That *consistency* says little by itself: where most pairs are associated, calling everything significant
scores high, and the metric cannot see a strong association turned weak. So the scores of the two constant answers
stand beside it, with Cohen's κ (agreement beyond chance) and the rank correlation of Cramér's V, which no constant
answer can earn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dipsmith.utility.crosstabs import Crosstab, Crosstabs

LEVELS = (0.01, 0.05, 0.10)
CUTS = (0.01, 0.05, 0.10)
CLASSES = ("≤ .01", ".01 – .05", ".05 – .1", "> .1")


@dataclass(frozen=True)
class PairTest:
    """The test of one pair of columns: statistic, degrees of freedom and p-value in each table, and Cramér's V."""

    names: tuple[str, str]
    statistic: tuple[float, float]
    freedom: tuple[int, int]
    p: tuple[float, float]
    v: tuple[float, float]


@dataclass(frozen=True)
class Consistency:
    """Agreement of the tests at one level, beside what constant answers would score."""

    level: float
    agreement: float
    nothing: float
    everything: float
    kappa: float


@dataclass(frozen=True)
class Associations:
    """The tests of all pairs with a synthesised column."""

    pairs: tuple[PairTest, ...]

    def consistency(self) -> list[Consistency]:
        """Agreement at 1, 5 and 10 %."""
        return [consistency([a.p[0] for a in self.pairs], [a.p[1] for a in self.pairs], at) for at in LEVELS]

    @property
    def rank_correlation(self) -> float:
        """Spearman's correlation of Cramér's V over the pairs."""
        return spearman([a.v[0] for a in self.pairs], [a.v[1] for a in self.pairs])

    def p_table(self) -> NDArray[np.int64]:
        """Pairs by class of the authentic (rows) and the synthetic p-value (columns)."""
        return p_table([a.p[0] for a in self.pairs], [a.p[1] for a in self.pairs])


def associations(crosstabs: Crosstabs) -> Associations:
    """Test every pair of columns in both tables."""
    return Associations(tuple(_association(t) for t in crosstabs.all(2) if t.shape is not None))


def chi_squared(table: NDArray[np.integer]) -> tuple[float, int, float]:
    """Pearson's statistic of independence, its degrees of freedom and Cramér's V; empty rows and columns do not count.

    >>> statistic, freedom, v = chi_squared(np.array([[10, 20], [30, 10]]))
    >>> round(statistic, 4), freedom, round(v, 4)
    (12.1528, 1, 0.4167)
    """
    kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(np.float64)
    rows, columns = kept.shape if kept.size else (0, 0)
    n = float(kept.sum())
    if rows < 2 or columns < 2:
        return 0.0, 0, 0.0
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / n
    statistic = float(((kept - expected) ** 2 / expected).sum())
    return statistic, (rows - 1) * (columns - 1), sqrt(statistic / n / (min(rows, columns) - 1))


def consistency(authentic: Sequence[float], synthetic: Sequence[float], level: float) -> Consistency:
    """Agreement of two lists of p-values about significance at a level.

    >>> c = consistency([.001, .001, .5, .001], [.001, .2, .5, .001], .05)
    >>> c.agreement, c.nothing, c.everything, c.kappa
    (0.75, 0.25, 0.75, 0.5)
    >>> consistency([.5, .5, .5], [.08, .5, .5], .1).kappa == 0
    True
    """
    a, s = np.asarray(authentic) <= level, np.asarray(synthetic) <= level
    if not len(a):
        return Consistency(level, float("nan"), float("nan"), float("nan"), float("nan"))
    agreement, p, q = float((a == s).mean()), float(a.mean()), float(s.mean())
    by_chance = p * q + (1 - p) * (1 - q)
    # Rounded: agreement by chance alone is 0, not what is left of it in floating point.
    kappa = round((agreement - by_chance) / (1 - by_chance), 12) if by_chance < 1 else float("nan")
    return Consistency(level, agreement, 1 - p, p, kappa)


def p_table(authentic: Sequence[float], synthetic: Sequence[float]) -> NDArray[np.int64]:
    """Cross-table of the classes of two lists of p-values: ≤ .01, .01–.05, .05–.1, > .1."""
    found = np.zeros((4, 4), dtype=np.int64)
    np.add.at(found, (np.searchsorted(CUTS, authentic), np.searchsorted(CUTS, synthetic)), 1)
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Rank correlation, ties averaged; nan when either list is constant or shorter than three."""
    if len(first) < 3:
        return float("nan")
    a, b = _ranks(first), _ranks(second)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else float("nan")


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, place, ties = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(ties) - (ties - 1) / 2)[place])


def _association(table: Crosstab) -> PairTest:
    # not scipy.stats, which takes longer to import than all tests take
    from scipy.special import chdtrc

    assert table.shape is not None
    found = [chi_squared(part.reshape(table.shape)) for part in (table.authentic, table.synthetic)]
    p = tuple(float(chdtrc(freedom, statistic)) if freedom else 1.0 for statistic, freedom, _ in found)
    (s0, f0, v0), (s1, f1, v1) = found
    return PairTest((table.names[0], table.names[1]), (s0, s1), (f0, f1), (p[0], p[1]), (v0, v1))
