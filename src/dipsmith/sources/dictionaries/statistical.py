"""Stata, SPSS and SAS files: names, labels, value labels and declared missing values, from the header alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dipsmith.errors import MissingExtraError, SourceError
from dipsmith.schema.attribute import Type
from dipsmith.schema.dictionary import ColumnFacts

_READERS = {
    ".dta": "read_dta", ".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por", ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport",
}  # fmt: skip


def read_statistical(path: Path) -> list[ColumnFacts]:
    """The facts of a statistical file's header; no row is read (``metadataonly``)."""
    try:
        import pyreadstat
    except ImportError:
        raise MissingExtraError.of("Reading Stata, SPSS and SAS files", "formats") from None
    # SPSS tells which values stand for none only when it is asked to keep them.
    more = {"user_missing": True} if path.suffix.lower() in (".sav", ".zsav") else {}
    try:
        _, meta = getattr(pyreadstat, _READERS[path.suffix.lower()])(str(path), metadataonly=True, **more)
    except (pyreadstat.ReadstatError, UnicodeDecodeError, ValueError):
        raise SourceError(f"{path}: its header cannot be read; save it again, or give a data dictionary") from None
    titles = meta.column_names_to_labels
    return [_fact(name, titles.get(name) or "", meta) for name in meta.column_names]


def _fact(name: str, title: str, meta: Any) -> ColumnFacts:
    labels = meta.variable_value_labels.get(name, {})
    kept = {value: label for value, label in labels.items() if not _declared_missing(name, value, meta)}
    kind = _type(name, meta, list(kept))
    values = tuple((_text(value), str(label)) for value, label in kept.items())
    measure = meta.variable_measure.get(name)
    missing = bool(meta.missing_ranges.get(name) or meta.missing_user_values.get(name)) or len(kept) < len(labels)
    return ColumnFacts(name, kind, title, values, missing=missing, ordered=measure == "ordinal")


def _declared_missing(name: str, value: object, meta: Any) -> bool:
    """Whether the file says that a value stands for none: SPSS's ranges, Stata's .a to .z."""
    if value in meta.missing_user_values.get(name, ()):
        return True
    ranges = meta.missing_ranges.get(name, ())
    return any(isinstance(r["lo"], str) == isinstance(value, str) and r["lo"] <= value <= r["hi"] for r in ranges)


def _type(name: str, meta: Any, labelled: list[object]) -> Type | None:
    shown = str(meta.original_variable_types.get(name, "")).upper()
    if shown.startswith(("DATETIME", "%TC")):
        return "datetime"
    if shown.startswith(("DATE", "ADATE", "EDATE", "SDATE", "%TD", "%D", "YYMMDD", "MMDDYY", "DDMMYY")):
        return "date"
    kind = meta.readstat_variable_types.get(name, "")
    if kind == "string":
        return "string"
    if labelled:
        return "integer" if all(isinstance(v, float | int) and float(v).is_integer() for v in labelled) else "string"
    return "integer" if kind.startswith("int") or shown.endswith((".0", "%8.0G")) else "number"


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
