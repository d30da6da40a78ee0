# ruff: noqa: S608  # expressions are put together from quoted names, integers and quoted constants of the schema
"""Rows → codes inside PostgreSQL: the decisions of `codec.encode` as expressions of SQL.

Guarantee. For every value of every type of column the code is the one that `Encoder` gives to the same
value read as Arrow, and no value makes a statement fail. Constants are compared in the column's own type:
a bin is found by comparing a date with dates, and a listed value stands for the one value of the column's
type that is written like it, so nothing is formatted or rounded by the server. Every constant is public
and quoted by the driver.

`tests/sources/` runs the same rows through both paths.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dipsmith.codec.encode import places
from dipsmith.codec.parse import FALSE, TRUE
from dipsmith.codec.points import Point, first_reaching, native
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Bins, Categories
from dipsmith.sources.kinds import MOMENT, NUMBER, USUAL, Kind
from dipsmith.sources.postgresql import real_of_decimal

Quote = Callable[[object], str]
"""Makes a constant of a statement of a public value, or of a list of such."""

_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_FEW = 24
"""Lists of at most so many values are compared one by one; longer ones are joined."""

_TYPES = {"wide": "text", "whole": "bigint", "real": "float8", "decimal": "float8"}
"""Types of PostgreSQL that are not called as the kind is."""


def _as_it_is(x: str) -> str:
    return x


@dataclass(frozen=True)
class CodedSql:
    """How one column is encoded, in two steps, so that the server can group in between.

    `read` is what is taken from every row, an expression over the table's columns; `early` makes of it, for every row,
    the code of a bin or leaves it as it is; `value` makes what remains to be looked up, in the table of public values
    `join` if there is one; `code` makes the code of the value and the joined code, DROP where there is none.
    """

    read: str
    early: Callable[[str], str] = _as_it_is
    value: Callable[[str], str] = _as_it_is
    join: str | None = None
    code: Callable[[str, str], str] = lambda value, _: value


def encode_in_sql(attribute: Attribute, column: str, kind: Kind, quote: Quote) -> CodedSql:
    """How an attribute is encoded from a column (an expression) of some kind."""
    domain = attribute.domain
    if isinstance(domain, Bins):
        timed = domain.scale in ("date", "datetime")
        value, kind, edges = (_time_with_edges if timed else _number_with_edges)(domain, column, kind)
        return CodedSql(value, early=lambda r: _bucket(r, kind, edges, domain.missing_code or 0, quote))
    read = f'({column})::text COLLATE "C"' if kind == "text" else column
    if attribute.type == "boolean":
        outside, absent = places(domain)
        unknown = absent if domain.missing else outside
        return CodedSql(read, value=lambda r: _truth(r, kind), code=lambda v, _: f"COALESCE({v}, {unknown})")
    if attribute.type == "integer":
        made = CodedSql(read, value=lambda r: _number(r, kind)[0])
        number = _number(read, kind)[1]
        typed = float if number == "real" else int
        listed = [(typed(v), c) for v, c in zip(domain.values, domain.codes, strict=True)]
        return _look_up(domain, made, number, listed, quote)
    return _look_up(domain, CodedSql(read, value=lambda r: _spell(r, kind)), kind, native(domain, kind), quote)


def unit_text(name: str, column: str, kind: Kind) -> str:
    """The unit's value as `counting.units.unit_text` spells it; missing is empty text."""
    if kind in _UNSPELLED:
        raise SourceError(
            f"unit column '{name}' holds {_UNSPELLED[kind]}, which engines spell differently; give a view in which "
            "it is text or a whole number"
        )
    if kind == "date":
        # dates of the years 1 to 9999, whatever the session's style
        near = f"LEAST(GREATEST({column}, DATE '0001-01-01'), DATE '9999-12-31')"
        return f"COALESCE(CASE WHEN {column} = {near} THEN to_char({near}, 'YYYY-MM-DD') END, '')"
    text = _spell(column, kind) if kind in ("text", "wide") else f"CAST({column} AS text)"
    return f"COALESCE({text}, '')"


_UNSPELLED: dict[Kind, str] = {
    "real": "numbers with a floating point",
    "decimal": "decimal numbers",
    "timestamp": "points in time",
    "timestamptz": "points in time",
}


# Categories ----------------------------------------------------------------------------------------------


def _look_up(
    domain: Categories, made: CodedSql, kind: Kind, wanted: Sequence[tuple[Point, int]], quote: Quote
) -> CodedSql:
    outside, absent = places(domain)

    def rest(v: str) -> str:
        # what is not listed is rare: only then is it asked whether there is a value at all
        return str(outside) if outside == absent else f"CASE WHEN {v} IS NULL THEN {absent} ELSE {outside} END"

    if not wanted:
        return replace(made, code=lambda v, _: rest(v))
    if len(wanted) > _FEW or kind == "wide":
        values, codes = (quote(list(part)) for part in zip(*wanted, strict=True))
        join = f"(SELECT v, c FROM unnest({values}::{_TYPES.get(kind, kind)}[], {codes}::int[]) AS pair(v, c))"
        return replace(made, join=join, code=lambda v, c: f"COALESCE({c}, {rest(v)})")
    cases = [f"WHEN CAST({quote(point)} AS {_TYPES.get(kind, kind)}) THEN {code}" for point, code in wanted]

    def found(v: str) -> str:
        return f"CASE {v} {' '.join(cases)} ELSE {rest(v)} END"

    if kind != "text":
        return replace(made, code=lambda v, _: found(v))
    # most texts stand there as they are listed: only the others are trimmed
    exact = [c for c, (point, _) in zip(cases, wanted, strict=True) if str(point).strip(" ") == point != ""]

    def code(v: str, _: str) -> str:
        trimmed = found(made.value(v))
        return f"CASE {v} {' '.join(exact)} ELSE {trimmed} END" if exact else trimmed

    return replace(made, value=_as_it_is, code=code)


def _spell(column: str, kind: Kind) -> str:
    """A value to be compared with listed ones: text trimmed, everything else as it is."""
    if kind == "text":
        return _trim(column)
    if kind == "wide":
        return f"NULLIF(CAST({column} AS text), 'NaN')"
    return _number(column, kind)[0] if kind in ("real", "decimal") else column


def _trim(x: str) -> str:
    """Text without the spaces around it, compared byte by byte; null when nothing is left."""
    return f"""NULLIF(btrim(({x})::text, ' ') COLLATE "C", '')"""


# Numbers and truth ---------------------------------------------------------------------------------------


def _number(column: str, kind: Kind) -> tuple[str, Kind]:
    """A value as a whole number or a double, null where it is no number."""
    if kind == "whole":
        return f"CAST({column} AS bigint)", "whole"
    if kind == "boolean":
        return f"CAST(CAST({column} AS integer) AS bigint)", "whole"
    if kind == "real":
        return f"NULLIF(CAST({column} AS float8), CAST('NaN' AS float8))", "real"
    if kind in ("decimal", "wide"):
        return real_of_decimal(column), "real"
    if kind == "text":
        text = _trim(column)
        return f"CASE WHEN {text} ~ '{NUMBER}' THEN {_real_of_text(text)} END", "real"
    return "CAST(NULL AS float8)", "real"


def _real_of_text(x: str) -> str:
    """A text that matches `NUMBER` as a double: PostgreSQL fails on what no double can hold, so its size is found first.

    The size is the decimal exponent of the first digit that is not 0.
    """
    digits = f"substring({x} from '^[+-]?([0-9.]+)')"
    whole = f"ltrim(split_part({digits}, '.', 1), '0')"
    zeros = f"length(substring(split_part({digits}, '.', 2) from '^0*'))"
    tens = f"COALESCE(ltrim(substring({x} from '[eE][+-]?([0-9]+)$'), '0'), '')"
    shift = (
        f"(CASE WHEN length({tens}) > 6 THEN 999999 WHEN {tens} = '' THEN 0 ELSE ({tens})::int END"
        f" * CASE WHEN {x} ~ '[eE]-' THEN -1 ELSE 1 END)"
    )
    size = f"(CASE WHEN {whole} <> '' THEN length({whole}) - 1 ELSE -1 - {zeros} END + {shift})"
    sign = f"CASE WHEN {x} LIKE '-%' THEN -1.0::float8 ELSE 1.0::float8 END"
    return (
        f"(CASE WHEN {x} ~ '{USUAL}' THEN ({x})::float8"
        f" WHEN {x} ~ '[iI]' THEN {sign} * 'Infinity'::float8"
        f" WHEN {digits} !~ '[1-9]' THEN 0.0::float8"
        f" WHEN {size} > 307 THEN {sign} * 'Infinity'::float8"
        f" WHEN {size} < -324 THEN 0.0::float8"
        f" WHEN {size} < -307 THEN {sign} * 1e-307::float8"
        f" ELSE ({x})::float8 END)"
    )


def _truth(column: str, kind: Kind) -> str:
    """1, 0 or null."""
    if kind == "boolean":
        return f"CAST({column} AS integer)"
    number = _number(column, kind)[0]
    cases = f"WHEN {number} = 1 THEN 1 WHEN {number} = 0 THEN 0"
    if kind == "text":
        lower = f"translate({_trim(column)}, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
        yes, no = (", ".join(f"'{word}'" for word in words) for words in (TRUE, FALSE))
        cases = f"WHEN {lower} IN ({yes}) THEN 1 WHEN {lower} IN ({no}) THEN 0 {cases}"
    return f"CASE {cases} END"


# Bins ----------------------------------------------------------------------------------------------------


def _bucket(x: str, kind: Kind, edges: Sequence[Point], absent: int, quote: Quote) -> str:
    """How many of the increasing edges are at most x, by the server's own binary search; `absent` where x is null."""
    if not edges:
        return f"CASE WHEN {x} IS NULL THEN {absent} ELSE 0 END"
    return f"COALESCE(width_bucket({x}, {quote(list(edges))}::{_TYPES.get(kind, kind)}[]), {absent})"


def _number_with_edges(domain: Bins, column: str, kind: Kind) -> tuple[str, Kind, list[Point]]:
    value, kind = _number(column, kind)
    inner = domain.edges[1:-1]
    if kind == "whole":
        return value, kind, [max(first_reaching(e), -(2**63)) for e in inner if e < 2.0**63]
    return value, kind, [float(e) for e in inner]


def _time_with_edges(domain: Bins, column: str, kind: Kind) -> tuple[str, Kind, list[Point]]:
    step = _DAY if domain.scale == "date" else 1
    moments = [int(e) * step for e in domain.edges[1:-1]]
    if kind == "date":
        days = [-(-m // _DAY) for m in moments]
        return column, kind, [(_EPOCH + dt.timedelta(days=d)).date() for d in days]
    if kind in ("timestamp", "timestamptz"):
        zone = dt.UTC if kind == "timestamptz" else None
        return column, kind, [(_EPOCH + dt.timedelta(microseconds=m)).replace(tzinfo=zone) for m in moments]
    if kind == "text":
        return _moment(_trim(column)), "whole", list(moments)
    return "CAST(NULL AS bigint)", "whole", list(moments)


def _moment(text: str) -> str:
    """ISO 8601 text as microseconds since 1970 in UTC, null where it is no possible date and time.

    Days are counted by arithmetic on year, month and day, because the server fails on impossible dates.
    """

    def digits(x: str) -> str:
        return f"CAST(COALESCE(NULLIF({x}, ''), '0') AS bigint)"

    def first(pattern: str) -> str:
        return f"substring(substr({text}, 17) from '({pattern})')"

    def part(start: int, length: int) -> str:
        return digits(f"substr({text}, {start}, {length})")

    year, month, day = part(1, 4), part(6, 2), part(9, 2)
    hour, minute = part(12, 2), part(15, 2)
    second = digits(f"substr({first('^:[0-9]{2}')}, 2)")
    fraction = digits(f"rpad(substr({first('[.][0-9]+')}, 2, 6), 6, '0')")
    zone = f"COALESCE(replace({first('[+-][0-9:]+$')}, ':', ''), '')"
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
        f"({early} * 365 + {early} / 4 - {early} / 100 + {early} / 400"
        f" + (153 * {months} + 2) / 5 + {day} - 1 - 719468 - 146097)"
    )
    total = f"(({days} * 86400 + {hour} * 3600 + {minute} * 60 + {second} - {shift} * 60) * 1000000 + {fraction})"
    return f"CASE WHEN {text} ~ '{MOMENT}' THEN CASE WHEN {possible} THEN {total} END END"
