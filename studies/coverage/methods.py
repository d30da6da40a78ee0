"""All nine methods, five questions: how often `dipsmith.fit` holds the truth, or refuses.

One release is asked all five. What only ever refuses is not run long: a refusal depends on which tables were measured,
and hardly on chance.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from studies.coverage.people import FIRST, Population, voters
from studies.coverage.tally import REFUSED, Asked, Question, Tally, counted, merged, wilson

import dipsmith as ds

ROWS, RUNS, REPLICATES, PIECE = 3000, 200, 20, 20
MORE_RUNS = 600
"""Runs of a kind of release that has a cell whose Monte-Carlo interval lies below the nominal share after `RUNS`."""

FRESH_RUNS, FRESH_FROM = 1000, 5000
"""Runs of a kind that still has such a cell after `MORE_RUNS`, from another seed on, counted by themselves: by these it is
judged whether it is low, since the others were run until it was not."""

NOMINAL, LEAST = 0.95, 0.90
ENOUGH_REFUSALS = 40
"""Runs after which a release that has refused every question is taken to refuse."""

EPSILONS = ("0.5", "1", "3")
WHOLE = (
    Question("mean", "y ~ 1"),
    Question("share", 'I(s == "W") ~ 1', "ols"),
    Question("OLS, main effects", "y ~ a + s"),
    Question("OLS, product", "y ~ s * v"),
    Question("logistic", "v ~ a + s"),
)
LABEL = (
    Question("mean", "y ~ s"),
    Question("share", 'I(s == "W") ~ 1', "ols"),
    Question("OLS, main effects", "y ~ a + s"),
    Question("OLS, product", "y ~ s * v"),
    Question("logistic", "s ~ a + y"),
)
"""Where only the sex is private: its share, public columns by it, and its odds."""

METHODS: dict[str, Any] = {
    "aim": ds.AIM,
    "flat": ds.Flat,
    "forest": ds.Forest,
    "loglinear": ds.LogLinear,
    "marginals": ds.Marginals,
    "mst": ds.MST,
    "privbayes": ds.PrivBayes,
    "steps": ds.Steps,
    "universal": ds.Universal,
}
PLANS = ("aim", "marginals", "mst", "privbayes")
LABELLERS = ("forest", "loglinear")
AUTHENTIC = "authentic rows"


@dataclass(frozen=True)
class Case:
    """Releases of one kind."""

    method: str
    relation: str
    planned: bool
    epsilon: str

    @property
    def key(self) -> tuple[str, str, bool, str]:
        """As tallies name it."""
        return self.method, self.relation, self.planned, self.epsilon

    @property
    def name(self) -> str:
        """For print."""
        return f"{self.method}{' planned' if self.planned else ''} {self.relation} {self.epsilon}"

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked of it."""
        return LABEL if self.relation == "label" else WHOLE

    def release(self, people: Population, table: Any, seed: int) -> ds.Release:
        """A release of a sample."""
        label = self.relation == "label"
        method = METHODS[self.method]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ds.synthesize(
                table,
                people.schema(self.relation, ("s",) if label else ()),
                method(targets=["s"]) if label else method(),
                budget=ds.PureDP(self.epsilon),
                analyses=[q.planned for q in self.questions] if self.planned else [],
                testing=True,
                noise_seed=seed,
            )


def cases() -> Iterator[Case]:
    """All there are, those that answer most first."""
    for relation in ("replace", "add-remove"):
        for epsilon in EPSILONS:
            yield from (Case(m, relation, False, epsilon) for m in METHODS if m != "loglinear")
            yield from (Case(m, relation, True, epsilon) for m in PLANS)
            if relation == "replace":
                yield from (Case(m, "label", planned, epsilon) for planned in (True, False) for m in LABELLERS)


def seeds(name: str, first: int, runs: int) -> range:
    """Consecutive seeds: every kind of release has people and noise of its own."""
    start = FIRST + crc32(name.encode()) * 10_000 + first
    return range(start, start + runs)


def run(case: Case, first: int, runs: int = PIECE) -> list[Tally]:
    """So many releases, from the first seed on; the authentic rows' own intervals beside them."""
    people, found = voters(), []
    for seed in seeds(case.name, first, runs):
        table = people.sample(ROWS, seed)
        started = time.process_time()
        release = case.release(people, table, seed)
        share = (time.process_time() - started) / len(case.questions)
        for question in case.questions:
            started = time.process_time()
            asked = Asked.of(release, question, replicates=REPLICATES, seed=seed + 10**6)
            seconds = time.process_time() - started + share
            truth = people.truth(question.formula, question.family)
            widths = people.widths(ROWS, question.formula, question.family)
            found += counted(case.key, question, asked, truth, widths, seconds)
    return merged(found)


def control(relation: str, first: int, runs: int) -> list[Tally]:
    """The ordinary intervals of authentic rows, which are right by construction."""
    people, found = voters(), []
    for seed in seeds(f"{AUTHENTIC} {relation}", first, runs):
        table = people.sample(ROWS, seed)
        for question in LABEL if relation == "label" else WHOLE:
            started = time.process_time()
            asked = Asked(ds.fit(table, question.formula, family=question.family))
            seconds = time.process_time() - started
            truth = people.truth(question.formula, question.family)
            widths = people.widths(ROWS, question.formula, question.family)
            found += counted((AUTHENTIC, relation, False, "none"), question, asked, truth, widths, seconds)
    return merged(found)


def _is_low(mine: list[Tally]) -> bool:
    """Whether some question was answered too seldom rightly, by more than chance leaves to one cell of 40."""
    return any(wilson(held / asked * runs, runs)[1] < NOMINAL for held, asked, runs in _counts(mine))


def _is_few(mine: list[Tally]) -> bool:
    """Whether the intervals of some question, few as they are, held less often than any should."""
    return any(held / asked < LEAST for held, asked, _ in _counts(mine))


def _counts(mine: list[Tally]) -> list[tuple[int, int, int]]:
    """Of every question that was answered: intervals that held, intervals, runs in which they were given."""
    cells = [[t for t in mine if t.estimand == q.name and t.intervals] for q in WHOLE]
    return [(sum(t.held for t in c), sum(t.intervals for t in c), max(t.intervals for t in c)) for c in cells if c]


def runs_of(case: Case, tallies: list[Tally]) -> int:
    """How often a kind of release was asked its first question, which has one coefficient: an interval or a refusal."""
    return sum(t.runs for t in tallies if t.case == case.key and t.estimand == case.questions[0].name)


def low_kinds(tallies: list[Tally]) -> list[Case]:
    """Kinds of release that were run as often as any, and still have a cell that lies below, or seldom an interval that holds."""
    ended = [(c, [t for t in tallies if t.case == c.key]) for c in cases() if finished(c, tallies) is None]
    return [c for c, mine in ended if _is_low(mine) or _is_few(mine)]


def finished(case: Case, tallies: list[Tally]) -> int | None:
    """How many runs a case has; None where it has enough."""
    mine, runs = [t for t in tallies if t.case == case.key], runs_of(case, tallies)
    if runs >= (MORE_RUNS if _is_low(mine) else RUNS) or (
        runs >= ENOUGH_REFUSALS and all(t.coefficient == REFUSED for t in mine)
    ):
        return None
    return runs
