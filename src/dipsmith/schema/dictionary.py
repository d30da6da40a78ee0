"""What a data dictionary says of columns, and the draft of a schema that follows from it: no row is read.

A dictionary is whatever the steward already has: value labels of Stata or SPSS, a table schema, a code book, the types and
constraints of a database. Readers (`dipsmith.sources.dictionaries`) turn each into `ColumnFacts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import cast

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Type, is_whole
from dipsmith.schema.bins import MAX_DAYS, as_plain, point
from dipsmith.schema.domain import MAX_LEVELS, MISSING_LABEL, Scale
from dipsmith.schema.drafts import commented_draft
from dipsmith.schema.proposals import CENT, MOST_SINGLE, WIDE, log_edges
from dipsmith.schema.spelling import Spelling

LONGEST_TITLE = 200


@dataclass(frozen=True)
class ColumnFacts:
    """What is publicly said of one column; None and empty where nothing is."""

    name: str
    type: Type | None = None
    title: str = ""
    values: tuple[tuple[str, str], ...] = ()
    """Values as they stand in the table, each with its label (or empty)."""
    minimum: str | None = None
    maximum: str | None = None
    missing: bool = False
    ordered: bool = False
    spelling: Spelling | None = None


def draft_from_facts(
    facts: Sequence[ColumnFacts], name: str, *, said_by: str, header: Sequence[str] | None = None
) -> str:
    """A draft from a dictionary; with a header, of its columns in its order. Columns of which too little is said are left open.

    >>> text = draft_from_facts([ColumnFacts("sex", "string", "Sex", (("1", "men"), ("2", "women")))], "t", said_by="codes.csv")
    >>> text.splitlines()[-3]
    "  collapse: {map: {'1': men, '2': women}}"
    """
    known = {fact.name: fact for fact in facts}
    if len(known) < len(facts):
        raise SchemaError("a column is described twice; names must differ")
    names = [*known] if header is None else list(header)
    found = known if header is None else _match(facts, names)
    if names and not found:
        raise SchemaError(
            f"{said_by} describes {len(known)} column{'s'[: len(known) != 1]}, and none of those of the table; "
            "is it its dictionary? names must agree"
        )
    fields = [_field(found.get(n, ColumnFacts(n))) for n in names]
    what = f"A draft from {said_by}; no row was read. Look it over; say unit and neighbours."
    return commented_draft(name, fields, what=what, provenance=f"from {said_by}")


def _match(facts: Sequence[ColumnFacts], names: Sequence[str]) -> dict[str, ColumnFacts]:
    """What is said of the columns of a table; a name may differ in case and spaces where only one can be meant.

    >>> {n: f.title for n, f in _match([ColumnFacts("AGE ", title="Age"), ColumnFacts("Sex", title="Sex")], ["age", "sex", "SEX"]).items()}
    {'age': 'Age'}
    """
    exact = {fact.name: fact for fact in facts if fact.name in names}
    plain = [_folded(n) for n in names]
    said = [_folded(fact.name) for fact in facts]
    alike = {
        names[plain.index(fold)]: replace(fact, name=names[plain.index(fold)])
        for fact, fold in zip(facts, said, strict=True)
        if plain.count(fold) == said.count(fold) == 1
    }
    return {**alike, **exact}


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _field(fact: ColumnFacts) -> tuple[str, dict[str, object] | None, str]:
    keys: dict[str, object] = {"name": fact.name, "type": fact.type}
    title = " ".join(fact.title.split())[:LONGEST_TITLE]
    if title and title != fact.name:
        keys["title"] = title
    values = [(v.strip(" "), label) for v, label in fact.values if v.strip(" ") and v != MISSING_LABEL]
    found: dict[str, object] = {}
    if fact.type == "boolean":
        reason = "true or false"
    elif values and len(values) <= MAX_LEVELS:
        found, reason = _propose_list(fact, values)
    elif (
        fact.type in ("integer", "number", "date", "datetime") and fact.minimum is not None and fact.maximum is not None
    ):
        found, reason = _propose_bounds(fact, fact.type)
    else:
        # what is said stays; what is not is an empty key, for the steward to fill in
        scale = None if fact.type in (None, "string") else cast("Scale", fact.type)
        found = {"enum": None} if fact.type == "string" else {}
        if scale is not None:
            bounds = {"minimum": fact.minimum, "maximum": fact.maximum}
            found = {k: None if b is None else as_plain(scale, point(scale, b)) for k, b in bounds.items()}
        said = "nothing is said of it" if fact.type is None else f"type {fact.type}"
        reason = f"{said}; add {'its public values' if scale is None else 'its public bounds'}"
    missing: dict[str, object] = {"missing": True} if fact.missing else {}
    if fact.spelling is not None and "enum" not in found:
        missing |= fact.spelling.keys
        reason += f"; written {fact.spelling.words}"
    return fact.name, {**keys, **found, **missing, "role": "private"}, reason


def _propose_list(fact: ColumnFacts, values: Sequence[tuple[str, str]]) -> tuple[dict[str, object], str]:
    """Listed values: whole numbers as they are, the others and all with labels as text."""
    raw = [v for v, _ in values]
    whole = fact.type == "integer" and all(map(is_whole, raw))
    listed: list[object] = [int(v) for v in raw] if whole else list(raw)
    found: dict[str, object] = {"type": "integer" if whole else "string", "enum": listed}
    labels = {v: " ".join(label.split()) for v, label in values if label.strip() and label.strip() != v}
    if (
        labels
        and len(set(labels.values())) == len(labels)
        and set(raw) == set(labels)
        and MISSING_LABEL not in labels.values()
    ):
        found["collapse"] = {"map": {(int(v) if whole else v): label for v, label in labels.items()}}
    if fact.ordered:
        found["ordered"] = True
    if not fact.missing:
        found["other"] = listed[-1]
    reason = f"{len(raw)} listed value{'s'[: len(raw) > 1]}" + (
        ", released under their labels" if "collapse" in found else ""
    )
    return found, reason + ("" if fact.missing else "; any other value counts as the last")


def _propose_bounds(fact: ColumnFacts, scale: Scale) -> tuple[dict[str, object], str]:
    low, high = (point(scale, text) for text in (fact.minimum, fact.maximum))
    bounds: dict[str, object] = {"minimum": as_plain(scale, low), "maximum": as_plain(scale, high)}
    if scale in ("date", "datetime"):
        days = (high - low) / (1 if scale == "date" else 86_400e6)
        wide = {"bins": {"width": "month"}} if days >= MAX_DAYS / 10 else {}
        return {**bounds, **wide}, "public bounds; one bin per " + ("month" if wide else "day")
    bins, reason = propose_bins(scale, low, high)
    return {**bounds, **bins}, reason


def propose_bins(scale: Scale, low: float, high: float) -> tuple[dict[str, object], str]:
    """Bins for bounds alone, as keys of a field, and why in one sentence.

    >>> propose_bins("integer", 0, 100)[0], propose_bins("integer", 0, 100_000)[0]["bins"]["edges"][:5]
    ({'bins': {'width': 5}}, [0, 1, 10, 20, 50])
    """
    if not isfinite(high - low):
        raise SchemaError("minimum and maximum are too far apart; choose closer bounds")
    span = high - low + (scale == "integer")
    if scale == "integer" and span <= MOST_SINGLE:
        return {}, f"{int(span)} whole numbers, one bin each"
    if low >= 0 and high >= WIDE * max(low, 1.0):
        zero = low == 0
        fine: dict[str, object] = {"precision": CENT} if zero and scale == "number" else {}
        apart = f" and 0 by itself{', to the cent' if fine else ''}" if zero else ""
        reason = f"a wide range: steps of 1, 2, 5, 10, …{apart}, for money and sizes; give top codes a bin of their own"
        return {"bins": {"edges": log_edges(scale, low, high), "law": "log"}, **fine}, reason
    if scale == "integer":
        width = next(w for w in (2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, span) if span / w <= 30)
        return {"bins": {"width": int(width)}}, f"bins of {int(width)}: about {round(span / width)} of them"
    return {"bins": {"count": 20}}, "20 bins of one width; choose edges that your analyses need"
