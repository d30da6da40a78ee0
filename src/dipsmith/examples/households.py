"""Simulated households and their members, with known truth: who lives with whom is decided here.

A household has a region, a tenure and a survey weight; its members are a head, perhaps a partner, children and others.
Members of one household are alike: partners are of about the same age and education, children take their education from
the head's, and most share the head's origin. `Truth` says how much. All of them are invented.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Ints
from dipsmith.examples import write_example
from dipsmith.schema import Schema

REGIONS: Final = ("north", "east", "south", "west")
TENURES: Final = ("owned", "rented", "social")
RELATIONS: Final = ("head", "partner", "child", "other")
EDUCATIONS: Final = ("none yet", "low", "middle", "high")
ORIGINS: Final = ("A", "B", "C", "D")
MOST: Final = 8


@dataclass(frozen=True)
class HouseholdTruth:
    """What made the households: how often they have a partner, and how alike members are."""

    partner: float = 0.55  # share of heads with a partner
    same_origin: float = 0.85  # chance that a member has the head's origin; else it is drawn at random
    same_education: float = 0.5  # chance that a partner has the head's level; else it is drawn at random
    years_apart: float = 4.0  # standard deviation of the difference between partners' ages
    children: float = 1.3  # expected children of a couple whose head is 25 to 54


def simulate(households: int = 20_000, seed: int = 0) -> tuple[pa.Table, pa.Table, HouseholdTruth]:
    """Simulate a table of households, one of persons, and the truth behind them.

    >>> homes, persons, truth = simulate(500)
    >>> homes.column_names, persons.column_names
    (['hid', 'region', 'tenure', 'weight'], ['hid', 'relation', 'age', 'sex', 'education', 'origin'])
    >>> bool(max(persons["hid"].value_counts().field("counts").to_pylist()) <= 8)
    True
    """
    random, truth = np.random.default_rng([seed, 4417]), HouseholdTruth()
    region = random.choice(4, households, p=(0.2, 0.3, 0.35, 0.15))
    origin = np.where(random.random(households) < 0.7, 0, random.integers(0, 4, households))
    age = np.clip(random.gamma(9.0, 5.8, households), 18, 95).astype(np.int64)
    education = 1 + random.binomial(2, np.where(age < 60, 0.55, 0.4))
    rich = random.random(households) < 0.25 + 0.15 * education
    tenure = np.where(rich, 0, 1 + (random.random(households) < 0.35 + 0.1 * (origin > 0)))
    couple = random.random(households) < truth.partner
    fertile = (age >= 25) & (age < 55)
    children = np.minimum(random.poisson(truth.children * np.where(couple, 1.0, 0.35) * fertile), 5)
    others = random.random(households) < 0.06
    sex = random.integers(0, 2, households)
    head = np.arange(households)
    parts = [(head, np.full(households, 0), age, sex, education, origin)]
    at = np.flatnonzero(couple)
    near = np.clip(age[at] + random.normal(0, truth.years_apart, at.size), 18, 95).astype(np.int64)
    same = random.random(at.size) < truth.same_education
    learned = np.where(same, education[at], 1 + random.binomial(2, 0.5, at.size))
    parts.append((at, np.full(at.size, 1), near, 1 - sex[at], learned, _origin(origin[at], truth, random)))
    at = np.repeat(head, children)
    young = np.clip(age[at] - 25 - random.integers(0, 12, at.size), 0, 30)
    learned = np.where(young < 16, 0, np.clip(education[at] + random.integers(-1, 2, at.size), 1, 3))
    parts.append(
        (at, np.full(at.size, 2), young, random.integers(0, 2, at.size), learned, _origin(origin[at], truth, random))
    )
    at = np.flatnonzero(others)
    old = random.integers(18, 90, at.size)
    learned = 1 + random.binomial(2, 0.4, at.size)
    parts.append(
        (at, np.full(at.size, 3), old, random.integers(0, 2, at.size), learned, _origin(origin[at], truth, random))
    )
    owner, relation, years, sexes, levels, origins = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    weight = np.round(np.array([80.0, 120.0, 100.0, 150.0])[region] * random.gamma(20.0, 0.05, households), 1)
    homes = pa.table(
        {
            "hid": head + 100_001,
            "region": _labels(REGIONS, region),
            "tenure": _labels(TENURES, tenure),
            "weight": weight,
        }
    )
    persons = pa.table(
        {
            "hid": owner[order] + 100_001,
            "relation": _labels(RELATIONS, relation[order]),
            "age": years[order],
            "sex": _labels(("F", "M"), sexes[order]),
            "education": _labels(EDUCATIONS, levels[order]),
            "origin": _labels(ORIGINS, origins[order]),
        }
    )
    return homes, persons, truth


def schema(neighbours: str = "add-remove", unit: str = "household", *, weighted: bool = False) -> Schema:
    """Describe the simulated households and their members; `weighted` makes the weight a survey weight."""
    weight = {"name": "weight", "type": "number", "minimum": 0, "maximum": 400, "bins": {"width": 40}}
    people: dict[str, Any] = {
        "name": "persons",
        "fields": [
            {"name": "relation", "type": "string", "enum": list(RELATIONS), "other": "other"},
            {"name": "age", "type": "integer", "minimum": 0, "maximum": 99, "bins": {"width": 10}},
            {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
            {"name": "education", "type": "string", "enum": list(EDUCATIONS), "ordered": True, "other": "none yet"},
            {"name": "origin", "type": "string", "enum": list(ORIGINS), "other": "D"},
        ],
        "rules": [{"never": {"relation": ["head", "partner"], "age": {"below": 10}}}],
    }
    return Schema.from_dict(
        {
            "name": "households",
            "unit": unit,
            "neighbours": neighbours,
            "members": people,
            "key": "hid",
            "max_members": MOST,
            "order": "relation",
            "fields": [
                {"name": "region", "type": "string", "enum": list(REGIONS), "other": "north"},
                {"name": "tenure", "type": "string", "enum": list(TENURES), "other": "rented"},
                {**weight, "role": "weight"} if weighted else weight,
            ],
        }
    )


def write(folder: str | Path, households: int = 20_000, *, seed: int = 0) -> HouseholdTruth:
    """Write households.parquet, persons.parquet and households.yaml, with the survey weight, into a folder."""
    import pyarrow.parquet

    homes, persons, truth = simulate(households, seed)
    write_example(folder, homes, schema(weighted=True))
    pyarrow.parquet.write_table(persons, Path(folder) / "persons.parquet")
    return truth


def _origin(head: Ints, truth: HouseholdTruth, random: np.random.Generator) -> Ints:
    return np.where(random.random(head.size) < truth.same_origin, head, random.integers(0, 4, head.size))


def _labels(labels: tuple[str, ...], codes: Ints) -> pa.Array:
    return pa.array(labels, pa.string()).take(pa.array(codes))
