"""Ways to cut an ordered scale into bins, all of them public: by width, count, edges, rounding, calendar.

Every function here is a pure function of the declared bounds. `recipe` is their inverse: the shortest
`bins:` entry of a schema file that makes exactly the same bins again, found by making them and
comparing, so that what is written always reads back equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor, isfinite

import numpy as np

from dipsmith.errors import SchemaError
from dipsmith.schema.domain import LARGEST, MAX_LEVELS, Bins, Scale

DAY = 86_400_000_000
"""Microseconds, the unit of datetimes."""
DEFAULT_COUNT = 20
"""A number without `bins` is cut into this many bins of equal width."""
MAX_DAYS = 3660
"""A date without `bins` has one bin per day, up to this many days."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "year": "Y"}
_WANTED: dict[Scale, str] = {
    "integer": "a whole number",
    "number": "a finite number",
    "date": "a date such as 2011-12-31",
    "datetime": "a datetime such as 2011-12-31T23:59:59",
}
Recipe = dict[str, object]


def point(scale: Scale, text: object) -> float:
    """Read one point of a scale: a number, an ISO date or an ISO datetime.

    >>> point("date", "1970-01-11")
    10.0
    """
    raw = str(text).strip()
    try:
        if scale == "date":
            return float((date.fromisoformat(raw) - _EPOCH.date()).days)
        if scale == "datetime":
            moment = datetime.fromisoformat(raw)
            zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
            return float((zoned - _EPOCH) // timedelta(microseconds=1))
        value = float(raw.replace("_", "x"))
    except (ValueError, OverflowError):
        value = float("nan")
    if not isfinite(value) or (scale == "integer" and (value != floor(value) or abs(value) > LARGEST)):
        raise SchemaError(f"'{raw}' is not {_WANTED[scale]}")
    return value


def number(value: float) -> int | float:
    """Write whole numbers without a point."""
    return int(value) if value == floor(value) and abs(value) < 1e15 else value


def as_plain(scale: Scale, value: float) -> int | float | str:
    """A point of a scale as a schema file holds it, exactly."""
    if scale in ("date", "datetime"):
        return str(np.datetime64(int(value), "D" if scale == "date" else "us")).removesuffix(".000000")
    return int(value) if scale == "integer" and float(value).is_integer() and abs(value) < 2**53 else number(value)


def show(scale: Scale, value: float) -> str:
    """Write one point of a scale, exactly.

    >>> show("date", 10), show("number", 2500.0), show("number", 0.1)
    ('1970-01-11', '2500', '0.1')
    """
    return str(as_plain(scale, value))


def singles(scale: Scale, minimum: float, maximum: float, *, missing: bool = False) -> Bins:
    """One bin per whole value (integers, dates).

    >>> singles("integer", 1, 3).labels
    ('1', '2', '3')
    """
    return by_width(scale, minimum, maximum, 1, missing=missing)


def by_width(
    scale: Scale, low: float, high: float, width: float, *, missing: bool = False, limit: int = MAX_LEVELS
) -> Bins:
    """Bins of one width (in days for dates and datetimes) from the minimum on; the last one may be shorter.

    >>> by_width("integer", 17, 30, 5).labels
    ('17-21', '22-26', '27-30')
    """
    step = width * DAY if scale == "datetime" else width
    if not (isfinite(step) and step > 0):
        raise SchemaError(f"bins.width must be above 0, got {width}")
    if scale != "number" and step != floor(step):
        what = "a whole number of " + {"integer": "steps", "date": "days"}.get(scale, "microseconds")
        raise SchemaError(f"bins.width must be {what}, got {width}")
    # a width that divides the range but for rounding must not leave a sliver as its own bin
    count = ceil(_require_at_most((_end(scale, low, high) - low) / step, limit) * (1 - 1e-12))
    return _between(scale, [low + i * step for i in range(count)], high, missing)


def by_count(
    scale: Scale, low: float, high: float, count: int, *, missing: bool = False, limit: int = MAX_LEVELS
) -> Bins:
    """A given number of bins, as equal in width as the scale allows.

    >>> by_count("number", 0, 1, 4).labels
    ('[0, 0.25)', '[0.25, 0.5)', '[0.5, 0.75)', '[0.75, 1]')
    """
    if count < 1:
        raise SchemaError(f"bins.count must be at least 1, got {count}")
    _require_at_most(count, limit)
    span = _end(scale, low, high) - low
    if scale == "number":
        return _between(scale, [low + span * i / count for i in range(count)], high, missing)
    if count > span:
        raise SchemaError(f"bins.count is {count} but there are only {int(span)} different values")
    return _between(scale, [low + (int(span) * i) // count for i in range(count)], high, missing)


def by_edges(
    scale: Scale,
    edges: Sequence[float],
    *,
    maximum: float | None = None,
    labels: Sequence[str] | None = None,
    missing: bool = False,
) -> Bins:
    """Bins between given edges; the last edge is the maximum and belongs to the last bin.

    On whole scales (all but number) the last edge may also be one past the maximum, when `maximum` is given.

    >>> by_edges("integer", [0, 18, 65, 120]).labels
    ('0-17', '18-64', '65-120')
    """
    if len(edges) < 2:
        raise SchemaError(f"bins.edges needs at least two edges, got {len(edges)}")
    if any(a >= b for a, b in pairwise(edges)):
        raise SchemaError("bins.edges must increase from one to the next")
    top = edges[-1] if maximum is None else maximum
    if top != edges[-1] and not (scale != "number" and edges[-1] == top + 1):
        raise SchemaError(f"bins.edges must end at the maximum, {show(scale, top)}, got {show(scale, edges[-1])}")
    made = _between(scale, list(edges[:-1]), top, missing, snap=False)
    return made if labels is None else _bins(scale, made.edges, labels, missing)


def by_rounding(
    scale: Scale, low: float, high: float, step: float, *, missing: bool = False, limit: int = MAX_LEVELS
) -> Bins:
    """Round to the nearest multiple of `step`, halves upwards; the label is the rounded value.

    >>> by_rounding("number", 0, 20, 10).edges
    (0.0, 5.0, 15.0, 20.0)
    >>> by_rounding("number", 0, 20, 10).labels
    ('0', '10', '20')
    """
    if scale not in ("integer", "number"):
        raise SchemaError("bins.round is for numbers; cut times by width: a number of days, week, month or year")
    if not (isfinite(step) and step > 0) or (scale == "integer" and step != floor(step)):
        raise SchemaError(f"bins.round must be {'a whole number ' * (scale == 'integer')}above 0, got {step}")
    _require_at_most((high - low) / step, limit + 1)
    first, last = floor(low / step + 0.5), floor(high / step + 0.5)
    _require_at_most(last - first + 1, limit)
    centres = [_snap(c * step) for c in range(first, last + 1)]
    inner = [_snap((c - 0.5) * step) for c in range(first + 1, last + 1)]
    if scale == "integer":
        inner = [float(ceil(cut)) for cut in inner]
    end = _end(scale, low, high)
    # a maximum that lies on a half would make a last bin of one point: it stays in the bin below
    starts = [low, *(cut for cut in inner if low < cut < end)]
    centres = centres[: len(centres) - sum(cut >= end for cut in inner)]
    labels = [show("number", c) for c in centres[len(centres) - len(starts) :]]
    return _bins(scale, (*starts, end), labels, missing)


def by_ratio(scale: Scale, low: float, high: float, count: int, *, missing: bool = False) -> Bins:
    """Bins that are equally wide on the log scale, their edges rounded to three digits.

    >>> by_ratio("number", 1, 1000, 3).edges
    (1.0, 10.0, 100.0, 1000.0)
    """
    between = [float(f"{low * (high / low) ** (i / count):.3g}") for i in range(1, count)]
    inner = sorted({float(round(e)) if scale == "integer" else e for e in between})
    edges = [low, *(e for e in inner if low < e < high), high]
    return replace(by_edges(scale, edges, missing=missing), law="log")


def by_calendar(
    scale: Scale, low: float, high: float, period: str, *, missing: bool = False, limit: int = MAX_LEVELS
) -> Bins:
    """One bin per hour, day, week (from Monday), month or year of the calendar; the ends may be cut short.

    >>> by_calendar("date", point("date", "2020-01-15"), point("date", "2020-03-02"), "month").labels
    ('2020-01', '2020-02', '2020-03')
    """
    if scale not in ("date", "datetime") or period not in _PERIODS or (scale, period) == ("date", "hour"):
        allowed = {"date": "day, week, month, year", "datetime": ", ".join(_PERIODS)}.get(scale)
        wanted = f"one of {allowed}, or a number of days" if allowed else "a number"
        raise SchemaError(f"bins.width must be {wanted}, got '{period}'")
    points, periods = "M8[D]" if scale == "date" else "M8[us]", f"M8[{_PERIODS[period]}]"
    # numpy counts weeks from Thursday 1970-01-01; three days' shift makes them begin on Monday
    shift = np.timedelta64(3 if period == "week" else 0, "D")
    ends = np.array([low, high], dtype=np.int64).astype(points) + shift
    first, last = ends.astype(periods).astype(np.int64)
    _require_at_most(int(last - first + 1), limit)
    begins = np.arange(first, last + 1).astype(periods)
    starts = (begins.astype(points) - shift).astype(np.int64)[1:].tolist()
    if period == "week":
        # the Thursday on which numpy's week begins decides the ISO year and week
        labels = ["{}-W{:02d}".format(*day.isocalendar()) for day in begins.astype("M8[D]").astype(object)]
    else:
        labels = [str(b) + "h" * (period == "hour") for b in begins]
    return _bins(scale, (low, *starts, _end(scale, low, high)), labels, missing)


def _end(scale: Scale, low: float, high: float) -> float:
    """The last edge for given bounds."""
    if not isfinite(high - low):
        raise SchemaError("minimum and maximum are too far apart; choose closer bounds")
    if high < low or (high == low and scale == "number"):
        raise SchemaError(f"minimum ({show(scale, low)}) must be below maximum ({show(scale, high)})")
    return high + (scale != "number")


def _require_at_most(count: float, limit: int) -> float:
    if not count <= limit:
        raise SchemaError(f"{count:,.0f} levels are more than the {limit:,} supported; add bins, or wider ones")
    return count


def _snap(value: float) -> float:
    """Round off binary arithmetic, so that 3 × 0.1 is the edge 0.3."""
    return float(f"{value:.15g}")


def _between(scale: Scale, starts: list[float], high: float, missing: bool, snap: bool = True) -> Bins:
    """Bins that begin at `starts` and are labelled by their ends."""
    end = _end(scale, starts[0], high)
    inner = [_snap(s) for s in starts[1:]] if snap and scale == "number" else starts[1:]
    edges = [float(e) for e in (starts[0], *inner, end)]
    return _bins(scale, edges, [_label(scale, a, b, b == end) for a, b in pairwise(edges)], missing)


def _bins(scale: Scale, edges: Sequence[float], labels: Sequence[str], missing: bool) -> Bins:
    cuts = tuple(map(float, edges))
    return Bins(cuts, scale, tuple(labels), cuts[0], cuts[-1] - (scale != "number"), missing)


def _label(scale: Scale, low: float, high: float, last: bool) -> str:
    if scale in ("number", "datetime"):
        end = high - 1 if last and scale == "datetime" else high
        return f"[{show(scale, low)}, {show(scale, end)}{']' if last else ')'}"
    first, final = show(scale, low), show(scale, high - 1)
    between = "-" if scale == "integer" and low >= 0 else " to "
    return first if first == final else f"{first}{between}{final}"


PRECISIONS = {"microsecond": 1.0, "second": 1e6, "minute": 60e6, "hour": 3600e6, "day": 86_400e6}
"""How fine moments can be released, in microseconds."""


def read_precision(scale: Scale, text: str | None) -> float | None:
    """The step of released values that a schema states: 0.01 for numbers, minute for moments.

    >>> read_precision("number", "0.01"), read_precision("datetime", "minute")
    (0.01, 60000000.0)
    """
    if text is None:
        return None
    if scale == "datetime":
        if text not in PRECISIONS:
            raise SchemaError(f"precision of a datetime is one of {', '.join(PRECISIONS)}, got '{text}'")
        return PRECISIONS[text]
    if scale != "number":
        raise SchemaError(f"precision goes with numbers and datetimes; a column of type {scale} has its own: remove it")
    step = point("number", text)
    if step not in [10.0**-places for places in range(13)]:
        raise SchemaError(f"precision of a number is 1, 0.1, 0.01 or so on, got '{text}'")
    return step


def show_precision(bins: Bins) -> int | float | str | None:
    """The precision as a schema states it."""
    if bins.step is None or bins.scale == "number":
        return None if bins.step is None else number(bins.step)
    return next(name for name, step in PRECISIONS.items() if step == bins.step)


def recipe(bins: Bins) -> Recipe | None:
    """The shortest `bins:` entry that makes these bins again; None for one bin per whole value.

    >>> recipe(by_rounding("number", 0, 250_000, 5_000))
    {'round': 5000}
    >>> recipe(by_edges("integer", [0, 18, 65, 120]))
    {'edges': [0, 18, 65, 120]}
    """
    found = _find_recipe(bins)
    return None if found is None else {k: list(v) if isinstance(v, list) else v for k, v in found.items()}


@lru_cache(maxsize=64)
def _find_recipe(bins: Bins) -> Recipe | None:
    """The recipe, tried once for the same bins: a release writes its schema several times."""
    if bins.law != "uniform":
        return {**(recipe(replace(bins, law="uniform")) or {"width": 1}), "law": bins.law}
    scale, low, high, missing = bins.scale, bins.minimum, bins.maximum, bins.missing
    bins = replace(bins, step=None, open="none", spelling=None)
    size = len(bins.labels)
    inner = bins.edges[1:3] if size > 2 else bins.edges[:2]
    width = _snap(bins.edges[1] - bins.edges[0]) / (DAY if scale == "datetime" else 1)
    step = _snap(inner[1] - inner[0])
    attempts: list[tuple[Recipe | None, Callable[..., Bins], object]] = []
    if scale in ("integer", "date"):
        attempts.append((None, by_width, 1))
    if scale in ("date", "datetime"):
        attempts += [({"width": period}, by_calendar, period) for period in _PERIODS]
    attempts.append(({"width": number(width)}, by_width, width))
    if scale in ("integer", "number"):
        attempts.append(({"round": number(step)}, by_rounding, step))
    attempts.append(({"count": size}, by_count, size))
    for entry, make, cut in attempts:
        try:
            if make(scale, low, high, cut, missing=missing, limit=size) == bins:
                return entry
        except SchemaError:
            continue
    lone = bins.whole and bins.edges[-2] == high
    edges = [*bins.edges[:-1], high + 1 if lone else high]
    listed: Recipe = {"edges": [as_plain(scale, e) for e in edges]}
    if by_edges(scale, edges, maximum=high, missing=missing) != bins:
        listed["labels"] = list(bins.labels)
    return listed
