"""Run the study: `python -m studies.steps_simulation [--jobs 2]`.

Results are written after every scenario, and a run that was interrupted goes on with the next one; `--anew` forgets them.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from studies.steps_simulation.figures import draw
from studies.steps_simulation.findings import checks, page
from studies.steps_simulation.scenarios import HERE, REPEATS, SCENARIOS, Line, read, scenario, write

PAGE = Path("docs/studies/steps-simulation.md")
IMAGES = Path("docs/images")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.steps_simulation", description=__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--anew", action="store_true", help="run every scenario again")
    options.add_argument("--page", type=Path, default=PAGE, help="where the results page goes")
    options.add_argument("--results", type=Path, default=HERE / "results.csv")
    chosen = options.parse_args()
    known = read(chosen.results) if chosen.results.exists() and not chosen.anew else []
    _run_missing(known, chosen.jobs, chosen.results)
    lines = read(chosen.results)  # as rounded in the file, which the page must agree with
    chosen.page.write_text(page(lines), "utf-8")
    draw(lines, IMAGES)
    for check in checks(lines):
        print(f"{'holds' if check.holds else 'FAILS'}  {check.claim}: {check.figure}")


def _run_missing(lines: list[Line], jobs: int, path: Path) -> None:
    """Run the scenarios that the lines lack, and write all down after each."""
    done = {line.scenario for line in lines}
    missing = [one for one in SCENARIOS if one not in done]
    # Processes side by side: a linear algebra library that starts threads of its own would only disturb them.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    started = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(scenario, *place, REPEATS) for place in missing]
        for (model, rows, epsilon), one in zip(missing, running, strict=True):
            lines += one.result()
            print(f"{time.monotonic() - started:6.0f} s  Model {model}, n = {rows:,}, ε = {epsilon:g}", flush=True)
            write(lines, path)


if __name__ == "__main__":
    main()
