"""Counting on the workers of a Spark cluster: the batch path's own encoder and tally, next to the rows.

Each partition is encoded by `codec.encode` and tallied on its worker; Spark sums the tallies; only
aggregated counts reach the driver. Units with too many rows are cut on the cluster too: workers encode,
Spark's windows rank a unit's rows by SHA-256 of the text of `counting.units.hashed_text`, and the codes of
the rows that count stay in the cluster's memory for later passes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.counting.count import View
from dipsmith.counting.pushed import Fixed, Keys
from dipsmith.counting.tally import SUMMED, SparseTally, Tally, fused, words_of
from dipsmith.counting.units import hashed_columns, unit_text
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.sources.spark import SparkTable, failures, on_workers

_UNIT, _PER = "u", "p"


@dataclass(frozen=True, eq=False)
class SparkGrouping:
    """The rows of a Spark table, grouped by its workers.

    Attributes
    ----------
    source
        The table.
    schema
        What is public about it.
    key
        The secret by which rows beyond `max_rows` are chosen.
    """

    source: SparkTable
    schema: Schema
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, source: SparkTable, schema: Schema, key: bytes | None = None) -> SparkGrouping:
        """Make a grouping, with a fresh key unless one is given; refuse what the batch path refuses."""
        Encoder(schema)
        source.check(schema.columns)
        return cls(source, schema, secrets.token_bytes(32) if key is None else key)

    def grouped(
        self, sets: Sequence[tuple[str, ...]], fixed: Fixed, view: View
    ) -> list[tuple[Keys, NDArray[np.int64]]]:
        """For each set of attributes the combinations that occur and how often, in one scan."""
        sizes = [len(words_of([self.schema[n].size for n in names])) for names in sets]
        width = max(sizes)
        words = [f"w{j}" for j in range(width)]
        encoded = self.schema.unit.column is not None
        tally = _Tally(_written(self.schema), tuple(map(tuple, sets)), fixed, view, width, encoded)
        made = ", ".join(["tag int", *(f"{w} bigint" for w in words), "n bigint"])
        with failures(self.source.describe()):
            if encoded:
                counted = on_workers(self._held, tally, made)
            else:
                counted = self.source.mapped(self._needed(sets, fixed), tally, made)
            summed = counted.groupBy("tag", *words).sum("n")
            found = (
                summed.toArrow() if hasattr(summed, "toArrow") else pa.Table.from_pandas(summed.toPandas())
            )
        columns = [c.to_numpy().astype(np.int64, copy=False) for c in found.columns]
        answers = []
        for i, size in enumerate(sizes):
            mine = columns[0] == i
            answers.append(([word[mine] for word in columns[1 : 1 + size]], columns[-1][mine]))
        return answers

    def _needed(self, sets: Sequence[tuple[str, ...]], fixed: Fixed) -> list[str]:
        wanted = {name for names in sets for name in names} | {name for name, _ in fixed}
        wanted |= {name for rule in self.schema.rules for name in rule.attributes}
        wanted |= {a.name for a in self.schema if not a.domain.total}
        return [n for n in self.schema.names if n in wanted] or list(self.schema.names[:1])

    @cached_property
    def _held(self) -> Any:
        """The codes of the rows that count, kept by the cluster."""
        from pyspark import StorageLevel
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

        schema, limit = self.schema, self.schema.unit.max_rows
        codes = [f"c{i}" for i in range(len(schema.names))]
        hashed = [f"c{schema.names.index(n)}" for n in hashed_columns(schema)]
        ties = [c for c in codes if c not in hashed]
        made = ", ".join([f"{_UNIT} string", f"{_PER} string", *(f"{c} int" for c in codes)])
        unit = [_UNIT, _PER]
        rows = self.source.mapped(list(schema.columns), _Encoded(_written(schema)), made)
        alike = Window.partitionBy(*unit, *hashed).orderBy(*(ties or [F.lit(0)]))
        rows = rows.withColumn("same", F.row_number().over(alike) - 1)
        rows = rows.withColumn("crowd", F.count(F.lit(1)).over(Window.partitionBy(*unit)))
        named = [F.col(_UNIT)] + ([F.col(_PER)] if schema.unit.per is not None else [])
        listed = F.concat_ws(",", *[F.col(c).cast("string") for c in hashed])
        text = F.concat_ws("|", F.lit(self.key.hex()), *named, listed, F.col("same").cast("string"))
        rows = rows.withColumn("hash", F.when(F.col("crowd") > limit, F.sha2(text, 256)))
        rows = rows.withColumn("place", F.row_number().over(Window.partitionBy(*unit).orderBy("hash")))
        kept = rows.where(F.col("place") <= limit).select(*codes)
        return kept.persist(StorageLevel.MEMORY_AND_DISK)


def _written(schema: Schema) -> str:
    return json.dumps(schema.to_dict())


@dataclass(frozen=True)
class _Encoded:
    """Sent to the workers: units as text beside codes, without the rows that have a value without a code."""

    schema: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = Schema.from_dict(json.loads(self.schema))
        encoder = Encoder(schema)
        for batch in batches:
            codes, keep = encoder.encode(batch)
            at = pa.array(np.flatnonzero(keep))
            columns = {
                short: (
                    pa.nulls(len(at), pa.string()).fill_null("")
                    if name is None
                    else unit_text(batch.column(name)).take(at).cast(pa.string())
                )
                for short, name in ((_UNIT, schema.unit.column), (_PER, schema.unit.per))
            }
            for i, name in enumerate(schema.names):
                columns[f"c{i}"] = pa.array(codes[name][keep].astype(np.int32))
            yield pa.record_batch(columns)


@dataclass(frozen=True)
class _Tally:
    """Sent to the workers: the combinations of a partition and how often each occurs."""

    schema: str
    sets: tuple[tuple[str, ...], ...]
    fixed: Fixed
    view: View
    width: int
    encoded: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = Schema.from_dict(json.loads(self.schema))
        cells = [Marginal.of(schema, names) for names in self.sets]
        dense = [i for i, table in enumerate(cells) if table.size <= SUMMED]
        tally = Tally([cells[i] for i in dense])
        sparse = {
            i: SparseTally(len(words_of(table.shape))) for i, table in enumerate(cells) if table.size > SUMMED
        }
        for codes in self._codes(batches, schema):
            tally.add(codes)
            for i, large in sparse.items():
                large.add(fused(codes, self.sets[i]))
        for i, counts in zip(dense, tally.counts(), strict=True):
            keys = np.flatnonzero(counts)
            yield self._found(i, [keys], counts[keys])
        for i, large in sparse.items():
            yield self._found(i, *large.found())

    def _found(self, tag: int, keys: Keys, counts: NDArray[np.int64]) -> pa.RecordBatch:
        none = np.zeros(len(counts), dtype=np.int64)
        columns = {"tag": pa.array(np.full(len(counts), tag, dtype=np.int32))}
        for j in range(self.width):
            columns[f"w{j}"] = pa.array(keys[j] if j < len(keys) else none)
        return pa.record_batch({**columns, "n": pa.array(counts)})

    def _codes(self, batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[Codes]:
        encoder: Encoder | None = None
        for batch in batches:
            if self.encoded:
                columns = {n: batch.column(i).to_numpy() for i, n in enumerate(schema.names)}
                codes = Codes.of(schema, columns, batch.num_rows)
                keep = np.ones(len(codes), dtype=bool)
            else:
                encoder = encoder or Encoder(schema, batch.schema.names)
                codes, keep = encoder.encode(batch)
            if self.view == "lawful":
                keep &= codes.lawful()
            elif self.view == "public":
                keep &= codes.project([n for n in codes.names if schema[n].role == "public"]).lawful()
            for name, code in self.fixed:
                keep &= codes[name] == code
            kept = {name: column[keep] for name, column in codes.columns.items()}
            yield Codes(schema, kept, int(np.count_nonzero(keep)))
