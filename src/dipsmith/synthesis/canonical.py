"""Public columns in their canonical form: a function of what the rows say, not of how or in which order they came.

Under `label` public columns are released as they stand. *As they stand* means their values: how a file lays
them out (dictionaries and the order of their entries, chunks, widths, metadata) and where its rows lie is
not public. A file that is sorted by a private column would tell it by the order of its rows, and a
dictionary in the order of first appearance tells the same.

So each column is taken apart into its distinct values, sorted, and the rank of every row's value. From there on nothing
of the file is left but the multiset of public rows. Values take the type that the schema declares wherever
nothing is lost: a CSV is read as text, a database has types, and both release the same. Where a value does
not fit the declared type, the column is released as text. NaN and empty text are missing, as they are
everywhere else.

Guarantee: `PublicRows.sorted` depends on the multiset of the public rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.codec import parse
from dipsmith.codec.encode import coder
from dipsmith.codec.parse import is_text
from dipsmith.schema import Attribute, Bins, Codes, Schema
from dipsmith.schema.attribute import Type
from dipsmith.schema.codes import code_dtype
from dipsmith.schema.spelling import Spelling

BLOCK = 1 << 16
"""Rows of a piece of a table: pieces are cut by the number of rows alone."""

_EXACT = 2**53
"""Whole numbers up to this one are the same as floats."""


@dataclass(frozen=True, eq=False)
class PublicColumn:
    """A column as sorted distinct values and the rank of each row's value; −1 where it is missing."""

    values: pa.Array
    ranks: NDArray[np.signedinteger]

    @classmethod
    def of(cls, chunks: Sequence[pa.Array], kind: Type, spelling: Spelling | None = None) -> PublicColumn:
        """Take a column of any layout apart."""
        decoded = [_decode(chunk) for chunk in chunks]
        if len({chunk.type for chunk in decoded}) > 1:  # stored in several types: joined as text
            decoded = [_texts(chunk) for chunk in decoded]
        whole = pa.chunked_array(decoded, decoded[0].type if decoded else pa.string())
        if not len(whole):
            return cls(canonical_values(pa.nulls(0), kind, spelling), np.empty(0, np.int32))
        encoded = whole.dictionary_encode().combine_chunks()
        # Distinct as they were stored need not be distinct as they are released: "1.0" and "1" are one number.
        values = canonical_values(encoded.dictionary, kind, spelling)
        which = np.arange(len(values))
        if values.null_count or not values.equals(encoded.dictionary) or _has_negative_zero(encoded.dictionary):
            again = values.dictionary_encode()
            values, which = again.dictionary, _indices(again)
        numbers = values.type in (pa.int64(), pa.float64())  # which numpy sorts faster
        order = np.argsort(values.to_numpy()) if numbers else pc.sort_indices(values).to_numpy()
        place = np.full(len(order) + 1, -1, np.min_scalar_type(-len(order) - 1))
        place[order] = np.arange(len(order))
        return cls(values.take(order), np.append(place[which], place[-1:])[_indices(encoded)])

    def take(self, rows: NDArray[np.int64]) -> pa.ChunkedArray:
        """The values of some rows, in pieces of `BLOCK` rows."""
        ranks = self.ranks[rows]
        cut = [ranks[start : start + BLOCK] for start in range(0, len(ranks), BLOCK)]
        pieces = [self.values.take(pa.array(some, mask=some < 0)) for some in cut]
        return pa.chunked_array(pieces, self.values.type)

    def shortly(self) -> pa.Array:
        """The values of all rows, by a dictionary."""
        indices = pa.array(self.ranks, mask=None if self.ranks.min(initial=0) >= 0 else self.ranks < 0)
        return pa.DictionaryArray.from_arrays(indices, self.values)


@dataclass(frozen=True, eq=False)
class PublicRows:
    """The public columns of a table, apart from how and in which order it holds them."""

    names: tuple[str, ...]
    columns: tuple[PublicColumn, ...]
    rows: int

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], schema: Schema, names: Sequence[str]) -> PublicRows:
        """Read the named columns.

        Privacy
        -------
        Reads public columns only.
        """
        given = [batch.select(list(names)) for batch in batches]
        columns = tuple(
            PublicColumn.of([batch.column(name) for batch in given], schema[name].type, _spelling(schema[name]))
            for name in names
        )
        return cls(tuple(names), columns, sum(batch.num_rows for batch in given))

    def order(self) -> NDArray[np.int64]:
        """An order of the rows that their values alone decide; rows that tie are the same in every column."""
        return self._order[0]

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A row of each kind, in an order that their values alone decide, and which kind every row is of."""
        order, starts = self._order
        place = np.empty(self.rows, np.int64)
        place[order] = self.sorted_kinds()
        return order[starts], place

    def sorted_kinds(self) -> NDArray[np.int64]:
        """Which kind every row is of, when rows are in their order."""
        return np.cumsum(self._order[1]) - 1

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The rows in their order, and where one differs from the one before it."""
        keys = self._keys()
        order = np.argsort(keys, kind="stable")
        rising, starts = keys[order], np.ones(self.rows, dtype=bool)
        np.not_equal(rising[1:], rising[:-1], out=starts[1:])
        return order, starts

    def _keys(self) -> NDArray[np.int64]:
        """A number of every row, the same for rows that are the same in every column."""
        key = np.zeros(self.rows, np.int64)
        size = 1
        for column in self.columns:
            levels = len(column.values) + 1
            if size * levels >= 1 << 63:
                found, key = np.unique(key, return_inverse=True)
                size = len(found)
            key *= levels
            key += column.ranks
            key += 1
            size *= levels
        return key

    def codes(self, schema: Schema, names: Sequence[str], rows: NDArray[np.int64] | None = None) -> Codes:
        """Some rows, or all, of some columns as codes: each distinct value is encoded once."""
        found: dict[str, NDArray[np.integer]] = {}
        for name in names:
            column = self.columns[self.names.index(name)]
            values = pa.concat_arrays([column.values, pa.nulls(1, column.values.type)])
            of_value = coder(schema[name])(values).astype(code_dtype(schema[name].size))
            found[name] = of_value[column.ranks if rows is None else column.ranks[rows]]
        return Codes.of(schema, found, self.rows if rows is None else len(rows))

    def has_the_rows_of(self, other: PublicRows, *, in_order: bool = False) -> bool:
        """Whether both hold the same rows, each as often: in whatever order, or in the same."""
        if self.rows != other.rows:
            return False
        one, two = (slice(None), slice(None)) if in_order else (self.order(), other.order())
        return all(
            a.values.equals(b.values) and np.array_equal(a.ranks[one], b.ranks[two])
            for a, b in zip(self.columns, other.columns, strict=True)
        )

    def table(self, rows: NDArray[np.int64]) -> pa.Table:
        """Some rows, in the given order."""
        return pa.table([column.take(rows) for column in self.columns], names=list(self.names))

    def only(self, rows: NDArray[np.int64]) -> PublicRows:
        """Some rows, in the given order."""
        columns = tuple(PublicColumn(column.values, column.ranks[rows]) for column in self.columns)
        return PublicRows(self.names, columns, len(rows))

    def short_table(self, names: Sequence[str]) -> pa.Table:
        """All rows of some columns, as numbers into dictionaries."""
        chosen = [n for n in self.names if n in names]
        return pa.table([self.columns[self.names.index(n)].shortly() for n in chosen], names=chosen)


def blocks(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table in batches of `BLOCK` rows, however it is chunked; a table without rows is one batch."""
    for start in range(0, max(table.num_rows, 1), BLOCK):
        found = table.slice(start, BLOCK).combine_chunks().to_batches()
        yield found[0] if found else pa.RecordBatch.from_pylist([], table.schema)


def as_declared(table: pa.Table, schema: Schema) -> pa.Table:
    """The public columns of a table in their canonical types, in the table's order."""
    for i, name in enumerate(table.column_names):
        if name in schema.names and schema[name].role == "public":
            column = PublicColumn.of(table.column(i).chunks, schema[name].type, _spelling(schema[name]))
            table = table.set_column(i, name, column.take(np.arange(table.num_rows)))
    return table


def _spelling(attribute: Attribute) -> Spelling | None:
    return attribute.domain.spelling if isinstance(attribute.domain, Bins) else None


def canonical_values(values: pa.Array, kind: Type, spelling: Spelling | None = None) -> pa.Array:
    """Values as the declared type if each of them fits, otherwise as text; `spelling` says how text is read.

    >>> canonical_values(pa.array(["34", None, "7"]), "integer").type
    DataType(int64)
    >>> canonical_values(pa.array(["034", "7"]), "integer").to_pylist()
    ['034', '7']
    >>> canonical_values(pa.array(["18.0", None, "7.0"]), "integer").to_pylist()
    [18, None, 7]
    >>> canonical_values(pa.array([34.0, 7.0]), "integer").to_pylist()
    [34, 7]
    >>> canonical_values(pa.array(["$1,234", "$7"]), "integer", Spelling(group=",", bare=False)).to_pylist()
    [1234, 7]
    """
    if spelling is not None and (is_text(values.type) or spelling.format):
        read = _read_spelled(values, kind, spelling)
        if read is None:
            return _texts(values)
        values = read
    if is_text(values.type):
        values = _texts(values)
    elif pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    if values.null_count == len(values):  # then its type is an accident of how it is stored
        values = pa.nulls(len(values), pa.string())
    typed = None if kind == "string" else _TYPED[kind](values)
    return _texts(values) if typed is None else typed


def _read_spelled(values: pa.Array, kind: Type, spelling: Spelling) -> pa.Array | None:
    """Values as numbers, dates or moments; None where one is spelled otherwise."""
    if is_text(values.type):
        values = parse.texts(values)
    if kind == "date":
        days, known = parse.days(values, spelling)
        return None if _if_all_read(values, days, known) is None else _dates(days, _mask(values, known))
    if kind == "datetime":
        moments = _if_all_read(values, *parse.microseconds(values, *_MOMENTS, spelling))
        return None if moments is None else moments.cast(pa.timestamp("us"))
    return _if_all_read(values, *parse.numbers(values, spelling))


def canonical_type(stored: pa.DataType, attribute: Attribute) -> pa.DataType:
    """The type of a column whose rows are never seen together, by its stored type alone: text stays text."""
    while pa.types.is_dictionary(stored):
        stored = stored.value_type
    kind = attribute.type
    if kind == "string" or is_text(stored):
        return pa.string()
    if pa.types.is_boolean(stored):
        return pa.bool_() if kind == "boolean" else pa.string()
    if _is_number(stored):
        fits = pa.types.is_integer(stored) and not pa.types.is_uint64(stored)
        return pa.int64() if fits and kind != "number" else pa.float64()
    if pa.types.is_date(stored):
        return pa.timestamp("us") if kind == "datetime" else pa.date32()
    return pa.timestamp("us") if pa.types.is_timestamp(stored) else pa.string()


def as_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values of any type as a `canonical_type`; no value makes it fail."""
    values = _decode(values)
    if is_text(values.type) or pa.types.is_string(wanted):
        return _texts(values)
    if pa.types.is_boolean(wanted):
        return values
    if pa.types.is_integer(wanted) or pa.types.is_floating(wanted):
        found, known = parse.numbers(values)
        return pa.array(found.astype(wanted.to_pandas_dtype()), mask=_mask(values, known))
    if pa.types.is_date(wanted):
        days, known = parse.days(values)
        return _dates(days, _mask(values, known))
    moments, known = parse.microseconds(values, *_MOMENTS)
    return pa.array(moments, mask=_mask(values, known)).cast(pa.timestamp("us"))


def _decode(chunk: pa.Array) -> pa.Array:
    """The values themselves, in one of the types that Arrow can tell distinct values of."""
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    kind = chunk.type
    if pa.types.is_float16(kind):
        return chunk.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        # Wide enough for digits that the type does not promise: what is stored is no reason to fail.
        return chunk.cast(pa.decimal128(38, kind.scale))
    return chunk


def _has_negative_zero(values: pa.Array) -> bool:
    """Whether -0.0 is among values: Arrow takes it for equal to 0.0, though they are two kinds of bits."""
    found = values.to_numpy(zero_copy_only=False) if pa.types.is_floating(values.type) else np.zeros(0)
    return bool(np.signbit(found[found == 0]).any())


def _indices(encoded: pa.DictionaryArray) -> NDArray[np.int64]:
    """The index of each value; −1 where it is missing, which is the last place of a numpy array."""
    return np.asarray(encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _texts(values: pa.Array) -> pa.Array:
    """Values as text; of text itself, empty text is missing and bytes that are no text are replaced."""
    if not is_text(values.type):
        return parse.texts(values).cast(pa.string())
    try:
        text = values.cast(pa.string())
    except pa.ArrowInvalid:
        told = [None if v is None else bytes(v).decode("utf-8", "replace") for v in values.to_pylist()]
        text = pa.array(told, pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _mask(values: pa.Array, known: parse.KnownMask) -> NDArray[np.bool_]:
    """Where a value is missing or could not be read."""
    absent: NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return absent if known is None else absent | ~known


def _if_all_read(values: pa.Array, found: NDArray[np.generic], known: parse.KnownMask) -> pa.Array | None:
    absent = _mask(values, known)
    return pa.array(found, mask=absent) if np.count_nonzero(absent) == values.null_count else None


def _whole_numbers(values: pa.Array) -> pa.Array | None:
    if is_text(values.type):
        alike = _cast_if_spelled_alike(values, pa.int64())
        # 034 is a code and stays one; 18.0 is what programs write for 18 in a column with blanks.
        if alike is not None or pc.any(pc.match_substring_regex(values, "^ *[+-]?0[0-9]|[eE+]")).as_py():
            return alike
    if pa.types.is_integer(values.type):
        return _numbers(values) if pa.types.is_uint64(values.type) else values.cast(pa.int64())
    numbers = _numbers(values)
    if numbers is None or not pa.types.is_floating(numbers.type):
        return numbers
    whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), float(_EXACT)))
    return numbers.cast(pa.int64()) if pc.all(whole).as_py() in (True, None) else numbers


def _numbers(values: pa.Array) -> pa.Array | None:
    if not (is_text(values.type) or _is_number(values.type)):
        return None
    found, known = parse.numbers(values)
    # −0 and 0 are one number, but not one pattern of bits.
    numbers = _if_all_read(values, found.astype(np.float64) + 0.0, known)
    large = numbers is not None and found.dtype == np.int64 and np.any(np.abs(found) > _EXACT)
    return values.cast(pa.int64()) if large else numbers


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _truths(values: pa.Array) -> pa.Array | None:
    if not (is_text(values.type) or _is_number(values.type) or pa.types.is_boolean(values.type)):
        return None
    return _if_all_read(values, *parse.booleans(values))


def _days(values: pa.Array) -> pa.Array | None:
    if is_text(values.type):
        return _cast_if_spelled_alike(values, pa.date32())
    if not (pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)):
        return None
    moments, known = parse.microseconds(values, *_MOMENTS)
    if pa.types.is_timestamp(values.type) and np.any(moments % _DAY):
        return _moments(values)  # a moment within a day is more than its date
    days, known = parse.days(values)
    return _dates(days, _mask(values, known))


def _dates(days: NDArray[np.int64], absent: NDArray[np.bool_]) -> pa.Array:
    ends = np.iinfo(np.int32)
    return pa.array(np.clip(days, ends.min, ends.max).astype(np.int32), mask=absent).cast(pa.date32())


_MOMENTS = (-(2**62), 2**62)
"""Microseconds around 1970 that are told apart: 146,000 years."""
_DAY = 86_400_000_000


def _moments(values: pa.Array) -> pa.Array | None:
    if not (is_text(values.type) or pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)):
        return None
    moments = _if_all_read(values, *parse.microseconds(values, *_MOMENTS))
    return None if moments is None else moments.cast(pa.timestamp("us"))


def _cast_if_spelled_alike(text: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Text as another type if that type spells each value the same way: 034 is not 34."""
    try:
        typed = text.cast(wanted)
    except pa.ArrowInvalid:
        return None
    same = pc.all(pc.equal(typed.cast(pa.string()), text)).as_py()
    return typed if same in (True, None) else None


_TYPED = {"integer": _whole_numbers, "number": _numbers, "boolean": _truths, "date": _days, "datetime": _moments}
