"""Rows divided at random into disjoint parts, by a secret key; all rows of a unit lie in one part.

A unit has a *name*, and its part is a hash of the key and the name. Where units are told by a column, the name is the text in
it. Where every row is a unit, it is made of what is read of the rows, never of their places in the file:

* `add-remove`, `replace`: the row's own content and the number of its copy. One copy less is the last number less, and nobody
  else moves: for every key one part changes where a row comes or goes, two where it is replaced.
* `label`: the row's rank, when rows are sorted by content, public columns first. Ranks are one name for each row, so under a
  secret key every row draws its part by itself, whatever the labels are: a changed label changes the rows of one part. The
  key is drawn for one division and forgotten.

The rows of a part are sorted by content too, so that what is summed is a function of the part's *multiset* of rows. Proof:
``docs/proofs/confirm.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.tally import run_starts
from dipsmith.counting.values import ValueReading, Values


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
    Reads private rows; the result is private, and the same in whatever order the rows come. Neighbouring tables differ in one
    part under `add-remove` and `label`, and in two at most under `replace`: for every key, but for rows as units under
    `label`, where it holds in law, over keys.
    """
    blocks, units = [], []
    for values, unit in rows.values(reading):
        blocks.append(values)
        if unit is not None:
            units.append(_parts_of_units(unit, key, parts))
    values = Values.join_blocks(blocks, reading)
    content = values.matrix(reading)
    order = np.lexsort([np.zeros(values.rows), *content.T[::-1]])
    if units:
        part = np.concatenate(units)[order]
    else:
        part = _parts_of(map(bytes, name_rows(content[order], str(reading.schema.neighbours))), key, parts)
    by_part = np.argsort(part, kind="stable")
    return Parts(values.take(order[by_part]), np.searchsorted(part[by_part], np.arange(parts + 1)))


def name_rows(content: Ints, relation: str) -> Ints:
    """What tells sorted rows apart where each is a unit: their ranks under `label`, otherwise content and number of the copy.

    >>> name_rows(np.array([[7, 0], [7, 0], [8, 1]]), "label").tolist()
    [[0], [1], [2]]
    >>> name_rows(np.array([[7, 0], [7, 0], [8, 1]]), "replace").tolist()
    [[7, 0, 0], [7, 0, 1], [8, 1, 0]]
    """
    rank = np.arange(len(content), dtype=np.int64)
    if relation == "label":
        return rank[:, None]
    starts = run_starts([np.zeros(len(content)), *content.T])
    return np.column_stack([content, rank - np.repeat(starts, np.diff(starts, append=len(content)))])


def _parts_of_units(units: pa.Array, key: bytes, parts: int) -> Ints:
    """The part of each row, by the text of its unit."""
    encoded = pc.dictionary_encode(units)
    distinct = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    return np.asarray(_parts_of(distinct, key, parts)[encoded.indices.to_numpy()])


def _parts_of(names: Iterable[bytes], key: bytes, parts: int) -> Ints:
    """The part of each name: the same name, the same part."""
    prefix, words = hashlib.sha256(key + b"|"), []
    for name in names:
        own = prefix.copy()
        own.update(name)
        words.append(own.digest()[:8])
    hashes = np.frombuffer(bytearray(b"".join(words)), dtype=">u8").astype(np.uint64)
    return (hashes % np.uint64(parts)).astype(np.int64)
