"""How often each value of a column occurs, in bounded memory: for columns whose values nobody has listed.

Values are texts as everywhere (`dipsmith.codec.parse.texts`): without the spaces around them, empty ones left out; texts
longer than `LONGEST` bytes are no levels and are left out too. All columns are counted in one pass. A column with more
different values than fit in memory is counted again, by itself, in passes over parts of its values by their hash; the
counts are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.arrays import Ints
from dipsmith.codec.parse import texts

LONGEST = 200
"""Bytes of a value at most."""
MOST = 1 << 21
"""Different values of a column held in memory at most."""

Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


def count_values(read: Read, columns: Sequence[str], most: int = MOST) -> Iterator[tuple[str, pa.Array, Ints]]:
    """For each column its different values, sorted by their bytes, and how often each occurs; in parts where there are many.

    Privacy
    -------
    Exact and private. A value's count depends on that value's rows alone, and each row adds 1 to one value of each column.
    """
    counters = {name: _Counter(most) for name in columns}
    for batch in read(columns):
        for name in columns:
            counters[name].add(batch.column(name))
    for name in columns:
        counter = counters.pop(name)
        if counter.fits:
            yield (name, *counter.sort_values())
        else:
            yield from _in_parts(read, name, most)


def _in_parts(read: Read, name: str, most: int) -> Iterator[tuple[str, pa.Array, Ints]]:
    """Count a column in passes over parts of its values, each part halved until it fits."""
    waiting = [(1, 2), (0, 2)]
    while waiting:
        part, parts = waiting.pop()
        counter = _Counter(most, part, parts)
        for batch in read([name]):
            counter.add(batch.column(name))
        if counter.fits:
            yield (name, *counter.sort_values())
        else:
            waiting += [(part + parts, 2 * parts), (part, 2 * parts)]


class _Counter:
    """Counts of values so far, of those in one part of all by their hash; gives up when there are too many."""

    def __init__(self, most: int, part: int = 0, parts: int = 1) -> None:
        self.fits = True
        self._most, self._part, self._parts = most, part, parts
        self._pieces: list[pa.Table] = []
        self._held = 0

    def add(self, column: pa.Array) -> None:
        """Count one more block."""
        if not self.fits:
            return
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        found = pc.value_counts(texts(plain).cast(pa.large_binary()))
        values, counts = found.field("values"), found.field("counts")
        short = pc.fill_null(pc.less_equal(pc.binary_length(values), LONGEST), False)
        if self._parts > 1:
            inside = [v is not None and _place(v) % self._parts == self._part for v in values.to_pylist()]
            short = pc.and_(short, pa.array(inside))
        piece = pa.table({"value": values, "count": counts}).filter(short)
        self._pieces.append(piece)
        self._held += piece.num_rows
        if self._held > self._most:
            self._merge()
            # merging again and again what hardly shrinks would take longer than counting in parts
            self.fits = self._held <= self._most // 2
            self._pieces = self._pieces if self.fits else []

    def sort_values(self) -> tuple[pa.Array, Ints]:
        """The values, by their bytes, and their counts."""
        self._merge()
        if not self._held:
            return pa.array([], pa.large_binary()), np.zeros(0, np.int64)
        table = self._pieces[0].sort_by("value")
        return table["value"].combine_chunks(), table["count"].to_numpy().astype(np.int64)

    def _merge(self) -> None:
        if len(self._pieces) > 1:
            summed = pa.concat_tables(self._pieces).group_by("value").aggregate([("count", "sum")])
            self._pieces = [summed.select(["value", "count_sum"]).rename_columns(["value", "count"])]
        self._held = sum(piece.num_rows for piece in self._pieces)


def _place(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "big")
