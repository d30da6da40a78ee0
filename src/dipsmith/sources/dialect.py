# ruff: noqa: S608  # statements are put together from quoted names, integers and placeholders only
"""How SQL engines spell the few things in which they differ: one small value per engine.

Everything that is decided about a value is decided in `codec.sql`, once for all engines; a dialect only
says how an engine writes a trimmed text, a bucket, a hash. No value of a schema or of a row ever becomes
part of a statement's text: names are quoted here, public values travel as parameters, and what is written
out are integers and the constants below.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

Kind = Literal["text", "whole", "wide", "real", "decimal", "boolean", "date", "timestamp", "timestamptz"]
"""What a column holds: `wide` are whole numbers beyond 64 bits, `decimal` has places after the point."""

Point = int | float | str | bool | dt.date | dt.datetime
"""A public value as a parameter."""

NUMBER = "^[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)"
DAY, TIMED, MOMENT = f"^{_DATE}$", f"^{_DATE}{_TIME}$", f"^{_DATE}{_TIME}?$"
"""A date, a date with a time, and either."""


@dataclass
class Parameters:
    """The public values of one statement, by the name of their placeholder."""

    values: dict[str, object] = field(default_factory=dict)

    def add(self, value: object) -> str:
        """Take a value; return its name."""
        name = f"p{len(self.values)}"
        self.values[name] = value
        return name


class Dialect(Protocol):
    """What an engine spells in its own way."""

    @property
    def text(self) -> str:
        """The type of text."""

    def name(self, column: str) -> str:
        """A quoted identifier."""

    def placeholder(self, name: str) -> str:
        """A parameter in the text of a statement."""

    def plain_text(self, x: str) -> str:
        """Text that is compared byte by byte."""

    def trimmed(self, x: str) -> str:
        """Text without the spaces around it, compared byte by byte; null when nothing is left."""

    def day(self, x: str) -> str:
        """A date of the years 1 to 9999 as ISO text, null for others: engines have, and spell, different ones."""

    def matches(self, x: str, pattern: str) -> str:
        """Whether a text matches one of the patterns above."""

    def found(self, x: str, pattern: str) -> str:
        """The first part of a text that matches, null or empty when there is none."""

    def real_of_text(self, x: str) -> str:
        """A text that matches `NUMBER` as a double, without ever failing."""

    def real_of_decimal(self, x: str) -> str:
        """A decimal as the nearest double."""

    def quotient(self, a: str, b: int) -> str:
        """Whole quotient of numbers that are not negative."""

    def total(self, n: str) -> str:
        """The sum of 64-bit counts, as one."""

    def bucket(self, x: str, kind: Kind, edges: Sequence[Point], absent: int, parameters: Parameters) -> str:
        """How many of the increasing edges are at most x; `absent` where x is null."""

    def listed(
        self, values: Sequence[Point], kind: Kind, codes: Sequence[int], parameters: Parameters
    ) -> str:
        """A table of two columns, v and c, made of public values."""

    def hashed(self, x: str) -> str:
        """SHA-256 of a text, in a form that sorts by its bytes."""


@dataclass(frozen=True)
class DuckDB:
    """DuckDB 1.0 and later."""

    text: str = "VARCHAR"

    def name(self, column: str) -> str:
        """A quoted identifier."""
        return '"' + column.replace('"', '""') + '"'

    def placeholder(self, name: str) -> str:
        """A named parameter."""
        return f"${name}"

    def plain_text(self, x: str) -> str:
        """The collation undoes a column's own."""
        return f'CAST({x} AS VARCHAR) COLLATE "C"'

    def trimmed(self, x: str) -> str:
        """Text without spaces around it."""
        return f"""NULLIF(trim(CAST({x} AS VARCHAR), ' ') COLLATE "C", '')"""

    def day(self, x: str) -> str:
        """A date of the years 1 to 9999 as ISO text."""
        return f"CASE WHEN {x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN CAST({x} AS VARCHAR) END"

    def matches(self, x: str, pattern: str) -> str:
        """RE2, as Arrow."""
        return f"regexp_matches({x}, '{pattern}')"

    def found(self, x: str, pattern: str) -> str:
        """The first match."""
        return f"regexp_extract({x}, '{pattern}')"

    def real_of_text(self, x: str) -> str:
        """What overflows is infinite, what underflows is 0."""
        return f"TRY_CAST({x} AS DOUBLE)"

    def real_of_decimal(self, x: str) -> str:
        """By way of text, which is read exactly."""
        return f"CAST(CAST({x} AS VARCHAR) AS DOUBLE)"

    def quotient(self, a: str, b: int) -> str:
        """Whole division."""
        return f"(({a}) // {b})"

    def total(self, n: str) -> str:
        """A sum of 128 bits, cut back."""
        return f"CAST(sum({n}) AS bigint)"

    def bucket(self, x: str, kind: Kind, edges: Sequence[Point], absent: int, parameters: Parameters) -> str:
        """By arithmetic where whole edges are evenly spaced, else a tree of comparisons: nothing searches a list."""
        del parameters
        whole = [edge for edge in edges if isinstance(edge, int)]
        if len(whole) == len(edges) > 2 and len({b - a for a, b in pairwise(whole)}) == 1:
            first, last, step = whole[0], whole[-1], whole[1] - whole[0]
            return (
                f"(CASE WHEN {x} IS NULL THEN {absent} WHEN {x} < {first} THEN 0 WHEN {x} >= {last} THEN {len(whole)} "
                f"ELSE ({x} - {first}) // {step} + 1 END)"
            )

        def within(low: int, high: int) -> str:
            if low == high:
                return str(low)
            middle = (low + high) // 2
            return (
                f"CASE WHEN {x} < {_literal(edges[middle], kind)} THEN {within(low, middle)} "
                f"ELSE {within(middle + 1, high)} END"
            )

        return f"(CASE WHEN {x} IS NULL THEN {absent} ELSE {within(0, len(edges))} END)"

    def listed(
        self, values: Sequence[Point], kind: Kind, codes: Sequence[int], parameters: Parameters
    ) -> str:
        """Two lists side by side."""
        v, c = (self.placeholder(parameters.add(list(p))) for p in (values, codes))
        return (
            f"(SELECT unnest(CAST({v} AS {_DUCKDB_TYPES[kind]}[])) AS v, unnest(CAST({c} AS INTEGER[])) AS c)"
        )

    def hashed(self, x: str) -> str:
        """Hexadecimal text, in binary collation."""
        return f"sha256({x})"


@dataclass(frozen=True)
class PostgreSQL:
    """PostgreSQL 13 and later."""

    text: str = "text"

    def name(self, column: str) -> str:
        """A quoted identifier; a percent sign would begin a placeholder."""
        return '"' + column.replace('"', '""').replace("%", "%%") + '"'

    def placeholder(self, name: str) -> str:
        """A named parameter."""
        return f"%({name})s"

    def plain_text(self, x: str) -> str:
        """The collation undoes a column's own."""
        return f'({x})::text COLLATE "C"'

    def trimmed(self, x: str) -> str:
        """Text without spaces around it."""
        return f"""NULLIF(btrim(({x})::text, ' ') COLLATE "C", '')"""

    def day(self, x: str) -> str:
        """A date of the years 1 to 9999 as ISO text, whatever the session's style."""
        near = f"LEAST(GREATEST({x}, DATE '0001-01-01'), DATE '9999-12-31')"
        return f"CASE WHEN {x} = {near} THEN to_char({near}, 'YYYY-MM-DD') END"

    def matches(self, x: str, pattern: str) -> str:
        """Advanced regular expressions."""
        return f"({x} ~ '{pattern}')"

    def found(self, x: str, pattern: str) -> str:
        """The first match."""
        return f"substring({x} from '({pattern})')"

    def real_of_text(self, x: str) -> str:
        """PostgreSQL fails on what a double cannot hold, so the size of a number is found first.

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
        sign = f"CASE WHEN {x} LIKE '-%%' THEN -1.0::float8 ELSE 1.0::float8 END"
        return (
            f"(CASE WHEN {x} ~ '{USUAL}' THEN ({x})::float8"
            f" WHEN {x} ~ '[iI]' THEN {sign} * 'Infinity'::float8"
            f" WHEN {digits} !~ '[1-9]' THEN 0.0::float8"
            f" WHEN {size} > 307 THEN {sign} * 'Infinity'::float8"
            f" WHEN {size} < -324 THEN 0.0::float8"
            f" WHEN {size} < -307 THEN {sign} * 1e-307::float8"
            f" ELSE ({x})::float8 END)"
        )

    def real_of_decimal(self, x: str) -> str:
        """A numeric that a double cannot hold is infinite or next to nothing."""
        return (
            f"(CASE WHEN {x} = 'NaN' THEN NULL WHEN {x} > 1e307 THEN 'Infinity'::float8"
            f" WHEN {x} < -1e307 THEN '-Infinity'::float8 WHEN {x} > 0 AND {x} < 1e-307 THEN 1e-307::float8"
            f" WHEN {x} < 0 AND {x} > -1e-307 THEN -1e-307::float8 ELSE ({x})::float8 END)"
        )

    def quotient(self, a: str, b: int) -> str:
        """Whole division."""
        return f"(({a}) / {b})"

    def total(self, n: str) -> str:
        """By halves: the sum of 64-bit numbers is a decimal here, which costs three times as much."""
        return f"((sum(({n} >> 30)::int4) << 30) + sum(({n} & 1073741823)::int4))"

    def bucket(self, x: str, kind: Kind, edges: Sequence[Point], absent: int, parameters: Parameters) -> str:
        """The engine's own binary search."""
        if not edges:
            return f"CASE WHEN {x} IS NULL THEN {absent} ELSE 0 END"
        thresholds = self.placeholder(parameters.add(list(edges)))
        return f"COALESCE(width_bucket({x}, {thresholds}::{_POSTGRESQL_TYPES[kind]}[]), {absent})"

    def listed(
        self, values: Sequence[Point], kind: Kind, codes: Sequence[int], parameters: Parameters
    ) -> str:
        """Two arrays side by side."""
        v, c = (self.placeholder(parameters.add(list(p))) for p in (values, codes))
        return f"(SELECT v, c FROM unnest({v}::{_POSTGRESQL_TYPES[kind]}[], {c}::int[]) AS pair(v, c))"

    def hashed(self, x: str) -> str:
        """Bytes."""
        return f"sha256(convert_to({x}, 'UTF8'))"


USUAL = "^[+-]?[0-9]{1,200}([.][0-9]{0,100})?([eE][+-]?[0-9]{1,2})?$"
"""Numbers that every double can hold."""

_DUCKDB_TYPES: dict[Kind, str] = {
    "text": "VARCHAR",
    "whole": "BIGINT",
    "wide": "VARCHAR",
    "real": "DOUBLE",
    "decimal": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
}
_POSTGRESQL_TYPES: dict[Kind, str] = {
    "text": "text",
    "whole": "bigint",
    "wide": "text",
    "real": "float8",
    "decimal": "float8",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
}


def _literal(point: Point, kind: Kind) -> str:
    """A number or a point in time as SQL; only these are ever written out."""
    if isinstance(point, bool | str):
        raise TypeError(f"a {type(point).__name__} is a parameter, never written out")
    if isinstance(point, int):
        return str(point)
    if isinstance(point, float):
        return f"CAST('{point!r}' AS DOUBLE)"
    return f"CAST('{point.isoformat()}' AS {_DUCKDB_TYPES[kind]})"
