"""Authentic cells that the schema does not hold: what cannot be read, what lies outside the domain. CONFIDENTIAL.

Such cells are counted silently as missing, as another value or at a bound (a run may say nothing that depends on a value), so a
comparison by codes finds them well kept. It has to say first how many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.codec.parse import booleans, texts, values_of
from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.sources import Source

MISSING = "missing"
NOTICEABLE = 0.01
"""More than this share of a column's cells is worth a sentence at the top."""
_IN_WORDS = {
    "unreadable": "cannot be read as {type}",
    "outside the bounds": "lie outside the bounds",
    "outside the list": "are not in the list of values",
}


@dataclass(frozen=True)
class UnfitCells:
    """How many cells of a column the schema does not hold, and in what way."""

    column: str
    type: str
    what: str
    cells: int
    rows: int

    @property
    def share(self) -> float:
        """Of all rows."""
        return self.cells / self.rows

    def __str__(self) -> str:
        said = _IN_WORDS[self.what].format(type=f"{'an' if self.type == 'integer' else 'a'} {self.type}")
        return f"{self.cells:,} cells of {self.column} ({self.share:.1%}) {said}"


def find_unfit(source: Source, schema: Schema, names: Sequence[str]) -> tuple[UnfitCells, ...]:
    """The columns with such cells, the most first.

    Privacy
    -------
    Exact counts: confidential. Whoever shows them logs the look first.
    """
    found: Counter[tuple[str, str]] = Counter()
    rows = 0
    for batch in source.batches(names):
        rows += batch.num_rows
        for name in names:
            for what, n in count_unfit(batch.column(name), schema[name]).items():
                found[name, what] += n
    made = [
        UnfitCells(name, schema[name].type, what, n, rows) for (name, what), n in found.items() if n and what != MISSING
    ]
    return tuple(sorted(made, key=lambda m: (-m.cells, m.column)))


def count_unfit(column: pa.Array, attribute: Attribute) -> dict[str, int]:
    """Missing cells of a column, those that cannot be read, those outside its domain."""
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
            MISSING: missing,
            "unreadable": present - int(readable.sum()),
            "outside the bounds": int(outside.sum()),
        }
    if attribute.type == "boolean":
        return {MISSING: missing, "unreadable": present - int(booleans(column)[1].sum())}
    listed = pc.is_in(texts(column), pa.array(domain.values, pa.string()))
    return {MISSING: missing, "outside the list": present - int(pc.sum(listed).as_py() or 0)}


def tell_unfit(unfit: Sequence[UnfitCells]) -> str:
    """A sentence for the top of a comparison where there are more than a few; empty otherwise."""
    many = [m for m in unfit if m.share > NOTICEABLE]
    if not many:
        return ""
    more = f"; and {len(many) - 3} columns more" if len(many) > 3 else ""
    listed = "; ".join(map(str, many[:3]))
    return (
        f"Not as the schema says: {listed}{more}. A release counts them as missing, at a bound or as another value, and so does "
        "this comparison: mend the schema first; a check of the schema with the file counts them again."
    )
