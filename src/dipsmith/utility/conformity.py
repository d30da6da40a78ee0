"""How a confidential file fits its schema: exact counts of what falls outside it.

Confidential by nature: the counts are exact. Whoever shows them logs the look first.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import booleans, texts
from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.sources import Source
from dipsmith.utility.authentic import values_of


def conformity(source: Source, schema: Schema) -> dict[str, int]:
    """Rows, and per column: missing values, values that cannot be read, values outside the domain."""
    found: Counter[str] = Counter(
        {"rows": 0, "rows left out (a value without a place)": 0, "rows that break a rule": 0}
    )
    encoder = Encoder(schema)
    for batch in source.batches(schema.names):
        codes, keep = encoder.encode(batch)
        found["rows"] += batch.num_rows
        found["rows left out (a value without a place)"] += int((~keep).sum())
        found["rows that break a rule"] += int((~codes.lawful() & keep).sum())
        for attribute in schema:
            for what, n in _column(batch.column(attribute.name), attribute).items():
                found[f"{attribute.name}: {what}"] += n
    return dict(found)


def _column(column: pa.Array, attribute: Attribute) -> dict[str, int]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    text = None if pa.types.is_temporal(column.type) else texts(column)
    missing = column.null_count if text is None else text.null_count
    present = len(column) - missing
    domain = attribute.domain
    if isinstance(domain, Bins):
        values, known = values_of(column, domain, beyond=1)
        readable = np.ones(len(column), dtype=bool) if known is None else known
        outside = readable & ((values < domain.minimum) | (values > domain.maximum))
        return {
            "missing": missing,
            "unreadable": present - int(readable.sum()),
            "outside the bounds": int(outside.sum()),
        }
    if attribute.type == "boolean":
        return {"missing": missing, "unreadable": present - int(booleans(column)[1].sum())}
    listed = pc.is_in(texts(column), pa.array(domain.values, pa.string()))
    return {"missing": missing, "outside the list": present - int(pc.sum(listed).as_py() or 0)}
