"""Which rows of a unit count, when it may have more rows than `max_rows`.

A unit's rows are ranked by SHA-256 of a secret key, the unit, the row's codes and a duplicate index; the
first k count. So the choice depends on the unit's own rows and on the key, never on other units and never
on the order of the file. Under `label` only the codes of public columns enter the hash, so that the public
codes of the counted rows, and with them every public size, do not depend on private values. Where more than codes is
counted of public columns, rows whose codes agree are told apart by their *kinds*, numbers of their public values, and only
rows of one kind by what is private: then the kinds of the counted rows do not depend on it either. Rows whose codes
all agree are told apart by the texts of their values, public ones first, in an order that the key decides: where more than codes
is read of them, as when a schema is learned, the order of the file does not decide either.

The hashed text is ``key|unit|codes|duplicate`` with a fixed spelling (see `hashed_text`), so that an SQL
engine computes the same hash.

A row without a unit value (null, empty text, NaN) belongs to nobody and is counted nowhere: no change to it changes a
count. Neither alternative protects its owner. Were such rows one unit together, a person could have rows of their own
and a share in that unit; were each a unit of its own, a person could have any number of them.

Memory: a table of hashed unit counts of fixed size finds the rows that may belong to a unit with too many;
only those are collected and grouped exactly, and they go to unnamed temporary files, divided by a hash of
their unit, when they exceed a limit. Proof: ``docs/proofs/counting.md``.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import days, texts
from dipsmith.counting.tally import fuse, run_starts
from dipsmith.schema import Codes, Schema

Reader = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]

BUCKETS = 1 << 23
MEMORY = 1 << 28
UNIT, PER, ROW, KIND, _HASH = "unit", "per", "row", "kind", "hash"
_SHOWN, _HIDDEN = "shown", "hidden"
"""Hashes of the texts of a row's values, of the columns that enter the hash and of the others."""
_PARTS = 64
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""


class DroppedRows:
    """The rows beyond `max_rows` of their units, and those without a unit, one bit per row of the source."""

    def __init__(self) -> None:
        self.bits = np.zeros(1 << 10, dtype=np.uint8)
        self.rows = 0

    def add(self, marked: Bools) -> None:
        """Add rows, some of them marked."""
        start, self.rows = self.rows, self.rows + len(marked)
        while 8 * len(self.bits) < self.rows:
            self.bits = np.append(self.bits, np.zeros_like(self.bits))
        self.mark(np.flatnonzero(marked) + start)

    def mark(self, rows: Ints) -> None:
        """Mark rows that were added."""
        np.bitwise_or.at(self.bits, rows >> 3, (1 << (rows & 7)).astype(np.uint8))

    def kept_mask(self, start: int, rows: int) -> Bools:
        """Return which of `rows` rows from `start` on count."""
        first = start >> 3
        bits = np.unpackbits(self.bits[first : (start + rows + 7) >> 3], bitorder="little")
        return np.asarray(bits[start - (first << 3) :][:rows] == 0)


def beyond_max_rows(
    read: Reader, schema: Schema, key: bytes, kinds: Ints | None = None, *, memory: int = MEMORY, buckets: int = BUCKETS
) -> DroppedRows | None:
    """Find the rows that do not count: those beyond `max_rows` of their units, and those without a unit.

    None when every row has a unit and no unit has more than `max_rows` rows. `read` reads the named columns of all
    rows, in the same order every time; `kinds` has the kind of every row; `memory` is how many bytes of collected rows go to temporary files beyond, and
    `buckets`, a power of two, the size of the table of hashed unit counts.

    Privacy
    -------
    Reads private rows; the result is private and is used for counting only. A unit's counted rows are a
    function of its own rows and the key, at most k of them. Rows without a unit are never counted.
    """
    unit = schema.unit
    names = [name for name in (unit.column, unit.per) if name is not None]
    seen = np.zeros(buckets, dtype=np.uint32)
    most, all_owned = 0, True
    for batch in read(names):
        unit_text, _, hashes = _units(batch, names, key)
        owned = has_unit(unit_text)
        all_owned &= bool(owned.all())
        bucket = _bucket(hashes, buckets)[owned]
        np.add.at(seen, bucket, np.uint32(1))
        most = max(most, int(seen[bucket].max(initial=0)))
    if all_owned and most <= unit.max_rows:
        return None
    encoder, hashed, ties = Encoder(schema), hashed_columns(schema), _tied_columns(schema)
    lost = DroppedRows()
    with Spill(memory, _HASH) as suspects:
        for batch in read([*dict.fromkeys((*schema.names, *names))]):
            unit_text, per_text, hashes = _units(batch, names, key)
            owned = has_unit(unit_text)
            at = np.flatnonzero((seen[_bucket(hashes, buckets)] > unit.max_rows) & owned)
            if at.size:
                taken = batch if at.size == batch.num_rows else batch.take(pa.array(at))
                codes, keep = encoder.encode(taken)
                chosen = np.flatnonzero(keep)
                if chosen.size:
                    where = at[chosen]
                    columns = {
                        UNIT: unit_text.take(pa.array(where)),
                        PER: per_text.take(pa.array(where)),
                        ROW: pa.array(where + lost.rows),
                        _HASH: pa.array(hashes[where]),
                        **({} if kinds is None else {KIND: pa.array(kinds[where + lost.rows])}),
                    }
                    for place, named in ((_SHOWN, hashed), (_HIDDEN, ties)):
                        if named:
                            columns[place] = pa.array(_value_hashes(taken, named, key)[chosen])
                    for i, name in enumerate(schema.names):
                        columns[f"c{i}"] = pa.array(codes[name][chosen])
                    suspects.add(pa.RecordBatch.from_pydict(columns))
            lost.add(~owned)
        for part in suspects.parts():
            lost.mark(rows_beyond_max(part, schema, key))
    return lost


def hashed_text(key: bytes, unit: str, per: str | None, codes: Sequence[int], duplicate: int) -> str:
    r"""Spell out what is hashed for one row; every engine must spell it the same way.

    The unit (and `per`) value is text without surrounding spaces, whole numbers without a decimal point,
    missing as nothing; codes are in the order of the schema; duplicates count from 0.

    >>> hashed_text(b"\x01\xff", "E17", "2011", [3, 0, 12], 0)
    '01ff|E17|2011|3,0,12|0'
    """
    middle = unit if per is None else f"{unit}|{per}"
    return f"{key.hex()}|{middle}|{','.join(map(str, codes))}|{duplicate}"


def hashed_columns(schema: Schema) -> tuple[str, ...]:
    """Return the attributes whose codes enter the hash: all, under `label` the public ones."""
    return schema.public if schema.neighbours == "label" else schema.names


def _tied_columns(schema: Schema) -> tuple[str, ...]:
    """The other attributes: their codes only number rows whose hashed codes agree."""
    hashed = hashed_columns(schema)
    return tuple(name for name in schema.names if name not in hashed)


def _units(batch: pa.RecordBatch, names: Sequence[str], key: bytes) -> tuple[pa.Array, pa.Array, NDArray[np.uint64]]:
    """Spell the unit and `per` columns as text, and hash both for grouping."""
    spelled = _spell(batch, names)
    hashes = _text_hashes(spelled, batch.num_rows, key)
    per = spelled[1] if len(spelled) > 1 else pa.nulls(batch.num_rows, pa.large_string()).fill_null("")
    return spelled[0], per, hashes


def _spell(batch: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    return [unit_text(batch.column(name)) for name in names]


def _text_hashes(spelled: Sequence[pa.Array], rows: int, key: bytes) -> NDArray[np.uint64]:
    """One keyed hash of several columns of texts, for every row."""
    seed = np.frombuffer(hashlib.sha256(b"buckets" + key).digest(), dtype=np.uint64)
    hashes = np.full(rows, seed[0], dtype=np.uint64)
    for text in spelled:
        hashes = _hash_text(text, hashes, seed[1])
    return hashes


def _value_hashes(batch: pa.RecordBatch, names: Sequence[str], key: bytes) -> NDArray[np.uint64]:
    """One keyed hash of what every row says in some columns; each text of a dictionary is hashed once."""
    found = np.zeros(batch.num_rows, np.uint64)
    for name in names:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            text = pa.concat_arrays([unit_text(column.dictionary), pa.array([""], pa.large_string())])
            at = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
            own = _text_hashes([text], len(text), key)[at]
        else:
            own = _text_hashes([unit_text(column)], len(column), key)
        found = (found ^ own) * np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(32)
    return found


def hash_units(text: pa.Array, key: bytes) -> NDArray[np.uint64]:
    """A keyed hash of each unit, by which its steps are drawn."""
    return _text_hashes([text], len(text), hashlib.sha256(b"steps" + key).digest())


def unit_text(column: pa.Array) -> pa.Array:
    """Spell unit values as text, the same for a number and for its digits; missing is empty text.

    Dates outside the years 1 to 9999 are missing: engines have different ones, and spell them in their own ways.

    >>> unit_text(pa.array([7.0, 0.5, float("nan")])).to_pylist()
    ['7', '0.5', '']
    """
    if pa.types.is_dictionary(column.type):
        return _spell_units(column.dictionary).take(column.indices).fill_null("")
    return _spell_units(column).fill_null("")


def _spell_units(column: pa.Array) -> pa.Array:
    text = texts(column).cast(pa.large_string())
    if not pa.types.is_date(column.type):
        return text
    ordinal, _ = days(column)
    near = (ordinal >= _FIRST_DAY) & (ordinal <= _LAST_DAY)
    return pc.if_else(pa.array(near), text, pa.scalar(None, pa.large_string()))


def has_unit(text: pa.Array) -> Bools:
    """Which rows belong to a unit, by the text of its value.

    >>> has_unit(unit_text(pa.array([7.0, float("nan"), None]))).tolist()
    [True, False, False]
    """
    return pc.greater(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _hash_text(text: pa.Array, hashes: NDArray[np.uint64], odd: np.uint64) -> NDArray[np.uint64]:
    """Mix texts into 64-bit hashes, eight bytes at a time; only to divide or sort rows, never to tell units apart."""
    rows = len(text)
    if not rows:
        return hashes
    _, offsets_buffer, data = text.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[text.offset : text.offset + rows + 1]
    start, length = offsets[:-1], np.diff(offsets)
    padded = np.frombuffer((data.to_pybytes() if data is not None else b"") + bytes(8), dtype=np.uint8)
    words = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))
    multiplier = np.uint64(odd | np.uint64(1))
    hashes = (hashes ^ length.astype(np.uint64)) * multiplier
    for place in range(0, int(length.max()), 8):
        left = np.clip(length - place, 0, 8)
        active = left > 0
        word = words[np.where(active, start + place, 0)]
        mask = np.where(left == 8, np.uint64(2**64 - 1), (np.uint64(1) << (left * 8).astype(np.uint64)) - np.uint64(1))
        mixed = (hashes ^ (word & mask)) * multiplier
        mixed ^= mixed >> np.uint64(29)
        hashes = np.where(active, mixed, hashes)
    hashes = hashes * np.uint64(0xBF58476D1CE4E5B9)
    return hashes ^ (hashes >> np.uint64(32))


def _bucket(hashes: NDArray[np.uint64], buckets: int) -> NDArray[np.intp]:
    return (hashes & np.uint64(buckets - 1)).astype(np.intp)


def rows_beyond_max(part: pa.Table, schema: Schema, key: bytes) -> Ints:
    """Find the source rows that do not count, of a table that holds whole units.

    Its columns are `UNIT`, `PER` (text) and `ROW`, c0, c1, … for the codes of the schema, and perhaps `KIND` and hashes of texts.
    """
    limit = schema.unit.max_rows
    unit, per = (part.column(name).combine_chunks().dictionary_encode() for name in (UNIT, PER))
    pair = unit.indices.to_numpy().astype(np.int64) * len(per.dictionary) + per.indices.to_numpy()
    _, group = np.unique(pair, return_inverse=True)
    over = np.flatnonzero(np.bincount(group)[group] > limit)
    group = group[over]
    columns = {name: part.column(f"c{i}").to_numpy()[over] for i, name in enumerate(schema.names)}
    codes = Codes(schema, columns, len(over))
    hashed = hashed_columns(schema)
    hidden, shown, kinds = (
        [part.column(name).to_numpy()[over]] if name in part.column_names else [] for name in (_HIDDEN, _SHOWN, KIND)
    )
    tied = reversed(fuse(codes, _tied_columns(schema)))
    order = np.lexsort([*hidden, *shown, *tied, *kinds, *reversed(fuse(codes, hashed)), group])
    over, group, codes = over[order], group[order], codes.take(order)
    same = _runs([group, *fuse(codes, hashed)])
    spelled = _spell_for_hash(part, over, [codes[name] for name in hashed], same, schema.unit.per is not None)
    prefix = f"{key.hex()}|".encode()
    digests = b"".join([hashlib.sha256(prefix + text).digest() for text in spelled])
    ranks = np.frombuffer(digests, dtype=">u8").reshape(-1, 4).astype(np.uint64)
    order = np.lexsort([ranks[:, 0], group])
    first = ranks[order, 0]
    if bool(((first[1:] == first[:-1]) & (group[order][1:] == group[order][:-1])).any()):
        order = np.lexsort([*ranks.T[::-1], group])  # the first eight bytes do not decide
    lost = order[_runs([group[order]]) >= limit]
    positions: Ints = part.column(ROW).to_numpy()
    return positions[over[lost]]


def _runs(keys: Sequence[NDArray[Any]]) -> Ints:
    """Return the place of every row in its run of equal keys (of sorted rows)."""
    rows, starts = len(keys[0]), run_starts(keys)
    return np.arange(rows) - np.repeat(starts, np.diff(starts, append=rows))


def _spell_for_hash(
    part: pa.Table, rows: NDArray[np.intp], codes: Sequence[NDArray[Any]], duplicates: Ints, has_per: bool
) -> list[bytes]:
    """Spell `hashed_text`, after the key, for many rows at once."""
    names = [UNIT, PER] if has_per else [UNIT]
    fields = [part.column(name).combine_chunks().take(pa.array(rows)) for name in names]
    digits = [_spell_numbers(column) for column in codes]
    empty = pa.array([""], pa.large_string()).take(pa.array(np.zeros(len(rows), dtype=np.int64)))
    listed = pc.binary_join_element_wise(*digits, pa.scalar(",", pa.large_string())) if digits else empty
    number = _spell_numbers(duplicates)
    joined = pc.binary_join_element_wise(*fields, listed, number, pa.scalar("|", pa.large_string()))
    return joined.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]


def _spell_numbers(numbers: NDArray[np.integer]) -> pa.Array:
    """Whole numbers from 0 on as text; each is spelled once."""
    each = pa.array(np.arange(int(numbers.max(initial=0)) + 1)).cast(pa.large_string())
    return each.take(pa.array(numbers))


class Spill:
    """A growing table, divided by the column `by` of 64-bit hashes; above `memory` bytes in temporary files.

    The files lie in a folder that only its owner may enter, have no name, and vanish with the process, however it ends.
    """

    def __init__(self, memory: int, by: str) -> None:
        self._memory = memory
        self._by = by
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[Any] = []
        self._writers: list[Any] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._memory:
            self._spill()

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows, all rows of one hash in the same table."""
        if not self._writers:
            if self._held:
                yield pa.Table.from_batches(self._held)
            return
        self._spill()
        for writer, file in zip(self._writers, self._files, strict=True):
            writer.close()
            file.seek(0)
            yield pa.ipc.open_stream(file).read_all()

    def _spill(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held).combine_chunks()
        self._held, self._bytes = [], 0
        if not self._writers:
            self._open(table.schema)
        part = (table.column(self._by).to_numpy() >> np.uint64(58)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(_PARTS + 1))
        table = table.take(pa.array(order))
        for i, writer in enumerate(self._writers):
            if bounds[i] < bounds[i + 1]:
                writer.write_table(table.slice(bounds[i], bounds[i + 1] - bounds[i]))

    def _open(self, schema: pa.Schema) -> None:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="dipsmith-"))
        for _ in range(_PARTS):
            file = self._stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
            self._files.append(file)
            self._writers.append(pa.ipc.new_stream(file, schema))
