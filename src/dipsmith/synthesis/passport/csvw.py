"""CSVW, CSV on the Web: the columns of every CSV file of a release (W3C, Metadata Vocabulary for Tabular Data)."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from dipsmith.schema import Attribute, Bins
from dipsmith.schema.bins import as_plain
from dipsmith.schema.csvw_eo import TYPES
from dipsmith.synthesis.passport.facts import KEY, PassportFacts

CONTEXT: Final = "http://www.w3.org/ns/csvw"
DATATYPES: Final = {**TYPES, "datetime": "datetime"}
_MOMENT: Final = "yyyy-MM-dd HH:mm:ss.SSSSSS"


def csvw(facts: PassportFacts) -> dict[str, Any]:
    """The description of the synthetic tables that are CSV, and of the codebook."""
    tables = [_table(name, facts) for name in facts.tables if name.endswith(".csv")]
    return {
        "@context": [CONTEXT, {"@language": "en"}],
        "dc:title": facts.title,
        "dc:description": facts.description,
        "dc:date": facts.day,
        "tables": [*tables, _codebook()],
    }


def _table(file: str, facts: PassportFacts) -> dict[str, Any]:
    columns = [_column(a, facts) for a in facts.schema_of(file)]
    described: dict[str, Any] = {"columns": columns}
    if facts.key is not None:
        name, owner = quote(facts.key, safe=""), facts.owner(file)
        key = {"name": name, "titles": facts.key, "dc:description": KEY, "datatype": "integer", "required": True}
        columns.insert(0, key)
        if owner is not None:
            there = {"resource": f"../{owner}", "columnReference": [name]}
            described["foreignKeys"] = [{"columnReference": [name], "reference": there}]
        elif facts.schema.members is not None:
            described["primaryKey"] = [name]
    return {"url": f"../{file}", "tableSchema": described}


def _column(attribute: Attribute, facts: PassportFacts) -> dict[str, Any]:
    described: dict[str, Any] = {"name": quote(attribute.name, safe=""), "titles": attribute.name}
    if attribute.title:
        described["dc:description"] = attribute.title
    verbatim = facts.card.neighbours == "label" and attribute.role == "public"
    return described | {
        "datatype": "string" if verbatim else datatype(attribute),
        "required": not attribute.domain.missing and not verbatim,
    }


def datatype(attribute: Attribute) -> Any:
    """The CSVW datatype of a column, with its bounds; values released as they stand may lie outside them."""
    base, domain = DATATYPES[attribute.type], attribute.domain
    if not isinstance(domain, Bins):
        return base
    if attribute.type == "datetime":
        return {"base": base, "format": _MOMENT}
    ends = {key: as_plain(domain.scale, getattr(domain, key)) for key in ("minimum", "maximum")}
    return {"base": base, **ends}


def _codebook() -> dict[str, Any]:
    names = ("column", "code", "label", "lower", "upper", "type", "role", "note", "title")
    columns = [{"name": n, "titles": n, "datatype": "integer" if n == "code" else "string"} for n in names]
    return {"url": "../codebook.csv", "tableSchema": {"columns": columns}}
