# ruff: noqa: S608  # statements are put together from quoted names, integers and placeholders only
"""DuckDB files: opened read only, so that all statements see one state of the table."""

from __future__ import annotations

import re
import secrets
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.errors import MissingExtraError, SourceError
from dipsmith.sources.dialect import DuckDB, Kind, Parameters
from dipsmith.sources.layout import BATCH_ROWS
from dipsmith.sources.retelling import retell
from dipsmith.sources.tables import SqlTable, table_name


def duckdb_table(url: str, table: str) -> SqlTable:
    """Open a table of a DuckDB file: ``duckdb:///file.db`` or ``duckdb:////folder/file.db``."""
    given = re.sub(r"^[^:]+:/{2,3}", "", url)
    path = Path(given)
    if not path.exists() and Path("/" + given).exists():
        path = Path("/" + given)
    if not given or not path.is_file():
        # Not a file, so perhaps the address of a service, with a token or a password in it.
        shown = re.sub(r"^[^/]*@|\?.*", "", str(path), flags=re.DOTALL)
        raise SourceError(f"{shown}: no such DuckDB file; check the path")
    return SqlTable(_DuckDB(path, table))


@dataclass(frozen=True, eq=False)
class _DuckDB:
    path: Path
    given: str
    dialect: DuckDB = field(default_factory=DuckDB)

    @cached_property
    def _connection(self) -> Any:
        with self._failures():
            connection = _library().connect(str(self.path), read_only=True)
            weakref.finalize(self, connection.close)
            connection.execute("SET TimeZone = 'UTC'")
            return connection

    @cached_property
    def _types(self) -> dict[str, str]:
        with self._failures():
            named = table_name(self.given, self.dialect)
            found = self._connection.execute(f"DESCRIBE SELECT * FROM {named}").fetchall()
        return {row[0]: row[1] for row in found}

    @cached_property
    def table(self) -> str:
        """The table, its moments in microseconds: comparing other units with a constant fails on far values."""
        named = table_name(self.given, self.dialect)
        moments = {self.dialect.name(n): t for n, t in self._types.items() if t in _UNITS}
        made = ", ".join(f"{_microseconds(quoted, kind)} AS {quoted}" for quoted, kind in moments.items())
        return f"(SELECT * REPLACE ({made}) FROM {named})" if made else named

    def describe(self) -> str:
        return f"{self.path}, table {self.given}"

    def kinds(self) -> dict[str, Kind | None]:
        return {name: _duckdb_kind(kind) for name, kind in self._types.items()}

    def integers(self, statement: str, parameters: Parameters) -> list[NDArray[np.int64]]:
        with self._failures():
            found = self._connection.execute(statement, parameters.values or None).fetchnumpy()
        return [np.asarray(column).astype(np.int64, copy=False) for column in found.values()]

    @cached_property
    def _key(self) -> bytes:
        return secrets.token_bytes(32)

    def key(self, given: bytes | None, parameters: Parameters) -> str:
        return self.dialect.placeholder(parameters.add((given or self._key).hex()))

    def rows(self, columns: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(self._read(name, kind) for name, kind in columns.items())
        with self._failures():
            relation = self._connection.sql(f"SELECT {listed} FROM {self.table}")
            # called fetch_arrow_reader before DuckDB 2.0
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            yield from reader(BATCH_ROWS)

    def _read(self, name: str, kind: Kind) -> str:
        quoted = self.dialect.name(name)
        most = "9" * 38
        cast = {
            "text": f"CAST({quoted} AS VARCHAR) AS {quoted}",
            # 128 bits hold a few numbers of 39 digits, which Arrow has no type for
            "wide": f"COALESCE(TRY_CAST({quoted} AS DECIMAL(38, 0)), CASE WHEN {quoted} > 0 THEN {most} "
            f"WHEN {quoted} < 0 THEN -{most} END) AS {quoted}",
        }
        return cast.get(kind, quoted)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        duckdb = _library()
        try:
            yield
        except duckdb.CatalogException:
            retell(SourceError(f"{self.describe()}: there is no such table; check table="))
        except duckdb.Error as error:
            retell(
                SourceError(
                    f"{self.describe()}: DuckDB cannot read it ({type(error).__name__}); check the file"
                )
            )


def _library() -> Any:
    try:
        import duckdb
    except ImportError:
        retell(MissingExtraError.of("Reading DuckDB files", "tables"))
    return duckdb


_UNITS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS")


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


def _duckdb_kind(name: str) -> Kind | None:
    if name.endswith("]") or name.startswith(("STRUCT", "MAP", "UNION", "LIST")):
        return None
    decimal = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", name)
    if decimal:
        return "decimal" if int(decimal[2]) else "whole" if int(decimal[1]) <= 18 else "wide"
    if name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"):
        return "whole"
    if name in ("FLOAT", "DOUBLE"):
        return "real"
    if name.startswith("TIMESTAMP"):
        return "timestamptz" if "ZONE" in name or name.endswith("TZ") else "timestamp"
    if name in ("BLOB", "INTERVAL", "BIT", "GEOMETRY"):
        return None
    return {
        "BOOLEAN": "boolean",
        "DATE": "date",
        "HUGEINT": "wide",
        "UHUGEINT": "wide",
        "UBIGINT": "wide",
    }.get(name, "text")  # type: ignore[return-value]
