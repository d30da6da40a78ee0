"""The terms of ibis expressions: what the questions are made of that a warehouse answers.

ibis spells an expression in the SQL of Snowflake, BigQuery, Trino, DataFusion and others. What an expression means is
decided in `codec.ibis`, once for all of them; `sources.ibis` has the tables. No other module names the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dipsmith.sources.kinds import Kind, quote

Column = Any
"""A column, or a constant, of an ibis expression."""
Table = Any
"""A table expression of ibis."""

_SETS = frozenset({
    "athena", "bigquery", "clickhouse", "databricks", "datafusion", "duckdb", "exasol", "impala", "mssql", "oracle",
    "postgres", "pyspark", "snowflake", "trino",
})  # fmt: skip
"""Warehouses that have GROUPING SETS; the others get one sub-query per table."""
_FENCED = frozenset({"mysql", "postgres", "sqlite"})


def kind_of(dtype: Any) -> Kind | None:
    """What a column of a type of ibis holds; None for what cannot be read as single values."""
    if dtype.is_integer():
        return "wide" if str(dtype).lstrip("!") == "uint64" else "whole"
    if dtype.is_decimal():
        return None if dtype.precision is None or dtype.scale is None else "decimal"
    if dtype.is_timestamp():
        return "timestamptz" if dtype.timezone else "timestamp"
    names: dict[str, Kind] = {"boolean": "boolean", "floating": "real", "string": "text", "date": "date"}
    return next((kind for name, kind in names.items() if getattr(dtype, f"is_{name}")()), None)


def constant(value: object, dtype: Any = None) -> Column:
    """A public value; ibis writes it out, quoted as the warehouse quotes."""
    import ibis

    return ibis.literal(value, dtype)


def case(*branches: tuple[Column, Column], other: Column) -> Column:
    """The value of the first branch whose condition holds."""
    import ibis

    return ibis.cases(*branches, else_=other) if branches else other


def number_in(by: Sequence[Column], order: Sequence[Column]) -> Column:
    """The place of a row among those with the same values, from 0 on."""
    import ibis

    return ibis.row_number().over(group_by=list(by), order_by=list(order))


def stack(parts: Sequence[Table]) -> Table:
    """The rows of all parts; by halves, because a chain of unions is nested as deep as it is long."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return stack(parts[:middle]).union(stack(parts[middle:]))


def put_fence(table: Table, warehouse: str) -> Table:
    """The same rows, behind a fence for planners that would write a step into the next one wherever it is mentioned.

    PostgreSQL needs gigabytes to plan numbers in text otherwise. Planners of warehouses do not do that, and some would
    bring all rows to one machine for the sake of a limit.
    """
    return table.limit(2**62) if warehouse in _FENCED else table


def make_row(values: Mapping[str, Column]) -> Table:
    """A table of one row, made of constants."""
    first, *rest = values.items()
    table = first[1].name(first[0]).as_table()
    return table.mutate(dict(rest)) if rest else table


def hash_text(text: Column, warehouse: str) -> Column | None:
    """SHA-256 of a text, in a form that sorts by its bytes; None where the warehouse has none that is known here."""
    if warehouse in ("duckdb", "pyspark"):
        return text.hexdigest("sha256")
    if warehouse in ("databricks", "impala", "mysql", "singlestoredb", "snowflake"):
        return call("sha2", str, text, 256)
    if warehouse in ("bigquery", "clickhouse", "datafusion", "flink"):
        return call("sha256", bytes, text)
    if warehouse in ("athena", "trino"):
        return call("sha256", bytes, call("to_utf8", bytes, text))
    if warehouse in ("materialize", "postgres", "risingwave"):
        return call("sha256", bytes, call("convert_to", bytes, text, "UTF8"))
    if warehouse == "oracle":
        return call("standard_hash", bytes, text, "SHA256")
    return None


def call(function: str, gives: type, *arguments: Column) -> Column:
    """A call of a function that the warehouse has and ibis does not know."""
    import ibis

    takes = tuple(type(a) if isinstance(a, int | str) else a.type() for a in arguments)
    stubs: Sequence[Callable[..., None]] = (lambda a: None, lambda a, b: None, lambda a, b, c: None)
    stub = stubs[len(arguments) - 1]
    return ibis.udf.scalar.builtin(stub, name=function, signature=(takes, gives))(*arguments)


def group_by_sets(rows: Table, sets: Sequence[Sequence[str]], width: int, warehouse: Any) -> Table:
    """Rows grouped by several sets of their columns at once: a tag, the columns of its set as w0, w1, …, and n.

    One scan where the warehouse has GROUPING SETS, which ibis cannot say: its own SQL of the rows is then wrapped.
    """
    whole = "int64"
    if len(sets) > 1 and warehouse.name in _SETS:
        return warehouse.sql(
            _with_sets(statement(rows, warehouse), sets, width, warehouse.dialect),
            schema={"tag": whole, **{f"w{j}": whole for j in range(width)}, "n": whole},
        )
    parts = []
    for tag, names in enumerate(sets):
        counted = rows.group_by(list(names)).agg(n=rows.count().cast(whole))
        words = {f"w{j}": counted[n] for j, n in enumerate(names)}
        words |= {f"w{j}": constant(0, whole) for j in range(len(names), width)}
        parts.append(counted.select(tag=constant(tag, whole), **words, n=counted.n))
    return stack(parts)


def _with_sets(rows: str, sets: Sequence[Sequence[str]], width: int, dialect: Any) -> str:
    """The statement, spelled by sqlglot in the warehouse's dialect; names of columns are ours."""
    import sqlglot

    tags = " ".join(f"WHEN GROUPING({quote(names[0])}) = 0 THEN {i}" for i, names in enumerate(sets))
    words = [[*(quote(n[j]) for n in sets if len(n) > j), "CAST(0 AS BIGINT)"] for j in range(width)]
    terms = {"tag": f"CASE {tags} END"} | {f"w{j}": f"COALESCE({', '.join(word)})" for j, word in enumerate(words)}
    listed = [f"CAST({term} AS BIGINT) AS {quote(name)}" for name, term in (terms | {"n": "COUNT(*)"}).items()]
    by = ", ".join(f"({', '.join(map(quote, names))})" for names in sets)
    query = f"SELECT {', '.join(listed)} FROM held_rows AS held GROUP BY GROUPING SETS ({by})"  # noqa: S608
    return str(sqlglot.parse_one(query).sql(dialect=dialect)).replace("held_rows", f"({rows})", 1)


def find_view(name: str, schema: Any, warehouse: Any) -> Table:
    """A table or view of a warehouse whose types are known."""
    import ibis.expr.operations as ops

    return ops.DatabaseTable(name, schema=schema, source=warehouse).to_expr()


def statement(question: Table, warehouse: Any) -> str:
    """An expression in the SQL of a warehouse."""
    with keep_steps_apart():
        return str(warehouse.compile(question))


@contextmanager
def keep_steps_apart() -> Iterator[None]:
    """Every step of an expression stays one, instead of being written into the next wherever it is mentioned."""
    import ibis

    options = ibis.options.sql
    fused, options.fuse_selects = options.fuse_selects, False
    try:
        yield
    finally:
        options.fuse_selects = fused
