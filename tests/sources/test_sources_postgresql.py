"""PostgreSQL as its administrators keep it: other encodings, limits of time, texts of any length, very many tables."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import psycopg
import pytest

import dipsmith as ds
from dipsmith.counting import BatchRows
from dipsmith.counting.postgresql import MOST_SETS
from dipsmith.counting.pushed import PushedRows, Rows, rows_of
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.schema.bins import singles

KEY = bytes(32)
NUMBERS = itertools.count()
SEX = Schema("t", (Attribute("x", "string", Categories.of(["F", "M"], missing=True)),), Unit(), "replace")


def database(postgresql: str, encoding: str = "UTF8") -> str:
    """A database of its own with an encoding."""
    name = f"own{next(NUMBERS)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    return postgresql.replace("/postgres?", f"/{name}?")


def both(address: str, schema: Schema) -> list[Rows]:
    """The rows of the table `people`, counted there and read here."""
    return [of(ds.source(address, table="people"), schema, key=KEY) for of in (rows_of, BatchRows)]


@pytest.mark.parametrize(
    ("encoding", "value"), [("WIN1252", b"\x81"), ("WIN1251", b"\x98"), ("EUC_JP", b"\xad\xa1\xa2\xaf")]
)
@pytest.mark.parametrize("unit", [Unit(), Unit("u", 1)])
def test_bytes_that_utf8_has_no_character_for_make_nothing_fail(
    postgresql: str, encoding: str, value: bytes, unit: Unit
) -> None:
    """A database holds them although its encoding leaves them open; a unit of them is cut like any other."""
    address = database(postgresql, encoding)
    with psycopg.connect(address, client_encoding=encoding) as connection:
        connection.execute("CREATE TABLE people (x text, u text)")
        with connection.cursor().copy("COPY people FROM STDIN") as copy:
            copy.write(b"F\tu1\n%b\tu%b\n%b\tu%b\nM\tu2\n" % (value, value, value, value))
    schema = replace(SEX, unit=unit)
    for rows in both(address, schema):
        kept = 2 if unit.column is None else 1
        assert rows.count([Marginal.of(schema, ["x"])])[0].tolist() == [1, 1, kept]


def test_rows_of_many_long_texts_can_be_read(postgresql: str) -> None:
    names = [f"x{i}" for i in range(40)]
    address = database(postgresql)
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE TABLE people ({', '.join(f'{n} text' for n in names)})")
        for value in ("'F'", "repeat('\"', 65536)", "repeat('é', 99999)") * 2:
            connection.execute(f"INSERT INTO people VALUES ({', '.join([value] * len(names))})")
    schema = replace(SEX, attributes=tuple(replace(SEX["x"], name=n) for n in names))
    for rows in both(address, schema):
        assert {tuple(c) for c in rows.count([Marginal.of(schema, [n]) for n in names])} == {(2, 0, 4)}


def test_a_text_that_functions_of_the_server_cannot_take_makes_nothing_fail(postgresql: str) -> None:
    address = database(postgresql)
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE people (x text)")
        connection.execute("INSERT INTO people VALUES ('1'), (repeat('7', 270000000))")
    amount = Attribute("x", "integer", singles("integer", 0, 3, missing=True))
    for attribute, expected in ((SEX["x"], [0, 0, 2]), (amount, [0, 1, 0, 0, 1])):
        schema = replace(SEX, attributes=(attribute,))
        for rows in both(address, schema):
            assert rows.count([Marginal.of(schema, ["x"])])[0].tolist() == expected


def test_two_units_whose_long_names_begin_alike_are_two(postgresql: str) -> None:
    address = database(postgresql)
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE people (x text, u text)")
        connection.execute("INSERT INTO people SELECT 'F', repeat('u', 70000) || i % 3 FROM generate_series(1, 30) i")
    schema = replace(SEX, unit=Unit("u", 1))
    for rows in both(address, schema):
        assert rows.count([Marginal.of(schema, ["x"])])[0].tolist() == [3, 0, 0]


LIMITS = ["statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout", "idle_session_timeout"]


def test_no_limit_of_time_ends_a_run(postgresql: str) -> None:
    """Administrators set them for a role or a database; how long a run takes depends on the rows."""
    address = database(postgresql)
    with psycopg.connect(address, autocommit=True) as connection:
        name = connection.info.dbname
        for limit in LIMITS:
            if connection.execute("SELECT 1 FROM pg_settings WHERE name = %s", [limit]).fetchone():
                connection.execute(f"ALTER DATABASE {name} SET {limit} = '200ms'")
        connection.execute("CREATE TABLE persons AS SELECT 'F' AS x FROM generate_series(1, 5)")
        connection.execute("CREATE VIEW people AS SELECT x FROM persons WHERE pg_sleep(0.06) IS NOT NULL")
    for rows in both(address, SEX):
        time.sleep(0.3)
        assert rows.count([Marginal.of(SEX, ["x"])])[0].tolist() == [5, 0, 0]


def test_more_tables_than_a_statement_may_ask_for_are_counted(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server takes 4096 sets; all pairs of 92 columns are more."""
    assert MOST_SETS < 4096
    monkeypatch.setattr("dipsmith.counting.postgresql.MOST_SETS", 3)
    address = database(postgresql)
    names = [f"x{i}" for i in range(5)]
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT " + ", ".join(f"i % {k + 2} AS x{k}" for k in range(5)) + _MANY
        )
    columns = tuple(Attribute(n, "integer", singles("integer", 0, 2999)) for n in names)
    schema = replace(SEX, attributes=columns)
    pairs = [Marginal.of(schema, pair) for pair in itertools.combinations(names, 2)]
    pushed, batch = both(address, schema)
    assert isinstance(pushed, PushedRows)
    for one, other in zip(pushed.count(pairs), batch.count(pairs), strict=True):
        assert (one == other).all()


_MANY = " FROM generate_series(1, 60) AS i"


def test_a_source_can_be_asked_again_after_a_refusal(postgresql: str) -> None:
    address = database(postgresql, "LATIN1")
    with psycopg.connect(address, client_encoding="utf8") as connection:
        connection.execute("CREATE TABLE people AS SELECT 'F' AS x")
    opened = ds.source(address, table="people")
    euro = replace(SEX, attributes=(Attribute("x", "string", Categories.of(["€", "F"], missing=True)),))
    with pytest.raises(SourceError, match="the encoding of the database, LATIN1"):
        rows_of(opened, euro)
    assert rows_of(opened, SEX).count([Marginal.of(SEX, ["x"])])[0].tolist() == [1, 0, 0]
