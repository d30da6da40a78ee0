"""Run the study: `python -m studies.steps_simulation [--repeats 200] [--jobs 2]`."""

from __future__ import annotations

import argparse
import os
import resource
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
    options.add_argument("--repeats", type=int, default=REPEATS)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--page", type=Path, default=PAGE, help="where the results page goes")
    options.add_argument("--results", type=Path, default=HERE / "results.csv")
    options.add_argument("--figures-only", action="store_true", help="draw the committed results again")
    chosen = options.parse_args()
    if chosen.figures_only:
        draw(read(chosen.results), IMAGES)
        return
    # Two processes on two cores: a linear algebra library that starts threads of its own would only disturb them.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    started = time.monotonic()
    lines: list[Line] = []
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(scenario, m, n, e, chosen.repeats) for m, n, e in SCENARIOS]
        for (model, rows, epsilon), one in zip(SCENARIOS, running, strict=True):
            lines += one.result()
            print(
                f"{time.monotonic() - started:6.0f} s  Model {model}, n = {rows:,}, ε = {epsilon:g}",
                flush=True,
            )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (used.ru_utime + used.ru_stime) / 60
    write(lines, chosen.results)
    chosen.page.write_text(page(lines, chosen.repeats, minutes), "utf-8")
    draw(lines, IMAGES)
    for check in checks(lines):
        print(f"{'holds' if check.holds else 'FAILS'}  {check.claim}: {check.figure}")


if __name__ == "__main__":
    main()
