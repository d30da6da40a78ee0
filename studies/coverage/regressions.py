"""Regressions on releases whose population is known: ordinary intervals, noise-aware ones, and with bias corrected.

The whole path is run: rows, `synthesize`, a release, the mechanism again as `noise_aware` does (which `dipsmith.fit` calls),
an interval. Only the least squares in the middle are done on the 96 cells of the table instead of its rows, which
gives the same numbers (tests/inference/test_coverage_study.py holds them to `dipsmith.fit`) twenty times sooner.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats
from studies.coverage.lines import Line

import dipsmith as ds
from dipsmith.inference.combine import Combined
from dipsmith.inference.noise_aware import Replication, rerun, sampling_only, with_noise
from dipsmith.privacy.randomness import generator
from dipsmith.regression.estimates import Estimates

REPEATS, PIECE = 1000, 50
FORMULA = "y ~ a + s"
NAMES = ("Intercept", "a[T.q]", "a[T.r]", "a[T.s]", "s[T.F]")
SETS = 5
CONTROL, ORDINARY, AWARE, CORRECTED = "authentic rows", "ordinary", "noise-aware", "and corrected"
SPLIT, AUTHENTIC = "5 separate sets", "corrected: authentic estimate"
KINDS = (CONTROL, ORDINARY, AWARE, CORRECTED, SPLIT, AUTHENTIC)
GROUPS, LARGEST = "pqrs", 11
WOMEN = np.array([0.3, 0.4, 0.55, 0.7])
"""The share of women in each group."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scenario:
    """A release of a sample from the population, and which coefficients are looked at.

    Attributes
    ----------
    name
        For print.
    rows, epsilon
        Of the release.
    schema, method
        What is public, and how it is synthesised.
    terms
        The coefficients.
    repeats, runs
        Simulated releases, and runs of the mechanism in each.
    """

    name: str
    rows: int
    epsilon: str
    schema: ds.Schema
    method: Any
    terms: tuple[str, ...]
    repeats: int
    runs: int


def people(rows: int, seed: int) -> pa.Table:
    """Four groups, two sexes, a score of 0 to 11 that depends on both."""
    random = generator(seed)
    a = random.integers(0, 4, rows)
    female = random.random(rows) < WOMEN[a]
    y = np.clip(np.round(4 + 0.5 * a + 0.8 * female + random.normal(0, 1.5, rows)), 0, LARGEST)
    return pa.table({"a": np.array(list(GROUPS))[a], "y": y.astype(int), "s": np.where(female, "F", "M")})


def population() -> Floats:
    """The shares of `people` in every cell (group × score × sex), exactly."""
    ends = np.concatenate([[-np.inf], np.arange(LARGEST) + 0.5, [np.inf]])
    shares = np.empty((4, LARGEST + 1, 2))
    for a in range(4):
        for s in range(2):
            below = stats.norm.cdf(ends, 4 + 0.5 * a + 0.8 * s, 1.5)
            shares[a, :, s] = np.diff(below) * (WOMEN[a] if s else 1 - WOMEN[a]) / 4
    return shares


def cells(table: pa.Table) -> Floats:
    """The counts of every cell (group × score × sex)."""
    a = pc.index_in(table["a"].cast(pa.string()), pa.array(list(GROUPS))).to_numpy()
    s = pc.equal(table["s"].cast(pa.string()), "F").cast(pa.int64()).to_numpy()
    y = table["y"].cast(pa.int64()).to_numpy()
    at = (a.astype(np.int64) * (LARGEST + 1) + y) * 2 + s
    return np.bincount(at, minlength=4 * (LARGEST + 1) * 2).reshape(4, LARGEST + 1, 2).astype(np.float64)


def on_cells(counts: Floats) -> Estimates:
    """Least squares of the score on group and sex."""
    score = np.arange(LARGEST + 1)
    weight = counts.sum(axis=1).ravel()
    total = np.einsum("ays,y->as", counts, score).ravel()
    squares = float(np.einsum("ays,y->", counts, score**2))
    X = np.zeros((8, len(NAMES)))
    for i in range(8):
        a, s = divmod(i, 2)
        X[i, 0], X[i, 4] = 1, s
        if a:
            X[i, a] = 1
    inverse = np.linalg.inv((X * weight[:, None]).T @ X)
    b = inverse @ (X.T @ total)
    rows = float(weight.sum())
    left = squares - float(b @ (X.T @ total))
    df = rows - len(NAMES)
    return Estimates(NAMES, b, inverse * left / df, int(rows), df)


def estimate(table: pa.Table) -> Estimates:
    """What `dipsmith.fit(table, "y ~ a + s")` estimates."""
    return on_cells(cells(table))


def layout(neighbours: str) -> ds.Schema:
    """The schema of `people`; under label only the sex is private."""
    return ds.Schema.from_dict(
        {
            "name": "people",
            "unit": "row",
            "neighbours": neighbours,
            "fields": [
                {"name": "a", "type": "string", "enum": list("pqrs"), "other": "p", "role": "public"},
                {"name": "y", "type": "integer", "minimum": 0, "maximum": 11, "role": "public"},
                {"name": "s", "type": "string", "enum": ["M", "F"], "other": "M", "role": "private"},
            ],
        }
    )


def scenarios() -> Iterator[Scenario]:
    """The lines of the table."""
    terms = ("a[T.s]", "s[T.F]")
    for epsilon in ("0.5", "2"):
        yield Scenario("flat", 1000, epsilon, layout("replace"), ds.Flat(), terms, REPEATS, 25)
    for method in (ds.Forest(targets=["s"]), ds.LogLinear(targets=["s"])):
        yield Scenario(method.name, 4000, "0.2", layout("label"), method, terms[1:], 400, 20)
    yield Scenario("mst", 4000, "2", layout("replace"), ds.MST(), terms, 50, 20)


def regression(scenario: Scenario, first: int, repeats: int = PIECE) -> list[Line]:
    """How often six intervals cover, and how wide they are; `first` is the first seed."""
    started = time.process_time()
    at = [NAMES.index(t) for t in scenario.terms]
    truth = on_cells(population() * 1e6).values
    hits, widths = np.zeros(len(KINDS)), np.zeros(len(KINDS))
    for seed in range(first, first + repeats):
        table = people(scenario.rows, seed)
        for i, (found, wanted) in enumerate(intervals(scenario, table, seed, truth)):
            low, high = (end[at] for end in found.interval)
            hits[i] += np.mean((low <= wanted[at]) & (wanted[at] <= high)) / repeats
            widths[i] += np.mean(high - low) / repeats
    seconds = time.process_time() - started
    case, rows, epsilon = scenario.name, scenario.rows, float(scenario.epsilon)
    return [
        Line("regressions", case, rows, epsilon, kind, repeats, float(hit), float(width), seconds)
        for kind, hit, width in zip(KINDS, hits, widths, strict=True)
    ]


def intervals(scenario: Scenario, table: pa.Table, seed: int, truth: Floats) -> list[tuple[Combined, Floats]]:
    """The intervals, in the order of `KINDS`, each with what it should hold."""
    one, split = released(scenario, table, seed, sets=1), released(scenario, table, seed, sets=SETS)
    alone = (estimate(one.tables[0]),)
    again = rerun(one, estimate, alone, Replication(scenario.runs, seed=seed + 10**6))
    aware, corrected = (with_noise(alone, again, method=one.card.method, correct=correct) for correct in (False, True))
    each = [estimate(t) for t in split.tables]
    q, u = [e.values for e in each], [np.diag(e.covariance) for e in each]
    return [
        (sampling_only((estimate(table),), 0.95, "no noise"), truth),
        (sampling_only(alone, 0.95, "ordinary"), truth),
        (aware, truth),
        (corrected, truth),
        (ds.combine(q, u, names=NAMES, release=split), truth),
        (corrected, estimate(table).values),
    ]


def released(scenario: Scenario, table: pa.Table, seed: int, *, sets: int) -> ds.Release:
    """A release of a table, or of several separately sanitised sets at the same ε."""
    return ds.synthesize(
        table,
        scenario.schema,
        scenario.method,
        budget=ds.PureDP(scenario.epsilon),
        sets=sets,
        each="split" if sets > 1 else None,
        testing=True,
        noise_seed=seed + 10**8 * (sets > 1),
    )
