"""Run with `python -m studies.coverage [part …] [--minutes 10]`: intervals and tests on tables whose truth is known.

Every table is drawn from a known population, released, and analysed as a researcher would analyse it; a 95 % interval
should hold the population's value 95 times in 100. results.csv is written after every piece of a scenario, and what it
holds is not run again, so that the study can be done in several goes. Parts: rules, path,
sets, independence, regressions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from studies.coverage import independence, lines, regressions, rules, several_sets, whole_path
from studies.coverage.lines import Line
from studies.coverage.page import page

PAGE = Path("docs/studies/coverage.md")


@dataclass(frozen=True)
class Scenario:
    """What results.csv calls it, how many repeats it wants, and how a piece of them is run (from the first seed)."""

    known: tuple[str, str, int, float]
    repeats: int
    piece: Callable[[int], list[Line]]


def scenarios(parts: list[str]) -> Iterator[Scenario]:
    """What there is to run."""
    if "rules" in parts:
        for rows, epsilon in rules.CASES:
            known = ("rules", "share of .3", rows, epsilon)
            yield Scenario(known, rules.REPEATS, partial(rules.rules, rows, epsilon))
    if "path" in parts:
        for relation in whole_path.RELATIONS:
            known = ("whole path", f"flat, {relation}", whole_path.ROWS, float(whole_path.EPSILON))
            yield Scenario(known, whole_path.REPEATS, partial(whole_path.whole_path, relation))
    if "independence" in parts:
        for text, link in independence.CASES:
            case = "independent" if link == 0 else "associated"
            known = ("independence", case, independence.ROWS, float(text))
            yield Scenario(known, independence.REPEATS[link], partial(independence.rejections, text, link))
    if "sets" in parts:
        for shape, rows, epsilon in several_sets.CASES:
            for linked in (False, True):
                known = ("several sets", several_sets.name_of(shape, linked), rows, epsilon)
                piece = partial(several_sets.several_sets, shape, rows, epsilon, linked)
                yield Scenario(known, several_sets.REPEATS, piece)
    if "regressions" in parts:
        for one in regressions.scenarios():
            known = ("regressions", one.name, one.rows, float(one.epsilon))
            piece = partial(regressions.regression, one, repeats=max(regressions.PIECE, one.repeats // 8))
            yield Scenario(known, one.repeats, piece)


def main() -> None:
    """Run what is missing, then write the page."""
    options = argparse.ArgumentParser(prog="python -m studies.coverage", description=__doc__)
    every = ["rules", "path", "sets", "independence", "regressions"]
    options.add_argument("parts", nargs="*", default=every, help=", ".join(every))
    options.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    options.add_argument("--page", type=Path, default=PAGE)
    chosen = options.parse_args()
    started = time.monotonic()
    done = lines.read()
    # round by round, so that every scenario has some repeats before one has all
    waiting = list(scenarios(chosen.parts))
    while waiting and time.monotonic() - started < 60 * chosen.minutes:
        one = waiting.pop(0)
        so_far = max((line.repeats for line in lines.merged(done) if line.scenario == one.known), default=0)
        if so_far >= one.repeats:
            continue
        done = lines.merged([*done, *one.piece(so_far)])
        lines.write(done)
        print(f"{time.monotonic() - started:6.0f} s  {one.known}", flush=True)
        waiting.append(one)
    if waiting:
        print("out of time; run again for the rest")
    chosen.page.write_text(page(done), "utf-8")


if __name__ == "__main__":
    main()
