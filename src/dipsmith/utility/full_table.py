"""The full cross-tabulation: how many combinations occur once, twice, …, and which exist in one table only.

A combination that occurs in the synthetic table and not in the authentic one is an invention; a combination
that occurs only in the authentic table is lost. Under differential privacy both must happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from dipsmith.report.content import Block, Table
from dipsmith.utility.findings import Findings, Rows, table
from dipsmith.utility.metric import ZERO_IS_PERFECT, Chapter, Metric
from dipsmith.utility.pair import Pair

SIZES = ("1", "2", "3", "4", "5", "more than 5")


@dataclass(frozen=True)
class CellSizes:
    """Occupied cells by size, and the combinations that only one table has.

    `cells` of the full table, occupied or not; for each of `SIZES` the number of occupied cells and of the rows in them;
    the shares of the synthetic combinations (and rows) that are `invented` and of the authentic ones that are `lost`;
    the `correlation` of the two tables' counts over all cells, empty ones included.
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
    *sides, groups = pair.number_groups(pair.names)
    a, s = (np.bincount(side, minlength=groups) for side in sides)
    cells = pair.schema.size(pair.names)
    return CellSizes(cells, _by_size(a), _by_size(s), *_only(s, a), *_only(a, s), _correlation(a, s, cells))


def _by_size(counts: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    size = np.minimum(counts, len(SIZES))
    sums = [np.bincount(size, v, len(SIZES) + 1)[1:].astype(int).tolist() for v in (None, counts)]
    return tuple(zip(*sums, strict=True))


def _correlation(a: NDArray[np.int64], s: NDArray[np.int64], cells: int) -> float:
    means = float(a.sum()) / cells, float(s.sum()) / cells
    covariance = float(a @ s) / cells - means[0] * means[1]
    variances = [float(x @ x) / cells - m**2 for x, m in zip((a, s), means, strict=True)]
    return covariance / sqrt(variances[0] * variances[1]) if min(variances) > 0 else float("nan")


def _only(table: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[float, float]:
    """The shares of a table's combinations, and of its rows, that the other table does not have."""
    alone = table[other == 0]
    return float((alone > 0).sum() / max(1, (table > 0).sum())), float(alone.sum() / max(1, table.sum()))


def _blocks(found: Sequence[Findings]) -> list[Block]:
    first = found[0]["cells"]
    only_one = ("invented", "invented_rows", "lost", "lost_rows", "correlation")
    columns = ["cell size", "authentic cells", "rows"]
    for f in found:
        columns += [f"{f.name}: cells" if len(found) > 1 else "synthetic cells", "rows"]
    sides = [first.authentic, *(f["cells"].synthetic for f in found)]
    rows: Rows = [(size, *(n for side in sides for n in side[i])) for i, size in enumerate(SIZES)]
    rows.append(("all", *(sum(column) for side in sides for column in zip(*side, strict=True))))
    return [
        Table.of(f"Occupied cells of the full table of {first.cells:,} cells", columns, rows),
        table(
            "Combinations that only one table has",
            ("invented", "rows in them", "lost", "rows in them", "correlation of cells"),
            found,
            lambda f: [attrgetter(*only_one)(f["cells"])],
            "Invented: in the synthetic table and not in the authentic one, as a share of the synthetic combinations (rows). "
            "Lost: the other way round.",
        ),
    ]


FULL_TABLE = Chapter(
    "The full cross-tabulation",
    lambda both: {"cells": cell_sizes(both.pairs[0])},
    _blocks,
    lambda found: [("invented combinations, share of rows", found["cells"].invented_rows, None)],
    place=6,
)

INVENTED_ROWS = Metric(
    "invented-rows",
    "share of rows whose combination of values is invented",
    "lower",
    lambda both: (float(np.mean([cell_sizes(pair).invented_rows for pair in both.pairs])), 0.0),
    f"{ZERO_IS_PERFECT}, and out of reach under privacy",
    FULL_TABLE,
)
