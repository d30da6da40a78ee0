"""Run the application: `python -m studies.youth_voters [--jobs 2] [--scored 2]`."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from studies.youth_voters.findings import checks, page
from studies.youth_voters.runs import HERE, LOG_EPSILONS, METHODS, Run, run, write

PAGE = Path("docs/studies/youth-voters.md")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.youth_voters", description=__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument(
        "--scored", type=int, default=2, help="sets of five that are scored with interactions"
    )
    options.add_argument("--page", type=Path, default=PAGE, help="where the results page goes")
    options.add_argument("--results", type=Path, default=HERE / "results.csv")
    chosen = options.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    started = time.monotonic()
    runs: list[Run] = []
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run, name, e, chosen.scored) for name in METHODS for e in LOG_EPSILONS]
        for one in running:
            runs.append(one.result())
            last = runs[-1]
            print(
                f"{time.monotonic() - started:6.0f} s  {last.method}, log ε = {last.log_epsilon}: {last.pairs:.3f}",
                flush=True,
            )
    minutes = (time.monotonic() - started) / 60
    write(runs, chosen.results)
    chosen.page.write_text(page(runs, minutes, chosen.jobs), "utf-8")
    for check in checks(runs):
        print(f"{'holds' if check.holds else 'FAILS'}  {check.claim}: {check.figure}")


if __name__ == "__main__":
    main()
