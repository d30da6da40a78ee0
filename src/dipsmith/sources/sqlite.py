"""SQLite, by way of ibis: a declared type promises nothing there, so every value is looked at before it is believed.

A column that is declared INTEGER may hold text, one that is declared DATE any text or number, and text need not be
UTF-8. The engine compares all that without a word, and reading it fails: what a row holds would decide whether a run
ends. So what is not of the declared type is missing, for counting and for reading alike.
"""

from __future__ import annotations

from uuid import uuid4

from dipsmith.sources.ibis_terms import Column, Table, call, case, constant, find_view, kind_of, statement


def mend_values(table: Table) -> Table:
    """The same rows; values that are not of their column's declared type are missing, broken text is mended.

    They are a temporary view of the connection, because SQLite's parser takes statements of a small depth only.
    """
    warehouse, name = table.get_backend(), f"dipsmith_{uuid4().hex}"
    looked_at = table.select([_keep_lawful(table[column]).name(column) for column in table.columns])
    warehouse.con.execute(f"CREATE TEMPORARY VIEW {name} AS {statement(looked_at, warehouse)}")
    warehouse.con.text_factory = lambda text: text.decode("utf-8", "replace")
    kinds = {column: kind.copy(nullable=True) for column, kind in table.schema().items()}
    return find_view(name, type(table.schema())(kinds), warehouse)


def _keep_lawful(column: Column) -> Column:
    kind, dtype, stored = kind_of(column.type()), column.type(), column.typeof()
    if kind == "text":
        lawful = stored == "text"
    elif kind == "whole":
        lawful = stored == "integer"
    elif kind == "boolean":
        lawful = (stored == "integer") & column.cast("int64").isin([0, 1])
    elif kind == "real":
        lawful = stored.isin(["integer", "real"])
    elif kind == "decimal":
        lawful = stored.isin(["integer", "real"]) & (
            column.cast("float64").abs() < constant(10.0 ** (dtype.precision - dtype.scale))
        )
    elif kind in ("date", "timestamp", "timestamptz"):
        is_one = _is_day if kind == "date" else _is_moment
        lawful = (stored == "text") & is_one(column.cast("string"))
    else:
        return column
    # NOT NULL is a promise like any other
    return case((lawful, column), other=constant(None, dtype.copy(nullable=True)))


def _is_day(text: Column) -> Column:
    """Whether a text is a day of the calendar, as ISO 8601 spells it."""
    # the modifier makes 31 February a day of March
    return (call("date", str, text, "+0 days") == text) & (text >= constant("0001-01-01"))


def _is_moment(text: Column) -> Column:
    """Whether a text is a day and a time, to the microsecond at most: moments are compared as text there."""
    head, rest = text.substr(0, 19), call("replace", str, text.substr(19, 13), "+00:00", "")
    plain = head.concat(rest)
    digits = rest.substr(1, 12)
    fraction = (rest.substr(0, 1) == ".") & digits.length().between(1, 6)
    return (
        _is_day(text.substr(0, 10))
        & (call("datetime", str, head, "+0 days") == head)
        & ((rest == "") | (fraction & (call("trim", str, digits, "0123456789") == "")))
        & ((text == plain) | (text == plain.concat("+00:00")))
    )
