"""Data dictionaries as people keep them: a CSV file or an Excel sheet with a line for each column, or for each value.

The header names at least the column (name, variable, column, field); besides, whatever there is of label (title,
description), type (format), values (codes, categories, levels), value and value label, minimum, maximum. Values in one cell
are written ``1 = yes; 2 = no``, ``1 - yes; 2 - no``, ``1 yes; 2 no`` or ``F, M``, a range ``0-120`` or ``0 to 120``, one bound
``>= 0``; where a line has one value, the lines of a column follow each other. In R: ``data.frame(name = names(d), type = sapply(d, function(x) class(x)[1]), values =
sapply(d, function(x) paste(levels(x), collapse = ";")))``, written with ``write.csv``.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from itertools import pairwise
from pathlib import Path

from dipsmith.errors import MissingExtraError, SourceError
from dipsmith.schema.attribute import Type
from dipsmith.schema.dictionary import ColumnFacts
from dipsmith.schema.markup import read_text

_KEYS = {
    "name": ("name", "variable", "column", "field", "variable name", "column name", "field name", "var"),
    "title": ("label", "title", "description", "variable label", "variable description", "definition", "question"),
    "type": ("type", "format", "data type", "datatype", "variable type", "class"),
    "values": (
        "values", "codes", "categories", "levels", "allowed values", "possible values", "valid values", "value labels",
        "response options", "coding", "range", "valid range", "value range", "enum",
    ),
    "value": ("value", "code", "level"),
    "value label": ("value label", "meaning", "code label", "value description"),
    "minimum": ("minimum", "min", "minimum value", "min value", "from", "lower"),
    "maximum": ("maximum", "max", "maximum value", "max value", "to", "upper"),
    "missing": ("missing", "nullable", "optional"),
}  # fmt: skip
_TYPES: tuple[tuple[str, Type], ...] = (
    ("datetime|timestamp|time|posix", "datetime"), ("date", "date"), ("bool|logical", "boolean"), ("int|whole|year|count", "integer"),
    ("num|float|double|decimal|real|money|currency", "number"), ("char|text|str|factor|categor|nominal|ordinal", "string"),
)  # fmt: skip
_DAY, _NUMBER = r"\d{4}-\d\d-\d\d", r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(
    rf"\s*\[?(?P<low>{_DAY}(?!\s*-)|{_NUMBER})\s*(?:-|–|—|\.\.+|…|\bto\b)\s*(?P<high>{_DAY}|{_NUMBER})\]?\s*"
)
_BOUND = re.compile(rf"\s*(?P<sign>>=?|≥|<=?|≤|at least|at most)\s*(?P<bound>{_NUMBER})\s*")
_LABELS = (re.compile(r"(\S+)\s+[-–—]\s+(.*\S)"), re.compile(r"(-?\d+)\s+([^\W\d].*)"))
"""A value, and its label behind a dash, or behind a blank where the value is a whole number."""


def read_listing(path: Path) -> list[ColumnFacts]:
    """The facts of a data dictionary in CSV or Excel."""
    rows = _sheet(path) if path.suffix.lower() == ".xlsx" else _read_delimited(path)
    header = [_heading(cell) for cell in rows[0]] if rows else []
    at = {key: next((header.index(n) for n in names if n in header), None) for key, names in _KEYS.items()}
    if at["name"] is None:
        raise SourceError(
            f"{path}: its first line names no column 'name' (or variable, column, field), as a data dictionary does"
        )
    if sum(i is not None for i in at.values()) == 1 < len(header):
        raise SourceError(
            f"{path}: its first line names nothing that a draft can use beside the columns' names; call it label, type, "
            "values, minimum, maximum or missing"
        )
    found: dict[str, list[dict[str, str]]] = {}
    current = ""
    for row in rows[1:]:
        entry = {key: row[i].strip() if i is not None and i < len(row) else "" for key, i in at.items()}
        current = entry["name"] or current
        if current:
            found.setdefault(current, []).append(entry)
    return [_fact(name, entries) for name, entries in found.items()]


def _heading(cell: str) -> str:
    """A heading without what does not matter in it.

    >>> _heading("Min."), _heading(" Value(s): "), _heading("Variable_Name*")
    ('min', 'values', 'variable name')
    """
    return " ".join(re.sub(r"[_.:*]", " ", cell.lower().replace("(s)", "s")).split())


def _fact(name: str, entries: list[dict[str, str]]) -> ColumnFacts:
    first = {key: next((e[key] for e in entries if e[key]), "") for key in _KEYS}
    values = [(e["value"], e["value label"]) for e in entries if e["value"]]
    if len({e["title"] for e in entries}) > 1 and not first["value label"] and all(e["value"] for e in entries):
        values, first["title"] = (
            [(e["value"], e["title"]) for e in entries],
            "",
        )  # a label of each value, not of the column
    span = None if values else _read_range(first["values"])
    listed = [] if span else values or _values(first["values"])
    kind = next((t for words, t in _TYPES if re.search(words, first["type"].lower())), None)
    ends = [first["minimum"] or (span or {}).get("low", ""), first["maximum"] or (span or {}).get("high", "")]
    if span or (kind is None and any(ends) and not listed):
        kind = kind if kind in ("integer", "number", "date", "datetime") else _kind_of(ends)
    return ColumnFacts(
        name,
        kind or ("string" if listed else None),
        first["title"],
        tuple(listed),
        ends[0] or None,
        ends[1] or None,
        missing=first["missing"].lower() in ("true", "yes", "y", "1"),
        ordered="ordinal" in first["type"].lower() or "ordered" in first["type"].lower(),
    )


def _kind_of(ends: list[str]) -> Type | None:
    """The type of bounds, where nobody says it; None where one is no number and no date.

    >>> _kind_of(["0", "99"]), _kind_of(["0", "1.5"]), _kind_of(["", "2020-12-31"]), _kind_of(["young", "old"])
    ('integer', 'number', 'date', None)
    """
    said = [end for end in ends if end]
    if all(re.fullmatch(_DAY, end) for end in said):
        return "date"
    if not all(re.fullmatch(_NUMBER, end) for end in said):
        return None
    return "number" if any("." in end for end in said) else "integer"


def _read_range(cell: str) -> dict[str, str] | None:
    """The bounds that a cell states, an empty one where it states one alone; None where it states none.

    >>> _read_range("0 to 120"), _read_range(">= 0"), _read_range("<=50K")
    ({'low': '0', 'high': '120'}, {'low': '0', 'high': ''}, None)
    """
    if span := _RANGE.fullmatch(cell):
        return span.groupdict()
    if alone := _BOUND.fullmatch(cell):
        below = alone["sign"][0] in ">≥" or alone["sign"] == "at least"
        return {"low": alone["bound"] if below else "", "high": "" if below else alone["bound"]}
    return None


def _values(cell: str) -> list[tuple[str, str]]:
    """The values that one cell lists; none where a range stands among codes, for then they are not all.

    >>> _values("1 = yes; 2 = no"), _values("<=50K | >50K"), _values("0-98; 99 = refused")
    ([('1', 'yes'), ('2', 'no')], [('<=50K', ''), ('>50K', '')], [])
    >>> _values("1 - yes; 2 - no"), _values("1 yes, 2 no"), _values("1 room, 2 rooms")
    ([('1', 'yes'), ('2', 'no')], [('1', 'yes'), ('2', 'no')], [('1 room', ''), ('2 rooms', '')])
    """
    parts = [part.strip() for part in re.split(r"[;|\n]" if re.search(r"[;|\n]", cell) else ",", cell) if part.strip()]
    if found := _split_labels(parts):
        return found
    # neither a comparison (<=50K) nor a time (08:30) is a value with its label
    pairs = [re.split(r"(?<=[^<>!=\s])\s*(?:=|:(?!\d))\s*", part, maxsplit=1) for part in parts]
    ranges = sum(_RANGE.fullmatch(pair[0]) is not None for pair in pairs)
    if ranges == 1 and any(len(pair) > 1 for pair in pairs):
        return []
    return [(pair[0], pair[1] if len(pair) > 1 else "") for pair in pairs]


def _split_labels(parts: list[str]) -> list[tuple[str, str]]:
    """Values and labels that a dash or a blank keeps apart, where that can be meant: none for ranges, counts (1 room, 2 rooms)."""
    if len(parts) < 2 or any(_RANGE.fullmatch(part) for part in parts):
        return []
    for form in _LABELS:
        pairs = [(match[1], match[2]) for part in parts if (match := form.fullmatch(part))]
        labels = sorted(label.casefold() for _, label in pairs)
        alike = any(after.startswith(label) for label, after in pairwise(labels))
        if len({value for value, _ in pairs}) == len(parts) and not alike:
            return pairs
    return []


def _read_delimited(path: Path) -> list[list[str]]:
    text = read_text(path, "data dictionary", 50_000_000)
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    try:
        return [row for row in csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error as error:
        raise SourceError(f"{path}: not readable as csv ({error}); check the quotes") from None


def _sheet(path: Path) -> list[list[str]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingExtraError.of("Reading Excel files", "formats") from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        rows = [
            ["" if cell is None else str(cell) for cell in row]
            for row in book.worksheets[0].iter_rows(values_only=True)
        ]
    except Exception:  # noqa: BLE001  # whatever the reader of another library raises
        raise SourceError(f"{path}: not a readable Excel workbook; save the sheet as CSV") from None
    return [row for row in rows if any(row)]
