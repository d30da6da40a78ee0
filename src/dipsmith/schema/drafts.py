"""First drafts of a schema file: from a header alone, or with fields that something else found.

A draft from the header reads no row, so what it says is public. It chooses neither unit nor neighbours: they say what ε
means, and reading the draft without them fails with an explanation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dipsmith.errors import SchemaError
from dipsmith.schema.markup import Line, render, render_wide
from dipsmith.schema.schema import Unit

_UNSAID = (
    "# unit: whose presence is protected: row, or {column: person_id, max_rows: 3} (optionally per: year, or",
    "#   order: year for a panel of careers, in which columns may be fixed: true).",
    "# neighbours: what must not be told apart: add-remove, replace or label.",
    "# Delete the columns that are not to be released (names, identifiers, free text).",
)
_OF_HOUSEHOLDS = (
    "# unit: household (with all of its members), or person (one member, and what it changes of its household).",
    "# neighbours: what must not be told apart: add-remove or replace.",
    "# max_members: how many members of one household count; a round number that is public, such as 8.",
    "# order: a column of the members with a list of levels, that of the head first (relation: [head, partner, child]).",
)
_WIDEST = 110
_HEADER_ONLY = """\
# type: string, integer, number, boolean, date or datetime.
# string: add enum: [a, b, c] or enum: codes.csv, and other: LABEL or missing: true.
# integer, number, date, datetime: add minimum, maximum and, if need be, bins: {width: 5}.
# role: private, or under label public; weight for a survey weight, with minimum and maximum.
"""


def draft(header: Sequence[str], name: str, types: Mapping[str, str] | None = None) -> str:
    """Write a draft from the names of the columns, and the types that the file's own header states; no row is read.

    >>> print(draft(["age", "pay"], "people", {"age": "integer"}).partition("fields:")[2].strip())
    - {name: age, type: integer, role: private}
    - {name: pay, type: , role: private}  # the file does not say: number, or integer if all values are whole
    """
    check_header_names(header)
    listed = _listed(header, types or {})
    what = "A draft from the header; no row was read. Give every column its type and its public domain."
    return "\n".join([f"# {what}", *_UNSAID, f"{render({'name': name})}unit:", "neighbours:", _HEADER_ONLY + listed])


def _listed(header: Sequence[str], types: Mapping[str, str]) -> str:
    """A line for every column; where the file states types, one that it leaves open has a hint."""
    rows = [Line(name=column, type=types.get(column), role="private") for column in header]
    hint = "  # the file does not say: number, or integer if all values are whole" if types else ""
    return render({"fields": rows}).replace("type: null, role: private}", "type: , role: private}" + hint)


def draft_households(
    homes: Sequence[str], people: Sequence[str], names: tuple[str, str], key: str, types: Sequence[Mapping[str, str]]
) -> tuple[str, str]:
    """Drafts of households and of their members, from the headers of both tables; no row is read.

    >>> homes, people = draft_households(["id", "rent"], ["id", "age"], ("homes", "people"), "id", ({}, {}))
    >>> print(homes.partition("name")[2].partition("#")[0].strip())
    : homes
    unit: household
    neighbours:
    members: people.yaml
    key: id
    max_members:
    """
    for header, which in ((homes, "households"), (people, "members")):
        check_header_names(header)
        if key not in header:
            raise SchemaError(f"--key names no column of the table of {which}; it is the column that both tables have")
    parts = []
    for header, known in zip((homes, people), types, strict=True):
        listed = _listed([n for n in header if n != key], known)
        parts.append(_HEADER_ONLY.replace("or under label public; weight", "or weight") + listed)
    what = "# A draft from the header; no row was read. Give every column its type and its public domain."
    said = f"{render({'name': names[0]})}unit: household\nneighbours:\nmembers: {names[1]}.yaml\n{render({'key': key})}max_members:"
    above = "\n".join([what, *_OF_HOUSEHOLDS])
    return f"{above}\n{said}\n{parts[0]}", f"{what}\n{render({'name': names[1]})}{parts[1]}"


def commented_draft(
    name: str,
    fields: Sequence[tuple[str, Mapping[str, object] | None, str]],
    *,
    what: str,
    unit: Unit | None = None,
    neighbours: str | None = None,
    provenance: str | None = None,
) -> str:
    """A draft with a line of reason above every field; one with an empty key is left to the steward, commented out.

    >>> print(commented_draft("t", [("a", {"name": "a", "type": "boolean"}, "yes or no")], what="A draft.").splitlines()[-1])
    - {name: a, type: boolean}
    """
    head: dict[str, object] = {"name": name}
    if unit is not None:
        head["unit"] = "row" if unit.column is None else Line(column=unit.column, max_rows=unit.max_rows)
    if neighbours is not None:
        head["neighbours"] = neighbours
    if provenance is not None:
        head["provenance"] = provenance
    lines = [f"# {what}", *(() if unit is not None else _UNSAID), *_plain_lines(head), *(() if unit else ("unit:",))]
    lines += [*(() if neighbours else ("neighbours:",)), "fields:"]
    for column, keys, reason in fields:
        lines.append(f"# {_one_line(column)}: {_one_line(reason)}")
        keys = keys or {"name": column, "type": None, "role": "private"}
        entry = _field_lines(Line(keys))
        lines += [f"# {line}" for line in entry] if None in keys.values() else entry
    return "\n".join(lines) + "\n"


def _field_lines(entry: Line) -> list[str]:
    """A field in flow style where it fits a line, else key by key, and a long list one value a line: labels are never wrapped."""
    (flat,) = _plain_lines([entry])
    if len(flat) <= _WIDEST:
        return [re.sub(r"\b(type|enum|minimum|maximum): null(?=[,}])", r"\1: ", flat)]
    lines = []
    for key, value in entry.items():
        line = _plain_lines(Line({key: value}))[0][1:-1]
        if len(line) > _WIDEST and isinstance(value, list):
            lines += [f"{key}:", *(f"  - {_plain_lines([item])[0][2:]}" for item in value)]
        else:
            lines.append(line)
    return [("- " if i == 0 else "  ") + line for i, line in enumerate(lines)]


def _plain_lines(value: object) -> list[str]:
    return render_wide(value).splitlines()


def _one_line(text: str) -> str:
    """A text for a comment, where nothing is escaped."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def check_header_names(header: Sequence[str]) -> None:
    """Refuse a header with no column, one without a name, or one twice."""
    if not header:
        raise SchemaError("the header names no column; check the file's first line")
    for i, column in enumerate(header):
        if not str(column).strip():
            raise SchemaError(f"the header's column {i + 1} has no name; name it")
        if column in header[:i]:
            # Without its name: a file without a header has values there.
            raise SchemaError(
                f"the header's columns {header.index(column) + 1} and {i + 1} have the same name; rename one"
            )
