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


def first_reaching(edge: float, decimals: int = 0) -> int:
    """Smallest number of units of 10^-decimals whose float64 is ≥ edge: it may be, though the number itself is not.

    >>> first_reaching(1.5), first_reaching(2.0**53 + 4) - 2**53, first_reaching(0.3, 1), first_reaching(-0.31, 1)
    (2, 3, 3, -3)
    """
    unit: int = 10**decimals
    below = math.nextafter(edge, -math.inf)
    middle = Fraction(edge) if math.isinf(below) else (Fraction(below) + Fraction(edge)) / 2
    least = math.ceil(middle * unit)
    return least if float(Fraction(least, unit)) >= edge else least + 1
