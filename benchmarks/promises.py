"""What `plan` promises of planned analyses of whole rows, against what releases tell.

    python benchmarks/promises.py adult.csv --schema adult.yaml   # every method, ε = 1 and 3, two seeds
    python benchmarks/promises.py adult.csv --schema adult.yaml --methods aim --seeds 5

For every formula: of its coefficients how many were promised and told, and the standard errors told over those promised
(least, middle, most). A promise that is kept to within a factor of 3 is what public facts allow: how often labels occur is
not among them.
"""

from __future__ import annotations

import argparse
import warnings
from math import hypot

import numpy as np

import dipsmith as ds

FORMULAS = (
    "income ~ sex + age",
    "income ~ sex + age + `education-num` + `hours-per-week`",
    "income ~ C(`marital-status`)",
    "`hours-per-week` ~ sex + age + `education-num`",
    "sex ~ income + age",
)
METHODS = {"aim": ds.AIM, "mst": ds.MST, "privbayes": ds.PrivBayes, "marginals": ds.Marginals}


def main() -> None:
    """Print a line for every formula, method and budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--schema", required=True)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--epsilons", nargs="+", default=["1", "3"])
    parser.add_argument("--rows", type=int, default=48_842)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    schema = ds.Schema.read(given.schema)
    print(f"{'formula':58} {'method':10} {'ε':>4}  promised  told  told/promised se")
    for formula in FORMULAS:
        for name in given.methods:
            for epsilon in given.epsilons:
                print(
                    f"{formula:58} {name:10} {epsilon:>4}  {compare(given, schema, formula, METHODS[name](), epsilon)}",
                    flush=True,
                )


def compare(given: argparse.Namespace, schema: ds.Schema, formula: str, method: ds.Method, epsilon: str) -> str:
    """The promise of one formula and what came of it."""
    budget = ds.PureDP(epsilon)
    planned = ds.plan(schema, method, budget, rows=given.rows, analyses=[formula])
    promised = {e.name: e for e in planned.analyses.expectations}
    told, ratios = 0, []
    for seed in range(given.seeds):
        made = ds.synthesize(
            given.table, schema, method, budget=budget, testing=True, noise_seed=seed, seed=seed, analyses=[formula]
        )
        for c in (c for r in made.results for c in r.coefficients if c.name != "Intercept"):
            told += c.se is not None
            e = promised[c.name]
            if c.se is not None and not e.hopeless:
                ratios.append(c.se / hypot(e.sampling, e.noise))
    kept = sum(not e.hopeless for e in promised.values())
    spread = "" if not ratios else f"{min(ratios):.2f} {np.median(ratios):.2f} {max(ratios):.2f}"
    return f"{kept:3} of {len(promised):<3} {told / given.seeds:5.1f}  {spread}"


if __name__ == "__main__":
    main()
