"""Bins and bounds that were learned: what `dipsmith.fit` accepts, and how often it then holds the coefficient of raw values.

Tables with a known column of numbers (normal, skewed, many zeros, a heavy tail, top-coded) and, with `--adult FILE`, hours and
ages of the UCI Adult extract. A schema is learned, a release made with it, and two regressions asked: with the number as the
response, and as a term. What is counted is whether an interval holds the coefficient that the confidential rows give, raw.
`python -m studies.coverage.learned [--adult FILE]` adds runs.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from studies.coverage.cell import share
from studies.coverage.tally import wilson

import dipsmith as ds
from dipsmith.errors import NotCarried

RESULTS = Path(__file__).parent / "learned.csv"
ROWS, FIRST = 20_000, 30_000
SIMULATED = ("normal", "skewed", "many zeros", "heavy tail", "top-coded")
ADULT = "Adult"
LEARNING, RELEASES = ("0.05", "0.1", "0.3", "1"), ("1", "5")


@dataclass(frozen=True)
class Learned:
    """Intervals of one run: of one table, ε of learning, ε of the release and seed; `refused` counts questions."""

    table: str
    learning: str
    release: str
    seed: int
    refused: int
    intervals: int
    held: int


def simulated(kind: str, seed: int) -> pa.Table:
    """A number y of one kind, a number x and two groups g, which go with one another."""
    random = np.random.default_rng(FIRST + seed)
    g = random.random(ROWS) < 0.4
    x = np.clip(np.round(random.normal(45 + 3 * g, 12)), 0, 99)
    level = 0.2 * g + 0.01 * x
    skewed = np.exp(3 + level + random.normal(0, 0.8, ROWS))
    y = {
        "normal": 50 + 2 * g + 0.3 * x + random.normal(0, 15, ROWS),
        "skewed": skewed,
        "many zeros": np.where(random.random(ROWS) < 0.7, 0, np.exp(6 + level + random.normal(0, 1, ROWS))),
        "heavy tail": 20 * np.exp(level) * (random.pareto(2.5, ROWS) + 1),
        "top-coded": np.minimum(skewed, 99),
    }[kind]
    return pa.table({"y": np.round(y).astype(int), "x": x.astype(int), "g": np.where(g, "a", "b")})


def adult(path: Path) -> pa.Table:
    """Hours as y, age as x and sex as g."""
    table = pa_csv.read_csv(path).select(["hours-per-week", "age", "sex"]).rename_columns(["y", "x", "g"])
    return table.set_column(2, "g", pa.array([{"Female": "a", "Male": "b"}[s.strip()] for s in table["g"].to_pylist()]))


def run(name: str, table: pa.Table, learning: str, seed: int) -> list[Learned]:
    """Learn once, release twice, ask two questions of each."""
    found = ds.learn_schema(
        table, budget=ds.PureDP(learning), neighbours="add-remove", unit="row", delta=1e-9, name="t", testing=True,
        noise_seed=FIRST + seed,
    )  # fmt: skip
    questions = ("y ~ g + x", "x ~ g + y")
    if found.schema is None or set(found.schema.names) != {"y", "x", "g"}:
        return [Learned(name, learning, release, seed, len(questions), 0, 0) for release in RELEASES]
    return [_asked(name, table, found.schema, learning, release, seed, questions) for release in RELEASES]


def _asked(
    name: str, table: pa.Table, schema: ds.Schema, learning: str, epsilon: str, seed: int, questions: Sequence[str]
) -> Learned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = ds.synthesize(
            table, schema, ds.Marginals(), budget=ds.PureDP(epsilon), analyses=list(questions), testing=True,
            noise_seed=FIRST + 500 + seed,
        )  # fmt: skip
    refused = intervals = held = 0
    for question in questions:
        true = ds.fit(table, question, reference={"g": "a"})
        try:
            told = ds.fit(release, question, reference={"g": "a"})
        except NotCarried:
            refused += 1
            continue
        for name_ in (n for n in true.names if n != "Intercept" and np.isfinite(told[n].std_error)):
            intervals += 1
            held += told[name_].low <= true[name_].value <= told[name_].high
    return Learned(name, learning, epsilon, seed, refused, intervals, held)


def read(path: Path = RESULTS) -> list[Learned]:
    """The results of earlier runs."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        numbers = ("seed", "refused", "intervals", "held")
        return [Learned(**(row | {n: int(row[n]) for n in numbers})) for row in csv.DictReader(file)]


def write(found: Sequence[Learned], path: Path = RESULTS) -> None:
    """Write all results."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Learned)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in found)


TEXT = """## Bounds and bins that were learned

{rows:,} rows of simulated tables, and 48,842 of the UCI Adult extract (hours, age, sex). Bounds and bins were learned at a small ε
(`dipsmith schema learn`), a release was made by `Marginals` with both questions planned (ε = 1 or 5), and `ds.fit` asked for
`y ~ g + x` and `x ~ g + y`. Counted is whether an interval holds the coefficient that the confidential rows give, with their **raw**
values: learned bounds cut off tails, and bins hide where values lie within them. A question is refused where that may move a
coefficient by more than its standard error ([why](../proofs/inference.md)). `python -m studies.coverage.learned` repeats it.

{table}

Of {asked} questions {refused} were refused; {held} of {intervals} intervals hold (a share of {low} to {high}).
"""


def tell(found: Sequence[Learned]) -> str:
    """The section of the page."""
    shown = [
        "| table | " + " | ".join(f"learned at ε = {e}" for e in LEARNING) + " |",
        "|---" * (1 + len(LEARNING)) + "|",
    ]
    for name in (*SIMULATED, ADULT):
        cells = []
        for learning in LEARNING:
            mine = [one for one in found if (one.table, one.learning) == (name, learning)]
            asked, intervals = 2 * len(mine), sum(one.intervals for one in mine)
            refused = sum(one.refused for one in mine)
            held = f"; {sum(one.held for one in mine)} of {intervals} hold" if intervals else ""
            cells.append(f"{asked - refused} of {asked} answered{held}" if mine else "")
        if any(cells):
            shown.append(f"| {name} | {' | '.join(cells)} |")
    intervals, held = sum(one.intervals for one in found), sum(one.held for one in found)
    low, high = wilson(held, intervals)
    return TEXT.format(
        rows=ROWS, table="\n".join(shown), asked=2 * len(found), refused=sum(one.refused for one in found),
        intervals=intervals, held=held, low=share(low), high=share(high),
    )  # fmt: skip


def main() -> None:
    """Add runs."""
    options = argparse.ArgumentParser(prog="python -m studies.coverage.learned", description=__doc__)
    options.add_argument("--adult", type=Path, help="the UCI Adult extract, with column names")
    options.add_argument("--runs", type=int, default=5, help="seeds of every table and ε")
    options.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    chosen = options.parse_args()
    started, done = time.monotonic(), read()
    for seed in range(chosen.runs):
        for learning in LEARNING:
            for name in (*SIMULATED, *((ADULT,) if chosen.adult else ())):
                known = any((one.table, one.learning, one.seed) == (name, learning, seed) for one in done)
                if known or time.monotonic() - started > 60 * chosen.minutes:
                    continue
                table = adult(chosen.adult) if name == ADULT else simulated(name, seed)
                done += run(name, table, learning, seed)
                write(done)


if __name__ == "__main__":
    main()
