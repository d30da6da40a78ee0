"""Run the application: `python -m studies.youth_voters [--jobs 2] [--repetitions 10]`.

An interrupted run goes on where it stopped; page and figures are written once every method has been run at every ε.
`--page-only` writes them from the committed results.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from studies.youth_voters.figures import draw
from studies.youth_voters.findings import checks, page
from studies.youth_voters.runs import HERE, REPETITIONS, Run, asked, read, run, write

PAGE = Path("docs/studies/youth-voters.md")
IMAGES = Path("docs/images")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.youth_voters", description=__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--repetitions", type=int, default=REPETITIONS)
    options.add_argument("--of-defaults", type=int, default=1, help="repetitions of what is not in the paper")
    options.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; run again to go on")
    options.add_argument("--results", type=Path, default=HERE / "results.csv")
    options.add_argument("--page-only", action="store_true")
    chosen = options.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    wanted = asked(chosen.repetitions, chosen.of_defaults)
    runs: list[Run] = read(chosen.results) if chosen.results.exists() else []
    if not chosen.page_only:
        _continued(runs, wanted, chosen.jobs, chosen.minutes, chosen.results)
        runs = read(chosen.results)  # as rounded in the file, which the page must agree with
    done = {r.key for r in runs}
    if missing := [key for key in asked(1, 1) if key not in done]:
        print(f"no page yet: {len(missing)} runs to go before every method has one at every ε; run again to go on")
        return
    PAGE.write_text(page(runs), "utf-8")
    draw(runs, IMAGES)
    for check in checks(runs):
        print(f"{'holds' if check.holds else 'FAILS'}  {check.claim}: {check.figure}")


def _continued(runs: list[Run], wanted: list[tuple[str, int, int]], jobs: int, minutes: float, path: Path) -> None:
    """Add the runs that are missing, and write all down after every few."""
    started = time.monotonic()
    done = {r.key for r in runs}
    missing = [key for key in wanted if key not in done]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for first in range(0, len(missing), 4 * jobs):
            for one in as_completed([pool.submit(run, *key) for key in missing[first : first + 4 * jobs]]):
                runs.append(one.result())
                last = runs[-1]
                print(f"{time.monotonic() - started:6.0f} s  {last.key}: {last.ks:.3f}", flush=True)
            runs.sort(key=lambda r: wanted.index(r.key) if r.key in wanted else len(wanted))
            write(runs, path)
            if time.monotonic() - started > minutes * 60:
                print(f"stopped; {sum(k not in {r.key for r in runs} for k in wanted)} runs to go")
                break


if __name__ == "__main__":
    main()
