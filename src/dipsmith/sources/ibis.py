"""Tables of any warehouse that ibis reaches: Snowflake, BigQuery, Trino, ClickHouse, DataFusion and others.

`IbisTable` fulfils the contract of a source, and answers expressions besides, so that `counting` can have rows
counted where they are.

Warehouses promise no order of rows. Rows that are read (to label them) are therefore fetched once and kept in an
unnamed temporary file, so that every pass sees the same rows in the same order.

Nothing here repeats an address, a user or a message of an engine, which might quote a value.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from dipsmith.errors import DipsmithError, MissingExtraError, SourceError, UsageError
from dipsmith.sources.arrow import ArrowSource
from dipsmith.sources.fingerprint import of_address
from dipsmith.sources.header import check_header, refuse_columns
from dipsmith.sources.ibis_terms import Column, Table, case, constant, keep_steps_apart, kind_of, statement
from dipsmith.sources.kinds import Kind, parts_of, sqlite_file
from dipsmith.sources.layout import BATCH_ROWS, check_type, make_plain
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress
from dipsmith.sources.sqlite import mend_values


@dataclass(frozen=True, eq=False)
class IbisTable:
    """A table, or any query, of a warehouse that ibis reaches.

    `name` is what messages and cards call it; `address` tells it from other tables, None where nothing does, as for
    a query; `has_order` says whether the warehouse gives its rows in the same order every time.
    """

    table: Table = field(repr=False)
    name: str
    address: str | None = None
    has_order: bool = False
    counter: ClassVar = "dipsmith.counting.ibis:IbisGrouping"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.table.columns)

    @cached_property
    def kinds(self) -> Mapping[str, Kind | None]:
        """What each column holds; None for what cannot be read as single values."""
        return {name: kind_of(kind) for name, kind in self.table.schema().items()}

    def check(self, required: Sequence[str]) -> None:
        """Header and column types; a warehouse's rows have no syntax that could be broken."""
        check_header(self.name, self.columns, required)
        odd = [name for name in required if self.kinds[name] is None]
        what = "lists, structures, bytes, durations or decimals without a number of places"
        refuse_columns(self.name, odd, what, "give a view")

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns, in the order in which they were first read."""
        self.check(columns)
        with self.failures():
            for batch in self._read(columns) if self.has_order else self._spool.read(columns, self._read):
                yield make_plain(batch)
        if progress is not None:
            progress(1.0)

    def describe(self) -> str:
        """What this is, without credentials."""
        return self.name

    def fingerprint(self) -> str | None:
        """What tells this table from others."""
        return None if self.address is None else of_address(self.address)

    def answer(self, question: Table) -> pa.Table:
        """Have the warehouse compute a table expression."""
        with self.failures():
            return _reader(question, self.warehouse).read_all()

    def can(self, operation: str) -> bool:
        """Whether ibis can spell an operation for this warehouse; where there is no NaN nothing is one."""
        import ibis.expr.operations as ops

        if operation == "IsNan" and self.warehouse.name in ("mysql", "singlestoredb"):
            return False
        return bool(self.warehouse.has_operation(getattr(ops, operation)))

    @cached_property
    def passed_trials(self) -> set[Hashable]:
        """What this warehouse has shown to read as files are read; not tried again."""
        return set()

    @cached_property
    def warehouse(self) -> Any:
        """The connection."""
        return self.table.get_backend()

    def failures(self) -> AbstractContextManager[None]:
        """Tell failures in our own words."""
        remedy = "check the connection, the table and your rights, and run again"
        return _failures(f"{self.name}: the warehouse cannot answer", remedy)

    @cached_property
    def _spool(self) -> _Spool:
        return _Spool()

    def _read(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        wanted = [_near(self.table[name], self.warehouse.name).name(name) for name in columns]
        reader = _reader(self.table.select(wanted), self.warehouse)
        for name, kind in zip(reader.schema.names, reader.schema.types, strict=True):
            check_type(self.name, name, kind)
        return reader


def ibis_table(data: Table) -> IbisTable | ArrowSource:
    """An ibis table as a source; what lies in this machine's memory already is read there."""
    try:
        warehouse = data.get_backend().name
    except Exception:  # noqa: BLE001  # whatever keeps ibis from finding a connection
        retell(UsageError("this ibis table belongs to no connection; give connection.table(…), or a pyarrow table"))
    if warehouse == "polars":
        return ArrowSource(data.to_pyarrow())
    if data.op().__class__.__name__ != "DatabaseTable":
        return _open(data, f"{warehouse}, a query", None)
    called = f"{warehouse}, {data.get_name()}"
    return _open(data, called, called)


def connected_table(url: str, scheme: str, table: str) -> IbisTable:
    """Open a table by the address of its warehouse; the address may hold a password, so no message repeats it."""
    try:
        import ibis
    except ImportError:
        retell(MissingExtraError.of(f"Reading {scheme}:// tables", "tables"))
    with _failures(f"{scheme}: the connection failed", "check the address and the credentials, and run again"):
        try:
            # opening a database that is not there would make an empty one
            connection = ibis.connect(f"sqlite://{sqlite_file(url)}" if scheme == "sqlite" else url)
        except ImportError:
            retell(SourceError(f"ibis lacks the driver for {scheme}://; pip install 'ibis-framework[{scheme}]'"))
    *path, name = parts_of(table)
    called = f"{scheme}, {table}"
    with _failures(f"{called}: there is no such table, or it cannot be read", "check table="):
        found = connection.table(name, database=tuple(path) or None)
    return _open(found, called, called)


@contextmanager
def _failures(what: str, remedy: str) -> Iterator[None]:
    """Tell failures in our own words: every warehouse, and every driver, has exceptions of its own."""
    try:
        yield
    except DipsmithError:
        raise
    except Exception as error:  # noqa: BLE001
        retell(SourceError(f"{what} ({type(error).__name__}); {remedy}"))


def _open(table: Table, called: str, address: str | None) -> IbisTable:
    warehouse = table.get_backend().name
    if warehouse == "sqlite":
        table = mend_values(table)
    if warehouse == "duckdb":
        table = _without_huge(table)
    return IbisTable(table, called, address)


def _without_huge(table: Table) -> Table:
    """A table of DuckDB whose numbers of 39 digits are the last of 38: it takes 128 bits for decimals, but fails on them."""
    huge = [n for n, t in table.schema().items() if kind_of(t) == "decimal" and (t.precision, t.scale) == (38, 0)]
    if not huge:
        return table

    def near(column: Column) -> Column:
        most = constant(Decimal("9" * 38), column.type())
        text = column.cast("string")
        far = text.replace("-", "").length() > constant(38)
        return case((far & text.startswith("-"), -most), (far, most), other=column)

    return table.mutate(**{name: near(table[name]) for name in huge})


def warehouses() -> frozenset[str]:
    """The schemes of addresses that ibis knows; none where it is not installed."""
    try:
        from ibis.util import backend_entry_points
    except ImportError:
        return frozenset()
    return frozenset(entry.name for entry in backend_entry_points())


def _reader(question: Table, warehouse: Any) -> pa.RecordBatchReader:
    """The rows of an expression, batch by batch."""
    with keep_steps_apart():
        if warehouse.name != "duckdb":
            return warehouse.to_pyarrow_batches(question, chunk_size=BATCH_ROWS)
        # by the driver itself: ibis 12 asks it for verbs that DuckDB 2 no longer has
        relation = warehouse.con.sql(statement(question, warehouse))
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        return reader(BATCH_ROWS)


def _near(column: Column, warehouse: str) -> Column:
    """A column without what only PostgreSQL has, on which its driver for Python fails: far dates, NaN in decimals."""
    kind, dtype = kind_of(column.type()), column.type()
    if warehouse != "postgres" or kind not in ("date", "timestamp", "timestamptz", "decimal"):
        return column
    if kind == "decimal":
        return case((column.cast("string") != "NaN", column), other=constant(None, dtype))
    day = "" if kind == "date" else "+00"
    first, after = (constant(f"{d} 00:00:00{day}").cast(dtype) for d in ("0001-01-01", "10000-01-01"))
    last = constant(f"9999-12-31 23:59:59.999999{day}").cast(dtype)
    return case((column < first, first), (column >= after, last), other=column)


class _Spool:
    """Rows of some columns in an unnamed temporary file; fetched again when further columns are asked for."""

    def __init__(self) -> None:
        self._file: Any = None
        self._columns: tuple[str, ...] = ()

    def read(
        self, columns: Sequence[str], fetch: Callable[[Sequence[str]], pa.RecordBatchReader]
    ) -> Iterator[pa.RecordBatch]:
        if self._file is None or not set(columns) <= set(self._columns):
            wanted = tuple(dict.fromkeys([*self._columns, *columns]))
            file = tempfile.TemporaryFile(prefix="dipsmith-")  # noqa: SIM115  # closed with the source
            weakref.finalize(self, file.close)
            reader = fetch(wanted)
            with pa.ipc.new_file(file, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
            self._file, self._columns = file, wanted
        held = pa.ipc.open_file(self._file)
        for i in range(held.num_record_batches):
            yield held.get_batch(i).select(list(columns))
