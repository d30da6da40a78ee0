"""Counting rows: many contingency tables in one pass over a source, in bounded memory.

`Rows` is the contract between whoever holds rows and the curator. `BatchRows` fulfils it for any source
that can be read batch by batch: it encodes rows against the public schema, leaves out what must not be
counted, and counts. Only aggregated counts are ever kept, besides a cache of the codes in small integers. Marginals
that were counted are remembered (`remembered`), with every sum over them. Where one pass counts every pair of
attributes and the source can be read again as fast as codes are kept, the codes are not kept.

What counts (proof: ``docs/proofs/counting.md``):

1. a row with a value that has no code (add-remove only) is left out, and one without a unit;
2. of each unit at most `max_rows` rows are held, chosen by a keyed hash;
3. of the rows held, those that break a rule are counted nowhere. Under `label` public sizes
   (`count_public`) leave out only the rows that break a rule over public columns, because which rows break
   other rules is private.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.counting.cache import Cache
from dipsmith.counting.contingency import Contingency, check_size
from dipsmith.counting.remembered import Fixed, Remembered
from dipsmith.counting.remembered import View as View
from dipsmith.counting.tally import count, count_sparse, distinct, one_by_one
from dipsmith.counting.units import beyond_max_rows
from dipsmith.errors import SourceError
from dipsmith.schema import Cells, Codes, Marginal, Schema
from dipsmith.sources import Progress, Source, piped

CACHE_BYTES = 3 << 28
"""Codes kept in memory: 100 M rows of seven columns of up to 256 values, or of fourteen of up to 16."""
_BLOCK = 1 << 18
_NARROW = 16
"""How many columns a schema has at most whose blocks have `_BLOCK` rows; others have half of them."""
_SCRATCH = (1 << 25) - (1 << 16)


class Rows(Protocol):
    """Encoded rows that can be counted; exact, so for the curator's eyes only."""

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""

    def count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count the lawful rows in every cell of every partition, in one pass."""

    def count_public(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count the rows that break no rule of the public columns, for partitions by public columns."""

    def count_sparse(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the occupied cells, sorted, and the number of lawful rows in each."""

    def distinct(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """Return the distinct combinations among lawful rows and how often each occurs."""

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """Return the distinct combinations of public attributes and how often each occurs."""

    def total(self) -> int:
        """Return the number of rows held, lawful or not: what is public where n is public."""

    def within(self, attribute: str, code: int) -> Rows:
        """Return the block of rows with this code."""

    def codes(self) -> Iterator[Codes]:
        """Yield the lawful rows, chunk by chunk, in the order of their codes: never in that of the source."""


class BatchRows:
    """The rows of a source, encoded and counted batch by batch.

    Parameters
    ----------
    source
        Where rows come from.
    schema
        What is public about them.
    key
        The secret by which rows beyond `max_rows` are chosen; drawn from the operating system when omitted.
    cache_bytes
        Codes are kept in memory up to this size, column by column; other columns are read again for each
        pass that needs them.
    progress
        Told the fraction of a pass that is done.

    Privacy
    -------
    Everything here is exact and private. No exception, and nothing that is printed, depends on a value.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        key: bytes | None = None,
        cache_bytes: int = CACHE_BYTES,
        progress: Progress | None = None,
    ) -> None:
        self.schema = schema
        self._source = source
        self._key = secrets.token_bytes(32) if key is None else key
        self._cache_bytes = cache_bytes
        self._progress = progress
        self._blocks: list[_Block] | None = None
        # GNU's allocator hands freed arrays back to the system until it has seen one as large as this freed: a first
        # pass would spend a third of its time on fresh pages for scratch memory
        np.empty(_SCRATCH, dtype=np.uint8)
        self._caches: list[Cache] = []
        self._spared = False
        self._remembered: Remembered[Contingency] = Remembered()

    def count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count the lawful rows in every cell of every partition, in one pass."""
        return self.counted((), cells, "lawful")

    def count_public(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count the rows that break no rule of the public columns."""
        return self.counted((), cells, "public")

    def count_sparse(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the occupied cells, sorted, and the number of lawful rows in each."""
        return count_sparse(_within(self, (), cells.attributes, "lawful"), cells)

    def distinct(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """Return the distinct combinations among lawful rows and how often each occurs."""
        return distinct(_within(self, (), attributes, "lawful"), self.schema, attributes)

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """Return the distinct combinations of public attributes and how often each occurs."""
        return distinct(_within(self, (), attributes, "public"), self.schema, attributes)

    def total(self) -> int:
        """Return the number of rows held, lawful or not."""
        return sum(block.held for block in self._surveyed())

    def within(self, attribute: str, code: int) -> Rows:
        """Return the block of rows with this code."""
        self.schema[attribute]
        return WithinRows(self, ((attribute, code),))

    def codes(self) -> Iterator[Codes]:
        """Yield the lawful rows, chunk by chunk, in the order of their codes."""
        return one_by_one(*self.distinct(self.schema.names))

    def counted(self, fixed: Fixed, cells: Sequence[Cells], view: View) -> list[NDArray[np.int64]]:
        """Count the rows of a block and view: what is not remembered in one pass. The arrays are the caller's own."""
        check_size(list(cells))
        found = [
            self._remembered.find(fixed, view, c.attributes) if isinstance(c, Marginal) else None
            for c in cells
        ]
        asked = [table for table, known in zip(cells, found, strict=True) if known is None]
        names = [name for table in asked for name in table.attributes]
        fresh: Iterator[NDArray[np.int64]] = iter(())
        if asked:
            keep = bool(fixed) or not self._settled_by(asked)
            counts = count(_within(self, fixed, names, view, keep), asked)
            for table, n in zip(asked, counts, strict=True):
                if isinstance(table, Marginal):
                    answer = Contingency(table, n.copy())
                    self._remembered.keep(fixed, view, table.attributes, table.size, answer)
            fresh = iter(counts)
        return [
            next(fresh) if known is None else known.marginal(table.attributes).counts
            for table, known in zip(cells, found, strict=True)
        ]

    def _settled_by(self, cells: Sequence[Cells]) -> bool:
        """Whether codes are not worth keeping: every pair of attributes is counted and remembered in this pass.

        A second time they are: whoever asks for more may ask on.
        """
        if self._spared or not getattr(self._source, "quick", False):
            return False
        tables = [table for table in cells if isinstance(table, Marginal)]
        if len(tables) < len(cells) or sum(table.size for table in tables) > self._remembered.room:
            return False
        pairs = {pair for t in tables for pair in itertools.combinations(sorted(set(t.attributes)), 2)}
        self._spared = len(pairs) == comb(len(self.schema.names), 2)
        return self._spared

    def passing(self, names: Sequence[str], view: View, keep: bool = True) -> Iterator[Codes]:
        """Yield the named columns of the rows of a view, block by block: one pass, and `keep` them for the next."""
        names = [name for name in self.schema.names if name in set(names)]
        if self._blocks is None:
            yield from (
                _viewed(block, codes.project(names), view) for block, codes in self._first_pass(names, keep)
            )
            return
        kept = {name: cache for cache in self._caches for name in cache if name in names}
        absent = [name for name in names if name not in kept]
        read = self._read_again(absent, keep) if absent else itertools.repeat({}, len(self._blocks))
        for i, (block, fresh) in enumerate(zip(self._blocks, read, strict=True)):
            columns = {name: kept[name].block(name, i) if name in kept else fresh[name] for name in names}
            yield _viewed(block, Codes(self.schema, columns, block.held), view)

    def _surveyed(self) -> list[_Block]:
        if self._blocks is None:
            for _ in self._first_pass([], keep=True):
                pass
        return self._blocks or []

    def _deciding(self) -> list[str]:
        """List the columns that decide whether a row counts."""
        ruled = {name for rule in self.schema.rules for name in rule.attributes}
        return [a.name for a in self.schema.attributes if a.name in ruled or not a.domain.total]

    def _first_pass(self, names: Sequence[str], keep: bool) -> Iterator[tuple[_Block, Codes]]:
        """Read what decides which rows count, with `names`; remember the decision."""
        schema = self.schema
        wanted = set(names) | set(self._deciding())
        columns = [name for name in schema.names if name in wanted] or list(schema.names[:1])
        dropped = None
        if schema.unit.column is not None:
            dropped = beyond_max_rows(self._source.batches, schema, self._key)
        blocks: list[_Block] = []
        cache = Cache(self._cache_bytes if keep else 0, {name: schema[name].size for name in columns})
        start = 0
        for codes, coded in self._encoded(columns):
            if dropped is not None:
                coded &= dropped.kept(start, len(codes))
            held = codes if bool(coded.all()) else _taken(codes, coded)
            public = held.project([name for name in held.names if schema[name].role == "public"])
            block = _Block(
                rows=len(codes),
                held=len(held),
                keep=None if held is codes else np.packbits(coded),
                lawful=_packed(held.lawful()) if schema.rules else None,
                public=_packed(public.lawful()) if schema.rules and public.names else None,
            )
            start += len(codes)
            blocks.append(block)
            cache.add(held.columns)
            yield block, held
        if dropped is not None and start != dropped.rows:
            raise self._changed()
        self._blocks = blocks
        self._caches = [cache]

    def _read_again(
        self, names: Sequence[str], keep: bool
    ) -> Iterator[dict[str, NDArray[np.unsignedinteger]]]:
        """Read columns that are not in memory, for the rows that are held."""
        room = self._cache_bytes - sum(cache.nbytes for cache in self._caches) if keep else 0
        cache = Cache(room, {name: self.schema[name].size for name in names})
        blocks = iter(self._surveyed())
        for codes, _ in self._encoded(names):
            block = next(blocks, None)
            if block is None or block.rows != len(codes):
                raise self._changed()
            columns = dict(codes.columns)
            if block.keep is not None:
                coded = np.unpackbits(block.keep, count=block.rows).view(bool)
                columns = {name: column[coded] for name, column in columns.items()}
            cache.add(columns)
            yield columns
        if next(blocks, None) is not None:
            raise self._changed()
        self._caches.append(cache)

    def _encoded(self, names: Sequence[str]) -> Iterator[tuple[Codes, NDArray[np.bool_]]]:
        size = _BLOCK if len(self.schema.names) <= _NARROW else _BLOCK // 2

        def pipe(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Codes, NDArray[np.bool_]]]:
            return _reblocked(map(Encoder(self.schema, names).encode, batches), size)

        return piped(self._source, names, pipe, self._progress)

    def _changed(self) -> SourceError:
        return SourceError(
            f"{self._source.describe()}: the rows changed between two passes; try again when they do not"
        )


@dataclass(frozen=True, eq=False)
class WithinRows:
    """A block of rows: those with given codes of some attributes."""

    whole: BatchRows
    fixed: Fixed

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.whole.schema

    def count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count the lawful rows of the block in every cell of every partition, in one pass."""
        return self.whole.counted(self.fixed, cells, "lawful")

    def count_public(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count the rows of the block that break no rule of the public columns."""
        return self.whole.counted(self.fixed, cells, "public")

    def count_sparse(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the occupied cells of the block, sorted, and the number of lawful rows in each."""
        return count_sparse(_within(self.whole, self.fixed, cells.attributes, "lawful"), cells)

    def distinct(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """Return the distinct combinations among lawful rows of the block and how often each occurs."""
        return distinct(_within(self.whole, self.fixed, attributes, "lawful"), self.schema, attributes)

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """Return the distinct combinations of public attributes and how often each occurs in the block."""
        return distinct(_within(self.whole, self.fixed, attributes, "public"), self.schema, attributes)

    def total(self) -> int:
        """Return the number of rows of the block, lawful or not."""
        return sum(len(codes) for codes in _within(self.whole, self.fixed, [], "held"))

    def within(self, attribute: str, code: int) -> Rows:
        """Return a block of this block."""
        self.schema[attribute]
        return WithinRows(self.whole, (*self.fixed, (attribute, code)))

    def codes(self) -> Iterator[Codes]:
        """Yield the lawful rows of the block, chunk by chunk, in the order of their codes."""
        return one_by_one(*self.distinct(self.schema.names))


@dataclass(frozen=True)
class _Block:
    """What is remembered of a run of rows: which are held, and which of those break rules (bits, or all)."""

    rows: int
    held: int
    keep: NDArray[np.uint8] | None
    lawful: NDArray[np.uint8] | None
    public: NDArray[np.uint8] | None


def _within(
    rows: BatchRows, fixed: Fixed, names: Sequence[str], view: View, keep: bool = True
) -> Iterator[Codes]:
    for codes in rows.passing([*names, *(name for name, _ in fixed)], view, keep):
        if not fixed:
            yield codes
            continue
        inside = np.ones(len(codes), dtype=bool)
        for name, code in fixed:
            inside &= codes[name] == code
        yield _taken(codes, inside)


def _viewed(block: _Block, codes: Codes, view: View) -> Codes:
    bits = {"held": None, "lawful": block.lawful, "public": block.public}[view]
    return codes if bits is None else _taken(codes, np.unpackbits(bits, count=block.held).view(bool))


def _taken(codes: Codes, keep: NDArray[np.bool_]) -> Codes:
    """Take rows, keeping their number also where there are no columns."""
    columns = {name: column[keep] for name, column in codes.columns.items()}
    return Codes(codes.schema, columns, int(np.count_nonzero(keep)))


def _packed(mask: NDArray[np.bool_]) -> NDArray[np.uint8] | None:
    return None if bool(mask.all()) else np.packbits(mask)


def _reblocked(
    parts: Iterator[tuple[Codes, NDArray[np.bool_]]], size: int
) -> Iterator[tuple[Codes, NDArray[np.bool_]]]:
    """Cut a run of rows into blocks of one size, whatever the batches were: two passes must agree on the blocks.

    A source may cut its batches differently for different columns, but not its runs.
    """
    waiting: list[tuple[Codes, NDArray[np.bool_]]] = []
    rows = 0
    for codes, keep in parts:
        if rows == 0 and len(codes) == size:
            yield codes, keep
            continue
        start = 0
        while rows + len(codes) - start >= size:
            stop = start + size - rows
            waiting.append((_sliced(codes, start, stop), keep[start:stop]))
            yield _joined(waiting)
            waiting, rows, start = [], 0, stop
        if start < len(codes):
            waiting.append((_sliced(codes, start, len(codes)), keep[start:]))
            rows += len(codes) - start
    if waiting:
        yield _joined(waiting)


def _sliced(codes: Codes, start: int, stop: int) -> Codes:
    return Codes(
        codes.schema, {name: column[start:stop] for name, column in codes.columns.items()}, stop - start
    )


def _joined(parts: Sequence[tuple[Codes, NDArray[np.bool_]]]) -> tuple[Codes, NDArray[np.bool_]]:
    if len(parts) == 1:
        return parts[0]
    return Codes.concatenate([codes for codes, _ in parts]), np.concatenate([keep for _, keep in parts])
