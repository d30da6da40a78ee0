"""Which reader a dictionary goes to: by the ending of its name, the scheme of its address, or its type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dipsmith.errors import SourceError, UsageError
from dipsmith.schema.dictionary import ColumnFacts

Reader = Callable[[Path], list[ColumnFacts]]
LARGEST = 200_000_000
"""Bytes of a dictionary at most."""


def read_dictionary(given: Any, table: str | None = None) -> list[ColumnFacts]:
    """What a dictionary says of columns.

    A path (.dta, .sav, .zsav, .por, .sas7bdat, .xpt; .json, .yaml of Frictionless or CSVW; .xml of DDI; .csv, .tsv, .xlsx
    data dictionaries), the address of a database with its table, or a pandas frame, of which types and categories are taken.

    Privacy
    -------
    Reads metadata only: of statistical files the header, of databases the catalogue, of frames the dtypes.
    """
    if isinstance(given, str) and "://" in given:
        from dipsmith.sources.dictionaries.catalogue import read_catalogue

        if table is None:
            raise UsageError("which table of the database? say table=… (--table)")
        return read_catalogue(given, table)
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        if not path.is_file():
            raise SourceError(f"{path}: no such file; give a data dictionary, or a database address")
        if path.stat().st_size > LARGEST and path.suffix.lower() in (
            ".json",
            ".yaml",
            ".yml",
            ".xml",
            ".csv",
            ".tsv",
            ".xlsx",
        ):
            raise SourceError(f"{path}: more than {LARGEST:,} bytes, too large for a data dictionary")
        return _reader(path)(path)
    from dipsmith.sources.dictionaries.frames import read_frame

    return read_frame(given)


def _reader(path: Path) -> Reader:
    ending = path.suffix.lower()
    if ending in (".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt"):
        from dipsmith.sources.dictionaries.statistical import read_statistical

        return read_statistical
    if ending in (".json", ".yaml", ".yml"):
        from dipsmith.sources.dictionaries.table_schema import read_table_schema

        return read_table_schema
    if ending == ".xml":
        from dipsmith.sources.dictionaries.ddi import read_ddi

        return read_ddi
    if ending in (".csv", ".tsv", ".txt", ".xlsx"):
        from dipsmith.sources.dictionaries.listing import read_listing

        return read_listing
    raise SourceError(
        f"{path}: not a kind of dictionary that is known: .dta, .sav, .sas7bdat, .json, .yaml, .xml, .csv or .xlsx; for the "
        "rows of a public file of the same layout use --public-file"
    )
