"""Warehouses by way of ibis: real engines, one code, the counts of the batch path; what reads otherwise is refused."""

from __future__ import annotations

import gc
import importlib
import io
import itertools
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import engine_tables
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import dipsmith as ds
from dipsmith.cli.main import main
from dipsmith.codec.encode import coder
from dipsmith.codec.trials import trials
from dipsmith.counting import BatchRows
from dipsmith.counting.ibis import IbisGrouping
from dipsmith.counting.pushed import PushedRows, rows_of
from dipsmith.errors import SourceError, UsageError
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.schema.bins import by_edges, singles
from dipsmith.sources import Source, source
from dipsmith.sources.ibis import IbisTable
from dipsmith.sources.ibis_terms import statement

KEY = bytes(range(32))
SCHEMAS = engine_tables.schemas()
ENGINES = ("datafusion", "duckdb", "postgres", "sqlite")
REPEATED = ("datafusion", "duckdb")
"""Engines that are counted with in test_sources_common too, with other schemas."""
PARSED = ("flag", "numeral", "moment")
"""Text that is read as numbers or dates: more than SQLite's parser can take."""
EVIL = "x\"'; DROP TABLE people; --%s$p0{v}\\"

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

PEOPLE = Schema(
    "people",
    (
        Attribute("sex", "string", Categories.of(["F", "M"], other="M"), "private"),
        Attribute("age", "integer", singles("integer", 17, 40), "public"),
        Attribute("grade", "integer", Categories.of([str(g) for g in range(1, 6)], other="5"), "public"),
    ),
    Unit(),
    "label",
)


def people(rows: int = 900) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "sex": pa.array(rng.choice(["F", "M", "M "], rows)),
            "age": pa.array(rng.integers(15, 44, rows)),
            "grade": pa.array(rng.integers(0, 7, rows)),
            "person": pa.array([f"P{i}" for i in rng.integers(0, rows // 2, rows)]),
        }
    )


def in_datafusion(table: pa.Table, folder: Path, name: str = "people") -> Any:
    connection = ibis.datafusion.connect()
    pq.write_table(table, folder / f"{name}.parquet")
    return connection.read_parquet(folder / f"{name}.parquet", table_name=name)


def in_sqlite(table: pa.Table, path: Path, name: str = "people") -> str:
    """Dates and times as text, as SQLite has them."""
    kinds = {
        "int64": "integer",
        "int32": "integer",
        "double": "real",
        "bool": "boolean",
        "date32[day]": "date",
    }

    def plain(value: Any) -> Any:
        if isinstance(value, Decimal):
            return float(value)
        return value.isoformat(" ") if hasattr(value, "hour") else value.isoformat() if hasattr(value, "day") else value

    quoted = ['"' + f.name.replace('"', '""') + '"' for f in table.schema]
    declared = [
        f"{q} {kinds.get(str(f.type), 'timestamp' if pa.types.is_timestamp(f.type) else 'real' if pa.types.is_decimal(f.type) else 'text')}"
        for q, f in zip(quoted, table.schema, strict=True)
    ]
    name = name.replace('"', '""')
    with sqlite3.connect(path) as connection:
        connection.execute(f'CREATE TABLE "{name}" ({", ".join(declared)})')
        rows = [[plain(v) for v in row.values()] for row in table.to_pylist()]
        connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(quoted))})', rows)
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def opened(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], IbisTable]]:
    """Open the awkward table in a warehouse, written once."""
    folder = tmp_path_factory.mktemp("ibis")
    table = engine_tables.awkward()
    made: dict[str, Source] = {}

    def open_it(name: str) -> IbisTable:
        if name not in made:
            made[name] = _open(name, table, folder, request)
        found = made[name]
        assert isinstance(found, IbisTable)
        return found

    yield open_it
    for found in made.values():
        if isinstance(found, IbisTable) and found.warehouse.name != "datafusion":
            found.warehouse.disconnect()
    made.clear()
    gc.collect()


def _open(name: str, table: pa.Table, folder: Path, request: pytest.FixtureRequest) -> Source:
    if name == "datafusion":
        return source(in_datafusion(table, folder, "awkward"))
    if name == "sqlite":
        return source(in_sqlite(table, folder / "awkward.sqlite", "awkward"), table="awkward")
    if name in ("duckdb", "nocase"):
        import duckdb

        engine_tables.write_duckdb(table, folder / f"{name}.db")
        if name == "duckdb":
            with duckdb.connect(str(folder / "duckdb.db")) as connection:
                for column in ("person", "sex"):
                    connection.execute(f"ALTER TABLE awkward ALTER {column} TYPE VARCHAR COLLATE C")
        return source(ibis.duckdb.connect(folder / f"{name}.db", read_only=True).table("awkward"))
    url = request.getfixturevalue("postgresql")
    engine_tables.write_postgresql(table, url, "ibis_awkward")
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE ibis_awkward ALTER rate TYPE numeric(12, 2)")
    facts = urlparse(url)
    return source(
        ibis.postgres.connect(
            host=parse_qs(facts.query)["host"][0], user=facts.username, database=facts.path.strip("/")
        ).table("ibis_awkward")
    )


def without(schema: Schema, names: tuple[str, ...]) -> Schema:
    kept = tuple(a for a in schema.attributes if a.name not in names)
    return replace(schema, attributes=kept)


@pytest.mark.parametrize("name", [pytest.param(e, marks=pytest.mark.crowd if e in REPEATED else ()) for e in ENGINES])
def test_a_warehouse_gives_the_counts_of_the_batch_path(name: str, opened: Callable[[str], IbisTable]) -> None:
    table = engine_tables.awkward()
    # every feature between them; SQLite has no SHA-256
    for key in ("label", "dropping") if name == "sqlite" else ("units",):
        schema = without(SCHEMAS[key], PARSED if name == "sqlite" else ())
        reference = BatchRows(source(table), schema, KEY)
        counted = rows_of(opened(name), schema, key=KEY)
        assert isinstance(counted, PushedRows)
        sets = [(), *[(n,) for n in schema.names], *itertools.combinations(schema.names[:5], 2)]
        cells = [Marginal.of(schema, s) for s in sets]
        for made, found, expected in zip(cells, counted.count(cells), reference.count(cells), strict=True):
            np.testing.assert_array_equal(found, expected, f"{key}: {made.key}")
        found, expected = (rows.distinct_public(schema.names) for rows in (counted, reference))
        for column in schema.names:
            np.testing.assert_array_equal(found[0][column], expected[0][column])
        np.testing.assert_array_equal(found[1], expected[1])
        assert counted.total() == reference.total()
        public = [Marginal.of(schema, schema.public[:2])]
        np.testing.assert_array_equal(counted.count_public(public)[0], reference.count_public(public)[0])
        block, other = (rows.within("sex", 1) for rows in (counted, reference))
        np.testing.assert_array_equal(block.count(cells[3:4])[0], other.count(cells[3:4])[0])


def test_a_decimal_that_is_no_number_is_missing(postgresql: str) -> None:
    import psycopg

    with psycopg.connect(postgresql) as connection:
        connection.execute("CREATE TABLE ibis_rates (rate numeric(12, 2), code numeric(6), wide numeric(38))")
        connection.execute(
            f"INSERT INTO ibis_rates VALUES (1, 7, {10**38 - 1}), ('NaN', 'NaN', 'NaN'), (NULL, NULL, NULL), (9999999999.99, 8, 0)"
        )
    facts = urlparse(postgresql)
    host = parse_qs(facts.query)["host"][0]
    connected = ibis.postgres.connect(host=host, user=facts.username, database=facts.path.strip("/"))
    schema = Schema(
        "t",
        (
            Attribute("rate", "number", by_edges("number", [0, 5, 10], missing=True)),
            Attribute("code", "string", Categories.of(["7", "9"], other="9", missing=True)),
        ),
        Unit(),
        "replace",
    )
    for unit, expected in ((Unit(), [[1, 1, 2], [1, 1, 2]]), (Unit("code", 1), [[1, 1, 0], [1, 1, 0]])):
        table, asked = source(connected.table("ibis_rates")), replace(schema, unit=unit)
        cells = [Marginal.of(asked, [name]) for name in schema.names]
        for rows in (rows_of(table, asked), BatchRows(table, asked)):
            assert [n.tolist() for n in rows.count(cells)] == expected
    found = pa.Table.from_batches(source(connected.table("ibis_rates")).batches(["wide"]))
    assert found["wide"].to_pylist() == [Decimal(10**38 - 1), None, None, Decimal(0)]
    connected.disconnect()


def test_moments_that_python_does_not_have_can_be_read(postgresql: str) -> None:
    """Infinite ones, and those before the year 1 and after 9999: as the nearest that there are."""
    import psycopg

    columns = {"d": "date", "m": "timestamp", "z": "timestamptz"}
    values = ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "9999-12-31", "2011-07-01"]
    with psycopg.connect(postgresql) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE ibis_far ({', '.join(f'{n} {kind}' for n, kind in columns.items())})")
        connection.cursor().executemany("INSERT INTO ibis_far VALUES (%s, %s, %s)", [[v] * 3 for v in values])
    facts = urlparse(postgresql)
    host = parse_qs(facts.query)["host"][0]
    connected = ibis.postgres.connect(host=host, user=facts.username, database=facts.path.strip("/"))
    found = pa.Table.from_batches(source(connected.table("ibis_far")).batches(list(columns)))
    connected.disconnect()
    last = "9999-12-31"
    for name in columns:
        days = [str(value)[:10] for value in found[name].to_pylist()]
        assert days == [last, "0001-01-01", "0001-01-01", last, last, "2011-07-01"]
    assert str(found["m"][4].as_py()) == "9999-12-31 00:00:00"


def test_text_that_is_compared_without_regard_to_case_is_refused(
    opened: Callable[[str], IbisTable],
) -> None:
    """A column's own collation counts: under it F and f would be one value, P1 and p1 one person."""
    with pytest.raises(SourceError, match="does not read column 'sex'"):
        rows_of(opened("nocase"), SCHEMAS["replace"])
    with pytest.raises(SourceError, match="does not read unit column 'person'"):
        rows_of(opened("nocase"), replace(without(SCHEMAS["units"], ("sex",)), rules=()))


def test_what_a_warehouse_cannot_do_is_refused_by_name(opened: Callable[[str], IbisTable]) -> None:
    with pytest.raises(SourceError, match=r"does not read column '(flag|numeral|moment)' .* table.to_pyarrow"):
        rows_of(opened("sqlite"), SCHEMAS["replace"])
    with pytest.raises(SourceError, match="no SHA-256"):
        rows_of(opened("sqlite"), without(SCHEMAS["numbered"], PARSED))
    unit = Schema("t", (Attribute("age", "integer", singles("integer", 0, 9)),), Unit("pay", 2), "add-remove")
    with pytest.raises(SourceError, match="unit column 'pay' holds fractions"):
        rows_of(opened("datafusion"), unit)


def test_a_warehouse_that_reads_one_value_otherwise_is_found_out(
    opened: Callable[[str], IbisTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these is what some engine does: NaN above all numbers, case folded, dates by the local calendar."""
    from dipsmith.codec import ibis as expressions

    plain = expressions.steps

    def odd(attribute: Attribute, dtype: Any, can: Any) -> Any:
        made = plain(attribute, dtype, can)
        return [lambda c: {"v": c["v"].upper()}, *made] if attribute.name == "sex" else made

    monkeypatch.setattr("dipsmith.counting.ibis.steps", odd)
    fresh = IbisTable(opened("datafusion").table, "datafusion, odd")
    with pytest.raises(SourceError, match="does not read column 'sex'"):
        rows_of(fresh, SCHEMAS["replace"])
    monkeypatch.setattr("dipsmith.counting.ibis.steps", plain)
    blind = IbisTable(opened("datafusion").table, "datafusion, odd")
    monkeypatch.setattr(IbisTable, "can", lambda self, operation: operation not in ("IsNan", "HexDigest"))
    monkeypatch.setattr(
        "dipsmith.counting.ibis.trials",
        lambda attribute, dtype, can: trials(attribute, dtype, lambda _: True),
    )
    with pytest.raises(SourceError, match=r"does not read column '(pay|level)'"):
        rows_of(blind, SCHEMAS["replace"])


def test_trials_are_public_and_cover_every_bin_edge() -> None:
    attribute = Attribute("rate", "number", by_edges("number", [0, 12.5, 33.33, 100]))
    values = trials(attribute, ibis.dtype("decimal(12, 2)"), lambda _: True)
    assert {Decimal("12.49"), Decimal("12.50"), Decimal("33.32"), Decimal("33.33")} <= set(values.to_pylist())
    assert set(coder(attribute)(values)) == {0, 1, 2}


@pytest.mark.parametrize("name", ["datafusion", "sqlite"])
def test_many_tables_take_one_question_and_known_ones_none(
    name: str, opened: Callable[[str], IbisTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = without(SCHEMAS["replace"], PARSED)
    counted = rows_of(opened(name), schema, key=KEY)
    asked: list[str] = []
    plain = IbisTable.answer
    monkeypatch.setattr(
        IbisTable,
        "answer",
        lambda self, question: asked.append(statement(question, self.warehouse)) or plain(self, question),
    )
    cells = [Marginal.of(schema, pair) for pair in itertools.combinations(schema.names[:8], 2)]
    counted.count(cells)
    counted.count(cells[3:9])
    assert len(asked) == 1
    assert ("GROUPING SETS" in asked[0]) == (name == "datafusion")


def test_only_aggregated_counts_cross_the_wire(opened: Callable[[str], IbisTable]) -> None:
    for key in ("per", "dropping"):
        schema = SCHEMAS[key]
        grouping = IbisGrouping(opened("datafusion"), schema, KEY)
        question, _ = grouping.question([("sex", "age"), ("job",)], (), "lawful")
        found = opened("datafusion").answer(question)
        assert found.column_names == ["tag", "w0", "n"]
        assert all(pa.types.is_integer(kind) for kind in found.schema.types)
        limits = np.array([schema.size(["sex", "age"]), schema.size(["job"])])
        tag, word = found["tag"].to_numpy(), found["w0"].to_numpy()
        assert (word < limits[tag]).all()


@pytest.mark.parametrize("engine", ["datafusion", "sqlite"])
def test_names_and_values_that_are_code_are_inert(engine: str, tmp_path: Path) -> None:
    table = pa.table({EVIL: [EVIL, "a", EVIL, "'", "\\"], "age": [17, 18, 19, 20, 21]})
    if engine == "datafusion":
        found = source(in_datafusion(table, tmp_path))
    else:
        found = source(in_sqlite(table, tmp_path / "t.sqlite", EVIL), table='"' + EVIL.replace('"', '""') + '"')
    schema = Schema(
        "t",
        (
            Attribute(EVIL, "string", Categories.of([EVIL, "a", "'", "\\"], missing=True)),
            Attribute("age", "integer", singles("integer", 17, 40)),
        ),
        Unit(),
        "replace",
    )
    for _ in range(2):
        counts = rows_of(found, schema).count([Marginal.of(schema, [EVIL])])[0]
        assert counts.tolist() == [2, 1, 1, 1, 0]


def test_a_release_is_made_from_a_warehouse(tmp_path: Path) -> None:
    table = people()
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(4))
    release = ds.synthesize(
        in_datafusion(table, tmp_path),
        PEOPLE,
        ds.Forest(targets=["sex"]),
        budget=ds.PureDP(1),
        ledger=ledger,
    )
    made = release.tables[0]
    assert sorted(made["age"].to_pylist()) == sorted(table["age"].to_pylist())
    assert set(made["sex"].to_pylist()) <= {"F", "M"}
    labelled = release.model.label(in_datafusion(table, tmp_path, "again"))
    assert labelled.num_rows == table.num_rows
    other = ds.Ledger(tmp_path / "other.db")
    other.grant("people", ds.PureDP(4))
    whole = replace(PEOPLE, neighbours="replace", unit=Unit("person", 2))
    drawn = ds.synthesize(in_datafusion(table, tmp_path, "third"), whole, ds.MST(), budget=ds.PureDP(1), ledger=other)
    assert drawn.tables[0].column_names == ["sex", "age", "grade"]


def test_the_command_line_reads_warehouses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = in_sqlite(people(), tmp_path / "hr.sqlite")
    (tmp_path / "people.yaml").write_text(
        "name: people\nunit: row\nneighbours: label\nfields:\n"
        "- {name: sex, type: string, enum: [F, M], other: M, role: private}\n"
        "- {name: age, type: integer, minimum: 17, maximum: 40, role: public}\n"
    )
    monkeypatch.chdir(tmp_path)
    for command in (
        "ledger grant people --ledger budget.db --epsilon 2",
        f"synthesize {url} --table people --schema people.yaml --ledger budget.db --method forest --set targets=sex "
        "--epsilon 1 --out out",
        "verify out",
    ):
        monkeypatch.setattr(sys, "argv", ["dipsmith", *command.split()])
        errors = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(errors), pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code, errors.getvalue()
    assert ds.Release.load("out").tables[0].num_rows == 900


def test_rows_are_read_in_one_order_whatever_the_columns(tmp_path: Path) -> None:
    table = people(300)
    found = source(in_datafusion(table, tmp_path))
    first = pa.Table.from_batches(list(found.batches(["age"])))
    both = pa.Table.from_batches(list(found.batches(["age", "sex"])))
    again = pa.Table.from_batches(list(found.batches(["sex"])))
    assert first["age"].to_pylist() == both["age"].to_pylist()
    assert again["sex"].to_pylist() == both["sex"].to_pylist()
    assert pa.Table.from_batches(list(found.batches(["age"]))).num_rows == 300


def test_a_fetch_that_fails_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = source(in_datafusion(people(), tmp_path))
    ages = pa.Table.from_batches(table.batches(["age"]))
    with monkeypatch.context() as broken:
        broken.setattr("dipsmith.sources.ibis._reader", lambda *_: 1 / 0)
        with pytest.raises(SourceError, match=r"cannot answer \(ZeroDivisionError\)"):
            list(table.batches(["sex"]))
    found = pa.Table.from_batches(table.batches(["sex", "age"]))
    assert found["age"].equals(ages["age"])
    assert found["sex"].equals(people()["sex"])


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_units_that_are_far_dates_make_nothing_fail(engine: str, tmp_path: Path) -> None:
    """Two rows of each date: one counts; rows with dates that are too far to be spelled belong to nobody."""
    days = pa.array([2**31 - 1, 10**9, -(2**31) + 1, -(10**9), 15_156, 15_157, None] * 2, pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"day": days, "x": pa.array([3] * 14)}), tmp_path / "far.parquet")
    connection = getattr(ibis, engine).connect()
    schema = Schema("t", (Attribute("x", "integer", singles("integer", 0, 3)),), Unit("day", 1), "replace")
    rows = rows_of(source(connection.read_parquet(tmp_path / "far.parquet", table_name="far")), schema, key=KEY)
    assert rows.total() == 2
    assert BatchRows(source(tmp_path / "far.parquet"), schema, KEY).total() == 2


def test_an_empty_table_and_a_query_can_be_counted(tmp_path: Path) -> None:
    table = people()
    none = source(in_datafusion(table.slice(0, 0), tmp_path, "none"))
    assert rows_of(none, PEOPLE).count([Marginal.of(PEOPLE, ["sex"])])[0].tolist() == [0, 0]
    assert list(none.batches(["sex"])) == [] or sum(b.num_rows for b in none.batches(["sex"])) == 0
    whole = in_datafusion(table, tmp_path)
    found = source(whole.filter(whole.age < 30))
    assert found.describe() == "datafusion, a query"
    young = table.filter(pa.compute.less(table["age"], 30))
    np.testing.assert_array_equal(
        rows_of(found, PEOPLE).count([Marginal.of(PEOPLE, ["sex", "age"])])[0],
        BatchRows(source(young), PEOPLE).count([Marginal.of(PEOPLE, ["sex", "age"])])[0],
    )


def test_what_cannot_be_opened_says_so_and_repeats_no_password(tmp_path: Path) -> None:
    secret = "canary-pa55word"
    for url, expected in (
        (f"trino://steward:{secret}@warehouse.example/hr", "trino"),
        (f"mysql://steward:{secret}@127.0.0.1:1/hr", "mysql"),
        (f"nowhere://steward:{secret}@warehouse.example/hr", "nowhere://"),
    ):
        with pytest.raises((SourceError, UsageError), match=expected) as raised:
            source(url, table="personnel")
        assert secret not in str(raised.value)
        assert "\n" not in str(raised.value)
    with pytest.raises(SourceError, match="there is no such table"):
        source(in_sqlite(people(), tmp_path / "hr.sqlite"), table="nobody")
    with pytest.raises(UsageError, match="which table"):
        source("trino://warehouse.example/hr")
    with pytest.raises(SourceError, match="'nowhere' not found"):
        source(in_datafusion(people(), tmp_path)).check(["nowhere"])


def test_a_table_that_is_gone_is_an_error_in_our_words(tmp_path: Path) -> None:
    table = in_datafusion(people(), tmp_path)
    found = source(table)
    rows = rows_of(found, PEOPLE)
    table.get_backend().drop_table("people", force=True)
    with pytest.raises(SourceError, match="datafusion, people: the warehouse cannot answer"):
        rows.count([Marginal.of(PEOPLE, ["sex"])])


def test_what_lies_in_memory_is_read_there() -> None:
    connection = ibis.polars.connect()
    found = source(connection.create_table("people", people()))
    assert not isinstance(found, IbisTable)
    assert found.columns == ("sex", "age", "grade", "person")


class Spelling:
    """Stands for a connection that is not there: ibis' own compiler for a warehouse."""

    def __init__(self, compiler: Any, name: str) -> None:
        self.compiler, self.name, self.dialect = compiler, name, compiler.dialect

    def has_operation(self, operation: Any) -> bool:
        return operation not in self.compiler.UNSUPPORTED_OPS and hasattr(self.compiler, f"visit_{operation.__name__}")

    def compile(self, question: Any) -> str:
        return str(self.compiler.to_sqlglot(question).sql(dialect=self.dialect))

    def sql(self, statement: str, schema: Any) -> str:
        assert set(schema) >= {"tag", "w0", "n"}
        return statement


@pytest.mark.parametrize(
    "compiler",
    ["Snowflake", *(pytest.param(other, marks=pytest.mark.crowd) for other in ("BigQuery", "Trino"))],
)
def test_questions_and_trials_can_be_spelled_for_warehouses_that_are_not_here(compiler: str) -> None:
    """In SQL that sqlglot can read again; what it means is tried by the warehouse itself when it is opened."""
    name = compiler.lower()
    made = getattr(importlib.import_module(f"ibis.backends.sql.compilers.{name}"), f"{compiler}Compiler")()
    schema = SCHEMAS["per"]
    found = IbisTable(ibis.table(ibis.memtable(engine_tables.awkward()).schema(), name="awkward"), f"{name}, awkward")
    found.__dict__["warehouse"] = Spelling(made, name)
    asked: list[str] = []

    def answer(self: IbisTable, question: Any) -> pa.Table:
        asked.append(question if isinstance(question, str) else statement(question, self.warehouse))
        raise AskedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IbisTable, "answer", answer)
        patch.setattr(IbisGrouping, "_try", lambda self: None)
        grouping = IbisGrouping(found, schema, KEY)
        for ask in (
            lambda: grouping._misread(["sex", "pay", "rate", "hired", "zoned", "moment"]),
            grouping._try_units,
            lambda: grouping.count_groups([("sex", "age"), ("job",)], (("year", 1),), "lawful"),
        ):
            with pytest.raises(AskedError):
                ask()
    assert len(asked) == 3
    assert all(len(sqlglot.parse(text, read=made.dialect)) == 1 for text in asked)
    assert "GROUPING SETS" in asked[2]
    # chosen by a key that the warehouse is told
    assert KEY.hex() in asked[2]


class AskedError(Exception):
    """A question was asked."""


def test_the_temporary_file_is_closed_with_its_source(tmp_path: Path) -> None:
    found = source(in_datafusion(people(50), tmp_path))
    assert isinstance(found, IbisTable)
    list(found.batches(["age"]))
    first = found._spool._file
    list(found.batches(["sex", "age"]))
    second = found._spool._file
    assert second is not first
    del found
    gc.collect()
    assert first.closed
    assert second.closed


LOOSE = {
    "n INTEGER": ([3, None], ["x", 1.5, b"ab", float("inf")]),
    "x REAL": ([2.5, None, 3], ["x", b"q", "inf"]),
    "flag BOOLEAN": ([0, 1, None], [2, "t", 1.5]),
    "word VARCHAR(9)": (["a", None, 5], [b"\xff", b"ok"]),
    "born DATE": (["2020-02-29", None], ["junk", 5, b"z", "2021-02-29", "10000-01-01", ""]),
    "seen TIMESTAMP": (
        ["2020-01-02 03:04:05", "9999-12-31 23:59:59.999999", "2020-01-02 03:04:05.5+00:00", None],
        ["junk", 5, "2020-01-02", "2020-01-02T03:04:05", "2020-01-02 24:00:00", "2021-02-29 00:00:00"],
    ),
    "rate DECIMAL(6, 2)": ([1.25, 3, None], ["x", 1e300, b"q"]),
}
"""Columns of SQLite: values of the declared type, and others, which it takes without a word."""


@pytest.mark.parametrize("declared", LOOSE)
def test_values_of_another_type_than_sqlite_declares_are_missing_wherever_they_are_read(
    tmp_path: Path, declared: str
) -> None:
    """Reading them would fail, and they would be compared as text: what a row holds must decide neither."""
    name = declared.split()[0]
    lawful, others = LOOSE[declared]
    given = [*lawful, *others]
    path = tmp_path / "loose.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE loose ({declared})")
        connection.executemany("INSERT INTO loose VALUES (?)", [(v,) for v in given])
        connection.execute("INSERT INTO loose SELECT CAST(x'61ff62' AS TEXT)")
    connection.close()
    found = source(f"sqlite:///{path}", table="loose")
    assert isinstance(found, IbisTable)
    read = [value for batch in found.batches([name]) for value in batch.column(0).to_pylist()]
    assert [v is None for v in read[: len(lawful)]] == [v is None for v in lawful]
    assert read[len(lawful) : len(given)] == [None] * len(others)
    assert read[-1] == ("a�b" if name == "word" else None)
    counted = found.answer(found.table.aggregate(n=found.table[name].count()))
    assert counted["n"].to_pylist() == [sum(v is not None for v in read)]
    found.warehouse.disconnect()
