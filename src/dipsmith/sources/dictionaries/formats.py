"""Descriptions of columns in standard forms.

Table schemas in JSON or YAML: Frictionless (also in a data package), CSVW and its dialects. DDI-Codebook (XML): names,
labels, categories and valid ranges. Stata, SPSS and SAS files: names, labels, value labels and declared missing values,
from the header alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

from dipsmith.errors import MissingExtraError, SchemaError, SourceError
from dipsmith.schema.attribute import Type
from dipsmith.schema.dictionary import ColumnFacts
from dipsmith.schema.markup import Document, read_text
from dipsmith.schema.spelling import Spelling, read_spelling

_TYPES: dict[str, Type] = {
    **dict.fromkeys(("integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "unsignedInt", "unsignedByte",
                     "unsignedShort", "unsignedLong", "gYear", "year"), "integer"),
    **dict.fromkeys(("number", "decimal", "double", "float"), "number"),
    **dict.fromkeys(("string", "token", "normalizedString", "anyAtomicType", "any", "categorical"), "string"),
    "boolean": "boolean", "date": "date", "datetime": "datetime", "dateTime": "datetime", "dateTimeStamp": "datetime",
}  # fmt: skip


def read_table_schema(path: Path) -> list[ColumnFacts]:
    """The facts of a Frictionless or CSVW description."""
    data = Document.of(read_text(path, "table schema", 50_000_000)).data
    if isinstance(data, Mapping):
        for step in ("resources", "tables"):
            listed = data.get(step)
            if isinstance(listed, list) and listed and isinstance(listed[0], Mapping):
                data = listed[0]
        data = data.get("schema") or data.get("tableSchema") or data
    columns = (data.get("fields") or data.get("columns")) if isinstance(data, Mapping) else None
    if not isinstance(columns, list) or not all(isinstance(c, Mapping) for c in columns):
        raise SourceError(f"{path}: no list of fields (Frictionless) or of tableSchema.columns (CSVW) is in it")
    blanks = data.get("missingValues") if isinstance(data, Mapping) else None
    return [_fact(c, blanks) for c in columns if str(c.get("virtual", "")).lower() != "true"]


def _fact(column: Mapping[str, Any], blanks: Any) -> ColumnFacts:
    kind = column.get("type") or column.get("datatype")
    within: dict[str, Any] = dict(kind) if isinstance(kind, Mapping) else {}
    constraints = {**within, **(column.get("constraints") or {}), **column}
    base = str(within.get("base", "string") if isinstance(kind, Mapping) else kind or "")
    name = str(column.get("name") or _words(column.get("titles")) or "")
    listed = constraints.get("enum") or column.get("categories") or _alternatives(within.get("format"))
    values = tuple(_pair(v) for v in listed or ())
    title = _words(
        column.get("title") or column.get("titles") or column.get("description") or column.get("dc:description")
    )
    required = str(constraints.get("required", "")).lower()
    # what stands for none: a column's own words, or those of all columns (an empty cell alone is everybody's default)
    blanks = column.get("missingValues") or column.get("null") or blanks
    stands_for_none = bool(blanks) and (blanks if isinstance(blanks, list) else [blanks]) != [""]
    return ColumnFacts(
        name,
        _TYPES.get(base),
        title,
        values,
        _limit(constraints, "minimum", "minInclusive"),
        _limit(constraints, "maximum", "maxInclusive"),
        missing=required == "false" or (stands_for_none and required != "true"),
        ordered=str(column.get("categoriesOrdered", "")).lower() == "true",
        spelling=_spelling(_TYPES.get(base), within, column),
    )


_CSVW_PARTS = (("yyyy", "%Y"), ("yy", "%y"), ("MMM", "%b"), ("MM", "%m"), ("M", "%m"), ("dd", "%d"), ("d", "%d"),
               ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))  # fmt: skip


def _spelling(kind: Type | None, within: Mapping[str, Any], column: Mapping[str, Any]) -> Spelling | None:
    """How cells are written: Frictionless has it beside the type, CSVW within it; None where it is not said, or not readable."""
    said = within.get("format")
    marks = {**(said if isinstance(said, Mapping) else {}), **column}
    pattern = said if isinstance(said, str) else column.get("format")
    if kind in ("date", "datetime"):
        marks = {}
        text = str(pattern or "default")
        if "%" not in text and text not in ("default", "any"):
            text = re.sub("|".join(p for p, _ in _CSVW_PARTS), lambda found: dict(_CSVW_PARTS)[found[0]], text)
        pattern = None if text == "any" or text in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S") else text
    elif kind in ("integer", "number"):
        pattern = None
    else:
        return None
    bare = marks.get("bareNumber")
    try:
        return read_spelling(
            kind,
            marks.get("decimalChar"),
            marks.get("groupChar"),
            None if bare is None else str(bare).lower() != "false",
            pattern,
        )
    except SchemaError:
        return None


def _pair(value: Any) -> tuple[str, str]:
    if isinstance(value, Mapping):
        return str(value.get("value", "")), str(value.get("label", ""))
    return str(value), ""


def _words(value: Any) -> str:
    """A text, the first of several, or that of a language."""
    if isinstance(value, Mapping):
        value = value.get("@value") or next(iter(value.values()), "")
    if isinstance(value, list):
        value = value[0] if value else ""
    return str(value or "")


def _alternatives(pattern: Any) -> list[str] | None:
    """The words of a CSVW format that is nothing but alternatives: ``^(F|M)$``."""
    found = re.fullmatch(r"\^?\(?([\w .-]+(?:\|[\w .-]+)+)\)?\$?", str(pattern or ""))
    return None if found is None else found[1].split("|")


def _limit(constraints: Mapping[str, Any], *names: str) -> str | None:
    return next((str(cast("Any", constraints[n])) for n in names if constraints.get(n) is not None), None)


def read_ddi(path: Path) -> list[ColumnFacts]:
    """The facts of a DDI-Codebook; a document with a type declaration of its own is refused."""
    text = path.read_bytes()
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise SourceError(f"{path}: an XML document with entities of its own; remove its DOCTYPE")
    try:
        root = ET.fromstring(text)  # noqa: S314 - without entities of its own, see above
    except ET.ParseError as error:
        line, column = error.position
        raise SourceError(f"{path}, line {line}, column {column + 1}: not well-formed XML") from None
    found = [_ddi_fact(node) for node in root.iter() if _tag(node) == "var"]
    if not found:
        raise SourceError(f"{path}: no variable (<var>) is described in it; is it a DDI-Codebook?")
    return found


def _ddi_fact(node: ET.Element) -> ColumnFacts:
    categories = [c for c in node if _tag(c) == "catgry"]
    values = tuple((_ddi_text(c, "catValu"), _ddi_text(c, "labl")) for c in categories if c.get("missing") != "Y")
    span = next((r for valid in node.iter() if _tag(valid) == "valrng" for r in valid if _tag(r) == "range"), None)
    style = next((f for f in node if _tag(f) == "varFormat"), None)
    return ColumnFacts(
        node.get("name") or "",
        _ddi_type(node, style),
        _ddi_text(node, "labl"),
        values,
        None if span is None else span.get("min"),
        None if span is None else span.get("max"),
        missing=len(values) < len(categories) or any(_tag(n) == "invalrng" for n in node),
        ordered=node.get("nature") == "ordinal",
    )


def _ddi_type(node: ET.Element, style: ET.Element | None) -> Type | None:
    if style is None:
        return None
    category = style.get("category") or ""
    if category in ("date", "time"):
        return "date" if category == "date" else "datetime"
    if style.get("type") == "character":
        return "string"
    whole = node.get("dcml") in (None, "0") and node.get("intrvl") != "contin"
    return "integer" if whole else "number"


def _tag(node: ET.Element) -> str:
    return str(node.tag).rpartition("}")[2]


def _ddi_text(node: ET.Element, name: str) -> str:
    found = next((n for n in node if _tag(n) == name), None)
    return "" if found is None else " ".join("".join(found.itertext()).split())


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
    return [_statistical_fact(name, titles.get(name) or "", meta) for name in meta.column_names]


def _statistical_fact(name: str, title: str, meta: Any) -> ColumnFacts:
    labels = meta.variable_value_labels.get(name, {})
    kept = {value: label for value, label in labels.items() if not _declared_missing(name, value, meta)}
    kind = _statistical_type(name, meta, list(kept))
    values = tuple((_statistical_text(value), str(label)) for value, label in kept.items())
    measure = meta.variable_measure.get(name)
    missing = bool(meta.missing_ranges.get(name) or meta.missing_user_values.get(name)) or len(kept) < len(labels)
    return ColumnFacts(name, kind, title, values, missing=missing, ordered=measure == "ordinal")


def _declared_missing(name: str, value: object, meta: Any) -> bool:
    """Whether the file says that a value stands for none: SPSS's ranges, Stata's .a to .z."""
    if value in meta.missing_user_values.get(name, ()):
        return True
    ranges = meta.missing_ranges.get(name, ())
    return any(isinstance(r["lo"], str) == isinstance(value, str) and r["lo"] <= value <= r["hi"] for r in ranges)


def _statistical_type(name: str, meta: Any, labelled: list[object]) -> Type | None:
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


def _statistical_text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
