"""Planned analyses under `label` of rows in an engine: the same results and the same rows as from a table in memory."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.test_sources_confirm import SCHEMA, people

import dipsmith as ds
from dipsmith.counting.count import BatchRows
from dipsmith.errors import BudgetError, SourceError
from dipsmith.schema import Marginal, Unit
from dipsmith.sources import source
from dipsmith.sources.fetched_rows import FetchedRows

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"),
]


def planned(data, **options):
    """A release with a planned regression, by frozen noise."""
    return ds.synthesize(
        source(data, **options),
        SCHEMA,
        ds.LogLinear(targets=["s"]),
        budget=ds.PureDP(20),
        analyses=["y ~ s | g"],
        testing=True,
        noise_seed=3,
        seed=3,
    )


@pytest.fixture(scope="module")
def expected():
    return planned(people())


def same(one, other):
    assert one.results == other.results
    assert one.results[0].coefficients[0].estimate is not None
    assert one.tables[0].equals(other.tables[0])


class Whimsical:
    """An engine's table whose rows come in another order at every reading, and that tells what was read of it."""

    counter = "dipsmith.counting.ibis:IbisGrouping"

    def __init__(self, table):
        self.table, self.read, self.more = table, [], 0

    @property
    def columns(self):
        return tuple(self.table.column_names)

    def check(self, required):
        assert set(required) <= set(self.columns)

    def describe(self):
        return "whimsical table"

    def batches(self, columns, progress=None):
        self.read.append(tuple(columns))
        order = np.random.default_rng(len(self.read)).permutation(self.table.num_rows - self.more * len(self.read))
        yield from self.table.select(list(columns)).take(pa.array(order)).combine_chunks().to_batches()


def test_rows_in_another_order_at_every_reading(expected):
    engine = Whimsical(people())
    same(planned(engine), expected)


def test_private_columns_are_read_when_all_is_paid_for(tmp_path):
    engine, ledger = Whimsical(people()), ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(1))
    with pytest.raises(BudgetError):
        ds.synthesize(
            engine, SCHEMA, ds.LogLinear(targets=["s"]), budget=ds.PureDP(2), ledger=ledger, analyses=["y ~ s | g"]
        )
    assert engine.read == [("y", "g")]


def test_rows_that_change_between_two_readings_are_refused():
    engine = Whimsical(people())
    engine.more = 1
    with pytest.raises(SourceError, match="changed between two passes"):
        planned(engine)


def test_a_row_is_counted_by_one_reading():
    """What decides whether a row counts and what it says come from the same row, however often columns are asked for."""
    table = people()
    cells = [[Marginal.of(SCHEMA, ("g", "s"))], [Marginal.of(SCHEMA, ("y", "s"))]]
    for schema in (SCHEMA, replace(SCHEMA, unit=Unit())):
        one, two = (BatchRows(source(data), schema, b"k" * 32) for data in (table, Whimsical(table)))
        for asked in cells:
            assert [c.tolist() for c in one.count(asked)] == [c.tolist() for c in two.count(asked)]


def test_what_is_free_is_not_handed_over():
    engine = Whimsical(people())
    held = FetchedRows.of(engine, ("y", "g", "s"), ("y", "g"))
    assert sum(b.num_rows for b in held.batches(("g",))) == 300
    assert engine.read == [("g",)]
    first = pa.Table.from_batches(held.batches(("s",)))
    assert engine.read == [("g",), ("y", "g", "s")]
    whole = pa.Table.from_batches(held.batches(("g", "s")))
    assert whole.column("s").equals(first.column("s"))
    assert len(engine.read) == 2
    table = source(people())
    assert FetchedRows.of(table, ("y",)) is table


def test_duckdb(tmp_path, expected):
    duckdb = pytest.importorskip("duckdb")
    table = people()
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given ORDER BY s")
    same(planned(f"duckdb://{tmp_path}/people.duckdb", table="people"), expected)


def test_postgresql_with_an_index_that_it_reads_instead_of_the_table(postgresql, expected):
    """One column comes from an index, in its order; two come from the table."""
    import psycopg

    # A database of its own: a vacuum leaves what a transaction of another test might still look at.
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("CREATE DATABASE planned")
    postgresql = postgresql.replace("/postgres?", "/planned?")
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("CREATE TABLE planned (id bigint, y double precision, g text, s text, wide text)")
        with connection.cursor() as cursor:
            lines = [(*line, "w" * 2000) for line in zip(*people().to_pydict().values(), strict=True)]
            cursor.executemany("INSERT INTO planned VALUES (%s, %s, %s, %s, %s)", lines)
        connection.execute("ALTER TABLE planned ALTER wide SET STORAGE PLAIN")
        connection.execute("UPDATE planned SET wide = wide || 'w'")
        for column in ("s", "id", "g"):
            connection.execute(f"CREATE INDEX ON planned ({column})")
        connection.execute("VACUUM ANALYZE planned")
        plan = str(connection.execute("EXPLAIN SELECT s FROM planned").fetchall())
    assert "Index Only Scan" in plan
    same(planned(postgresql, table="planned"), expected)


@pytest.mark.slow
def test_spark(spark, tmp_path, expected):
    pq.write_table(people(), tmp_path / "people.parquet")
    same(planned(spark.session.read.parquet(str(tmp_path / "people.parquet"))), expected)
