"""Protection: what a spend protects, as a type that can be compared.

An ε means nothing without the neighbours it is about: which relation, whose rows (the unit), and under
`label` which columns may differ. Two charges may be added up only where all of it is the same; so the
ledger keeps a protection with every charge and never a relation's name alone. A schema file spells the
relation as text; `protection_of` turns a schema into the type, and everything behind it compares types.

*What is left out, and why.* The domains of columns do not enter: values are encoded row by row, so that
neighbouring tables stay neighbours under any domains (``docs/proofs/accounting.md``, section 8). One does:
that of `unit.per`, because "a person per year" is another unit where years are binned otherwise.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from dipsmith.errors import BudgetError, UsageError
from dipsmith.schema.schema import Neighbours, Schema, Unit


@dataclass(frozen=True, slots=True)
class AddRemove:
    """Whether a unit is in the table at all, and everything that the table says of it."""

    unit: Unit
    per_domain: str | None = None
    relation: ClassVar[Neighbours] = "add-remove"


@dataclass(frozen=True, slots=True)
class Replace:
    """Everything that the table says of a unit; the number of units is public."""

    unit: Unit
    per_domain: str | None = None
    relation: ClassVar[Neighbours] = "replace"


@dataclass(frozen=True, slots=True)
class Label:
    """The private columns of a unit's rows, sorted (None where a ledger of format 1 does not say); others are public."""

    unit: Unit
    private: tuple[str, ...] | None
    per_domain: str | None = None
    relation: ClassVar[Neighbours] = "label"


Protection = AddRemove | Replace | Label
"""`per_domain`, in each: the digest of the domain of `unit.per`, None where there is none or format 1 does not say."""


def protection_of(schema: Schema) -> Protection:
    """What a run under a schema protects.

    >>> from dipsmith.schema import Attribute, Categories
    >>> sex = Attribute("sex", "string", Categories.of("FM", other="M"))
    >>> protection_of(Schema("people", (sex,), Unit(), "replace"))
    Replace(unit=Unit(column=None, max_rows=1, per=None, link=None, order=None, members=None, protects=None), per_domain=None)
    """
    # That a link is public says what else is disclosed, and an order how rows are read, not what ε means.
    unit = replace(schema.unit, link=None, order=None)
    per_domain = None if unit.per is None else _domain_digest(schema, unit.per)
    if schema.neighbours == "label":
        return Label(unit, column_set(schema.private), per_domain)
    return (AddRemove if schema.neighbours == "add-remove" else Replace)(unit, per_domain)


def column_set(names: Sequence[str]) -> tuple[str, ...]:
    """A set of private columns as it is compared and written: sorted, each once, at least one.

    >>> column_set(["sex", "race", "sex"])
    ('race', 'sex')
    """
    if isinstance(names, str) or not names or not all(isinstance(n, str) and n for n in names):
        raise UsageError("private columns are given as a list of one or more names")
    return tuple(sorted(set(names)))


def protection_record(protects: Protection) -> dict[str, Any]:
    """The protection as it is written in the ledger."""
    record: dict[str, Any] = {"relation": protects.relation, "unit": unit_record(protects.unit)}
    if isinstance(protects, Label) and protects.private is not None:
        record["private"] = list(protects.private)
    if protects.per_domain is not None:
        record["per_domain"] = protects.per_domain
    return record


def unit_record(unit: Unit) -> dict[str, Any]:
    """A unit as it is written in ledgers and cards."""
    later = ("link", "order", "members", "protects")  # which ledgers of earlier versions do not know
    return {key: value for key, value in asdict(unit).items() if key not in later or value is not None}


def protection_from(record: Mapping[str, Any]) -> Protection:
    """The protection back from `protection_record`, also from one of format 1."""
    relation, unit, per_domain = record["relation"], Unit(**record["unit"]), record.get("per_domain")
    if relation == "label":
        return Label(unit, column_set(record["private"]) if "private" in record else None, per_domain)
    if "private" in record:
        raise ValueError("only label has private columns")
    if relation not in ("add-remove", "replace"):
        raise ValueError("the relation is unknown")
    return AddRemove(unit, per_domain) if relation == "add-remove" else Replace(unit, per_domain)


def as_format_1_noted(protects: Protection) -> Protection:
    """What a ledger of format 1 noted of a protection."""
    known = replace(protects, per_domain=None)
    return replace(known, private=None) if isinstance(known, Label) else known


def require_whole(protects: Protection) -> None:
    """Refuse to charge for something that is not wholly said."""
    if not isinstance(protects, AddRemove | Replace | Label):
        raise UsageError(
            f"protects= is what protection_of(schema) gives, got {type(protects).__name__}: a budget means "
            "nothing without it"
        )
    if isinstance(protects, Label) and (protects.private is None or column_set(protects.private) != protects.private):
        raise UsageError("under label protects= names the private columns, sorted and each once")
    if (protects.unit.per is None) != (protects.per_domain is None):
        raise UsageError("protects= has a digest of the domain of unit.per, where the unit has one")


def require_agreement(name: str, held: Protection | None, got: Protection) -> None:
    """Refuse a protection other than the one that a dataset's first spend fixed, and say what differs."""
    if held is None or held == got:
        return
    for what, was, now in (("neighbours", held.relation, got.relation), ("unit", held.unit, got.unit)):
        if was != now:
            raise BudgetError(
                f"'{name}' has spent under {what} '{was}', got '{now}': "
                "their budgets mean different things and cannot be added up"
            )
    if isinstance(held, Label) and isinstance(got, Label) and held.private != got.private:
        asked = got.private or ()
        if held.private is None:
            options = " ".join(f"--private {shlex.quote(column)}" for column in asked)
            raise BudgetError(
                f"'{name}' has spent under neighbours 'label' in a ledger that did not note which columns were "
                f"private then; if they were {columns_in_words(asked)}, say so by a grant, and otherwise use another name: "
                f"dipsmith ledger grant {shlex.quote(name)} ... {options}"
            )
        raise BudgetError(
            f"'{name}' has spent with private {columns_in_words(held.private)}, got private {columns_in_words(asked)}: what is "
            "protected is fixed by the first spend; set the roles as they were, or use another name with a grant "
            "of its own"
        )
    raise BudgetError(
        f"'{name}' has spent under unit '{held.unit}' with other values or bins of column '{held.unit.per}': they say "
        "what one unit is; declare them as before, or use another name with a grant of its own"
    )


def columns_in_words(private: Sequence[str]) -> str:
    """Private columns in words.

    >>> columns_in_words(("race", "sex"))
    "columns 'race', 'sex'"
    """
    return f"column{'s' if len(private) != 1 else ''} " + ", ".join(f"'{name}'" for name in private)


def _domain_digest(schema: Schema, name: str) -> str:
    fields: Any = schema.project([name]).to_dict()["fields"]
    domain = {key: value for key, value in fields[0].items() if key not in ("name", "title", "role")}
    return hashlib.sha256(json.dumps(domain, sort_keys=True).encode("ascii")).hexdigest()
