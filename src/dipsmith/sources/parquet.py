"""Parquet files: read column by column, text columns by their dictionaries.

A Parquet file carries its types, so nothing is inferred from rows. Text columns that the file stores with
a dictionary are handed on that way: whoever encodes them looks up a handful of dictionary entries instead
of every row.

The syntax pass decodes every page of the required columns once, so that a damaged page is noticed before
anything is charged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.errors import SourceError
from dipsmith.sources.header import check_header
from dipsmith.sources.layout import BATCH_ROWS, check_layout, check_type, plain
from dipsmith.sources.pages import Pages
from dipsmith.sources.readahead import Ahead
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Made, Pipe, Progress
from dipsmith.sources.stamp import Stamp, reading

MAGIC = b"PAR1"
_INT96 = "us"
"""What old timestamps of 96 bits are read in: in nanoseconds, Arrow's own choice, far years wrap around silently."""
_RUN_ROWS = 1 << 19
_THREADS = 3
_FEW = 16
_WAITING = 1 << 25
"""Bytes of decoded indices that may wait in each thread."""


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file.

    Attributes
    ----------
    quick
        Reading a row again takes about as long as keeping its codes would.
    """

    path: Path
    quick: ClassVar[bool] = True

    @cached_property
    def stamp(self) -> Stamp:
        """The file as it was when first looked at."""
        return Stamp.of(self.path)

    @cached_property
    def _schema(self) -> pa.Schema:
        with reading(self.path, self.stamp), self._open() as file:
            return file.schema_arrow

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the footer."""
        return tuple(self._schema.names)

    def check(self, required: Sequence[str]) -> None:
        """Footer, header, types, and every page of the required columns."""
        check_header(str(self.path), self.columns, required)
        for name in required:
            check_type(str(self.path), name, self._schema.field(name).type)
        for batch in self.batches(required):
            check_layout(str(self.path), batch)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        return self.piped(columns, lambda batches: batches, progress)

    def piped(
        self, columns: Sequence[str], pipe: Pipe[Made], progress: Progress | None = None
    ) -> Iterator[Made]:
        """What a pipe makes of every run of row groups; the runs are decoded side by side."""
        check_header(str(self.path), self.columns, columns)
        with reading(self.path, self.stamp), self._open() as file, ExitStack() as stack:
            runs = _runs_of_groups(file.metadata)
            texts = [name for name in columns if _has_dictionary(file, name)]
            pages = Pages.of(file, self.path, columns)
            decoder = _Decoder(self.path, file.metadata, list(columns), texts, pages, alone=len(runs) == 1)
            threads = min(_threads(), len(runs))
            lanes = [
                stack.enter_context(Ahead(decoder.lane(runs[first::threads], pipe), decoder.depth))
                for first in range(threads)
            ]
            done, rows = 0, max(file.metadata.num_rows, 1)
            try:
                for run in range(len(runs)):
                    read = 0
                    for item in lanes[run % threads]:
                        if item is None:
                            break
                        read, made = item
                        yield made
                        if progress is not None:
                            progress((done + read) / rows)
                    done += read
            except pa.ArrowException:
                retell(self._damaged())

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path, coerce_int96_timestamp_unit=_INT96)
        except pa.ArrowException:
            retell(self._damaged())

    def _damaged(self) -> SourceError:
        return SourceError(f"{self.path}: not a readable Parquet file (damaged or cut short); write it again")


@dataclass(frozen=True)
class _Decoder:
    """Decodes runs of row groups, each with a reader of its own."""

    path: Path
    metadata: pq.FileMetaData
    columns: list[str]
    texts: list[str]
    pages: Pages | None
    alone: bool

    @property
    def depth(self) -> int:
        """How many batches may wait in each thread."""
        return max(2, _WAITING // (self.rows * 4 * max(len(self.columns), 1)))

    @property
    def rows(self) -> int:
        """How many rows a batch has: few columns are decoded in longer batches, which costs fewer calls."""
        return BATCH_ROWS if len(self.columns) > _FEW else 2 * BATCH_ROWS

    def lane(self, runs: list[list[int]], pipe: Pipe[Made]) -> Iterator[tuple[int, Made] | None]:
        """Decode some runs, one after the other; None ends each."""
        for groups in runs:
            yield from self.run(groups, pipe)
            yield None

    def run(self, groups: list[int], pipe: Pipe[Made]) -> Iterator[tuple[int, Made]]:
        """Decode some row groups; yield the rows read so far with what the pipe makes of them."""
        read = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal read
            for batch in self._batches(groups):
                read += batch.num_rows
                # whether a column may have missing values is not told: it depends on the row group
                arrays = [batch.column(name) for name in self.columns]
                yield plain(pa.RecordBatch.from_arrays(arrays, names=self.columns))

        for made in pipe(batches()):
            yield read, made

    def _batches(self, groups: list[int]) -> Iterator[pa.RecordBatch]:
        options: dict[str, Any] = {"coerce_int96_timestamp_unit": _INT96}
        if self.texts:
            options["read_dictionary"] = self.texts
        with (
            pq.ParquetFile(self.path, metadata=self.metadata, **options) as own,
            self.path.open("rb") as file,
        ):
            for some in [groups] if self.pages is None else [[group] for group in groups]:
                light = None if self.pages is None else self.pages.group(file, some[0])
                reader = own if light is None else pq.ParquetFile(pa.BufferReader(light), **options)
                # where there is one run only, its columns are decoded side by side instead
                yield from reader.iter_batches(
                    self.rows, some if light is None else None, self.columns, use_threads=self.alone
                )


def _threads() -> int:
    """How many threads read ahead: whoever asked for the rows needs a core as well."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_THREADS, cores - 1))


def _runs_of_groups(metadata: pq.FileMetaData) -> list[list[int]]:
    """Divide the row groups into runs of half a million rows or more."""
    runs: list[list[int]] = [[]]
    rows = 0
    for group in range(metadata.num_row_groups):
        if rows >= _RUN_ROWS:
            runs.append([])
            rows = 0
        runs[-1].append(group)
        rows += metadata.row_group(group).num_rows
    return runs


def _has_dictionary(file: pq.ParquetFile, name: str) -> bool:
    """Whether a text column is stored mostly as dictionary indices.

    An identifier with as many values as rows is not: hashing it into a dictionary would cost more than
    it saves. Its chunk takes more than four bytes a value.
    """
    schema = file.schema_arrow
    kind = schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or not file.num_row_groups:
        return False
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    chunk = file.metadata.row_group(0).column(paths.index(name))
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= 4 * max(chunk.num_values, 64))
