"""Attackers who know everything but one unit, and guess which of two worlds a run was made from.

*White box*: sees every noisy table and choice, and knows the program. By the Neyman–Pearson lemma no attacker does
better than the likelihood ratio, and here it can be computed: the noise laws are known, and so are both tables.

*Black box*: sees synthetic rows alone. Counts the cells of the full table and learns, from training runs of both
worlds, the linear combination that tells them apart best (Fisher 1936).

*Optimal*: what the likelihood ratio would reach if every answer told as much as its price allows. A table is moved by its
whole sensitivity; a choice is randomised response at its ε, the most telling ε-DP mechanism there is (Kairouz, Oh and Viswanath
2015). It is the optimum over all attackers and all pairs of worlds for the answers that a run was given, with the noise that
each was given, and the answers together are charged the whole claimed budget (`Finding.spent`). A
white-box attacker that reaches nearly as much shows that the audit is not loose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import exp
from typing import Any

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.audit.choice_law import choice_probabilities
from dipsmith.audit.observation import Auditor, Choice, NoiseLaw, ObservedTable
from dipsmith.audit.worlds import TwinRows
from dipsmith.errors import UnsupportedError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes, Marginal

Price = tuple[str, NoiseLaw | float, int]
"""What an answer cost: "counts", its noise and how many counts a unit moves by one; or "choice", its ε and 1."""

AnswerLaw = tuple[NoiseLaw, Ints] | tuple[list[Decimal], list[Decimal]]
"""What the attacker knows of an answer before it comes: the noise and by how much each count differs between the
worlds, or the probabilities of all candidates in both."""


class BudgetSpent(BaseException):
    """Every unit of a run's budget has been answered for: whatever the run still does tells nothing more."""


@dataclass
class Transcript(Auditor):
    """Listens to one run and adds up the log-likelihood ratio of its answers, the second world over the first.

    Free answers are the same in both worlds (record and replay sees to that), and coins tell nothing.

    `prices` are what each answer cost, for the optimal attacker; `laws` what the attacker knows of each before it comes.
    After `until` units of budget the run is stopped by `BudgetSpent`, since the curator would refuse another answer;
    only for runs without blocks and repetitions, which share one budget. None lets it go on.
    """

    ratio: float = 0.0
    prices: list[Price] = field(default_factory=list)
    laws: list[AnswerLaw] = field(default_factory=list)
    until: int | None = None
    spent: int = 0

    def on_table(self, seen: ObservedTable) -> Measurement:
        """A table: the ratio of the noise's probabilities at the two differences."""
        fact, answer = seen.fact, seen.fact.answer
        assert isinstance(fact.rows, TwinRows)
        if answer.kept is not None:
            raise UnsupportedError("tables held block by block are not attacked here; use smaller worlds")
        first, second = (counts[seen.at] for counts in fact.rows.both(fact.cells))
        if seen.laws:
            law, values, differs = seen.laws[0], answer.values[seen.at], second - first
            self.ratio += float(log_ratio(law, values - first, values - second))
            moved = 1 if fact.curator.relation == "add-remove" or answer.single else 2
            self.prices.append(("counts", law, moved))
            self.laws.append((law, differs[differs != 0]))
        self._pay(fact.budget)
        return answer

    def on_choice(self, seen: Choice) -> int:
        """A choice: the ratio of the winner's probabilities."""
        asked, fact = seen.question, seen.fact
        assert isinstance(asked.rows, TwinRows)
        assert asked.score is not None
        assert asked.budget is not None
        both = [[asked.rows.both(table) for table in asked.score.tables(c)] for c in asked.candidates]
        first, second = (
            choice_probabilities(
                [
                    asked.score.value(c, [pair[world] for pair in tables])
                    for c, tables in zip(asked.candidates, both, strict=True)
                ],
                fact.sensitivity,
                fact.epsilon,
                monotone=fact.monotone,
                law=fact.law,
                digits=20,
            )
            for world in (0, 1)
        )
        self.ratio += float(second[fact.winner].ln() - first[fact.winner].ln())
        if len(asked.candidates) > 1:
            self.prices.append(("choice", float(fact.epsilon), 1))
            self.laws.append((first, second))
        self._pay(asked.budget)
        return fact.winner

    def _pay(self, budget: Budget) -> None:
        self.spent += budget.units
        if self.until is not None and self.spent >= self.until:
            raise BudgetSpent


def log_ratio(law: NoiseLaw, one: Ints, other: Ints) -> Any:
    """How much likelier the second noise is than the first, in logarithms, added up over the last axis.

    >>> from fractions import Fraction
    >>> float(log_ratio(DiscreteLaplace(Fraction(1, 2)), np.array([5]), np.array([4])))
    2.0
    """
    if isinstance(law, DiscreteLaplace):
        return (np.abs(one) - np.abs(other)).sum(axis=-1) / float(law.scale)
    return (one.astype(np.float64) ** 2 - other.astype(np.float64) ** 2).sum(axis=-1) / float(2 * law.sigma2)


def optimal_ratios(runs: Sequence[Sequence[Price]], world: int, stream: Stream) -> Floats:
    """The log-likelihood ratios of an optimal attacker in one of the worlds (0 or 1), one for each run's prices."""
    ratios = np.zeros(len(runs))
    # Grouped by identity: hashing exact fractions takes longer than everything else here.
    places: dict[int, list[int]] = {}
    for i, prices in enumerate(runs):
        places.setdefault(id(prices), []).append(i)
    for where in places.values():
        n = len(where)
        for (_, law, moved), often in Counter(runs[where[0]]).items():
            if isinstance(law, float):
                right = stream.integers(1 << 53, n * often).reshape(n, often) < (1 << 53) / (1 + exp(-law))
                signs = np.where(right, 1.0, -1.0) * (1 if world else -1)
                ratios[where] += (signs * law).sum(axis=1)
            else:
                # Every count is moved by one: it is 0 in the first world and 1 in the second.
                noise = law.sample(stream, (n, often * moved)) + world
                ratios[where] += log_ratio(law, noise, noise - 1)
    return ratios


def expected_ratios(runs: Sequence[Sequence[AnswerLaw]], each: int, world: int, stream: Stream) -> Floats:
    """The log-likelihood ratios that the attacker itself expects in one of the worlds, `each` for every run.

    By these it chooses its threshold: a choice that hardly tells the worlds apart moves ratios less than its price
    would allow.
    """
    ratios = np.zeros((len(runs), each))
    for i, laws in enumerate(runs):
        for law in laws:
            if isinstance(law[0], list):
                ratios[i] += _chosen_ratios(*law, each, world, stream)
            else:
                noise, differs = law
                drawn = noise.sample(stream, (each, len(differs))) + world * differs
                ratios[i] += log_ratio(noise, drawn, drawn - differs)
    return ratios.ravel()


def _chosen_ratios(first: list[Decimal], second: list[Decimal], n: int, world: int, stream: Stream) -> Floats:
    bounds = np.cumsum([float(p) for p in (first, second)[world]])
    uniform = stream.integers(1 << 53, n) / (1 << 53)
    drawn = np.minimum(np.searchsorted(bounds, uniform, side="right"), len(bounds) - 1)
    ratios = {int(c): float(second[c].ln() - first[c].ln()) for c in np.unique(drawn)}
    return np.array([ratios[int(c)] for c in drawn])


def cell_counts(rows: Codes) -> Floats:
    """What the black-box attacker looks at: how many synthetic rows lie in each cell of the full table."""
    table = Marginal.of(rows.schema, rows.schema.names)
    return np.bincount(table.index(rows), minlength=table.size).astype(np.float64)


def linear_scores(
    first: Floats, second: Floats, training: tuple[int, int], ridge: float = 1e-3
) -> tuple[Floats, Floats]:
    """Fisher's linear discriminant, learned from the first runs of both worlds and applied to all of them."""
    one, other = first[: training[0]], second[: training[1]]
    spread = (np.cov(one.T) + np.cov(other.T)) / 2
    scale = ridge * max(float(np.trace(spread)) / len(spread), 1e-9)
    weights = np.linalg.solve(spread + scale * np.eye(len(spread)), other.mean(axis=0) - one.mean(axis=0))
    return first @ weights, second @ weights
