"""Counting many partitions of the same rows at once.

Rows are taken in chunks that stay in the processor's cache. Marginals share their work (`joint`). Other
partitions (the leaves of a tree) take longer to find a row's cell: when rows are many, they are asked once for
every combination of codes instead. All arithmetic is on integers, so the shared and the separate counts are the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.counting.memory import accumulate, joint_tables, mixed_radix
from dipsmith.errors import UsageError
from dipsmith.schema import Cells, Codes, Marginal, Schema
from dipsmith.schema.codes import code_dtype

MAX_CELLS = 1 << 27
"""The most cells that are held at once: a gigabyte of counts."""

MAX_INDEX = 1 << 62
"""The most cells that a partition can number in 64-bit integers with room for arithmetic."""

CHUNK = 1 << 18
DENSE = 1 << 24
"""The most combinations that are counted in an array of their own, once rows are many: 128 MB."""
CROWDED = 16
"""Rows are many when there is one for this many possible combinations."""


def check_size(cells: Sequence[Cells], limit: int = MAX_CELLS) -> None:
    """Refuse, before anything is allocated, tables that would not fit; say what makes them big.

    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> letters = Categories.of("abcdefgh")
    >>> s = Schema("t", tuple(Attribute(n, "string", letters) for n in "xyz"), Unit(), "replace")
    >>> check_size([Marginal.of(s, "xyz")], limit=100)
    Traceback (most recent call last):
    dipsmith.errors.UsageError: table x × y × z has 512 cells, the limit is 100; it crosses x (8), \
y (8), z (8): use coarser bins, collapse labels or leave an attribute out
    """
    if sum(table.size for table in cells) <= limit:
        return
    largest = max(cells, key=lambda table: table.size)
    if largest.size <= limit:
        whole = sum(table.size for table in cells)
        raise UsageError(
            f"{len(cells)} tables have {whole:,} cells in all, the limit is {limit:,}; the largest is "
            f"{largest.key} ({largest.size:,}): ask for fewer at a time, use coarser bins or collapse labels"
        )
    sizes = sorted(((largest.schema[name].size, name) for name in largest.attributes), key=lambda pair: -pair[0])
    crossed = ", ".join(f"{name} ({size:,})" for size, name in sizes)
    what = "crosses" if isinstance(largest, Marginal) else "reads"
    raise UsageError(
        f"table {largest.key} has {largest.size:,} cells, the limit is {limit:,}; it {what} {crossed}: "
        "use coarser bins, collapse labels or leave an attribute out"
    )


class Tally:
    """Dense counts of some partitions, fed chunk by chunk."""

    def __init__(self, cells: Sequence[Cells], limit: int = MAX_CELLS) -> None:
        tables = list(cells)
        check_size(tables, limit)
        self._cells = tables
        self._joints = joint_tables({i: c for i, c in enumerate(tables) if isinstance(c, Marginal)})
        self._joint_counts = [np.zeros(table.size, dtype=np.int64) for table in self._joints]
        self._others = {
            i: np.zeros(c.size, dtype=np.int64) for i, c in enumerate(tables) if not isinstance(c, Marginal)
        }
        self._names = list(dict.fromkeys(name for i in self._others for name in tables[i].attributes))
        self._seen = 0
        self._combinations: Ints | None = None

    def add(self, codes: Codes) -> None:
        """Count more rows."""
        for start in range(0, len(codes), CHUNK):
            chunk = codes if len(codes) <= CHUNK else codes.take(slice(start, start + CHUNK))
            for table, counts in zip(self._joints, self._joint_counts, strict=True):
                accumulate(counts, table.key(chunk))
            if not self._others:
                continue
            self._seen += len(chunk)
            sizes = [chunk.schema[name].size for name in self._names]
            if self._combinations is None and chunk.schema.size(self._names) <= min(DENSE, CROWDED * self._seen):
                self._combinations = np.zeros(chunk.schema.size(self._names), dtype=np.int64)
            if self._combinations is None:
                self._count_others(chunk, None)
            else:
                accumulate(self._combinations, mixed_radix(chunk, self._names, sizes))

    def counts(self) -> list[Ints]:
        """Return the counts so far, one array per partition, in the order given."""
        if self._combinations is not None:
            keys = np.flatnonzero(self._combinations)
            for start in range(0, len(keys), CHUNK):
                part = keys[start : start + CHUNK]
                codes = unfuse([part], len(part), self._names, self._cells[next(iter(self._others))].schema)
                self._count_others(codes, self._combinations[part])
            self._seen, self._combinations = 0, None
        found = dict(self._others)
        for table, counts in zip(self._joints, self._joint_counts, strict=True):
            wanted = [self._cells[i].attributes for i in table.members]
            found |= zip(table.members, table.sums(counts, wanted), strict=True)
        return [found[i] for i in range(len(self._cells))]

    def _count_others(self, codes: Codes, often: Ints | None) -> None:
        """Count rows, or combinations that occur so often, in the partitions that are no marginals."""
        for i, counts in self._others.items():
            accumulate(counts, self._cells[i].index(codes), often)


class SparseTally:
    """Counts of the occupied cells of one partition, in memory that grows with those cells only.

    Keys may take several 64-bit words (a cross-table of everything has more cells than one can number). If one word
    numbers the `cells` and they are few enough, they are counted in an array as soon as rows are many.
    """

    def __init__(self, words: int = 1, cells: int | None = None) -> None:
        self._keys = [np.zeros(0, dtype=np.int64) for _ in range(words)]
        self._counts = np.zeros(0, dtype=np.int64)
        self._pending: list[list[Ints]] = []
        self._waiting = self._seen = 0
        self._cells = cells if cells is not None and cells <= DENSE else None
        self._dense: Ints | None = None

    def add(self, keys: Sequence[Ints]) -> None:
        """Count one more chunk of rows, given by the words of their keys."""
        if self._dense is not None:
            accumulate(self._dense, keys[0])
            return
        self._pending.append(list(keys))
        self._waiting += len(keys[0])
        self._seen += len(keys[0])
        if self._cells is not None and CROWDED * self._seen >= self._cells:
            self._dense = np.zeros(self._cells, dtype=np.int64)
            self._dense[self._keys[0]] = self._counts
            for (waiting,) in self._pending:
                accumulate(self._dense, waiting)
            self._pending = []
        # Merging only when as much waits as is held keeps the cost of all merges within a logarithm.
        elif self._waiting >= max(1 << 20, len(self._counts)):
            self._merge()

    def occupied_cells(self) -> tuple[list[Ints], Ints]:
        """Return the occupied keys in increasing order, word by word, and their counts."""
        if self._dense is not None:
            occupied = np.flatnonzero(self._dense)
            return [occupied], self._dense[occupied]
        self._merge()
        return self._keys, self._counts

    def _merge(self) -> None:
        if not self._pending:
            return
        fresh = [np.concatenate(parts) for parts in zip(*self._pending, strict=True)]
        self._pending, self._waiting = [], 0
        fresh, counts = merged_keys(fresh)
        if not len(self._counts):
            self._keys, self._counts = fresh, counts
            return
        keys = [np.concatenate(pair) for pair in zip(self._keys, fresh, strict=True)]
        self._keys, self._counts = merged_keys(keys, np.concatenate((self._counts, counts)))


def merged_keys(keys: list[Ints], weights: Ints | None = None) -> tuple[list[Ints], Ints]:
    """The distinct keys of some rows in increasing order, and how often each occurs (or the sum of its weights)."""
    if len(keys) == 1 and weights is None:
        keys = [np.sort(keys[0])]
    else:
        order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
        keys = [word[order] for word in keys]
        weights = None if weights is None else weights[order]
    rows = len(keys[0])
    if not rows:
        return keys, np.zeros(0, dtype=np.int64)
    starts = run_starts(keys)
    counts = np.diff(starts, append=rows) if weights is None else np.add.reduceat(weights, starts)
    return [word[starts] for word in keys], counts.astype(np.int64, copy=False)


def run_starts(keys: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    """Where the runs of equal keys begin, of sorted rows."""
    new = np.ones(len(keys[0]), dtype=bool)
    new[1:] = False
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def fuse(codes: Codes, names: Sequence[str]) -> list[Ints]:
    """Return the mixed-radix key of some attributes, in as many 64-bit words as it takes."""
    sizes = [codes.schema[name].size for name in names]
    return [mixed_radix(codes, names[a:b], sizes[a:b]).astype(np.int64, copy=False) for a, b in words_of(sizes)]


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
        raise UsageError(f"table {cells.key} has too many cells to number; use coarser bins or leave an attribute out")


def count(parts: Iterable[Codes], cells: Sequence[Cells], limit: int = MAX_CELLS) -> list[Ints]:
    """Count rows in every cell of every partition, in one pass."""
    tally = Tally(cells, limit)
    if cells:
        for codes in parts:
            tally.add(codes)
    return tally.counts()


def count_sparse(parts: Iterable[Codes], cells: Cells) -> tuple[Ints, Ints]:
    """Return the occupied cells of a partition, sorted, and the number of rows in each."""
    check_index(cells)
    tally = SparseTally(cells=cells.size)
    for codes in parts:
        tally.add([cells.index(codes)])
    keys, counts = tally.occupied_cells()
    return keys[0], counts


def distinct(parts: Iterable[Codes], schema: Schema, attributes: Sequence[str]) -> tuple[Codes, Ints]:
    """Return the distinct combinations of some attributes, sorted, and how often each occurs."""
    words = words_of(Marginal.of(schema, attributes).shape)
    tally = SparseTally(len(words), schema.size(attributes) if len(words) == 1 else None)
    for codes in parts:
        tally.add(fuse(codes, attributes))
    keys, counts = tally.occupied_cells()
    return unfuse(keys, len(counts), attributes, schema), counts


def unfuse(keys: Sequence[Ints], rows: int, names: Sequence[str], schema: Schema) -> Codes:
    """The codes that `fuse` made mixed-radix keys of; a chunk at a time, since all digits of a key are large numbers."""
    shape = [schema[name].size for name in names]
    columns = {name: np.empty(rows, code_dtype(size)) for name, size in zip(names, shape, strict=True)}
    for start in range(0, rows, CHUNK):
        here = slice(start, start + CHUNK)
        for (a, b), key in zip(words_of(shape), keys, strict=True):
            for name, digits in zip(names[a:b], np.unravel_index(key[here], shape[a:b]) if b > a else (), strict=True):
                columns[name][here] = digits
    return Codes.of(schema, columns, rows)
