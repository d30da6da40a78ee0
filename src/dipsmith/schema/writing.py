"""Writing schemas: one canonical form, which depends on the meaning alone and reads back equal.

The digest is taken of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dipsmith.errors import OutputError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.bins import as_plain, recipe, show_precision
from dipsmith.schema.domain import Bins, Categories
from dipsmith.schema.markup import Line, render
from dipsmith.schema.rules import condition_of

if TYPE_CHECKING:
    from dipsmith.schema.households import Members
    from dipsmith.schema.schema import Schema


def to_dict(schema: Schema) -> dict[str, object]:
    """The schema as plain data; `from_dict` makes an equal schema of it."""
    rules = [Line(never={n: condition_of(schema[n], codes) for n, codes in rule.never}) for rule in schema.rules]
    document: dict[str, object] = {
        "name": schema.name,
        "unit": "row" if schema.unit.column is None else _without_blanks(asdict(schema.unit)),
        "neighbours": schema.neighbours,
        "fields": [_field(a) for a in schema.attributes],
        "rules": rules or None,
        "provenance": None if schema.provenance == "declared" else schema.provenance,
        "notes": list(schema.notes) or None,
        "analyses": [a.to_dict() for a in schema.analyses] or None,
        "rows": schema.known_rows,
    }
    if schema.members is not None:
        document |= _households(schema, schema.members, rules)
    return dict(_without_blanks(document))


def _households(schema: Schema, members: Members, rules: list[Line]) -> dict[str, object]:
    """What a schema of households says otherwise, or besides."""
    known = {a.name: a for a in (*schema.attributes, *members.schema.attributes)}
    across = [Line(never={n: condition_of(known[n], codes) for n, codes in rule.never}) for rule in members.rules]
    given = ("unit", "neighbours")  # of the household, and its members'
    return {
        "unit": schema.unit.protects or "household",
        "rules": [*rules, *across] or None,
        "members": {key: value for key, value in to_dict(members.schema).items() if key not in given},
        "key": schema.unit.column,
        "max_members": members.schema.unit.max_rows,
        "order": members.order,
    }


def _without_blanks(entry: dict[str, object]) -> Line:
    return Line({key: value for key, value in entry.items() if value is not None})


def _field(attribute: Attribute) -> Line:
    domain = attribute.domain
    field: dict[str, object] = {"name": attribute.name, "type": attribute.type, "title": attribute.title or None}
    if isinstance(domain, Bins):
        field |= {key: as_plain(domain.scale, getattr(domain, key)) for key in ("minimum", "maximum")}
        field["open"] = None if domain.open == "none" else domain.open
        field["bins"] = recipe(domain)
        field["precision"] = show_precision(domain)
        field |= {} if domain.spelling is None else domain.spelling.keys
    elif attribute.type != "boolean":
        field["enum"] = [int(v) for v in domain.values] if attribute.type == "integer" else list(domain.values)
        field["collapse"] = _collapse(domain) if domain.labels != domain.values else None
        field["ordered"] = domain.ordered or None
        field |= _places(attribute)
        field["other"] = None if domain.other is None else domain.values[domain.codes.index(domain.other)]
    last = {"missing": domain.missing or None, "role": attribute.role, "fixed": attribute.fixed or None}
    return _without_blanks(field | last)


def _collapse(domain: Categories) -> dict[str, object]:
    length = max(map(len, domain.labels))
    mapping = {v: domain.labels[c] for v, c in zip(domain.values, domain.codes, strict=True)}
    if all(label == v[:length].rstrip(" ") for v, label in mapping.items()):
        return {"prefix": length}
    return {"map": {v: label for v, label in mapping.items() if v != label}}


def _places(attribute: Attribute) -> dict[str, object]:
    """Levels by the length of their codes where that says it, else by the place of every value; and public totals."""
    levels: dict[str, object] = {}
    for level in attribute.levels:
        length = max(map(len, level.labels))
        pairs = zip(attribute.domain.labels, level.labels, strict=True)
        levels[level.name] = length if all(v[:length] == label for v, label in pairs) else list(level.labels)
    totals = {level.name: dict(level.totals) for level in attribute.levels if level.totals}
    return {"hierarchy": levels or None, "totals": totals or None}


def write(schema: Schema, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the schema as canonical YAML, whole or not at all."""
    file = Path(path)
    if file.exists() and not overwrite:
        raise OutputError(f"{file} exists already; choose another name or say overwrite=True")
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(to_yaml(schema))
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except OSError as error:
        raise OutputError(f"{file} cannot be written ({error.strerror})") from None


def to_yaml(schema: Schema) -> str:
    """The canonical YAML text."""
    return render(to_dict(schema))


def digest(schema: Schema) -> str:
    """SHA-256 of the canonical form: two schemas with one digest mean the same."""
    canonical = json.dumps(to_dict(schema), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
