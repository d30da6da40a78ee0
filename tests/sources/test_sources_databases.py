"""Databases that are hostile, slow or gone: names that are code, passwords, lost connections, odd types."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import logging
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import duckdb
import engine_tables
import numpy as np
import psycopg
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.cli.main import main
from dipsmith.counting import BatchRows
from dipsmith.counting.postgresql import total
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import BudgetError, DipsmithError, SourceError, UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.schema.bins import by_edges, point, singles
from dipsmith.sources.ibis import IbisTable
from dipsmith.sources.kinds import quote_table

CANARY = "canary-pa55word"
EVIL = "x\"'; DROP TABLE people; --%s$p0{v}"
KEY = bytes(32)
NUMBERS = itertools.count()

PEOPLE = Schema(
    "people",
    (
        Attribute("sex", "string", Categories.of(["F", "M"], other="M")),
        Attribute("age", "integer", singles("integer", 17, 40)),
    ),
    Unit(),
    "replace",
)


LABELLED = Schema(
    "people",
    (
        Attribute("age", "integer", singles("integer", 17, 40), "public"),
        Attribute("sex", "string", Categories.of(["F", "M"], other="M")),
    ),
    Unit(),
    "label",
)


@pytest.fixture
def people(postgresql: str) -> str:
    """A database of its own for each test: a source of an earlier one may still hold its snapshot."""
    name = f"d{next(NUMBERS)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address = postgresql.replace("/postgres?", f"/{name}?")
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT (ARRAY['F','M'])[1 + i % 2] AS sex, 17 + i % 24 AS age FROM generate_series(1, 600) i"
        )
    return address


# Injection ---------------------------------------------------------------------------------------------------


def evil_schema() -> Schema:
    return Schema(
        "evil",
        (Attribute(EVIL, "string", Categories.of([EVIL, "a", "'; SELECT 1; --"], other="a")),),
        Unit(),
        "replace",
    )


def test_names_and_values_that_are_code_are_inert_in_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "evil.db"
    with duckdb.connect(str(path)) as connection:
        quoted = '"' + EVIL.replace('"', '""') + '"'
        connection.execute("CREATE TABLE people (a int)")
        connection.execute(f"CREATE TABLE {quoted} ({quoted} VARCHAR)")
        connection.executemany(f"INSERT INTO {quoted} VALUES (?)", [[EVIL], [EVIL], ["'; SELECT 1; --"], ["b"]])
    found = ds.source(f"duckdb:///{path}", table=quoted)
    counts = rows_of(found, evil_schema()).count([Marginal.of(evil_schema(), [EVIL])])[0]
    assert counts.tolist() == [2, 1, 1]
    assert duckdb.connect(str(path), read_only=True).execute("SELECT count(*) FROM people").fetchone() == (0,)
    with pytest.raises(SourceError, match="no such table"):
        _ = ds.source(f"duckdb:///{path}", table="people; DROP TABLE people").columns


def test_names_and_values_that_are_code_are_inert_in_postgresql(people: str) -> None:
    quoted = '"' + EVIL.replace('"', '""') + '"'
    with psycopg.connect(people) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {quoted}".encode())
        connection.execute(f"CREATE TABLE {quoted} ({quoted} text)".encode())
        with connection.cursor().copy(f"COPY {quoted} FROM STDIN") as copy:
            for value in (EVIL, EVIL, "'; SELECT 1; --", "b"):
                copy.write_row([value])
    found = ds.source(people, table=quoted)
    schema = evil_schema()
    for rows in (rows_of(found, schema), BatchRows(found, schema)):
        assert rows.count([Marginal.of(schema, [EVIL])])[0].tolist() == [2, 1, 1]
    with pytest.raises(SourceError, match="no such table"):
        _ = ds.source(people, table="people; DROP TABLE people").columns
    with psycopg.connect(people) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (600,)


def test_table_names_are_quoted_part_by_part() -> None:
    assert quote_table('hr."my.table"') == '"hr"."my.table"'
    assert quote_table('"a""b"') == '"a""b"'
    for bad in ("", ".", "a..b", 'a"b', "a\0b", '"'):
        with pytest.raises(UsageError, match="table="):
            quote_table(bad)


def test_methods_that_ask_for_many_tables_send_few_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AIM scores all 15 pairs, PrivBayes grows a network: a handful of statements, whatever they ask for."""
    schema = Schema(
        "wide",
        tuple(Attribute(f"a{i}", "integer", singles("integer", 0, 4 + 9 * i)) for i in range(6)),
        Unit(),
        "replace",
    )
    with duckdb.connect(str(tmp_path / "wide.db")) as connection:
        columns = ", ".join(f"(i * {7 + 2 * k} + i // 50) % {5 + 9 * k} AS a{k}" for k in range(6))
        connection.execute(f"CREATE TABLE wide AS SELECT {columns} FROM range(1000) AS t(i)")
    found = ds.source(f"duckdb:///{tmp_path}/wide.db", table="wide")
    asked: list[object] = []
    plain = IbisTable.answer
    monkeypatch.setattr(IbisTable, "answer", lambda self, question: asked.append(question) or plain(self, question))
    sent = {}
    for name in ("mst", "aim", "privbayes"):
        rows = rows_of(found, schema)
        asked.clear()
        stream = Stream.for_testing(1)
        METHODS[name]().fit(Curator(rows, ds.ZCDP("0.5"), stream=stream, journal=Rehearsal()))
        sent[name] = len(asked)
    assert sent["mst"] <= 3
    assert sent["aim"] <= 4
    assert sent["privbayes"] <= 8


# Credentials -------------------------------------------------------------------------------------------------


def test_a_password_is_nowhere(people: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In no card, ledger, log, error, description or file; with a password that works and one that does not."""
    caplog.set_level(logging.DEBUG)
    with psycopg.connect(people) as connection:
        connection.execute(
            "DO $$ BEGIN CREATE ROLE steward LOGIN PASSWORD 'canary-pa55word'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
        connection.execute("GRANT SELECT ON people TO steward")
    address = people.replace("postgres:@", f"steward:{CANARY}@")
    assert CANARY in address
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(5))
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        found = ds.source(address, table="people")
        release = ds.synthesize(found, PEOPLE, ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
        release.save(tmp_path / "release")
        print(found, repr(found), found.describe(), release, ledger.show("people"))
    errors = []
    for wrong in (
        f"postgresql://u:{CANARY}@127.0.0.1:1/db",
        f"postgresql://u:{CANARY}@nowhere.invalid/db",
        f"postgresql://u:{CANARY}@/%zz?{CANARY}=1",
        address.replace(f"/{psycopg.conninfo.conninfo_to_dict(people)['dbname']}?", "/missing?"),
    ):
        with pytest.raises(DipsmithError) as failed:
            _ = ds.source(wrong, table="people").columns
        errors.append(str(failed.value))
        assert failed.value.__cause__ is None
        assert failed.value.__suppress_context__
    with pytest.raises(SourceError) as failed:
        _ = ds.source(address, table="absent").columns
    errors.append(str(failed.value))
    texts = [said.getvalue(), caplog.text, *errors]
    texts += [p.read_bytes().decode("latin-1") for p in tmp_path.rglob("*") if p.is_file()]
    assert len(texts) > 8
    assert not any(CANARY in text for text in texts)
    assert not any("steward" in text for text in errors)


def test_the_secret_of_truncation_is_in_no_log_of_the_server(people: str) -> None:
    """On a server that logs every statement with its parameters."""
    name = psycopg.conninfo.conninfo_to_dict(people)["dbname"]
    with psycopg.connect(people, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET log_statement = 'all'".encode())
        folder = connection.execute("SHOW data_directory").fetchone()
    schema = Schema("people", PEOPLE.attributes[:1], Unit("age", 3), "add-remove")
    keys = []
    for _ in range(2):
        found = ds.source(people, table="people")
        counted = rows_of(found, schema)
        assert counted.total() == 24 * 3
        keys.append(found._connection.execute("SELECT current_setting('dipsmith.key')").fetchone()[0])
    assert folder is not None
    logged = (Path(folder[0]) / "log").read_text()
    assert "PARTITION BY" in logged, "statements are logged"
    assert len(keys[0]) == len(keys[1]) == 64
    assert keys[0] != keys[1]
    assert not any(key in logged for key in keys)


def test_a_service_file_and_the_environment_are_enough(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = psycopg.conninfo.conninfo_to_dict(people)
    host, database = facts["host"], facts["dbname"]
    (tmp_path / "services.conf").write_text(f"[personnel]\nhost={host}\ndbname={database}\nuser=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    assert ds.source("postgresql:///?service=personnel", table="public.people").columns == ("sex", "age")
    for name, value in {"PGHOST": str(host), "PGDATABASE": str(database), "PGUSER": "postgres"}.items():
        monkeypatch.setenv(name, value)
    assert ds.source("postgresql://", table="people").columns == ("sex", "age")


def test_the_commands_of_the_page_read_a_database(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PEOPLE.write(tmp_path / "people.yaml")
    monkeypatch.chdir(tmp_path)
    engine_tables.run_page_commands("postgresql", {"postgresql://reader@db.example/registry": people})
    card = json.loads((tmp_path / "release" / "card.json").read_text())
    assert (card["method"], card["rows"]) == ("aim", 600)


def test_a_plan_reads_public_columns_of_a_database_and_repeats_no_password(
    people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    LABELLED.write(tmp_path / "people.yaml")
    address = people.replace("postgres:@", f"postgres:{CANARY}@")
    command = ["dipsmith", "plan", address, "--table", "people", "--schema", str(tmp_path / "people.yaml")]
    monkeypatch.setattr(sys, "argv", [*command, "--method", "loglinear", "--epsilon", "1"])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = "".join(capsys.readouterr())
    assert not stopped.value.code, said
    assert "--table people" in said
    assert "600" in said
    assert CANARY not in said


# Connections that end ----------------------------------------------------------------------------------------


def test_a_lost_connection_is_an_error_and_one_charge(people: str, tmp_path: Path) -> None:
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(5))
    found = ds.source(people, table="people")
    found.check(PEOPLE.columns)
    mine = found._connection.info.backend_pid  # type: ignore[attr-defined]
    seen: list[str] = []

    def cut(stage: str, share: float) -> None:
        """At the first sign of work, after the charge."""
        if not seen:
            seen.append(stage)
            with psycopg.connect(people) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [mine])

    class Cutting(ds.Flat):
        def fit(self, curator: object) -> object:
            cut("fit", 0.0)
            return super().fit(curator)  # type: ignore[arg-type]

    with pytest.raises(SourceError, match="connection failed or was lost") as failed:
        ds.synthesize(found, PEOPLE, Cutting(), budget=ds.PureDP(1), ledger=ledger, request="once")
    assert seen
    assert "\n" not in str(failed.value)
    runs = ledger.show("people").runs
    assert [run.id for run in runs] == ["once"]
    with pytest.raises(BudgetError, match="once"):
        ds.synthesize(
            ds.source(people, table="people"),
            PEOPLE,
            ds.Flat(),
            budget=ds.PureDP(1),
            ledger=ledger,
            request="once",
        )
    assert len(ledger.show("people").runs) == 1


def test_an_engine_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(5))
    gone = ds.source("postgresql://127.0.0.1:1/db?connect_timeout=2", table="people")
    with pytest.raises(SourceError, match="connection failed"):
        ds.synthesize(gone, PEOPLE, ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    assert not ledger.show("people").runs
    with pytest.raises(SourceError, match="no such DuckDB file"):
        ds.source(f"duckdb:///{tmp_path}/none.db", table="t")


def test_rows_that_arrive_during_a_run_are_not_counted(people: str) -> None:
    counted = rows_of(ds.source(people, table="people"), PEOPLE, key=KEY)
    before = counted.count([Marginal.of(PEOPLE, ["sex"])])[0]
    with psycopg.connect(people) as other:
        other.execute("INSERT INTO people SELECT 'F', 20 FROM generate_series(1, 50)")
    after = counted.count([Marginal.of(PEOPLE, ["sex", "age"])])[0]
    assert before.sum() == after.sum() == 600


# Types -------------------------------------------------------------------------------------------------------


def test_types_that_only_engines_have_encode_alike(people: str, tmp_path: Path) -> None:
    """Infinite dates, NaN in numeric, padded char, enums, uuid, big numbers, zones: batch and pushed agree."""
    schema = Schema(
        "odd",
        (
            Attribute("day", "date", by_edges("date", [point("date", d) for d in ("2000-01-01", "2010-01-01", "2020-01-01")], missing=True)),
            Attribute("moment", "datetime", by_edges("datetime", [point("datetime", d) for d in ("2000-01-01", "2010-01-01", "2020-01-01")], missing=True)),
            Attribute("amount", "number", by_edges("number", [0, 0.3, 10, 1e9], missing=True)),
            Attribute("code", "string", Categories.of(["ab", "c"], missing=True)),
            Attribute("mood", "string", Categories.of(["sad", "glad"], missing=True)),
            Attribute("huge", "integer", singles("integer", 0, 3, missing=True)),
        ),
        Unit(),
        "replace",
    )  # fmt: skip
    with psycopg.connect(people) as connection:
        connection.execute(
            "DROP TABLE IF EXISTS odd; DROP TYPE IF EXISTS mood; CREATE TYPE mood AS ENUM ('sad', 'glad', 'mad')"
        )
        connection.execute(
            "CREATE TABLE odd (day date, moment timestamptz, amount numeric, code char(6), mood mood, huge numeric(30))"
        )
        connection.execute(
            """INSERT INTO odd VALUES
            ('infinity', 'infinity', 'NaN', 'ab', 'sad', 3), ('-infinity', '-infinity', 'Infinity', 'c', 'mad', 2),
            ('2010-01-01', '2009-12-31 23:30:00-01', 0.3, 'AB', 'glad', 123456789012345678901234567890),
            ('0044-03-15 BC', '0044-03-15 BC', 1e-400, '', NULL, NULL),
            (NULL, NULL, -1e400, NULL, 'sad', -5), ('2009-12-31', '2009-12-31 23:59:59.999999+00', 1e308, 'c  ', 'sad', 1)"""
        )
    found = ds.source(people, table="odd")
    cells = [Marginal.of(schema, [name]) for name in schema.names]
    pushed, batch = rows_of(found, schema).count(cells), BatchRows(found, schema).count(cells)
    for one, other, table in zip(pushed, batch, cells, strict=True):
        np.testing.assert_array_equal(one, other, table.key)
    expected = [[3, 2, 1], [3, 2, 1], [2, 1, 2, 1], [1, 2, 3], [3, 1, 2], [1, 1, 1, 2, 1]]
    assert [counts.tolist() for counts in pushed] == expected


@pytest.mark.parametrize("kind", ["numeric(6)", "numeric(30)", "numeric(6, 2)", "numeric"])
@pytest.mark.parametrize("typed", ["string", "listed", "binned"])
def test_a_decimal_that_is_no_number_is_missing_and_makes_nothing_fail(people: str, kind: str, typed: str) -> None:
    """Counted by the server and read here, alone in its row, where nothing at all stands for a null."""
    name = f"decimals{next(NUMBERS)}"
    with psycopg.connect(people) as connection:
        connection.execute(f"CREATE TABLE {name} (x {kind})")
        connection.execute(f"INSERT INTO {name} VALUES (7), ('NaN'), (NULL), (8), (NULL)")
    domain = Categories.of(["7", "9"], other="9", missing=True)
    attribute = {
        "string": Attribute("x", "string", domain),
        "listed": Attribute("x", "integer", domain),
        "binned": Attribute("x", "integer", singles("integer", 7, 8, missing=True)),
    }[typed]
    for unit in (Unit(), Unit("x", 2)) if kind in ("numeric(6)", "numeric(30)") else (Unit(),):
        schema = Schema("t", (attribute,), unit, "replace")
        cells = [Marginal.of(schema, ["x"])]
        rows = [of(ds.source(people, table=name), schema, key=KEY) for of in (rows_of, BatchRows)]
        # rows without a unit belong to nobody and are not counted
        expected = [1, 1, 3 if unit.column is None else 0]
        assert [r.count(cells)[0].tolist() for r in rows] == [expected, expected]


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252"])
def test_a_database_in_another_encoding_is_read_as_text(postgresql: str, encoding: str) -> None:
    """Rows come as UTF-8 whatever the database holds; what is listed is found."""
    address = encoded(postgresql, encoding)
    with psycopg.connect(address, client_encoding="utf8") as connection:
        connection.execute("CREATE TABLE people (x text)")
        connection.execute("INSERT INTO people VALUES ('é'), ('é'), ('ü'), ('F'), (NULL)")
    schema = Schema(
        "people",
        (Attribute("x", "string", Categories.of(["é", "F"], missing=True)),),
        Unit("x", 1),
        "replace",
    )
    for of in (rows_of, BatchRows):
        rows = of(ds.source(address, table="people"), schema, key=KEY)
        assert rows.count([Marginal.of(schema, ["x"])])[0].tolist() == [1, 1, 1]


def test_labels_that_the_encoding_of_a_database_lacks_are_refused_before_a_charge(
    postgresql: str, tmp_path: Path
) -> None:
    address = encoded(postgresql, "LATIN1")
    with psycopg.connect(address, client_encoding="utf8") as connection:
        connection.execute("CREATE TABLE people (x text)")
        connection.execute("INSERT INTO people VALUES ('é'), ('F')")
    schema = Schema("people", (Attribute("x", "string", Categories.of(["€", "F"], missing=True)),), Unit(), "replace")
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(5))
    with pytest.raises(SourceError, match="the encoding of the database, LATIN1, and"):
        ds.synthesize(
            ds.source(address, table="people"), schema, ds.Flat(), budget=ds.PureDP(1), ledger=ledger, request="once"
        )
    assert not ledger.show("people").runs


def test_money_is_refused_where_it_would_silently_be_missing(people: str) -> None:
    with psycopg.connect(people) as connection:
        connection.execute("CREATE TABLE paid (x money)")
        connection.execute("INSERT INTO paid VALUES (12.5)")
    with pytest.raises(SourceError, match=r"column 'x' holds .* or money; give a view in which it is text, a number"):
        ds.source(people, table="paid").check(["x"])


def test_a_text_of_any_length_can_be_read(people: str) -> None:
    with psycopg.connect(people) as connection:
        connection.execute("CREATE TABLE long (x text)")
        connection.execute(
            "INSERT INTO long VALUES ('F'), (repeat(' ', 3000000) || 'F'), (repeat(chr(34), 3000000)), (repeat('é', 65000))"
        )
    schema = Schema("t", (Attribute("x", "string", Categories.of(["F", "M"], missing=True)),), Unit(), "replace")
    for of in (rows_of, BatchRows):
        counts = of(ds.source(people, table="long"), schema).count([Marginal.of(schema, ["x"])])
        assert counts[0].tolist() == [2, 0, 2]


def test_a_byte_order_mark_in_the_first_row_is_part_of_it(people: str) -> None:
    with psycopg.connect(people) as connection:
        connection.execute("CREATE TABLE marked (x text)")
        connection.execute("INSERT INTO marked VALUES (chr(65279)), (chr(65279) || 'F'), (NULL), ('F')")
    batches = ds.source(people, table="marked").batches(["x"])
    found = [x for batch in batches for x in batch.column("x").to_pylist()]
    assert found == ["\ufeff", "\ufeffF", None, "F"]


def test_a_database_of_bytes_that_may_be_anything_is_refused_before_rows_are_read(postgresql: str) -> None:
    address = encoded(postgresql, "SQL_ASCII")
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE people (x text)")
    with pytest.raises(SourceError, match="encoding of the database is SQL_ASCII"):
        ds.source(address, table="people").check(["x"])


def encoded(postgresql: str, encoding: str) -> str:
    """A database of its own with an encoding."""
    name = f"d{next(NUMBERS)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    return postgresql.replace("/postgres?", f"/{name}?")


def test_units_that_are_far_dates_make_nothing_fail(people: str) -> None:
    """Of two rows of each date one counts; rows without one, or with one that no Python has, belong to nobody."""
    days = (
        "infinity",
        "5874897-12-31",
        "-infinity",
        "0044-03-15 BC",
        "0001-02-03 BC",
        "0044-03-15",
        "2011-07-01",
        "9999-12-31",
    )
    with psycopg.connect(people) as connection:
        connection.execute("CREATE TABLE far (day date, x int)")
        for x in range(2):
            connection.cursor().executemany("INSERT INTO far VALUES (%s, %s)", [(day, x) for day in (*days, None)])
    schema = Schema("t", (Attribute("x", "integer", singles("integer", 0, 1)),), Unit("day", 1), "replace")
    cells = [Marginal.of(schema, ["x"])]
    pushed, batch = (of(ds.source(people, table="far"), schema, key=KEY) for of in (rows_of, BatchRows))
    assert pushed.total() == batch.total() == 3
    assert pushed.count(cells)[0].tolist() == batch.count(cells)[0].tolist()


def test_counts_of_any_size_add_up(people: str) -> None:
    counts = [2**40, 7, 2**31 - 1, 2**30, 2**60]
    listed = ", ".join(f"({n}::bigint)" for n in counts)
    with psycopg.connect(people) as connection:
        found = connection.execute(f"SELECT {total('n')} FROM (VALUES {listed}) AS t(n)".encode()).fetchone()
    assert found == (sum(counts),)


def test_types_that_only_duckdb_has_encode_alike(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        connection.execute(
            """CREATE TABLE odd AS SELECT * FROM (VALUES
            ('2010-01-01 08:59:59+09'::TIMESTAMPTZ, '2009-12-31 23:59:59.999999999'::TIMESTAMP_NS, 'a'::ENUM('a', 'b'), 18446744073709551615::UBIGINT, 0.1::FLOAT, [1]),
            ('2010-01-01 09:00:00+09'::TIMESTAMPTZ, '2010-01-01'::TIMESTAMP_NS, 'b'::ENUM('a', 'b'), 2::UBIGINT, 'nan'::FLOAT, NULL),
            (NULL, NULL, NULL, NULL, NULL, NULL)) AS t(zoned, fine, mood, big, small, list)"""
        )
    schema = Schema(
        "odd",
        (
            Attribute("zoned", "date", singles("date", point("date", "2009-12-31"), point("date", "2010-01-02"), missing=True)),
            Attribute("fine", "datetime", by_edges("datetime", [point("datetime", d) for d in ("2009-01-01", "2010-01-01", "2011-01-01")], missing=True)),
            Attribute("mood", "string", Categories.of(["a", "b"], missing=True)),
            Attribute("big", "integer", singles("integer", 0, 3, missing=True)),
            Attribute("small", "number", by_edges("number", [0, 0.1, 1], missing=True)),
        ),
        Unit(),
        "replace",
    )  # fmt: skip
    found = ds.source(f"duckdb:///{path}", table="odd")
    cells = [Marginal.of(schema, [name]) for name in schema.names]
    pushed, batch = rows_of(found, schema).count(cells), BatchRows(found, schema).count(cells)
    for one, other, table in zip(pushed, batch, cells, strict=True):
        np.testing.assert_array_equal(one, other, table.key)
    assert [c.tolist() for c in pushed] == [[1, 1, 0, 1], [1, 1, 1], [1, 1, 1], [0, 0, 1, 1, 1], [0, 1, 2]]
    with pytest.raises(SourceError, match="column 'list' holds lists"):
        found.check(["list"])


def test_far_values_of_types_that_only_duckdb_has_make_nothing_fail(tmp_path: Path) -> None:
    """Numbers of 39 digits; moments in other units, beyond what microseconds or an edge in nanoseconds can be."""
    path = tmp_path / "far.db"
    ticks = pa.array([2**62, -(2**62), 1309478400, -1, 0, None], pa.int64())
    units = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "ns": "TIMESTAMP_NS"}
    table = pa.table({unit: ticks.cast(pa.timestamp(unit)) for unit in units})
    huge = [2**127 - 1, 1 - 2**127, 60, 10**38 - 1, 0, None]
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute(
            "CREATE TABLE far (s TIMESTAMP_S, ms TIMESTAMP_MS, ns TIMESTAMP_NS, zoned TIMESTAMPTZ_NS, huge HUGEINT, unsigned UHUGEINT)"
        )
        connection.execute("INSERT INTO far SELECT s, ms, ns, ns::TIMESTAMPTZ_NS, NULL, NULL FROM given")
        for value in huge:
            connection.execute(
                "INSERT INTO far VALUES (NULL, NULL, NULL, NULL, ?::HUGEINT, ?::UHUGEINT)",
                [None if value is None else str(value), None if value is None else str(abs(value))],
            )
        kinds = [row[1] for row in connection.execute("DESCRIBE far").fetchall()]
    assert kinds[:3] == list(units.values())
    far = by_edges(
        "date",
        [point("date", d) for d in ("1500-01-01", "1970-01-01", "2500-01-01", "2600-01-01")],
        missing=True,
    )
    large = by_edges("number", [-1e300, 0, 50, 1e37, 1e300], missing=True)
    listed = Categories.of(["1970-01-01 00:00:00.000000", "60"], missing=True)
    schemas = [
        Schema("far", (*(Attribute(n, "date", far) for n in (*units, "zoned")), Attribute("huge", "number", large), Attribute("unsigned", "number", large)), Unit(), "replace"),
        Schema("far", tuple(Attribute(n, "string", listed) for n in (*units, "huge")), Unit("huge", 7), "replace"),
    ]  # fmt: skip
    expected = [
        [[2, 2, 1, 7], [2, 2, 1, 7], [2, 3, 0, 7], [2, 3, 0, 7], [1, 1, 1, 2, 7], [0, 1, 1, 3, 7]],
        [[0, 0, 5], [0, 0, 5], [0, 0, 5], [0, 1, 4]],
    ]
    found = ds.source(f"duckdb:///{path}", table="far")
    for schema, wanted in zip(schemas, expected, strict=True):
        cells = [Marginal.of(schema, [name]) for name in schema.names]
        for rows in (rows_of(found, schema, key=KEY), BatchRows(found, schema, KEY)):
            assert [counts.tolist() for counts in rows.count(cells)] == wanted


def test_whole_numbers_beyond_the_doubles_are_compared_as_their_nearest_double(tmp_path: Path) -> None:
    """As in a file, where they are text: 2**53 + 3 is read as 2**53 + 4, which an edge may be."""
    values = [s * (2**k + d) for s in (1, -1) for k in (53, 54, 62) for d in range(-9, 10)] + [
        2**63 - 1,
        -(2**63),
    ]
    table = pa.table({"x": pa.array(values, pa.int64())})
    with duckdb.connect(str(tmp_path / "whole.db")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    found = ds.source(f"duckdb:///{tmp_path}/whole.db", table="t")
    edges = sorted({s * float(2**k + d) for s in (1, -1) for k in (53, 54, 62) for d in (-8, 0, 4, 1024)})
    schema = Schema("t", (Attribute("x", "number", by_edges("number", [-1e20, *edges, 1e20])),), Unit(), "replace")
    cells = [Marginal.of(schema, ["x"])]
    texts = pa.table({"x": table["x"].cast(pa.string())})
    wanted = BatchRows(ds.source(texts), schema).count(cells)[0].tolist()
    for rows in (rows_of(found, schema), BatchRows(found, schema)):
        assert rows.count(cells)[0].tolist() == wanted


# Whole releases ----------------------------------------------------------------------------------------------


def test_a_release_from_a_database_is_the_release_from_its_rows(people: str, tmp_path: Path) -> None:
    with psycopg.connect(people) as connection:
        rows = connection.execute("SELECT sex, age FROM people").fetchall()
    table = pa.table({"sex": [r[0] for r in rows], "age": [r[1] for r in rows]})
    made = [
        ds.synthesize(data, PEOPLE, ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=4, seed=1)
        for data in (table, ds.source(people, table="people"))
    ]
    assert made[0].tables[0].equals(made[1].tables[0])


def test_what_duckdb_reads_is_counted_by_duckdb(tmp_path: Path) -> None:
    """A view over files: how any other storage that DuckDB reaches is asked."""
    table = engine_tables.awkward(300)
    engine_tables.write_parquet(table, tmp_path / "rows")
    with duckdb.connect(str(tmp_path / "views.db")) as connection:
        connection.execute(f"CREATE VIEW awkward AS SELECT * FROM '{tmp_path}/rows/*.parquet'")
    found = ds.source(f"duckdb:///{tmp_path}/views.db", table="awkward")
    schema = engine_tables.schemas()["units"]
    cells = [Marginal.of(schema, [name]) for name in schema.names]
    pushed, batch = (
        rows.count(cells) for rows in (rows_of(found, schema, key=KEY), BatchRows(ds.source(table), schema, KEY))
    )
    for one, other, marginal in zip(pushed, batch, cells, strict=True):
        np.testing.assert_array_equal(one, other, marginal.key)


def test_labels_for_a_database(people: str) -> None:
    release = ds.synthesize(
        ds.source(people, table="people"),
        LABELLED,
        ds.LogLinear(targets=["sex"]),
        budget=ds.PureDP(5),
        testing=True,
        noise_seed=1,
    )
    assert release.tables[0].num_rows == 600
    assert sorted(release.tables[0]["age"].to_pylist()) == sorted(17 + i % 24 for i in range(1, 601))
    assert release.tables[0].schema.field("age").type == pa.int64()


def test_the_awkward_table_is_awkward() -> None:
    """The table of the common tests holds what it is meant to hold."""
    table = engine_tables.awkward()
    for name in ("sex", "job", "pay", "numeral", "moment"):
        assert table[name].null_count
    assert dt.datetime(2011, 7, 1) in table["seen"].to_pylist()
    assert set(engine_tables.NUMERALS) <= set(table["numeral"].to_pylist())
