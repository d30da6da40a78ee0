"""Counts of rows equal brute force, for every schema feature that decides what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dipsmith.counting import BatchRows, encoded, memory
from dipsmith.errors import SourceError, UsageError
from dipsmith.schema import Attribute, Categories, Cells, Crossed, Marginal, Rule, Schema, Unit
from dipsmith.schema.schema import Neighbours
from dipsmith.sources import Progress

KEY = bytes(range(32))


def schema_of(
    sizes: Sequence[int],
    neighbours: Neighbours = "add-remove",
    *,
    other: bool = False,
    unit: Unit | None = None,
    rules: tuple[Rule, ...] = (),
    public: int = 0,
) -> Schema:
    attributes = tuple(
        Attribute(
            f"a{i}",
            "string",
            Categories.of([f"v{j}" for j in range(size)], other="v0" if other else None),
            role="public" if i < public else "private",
        )
        for i, size in enumerate(sizes)
    )
    return Schema("t", attributes, unit or Unit(), neighbours, rules)


@dataclass
class Pieces:
    """A source whose batches are cut at other places for every set of columns, and that counts its passes."""

    table: pa.Table
    cut: int = 7
    passes: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def check(self, required: Sequence[str]) -> None:
        pass

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        self.passes.append(tuple(columns))
        yield from self.table.select(list(columns)).combine_chunks().to_batches(self.cut + len(columns))
        if progress is not None:
            progress(1.0)

    def describe(self) -> str:
        return "pieces"


def table_of(rows: Sequence[Sequence[str]], width: int) -> pa.Table:
    return pa.table({f"a{i}": pa.array([row[i] for row in rows], pa.string()) for i in range(width)})


def brute(rows: Sequence[Sequence[str]], schema: Schema, names: Sequence[str]) -> np.ndarray:
    """Counts by Counter, of rows whose values are all in the list and that break no rule."""
    places = [schema.names.index(name) for name in names]
    tally: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        codes = []
        for value, attribute in zip(row, schema.attributes, strict=True):
            listed = attribute.domain.values  # type: ignore[union-attr]
            codes.append(listed.index(value) if value in listed else attribute.domain.other)  # type: ignore[union-attr]
        if None in codes:
            continue
        if any(all(codes[schema.names.index(n)] in bad for n, bad in rule.never) for rule in schema.rules):
            continue
        tally[tuple(codes[p] for p in places)] += 1
    shape = tuple(schema[name].size for name in names)
    counts = np.zeros(shape, dtype=np.int64)
    for cell, number in tally.items():
        counts[cell] = number
    return counts.ravel()


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, list[list[str]], list[list[str]]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    rules = ()
    if len(sizes) > 1 and draw(st.booleans()):
        rules = (Rule((("a0", (0,)), ("a1", (sizes[1] - 1,)))),)
    schema = schema_of(sizes, other=draw(st.booleans()), rules=rules)
    value = st.integers(0, 5).map(lambda j: f"v{j}")
    rows = draw(st.lists(st.tuples(*[value] * len(sizes)).map(list), max_size=60))
    subsets = draw(st.lists(st.lists(st.sampled_from(schema.names), unique=True), min_size=1, max_size=6))
    return schema, rows, subsets


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(1, 9), st.sampled_from([0, 3, 1 << 20]), st.sampled_from([0, 9, 1 << 20]))
def test_counts_equal_brute_force(
    case: tuple[Schema, list[list[str]], list[list[str]]], cut: int, cache: int, kept: int
) -> None:
    schema, rows, subsets = case
    source = Pieces(table_of(rows, len(schema.names)), cut)
    cells = [Marginal.of(schema, names) for names in subsets]
    expected = [brute(rows, schema, names) for names in subsets]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "BLOCK", 13)
        patch.setattr(memory, "ROOM", kept)
        counted = BatchRows(source, schema, cache_bytes=cache)
        together = counted.count(cells)
        again = counted.count(cells)
        singly = [counted.count([table])[0] for table in cells]
        fresh = [BatchRows(source, schema).count([table])[0] for table in cells]
        for found in (together, again, singly, fresh):
            for one, other in zip(found, expected, strict=True):
                assert one.dtype == np.int64
                np.testing.assert_array_equal(one, other)
        for table, counts in zip(cells, expected, strict=True):
            indices, values = counted.count_sparse(table)
            np.testing.assert_array_equal(indices, np.flatnonzero(counts))
            np.testing.assert_array_equal(values, counts[indices])
            if not schema.rules:  # then every view has the same rows
                codes, times = counted.distinct_public(table.attributes)
                np.testing.assert_array_equal(table.index(codes), indices)
                np.testing.assert_array_equal(times, values)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_blocks_are_the_slices_of_the_joint_table(
    case: tuple[Schema, list[list[str]], list[list[str]]],
) -> None:
    schema, rows, _ = case
    counted = BatchRows(Pieces(table_of(rows, len(schema.names))), schema)
    whole = brute(rows, schema, schema.names).reshape([a.size for a in schema.attributes])
    everything = Marginal.of(schema, schema.names)
    for code in range(schema["a0"].size):
        block = counted.within("a0", code)
        found = block.count([everything])[0].reshape(whole.shape)
        np.testing.assert_array_equal(found[code], whole[code])
        assert found.sum() == whole[code].sum()
        np.testing.assert_array_equal(block.count_sparse(everything)[1], found[found > 0])
        assert block.within("a0", code).count([everything])[0].sum() == found.sum()
        other = (code + 1) % schema["a0"].size
        if other != code:
            assert block.within("a0", other).total() == 0
    assert sum(counted.within("a0", c).total() for c in range(schema["a0"].size)) == counted.total()


def test_crossed_and_foreign_partitions() -> None:
    schema = schema_of([3, 4], other=True)
    rng = np.random.default_rng(5)
    rows = [[f"v{a}", f"v{b}"] for a, b in zip(rng.integers(0, 3, 500), rng.integers(0, 4, 500), strict=True)]
    counted = BatchRows(Pieces(table_of(rows, 2)), schema)
    crossed: Cells = Crossed(Marginal.of(schema, ["a1"]), Marginal.of(schema, ["a0"]))
    joint = Marginal.of(schema, ["a1", "a0"])
    one, two, none = counted.count([crossed, joint, Marginal.of(schema, [])])
    np.testing.assert_array_equal(one, two)
    assert none.tolist() == [500]


def test_many_tables_take_one_pass_and_cached_ones_none() -> None:
    schema = schema_of([3, 4, 5], other=True)
    source = Pieces(table_of([["v1", "v2", "v3"]] * 50, 3))
    counted = BatchRows(source, schema)
    cells = [Marginal.of(schema, [a, b]) for a in schema.names for b in schema.names if a != b]
    counted.count(cells)
    assert source.passes == [("a0", "a1", "a2")]
    counted.count(cells)
    counted.total()
    counted.distinct_public(schema.names)
    assert len(source.passes) == 1
    uncached = BatchRows(source, schema, cache_bytes=0)
    uncached.count([Marginal.of(schema, ["a1"])])
    uncached.count([Marginal.of(schema, ["a2"])])
    assert source.passes[1:] == [("a1",), ("a2",)]


def test_columns_that_do_not_decide_are_not_read() -> None:
    schema = schema_of([3, 4, 5], rules=(Rule((("a2", (0,)),)),))
    source = Pieces(table_of([["v1", "v2", "v3"]], 3))
    BatchRows(source, schema_of([3, 4, 5], other=True)).count([Marginal.of(schema, ["a1"])])
    BatchRows(source, schema).count([Marginal.of(schema, ["a1"])])
    assert source.passes == [("a1",), ("a0", "a1", "a2")]


def test_every_block_of_the_cache_is_counted_once() -> None:
    schema = schema_of([7, 5], other=True)
    rng = np.random.default_rng(2)
    rows = [[f"v{a}", f"v{b}"] for a, b in zip(rng.integers(0, 7, 500), rng.integers(0, 5, 500), strict=True)]
    both = Marginal.of(schema, ["a0", "a1"])
    expected = brute(rows, schema, ["a0", "a1"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "BLOCK", 64)
        patch.setattr(memory, "ROOM", 0)
        for cache in (0, 600, 1 << 20):
            counted = BatchRows(Pieces(table_of(rows, 2)), schema, cache_bytes=cache)
            for _ in range(3):
                np.testing.assert_array_equal(counted.count([both])[0], expected)
                second = counted.count([Marginal.of(schema, ["a1"])])[0]
                np.testing.assert_array_equal(second, expected.reshape(7, 5).sum(axis=0))


def test_cache_holds_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "ROOM", 0)
    schema = schema_of([20, 17], other=True)
    source = Pieces(table_of([["v1", "v2"]] * 100, 2))
    counted = BatchRows(source, schema, cache_bytes=150)
    both = Marginal.of(schema, ["a0", "a1"])
    first = counted.count([both])[0]
    second = counted.count([both])[0]
    np.testing.assert_array_equal(first, second)
    assert source.passes == [("a0", "a1"), ("a1",)]


def test_rows_that_change_between_passes_are_noticed() -> None:
    schema = schema_of([3, 4], other=True)
    source = Pieces(table_of([["v1", "v2"]] * 100, 2))
    counted = BatchRows(source, schema, cache_bytes=0)
    counted.count([Marginal.of(schema, ["a0"])])
    for rows in (99, 101):
        source.table = table_of([["v1", "v2"]] * rows, 2)
        with pytest.raises(SourceError, match="changed between two passes"):
            counted.count([Marginal.of(schema, ["a1"])])


def test_an_interrupted_first_pass_leaves_no_trace() -> None:
    schema = schema_of([3, 4], other=True)
    counted = BatchRows(Pieces(table_of([["v1", "v2"]] * 100, 2)), schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "BLOCK", 10)
        next(counted._blocks(schema.names, "lawful"))
        assert counted.total() == 100


def test_rules_under_label_do_not_change_public_sizes() -> None:
    both = Rule((("a0", (0,)), ("a1", (0,))))
    public = Rule((("a0", (2,)),))
    schema = schema_of([3, 2], "label", other=True, rules=(both, public), public=1)
    by_a0 = Marginal.of(schema, ["a0"])
    for label in ("v0", "v1"):
        rows = [["v0", label], ["v0", "v1"], ["v1", "v0"], ["v2", "v0"]]
        counted = BatchRows(Pieces(table_of(rows, 2)), schema)
        assert counted.count_public([by_a0])[0].tolist() == [2, 1, 0]
        assert counted.count([by_a0])[0].tolist() == [1 if label == "v0" else 2, 1, 0]
        assert counted.total() == 4
        codes, times = counted.distinct_public(["a0"])
        assert codes["a0"].tolist() == [0, 1]
        assert times.tolist() == [2, 1]
        assert counted.within("a0", 0).count_public([by_a0])[0].tolist() == [2, 0, 0]


def test_rows_without_a_code_are_held_nowhere() -> None:
    schema = schema_of([2])
    counted = BatchRows(Pieces(table_of([["v0"], ["v7"], ["v1"], ["v1"]], 1)), schema)
    assert counted.total() == 3
    assert counted.count([Marginal.of(schema, ["a0"])])[0].tolist() == [1, 2]


def test_too_large_tables_are_refused_before_allocating() -> None:
    schema = schema_of([2000, 2000, 50], other=True)
    source = Pieces(table_of([["v1", "v2", "v3"]], 3))
    counted = BatchRows(source, schema)
    with pytest.raises(UsageError, match=r"a0 × a1 × a2 has 200,000,000 cells.*a0 \(2,000\), a1 \(2,000\), a2 \(50\)"):
        counted.count([Marginal.of(schema, schema.names)])
    with pytest.raises(UsageError, match="40 tables have 160,000,000 cells in all"):
        counted.count([Marginal.of(schema, ["a0", "a1"])] * 40)
    assert source.passes == []
    indices, counts = counted.count_sparse(Marginal.of(schema, schema.names))
    assert indices.tolist() == [(1 * 2000 + 2) * 50 + 3]
    assert counts.tolist() == [1]


def test_distinct_beyond_64_bits() -> None:
    schema = schema_of([1000] * 8, other=True)
    rng = np.random.default_rng(1)
    some = rng.integers(0, 1000, (40, 8))
    pick = some[rng.integers(0, 40, 5000)]
    counted = BatchRows(Pieces(table_of([[f"v{c}" for c in row] for row in pick], 8), 1000), schema)
    everything = Marginal.of(schema, schema.names)
    with pytest.raises(UsageError, match="too many cells to number"):
        counted.count_sparse(everything)
    codes, times = counted.distinct_public(schema.names)
    found = {tuple(int(codes[n][i]) for n in schema.names): int(t) for i, t in enumerate(times)}
    assert found == Counter(tuple(int(c) for c in row) for row in pick)


def test_empty_sources() -> None:
    schema = schema_of([2, 3])
    counted = BatchRows(Pieces(table_of([], 2)), schema)
    assert counted.count([]) == []
    assert counted.count([Marginal.of(schema, ["a0", "a1"])])[0].tolist() == [0] * 6
    assert counted.total() == 0
    codes, times = counted.distinct_public(["a0"])
    assert len(codes) == len(times) == 0


def test_progress_is_told() -> None:
    told: list[float] = []
    schema = schema_of([2])
    BatchRows(Pieces(table_of([["v0"]], 1)), schema, progress=told.append).total()
    assert told == [1.0]


def test_a_source_that_fails_midway_fails_the_count() -> None:
    class Failing(Pieces):
        def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
            yield from super().batches(columns)
            raise SourceError("t.csv: line 3: cut short; copy it again")

    schema = schema_of([2])
    counted = BatchRows(Failing(table_of([["v0"]] * 30, 1)), schema)
    for _ in range(2):
        with pytest.raises(SourceError, match="line 3"):
            counted.total()


def test_distinct_rows_come_in_the_order_of_their_codes_not_of_the_source() -> None:
    schema = schema_of([5], other=True)
    values = [f"v{i * 3 % 5}" for i in range(1000)]
    counted = BatchRows(Pieces(table_of([[v] for v in values], 1)), schema)
    codes, times = counted.distinct_public(["a0"])
    assert codes["a0"].tolist() == list(range(5))
    assert times.tolist() == [200] * 5
    assert counted.within("a0", 3).distinct_public(["a0"])[0]["a0"].tolist() == [3]
