"""Simulated tables like the American Community Survey's: people in tracts, counties and states.

Composition by race and age drifts from nation to state to county to tract (Dirichlet about the place above); education
depends on age, race and state, work and income on education and sex.
"""

from __future__ import annotations

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.schema import Codes, Schema

STATES, COUNTIES, TRACTS, ROWS = 5, 8, 10, 200_000
QUERIES = (("sex", "age"), ("race", "hispanic"))
"""What TopDown is told of: these tables, and totals, in every place of every level."""
SIZES = {"sex": 2, "age": 9, "race": 5, "hispanic": 2, "education": 6, "work": 3, "income": 8}


def schema() -> Schema:
    """One row a person; 400 tracts."""
    codes = [f"{s:02d}{c:03d}{t:04d}" for s in range(STATES) for c in range(COUNTIES) for t in range(TRACTS)]
    fields: list[dict[str, object]] = [
        {
            "name": "tract",
            "type": "string",
            "enum": codes,
            "other": codes[0],
            "hierarchy": {"state": 2, "county": 5, "tract": 9},
        }
    ]
    for name, size in SIZES.items():
        labels = [f"{name[:2]}{i}" for i in range(size)]
        fields.append({"name": name, "type": "string", "enum": labels, "other": labels[0]})
    return Schema.from_dict({"name": "people", "unit": "row", "neighbours": "replace", "fields": fields})


def simulate(seed: int, rows: int = ROWS) -> Codes:
    """People of one simulated nation."""
    random = np.random.default_rng([2401, 18024, seed])
    tracts = STATES * COUNTIES * TRACTS
    weight = random.gamma(2.0, 1.0, tracts)
    tract = np.sort(random.choice(tracts, rows, p=weight / weight.sum()))
    state = tract // (COUNTIES * TRACTS)
    race = _draw(random, _drift(random, [0.6, 0.13, 0.06, 0.01, 0.2])[tract])
    age = _draw(random, _drift(random, [0.12, 0.13, 0.14, 0.13, 0.12, 0.13, 0.1, 0.08, 0.05])[tract])
    sex = (random.random(rows) < 0.51).astype(np.int64)
    hispanic = (random.random(rows) < np.array([0.08, 0.03, 0.02, 0.15, 0.6])[race]).astype(np.int64)
    education = _draw(random, random.dirichlet(np.full(6, 1.5), 9 * 5 * STATES)[(age * 5 + race) * STATES + state])
    work = _draw(random, random.dirichlet(np.full(3, 1.5), 6 * 2 * 9)[(education * 2 + sex) * 9 + age])
    income = _draw(random, random.dirichlet(np.full(8, 0.8), 6 * 2 * 3)[(education * 2 + sex) * 3 + work])
    columns = {"tract": tract, "sex": sex, "age": age, "race": race, "hispanic": hispanic}
    return Codes.of(schema(), columns | {"education": education, "work": work, "income": income}, rows)


def _drift(random: np.random.Generator, nation: list[float]) -> Floats:
    """The composition of every tract."""
    found = np.array([nation])
    for inside, strength in ((STATES, 60.0), (COUNTIES, 40.0), (TRACTS, 25.0)):
        found = np.array([random.dirichlet(strength * p + 0.01) for p in np.repeat(found, inside, axis=0)])
    return found


def _draw(random: np.random.Generator, law: Floats) -> Ints:
    reached = np.cumsum(law, axis=1)
    return np.asarray((random.random((len(law), 1)) * reached[:, -1:] > reached[:, :-1]).sum(axis=1), dtype=np.int64)
