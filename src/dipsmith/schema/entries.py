"""The schema file as a steward writes it: which keys exist, and what is said when one is wrong.

The models hold the file's structure only; what the values mean is decided in `files`, column by
column. Every complaint is one line that names the column, the key and the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Role, Type
from dipsmith.schema.schema import Neighbours, Provenance

UNIT_HELP = (
    "it says whose presence is protected: write 'unit: row', or for people with several rows "
    "'unit: {column: person_id, max_rows: 3}'"
)
NEIGHBOURS_HELP = (
    "it says what must not be told apart: 'add-remove' (a row is there or not), 'replace' (a row differs, "
    "the number of rows is public) or 'label' (only columns with role: private differ)"
)
WEIGHT_HELP = (
    "survey weights are not supported yet: a weighted count can change by more than 1 when one row changes, "
    "so the noise would protect too little; remove it"
)


def _text(value: Any) -> Any:
    """Accept Python and JSON scalars where the file has text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None or isinstance(value, (str, list, dict, tuple)) else str(value)


Text = Annotated[str, BeforeValidator(_text)]


class Entry(BaseModel):
    """A mapping of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BinsEntry(Entry):
    """How a number or a time is cut; exactly one of count, width, edges, round."""

    count: int | None = None
    width: Text | None = None
    edges: list[Text] | None = None
    round: Text | None = None
    labels: list[Text] | None = None


class CollapseEntry(Entry):
    """How values are grouped into labels; exactly one of prefix, file, map."""

    prefix: int | None = None
    file: str | None = None
    map: dict[Text, Text] | None = None


class FieldEntry(Entry):
    """One column."""

    name: Text
    type: Type
    title: Text = ""
    role: Role = "private"
    enum: str | list[Text] | None = None
    minimum: Text | None = None
    maximum: Text | None = None
    bins: BinsEntry | None = None
    collapse: CollapseEntry | None = None
    other: Text | None = None
    missing: bool = False
    ordered: bool = False


class UnitEntry(Entry):
    """A unit of protection that has several rows."""

    column: Text
    max_rows: int
    per: Text | None = None


class RuleEntry(Entry):
    """One impossible combination."""

    never: dict[Text, Any]


class SchemaEntry(Entry):
    """The whole file."""

    name: Text
    unit: Literal["row"] | dict[str, Any]
    neighbours: Neighbours
    fields: list[FieldEntry]
    rules: list[RuleEntry] = []
    provenance: Provenance = "declared"
    notes: list[Text] = []


_KEYS: dict[str, type[Entry]] = {
    "fields": FieldEntry,
    "bins": BinsEntry,
    "collapse": CollapseEntry,
    "rules": RuleEntry,
    "unit": UnitEntry,
}

_NEEDED = {
    "name": "a short name",
    "type": f"one of {', '.join(get_args(Type))}",
    "unit": UNIT_HELP,
    "neighbours": NEIGHBOURS_HELP,
    "fields": "the list of columns: 'fields:' followed by '- {name: age, type: integer, …}' for each",
    "never": "the combination that cannot happen: '- {never: {age: {below: 20}, occupation: \"06\"}}'",
    "column": "the column that identifies the unit",
    "max_rows": "the most rows of one unit that are counted; the noise grows with it",
}

_FREQUENCY_HELP = (
    "merging by how often a value occurs in the private rows would reveal single rows; use a code list, or "
    "Schema.collapse with the frequencies of a public table"
)

_ADVICE = {
    "below": _FREQUENCY_HELP,
    "frequency": _FREQUENCY_HELP,
    "min_count": _FREQUENCY_HELP,
    "threshold": _FREQUENCY_HELP,
    "weight": WEIGHT_HELP,
    "weights": WEIGHT_HELP,
    "constraints": "write enum, minimum and maximum directly under the column",
    "values": "the list of values is called enum",
    "categories": "the list of values is called enum",
    "levels": "the list of values is called enum",
    "columns": "the list of columns is called fields",
    "description": "use title",
    "label": "use title",
    "neighbors": "it is spelled neighbours",
    "default": "say where values outside the domain go with other or missing",
    "format": "dates and datetimes are ISO 8601 (2011-12-31)",
}

E_ = TypeVar("E_", bound=Entry)


def validate(model: type[E_], data: object, place: str = "") -> E_:
    """Check the structure of (a part of) a schema file.

    Raises
    ------
    SchemaError
        One line, for the first problem found.
    """
    if not isinstance(data, Mapping):
        # A whole file that is no mapping may be the private table, given in the schema's place: not quoted.
        got = _short(data) if place or not isinstance(data, str) else "plain text; is it a schema file?"
        raise SchemaError(f"{place or 'the schema'} must be a mapping of keys to values, got {got}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # a key that is not known usually explains the one that is missing
        first = min(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        raise SchemaError(_explain(first, data, place)) from None


def _explain(error: Any, data: Mapping[str, Any], place: str) -> str:
    path = [
        part for part in error["loc"] if part not in ("str", "list[str]", "literal['row']", "dict[str,any]")
    ]
    path = [
        part for part in path if not str(part).startswith(("function-before", "list[", "dict[", "literal["))
    ]
    where, key = _locate(path, data, place)
    kind, got = error["type"], _short(error["input"])
    if kind == "extra_forbidden":
        model = _KEYS.get(_parent(path, place), SchemaEntry)
        advice = _ADVICE.get(key)
        close = get_close_matches(key, list(model.model_fields), 1, 0.6)
        hint = advice or (
            f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(model.model_fields)}"
        )
        return f"{where}unknown key '{key}'; {hint}"
    if kind == "missing":
        return f"{where or 'the schema: '}'{key}' is missing; {_NEEDED.get(key, 'add it')}"
    if key == "role" and "weight" in str(error["input"]).lower():
        return f"{where}role {got} is refused; {WEIGHT_HELP}"
    if key == "unit":
        return f"unit is {got}; {UNIT_HELP}"
    if key == "neighbours":
        return f"neighbours is {got}; {NEIGHBOURS_HELP}"
    wanted = error["msg"].removeprefix("Input should be ").removeprefix("a valid ").split(", unable")[0]
    if kind == "model_type":
        wanted = "a mapping of keys to values"
    return f"{where}{key} must be {wanted}, got {got}"


def _parent(path: Sequence[Any], place: str) -> str:
    names = [p for p in path[:-1] if isinstance(p, str)]
    return names[-1] if names else place


def _locate(path: Sequence[Any], data: Mapping[str, Any], place: str) -> tuple[str, str]:
    """Words for the place of an error, and its key."""
    if len(path) > 1 and path[0] in ("fields", "rules") and isinstance(path[1], int):
        item = data[path[0]][path[1]]
        name = item.get("name") if isinstance(item, Mapping) else None
        kind = "column" if path[0] == "fields" else "rule"
        where = f"{kind} '{name}': " if name else f"{kind} {path[1] + 1}: "
        rest = [str(p) for p in path[2:] if isinstance(p, str)]
        if not rest:
            return where, "the entry"
        return where + "".join(f"{p}: " for p in rest[:-1]), rest[-1]
    names = [str(p) for p in path if isinstance(p, str)]
    prefix = f"{place}: " if place else ""
    return prefix + "".join(f"{p}: " for p in names[:-1]), names[-1] if names else "the schema"


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = " ".join(str(value).split())
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
