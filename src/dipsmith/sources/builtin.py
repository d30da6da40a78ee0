"""The sources that come with dipsmith, as its entry points name them (`pyproject.toml`, group `dipsmith.sources`).

Each function is shown what a user gave and answers with a source, or None if it is not its business. A library is
imported when its source is opened, not before: frames are recognised by the names of their classes.
"""

from __future__ import annotations

from dipsmith.errors import UsageError
from dipsmith.sources.source import Input, Source


def files(given: Input) -> Source | None:
    """Paths, globs and folders of CSV or Parquet files."""
    if given.paths is None:
        return None
    from dipsmith.sources.files import Files

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
    is_table = _is_a(given.data, "Table", "ibis")
    if not is_table and given.scheme is None:
        return None
    from dipsmith.sources.ibis import connected_table, ibis_table, warehouses

    if is_table:
        return ibis_table(given.data)
    if given.scheme is None or given.scheme not in warehouses():
        return None
    url, table = given.address()
    return connected_table(url, given.scheme, table)


def spark(given: Input) -> Source | None:
    """Frames of Spark, and tables of a standalone cluster."""
    is_frame = _is_a(given.data, "DataFrame", "pyspark")
    if not is_frame and given.scheme != "spark":
        return None
    from dipsmith.sources.spark import SparkTable, spark_table

    return SparkTable(given.data) if is_frame else spark_table(*given.address())


def duckdb(given: Input) -> Source | None:
    """Tables of a DuckDB file."""
    if given.scheme != "duckdb":
        return None
    from dipsmith.sources.duckdb import duckdb_table

    return duckdb_table(*given.address())


def postgresql(given: Input) -> Source | None:
    """Tables of a PostgreSQL server."""
    if given.scheme not in ("postgresql", "postgres"):
        return None
    from dipsmith.sources.postgresql import postgresql_table

    return postgresql_table(*given.address())


def _is_a(data: object, name: str, library: str) -> bool:
    """Whether this is a frame of a library, by name: the library is not imported for the question."""
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in type(data).__mro__)
