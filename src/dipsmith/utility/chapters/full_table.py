"""The full cross-tabulation: cells by size, inventions and losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipsmith.report.content import Block, Table
from dipsmith.utility.captions import Rows, table
from dipsmith.utility.cell_sizes import SIZES, cell_sizes
from dipsmith.utility.findings import Findings
from dipsmith.utility.metric import ZERO_IS_PERFECT, Chapter, Metric
from dipsmith.utility.side_by_side import SideBySide


def _only_one(found: Findings) -> Rows:
    c = found["cells"]
    return [(c.invented, c.invented_rows, c.lost, c.lost_rows, c.correlation)]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    first = found[0]["cells"]
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
            _only_one,
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


def _invented(both: SideBySide) -> tuple[float, float]:
    return float(np.mean([cell_sizes(pair).invented_rows for pair in both.pairs])), 0.0


INVENTED_ROWS = Metric(
    "invented-rows",
    "share of rows whose combination of values is invented",
    "lower",
    _invented,
    f"{ZERO_IS_PERFECT}, and out of reach under privacy",
    FULL_TABLE,
)
