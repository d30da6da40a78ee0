"""Repeat the chapter: `python -m studies.programming_dp adult.csv [--out FOLDER] [--page FILE]`.

`adult.csv` is UCI Adult with a header line; its first 32,561 rows are the training part that the chapter uses. Only age
and occupation are read. An interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from studies.programming_dp.measures import MEASURES

from dipsmith.experiments.experiment import Experiment

HERE = Path(__file__).parent
ROWS = 32_561
PAGE = Path("docs/studies/programming-dp.md")
COMMAND = "python -m studies.programming_dp adult.csv"


def training_rows(path: Path) -> pa.Table:
    with path.open(newline="") as file:
        rows = [row for row, _ in zip(csv.DictReader(file), range(ROWS), strict=False)]
    jobs = [row["occupation"].strip() for row in rows]
    return pa.table({"age": [int(row["age"]) for row in rows], "occupation": [None if j == "?" else j for j in jobs]})


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.programming_dp", description=__doc__)
    options.add_argument("data", type=Path, help="UCI Adult with a header line")
    options.add_argument("--out", type=Path, default=Path("programming-dp-results"))
    options.add_argument("--page", type=Path, default=PAGE)
    options.add_argument("--jobs", type=int, default=2)
    chosen = options.parse_args()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    rows = chosen.out.with_name("adult-training.parquet")
    pq.write_table(training_rows(chosen.data), rows)
    experiment = Experiment.read(HERE / "study.yaml", chosen.out, data=str(rows), extra=MEASURES)
    results = experiment.run(chosen.jobs)
    experiment.write_page(results, chosen.page, COMMAND)


if __name__ == "__main__":
    main()
