"""How far off are the cross-tables? Distances of all 1-, 2- and 3-way tables, and range queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dipsmith.report.content import Block, Cell
from dipsmith.utility.captions import Rows, table
from dipsmith.utility.findings import Findings
from dipsmith.utility.marginal_error import marginal_error
from dipsmith.utility.metric import BY_CHANCE, ZERO_IS_PERFECT, Chapter, Metric
from dipsmith.utility.range_error import range_error
from dipsmith.utility.side_by_side import SideBySide

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


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    means = zip(found["marginals"], found["set_tvd"], strict=True)
    return [(f"mean TVD, {error.ways}-way tables", tvd, error.floor) for error, tvd in means]


def _means(found: Findings) -> Rows:
    rows: Rows = []
    for e, tvd in zip(found["marginals"], found["set_tvd"], strict=True):
        largest = e.worst.tvd if e.worst else None
        rows.append((e.ways, len(e.tables), tvd, e.floor, largest, 1000 * (1 - tvd)))
    return rows


def _farthest(found: Findings) -> Rows:
    every = [t for e in found["marginals"] for t in e.tables]
    worst = sorted(every, key=lambda t: t.floor - t.tvd)[:WORST]
    return [(" × ".join(t.names), t.tvd, t.floor, t.tvd - t.floor) for t in worst]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    note = "Half the sum of absolute differences of shares: the share of rows that would have to move. Floor: chance alone."
    if found[0].given:
        note += " Tables of public columns alone are left out: they are the same."
    for e in found[0]["marginals"]:
        if len(e.tables) < e.possible:
            note += f" Of {e.possible:,} tables of {e.ways} columns {len(e.tables):,} were chosen at random."
    columns = ("k", "tables", "mean TVD", "floor", "largest", "k-marginal score")
    blocks: list[Block] = [
        table("Total variation distance of all tables of k columns", columns, found, _means, note),
        table(
            "The tables farthest off, beyond what chance explains",
            ("table", "TVD", "floor", "excess"),
            found,
            _farthest,
        ),
    ]
    if any(f["ranges"] for f in found):
        blocks.append(
            table(
                "Range queries: error of the share of rows between two bounds",
                ("columns", "queries", "mean", "floor", "largest", "mean relative"),
                found,
                lambda f: [
                    (" × ".join(r.names), r.queries, r.mean, r.floor, r.largest, r.relative)
                    for r in f["ranges"][:WORST]
                ],
                "All ranges of a column, a thousand random rectangles of a pair. Floor: the mean by chance alone. Relative to the authentic share, at least .001.",
            )
        )
    return blocks


MARGINALS = Chapter("Marginals", _find, _blocks, _lines, place=2)


def _tvd(ways: int) -> Metric:
    def measure(both: SideBySide) -> tuple[float, float]:
        errors = [marginal_error(t, ways) for t in both.tables]
        return float(np.mean([e.mean for e in errors])), errors[0].floor

    title = f"mean total variation distance of {ways}-way tables"
    return Metric(f"tvd-{ways}", title, "lower", measure, BY_CHANCE, MARGINALS)


def _ranges(both: SideBySide) -> tuple[float, float]:
    errors = [e.mean for t in both.tables for e in range_error(t)]
    return (float(np.mean(errors)) if errors else float("nan")), 0.0


TVD_1, TVD_2, TVD_3 = (_tvd(ways) for ways in WAYS)
RANGE_ERROR = Metric(
    "range-error", "mean error of range queries", "lower", _ranges, ZERO_IS_PERFECT, MARGINALS
)
