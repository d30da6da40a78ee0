"""Bins that do no harm, proposed from a histogram of a column: exact (public rows), or noisy.

A value that many rows share (0, a top code, 40 hours) gets a bin of its own: values are drawn within bins, so that a spike in
a wide bin would be smeared over it. Wide positive ranges are cut in steps of 1, 2, 5, 10, …: as fine where there are many as
money and sizes are. Otherwise bins hold about as many rows each. Everything here is a function of the histogram.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from dipsmith.schema.bins import as_plain
from dipsmith.schema.domain import Scale

MOST_BINS = 20
"""Bins of about equal numbers of rows."""
BIN_ROWS, MOST_NARROW = 300, 120
"""No bin is wider than a range cut in `MOST_BINS`; in more of them, up to here, where each has so many rows on average."""
NARROW_COLUMNS = 15
"""Up to so many columns; of more, each has fewer bins, since methods measure and comparisons count tables of pairs."""
MOST_SINGLE = 40
"""An integer range up to this long has one bin per value, whatever the number of rows."""
MARGIN = 0.05
"""Cells that are kept empty beyond the last that may hold rows, as a share of these."""
FEW = 0.01
"""Rows that decide nothing: a form of values that no more have, an end of a range that surely holds no more."""
LARGEST = 9e15
"""Whole numbers beyond this are not told apart by a schema, which holds them to 2⁵³."""
SPIKE_SHARE = 0.02
SPIKE_RATIO = 4.0
"""A single value is a spike from this share of rows on, and so many times the mean of its neighbours."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Rows between rising edges; `doubt` is the count below which a cell may be nothing but noise (0 where counts are exact).

    `margins` are the numbers of cells at either end that are there to be empty.
    """

    edges: Floats
    counts: Floats
    doubt: float = 0.0
    margins: tuple[int, int] = (0, 0)

    def cells_between(self, first: int, last: int) -> CellCounts:
        """The cells `first` to `last`."""
        return CellCounts(self.edges[first : last + 2], self.counts[first : last + 1], self.doubt)

    def within(self, low: float, high: float) -> CellCounts:
        """The cells between bounds; rows beyond them count in the nearest."""
        inner = (self.edges > low) & (self.edges < high)
        edges = np.unique([max(low, self.edges[0]), *self.edges[inner], min(high, self.edges[-1])])
        at = np.clip(np.searchsorted(edges, self.edges[:-1], side="right") - 1, 0, len(edges) - 2)
        counts = np.bincount(at, self.counts, minlength=len(edges) - 1).astype(np.float64)
        return replace(self, edges=edges, counts=counts)

    def occupied_range(self) -> tuple[int, int] | None:
        """The first and the last cell that surely hold rows, also by sums of neighbouring cells; None where none does."""
        found, left = np.zeros(len(self.counts), bool), self.counts.copy()
        for width in (2**k for k in range(max(4, len(self.counts).bit_length() - 3))):
            if width > len(self.counts):
                break
            sums = np.convolve(left, np.ones(width), "valid")
            for start in np.flatnonzero(sums > self.doubt * width**0.5):
                inside = np.arange(start, start + width)
                # a window that holds rows ends where its cells do: by counts that are a good part of the doubt themselves
                found[inside[left[inside] > max(self.doubt / 2, sums[start] / width / 2)]] = True
            # rows that are known of lend nothing to cells beside them, which would else be taken for full where noise is high
            left[found] = 0
        ends = np.flatnonzero(found)
        return (int(ends[0]), int(ends[-1])) if len(ends) else None

    def trim(self) -> CellCounts:
        """Without the ends that surely hold next to nothing, but for a margin of them where counts are noisy.

        An end is cut off where its sum is no more than noise adds up to, and noise cannot hide more than `FEW` of the rows
        there. In doubt bounds stay wide: empty bins cost little, rows beyond the bounds are moved to them. The margin is
        empty, as far as is known: a release that counts rows in it shows that there are some beyond.
        """
        ends = self.occupied_range()
        if ends is None:
            return self
        first, last = ends
        while not self._negligible(self.counts[:first]):
            first -= 1
        while not self._negligible(self.counts[last + 1 :]):
            last += 1
        margin = max(1, ceil(MARGIN * (last + 1 - first))) if self.doubt else 0
        below, above = min(margin, first), min(margin, len(self.counts) - 1 - last)
        return replace(self.cells_between(first - below, last + above), margins=(below, above))

    def _negligible(self, end: Floats) -> bool:
        noise = self.doubt / 5 * len(end) ** 0.5
        return float(end.sum()) <= min(1.5 * noise, FEW * float(self.counts.sum()) - 2 * noise) or not len(end)


@dataclass(frozen=True)
class Cut:
    """How a column of numbers is cut: the keys of its field, and why in one sentence."""

    keys: dict[str, object]
    reason: str


def most_narrow(columns: int) -> int:
    """How many narrow bins a column may have beside so many others.

    >>> most_narrow(15), most_narrow(24), most_narrow(45), most_narrow(100)
    (120, 75, 40, 40)
    """
    return max(MOST_SINGLE, MOST_NARROW * NARROW_COLUMNS // max(columns, NARROW_COLUMNS))


def cut_by_values(scale: Scale, values: Sequence[float], step: float) -> Cut:
    """A bin for each of a few values, and one for every gap between them; `step` is the distance of neighbouring values.

    >>> cut_by_values("number", [16.3, 16.4, 73.0], 0.1).keys["bins"]["edges"]
    [16.3, 16.4, 16.5, 73, 73.1, 73.2]
    """
    starts = sorted({_tidy(value + more) for value in values for more in (0.0, step)})
    # the last bin of numbers holds its upper end too, and none of the values should
    edges = [*starts, _tidy(starts[-1] + step)] if scale == "number" else starts
    keys = _bounds(scale, edges[0], edges[-1]) | {"bins": {"edges": _edges(scale, edges)}}
    return Cut(keys, f"{len(values)} different values, one bin each")


def set_apart(edges: Sequence[float], points: Sequence[float], step: float) -> list[float]:
    """Edges with a bin of its own for each of some values; other edges give way where a bin would hold no value.

    >>> set_apart([0, 5, 7.245, 10], [7.25], 0.01)
    [0, 5, 7.25, 7.26, 10]
    """
    own = {edge for value in points for edge in (value, _tidy(value + step))}
    return sorted(own | {e for e in edges if all(abs(e - edge) >= step * (1 - 1e-9) for edge in own)})


def _tidy(value: float) -> float:
    """Without the last binary digits of a sum, which people would read."""
    return float(f"{value:.12g}")


def cut_by_mass(
    scale: Scale, cells: CellCounts, columns: int = 1, points: Sequence[float] = (), step: float = 1.0
) -> Cut:
    """Bins of about equal numbers of rows between the edges of cells, none very wide, spikes apart.

    Of numbers with decimals cells are no single values: `points` are those that many rows share, `step` how fine values are.

    >>> cells = CellCounts(np.arange(0.0, 102.0), np.where(np.arange(101) == 40, 900.0, 10.0))
    >>> {40, 41} <= set(cut_by_mass("integer", cells).keys["bins"]["edges"])
    True
    """
    counts = np.maximum(cells.counts, 0.0)
    single = scale in ("integer", "date") and bool((np.diff(cells.edges) == 1).all())
    low, high = cells.edges[0], cells.edges[-1]
    most = int(np.clip(counts.sum() / BIN_ROWS, MOST_BINS, most_narrow(columns)))
    if single and len(counts) <= max(most, MOST_SINGLE) and scale == "integer":
        return Cut(_bounds(scale, low, high), f"{len(counts)} whole numbers, one bin each")
    spikes = _spikes(cells) if single else []
    target = max(float(counts.sum()) / MOST_BINS, 2 * cells.doubt)
    widest = nice_step(high - low, most)
    apart = {*spikes, *(i + 1 for i in spikes), cells.margins[0], len(counts) - cells.margins[1]}
    starts, held = [0], 0.0
    for i, count in enumerate(counts):
        wide = cells.edges[i + 1] - cells.edges[starts[-1]] > widest * (1 + 1e-9)
        if i and (i in apart or held >= target or wide):
            starts.append(i)
            held = 0.0
        held += count
    short = cells.edges[-1] - cells.edges[starts[-2]] <= widest if len(starts) > 1 else False
    if short and held < target / 2 and starts[-1] not in apart:
        starts.pop()
    points = [p for p in points if low <= p < high] if scale == "number" else []
    edges = set_apart([*(cells.edges[i] for i in starts), high], points, step)
    alone = [*points, *(cells.edges[i] for i in spikes)]
    many = _tell_apart(scale, alone)
    low, high = edges[0], edges[-1]
    keys = _bounds(scale, low, high) | {"bins": {"edges": _edges(scale, edges)}}
    return Cut(keys, f"{len(edges) - 1} bins of about equal numbers of rows, none very wide{many}")


def cut_by_magnitude(scale: Scale, cells: CellCounts, spikes: Sequence[tuple[float, float]], step: float) -> Cut:
    """Bins by steps of 1, 2, 5, 10, …; cells of few rows join the next; `spikes` (value, rows) are apart.

    `step` is the distance of neighbouring values: 1 for whole numbers, 0.01 for cents.
    """
    if scale == "integer":
        cells = cells.within(-LARGEST, LARGEST)
    counts = cells.counts
    points = sorted(value for value, _ in spikes)
    rare = all(rows < FEW * counts.sum() for _, rows in spikes)
    sure = counts > cells.doubt
    # a run of cells of few rows is one bin; joined to a full one it would stretch that over its own range
    inner = [edge for edge, a, b in zip(cells.edges[1:-1], sure[:-1], sure[1:], strict=True) if a or b]
    edges = [cells.edges[0], *inner, cells.edges[-1]]
    edges = set_apart(edges, points, step)
    low, high = edges[0], edges[-1]
    apart = _tell_apart(scale, points, rare=rare)
    finer = "" if cells.doubt else ", finer where many rows are"
    keys = _bounds(scale, low, high) | {"bins": {"edges": _edges(scale, edges), "law": "log"}}
    return Cut(
        keys, f"a wide range: steps of 1, 2, 5, 10, …{finer}, values drawn evenly in the logarithm within a bin{apart}"
    )


def drop_empty_bins(cut: Cut, step: float) -> Cut:
    """Bins that hold at least one multiple of `step` each; noise may cut finer than values are.

    >>> drop_empty_bins(Cut({"bins": {"edges": [0, 0.3, 0.6, 1.1, 2]}}, "4 bins"), 1.0)
    Cut(keys={'bins': {'edges': [0, 0.3, 2]}}, reason='2 bins')
    """
    bins = cut.keys.get("bins")
    if not isinstance(bins, dict) or "edges" not in bins:
        return cut
    first, *others, last = (float(edge) for edge in bins["edges"])
    kept = [first]
    for edge in others:
        if ceil(edge / step - 1e-9) > ceil(kept[-1] / step - 1e-9):
            kept.append(edge)
    if len(kept) > 1 and ceil(last / step - 1e-9) == ceil(kept[-1] / step - 1e-9):
        kept.pop()
    kept.append(last)
    reason = cut.reason.replace(f"{len(bins['edges']) - 1} bins", f"{len(kept) - 1} bins")
    return Cut({**cut.keys, "bins": {**bins, "edges": _edges("number", kept)}}, reason)


def nice_step(span: float, cells: int) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that covers a span in so many cells.

    >>> nice_step(90, 100), nice_step(700, 100), nice_step(0.4, 100)
    (1.0, 10.0, 0.005)
    """
    raw = span / cells
    power = floor(log10(raw))
    return next(
        float(f"{m}e{e}") for e in (power, power + 1) for m in (1, 2, 5) if float(f"{m}e{e}") >= raw * (1 - 1e-9)
    )


def _spikes(cells: CellCounts) -> list[int]:
    """Single values that far more rows have than their neighbours."""
    counts = np.maximum(cells.counts, 0.0)
    total, found = float(counts.sum()), []
    for i, count in enumerate(counts):
        near = np.concatenate([counts[max(0, i - 3) : i], counts[i + 1 : i + 4]])
        usual = float(near.mean()) if len(near) else 0.0
        if count > 2 * cells.doubt and count >= SPIKE_SHARE * total and count >= SPIKE_RATIO * usual:
            found.append(i)
    return found


def _bounds(scale: Scale, low: float, high: float) -> dict[str, object]:
    return {"minimum": as_plain(scale, float(low)), "maximum": as_plain(scale, float(high) - (scale != "number"))}


def _edges(scale: Scale, edges: Sequence[float]) -> list[object]:
    return [as_plain(scale, float(e)) for e in edges]


def _tell_apart(scale: Scale, values: Sequence[float], *, rare: bool = False) -> str:
    """That some values have bins of their own; nothing where none has. Rare ones have them for their meaning, as 0 has.

    >>> _tell_apart("integer", [0, 99]), _tell_apart("integer", [0], rare=True)
    ('; 0, 99 apart, values of many rows', '; 0 apart')
    """
    if not values:
        return ""
    listed = ", ".join(str(as_plain(scale, float(v))) for v in values)
    return f"; {listed} apart" + ("" if rare else f", {'values' if len(values) > 1 else 'a value'} of many rows")


PARTS = {1: (1.2, 1.4, 1.6, 1.8), 2: (2.2, 2.5, 3.0, 3.5, 4.0, 4.5), 5: (6.0, 7.0, 8.0, 9.0)}
"""Where the steps from 1 to 2, from 2 to 5 and from 5 to 10 may be divided."""
FULL = 10
"""A bin of a wide range is divided where it holds more than one in so many rows."""


def finer_edges(edges: Sequence[float], *, whole: bool) -> tuple[float, ...]:
    """The edges of cells by magnitude, and those in between.

    >>> finer_edges([0, 1, 2, 5, 10], whole=True)
    (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
    """
    found = {float(e) for e in edges}
    for low, high in pairwise(edges):
        if low * high <= 0:
            continue
        near, sign = min(abs(low), abs(high)), 1 if low > 0 else -1
        power = 10.0 ** floor(log10(near) + 1e-9)
        cuts = (float(f"{sign * part * power:.12g}") for part in PARTS[round(near / power)])
        found |= {cut for cut in cuts if low < cut < high and (not whole or cut.is_integer())}
    return tuple(sorted(found))


def divide_full(coarse: CellCounts, fine: CellCounts) -> CellCounts:
    """The cells of `coarse`, those with many of its rows divided at edges of `fine`."""
    starts, held, kept = [0], 0.0, {*coarse.edges.tolist()}
    for i, edge in enumerate(fine.edges[1:-1].tolist(), 1):
        held += float(fine.counts[i - 1])
        if edge in kept or held >= float(coarse.counts.sum()) / FULL:
            starts.append(i)
            held = 0.0
    return CellCounts(fine.edges[[*starts, -1]], np.add.reduceat(fine.counts, starts))


WIDE = 1000.0
"""A range that reaches so many times its first step is cut by magnitude."""


CENT = 0.01
"""How fine amounts with decimals are taken to be where nobody says it."""


def log_edges(scale: Scale, low: float, high: float, parts: Sequence[float] = (1, 2, 5)) -> list[object]:
    """Edges at 0, 1, 10, 20, 50, 100, … between bounds: 0 by itself where it is the minimum, of amounts up to a cent.

    `parts` are the edges within a decade.

    >>> log_edges("integer", 0, 99)[:4], log_edges("number", 0, 99)[:4]
    ([0, 1, 10, 20], [0, 0.01, 10, 20])
    """
    top = high + 1 if scale == "integer" else high
    steps = [float(f"{m}e{e}") for e in range(1, 16) for m in parts]
    first = [low, low + (1 if scale == "integer" else CENT)] if low == 0 else [low]
    inner = [s for s in steps if first[-1] < s < top]
    return _edges(scale, [*first, *inner, top])
