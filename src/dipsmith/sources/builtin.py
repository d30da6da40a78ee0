"""The sources that come with dipsmith, as its entry points name them (`pyproject.toml`, group `dipsmith.sources`).

Each function is shown what a user gave and answers with a source, or None if it is not its business. A library is
imported when its source is opened, not before: frames are recognised by the names of their classes.
"""

from __future__ import annotations

from dipsmith.errors import UsageError
from dipsmith.sources.source import Input, Source


def files(given: Input) -> Source | None:
    """Paths, globs and folders of CSV or Parquet files."""
    from dipsmith.sources.files import Files

    if given.paths is None:
        return None
    delimiter = given.delimiter and {"\\t": "\t", "tab": "\t"}.get(given.delimiter, given.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0'):
        raise UsageError("delimiter= must be one character such as , ; | or tab, not a quote or a line end")
    return Files(given.paths, given.encoding, delimiter)


def frames(given: Input) -> Source | None:
    """Tables in memory: pandas, and whatever speaks the Arrow C stream; those of ibis and Spark lie elsewhere."""
    from dipsmith.sources.arrow import ArrowSource, FrameSource

    if _is_a(given.data, "DataFrame", "pandas"):
        return FrameSource(given.data)
    elsewhere = _is_a(given.data, "Table", "ibis") or _is_a(given.data, "DataFrame", "pyspark")
    return ArrowSource(given.data) if hasattr(given.data, "__arrow_c_stream__") and not elsewhere else None


def ibis(given: Input) -> Source | None:
    """Tables of ibis, and addresses of warehouses that it knows."""
    from dipsmith.sources.ibis import connected_table, ibis_table, warehouses

    if _is_a(given.data, "Table", "ibis"):
        return ibis_table(given.data)
    if given.scheme is None or given.scheme not in warehouses():
        return None
    url, table = given.address()
    return connected_table(url, given.scheme, table)


def spark(given: Input) -> Source | None:
    """Frames of Spark, and tables of a standalone cluster."""
    from dipsmith.sources.spark import SparkTable, spark_table

    if given.scheme == "spark":
        return spark_table(*given.address())
    return SparkTable(given.data) if _is_a(given.data, "DataFrame", "pyspark") else None


def duckdb(given: Input) -> Source | None:
    """Tables of a DuckDB file."""
    from dipsmith.sources.duckdb import duckdb_table

    return duckdb_table(*given.address()) if given.scheme == "duckdb" else None


def postgresql(given: Input) -> Source | None:
    """Tables of a PostgreSQL server."""
    from dipsmith.sources.postgresql import postgresql_table

    known = given.scheme in ("postgresql", "postgres")
    return postgresql_table(*given.address()) if known else None


def _is_a(data: object, name: str, library: str) -> bool:
    """Whether this is a frame of a library, by name: the library is not imported for the question."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in type(data).__mro__
    )
