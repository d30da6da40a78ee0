"""Labelling and sampling on the workers of a Spark cluster: the model travels, the rows stay.

A fitted model is small: it is broadcast once, each partition labels its own rows or draws its own share,
and the workers write what they made as a folder of Parquet files. Nothing is collected on the driver.

Privacy
-------
Post-processing of a model whose counts are noisy already: free, and no noise is drawn here. Every block of
rows is drawn by AES-256 under a key of its own: SHA-256 of a secret of this call, the partition and the
block. A task that Spark runs again therefore makes the same rows again, and no two blocks share a stream. The secret
travels inside the function that the workers run: it is in no plan, page or event log of Spark.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dipsmith.codec.decode import decode, released_type
from dipsmith.errors import OutputError, UsageError
from dipsmith.privacy.randomness import generator, place_key
from dipsmith.schema import Attribute
from dipsmith.sources.spark import BLOCK, SparkTable, failures, on_workers, quoted

if TYPE_CHECKING:
    from dipsmith.synthesis.fitted import FittedModel

FILE = 1 << 19
"""Rows of a file, about, where the number of files is free."""
_ORDER = "dipsmith order"


def label_on_workers(
    model: FittedModel,
    rows: SparkTable,
    out: str,
    seed: int | None = None,
    *,
    shuffle: bool = False,
    columns: Sequence[str] | None = None,
    expected: int | None = None,
) -> str:
    """Label the rows of a Spark table where they lie; the workers write a Parquet folder.

    Parameters
    ----------
    model
        A model that labels.
    rows
        The table.
    out
        Where to: a folder that every worker can write to and that does not exist.
    seed
        For labels that can be drawn again on the same partitions.
    shuffle
        Write the rows in an order that tells nothing, drawn by the same secret; otherwise their order is kept.
    columns
        What is written, in this order; all columns of the table and then the labels when omitted.
    expected
        How many rows there are, where that is known; to be shuffled they are counted otherwise.

    Returns
    -------
    str
        `out`.
    """
    from dipsmith.synthesis.fitted import predictors

    labeller = model.labeller()
    rows.check(predictors(labeller))
    kept = [n for n in rows.columns if n not in labeller.targets and (columns is None or n in columns)]
    with failures(rows.describe()):
        given = rows.selected(kept)
        fields = {f.name: f.dataType.simpleString() for f in given.schema.fields}
        made = [(name, fields[name]) for name in kept]
        made += [(name, _spark_type(labeller.schema[name])) for name in labeller.targets]
        order = [(_ORDER, "bigint")] if shuffle else []
        work = _Labelling(_sent(model, given), _secret(seed), shuffle)
        result = on_workers(given, work, _ddl(made + order))
        if shuffle:
            pieces = -(-(given.count() if expected is None else expected) // FILE) or 1
            result = result.repartition(pieces, _ORDER).sortWithinPartitions(_ORDER)
        written = columns or [name for name, _ in made]
        result = result.select(*[result[quoted(name)] for name in written])
        _write(result, out)
    return out


def sample_on_workers(
    model: FittedModel, on: SparkTable, n: int | None, out: str, seed: int | None = None
) -> str:
    """Draw rows from a model on the workers of a cluster; they write a Parquet folder.

    Parameters
    ----------
    model
        A model that draws whole rows.
    on
        A table of the cluster; its session does the work, its rows are not read.
    n
        How many rows.
    out
        Where to: a folder that every worker can write to and that does not exist.
    seed
        For rows that can be drawn again, by a cluster of any size.
    """
    if n is None or n < 0:
        raise UsageError("on a cluster say how many rows to draw: n=…")
    if model.schema.neighbours == "label":
        raise UsageError(
            f"a model of {model.method} under neighbours 'label' draws labels for given public rows, not whole rows; use "
            "label(rows, out=…) instead"
        )
    with failures(on.describe()):
        session = on.frame.sparkSession
        made = [(a.name, _spark_type(a)) for a in model.schema]
        work = _Sampling(_sent(model, on.frame), _secret(seed), n)
        blocks = session.range(0, -(-n // BLOCK), 1, -(-n // FILE) or 1)
        _write(on_workers(blocks, work, _ddl(made)), out)
    return out


def _write(frame: Any, out: str) -> None:
    """Have the workers write a folder that does not exist."""
    from pyspark.errors import AnalysisException

    try:
        frame.write.mode("errorifexists").parquet(out)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise OutputError(f"'{out}' exists already; choose another out= or move it away") from None


@dataclass(frozen=True)
class _Labelling:
    """Sent to the workers: labels the rows of a partition, and gives each a place in another order if asked."""

    model: Any
    secret: bytes
    shuffle: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from dipsmith.synthesis.fitted import labelled

        labeller = _received(self.model).labeller()
        partition = _partition()
        for i, rows in enumerate(batches):
            key = place_key(self.secret, partition, i)
            table = _plain(labelled(labeller, rows, key))
            if self.shuffle:
                places = generator(place_key(self.secret, partition, i, 1)).integers(0, 1 << 63, len(table))
                table = table.append_column(_ORDER, pa.array(places))
            yield from table.to_batches()


@dataclass(frozen=True)
class _Sampling:
    """Sent to the workers: draws the blocks of a partition, which are numbered over all partitions."""

    model: Any
    secret: bytes
    rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        model = _received(self.model)
        for batch in batches:
            for block in batch.column(0).to_pylist():
                codes = model.inner.sample(
                    min(BLOCK, self.rows - block * BLOCK), place_key(self.secret, block, 0)
                )
                values = generator(place_key(self.secret, block, 1))
                yield from _plain(decode(codes, values)).to_batches()


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
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in fields)


def _plain(table: pa.Table) -> pa.Table:
    """Dictionaries as text: Spark has none."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table
