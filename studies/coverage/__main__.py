"""Run with `python -m studies.coverage [part …] [--minutes 10]`: intervals and tests on tables whose truth is known.

Every table is drawn from a known population, released, and analysed as a researcher would analyse it; a 95 % interval
should hold the population's value 95 times in 100. Scenarios that results.csv already holds are not run again, so that
the study can be done in pieces; delete the file to start afresh. Parts: rules, path, regressions, independence.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from studies.coverage import independence, lines, regressions, rules, whole_path
from studies.coverage.lines import Line
from studies.coverage.page import page

PAGE = Path("docs/studies/coverage.md")
Scenario = tuple[tuple[str, str, int, float], Callable[[], list[Line]]]


def scenarios(parts: list[str]) -> Iterator[Scenario]:
    """What there is to run, with the name under which results.csv knows it."""
    if "rules" in parts:
        for rows, epsilon in rules.CASES:
            yield ("rules", "share of .3", rows, epsilon), partial(rules.rules, rows, epsilon)
    if "path" in parts:
        for relation in whole_path.RELATIONS:
            known = ("whole path", f"flat, {relation}", whole_path.ROWS, float(whole_path.EPSILON))
            yield known, partial(whole_path.whole_path, relation)
    if "independence" in parts:
        for text, link in independence.CASES:
            case = "independent" if link == 0 else "associated"
            known = ("independence", case, independence.ROWS, float(text))
            yield known, partial(independence.rejections, text, link)
    if "regressions" in parts:
        for one in regressions.scenarios():
            known = ("regressions", one.name, one.rows, float(one.epsilon))
            yield known, partial(regressions.regression, one)


def main() -> None:
    """Run what is missing, then write the page."""
    options = argparse.ArgumentParser(prog="python -m studies.coverage", description=__doc__)
    every = ["rules", "path", "regressions", "independence"]
    options.add_argument("parts", nargs="*", default=every, help=", ".join(every))
    options.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    options.add_argument("--page", type=Path, default=PAGE)
    chosen = options.parse_args()
    started = time.monotonic()
    done = lines.read()
    for known, run in scenarios(chosen.parts):
        if any(line.scenario == known for line in done):
            continue
        if time.monotonic() - started > 60 * chosen.minutes:
            print("out of time; run again for the rest")
            break
        done += run()
        lines.write(done)
        print(f"{time.monotonic() - started:6.0f} s  {known}", flush=True)
    chosen.page.write_text(page(done), "utf-8")


if __name__ == "__main__":
    main()
