"""The rows of a source as codes, block by block, as often as counting needs them.

The first pass decides which rows are held and which of those break a rule, and remembers both in a bit per row.
Codes are kept in memory in small integers as far as there is room, column by column; other columns are read again.
Blocks are cut at the same places in every pass, whatever the batches of the source are.
"""

from __future__ import annotations

import copy
import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.codec.encode import Encoder
from dipsmith.counting.memory import View
from dipsmith.counting.units import beyond_max_rows
from dipsmith.errors import SourceError, UsageError
from dipsmith.schema import Codes, Schema
from dipsmith.schema.codes import code_dtype
from dipsmith.sources import Progress, Source
from dipsmith.sources.fetched_rows import FetchedRows

CACHE_BYTES = 3 << 28
"""Codes kept in memory: 100 M rows of eight columns of up to 256 values."""
BLOCK = 1 << 18
_SCRATCH = (1 << 25) - (1 << 16)

Column = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class _Block:
    """What is remembered of a run of rows: which are held, and which of those break rules (bits, or all)."""

    rows: int
    held_rows: int
    keep: NDArray[np.uint8] | None
    lawful: NDArray[np.uint8] | None
    public: NDArray[np.uint8] | None

    def select_held(self, column: Column) -> Column:
        """The values of a column in the rows that are held."""
        return column if self.keep is None else column[np.unpackbits(self.keep, count=self.rows).view(bool)]

    def mask(self, view: View) -> Bools:
        """Which rows are held and in a view."""
        mask = np.ones(self.rows, bool) if self.keep is None else np.unpackbits(self.keep, count=self.rows).view(bool)
        if (bits := self._bits(view)) is not None:
            mask[mask] = np.unpackbits(bits, count=self.held_rows).view(bool)
        return mask

    def select(self, codes: Codes, view: View) -> Codes:
        """The rows of a view, of those that are held."""
        bits = self._bits(view)
        return codes if bits is None else codes.take(np.unpackbits(bits, count=self.held_rows).view(bool))

    def _bits(self, view: View) -> NDArray[np.uint8] | None:
        return {"held": None, "lawful": self.lawful, "public": self.public}[view]


class EncodedRows:
    """The rows of a source that count, encoded; parameters as of `BatchRows`."""

    def __init__(
        self,
        source: Source,
        schema: Schema,
        key: bytes | None = None,
        cache_bytes: int = CACHE_BYTES,
        progress: Progress | None = None,
    ) -> None:
        self.schema = schema
        self._source = FetchedRows.of(source, schema.columns)
        self.key = secrets.token_bytes(32) if key is None else key
        self._progress = progress
        self._blocks: list[_Block] | None = None
        self._kinds: Ints | None = None
        self._kept: dict[str, list[Column]] = {}
        self._room = cache_bytes
        # GNU's allocator hands freed arrays back to the system until it has seen one as large as this freed: a first
        # pass would spend a third of its time on fresh pages for scratch memory
        np.empty(_SCRATCH, dtype=np.uint8)

    def blocks(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield the named columns of the rows of a view, block by block: one pass."""
        names = [name for name in self.schema.names if name in set(names)]
        if self._blocks is None:
            yield from (block.select(codes.project(names), view) for block, codes in self._first_pass(names))
            return
        kept = {name: self._kept[name] for name in names if name in self._kept}
        absent = [name for name in names if name not in kept]
        read = self._read_again(absent) if absent else itertools.repeat({}, len(self._blocks))
        for i, (block, fresh) in enumerate(zip(self._blocks, read, strict=True)):
            columns = {name: kept[name][i] if name in kept else fresh[name] for name in names}
            yield block.select(Codes(self.schema, columns, block.held_rows), view)

    def total(self) -> int:
        """Return the number of rows held, lawful or not."""
        if self._blocks is None:
            for _ in self._first_pass([]):
                pass
        return sum(block.held_rows for block in self._blocks or [])

    def mask(self, view: View, kinds: Ints | None = None) -> Bools:
        """Which rows of the source are held and in a view, in its order; `kinds` as of `beyond_max_rows`, told at first."""
        if kinds is not None:
            if self._blocks is not None and self._kinds is None and self.schema.unit.column is not None:
                raise UsageError("which rows count was decided already, without their kinds; tell these first")
            self._kinds = kinds
        self.total()
        return np.concatenate([block.mask(view) for block in self._blocks or []] or [np.zeros(0, dtype=bool)])

    def raw(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of every row of the source as they stand, in its order; a row more or less than before is an error."""
        expected = sum(block.rows for block in self._blocks or [])
        for batch in self._source.batches(names, self._progress):
            expected -= batch.num_rows
            if expected < 0:
                raise self._changed_error()
            yield batch
        if expected:
            raise self._changed_error()

    def with_public_columns(self, schema: Schema, columns: Mapping[str, NDArray[np.integer]]) -> EncodedRows:
        """The same rows with more columns, whose codes are given for every row of the source, in its order."""
        self.total()
        blocks = self._blocks or []
        starts = np.cumsum([0, *(block.rows for block in blocks)])
        wider = copy.copy(self)
        wider.schema, wider._kept = schema, dict(self._kept)
        for name, column in columns.items():
            codes = np.asarray(column, dtype=code_dtype(schema[name].size))
            if len(codes) != starts[-1]:
                raise self._changed_error()
            cut = zip(blocks, starts[:-1], strict=True)
            wider._kept[name] = [block.select_held(codes[start : start + block.rows]) for block, start in cut]
        return wider

    def _first_pass(self, names: Sequence[str]) -> Iterator[tuple[_Block, Codes]]:
        """Read what decides which rows count, with `names`; remember the decision."""
        schema = self.schema
        deciding = {name for rule in schema.rules for name in rule.attributes}
        deciding |= {a.name for a in schema.attributes if not a.domain.total}
        columns = [n for n in schema.names if n in deciding or n in names] or list(schema.names[:1])
        dropped = None
        if schema.unit.column is not None:
            dropped = beyond_max_rows(self._source.batches, schema, self.key, self._kinds)
        blocks: list[_Block] = []
        cache = _Cache(self._room, columns)
        start = 0
        for codes, coded in self._encode_blocks(columns):
            if dropped is not None:
                coded &= dropped.kept_mask(start, len(codes))
            held = codes if bool(coded.all()) else codes.take(coded)
            public = held.project([name for name in held.names if schema[name].role == "public"])
            block = _Block(
                rows=len(codes),
                held_rows=len(held),
                keep=None if held is codes else np.packbits(coded),
                lawful=_pack(held.lawful()) if schema.rules else None,
                public=_pack(public.lawful()) if schema.rules and public.names else None,
            )
            start += len(codes)
            blocks.append(block)
            cache.add(held.columns)
            yield block, held
        if dropped is not None and start != dropped.rows:
            raise self._changed_error()
        self._blocks, self._kept, self._room = blocks, cache.columns, cache.room

    def _read_again(self, names: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        """Read columns that are not in memory, for the rows that are held."""
        cache = _Cache(self._room, names)
        blocks = iter(self._blocks or [])
        for codes, _ in self._encode_blocks(names):
            block = next(blocks, None)
            if block is None or block.rows != len(codes):
                raise self._changed_error()
            if block.keep is not None:
                codes = codes.take(np.unpackbits(block.keep, count=block.rows).view(bool))
            cache.add(codes.columns)
            yield codes.columns
        if next(blocks, None) is not None:
            raise self._changed_error()
        self._kept |= cache.columns
        self._room = cache.room

    def _encode_blocks(self, names: Sequence[str]) -> Iterator[tuple[Codes, Bools]]:
        """Encode the rows and cut them into blocks of one size: two passes must agree on the blocks."""
        encoder = Encoder(self.schema, names)
        waiting: list[tuple[Codes, Bools]] = []
        rows = 0
        for batch in self._source.batches(names, self._progress):
            codes, keep = encoder.encode(batch)
            while rows + len(codes) >= BLOCK:
                fits = BLOCK - rows
                whole = fits == len(codes)
                waiting.append((codes if whole else codes.take(slice(fits)), keep[:fits]))
                yield _join(waiting)
                waiting, rows = [], 0
                codes, keep = codes.take(slice(fits, None)), keep[fits:]
            if len(codes):
                waiting.append((codes, keep))
                rows += len(codes)
        if rows:
            yield _join(waiting)

    def _changed_error(self) -> SourceError:
        return SourceError(
            f"{self._source.describe()}: the rows changed between two passes; try again when they do not"
        )


class _Cache:
    """The blocks of some columns, in as many bytes as there is room for; the last columns give way first."""

    def __init__(self, room: int, names: Sequence[str]) -> None:
        self.room = room
        self.columns: dict[str, list[Column]] = {name: [] for name in names}

    def add(self, block: Mapping[str, Column]) -> None:
        """Keep one more block of every column that still fits."""
        for name, blocks in self.columns.items():
            # a piece of a larger array would keep all of it
            column = block[name].copy() if isinstance(block[name].base, np.ndarray) else block[name]
            blocks.append(column)
            self.room -= column.nbytes
        while self.room < 0:
            _, dropped = self.columns.popitem()
            self.room += sum(column.nbytes for column in dropped)


def _pack(mask: Bools) -> NDArray[np.uint8] | None:
    return None if bool(mask.all()) else np.packbits(mask)


def _join(parts: Sequence[tuple[Codes, Bools]]) -> tuple[Codes, Bools]:
    if len(parts) == 1:
        return parts[0]
    return Codes.concatenate([codes for codes, _ in parts]), np.concatenate([keep for _, keep in parts])
