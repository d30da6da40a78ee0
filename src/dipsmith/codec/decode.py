"""Codes → rows: labels for categories, draws within bins for numbers and times, null for missing.

Decoding reads codes that a model produced, never private rows; its randomness is a matter of
convenience, not of privacy, so any numpy generator will do. Every decoded row encodes back to the
same codes under `released_schema`, exactly, for every code: both ends of every bin are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.codec.within import BinPoints
from dipsmith.schema import Attribute, Bins, Categories, Codes, Schema, Unit
from dipsmith.schema.attribute import Type, is_whole
from dipsmith.schema.bins import show

_BLOCK = 1 << 15


def decode(codes: Codes, rng: np.random.Generator) -> pa.Table:
    """Turn codes into a table of released values; those within bins are drawn by the law of the bins (`within`).

    Strings become dictionaries of the collapsed labels, integers int64, numbers float64, booleans, dates date32,
    datetimes timestamps in microseconds (UTC, without a zone).

    >>> from dipsmith.schema.bins import by_width
    >>> s = Schema("t", (Attribute("age", "integer", by_width("integer", 17, 90, 5)),), Unit(), "replace")
    >>> table = decode(Codes.of(s, {"age": np.array([0, 14])}), np.random.default_rng(0))
    >>> 17 <= table["age"][0].as_py() <= 21, 87 <= table["age"][1].as_py() <= 90
    (True, True)
    """
    units = codes.units if codes.schema.unit.order is not None else None  # members of a household are not alike
    arrays = [decode_column(codes.schema[name], codes[name], rng, units) for name in codes.names]
    return pa.table(arrays, names=list(codes.names))


def decode_column(
    attribute: Attribute, codes: NDArray[np.unsignedinteger], rng: np.random.Generator, units: Ints | None = None
) -> pa.Array:
    """Turn the codes of one column into released values.

    Rows of one unit lie at the same place of their bins: whoever stays in a bin keeps the value.
    """
    domain = attribute.domain
    absent = None if domain.missing_code is None else codes == domain.missing_code
    if isinstance(domain, Bins):
        places = None if units is None else rng.random(int(units.max(initial=0)) + 1)[units]
        return _points(domain, codes, absent, rng, places)
    at = codes if absent is None else np.where(absent, 0, codes)
    if attribute.type == "boolean":
        return pa.array(at.astype(bool), mask=absent)
    if released_type(attribute) == "integer":
        return pa.array(np.array([int(label) for label in domain.labels], dtype=np.int64)[at], mask=absent)
    indices = pa.array(at.astype(np.int32), mask=absent)
    return pa.DictionaryArray.from_arrays(indices, pa.array(domain.labels, pa.string()))


def _points(
    domain: Bins,
    codes: NDArray[np.unsignedinteger],
    absent: Bools | None,
    rng: np.random.Generator,
    places: Floats | None,
) -> pa.Array:
    drawn = np.empty(len(codes), dtype=np.int64 if domain.whole else np.float64)
    points = BinPoints.of(domain)
    for start in range(0, len(codes), _BLOCK):
        block = slice(start, start + _BLOCK)
        at = codes[block] if absent is None else np.where(absent[block], 0, codes[block])
        drawn[block] = points.draw(at, rng.random(len(at)) if places is None else places[block])
    if domain.scale == "date":
        return pa.array(drawn.astype(np.int32), mask=absent).cast(pa.date32())
    values = pa.array(drawn, mask=absent)
    return values.cast(pa.timestamp("us")) if domain.scale == "datetime" else values


def released_type(attribute: Attribute) -> Type:
    """Tell the type of a released column: an integer list collapsed to words is released as text."""
    domain = attribute.domain
    if attribute.type == "integer" and isinstance(domain, Categories) and not all(map(is_whole, domain.labels)):
        return "string"
    return attribute.type


def released_schema(schema: Schema) -> Schema:
    """Describe what is released: labels as values, the same codes, no unit column.

    Under `label` the public columns are released as they stand, and keep their description; where it is public which rows
    belong together, the unit's column has new numbers that say so.
    """
    verbatim = schema.public if schema.neighbours == "label" else ()
    attributes = tuple(a if a.name in verbatim else _describe_released(a) for a in schema.attributes)
    notes = schema.notes
    if schema.unit.column is not None:
        notes = (*notes, f"unit of protection: {schema.unit}")
    unit = Unit() if schema.linked is None else schema.unit
    members = schema.members
    if members is not None:
        members = replace(members, schema=replace(released_schema(members.schema), notes=members.schema.notes))
    return replace(schema, attributes=attributes, unit=unit, notes=notes, members=members)


def _describe_released(attribute: Attribute) -> Attribute:
    domain = attribute.domain
    if isinstance(domain, Bins) or domain.values == domain.labels:
        return attribute
    listed = replace(domain, values=domain.labels, codes=tuple(range(len(domain.labels))))
    return replace(attribute, domain=listed, type=released_type(attribute))


def codebook(schema: Schema) -> pa.Table:
    """List every code of every column, for people who read the release in another program."""
    names = ("column", "code", "label", "lower", "upper", "type", "role", "note", "title")
    entries = [entry for one in schema.tables for attribute in one.attributes for entry in _entries(attribute, one)]
    kinds = [(name, pa.int64() if name == "code" else pa.string()) for name in names]
    return pa.Table.from_pylist(entries, pa.schema(kinds))


def _entries(attribute: Attribute, schema: Schema) -> Iterator[dict[str, object]]:
    domain = attribute.domain
    verbatim = schema.neighbours == "label" and attribute.role == "public"
    shared = {
        "column": attribute.name,
        "type": attribute.type if verbatim else released_type(attribute),
        "role": attribute.role,
        "title": attribute.title or None,
    }
    for code, label in enumerate(domain.names):
        ends: dict[str, object] = {}
        if code == domain.missing_code:
            note = "missing"
        elif isinstance(domain, Bins):
            first, beyond = domain.edges[code : code + 2]
            ends = {"lower": show(domain.scale, first), "upper": show(domain.scale, beyond - domain.whole)}
            note = _bin_note(domain, code)
        else:
            note = _label_note(domain, code)
        if verbatim:
            note = "; ".join(filter(None, [note, "released as it stands"]))
        yield {**shared, "code": code, "label": label, **ends, "note": note}


def _bin_note(domain: Bins, code: int) -> str:
    last = len(domain.labels) - 1
    notes = ["upper end excluded"] if code < last and not domain.whole else []
    notes += ["and anything below"] if code == 0 else []
    notes += ["and anything above"] if code == last else []
    notes += ["and unreadable values"] if code == 0 and not domain.missing else []
    return "; ".join(notes)


def _label_note(domain: Categories, code: int) -> str:
    raw = [v for v, c in zip(domain.values, domain.codes, strict=True) if c == code]
    shown = ", ".join(raw[:5]) + (f" and {len(raw) - 5} more" if len(raw) > 5 else "")
    notes = [f"stands for {shown}"] if raw != [domain.labels[code]] else []
    notes += ["and values outside the list"] if code == domain.other else []
    return "; ".join(notes)
