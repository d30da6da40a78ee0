"""Rows divided at random into disjoint parts, by a secret key; all rows of a unit lie in one part.

A unit's part is a hash of the key and of its text in the unit column. Where every row is a unit, it is a hash of the key,
of what is read of the row and of a *duplicate index*, which tells rows that look alike apart; under `label`, of the row's
place in the source. So for a given key

* an added or removed unit changes the rows of one part: where rows are units, the copies of a row have the indices
  0, 1, … whichever of them they are, so that one copy less is the last index less and nobody else moves;
* a changed private label moves nobody, even where a rule leaves its row out or lets it in: places count all rows of the
  source, lawful or not;
* a replaced unit leaves one part and enters another, which may be the same.

Within a part the rows of equal units must also be *summed* in an order that others do not change: where rows are told apart
by what is read they are sorted by their hash, otherwise they keep the order of the source. Proof: ``docs/proofs/confirm.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.counting.tally import run_starts
from dipsmith.counting.values import ValueReading, Values

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows in parts: part l has the rows `bounds[l]` up to `bounds[l + 1]`."""

    values: Values
    bounds: Ints

    def __iter__(self) -> Iterator[Values]:
        """The rows of each part; none, where a part is empty."""
        for start, end in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            yield self.values.take(slice(int(start), int(end)))


def divide(rows: Rows, reading: ValueReading, key: bytes, parts: int) -> Parts:
    """Read some columns of the rows that count, and divide the rows.

    Privacy
    -------
    Reads private rows; the result is private. For every key, neighbouring tables differ in one part under `add-remove` and
    `label`, and in two at most under `replace`.
    """
    blocks, placed = [], []
    for values, units in rows.values(reading):
        blocks.append(values)
        if units is not None:
            placed.append(_parts_of_units(units, key, parts))
    values = Values.joined(blocks, reading)
    if placed:
        part = np.concatenate(placed)
        order = np.argsort(part, kind="stable")
    else:
        part, rank = _parts_of_rows(values.matrix(reading), key, parts)
        order = np.lexsort([rank, part])
    return Parts(values.take(order), np.searchsorted(part[order], np.arange(parts + 1)))


def _parts_of_units(units: pa.Array, key: bytes, parts: int) -> Ints:
    """The part of each row, by the text of its unit."""
    encoded = pc.dictionary_encode(units)
    distinct = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    hashes = _words([hashlib.sha256(key + b"|" + text).digest() for text in distinct])[:, 0]
    return np.asarray((hashes % np.uint64(parts)).astype(np.int64)[encoded.indices.to_numpy()])


def _parts_of_rows(seen: Ints, key: bytes, parts: int) -> tuple[Ints, Ints]:
    """The part of each row, and its place among all by hash, from what is seen of it."""
    content = np.ascontiguousarray(seen)
    width = 8 * content.shape[1]
    data = content.tobytes()
    prefix = hashlib.sha256(key)
    digests = []
    for i in range(len(content)):
        own = prefix.copy()
        own.update(data[i * width : (i + 1) * width])
        digests.append(own.digest())
    words = _words(digests)
    order = np.lexsort([words[:, 1], words[:, 0]])
    starts = run_starts([words[order, 0], words[order, 1]]) if len(order) else np.zeros(0, np.intp)
    index = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    part, rank = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    copies = np.flatnonzero(index > 0)
    place = words[order, 2].copy()
    again = [hashlib.sha256(digests[order[i]] + int(index[i]).to_bytes(8, "big")).digest() for i in copies.tolist()]
    place[copies] = _words(again)[:, 2]
    part[order] = (place % np.uint64(parts)).astype(np.int64)
    rank[order] = np.arange(len(order))
    return part, rank


def _words(digests: list[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(bytearray(b"".join(digests)), dtype=">u8").reshape(-1, 4).astype(np.uint64)
