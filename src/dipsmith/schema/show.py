"""A schema as people read it: a table in the terminal, a table in a notebook."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from dipsmith.schema.attribute import Attribute
from dipsmith.schema.bins import show
from dipsmith.schema.domain import DATA_DERIVED, Bins

if TYPE_CHECKING:
    from dipsmith.schema.schema import Schema

HEADER = ("column", "type", "role", "levels", "domain")
_WIDEST = 56
_SIDES = {"low": "below", "high": "above"}


def describe(attribute: Attribute) -> str:
    """Say in a few words what values a column can take.

    >>> from dipsmith.schema.bins import by_width
    >>> describe(Attribute("age", "integer", by_width("integer", 17, 90, 5)))
    '17 to 90 in 15 bins, clipped'
    """
    domain = attribute.domain
    if isinstance(domain, Bins):
        words = f"{_end(domain, domain.minimum)} to {_end(domain, domain.maximum)}"
        ones = domain.whole and len(domain.labels) == domain.maximum - domain.minimum + 1
        beyond = {"none": "clipped", "both": "open at both ends"}.get(domain.open, f"open {_SIDES.get(domain.open)}")
        parts = [words + ("" if ones else f" in {len(domain.labels)} bin{'s' * (len(domain.labels) > 1)}"), beyond]
        parts += [] if domain.spelling is None else [f"written {domain.spelling.words}"]
    else:
        parts = [_shorten(domain.labels)]
        if attribute.levels:
            parts.append("places: " + ", ".join(f"{len(set(x.labels)):,} {x.name}" for x in attribute.levels))
            parts += [f"{len(x.totals):,} public totals by {x.name}" for x in attribute.levels if x.totals]
        if len(domain.values) > len(domain.labels):
            parts.append(f"from {len(domain.values):,} values")
        if domain.other is not None:
            parts.append(f"others to {domain.labels[domain.other]}")
        elif not domain.missing:
            parts.append("other rows dropped")
    return ", ".join([*parts, "or missing"] if domain.missing else parts)


def _end(domain: Bins, value: float) -> str:
    """A bound; of moments the day alone where they begin or end with it."""
    words = show(domain.scale, value).replace("T", " ") if domain.scale == "datetime" else show(domain.scale, value)
    return re.sub(r" (00:00:00|23:59:59(\.9+)?)$", "", words)


def _shorten(labels: tuple[str, ...]) -> str:
    text = " ".join(labels[:12])
    if len(labels) <= 12 and len(text) <= _WIDEST // 2:
        return text
    return f"{labels[0]} … {labels[-1]}"


def _rows(schema: Schema) -> list[tuple[str, ...]]:
    return [(a.name, a.type, a.role, f"{a.size:,}", describe(a)) for a in schema.attributes]


def _facts(schema: Schema) -> list[str]:
    facts = [f"unit: {schema.unit} · neighbours: {schema.neighbours} · {schema.size():,} cells"]
    facts += [f"never: {rule.text}" for rule in schema.rules]
    if schema.provenance != "declared":
        why = " (the domain was read from the rows; releases say so)" if schema.provenance == DATA_DERIVED else ""
        facts.append(f"provenance: {schema.provenance}{why}")
    return facts + [f"note: {note}" for note in schema.notes]


def as_text(schema: Schema) -> str:
    """Draw the schema as an aligned table."""
    rows = [HEADER, *_rows(schema)]
    name, kind, role, levels, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [f"{n:<{name}}  {t:<{kind}}  {r:<{role}}  {s:>{levels}}  {d}".rstrip() for n, t, r, s, d in rows]
    return "\n".join([f"Schema '{schema.name}'", *lines, *_facts(schema)])


def as_html(schema: Schema) -> str:
    """Draw the schema as an HTML table, everything escaped."""
    head = "".join(f"<th scope='col'>{name}</th>" for name in HEADER)
    sides, body = ("left", "left", "left", "right", "left"), ""
    for row in _rows(schema):
        cells = (f"<td style='text-align:{s}'>{escape(c)}</td>" for s, c in zip(sides, row, strict=True))
        body += f"<tr>{''.join(cells)}</tr>"
    facts = "".join(f"<div>{escape(fact)}</div>" for fact in _facts(schema))
    title = f"<caption style='text-align:left'>Schema <b>{escape(schema.name)}</b></caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{facts}"
