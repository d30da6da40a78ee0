"""Personnel records: planned pay gaps in 100 samples of a large simulated civil service, with two labellers.

Each sample has 40,000 rows (10,000 a year) and is released at ε = 0.75 under the shipped schema with the pay model planned.
Compared are the direct estimate, the plain regression of the release, and the regression of the authentic sample.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from studies.coverage.cell import share
from studies.coverage.people import FIRST
from studies.coverage.tally import wilson

import dipsmith as ds
from dipsmith.examples import personnel
from dipsmith.privacy.randomness import generator

RESULTS = Path(__file__).parent / "personnel.csv"
AT_LARGE = Path(__file__).parent / "personnel_large.csv"
FORMULA = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"
REFERENCE = {"sex": "M", "race": "E"}
OF_POPULATION, OF_SAMPLE, EPSILON, RUNS = 150_000, 10_000, "0.75", 100
"""Rows a year of the population and of a sample; and the budget."""

AGAIN = FIRST + 500
"""The seed of the first sample since the rule of intervals was changed: earlier ones had been looked at."""

LARGE_YEAR = 1_000_000
WANTED = ("sex[T.F]", "race[T.A]", "race[T.B]", "race[T.C]", "race[T.D]")
LARGE = ("sex[T.F]", "race[T.C]", "race[T.D]")
"""Coefficients of groups that have at least 5 % of the rows."""

METHODS = {"loglinear": ds.LogLinear, "forest": ds.Forest}


@dataclass(frozen=True)
class Gap:
    """One coefficient in one release: the population's, the sample's, the direct estimate with its interval, the release's."""

    method: str
    seed: int
    coefficient: str
    truth: float
    authentic: float
    direct: float
    low: float
    high: float
    released: float


@cache
def population() -> tuple[pa.Table, dict[str, float]]:
    """The civil service, and its coefficients."""
    table, _ = personnel.simulate(OF_POPULATION, seed=11)
    return table, coefficients(table)


def coefficients(table: pa.Table) -> dict[str, float]:
    """What `lm` in R prints of a table."""
    found = ds.fit(table, FORMULA, reference=REFERENCE)
    return dict(zip(found.names, found.combined.estimate.tolist(), strict=True))


def sample(seed: int) -> pa.Table:
    """So many rows of every year."""
    random, (table, _) = generator(seed), population()
    years = len(personnel.YEARS)
    some = [year * OF_POPULATION + random.permutation(OF_POPULATION)[:OF_SAMPLE] for year in range(years)]
    return table.take(pa.array(np.concatenate(some)))


def release(table: pa.Table, method: str, seed: int) -> ds.Release:
    """With the pay model planned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ds.synthesize(
            table,
            personnel.schema(),
            METHODS[method](targets=["sex", "race"]),
            budget=ds.PureDP(EPSILON),
            analyses=[{"formula": FORMULA, "reference": REFERENCE}],
            testing=True,
            noise_seed=seed,
        )


def run(seed: int) -> list[Gap]:
    """One sample, released by both labellers, each with noise of its own."""
    found, (_, truth), table = [], population(), sample(AGAIN + seed)
    authentic = coefficients(table)
    for i, method in enumerate(METHODS):
        made = release(table, method, AGAIN + seed + 10**7 * (i + 1))
        plain = coefficients(made.tables[0])
        (direct,) = made.results
        for name in WANTED:
            c = direct[name]
            told = [float("nan") if v is None else round(v, 6) for v in (c.estimate, c.low, c.high)]
            rest = [round(x[name], 6) for x in (truth, authentic)]
            found.append(Gap(method, seed, name, *rest, *told, round(plain[name], 6)))
    return found


def run_large(method: str, rows_per_year: int = LARGE_YEAR) -> list[Gap]:
    """All rows of a much larger service in one release: its own coefficients are the truth."""
    table, _ = personnel.simulate(rows_per_year, seed=12)
    truth = coefficients(table)
    made = release(table, method, FIRST + 3 * 10**7)
    plain, (direct,) = coefficients(made.tables[0]), made.results
    found = []
    for name in WANTED:
        c = direct[name]
        told = [float("nan") if v is None else round(v, 6) for v in (c.estimate, c.low, c.high)]
        own = round(truth[name], 6)
        found.append(Gap(method, rows_per_year, name, own, own, *told, round(plain[name], 6)))
    return found


def step_large() -> bool:
    """Run the large release by one more labeller; False where both are there."""
    done = read(AT_LARGE)
    waiting = [m for m in METHODS if m not in {g.method for g in done}]
    if not waiting:
        return False
    started = time.process_time()
    write([*done, *run_large(waiting[0])], AT_LARGE)
    print(f"{time.process_time() - started:6.1f} s  personnel, large, {waiting[0]}", flush=True)
    return True


def step() -> bool:
    """Run one more sample; False where there are enough."""
    done = read()
    seeds = {g.seed for g in done}
    if len(seeds) >= RUNS:
        return False
    started = time.process_time()
    write([*done, *run(next(seed for seed in range(RUNS) if seed not in seeds))])
    print(f"{time.process_time() - started:6.1f} s  personnel", flush=True)
    return True


def read(path: Path = RESULTS) -> list[Gap]:
    """The results of earlier runs."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as held:
        return [
            Gap(r["method"], int(r["seed"]), r["coefficient"], *(float(r[f.name]) for f in fields(Gap)[3:]))
            for r in csv.DictReader(held)
        ]


def write(gaps: Sequence[Gap], path: Path = RESULTS) -> None:
    """Write all results."""
    with path.open("w", encoding="utf-8", newline="") as held:
        writer = csv.DictWriter(held, [f.name for f in fields(Gap)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(g) for g in gaps)


TEXT = """## Personnel: a planned pay gap

{runs} samples of {rows:,} rows out of a simulated civil service of {people:,}, each released at ε = {epsilon} under the
schema that ships with the example, with `{formula}` planned. *Bias* and *error* are those of the direct estimate: the mean
deviation from the population in units of its own scatter, and the root mean square error in units of that of the authentic
sample. *Released*: how often the plain regression of the synthetic rows lies within .005 or 10 % of the direct
estimate (groups of 5 % of the rows and more), and the largest difference.

{table}

{verdict}
"""

AT_LARGE_TEXT = """### One million rows a year

All {rows:,} rows in one release at ε = {epsilon}, the same analysis planned. *Off* is the difference of the direct estimate from the
authentic rows' coefficient; wanted are at most 2 % of it, or .001.

{table}
"""


def tell_large(gaps: Sequence[Gap]) -> str:
    """The section of the large release."""
    shown = ["| labeller | coefficient | authentic | direct estimate | off | | released |", "|---" * 7 + "|"]
    for g in gaps:
        off = abs(g.direct - g.truth)
        near = "yes" if off <= max(0.001, 0.02 * abs(g.truth)) else "**no**"
        cells = [g.method, g.coefficient, f"{g.truth:.4f}", f"{g.direct:.4f}", f"{off:.4f}", near, f"{g.released:.4f}"]
        shown.append(f"| {' | '.join(cells)} |")
    rows = gaps[0].seed * len(personnel.YEARS)
    return AT_LARGE_TEXT.format(rows=rows, epsilon=EPSILON, table="\n".join(shown))


def tell(gaps: Sequence[Gap]) -> str:
    """The section of the page."""
    shown = [
        "| labeller | coefficient | truth | mean direct estimate | bias | covers | error | width | released |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for method in METHODS:
        shown += [_line([g for g in gaps if (g.method, g.coefficient) == (method, name)]) for name in WANTED]
    held = [g.low <= g.truth <= g.high for g in gaps]
    near = [_is_near(g) for g in gaps if g.coefficient in LARGE]
    verdict = (
        f"Over all {len(held):,} intervals {share(np.mean(held))} hold the truth; the plain regression of the release is near "
        f"the direct estimate in {sum(near):,} of {len(near):,} comparisons. Wanted are {RUNS} samples, a bias below .25 and, for the sex, an "
        "error of at most ×2; a bias is known to one over the root of the number of samples."
    )
    return TEXT.format(
        runs=len({g.seed for g in gaps}),
        rows=OF_SAMPLE * len(personnel.YEARS),
        people=OF_POPULATION * len(personnel.YEARS),
        epsilon=EPSILON,
        formula=FORMULA,
        table="\n".join(shown),
        verdict=verdict,
    )


def _is_near(g: Gap) -> bool:
    return abs(g.released - g.direct) <= max(0.005, 0.1 * abs(g.direct))


def _line(gaps: Sequence[Gap]) -> str:
    off, own = (np.array([getattr(g, name) - g.truth for g in gaps]) for name in ("direct", "authentic"))
    held = sum(g.low <= g.truth <= g.high for g in gaps)
    low, high = wilson(held, len(gaps))
    error = np.sqrt(np.mean(off**2) / np.mean(own**2))
    width = float(np.mean([g.high - g.low for g in gaps]))
    first, near = gaps[0], ""
    if first.coefficient in LARGE:
        largest = max(abs(g.released - g.direct) for g in gaps)
        near = f"{sum(map(_is_near, gaps))} of {len(gaps)}, at most {largest:.4f}"
    cells: list[Any] = [
        first.method,
        first.coefficient,
        f"{first.truth:.4f}",
        f"{np.mean([g.direct for g in gaps]):.4f}",
        f"{np.mean(off) / np.std(off, ddof=1):+.2f}",
        f"{share(held / len(gaps))} ({share(low)}–{share(high)})",
        f"×{error:.1f}",
        f"{width:.4f}",
        near,
    ]
    return f"| {' | '.join(cells)} |"
