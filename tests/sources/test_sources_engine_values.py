"""No value of an engine's own types makes a run fail, counted there or read here; what is refused is refused empty too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sources_values import ATTRIBUTES, chain

from dipsmith.counting import BatchRows
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Marginal, Schema, Unit
from dipsmith.sources import Source, source

psycopg = pytest.importorskip("psycopg")
duckdb = pytest.importorskip("duckdb")
ibis = pytest.importorskip("ibis")

KEY = bytes(range(32))
NUMBERS = itertools.count()
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

POSTGRESQL = {
    "date": ["infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "0001-01-01", "2011-07-01"],
    "timestamp": [
        "infinity",
        "-infinity",
        "294276-12-31 23:59:59.999999",
        "4714-11-24 00:00:00 BC",
        "2011-07-01",
    ],
    "timestamptz": [
        "infinity",
        "-infinity",
        "294276-12-31 23:59:59+00",
        "4714-11-24 00:00:00+00 BC",
        "2011-07-01+14",
    ],
    "numeric": ["NaN", "Infinity", "-Infinity", "1e130000", "1e-16000", "1", "1.5"],
    "numeric(30)": ["NaN", "1e29", "-1e29", "1"],
    "numeric(1000, 500)": ["NaN", "1e499", "1"],
    "float8": ["NaN", "Infinity", "-Infinity", "1e308", "5e-324", "1"],
    "float4": ["NaN", "Infinity", "1e38", "1.5"],
    "int8": ["9223372036854775807", "-9223372036854775808", "1"],
    "mood": ["a", "b"],
    "json": ['{"a": "\\u0000"}', "null", "1"],
    "jsonb": ['{"a": 1}', "null", "1"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "timetz": ["24:00:00+15:59:59", "00:00:00-15:59:59", "12:00+00"],
    "time": ["24:00:00", "00:00:00"],
    "bool": ["true", "false"],
    "char(5)": ["a", "", "  1"],
    "text": ["a", "", " ", "\ufeff", "1e999999", "99999-01-01", "'", "\\"],
    "xml": ["<a/>"],
    "inet": ["::1", "10.0.0.1/8"],
    "money": ["92233720368547758.07", "-1"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF"],
    "oid": ["4294967295"],
    "tsvector": ["a b"],
    "bit(3)": ["101"],
    "point": ["(1,2)"],
    "bytea": ["\\xff00"],
    "interval": ["178000000 years", "1 day"],
    "int4[]": ["{1,2}", "{}"],
    "int4range": ["empty", "[1,2)"],
}

DUCKDB = {
    "DATE": ["infinity", "-infinity", "5877642-06-25 (BC)", "5881580-07-10", "2011-07-01"],
    "TIMESTAMP": ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806", "2011-07-01"],
    "TIMESTAMPTZ": ["infinity", "-infinity", "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54+00"],
    "TIMESTAMP_NS": ["2262-04-11 23:47:16.854775806", "1677-09-22", "infinity"],
    "TIMESTAMP_S": ["290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54", "infinity"],
    "TIME": ["24:00:00", "00:00:00"],
    "TIMETZ": ["24:00:00-15:59:59", "00:00:00+15:59:59"],
    "HUGEINT": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105728", "1"],
    "UHUGEINT": ["340282366920938463463374607431768211455", "0"],
    "DECIMAL(38, 10)": ["9999999999999999999999999999.9999999999", "1"],
    "DOUBLE": ["nan", "inf", "-inf", "1e308"],
    "FLOAT": ["nan", "inf", "1.5"],
    "UUID": ["ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "JSON": ['{"a": 1}', "1"],
    "ENUM ('a', 'b')": ["a", "b"],
    "VARCHAR": ["a", "", " ", "1e999999", "99999-01-01", "\U0010ffff"],
    "BLOB": ["\\xFF"],
    "BIT": ["101"],
    "INTERVAL": ["1 year"],
    "INTEGER[]": ["[1, 2]"],
    "STRUCT(a INTEGER)": ["{'a': 1}"],
    "MAP(INTEGER, INTEGER)": ["{1=2}"],
    "UNION(a INTEGER, b VARCHAR)": ["1"],
}  # fmt: skip


COLUMNS = tuple(f"x{i}" for i in range(len(ATTRIBUTES)))
"""Copies of one column: each is encoded as another kind of attribute, all of them by one statement."""


def outcome(opened: Source) -> list[str]:
    """Why a table is refused, or that every kind of attribute and of unit has the same counts, there and here."""
    try:
        opened.check([*COLUMNS])
    except SourceError as refused:
        return [_told(refused)]
    attributes = tuple(replace(a, name=name) for a, name in zip(ATTRIBUTES, COLUMNS, strict=True))
    joint = _counted(opened, attributes, Unit())
    # one statement for all of them tells only what is refused first
    each = [joint] if joint == "counted" else [_counted(opened, (a,), Unit()) for a in attributes]
    return [*each, _counted(opened, attributes[:1], Unit("x0", 1))]


def _counted(opened: Source, attributes: tuple[Attribute, ...], unit: Unit) -> str:
    schema = Schema("t", attributes, unit, "replace")
    cells = [Marginal.of(schema, [a.name]) for a in attributes]
    try:
        pushed = rows_of(opened, schema, key=KEY)
    except SourceError as refused:
        return _told(refused)
    here = BatchRows(opened, schema, key=KEY)
    for attribute, one, other in zip(attributes, pushed.count(cells), here.count(cells), strict=True):
        np.testing.assert_array_equal(one, other, str(attribute))
    return "counted"


def _told(refused: SourceError) -> str:
    """What an error says about the column; it carries no error of the engine."""
    assert chain(refused) == [refused]
    return str(refused).rpartition(": ")[2]


@pytest.fixture(scope="module")
def tables(postgresql: str) -> Iterator[str]:
    with psycopg.connect(postgresql) as connection:
        connection.execute("DROP TYPE IF EXISTS mood CASCADE")
        connection.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
    return postgresql


@pytest.mark.parametrize("kind", POSTGRESQL)
def test_no_value_of_postgresql_makes_a_run_fail(kind: str, tables: str) -> None:
    full, empty = (f"odd{next(NUMBERS)}" for _ in range(2))
    with psycopg.connect(tables) as connection:
        for name in (full, empty):
            connection.execute(f"CREATE TABLE {name} ({', '.join(f'{x} {kind}' for x in COLUMNS)})")
        # A server that was built without xml has the type, and columns of it that hold nothing but nulls.
        values = [] if kind == "xml" and not _has_xml(connection) else POSTGRESQL[kind]
        for value in [*values, None, *values]:
            cast = ", ".join([f"%s::text::{kind}"] * len(COLUMNS))
            connection.execute(f"INSERT INTO {full} VALUES ({cast})", [value] * len(COLUMNS))
    assert outcome(source(tables, table=full)) == outcome(source(tables, table=empty))


def _has_xml(connection: Any) -> bool:
    try:
        with connection.transaction():
            connection.execute("SELECT '<a/>'::xml")
    except psycopg.Error:
        return False
    return True


DIRECTLY = ("DATE", "TIMESTAMPTZ", "HUGEINT", "DOUBLE")
"""Types that a table of ibis itself is tried with, which has no view of ours before it; the others by `make audit`."""
ALIKE = ("TIMETZ", "UUID", "ENUM ('a', 'b')", "JSON", "TIME", "TIMESTAMP_S", "UHUGEINT")
"""Types that are read as others are: as VARCHAR, TIMESTAMP and HUGEINT; by `make audit` too."""
ROUTES = [
    pytest.param(
        by, kind, marks=() if kind in DIRECTLY or (by == "duckdb" and kind not in ALIKE) else pytest.mark.crowd
    )
    for by in ("duckdb", "ibis")
    for kind in DUCKDB
]


@pytest.mark.parametrize(("by", "kind"), ROUTES)
def test_no_value_of_duckdb_makes_a_run_fail(by: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in ("full_", "empty_"):
            connection.execute(f"CREATE TABLE {name} ({', '.join(f'{x} {kind}' for x in COLUMNS)})")
        cast = ", ".join([f"CAST(? AS {kind})"] * len(COLUMNS))
        for value in [*DUCKDB[kind], None, *DUCKDB[kind]]:
            connection.execute(f"INSERT INTO full_ SELECT {cast}", [value] * len(COLUMNS))
    if by == "duckdb":
        full, empty = (source(f"duckdb:///{path}", table=name) for name in ("full_", "empty_"))
    else:
        connected = ibis.duckdb.connect(path, read_only=True)
        full, empty = (source(connected.table(name)) for name in ("full_", "empty_"))
    assert outcome(full) == outcome(empty)


def test_a_failure_of_an_engine_is_told_and_not_carried(tables: str, tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    duckdb.connect(str(path)).close()
    for url in (tables, f"duckdb:///{path}"):
        with pytest.raises(SourceError, match="no such table") as caught:
            source(url, table="nowhere").check(["x"])
        assert chain(caught.value) == [caught.value]
    (tmp_path / "torn.db").write_bytes(path.read_bytes()[:100] + b"s3cr3t" * 99)
    with pytest.raises(SourceError, match="DuckDB cannot read it") as caught:
        source(f"duckdb:///{tmp_path}/torn.db", table="nowhere").check(["x"])
    assert chain(caught.value) == [caught.value]


SPARK = {
    "date": ["date'-0044-03-15'", "date'+5881580-07-11'", "date'-5877641-06-23'", "date'2011-07-01'"],
    "timestamp": ["timestamp_micros(9223372036854775807)", "timestamp_micros(-9223372036854775808)"],
    "timestamp_ntz": ["timestamp_ntz'+294247-01-10 04:00:54.775807'", "timestamp_ntz'-0044-03-15 00:00:00'"],
    "decimal(38,0)": ["99999999999999999999999999999999999999BD", "1BD"],
    "decimal(38,10)": ["-9999999999999999999999999999.9999999999BD", "1BD"],
    "double": ["double('nan')", "double('inf')", "-1e308D"],
    "float": ["float('nan')", "float('-inf')"],
    "bigint": ["9223372036854775807L", "-9223372036854775808L"],
    "string": ["'a'", "''", "' '", "'1e999999'", "'99999-01-01'"],
    "binary": ["X'FF00'", "X''"],
    "boolean": ["true", "false"],
}


@pytest.mark.filterwarnings("ignore")
def test_no_value_of_spark_makes_a_run_fail(spark: Any) -> None:
    """All types at once; a row for every place in the lists."""
    names = {f"x{i}": kind for i, kind in enumerate(SPARK)}
    rows = []
    for place in range(6):
        values = [SPARK[kind][place] if place < len(SPARK[kind]) else "NULL" for kind in names.values()]
        cast = [f"CAST({v} AS {kind}) AS {n}" for v, (n, kind) in zip(values, names.items(), strict=True)]
        rows.append(f"SELECT {', '.join(cast)}, 'u{place % 2}' AS u")
    frame = spark.session.sql(" UNION ALL ".join(rows))
    source(frame.limit(0)).check([*names, "u"])
    opened = source(frame)
    opened.check([*names, "u"])
    for attribute in (ATTRIBUTES[0], ATTRIBUTES[3], ATTRIBUTES[6]):
        schema = Schema("t", tuple(replace(attribute, name=n) for n in names), Unit("u", 1), "replace")
        cells = [Marginal.of(schema, [name]) for name in names]
        counted = rows_of(opened, schema, key=KEY).count(cells)
        for one, other in zip(counted, BatchRows(opened, schema, key=KEY).count(cells), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.sum() == 2
