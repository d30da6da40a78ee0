"""Rows that may not fit in memory: divided by a hash and written to temporary files when they do not.

The files lie in a folder that only its owner may enter, have no name, and vanish with the process, however
it ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
import pyarrow as pa

_PARTS = 64


class Spill:
    """A growing table, divided by the column `by` of 64-bit hashes; above `memory` bytes in unnamed temporary files."""

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
        # The folder is readable by its owner only; the files in it have no name, so that nothing is left
        # behind even when the process is killed.
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="dipsmith-"))
        for _ in range(_PARTS):
            file = self._stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
            self._files.append(file)
            self._writers.append(pa.ipc.new_stream(file, schema))
