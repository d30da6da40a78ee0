"""A schema as CSVW-EO and back: the vocabulary of the Swiss Data Science Competence Centre for public assumptions.

CSVW-EO extends W3C's CSV on the Web by what differential privacy takes to be public: whose presence is protected, how
many rows one may have, bounds and keys of columns (https://github.com/dscc-admin-ch/csvw-eo). What a schema says beyond
it — the neighbouring relation, where other values go, rules, planned analyses — stands beside it in terms of our own, so
that a schema which is written and read again is the same schema. A document of others has none of these: its relation
and its roles are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.bins import as_plain
from dipsmith.schema.domain import Bins
from dipsmith.schema.schema import Schema
from dipsmith.schema.writing import to_dict

CONTEXT: Final = (
    "http://www.w3.org/ns/csvw",
    "https://w3id.org/csvw-eo/context",
    {"dips": "https://w3id.org/dipsmith/terms#"},
)
TYPES: Final = {
    "string": "string",
    "integer": "integer",
    "number": "double",
    "boolean": "boolean",
    "date": "date",
    "datetime": "dateTime",
}
_READ: Final = {
    **{there: here for here, there in TYPES.items()},
    **dict.fromkeys(("float", "decimal", "number"), "number"),
    **dict.fromkeys(("int", "long", "short", "positiveInteger", "unsignedInt"), "integer"),
    "datetime": "datetime",
}


def to_csvw_eo(schema: Schema) -> dict[str, Any]:
    """The schema as CSVW-EO, exactly: `from_csvw_eo` makes an equal schema of it.

    One table; households and their members are a group of two, of which the second leads to the first.
    """
    ours: dict[str, Any] = json.loads(json.dumps(to_dict(schema)))
    table = _table(schema, ours.pop("fields"))
    if schema.members is None:
        return {"@context": list(CONTEXT), **table, "dips:schema": ours}
    people = schema.members.schema
    member = _table(people, ours["members"].pop("fields"))
    table["tableSchema"] |= {"@id": schema.name, "primaryKey": schema.unit.column}
    there = {"schemaReference": schema.name, "columnReference": schema.unit.column}
    member["tableSchema"] |= {"foreignKeys": [{"columnReference": people.unit.column, "reference": there}]}
    return {"@context": list(CONTEXT), "@type": "TableGroup", "tables": [table, member], "dips:schema": ours}


def from_csvw_eo(document: Any, *, name: str | None = None, neighbours: str | None = None) -> Schema:
    """The schema of a CSVW-EO table, or of our group of two; `name` and `neighbours` for one that does not say them."""
    ours = document.get("dips:schema") if isinstance(document, Mapping) else None
    if isinstance(ours, Mapping) and "tables" in document:
        fields = [_our_fields(table) for table in document["tables"]]
        if len(fields) != 2 or not isinstance(ours.get("members"), Mapping):
            raise SchemaError("a group of tables is one of households and one of their members")
        return Schema.from_dict({**ours, "fields": fields[0], "members": {**ours["members"], "fields": fields[1]}})
    if isinstance(ours, Mapping):
        return Schema.from_dict({**ours, "fields": _our_fields(document)})
    told = _told_columns(document)
    if name is None or neighbours is None:
        raise SchemaError("this document does not say how the table is called and what neighbours are: give both")
    unit: Any = document.get("privacyUnit")
    most = document.get("maxContributions") or 1
    described: dict[str, Any] = {
        "name": name,
        "unit": "row" if unit is None else {"column": unit, "max_rows": most},
        "neighbours": neighbours,
        "fields": [_field(c) for c in told if c["name"] != unit],
    }
    if isinstance(document.get("publicLength"), int):
        described["rows"] = document["publicLength"]
    return Schema.from_dict(described)


def _table(schema: Schema, fields: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One table: whose presence is protected, how many rows they may have, and its columns."""
    unit = schema.unit
    columns = [_column(a, field) for a, field in zip(schema, fields, strict=True)]
    if unit.column is not None:
        columns.insert(0, {"@type": "Column", "name": unit.column, "datatype": "string", "privacyId": True})
    table = {
        "@type": "Table",
        "privacyUnit": unit.column,
        "maxContributions": unit.max_rows,
        "publicLength": schema.known_rows,
        "tableSchema": {"columns": columns},
    }
    return {key: value for key, value in table.items() if value is not None}


def _told_columns(table: Any) -> list[Mapping[str, Any]]:
    """The columns of a table, without that of the unit."""
    if not isinstance(table, Mapping) or not isinstance(table.get("tableSchema"), Mapping):
        raise SchemaError("this is not a CSVW-EO table: it has no tableSchema")
    columns = table["tableSchema"].get("columns")
    if not isinstance(columns, list) or not all(isinstance(c, Mapping) and "name" in c for c in columns):
        raise SchemaError("this is not a CSVW-EO table: tableSchema has no columns with names")
    return [c for c in columns if not c.get("privacyId")]


def _our_fields(table: Any) -> list[Any]:
    return [c.get("dips:field") for c in _told_columns(table)]


def _column(attribute: Attribute, field: Mapping[str, Any]) -> dict[str, Any]:
    domain = attribute.domain
    column: dict[str, Any] = {"@type": "Column", "name": attribute.name, "datatype": TYPES[attribute.type]}
    if attribute.title:
        column["titles"] = attribute.title
    column["required"] = not domain.missing
    if isinstance(domain, Bins):
        column |= {key: as_plain(domain.scale, getattr(domain, key)) for key in ("minimum", "maximum")}
    else:
        column |= {"keyValues": list(domain.values), "exhaustiveKeys": not domain.total}
    return {**column, "dips:field": field}


def _field(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column of others: its keys are the list of its values, others go to the last; its bounds are its bounds."""
    kind = _READ.get(str(column.get("datatype")))
    if kind is None:
        raise SchemaError(f"column '{column['name']}': datatype {column.get('datatype')} is not one that a schema has")
    field: dict[str, Any] = {"name": column["name"], "type": kind}
    keys = column.get("keyValues") or [
        p["predicate"]["partitionValue"]
        for p in column.get("publicPartitions") or ()
        if "partitionValue" in p.get("predicate", {})
    ]
    if keys and kind != "boolean":
        field |= {"type": "integer" if kind == "integer" else "string", "enum": keys, "other": keys[-1]}
    elif kind not in ("boolean", "string"):
        if "minimum" not in column or "maximum" not in column:
            raise SchemaError(
                f"column '{column['name']}' has neither keys nor both bounds, which are public facts: add them"
            )
        field |= {"minimum": column["minimum"], "maximum": column["maximum"]}
    elif kind == "string":
        raise SchemaError(
            f"column '{column['name']}' is text without a list of keys, which is a public fact: add keyValues"
        )
    return field | ({"missing": True} if column.get("required") is False else {})
