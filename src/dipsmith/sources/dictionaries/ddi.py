"""DDI-Codebook (XML): names, labels, categories and valid ranges of variables."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from dipsmith.errors import SourceError
from dipsmith.schema.attribute import Type
from dipsmith.schema.dictionary import ColumnFacts


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
    found = [_fact(node) for node in root.iter() if _tag(node) == "var"]
    if not found:
        raise SourceError(f"{path}: no variable (<var>) is described in it; is it a DDI-Codebook?")
    return found


def _fact(node: ET.Element) -> ColumnFacts:
    categories = [c for c in node if _tag(c) == "catgry"]
    values = tuple((_text(c, "catValu"), _text(c, "labl")) for c in categories if c.get("missing") != "Y")
    span = next((r for valid in node.iter() if _tag(valid) == "valrng" for r in valid if _tag(r) == "range"), None)
    style = next((f for f in node if _tag(f) == "varFormat"), None)
    return ColumnFacts(
        node.get("name") or "",
        _type(node, style),
        _text(node, "labl"),
        values,
        None if span is None else span.get("min"),
        None if span is None else span.get("max"),
        missing=len(values) < len(categories) or any(_tag(n) == "invalrng" for n in node),
        ordered=node.get("nature") == "ordinal",
    )


def _type(node: ET.Element, style: ET.Element | None) -> Type | None:
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


def _text(node: ET.Element, name: str) -> str:
    found = next((n for n in node if _tag(n) == name), None)
    return "" if found is None else " ".join("".join(found.itertext()).split())
