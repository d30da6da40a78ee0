"""Tables of SQL engines: read in bounded memory, or asked for counts.

`SqlTable` fulfils the contract of a source, and answers statements besides, so that `counting` can have
rows counted where they are: only aggregated counts then leave the engine. What it needs of an engine is
the protocol `Engine`; `duckdb.py` and `postgresql.py` fulfil it. All statements of one source see one state
of the table.

Nothing here or there repeats an address, a user or a message of an engine, which might quote a value:
errors are told in our words, with the engine's code for the kind of failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.errors import SourceError, UsageError
from dipsmith.sources.dialect import Dialect, Kind, Parameters
from dipsmith.sources.fingerprint import of_address
from dipsmith.sources.header import check_header
from dipsmith.sources.layout import plain
from dipsmith.sources.source import Progress

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

    def key(self, given: bytes | None, parameters: Parameters) -> str:
        """The secret of unit truncation in hexadecimal, as an expression; without one, the connection's own.

        The connection's own is drawn once and stands in no text of a statement.
        """

    def rows(self, columns: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """All rows of some columns, in the same order every time."""

    def describe(self) -> str:
        """What this is, without credentials."""


@dataclass(frozen=True, eq=False)
class SqlTable:
    """One table of an SQL engine as a source."""

    engine: Engine = field(repr=False)
    counter: ClassVar = "dipsmith.counting.statements:SqlGrouping"

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

    def fingerprint(self) -> str:
        """What tells this table from others: its address, or the file of its database, from whatever folder it was named."""
        path, named = getattr(self.engine, "path", None), self.describe()
        return of_address(named if path is None else named.replace(str(path), str(path.resolve()), 1))


def table_name(given: str, dialect: Dialect) -> str:
    """Quote a table's name, part by part: ``schema.table``, or with quotes where a name has a dot.

    >>> from dipsmith.sources.dialect import DuckDB
    >>> table_name('hr.personnel; DROP TABLE x', DuckDB())
    '"hr"."personnel; DROP TABLE x"'
    """
    return ".".join(dialect.name(part) for part in parts_of(given))


def parts_of(given: str) -> list[str]:
    """The parts of a table's name, without their quotes.

    >>> parts_of('hr."personnel.2011"')
    ['hr', 'personnel.2011']
    """
    parts = _NAME.findall(given)
    if not given or ".".join(parts) != given or "\0" in given:
        raise UsageError(
            "table= must be a name such as personnel or hr.personnel; write a name with a dot in double quotes"
        )
    return [p[1:-1].replace('""', '"') if p.startswith('"') else p for p in parts]
