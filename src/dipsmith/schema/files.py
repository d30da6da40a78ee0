"""Reading schema files: YAML (or plain data) → a frozen `Schema`.

Reading is strict: what a schema does not say clearly is refused in one line that names the column and the remedy, because
nothing may be refused later on account of a private value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dipsmith.errors import SchemaError
from dipsmith.schema import bins
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.attribute import Attribute, is_whole
from dipsmith.schema.code_list import CodeList, levels_of, total_notes
from dipsmith.schema.domain import Bins, Categories, Domain, Scale
from dipsmith.schema.entries import (
    KEYS,
    MEMBERS_HELP,
    UNIT_HELP,
    BinsEntry,
    CollapseEntry,
    FieldEntry,
    PlannedEntry,
    RuleEntry,
    SchemaEntry,
    UnitEntry,
    check_entries,
)
from dipsmith.schema.formula.words import abridge
from dipsmith.schema.households import Members, check_most_members
from dipsmith.schema.markup import MAX_CHARACTERS, Document, Place, in_file, noting_files, read_text
from dipsmith.schema.merging import RARE, rare_values
from dipsmith.schema.naming import check_name
from dipsmith.schema.rules import Rule, choose_codes, dependency_rules, in_words
from dipsmith.schema.schema import Schema, Unit
from dipsmith.schema.spelling import read_spelling

WEIGHT_BINS = 12
"""A survey weight without `bins` is cut into so many bins of equal width on the log scale."""

OF_RANGES = ("minimum", "maximum", "open", "bins", "precision", "decimalChar", "groupChar", "bareNumber", "format")
"""What goes with numbers and times that have bounds."""

OF_HOUSEHOLDS = ("unit", "neighbours", "members", "key", "max_members", "order", "rows")
"""What a schema of members leaves to that of the households."""


def read(path: str | os.PathLike[str]) -> Schema:
    """Read a schema file; code lists are looked for beside it."""
    file = Path(path)
    text = read_text(file, "schema file", MAX_CHARACTERS)
    try:
        document = Document.of(text)
        return _schema(document.data, file.parent, lambda place: f"{document.spot(place)}: ")
    except SchemaError as error:
        raise SchemaError(in_file(file, str(error))) from None


def from_dict(data: object, base: Path | None = None) -> Schema:
    """Make a schema from plain data; code-list files are relative to `base`, or to the current folder."""
    return _schema(data, Path() if base is None else base, lambda place: "")


def _schema(data: object, folder: Path, line: Callable[[Place], str]) -> Schema:
    with noting_files() as named:
        made = _build_schema(data, folder, line)
    return replace(made, named_files=tuple(named))


def _build_schema(data: object, folder: Path, line: Callable[[Place], str]) -> Schema:
    plain = _without_blanks(data)
    if isinstance(plain, Mapping) and "members" in plain:
        plain = {"unit": "household", **plain}
    entry = check_entries(plain, line)
    check_name(entry.name)
    if not entry.fields:
        raise SchemaError("fields is empty; list at least one column")
    attributes = []
    for i, field in enumerate(entry.fields):
        if not field.name.strip():
            raise SchemaError(f"{line(('fields', i))}a column has an empty name; name it as in the header of the table")
        try:
            attributes.append(_attribute(field, folder))
        except SchemaError as error:
            column = "" if str(error).startswith("column '") else f"column '{field.name}': "
            key = str(error).removeprefix(column).removeprefix(f"column '{field.name}': ").partition(" ")[0]
            place = line(("fields", i, key.partition(":")[0].partition(".")[0]))
            raise SchemaError(f"{place}{column}{error}") from None
        if field.name in (a.name for a in attributes[:-1]):
            place = line(("fields", i, "name"))
            raise SchemaError(f"{place}column '{field.name}' is listed twice; names must differ")
    by_name = {a.name: a for a in attributes}
    own = set(by_name)
    members = _members(entry, folder)
    if members is not None:
        by_name |= {a.name: a for a in members.schema.attributes if a.name not in own}
    rules = []
    for i, rule in enumerate(entry.rules):
        try:
            rules += _rules(rule, by_name, folder)
        except SchemaError as error:
            raise SchemaError(f"{line(('rules', i))}{error}") from None
    inert = [r.text for r in rules if not all(codes for _, codes in r.never)]
    lawful = [r for r in rules if r.text not in inert]
    if members is not None:
        across = tuple(r for r in lawful if not set(r.attributes) <= own)
        members = replace(members, rules=across)
    schema = Schema(
        name=entry.name,
        attributes=tuple(attributes),
        unit=_unit(entry.unit, entry.order) if members is None else _household(entry, members),
        neighbours=entry.neighbours,
        rules=tuple(r for r in lawful if set(r.attributes) <= own),
        provenance=entry.provenance,
        notes=(
            *entry.notes,
            *_merging_notes(entry.fields),
            *total_notes(entry.fields),
            *(f"rule without effect: {text}" for text in inert),
        ),
        analyses=tuple(_analysis(a, by_name, line(("analyses", i))) for i, a in enumerate(entry.analyses)),
        known_rows=entry.rows,
        members=members,
    )
    schema.check()
    return schema


def _members(entry: SchemaEntry, folder: Path) -> Members | None:
    """The members of households, from a file of their own or written in place."""
    if entry.members is None:
        if entry.unit == "person":
            raise SchemaError(f"unit is 'person'; {UNIT_HELP}")
        if entry.unit == "household" or entry.key is not None or entry.max_members is not None:
            raise SchemaError(MEMBERS_HELP)
        return None
    if entry.unit not in ("household", "person"):
        raise SchemaError(
            f"unit is {entry.unit if entry.unit == 'row' else 'a column'}, but there are members; write unit: household "
            "(or leave it out), or unit: person"
        )
    if entry.key is None or entry.max_members is None:
        raise SchemaError(MEMBERS_HELP)
    check_most_members(entry.max_members)
    expected = {"unit": {"column": entry.key, "max_rows": entry.max_members}, "neighbours": entry.neighbours}
    try:
        data: object = entry.members
        if isinstance(data, str):
            file = folder / data
            data = _without_blanks(Document.of(read_text(file, "schema file", MAX_CHARACTERS)).data)
            folder = file.parent
        if not isinstance(data, Mapping):
            raise SchemaError("the schema must be a mapping of keys to values: name, fields, rules")
        if wrong := next((key for key in OF_HOUSEHOLDS if key in data), None):
            raise SchemaError(f"'{wrong}' is said of the households; leave it out")
        schema = _schema({**data, **expected}, folder, lambda place: "")
    except SchemaError as error:
        where = f"members '{entry.members}'" if isinstance(entry.members, str) else "members"
        raise SchemaError(f"{where}: {error}") from None
    unit = replace(schema.unit, members=entry.max_members, protects="person" if entry.unit == "person" else None)
    return Members(replace(schema, unit=unit), entry.order)


def _household(entry: SchemaEntry, members: Members) -> Unit:
    if not str(entry.key).strip():
        raise SchemaError(f"key is empty; {MEMBERS_HELP}")
    return Unit(
        entry.key, 1, members=members.schema.unit.max_rows, protects="person" if entry.unit == "person" else None
    )


def _merging_notes(given: list[FieldEntry]) -> list[str]:
    """What every card says of labels that were merged by public counts."""
    merged = [(f.name, f.collapse) for f in given if f.collapse is not None and f.collapse.rare is not None]
    return [
        f"labels of {name} with fewer than {c.rare} rows in the public file {c.counts} are merged into {RARE}"
        for name, c in merged
    ]


def _analysis(entry: str | PlannedEntry, columns: Mapping[str, Attribute], line: str) -> PlannedAnalysis:
    asked = PlannedEntry(formula=entry) if isinstance(entry, str) else entry
    made = PlannedAnalysis(asked.formula, asked.width, asked.model, tuple(asked.reference.items()))
    if unknown := next((name for name in made.columns if name not in columns), None):
        raise SchemaError(
            f"{line}analysis '{abridge(made.text)}' names '{unknown}', which is no column in fields; add it"
        )
    return made


def _without_blanks(data: object) -> object:
    """Treat keys without a value as absent, so that the message for an unfilled draft names what is missing.

    A key that no entry has stays, to be refused: `maximum: 250,000` within braces is a maximum of 250, and a key 000.
    """
    if isinstance(data, Mapping):
        kept = {key: value for key, value in data.items() if value is not None or key not in KEYS}
        return {key: None if value is None else _without_blanks(value) for key, value in kept.items()}
    if isinstance(data, (list, tuple)):
        return [_without_blanks(item) for item in data]
    return data


def _unit(entry: str | UnitEntry, order: str | None) -> Unit:
    if isinstance(entry, str):
        if order is not None:
            raise SchemaError(f"order is {order}, but a unit that is a row has one period only; {UNIT_HELP}")
        return Unit()
    if not entry.column.strip():
        raise SchemaError(f"unit.column is empty; {UNIT_HELP}")
    if None not in (order, entry.order) and order != entry.order:
        raise SchemaError(f"order is {order}, but unit.order is {entry.order}; say it once")
    order = order or entry.order
    # In a panel a unit has one row in each period, so that `per` says what `order` says.
    per = None if order and entry.per == order else entry.per
    return Unit(entry.column, entry.max_rows, per, entry.link, order)


def _attribute(field: FieldEntry, base: Path) -> Attribute:
    if field.type == "boolean":
        keys = ("enum", *OF_RANGES, "collapse", "other", "ordered", "hierarchy", "totals")
        _refuse(field, keys, "a boolean column")
        return Attribute.boolean(
            field.name, missing=field.missing, role=field.role, title=field.title, fixed=field.fixed
        )
    domain: Domain = _categories(field, base) if field.enum is not None else _bins(field)
    if isinstance(domain, Bins):
        _refuse(field, ("hierarchy", "totals"), "numbers and dates; list the places in enum")
    levels = levels_of(field, domain, base) if isinstance(domain, Categories) else ()
    return Attribute(field.name, field.type, domain, field.role, field.title, field.fixed, levels)


def _refuse(field: FieldEntry, keys: tuple[str, ...], what: str) -> None:
    for key in keys:
        if getattr(field, key) or (key == "bareNumber" and field.bareNumber is False):
            raise SchemaError(f"'{key}' does not go with {what}; remove it")


def _categories(field: FieldEntry, base: Path) -> Categories:
    if field.type not in ("string", "integer"):
        raise SchemaError(f"enum goes with type string or integer, not {field.type}; give minimum, maximum and bins")
    _refuse(field, OF_RANGES, "enum")
    values = CodeList.read(base / field.enum).codes if isinstance(field.enum, str) else tuple(field.enum or ())
    if field.type == "integer":
        for wrong in (v for v in values if not is_whole(v)):
            raise SchemaError(f"enum value '{wrong}' is not a whole number in plain digits; use type: string for codes")
        if field.ordered and sorted(values, key=int) != list(values):
            raise SchemaError("ordered: true needs enum in increasing order")
    labels = {} if field.collapse is None else _labels(field, field.collapse, values, base)
    return Categories.of(values, labels, other=field.other, missing=field.missing, ordered=field.ordered)


def _require_one(name: str, entry: BinsEntry | CollapseEntry, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if getattr(entry, key) is not None]
    if len(given) != 1:
        raise SchemaError(f"{name} needs exactly one of {', '.join(keys)}; got {', '.join(given) or 'none'}")


def _labels(field: FieldEntry, collapse: CollapseEntry, values: tuple[str, ...], base: Path) -> dict[str, str]:
    _require_one("collapse", collapse, ("prefix", "file", "map", "rare"))
    if (collapse.rare is None) != (collapse.counts is None):
        raise SchemaError("collapse.rare and collapse.counts go together: {rare: 500, counts: public.csv}")
    if collapse.rare is not None and collapse.counts is not None:
        return rare_values(field.name, values, field.other, base / collapse.counts, collapse.rare)
    if collapse.prefix is not None:
        if collapse.prefix < 1:
            raise SchemaError(f"collapse.prefix must be at least 1, got {collapse.prefix}")
        return {v: v[: collapse.prefix].rstrip(" ") for v in values}
    listed = set(values)
    if collapse.file is not None:
        codes = CodeList.read(base / collapse.file)
        if codes.labels is None:
            raise SchemaError(f"collapse: {collapse.file} has no column 'collapse' (or 'label') beside 'code'; add it")
        pairs = zip(codes.codes, codes.labels, strict=True)
        return {code: label for code, label in pairs if label and code in listed}
    mapping = collapse.map or {}
    for unknown in (v for v in mapping if v not in listed):
        raise SchemaError(f"collapse.map names '{unknown}', which is not in enum; map raw values to labels")
    return dict(mapping)


def _bins(field: FieldEntry) -> Bins:
    made = _cut(field)
    if field.bins is not None and field.bins.law == "log" and made.scale not in ("integer", "number"):
        raise SchemaError("bins.law: log goes with numbers; remove it")
    if field.role == "weight" and field.bins is None and made.minimum > 0:
        made = bins.by_ratio(made.scale, made.minimum, made.maximum, WEIGHT_BINS, missing=made.missing)
    law = made.law if field.bins is None else field.bins.law
    step = bins.read_precision(made.scale, field.precision)
    spelling = read_spelling(made.scale, field.decimalChar, field.groupChar, field.bareNumber, field.format)
    return replace(made, law=law, step=step, open=field.open or "none", spelling=spelling)


def _cut(field: FieldEntry) -> Bins:
    if field.type == "string":
        raise SchemaError(f"type {field.type} needs 'enum': the public list of its values, or a code-list csv file")
    scale: Scale = field.type  # type: ignore[assignment]
    _refuse(field, ("collapse", "other", "ordered"), f"type {field.type} without enum (values outside are clipped)")
    entry, missing = field.bins or BinsEntry(), field.missing
    if field.bins is not None:
        _require_one("bins", entry, ("count", "width", "edges", "round"))
    if entry.labels is not None and entry.edges is None:
        raise SchemaError("bins.labels goes with bins.edges; remove it or list the edges")
    low = None if field.minimum is None else _point(scale, "minimum", field.minimum)
    high = None if field.maximum is None else _point(scale, "maximum", field.maximum)
    if entry.edges is not None:
        return _bins_by_edges(scale, entry, low, high, missing)
    if low is None or high is None:
        lacking = "minimum" if low is None else "maximum"
        extra = ", or enum" if scale == "integer" else ""
        raise SchemaError(f"type {field.type} needs '{lacking}': public bounds, not read from the data{extra}")
    if high < low:
        raise SchemaError(f"minimum ({field.minimum}) is above maximum ({field.maximum})")
    if entry.count is not None:
        return bins.by_count(scale, low, high, entry.count, missing=missing)
    if entry.round is not None:
        return bins.by_rounding(scale, low, high, _point("number", "bins.round", entry.round), missing=missing)
    if entry.width is not None:
        if scale in ("date", "datetime") and entry.width.isalpha():
            return bins.by_calendar(scale, low, high, entry.width, missing=missing)
        return bins.by_width(scale, low, high, _point("number", "bins.width", entry.width), missing=missing)
    return _default(scale, low, high, missing)


def _default(scale: Scale, low: float, high: float, missing: bool) -> Bins:
    """How a column without `bins` is cut."""
    if scale == "integer":
        return bins.singles(scale, low, high, missing=missing)
    if scale == "number":
        return bins.by_count(scale, low, high, bins.DEFAULT_COUNT, missing=missing)
    days = (high - low) / (bins.DAY if scale == "datetime" else 1) + 1
    if days > bins.MAX_DAYS:
        raise SchemaError(f"{days:,.0f} days are too many for one bin each; add bins: {{width: month}} or year")
    return bins.by_calendar(scale, low, high, "day", missing=missing)


def _bins_by_edges(scale: Scale, entry: BinsEntry, low: float | None, high: float | None, missing: bool) -> Bins:
    cuts = [_point(scale, "bins.edges", text) for text in entry.edges or []]
    if cuts and low is not None and low != cuts[0]:
        raise SchemaError("bins.edges must begin at the minimum; change one of them")
    if entry.labels is not None and len(entry.labels) != len(cuts) - 1:
        raise SchemaError(f"bins.labels needs {len(cuts) - 1} labels for {len(cuts)} edges, got {len(entry.labels)}")
    return bins.by_edges(scale, cuts, maximum=high, labels=entry.labels, missing=missing)


def _point(scale: Scale, key: str, text: str) -> float:
    try:
        return bins.point(scale, text)
    except SchemaError as error:
        raise SchemaError(f"{key}: {error}") from None


def _rules(entry: RuleEntry, attributes: Mapping[str, Attribute], folder: Path) -> list[Rule]:
    """The rules of an entry: one combination, or all that a dependency of two columns forbids."""
    if (entry.never is None) == (entry.determines is None):
        raise SchemaError("a rule has either never (a combination) or determines with map (one column fixes another)")
    if entry.determines is None:
        return [_rule(entry, attributes)]
    if len(entry.determines) != 1 or not entry.map:
        raise SchemaError("determines names one pair of columns, {education: education-num}, and goes with map")
    ((first, second),) = entry.determines.items()
    for name in (n for n in (first, second) if n not in attributes):
        raise SchemaError(f"a rule names column '{name}', which is not in fields")
    pairs = entry.map
    if isinstance(pairs, str):
        codes = CodeList.read(folder / pairs)
        pairs = dict(zip(codes.codes, codes.labels or (), strict=False))
    return dependency_rules(attributes[first], attributes[second], pairs)


def _rule(entry: RuleEntry, attributes: Mapping[str, Attribute]) -> Rule:
    if not entry.never:
        raise SchemaError("a rule's never is empty; name at least one column")
    pairs = []
    for name, condition in entry.never.items():
        if name not in attributes:
            raise SchemaError(f"a rule names column '{name}', which is not in fields")
        pairs.append((name, choose_codes(attributes[name], condition)))
    empty = [f"no label of {name} lies wholly inside its range" for name, codes in pairs if not codes]
    words = " and ".join(in_words(attributes[name], codes) for name, codes in pairs if codes)
    if empty:
        return Rule(tuple(pairs), text="; ".join([words, *empty] if words else empty))
    if len(pairs) == 1 and len(pairs[0][1]) == attributes[pairs[0][0]].size:
        raise SchemaError(f"a rule forbids every value of column '{pairs[0][0]}'; narrow it")
    return Rule(tuple(pairs), text=words)
