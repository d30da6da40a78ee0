"""Who is served worst? The error within subgroups, by their size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipsmith.report import figures
from dipsmith.report.content import Block, Figure
from dipsmith.utility.captions import Rows, parameters, series, sizes, table
from dipsmith.utility.findings import Findings
from dipsmith.utility.metric import BY_CHANCE, Chapter, Metric
from dipsmith.utility.side_by_side import SideBySide
from dipsmith.utility.subgroups import SMALLEST, SizeClass, subgroups

COLUMNS = ("authentic rows", "groups", "lost", "mean TVD", "floor", "excess")


def _by_size(found: Findings) -> Rows:
    classes = found["subgroups"].classes
    return [(str(c), c.groups, c.lost, c.tvd, c.floor, c.tvd - c.floor) for c in classes]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    classes: tuple[SizeClass, ...] = found[0]["subgroups"].classes
    if not classes:
        return []
    svg = ""
    if figures.available():
        lines = [
            figures.Line(series(found, f), np.array([c.tvd for c in f["subgroups"].classes]))
            for f in found
            if len(f["subgroups"].classes) == len(classes)
        ]
        floor = np.array([c.floor for c in classes])
        svg = figures.by_size(
            [str(c) for c in classes],
            floor,
            lines,
            "authentic rows in the subgroup",
            "mean TVD within it (log scale)",
        )
    figure = Figure(
        title="How far off is the distribution within a subgroup, by its size?",
        svg=svg,
        caption=f"Mean total variation distance of all other columns within subgroups by one and two columns. {sizes(found)}",
        alternative=f"Mean distance by size of subgroup. In the smallest class, {classes[0]}, it is {classes[0].tvd:.2g} against "
        f"{classes[0].floor:.2g} by chance; in the largest {classes[-1].tvd:.2g}.",
        numbers=table("Error by size of subgroup", COLUMNS, found, _by_size),
        parameters=parameters(found),
        file="numbers/subgroups",
    )
    worst = table(
        "The subgroups served worst, beyond what chance explains",
        ("subgroup", "authentic rows", "synthetic rows", "TVD", "floor", "excess"),
        found,
        lambda f: [
            (str(g), g.authentic, g.synthetic, g.tvd, g.floor, g.excess) for g in f["subgroups"].worst
        ],
        f"Groups of fewer than {SMALLEST} authentic rows are counted above but not named.",
    )
    lost = "Lost: the synthetic table has no such row."
    by_class = table("Error by size of subgroup", COLUMNS, found, _by_size, lost)
    return [figure, by_class, worst] if svg else [figure, worst]


SUBGROUPS = Chapter(
    "Who is served worst", lambda both: {"subgroups": subgroups(both.tables[0])}, _blocks, place=5
)


def _mean(both: SideBySide) -> tuple[float, float]:
    classes = subgroups(both.tables[0]).classes
    if not classes:
        return float("nan"), float("nan")
    groups = [c.groups for c in classes]
    return (
        float(np.average([c.tvd for c in classes], weights=groups)),
        float(np.average([c.floor for c in classes], weights=groups)),
    )


SUBGROUP_TVD = Metric(
    "subgroup-tvd",
    "mean total variation distance within subgroups",
    "lower",
    _mean,
    BY_CHANCE,
    SUBGROUPS,
)
