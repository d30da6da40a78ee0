"""Run with `python -m studies.coverage [part …] [--minutes 10]`: intervals and tests on tables whose truth is known.

Every table is drawn from a known population, released, and analysed as a researcher would analyse it; a 95 % interval
should hold the population's value 95 times in 100, or be refused. Results are written after every piece, and what they
hold is not run again, so that the study can be done in several goes. Parts: methods, fresh, formulas,
personnel, large, rules, path, sets, independence; real rows (`studies.coverage.adult`) and learned bins
(`studies.coverage.learned`) are commands of their own.
`--tell` runs nothing and writes the page.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from studies.coverage import (
    formulas,
    independence,
    lines,
    methods,
    methods_page,
    personnel,
    rules,
    several_sets,
    tally,
    whole_path,
)
from studies.coverage.lines import Line
from studies.coverage.page import page

PAGE, FIGURE = Path("docs/studies/coverage.md"), Path("docs/images/coverage.svg")
PARTS = ("methods", "fresh", "formulas", "personnel", "large", "rules", "path", "sets", "independence")

Step = Callable[[], bool]
"""Does a piece of something and says whether there is more."""


@dataclass(frozen=True)
class Scenario:
    """What results.csv calls it, how many repeats it wants, and how a piece of them is run (from the first seed)."""

    known: tuple[str, str, int, float]
    repeats: int
    piece: Callable[[int], list[Line]]

    def step(self) -> bool:
        """Run a piece."""
        done = lines.read()
        so_far = max((line.repeats for line in done if line.scenario == self.known), default=0)
        if so_far >= self.repeats:
            return False
        lines.write(lines.merged([*done, *self.piece(so_far)]))
        print(self.known, flush=True)
        return True


def scenarios(parts: list[str]) -> Iterator[Scenario]:
    """The rules by themselves."""
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


def step_of_method(case: methods.Case) -> bool:
    """Run a piece of one kind of release."""
    done = tally.read()
    runs = methods.finished(case, done)
    if runs is None:
        return False
    started = time.process_time()
    tally.write(tally.merged([*done, *methods.run(case, runs)]))
    print(f"{time.process_time() - started:6.1f} s  {case.name}", flush=True)
    return True


def step_of_fresh(case: methods.Case) -> bool:
    """Run a piece of a kind of release that has a low cell, from fresh seeds."""
    done = tally.read(tally.FRESH)
    first = methods.runs_of(case, done)
    if first >= methods.FRESH_RUNS:
        return False
    started = time.process_time()
    tally.write(tally.merged([*done, *methods.run(case, methods.FRESH_FROM + first)]), tally.FRESH)
    print(f"{time.process_time() - started:6.1f} s  fresh, {case.name}", flush=True)
    return True


def step_of_control(relation: str) -> bool:
    """Run a piece of the authentic rows' own intervals."""
    done = tally.read()
    mine = [t for t in done if (t.method, t.relation) == (methods.AUTHENTIC, relation)]
    runs = sum(t.runs for t in mine if t.estimand == methods.WHOLE[0].name)
    if runs >= methods.RUNS:
        return False
    tally.write(tally.merged([*done, *methods.control(relation, runs, methods.PIECE)]))
    return True


def steps(parts: list[str], only: str) -> Iterator[Step]:
    """What there is to run."""
    if "methods" in parts:
        yield from (partial(step_of_control, relation) for relation in ("replace", "label") if not only)
        yield from (partial(step_of_method, case) for case in methods.cases() if re.search(only, case.name))
    if "fresh" in parts:
        yield from (partial(step_of_fresh, case) for case in methods.low_kinds(tally.read()))
    if "formulas" in parts:
        yield formulas.step
    if "personnel" in parts:
        yield personnel.step
    if "large" in parts:
        yield personnel.step_large
    yield from (one.step for one in scenarios(parts))


def main() -> None:
    """Run what is missing, then write the page."""
    options = argparse.ArgumentParser(prog="python -m studies.coverage", description=__doc__)
    options.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    options.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    options.add_argument("--only", default="", help="of the part methods: cases whose name matches this expression")
    options.add_argument("--tell", action="store_true", help="write the page from the results there are")
    options.add_argument("--page", type=Path, default=PAGE)
    chosen = options.parse_args()
    started = time.monotonic()
    # round by round, so that everything has some repeats before one thing has all
    waiting = [] if chosen.tell else list(steps(chosen.parts, chosen.only))
    while waiting and time.monotonic() - started < 60 * chosen.minutes:
        one = waiting.pop(0)
        if one():
            waiting.append(one)
    if waiting:
        print("out of time; run again for the rest")
    chosen.page.write_text(page(), "utf-8")
    if tallies := tally.read():
        FIGURE.write_text(methods_page.draw(tallies), "utf-8")


if __name__ == "__main__":
    main()
