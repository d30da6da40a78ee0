"""Make docs/studies/places.md: TopDown, AIM with a tree of places, and AIM without one, on simulated nations."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from csv import DictReader, DictWriter
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from textwrap import fill
from time import process_time

import numpy as np
from studies.topdown.reference import rows_of, top_down
from studies.topdown.tables import QUERIES, ROWS, SIZES, simulate

from dipsmith.methods.graph.aim import AIM
from dipsmith.privacy.budget import ZCDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes
from dipsmith.schema.places import PlaceTable

PAGE = Path(__file__).parents[2] / "docs" / "studies" / "places.md"
RESULTS = Path(__file__).with_name("results.csv")
SEEDS, EPSILONS, DELTA = range(5), (1.0, 10.0), 1e-9
HALF = 0.5
"""The share of the budget for counts by place where more is left for all else."""
LEVELS = ("nation", "state", "county", "tract")
TOLD = ((), *QUERIES)
OTHERS = tuple(q for q in combinations(SIZES, 2) if q not in QUERIES)
FIELDS = ("epsilon", "seed", "method", "level", "queries", "error", "seconds")

INTRODUCTION = (
    "On the queries that it is told of, the Census Bureau's TopDown algorithm was found to err at least 20 times less than "
    "synthetic rows (Maddi, Routray, Goldberg and Fanti, arXiv 2401.18024). Here that comparison's design is repeated on "
    "simulated tables: TopDown, AIM with `hierarchy` in the schema, and AIM without it. `python -m studies.topdown` makes "
    "this page; all rows are simulated, and no privacy was spent."
)
DESIGN = (
    f"{ROWS:,} people in 400 tracts, 40 counties and 5 states, seven columns (`studies/topdown/tables.py`); replace, "
    f"δ = {DELTA:g}; {len(SEEDS)} nations and noise seeds, none of which any constant was chosen on. *Told*: totals, sex × age "
    "and race × hispanic in every place of every level, which is what TopDown measures with all of its budget "
    "(`studies/topdown/reference.py`) and what AIM with places is asked to plan (`planned=[(tract, sex, age), (tract, race, "
    "hispanic)]`); it keeps 35 % of its budget for all else, or half of it (`place_share=.5`). *Not told*: all other pairs of columns, in every place; TopDown "
    "has no answer to most of them. The figure is the mean absolute error of a count."
)


@dataclass(frozen=True)
class Figure:
    """The mean absolute error of the counts of some queries on one level."""

    epsilon: float
    seed: int
    method: str
    level: str
    queries: str
    error: float
    seconds: float


def measure(epsilon: float, seed: int, known: Collection[str] = ()) -> list[Figure]:
    """All figures of one simulated nation, but those of methods that are known."""
    people = simulate(seed)
    schema, budget = people.schema, ZCDP.from_approx(epsilon, DELTA)
    planned = [("tract", *q) for q in QUERIES]
    flat = replace(schema, attributes=tuple(replace(a, levels=()) for a in schema.attributes))
    found = []

    def record(method: str, rows: Codes, seconds: float) -> None:
        for level, name in enumerate(LEVELS):
            for queries, sets in (("told", TOLD), ("not told", OTHERS)):
                answered = [q for q in sets if set(q) <= set(rows.names)]
                if len(answered) == len(sets):
                    errors = [_error(PlaceTable(schema, level, q), people, rows) for q in answered if q or level]
                    found.append(Figure(epsilon, seed, method, name, queries, float(np.mean(errors)), seconds))

    if "TopDown" not in known:
        start = process_time()
        columns, counts = top_down(people, QUERIES, float(budget.rho), seed)
        made = rows_of(columns, counts, "tract", [schema[n].size for n in columns])
        record("TopDown", Codes.of(schema, made, int(counts.sum())), process_time() - start)
    half = AIM(planned=planned, place_share=HALF)
    ours = (("places", AIM(planned=planned), schema), ("half", half, schema), ("AIM", AIM(), flat))
    for name, method, seen in (one for one in ours if one[0] not in known):
        start = process_time()
        rows = Codes.of(seen, people.columns, len(people))
        drawn = method.fit(Curator.rehearse(rows, budget, seed=seed)).sample(seed=seed)
        record(name, drawn, process_time() - start)
    return found


def _error(table: PlaceTable, people: Codes, rows: Codes) -> float:
    one, other = (np.bincount(table.index(codes), minlength=table.size) for codes in (people, rows))
    return float(np.abs(one - other).mean())


def page(figures: Iterable[Figure]) -> str:
    """The text of the page."""
    held = list(figures)

    def mean(epsilon: float, method: str, level: str, queries: str) -> float:
        wanted = (epsilon, method, level, queries)
        return float(np.mean([f.error for f in held if (f.epsilon, f.method, f.level, f.queries) == wanted]))

    lines = ["# Places: TopDown and AIM", "", fill(INTRODUCTION, 118), "", "## Design", "", fill(DESIGN, 118), ""]
    for title, queries, methods in (
        ("What TopDown is told of", "told", ("TopDown", "places", "half", "AIM")),
        ("What it is not told of", "not told", ("places", "half", "AIM")),
    ):
        lines += [f"## {title}", ""]
        names = {
            "places": "AIM with places",
            "half": f"with {HALF:.0%} for places",
            "AIM": "AIM without",
            "TopDown": "TopDown",
        }
        ratio = f"with places : {'TopDown' if queries == 'told' else 'without'}"
        lines.append(f"| ε | level | {' | '.join(names[m] for m in methods)} | {ratio} |")
        lines.append(f"|--:|---|{'--:|' * (len(methods) + 1)}")
        for epsilon in EPSILONS:
            for level in LEVELS:
                errors = [mean(epsilon, m, level, queries) for m in methods]
                against = errors[0] if queries == "told" else errors[-1]
                ours = errors[methods.index("places")]
                shown = " | ".join(f"{e:.2f}" for e in errors)
                lines.append(f"| {epsilon:g} | {level} | {shown} | {ours / against:.2f} |")
        lines.append("")
    seconds = {m: np.mean([f.seconds for f in held if f.method == m]) for m in ("TopDown", "places", "AIM")}
    told = (
        f"Processor seconds for one table: TopDown {seconds['TopDown']:.1f}, AIM with places {seconds['places']:.1f}, AIM "
        f"without {seconds['AIM']:.1f}."
    )
    return "\n".join([*lines, fill(told, 118), "", *_reading(), ""])


def _reading() -> list[str]:
    text = (
        "With places, AIM stays near TopDown on TopDown's own queries although it spends only 65 % of the budget on them: "
        "least squares uses all levels at once, and tables of small places are drawn towards those of the places that hold "
        "them. What it is not told of it answers too, from rows: nationwide as precisely as AIM without places, which has the "
        "whole budget for it, or more, by state and county as precisely or more, by tract a tenth less precisely. With the larger budget "
        "its model sees tracts themselves, with the smaller one states. `place_share` moves the balance: half of the budget for places "
        "takes from what is told. TopDown is our own, for small tables: one pass of least "
        "squares and one of rounding for each level."
    )
    return ["## How to read it", "", fill(text, 118)]


def main(arguments: list[str]) -> None:
    """Measure what is missing in results.csv and write the page; with --page only the page."""
    held: list[Figure] = []
    if RESULTS.exists():
        with RESULTS.open(encoding="utf-8", newline="") as file:
            for row in DictReader(file):
                numbers = {k: float(row[k]) for k in ("epsilon", "error", "seconds")}
                held.append(
                    Figure(seed=int(row["seed"]), **{k: row[k] for k in ("method", "level", "queries")}, **numbers)
                )
    for epsilon in () if "--page" in arguments else EPSILONS:
        for seed in SEEDS:
            known = {f.method for f in held if (f.epsilon, f.seed) == (epsilon, seed)}
            if known >= {"TopDown", "places", "half", "AIM"}:
                continue
            held += measure(epsilon, seed, known)
            with RESULTS.open("w", encoding="utf-8", newline="") as file:
                writer = DictWriter(file, FIELDS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(
                    {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(f).items()} for f in held
                )
            print(f"ε = {epsilon:g}, seed {seed}", file=sys.stderr)
    PAGE.write_text(page(held), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
