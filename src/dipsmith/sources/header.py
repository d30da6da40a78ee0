"""The header of a table: the names and, where a source states them, the types of its columns, before any row is read.

A file without a header carries values where names should be, so a message never repeats what stands
there; it only names columns that the caller asked for, and positions. Parquet and
Arrow state types, CSV does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dipsmith.errors import SourceError
from dipsmith.sources.source import Source


def check_columns(rows: Source, required: Sequence[str]) -> None:
    """Check the header, and the types where the source knows them: the cheap part of `check`, without reading a row.

    A source may have a verb `check_columns` of its own, which knows about types.
    """
    own = getattr(rows, "check_columns", None)
    if own is None:
        check_header(rows.describe(), rows.columns, required)
    else:
        own(required)


def check_header(where: str, columns: Sequence[str], required: Sequence[str]) -> None:
    """Refuse a header with empty, repeated or missing names; `where` says for the message what has it.

    >>> check_header("people.csv", ["age", "sex"], ["sex"])
    >>> check_header("people.csv", ["age", "Sex "], ["sex"])
    Traceback (most recent call last):
    dipsmith.errors.SourceError: people.csv: column 'sex' not found among its 2 columns (one differs only \
in letter case or spaces); rename it there or in the schema
    """
    seen: dict[str, int] = {}
    for position, name in enumerate(columns, start=1):
        if not name.strip():
            raise SourceError(f"{where}: column {position} has no name; give every column of the header a name")
        if name in seen:
            called = f" ('{name}')" if name in required else ""
            raise SourceError(
                f"{where}: columns {seen[name]} and {position} have the same name{called}; rename or remove one of them"
            )
        seen[name] = position
    absent = [name for name in required if name not in seen]
    if not absent:
        return
    folded = {name.strip().casefold() for name in columns}
    near = any(name.strip().casefold() in folded for name in absent)
    hint = " (one differs only in letter case or spaces)" if near else ""
    listed = ", ".join(f"'{name}'" for name in absent)
    are, them = ("columns", "them") if len(absent) > 1 else ("column", "it")
    among = f"{len(columns)} columns" if len(columns) != 1 else "single column (is the delimiter right?)"
    raise SourceError(
        f"{where}: {are} {listed} not found among its {among}{hint}; rename {them} there or in the schema"
    )


def refuse_columns(where: str, names: Sequence[str], what: str, remedy: str) -> None:
    """Refuse the first of the columns whose values are no single ones: `what` they hold, and how to give others."""
    for name in names:
        wanted = f"{remedy} in which it is text, a number, a boolean or a date"
        raise SourceError(f"{where}: column '{name}' holds {what}; {wanted}")


def declared_types(rows: Source) -> dict[str, str]:
    """For each column whose type the source states: string, integer, number, boolean, date or datetime.

    >>> from dipsmith.sources import source
    >>> declared_types(source(pa.table({"age": [3], "zip": ["01234"]})))
    {'age': 'integer', 'zip': 'string'}
    """
    stated = getattr(rows, "types", None)
    found = {} if stated is None else {name: type_name(kind) for name, kind in stated().items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def type_name(kind: pa.DataType) -> str | None:
    """A type of Arrow as a schema calls it; None for those it has no name for, and for floats, which hold integers too."""
    if pa.types.is_dictionary(kind):
        return type_name(kind.value_type)
    for name, tests in (
        ("boolean", (pa.types.is_boolean,)),
        ("integer", (pa.types.is_integer,)),
        ("number", (pa.types.is_decimal,)),
        ("date", (pa.types.is_date,)),
        ("datetime", (pa.types.is_timestamp,)),
        ("string", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    ):
        if any(test(kind) for test in tests):
            return name
    return None
