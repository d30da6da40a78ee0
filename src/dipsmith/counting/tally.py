"""Counting many partitions of the same rows at once.

The key of a row in a marginal is a mixed-radix number: the codes are its digits (Horner's rule). Rows are
taken in chunks that stay in the processor's cache. Marginals that overlap share their work: a set of them
is counted as one joint table as long as that table stays small, and each is a sum over it. All arithmetic
is on integers, so the shared and the separate counts are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dipsmith.counting.contingency import MAX_CELLS, MAX_INDEX, check_size
from dipsmith.errors import UsageError
from dipsmith.schema import Cells, Codes, Marginal, Schema

CHUNK = 1 << 17
_ONE = np.int64(1)  # a Python integer would send add.at down its slow path
JOINT = 1 << 16
"""The most cells of a joint table that is made for sharing: its counts fit in the second-level cache."""
SUMMED = 1 << 20
"""The most cells of a joint table, counted in any case, that marginals are summed from."""


class Tally:
    """Dense counts of some partitions, fed chunk by chunk."""

    def __init__(self, cells: Sequence[Cells], limit: int = MAX_CELLS) -> None:
        tables = list(cells)
        check_size(tables, limit)
        self._cells = tables
        marginals = [(i, c) for i, c in enumerate(tables) if isinstance(c, Marginal)]
        self._joints = _shared([(i, c.attributes, c.shape) for i, c in marginals])
        shared = {i for i, _ in marginals}
        self._others = [i for i in range(len(tables)) if i not in shared]
        self._joint_counts = [np.zeros(joint.size, dtype=np.int64) for joint in self._joints]
        self._other_counts = [np.zeros(tables[i].size, dtype=np.int64) for i in self._others]

    def add(self, codes: Codes) -> None:
        """Count more rows."""
        for start in range(0, len(codes), CHUNK):
            chunk = codes if len(codes) <= CHUNK else codes.take(slice(start, start + CHUNK))
            for joint, counts in zip(self._joints, self._joint_counts, strict=True):
                _accumulate(counts, joint.key(chunk))
            for i, counts in zip(self._others, self._other_counts, strict=True):
                _accumulate(counts, self._cells[i].index(chunk))

    def counts(self) -> list[NDArray[np.int64]]:
        """Return the counts so far, one array per partition, in the order given."""
        found: dict[int, NDArray[np.int64]] = dict(zip(self._others, self._other_counts, strict=True))
        for joint, counts in zip(self._joints, self._joint_counts, strict=True):
            for i in joint.members:
                marginal = self._cells[i]
                found[i] = joint.sum(counts, marginal.attributes, alone=len(joint.members) == 1)
        return [found[i] for i in range(len(self._cells))]


@dataclass(frozen=True)
class _Joint:
    """The cross-table of the attributes of several marginals."""

    sizes: dict[str, int]
    members: list[int]

    @property
    def size(self) -> int:
        return prod(self.sizes.values())

    def key(self, codes: Codes) -> NDArray[np.integer]:
        return mixed_radix(codes, list(self.sizes), list(self.sizes.values()))

    def sum(self, counts: NDArray[np.int64], attributes: Sequence[str], *, alone: bool) -> NDArray[np.int64]:
        names = list(self.sizes)
        if list(attributes) == names:
            return counts if alone else counts.copy()
        table = counts.reshape(list(self.sizes.values()))
        over = tuple(axis for axis, name in enumerate(names) if name not in attributes)
        table = table.sum(axis=over)
        left = [name for name in names if name in attributes]
        return np.ascontiguousarray(table.transpose([left.index(name) for name in attributes])).ravel()


def mixed_radix(codes: Codes, names: Sequence[str], sizes: Sequence[int]) -> NDArray[np.integer]:
    """Return the cell of every row in the cross-table of `names`, in the smallest type that is fast."""
    if not names:
        return np.zeros(len(codes), dtype=np.intp)
    whole = prod(sizes)
    kind: DTypeLike = np.int32 if whole <= 1 << 31 else np.int64
    key = codes[names[0]].astype(kind)
    for name, size in zip(names[1:], sizes[1:], strict=True):
        key *= size
        key += codes[name].astype(kind, copy=False) if codes[name].dtype.itemsize >= 4 else codes[name]
    return key


def _accumulate(counts: NDArray[np.int64], keys: NDArray[np.integer]) -> None:
    if len(counts) <= len(keys):
        counts += np.bincount(keys, minlength=len(counts))
    else:
        # bincount would allocate and add the whole table for every chunk
        np.add.at(counts, keys.astype(np.intp, copy=False), _ONE)


def _shared(marginals: list[tuple[int, tuple[str, ...], tuple[int, ...]]]) -> list[_Joint]:
    """Put marginals into joint tables: the largest first, each where it makes the least growth."""
    joints: list[_Joint] = []
    for i, names, shape in sorted(marginals, key=lambda m: -prod(m[2])):
        sizes = dict(zip(names, shape, strict=True))
        best, best_size = None, JOINT
        for joint in joints:
            if sizes.keys() <= joint.sizes.keys():
                if joint.size <= SUMMED or sizes == joint.sizes:
                    best = joint
                    break
                continue
            grown = prod((joint.sizes | sizes).values())
            if grown <= best_size:
                best, best_size = joint, grown
        if best is None:
            joints.append(_Joint(sizes, [i]))
        else:
            best.members.append(i)
            best.sizes.update(sizes)
    return joints


class SparseTally:
    """Counts of the occupied cells of one partition, in memory that grows with those cells only.

    Keys may take several 64-bit words (a cross-table of everything has more cells than one can number).
    """

    def __init__(self, words: int = 1) -> None:
        self._keys = [np.zeros(0, dtype=np.int64) for _ in range(words)]
        self._counts = np.zeros(0, dtype=np.int64)
        self._pending: list[list[NDArray[np.int64]]] = []
        self._waiting = 0

    def add(self, keys: Sequence[NDArray[np.int64]]) -> None:
        """Count one more chunk of rows, given by the words of their keys."""
        self._pending.append(list(keys))
        self._waiting += len(keys[0])
        # Merging only when as much waits as is held keeps the cost of all merges within a logarithm.
        if self._waiting >= max(1 << 20, len(self._counts)):
            self._merge()

    def found(self) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Return the occupied keys in increasing order, word by word, and their counts."""
        self._merge()
        return self._keys, self._counts

    def _merge(self) -> None:
        if not self._pending:
            return
        fresh = [np.concatenate(parts) for parts in zip(*self._pending, strict=True)]
        self._pending, self._waiting = [], 0
        fresh, counts = _distinct(fresh, None)
        if not len(self._counts):
            self._keys, self._counts = fresh, counts
            return
        keys = [np.concatenate(pair) for pair in zip(self._keys, fresh, strict=True)]
        self._keys, self._counts = _distinct(keys, np.concatenate((self._counts, counts)))


def _distinct(
    keys: list[NDArray[np.int64]], weights: NDArray[np.int64] | None
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    if len(keys) == 1 and weights is None:
        keys = [np.sort(keys[0])]
    else:
        order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
        keys = [word[order] for word in keys]
        weights = None if weights is None else weights[order]
    rows = len(keys[0])
    if not rows:
        return keys, np.zeros(0, dtype=np.int64)
    new = np.zeros(rows, dtype=bool)
    new[0] = True
    for word in keys:
        new[1:] |= word[1:] != word[:-1]
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=rows) if weights is None else np.add.reduceat(weights, starts)
    return [word[starts] for word in keys], counts.astype(np.int64, copy=False)


def fused(codes: Codes, names: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return the mixed-radix key of some attributes, in as many 64-bit words as it takes."""
    sizes = [codes.schema[name].size for name in names]
    return [
        mixed_radix(codes, names[a:b], sizes[a:b]).astype(np.int64, copy=False) for a, b in words_of(sizes)
    ]


def words_of(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a list of radices into runs whose product can be numbered; return (start, stop) pairs.

    >>> words_of([1000] * 8)
    [(0, 6), (6, 8)]
    """
    runs: list[tuple[int, int]] = []
    start, whole = 0, 1
    for i, size in enumerate(sizes):
        if whole * size > MAX_INDEX:
            runs.append((start, i))
            start, whole = i, 1
        whole *= size
    runs.append((start, len(sizes)))
    return runs


def check_index(cells: Cells) -> None:
    """Refuse a partition whose cells cannot be numbered in 64 bits."""
    if cells.size > MAX_INDEX:
        raise UsageError(
            f"table {cells.key} has too many cells to number; use coarser bins or leave an attribute out"
        )


def count(parts: Iterable[Codes], cells: Sequence[Cells], limit: int = MAX_CELLS) -> list[NDArray[np.int64]]:
    """Count rows in every cell of every partition, in one pass."""
    tally = Tally(cells, limit)
    if cells:
        for codes in parts:
            tally.add(codes)
    return tally.counts()


def count_sparse(parts: Iterable[Codes], cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the occupied cells of a partition, sorted, and the number of rows in each."""
    check_index(cells)
    tally = SparseTally()
    for codes in parts:
        tally.add([cells.index(codes)])
    keys, counts = tally.found()
    return keys[0], counts


def distinct(
    parts: Iterable[Codes], schema: Schema, attributes: Sequence[str]
) -> tuple[Codes, NDArray[np.int64]]:
    """Return the distinct combinations of some attributes, sorted, and how often each occurs."""
    shape = Marginal.of(schema, attributes).shape
    words = words_of(shape)
    tally = SparseTally(len(words))
    for codes in parts:
        tally.add(fused(codes, attributes))
    keys, counts = tally.found()
    columns: dict[str, NDArray[np.integer]] = {}
    for (a, b), key in zip(words, keys, strict=True):
        if b > a:
            columns |= zip(attributes[a:b], np.unravel_index(key, shape[a:b]), strict=True)
    return Codes.of(schema, columns, len(counts)), counts
