"""Which reader a dictionary goes to: by the ending of its name, the scheme of its address, or its type."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from dipsmith.errors import SourceError, UsageError
from dipsmith.schema.dictionary import ColumnFacts

LARGEST = 200_000_000
"""Bytes of a dictionary at most; of a statistical file only the header is read."""
READERS = {
    "statistical": (".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt"),
    "table_schema": (".json", ".yaml", ".yml"),
    "ddi": (".xml",),
    "listing": (".csv", ".tsv", ".txt", ".xlsx"),
}
"""Which module reads which endings; imported when it is needed."""


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
        return _read_file(Path(given).expanduser())
    from dipsmith.sources.dictionaries.frames import read_frame

    return read_frame(given)


def _read_file(path: Path) -> list[ColumnFacts]:
    if not path.is_file():
        raise SourceError(f"{path}: no such file; give a data dictionary, or a database address")
    name = next((name for name, endings in READERS.items() if path.suffix.lower() in endings), None)
    if name not in (None, "statistical") and path.stat().st_size > LARGEST:
        raise SourceError(f"{path}: more than {LARGEST:,} bytes, too large for a data dictionary")
    if name is None:
        raise SourceError(
            f"{path}: not a kind of dictionary that is known: .dta, .sav, .sas7bdat, .json, .yaml, .xml, .csv or .xlsx; for "
            "the rows of a public file of the same layout use --public-file"
        )
    read: Callable[[Path], list[ColumnFacts]] = getattr(import_module(f"{__package__}.{name}"), f"read_{name}")
    return read(path)
