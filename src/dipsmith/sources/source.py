"""Where rows come from: one small contract that files, frames and databases fulfil.

A source never interprets a value. It has a header, a free syntax-only check that comes before any
charge, and batches of raw columns that can be read as often as needed. Columns that nobody asks for
are not read.

Which sources there are is a matter of registration: every entry point of the group `dipsmith.sources` is a function
that is shown what a user gave (an `Input`) and answers with a `Source`, or None if it is not its business. An address
such as ``postgresql://…`` goes to the entry point of its scheme's name, anything else to all of them in turn: those of
other packages first, because dipsmith's own read every path that nobody else claims.

*Privacy.* Whether `check` fails depends on the syntax of the input (encoding, quoting, field count,
required columns), never on what a well-formed value says; that much is treated as public. No message
repeats a cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol, cast

import pyarrow as pa

from dipsmith.errors import SourceError, UsageError
from dipsmith.registry import entry_points_of, load

Progress = Callable[[float], None]
"""Told the fraction read so far, 0 to 1."""

_URL = re.compile(r"^([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_NO_SCHEMES = ("files", "frames", "ibis")
"""Entry points that are no scheme of an address."""


class Source(Protocol):
    """A table that can be read again and again, batch by batch.

    That is all a source must do. It may do more:

    ``fingerprint() -> str | None``
        Tells its rows from others (`dipsmith.sources.fingerprint`); without it they are known by `describe`.
    ``fingerprints() -> frozenset[str]``
        The same for a table of several files: that of the table, and that of each file.
    ``types() -> dict[str, pa.DataType]``
        The types that it states of columns, before any row is read (`dipsmith.sources.header`).
    ``check_columns(required)``
        The cheap part of `check`: header and types, without reading a row (`dipsmith.sources.header.check_columns`).
    ``counter``
        The class that counts its rows where they lie, as ``"module:name"``: a `counting.pushed.Grouping` of source,
        schema and key. Without it rows are read and counted here.
    ``maker``
        The class that makes synthetic rows where its rows lie, as ``"module:name"``: a `synthesis.sets.RowMaker` of
        the source. Without it they are made in this machine's memory.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""

    def check(self, required: Sequence[str]) -> None:
        """Read everything once for syntax alone; raise SourceError, naming line or column, if it is bad.

        Privacy
        -------
        Free, and comes before any charge: encoding, quoting, field counts, NUL bytes, the header and
        the required columns are looked at; no value is interpreted.
        """

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns, in bounded memory; the same rows in the same order every time."""

    def describe(self) -> str:
        """Say what this is, for cards and logs: no credentials, no row count."""


def companion(rows: Source, task: str) -> Any | None:
    """The class of a room above that a source names for a task (`counter`, `maker`); None when it names none."""
    named = getattr(rows, task, None)
    return resolve_name(named) if isinstance(named, str) else named


@dataclass(frozen=True)
class Input:
    """What a user gives for rows, and says about it, as to `source`; contradictions are refused."""

    data: object
    table: str | None = None
    encoding: str | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        has_options = self.encoding is not None or self.delimiter is not None
        if self.scheme is not None:
            if has_options:
                raise UsageError("encoding= and delimiter= are for CSV files; leave them out for a database")
            return
        if self.table is not None:
            raise UsageError("table= names a table of a database; give a database URL with it, or leave it out")
        if has_options and self.paths is None:
            raise UsageError("encoding= and delimiter= are for CSV files; leave them out for a table in memory")

    @property
    def scheme(self) -> str | None:
        """The scheme of an address, in small letters; None for whatever else was given, files too."""
        found = _URL.match(self.data) if isinstance(self.data, str) else None
        return None if found is None or found[1].lower() == "file" else found[1].lower()

    @property
    def paths(self) -> tuple[str, ...] | None:
        """The paths, globs or folders that were given; None when it was something else."""
        data = self.data
        if self.scheme is not None:
            return None
        if isinstance(data, str) and not data:
            # As a path it would be the present folder, with all that lies there.
            raise SourceError("the name of the file is empty; give a path, a glob, a folder or a database URL")
        if isinstance(data, str):
            return (str(Path(data[len("file://") :])) if _URL.match(data) else data,)
        if isinstance(data, Path):
            return (str(data),)
        if isinstance(data, list | tuple) and data and all(isinstance(part, str | Path) for part in data):
            return tuple(str(part) for part in data)
        return None

    def address(self) -> tuple[str, str]:
        """The address of a database and the table that is wanted."""
        assert isinstance(self.data, str)
        if self.table is None:
            raise UsageError(f"which table of the {self.scheme}:// database? say table=… (--table)")
        return self.data, self.table

    def unknown(self) -> UsageError:
        """That nobody recognises this; an address may hold a password, so it is not repeated."""
        if self.scheme is not None:
            schemes = [f"{name}://" for name in entry_points_of("sources") if name not in _NO_SCHEMES]
            return UsageError(
                f"rows cannot be read from a {self.scheme}:// address; copy the file here, or give one of "
                f"{', '.join(schemes)} or the address of a warehouse that ibis knows (pip install 'dipsmith[tables]')"
            )
        kind = type(self.data).__name__
        hint = "; call .collect() on it first" if kind == "LazyFrame" else ""
        return UsageError(
            f"rows cannot be read from a {kind}{hint}; give a path, a glob, a folder, a database URL or an Arrow-"
            "compatible table (pandas, polars, pyarrow)"
        )


def source(
    data: object, table: str | None = None, *, encoding: str | None = None, delimiter: str | None = None
) -> Source:
    """Anything that holds rows, as a `Source`.

    Parameters
    ----------
    data
        A path, a glob or a folder (CSV, gzipped CSV, Parquet), a list of paths, a database URL, a table
        of ibis, a frame of Spark, a source, or any object with ``__arrow_c_stream__`` (pandas, polars, pyarrow).
    table
        The table to read, for a database URL.
    encoding
        The encoding of a CSV file that is neither UTF-8 nor UTF-16 with a byte order mark.
    delimiter
        What separates the fields of a CSV file; guessed from the header line when omitted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> source(pa.table({"age": [30, 41], "sex": ["F", "M"]})).columns
    ('age', 'sex')
    """
    given = Input(data, table, encoding, delimiter)
    if all(hasattr(type(data), verb) for verb in ("columns", "check", "batches", "describe")):
        return cast("Source", data)
    names = entry_points_of("sources")  # dipsmith's own come first in it, and are asked last
    for name in [given.scheme] if given.scheme in names else reversed(names):
        found: Source | None = load("sources", name)(given)
        if found is not None:
            return found
    raise given.unknown()
