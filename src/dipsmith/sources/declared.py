"""The types that a source states itself, before any row: Parquet and Arrow do, CSV does not."""

from __future__ import annotations

import pyarrow as pa

from dipsmith.sources.source import Source


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
