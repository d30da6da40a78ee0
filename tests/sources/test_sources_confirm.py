"""A poll asks the rows of every source alike, in whatever order they come: the same parts, the same votes."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dipsmith.confirm.claim import parse_claim
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.votes import vote_of
from dipsmith.counting.count import BatchRows
from dipsmith.privacy.value_question import count_votes
from dipsmith.schema import Attribute, Categories, Schema, Unit
from dipsmith.schema.bins import by_width
from dipsmith.sources import source

SCHEMA = Schema(
    "people",
    (
        Attribute("y", "number", by_width("number", -10, 10, 1), "public"),
        Attribute("g", "string", Categories.of("abc", other="a"), "public"),
        Attribute("s", "string", Categories.of("FM", other="M"), "private"),
    ),
    Unit("id", 2),
    "label",
)
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"),
]
PARTS = 9


def people():
    rng = np.random.default_rng(5)
    s, g = rng.integers(0, 2, 300), rng.integers(0, 3, 300)
    y = np.round(rng.normal(size=300) + 0.2 * s, 3)
    ids = rng.integers(0, 200, 300)
    return pa.table({"id": ids, "y": y, "g": ["abc"[i] for i in g], "s": ["FM"[i] for i in s]})


def votes(data, **options):
    """The exact numbers where units are told by a column, and where every row is one."""
    found = []
    for schema in (SCHEMA, replace(SCHEMA, unit=Unit())):
        design = VoteDesign.of("y ~ s | g", schema, "ols", {"s": "M"})
        vote = vote_of(parse_claim("s[F] < -0.2"), design, PARTS)
        rows = BatchRows(source(data, **options), schema, b"k" * 32)
        found += count_votes(rows, vote, PARTS, b"parts").tolist()
    return found


def test_files_and_frames_vote_alike(tmp_path):
    table = people()
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=70)
    pa_csv.write_csv(table, tmp_path / "people.csv")
    expected = votes(table)
    assert all(0 < number < PARTS for number in expected)
    assert votes(tmp_path / "people.parquet") == expected
    assert votes(tmp_path / "people.csv") == expected
    assert votes(table.to_pandas()) == expected
    assert votes(table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))) == expected


def test_duckdb_votes_alike(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    table = people()
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    assert votes(f"duckdb://{tmp_path}/people.duckdb", table="people") == votes(table)


def test_postgresql_votes_alike(postgresql):
    import psycopg

    table = people()
    with psycopg.connect(postgresql) as connection:
        connection.execute("CREATE TABLE voters (id bigint, y double precision, g text, s text)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO voters VALUES (%s, %s, %s, %s)", list(zip(*table.to_pydict().values(), strict=True))
            )
    assert votes(postgresql, table="voters") == votes(table)


def test_spark_votes_alike(spark, tmp_path):
    table = people()
    pq.write_table(table, tmp_path / "people.parquet")
    assert votes(spark.session.read.parquet(str(tmp_path / "people.parquet"))) == votes(table)
