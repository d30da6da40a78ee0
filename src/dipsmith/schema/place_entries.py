"""Reading places: `hierarchy` and `totals` of a field → the levels of its attribute.

Levels come from columns of the code list (``hierarchy: [state, county, tract]``), from the first characters of the code
(``hierarchy: {state: 2, county: 5, tract: 11}``), or are listed value by value, as a written schema may have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import is_whole
from dipsmith.schema.code_list import CodeList
from dipsmith.schema.domain import Categories
from dipsmith.schema.entries import FieldEntry
from dipsmith.schema.places import Level


def levels_of(field: FieldEntry, domain: Categories, folder: Path) -> tuple[Level, ...]:
    """The levels of a column, none where it has no hierarchy."""
    if field.hierarchy is None:
        if field.totals is not None:
            raise SchemaError("totals go with hierarchy, which says what places there are; add it")
        return ()
    if field.collapse is not None:
        raise SchemaError("hierarchy does not go with collapse; list the places that are released, or take a level off")
    named = _from_list(field, folder) if isinstance(field.hierarchy, list) else _from_lengths(field, domain)
    stated = field.totals or {}
    for name in (n for n in stated if n not in named):
        raise SchemaError(f"totals are stated of '{name}', which is no level of hierarchy ({', '.join(named)})")
    return tuple(Level(name, tuple(labels), _totals(stated.get(name, {}), folder)) for name, labels in named.items())


def _from_list(field: FieldEntry, folder: Path) -> dict[str, Sequence[str]]:
    """Levels that the code list has in columns of their own; the last is the code itself."""
    names = list(field.hierarchy or ())
    if not isinstance(field.enum, str):
        raise SchemaError(
            "hierarchy names columns of a code list, and enum is no file: write enum: places.csv, or how many "
            "characters of the code each level has, hierarchy: {state: 2, county: 5}"
        )
    codes = CodeList.read(folder / field.enum, names[:-1])
    found: dict[str, Sequence[str]] = {}
    for name in names[:-1]:
        found[name] = codes.columns[name]
        for code in (c for c, label in zip(codes.codes, codes.columns[name], strict=True) if not label):
            raise SchemaError(f"{field.enum}: '{code}' has no {name}; fill it in")
    return found | dict.fromkeys(names[-1:], codes.codes)


def _from_lengths(field: FieldEntry, domain: Categories) -> dict[str, Sequence[str]]:
    assert isinstance(field.hierarchy, dict)
    found: dict[str, Sequence[str]] = {}
    for name, how in field.hierarchy.items():
        if isinstance(how, list):
            if len(how) != len(domain.labels):
                raise SchemaError(f"hierarchy: {name} lists {len(how):,} places for {len(domain.labels):,} values")
            found[name] = how
        elif how < 1:
            raise SchemaError(f"hierarchy: {name} has {how} characters of the code, expected 1 or more")
        else:
            found[name] = [label[:how] for label in domain.labels]
    return found


def _totals(given: str | dict[str, int], folder: Path) -> tuple[tuple[str, int], ...]:
    if isinstance(given, dict):
        return tuple(sorted(given.items()))
    listed = CodeList.read(folder / given, ["count"])
    for code, count in zip(listed.codes, listed.columns["count"], strict=True):
        if not is_whole(count):
            raise SchemaError(f"{given}: the count of '{code}' is not a whole number in plain digits")
    if len(set(listed.codes)) < len(listed.codes):
        raise SchemaError(f"{given}: a place is listed twice; list it once")
    return tuple(sorted(zip(listed.codes, map(int, listed.columns["count"]), strict=True)))


def total_notes(fields: Sequence[FieldEntry]) -> list[str]:
    """What every card says of public totals that were read from a file."""
    return [
        f"totals of {field.name} by {level} are public facts from {given}, kept exactly; they were not computed from the rows"
        for field in fields
        for level, given in (field.totals or {}).items()
        if isinstance(given, str)
    ]
