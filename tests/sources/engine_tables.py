"""One awkward table, and the same rows in every engine.

Every type that engines have and every kind of value that a column may hold, against every kind of domain
that a schema may declare.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dipsmith.cli.main import commands
from dipsmith.schema import Attribute, Categories, Rule, Schema, Unit
from dipsmith.schema.bins import by_calendar, by_count, by_edges, by_rounding, by_width, point, singles

ROWS = 1500
NUMERALS = [
    "7", "+7", "07", "7.0", "7e0", ".5", "5.", "-3.25", "1e400", "-1e400", "1e-400", "-1e-400", "0e99999", "1e99999",
    "1e-99999", "inf", "-Infinity", "iNF", "nan", "x", "1_0", "0x1", "1e", "12.5.3", "99.999", "100", "-0", "1,5",
    "0" * 40 + "123456789.5e-10", "", " 8 ", "8\t", "9" * 320, "0." + "0" * 330 + "1", "1" + "0" * 320 + "e-318", "7\n",
]  # fmt: skip
MOMENTS = [
    "2011-01-02", " 2011-03-31 ", "2011-02-29", "2012-02-29", "1900-02-29", "2000-02-29", "2011-13-01", "2011-00-10",
    "2011-01-32", "2011-1-2", "2011-01-02T10:20", "2011-06-30 23:59:59", "2011-06-30T23:59:59.999999999",
    "2011-06-30T23:30:00-02:00", "2011-07-01T00:30+01", "2011-07-01T00:30:00+0130", "2011-07-01T00:30:00Z",
    "2011-07-01T24:00", "2011-07-01T10:60", "2011-07-01T10:10:60", "2011-07-01T10:10+24", "2011-07-01T10:10+02:60",
    "0000-01-01", "9999-12-31", "0001-01-01T00:00:00+10:00", "x", "", None, "20110701", "2011-07-01T10", "2011-07-01x",
]  # fmt: skip
TRUTHS = [
    "Yes",
    "no",
    "T",
    "f",
    "TRUE",
    "False",
    "1",
    "0",
    "1.0",
    "0e5",
    "y",
    "N",
    " yes ",
    "maybe",
    "2",
    "",
    None,
]


def awkward(rows: int = ROWS, seed: int = 3) -> pa.Table:
    """The rows, in the types that Arrow has for them."""
    rng = np.random.default_rng(seed)

    def pick(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in rng.integers(0, len(values), rows)], kind)

    day = dt.date(2010, 1, 1)
    days = [None, *[day + dt.timedelta(days=int(d)) for d in rng.integers(-400, 1200, 300)]]
    moments = [
        None,
        dt.datetime(2011, 6, 30, 23, 59, 59, 999999),
        dt.datetime(2011, 7, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 1),
        *[dt.datetime(2010, 1, 1) + dt.timedelta(seconds=int(s)) for s in rng.integers(-(9**7), 9**8, 200)],
    ]
    return pa.table(
        {
            "person": pick([f"P{i}" for i in range(rows // 3)] + [" P1 ", "", None], pa.string()),
            "number": pick([*range(-3, rows // 4), None], pa.int64()),
            "year": pick([2010, 2011, 2012, None, 1999], pa.int32()),
            "sex": pick(["F", "M", "F ", " M", "f", "X", "", None, "%s", "'"], pa.string()),
            "job": pick([*[f"0{i:03d}" for i in range(40)], "9999", "0001 ", None, ""], pa.string()),
            "grade": pick([*range(17), -1, 99, None], pa.int64()),
            "age": pick([*range(10, 100), -5, 2**40, None], pa.int64()),
            "pay": pick(
                [*rng.uniform(-1e4, 3e5, 300), 2500.0, 7500.0, float("nan"), float("inf"), -float("inf"), None, -0.0],
                pa.float64(),
            ),
            "rate": pick([*[Decimal(int(c)).scaleb(-2) for c in rng.integers(-500, 11000, 200)], None], pa.decimal128(12, 2)),
            "level": pick([0.5, 1.0, 1.5, 2.0, 3.25, float("nan"), None, 1e20], pa.float64()),
            "veteran": pick([True, False, None], pa.bool_()),
            "flag": pick(TRUTHS, pa.string()),
            "hired": pick(days, pa.date32()),
            "seen": pick(moments, pa.timestamp("us")),
            "zoned": pick(moments, pa.timestamp("us", "UTC")),
            "numeral": pick([*NUMERALS, None], pa.string()),
            "moment": pick(MOMENTS, pa.string()),
            'od"d %s': pick(["a'; DROP TABLE t; --", "b\\", '"', "$1", "{v}", "%(p0)s", "c"], pa.string()),
        }
    )  # fmt: skip


def attributes(total: bool) -> tuple[Attribute, ...]:
    """Every kind of domain; with `total` every value has a code."""
    other = {"other": "M"} if total else {}
    july = point("datetime", "2011-07-01")
    jobs = [f"0{i:03d}" for i in range(40)]
    return (
        Attribute("sex", "string", Categories.of(["F", "M"], **other), "public"),
        Attribute("year", "integer", Categories.of(["2010", "2011", "2012"], missing=True), "public"),
        Attribute(
            "job",
            "string",
            Categories.of(jobs, {j: j[:3] for j in jobs}, missing=True, other="0000" if total else None),
            "public",
        ),
        Attribute("grade", "integer", Categories.of([str(g) for g in range(1, 16)], other="15", ordered=True)),
        Attribute("age", "integer", by_width("integer", 17, 90, 5, missing=True), "public"),
        Attribute("pay", "number", by_rounding("number", 0, 250_000, 5_000, missing=True)),
        Attribute("rate", "number", by_edges("number", [0, 12.5, 33.33, 100])),
        Attribute("level", "string", Categories.of(["0.5", "1", "2", "3.25"], missing=True)),
        Attribute.boolean("veteran", missing=True),
        Attribute.boolean("flag"),
        Attribute("hired", "date", by_calendar("date", point("date", "2009-06-15"), point("date", "2012-12-31"), "month"), "public"),
        Attribute("seen", "datetime", by_edges("datetime", [point("datetime", "2009-01-01"), july, point("datetime", "2015-01-01")], missing=True)),
        Attribute("zoned", "date", singles("date", point("date", "2011-06-01"), point("date", "2011-08-01"))),
        Attribute("numeral", "number", by_count("number", -10, 150, 16, missing=True)),
        Attribute("moment", "datetime", by_calendar("datetime", point("datetime", "2010-06-15T12:00:00"), point("datetime", "2013-02-01"), "month", missing=True)),
        Attribute('od"d %s', "string", Categories.of(["a'; DROP TABLE t; --", "b\\", '"', "$1", "{v}", "%(p0)s", "c"], missing=True)),
    )  # fmt: skip


def schemas() -> dict[str, Schema]:
    """Every relation, with and without units, rules and values that have no code."""
    rules = (
        Rule((("sex", (0,)), ("year", (1,)))),
        Rule((("age", (0, 1, 2)), ("grade", (3, 4, 9)))),
        Rule((("veteran", (1,)),)),
    )
    whole = Schema("awkward", attributes(total=True), Unit(), "replace")
    dropping = Schema("awkward", attributes(total=False), Unit(), "add-remove", rules)
    return {
        "replace": whole,
        "dropping": dropping,
        "ruled": replace(whole, rules=rules),
        "label": replace(whole, neighbours="label", rules=rules[:2]),
        "units": replace(dropping, unit=Unit("person", 2)),
        "numbered": replace(whole, unit=Unit("number", 3), neighbours="replace"),
        "per": replace(whole, unit=Unit("person", 1, "year"), neighbours="label", rules=rules[:2]),
    }


def as_text(table: pa.Table) -> pa.Table:
    """The rows as a CSV file spells them."""

    def spelled(value: Any, zoned: bool) -> str | None:
        if value is None:
            return None
        if isinstance(value, dt.datetime):
            return value.replace(tzinfo=None).isoformat() + ("Z" if zoned else "")
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        return str(value)

    return pa.table(
        {
            name: pa.array([spelled(v, name == "zoned") for v in table[name].to_pylist()], pa.string())
            for name in table.column_names
        }
    )


def write_csv(table: pa.Table, path: Path) -> None:
    pa_csv.write_csv(as_text(table), path)


def write_parquet(table: pa.Table, folder: Path) -> None:
    folder.mkdir()
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), folder / "a.parquet")
    pq.write_table(table.slice(half), folder / "b.parquet")


def write_duckdb(table: pa.Table, path: Path, name: str = "awkward") -> None:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute(
            f"""CREATE TABLE "{name}" (person VARCHAR COLLATE NOCASE, number BIGINT, year SMALLINT, sex VARCHAR COLLATE NOCASE,
            job VARCHAR, grade HUGEINT, age BIGINT, pay DOUBLE, rate DECIMAL(12, 2), level DOUBLE, veteran BOOLEAN,
            flag VARCHAR, hired DATE, seen TIMESTAMP, zoned TIMESTAMPTZ, numeral VARCHAR, moment VARCHAR,
            "od""d %s" VARCHAR)"""
        )
        connection.execute(f'INSERT INTO "{name}" SELECT * FROM given')


def write_postgresql(table: pa.Table, url: str, name: str = "awkward") -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(
            f"""CREATE TABLE "{name}" (person varchar, number numeric(12), year int2, sex char(8),
            job varchar(20), grade int4, age int8, pay float8, rate numeric, level float4, veteran boolean, flag text,
            hired date, seen timestamp, zoned timestamptz, numeral text, moment text, "od""d %%s" text)""".replace(
                "%%", "%"
            )
        )
        columns = [table[c].to_pylist() for c in table.column_names]
        with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*columns, strict=True):
                copy.write_row(row)


def run_page_commands(page: str, stands_for: dict[str, str]) -> None:
    """Run the commands of a how-to page, with real addresses in place of those that it invents."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / f"{page}.md").read_text("utf-8")
    lines = re.findall(r"^\$ dipsmith (.*)$", text, re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        words = [stands_for.get(word, word) for word in shlex.split(line)]
        assert not commands()(words, standalone_mode=False), line
