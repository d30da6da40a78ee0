"""Labelling and sampling on the workers of a Spark cluster: the model travels, the rows stay.

A fitted model is small: it is broadcast once, each partition labels its own rows or draws its own share,
and the workers write what they made as a folder of Parquet files. Nothing is collected on the driver.

Privacy
-------
Post-processing of a model whose counts are noisy already: free, and no noise is drawn here. Every batch
draws from a generator of its own, whose 128-bit seed is SHA-256 of a secret of this call, the partition
and the batch. A task that Spark runs again therefore makes the same rows again, and no two partitions
share a stream. The order of the rows given is kept, unless `shuffle` is asked for: an order may tell.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dipsmith.codec.decode import decode, released_type
from dipsmith.errors import UsageError
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute
from dipsmith.sources.spark import SparkTable, failures, on_workers

if TYPE_CHECKING:
    from dipsmith.synthesis.fitted import FittedModel

BLOCK = 1 << 16
"""Rows that a worker draws at once."""


def label_on_workers(
    model: FittedModel, rows: SparkTable, out: str, seed: int | None = None, *, shuffle: bool = False
) -> str:
    """Label the rows of a Spark table where they lie; the workers write a Parquet folder.

    Parameters
    ----------
    model
        A model that labels.
    rows
        The table; all its columns except the labels are kept as they stand.
    out
        Where to: a folder that every worker can write to and that does not exist.
    seed
        For labels that can be drawn again on the same partitions.
    shuffle
        Write the rows in an order that tells nothing, drawn by the same secret.

    Returns
    -------
    str
        `out`.
    """
    labeller = model.labeller()
    from dipsmith.synthesis.fitted import predictors

    rows.check(predictors(labeller))
    kept = [name for name in rows.columns if name not in labeller.targets]
    secret = _secret(seed)
    with failures(rows.describe()):
        given = rows.selected(kept)
        fields = {f.name: f.dataType.simpleString() for f in given.schema.fields}
        made = [(name, fields[name]) for name in kept]
        made += [(name, _spark_type(labeller.schema[name])) for name in labeller.targets]
        work = _Labelling(_sent(model, given), secret)
        result = on_workers(given, work, _ddl(made))
        if shuffle:
            result = _shuffled(result, secret)
        result.write.mode("errorifexists").parquet(out)
    return out


def sample_on_workers(
    model: FittedModel,
    on: SparkTable,
    n: int | None,
    out: str,
    seed: int | None = None,
    *,
    partitions: int | None = None,
) -> str:
    """Draw rows from a model on the workers of a cluster; they write a Parquet folder.

    Parameters
    ----------
    model
        Any model.
    on
        A table of the cluster; its session does the work, its rows are not read.
    n
        How many rows.
    out
        Where to: a folder that every worker can write to and that does not exist.
    seed
        For rows that can be drawn again with as many partitions.
    partitions
        Into how many pieces the work is cut; as many as Spark cuts by default when omitted.
    """
    if n is None or n < 0:
        raise UsageError("on a cluster say how many rows to draw: n=…")
    with failures(on.describe()):
        session = on.frame.sparkSession
        pieces = partitions or max(int(session.range(0, 1 << 20).rdd.getNumPartitions()), 1)
        made = [(a.name, _spark_type(a)) for a in model.schema]
        work = _Sampling(_sent(model, on.frame), _secret(seed), n, pieces)
        drawn = on_workers(session.range(0, pieces, 1, pieces), work, _ddl(made))
        drawn.write.mode("errorifexists").parquet(out)
    return out


@dataclass(frozen=True)
class _Labelling:
    """Sent to the workers: labels the rows of a partition."""

    model: Any
    secret: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from dipsmith.synthesis.fitted import labelled

        labeller = _received(self.model).labeller()
        partition = _partition()
        for i, batch in enumerate(batches):
            table = labelled(labeller, batch, derived(self.secret, partition, i))
            yield from _plain(table).to_batches()


@dataclass(frozen=True)
class _Sampling:
    """Sent to the workers: draws the share of a partition."""

    model: Any
    secret: bytes
    rows: int
    pieces: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        model = _received(self.model)
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                share = self.rows * (piece + 1) // self.pieces - self.rows * piece // self.pieces
                for i, start in enumerate(range(0, share, BLOCK)):
                    seed = derived(self.secret, piece, i)
                    codes = model.inner.sample(min(BLOCK, share - start), seed)
                    yield from _plain(decode(codes, generator(seed + 1))).to_batches()


def derived(secret: bytes, partition: int, batch: int) -> int:
    """The seed of one batch of one partition: 128 bits of SHA-256.

    >>> derived(b"x", 0, 1) == derived(b"x", 0, 1), derived(b"x", 0, 1) == derived(b"x", 1, 0)
    (True, False)
    """
    text = secret + partition.to_bytes(8, "big") + batch.to_bytes(8, "big")
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")


def _secret(seed: int | None) -> bytes:
    return secrets.token_bytes(32) if seed is None else hashlib.sha256(f"seed {seed}".encode()).digest()


def _sent(model: FittedModel, frame: Any) -> Any:
    """The model as bytes, broadcast where the session can: a Connect session sends it with the function."""
    packed = model.packed()
    session = frame.sparkSession
    return session.sparkContext.broadcast(packed) if hasattr(session, "_jsparkSession") else packed


def _received(sent: Any) -> FittedModel:
    from dipsmith.synthesis.fitted import FittedModel

    return FittedModel.unpacked(sent if isinstance(sent, bytes) else sent.value)


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _spark_type(attribute: Attribute) -> str:
    """The type of a decoded column."""
    return {
        "string": "string",
        "integer": "bigint",
        "number": "double",
        "boolean": "boolean",
        "date": "date",
        "datetime": "timestamp_ntz",
    }[released_type(attribute)]


def _ddl(fields: Sequence[tuple[str, str]]) -> str:
    return ", ".join("`" + name.replace("`", "``") + "` " + kind for name, kind in fields)


def _plain(table: pa.Table) -> pa.Table:
    """Dictionaries as text: Spark has none."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def _shuffled(frame: Any, secret: bytes) -> Any:
    from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

    at = F.sha2(F.concat(F.lit(secret.hex()), F.monotonically_increasing_id().cast("string")), 256)
    return frame.withColumn("dipsmith order", at).orderBy("dipsmith order").drop("dipsmith order")
