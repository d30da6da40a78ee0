"""Households: two tables, one row for each household and one for each of its members, and the lines made of both.

A schema with `members: persons.yaml, key: hid, max_members: 8` describes both. Its *lines* are a table with one line for
every household: its own columns, how many members it has (`SIZE`), the columns of its head, the columns of one of the
other members, chosen by the keyed hash, and the columns of the member listed before that one (`EARLIER` says whether
there is one beside the head). Who is not there has the level `ABSENT`.

Members stand in the order of a column (`order: relation`), then of their codes; the first is the head. The first level of
`order` belongs to the head alone. So whatever measures tables of rows can measure households, and a household has one line:
the sensitivity of every table is that of one row (``docs/proofs/household.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.domain import Categories
from dipsmith.schema.rules import Rule
from dipsmith.schema.steps import ABSENT
from dipsmith.schema.weights import check_weight

if TYPE_CHECKING:
    from dipsmith.schema.analysis import PlannedAnalysis
    from dipsmith.schema.schema import Schema

SIZE: Final = "(members)"
EARLIER: Final = "(earlier)"
NONE, ONE = range(2)

MOST_MEMBERS: Final = 100


@dataclass(frozen=True)
class Members:
    """The members of households: their schema, the column they are listed by, and rules over columns of both tables."""

    schema: Schema
    order: str | None = None
    rules: tuple[Rule, ...] = ()


def of_head(name: str) -> str:
    """What the column of a line is called that has the value of the head.

    >>> of_head("age")
    'age (head)'
    """
    return f"{name} (head)"


def of_member(name: str) -> str:
    """The same of the member that was chosen."""
    return f"{name} (member)"


def of_earlier(name: str) -> str:
    """The same of the member listed before the chosen one."""
    return f"{name} (earlier)"


COPIES: Final = (of_head, of_member, of_earlier)


def members_of(schema: Schema) -> Members:
    """The members of a schema that has some."""
    assert schema.members is not None
    return schema.members


def line_schema(schema: Schema) -> Schema:
    """The schema of the lines of households."""
    members = members_of(schema)
    most = members.schema.unit.max_rows
    attributes = [
        *schema.attributes,
        Attribute(SIZE, "integer", Categories.of([str(n) for n in range(most + 1)], other="0", ordered=True)),
        Attribute(EARLIER, "string", Categories.of(["none", "one"], other="none")),
    ]
    for copy in COPIES:
        for column in members.schema.attributes:
            labels = [f"{i}: {label}" for i, label in enumerate(column.labels)]
            domain = Categories.of([*labels, ABSENT], other=ABSENT, ordered=column.domain.ordered)
            attributes.append(Attribute(copy(column.name), "string", domain))
    rules = (*schema.rules, *_presence(members, most), *_of_people(members), *_of_order(members))
    unit = replace(schema.unit, max_rows=1, members=None)
    return replace(schema, attributes=tuple(attributes), unit=unit, rules=rules, analyses=(), members=None)


def _presence(members: Members, most: int) -> Iterator[Rule]:
    """Who is there has values, who is not has none."""
    yield Rule(((SIZE, (0, 1, 2)), (EARLIER, (ONE,))), "two members have none between them")
    for column in members.schema.attributes:
        there, absent = tuple(range(column.size)), (column.size,)
        for copy, least in ((of_head, 1), (of_member, 2)):
            yield Rule(((SIZE, tuple(range(least))), (copy(column.name), there)), "who is not there has no values")
            yield Rule(((SIZE, tuple(range(least, most + 1))), (copy(column.name), absent)), "who is there has values")
        yield Rule(((EARLIER, (NONE,)), (of_earlier(column.name), there)), "who is not there has no values")
        yield Rule(((EARLIER, (ONE,)), (of_earlier(column.name), absent)), "who is there has values")


def _of_people(members: Members) -> Iterator[Rule]:
    """What the rules of members, and those over both tables, say of a head and of another member."""
    for rule in (*members.schema.rules, *members.rules):
        for copy in (of_head, of_member):
            never = tuple((copy(name) if name in members.schema else name, codes) for name, codes in rule.never)
            yield Rule(never, rule.text)


def _of_order(members: Members) -> Iterator[Rule]:
    """Members stand in order, and only the head has the first level."""
    if members.order is None:
        return
    size, own = members.schema[members.order].size, of_member(members.order)
    for copy in (of_member, of_earlier):
        yield Rule(((copy(members.order), (0,)),), "only the head has the first level")
    for copy in (of_head, of_earlier):
        for level in range(1, size):
            before = tuple(range(level))
            yield Rule(((own, before), (copy(members.order), (level,))), "members stand in order")


def check_most_members(most: int) -> None:
    """Refuse a number of members that no table of lines can have."""
    if not 2 <= most <= MOST_MEMBERS:
        raise SchemaError(f"max_members is {most}, expected 2 to {MOST_MEMBERS}; the most members that count")


def check_members(schema: Schema) -> None:
    """Refuse households whose two tables contradict each other, or that have names that lines need."""
    members = members_of(schema)
    people = members.schema
    check_most_members(people.unit.max_rows)
    if schema.neighbours == "label":
        raise SchemaError("households are made whole, under add-remove or replace; under label leave members out")
    if people.analyses:
        raise SchemaError("analyses are not planned for members, since those of one household are not independent")
    require_own_columns(schema.analyses, schema)
    if not all(c.isalnum() or c in "-_" for c in people.name) or people.name == schema.name:
        raise SchemaError(
            f"members: name is '{people.name}', which goes into the names of files; use letters, digits, - and _, and "
            f"another name than '{schema.name}'"
        )
    check_weight(people)
    if shared := [name for name in people.names if name in schema]:
        raise SchemaError(f"column '{shared[0]}' is in both tables; names must differ, so rename it in one of them")
    taken = {SIZE, EARLIER, *(copy(name) for copy in COPIES for name in people.names)}
    for name in (*schema.names, *people.names):
        if name in taken:
            raise SchemaError(f"column '{name}' has a name that lines of households need; rename it")
    if members.order is not None:
        _check_order(members)


def require_own_columns(analyses: Sequence[PlannedAnalysis], schema: Schema) -> None:
    """Refuse analyses that name columns of members, where there are some."""
    people = () if schema.members is None else schema.members.schema.names
    for analysis in analyses:
        if named := [name for name in analysis.columns if name in people]:
            raise SchemaError(
                f"analysis '{analysis}' names '{named[0]}', a column of members: those of one household are not "
                "independent, so that only columns of households are planned"
            )


def _check_order(members: Members) -> None:
    name = str(members.order)
    if name not in members.schema:
        raise SchemaError(f"order is '{name}', which is no column of members; name one, such as relation")
    domain = members.schema[name].domain
    if not isinstance(domain, Categories) or domain.missing or domain.size < 2:
        raise SchemaError(
            f"column '{name}' is the order of members: it needs an enum of two or more levels, that of the head first, and "
            "no missing"
        )
    if domain.other == 0:
        raise SchemaError(f"column '{name}' is the order of members: other may not be the head's level; name another")
