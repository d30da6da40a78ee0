"""Rows → codes: what a value means, decided value by value against the public schema.

Guarantee. The code of a cell is a function of that cell's value and of the schema alone: not of the
other rows, not of the batch it comes in, not of the Arrow type in which it arrives (``34``, ``34.0``
and ``"34"`` are one value). Encoding therefore maps neighbouring tables to neighbouring codes, and it
never fails, warns or takes another branch that could be seen because of a value. `docs/proofs/encoding.md`
has the argument and names the tests.

Policy for values outside the domain:

* text is compared without the spaces around it; empty text, null and NaN count as missing;
* categories: outside the list → `other`, else missing if that is a level, else the row is not kept
  (only under add-remove); missing → its level, else `other`, else not kept;
* numbers and times: clipped to the bounds, ±inf too; fractions of an integer are cut off downwards;
* text is read as the column's `spelling` says, where it has one (`schema.spelling`), and not otherwise;
* what cannot be read as the column's type counts as missing, and where missing is no level as the
  minimum, for booleans as false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats
from dipsmith.codec.parse import booleans, days, microseconds, numbers, texts
from dipsmith.errors import SchemaError, SourceError
from dipsmith.schema import Attribute, Bins, Categories, Codes, Schema
from dipsmith.schema.codes import code_dtype
from dipsmith.schema.spelling import Spelling

DROP = -1
"""Stands for a value that has no code, until its row is marked as not kept."""
_TABLE_LIMIT = 1 << 20
_PROBE = 1 << 14

IntArray = NDArray[np.integer]
Coder = Callable[[pa.Array], IntArray]
EncodedTexts = dict[Coder, tuple[pa.Array, pa.Array]]


@dataclass(frozen=True)
class Encoder:
    """Encodes record batches over the attributes of a schema, or over those that `columns` names.

    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> s = Schema("t", (Attribute("sex", "string", Categories.of("FM", other="M")),), Unit(), "replace")
    >>> codes, keep = Encoder(s).encode(pa.record_batch({"sex": ["F", "M ", "x", None]}))
    >>> codes["sex"].tolist(), keep.tolist()
    ([0, 1, 1, 1], [True, True, True, True])
    """

    schema: Schema
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for attribute in self.attributes:
            if self.schema.neighbours != "add-remove" and not attribute.domain.total:
                raise SchemaError(
                    f"column '{attribute.name}': say where a value outside enum goes, with other or missing; "
                    f"under {self.schema.neighbours} its row cannot be dropped"
                )

    @cached_property
    def _coders(self) -> Mapping[str, Coder]:
        return {a.name: coder(a) for a in self.attributes}

    @cached_property
    def _remembered_texts(self) -> EncodedTexts:
        return {}

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes that are encoded, in the order of the schema."""
        if self.columns is None:
            return self.schema.attributes
        wanted = {name: self.schema[name] for name in self.columns}
        return tuple(a for a in self.schema.attributes if a.name in wanted)

    def encode(self, batch: pa.RecordBatch | pa.Table) -> tuple[Codes, Bools]:
        """Encode a batch of rows; say which to keep: a row with a value without a code must be counted nowhere.

        Under replace and label all are kept.

        Privacy
        -------
        Reads private values; the result is private. Row by row: a row of the result depends on the
        same row of the batch only.
        """
        keep = np.ones(batch.num_rows, dtype=bool)
        columns: dict[str, IntArray] = {}
        names = batch.schema.names
        for attribute in self.attributes:
            if names.count(attribute.name) != 1:
                found = "twice" if attribute.name in names else "nowhere"
                raise SourceError(f"column '{attribute.name}' of the schema is {found} in the table; check the header")
            column = batch.column(names.index(attribute.name))
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            parts = [encode_array(chunk, self._coders[attribute.name], self._remembered_texts) for chunk in chunks]
            empty = np.empty(0, code_dtype(attribute.size))
            codes = parts[0] if len(parts) == 1 else np.concatenate([empty, *parts])
            if not attribute.domain.total:
                keep &= codes != DROP
                codes = np.where(codes == DROP, 0, codes)
            columns[attribute.name] = codes
        return Codes.of(self.schema, columns, batch.num_rows), keep


def encode_array(array: pa.Array, code: Coder, seen: EncodedTexts | None = None) -> IntArray:
    """Encode one array; a dictionary's values are encoded once and looked up.

    `seen` remembers the last dictionary of each coder: the batches of a Parquet row group share theirs.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if _repeats(array):
        array = array.dictionary_encode()
    if not pa.types.is_dictionary(array.type):
        return code(array)
    values = array.dictionary
    known = None if seen is None else seen.get(code)
    if known is None or not known[0].equals(values):
        known = (values, pa.array(code(values)))
        if seen is not None:
            seen[code] = known
    codes = pc.take(known[1], array.indices, boundscheck=False)
    if codes.null_count:
        codes = codes.fill_null(int(code(pa.nulls(1, pa.string()))[0]))
    return codes.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _repeats(array: pa.Array) -> bool:
    """Whether a text column says the same things again and again; a matter of speed, not of result."""
    text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    return text and len(array) >= 4 * _PROBE and len(array[:_PROBE].unique()) < _PROBE * 3 // 4


def coder(attribute: Attribute) -> Coder:
    """The function that encodes arrays of one column."""
    domain = attribute.domain
    if isinstance(domain, Bins):
        return _bins(domain)
    if attribute.type == "boolean":
        return _truth(domain)
    return _whole_categories(domain) if attribute.type == "integer" else _text_categories(domain)


# Categories --------------------------------------------------------------------------------------------------


def places(domain: Categories) -> tuple[int, int]:
    """The codes of a value outside the list and of a missing value; DROP when there is none."""
    missing, other = domain.missing_code, domain.other
    outside = other if other is not None else missing if missing is not None else DROP
    absent = missing if missing is not None else other if other is not None else DROP
    return outside, absent


def _dtype(domain: Categories) -> np.dtype[Any]:
    return np.dtype(code_dtype(domain.size) if domain.total else np.int32)


def _text_categories(domain: Categories) -> Coder:
    outside, absent = places(domain)
    listed = pa.array(domain.values, pa.large_string())
    table = np.array([*domain.codes, outside], dtype=_dtype(domain))

    def code(array: pa.Array) -> IntArray:
        text = texts(array)
        found = pc.index_in(text, value_set=listed.cast(text.type)).fill_null(-1)
        return _absent(table[found.to_numpy()], text.is_valid().to_numpy(zero_copy_only=False), absent)

    return code


def _truth(domain: Categories) -> Coder:
    outside, absent = places(domain)

    def code(array: pa.Array) -> IntArray:
        values, known = booleans(array)
        return np.where(known, values, absent if domain.missing else outside).astype(_dtype(domain))

    return code


def _whole_categories(domain: Categories) -> Coder:
    outside, absent = places(domain)
    order = np.argsort([int(v) for v in domain.values])
    listed = np.array([int(v) for v in domain.values], dtype=np.int64)[order]
    codes_of = np.array(domain.codes, dtype=_dtype(domain))[order]
    low, high = int(listed[0]) - 1, int(listed[-1]) + 1

    def search(values: IntArray) -> IntArray:
        at = np.minimum(np.searchsorted(listed, values), len(listed) - 1)
        return np.where(listed[at] == values, codes_of[at], outside).astype(_dtype(domain))

    whole = _by_table(search(np.arange(low, high + 1)), low) if high - low < _TABLE_LIMIT else search

    def code(array: pa.Array) -> IntArray:
        values, known = _integers(array)
        if np.issubdtype(values.dtype, np.integer):
            return _absent(whole(values), known, absent)
        inside = np.clip(_fill_unread(values, known, low), low, high)
        codes = np.where(inside == np.floor(inside), whole(inside.astype(np.int64)), outside)
        return _absent(codes.astype(_dtype(domain)), known, absent)

    return code


def _fill_unread(values: NDArray[Any], known: Bools | None, value: float) -> NDArray[Any]:
    """Put a harmless value where none could be read: NaN would slip through every comparison."""
    return values if known is None else np.where(known, values, value)


def _absent(codes: IntArray, known: Bools | None, code: int) -> IntArray:
    return codes if known is None else np.where(known, codes, codes.dtype.type(code))


def _integers(array: pa.Array, spelling: Spelling | None = None) -> tuple[NDArray[Any], Bools | None]:
    """Numbers, in 32 bits where the column has them and none is missing: a third of the time of 64 bits."""
    if array.type == pa.int32() and not array.null_count:
        return array.to_numpy(), None
    return numbers(array, spelling)


def _by_table(table: IntArray, low: int) -> Callable[[IntArray], IntArray]:
    """Codes of whole values from `low` on; values beyond either end have the code of that end."""
    codes, high = pa.array(table), low + len(table) - 1
    short = np.iinfo(np.int32).min <= low and high <= np.iinfo(np.int32).max

    def look_up(values: IntArray) -> IntArray:
        at = np.clip(values if short else values.astype(np.int64, copy=False), low, high)
        at -= low
        return pc.take(codes, pa.array(at), boundscheck=False).to_numpy()  # type: ignore[no-any-return]

    return look_up


# Bins --------------------------------------------------------------------------------------------------------


def _bins(domain: Bins) -> Coder:
    scale, absent = domain.scale, domain.missing_code or 0
    low, high = domain.minimum, domain.maximum
    into: Callable[[NDArray[Any]], IntArray] = _interval(domain) if scale == "number" else _bin_integers(domain)

    def code(array: pa.Array) -> IntArray:
        if scale == "date":
            values, known = days(array, domain.spelling)
        elif scale == "datetime":
            values, known = microseconds(array, int(low), int(high), domain.spelling)
        else:
            values, known = numbers(array, domain.spelling) if scale == "number" else _integers(array, domain.spelling)
        if scale == "number":
            values = np.clip(_fill_unread(values, known, low), low, high)
        elif not np.issubdtype(values.dtype, np.integer):
            values = np.floor(np.clip(_fill_unread(values, known, low), low, high)).astype(np.int64)
        return _absent(into(values), known, absent)

    return code


def _bin_integers(domain: Bins) -> Callable[[IntArray], IntArray]:
    """Bins of whole values: by table where the range is short, else by search."""
    low, high = int(domain.minimum), int(domain.maximum)
    dtype = np.dtype(code_dtype(domain.size))
    edges = domain.cuts.astype(np.int64)
    if high - low < _TABLE_LIMIT:
        return _by_table(np.repeat(np.arange(len(domain.labels)), np.diff(edges)).astype(dtype), low)

    def search(values: IntArray) -> IntArray:
        inside = np.clip(values.astype(np.int64, copy=False), low, high)
        return np.searchsorted(edges[1:-1], inside, side="right").astype(dtype)

    return search


def _interval(domain: Bins) -> Callable[[Floats], IntArray]:
    """Bins of numbers within the bounds: by search, or ten times as fast by arithmetic where they are of one width."""
    inner, last, dtype = domain.cuts[1:-1], len(domain.labels) - 1, np.dtype(code_dtype(domain.size))
    width = (inner[-1] - inner[0]) / (len(inner) - 1) if len(inner) > 2 else 0.0
    if not width or np.abs(inner - (inner[0] + width * np.arange(len(inner)))).max() > width / 4:
        return lambda x: np.searchsorted(inner, x, side="right").astype(dtype)
    begins, ends = np.append(-np.inf, inner), np.append(inner, np.inf)
    least, most = float(inner[0]) - float(width), float(inner[-1])

    def into(x: Floats) -> IntArray:
        # the outer bins may be wider than the others by any factor: what is far out is drawn near
        near = np.clip(x, least, most)
        # arithmetic finds the bin or its neighbour; the edges themselves decide
        at: IntArray = np.minimum(((near - inner[0]) / width + 1).astype(np.int32), last)
        at -= x < begins[at]
        at += x >= ends[at]
        return at.astype(dtype)

    return into
