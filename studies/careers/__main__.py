"""Make docs/studies/careers.md: `python -m studies.careers [PEOPLE]`."""

from __future__ import annotations

import resource
import sys
import warnings
from pathlib import Path
from textwrap import fill
from time import process_time

import numpy as np
import pyarrow as pa
from studies.careers.coverage import coverage_lines

import dipsmith as ds
from dipsmith.examples.personnel import panel_schema, simulate_careers
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.utility.careers import CareerGap, LinkedRows, career_gap, read_careers, released_careers

PAGE = Path(__file__).parents[2] / "docs" / "studies" / "careers.md"
PEOPLE, SEEDS, EPSILON = 50_000, (0, 1), 1.0
PERIODS = (4, 10)
ABSENT = "absent"


def simulate(people: int, periods: int) -> tuple[pa.Table, Schema]:
    """About so many people over so many years; a tenth of a year's staff is new."""
    years = range(2012 - periods, 2012)
    share = 1 + 0.085 * (periods - 1)
    table, _ = simulate_careers(round(people / share), years, seed=77)
    return table, panel_schema(years)


def careers(table: pa.Table, schema: Schema, seed: int) -> LinkedRows:
    """A release of careers by AIM."""
    release = ds.synthesize(
        table, schema, ds.AIM(), budget=ds.PureDP(EPSILON), testing=True, noise_seed=500 + seed, seed=seed
    )
    return released_careers(release.tables[0], schema, release.schema)


def flat_schema(schema: Schema) -> Schema:
    """A column for every changing column in every year, absent or not; a person is one row."""
    years = schema["year"].labels
    fields: list[dict[str, object]] = []
    for a in schema:
        if a.name == "year":
            continue
        levels = [f"{i}" for i in range(a.size)]
        columns = [a.name] if a.fixed else [f"{a.name} {year}" for year in years]
        more = [] if a.fixed else [ABSENT]
        fields += [
            {"name": c, "type": "string", "enum": [*levels, *more], "other": (more or levels)[0]} for c in columns
        ]
    return Schema.from_dict({"name": "flat", "unit": "row", "neighbours": "add-remove", "fields": fields})


def flatten(rows: LinkedRows, schema: Schema) -> pa.Table:
    """One row for every person."""
    codes = rows.codes
    assert codes.units is not None
    _, person = np.unique(codes.units, return_inverse=True)
    year, people = codes["year"].astype(int), int(person.max()) + 1
    columns: dict[str, list[str]] = {}
    for a in schema:
        if a.fixed:
            held = np.zeros(people, int)
            held[person] = codes[a.name]
            columns[a.name] = held.astype(str).tolist()
        elif a.name != "year":
            for t, label in enumerate(schema["year"].labels):
                cell = np.full(people, ABSENT, dtype=object)
                cell[person[year == t]] = codes[a.name][year == t].astype(str)
                columns[f"{a.name} {label}"] = cell.tolist()
    return pa.table(columns)


def unflatten(table: pa.Table, schema: Schema) -> LinkedRows:
    """Rows of people from a flat table: there in a year if supervisory is."""
    from dipsmith.schema import Codes

    parts: dict[str, list[np.ndarray]] = {a.name: [] for a in schema}
    units = []
    for t, label in enumerate(schema["year"].labels):
        there = np.array(table[f"supervisory {label}"].to_pylist()) != ABSENT
        units.append(np.flatnonzero(there))
        for a in schema:
            if a.name == "year":
                parts[a.name].append(np.full(there.sum(), t))
                continue
            words = np.array(table[a.name if a.fixed else f"{a.name} {label}"].to_pylist())[there]
            parts[a.name].append(np.where(words == ABSENT, "0", words).astype(int))
    codes = Codes.of(schema, {n: np.concatenate(v) for n, v in parts.items()})
    return LinkedRows(Codes(codes.schema, codes.columns, codes.rows, np.concatenate(units)), {})


def flat(table: pa.Table, authentic: LinkedRows, schema: Schema) -> LinkedRows:
    """A release of the flat table by AIM, as rows."""
    release = ds.synthesize(
        flatten(authentic, schema), flat_schema(schema), ds.AIM(), budget=ds.PureDP(EPSILON), testing=True, noise_seed=9
    )
    return unflatten(release.tables[0], schema)


def line(what: str, gap: CareerGap, seconds: float) -> str:
    """A line of the page."""
    moves = "–".join(f"{v:.3f}" for v in _ends([t for t, _ in gap.transitions.values()]))
    memory = f"{gap.memory['pay'][1]:.3f}" if gap.memory else "–"
    growth = f"{gap.growth['pay'][1]:.4f}" if gap.growth else "–"
    mean = np.mean([t for t, _ in gap.transitions.values()])
    return f"| {what} | {mean:.3f} | {moves} | {100 * gap.spells:.1f} | {100 * gap.rates:.1f} | {memory} | {growth} | {seconds:.0f} |"


def _ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


INTRODUCTION = (
    "People of a simulated civil service (`dipsmith.examples.personnel.simulate_careers`: entry, promotion, moves between "
    "agencies, exit; one sex, race and education for life) over 4 and 10 years, 8 columns, released by AIM as a panel with "
    f"ε = {EPSILON:g} for a whole career (`add-remove`). *Transitions*: total variation distance of each changing column's table "
    "with itself a year before (age, agency, supervisory, pay), mean and range. *Rows linked at random* are the authentic rows "
    "themselves without their careers: the best that independent rows can do. *Flat* is AIM on one row per person with a column for "
    "every year. *Spells*: points of the lengths of spells that differ; *turnover*: the largest error of a year's share of people "
    "who arrive or leave, in points. *Memory*: autocorrelation of log pay; *growth*: slope of log pay on the year with an effect "
    "for every person. Constants of the method were not tuned on these tables."
)


def main() -> None:
    """Run every cell and write the page."""
    warnings.simplefilter("ignore")
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    lines = ["# Careers: what a panel keeps", "", fill(INTRODUCTION, 118), ""]
    for periods in PERIODS:
        table, schema = simulate(people, periods)
        authentic = read_careers(source(table), schema)
        own = career_gap(authentic, authentic, schema)
        lines += [
            f"## {periods} years: {own.authentic.units:,} people, {table.num_rows:,} rows",
            "",
            "| | transitions, mean TVD | range | spells | turnover | memory | growth | CPU s |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
        ]
        chance = [c for _, c in own.transitions.values()]
        lines.append(f"| authentic | 0 | 0 | 0 | 0 | {own.memory['pay'][0]:.3f} | {own.growth['pay'][0]:.4f} | |")
        lines.append(
            f"| rows linked at random | {np.mean(chance):.3f} | {min(chance):.3f}–{max(chance):.3f} | | | 0 | | |"
        )
        for seed in SEEDS:
            begun = process_time()
            gap = career_gap(authentic, careers(table, schema, seed), schema)
            lines.append(line(f"careers, noise {seed + 1}", gap, process_time() - begun))
            print(lines[-1], flush=True)
        if periods == PERIODS[0]:
            begun = process_time()
            made = flat(table, authentic, schema)
            gap = career_gap(LinkedRows(authentic.codes, {}), made, schema)
            lines.append(line("flat", gap, process_time() - begun))
            print(lines[-1], flush=True)
        lines.append("")
    lines += coverage_lines() if people == PEOPLE else []
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB at most")
    if people == PEOPLE:
        PAGE.write_text("\n".join(lines).rstrip() + "\n\n`python -m studies.careers` makes this page.\n", "utf-8")


if __name__ == "__main__":
    main()
