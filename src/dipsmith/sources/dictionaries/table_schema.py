"""Table schemas in JSON or YAML: Frictionless (also in a data package), CSVW and its dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from dipsmith.errors import SourceError
from dipsmith.schema.attribute import Type
from dipsmith.schema.dictionary import ColumnFacts
from dipsmith.schema.markup import Document, read_text

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
    )


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
