"""Who is served worst: the error within every subgroup, by its size.

A subgroup is a level of a column, or a combination of levels of two. Within it the distribution of every other
column is compared: the TVD of the subgroup's table, averaged over those columns, beside the TVD that chance alone
gives a group of its size (`dipsmith.utility.crosstabs`). Small groups differ more by chance alone; what exceeds
that floor is what the release did to them. A group that the synthetic table does not have at all is lost (TVD 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.report import figures
from dipsmith.report.content import Block
from dipsmith.utility.crosstabs import Crosstab, Crosstabs, exchanged_gaps, expected_gaps
from dipsmith.utility.findings import Findings, Rows, figure, series, table
from dipsmith.utility.metric import BY_CHANCE, Chapter, Metric, SideBySide

SMALLEST = 10
"""Groups with fewer authentic rows than this are counted but not named: they are anecdotes, and people."""
CLASSES = ((1, 9), (10, 29), (30, 99), (100, 299), (300, 999), (1_000, 9_999), (10_000, None))


@dataclass(frozen=True)
class Subgroup:
    """One subgroup: its levels, its rows in both tables, its mean TVD and the floor of that."""

    levels: tuple[tuple[str, str], ...]
    authentic: int
    synthetic: int
    tvd: float
    floor: float

    @property
    def excess(self) -> float:
        """What the release added to the error of chance."""
        return self.tvd - self.floor

    def __str__(self) -> str:
        return ", ".join(f"{name} = {label}" for name, label in self.levels)


@dataclass(frozen=True)
class SizeClass:
    """All subgroups of some sizes: how many, how many were lost, their mean TVD and floor."""

    smallest: int
    largest: int | None
    groups: int
    lost: int
    tvd: float
    floor: float

    def __str__(self) -> str:
        return f"{self.smallest:,} or more" if self.largest is None else f"{self.smallest:,} to {self.largest:,}"


@dataclass(frozen=True)
class Subgroups:
    """The error by size of subgroup, and the subgroups served worst."""

    classes: tuple[SizeClass, ...]
    worst: tuple[Subgroup, ...]


def subgroups(crosstabs: Crosstabs, worst: int = 12) -> Subgroups:
    """Compare the distributions within all subgroups by one and two columns."""
    sums: dict[tuple[str, ...], Floats] = {}
    groups_by: dict[tuple[str, ...], Ints] = {}
    for ways in (2, 3):
        for crosstab in crosstabs.dense(ways):
            for by, cells, part in _within(crosstab, crosstabs.pair.changed):
                sums[by] = sums[by] + part if by in sums else part
                groups_by[by] = cells
    if not sums:
        return Subgroups((), ())
    sizes, synthetic, tvd, floor = np.concatenate([part[:4] / part[4] for part in sums.values()], axis=1)
    classes = []
    for low, high in CLASSES:
        at = (sizes >= low) & (sizes <= (sizes.max() if high is None else high))
        if at.any():
            counts = int(at.sum()), int((synthetic[at] == 0).sum())
            classes.append(SizeClass(low, high, *counts, float(tvd[at].mean()), float(floor[at].mean())))
    groups = [(by, cell) for by in sums for cell in groups_by[by]]
    named = np.flatnonzero(sizes >= SMALLEST)
    found = []
    for i in named[np.argsort(-(tvd - floor)[named], kind="stable")][:worst]:
        by, cell = groups[i]
        columns = [crosstabs.pair.schema[n] for n in by]
        codes = np.unravel_index(cell, [c.size for c in columns])
        levels = tuple((c.name, c.labels[int(code)]) for c, code in zip(columns, codes, strict=True))
        found.append(Subgroup(levels, int(sizes[i]), int(synthetic[i]), float(tvd[i]), float(floor[i])))
    return Subgroups(tuple(classes), tuple(found))


def _within(crosstab: Crosstab, changed: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Ints, Floats]]:
    """For each column that was synthesised (or is grouped by one that was) the groups by the others that have authentic rows.

    Of each group: authentic rows, synthetic rows, TVD, floor, and 1, so that sums over columns become means.
    """
    assert crosstab.shape is not None
    cells, held = crosstab.occupied
    codes = np.unravel_index(cells, crosstab.shape)
    for axis, name in enumerate(crosstab.names):
        by = tuple(n for n in crosstab.names if n != name)
        if name not in changed and not set(by) & set(changed):
            continue
        sizes = [size for i, size in enumerate(crosstab.shape) if i != axis]
        group = np.ravel_multi_index([c for i, c in enumerate(codes) if i != axis], sizes)
        total = partial(np.bincount, group, minlength=prod(sizes))
        n, m = total(held.authentic), total(held.synthetic)
        own, other = np.maximum(n, 1)[group], np.maximum(m, 1)[group]
        gap = 0.5 * total(np.abs(held.authentic / own - held.synthetic / other))
        if held.spread is not None:
            gaps = exchanged_gaps(held.spread, n[group])
        else:
            gaps = expected_gaps(held.authentic + held.synthetic, own, other)
        floor = np.minimum(0.5 * total(gaps), 1.0)
        at = np.flatnonzero(n)
        yield by, at, np.stack([n, m, np.where(m == 0, 1.0, gap), floor, np.ones(len(n))])[:, at]


COLUMNS = ("authentic rows", "groups", "lost", "mean TVD", "floor", "excess")


def _by_size(found: Findings) -> Rows:
    classes = found["subgroups"].classes
    return [(str(c), c.groups, c.lost, c.tvd, c.floor, c.tvd - c.floor) for c in classes]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    classes: tuple[SizeClass, ...] = found[0]["subgroups"].classes
    if not classes:
        return []
    alike = [f for f in found if len(f["subgroups"].classes) == len(classes)]
    lines = [figures.ChartLine(series(found, f), np.array([c.tvd for c in f["subgroups"].classes])) for f in alike]
    labels, floor = [str(c) for c in classes], np.array([c.floor for c in classes])
    axes = "authentic rows in the subgroup", "mean TVD within it (log scale)"
    svg = figures.by_size(labels, floor, lines, *axes) if figures.available() else ""
    smallest, largest = classes[0], classes[-1]
    drawn = figure(
        found,
        "How far off is the distribution within a subgroup, by its size?",
        svg,
        "Mean total variation distance of all other columns within subgroups by one and two columns.",
        f"Mean distance by size of subgroup. In the smallest class, {smallest}, it is {smallest.tvd:.2g} against "
        f"{smallest.floor:.2g} by chance; in the largest {largest.tvd:.2g}.",
        table("Error by size of subgroup", COLUMNS, found, _by_size),
        "subgroups",
    )
    worst = table(
        "The subgroups served worst, beyond what chance explains",
        ("subgroup", "authentic rows", "synthetic rows", "TVD", "floor", "excess"),
        found,
        lambda f: [(str(g), g.authentic, g.synthetic, g.tvd, g.floor, g.excess) for g in f["subgroups"].worst],
        f"Groups of fewer than {SMALLEST} authentic rows are counted above but not named.",
    )
    lost = "Lost: the synthetic table has no such row."
    by_class = table("Error by size of subgroup", COLUMNS, found, _by_size, lost)
    return [drawn, by_class, worst] if svg else [drawn, worst]


SUBGROUPS = Chapter("Who is served worst", lambda both: {"subgroups": subgroups(both.tables[0])}, _blocks, place=5)


def _mean(both: SideBySide) -> tuple[float, float]:
    classes = subgroups(both.tables[0]).classes
    if not classes:
        return float("nan"), float("nan")
    tvd, floor = np.average([(c.tvd, c.floor) for c in classes], axis=0, weights=[c.groups for c in classes])
    return float(tvd), float(floor)


SUBGROUP_TVD = Metric(
    "subgroup-tvd", "mean total variation distance within subgroups", "lower", _mean, BY_CHANCE, SUBGROUPS
)
