"""Which reader a dictionary goes to: by the ending of its name, the scheme of its address, or its type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dipsmith.errors import SourceError, UsageError
from dipsmith.schema.dictionary import ColumnFacts
from dipsmith.sources.header import type_name

LARGEST = 200_000_000
"""Bytes of a dictionary at most; of a statistical file only the header is read."""
STATISTICAL = (".dta", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt")


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
    return _read_frame(given)


def _read_file(path: Path) -> list[ColumnFacts]:
    if not path.is_file():
        raise SourceError(f"{path}: no such file; give a data dictionary, or a database address")
    ending = path.suffix.lower()
    if ending not in STATISTICAL and path.stat().st_size > LARGEST:
        raise SourceError(f"{path}: more than {LARGEST:,} bytes, too large for a data dictionary")
    from dipsmith.sources.dictionaries import formats, listing

    by_ending: dict[str, Callable[[Path], list[ColumnFacts]]] = {
        **dict.fromkeys(STATISTICAL, formats.read_statistical),
        **dict.fromkeys((".json", ".yaml", ".yml"), formats.read_table_schema),
        ".xml": formats.read_ddi,
        **dict.fromkeys((".csv", ".tsv", ".txt", ".xlsx"), listing.read_listing),
    }
    if ending not in by_ending:
        raise SourceError(
            f"{path}: not a kind of dictionary that is known: .dta, .sav, .sas7bdat, .json, .yaml, .xml, .csv or .xlsx; for "
            "the rows of a public file of the same layout use --public-file"
        )
    return by_ending[ending](path)


def _read_frame(frame: Any) -> list[ColumnFacts]:
    """The dtypes of a pandas frame, and the categories that somebody declared. No value is looked at."""
    if type(frame).__module__.partition(".")[0] != "pandas":
        raise UsageError(f"a dictionary is a path, a database address or a pandas frame, got a {type(frame).__name__}")
    import pyarrow as pa

    found = []
    for name in frame.columns:
        dtype = frame[name].dtype
        if hasattr(dtype, "categories"):
            values = tuple((str(c), "") for c in dtype.categories)
            found.append(ColumnFacts(str(name), "string", values=values, ordered=bool(dtype.ordered)))
            continue
        kind = None if dtype.kind == "O" else type_name(pa.array(frame[name].iloc[:0]).type)
        found.append(ColumnFacts(str(name), "number" if kind is None and dtype.kind == "f" else kind))  # type: ignore[arg-type]
    return found
