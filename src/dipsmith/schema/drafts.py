"""First drafts of a schema file: from a header alone, or by peeking at the rows.

A draft from the header reads no row, so what it says is public. A peek reads the rows and writes what
it saw — levels, bounds, whether values are missing — so its result is a function of private data
without any noise. It is marked ``provenance: data-derived``, every release made with it repeats the
mark, and a steward who replaces the levels by public code lists may remove it.

Neither chooses unit or neighbours: they say what ε means, and reading the draft without them fails
with an explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from math import ceil, floor, inf, isfinite, log10
from typing import Any

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import is_whole
from dipsmith.schema.bins import MAX_DAYS, number
from dipsmith.schema.markup import Line, render, render_wide
from dipsmith.schema.schema import Unit

MOST_LEVELS = 1_000
"""A text column with more different values than this is taken for free text: its enum is left open."""
MOST_SINGLE = 200
"""An integer column with a longer range than this is cut into bins."""

_KINDS = ("boolean", "integer", "number", "date", "datetime")
"""The types that a peek tries, the narrowest first."""

_OPENING = """\
# {what}
# unit: whose presence is protected: row, or {{column: person_id, max_rows: 3}} (optionally per: year).
# neighbours: what must not be told apart: add-remove, replace or label.
# Delete the columns that are not to be released (names, identifiers, free text).
{name}unit:
neighbours:
"""
_UNSAID = (
    "# unit: whose presence is protected: row, or {column: person_id, max_rows: 3} (optionally per: year).",
    "# neighbours: what must not be told apart: add-remove, replace or label.",
    "# Delete the columns that are not to be released (names, identifiers, free text).",
)
_WIDEST = 110
_HEADER_ONLY = """\
# type: string, integer, number, boolean, date or datetime.
# string: add enum: [a, b, c] or enum: codes.csv, and other: LABEL or missing: true.
# integer, number, date, datetime: add minimum, maximum and, if need be, bins: {width: 5}.
"""


def draft(header: Sequence[str], name: str) -> str:
    """Write a draft from the names of the columns; no row is read.

    >>> print(draft(["age", "sex"], "people").splitlines()[-1])
    - {name: sex, type: , role: private}
    """
    _check(header)
    rows = [Line(name=column, type=None, role="private") for column in header]
    listed = render({"fields": rows}).replace("type: null, role: private}", "type: , role: private}")
    what = "A draft from the header; no row was read. Give every column its type and its public domain."
    return _OPENING.format(what=what, name=render({"name": name})) + _HEADER_ONLY + listed


def commented_draft(
    name: str,
    fields: Sequence[tuple[str, Mapping[str, object] | None, str]],
    *,
    what: str,
    unit: Unit | None = None,
    neighbours: str | None = None,
    provenance: str | None = None,
) -> str:
    """A draft with a line of reason above every field; a column without keys is left to the steward, commented out.

    >>> print(commented_draft("t", [("a", {"name": "a", "type": "boolean"}, "yes or no")], what="A draft.").splitlines()[-1])
    - {name: a, type: boolean}
    """
    head: dict[str, object] = {"name": name}
    if unit is not None:
        head["unit"] = "row" if unit.column is None else Line(column=unit.column, max_rows=unit.max_rows)
    if neighbours is not None:
        head["neighbours"] = neighbours
    if provenance is not None:
        head["provenance"] = provenance
    lines = [f"# {what}", *(() if unit is not None else _UNSAID), *_plain_lines(head), *(() if unit else ("unit:",))]
    lines += [*(() if neighbours else ("neighbours:",)), "fields:"]
    for column, keys, reason in fields:
        lines.append(f"# {_one_line(column)}: {_one_line(reason)}")
        entry = _field_lines(Line(keys or {"name": column, "type": None, "role": "private"}))
        lines += entry if keys is not None else [f"# {line}" for line in entry]
    return "\n".join(lines) + "\n"


def _field_lines(entry: Line) -> list[str]:
    """A field in flow style where it fits a line, else key by key, and a long list one value a line: labels are never wrapped."""
    (flat,) = _plain_lines([entry])
    if len(flat) <= _WIDEST:
        return [flat.replace("type: null", "type: ").replace("enum: null", "enum: ")]
    lines = []
    for key, value in entry.items():
        line = _plain_lines(Line({key: value}))[0][1:-1]
        if len(line) > _WIDEST and isinstance(value, list):
            lines += [f"{key}:", *(f"  - {_plain_lines([item])[0][2:]}" for item in value)]
        else:
            lines.append(line)
    return [("- " if i == 0 else "  ") + line for i, line in enumerate(lines)]


def _plain_lines(value: object) -> list[str]:
    return render_wide(value).splitlines()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def peek(batches: Iterable[Any], name: str) -> str:
    """Write a draft from the rows themselves (Arrow record batches), marked data-derived.

    Privacy
    -------
    Reads every private value and writes levels and bounds as they are: not differentially private.
    The result carries ``provenance: data-derived``, which schema, card and report repeat.
    """
    columns: dict[str, _Column] = {}
    for batch in batches:
        if not columns:
            _check(batch.schema.names)
            columns = {column: _Column() for column in batch.schema.names}
        for column, values in zip(batch.schema.names, batch.columns, strict=True):
            columns[column].add(values)
    rows = [_entry(column, found) for column, found in columns.items()]
    what = "A draft from the rows: levels and bounds were read from the data and are not protected."
    text = render({"fields": rows}).replace("enum: null", "enum: ")
    return _OPENING.format(what=what, name=render({"name": name})) + "provenance: data-derived\n" + text


def _check(header: Sequence[str]) -> None:
    if not header:
        raise SchemaError("the header names no column; check the file's first line")
    for i, column in enumerate(header):
        if not str(column).strip():
            raise SchemaError(f"the header's column {i + 1} has no name; name it")
        if column in header[:i]:
            raise SchemaError(f"column '{column}' is in the header twice; names must differ")


@dataclass
class _Column:
    """What all values of one column so far allow: its possible types, levels and bounds."""

    kinds: set[str] = field(default_factory=lambda: set(_KINDS))
    levels: dict[str, None] = field(default_factory=dict)
    low: Any = None
    high: Any = None
    missing: bool = False

    def add(self, values: Any) -> None:
        import pyarrow.compute as pc

        for value in pc.unique(values).to_pylist():
            text = value.strip(" ") if isinstance(value, str) else value
            if text is None or text == "" or (isinstance(text, float) and text != text):
                self.missing = True
            else:
                self._note(text)

    def _note(self, value: Any) -> None:
        points = {kind: _read(kind, value) for kind in _KINDS if kind in self.kinds}
        self.kinds = {kind for kind, point in points.items() if point is not None}
        point = next((p for kind, p in points.items() if p is not None and kind != "boolean"), None)
        if point is not None:
            self.low = point if self.low is None else min(self.low, point)
            self.high = point if self.high is None else max(self.high, point)
        if len(self.levels) <= MOST_LEVELS:
            self.levels[str(value)] = None


def _read(kind: str, value: Any) -> Any:
    """The value as a point of one kind, or None when it is not of that kind."""
    text = str(value).strip(" ")
    try:
        if kind == "boolean":
            return True if text.lower() in ("true", "false", "yes", "no") else None
        if kind == "integer":
            return int(float(text)) if is_whole(text.removesuffix(".0")) else None
        if kind == "number":
            return float(text) if isfinite(float(text)) else None
        if kind == "date":
            date.fromisoformat(text)
        # A datetime without its zone; a plain date is its midnight, so that both kinds compare.
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None


def _entry(name: str, seen: _Column) -> Line:
    kind = "string" if not seen.levels else next((k for k in _KINDS if k in seen.kinds), "string")
    entry: dict[str, object] = {"name": name, "type": kind}
    if kind == "string":
        entry["enum"] = sorted(seen.levels) if 0 < len(seen.levels) <= MOST_LEVELS else None
    elif kind in ("integer", "number"):
        low, high = _round_out(seen.low, seen.high, whole=kind == "integer")
        entry |= {"minimum": low, "maximum": high}
        if kind == "number" or high - low >= MOST_SINGLE:
            entry["bins"] = {"count": 20}
    elif kind in ("date", "datetime"):
        first, last = date(seen.low.year, 1, 1), date(seen.high.year, 12, 31)
        entry |= {"minimum": str(first), "maximum": str(last) + "T23:59:59" * (kind == "datetime")}
        if (last - first).days >= MAX_DAYS:
            entry["bins"] = {"width": "month"}
    if seen.missing or kind == "string":
        entry["missing"] = True
    return Line(entry, role="private")


def _round_out(low: float, high: float, *, whole: bool) -> tuple[Any, Any]:
    """Bounds a little wider than what was seen, in round numbers."""
    if high == low:
        high = low + 1
    step = 10.0 ** floor(log10(high - low) - 0.5) if isfinite(high - low) else inf
    step = max(step, 1.0) if whole else step
    low, high = floor(low / step) * step, ceil(high / step) * step
    return (int(low), int(high)) if whole else (number(float(f"{low:.12g}")), number(float(f"{high:.12g}")))
