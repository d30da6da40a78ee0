# ruff: noqa: S608  # statements are put together from quoted names, integers and placeholders only
"""Tables of SQL engines: DuckDB files and PostgreSQL servers, read in bounded memory or asked for counts.

`SqlTable` fulfils the contract of a source, and answers statements besides, so that `counting` can have
rows counted where they are: only aggregated counts then leave the engine. All statements of one source
see one state of the table: a transaction of PostgreSQL at level *repeatable read*, read only; a DuckDB
file opened read only.

Credentials come from the address, or better from where libpq looks for them: ``PGPASSWORD``,
``PGPASSFILE``, ``PGSERVICEFILE`` (``postgresql:///?service=personnel``). Nothing here repeats an address,
a user or a message of an engine, which might quote a value: errors are told in our words, with the
engine's code for the kind of failure.
"""

from __future__ import annotations

import io
import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from dipsmith.errors import MissingExtraError, SourceError, UsageError
from dipsmith.sources.arrow import BATCH_ROWS, plain
from dipsmith.sources.dialect import Dialect, DuckDB, Kind, Parameters, PostgreSQL
from dipsmith.sources.header import check_header
from dipsmith.sources.source import Progress

_BLOCK = 1 << 21
_NAME = re.compile(r'"(?:[^"]|"")+"|[^."]+')


class Engine(Protocol):
    """A connection to one table: what it holds, and answers to statements about it."""

    @property
    def dialect(self) -> Dialect:
        """How it spells things."""

    @property
    def table(self) -> str:
        """The table, quoted."""

    def kinds(self) -> dict[str, Kind | None]:
        """What each column holds; None for what cannot be read as single values."""

    def integers(self, statement: str, parameters: Parameters) -> list[NDArray[np.int64]]:
        """Run a statement whose columns are all whole numbers; return them column by column."""

    def rows(self, columns: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """All rows of some columns, in the same order every time."""

    def describe(self) -> str:
        """What this is, without credentials."""


@dataclass(frozen=True, eq=False)
class SqlTable:
    """One table of an SQL engine as a source."""

    engine: Engine = field(repr=False)

    @cached_property
    def kinds(self) -> Mapping[str, Kind | None]:
        """What each column holds."""
        return self.engine.kinds()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.kinds)

    def check(self, required: Sequence[str]) -> None:
        """Header and column types; an engine's rows have no syntax that could be broken."""
        check_header(self.describe(), self.columns, required)
        for name in required:
            if self.kinds[name] is None:
                raise SourceError(
                    f"{self.describe()}: column '{name}' holds lists, structures, bytes or durations; give a view in "
                    "which it is text, a number, a boolean or a date"
                )

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        self.check(columns)
        wanted = {name: kind for name in columns if (kind := self.kinds[name]) is not None}
        for batch in self.engine.rows(wanted):
            yield plain(batch)
        if progress is not None:
            progress(1.0)

    def describe(self) -> str:
        """What this is, without credentials."""
        return self.engine.describe()


def table_name(given: str, dialect: Dialect) -> str:
    """Quote a table's name, part by part: ``schema.table``, or with quotes where a name has a dot.

    >>> table_name('hr.personnel; DROP TABLE x', DuckDB())
    '"hr"."personnel; DROP TABLE x"'
    """
    parts = _NAME.findall(given)
    spelled = [p[1:-1].replace('""', '"') if p.startswith('"') else p for p in parts]
    if not given or ".".join(parts) != given or "\0" in given:
        raise UsageError(
            "table= must be a name such as personnel or hr.personnel; write a name with a dot in double quotes"
        )
    return ".".join(dialect.name(part) for part in spelled)


# DuckDB ------------------------------------------------------------------------------------------------------


def duckdb_table(url: str, table: str) -> SqlTable:
    """Open a table of a DuckDB file: ``duckdb:///file.db`` or ``duckdb:////folder/file.db``."""
    given = re.sub(r"^[^:]+:/{2,3}", "", url)
    path = Path(given)
    if not path.exists() and Path("/" + given).exists():
        path = Path("/" + given)
    if not given or not path.is_file():
        raise SourceError(f"{path}: no such DuckDB file; check the path")
    return SqlTable(_DuckDB(path, table))


@dataclass(frozen=True, eq=False)
class _DuckDB:
    path: Path
    given: str
    dialect: DuckDB = field(default_factory=DuckDB)

    @cached_property
    def _connection(self) -> Any:
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError.of("Reading DuckDB files", "tables") from None
        with self._failures():
            connection = duckdb.connect(str(self.path), read_only=True)
            weakref.finalize(self, connection.close)
            connection.execute("SET TimeZone = 'UTC'")
            return connection

    @property
    def table(self) -> str:
        return table_name(self.given, self.dialect)

    def describe(self) -> str:
        return f"{self.path}, table {self.given}"

    def kinds(self) -> dict[str, Kind | None]:
        with self._failures():
            found = self._connection.execute(f"DESCRIBE SELECT * FROM {self.table}").fetchall()
        return {row[0]: _duckdb_kind(row[1]) for row in found}

    def integers(self, statement: str, parameters: Parameters) -> list[NDArray[np.int64]]:
        with self._failures():
            found = self._connection.execute(statement, parameters.values or None).fetchnumpy()
        return [np.asarray(column).astype(np.int64, copy=False) for column in found.values()]

    def rows(self, columns: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(self._read(name, kind) for name, kind in columns.items())
        with self._failures():
            relation = self._connection.sql(f"SELECT {listed} FROM {self.table}")
            yield from relation.to_arrow_reader(BATCH_ROWS)

    def _read(self, name: str, kind: Kind) -> str:
        quoted = self.dialect.name(name)
        cast = {
            "text": f"CAST({quoted} AS VARCHAR) AS {quoted}",
            "wide": f"CAST({quoted} AS DECIMAL(38, 0)) AS {quoted}",
        }
        return cast.get(kind, quoted)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.CatalogException:
            raise SourceError(f"{self.describe()}: there is no such table; check table=") from None
        except duckdb.Error as error:
            raise SourceError(
                f"{self.describe()}: DuckDB cannot read it ({type(error).__name__}); check the file"
            ) from None


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


# PostgreSQL --------------------------------------------------------------------------------------------------


def postgresql_table(url: str, table: str) -> SqlTable:
    """Open a table of a PostgreSQL server; libpq completes the address from its environment."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        if find_spec("psycopg") is not None:
            raise SourceError(
                "psycopg finds no libpq to speak to PostgreSQL with; install libpq5, or pip install 'psycopg[binary]'"
            ) from None
        raise MissingExtraError.of("Reading PostgreSQL tables", "tables") from None
    try:
        facts = conninfo_to_dict(url)
    except psycopg.Error:
        raise UsageError(
            "the postgresql:// address cannot be understood; it is postgresql://host:port/database, with the "
            "password in PGPASSWORD or a service file"
        ) from None
    host = facts.get("host") or os.environ.get("PGHOST") or "service" * ("service" in facts) or "local socket"
    database = facts.get("dbname") or os.environ.get("PGDATABASE") or ""
    return SqlTable(_PostgreSQL(url, table, f"postgresql://{host}/{database}, table {table}"))


@dataclass(frozen=True, eq=False)
class _PostgreSQL:
    url: str = field(repr=False)
    given: str
    called: str
    dialect: PostgreSQL = field(default_factory=PostgreSQL)

    @cached_property
    def _connection(self) -> Any:
        import psycopg

        with self._failures():
            connection = psycopg.connect(self.url, connect_timeout=30)
            weakref.finalize(self, connection.close)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(
                "SELECT set_config(name, value, false) FROM (VALUES ('synchronize_seqscans', 'off'), "
                "('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('extra_float_digits', '3'), ('work_mem', '64MB')) AS s(name, value)"
            )
            return connection

    @property
    def table(self) -> str:
        return table_name(self.given, self.dialect)

    def describe(self) -> str:
        return self.called

    def kinds(self) -> dict[str, Kind | None]:
        with self._failures():
            cursor = self._connection.execute(f"SELECT * FROM {self._plain(self.table)} LIMIT 0")
            found = [(c.name, c.type_code, c.scale, c.precision) for c in cursor.description]
            categories = dict(
                self._connection.execute(
                    "SELECT oid::int8, typcategory FROM pg_type WHERE oid = ANY(%s)",
                    [[oid for _, oid, _, _ in found]],
                ).fetchall()
            )
        return {
            name: _postgresql_kind(oid, precision, scale, categories.get(oid, "U"))
            for name, oid, scale, precision in found
        }

    def integers(self, statement: str, parameters: Parameters) -> list[NDArray[np.int64]]:
        import psycopg

        with self._failures():
            text = psycopg.ClientCursor(self._connection).mogrify(statement, parameters.values)
            held = io.BytesIO()
            with self._connection.cursor().copy(f"COPY ({text}) TO STDOUT (FORMAT binary)") as copy:
                for block in copy:
                    held.write(block)
        return _copied(held.getvalue())

    def rows(self, columns: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        listed = ", ".join(self._read(name, kind) for name, kind in columns.items())
        text = self._plain(f"SELECT {listed} FROM {self.table}")
        with (
            self._failures(),
            self._connection.cursor().copy(f"COPY ({text}) TO STDOUT (FORMAT csv)") as copy,
        ):
            stream = _Copied(iter(copy))
            if not stream.begun:
                return
            reader = pyarrow.csv.open_csv(
                stream,
                read_options=pyarrow.csv.ReadOptions(column_names=list(columns), block_size=_BLOCK),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types={name: _TRANSPORT[kind] for name, kind in columns.items()},
                    null_values=[""],
                    true_values=["t"],
                    false_values=["f"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield _typed(batch, columns)

    def _read(self, name: str, kind: Kind) -> str:
        """A column in a form that CSV carries exactly: dates as days, moments as microseconds."""
        x = self.dialect.name(name)
        if kind == "date":
            far = f"LEAST(GREATEST({x}, DATE '4713-01-01 BC'), DATE '9999-12-31')"
            return f"CASE WHEN {x} IS NOT NULL THEN {far} - DATE '1970-01-01' END"
        if kind in ("timestamp", "timestamptz"):
            kept = f"LEAST(GREATEST({x}, {kind} '4713-01-01 00:00:00+00 BC'), {kind} '9999-12-31 23:59:59.999999+00')"
            return f"CASE WHEN {x} IS NOT NULL THEN round(extract(epoch FROM {kept}) * 1000000)::int8 END"
        if kind == "decimal":
            return self.dialect.real_of_decimal(x)
        return f"({x})::{_CARRIED[kind]}"

    def _plain(self, statement: str) -> str:
        """A statement without parameters, in which a percent sign is just that."""
        return statement.replace("%%", "%")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.errors.UndefinedTable:
            raise SourceError(
                f"{self.called}: there is no such table; check table= and the search path"
            ) from None
        except psycopg.errors.InsufficientPrivilege:
            raise SourceError(
                f"{self.called}: permission denied; ask for the right to select from it"
            ) from None
        except psycopg.Error as error:
            code = f", SQLSTATE {error.sqlstate}" if error.sqlstate else ""
            what = (
                "the connection failed or was lost"
                if isinstance(error, psycopg.OperationalError)
                else "it cannot be read"
            )
            raise SourceError(
                f"{self.called}: {what} ({type(error).__name__}{code}); check the server, PGUSER and PGPASSWORD, and "
                "run again"
            ) from None


_CARRIED = {"text": "text", "whole": "int8", "wide": "text", "real": "float8", "boolean": "bool"}
_TRANSPORT = {
    "text": pa.string(),
    "whole": pa.int64(),
    "wide": pa.string(),
    "real": pa.float64(),
    "decimal": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.int32(),
    "timestamp": pa.int64(),
    "timestamptz": pa.int64(),
}
_FINAL = {"date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}


def _typed(batch: pa.RecordBatch, columns: Mapping[str, Kind]) -> pa.RecordBatch:
    arrays = [
        array.cast(_FINAL[kind]) if kind in _FINAL else array
        for array, kind in zip(batch.columns, columns.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _postgresql_kind(oid: int, precision: int | None, scale: int | None, category: str) -> Kind | None:
    known: dict[int, Kind | None] = {
        16: "boolean",
        17: None,
        20: "whole",
        21: "whole",
        23: "whole",
        26: "whole",
        700: "real",
        701: "real",
        1082: "date",
        1114: "timestamp",
        1184: "timestamptz",
        1186: None,
    }
    if oid in known:
        return known[oid]
    if oid == 1700:
        if precision is None or scale is None or scale > 0:
            return "decimal"
        return "whole" if precision <= 18 else "wide"
    return None if category in "ACRT" else "text"


def _copied(held: bytes) -> list[NDArray[np.int64]]:
    """Rows of 8-byte integers in PostgreSQL's binary format: a header, rows of one length, a trailer."""
    start = 19 + int.from_bytes(held[15:19], "big")
    fields = int.from_bytes(held[start : start + 2], "big", signed=True)
    if fields < 0:
        return []
    row = np.dtype([("n", ">i2"), ("f", [("size", ">i4"), ("value", ">i8")], (fields,))])
    rows = np.frombuffer(held, dtype=row, count=(len(held) - start - 2) // row.itemsize, offset=start)
    return [rows["f"]["value"][:, i].astype(np.int64) for i in range(fields)]


class _Copied(io.RawIOBase):
    """The blocks of a COPY as a file."""

    def __init__(self, blocks: Iterator[Any]) -> None:
        self._blocks = blocks
        self._left = memoryview(next(blocks, b""))

    @property
    def begun(self) -> bool:
        return len(self._left) > 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, wanted = [], size if size >= 0 else 1 << 62
        while wanted:
            if not self._left:
                self._left = memoryview(next(self._blocks, b""))
                if not self._left:
                    break
            parts.append(bytes(self._left[:wanted]))
            self._left = self._left[wanted:]
            wanted -= len(parts[-1])
        return b"".join(parts)
