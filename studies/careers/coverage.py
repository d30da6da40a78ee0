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
from scipy.stats import t

import dipsmith as ds
from dipsmith.codec.encode import Encoder
from dipsmith.errors import NotCarried
from dipsmith.examples.personnel import panel_schema, simulate_careers
from dipsmith.inference.growth import FARTHER, KURTOSIS
from dipsmith.methods.graph.careers import plan_growth, split_career
from dipsmith.schema import Schema
from dipsmith.schema.growth import GrowthSpread, GrowthSums
from dipsmith.sources import source
from dipsmith.utility.careers import career_gap, read_careers

YEARS, RUNS, LARGE = range(2008, 2012), 200, 100_000
DESIGNS = ((600, 16.0),)
"""People a year, and ε, of whole releases."""
DRAWN, DRAWS = 46_445, 4_000
"""People whose sums alone are drawn, as many as the study releases over four years; and how often."""
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


def sums_alone(epsilon: float = 1.0) -> str:
    """A line for the sums by themselves: people of one large panel drawn anew, noise as priced, intervals as `ds.growth` has."""
    schema, random = panel_schema(YEARS), np.random.default_rng(9)
    table, _ = simulate_careers(LARGE, YEARS, seed=1_000)
    codes, _ = Encoder(schema).encode(table)
    _, unit = np.unique(table["employee_id"].to_numpy(), return_inverse=True)
    sums, cells = GrowthSums(schema, "pay"), GrowthSpread(schema, "pay")
    (q, p), (squares, products) = sums.parts(unit, codes), sums.unit_sums(unit, codes)
    whole, budgets = products.sum() / squares.sum(), plan_growth(schema, split_career(schema, ds.PureDP(epsilon))[3])
    first, second = (step.sd / s.steps[-1] for step, s in zip(budgets[-2:], (sums, cells), strict=True))
    (away,), covered, told = GrowthSpread(schema, "pay", whole).parts(unit, codes), 0, list[tuple[float, float]]()
    for _ in range(DRAWS):
        drawn = np.bincount(random.integers(0, len(q), DRAWN), minlength=len(q))
        noisy = np.rint(np.array([drawn @ q, drawn @ p]) + random.laplace(0, first / 2**0.5, 2)).astype(np.int64)
        found = sums.slope(noisy, first**2)
        assert found is not None
        slope, noise, total = found
        spread = drawn @ away + random.laplace(0, second / 2**0.5) + second
        variance = noise + max(0.0, spread) * cells.steps[0] / total**2
        half = t.ppf(0.975, variance**2 / (noise**2 * KURTOSIS * FARTHER)) * variance**0.5
        covered, told = covered + (abs(slope - whole) <= half), [*told, (slope, half)]
    value, half = np.mean(told, axis=0)
    chance = 1.96 * (0.95 * 0.05 / DRAWS) ** 0.5
    share = f"{covered / DRAWS:.3f} ± {chance:.3f}"
    return f"| {DRAWN:,} in all | {epsilon:g} | the law behind, sums alone | {share} | 0 of {DRAWS:,} | {value:.4f} | {half:.4f} |"


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
            "runs. AIM has one round, which growth does not depend on. *Sums alone*: at the size and ε of the tables above people "
            "of that large panel are drawn anew, their noisy sums with the share that they have there, and intervals by them; "
            "synthetic careers are left out, which make no interval of this size shorter.",
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
    return [*lines, sums_alone(), ""]
