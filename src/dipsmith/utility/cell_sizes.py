"""The full cross-tabulation: how many combinations occur once, twice, …, and which exist in one table only.

A combination that occurs in the synthetic table and not in the authentic one is an invention; a combination
that occurs only in the authentic table is lost. Under differential privacy both must happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dipsmith.schema import Codes
from dipsmith.utility.pair import Pair, group_of

SIZES = ("1", "2", "3", "4", "5", "more than 5")


@dataclass(frozen=True)
class CellSizes:
    """Occupied cells by size, and the combinations that only one table has.

    Attributes
    ----------
    cells
        Cells of the full table, occupied or not.
    authentic, synthetic
        For each size of `SIZES` the number of occupied cells and the number of rows in them.
    invented, invented_rows
        Share of the synthetic combinations, and of the synthetic rows, that the authentic table does not have.
    lost, lost_rows
        Share of the authentic combinations, and rows, that the synthetic table does not have.
    correlation
        Correlation of the two tables' counts over all cells, empty ones included.
    """

    cells: int
    authentic: tuple[tuple[int, int], ...]
    synthetic: tuple[tuple[int, int], ...]
    invented: float
    invented_rows: float
    lost: float
    lost_rows: float
    correlation: float


def cell_sizes(pair: Pair) -> CellSizes:
    """Tabulate the full cross-table of all compared columns."""
    both = Codes.concatenate([pair.authentic, pair.synthetic])
    number, first = group_of(both, pair.names)
    sides = [
        np.bincount(part, minlength=len(first))
        for part in (number[: len(pair.authentic)], number[len(pair.authentic) :])
    ]
    a, s = sides
    return CellSizes(
        pair.schema.size(pair.names),
        _by_size(a),
        _by_size(s),
        _share(((s > 0) & (a == 0)).sum(), (s > 0).sum()),
        _share(s[a == 0].sum(), s.sum()),
        _share(((a > 0) & (s == 0)).sum(), (a > 0).sum()),
        _share(a[s == 0].sum(), a.sum()),
        _correlation(a, s, pair.schema.size(pair.names)),
    )


def _by_size(counts: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    rows = []
    for size in range(1, 6):
        cells = int((counts == size).sum())
        rows.append((cells, size * cells))
    return (*rows, (int((counts > 5).sum()), int(counts[counts > 5].sum())))


def _correlation(a: NDArray[np.int64], s: NDArray[np.int64], cells: int) -> float:
    means = float(a.sum()) / cells, float(s.sum()) / cells
    covariance = float(a @ s) / cells - means[0] * means[1]
    variances = [float(x @ x) / cells - m**2 for x, m in zip((a, s), means, strict=True)]
    return covariance / sqrt(variances[0] * variances[1]) if min(variances) > 0 else float("nan")


def _share(part: np.integer, whole: np.integer) -> float:
    return float(part) / float(whole) if whole else 0.0
