"""One set of tests for every source: the same rows give the same counts, whoever counts them.

The reference is the batch path over Arrow; every schema feature that decides what counts is in
`engine_tables`.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine_tables
import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting import BatchRows
from dipsmith.counting.pushed import PushedRows, rows_of
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Cells, Codes, Crossed, Marginal, Schema, Unit
from dipsmith.schema.bins import singles
from dipsmith.sources import Source, source
from dipsmith.sources.ibis_terms import statement

KEY = bytes(range(32))
SOURCES = ("arrow", "csv", "parquet", "duckdb", "postgresql", "ibis", "spark")
SCHEMAS = engine_tables.schemas()

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"),
]


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], Source]:
    """Open the awkward table in the engine of that name, written once."""
    folder = tmp_path_factory.mktemp("awkward")
    table = engine_tables.awkward()
    made: dict[str, Source] = {}

    def open_it(name: str) -> Source:
        if name not in made:
            made[name] = _open(name, table, folder, request)
        return made[name]

    return open_it


def _open(name: str, table: pa.Table, folder: Path, request: pytest.FixtureRequest) -> Source:
    if name == "arrow":
        return source(table)
    if name == "csv":
        engine_tables.write_csv(table, folder / "awkward.csv")
        return source(folder / "awkward.csv")
    if name == "parquet":
        engine_tables.write_parquet(table, folder / "parquet")
        return source(folder / "parquet")
    if name == "duckdb":
        engine_tables.write_duckdb(table, folder / "awkward.db")
        return source(f"duckdb:///{folder}/awkward.db", table="awkward")
    if name == "postgresql":
        url = request.getfixturevalue("postgresql")
        engine_tables.write_postgresql(table, url)
        return source(url, table="awkward")
    if name == "ibis":
        import ibis

        engine_tables.write_parquet(table, folder / "ibis")
        connection = ibis.datafusion.connect()
        return source(connection.read_parquet(folder / "ibis" / "*.parquet", table_name="awkward"))
    cluster = request.getfixturevalue("spark")
    engine_tables.write_parquet(table, folder / "spark")
    return source(cluster.url, table=str(folder / "spark"))


class Parity:
    """A partition that no engine knows."""

    key = "parity of grade and age"
    size = 2
    attributes = ("grade", "age")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def index(self, codes: Codes) -> np.ndarray:
        return (codes["grade"].astype(np.int64) + codes["age"]) % 2

    def possible(self) -> None:
        return None

    def by_role(self) -> tuple[None, Cells]:
        return None, self


def partitions(schema: Schema) -> list[Cells]:
    names = schema.names
    sets = [(), *[(n,) for n in names], *itertools.combinations(names[:6], 2), tuple(reversed(names[2:5]))]
    marginals: list[Cells] = [Marginal.of(schema, s) for s in sets]
    return [*marginals, Parity(schema), Crossed(Marginal.of(schema, ["job"]), Parity(schema))]


def same_codes(one: tuple[Codes, np.ndarray], other: tuple[Codes, np.ndarray]) -> None:
    assert one[0].names == other[0].names
    for name in one[0].names:
        np.testing.assert_array_equal(one[0][name], other[0][name])
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_counts_of_the_batch_path(name: str, opened: Callable[[str], Source]) -> None:
    # Spark starts a job per question, ibis spells a long statement; two schemas have every feature between them
    few = ("per", "dropping") if name in ("spark", "ibis", "duckdb") else tuple(SCHEMAS)
    for key in few:
        schema = SCHEMAS[key]
        reference = BatchRows(opened("arrow"), schema, KEY)
        counted = rows_of(opened(name), schema, key=KEY)
        assert isinstance(counted, PushedRows) == (name in ("duckdb", "postgresql", "ibis", "spark"))
        cells = partitions(schema)
        for table, found, expected in zip(cells, counted.count(cells), reference.count(cells), strict=True):
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, expected, f"{key}: {table.key}")
        assert counted.total() == reference.total()
        public = [Marginal.of(schema, s) for s in (schema.public[:1], schema.public[1:3])]
        for found, expected in zip(counted.count_public(public), reference.count_public(public), strict=True):
            np.testing.assert_array_equal(found, expected)
        if name in ("spark", "ibis") and key == "dropping":
            continue
        everything = schema.names  # more combinations than 64 bits can number
        same_codes(counted.distinct_public(everything), reference.distinct_public(everything))
        same_codes(counted.distinct_public(schema.public), reference.distinct_public(schema.public))
        joint = Marginal.of(schema, schema.names[:4])
        for found, expected in zip(counted.count_sparse(joint), reference.count_sparse(joint), strict=True):
            np.testing.assert_array_equal(found, expected)
        block, other = (rows.within("sex", 1).within("veteran", 0) for rows in (counted, reference))
        for found, expected in zip(block.count(cells[:6]), other.count(cells[:6]), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert block.total() == other.total()


@pytest.mark.parametrize("name", SOURCES)
def test_rows_without_a_unit_are_counted_nowhere_in_any_engine(name: str, opened: Callable[[str], Source]) -> None:
    """The same counts as of a table that never had those rows; missing is null, or text with nothing but spaces."""
    table = engine_tables.awkward()
    for key in ("units", "numbered", "per"):
        schema = SCHEMAS[key].project(SCHEMAS[key].names[:6])  # ibis spells every column at length
        column = table[schema.unit.column]
        ids = [None if v is None else str(v).strip(" ") or None for v in column.to_pylist()]
        owned = BatchRows(source(table.filter(pa.array([v is not None for v in ids]))), schema, KEY)
        assert sum(v is None for v in ids) > 1
        counted = rows_of(opened(name), schema, key=KEY)
        assert counted.total() == owned.total()
        cells = partitions(schema)
        for one, other in zip(counted.count(cells), owned.count(cells), strict=True):
            np.testing.assert_array_equal(one, other)
        if schema.neighbours == "label":
            same_codes(counted.distinct_public(schema.public), owned.distinct_public(schema.public))


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_can_be_read_batch_by_batch(name: str, opened: Callable[[str], Source]) -> None:
    schema = SCHEMAS["units"]
    found = opened(name)
    found.check(schema.columns)
    cells = partitions(schema)
    for one, other in zip(
        BatchRows(found, schema, KEY).count(cells),
        BatchRows(opened("arrow"), schema, KEY).count(cells),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", SOURCES)
def test_a_column_that_is_not_there_is_refused(name: str, opened: Callable[[str], Source]) -> None:
    with pytest.raises(SourceError, match="'nowhere' not found"):
        opened(name).check(["sex", "nowhere"])


@pytest.mark.parametrize(("name", "verb"), [("duckdb", "answer"), ("postgresql", "integers")])
def test_many_tables_take_one_statement_and_known_ones_none(
    name: str, verb: str, opened: Callable[[str], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = SCHEMAS["replace"]
    found = opened(name)
    counted = rows_of(found, schema, key=KEY)
    asked: list[str] = []
    plain = getattr(type(found), verb)

    def noted(self: Source, question: Any) -> Any:
        asked.append(question if isinstance(question, str) else statement(question, self.warehouse))  # type: ignore[attr-defined]
        return plain(self, question)

    monkeypatch.setattr(type(found), verb, noted)
    cells = [Marginal.of(schema, pair) for pair in itertools.combinations(schema.names, 2)]
    counted.count(cells)
    assert len(asked) == 1
    assert "GROUPING SETS" in asked[0]
    counted.count(cells[3:9])
    counted.count([Marginal.of(schema, [schema.names[5]])])
    assert len(asked) == 1


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_only_aggregated_counts_cross_the_wire(name: str, opened: Callable[[str], Source]) -> None:
    """The statement gives integers: a tag, keys below the number of cells, counts."""
    sets = [("sex", "age"), ("job",)]
    for schema in (SCHEMAS["per"],) if name == "duckdb" else SCHEMAS.values():
        counted = rows_of(opened(name), schema, key=KEY)
        assert isinstance(counted, PushedRows)
        grouping: Any = counted.grouping
        if name == "postgresql":
            tag, key, counts = opened(name).integers(grouping.statement(sets, (), "lawful"))  # type: ignore[attr-defined]
        else:
            answer = opened(name).answer(grouping.question(sets, (), "lawful")[0])  # type: ignore[attr-defined]
            tag, key, counts = (column.to_numpy() for column in answer.columns)
        limits = np.array([schema.size(["sex", "age"]), schema.size(["job"])])
        assert (key < limits[tag]).all()
        assert counts.sum() == 2 * counted.count([Marginal.of(schema, ())])[0][0]


def test_units_that_engines_spell_differently_are_refused(opened: Callable[[str], Source]) -> None:
    schema = Schema("t", (Attribute("age", "integer", singles("integer", 0, 9)),), Unit("pay", 2), "add-remove")
    for name in ("duckdb", "postgresql"):
        with pytest.raises(
            SourceError, match=r"unit column 'pay' holds .*, which (engines|warehouses) spell differently"
        ):
            rows_of(opened(name), schema)


def test_importing_dipsmith_imports_no_engine(tmp_path: Path) -> None:
    code = (
        "import sys, dipsmith, pyarrow as pa\n"
        "dipsmith.source(pa.table({'a': [1]})); dipsmith.synthesize; dipsmith.Release\n"
        "found = [m for m in ('ibis', 'duckdb', 'pyspark', 'py4j', 'psycopg') if m in sys.modules]\n"
        "sys.exit(', '.join(found) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
