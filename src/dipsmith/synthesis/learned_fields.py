"""From noisy histograms to the fields of a draft: types, bounds, bins, levels, whether values are missing.

Everything here is a function of noisy counts and of how noisy they are: post-processing. A count is believed where the
noise alone would hardly reach it (once in a hundred whole surveys); so a stray date opens no year, and one person no level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dipsmith.codec import spelled_forms
from dipsmith.codec.forms import FIRST_YEAR, FORMS, SPIKES, Grid, Magnitudes, Years
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema.attribute import Type
from dipsmith.schema.domain import MISSING_LABEL, Scale
from dipsmith.schema.proposals import (
    FEW,
    SPIKE_SHARE,
    WIDE,
    CellCounts,
    Cut,
    cut_by_magnitude,
    cut_by_mass,
    cut_by_values,
    divide_full,
    drop_empty_bins,
    finer_edges,
    nice_step,
)
from dipsmith.schema.spelling import Spelling

OTHER = "other"
FALSE_ALARM = 0.01
"""How often a whole survey may take noise for rows."""
FINE_CELLS = 1000
"""Cells of the finer histogram: their number costs nothing, since a row is in one of them."""
REACHED = 0.4
"""A cell beside those that surely hold rows belongs to them from this share of the doubt on."""
BEYOND = 0.1
"""How far the finer histogram looks beyond the coarse bounds, as a share of the range."""
STRAY = 0.001
"""A few dates far from the others (1899, 9999) open no range: up to this share of rows, behind an empty year."""
HIDDEN = 0.05
"""Only where noise cannot hide more than this share of rows, a text column's other values join the most frequent one, and a
column of numbers is taken for one without blanks."""
DAY = 86_400_000_000

Ints = NDArray[np.int64]
Shape = Literal["magnitude", "grid", "year"]


@dataclass(frozen=True)
class FoundType:
    """What the forms of a column's values say: a type, whether values are missing, how fine numbers or moments are."""

    column: str
    type: Type
    missing: bool
    precision: str | None = None
    spelling: Spelling | None = None
    values: int = 0
    doubt: float = 0.0
    numbers: int = 0
    """How many of the values of a text column are numbers."""
    words: bool = False
    """Whether words stand among numbers with decimals, where there is none."""


@dataclass(frozen=True)
class DraftField:
    """A field of a draft and why it is so; `keys` is None where the steward has to say what the column may hold."""

    column: str
    keys: dict[str, object] | None
    reason: str


def count_beyond_noise(answer: Measurement, cells: int) -> float:
    """A count that noise alone reaches in one of a hundred surveys of so many cells."""
    if answer.mechanism == "discrete Laplace":
        return sqrt(answer.variance / 2) * log(cells / FALSE_ALARM)
    return sqrt(answer.variance * 2 * log(cells / FALSE_ALARM))


def find_type(column: str, counts: Ints, doubt: float, declared: str | None) -> FoundType | None:
    """The type of a column by noisy counts of forms; `declared` is the type that the file states. None where all is noise."""
    # of the many forms that have to be spelled those are taken for noise that are no more than that
    by = {f: int(n) if n > doubt * (f in spelled_forms.FORMS) else 0 for f, n in zip(FORMS, counts, strict=True)}
    words = by["missing word"]
    known = sum(n for form, n in by.items() if form not in ("blank", "missing word"))
    blank = by["blank"] > doubt

    def real(*forms: str) -> bool:
        return sum(by[f] for f in forms) > max(doubt * sqrt(len(forms)), FEW * known)

    def of(kind: Type, missing: bool, precision: str | None = None, spelling: Spelling | None = None) -> FoundType:
        return FoundType(column, kind, missing, precision, spelling, known + words, doubt)

    whole, decimals = ("integer",), ("1 decimal", "2 decimals", "more decimals", "1.234")
    times = ("minute", "second", "fraction")
    counted = sum(by[f] for f in (*whole, *decimals))
    amounts = declared != "string" and not real("code") and real(*decimals) and 2 * counted > known
    if declared == "string" or (real("code", "text") and not amounts):
        return replace(of("string", blank), numbers=0 if declared else counted) if known + words > doubt else None
    empty = blank or words > doubt
    if any(map(real, spelled_forms.FORMS)):
        spelling, read, fractions = spelled_forms.choose_spelling(by)
        if known - read > max(doubt, FEW * known):
            return of("string", blank)
        kind: Type = "date" if spelling.format else "number" if fractions > max(doubt, FEW * known) else "integer"
        return of(kind, empty, spelling=spelling)
    sums = {"moment": sum(by[f] for f in ("date", *times)), "number": counted}
    if max(*sums.values(), by["boolean"]) <= doubt:
        return None
    if by["boolean"] > max(sums.values()):
        return of("boolean", empty)
    if sums["moment"] > sums["number"]:
        finest = next((f for f in reversed(times) if real(f)), None)
        if declared == "date" or (finest is None and declared != "datetime"):
            return of("date", empty)
        step = {"fraction": "microsecond", None: "day"}.get(finest, finest)
        return of("datetime", empty, step)
    if not real(*decimals):
        return of("integer", empty)
    fine = {"1 decimal": "0.1", "2 decimals": "0.01", "more decimals": None, "1.234": "0.001"}
    finest = next((f for f in ("more decimals", "1.234", "2 decimals", "1 decimal") if real(f)), None)
    worded = real("text")
    number = of("number", empty or worded, None if finest is None else fine[finest])
    return replace(number, words=worded)


@dataclass(frozen=True, eq=False)
class ValueExtent:
    """Where the values of a column lie by a coarse histogram, and how a finer one would cut them (None: it is not needed)."""

    found: FoundType
    cells: CellCounts
    spikes: tuple[tuple[float, float], ...]
    grid: Grid | None
    wide: bool = False
    """Whether it is cut by magnitude."""
    values: tuple[float, ...] = ()
    """All values, where they are few."""


def coarse_cells(found: FoundType) -> Magnitudes | Years:
    """The cells by which nothing need be known of a column."""
    if found.type in ("date", "datetime"):
        return Years(found.column, _scale(found), found.spelling)
    return Magnitudes(found.column, found.type == "integer", found.spelling)


def find_extent(found: FoundType, counts: Ints, doubt: float) -> ValueExtent | None:
    """Bounds by the coarse histogram; None where no cell surely holds rows."""
    if found.type in ("date", "datetime"):
        return _extent_in_years(found, counts, doubt)
    table = Magnitudes(found.column, found.type == "integer")
    ranges = counts[: table.ranges].astype(np.float64)
    alone = counts[table.ranges :].astype(np.float64)
    spikes = tuple((value, float(n)) for value, n in zip(SPIKES, alone, strict=True) if n > doubt)
    filled = ranges.copy()
    for value, n in spikes:
        filled[int(np.searchsorted(table.edges, value, side="right")) - 1] += n
    ends = CellCounts(table.edges, filled, doubt).occupied_range()
    if ends is None:
        return None
    low, high = _add_neighbours(filled, *ends, doubt, floor=table.ranges // 2)
    cells = CellCounts(table.edges, ranges, doubt).cells_between(low, high)
    first, last = float(cells.edges[0]), float(cells.edges[-1])
    if spikes and spikes[-1][0] >= last - 1:
        last = spikes[-1][0] + 1
    largest, half = max(abs(first), abs(last)), table.ranges // 2
    least = 1.0 if found.type == "integer" else max(1e-6, min((abs(e) for e in cells.edges if e), default=1.0))
    wide = largest >= WIDE * least and (low >= half or largest >= 1e5)
    if wide:
        if doubt:
            cells = CellCounts(table.edges, ranges, doubt).cells_between(
                min(low, half), min(high + 1, table.ranges - 2)
            )
        apart = _distinct_spikes(spikes, filled, table.edges)
        finer = finer_edges(cells.edges.tolist(), whole=found.type == "integer")
        return ValueExtent(
            found, cells, apart, None if doubt else Grid(found.column, _scale(found), finer, found.spelling), wide=True
        )
    if doubt:
        reach = BEYOND * (last - min(first, 0.0))
        first, last = (min(first, 0.0) - reach * (first < 0)), last + reach
    step = nice_step(last - first, FINE_CELLS)
    if found.type == "integer":
        step = max(step, 1.0)
    first, last = floor(first / step) * step, ceil(last / step) * step
    edges = np.arange(round((last - first) / step) + 1) * step + first
    return ValueExtent(
        found,
        cells,
        spikes,
        Grid(found.column, _scale(found), tuple(float(f"{e:.12g}") for e in edges), found.spelling),
    )


def _add_neighbours(counts: NDArray[np.float64], low: int, high: int, doubt: float, floor: int = 0) -> tuple[int, int]:
    """The cells that surely hold rows, and their neighbours that probably do; below 0 (cell `floor`) only sure ones count."""
    while doubt and low > 0 and low != floor and counts[low - 1] > REACHED * doubt:
        low -= 1
    while doubt and high + 1 < len(counts) and counts[high + 1] > REACHED * doubt:
        high += 1
    return low, high


def _without_strays(counts: NDArray[np.float64], low: int, high: int) -> tuple[int, int]:
    """The cells without ends of a few rows that an empty cell divides from the others."""
    few = STRAY * counts.sum()
    for gap in np.flatnonzero(counts[low : high + 1] == 0) + low:
        if counts[low:gap].sum() <= few:
            low = int(gap) + 1
        elif counts[gap : high + 1].sum() <= few:
            high = int(gap) - 1
            break
    return low, high


def _distinct_spikes(
    spikes: Sequence[tuple[float, float]], filled: NDArray[np.float64], edges: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    """The spikes that hold most of their own range: 999 among as many neighbours is a number like others."""
    total = float(np.maximum(filled, 0).sum())
    kept = []
    for value, n in spikes:
        near = filled[int(np.searchsorted(edges, value, side="right")) - 1]
        if value == 0 or (n >= near / 2 and n >= total / 1000):
            kept.append((value, n))
    return tuple(kept)


def _extent_in_years(found: FoundType, counts: Ints, doubt: float) -> ValueExtent | None:
    years = np.arange(FIRST_YEAR, FIRST_YEAR + len(counts) + 1)
    edges = (years - 1970).astype("M8[Y]").astype("M8[D]").astype(np.float64)
    cells = CellCounts(edges, counts.astype(np.float64), doubt)
    ends = cells.occupied_range()
    if ends is None:
        return None
    within = cells.cells_between(
        *(_add_neighbours(cells.counts, *ends, doubt) if doubt else _without_strays(cells.counts, *ends))
    )
    # One year that noise does not hide is no bound of many that it does: all rows would be clipped into it.
    if 2 * within.counts.sum() < counts.sum():
        return None
    first, last = (int(e) for e in (within.edges[0], within.edges[-1]))
    if len(within.counts) > 15:
        return ValueExtent(found, within, (), None)
    months = np.arange(np.datetime64(first, "D").astype("M8[M]"), np.datetime64(last, "D").astype("M8[M]") + 1)
    grid = tuple(months.astype("M8[D]").astype(np.float64).tolist())
    return ValueExtent(found, within, (), Grid(found.column, _scale(found), grid, found.spelling))


def number_field(extent: ValueExtent, fine: CellCounts | None, columns: int) -> DraftField:
    """The field of a column of numbers or times among so many columns, by the finer histogram where there is one."""
    found, scale = extent.found, _scale(extent.found)
    step = float(found.precision or 0.01) if scale == "number" else 1.0
    if scale in ("date", "datetime"):
        cut = _time_cut(scale, fine or extent.cells, months=fine is not None)
    elif extent.values:
        cut = cut_by_values(scale, extent.values, step)
    elif fine is None or extent.wide:
        cells = extent.cells if fine is None else divide_full(extent.cells, fine)
        cut = cut_by_magnitude(scale, cells, extent.spikes, step)
    else:
        many = SPIKE_SHARE * max(0.0, float(fine.counts.sum()))
        points = [value for value, rows in extent.spikes if rows >= many and found.precision]
        cut = cut_by_mass(scale, _from_zero(fine, fine.trim()), columns, points, step)
    if scale == "number" and found.precision is not None:
        cut = drop_empty_bins(cut, step)
    if scale == "integer" and (alone := _one_value(extent)) is not None:
        only = f"only {alone:g} surely occurs; other values, if any, are fewer rows than noise hides"
        return DraftField(found.column, None, f"{only}: say its bounds, or leave the column out")
    keys: dict[str, object] = {"name": found.column, "type": found.type, **cut.keys}
    if found.precision is not None:
        keys["precision"] = float(found.precision) if scale == "number" else found.precision
    if keys.get("precision") == 1.0:
        keys["precision"] = 1
    if found.missing:
        keys["missing"] = True
    if found.words:
        cut = replace(cut, reason=f"{cut.reason}; words among the numbers count as missing")
    reason = f"{cut.reason}; values beyond the bounds count as the nearest"
    if found.spelling is not None:
        keys |= found.spelling.keys
        cut = replace(cut, reason=f"{cut.reason}; written {found.spelling.words}")
        reason = f"{reason}; written {found.spelling.words}"
    if extent.cells.doubt:
        # No table shows how many rows noise hides beyond a bound; that amounts do not lie below 0 is for the steward to know.
        keys["open"] = "high" if cut.keys["minimum"] == 0 else "both"
        reason = cut.reason
        if found.doubt > HIDDEN * found.values and not found.missing:
            hidden = f"noise may hide {found.doubt:,.0f} rows in which it is blank or a word"
            reason = f"{reason}; {hidden}: write missing: true if there may be any"
    return DraftField(found.column, keys, reason)


def _one_value(extent: ValueExtent) -> float | None:
    """The one value that surely occurs; None where others do too, by a cell or by all of them together."""
    cells = extent.cells
    if cells.edges[-1] - cells.edges[0] == 1:
        return float(cells.edges[0])
    beside = max(float(cells.counts.max()), float(cells.counts.sum()) / len(cells.counts) ** 0.5)
    return extent.spikes[0][0] if len(extent.spikes) == 1 and beside <= cells.doubt else None


def _from_zero(cells: CellCounts, within: CellCounts) -> CellCounts:
    """Cells down to 0 where that is near: amounts, counts and ages begin there, and nobody asks what lies below."""
    low, high = float(within.edges[0]), float(within.edges[-1])
    if not cells.doubt or not 0 < low <= high / 2:
        return within
    start, stop = (int(np.searchsorted(cells.edges, edge)) for edge in (0.0, high))
    return replace(cells.cells_between(start, stop - 1), margins=(0, within.margins[1]))


def _time_cut(scale: Scale, cells: CellCounts, *, months: bool) -> Cut:
    within = cells.trim()
    first, last = int(within.edges[0]), int(within.edges[-1]) - 1
    low, high = (str(np.datetime64(day, "D")) for day in (first, last))
    bounds = {"minimum": low, "maximum": high + ("T23:59:59" if scale == "datetime" else "")}
    wide = "year" if not months or len(within.counts) > 60 else "month"
    if scale == "date" and len(within.counts) == 1 and months:
        wide = "day"
    return Cut({**bounds, "bins": {"width": wide}}, f"from {low} to {high}, one bin per {wide}")


def text_field(found: FoundType, levels: Sequence[tuple[str, int]] | None) -> DraftField:
    """The field of a text column by its frequent values; None where values were not discovered."""
    if levels is None:
        return DraftField(found.column, None, "text: name its public levels (learning them needs --delta)")
    kept = [value for value, _ in levels if _is_level(value)]
    if not kept:
        why = "text: no value is frequent enough to be released; name its public levels, or leave the column out"
        return DraftField(found.column, None, why)
    if found.numbers - sum(count for value, count in levels if _is_number(value)) > max(found.doubt, found.values / 2):
        why = "most are numbers, others words: say type and bounds, and missing: true (words count as missing)"
        return DraftField(found.column, None, f"{why}; or, if they are codes, list them")
    listed = sorted({*kept} - {OTHER})
    rest = found.values - sum(count for _, count in levels)
    # where the frequent values are all there are, as far as noise can tell, nobody needs a level for others; noise that
    # could hide many rows tells nothing, and these would all count as the most frequent value
    few = FEW * found.values if found.doubt > HIDDEN * found.values else max(found.doubt, FEW * found.values)
    # Beside a level 'Other' nobody would know which one is meant.
    others = OTHER if all(value.lower() != OTHER for value in listed) else f"any {OTHER}"
    other = kept[0] if len(listed) > 1 and rest <= few else others
    enum = listed if other in listed else [*listed, others]
    keys: dict[str, object] = {"name": found.column, "type": "string", "enum": enum, "other": other}
    if found.missing:
        keys["missing"] = True
    many = f"{len(listed)} frequent value{'s' if len(listed) > 1 else ''}"
    return DraftField(found.column, keys, f"{many}; any other counts as '{other}'")


def plain_field(found: FoundType) -> DraftField:
    """The field of a yes/no column."""
    keys: dict[str, object] = {"name": found.column, "type": "boolean"} | ({"missing": True} if found.missing else {})
    return DraftField(found.column, keys, "true or false")


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).removeprefix("-").isdecimal()


def _is_level(value: str) -> bool:
    return bool(value.strip()) and value != MISSING_LABEL and "\0" not in value and "\ufffd" not in value


def _scale(found: FoundType) -> Scale:
    assert found.type in ("integer", "number", "date", "datetime")
    return found.type


def unknown_field(column: str, found: FoundType | None = None) -> DraftField:
    """A column of which too little is known, perhaps no more than its type."""
    if found is not None:
        why = f"of type {found.type}, but spread too thin for its bounds to be seen through the noise; say its bounds"
        return DraftField(column, None, why)
    return DraftField(column, None, "too few values to tell anything of it; say its type and its public values")
