"""Run with `python -m studies.coverage [repeats]`: intervals and tests on simulated tables whose truth is known.

Every table is drawn from a known population, released, and analysed as a researcher would analyse it; a
95 % interval should hold the population's value 95 times in 100. Printed: coverage and mean width of ordinary
intervals, noise-aware ones without and with correction of bias.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dipsmith as ds
from dipsmith.inference.combine import Combined
from dipsmith.inference.fit import Analysis
from dipsmith.inference.noise_aware import noise_aware
from dipsmith.privacy.randomness import generator

RUNS = 40
POPULATION = 400_000


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


def women(rows: int, seed: int) -> pa.Table:
    """A column with a share of .3."""
    return pa.table({"s": np.where(generator(seed).random(rows) < 0.3, "F", "M")})


def scenarios() -> Iterator[Scenario]:
    """The lines of the table."""
    share = layout("replace").project(["s"])
    for epsilon in ("0.1", "1"):
        yield Scenario("share, flat", women, 1000, epsilon, share, ds.Flat(), "s ~ 1", ("Intercept",))
    for epsilon in ("0.5", "2", "5"):
        yield Scenario(
            "y ~ a + s, flat",
            people,
            1000,
            epsilon,
            layout("replace"),
            ds.Flat(),
            "y ~ a + s",
            ("a[T.s]", "s[T.F]"),
        )
    for epsilon in ("0.5", "2"):
        yield Scenario(
            "y ~ a + s, mst",
            people,
            4000,
            epsilon,
            layout("replace"),
            ds.MST(),
            "y ~ a + s",
            ("a[T.s]", "s[T.F]"),
        )
    for method in (ds.Forest(targets=["s"]), ds.LogLinear(targets=["s"])):
        for epsilon in ("0.2", "1", "4"):
            yield Scenario(
                f"y ~ a + s, {method.name}",
                people,
                4000,
                epsilon,
                layout("label"),
                method,
                "y ~ a + s",
                ("s[T.F]",),
            )


def run(scenario: Scenario, repeats: int) -> str:
    """One line: coverage and width of three kinds of intervals."""
    family = "ols"
    whole = scenario.population(POPULATION, 10**6)
    truth = Analysis.of(scenario.formula, [whole], schema=scenario.schema, family=family)(whole)
    at = [truth.names.index(t) for t in scenario.terms]
    hits, widths = np.zeros(3), np.zeros(3)
    for seed in range(repeats):
        release = ds.synthesize(
            scenario.population(scenario.rows, seed),
            scenario.schema,
            scenario.method,
            budget=ds.PureDP(scenario.epsilon),
            testing=True,
            noise_seed=seed,
        )
        analysis = Analysis.of(scenario.formula, release.tables, schema=release.schema, family=family)
        corrected = noise_aware(release, analysis, replicates=RUNS, seed=seed)
        kinds = (
            ds.fit(release, scenario.formula, family="ols", rule="sampling").combined,
            uncorrected(corrected),
            corrected,
        )
        for i, kind in enumerate(kinds):
            low, high = (end[at] for end in kind.interval)
            hits[i] += np.mean((low <= truth.values[at]) & (truth.values[at] <= high)) / repeats
            widths[i] += np.mean(high - low) / repeats
    shown = " | ".join(f"{h:.3f} ({w:.3f})" for h, w in zip(hits, widths, strict=True))
    return f"| {scenario.name} | {scenario.rows:,} | {scenario.epsilon} | {shown} |"


def uncorrected(found: Combined) -> Combined:
    """The same runs without correction of bias (one set)."""
    assert found.bias is not None
    widened = (1 + np.clip(-found.bias / found.raw, 0, 1)) ** 2
    noise = found.noise / (widened + 1 / RUNS)
    return replace(found, estimate=found.raw, noise=noise, variance=found.within + noise, bias=None)


def independence_line(epsilon: str, repeats: int, link: float) -> str:
    """How often ordinary and corrected tests of independence reject at 5 %."""
    from dipsmith.inference.tests import independence

    counts = np.zeros(2)
    for seed in range(repeats):
        table = people(1000, seed)
        mixed = pc.take(table["s"], pa.array(generator(seed + 10**7).permutation(1000)))
        kept = generator(seed).random(1000) < link
        s = pc.if_else(pa.array(kept), table["s"], mixed)
        release = ds.synthesize(
            pa.table({"a": table["a"], "s": s}),
            layout("replace").project(["a", "s"]),
            ds.Flat(),
            budget=ds.PureDP(epsilon),
            testing=True,
            noise_seed=seed,
        )
        counts[0] += independence(release, "a", "s", rule="sampling").p_value < 0.05
        counts[1] += independence(release, "a", "s", replicates=RUNS, seed=seed).p_value < 0.05
    return f"| {epsilon} | {link} | " + " | ".join(f"{c / repeats:.3f}" for c in counts) + " |"


def main() -> None:
    """Print both tables."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(
        "| analysis, method | rows | ε | ordinary | noise-aware | and corrected |\n|---|---|---|---|---|---|"
    )
    for scenario in scenarios():
        print(run(scenario, repeats), flush=True)
    print("\n| ε | link | ordinary test | corrected test |\n|---|---|---|---|")
    for epsilon in ("0.2", "0.5", "2"):
        for link in (0.0, 0.5):
            print(independence_line(epsilon, repeats, link), flush=True)


if __name__ == "__main__":
    main()
