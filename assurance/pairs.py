"""Neighbouring tables of every awkward kind, as raw rows: what one unit may do to a run.

A pair is drawn from a seed. The unit that differs is added, removed or replaced; its label is flipped; it holds an
outlier, a category that no schema names, a missing value, a combination that a rule forbids; it owns several rows, more
than count, or the same row twice; it is alone in the table, or the table is empty without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from dipsmith.privacy.randomness import Generator, generator
from dipsmith.schema import Schema

Row = dict[str, Any]

KINDS: Final = {
    "add-remove": (
        "add", "remove", "outlier", "new category", "NaN", "empty table", "one row", "forbidden",
        "duplicate unit", "several rows per unit",
    ),
    "replace": (
        "replace", "label flip", "outlier", "new category", "NaN", "one row", "forbidden", "duplicate unit",
        "several rows per unit",
    ),
    "label": (
        "label flip", "outlier", "new category", "NaN", "one row", "forbidden", "duplicate unit",
        "several rows per unit",
    ),
}  # fmt: skip
"""The kinds of differences that each relation knows."""

_ELABORATE: Final = ("forbidden", "duplicate unit", "several rows per unit")

PUBLIC: Final = ("age", "grade")
PRIVATE: Final = ("sex", "race")

FIELDS: Final[dict[str, dict[str, Any]]] = {
    "age": {"type": "integer", "minimum": 20, "maximum": 49, "bins": {"width": 10}, "missing": True, "role": "public"},
    "grade": {"type": "string", "enum": ["a", "b", "c"], "other": "a", "role": "public"},
    "sex": {"type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
    "race": {"type": "string", "enum": ["A", "B", "C"], "other": "C", "role": "private"},
}  # fmt: skip
"""What a schema file says of each column."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two tables that are neighbours under the schema; of households two each."""

    kind: str
    schema: Schema
    before: Any
    after: Any


def neighbours(relation: str, seed: int, *, plain: bool = False) -> Pair:
    """A pair of neighbouring tables; kinds follow one another as the seed grows.

    With `plain` the schema has no rules and a unit is a row, for settings that are refused otherwise.
    """
    kinds = [k for k in KINDS[relation] if not plain or k not in _ELABORATE]
    kind = kinds[seed % len(kinds)]
    random = generator(seed)
    limit = None if plain else _limit(kind, random)
    ruled = not plain and (kind == "forbidden" or random.random() < 0.3)
    schema = pair_schema(relation, limit, ruled=ruled)
    units = 0 if kind in ("empty table", "one row") else int(random.choice([1, 4, 15, 40]))
    others = [row for unit in range(units) for row in _unit(unit, random, limit)]
    ours = _unit(units, random, limit)
    if kind == "one row":
        ours = ours[:1]
    if kind == "duplicate unit":
        ours = [dict(ours[0]) for _ in range(len(ours) + 1)]
    if kind == "several rows per unit" and limit is not None:
        ours += [_row(units, random) for _ in range(int(random.integers(1, 4)))]
    changed = _changed(kind, relation, ours, units, random)
    before, after = (others, ours), (others, changed)
    if relation == "add-remove":
        before, after = (others, []), (others, changed)
        if kind == "remove" or random.random() < 0.3:
            before, after = after, before
    place = int(random.integers(0, units + 1))
    columns = [*PUBLIC, *PRIVATE, "id"]
    return Pair(kind, schema, *(_table(columns, *rows, place) for rows in (before, after)))


def pair_schema(relation: str, limit: int | None, *, ruled: bool) -> Schema:
    """Two public and two private columns; a unit is a row, or a person with at most `limit` rows."""
    rules = [
        {"never": {"grade": "b", "race": "C"}},
        {"never": {"age": {"below": 30}, "grade": "c"}},
    ]
    return Schema.from_dict(
        {
            "name": "audited",
            "unit": "row" if limit is None else {"column": "id", "max_rows": limit},
            "neighbours": relation,
            "fields": [{"name": name, **field} for name, field in FIELDS.items()],
            "rules": rules if ruled else [],
        }
    )


def _limit(kind: str, random: Generator) -> int | None:
    if kind == "several rows per unit":
        return int(random.choice([1, 2, 3]))
    if kind == "duplicate unit":
        return int(random.choice([1, 2]))
    return None if random.random() < 0.7 else int(random.choice([1, 2]))


def _unit(unit: int, random: Generator, limit: int | None) -> list[Row]:
    rows = 1 if limit is None else int(random.integers(1, limit + 2))
    return [_row(unit, random) for _ in range(rows)]


def _row(unit: int, random: Generator) -> Row:
    return {
        "age": str(random.choice(["23", "25", "31", "38", "44", "49", ""])),
        "grade": str(random.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1])),
        "sex": str(random.choice(["F", "M"])),
        "race": str(random.choice(["A", "B", "C"], p=[0.7, 0.2, 0.1])),
        "id": f"u{unit}",
    }


def _changed(kind: str, relation: str, ours: Sequence[Row], unit: int, random: Generator) -> list[Row]:
    """The unit's rows in the other table."""
    free = PRIVATE if relation == "label" else (*PUBLIC, *PRIVATE)
    rows = [dict(row) for row in ours]
    if relation == "replace" and kind in ("replace", "several rows per unit", "duplicate unit"):
        # A person may come back with more or fewer rows; where a unit is a row there is one for one.
        more = int(random.integers(1, 5)) if kind == "several rows per unit" else len(rows)
        return [_row(unit, random) for _ in range(more)]
    for row in rows:
        fresh = _row(unit, random)
        flipped = ("sex",) if kind == "label flip" and random.random() < 0.5 else free
        row.update({name: fresh[name] for name in flipped})
        if kind == "label flip":
            row["sex"] = "F" if row["sex"] == "M" else "M"
    awkward = rows[0]
    if kind == "outlier":
        awkward.update(_only({"age": "1e300", "grade": "z" * 3000, "race": "-inf"}, free))
    elif kind == "new category":
        awkward.update(_only({"grade": "новый", "sex": "nonbinary", "race": "=1+1"}, free))
    elif kind == "NaN":
        awkward.update(_only({"age": "NaN", "grade": None, "sex": None, "race": "nan"}, free))
    elif kind == "forbidden":
        awkward.update(_only({"age": "23", "grade": "b", "race": "C"}, free))
    return rows


def _only(values: Row, names: Sequence[str]) -> Row:
    return {name: value for name, value in values.items() if name in names}


def _table(columns: Sequence[str], others: Sequence[Row], ours: Sequence[Row], place: int) -> pa.Table:
    rows = [*others[:place], *ours, *others[place:]]
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns})
