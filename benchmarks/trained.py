"""How well a classifier predicts real rows when it was trained on synthetic ones, over several divisions of one table.

    python benchmarks/trained.py --adult adult.csv --out benchmarks/results/trained.jsonl

Each time four fifths of the rows, drawn at random, are synthesised, and the other fifth is predicted: by gradient boosting
that was trained on the synthetic rows, and by the same that was trained on the real four fifths. One division alone tells
little: the difference varies by half a point from one to the next. δ = 1e-9, neighbours add-remove.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from dipsmith.methods.catalogue import METHODS
from dipsmith.privacy.budget import ZCDP
from dipsmith.privacy.curator import Curator
from networks import SHAPE, adult, rows_of
from scoreboard import Table, accuracy

FIRST = 500
"""The first division; those of the scoreboard and of earlier trials have smaller numbers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", required=True)
    parser.add_argument("--methods", nargs="*", default=["aim", "privbayes", "mst"])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0])
    parser.add_argument("--divisions", type=int, default=10)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add to")
    given = parser.parse_args()
    table = Table(adult(given.adult), dict(SHAPE), target="income")
    for method in given.methods:
        for epsilon in given.epsilon:
            start = time.process_time()
            pairs = [divide(table, method, epsilon, FIRST + i) for i in range(given.divisions)]
            real, made = (np.array(column) for column in zip(*pairs, strict=True))
            lost = 100 * (real - made)
            line = {"method": method, "epsilon": epsilon, "divisions": given.divisions}
            line |= {"real": round(float(real.mean()), 4), "synthetic": round(float(made.mean()), 4)}
            line |= {
                "lost": round(float(lost.mean()), 2),
                "error": round(float(lost.std(ddof=1) / len(lost) ** 0.5), 2),
            }
            line |= {"seconds": round(time.process_time() - start), "date": datetime.now(UTC).date().isoformat()}
            print(json.dumps(line), flush=True)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(line) + "\n")


def divide(table: Table, method: str, epsilon: float, seed: int) -> tuple[float, float]:
    """The accuracy of what is trained on real and on synthetic rows, in one division of the table."""
    shuffled = np.random.default_rng(seed).permutation(len(table.codes[table.target]))
    cut = len(shuffled) // 5
    held, rows = table.rows(shuffled[:cut]), table.rows(shuffled[cut:])
    curator = Curator.rehearse(rows_of(rows, table.sizes), ZCDP.from_approx(epsilon, 1e-9), seed=seed)
    drawn = METHODS[method]().fit(curator).sample(seed=seed)
    made = {name: drawn[name].astype(np.int64) for name in table.sizes}
    return tuple(accuracy(some, held, table.sizes, table.target) for some in (rows, made))


if __name__ == "__main__":
    main()
