"""Rows → codes inside an SQL engine: the decisions of `codec.encode` as expressions.

Guarantee. For every value of every type of column the code is the one that `Encoder` gives to the same
value read as Arrow, and no value makes a statement fail. Constants are compared in the column's own type:
a bin is found by comparing a date with dates, and a listed value stands for the one value of the column's
type that is written like it, so nothing is formatted or rounded in the engine. Every constant is public
and travels as a parameter.

`tests/sources/` runs the same rows through both paths on every engine.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pyarrow as pa

from dipsmith.codec.encode import DROP, places
from dipsmith.codec.parse import FALSE, TRUE, texts
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Bins, Categories
from dipsmith.sources.dialect import MOMENT, NUMBER, Dialect, Kind, Parameters, Point

_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_FEW = 24
"""Lists of at most so many values are compared one by one; longer ones are joined."""

_ARROW = {
    "whole": pa.int64(),
    "real": pa.float64(),
    "decimal": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us"),
}


@dataclass(frozen=True)
class Coded:
    """How one column is encoded, in two steps, so that an engine can group in between.

    Attributes
    ----------
    read
        What is taken from every row, as an expression over the table's columns: a trimmed text, a number.
    early
        What is made of it for every row, over ``{r}``: the code of a bin, otherwise what was read.
    value
        What remains to be looked up, over ``{r}``.
    join
        A table of public values to join on `value`, or None.
    code
        The code, over ``{v}`` (the value) and ``{c}`` (the joined code); DROP where there is none.
    """

    read: str
    early: str = "{r}"
    value: str = "{r}"
    join: str | None = None
    code: str = "{v}"


def coded(attribute: Attribute, column: str, kind: Kind, dialect: Dialect, parameters: Parameters) -> Coded:
    """How an attribute is encoded from a column of some kind.

    Parameters
    ----------
    attribute
        The public description of the column.
    column
        The column as an expression.
    kind
        What the column holds.
    dialect, parameters
        How the engine spells things, and where public values go.
    """
    domain = attribute.domain
    if isinstance(domain, Bins):
        return _bins(domain, column, kind, dialect, parameters)
    if attribute.type == "boolean":
        outside, absent = places(domain)
        unknown = absent if domain.missing else outside
        return Coded(
            _plain(column, kind, dialect),
            value=_truth("{r}", kind, dialect),
            code=f"COALESCE({{v}}, {unknown})",
        )
    if attribute.type == "integer":
        read = _plain(column, kind, dialect)
        value, kind = _number("{r}", kind, dialect)
        wanted: list[tuple[Point, int]] = [
            (float(v) if kind == "real" else int(v), c)
            for v, c in zip(domain.values, domain.codes, strict=True)
        ]
    else:
        read, value = _plain(column, kind, dialect), _spelled("{r}", kind, dialect)
        wanted = native(domain, kind)
    return _looked_up(domain, Coded(read, value=value), kind, wanted, dialect, parameters)


def unit_text(name: str, column: str, kind: Kind, dialect: Dialect) -> str:
    """The unit's value as `counting.units.unit_text` spells it; missing is empty text."""
    if kind in ("real", "decimal", "timestamp", "timestamptz"):
        raise SourceError(
            f"unit column '{name}' holds {_WORDS[kind]}, which engines spell differently; give a view in which "
            "it is text or a whole number"
        )
    if kind == "date":
        return f"COALESCE({dialect.day(column)}, '')"
    if kind in ("text", "wide"):
        return f"COALESCE({_spelled(column, kind, dialect)}, '')"
    return f"COALESCE(CAST({column} AS {dialect.text}), '')"


_WORDS = {
    "real": "numbers with a floating point",
    "decimal": "decimal numbers",
    "timestamp": "points in time",
    "timestamptz": "points in time",
}


# Categories ----------------------------------------------------------------------------------------------


def _looked_up(
    domain: Categories,
    made: Coded,
    kind: Kind,
    wanted: Sequence[tuple[Point, int]],
    dialect: Dialect,
    parameters: Parameters,
) -> Coded:
    outside, absent = places(domain)
    # what is not listed is rare: only then is it asked whether there is a value at all
    rest = str(outside) if outside == absent else f"CASE WHEN {{v}} IS NULL THEN {absent} ELSE {outside} END"
    if not wanted:
        return replace(made, code=rest)
    if len(wanted) <= _FEW and kind != "wide":
        cases = [
            f"WHEN CAST({dialect.placeholder(parameters.add(point))} AS {_type(kind, dialect)}) THEN {code}"
            for point, code in wanted
        ]
        found = f"CASE {{v}} {' '.join(cases)} ELSE {rest} END"
        if kind != "text":
            return replace(made, code=found)
        # most texts stand there as they are listed: only the others are trimmed
        exact = [
            c for c, (point, _) in zip(cases, wanted, strict=True) if str(point).strip(" ") == point != ""
        ]
        trimmed = found.replace("{v}", made.value.replace("{r}", "{v}"))
        return replace(
            made, value="{r}", code=f"CASE {{v}} {' '.join(exact)} ELSE {trimmed} END" if exact else trimmed
        )
    points, codes = zip(*wanted, strict=True)
    join = dialect.listed(points, kind, codes, parameters)
    return replace(made, join=join, code=f"COALESCE({{c}}, {rest})")


def _type(kind: Kind, dialect: Dialect) -> str:
    names = {
        "text": dialect.text,
        "whole": "bigint",
        "real": "double precision",
        "decimal": "double precision",
        "boolean": "boolean",
        "date": "date",
        "timestamp": "timestamp",
        "timestamptz": "timestamptz",
    }
    return names[kind]


def _plain(column: str, kind: Kind, dialect: Dialect) -> str:
    """A column as it is, but texts that differ stay different whatever the column's collation says."""
    return dialect.plain_text(column) if kind == "text" else column


def _spelled(column: str, kind: Kind, dialect: Dialect) -> str:
    """A value to be compared with listed ones: text trimmed, everything else as it is."""
    if kind == "text":
        return dialect.trimmed(column)
    if kind == "wide":
        return f"NULLIF(CAST({column} AS {dialect.text}), 'NaN')"
    return _number(column, kind, dialect)[0] if kind in ("real", "decimal") else column


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
            found.append((_zoned(point[0].as_py(), kind), code))
    return found


def _zoned(point: Point, kind: Kind) -> Point:
    return point.replace(tzinfo=dt.UTC) if kind == "timestamptz" and isinstance(point, dt.datetime) else point


# Numbers and truth ---------------------------------------------------------------------------------------


def _number(column: str, kind: Kind, dialect: Dialect) -> tuple[str, Kind]:
    """A value as a whole number or a double, null where it is no number."""
    if kind == "whole":
        return f"CAST({column} AS bigint)", "whole"
    if kind == "boolean":
        return f"CAST(CAST({column} AS integer) AS bigint)", "whole"
    if kind == "real":
        return f"NULLIF(CAST({column} AS double precision), CAST('NaN' AS double precision))", "real"
    if kind in ("decimal", "wide"):
        return dialect.real_of_decimal(column), "real"
    if kind == "text":
        text = dialect.trimmed(column)
        return f"CASE WHEN {dialect.matches(text, NUMBER)} THEN {dialect.real_of_text(text)} END", "real"
    return "CAST(NULL AS double precision)", "real"


def _truth(column: str, kind: Kind, dialect: Dialect) -> str:
    """1, 0 or null."""
    if kind == "boolean":
        return f"CAST({column} AS integer)"
    number = _number(column, kind, dialect)[0]
    cases = f"WHEN {number} = 1 THEN 1 WHEN {number} = 0 THEN 0"
    if kind == "text":
        lower = f"translate({dialect.trimmed(column)}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
        yes, no = (", ".join(f"'{word}'" for word in words) for words in (TRUE, FALSE))
        cases = f"WHEN {lower} IN ({yes}) THEN 1 WHEN {lower} IN ({no}) THEN 0 {cases}"
    return f"CASE {cases} END"


# Bins ----------------------------------------------------------------------------------------------------


def _bins(domain: Bins, column: str, kind: Kind, dialect: Dialect, parameters: Parameters) -> Coded:
    absent = domain.missing_code or 0
    value, kind, edges = (
        _timed(domain, column, kind, dialect)
        if domain.scale in ("date", "datetime")
        else _numbered(domain, column, kind, dialect)
    )
    return Coded(value, early=dialect.bucket("{r}", kind, edges, absent, parameters))


def _numbered(domain: Bins, column: str, kind: Kind, dialect: Dialect) -> tuple[str, Kind, list[Point]]:
    value, kind = _number(column, kind, dialect)
    inner = domain.edges[1:-1]
    if kind == "whole":
        return value, kind, [max(first_whole(e), -(2**63)) for e in inner if e < 2.0**63]
    return value, kind, [float(e) for e in inner]


def first_whole(edge: float) -> int:
    """The least whole number that reaches an edge: the nearest double of a large one may, though it does not itself.

    >>> first_whole(1.5), first_whole(2.0**53 + 4) - 2**53
    (2, 3)
    """
    below = math.nextafter(edge, -math.inf)
    if abs(edge) < 2.0**53 or math.isinf(below):
        return math.ceil(edge)
    least = math.ceil((Fraction(below) + Fraction(edge)) / 2)
    return least if float(least) >= edge else least + 1


def _timed(domain: Bins, column: str, kind: Kind, dialect: Dialect) -> tuple[str, Kind, list[Point]]:
    step = _DAY if domain.scale == "date" else 1
    moments = [int(e) * step for e in domain.edges[1:-1]]
    if kind == "date":
        days = [-(-m // _DAY) for m in moments]
        return column, kind, [(_EPOCH + dt.timedelta(days=d)).date() for d in days]
    if kind in ("timestamp", "timestamptz"):
        zone = dt.UTC if kind == "timestamptz" else None
        return column, kind, [(_EPOCH + dt.timedelta(microseconds=m)).replace(tzinfo=zone) for m in moments]
    if kind == "text":
        return _moment(dialect.trimmed(column), dialect), "whole", list(moments)
    return "CAST(NULL AS bigint)", "whole", list(moments)


def _moment(text: str, dialect: Dialect) -> str:
    """ISO 8601 text as microseconds since 1970 in UTC, null where it is no possible date and time.

    Days are counted by arithmetic on year, month and day, because engines fail on impossible dates.
    """

    def digits(x: str) -> str:
        return f"CAST(COALESCE(NULLIF({x}, ''), '0') AS bigint)"

    def part(start: int, length: int) -> str:
        return digits(f"substr({text}, {start}, {length})")

    year, month, day = part(1, 4), part(6, 2), part(9, 2)
    hour, minute = part(12, 2), part(15, 2)
    rest = f"substr({text}, 17)"
    second = digits(f"substr({dialect.found(rest, '^:[0-9]{2}')}, 2)")
    fraction = digits(f"rpad(substr({dialect.found(rest, '[.][0-9]+')}, 2, 6), 6, '0')")
    zone = f"COALESCE(replace({dialect.found(rest, '[+-][0-9:]+$')}, ':', ''), '')"
    east, along = digits(f"substr({zone}, 2, 2)"), digits(f"substr({zone}, 4, 2)")
    shift = f"(CASE WHEN substr({zone}, 1, 1) = '-' THEN -1 ELSE 1 END * ({east} * 60 + {along}))"
    leap = f"(mod({year}, 4) = 0 AND (mod({year}, 100) <> 0 OR mod({year}, 400) = 0))"
    length = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
    possible = (
        f"{month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {length} AND {hour} <= 23 AND {minute} <= 59 "
        f"AND {second} <= 59 AND {east} <= 23 AND {along} <= 59"
    )
    # the year begins in March, four centuries early: every term below is then positive (Hinnant 2013)
    early = f"({year} + 400 - CASE WHEN {month} <= 2 THEN 1 ELSE 0 END)"
    months = f"({month} + CASE WHEN {month} > 2 THEN -3 ELSE 9 END)"
    days = (
        f"({early} * 365 + {dialect.quotient(early, 4)} - {dialect.quotient(early, 100)} + {dialect.quotient(early, 400)}"
        f" + {dialect.quotient(f'153 * {months} + 2', 5)} + {day} - 1 - 719468 - 146097)"
    )
    total = (
        f"(({days} * 86400 + {hour} * 3600 + {minute} * 60 + {second} - {shift} * 60) * 1000000 + {fraction})"
    )
    return f"CASE WHEN {dialect.matches(text, MOMENT)} THEN CASE WHEN {possible} THEN {total} END END"


__all__ = ["DROP", "Coded", "coded", "unit_text"]
