"""Where adaptive marginals begin to repay their rounds: MST against AIM at small rows × ε, for `plan --suggest`.

    python benchmarks/suggest.py --adult adult.csv --seeds 8

The Adult table as in `networks.py`, and the simulated voters of `dipsmith.examples` (15 columns, twelve latent
classes, a rule), the first rows of each in a fixed random order. Neighbours add-remove, δ = 1e-9. Seeds begin at
100: none of them is a seed of a published table. One line per table, number of rows and ε: mean total-variation
distance over all pairs for both methods, and in how many seeds AIM was the better one. Also PrivBayes, with
--privbayes.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path

import numpy as np

from dipsmith.examples import voters
from dipsmith.methods.catalogue import METHODS
from dipsmith.privacy.budget import ZCDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Marginal
from networks import SHAPE, adult, rows_of

SETTINGS = [
    (1_000, 0.3), (5_000, 0.1), (1_000, 1.0), (5_000, 0.3), (30_000, 0.1), (5_000, 1.0), (30_000, 0.3), (30_000, 1.0),
]  # fmt: skip
FIRST_SEED = 100


def shares(codes: Codes) -> list[np.ndarray]:
    pairs = [Marginal.of(codes.schema, p) for p in combinations(codes.schema.names, 2)]
    return [np.bincount(m.index(codes), minlength=m.size) / max(len(codes), 1) for m in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--at", nargs=2, action="append", metavar=("ROWS", "EPSILON"))
    parser.add_argument("--table", choices=["voters", "adult"], help="only this one")
    parser.add_argument("--privbayes", action="store_true")
    parser.add_argument("--out", help="also write every line as JSON")
    given = parser.parse_args()
    names = ["mst", "aim", "privbayes"] if given.privbayes else ["mst", "aim"]
    tables = {"voters": Codes.of(voters.schema("add-remove"), voters.codes(30_000, seed=1))}
    if given.adult:
        tables["adult"] = rows_of(adult(given.adult), SHAPE)
    settings = [(int(n), float(e)) for n, e in given.at] if given.at else SETTINGS
    for table, codes in tables.items():
        if given.table not in (None, table):
            continue
        order = np.random.default_rng(0).permutation(len(codes))
        for rows, epsilon in settings:
            part = codes.take(order[:rows])
            true = shares(part)
            errors = {name: [] for name in names}
            for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
                for name in names:
                    curator = Curator.rehearse(part, ZCDP.from_approx(epsilon, 1e-9), seed=seed)
                    made = shares(METHODS[name]().fit(curator).sample(len(part), seed=seed))
                    errors[name].append(
                        float(np.mean([0.5 * np.abs(a - b).sum() for a, b in zip(true, made, strict=True)]))
                    )
            means = {name: float(np.mean(e)) for name, e in errors.items()}
            wins = sum(a < m for a, m in zip(errors["aim"], errors["mst"], strict=True))
            line = {
                "table": table,
                "rows": rows,
                "epsilon": epsilon,
                "wins": wins,
                "seeds": given.seeds,
            } | means
            said = "  ".join(f"{name} {mean:.4f}" for name, mean in means.items())
            print(
                f"{table:<7} {rows:>6,} rows  ε = {epsilon:<4g} rows × ε = {rows * epsilon:>6,.0f}  {said}  "
                f"AIM better in {wins} of {given.seeds}",
                flush=True,
            )
            if given.out:
                with Path(given.out).open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
