"""How long the steward waits for an answer: a poll of the pay model with fixed effects, charged, signed and written.

    python benchmarks/confirm.py                  # 1 million rows, 50 parts
    python benchmarks/confirm.py --rows 100000    # fewer
    python benchmarks/confirm.py --row-units      # every row a unit

The simulation of the rows is not counted. Wanted: 60 seconds on two idle cores.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import dipsmith as ds
from dipsmith.confirm.confirm import approve
from dipsmith.confirm.question import Inquiry
from dipsmith.examples import personnel
from dipsmith.schema import Unit

FORMULA = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"


def main() -> None:
    """Ask one question, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--row-units", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        personnel.write(folder, asked.rows // len(personnel.YEARS), csv=False)
        schema = ds.Schema.read(folder / "personnel.yaml")
        schema = replace(schema, unit=Unit()) if asked.row_units else schema
        ledger = ds.Ledger(folder / "budget.db")
        ledger.grant(schema.name, ds.PureDP(1))
        question = Inquiry(schema.name, "0" * 64, FORMULA, "sex[F] < 0", ds.PureDP(1), parts=asked.parts)
        question = replace(question, reference=(("race", "E"), ("sex", "M")))
        start, before = time.perf_counter(), os.times()
        found = approve(question, folder / "personnel.parquet", schema, ledger=ledger, out=folder / "answer")
        after = os.times()
        seconds, cpu = time.perf_counter() - start, after.user + after.system - before.user - before.system
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{asked.rows:,} rows, {asked.parts} parts: {seconds:.1f} s, {cpu:.1f} s of CPU, peak {peak:,.0f} MB")
        print(found.answer.sentence)


if __name__ == "__main__":
    main()
