"""Awkward values, with which a warehouse shows that it reads values as `codec.encode` does.

All of them are ours or stand in the public schema: what a warehouse does with them tells nothing about a row.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dipsmith.codec.ibis import date, exact
from dipsmith.schema import Attribute, Bins
from dipsmith.sources.ibis_terms import Column, constant, kind_of

_EPOCH = dt.datetime(1970, 1, 1)
_LISTED = 16
"""How many listed values and edges of a domain are tried."""
_WORDS = [
    "F", "f", "M ", " M", " M ", "\tM", "M\n", "", " ", "  ", "\t", "é", "É", "e", "%", "_", "'", '"', "\\", "\\'", "''",
    "--", "x", "true", "Yes", "nO", "T", "maybe",
]  # fmt: skip
_NUMERALS = [
    "0", "1", "7", "+7", "07", "7.0", "7e0", ".5", "5.", "-3.25", "0e5", "1.0", "1e400", "-1e400", "1e-400", "-1e-400",
    "0e99999", "1e99999", "1e-99999", "inf", "-Infinity", "iNF", "nan", "1_0", "0x1", "1e", "12.5.3", "99.999", "-0", "1,5",
    " 8 ", "8\t", "7\n", "9" * 320, "1" * 25, "0." + "0" * 330 + "1", "1" + "0" * 320 + "e-318",
]  # fmt: skip
_MOMENTS = [
    "2011-01-02", " 2011-03-31 ", "2011-02-29", "2012-02-29", "1900-02-29", "2000-02-29", "2011-13-01", "2011-00-10",
    "2011-01-32", "2011-1-2", "2011-01-02T10:20", "2011-06-30 23:59:59", "2011-06-30T23:59:59.999999999",
    "2011-06-30T23:30:00-02:00", "2011-07-01T00:30+01", "2011-07-01T00:30:00+0130", "2011-07-01T00:30:00Z",
    "2011-07-01T24:00", "2011-07-01T10:60", "2011-07-01T10:10:60", "2011-07-01T10:10+24", "2011-07-01T10:10+02:60",
    "0000-01-01", "9999-12-31", "0001-01-01T00:00:00+10:00", "20110701", "2011-07-01T10", "2011-07-01x", "2011-07-01\n",
]  # fmt: skip

UNITS = pa.array(
    [None, "P1", "p1", " P1 ", "\tP1", " \tP1 ", "", " ", "é", "É", "'", "\\", "P1\n", "P1 \n"], pa.string()
)
"""Awkward texts of units."""
HASHED = ("", "a", "A", "é", "日本", "key|P1|3,0,12|0", "'", "\\", *(str(i) for i in range(8)))
"""Texts whose hashes must sort as those of Python do."""


def trials(attribute: Attribute, dtype: Any, can: Callable[[str], bool]) -> pa.Array:
    """Awkward values that a column of this type can hold, with those around the edges of the domain."""
    kind, domain = kind_of(dtype), attribute.domain
    edges = _some(domain.edges[1:-1]) if isinstance(domain, Bins) else []
    if kind == "text":
        return pa.array(_texts(attribute), pa.string())
    if kind == "boolean":
        return pa.array([None, True, False], pa.bool_())
    if kind == "real":
        points = [float(e) for e in edges]
        near = [math.nextafter(p, -math.inf) for p in points]
        odd = [math.nan, math.inf, -math.inf] if can("IsNan") else []
        values = [None, 0.0, -0.0, 0.5, 1.0, 1e20, -1e20, *points, *near, *odd]
        return pa.array(values, pa.float64()).cast(pa.float64() if dtype.nbytes == 8 else pa.float32())
    if kind in ("whole", "wide"):
        return _integers(dtype, kind == "wide", edges)
    if kind == "decimal":
        return _decimals(dtype, [*map(float, edges), 0.0, 1.0, -1.0, 12.5])
    days = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2012, 2, 29), dt.date(2200, 12, 31)]
    if isinstance(domain, Bins) and domain.scale in ("date", "datetime"):
        step = dt.timedelta(days=1) if domain.scale == "date" else dt.timedelta(microseconds=1)
        around = [(_EPOCH + int(e) * step).date() for e in edges]
        days += [day + dt.timedelta(days=d) for day in around for d in (-1, 0)]
    if kind == "date":
        return pa.array([None, *days], pa.date32())
    moments = [dt.datetime.combine(d, t) for d in days for t in (dt.time(), dt.time(23, 59, 59, 999_999))]
    return pa.array([None, *moments], pa.timestamp("us", "UTC" if kind == "timestamptz" else None))


def trial(value: object, dtype: Any) -> Column:
    """A value as a constant of a column's type."""
    if isinstance(value, float) and value == -math.inf:
        return -constant(math.inf, dtype)  # ibis forgets the sign for DataFusion
    return date(value) if type(value) is dt.date else constant(value, dtype)


def _some(values: Sequence[Any]) -> list[Any]:
    """The first and the last of many."""
    return [*values] if len(values) <= _LISTED else [*values[: _LISTED // 2], *values[-_LISTED // 2 :]]


def _texts(attribute: Attribute) -> list[str | None]:
    """Words and listed values in other spellings; numerals and dates where text is read as such."""
    domain = attribute.domain
    if isinstance(domain, Bins):
        return [None, "", " ", *(_MOMENTS if domain.scale in ("date", "datetime") else _NUMERALS)]
    listed = _some(list(domain.values))
    turned = [v.swapcase() for v in listed] + [f" {v}" for v in listed[:2]] + [f"{v}\t" for v in listed[:2]]
    read = _NUMERALS if attribute.type in ("boolean", "integer") else []
    return [None, *dict.fromkeys([*_WORDS, *read, *listed, *turned])]


def _integers(dtype: Any, wide: bool, edges: Sequence[float]) -> pa.Array:
    bits, unsigned = dtype.nbytes * 8, "u" in str(dtype)
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    around = [math.floor(e) + d for e in edges for d in (-1, 0, 1)]
    values = [v for v in (low, -1, 0, 1, 2, 7, high, *around) if low <= v <= high]
    return pa.array([None, *values], pa.uint64() if wide else pa.int64())


def _decimals(dtype: Any, points: Sequence[float]) -> pa.Array:
    unit, limit = 10**dtype.scale, 10**dtype.precision
    near = {math.floor(Fraction(p) * unit) + d for p in points for d in (-1, 0, 1)}
    made = [exact(v, dtype.scale) for v in sorted(near | {limit - 1, 1 - limit}) if abs(v) < limit]
    arrow = pa.decimal128 if dtype.precision <= 38 else pa.decimal256
    return pa.array([None, *made], arrow(dtype.precision, dtype.scale))
