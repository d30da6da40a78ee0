"""Make docs/studies/weights.md: `python -m studies.weights [RUNS]`."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
import pyarrow as pa

import dipsmith as ds
from dipsmith.errors import DipsmithError

PAGE = Path(__file__).parents[2] / "docs" / "studies" / "weights.md"
POPULATION, SAMPLE, RUNS = 100_000, 10_000, 40
CELLS = (("add-remove", 1.0), ("add-remove", 4.0), ("replace", 1.0))
TABLES = (("region",), ("employed",), ("age",))
FORMULA = "pay ~ employed + age"
COARSE, FINE = 10, 2
"""Widths of bins: for totals, and for regressions, of which wide bins take more off than an interval may tell."""
NARROW = 118


def people(seed: int) -> pa.Table:
    """A population whose size of household decides the chance to be drawn, and goes with work and pay."""
    random = np.random.default_rng(seed)
    region = random.choice(["north", "east", "south", "west"], POPULATION, p=[0.4, 0.3, 0.2, 0.1])
    size = 1 + random.poisson(np.where(region == "west", 3.0, 1.5))
    age = random.integers(18, 80, POPULATION)
    works = random.random(POPULATION) < 0.75 - 0.06 * size
    pay = 20 + 25 * works + 0.2 * (age - 18) + 2 * size + random.normal(0, 8, POPULATION)
    columns = {"region": region, "employed": np.where(works, "yes", "no"), "age": age, "pay": pay.clip(0, 100)}
    return pa.table({**columns, "size": size.astype(float)})


def draw(population: pa.Table, seed: int) -> pa.Table:
    """A sample with chances proportional to size, with replacement; each weighs one over its expected number of draws."""
    size = population["size"].to_numpy()
    chosen = np.random.default_rng(seed).choice(len(size), SAMPLE, p=size / size.sum())
    weight = size.sum() / (SAMPLE * size[chosen])
    return population.take(pa.array(chosen)).drop_columns("size").append_column("w", pa.array(weight))


def schema(relation: str, width: int) -> ds.Schema:
    """The survey with ages and pay in bins of this width."""
    return ds.Schema.from_dict(
        {
            "name": "survey",
            "unit": "row",
            "neighbours": relation,
            "fields": [
                {"name": "region", "type": "string", "enum": ["north", "east", "south", "west"], "other": "north"},
                {"name": "employed", "type": "string", "enum": ["no", "yes"], "other": "no"},
                {"name": "age", "type": "integer", "minimum": 18, "maximum": 79, "bins": {"width": width}},
                {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": width}},
                {"name": "w", "type": "number", "minimum": 2, "maximum": 30, "role": "weight"},
            ],
        }
    )


@dataclass
class Tally:
    """How often intervals of one kind covered, how wide they were, and how often there was none."""

    covered: int = 0
    answered: int = 0
    refused: int = 0
    widths: float = 0.0

    def add(self, low: float, high: float, truth: float) -> None:
        """Count one interval."""
        self.covered += low <= truth <= high
        self.answered += 1
        self.widths += high - low

    def line(self) -> str:
        """What the page says of it."""
        if not self.answered:
            return f"– | {self.refused} of {self.refused} | –"
        share = self.covered / self.answered
        spread = (share * (1 - share) / self.answered) ** 0.5
        return f"{share:.3f} ± {1.96 * spread:.3f} | {self.refused} of {self.refused + self.answered} | {self.widths / self.answered:,.3g}"


def bins(table: pa.Table) -> pa.Table:
    """A table whose ages are those of the schema's bins, by their label."""
    low = (table["age"].to_numpy() - 18) // 10 * 10 + 18
    labels = [f"{a}-{min(a + 9, 79)}" for a in low.tolist()]
    return table.set_column(table.column_names.index("age"), "age", pa.array(labels))


def truths(population: pa.Table) -> dict[str, float]:
    """What the population has: how many there are in each cell, and the regression of all."""
    frame = bins(population).to_pandas()
    counts = {f"{n} = {label}": float(c) for (n,) in TABLES for label, c in frame[n].value_counts().items()}
    fitted = ds.fit(population, FORMULA, reference={"employed": "no"}, rule="sampling")
    return counts | {e.name: e.value for e in fitted.combined}


def run(relation: str, epsilon: float, runs: int) -> dict[str, Tally]:
    """Cover, or not, so many times."""
    population = people(1)
    true, coarse, fine = truths(population), schema(relation, COARSE), schema(relation, FINE)
    kinds = ("totals of the population", "totals of the sample", "weighted regression")
    tallies = {kind: Tally() for kind in kinds}
    for i in range(runs):
        sample = draw(population, 1_000 + i)
        release = ds.synthesize(
            sample, coarse, ds.AIM(), budget=ds.PureDP(epsilon), testing=True, noise_seed=2_000 + i, seed=i
        )
        frame = bins(sample).to_pandas()
        for columns in TABLES:
            held = frame.groupby(columns[0])["w"].sum()
            for kind, sampling in zip(kinds, (True, False), strict=False):
                for e in ds.weighted_totals(release, *columns, sampling=sampling):
                    label = e.name.split(" = ")[1]
                    tallies[kind].add(e.low, e.high, true[e.name] if sampling else float(held.get(label, 0.0)))
    for i in range(runs):
        release = ds.synthesize(
            draw(population, 1_000 + i),
            fine,
            ds.AIM(),
            budget=ds.PureDP(epsilon),
            analyses=[FORMULA],
            testing=True,
            noise_seed=3_000 + i,
            seed=i,
        )
        try:
            found = ds.fit(release, FORMULA, weights="w", reference={"employed": "no"})
        except DipsmithError:
            tallies["weighted regression"].refused += 3
            continue
        for e in found.combined:
            if np.isfinite(e.std_error):
                tallies["weighted regression"].add(e.low, e.high, true[e.name])
            else:
                tallies["weighted regression"].refused += 1
    return tallies


INTRODUCTION = (
    f"A population of {POPULATION:,} people, of which {SAMPLE:,} are drawn with chances proportional to the size of their "
    "household, with replacement; each weighs one over its expected number of draws. Households go with work, region and pay, so "
    "that unweighted figures are wrong. The sample is released by AIM with a column of `role: weight`, bounded by 2 and 30. "
    f"*Totals* are `ds.weighted_totals` of every label of region, employed and age ({RUNS} samples); *weighted regression* "
    f"is `ds.fit(release, '{FORMULA}', weights='w')`, planned, with ages and pay in bins of {FINE} instead of {COARSE}, against the regression of the whole population. Intervals of 95 %, with what chance does to a share of so many answers; "
    "answers of one sample are not independent. `python -m studies.weights` makes this page; nothing here is private."
)


def main() -> None:
    """Run every cell and write the page."""
    warnings.simplefilter("ignore")
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    lines = ["# Survey weights: do intervals cover?", "", fill(INTRODUCTION, NARROW), ""]
    lines += ["| neighbours | ε | what | covered | no interval | mean width |", "|---|--:|---|--:|--:|--:|"]
    for relation, epsilon in CELLS:
        for kind, tally in run(relation, epsilon, runs).items():
            lines.append(f"| {relation} | {epsilon:g} | {kind} | {tally.line()} |")
            print(lines[-1], flush=True)
    if runs == RUNS:
        PAGE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
