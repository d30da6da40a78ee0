"""Drafts from descriptions and from rows that may be read: a public file, or (marked so) the private one.

From a description no row is read. From rows, levels and bounds are taken as they are: of a public file that is free, and the
draft says which file; of the private one it is not private at all, and the draft, and every card, say `data-derived`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.codec.forms import Forms
from dipsmith.counting.frequent import count_values
from dipsmith.errors import UsageError
from dipsmith.schema.dictionary import draft_from_facts
from dipsmith.schema.drafts import check_header_names, commented_draft
from dipsmith.schema.naming import plain_name
from dipsmith.schema.proposals import CellCounts
from dipsmith.sources import Source, source
from dipsmith.sources.dictionaries.dictionary import read_dictionary
from dipsmith.sources.header import declared_types
from dipsmith.synthesis.learned_fields import (
    DraftField,
    FoundType,
    coarse_cells,
    find_extent,
    find_type,
    number_field,
    plain_field,
    unknown_field,
)

MOST_LEVELS = 1_000
"""A text column with more different values than this is taken for free text: its enum is left open."""
DATA_DERIVED = "data-derived"


def draft_schema(
    described: Any,
    *,
    name: str | None = None,
    header: Sequence[str] | None = None,
    table: str | None = None,
    public_rows: bool = False,
    private_rows: bool = False,
) -> str:
    """The text of a draft from whatever describes the table.

    Parameters
    ----------
    described
        A data dictionary (`dipsmith.sources.dictionaries`): a Stata or SPSS file, a table schema, a code book, a database
        address with `table`, a frame with categories. With `public_rows` or `private_rows`: rows, which are then read.
    name
        The dataset's name; by default the file's stem.
    header
        The columns of the table in their order; others are left out.

    Privacy
    -------
    Reads rows only where it is told to. With `private_rows` the result is a function of private rows without any noise, and
    says ``provenance: data-derived``.
    """
    path = Path(described) if isinstance(described, str | Path) else None
    called = name or plain_name("table" if path is None else path.stem.split(".")[0])
    if public_rows and private_rows:
        raise UsageError("rows are public or private: say which")
    if not (public_rows or private_rows):
        said_by = "the types of a frame" if path is None else plain_name(path.name)
        said_by = "the catalogue of the database" if "://" in str(described) else said_by
        return draft_from_facts(read_dictionary(described, table), called, said_by=said_by, header=header)
    rows = source(described, table=table)
    names = rows.columns if header is None else [n for n in header if n in rows.columns]
    check_header_names(names)
    rows.check(names)
    fields = _fields(rows, names)
    fields += [unknown_field(n) for n in header or () if n not in names]
    if private_rows:
        what = "A draft from the rows: levels and bounds were read from the data and are not protected."
        return commented_draft(called, _lines(fields), what=what, provenance=DATA_DERIVED)
    file = plain_name(Path(rows.describe()).name)
    what = f"A draft from the rows of the public file {file}; no private row was read."
    return commented_draft(called, _lines(fields), what=what, provenance=f"from the public file {file}")


def _lines(fields: Sequence[DraftField]) -> list[tuple[str, dict[str, object] | None, str]]:
    return [(f.column, None if f.keys is None else {**f.keys, "role": "private"}, f.reason) for f in fields]


def _fields(rows: Source, names: Sequence[str]) -> list[DraftField]:
    """The fields of columns by exact counts: the decisions of a learned draft, without doubt."""
    declared = declared_types(rows)
    forms = _counts(rows, {n: Forms(n) for n in names})
    types = {n: find_type(n, forms[n], 0.0, declared.get(n)) for n in names}
    found = {n: t for n, t in types.items() if t is not None}
    numeric = {n: t for n, t in found.items() if t.type in ("integer", "number", "date", "datetime")}
    coarse = _counts(rows, {n: coarse_cells(t) for n, t in numeric.items()})
    extents = {n: e for n, t in numeric.items() if (e := find_extent(t, coarse[n], 0.0)) is not None}
    grids = {n: e.grid for n, e in extents.items() if e.grid is not None}
    fine = _counts(rows, grids)
    fields = {
        n: number_field(
            e, CellCounts(np.asarray(grids[n].edges), fine[n].astype(float)) if n in grids else None, len(names)
        )
        for n, e in extents.items()
    }
    texts = [n for n, t in found.items() if t.type == "string"]
    fields |= _text_fields(rows, [found[n] for n in texts])
    fields |= {n: plain_field(t) for n, t in found.items() if t.type == "boolean"}
    return [fields.get(n) or unknown_field(n) for n in names]


def _counts(rows: Source, tables: dict[str, Any]) -> dict[str, Any]:
    """Exact histograms of columns in one pass."""
    found = {n: np.zeros(t.size, np.int64) for n, t in tables.items()}
    for batch in rows.batches([*tables]) if tables else ():
        for name, cells in tables.items():
            column = batch.column(name)
            at = cells.place(column.dictionary_decode() if hasattr(column, "dictionary_decode") else column)
            found[name] += np.bincount(at[at >= 0], minlength=cells.size)
    return found


def _text_fields(rows: Source, found: Sequence[FoundType]) -> dict[str, DraftField]:
    fields: dict[str, DraftField] = {}
    if not found:
        return fields
    levels: dict[str, dict[str, int]] = {t.column: {} for t in found}
    for name, values, counts in count_values(rows.batches, [*levels]):
        if len(levels[name]) <= MOST_LEVELS:
            known = (v.decode("utf-8", "replace") for v in values.slice(0, MOST_LEVELS + 1).to_pylist())
            levels[name] |= dict(zip(known, counts.tolist(), strict=False))
    for one in found:
        listed = sorted(levels[one.column])
        if not 0 < len(listed) <= MOST_LEVELS:
            fields[one.column] = DraftField(one.column, None, f"text of more than {MOST_LEVELS:,} different values")
            continue
        keys: dict[str, object] = {"name": one.column, "type": "string", "enum": listed}
        # a value that no list has counts as the most frequent one, which it distorts least
        keys |= {"missing": True} if one.missing else {"other": max(listed, key=levels[one.column].__getitem__)}
        fields[one.column] = DraftField(one.column, keys, f"{len(listed)} values")
    return fields
