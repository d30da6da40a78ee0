"""Range queries: how many rows lie between a and b, asked of both tables.

For every ordered column (bins, and lists declared ordered) all its ranges are asked; for every pair of such
columns a thousand random rectangles. Answers are compared as shares of the rows. The relative error divides by
the authentic share, but by no less than one thousandth, as is usual for range workloads. The floor is the mean
error when rows are dealt anew to the two tables, exactly, range by range (`dipsmith.utility.chance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dipsmith.utility.chance import expected_gaps
from dipsmith.utility.crosstabs import Crosstab, Crosstabs

RECTANGLES = 1000
SANITY = 0.001
MOST_PAIRS = 100

Floats = NDArray[np.float64]


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
    found = [_asked(crosstabs[names], rng) for names in wanted if _is_dense(crosstabs, names)]
    return sorted(found, key=lambda e: -e.mean)


def _is_dense(crosstabs: Crosstabs, names: tuple[str, ...]) -> bool:
    return crosstabs[names].shape is not None


def _asked(table: Crosstab, rng: np.random.Generator) -> RangeError:
    assert table.shape is not None
    shares = [part.reshape(table.shape) for part in table.proportions()]
    if len(table.shape) == 1:
        low, high = np.triu_indices(table.shape[0] + 1, 1)
        bounds = [(low, high)]
    else:
        bounds = [_interval(size, rng) for size in table.shape]
    authentic, synthetic = (answers(part, bounds) for part in shares)
    error = np.abs(authentic - synthetic)
    relative = error / np.maximum(authentic, SANITY)
    return RangeError(
        table.names,
        len(error),
        float(error.mean()),
        _floor(table, bounds),
        float(error.max()),
        float(relative.mean()),
    )


def _floor(table: Crosstab, bounds: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]]) -> float:
    """The mean error by chance: a range is a cell with as many rows as lie in it."""
    if table.spread is not None:
        return float("nan")
    assert table.shape is not None
    pooled = (table.authentic + table.synthetic).reshape(table.shape).astype(np.float64)
    within = np.rint(answers(pooled, bounds)).astype(np.int64)
    return float(expected_gaps(within, int(table.authentic.sum()), int(table.synthetic.sum())).mean())


def answers(shares: Floats, bounds: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]]) -> Floats:
    """The share of rows with low ≤ code < high in every dimension, by summed-area tables.

    >>> answers(np.array([.1, .2, .7]), [(np.array([0, 1]), np.array([2, 3]))]).round(3).tolist()
    [0.3, 0.9]
    """
    summed = np.pad(shares, [(1, 0)] * shares.ndim)
    for axis in range(shares.ndim):
        summed = summed.cumsum(axis=axis)
    (low, high), *rest = bounds
    if not rest:
        return np.asarray(summed[high] - summed[low])
    ((left, right),) = rest
    return np.asarray(summed[high, right] - summed[low, right] - summed[high, left] + summed[low, left])


def _interval(size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = np.sort(rng.integers(0, size + 1, (RECTANGLES, 2)), axis=1)
    low, high = ends[:, 0], ends[:, 1]
    low = np.where(low == high, np.maximum(low - 1, 0), low)
    return low, np.where(low == high, high + 1, high)
