"""How far the cross-tables of the synthetic rows are from those of the authentic ones.

The total variation distance (TVD) of two tables of shares is half the sum of their absolute differences: the
share of rows that would have to move. Its mean over all k-way tables is the k-marginal score of the NIST
challenges, which counts 1000·(1 − TVD) points. Two perfect samples also differ, so each mean stands beside the
TVD that chance alone gives (the *floor*): the expectation when it is drawn anew which rows are called synthetic
(`dipsmith.utility.crosstabs`).

Range queries ask how many rows lie between a and b: all ranges of every ordered column (bins, and lists declared
ordered), a thousand random rectangles of every pair of such columns. Answers are compared as shares of the rows. The
relative error divides by the authentic share, but by no less than one thousandth, as is usual for range workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.report.content import Block, Cell
from dipsmith.utility.columns import COLUMNS
from dipsmith.utility.crosstabs import Crosstab, Crosstabs, expected_gaps
from dipsmith.utility.findings import Findings, Rows, mean, table
from dipsmith.utility.metric import BY_CHANCE, ZERO_IS_PERFECT, Chapter, Metric, SideBySide


@dataclass(frozen=True)
class TableError:
    """One table's distance and floor."""

    names: tuple[str, ...]
    tvd: float
    floor: float


@dataclass(frozen=True)
class TableErrors:
    """The distances of all k-way tables.

    `possible` is how many there are; `tables` may be a random choice of them. Tables of given columns are not
    among them.
    """

    ways: int
    tables: tuple[TableError, ...]
    possible: int

    @property
    def mean(self) -> float:
        """Mean TVD."""
        return mean([t.tvd for t in self.tables])

    @property
    def floor(self) -> float:
        """Mean TVD by chance alone."""
        return mean([t.floor for t in self.tables])

    @property
    def worst(self) -> TableError | None:
        """The table with the largest distance."""
        return max(self.tables, key=lambda t: t.tvd, default=None)


def marginal_error(crosstabs: Crosstabs, ways: int) -> TableErrors:
    """The TVD of every k-way table."""
    return TableErrors(ways, tuple(map(table_error, crosstabs.all(ways))), crosstabs.possible_ways(ways))


def table_error(table: Crosstab) -> TableError:
    """The TVD of one table, and its floor."""
    held = table.occupied[1]
    return TableError(table.names, held.tvd, held.floor)


def pair_errors(found: Findings) -> dict[tuple[str, ...], TableError]:
    """The distances of all pairs that a comparison has measured."""
    return {table.names: table for errors in found["marginals"] if errors.ways == 2 for table in errors.tables}


RECTANGLES = 1000
SMALLEST_SHARE = 0.001
MOST_PAIRS = 100

Integers = NDArray[np.integer]


@dataclass(frozen=True)
class RangeError:
    """Errors of the range queries of one column or pair: mean and largest absolute, mean relative.

    `floor` is the mean by chance alone; nan where columns are given, because then rows may only be exchanged within strata.
    """

    names: tuple[str, ...]
    queries: int
    mean: float
    floor: float
    largest: float
    relative: float


def range_error(crosstabs: Crosstabs, seed: int = 0) -> list[RangeError]:
    """Compare the answers to range queries, worst first."""
    pair = crosstabs.pair
    ordered = [n for n in pair.names if pair.schema[n].domain.ordered]
    wanted: list[tuple[str, ...]] = [(n,) for n in ordered if n in pair.changed]
    wanted += [p for p in combinations(ordered, 2) if set(p) & set(pair.changed)][:MOST_PAIRS]
    rng = np.random.default_rng(seed)
    tables = [crosstabs[names] for names in wanted]
    return sorted((_ask_ranges(t, rng) for t in tables if t.shape is not None), key=lambda e: -e.mean)


def _ask_ranges(table: Crosstab, rng: np.random.Generator) -> RangeError:
    sizes = table.sides[0].shape
    bounds: list[tuple[Integers, Integers]]
    bounds = [np.triu_indices(sizes[0] + 1, 1)] if len(sizes) == 1 else [_interval(k, rng) for k in sizes]
    authentic, synthetic = (answers(side, bounds) for side in table.sides)
    n, m = int(table.authentic.sum()), int(table.synthetic.sum())
    share = authentic / max(1, n)
    error = np.abs(share - synthetic / max(1, m))
    relative = float((error / np.maximum(share, SMALLEST_SHARE)).mean())
    # By chance: a range is a cell with as many rows as lie in it.
    floor = float(expected_gaps(authentic + synthetic, n, m).mean()) if table.spread is None else float("nan")
    return RangeError(table.names, len(error), float(error.mean()), floor, float(error.max()), relative)


def answers(cells: NDArray[Any], bounds: Sequence[tuple[Integers, Integers]]) -> NDArray[Any]:
    """The sum of the cells with low ≤ code < high in every dimension, by summed-area tables.

    >>> answers(np.array([.1, .2, .7]), [(np.array([0, 1]), np.array([2, 3]))]).round(3).tolist()
    [0.3, 0.9]
    """
    summed = np.pad(cells, [(1, 0)] * cells.ndim)
    for axis in range(cells.ndim):
        summed = summed.cumsum(axis=axis)
    (low, high), *rest = bounds
    if not rest:
        return np.asarray(summed[high] - summed[low])
    ((left, right),) = rest
    return np.asarray(summed[high, right] - summed[low, right] - summed[high, left] + summed[low, left])


def _interval(size: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    ends = np.sort(rng.integers(0, size + 1, (RECTANGLES, 2)), axis=1)
    low, high = ends[:, 0], ends[:, 1]
    low = np.where(low == high, np.maximum(low - 1, 0), low)
    return low, np.where(low == high, high + 1, high)


WAYS = (1, 2, 3)
WORST = 10
"""Lines of a list that is sorted worst first."""


def _find(both: SideBySide) -> dict[str, Any]:
    ways = [k for k in WAYS if k <= len(both.pairs[0].names)]
    errors = [[marginal_error(t, k) for t in both.tables] for k in ways]
    return {
        "marginals": tuple(sets[0] for sets in errors),
        "set_tvd": tuple(float(np.mean([e.mean for e in sets])) for sets in errors),
        "ranges": tuple(range_error(both.tables[0], both.seed)),
    }


def _blocks(found: Sequence[Findings]) -> list[Block]:
    note = "Half the sum of absolute differences of shares: the share of rows that would have to move. Floor: chance alone."
    if found[0].given:
        note += " Tables of public columns alone are left out: they are the same."
    for e in found[0]["marginals"]:
        if len(e.tables) < e.possible:
            note += f" Of {e.possible:,} tables of {e.ways} columns {len(e.tables):,} were chosen at random."
    columns = ("k", "tables", "mean TVD", "floor", "largest", "k-marginal score")

    def means(f: Findings) -> Rows:
        return [
            (e.ways, len(e.tables), tvd, e.floor, e.worst.tvd if e.worst else None, 1000 * (1 - tvd))
            for e, tvd in zip(f["marginals"], f["set_tvd"], strict=True)
        ]

    def farthest(f: Findings) -> Sequence[tuple[Cell, ...]]:
        every = [(" × ".join(t.names), t.tvd, t.floor, t.tvd - t.floor) for e in f["marginals"] for t in e.tables]
        return sorted(every, key=lambda row: -row[3])[:WORST]

    title, heads = "The tables farthest off, beyond what chance explains", ("table", "TVD", "floor", "excess")
    blocks: list[Block] = [
        table("Total variation distance of all tables of k columns", columns, found, means, note),
        table(title, heads, found, farthest),
    ]
    if any(f["ranges"] for f in found):
        shown = attrgetter("queries", "mean", "floor", "largest", "relative")
        ranges = table(
            "Range queries: error of the share of rows between two bounds",
            ("columns", "queries", "mean", "floor", "largest", "mean relative"),
            found,
            lambda f: [(" × ".join(r.names), *shown(r)) for r in f["ranges"][:WORST]],
            "All ranges of a column, a thousand random rectangles of a pair. Floor: the mean by chance alone. Relative to the authentic share, at least .001.",
        )
        blocks.append(ranges)
    return blocks


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    means = zip(found["marginals"], found["set_tvd"], strict=True)
    return [(f"mean TVD, {error.ways}-way tables", tvd, error.floor) for error, tvd in means]


MARGINALS = Chapter("Marginals", _find, _blocks, _lines, place=2)


def _tvd(ways: int) -> Metric:
    def measure(both: SideBySide) -> tuple[float, float]:
        errors = [marginal_error(t, ways) for t in both.tables]
        return float(np.mean([e.mean for e in errors])), errors[0].floor

    title = f"mean total variation distance of {ways}-way tables"
    return Metric(f"tvd-{ways}", title, "lower", measure, BY_CHANCE, COLUMNS if ways == 1 else MARGINALS)


TVD_1, TVD_2, TVD_3 = (_tvd(ways) for ways in WAYS)
RANGE_ERROR = Metric(
    "range-error",
    "mean error of range queries",
    "lower",
    lambda both: (mean([e.mean for t in both.tables for e in range_error(t)]), 0.0),
    ZERO_IS_PERFECT,
    MARGINALS,
)
