"""Tallies: shared work changes no count, memory stays bounded, sparse equals dense."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator, Sequence

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dipsmith.counting import BatchRows, memory, tally
from dipsmith.counting.memory import joint_tables, mixed_radix
from dipsmith.counting.tally import SparseTally, Tally, words_of
from dipsmith.schema import Attribute, Categories, Codes, Crossed, Marginal, Schema, Unit
from dipsmith.sources import Progress


def schema_of(sizes: Sequence[int]) -> Schema:
    return Schema(
        "t",
        tuple(
            Attribute(f"a{i}", "string", Categories.of([f"v{j}" for j in range(size)], other="v0"))
            for i, size in enumerate(sizes)
        ),
        Unit(),
        "replace",
    )


def codes_of(schema: Schema, rows: int, seed: int = 0) -> Codes:
    rng = np.random.default_rng(seed)
    return Codes.of(schema, {a.name: rng.integers(0, a.size, rows) for a in schema.attributes}, rows)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.data(),
    st.sampled_from([1, 30, 1 << 16]),
    st.sampled_from([1, 40, 1 << 20]),
)
def test_shared_counts_are_the_separate_ones(sizes: list[int], data: st.DataObject, most: int, summed: int) -> None:
    schema = schema_of(sizes)
    subsets = data.draw(st.lists(st.lists(st.sampled_from(schema.names), unique=True), max_size=8))
    codes = codes_of(schema, 200)
    cells = [Marginal.of(schema, names) for names in subsets]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "JOINT", most)
        patch.setattr(memory, "SUMMED", summed)
        patch.setattr(tally, "CHUNK", 64)
        both = Tally(cells)
        both.add(codes)
        found = both.counts()
    for table, counts in zip(cells, found, strict=True):
        np.testing.assert_array_equal(counts, np.bincount(table.index(codes), minlength=table.size))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.data(),
    st.sampled_from([0, 1, 16, 1 << 20]),
    st.sampled_from([1, 40, 1 << 20]),
)
def test_counts_by_combination_are_those_row_by_row(
    sizes: list[int], data: st.DataObject, crowded: int, dense: int
) -> None:
    schema = schema_of(sizes)
    pairs = st.tuples(*[st.lists(st.sampled_from(schema.names), unique=True)] * 2)
    cells = [
        Crossed(*(Marginal.of(schema, names) for names in pair)) for pair in data.draw(st.lists(pairs, max_size=4))
    ]
    codes = codes_of(schema, 200)
    some = data.draw(st.lists(st.sampled_from(schema.names), unique=True, min_size=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "CROWDED", crowded)
        patch.setattr(tally, "DENSE", dense)
        patch.setattr(tally, "CHUNK", 16)
        both = Tally(cells)
        both.add(codes)
        halfway = [counts.copy() for counts in both.counts()]
        both.add(codes)
        found = both.counts()
        combinations, often = tally.distinct([codes, codes], schema, some)
    for table, first, counts in zip(cells, halfway, found, strict=True):
        once = np.bincount(table.index(codes), minlength=table.size)
        np.testing.assert_array_equal(first, once)
        np.testing.assert_array_equal(counts, 2 * once)
    rows = np.stack([codes[name] for name in some], axis=1)
    expected, times = np.unique(rows, axis=0, return_counts=True)
    np.testing.assert_array_equal(np.stack([combinations[name] for name in some], axis=1), expected)
    np.testing.assert_array_equal(often, 2 * times)


def test_results_do_not_share_memory() -> None:
    schema = schema_of([3, 3])
    twice = Tally([Marginal.of(schema, ["a0", "a1"])] * 2)
    twice.add(codes_of(schema, 10))
    one, two = twice.counts()
    one[:] = 0
    assert two.sum() == 10
    nested = Tally([Marginal.of(schema, names) for names in (["a0", "a1"], ["a0"])])
    nested.add(codes_of(schema, 10))
    nested.counts()[0][:] = 0
    assert [counts.sum() for counts in nested.counts()] == [10, 10]


def test_nothing_was_counted_before_the_first_row() -> None:
    schema = schema_of([3, 4])
    (counts,) = Tally([Marginal.of(schema, schema.names)]).counts()
    np.testing.assert_array_equal(counts, np.zeros(12))


def test_work_is_shared() -> None:
    schema = schema_of([4] * 6)
    pairs = [Marginal.of(schema, pair) for pair in itertools.combinations(schema.names, 2)]
    assert len(joint_tables(dict(enumerate(pairs)))) == 1
    large = schema_of([60] * 6)
    pairs = [Marginal.of(large, pair) for pair in itertools.combinations(large.names, 2)]
    assert len(joint_tables(dict(enumerate(pairs)))) == len(pairs)


def test_large_codes_and_large_tables() -> None:
    schema = schema_of([300, 70_000, 3])
    codes = codes_of(schema, 5000)
    assert [codes[name].dtype.itemsize for name in schema.names] == [2, 4, 1]
    for names in itertools.permutations(schema.names):
        table = Marginal.of(schema, names)
        np.testing.assert_array_equal(mixed_radix(codes, names, table.shape), table.index(codes))
    joint = Marginal.of(schema, ["a1", "a2"])
    big = Tally([joint])
    big.add(codes)
    np.testing.assert_array_equal(big.counts()[0], np.bincount(joint.index(codes), minlength=joint.size))


@pytest.mark.parametrize("sizes", [(1 << 8, 1 << 8), (1, 1 << 16), (1 << 16, 1), ((1 << 8) + 1, 1 << 8)])
def test_keys_do_not_overflow_at_the_border_of_16_bits(sizes: tuple[int, int]) -> None:
    schema = schema_of(sizes)
    codes = Codes.of(schema, {a.name: np.array([0, a.size - 1]) for a in schema.attributes})
    assert mixed_radix(codes, schema.names, sizes).tolist() == [0, sizes[0] * sizes[1] - 1]


def test_keys_do_not_overflow_at_the_border_of_32_bits() -> None:
    schema = schema_of([1 << 11, 1 << 10, 1 << 10])
    last = Codes.of(schema, {a.name: np.array([a.size - 1]) for a in schema.attributes})
    assert int(mixed_radix(last, schema.names, [a.size for a in schema.attributes])[0]) == (1 << 31) - 1
    wide = schema_of([(1 << 11) + 1, 1 << 10, 1 << 10])
    last = Codes.of(wide, {a.name: np.array([a.size - 1]) for a in wide.attributes})
    assert int(mixed_radix(last, wide.names, [a.size for a in wide.attributes])[0]) == wide.size() - 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20), max_size=6))
def test_sparse_tallies_of_two_words(parts: list[list[tuple[int, int]]]) -> None:
    sparse = SparseTally(words=2)
    for part in parts:
        sparse.add([np.array([pair[i] for pair in part], dtype=np.int64) for i in range(2)])
        sparse._merge()
    keys, counts = sparse.occupied_cells()
    found = {(int(a), int(b)): int(n) for a, b, n in zip(*keys, counts, strict=True)}
    every = [pair for part in parts for pair in part]
    assert found == {pair: every.count(pair) for pair in every}
    assert list(found) == sorted(found)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20))
def test_words_cover_all_attributes_and_can_be_numbered(sizes: list[int]) -> None:
    runs = words_of(sizes)
    assert [i for a, b in runs for i in range(a, b)] == list(range(len(sizes)))
    for a, b in runs:
        assert np.prod([float(s) for s in sizes[a:b]]) <= 2.0**62


class Endless:
    """A source that makes its rows as they are read, so that only counting uses memory."""

    def __init__(self, batches: int, names: Sequence[str]) -> None:
        self.number, self.columns = batches, tuple(names)

    def check(self, required: Sequence[str]) -> None:
        pass

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        values = pa.array([f"v{j}" for j in range(5)])
        indices = pa.array(np.tile(np.arange(5, dtype=np.int8), 20_000))
        column = pa.DictionaryArray.from_arrays(indices, values)
        for _ in range(self.number):
            yield pa.RecordBatch.from_arrays([column] * len(columns), names=list(columns))

    def describe(self) -> str:
        return "endless"


def test_memory_does_not_grow_with_rows() -> None:
    schema = schema_of([5] * 4)
    joint = Marginal.of(schema, schema.names)

    def peak(batches: int) -> int:
        counted = BatchRows(Endless(batches, schema.names), schema, cache_bytes=1 << 20)
        tracemalloc.start()
        assert counted.count([joint])[0].sum() == batches * 100_000
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(4), peak(24)
    assert many < few + (1 << 20)
    assert many < 12 << 20
