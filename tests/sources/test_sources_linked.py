"""Panels and survey weights of rows in an engine: the same rows as from a table in memory."""

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.synthesis.test_panel_release import people
from tests.synthesis.test_panel_release import schema as panel
from tests.synthesis.test_weights import schema as weighted
from tests.synthesis.test_weights import survey

import dipsmith as ds
from dipsmith.sources import source

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"),
]

TABLES = {"panel": (people(120), panel()), "weights": (survey(300), weighted())}
COLUMNS = {
    "panel": "person varchar, year bigint, sex varchar, pay double precision",
    "weights": "region varchar, employed varchar, pay double precision, w double precision",
}


def made(data, schema):
    return ds.synthesize(data, schema, ds.AIM(), budget=ds.PureDP(20), testing=True, noise_seed=3, seed=3).tables[0]


@pytest.fixture(scope="module")
def expected():
    return {kind: made(*TABLES[kind]) for kind in TABLES}


@pytest.mark.parametrize("kind", TABLES)
def test_files_give_the_same_rows(kind, expected, tmp_path):
    table, schema = TABLES[kind]
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=50)
    pa_csv.write_csv(table, tmp_path / "t.csv")
    for name in ("t.parquet", "t.csv"):
        assert made(tmp_path / name, schema).equals(expected[kind]), name


@pytest.mark.parametrize("kind", TABLES)
def test_duckdb_gives_the_same_rows(kind, expected, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    table, schema = TABLES[kind]
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE kept AS SELECT * FROM given")
    assert made(source(f"duckdb:///{tmp_path / 't.duckdb'}", table="kept"), schema).equals(expected[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_postgresql_gives_the_same_rows(kind, expected, postgresql):
    import psycopg

    table, schema = TABLES[kind]
    with psycopg.connect(postgresql) as connection:
        connection.execute(f"DROP TABLE IF EXISTS linked_{kind}")
        connection.execute(f"CREATE TABLE linked_{kind} ({COLUMNS[kind]})")
        with connection.cursor().copy(f"COPY linked_{kind} FROM STDIN") as copy:
            for row in zip(*(c.to_pylist() for c in table.columns), strict=True):
                copy.write_row(row)
    assert made(source(postgresql, table=f"linked_{kind}"), schema).equals(expected[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_spark_gives_the_same_rows(kind, expected, spark, tmp_path):
    table, schema = TABLES[kind]
    pq.write_table(table, tmp_path / "t.parquet")
    frame = spark.session.read.parquet(str(tmp_path / "t.parquet")).repartition(3)
    assert made(frame, schema).equals(expected[kind])
