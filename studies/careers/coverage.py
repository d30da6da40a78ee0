"""Do intervals of growth cover? A section of docs/studies/careers.md, made by `python -m studies.careers`.

Many panels are simulated, each is released once, and `ds.growth` is held against the growth of its own confidential people
and against that of the model that made all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import pyarrow as pa

import dipsmith as ds
from dipsmith.errors import NotCarried
from dipsmith.examples.personnel import panel_schema, simulate_careers
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.utility.careers import career_gap, read_careers

YEARS, RUNS, LARGE = range(2008, 2012), 200, 100_000
DESIGNS = ((600, 16.0), (10_000, 2.0))
"""People a year, and ε. Noise over sampling goes with 1/(ε·√people): the second is as four times the people at ε = 1."""
NAME = "log(pay)"


def small_schema() -> Schema:
    """Year, pay and sex alone: growth is measured for itself, and few columns make a release quick."""
    described = panel_schema(YEARS).to_dict()
    fields: Any = described["fields"]
    return Schema.from_dict({**described, "fields": [f for f in fields if f["name"] in ("year", "pay", "sex")]})


def true_growth(table: pa.Table, schema: Schema) -> float:
    """The slope of log pay on the year with an effect for every person, of raw rows."""
    rows = read_careers(source(table), schema)
    return career_gap(rows, rows, schema).growth["pay"][0]


def run_once(
    run: int, people: int, epsilon: float, schema: Schema, whole: float
) -> list[tuple[bool, float, float] | None]:
    """For the law behind and for the confidential people: covered, the estimate and half the width; None where refused."""
    table, _ = simulate_careers(people, YEARS, seed=2_000 + run)
    method, budget = ds.AIM(rounds=1), ds.PureDP(epsilon)
    made = ds.synthesize(table, schema, method, budget=budget, testing=True, noise_seed=3_000 + run, seed=run)
    found: list[tuple[bool, float, float] | None] = []
    for sampling, truth in ((True, whole), (False, true_growth(table, schema))):
        try:
            told = ds.growth(made, "pay", sampling=sampling)[NAME]
        except NotCarried:
            found.append(None)
        else:
            found.append((told.low <= truth <= told.high, told.value, (told.high - told.low) / 2))
    return found


def table_lines(found: Sequence[list[tuple[bool, float, float] | None]], people: int, epsilon: float) -> list[str]:
    """Two lines of the table."""
    lines = []
    for i, words in enumerate(("the law behind", "the confidential people")):
        told = np.array([one[i] for one in found if one[i] is not None], dtype=np.float64)
        share, value, half = told.mean(axis=0)
        chance = 1.96 * (0.95 * 0.05 / len(told)) ** 0.5
        none = f"{len(found) - len(told)} of {len(found)}"
        lines.append(
            f"| {people:,} | {epsilon:g} | {words} | {share:.3f} ± {chance:.3f} | {none} | {value:.4f} | {half:.4f} |"
        )
    return lines


def coverage_lines(runs: int = RUNS) -> list[str]:
    """The section."""
    schema = small_schema()
    whole = true_growth(simulate_careers(LARGE, YEARS, seed=1_000)[0], schema)
    lines = [
        "## Intervals of growth",
        "",
        *wrap(
            f"{runs} panels over {len(YEARS)} years (year, sex, pay), each simulated anew and released once; `ds.growth` with "
            "intervals of 95 %, for the confidential people themselves (`sampling=False`, noise alone) and for the law that made "
            f"them, whose growth is {whole:.4f} (one panel of {LARGE:,} a year). ± is what chance does to a share of so many "
            "runs. AIM has one round, which growth does not depend on. Noise over sampling error goes with one over ε times "
            "the root of the number of people: 10,000 people a year at ε = 2 are as 40,000 at ε = 1.",
            118,
        ),
        "",
        "| people a year | ε | for | covered | no interval | mean estimate | mean half width |",
        "|--:|--:|---|--:|--:|--:|--:|",
    ]
    for people, epsilon in DESIGNS:
        found = [run_once(run, people, epsilon, schema, whole) for run in range(runs)]
        lines += table_lines(found, people, epsilon)
        print(*lines[-2:], sep="\n", flush=True)
    return [*lines, ""]
