"""The schema file as a steward writes it: which keys exist, and the message when one is wrong.

The models hold the file's structure only; what the values mean is decided in `files`, column by
column. Every complaint is one line that names the column, the key and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Tag

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Role, Type
from dipsmith.schema.markup import Place, Problem, abbreviate, check
from dipsmith.schema.schema import Neighbours

UNIT_HELP = (
    "it says whose presence is protected: write 'unit: row', or for people with several rows "
    "'unit: {column: person_id, max_rows: 3}'"
)
NEIGHBOURS_HELP = (
    "it says what must not be told apart: 'add-remove' (a row is there or not), 'replace' (a row differs, "
    "the number of rows is public) or 'label' (only columns with role: private differ)"
)
FREQUENCY_HELP = (
    "merging by how often a value occurs in the private rows would reveal single rows; use a code list, or public counts: "
    "collapse: {rare: 500, counts: public.csv}"
)
MEMBERS_HELP = (
    "households and their members go together: write 'members: persons.yaml', 'key: hid' (the column that both tables have) "
    "and 'max_members: 8' (the most members of one household that count)"
)
WEIGHT_HELP = "a survey weight is a column with public bounds: '- {name: w, type: number, minimum: 1, maximum: 500, role: weight}'"


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
    law: Literal["uniform", "log"] = "uniform"


class CollapseEntry(Entry):
    """How values are grouped into labels; exactly one of prefix, file, map, rare (with counts)."""

    prefix: int | None = None
    file: str | None = None
    map: dict[Text, Text] | None = None
    rare: int | None = None
    counts: str | None = None


class FieldEntry(Entry):
    """One column."""

    name: Text
    type: Type
    title: Text = ""
    role: Role = "private"
    enum: str | list[Text] | None = None
    minimum: Text | None = None
    maximum: Text | None = None
    open: Literal["low", "high", "both"] | None = None
    bins: BinsEntry | None = None
    precision: Text | None = None
    decimalChar: Text | None = None  # noqa: N815 - the words of Frictionless table schemas
    groupChar: Text | None = None  # noqa: N815
    bareNumber: bool | None = None  # noqa: N815
    format: Text | None = None
    collapse: CollapseEntry | None = None
    other: Text | None = None
    missing: bool = False
    ordered: bool = False
    fixed: bool = False
    hierarchy: list[Text] | dict[Text, int | list[Text]] | None = None
    totals: dict[Text, str | dict[Text, int]] | None = None


class UnitEntry(Entry):
    """A unit of protection that has several rows."""

    column: Text
    max_rows: int
    per: Text | None = None
    link: Literal["public"] | None = None
    order: Text | None = None


class RuleEntry(Entry):
    """One impossible combination; or one column that determines another, by a public map."""

    never: dict[Text, Any] | None = None
    determines: dict[Text, Text] | None = None
    map: dict[Text, Text] | str | None = None


class PlannedEntry(Entry):
    """A planned analysis with what is wanted of it."""

    formula: Text
    width: float | None = None
    model: Literal["auto", "ols", "logistic"] = "auto"
    reference: dict[Text, Text] = {}


class SchemaEntry(Entry):
    """The whole file."""

    name: Text
    unit: Annotated[
        Annotated[Literal["row", "household", "person"], Tag("row")] | Annotated[UnitEntry, Tag("several")],
        Discriminator(lambda given: "several" if isinstance(given, dict | UnitEntry) else "row"),
    ]
    neighbours: Neighbours
    order: Text | None = None
    fields: list[FieldEntry]
    rules: list[RuleEntry] = []
    provenance: Text = "declared"
    notes: list[Text] = []
    analyses: list[Text | PlannedEntry] = []
    rows: int | None = None
    members: str | dict[str, Any] | None = None
    key: Text | None = None
    max_members: int | None = None


KEYS = {
    name
    for entry in (
        SchemaEntry,
        FieldEntry,
        BinsEntry,
        CollapseEntry,
        UnitEntry,
        RuleEntry,
        PlannedEntry,
    )
    for name in entry.model_fields
}
"""All keys that are not names of columns, labels or levels."""

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

_ADVICE = {
    **dict.fromkeys(("below", "frequency", "min_count", "threshold"), FREQUENCY_HELP),
    **dict.fromkeys(("weight", "weights"), WEIGHT_HELP),
    **dict.fromkeys(("values", "categories", "levels"), "the list of values is called enum"),
    **dict.fromkeys(("description", "label"), "use title"),
    "constraints": "write enum, minimum and maximum directly under the column",
    "columns": "the list of columns is called fields",
    "neighbors": "it is spelled neighbours",
    "default": "say where values outside the domain go with other or missing",
    **dict.fromkeys(("decimals", "digits", "decimal_places"), "write precision: 0.01 for two decimals"),
    **dict.fromkeys(("min", "lower", "from"), "the lowest value is called minimum"),
    **dict.fromkeys(("max", "upper", "to"), "the highest value is called maximum"),
    **dict.fromkeys(("width", "round", "edges"), "it belongs to bins: 'bins: {width: 5}'"),
    **dict.fromkeys(("nullable", "optional", "required", "null", "na"), "write missing: true where cells may be empty"),
}

_NO_LIST = "it is true or false; codes that stand for nothing (-9, 99) are listed in enum, or set to empty in the table"
_ADVICE |= {
    **dict.fromkeys(("range", "bounds", "limits", "domain"), "write minimum: 0 and maximum: 100"),
    **dict.fromkeys(("na_values", "missing_values", "missingValues"), f"write missing: true: {_NO_LIST}"),
    "bin": "it is spelled bins: 'bins: {width: 5}'",
}

_IN_BINS = {
    **dict.fromkeys(("step", "by", "size", "every"), "write 'bins: {width: 5}'"),
    **dict.fromkeys(("n", "number", "bins", "nbins"), "write 'bins: {count: 20}'"),
    **dict.fromkeys(("breaks", "cuts", "thresholds"), "write 'bins: {edges: [0, 20, 65, 100]}'"),
}
_IN_UNIT = dict.fromkeys(("max", "rows", "most", "max_row", "contributions"), "the most rows of one unit are max_rows")
"""Of some keys it depends on where they stand what was meant."""

_TYPES = (
    ("(u?int|whole|count|tinyint|smallint|bigint|long)[a-z]*", "integer"),
    ("(float|double|decimal|numeric|number|real|money|currency|dec)[a-z]*", "number"),
    ("(text|str|string|n?(var)?char[a-z]*|object|categor[a-z]*|factor|enum|code|nominal|ordinal)", "string"),
    ("(bool|boolean|logical)", "boolean"),
    ("(timestamp[a-z]*|date-?time[a-z]*|posixct)", "datetime"),
    ("(date)", "date"),
)
"""What other programs call the types, whatever stands behind the word: int64, varchar(20)."""
_NO_TIME = "a time of day is a string with enum (its hours, say), or part of a datetime"

_NO_VALUE = "it has no value; a list stands in brackets ([F, M]), and a number has no commas (250000)"


def check_entries(data: object, line: Callable[[Place], str]) -> SchemaEntry:
    """Check the structure of a schema file, or say what is wrong first; `line` says where in the text a place is."""
    if not isinstance(data, Mapping):
        # It may be the private table, given in the schema's place: not quoted.
        got = "plain text; is it a schema file?" if isinstance(data, str) else abbreviate(data)
        raise SchemaError(f"the schema must be a mapping of keys to values, got {got}")
    found = check(SchemaEntry, data, _NEEDED, _ADVICE)
    if isinstance(found, Problem):
        raise SchemaError(line(found.place) + _in_words(found, data))
    return found


def _in_words(problem: Problem, data: Mapping[str, Any]) -> str:
    place, remedy, where = problem.place, problem.remedy, ""
    if place[0] in ("fields", "rules") and len(place) > 1:
        item = data[place[0]][place[1]]
        name = item.get("name") if isinstance(item, Mapping) else None
        # Without a name it is counted, in words that nobody takes for a place in a line.
        kind = "column" if place[0] == "fields" else "rule"
        where, place = f"{kind} '{name}': " if name else f"{kind} number {int(place[1]) + 1}: ", place[2:]
    *above, key = [str(part) for part in place if isinstance(part, str)] or ["the entry"]
    where += "".join(f"{part}: " for part in above)
    if problem.kind == "unknown":
        begun = key.partition(":")[0] if ":" in key else ""
        blank = f"put a space behind the colon of '{begun}'" if begun in FieldEntry.model_fields else _NO_VALUE
        remedy = (_IN_UNIT if above == ["unit"] else _IN_BINS if above == ["bins"] else {}).get(key, remedy)
        return f"{where}unknown key '{key}'; {blank if problem.got == 'nothing' else remedy}"
    if problem.kind == "missing":
        fields = data["fields"] if key == "type" else ()
        more = sum(1 for f in fields if isinstance(f, Mapping) and key not in f) - 1
        so_are = f" (and in {more} more {'columns' if more > 1 else 'column'})" if more > 0 else ""
        return f"{where or 'the schema: '}'{key}' is missing{so_are}; {remedy}"
    if key == "type" and (meant := _meant(problem.got.strip("'").lower())):
        remedy = f"{remedy}; {meant}"
    if key == "enum" and problem.got == "a mapping":
        remedy = "is a list of values ([1, 2]); their labels are 'collapse: {map: {1: men, 2: women}}'"
    if key == "missing":
        remedy = f"{remedy}; {_NO_LIST}"
    if key == "fields":
        remedy = f"{remedy}; it is {_NEEDED['fields']}"
    if not place and where.startswith("column"):
        remedy = f"{remedy}; write '- {{name: age, type: integer, …}}'"
    if key == "bins" and problem.got != "a mapping":
        remedy = f"{remedy}; write 'bins: {{width: 5}}' or 'bins: {{count: 20}}'"
    if key in ("unit", "neighbours"):
        return f"{key} is {problem.got}; {_NEEDED[key]}"
    return f"{where}{key} {remedy}"


def _meant(word: str) -> str:
    """What a word of another program for a type is here, as advice; empty where nobody knows.

    >>> _meant("int64"), _meant("varchar(20)"), _meant("colour")
    ('write integer', 'write string', '')
    """
    if word == "time":
        return _NO_TIME
    for words, kind in _TYPES:
        if re.fullmatch(rf"{words}[0-9]*(\W.*)?", word):
            return f"write {kind}"
    return ""
