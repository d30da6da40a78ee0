"""Public values in the type of a column, so that an engine compares like with like and formats or rounds nothing."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

import pyarrow as pa

from dipsmith.codec.parse import texts
from dipsmith.schema import Categories
from dipsmith.sources.kinds import Kind

Point = int | float | str | bool | dt.date | dt.datetime
"""A public value."""

_ARROW = {
    "whole": pa.int64(),
    "real": pa.float64(),
    "decimal": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us"),
}


def native(domain: Categories, kind: Kind) -> list[tuple[Point, int]]:
    """For each listed value the value of the column's type that is written like it, if there is one."""
    pairs = zip(domain.values, domain.codes, strict=True)
    if kind in ("text", "wide"):
        return list(pairs)
    found: list[tuple[Point, int]] = []
    for listed, code in pairs:
        try:
            point = pa.array([listed]).cast(_ARROW[kind])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        if texts(point).to_pylist() == [listed]:
            value = point[0].as_py()
            found.append((value.replace(tzinfo=dt.UTC) if kind == "timestamptz" else value, code))
    return found


def first_whole(edge: float) -> int:
    """Smallest integer whose float64 is ≥ edge: that of a large one may be, though it is not itself.

    >>> first_whole(1.5), first_whole(2.0**53 + 4) - 2**53
    (2, 3)
    """
    below = math.nextafter(edge, -math.inf)
    if abs(edge) < 2.0**53 or math.isinf(below):
        return math.ceil(edge)
    least = math.ceil((Fraction(below) + Fraction(edge)) / 2)
    return least if float(least) >= edge else least + 1
