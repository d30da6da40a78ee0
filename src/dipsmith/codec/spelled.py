"""Text that is spelled otherwise than plain numbers and ISO dates → the plain form, as the schema declares it.

Value by value, by one path, as in `codec.parse`: what a spelling does not read is null.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import SourceError
from dipsmith.schema import Bins, Schema
from dipsmith.schema.spelling import MONTHS, Spelling

CENTURY = 69
"""%y: from 69 on a year is of the last century, as POSIX has it."""


def refuse_spellings(schema: Schema, kinds: Mapping[str, str | None]) -> None:
    """Refuse to read cells by their spelling inside a database, where each engine would read them in its own way."""
    for attribute in schema:
        spelling = attribute.domain.spelling if isinstance(attribute.domain, Bins) else None
        stored = kinds.get(attribute.name)
        if spelling is not None and (stored == "text" or (stored == "whole" and spelling.format)):
            raise SourceError(
                f"column '{attribute.name}' is written {spelling.words}, which is read from files only; give a view of the "
                "table in which it is a number or a date, or export the table to a file"
            )


def plain_numbers(text: pa.Array, spelling: Spelling) -> pa.Array:
    """Trimmed text as plain numbers.

    >>> plain_numbers(pa.array(["-$1,234.50", "12 %", "1,5", "(3)"]), Spelling(".", ",", bare=False)).to_pylist()
    ['-1234.50', '12', None, None]
    """
    readable = pc.fill_null(pc.match_substring_regex(text, spelling.number_pattern), False)
    plain = pc.if_else(readable, text, pa.scalar(None, text.type))
    if spelling.idle_pattern:
        plain = pc.replace_substring_regex(plain, spelling.idle_pattern, "")
    return plain if spelling.decimal == "." else pc.replace_substring(plain, spelling.decimal, ".")


def parts_of_date(text: pa.Array, spelling: Spelling) -> pa.StructArray:
    """Trimmed text as digits of the parts of a date: y, m, d, H, M, S, f, z; null where it is spelled otherwise.

    >>> parts_of_date(pa.array(["31DEC70"]), Spelling(format="%d%b%y")).field("y").to_pylist()
    ['1970']
    """
    parts = pc.extract_regex(text, pattern=spelling.date_pattern)
    names = {field.name for field in parts.type}
    known = parts.is_valid()
    zero = pa.array(["0"] * len(text), text.type) if len(text) else pa.array([], text.type)
    found = {name: _part(parts, name) if name in names else zero for name in ("y", "m", "d", "H", "M", "S")}
    if "yy" in names:
        short = _part(parts, "yy")
        recent = pc.less(pc.if_else(known, short, pa.scalar("0", short.type)).cast(pa.int64()), CENTURY)
        century = pc.if_else(recent, "20", "19").cast(short.type)
        found["y"] = pc.binary_join_element_wise(century, short, pa.scalar("", short.type))
    if "b" in names:
        month = pc.index_in(pc.ascii_lower(_part(parts, "b")), value_set=pa.array(MONTHS, text.type))
        found["m"] = pc.add(month.fill_null(-1), 1).cast(text.type)  # 0 is no month
    empty = pc.if_else(known, "", "").cast(text.type)
    columns = [*found.values(), empty, empty]
    return pa.StructArray.from_arrays(columns, names=[*found, "f", "z"], mask=pc.invert(known))


def _part(parts: pa.StructArray, name: str) -> pa.Array:
    """A part of each text, empty where it has none."""
    part = parts.field(name)
    return pc.fill_null(part, pa.scalar("", part.type))
