"""Counting on the workers of a Spark cluster: the batch path's own encoder and tally, next to the rows.

Each partition is encoded by `codec.encode` on its worker, once: every row becomes one number (or a few), which the
cluster keeps for later passes. Workers tally, Spark sums the tallies, only aggregated counts reach the driver. Units
with too many rows are cut on the cluster too: Spark brings the rows of a unit together, the workers choose among them
by the batch path's own `counting.units.crowded_out`. The secret of that choice travels inside the function that the
workers run; no plan, page or event log of Spark shows it.
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
import pyarrow.compute as pc

from dipsmith.arrays import Ints
from dipsmith.codec.encode import Encoder
from dipsmith.counting.memory import SUMMED, FixedCodes, View, rows_in
from dipsmith.counting.pushed import Keys, by_set
from dipsmith.counting.tally import SparseTally, Tally, fuse, unfuse, words_of
from dipsmith.counting.units import PER, ROW, UNIT, has_unit, rows_beyond_max, unit_text
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.sources.spark import SparkTable, failures, on_workers

_TOGETHER = 1 << 16
"""Rows of whole units that are cut at once."""


@dataclass(frozen=True, eq=False)
class SparkGrouping:
    """The rows of a Spark table, grouped by its workers; `key` chooses among those of a crowded unit, a fresh one when None."""

    source: SparkTable
    schema: Schema
    key: bytes | None = field(repr=False)

    def count_groups(
        self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View
    ) -> list[tuple[Keys, Ints]]:
        """For each set of attributes the combinations that occur and how often, in one scan."""
        sizes = [len(words_of([self.schema[n].size for n in names])) for names in sets]
        width = max(sizes)
        words = [f"w{j}" for j in range(width)]
        tally = _Tally(_write(self.schema), tuple(map(tuple, sets)), fixed_codes, view, width)
        made = ", ".join(["tag int", *(f"{w} bigint" for w in words), "n bigint"])
        with failures(self.source.describe()):
            counted = on_workers(self._cached_rows, tally, made)
            summed = counted.groupBy("tag", *words).sum("n")
            found = summed.toArrow() if hasattr(summed, "toArrow") else pa.Table.from_pandas(summed.toPandas())
        return by_set([c.to_numpy().astype(np.int64, copy=False) for c in found.columns], sizes)

    @cached_property
    def _cached_rows(self) -> Any:
        """The rows that count, one number or a few each, kept by the cluster for later passes."""
        from pyspark import StorageLevel

        schema = _write(self.schema)
        words = words_of([a.size for a in self.schema])
        packed = ", ".join(f"w{j} bigint" for j in range(len(words)))
        columns = list(self.schema.columns)
        if self.schema.unit.column is None:
            kept = self.source.map_partitions(columns, _EncodeRows(schema), packed)
        else:
            made = f"{UNIT} string, {PER} string, {packed}"
            rows = self.source.map_partitions(columns, _EncodeRows(schema), made)
            together = rows.repartition(UNIT, PER).sortWithinPartitions(UNIT, PER)
            kept = on_workers(together, _TruncateUnits(schema, self.key or secrets.token_bytes(32)), packed)
        return kept.persist(StorageLevel.MEMORY_AND_DISK)


def _write(schema: Schema) -> str:
    return json.dumps(schema.to_dict())


def _pack(codes: Codes) -> dict[str, pa.Array]:
    return {f"w{j}": pa.array(word) for j, word in enumerate(fuse(codes, codes.schema.names))}


def _unpack(rows: pa.Table | pa.RecordBatch, schema: Schema) -> Codes:
    width = len(words_of([a.size for a in schema]))
    keys = [rows.column(f"w{j}").to_numpy() for j in range(width)]
    return unfuse(keys, rows.num_rows, schema.names, schema)


@dataclass(frozen=True)
class _EncodeRows:
    """Sent to the workers: rows as packed codes, without those that have a value without one or no unit; units as text beside."""

    schema: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = Schema.from_dict(json.loads(self.schema))
        encoder = Encoder(schema)
        for batch in batches:
            codes, keep = encoder.encode(batch)
            columns = {}
            if schema.unit.column is not None:
                spelled = {UNIT: unit_text(batch.column(schema.unit.column))}
                spelled[PER] = (
                    pa.array([""] * len(keep)) if schema.unit.per is None else unit_text(batch.column(schema.unit.per))
                )
                keep &= has_unit(spelled[UNIT])
                columns = {name: text.filter(pa.array(keep)).cast(pa.string()) for name, text in spelled.items()}
            at = np.flatnonzero(keep)
            yield pa.record_batch({**columns, **_pack(codes if keep.all() else codes.take(at))})


@dataclass(frozen=True)
class _TruncateUnits:
    """Sent to the workers: of rows that come unit by unit, the packed codes of those that count."""

    schema: str
    key: bytes = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = Schema.from_dict(json.loads(self.schema))
        for part in _whole_units(batches):
            codes = _unpack(part, schema)
            table = {name: part.column(name).cast(pa.large_string()) for name in (UNIT, PER)}
            table[ROW] = pa.array(np.arange(part.num_rows))
            table |= {f"c{i}": pa.array(codes[name]) for i, name in enumerate(schema.names)}
            kept = np.ones(part.num_rows, dtype=bool)
            kept[rows_beyond_max(pa.table(table), schema, self.key)] = False
            yield pa.record_batch(_pack(codes.take(np.flatnonzero(kept))))


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


def _first_of_last(batch: pa.RecordBatch) -> int:
    """Where the last unit of a batch begins."""
    same = pc.and_(*[pc.equal(batch.column(name), batch.column(name)[-1]) for name in (UNIT, PER)])
    return int(batch.num_rows - pc.sum(same).as_py())


@dataclass(frozen=True)
class _Tally:
    """Sent to the workers: the combinations of a partition and how often each occurs."""

    schema: str
    sets: tuple[tuple[str, ...], ...]
    fixed_codes: FixedCodes
    view: View
    width: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = Schema.from_dict(json.loads(self.schema))
        cells = [Marginal.of(schema, names) for names in self.sets]
        dense = [i for i, table in enumerate(cells) if table.size <= SUMMED]
        tally = Tally([cells[i] for i in dense])
        sparse = {i: SparseTally(len(words_of(table.shape))) for i, table in enumerate(cells) if table.size > SUMMED}
        for codes in self._codes(batches, schema):
            tally.add(codes)
            for i, large in sparse.items():
                large.add(fuse(codes, self.sets[i]))
        for i, counts in zip(dense, tally.counts(), strict=True):
            keys = np.flatnonzero(counts)
            yield self._to_batch(i, [keys], counts[keys])
        for i, large in sparse.items():
            yield self._to_batch(i, *large.occupied_cells())

    def _to_batch(self, tag: int, keys: Keys, counts: Ints) -> pa.RecordBatch:
        none = np.zeros(len(counts), dtype=np.int64)
        columns = {"tag": pa.array(np.full(len(counts), tag, dtype=np.int32))}
        for j in range(self.width):
            columns[f"w{j}"] = pa.array(keys[j] if j < len(keys) else none)
        return pa.record_batch({**columns, "n": pa.array(counts)})

    def _codes(self, batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[Codes]:
        for batch in batches:
            codes = _unpack(batch, schema)
            keep = rows_in(codes, self.view, self.fixed_codes)
            yield codes if keep.all() else codes.take(np.flatnonzero(keep))
