"""Neighbouring tables that differ in all rows of one unit: a career, a household, a person in one, a weighted person.

As in `assurance.pairs` a pair is drawn from a seed, and kinds of the unit that differs follow one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from assurance.pairs import FIELDS, Pair
from dipsmith.privacy.randomness import Generator, generator
from dipsmith.schema import Schema

YEARS: Final = range(1, 5)
COLUMNS: Final = ("person", "year", "sex", "grade")
HOME, MEMBER = ("hid", "tenure"), ("hid", "sex", "w")

CAREERS: Final[dict[str, list[tuple[int, str, int]]]] = {
    "whole": [(year, "F", 1) for year in YEARS],
    "a gap": [(1, "F", 0), (4, "F", 1)],
    "more rows than count": [(year, "M", grade) for year in YEARS for grade in (0, 1)],
    "forbidden": [(year, "F", 2) for year in range(1, 4)],
    "one row": [(3, "M", 1)],
}
"""The career that one table has and the other has not, or has another one instead."""

SIZES: Final = {"alone": 1, "nobody": 0, "all that count": 3, "more than count": 6}
"""Members of the household that differs."""


def panel_schema(relation: str) -> Schema:
    """Three rows of a person count, in four years."""
    fields = [
        {"name": "year", "type": "integer", "minimum": 1, "maximum": 4},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
        {"name": "grade", "type": "integer", "minimum": 0, "maximum": 2},
    ]
    unit = {"column": "person", "max_rows": 3, "order": "year"}
    rules = [{"never": {"sex": "F", "grade": 2}}]
    told = {"name": "careers", "unit": unit, "neighbours": relation, "fields": fields, "rules": rules}
    return Schema.from_dict(told)


def career_pair(relation: str, seed: int) -> Pair:
    """People over four years, who differ in one career: it is there or not, or another one is in its place."""
    random, kind = generator(seed), list(CAREERS)[seed % len(CAREERS)]
    rows = [
        (f"p{person}", year, "FM"[person % 2], int(random.integers(0, 2)))
        for person in range(int(random.choice([1, 4, 12])))
        for year in range(1 + person % 3, 5)
        if random.random() < 0.8
    ]
    ours = [("x", *row) for row in CAREERS[kind]]
    instead = [] if relation == "add-remove" else [("x", 2, "M", 2)]
    before, after = (_named(COLUMNS, [*side, *rows]) for side in (instead, ours))
    return Pair(kind, panel_schema(relation), before, after)


def household_schema(relation: str, unit: str = "household") -> Schema:
    """Households of one column with at most three members of one column and a survey weight."""
    home = {"name": "tenure", "type": "string", "enum": ["own", "rent"], "other": "own"}
    person = {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"}
    weight = {"name": "w", "type": "number", "minimum": 1, "maximum": 8, "bins": {"count": 2}, "role": "weight"}
    members = {"name": "people", "fields": [person, weight]}
    told = {"name": "homes", "unit": unit, "key": "hid", "max_members": 3, "neighbours": relation, "fields": [home]}
    return Schema.from_dict({**told, "members": members})


def household_pair(relation: str, seed: int) -> Pair:
    """Households that differ in one, with all its members."""
    random, kind = generator(seed), list(SIZES)[seed % len(SIZES)]
    homes, people = _neighbourhood(random)
    instead = [("x", "rent")] if relation == "replace" else []
    crowd = [("x", "F", "8")] * SIZES[kind]
    nobody: list[tuple[str, str, str]] = []
    sides = ((instead, nobody), ([("x", "own")], crowd))
    before, after = ((_named(HOME, [*own, *homes]), _named(MEMBER, [*theirs, *people])) for own, theirs in sides)
    return Pair(kind, household_schema(relation), before, after)


def _neighbourhood(random: Generator) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Eight households with up to three members."""
    homes = [(f"h{i}", str(random.choice(["own", "rent"]))) for i in range(8)]
    people = [(f"h{i}", str(random.choice(["F", "M"])), "2.5") for i in range(8) for _ in range(i % 4)]
    return homes, people


PERSONS: Final[dict[str, tuple[str, ...]]] = {
    "joins": ("F", "M"),
    "lives alone": (),
    "is the head": ("M", "M"),
    "one too many": ("F", "M", "M"),
    "changes the household": ("F",),
}
"""The sexes of those with whom the person lives that one table has and the other has not, or has another one instead."""


def person_pair(relation: str, seed: int) -> Pair:
    """Households that differ in one person, and in what that person changes in the row of its household."""
    random, kind = generator(seed), list(PERSONS)[seed % len(PERSONS)]
    homes, people = _neighbourhood(random)
    rest = [("x", sex, "7") for sex in PERSONS[kind]]
    house, other = [("x", "own")], [("x", "rent" if kind == "changes the household" else "own")]
    if relation == "add-remove":
        sides = ((other if rest else [], rest), (house, [*rest, ("x", "F", "8")]))
    else:
        sides = ((other, [*rest, ("x", "M", "8")]), (house, [*rest, ("x", "F", "8")]))
    before, after = ((_named(HOME, [*own, *homes]), _named(MEMBER, [*theirs, *people])) for own, theirs in sides)
    return Pair(kind, household_schema(relation, "person"), before, after)


def weighted_pair(relation: str, seed: int) -> Pair:
    """People with a survey weight who differ in one: a light one, a heavy one, one beyond the bound, one without."""
    random = generator(seed)
    weights = {"light": "1", "heavy": "7.5", "beyond the bound": "1e9", "no weight": ""}
    kind = list(weights)[seed % len(weights)]
    schema = Schema.from_dict(
        {
            "name": "weighted",
            "unit": "row",
            "neighbours": relation,
            "fields": [
                {"name": "race", **FIELDS["race"], "role": "private"},
                {"name": "w", "type": "number", "minimum": 1, "maximum": 8, "bins": {"width": 1}, "role": "weight"},
            ],
        }
    )
    rows = [_weighted(random) for _ in range(10)]
    instead = [("A", "2")] if relation == "replace" else []
    before, after = (_named(("race", "w"), [*side, *rows]) for side in (instead, [("B", weights[kind])]))
    return Pair(kind, schema, before, after)


def _weighted(random: Generator) -> tuple[str, str]:
    return str(random.choice(["A", "B", "C"])), f"{1 + 6 * random.random():.2f}"


def _named(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    kinds = [pa.int64() if name in ("year", "grade") else pa.string() for name in names]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    return pa.table(dict(zip(names, columns, strict=True)))
