"""Regressions on releases whose population is known: ordinary intervals, noise-aware ones, and with bias corrected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from studies.coverage.lines import Line

import dipsmith as ds
from dipsmith.inference.combine import Combined
from dipsmith.inference.fit import Analysis
from dipsmith.inference.noise_aware import noise_aware
from dipsmith.privacy.randomness import generator

REPEATS, PIECE, RUNS = 100, 10, 25
POPULATION = 400_000
KINDS = ("ordinary", "noise-aware", "and corrected")


@dataclass(frozen=True)
class Scenario:
    """A population, a release of a sample from it, and an analysis.

    Attributes
    ----------
    name
        For print.
    population
        Draws rows: (rows, seed) → table.
    rows, epsilon
        Of the release.
    schema, method
        What is public, and how it is synthesised.
    formula, terms
        The analysis, and the coefficients that are looked at.
    """

    name: str
    population: Callable[[int, int], pa.Table]
    rows: int
    epsilon: str
    schema: ds.Schema
    method: Any
    formula: str
    terms: tuple[str, ...]


def people(rows: int, seed: int) -> pa.Table:
    """Four groups, two sexes, a score of 0 to 11 that depends on both."""
    random = generator(seed)
    a = random.integers(0, 4, rows)
    female = random.random(rows) < np.array([0.3, 0.4, 0.55, 0.7])[a]
    y = np.clip(np.round(4 + 0.5 * a + 0.8 * female + random.normal(0, 1.5, rows)), 0, 11)
    return pa.table({"a": np.array(list("pqrs"))[a], "y": y.astype(int), "s": np.where(female, "F", "M")})


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
        yield Scenario(
            "y ~ a + s, flat", people, 1000, epsilon, layout("replace"), ds.Flat(), "y ~ a + s", terms
        )
    yield Scenario("y ~ a + s, mst", people, 4000, "2", layout("replace"), ds.MST(), "y ~ a + s", terms)
    for method in (ds.Forest(targets=["s"]), ds.LogLinear(targets=["s"])):
        for epsilon in ("0.2", "1"):
            name = f"y ~ a + s, {method.name}"
            yield Scenario(name, people, 4000, epsilon, layout("label"), method, "y ~ a + s", terms[1:])


def regression(scenario: Scenario, first: int, repeats: int = PIECE) -> list[Line]:
    """Coverage and width of three kinds of intervals; `first` is the first seed."""
    started = time.process_time()
    whole = scenario.population(POPULATION, 10**6)
    truth = Analysis.of(scenario.formula, [whole], schema=scenario.schema, family="ols")(whole)
    at = [truth.names.index(t) for t in scenario.terms]
    hits, widths = np.zeros(len(KINDS)), np.zeros(len(KINDS))
    for seed in range(first, first + repeats):
        release = ds.synthesize(
            scenario.population(scenario.rows, seed),
            scenario.schema,
            scenario.method,
            budget=ds.PureDP(scenario.epsilon),
            testing=True,
            noise_seed=seed,
        )
        analysis = Analysis.of(scenario.formula, release.tables, schema=release.schema, family="ols")
        corrected = noise_aware(release, analysis, replicates=RUNS, seed=seed + 10**6)
        kinds = (
            ds.fit(release, scenario.formula, family="ols", rule="sampling").combined,
            uncorrected(corrected),
            corrected,
        )
        for i, kind in enumerate(kinds):
            low, high = (end[at] for end in kind.interval)
            hits[i] += np.mean((low <= truth.values[at]) & (truth.values[at] <= high)) / repeats
            widths[i] += np.mean(high - low) / repeats
    seconds = time.process_time() - started
    return [
        Line(
            "regressions",
            scenario.name,
            scenario.rows,
            float(scenario.epsilon),
            kind,
            repeats,
            float(hit),
            float(width),
            seconds,
        )
        for kind, hit, width in zip(KINDS, hits, widths, strict=True)
    ]


def uncorrected(found: Combined) -> Combined:
    """The same runs without correction of bias (one set)."""
    assert found.bias is not None
    widened = (1 + np.clip(-found.bias / found.raw, 0, 1)) ** 2
    noise = found.noise / (widened + 1 / RUNS)
    return replace(found, estimate=found.raw, noise=noise, variance=found.within + noise, bias=None)
