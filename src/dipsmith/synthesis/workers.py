"""What is sent to the workers of a Spark cluster: the model travels, the rows stay.

A fitted model is small: it is broadcast once, each partition labels its own rows or draws its own share. What is
released is written by the workers through the one exit (`WritePartition`), what a user of a model asks for by Spark
itself. Nothing is collected on the driver.

Privacy
-------
Post-processing of a model whose counts are noisy already: free, and no noise is drawn here. Every block of
rows is drawn by AES-256 under a key of its own: SHA-256 of a secret of this call, the partition and the
block. A task that Spark runs again therefore makes the same rows again, and no two blocks share a stream. The secret
travels inside the function that the workers run: it is in no plan, page or event log of Spark.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.privacy.randomness import place_key
from dipsmith.schema import Schema
from dipsmith.sources.spark import BLOCK, Function
from dipsmith.synthesis.canonical import as_type, canonical_type
from dipsmith.synthesis.exit import write_rows
from dipsmith.synthesis.fitted import FittedModel, drawn_table, label_batch, secret_of

ORDER = "dipsmith order"
"""The column by which rows are put in another order; it is not released."""


@dataclass(frozen=True)
class PlaceRows:
    """Sent to the workers: gives each row a place in an order that its values decide, under a key.

    The place is a sum of keyed digests, one for each column: wherever a row lies, it has the same place, and
    without the key nobody can tell which.
    """

    schema: Schema
    key: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give each row its place."""
        for rows in batches:
            places = np.zeros(rows.num_rows, np.uint64)
            for name, column in zip(rows.schema.names, rows.columns, strict=True):
                places += self._digests(as_type(column, canonical_type(column.type, self.schema[name])), name)
            place = pa.array((places >> np.uint64(1)).astype(np.int64))
            yield pa.RecordBatch.from_arrays([*rows.columns, place], names=[*rows.schema.names, ORDER])

    def _digests(self, column: pa.Array, name: str) -> NDArray[np.uint64]:
        if not (pa.types.is_string(column.type) or pa.types.is_boolean(column.type)):
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        encoded = column.dictionary_encode()
        told = [f"{name}\0{value!r}".encode() for value in (*encoded.dictionary.to_pylist(), None)]
        digests = [hashlib.blake2b(t, key=self.key, digest_size=8).digest() for t in told]
        indices = encoded.indices.fill_null(len(told) - 1).to_numpy(zero_copy_only=False)
        found: NDArray[np.uint64] = np.frombuffer(b"".join(digests), np.uint64)[indices]
        return found


@dataclass(frozen=True)
class LabelPartition:
    """Sent to the workers: labels the rows of a partition."""

    model: Any
    secret: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Label the rows."""
        labeller = _unpack_model(self.model).labeller()
        partition = _partition()
        for i, rows in enumerate(batches):
            yield from label_batch(labeller, rows, place_key(self.secret, partition, i)).to_batches()


@dataclass(frozen=True)
class WritePartition:
    """Sent to the workers: writes what a function makes of a partition through the exit; tells how many rows it has.

    A task that runs again writes the same bytes again, under a name of its own until they are whole.
    """

    make: Function
    folder: Path  # at the same place for the workers as for this machine
    columns: tuple[str, ...]
    schema: Schema | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition."""
        pieces = (self._canonical(batch) for batch in self.make(batches))
        first = next(pieces, None)
        if first is None:
            return
        partial = self.folder / f".{secrets.token_hex(16)}.partial"
        try:
            with partial.open("xb") as file:
                rows = write_rows(file, chain([first], pieces), first.schema)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.folder / f"{_partition():05d}.parquet")
        finally:
            partial.unlink(missing_ok=True)
        yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    def _canonical(self, batch: pa.RecordBatch) -> pa.Table:
        arrays = {name: batch.column(name) for name in self.columns}
        if self.schema is not None:
            arrays = {n: as_type(a, canonical_type(a.type, self.schema[n])) for n, a in arrays.items()}
        return pa.table(arrays)


@dataclass(frozen=True)
class DrawPartition:
    """Sent to the workers: draws the blocks of a partition, which are numbered over all partitions."""

    model: Any
    secret: bytes
    rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Draw the blocks."""
        model = _unpack_model(self.model)
        for batch in batches:
            for block in batch.column(0).to_pylist():
                key = place_key(self.secret, block)
                codes = model.inner.sample(min(BLOCK, self.rows - block * BLOCK), key)
                yield from drawn_table(codes, key).to_batches()


def drawing_secret(seed: int | None) -> bytes:
    """The secret that rows are drawn by: fresh, or what a seed stands for."""
    return secrets.token_bytes(32) if seed is None else secret_of(seed)


def broadcast(model: FittedModel, frame: Any) -> Any:
    """The model as bytes, broadcast where the session can: a Connect session sends it with the function."""
    packed = model.to_bytes()
    session = frame.sparkSession
    return session.sparkContext.broadcast(packed) if hasattr(session, "_jsparkSession") else packed


def _unpack_model(sent: Any) -> FittedModel:
    return FittedModel.from_bytes(sent if isinstance(sent, bytes) else sent.value)


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())
