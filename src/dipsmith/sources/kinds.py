"""What a column of a database holds, how its texts spell numbers and moments, and how a table is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from dipsmith.errors import SourceError, UsageError

Kind = Literal["text", "whole", "wide", "real", "decimal", "boolean", "date", "timestamp", "timestamptz"]
"""What a column holds: `wide` are whole numbers beyond 64 bits, `decimal` has places after the point."""

NUMBER = "^[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
USUAL = "^[+-]?[0-9]{1,200}([.][0-9]{0,100})?([eE][+-]?[0-9]{1,2})?$"
"""Numbers that every double can hold."""
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)"
DAY, TIMED, MOMENT = f"^{_DATE}$", f"^{_DATE}{_TIME}$", f"^{_DATE}{_TIME}?$"
"""A date, a date with a time, and either."""


_HINT = "personnel or hr.personnel; write a name with a dot in double quotes"


def parts_of(table: str, quote: str = '"', hint: str = _HINT) -> list[str]:
    """The parts of a table's name, without their quotes.

    >>> parts_of('hr."personnel.2011"')
    ['hr', 'personnel.2011']
    """
    parts = re.findall(f"{quote}(?:[^{quote}]|{quote}{quote})+{quote}|[^.{quote}]+", table)
    if not table or ".".join(parts) != table or "\0" in table:
        raise UsageError(f"table= must be a name such as {hint}")
    return [p[1:-1].replace(quote * 2, quote) if p.startswith(quote) else p for p in parts]


def quote_table(table: str) -> str:
    """The name of a table, quoted part by part: ``schema.table``, or with quotes where a name has a dot.

    >>> quote_table("hr.personnel; DROP TABLE x")
    '"hr"."personnel; DROP TABLE x"'
    """
    return ".".join(map(quote, parts_of(table)))


def quote(name: str, mark: str = '"') -> str:
    """A name that is nothing but a name, as standard SQL quotes it; Spark has backticks.

    >>> quote("pay`; DROP TABLE x", "`")
    '`pay``; DROP TABLE x`'
    """
    return mark + name.replace(mark, mark * 2) + mark


def sqlite_file(address: str) -> Path:
    """The file of an SQLite address, which has to exist: ``sqlite://people.db``, ``sqlite:///srv/people.db``.

    Many write a third slash before a relative path too.
    """
    place = address.partition("://")[2].partition("?")[0]
    for path in (Path(place), Path(place.lstrip("/"))):
        if place and path.is_file():
            return path.resolve()
    raise SourceError(f"{place}: no such SQLite file; check the path")
