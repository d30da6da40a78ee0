"""Households whose two tables lie in a database: from the command line, PostgreSQL on a real server, DuckDB, Spark."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import duckdb
import psycopg
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from assurance.unit_pairs import household_pair
from dipsmith.cli.main import main


def into_postgresql(address, tables):
    with psycopg.connect(address, autocommit=True) as connection:
        for name, table in tables.items():
            kinds = ", ".join(f'"{n}" text' for n in table.column_names)
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} ({kinds})")
            out = io.BytesIO()
            pa_csv.write_csv(table, out)
            with connection.cursor().copy(f"COPY {name} FROM STDIN WITH (FORMAT csv, HEADER)") as copy:
                copy.write(out.getvalue())
    return address


def into_duckdb(folder, tables):
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        for name, table in tables.items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return f"duckdb:///{folder / 'town.duckdb'}"


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["dipsmith", *words])
        errors = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(errors), pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), errors.getvalue()

    return call


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql", "duckdb"])
def test_two_tables_of_a_database_make_the_release_that_files_make(engine, request, run, tmp_path):
    pair = household_pair("add-remove", 3)
    schema, (homes, persons) = pair.schema, pair.after
    tables = {"homes": homes, "persons": persons}
    schema.write(tmp_path / "households.yaml")
    if engine == "postgresql":
        address = into_postgresql(request.getfixturevalue("postgresql"), tables)
    else:
        address = into_duckdb(tmp_path, tables)
    assert run("ledger", "grant", "homes", "--ledger", "b.db", "--epsilon", "2") == (0, "")
    where = (address, "--table", "homes", "--members", address, "--members-table", "persons")
    settings = ("--schema", "households.yaml", "--method", "aim", "--set", "rounds=1", "--epsilon", "1")
    code, said = run("synthesize", *where, *settings, "--ledger", "b.db", "--out", "release", "--format", "csv")
    assert code == 0, said
    assert run("verify", "release", "--ledger", "b.db")[0] == 0
    # The same rows under frozen noise, from a database and from a file.
    both = []
    for data, members in ((homes, persons), (ds.source(address, table="homes"), ds.source(address, table="persons"))):
        made = ds.synthesize(
            data, schema, ds.AIM(rounds=1), members=members, budget=ds.PureDP(1), testing=True, noise_seed=4, seed=4
        )
        both.append({name: made.tables[name][0].to_pydict() for name in ("homes", "people")})
    assert both[0] == both[1]
    code, said = run(
        "synthesize",
        *where[:3],
        "--members",
        address,
        "--members-table",
        "nobody",
        *settings,
        "--ledger",
        "b.db",
        "--out",
        "other",
    )
    assert code == 3
    assert "nobody" in said
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*")
def test_frames_of_spark_hand_their_rows_over(spark, tmp_path):
    """Both tables from a cluster, in three parts: the rows that frames give, and nothing is drawn on the cluster."""
    schema, given = household_pair("add-remove", 3).schema, household_pair("add-remove", 3).after
    frames = []
    for name, table in zip(("homes", "people"), given, strict=True):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        frames.append(spark.session.read.parquet(str(tmp_path / f"{name}.parquet")).repartition(3))
    made = {"budget": ds.PureDP(1), "testing": True, "noise_seed": 4, "seed": 4}
    first, second = (
        ds.synthesize(homes, schema, ds.AIM(rounds=1), members=people, **made) for homes, people in (given, frames)
    )
    assert all(first.tables[name][0].equals(second.tables[name][0]) for name in ("homes", "people"))
