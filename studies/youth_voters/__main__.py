"""Run the application: `python -m studies.youth_voters [--jobs 2] [--repetitions 10]`.

An interrupted run goes on where it stopped; page and figures are written once every method has been run at every ε.
`--page-only` writes them from the committed results.

`--cps FILE` takes the people of the survey's own file instead of simulated ones (its layout: `studies/youth_voters/cps.py`), and
writes results, page and figures into the folder `youth-voters-cps`.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from studies.youth_voters.cps import margins, read_cps
from studies.youth_voters.figures import draw
from studies.youth_voters.findings import Survey, checks, page
from studies.youth_voters.runs import HERE, REPETITIONS, Run, asked, read, run, write

from dipsmith.errors import DipsmithError


@dataclass(frozen=True)
class Place:
    """Where results, page and figures go, and which survey they are of; None for simulated people."""

    results: Path
    page: Path
    images: Path
    survey: Survey | None = None


SIMULATED = Place(HERE / "results.csv", Path("docs/studies/youth-voters.md"), Path("docs/images"))


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.youth_voters", description=__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--repetitions", type=int, default=REPETITIONS)
    options.add_argument("--of-defaults", type=int, default=1, help="repetitions of what is not in the paper")
    options.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; run again to go on")
    options.add_argument("--results", type=Path)
    options.add_argument("--page-only", action="store_true")
    options.add_argument("--cps", metavar="FILE", help="the survey's own file, instead of simulated people")
    chosen = options.parse_args()
    try:
        place = SIMULATED if chosen.cps is None else _survey(chosen.cps)
    except DipsmithError as error:
        raise SystemExit(f"youth_voters: error: {error}") from None
    results = chosen.results or place.results
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    wanted = asked(chosen.repetitions, chosen.of_defaults)
    runs: list[Run] = read(results) if results.exists() else []
    if not chosen.page_only:
        _continued(runs, wanted, chosen.jobs, chosen.minutes, results, chosen.cps)
        runs = read(results)  # as rounded in the file, which the page must agree with
    done = {r.key for r in runs}
    if missing := [key for key in asked(1, 1) if key not in done]:
        print(f"no page yet: {len(missing)} runs to go before every method has one at every ε; run again to go on")
        return
    place.page.write_text(page(runs, place.survey), "utf-8")
    draw(runs, place.images, place.survey)
    for check in checks(runs):
        print(f"{'holds' if check.holds else 'FAILS'}  {check.claim}: {check.figure}")


def _survey(file: str) -> Place:
    """Read the file once, say how its shares compare with the paper's, and where its results go."""
    people = read_cps(file)
    print(f"{file}: {len(people):,} people of 18 to 22 with all fifteen answers")
    for name, mine, paper, far in margins(people):
        print(f"  {name:<22} {mine:6.1%}  paper {paper:6.1%}{'  <- check how it is coded' if far else ''}")
    folder = Path("youth-voters-cps")
    folder.mkdir(exist_ok=True)
    return Place(folder / "results.csv", folder / "youth-voters.md", folder, Survey(Path(file).name, len(people)))


def _continued(
    runs: list[Run], wanted: list[tuple[str, int, int]], jobs: int, minutes: float, path: Path, cps: str | None
) -> None:
    """Add the runs that are missing, and write all down after every few."""
    started = time.monotonic()
    done = {r.key for r in runs}
    missing = [key for key in wanted if key not in done]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for first in range(0, len(missing), 4 * jobs):
            for one in as_completed([pool.submit(run, *key, cps=cps) for key in missing[first : first + 4 * jobs]]):
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
