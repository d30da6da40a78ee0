"""Code lists: public lists of values that are too long for a schema file, and the places that such lists tell.

Levels of places come from columns of the code list (``hierarchy: [state, county, tract]``), from the first characters
of the code (``hierarchy: {state: 2, county: 5, tract: 11}``), or are listed value by value, as a written schema may
have them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import is_whole
from dipsmith.schema.domain import MAX_VALUES, Categories
from dipsmith.schema.entries import FieldEntry
from dipsmith.schema.markup import read_text
from dipsmith.schema.places import Level

LONGEST_LIST = 200_000_000
"""Bytes of a code list at most."""


@dataclass(frozen=True)
class CodeList:
    """A public list of values that is too long for a schema file: values in order, and the label of each if there is one.

    A csv file (UTF-8; comma, semicolon or tab) with a header. Column ``code`` holds the values; column ``collapse``, or
    ``label`` when there is no ``collapse``, the label under which each is released when the schema says
    ``collapse: {file: …}``. Other columns are read where a schema asks for them (`columns`): larger places, totals. Spaces around values are dropped, as everywhere.
    """

    codes: tuple[str, ...]
    labels: tuple[str, ...] | None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, columns: Sequence[str] = ()) -> CodeList:
        """Read a code list; every problem is one line that names the file and the line."""
        text = read_text(path, "code list", LONGEST_LIST)
        delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
        rows = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            header = [name.strip().lower() for name in next(rows, [])]
            if "code" not in header:
                # Not quoted: it may be a private table, given in the code list's place.
                others = f"{len(header)} other column{'' if len(header) == 1 else 's'}"
                raise SchemaError(
                    f"{path}: the first line must name a column 'code', as a code list does; it has {others}"
                )
            at = header.index("code")
            label = next((header.index(name) for name in ("collapse", "label") if name in header), None)
            for name in (c for c in columns if c.strip().lower() not in header):
                raise SchemaError(f"{path} has no column '{name}' beside 'code'; add it")
            places = {name: header.index(name.strip().lower()) for name in columns}
            codes, labels, found = list[str](), list[str](), {name: list[str]() for name in columns}
            for row in filter(None, rows):
                if len(row) != len(header):
                    raise SchemaError(f"{path}, line {rows.line_num}: {len(row)} fields, the header has {len(header)}")
                codes.append(row[at].strip(" "))
                labels.append(row[label].strip(" ") if label is not None else "")
                for name, place in places.items():
                    found[name].append(row[place].strip(" "))
                if len(codes) > MAX_VALUES:
                    raise SchemaError(f"{path}: more than {MAX_VALUES:,} values; list groups instead")
        except csv.Error as error:
            where = f"{path}, line {rows.line_num}"
            raise SchemaError(f"{where}: not readable as csv ({error}); check the quotes") from None
        if not codes:
            raise SchemaError(f"{path}: the code list has no values below its header")
        return cls(tuple(codes), tuple(labels) if label is not None else None, {n: tuple(f) for n, f in found.items()})


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
