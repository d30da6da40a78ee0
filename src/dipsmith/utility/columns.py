"""Histograms of every column, authentic and synthetic over each other: the first picture of a comparison.

Beside each column stands how far it is off (total variation distance, the share of rows that would have to move) and
what chance alone gives. Columns are sorted by what lies beyond chance, the worst first; public ones come last. A pair
of columns that was asked for is shown as the histogram of one within each level of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Table
from dipsmith.report.histograms import ENDS, Overlay, overlays
from dipsmith.schema import Schema
from dipsmith.utility.crosstabs import Crosstab, Crosstabs, exchanged_gaps, expected_gaps
from dipsmith.utility.findings import Findings, Rows, decimal, figure, series
from dipsmith.utility.metric import Chapter, SideBySide
from dipsmith.utility.panels import Points

MOST_DRAWN = 36
"""Columns with a panel of their own; all are in the numbers."""
MOST_GROUPS = 12
"""Levels within which the other column of a pair is drawn: the largest."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """The shares of one column's levels in both tables, their distance and its floor."""

    name: str
    bars: Points
    tvd: float
    floor: float
    ordered: bool
    given: bool = False
    rows: int = 0

    @property
    def excess(self) -> float:
        """What lies beyond chance."""
        return self.tvd - self.floor


@dataclass(frozen=True, eq=False)
class PairHistograms:
    """The histogram of `column` within each level of `within`, and over all rows."""

    within: str
    column: str
    groups: tuple[Histogram, ...]
    tvd: float
    floor: float


def histograms(tables: Crosstabs) -> tuple[Histogram, ...]:
    """Every column, the worst first and public ones last."""
    pair = tables.pair
    found = [_histogram(tables, tables[(name,)]) for name in pair.names]
    return tuple(sorted(found, key=lambda h: (h.given, -h.excess)))


def pair_histograms(tables: Crosstabs, columns: tuple[str, str]) -> PairHistograms | None:
    """One column within the levels of the other, the one with fewer levels; None for a table too large to draw."""
    schema = tables.pair.schema
    names = tuple(n for n in tables.pair.names if n in columns)
    table = tables[names]
    if table.shape is None:
        return None
    column = max(names, key=lambda n: (schema[n].size, n in tables.pair.changed))
    return histograms_within(table, schema, column)


def histograms_within(table: Crosstab, schema: Schema, column: str) -> PairHistograms:
    """The histogram of one column of a two-way table within the levels of the other."""
    names = table.names
    within = next(n for n in names if n != column)
    axis = names.index(column)
    authentic, synthetic = (table.by_group(side, axis) for side in (table.authentic, table.synthetic))
    spread = None if table.spread is None else table.by_group(table.spread, axis)
    groups = []
    for i, label in enumerate(schema[within].labels):
        n, m = int(authentic[i].sum()), int(synthetic[i].sum())
        if not n and not m:
            continue
        by_chance = (
            expected_gaps(authentic[i] + synthetic[i], n, m) if spread is None else exchanged_gaps(spread[i], max(n, 1))
        )
        shares = authentic[i] / max(1, n), synthetic[i] / max(1, m)
        bars = Points(schema[column].labels, *shares)
        distance = 0.5 * float(np.abs(np.subtract(*shares)).sum())
        ordered = bool(schema[column].domain.ordered)
        groups.append(
            Histogram(f"{within} {label}: {n:,} rows", bars, distance, 0.5 * float(by_chance.sum()), ordered, rows=n)
        )
    largest = sorted(groups, key=lambda h: -h.rows)
    order = sorted(largest[:MOST_GROUPS], key=lambda h: -h.excess) + largest[MOST_GROUPS:]
    return PairHistograms(within, column, tuple(order), table.tvd, table.floor)


def _histogram(tables: Crosstabs, table: Crosstab) -> Histogram:
    (name,) = table.names
    attribute, given = tables.pair.schema[name], name in tables.pair.given
    bars = Points(attribute.labels, *table.proportions())
    rows = int(table.authentic.sum())
    return Histogram(name, bars, table.tvd, table.floor, bool(attribute.domain.ordered), given, rows)


def _find(both: SideBySide) -> dict[str, Any]:
    tables = both.tables[0]
    pairs = [pair_histograms(tables, columns) for columns in both.shown_pairs]
    return {"columns": histograms(tables), "pairs": tuple(p for p in pairs if p is not None)}


def _blocks(found: Sequence[Findings]) -> list[Block]:
    blocks: list[Block] = [_figure(found, [f["columns"] for f in found])]
    for number, each in enumerate(zip(*(f["pairs"] for f in found), strict=True), start=1):
        blocks.append(_pair_figure(found, number, each))
    return blocks


def _figure(found: Sequence[Findings], each: Sequence[Sequence[Histogram]]) -> Figure:
    first = each[0]
    made = [h for h in first if not h.given]
    off = [h for h in made if h.tvd > 1.5 * h.floor]
    title = f"Are the distributions of the {len(made)} synthesised columns kept?"
    if len(found) == 1 and made:
        worst = made[0]
        title = f"{len(made) - len(off)} of {len(made)} synthesised columns are as close as chance allows or nearly so"
        if off:
            title += f"; {worst.name} is farthest off"
    rest = len(first) - MOST_DRAWN
    left_out = f" {rest} more columns are in the numbers only." if rest > 0 else ""
    caption = (
        "Share of the rows by level, sorted by the distance beyond chance, the worst first. TVD: total variation distance, the "
        f"share of rows that would have to move; chance: what it is when rows are exchanged at random. {_SCALES}{left_out}"
    )
    told = "; ".join(f"{h.name} {h.tvd:.3f} (chance {h.floor:.3f})" for h in made[:5])
    return _draw_panels(found, title, each, MOST_DRAWN, caption, f"Distances, the worst first: {told}.", "columns")


def _pair_figure(found: Sequence[Findings], number: int, each: Sequence[PairHistograms]) -> Figure:
    first = each[0]
    title = f"{first.column} within the levels of {first.within}: TVD of the pair " + ", ".join(
        f"{series(found, f, '')} {decimal(p.tvd, 3)}".strip() for f, p in zip(found, each, strict=True)
    )
    title += f" (chance {decimal(first.floor, 3)})"
    rest = len(first.groups) - MOST_GROUPS
    left_out = f" {rest} smaller groups are in the numbers only." if rest > 0 else ""
    caption = f"Shares of {first.column} within each group, of the largest groups the worst first. {_SCALES}{left_out}"
    told = "; ".join(f"{h.name} {h.tvd:.3f} (chance {h.floor:.3f})" for h in first.groups[:5])
    file = f"pair-{number}-{_plain(first.within)}-{_plain(first.column)}"
    return _draw_panels(
        found, title, [p.groups for p in each], MOST_GROUPS, caption, f"Distances by group: {told}.", file
    )


_SCALES = f"Scales end at {', '.join(f'{100 * end:g}' for end in ENDS[:-1])} or 100 %."


def _draw_panels(
    found: Sequence[Findings],
    title: str,
    each: Sequence[Sequence[Histogram]],
    most: int,
    caption: str,
    alternative: str,
    file: str,
) -> Figure:
    """Panels in the order of the first release, with the histograms of all."""
    by_name = [{h.name: h for h in mine} for mine in each]
    together = [(h, [mine[h.name] for mine in by_name if h.name in mine]) for h in each[0]]
    drawn = [
        Overlay(
            h.name,
            _note(h, all_),
            h.bars.labels,
            h.bars.authentic,
            [o.bars.synthetic for o in all_],
            h.ordered,
            h.given,
        )
        for h, all_ in together[:most]
    ]
    svg = overlays(drawn, [series(found, f) for f in found]) if figures.available() and drawn else ""
    rows: Rows = []
    for h, others in together:
        for i, label in enumerate(h.bars.labels):
            shares = (float(o.bars.synthetic[i]) for o in others)
            rows.append((h.name, label, float(h.bars.authentic[i]), *shares, *(o.tvd for o in others), h.floor))
    heads = ("column", "level", "authentic", *(f.name for f in found), *(f"TVD {f.name}" for f in found), "chance")
    complete = [row for row in rows if len(row) == len(heads)]
    return figure(found, title, svg, caption, f"{title}. {alternative}", Table.of("Shares", heads, complete), file)


def _note(first: Histogram, others: Sequence[Histogram]) -> str:
    if first.given:
        return "public"
    distances = ", ".join(_short(o.tvd) for o in others)
    return f"TVD {distances}; chance {_short(first.floor)}"


def _short(share: float) -> str:
    """A share between 0 and 1 without its leading 0.

    >>> _short(0.0123), _short(1.0)
    ('.012', '1.000')
    """
    return f"{share:.3f}".removeprefix("0")


def _plain(name: str) -> str:
    """A column's name as part of a file's name."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


COLUMNS = Chapter("Every column, authentic and synthetic", _find, _blocks, place=0)
