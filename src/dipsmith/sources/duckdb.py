# ruff: noqa: S608  # the statement is put together from quoted names and constants only
"""DuckDB files, by way of ibis: opened read only, so that all statements see one state of the table.

What is asked is a temporary view of the connection that has every column in a type which Arrow and ibis know: text
that is compared byte by byte, whatever the column's collation; moments in microseconds; large whole numbers as decimals.
"""

from __future__ import annotations

import re
import weakref
from pathlib import Path
from uuid import uuid4

from dipsmith.errors import MissingExtraError, SourceError
from dipsmith.sources.ibis import IbisTable
from dipsmith.sources.ibis_terms import find_view
from dipsmith.sources.kinds import quote, quote_table
from dipsmith.sources.retelling import retell

_WHOLE = r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)"
_AS_IT_IS = re.compile(rf"{_WHOLE}|DECIMAL\(.*\)|FLOAT|DOUBLE|BOOLEAN|DATE|TIMESTAMP( WITH TIME ZONE)?")
_NO_VALUES = re.compile(r".*\]|(STRUCT|MAP|UNION|LIST).*|BLOB|INTERVAL|BIT|GEOMETRY.*", re.DOTALL)
_UNITS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS")


def duckdb_table(url: str, table: str) -> IbisTable:
    """Open a table of a DuckDB file: ``duckdb:///file.db`` or ``duckdb:////folder/file.db``."""
    given = re.sub(r"^[^:]+:/{2,3}", "", url)
    path = Path(given)
    if not path.exists() and Path("/" + given).exists():
        path = Path("/" + given)
    if not given or not path.is_file():
        # Not a file, so perhaps the address of a service, with a token or a password in it.
        shown = re.sub(r"^[^/]*@|\?.*", "", str(path), flags=re.DOTALL)
        raise SourceError(f"{shown}: no such DuckDB file; check the path")
    try:
        import duckdb
        import ibis
    except ImportError:
        retell(MissingExtraError.of("Reading DuckDB files", "tables"))
    called = f"{path}, table {table}"
    name = quote_table(table)
    try:
        warehouse = ibis.duckdb.connect(str(path), read_only=True)
        warehouse.con.execute("SET TimeZone = 'UTC'")
        types = warehouse.con.execute(f"DESCRIBE SELECT * FROM {name}").fetchall()
        columns = ", ".join(f"{_plain(quote(row[0]), row[1])} AS {quote(row[0])}" for row in types)
        view = f"dipsmith_{uuid4().hex}"
        warehouse.con.execute(f"CREATE TEMPORARY VIEW {view} AS SELECT {columns} FROM {name}")
        plain = warehouse.con.execute(f"DESCRIBE {view}").fetchall()
    except duckdb.CatalogException:
        retell(SourceError(f"{called}: there is no such table; check table="))
    except duckdb.Error as error:
        retell(SourceError(f"{called}: DuckDB cannot read it ({type(error).__name__}); check the file"))
    kinds = ibis.schema({row[0]: warehouse.compiler.type_mapper.from_string(row[1]) for row in plain})
    opened = IbisTable(find_view(view, kinds, warehouse), called, f"{path.resolve()}, table {table}", has_order=True)
    weakref.finalize(opened, warehouse.con.close)
    return opened


def _plain(x: str, kind: str) -> str:
    """A column in a type that Arrow and ibis know; nothing but nulls where its values are no single ones."""
    if _AS_IT_IS.fullmatch(kind):
        return x
    if kind in ("HUGEINT", "UHUGEINT"):
        # 128 bits hold a few numbers of 39 digits, which Arrow has no type for
        most = "9" * 38
        far = f"CASE WHEN {x} > 0 THEN {most} WHEN {x} < 0 THEN -{most} END"
        return f"COALESCE(TRY_CAST({x} AS DECIMAL(38, 0)), {far})"
    if kind in _UNITS:
        return _microseconds(x, kind)
    return "CAST(NULL AS BLOB)" if _NO_VALUES.fullmatch(kind) else f'CAST({x} AS VARCHAR) COLLATE "C"'


def _microseconds(x: str, kind: str) -> str:
    """A moment of another unit in microseconds, cut off downwards; infinite where they cannot hold it."""
    if kind.endswith("NS"):
        x = f"CAST({x} AS TIMESTAMP_NS)"
        kept, least, most = f"isfinite({x})", "1970-01-01", "1970-01-01"
        ticks = f"epoch_ns({x})"
        # // cuts off towards 0, a cast rounds
        value = f"make_timestamp({ticks} // 1000 - CASE WHEN {ticks} % 1000 < 0 THEN 1 ELSE 0 END)"
    else:
        least, most = "0001-01-01", "9999-12-31 23:59:59"
        kept = f"{x} BETWEEN {_point(least, kind)} AND {_point(most, kind)}"
        value = f"CAST({x} AS TIMESTAMP)"
    return (
        f"CASE WHEN {kept} THEN {value} WHEN {x} > {_point(most, kind)} THEN TIMESTAMP 'infinity' "
        f"WHEN {x} < {_point(least, kind)} THEN TIMESTAMP '-infinity' END"
    )


def _point(moment: str, kind: str) -> str:
    return f"CAST(TIMESTAMP '{moment}' AS {kind.replace('TZ', '')})"
