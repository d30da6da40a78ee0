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
from dipsmith.schema.bins import plain, recipe
from dipsmith.schema.domain import Bins, Categories
from dipsmith.schema.markup import Line, render
from dipsmith.schema.rules import condition_of

if TYPE_CHECKING:
    from dipsmith.schema.schema import Schema


def to_dict(schema: Schema) -> dict[str, object]:
    """The schema as plain data; `from_dict` makes an equal schema of it."""
    unit = Line({key: value for key, value in asdict(schema.unit).items() if value is not None})
    document: dict[str, object] = {
        "name": schema.name,
        "unit": "row" if schema.unit.column is None else unit,
        "neighbours": schema.neighbours,
        "fields": [_field(a) for a in schema.attributes],
    }
    if schema.rules:
        document["rules"] = [
            Line(never={name: condition_of(schema[name], codes) for name, codes in rule.never})
            for rule in schema.rules
        ]
    if schema.provenance != "declared":
        document["provenance"] = schema.provenance
    if schema.notes:
        document["notes"] = list(schema.notes)
    return document


def _field(attribute: Attribute) -> Line:
    domain = attribute.domain
    field = Line(name=attribute.name, type=attribute.type)
    if attribute.title:
        field["title"] = attribute.title
    if isinstance(domain, Bins):
        field["minimum"] = plain(domain.scale, domain.minimum)
        field["maximum"] = plain(domain.scale, domain.maximum)
        cut = recipe(domain)
        if cut is not None:
            field["bins"] = cut
    elif attribute.type != "boolean":
        whole = attribute.type == "integer"
        field["enum"] = [int(v) if whole else v for v in domain.values]
        if domain.labels != domain.values:
            field["collapse"] = _collapse(domain)
        if domain.ordered:
            field["ordered"] = True
        if domain.other is not None:
            field["other"] = domain.values[domain.codes.index(domain.other)]
    if domain.missing:
        field["missing"] = True
    field["role"] = attribute.role
    return field


def _collapse(domain: Categories) -> dict[str, object]:
    length = max(map(len, domain.labels))
    mapping = {v: domain.labels[c] for v, c in zip(domain.values, domain.codes, strict=True)}
    if all(label == v[:length].rstrip(" ") for v, label in mapping.items()):
        return {"prefix": length}
    return {"map": {v: label for v, label in mapping.items() if v != label}}


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
