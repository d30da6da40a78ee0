"""Counting on the workers of a Spark cluster: the batch path's own encoder and tally, next to the rows.

Each partition is encoded by `codec.encode` and tallied on its worker; Spark sums the tallies; only
aggregated counts reach the driver. Units with too many rows are cut on the cluster too: Spark brings the
rows of a unit together, the workers choose among them by the batch path's own `counting.units.crowded_out`, and
the codes of the rows that count stay in the cluster's memory for later passes. The secret of that choice travels
inside the function that the workers run; no plan, page or event log of Spark shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.counting.count import View
from dipsmith.counting.pushed import Fixed, Keys
from dipsmith.counting.tally import SUMMED, SparseTally, Tally, fused, words_of
from dipsmith.counting.units import PER, ROW, UNIT, crowded_out, unit_text
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.sources.spark import SparkTable, failures, on_workers

_TOGETHER = 1 << 16
"""Rows of whole units that are cut at once."""


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
        """The codes of the rows that count, kept by the cluster: units are brought together and cut by the workers."""
        from pyspark import StorageLevel

        schema = _written(self.schema)
        codes = [f"c{i} int" for i in range(len(self.schema.names))]
        made = ", ".join([f"{UNIT} string", f"{PER} string", *codes])
        rows = self.source.mapped(list(self.schema.columns), _Encoded(schema), made)
        together = rows.repartition(UNIT, PER).sortWithinPartitions(UNIT, PER)
        kept = on_workers(together, _Truncated(schema, self.key), ", ".join(codes))
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
                for short, name in ((UNIT, schema.unit.column), (PER, schema.unit.per))
            }
            for i, name in enumerate(schema.names):
                columns[f"c{i}"] = pa.array(codes[name][keep].astype(np.int32))
            yield pa.record_batch(columns)


@dataclass(frozen=True)
class _Truncated:
    """Sent to the workers: of rows that come unit by unit, the codes of those that count."""

    schema: str
    key: bytes = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = Schema.from_dict(json.loads(self.schema))
        codes = [f"c{i}" for i in range(len(schema.names))]
        for part in _whole_units(batches):
            numbered = part.cast(_large(part.schema)).append_column(ROW, pa.array(np.arange(part.num_rows)))
            kept = np.ones(part.num_rows, dtype=bool)
            kept[crowded_out(numbered, schema, self.key)] = False
            yield from part.select(codes).filter(pa.array(kept)).combine_chunks().to_batches()


def _whole_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that are sorted by unit, in parts that hold whole units."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        first = _first_of_last(batch)
        if rows + first >= _TOGETHER and first:
            yield pa.Table.from_batches([*held, batch.slice(0, first)])
            held, rows, batch = [], 0, batch.slice(first)
        held.append(batch)
        rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _large(schema: pa.Schema) -> pa.Schema:
    """Text as the batch path has it."""
    return pa.schema([f.with_type(pa.large_string()) if f.name in (UNIT, PER) else f for f in schema])


def _first_of_last(batch: pa.RecordBatch) -> int:
    """Where the last unit of a batch begins."""
    same = pc.and_(*[pc.equal(batch.column(name), batch.column(name)[-1]) for name in (UNIT, PER)])
    return int(batch.num_rows - pc.sum(same).as_py())


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
