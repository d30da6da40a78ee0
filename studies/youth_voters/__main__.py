"""Run the application: `python -m studies.youth_voters [--jobs 2] [--scored 3]`.

An interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from studies.youth_voters.findings import checks, page
from studies.youth_voters.runs import HERE, LOG_EPSILONS, METHODS, Run, read, run, write

PAGE = Path("docs/studies/youth-voters.md")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.youth_voters", description=__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument(
        "--scored", type=int, default=3, help="sets of five that are scored with interactions"
    )
    options.add_argument("--page", type=Path, default=PAGE, help="where the results page goes")
    options.add_argument("--results", type=Path, default=HERE / "results.csv")
    chosen = options.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    started = time.monotonic()
    partial = chosen.results.with_suffix(".partial.csv")
    runs: list[Run] = read(partial) if partial.exists() else []
    done = {(r.method, r.log_epsilon) for r in runs}
    asked = [(name, e) for name in METHODS for e in LOG_EPSILONS]
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run, name, e, chosen.scored) for name, e in asked if (name, e) not in done]
        for one in running:
            runs.append(one.result())
            last = runs[-1]
            write(runs, partial)
            print(
                f"{time.monotonic() - started:6.0f} s  {last.method}, log ε = {last.log_epsilon}: {last.pairs:.3f}",
                flush=True,
            )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (used.ru_utime + used.ru_stime) / 60
    runs.sort(key=lambda r: asked.index((r.method, r.log_epsilon)))
    write(runs, chosen.results)
    partial.unlink()
    chosen.page.write_text(page(runs, minutes), "utf-8")
    for check in checks(runs):
        print(f"{'holds' if check.holds else 'FAILS'}  {check.claim}: {check.figure}")


if __name__ == "__main__":
    main()
