"""Drafts from descriptions and from rows that may be read: a public file, or (marked so) the private one.

From a description no row is read. From rows, levels and bounds are taken as they are: of a public file that is free, and the
draft says which file; of the private one it is not private at all, and the draft, and every card, say `data-derived`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats, Ints
from dipsmith.codec.forms import FORMS, Forms
from dipsmith.codec.parse import numbers
from dipsmith.counting.frequent import count_values
from dipsmith.errors import UsageError
from dipsmith.schema.dictionary import draft_from_facts
from dipsmith.schema.domain import DATA_DERIVED
from dipsmith.schema.drafts import check_header_names, commented_draft
from dipsmith.schema.naming import plain_name
from dipsmith.schema.proposals import LARGEST, MOST_SINGLE, SPIKE_SHARE, CellCounts
from dipsmith.sources import Source, source
from dipsmith.sources.dictionaries.dictionary import read_dictionary
from dipsmith.sources.header import declared_types
from dipsmith.synthesis.learned_fields import (
    DraftField,
    FoundType,
    ValueExtent,
    coarse_cells,
    find_extent,
    find_type,
    number_field,
    plain_field,
    unknown_field,
)

MOST_LEVELS = 1_000
"""A text column with more different values than this is taken for free text: its enum is left open."""
_TEXT = np.array([form == "text" for form in FORMS])
_NUMBERS = np.array([form in ("integer", "1 decimal", "2 decimals", "more decimals", "1.234") for form in FORMS])
_PLAIN = _NUMBERS | np.array([form in ("blank", "missing word") for form in FORMS])


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
    found |= _precise(rows, {n: t for n, t in found.items() if t.spelling is not None and t.type != "date"})
    lists = _lists(rows, [n for n, t in found.items() if t.type == "string"])
    for name, listed in lists.items():
        if listed.word is not None and declared.get(name) != "string":
            found[name] = find_type(name, np.where(_TEXT, 0, forms[name]), 0.0, None) or found[name]
            found[name] = replace(found[name], missing=True)
    numeric = {n: t for n, t in found.items() if t.type in ("integer", "number", "date", "datetime")}
    coarse = _counts(rows, {n: coarse_cells(t) for n, t in numeric.items()})
    extents = {n: e for n, t in numeric.items() if (e := find_extent(t, coarse[n], 0.0)) is not None}
    parts = _value_counts(rows, [n for n, e in extents.items() if e.wide or e.found.type == "number"])
    extents |= {n: _with_spikes(extents[n], values, counts) for n, (values, counts) in parts.items()}
    grids = {n: e.grid for n, e in extents.items() if e.grid is not None}
    fine = _counts(rows, grids)
    fields = {
        n: number_field(
            e, CellCounts(np.asarray(grids[n].edges), fine[n].astype(float)) if n in grids else None, len(names)
        )
        for n, e in extents.items()
    }
    for name in numeric.keys() & lists.keys() & fields.keys():
        fields[name] = replace(fields[name], reason=f"{fields[name].reason}; '{lists[name].word}' counts as missing")
    fields |= {n: _text_field(t, lists[n].counts) for n, t in found.items() if t.type == "string"}
    fields |= {n: plain_field(t) for n, t in found.items() if t.type == "boolean"}
    return [fields.get(n) or unknown_field(n) for n in names]


def _precise(rows: Source, spelled: dict[str, FoundType]) -> dict[str, FoundType]:
    """Numbers that are not written plainly, with the precision that they have."""
    forms = _counts(rows, {n: Forms(n, t.spelling) for n, t in spelled.items()})
    plain = {n: find_type(n, np.where(_PLAIN, forms[n], 0), 0.0, None) for n in spelled}
    return {n: t if (p := plain[n]) is None else replace(p, spelling=t.spelling) for n, t in spelled.items()}


def _counts(rows: Source, tables: dict[str, Any]) -> dict[str, Any]:
    """Exact histograms of columns in one pass."""
    found = {n: np.zeros(t.size, np.int64) for n, t in tables.items()}
    for batch in rows.batches([*tables]) if tables else ():
        for name, cells in tables.items():
            column = batch.column(name)
            at = cells.place(column.dictionary_decode() if hasattr(column, "dictionary_decode") else column)
            found[name] += np.bincount(at[at >= 0], minlength=cells.size)
    return found


def _value_counts(rows: Source, names: Sequence[str]) -> dict[str, tuple[pa.Array, Ints]]:
    """The different values of columns, each with its number of rows."""
    found: dict[str, tuple[pa.Array, Ints]] = {}
    for name, values, counts in count_values(rows.batches, names) if names else ():
        known, before = found.get(name, (values[:0], counts[:0]))
        found[name] = pa.concat_arrays([known, values]), np.concatenate([before, counts])
    return found


@dataclass(frozen=True)
class _List:
    """The values of a text column, no more than fit in a list; and the one word among numbers, where there is just one."""

    counts: dict[str, int]
    word: str | None


def _lists(rows: Source, names: Sequence[str]) -> dict[str, _List]:
    """The values of text columns."""
    parts: dict[str, list[tuple[pa.Array, Ints]]] = {n: [] for n in names}
    for name, values, counts in count_values(rows.batches, names) if names else ():
        parts[name].append((values, counts))
    found = {}
    for name, some in parts.items():
        values = [v.decode("utf-8", "replace") for part, _ in some for v in part.to_pylist()]
        many = [n for _, part in some for n in part.tolist()]
        few = dict(zip(values[: MOST_LEVELS + 1], many, strict=False))
        found[name] = _List(few, _only_word(name, values))
    return found


def _only_word(name: str, values: Sequence[str]) -> str | None:
    """What stands among many numbers where there is none: 'N' beside incomes; None where these are rather codes."""
    if len(values) <= MOST_SINGLE:
        return None
    number = _NUMBERS[Forms(name).place(pa.array(values))]
    if number.sum() != len(values) - 1:
        return None
    known = np.array([float(v) for v, is_number in zip(values, number, strict=True) if is_number])
    # numbers that leave most of their range out are codes, of industries or places
    if len(values) <= MOST_LEVELS and len(known) < (known.max() - known.min()) / 2:
        return None
    return values[int(np.argmin(number))]


def _with_spikes(extent: ValueExtent, values: pa.Array, counts: Ints) -> ValueExtent:
    """A range whose frequent values have bins of their own, each of its values where they are few.

    Where the largest value of a wide range is frequent, a top code, the range ends there.
    """
    whole = extent.found.type == "integer"
    found, known = numbers(values.cast(pa.string()), extent.found.spelling)
    at = np.clip(found.astype(np.float64), -LARGEST, LARGEST - 1)[slice(None) if known is None else known]
    rows = counts[slice(None) if known is None else known].astype(np.float64)
    if extent.found.precision is None and not whole:
        extent = replace(extent, found=replace(extent.found, precision=_common_precision(at)))
    precision = 1.0 if whole else extent.found.precision
    if precision is None:
        return extent
    distinct = np.unique(at)
    if len(distinct) <= MOST_SINGLE and (not whole or extent.wide):
        return replace(extent, values=tuple(distinct.tolist()))
    many = rows >= SPIKE_SHARE * rows.sum()
    spikes = dict(extent.spikes) | dict(zip(at[many].tolist(), rows[many].tolist(), strict=True))
    extent = replace(extent, spikes=tuple(sorted(spikes.items())))
    if not extent.wide or float(at.max()) not in spikes:
        return extent
    end = float(at.max()) + (1 if whole else 2 * float(precision))
    edges = tuple(e for e in extent.grid.edges if e < end) if extent.grid else ()
    grid = replace(extent.grid, edges=(*edges, end)) if extent.grid else None
    return replace(extent, cells=extent.cells.within(extent.cells.edges[0], end), grid=grid)


def _common_precision(values: Floats) -> str | None:
    """How many decimals a few values have; None where they are many, or too fine to say."""
    if not 0 < len(np.unique(values)) <= MOST_SINGLE:
        return None
    places = next((k for k in range(1, 10) if np.allclose(np.round(values, k), values, rtol=0, atol=1e-12)), None)
    return None if places is None else f"{10.0**-places:.{places}f}"


def _text_field(found: FoundType, levels: dict[str, int]) -> DraftField:
    if not 0 < len(levels) <= MOST_LEVELS:
        return DraftField(found.column, None, f"text of more than {MOST_LEVELS:,} different values")
    listed = sorted(levels, key=lambda v: (not v.isdecimal(), int(v) if v.isdecimal() else 0, v))
    keys: dict[str, object] = {"name": found.column, "type": "string", "enum": listed}
    # a value that no list has counts as the most frequent one, which it distorts least
    keys |= {"missing": True} if found.missing else {"other": max(listed, key=levels.__getitem__)}
    return DraftField(found.column, keys, f"{len(listed)} values")
