"""Text columns as the types the schema declares, wherever nothing is lost.

A CSV is read as text, so that no value of a private row can change how a file is read. Public columns
are released as they stand; where every value of a public column is the canonical text of its declared
type, releasing the typed value is the same information in a form that R, Stata and pandas can use.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.schema import Schema

_TYPES = {"integer": pa.int64(), "number": pa.float64(), "date": pa.date32()}


def as_declared(table: pa.Table, schema: Schema) -> pa.Table:
    """Cast the text columns of public attributes where casting back gives the same text."""
    for attribute in schema:
        wanted = _TYPES.get(attribute.type)
        if wanted is None or attribute.role != "public" or attribute.name not in table.column_names:
            continue
        index = table.column_names.index(attribute.name)
        column = table.column(index)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        text = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        try:
            cast = text.cast(wanted)
        except pa.ArrowInvalid:
            continue
        if attribute.type == "number" or pc.all(pc.equal(cast.cast(column.type), text)).as_py() in (
            True,
            None,
        ):
            table = table.set_column(index, attribute.name, cast)
    return table
