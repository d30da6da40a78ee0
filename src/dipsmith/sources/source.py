"""Where rows come from: one small contract that files, frames and databases fulfil.

A source never interprets a value. It has a header, a free syntax-only check that comes before any
charge, and batches of raw columns that can be read as often as needed. Columns that nobody asks for
are not read.

*Privacy.* Whether `check` fails depends on the syntax of the input (encoding, quoting, field count,
required columns), never on what a well-formed value says; that much is treated as public. No message
repeats a cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, cast

import pyarrow as pa

from dipsmith.errors import SourceError, UsageError

Progress = Callable[[float], None]
"""Told the fraction read so far, 0 to 1."""

Made = TypeVar("Made")
Pipe = Callable[[Iterator[pa.RecordBatch]], Iterator[Made]]
"""What is made of some batches that follow one another."""

_URL = re.compile(r"^([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_DATABASES = ("postgresql", "postgres", "duckdb", "spark")


class Batches(Protocol):
    """Rows that can be read again and again, batch by batch."""

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns, in bounded memory; the same rows in the same order every time."""


class Source(Batches, Protocol):
    """A table that can be read again and again, batch by batch."""

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

    def describe(self) -> str:
        """Say what this is, for cards and logs: no credentials, no row count."""


def piped(
    rows: Batches, columns: Sequence[str], pipe: Pipe[Made], progress: Progress | None = None
) -> Iterator[Made]:
    """What a pipe makes of all rows, in their order.

    A source that reads in several threads has a verb `piped` of its own and sends every run of rows through
    a pipe of its own, in the thread that reads it: what was just decoded is still in the processor's cache.
    Where it cuts the runs depends on the file, not on the columns.
    """
    own = getattr(rows, "piped", None)
    return pipe(rows.batches(columns, progress)) if own is None else own(columns, pipe, progress)


def source(
    data: object,
    table: str | None = None,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
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
    from dipsmith.sources.arrow import ArrowSource, FrameSource, is_frame
    from dipsmith.sources.files import Files
    from dipsmith.sources.ibis import ibis_table, is_ibis_table
    from dipsmith.sources.spark import SparkTable, is_spark_frame

    if isinstance(data, str) and (url := _URL.match(data)):
        return _from_url(data, url[1].lower(), table, encoding, delimiter)
    if table is not None:
        raise UsageError("table= names a table of a database; give a database URL with it, or leave it out")
    delimiter = None if delimiter is None else _delimiter(delimiter)
    if isinstance(data, str) and not data:
        # As a path it would be the present folder, with all that lies there.
        raise SourceError("the name of the file is empty; give a path, a glob, a folder or a database URL")
    if isinstance(data, str | Path):
        return Files((str(data),), encoding, delimiter)
    if isinstance(data, list | tuple) and data and all(isinstance(part, str | Path) for part in data):
        return Files(tuple(str(part) for part in data), encoding, delimiter)
    if encoding is not None or delimiter is not None:
        raise UsageError("encoding= and delimiter= are for CSV files; leave them out for a table in memory")
    if all(hasattr(type(data), verb) for verb in ("columns", "check", "batches", "describe")):
        return cast("Source", data)
    if is_frame(data):
        return FrameSource(data)
    if is_ibis_table(data):
        return ibis_table(data)
    if is_spark_frame(data):
        return SparkTable(data)
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowSource(data)
    kind = type(data).__name__
    hint = "; call .collect() on it first" if kind == "LazyFrame" else ""
    raise UsageError(
        f"rows cannot be read from a {kind}{hint}; give a path, a glob, a folder, a database URL or an Arrow-"
        "compatible table (pandas, polars, pyarrow)"
    )


def _delimiter(given: str) -> str:
    delimiter = {"\\t": "\t", "tab": "\t"}.get(given, given)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise UsageError("delimiter= must be one character such as , ; | or tab, not a quote or a line end")
    return delimiter


def _from_url(
    url: str, scheme: str, table: str | None, encoding: str | None, delimiter: str | None
) -> Source:
    """Open a database table; the URL may hold a password, so no message repeats it."""
    from dipsmith.sources.ibis import connected_table, warehouses

    if scheme == "file":
        return source(Path(url[len("file://") :]), table, encoding=encoding, delimiter=delimiter)
    if scheme not in _DATABASES and scheme not in warehouses():
        raise UsageError(
            f"rows cannot be read from a {scheme}:// address; copy the file here, or give one of "
            + ", ".join(f"{name}://" for name in _DATABASES)
            + " or the address of a warehouse that ibis knows (pip install 'dipsmith[tables]')"
        )
    if encoding is not None or delimiter is not None:
        raise UsageError("encoding= and delimiter= are for CSV files; leave them out for a database")
    if table is None:
        raise UsageError(f"which table of the {scheme}:// database? say table=… (--table)")
    if scheme == "spark":
        from dipsmith.sources.spark import spark_table

        return spark_table(url, table)
    if scheme == "duckdb":
        from dipsmith.sources.duckdb import duckdb_table

        return duckdb_table(url, table)
    if scheme not in _DATABASES:
        return connected_table(url, scheme, table)
    from dipsmith.sources.postgresql import postgresql_table

    return postgresql_table(url, table)
