"""Two private labels made one after the other, as the reports do it and as it can be done.

*As reported*: the first ensemble makes synthetic sex; it replaces the authentic one, and the second ensemble learns race
from public columns and **synthetic** sex. Given its leaf, synthetic sex is drawn independently of race, so that there
is nothing between them to be learned. This variant exists here only, to show what it does.

*Applied*: the second ensemble learns race from authentic sex and is applied to synthetic sex; `Forest(leaves="sequential")`.
*Joint*: one ensemble whose leaves hold both labels; `Forest(leaves="joint")`, the default.

The measure is the association of sex and race given the public columns: the common log-odds ratio within their cells
(Mantel and Haenszel 1959).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dipsmith as ds
from dipsmith.sources import source

ROWS = 100_000
REPEATS = 10
EPSILONS = (0.5, 1.0, 2.0, 8.0)
"""In all, for both labels, whichever way they are made."""
LOG_ODDS = 2.0
N_B = 100
AUTHENTIC = "authentic rows"
Column = NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """The association that one release keeps."""

    variant: str
    epsilon: float
    repeat: int
    log_odds: float


def schema(sex: str = "private") -> ds.Schema:
    """Grade, age and place are public; sex and race private, or sex already given."""
    fields = [
        {"name": "grade", "type": "integer", "enum": [1, 2, 3, 4, 5], "other": 1, "role": "public"},
        {"name": "age", "type": "integer", "enum": [1, 2, 3, 4, 5, 6], "other": 1, "role": "public"},
        {"name": "place", "type": "integer", "enum": [1, 2, 3, 4, 5, 6, 7, 8], "other": 1, "role": "public"},
        {"name": "sex", "type": "integer", "enum": [0, 1], "other": 0, "role": sex},
        {"name": "race", "type": "integer", "enum": [0, 1], "other": 0, "role": "private"},
    ]
    return ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": "label", "fields": fields})


def people(rows: int, seed: int) -> pa.Table:
    """Sex depends on grade and age, race on place and on sex: log-odds of `LOG_ODDS` whatever the public columns."""
    rng = np.random.default_rng(seed)
    grade, age = rng.integers(0, 5, rows), rng.integers(0, 6, rows)
    place = np.minimum(rng.geometric(0.35, rows) - 1, 7)
    sex = rng.random(rows) < _expit(0.8 * (grade - 2) + 0.3 * (age - 2.5))
    race = rng.random(rows) < _expit(LOG_ODDS * sex + 0.2 * place - 1.5)
    columns = {"grade": grade + 1, "age": age + 1, "place": place + 1, "sex": sex, "race": race}
    return pa.table({name: np.asarray(values, dtype=np.int64) for name, values in columns.items()})


def as_reported(rows: pa.Table, epsilon: float, seed: int) -> pa.Table:
    """Half of ε for sex; then race from synthetic sex, with the other half."""
    budget = ds.PureDP(epsilon).split(2)
    first = _release(rows, schema(), ["sex"], budget[0], seed)
    given = rows.set_column(rows.column_names.index("sex"), "sex", first["sex"])
    return _release(given, schema("public"), ["race"], budget[1], seed + 1)


def applied(rows: pa.Table, epsilon: float, seed: int) -> pa.Table:
    """Race from authentic sex, applied to synthetic sex."""
    return _release(rows, schema(), ["sex", "race"], ds.PureDP(epsilon), seed, leaves="sequential")


def joint(rows: pa.Table, epsilon: float, seed: int) -> pa.Table:
    """Both labels in one leaf."""
    return _release(rows, schema(), ["sex", "race"], ds.PureDP(epsilon), seed, leaves="joint")


VARIANTS: dict[str, Callable[[pa.Table, float, int], pa.Table]] = {
    "trained on synthetic sex (as reported)": as_reported,
    "trained on authentic sex, applied to synthetic": applied,
    "joint leaves": joint,
}


def _release(
    rows: pa.Table, about: ds.Schema, targets: list[str], budget: ds.PureDP, seed: int, **how: Any
) -> pa.Table:
    """Labels for the same rows in the same order."""
    # Every branch may ask every column, so that nothing but the training decides what is kept.
    forest = ds.Forest(targets=targets, trees=1, n_b=N_B, shrink=False, marginal_share=0, weights=None, **how)
    release = ds.synthesize(rows, about, forest, budget=budget, testing=True, noise_seed=seed, seed=seed)
    return release.models[0].label(
        source(rows), seed
    )  # by the model: a release does not label its own rows in their order


def association(table: pa.Table) -> float:
    """The common log-odds ratio of sex and race within the cells of the public columns."""
    columns = {name: table[name].to_numpy().astype(np.int64) for name in table.column_names}
    cell = (columns["grade"] * 10 + columns["age"]) * 10 + columns["place"]
    place = np.unique(cell, return_inverse=True)[1] * 4 + columns["sex"] * 2 + columns["race"]
    counts = np.bincount(place, minlength=(place.max() // 4 + 1) * 4).reshape(-1, 4).astype(np.float64)
    n = np.maximum(counts.sum(axis=1), 1.0)
    return float(np.log((counts[:, 0] * counts[:, 3] / n).sum() / (counts[:, 1] * counts[:, 2] / n).sum()))


def run_all(rows: int = ROWS, repeats: int = REPEATS, epsilons: Sequence[float] = EPSILONS) -> list[Run]:
    """Every variant at every ε, on other people in each repeat."""
    found = []
    for repeat in range(repeats):
        table = people(rows, repeat)
        found.append(Run(AUTHENTIC, 0.0, repeat, association(table)))
        for name, variant in VARIANTS.items():
            found += [Run(name, e, repeat, association(variant(table, e, 10 * repeat))) for e in epsilons]
    return found


def write(runs: Sequence[Run], path: Path) -> None:
    """Write the runs as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f.name for f in fields(Run)])
        writer.writerows([*astuple(one)[:3], f"{one.log_odds:.4f}"] for one in runs)


def read(path: Path) -> list[Run]:
    """Read them back."""
    with path.open(newline="") as file:
        return [
            Run(r["variant"], float(r["epsilon"]), int(r["repeat"]), float(r["log_odds"])) for r in csv.DictReader(file)
        ]


def _expit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-x)))
