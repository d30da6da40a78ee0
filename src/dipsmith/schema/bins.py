"""Ways to cut an ordered scale into bins, all of them public: by width, count, edges, rounding, calendar.

Every function here is a pure function of the declared bounds. `recipe` is their inverse: the shortest
`bins:` entry of a schema file that makes exactly the same bins again, found by making them and
comparing, so that what is written always reads back equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from math import ceil, floor, isfinite

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import SchemaError
from dipsmith.schema.domain import LARGEST, MAX_LEVELS, Bins, Scale

DAY = 86_400_000_000
HOUR = DAY // 24
DEFAULT_COUNT = 20
"""A number without `bins` is cut into this many bins of equal width."""
MAX_DAYS = 3660
"""A date without `bins` has one bin per day, up to this many days."""

_EPOCH = date(1970, 1, 1)
_PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "year": "Y"}
Recipe = dict[str, object]


# Points of a scale as text -----------------------------------------------------------------------------------


def point(scale: Scale, text: object) -> float:
    """Read one point of a scale: a number, an ISO date or an ISO datetime.

    >>> point("date", "1970-01-11")
    10.0
    """
    raw = str(text).strip()
    try:
        if scale == "date":
            return float((date.fromisoformat(raw) - _EPOCH).days)
        if scale == "datetime":
            moment = datetime.fromisoformat(raw)
            zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
            return float((zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
        value = float(raw.replace("_", "x"))
    except (ValueError, OverflowError):
        value = float("nan")
    if not isfinite(value) or (scale == "integer" and (value != floor(value) or abs(value) > LARGEST)):
        wanted = {
            "integer": "a whole number",
            "number": "a finite number",
            "date": "a date such as 2011-12-31",
        }
        raise SchemaError(f"'{raw}' is not {wanted.get(scale, 'a datetime such as 2011-12-31T23:59:59')}")
    return value


def show(scale: Scale, value: float) -> str:
    """Write one point of a scale, exactly.

    >>> show("date", 10), show("number", 2500.0), show("number", 0.1)
    ('1970-01-11', '2500', '0.1')
    """
    if scale == "date":
        return str(np.datetime64(int(value), "D"))
    if scale == "datetime":
        text = str(np.datetime64(int(value), "us"))
        return text.removesuffix(".000000")
    return str(int(value)) if value == floor(value) and abs(value) < 1e15 else repr(value)


# Making bins -------------------------------------------------------------------------------------------------


def singles(
    scale: Scale, minimum: float, maximum: float, *, missing: bool = False, limit: int = MAX_LEVELS
) -> Bins:
    """One bin per whole value (integers, dates).

    >>> singles("integer", 1, 3).labels
    ('1', '2', '3')
    """
    return by_width(scale, minimum, maximum, 1, missing=missing, limit=limit)


def by_width(
    scale: Scale,
    minimum: float,
    maximum: float,
    width: float,
    *,
    missing: bool = False,
    limit: int = MAX_LEVELS,
) -> Bins:
    """Bins of one width, counted from the minimum; the last one may be shorter.

    The width is in days for dates and datetimes.

    >>> by_width("integer", 17, 30, 5).labels
    ('17-21', '22-26', '27-30')
    """
    step = width * DAY if scale == "datetime" else width
    if not (isfinite(step) and step > 0):
        raise SchemaError(f"bins.width must be above 0, got {width}")
    if scale != "number" and step != floor(step):
        what = "a whole number of " + {"integer": "steps", "date": "days"}.get(scale, "microseconds")
        raise SchemaError(f"bins.width must be {what}, got {width}")
    end = _end(scale, minimum, maximum)
    # a width that divides the range but for rounding must not leave a sliver as its own bin
    count = ceil(_limited((end - minimum) / step, limit) * (1 - 1e-12))
    return _half_open(scale, [minimum + i * step for i in range(count)], maximum, missing)


def by_count(
    scale: Scale,
    minimum: float,
    maximum: float,
    count: int,
    *,
    missing: bool = False,
    limit: int = MAX_LEVELS,
) -> Bins:
    """So many bins, as equal as the scale allows.

    >>> by_count("number", 0, 1, 4).labels
    ('[0, 0.25)', '[0.25, 0.5)', '[0.5, 0.75)', '[0.75, 1]')
    """
    if count < 1:
        raise SchemaError(f"bins.count must be at least 1, got {count}")
    _limited(count, limit)
    span = _end(scale, minimum, maximum) - minimum
    if scale != "number":
        if count > span:
            raise SchemaError(f"bins.count is {count} but there are only {int(span)} different values")
        return _half_open(scale, [minimum + (int(span) * i) // count for i in range(count)], maximum, missing)
    return _half_open(scale, [minimum + span * i / count for i in range(count)], maximum, missing)


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
    whole = scale != "number"
    if top != edges[-1] and not (whole and edges[-1] == top + 1):
        raise SchemaError(
            f"bins.edges must end at the maximum, {show(scale, top)}, got {show(scale, edges[-1])}"
        )
    made = _half_open(scale, list(edges[:-1]), top, missing, snap=False)
    if labels is None:
        return made
    return Bins(made.edges, scale, tuple(labels), made.minimum, made.maximum, missing)


def by_rounding(
    scale: Scale,
    minimum: float,
    maximum: float,
    step: float,
    *,
    missing: bool = False,
    limit: int = MAX_LEVELS,
) -> Bins:
    """Round to the nearest multiple of `step`, halves upwards; the label is the rounded value.

    >>> by_rounding("number", 0, 20, 10).edges
    (0.0, 5.0, 15.0, 20.0)
    >>> by_rounding("number", 0, 20, 10).labels
    ('0', '10', '20')
    """
    if scale not in ("integer", "number"):
        raise SchemaError(
            "bins.round is for numbers; cut times by width: a number of days, week, month or year"
        )
    if not (isfinite(step) and step > 0) or (scale == "integer" and step != floor(step)):
        raise SchemaError(f"bins.round must be {'a whole number ' * (scale == 'integer')}above 0, got {step}")
    _limited((maximum - minimum) / step, limit + 1)
    first, last = floor(minimum / step + 0.5), floor(maximum / step + 0.5)
    _limited(last - first + 1, limit)
    centres = [_snap(c * step) for c in range(first, last + 1)]
    inner = [_snap((c - 0.5) * step) for c in range(first + 1, last + 1)]
    if scale == "integer":
        inner = [float(ceil(cut)) for cut in inner]
    end = _end(scale, minimum, maximum)
    # a maximum that lies on a half would make a last bin of one point: it stays in the bin below
    starts = [minimum, *(cut for cut in inner if minimum < cut < end)]
    centres = centres[: len(centres) - sum(cut >= end for cut in inner)]
    return Bins(
        edges=(*map(float, starts), float(end)),
        scale=scale,
        labels=tuple(show("number", c) for c in centres[len(centres) - len(starts) :]),
        minimum=float(minimum),
        maximum=float(maximum),
        missing=missing,
    )


def by_calendar(
    scale: Scale,
    minimum: float,
    maximum: float,
    period: str,
    *,
    missing: bool = False,
    limit: int = MAX_LEVELS,
) -> Bins:
    """One bin per hour, day, week (from Monday), month or year of the calendar; the ends may be cut short.

    >>> by_calendar("date", point("date", "2020-01-15"), point("date", "2020-03-02"), "month").labels
    ('2020-01', '2020-02', '2020-03')
    """
    if scale not in ("date", "datetime") or period not in _PERIODS or (scale, period) == ("date", "hour"):
        allowed = {"date": "day, week, month, year", "datetime": ", ".join(_PERIODS)}.get(scale)
        wanted = f"one of {allowed}, or a number of days" if allowed else "a number"
        raise SchemaError(f"bins.width must be {wanted}, got '{period}'")
    unit = "D" if scale == "date" else "us"
    ends = np.array([minimum, maximum], dtype=np.int64).astype(f"M8[{unit}]")
    # numpy counts weeks from Thursday 1970-01-01; three days' shift makes them begin on Monday
    shift = np.timedelta64(3, "D") if period == "week" else np.timedelta64(0, "D")
    first, last = (ends.astype(f"M8[{unit}]") + shift).astype(f"M8[{_PERIODS[period]}]").astype(np.int64)
    _limited(int(last - first + 1), limit)
    begins = np.arange(first, last + 1).astype(f"M8[{_PERIODS[period]}]")
    starts = begins.astype(f"M8[{unit}]") - shift
    numbers = [float(minimum), *starts.astype(np.int64)[1:].astype(float).tolist()]
    return Bins(
        edges=(*numbers, float(_end(scale, minimum, maximum))),
        scale=scale,
        labels=tuple(_period_labels(period, begins)),
        minimum=float(minimum),
        maximum=float(maximum),
        missing=missing,
    )


def _period_labels(period: str, begins: NDArray[np.datetime64]) -> list[str]:
    if period == "hour":
        return [str(b) + "h" for b in begins]
    if period == "week":
        # the Thursday on which numpy's week begins decides the ISO year and week
        thursdays = begins.astype("M8[D]").astype(object)
        return ["{}-W{:02d}".format(*day.isocalendar()) for day in thursdays]
    return [str(b) for b in begins]


def _end(scale: Scale, minimum: float, maximum: float) -> float:
    """The last edge for given bounds."""
    if not isfinite(maximum - minimum):
        raise SchemaError("minimum and maximum are too far apart; choose closer bounds")
    whole = scale != "number"
    if maximum < minimum or (maximum == minimum and not whole):
        low, high = show(scale, minimum), show(scale, maximum)
        raise SchemaError(f"minimum ({low}) must be below maximum ({high})")
    return maximum + whole


def _limited(count: float, limit: int) -> float:
    if not count <= limit:
        raise SchemaError(
            f"{count:,.0f} levels are more than the {limit:,} supported; add bins, or wider ones"
        )
    return count


def _snap(value: float) -> float:
    """Remove the dust of binary arithmetic, so that 3 × 0.1 is the edge 0.3."""
    return float(f"{value:.15g}")


def _half_open(scale: Scale, starts: list[float], maximum: float, missing: bool, snap: bool = True) -> Bins:
    end = _end(scale, starts[0], maximum)
    inner = [_snap(s) for s in starts[1:]] if snap and scale == "number" else starts[1:]
    edges = tuple(map(float, (starts[0], *inner, end)))
    pairs = pairwise(edges)
    return Bins(
        edges,
        scale,
        tuple(_label(scale, a, b, b == end) for a, b in pairs),
        edges[0],
        float(maximum),
        missing,
    )


def _label(scale: Scale, low: float, high: float, last: bool) -> str:
    if scale in ("number", "datetime"):
        end = high - 1 if last and scale == "datetime" else high
        return f"[{show(scale, low)}, {show(scale, end)}{']' if last else ')'}"
    first, final = show(scale, low), show(scale, high - 1)
    if first == final:
        return first
    return f"{first}-{final}" if scale == "integer" and low >= 0 else f"{first} to {final}"


# The inverse -------------------------------------------------------------------------------------------------


def recipe(bins: Bins) -> Recipe | None:
    """The shortest `bins:` entry that makes these bins again; None for one bin per whole value.

    >>> recipe(by_rounding("number", 0, 250_000, 5_000))
    {'round': 5000}
    >>> recipe(by_edges("integer", [0, 18, 65, 120]))
    {'edges': [0, 18, 65, 120]}
    """
    scale, low, high, missing = bins.scale, bins.minimum, bins.maximum, bins.missing
    size = len(bins.labels)
    inner = bins.edges[1:3] if len(bins.edges) > 3 else bins.edges[:2]
    gaps = [_snap(bins.edges[1] - bins.edges[0]), _snap(inner[1] - inner[0])]
    per_day = DAY if scale == "datetime" else 1
    attempts: list[tuple[Recipe | None, Callable[[], Bins]]] = []
    if scale in ("integer", "date"):
        attempts.append((None, lambda: singles(scale, low, high, missing=missing, limit=size)))
    if scale in ("date", "datetime"):
        attempts += [
            ({"width": p}, lambda p=p: by_calendar(scale, low, high, p, missing=missing, limit=size))  # type: ignore[misc]
            for p in _PERIODS
        ]
    attempts.append(
        (
            {"width": number(gaps[0] / per_day)},
            lambda: by_width(scale, low, high, gaps[0] / per_day, missing=missing, limit=size),
        )
    )
    if scale in ("integer", "number"):
        attempts.append(
            (
                {"round": number(gaps[1])},
                lambda: by_rounding(scale, low, high, gaps[1], missing=missing, limit=size),
            )
        )
    attempts.append(({"count": size}, lambda: by_count(scale, low, high, size, missing=missing, limit=size)))
    for entry, make in attempts:
        try:
            if make() == bins:
                return entry
        except SchemaError:
            continue
    lone = bins.whole and bins.edges[-2] == high
    edges = [*bins.edges[:-1], high + 1 if lone else high]
    entry = {"edges": [plain(scale, e) for e in edges]}
    if by_edges(scale, edges, maximum=high, missing=missing) != bins:
        entry["labels"] = list(bins.labels)
    return entry


def number(value: float) -> int | float:
    """Write whole numbers without a point."""
    return int(value) if value == floor(value) and abs(value) < 1e15 else value


def plain(scale: Scale, value: float) -> int | float | str:
    """A point of a scale as a schema file holds it."""
    return show(scale, value) if scale in ("date", "datetime") else number(value)
