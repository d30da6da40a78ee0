"""Cross-tables of a pair: the counts from which most comparisons are made, each counted once.

All k-way tables of a pair are counted in a few passes over the codes; small ones are kept. Tables of given columns only
are left out: they are the same in both. An empty cell adds nothing to a distance and nothing to what chance gives, so that
of a large table only occupied cells are looked at.

By how much two tables of one population differ by chance: the expected gap of every cell.

Call rows authentic and synthetic at random, keep everything else: then a cell with k rows in both tables together gets a
hypergeometric number of authentic ones, whose mean absolute deviation has a closed form: 2j(m − k + j)/N · P(X = j) with
j = ⌊kn/N⌋ + 1 (Diaconis and Zabell, Statistical Science 6, 1991). Given k it is exact, so over all samples it is unbiased,
also for cells with a handful of rows, where the normal approximation is not.

Where columns are given (the same rows in both tables), rows may only be exchanged among those with the same given
columns. Of such a stratum a cell gets a hypergeometric number again; the variances of the strata add up, and a sum of so
many ±1 gives the expected difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.counting.tally import count, count_sparse
from dipsmith.schema import Codes, Marginal
from dipsmith.utility.pair import Pair, group_of

MOST_TABLES, MOST_PAIRS = 600, 2000
"""With more k-way tables, or pairs, than this a random choice of them is compared; the report says so. All pairs of 60 columns
are: what a verdict names as lost has to be what was lost."""
DENSE_CELLS = 1 << 21
"""Larger tables are held by their occupied cells."""
AT_ONCE = 1 << 23
"""Cells counted in one pass."""
KEPT_CELLS = 1 << 16
"""Larger tables are counted again by who asks again: hundreds of them would fill the memory."""
FACTORIALS = 1 << 22
"""Up to so many rows logarithms of factorials are looked up instead of computed for every cell."""


@dataclass(frozen=True, eq=False)
class Crosstab:
    """The counts of one cross-table in both data sets.

    `shape` is that of the table when every cell is held, None when `authentic` and `synthetic` list the
    cells that are occupied in either of the two. `spread` is the variance of the difference of the two counts when rows
    with the same given columns are exchanged; None where no column is given.
    """

    names: tuple[str, ...]
    authentic: Ints
    synthetic: Ints
    shape: tuple[int, ...] | None
    spread: Floats | None = None

    def chance_gaps(self) -> Floats:
        """The expected absolute difference of the two shares of every cell, by chance alone."""
        n, m = int(self.authentic.sum()), int(self.synthetic.sum())
        if self.spread is not None:
            return exchanged_gaps(self.spread, n)
        # it depends on the rows of a cell alone, and many cells have the same number
        pooled = self.authentic + self.synthetic
        sizes = np.flatnonzero(np.bincount(pooled))
        gaps = np.zeros(int(sizes.max(initial=0)) + 1)
        gaps[sizes] = expected_gaps(sizes, n, m)
        return np.asarray(gaps[pooled])

    @property
    def occupied(self) -> tuple[Ints, Crosstab]:
        """The cells with a row in either table, and the table of these alone."""
        cells = np.flatnonzero(self.authentic + self.synthetic)
        spread = None if self.spread is None else self.spread[cells]
        return cells, Crosstab(self.names, self.authentic[cells], self.synthetic[cells], None, spread)

    @property
    def tvd(self) -> float:
        """The total variation distance of the two tables: half the sum of absolute differences of shares."""
        return 0.5 * float(np.abs(np.subtract(*self.proportions())).sum())

    @property
    def floor(self) -> float:
        """The same by chance alone."""
        return 0.5 * float(self.chance_gaps().sum())

    @property
    def sides(self) -> list[Ints]:
        """Both tables in their shape."""
        assert self.shape is not None
        return [self.authentic.reshape(self.shape), self.synthetic.reshape(self.shape)]

    def by_group(self, cells: NDArray[Any], axis: int) -> NDArray[Any]:
        """Cells as a matrix: a row for each combination of the other columns, along it the levels of one column."""
        assert self.shape is not None
        return np.moveaxis(cells.reshape(self.shape), axis, -1).reshape(-1, self.shape[axis])

    def proportions(self) -> tuple[Floats, Floats]:
        """Both tables as shares of their rows."""
        return self.authentic / max(1, self.authentic.sum()), self.synthetic / max(1, self.synthetic.sum())


@dataclass(frozen=True, eq=False)
class Crosstabs:
    """The cross-tables of a pair, counted when first asked for."""

    pair: Pair
    seed: int = 0
    _counted: dict[tuple[str, ...], Crosstab] = field(default_factory=dict, repr=False)
    _exchange: dict[tuple[str, ...], Floats] = field(default_factory=dict, repr=False)

    def ways(self, k: int) -> list[tuple[str, ...]]:
        """The k-way tables to compare: those with a synthesised column, at most `MOST_TABLES` of them, or `MOST_PAIRS`."""
        most = MOST_PAIRS if k == 2 else MOST_TABLES
        names, rng = self.pair.names, np.random.default_rng(self.seed)
        index: Iterable[Sequence[int]] = combinations(range(len(names)), k)
        if comb(len(names), k) > 1 << 16:
            draws = (rng.choice(len(names), k, replace=False).tolist() for _ in range(4 * most))
            index = sorted({tuple(sorted(draw)) for draw in draws})
        tables = [tuple(names[i] for i in table) for table in index]
        found = [table for table in tables if set(self.pair.changed) & set(table)]
        if len(found) > most:
            chosen = np.random.default_rng(self.seed).choice(len(found), most, replace=False)
            found = [found[i] for i in np.sort(chosen)]
        return found

    def possible_ways(self, k: int) -> int:
        """How many k-way tables there are with a synthesised column."""
        return comb(len(self.pair.names), k) - comb(len(self.pair.given), k)

    def all(self, k: int) -> Iterator[Crosstab]:
        """The k-way tables."""
        wanted = self.ways(k)
        new = [Marginal.of(self.pair.schema, names) for names in wanted if names not in self._counted]
        dense = [m for m in new if m.size <= DENSE_CELLS]
        counted, fresh = self._count(dense), {m.attributes for m in dense}
        for names in wanted:
            yield next(counted) if names in fresh else self[names]

    def dense(self, k: int) -> Iterator[Crosstab]:
        """Those k-way tables of which every cell is held."""
        return (crosstab for crosstab in self.all(k) if crosstab.shape is not None)

    def __getitem__(self, names: tuple[str, ...]) -> Crosstab:
        if names not in self._counted:
            marginal = Marginal.of(self.pair.schema, names)
            return self._sparse(names) if marginal.size > DENSE_CELLS else next(self._count([marginal]))
        return self._counted[names]

    def _count(self, dense: Sequence[Marginal]) -> Iterator[Crosstab]:
        """Count tables a batch at a time, and keep the small ones."""
        while dense:
            at_once = 1 + int(np.searchsorted(np.cumsum([m.size for m in dense]), AT_ONCE))
            batch, dense = dense[:at_once], dense[at_once:]
            tables = [count(_chunks(side), batch) for side in (self.pair.authentic, self.pair.synthetic)]
            for marginal, authentic, synthetic in zip(batch, *tables, strict=True):
                names, spread = marginal.attributes, None
                if self.pair.given:
                    weights = self._weights(names)
                    cells = np.bincount(marginal.index(self._both), weights, minlength=marginal.size)
                    spread = cells.astype(np.float64)
                found = Crosstab(names, authentic, synthetic, marginal.shape, spread)
                if marginal.size <= KEPT_CELLS:
                    self._counted[names] = found
                yield found

    @cached_property
    def _both(self) -> Codes:
        return Codes.concatenate([self.pair.authentic, self.pair.synthetic])

    def _weights(self, names: tuple[str, ...]) -> Floats:
        """What each row adds to the variance of its cell's difference: 4·n_a·n_s(N − k)/(N²(N − 1)) of its stratum."""
        changed = tuple(n for n in names if n in self.pair.changed)
        if changed not in self._exchange:
            assert self.pair.strata is not None
            stratum = np.concatenate(self.pair.strata)
            rows = np.bincount(stratum).astype(np.float64)
            authentic = np.bincount(self.pair.strata[0], minlength=len(rows))
            alike = group_of(self._both, (*self.pair.given, *changed))[0]
            k = np.bincount(alike)[alike]
            whole, mine = rows[stratum], authentic[stratum]
            factor = 4 * mine * (whole - mine) / np.maximum(whole**2 * (whole - 1), 1.0)
            self._exchange[changed] = factor * (whole - k)
        return self._exchange[changed]

    def _sparse(self, names: tuple[str, ...]) -> Crosstab:
        marginal = Marginal.of(self.pair.schema, names)
        sides = [count_sparse([side], marginal) for side in (self.pair.authentic, self.pair.synthetic)]
        occupied = np.union1d(*(keys for keys, _ in sides))
        both = np.zeros((2, len(occupied)), dtype=np.int64)
        for row, (keys, counts) in zip(both, sides, strict=True):
            row[np.searchsorted(occupied, keys)] = counts
        return Crosstab(names, both[0], both[1], None)


def _chunks(codes: Codes, rows: int = 1 << 17) -> Iterator[Codes]:
    """Rows in pieces that fit the processor's cache."""
    for start in range(0, len(codes), rows):
        yield codes.take(slice(start, start + rows))


def expected_gaps(pooled: NDArray[np.integer], n: NDArray[np.integer] | int, m: NDArray[np.integer] | int) -> Floats:
    """E|share of n − share of m| of cells with `pooled` rows in both tables together.

    >>> expected_gaps(np.array([0, 1, 2]), 100, 100).round(5).tolist()
    [0.0, 0.01, 0.00995]
    >>> half_normal = np.sqrt(2 / np.pi * .01 * .99 * 2 / 10_000)  # two samples of 10,000, a share of .01
    >>> round(float(expected_gaps(np.array([200]), 10_000, 10_000)[0] / half_normal), 2)
    1.0
    """
    k = np.asarray(pooled, dtype=np.float64)
    a, s = np.maximum(np.asarray(n, dtype=np.float64), 1.0), np.maximum(np.asarray(m, dtype=np.float64), 1.0)
    whole = a + s
    j = np.floor(k * a / whole) + 1
    possible = (j <= np.minimum(k, a)) & (k - j <= s)
    at = np.where(possible, j, np.minimum(k, a))
    logs = _log_choose(a, at) + _log_choose(s, np.where(possible, k - j, 0.0)) - _log_choose(whole, k)
    deviation = np.where(possible, 2 * j * (s - k + j) / whole * np.exp(np.minimum(logs, 0.0)), 0.0)
    return np.asarray((1 / a + 1 / s) * deviation)


def _log_choose(n: Floats, k: Floats) -> Floats:
    """The logarithm of n over k, of whole numbers."""
    most = int(np.max(n, initial=0))
    if most >= FACTORIALS:
        return np.asarray(
            scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1)
        )
    logs = _log_factorials(1 << most.bit_length())
    n, k = n.astype(np.int64), k.astype(np.int64)
    return np.asarray(logs[n] - logs[k] - logs[n - k])


@cache  # one for each power of two below FACTORIALS
def _log_factorials(size: int) -> Floats:
    return np.asarray(scipy.special.gammaln(np.arange(1.0, size + 1.0)))


def exchanged_gaps(variance: Floats, n: NDArray[np.integer] | int) -> Floats:
    """E|share − share| of cells whose difference of counts has this variance, being a sum of so many ±1.

    >>> exchanged_gaps(np.array([0.0, 400.0]), 1000).round(4).tolist()  # normal: √(2/π · 400) / 1000
    [0.0, 0.016]
    """
    half = (np.maximum(variance, 1.0) + 0.5) / 2
    sums = 2 * np.exp(scipy.special.gammaln(half + 0.5) - scipy.special.gammaln(half)) / np.sqrt(np.pi)
    return np.asarray(np.minimum(variance, 1.0) * sums / np.maximum(np.asarray(n, dtype=np.float64), 1.0))
