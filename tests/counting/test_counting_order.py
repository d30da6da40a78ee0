"""What is counted is a function of the multiset of rows: not of their order, their chunks, or how they are laid out."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from dipsmith.codec.encode import Encoder
from dipsmith.counting import BatchRows
from dipsmith.counting.count import MemoryRows, Rows
from dipsmith.counting.units import beyond_max_rows, unit_text
from dipsmith.schema import Attribute, Categories, Codes, Crossed, Marginal, Rule, Schema, Unit
from dipsmith.schema.bins import by_width
from dipsmith.schema.schema import Neighbours
from dipsmith.sources import source

KEY = bytes(range(32))
NAMES = ["id", "year", "job", "age", "sex"]
Row = tuple[str | None, ...]


def schema_of(neighbours: Neighbours, unit: Unit) -> Schema:
    return Schema(
        "t",
        (
            Attribute("job", "string", Categories.of(["j2", "j0", "j1"], other="j0", missing=True), role="public"),
            Attribute("age", "integer", by_width("integer", 0, 39, 10, missing=True), role="public"),
            Attribute("sex", "string", Categories.of(["F", "M"], other="M"), role="private"),
            Attribute("year", "string", Categories.of(["1", "2"], missing=True), role="public"),
        ),
        unit,
        neighbours,
        (Rule((("job", (1,)), ("sex", (0,)))), Rule((("age", (3,)), ("job", (2,))))),
    )


ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "", "E1", "E2", " E2", "E3"]),
        st.sampled_from(["1", "2", None]),
        st.sampled_from(["j0", "j1", "j2", "x", None]),
        st.sampled_from(["1", "11", "12", "35", "99", "old", None]),
        st.sampled_from(["F", "M", None]),
    ),
    max_size=30,
)
UNITS = st.one_of(st.just(Unit()), st.builds(Unit, st.just("id"), st.integers(1, 3), st.sampled_from([None, "year"])))


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(NAMES)})


def _dictionary(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    """A dictionary in some order, with entries that occur nowhere and some that occur twice."""
    values = [*dict.fromkeys(v for v in array.to_pylist() if v is not None), "F", "nowhere"]
    values = [values[i] for i in rng.permutation(len(values))] + values[:1]
    at = {value: i for i, value in enumerate(values) if rng.random() < 0.9 or values.count(value) == 1}
    indices = [None if v is None else at.get(v, values.index(v)) for v in array.to_pylist()]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, pa.string()))


def _runs(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    del rng
    values = array.to_pylist()
    ends = [i + 1 for i in range(len(values)) if i + 1 == len(values) or values[i] != values[i + 1]]
    return pa.RunEndEncodedArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array([values[e - 1] for e in ends], pa.string_view())
    )


LAYOUTS: list[Callable[[pa.Array, np.random.Generator], pa.Array]] = [
    lambda array, rng: array,
    lambda array, rng: array.cast(pa.large_string()),
    lambda array, rng: array.cast(pa.string_view()),
    _dictionary,
    _runs,
]


def laid_out(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The same rows in chunks and layouts of every kind, with metadata."""
    columns = {}
    for name in table.column_names:
        whole, lay = table[name].combine_chunks(), LAYOUTS[rng.integers(len(LAYOUTS))]
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        cuts = [0, *sorted(rng.integers(0, len(whole) + 1, rng.integers(0, 4)).tolist()), len(whole)]
        chunks = [lay(whole[a:b], rng) for a, b in itertools.pairwise(cuts)]
        columns[name] = pa.chunked_array(chunks)
    return pa.table(columns).replace_schema_metadata({"origin": str(rng.integers(1000))})


def given_as(table: pa.Table, how: str, folder: Path, rng: np.random.Generator) -> object:
    match how:
        case "arrow":
            return laid_out(table, rng)
        case "stream":
            return laid_out(table, rng).to_reader(max_chunksize=int(rng.integers(1, 9)))
        case "pandas":
            return table.to_pandas().astype({"job": "category"})
        case "polars":
            return pl.from_arrow(table).cast({"job": pl.Categorical})
        case "csv":
            pa.csv.write_csv(table, folder / "t.csv")
        case "parquet":
            pq.write_table(table, folder / "t.parquet", row_group_size=int(rng.integers(1, 9)), use_dictionary=["job"])
        case _:
            half = table.num_rows // 2
            pq.write_table(table.slice(half), folder / "a.parquet")
            pq.write_table(table.slice(0, half), folder / "b.parquet")
    return folder


def plainly(codes: Codes) -> dict[str, list[int]]:
    return {name: codes[name].tolist() for name in codes.names}


def counted(rows: Rows, schema: Schema) -> list[Any]:
    """Every answer of the contract, with its order."""
    cells = [Marginal.of(schema, names) for names in (schema.names, ["sex"], ["age", "job"], [])]
    public = [Marginal.of(schema, ["job", "age"])]
    tree = Crossed(Marginal.of(schema, ["job"]), Marginal.of(schema, ["age", "sex"]))
    block = rows.within("job", 1)
    found: list[Any] = [
        [n.tolist() for n in rows.count([*cells, tree])],
        [n.tolist() for n in rows.count(cells[1:])],  # remembered by now
        [n.tolist() for n in rows.count_public(public)],
        [n.tolist() for n in rows.count_sparse(cells[0])],
        [n.tolist() for n in block.count(cells[1:3])],
        rows.total(),
        block.total(),
    ]
    for codes, often in (
        rows.distinct_public(schema.names),
        rows.distinct_public(["age", "job"]),
        block.distinct_public(["age"]),
    ):
        found.append((plainly(codes), often.tolist()))
    return found


HOW = st.sampled_from(["arrow", "arrow", "stream", "pandas", "polars", "csv", "parquet", "folder"])
RELATIONS = st.sampled_from(["add-remove", "replace", "label"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(ROWS, UNITS, RELATIONS, HOW, st.integers(0, 2**32))
def test_no_answer_depends_on_order_chunks_or_layout(
    rows: list[Row], unit: Unit, neighbours: Neighbours, how: str, seed: int
) -> None:
    """Cells, sizes, remembered sums, distinct rows and their order: the same for the same multiset of rows."""
    rng = np.random.default_rng(seed)
    schema = schema_of(neighbours, unit)
    first = table_of(rows)
    second = first.take(pa.array(rng.permutation(len(rows)), pa.int64()))
    with tempfile.TemporaryDirectory() as folder:
        again = source(given_as(second, how, Path(folder), rng))
        answers = counted(BatchRows(again, schema, key=KEY), schema)
    assert answers == counted(BatchRows(source(first), schema, key=KEY), schema)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(ROWS, UNITS.filter(lambda unit: unit.column is not None), RELATIONS, st.integers(0, 2**32))
def test_the_same_rows_of_the_same_units_are_kept(
    rows: list[Row], unit: Unit, neighbours: Neighbours, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    schema = schema_of(neighbours, unit)

    def kept(table: pa.Table) -> Counter[tuple[object, ...]]:
        dropped = beyond_max_rows(source(table).batches, schema, KEY)
        mask = np.ones(table.num_rows, dtype=bool) if dropped is None else dropped.kept_mask(0, table.num_rows)
        batches = list(source(table).batches(NAMES))
        ids = [i for b in batches for i in unit_text(b.column("id")).to_pylist()]
        codes = [Encoder(schema).encode(b)[0] for b in batches]
        listed = [row for c in codes for row in zip(*(c[name].tolist() for name in schema.names), strict=True)]
        return Counter((i, row) for i, row, keep in zip(ids, listed, mask, strict=True) if keep)

    first = table_of(rows)
    second = laid_out(first.take(pa.array(rng.permutation(len(rows)), pa.int64())), rng)
    assert kept(second) == kept(first)


@settings(max_examples=30, deadline=None)
@given(ROWS, RELATIONS, st.integers(0, 2**32))
def test_held_rows_answer_in_the_order_of_codes_too(rows: list[Row], neighbours: Neighbours, seed: int) -> None:
    schema = schema_of(neighbours, Unit())
    codes, _ = Encoder(schema).encode(table_of(rows))
    mixed = codes.take(np.random.default_rng(seed).permutation(len(rows)))
    assert counted(MemoryRows(mixed), schema) == counted(MemoryRows(codes), schema)
    assert counted(MemoryRows(mixed), schema) == counted(BatchRows(source(table_of(rows)), schema, key=KEY), schema)


def test_public_rows_are_sorted_by_their_codes() -> None:
    schema = schema_of("label", Unit())
    table = table_of([("E1", "1", job, age, "F") for job in ("j1", "x", "j2", None) for age in ("35", "1", "12")])
    found, _ = BatchRows(source(table), schema, key=KEY).distinct_public(["job", "age"])
    pairs = list(zip(found["job"].tolist(), found["age"].tolist(), strict=True))
    assert pairs == sorted(pairs)
    assert len(pairs) == 11  # one combination breaks a rule


def _iterated(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_a_table_of_no_rows_has_answers_of_the_same_shape() -> None:
    schema = schema_of("label", Unit("id", 1))
    for data in (table_of([]), table_of([]).to_pandas(), pd.DataFrame(columns=NAMES, dtype="string")):
        assert _iterated(source(data).batches(NAMES)) == 0
        assert counted(BatchRows(source(data), schema, key=KEY), schema) == counted(
            BatchRows(source(table_of([])), schema, key=KEY), schema
        )
