# ruff: noqa: S608  # statements are put together from quoted names, integers and constants of the schema
"""Tables of a PostgreSQL server: one read-only transaction at level *repeatable read* for all statements.

`PostgresTable` fulfils the contract of a source, and answers statements besides, so that `counting` can have rows
counted where they are: only aggregated counts then leave the server.

Credentials come from the address, or better from where libpq looks for them: ``PGPASSWORD``,
``PGPASSFILE``, ``PGSERVICEFILE`` (``postgresql:///?service=personnel``). Nothing here repeats them, nor a message of the
server, which might quote a value: errors are told in our words, with the server's code for the kind of failure.
"""

from __future__ import annotations

import codecs
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import csv

from dipsmith.arrays import Ints
from dipsmith.errors import MissingExtraError, SourceError, UsageError
from dipsmith.sources.delimited import parse_csv
from dipsmith.sources.header import check_header, refuse_columns
from dipsmith.sources.kinds import Kind, quote, quote_table
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress

_LONG, _TRIMMED = 1 << 16, 1 << 24
"""Bytes of the longest text that is read whole, and characters within which the spaces around a longer one end."""
_TIMEOUTS = [
    f"{of}_timeout" for of in ("statement", "lock", "transaction", "idle_in_transaction_session", "idle_session")
]
"""What limits how long a session may take, or wait: whether a charged run comes to its end must not depend on that."""
_OWN, _GIVEN = "dipsmith.key", "dipsmith.given"
"""Settings of the session that hold the secret of unit truncation."""


def postgresql_table(url: str, table: str) -> PostgresTable:
    """Open a table of a PostgreSQL server; libpq completes the address from its environment."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        if find_spec("psycopg") is None:
            retell(MissingExtraError.of("Reading PostgreSQL tables", "tables"))
        remedy = "install libpq5, or pip install 'psycopg[binary]'"
        retell(SourceError(f"psycopg finds no libpq to speak to PostgreSQL with; {remedy}"))
    try:
        facts = conninfo_to_dict(url)
    except psycopg.Error:
        wanted = "it is postgresql://host:port/database, with the password in PGPASSWORD or a service file"
        retell(UsageError(f"the postgresql:// address cannot be understood; {wanted}"))
    # A password with a bare @ or / is torn apart by libpq, and what follows taken for a host or a database.
    if "@" in str(facts.get("host", ""))[1:] or "@" in str(facts.get("dbname", "")):
        raise UsageError(
            "the postgresql:// address has an @ in its host or database, so perhaps a password with @ or / in it; give the "
            "password by PGPASSWORD or a service file (and a database of such a name by PGDATABASE)"
        )
    host = facts.get("host") or os.environ.get("PGHOST") or "service" * ("service" in facts) or "local socket"
    database = facts.get("dbname") or os.environ.get("PGDATABASE") or ""
    return PostgresTable(url, quote_table(table), f"postgresql://{host}/{database}, table {table}")


@dataclass(frozen=True, eq=False)
class PostgresTable:
    """One table of a PostgreSQL server as a source: its address, perhaps with a password, its quoted name, what it is called."""

    url: str = field(repr=False)
    table: str
    name: str
    counter: ClassVar = "dipsmith.counting.postgresql:PostgresGrouping"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.kinds)

    def check(self, required: Sequence[str]) -> None:
        """Header and column types; a server's rows have no syntax that could be broken."""
        check_header(self.name, self.columns, required)
        odd = [name for name in required if self.kinds[name] is None]
        refuse_columns(self.name, odd, "lists, structures, bytes, durations or money", "give a view")

    def describe(self) -> str:
        """What this is, without credentials."""
        return self.name

    @cached_property
    def _connection(self) -> Any:
        import psycopg

        with self._failures():
            # whatever the encoding of the database, text comes as UTF-8: rows are read as such
            connection = psycopg.connect(self.url, connect_timeout=30, client_encoding="UTF8")
            weakref.finalize(self, connection.close)
            if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                raise SourceError(
                    f"{self.name}: the encoding of the database is SQL_ASCII, so that nobody knows what its bytes mean; copy "
                    "the table to a database with the encoding UTF8, or to a CSV file and say its encoding"
                )
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(
                "SELECT set_config(name, value, false) FROM (VALUES ('synchronize_seqscans', 'off'), "
                "('TimeZone', 'UTC'), ('DateStyle', 'ISO'), ('extra_float_digits', '3'), ('work_mem', '64MB')) AS s(name, value)"
            )
            # Not all servers know all of them.
            asked = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = ANY(%s)"
            connection.execute(asked, [_TIMEOUTS])
            # Drawn by the server's own strong generator, so that it stands in no statement and in no log.
            connection.execute(
                f"SELECT set_config('{_OWN}', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), false)"
            )
            return connection

    @cached_property
    def kinds(self) -> Mapping[str, Kind | None]:
        """What each column holds; None for what cannot be read as single values."""
        with self._failures():
            columns = self._connection.execute(f"SELECT * FROM {self.table} LIMIT 0").description
            asked = "SELECT oid::int8, typcategory FROM pg_type WHERE oid = ANY(%s)"
            categories = dict(self._connection.execute(asked, [[c.type_code for c in columns]]).fetchall())
        return {c.name: _postgresql_kind(c, categories.get(c.type_code, "U")) for c in columns}

    def literal(self, value: object) -> str:
        """A public value, or a list of such, as a constant of a statement: quoted by the driver."""
        from psycopg.sql import Literal

        with self._failures():
            return Literal(value).as_string(self._connection)

    def integers(self, statement: str) -> list[Ints]:
        """Run a statement whose columns are all whole numbers of 64 bits; return them column by column."""
        text = f"COPY ({statement}) TO STDOUT (FORMAT binary)"
        with self._failures(), self._connection.cursor().copy(text) as copy:
            return _read_copy(b"".join(copy))

    def plan(self, statement: str) -> None:
        """Have a statement planned, not run: what is wrong with it for any rows is seen before one is read."""
        with self._failures(), self._connection.transaction():
            self._connection.execute(f"EXPLAIN {statement}")

    def key(self, given: bytes | None) -> str:
        """The secret of unit truncation in hexadecimal, as an expression; without one, the connection's own.

        The connection's own is drawn once and stands in no text of a statement.
        """
        if given is None:
            return f"(SELECT current_setting('{_OWN}'))"
        with self._failures():
            self._connection.execute(f"SELECT set_config('{_GIVEN}', %s, false)", [given.hex()])
        return f"(SELECT current_setting('{_GIVEN}'))"

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        self.check(columns)
        kinds = {name: kind for name in columns if (kind := self.kinds[name]) is not None}
        listed = ", ".join(_read(name, kind) for name, kind in kinds.items())
        decoder = self._decoder
        encoding = "" if decoder is None else f", ENCODING '{self._encoding}'"
        text = f"COPY (SELECT {listed} FROM {self.table}) TO STDOUT (FORMAT csv{encoding})"
        with self._failures(), self._connection.cursor().copy(text) as copy:
            parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
            convert = csv.ConvertOptions(
                column_types={name: _TRANSPORT[kind] for name, kind in kinds.items()},
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            # a row must fit into a block: a quote is written twice, a byte of another encoding may become three
            longest = sum(3 * (_LONG + 100) if kind == "text" else 2000 for kind in kinds.values())
            for batch in parse_csv(_as_utf8(copy, decoder), list(kinds), parse, convert, longest):
                typed = zip(batch.columns, kinds.values(), strict=True)
                arrays = [array.cast(_FINAL[kind]) if kind in _FINAL else array for array, kind in typed]
                yield pa.RecordBatch.from_arrays(arrays, names=list(kinds))
        if progress is not None:
            progress(1.0)

    @property
    def _encoding(self) -> str:
        return str(self._connection.info.parameter_status("server_encoding"))

    @cached_property
    def _decoder(self) -> codecs.CodecInfo | None:
        """What reads texts of the database's own encoding; None where that is UTF-8.

        The server fails on a byte that is no character of UTF-8 (129 in WIN1252), which it may hold all the same.
        """
        if self._encoding == "UTF8":
            return None
        with self._failures():
            self._connection.execute("SELECT set_config('client_encoding', %s, false)", [self._encoding])
            name = self._connection.info.encoding
            self._connection.execute("SELECT set_config('client_encoding', 'UTF8', false)")
        return codecs.lookup(name)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.errors.UndefinedTable:
            retell(SourceError(f"{self.name}: there is no such table; check table= and the search path"))
        except psycopg.errors.InsufficientPrivilege:
            retell(SourceError(f"{self.name}: permission denied; ask for the right to select from it"))
        except psycopg.errors.UntranslatableCharacter:
            unlike = f"the encoding of the database, {self._encoding}, and the schema's UTF-8 do not have the same characters"
            retell(
                SourceError(f"{self.name}: {unlike}; leave labels out that it cannot hold, or copy the table to UTF8")
            )
        except psycopg.Error as error:
            code = f", SQLSTATE {error.sqlstate}" if error.sqlstate else ""
            lost = isinstance(error, psycopg.OperationalError)
            what = (
                f"{'the connection failed or was lost' if lost else 'it cannot be read'} ({type(error).__name__}{code})"
            )
            retell(SourceError(f"{self.name}: {what}; check the server, PGUSER and PGPASSWORD, and run again"))


def _read(name: str, kind: Kind) -> str:
    """A column in a form that CSV carries exactly: dates as days, moments as microseconds."""
    x = quote(name)
    if kind == "date":
        # beyond the dates that are spelled, so that what is too far is not taken for the last of them
        far = f"LEAST(GREATEST({x}, DATE '4713-01-01 BC'), DATE '10000-01-01')"
        return f"CASE WHEN {x} IS NOT NULL THEN {far} - DATE '1970-01-01' END"
    if kind in ("timestamp", "timestamptz"):
        kept = f"LEAST(GREATEST({x}, {kind} '4713-01-01 00:00:00+00 BC'), {kind} '9999-12-31 23:59:59.999999+00')"
        return f"CASE WHEN {x} IS NOT NULL THEN round(extract(epoch FROM {kept}) * 1000000)::int8 END"
    if kind == "decimal":
        return real_of_decimal(x)
    if kind == "wide":
        return f"NULLIF({x}, 'NaN')::text"
    return short_text(x) if kind == "text" else f"({x})::{_CARRIED[kind]}"


def short_text(x: str) -> str:
    """A text of any length as one that the server can handle; a long one as its beginning and a digest of all of it.

    No code list holds what is longer; but of two units neither may pass for the other.
    """
    whole = f"({x})::text"
    trimmed = f"btrim(left({whole}, {_TRIMMED}), ' ')"
    digest = f"encode(sha256(convert_to({whole}, getdatabaseencoding())), 'hex')"
    short = (
        f"CASE WHEN octet_length({trimmed}) > {_LONG} THEN left({trimmed}, {_LONG // 4}) || {digest} ELSE {trimmed} END"
    )
    return f"CASE WHEN octet_length({whole}) > {_LONG} THEN {short} ELSE {whole} END"


def _as_utf8(blocks: Iterable[bytes | bytearray | memoryview], decoder: codecs.CodecInfo | None) -> Iterator[bytes]:
    """Rows in UTF-8; of bytes that are no character of their encoding a mark is left."""
    for block in blocks:  # whole rows
        yield bytes(block) if decoder is None else decoder.decode(block, "replace")[0].encode()


def real_of_decimal(x: str) -> str:
    """A numeric as the nearest double; one that a double cannot hold is infinite or next to nothing."""
    return (
        f"(CASE WHEN {x} = 'NaN' THEN NULL WHEN {x} > 1e307 THEN 'Infinity'::float8"
        f" WHEN {x} < -1e307 THEN '-Infinity'::float8 WHEN {x} > 0 AND {x} < 1e-307 THEN 1e-307::float8"
        f" WHEN {x} < 0 AND {x} > -1e-307 THEN -1e-307::float8 ELSE ({x})::float8 END)"
    )


_NUMERIC = 1700
_CARRIED = {"whole": "int8", "real": "float8", "boolean": "bool"}
_TRANSPORT = {"real": pa.float64(), "decimal": pa.float64(), "boolean": pa.bool_(), "date": pa.int32()}
_TRANSPORT |= dict.fromkeys(("text", "wide"), pa.string())
_TRANSPORT |= dict.fromkeys(("whole", "timestamp", "timestamptz"), pa.int64())
_FINAL = {"date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}


def _postgresql_kind(column: Any, category: str) -> Kind | None:
    if column.type_code == _NUMERIC:
        # even without places it may be NaN, which no integer can be
        return "decimal" if column.precision is None or column.scale is None or column.scale > 0 else "wide"
    return _KINDS.get(column.type_code, None if category in "ACRT" else "text")


_KINDS: dict[int, Kind | None] = {16: "boolean", 1082: "date", 1114: "timestamp", 1184: "timestamptz"}
_KINDS |= {20: "whole", 21: "whole", 23: "whole", 26: "whole", 700: "real", 701: "real"}
_KINDS |= dict.fromkeys((17, 790, 1186))
"""By the numbers of the server's own types; bytes and durations are no single values, and money is spelled as the server's
country has it."""


def _read_copy(held: bytes) -> list[Ints]:
    """Rows of 8-byte integers in PostgreSQL's binary format: a header, rows of one length, a trailer."""
    start = 19 + int.from_bytes(held[15:19], "big")
    fields = int.from_bytes(held[start : start + 2], "big", signed=True)
    if fields < 0:
        return []
    row = np.dtype([("n", ">i2"), ("f", [("size", ">i4"), ("value", ">i8")], (fields,))])
    rows = np.frombuffer(held, dtype=row, count=(len(held) - start - 2) // row.itemsize, offset=start)
    return [rows["f"]["value"][:, i].astype(np.int64) for i in range(fields)]
