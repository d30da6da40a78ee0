"""Record and replay: whether anything but the paid answers depends on one unit.

A run on one table is recorded (`Recording`). The same run on a neighbouring table is then given the recorded
answers instead of its own (`Replay`): what a method asks, and everything after, must be the same to the last
bit, and the true numbers behind each answer may differ by the declared sensitivity at most.

The replay also adds up what the answers really cost for this pair of tables. Given the same earlier answers, the
log-ratio of an answer's probabilities is at most Σ|c − c′|/scale for discrete Laplace noise, and known exactly for a
choice; the sum over all answers bounds the privacy loss of the whole transcript
(sequential composition), whatever the accountant believes about it. For ρ the same holds with Σ(c − c′)²/(2σ²), and an
eighth of the squared range of a choice's log-ratios (Cesar and Rogers 2021). The sum must not exceed the budget.

How far a unit reaches, how much noise that needs and how likely a choice is are computed from the definitions
(`assurance.definitions`, `dipsmith.audit.choice_law`), never by the formulas that the curator draws and charges by.

In a block that a unit may leave and enter, and so change within, an answer is charged as one move and may cost two; the
block holds half of what the blocks cost together (`dipsmith.privacy.neighbours.blocks_rule`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assurance.definitions import log_ratio, moments, reach
from dipsmith.audit.choice_law import choice_probabilities
from dipsmith.audit.observation import Choice, NoiseLaw, ObservedTable
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.observer import ChoiceFact, PublicAnswer
from dipsmith.schema import Bins, Cells, Codes, WeightedSums, WeightTotals
from dipsmith.schema.growth import GrowthSums

Entry = ObservedTable | Choice | PublicAnswer | tuple[str, Any]

GROWTH = {"add-remove": (65_536, 131_072), "replace": (65_536, 262_144)}
"""How far one unit moves the two sums of growth: it adds 0 to 2¹⁶ to the one and −2¹⁷ to 2¹⁷ to the other. To the sum of its
spread it adds what it adds to the first."""

SLACK = 1e-9
"""For scores and losses that are computed in floating point."""


class Recording:
    """Every answer of a run, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def on_table(self, seen: ObservedTable) -> Measurement:
        """Keep a table."""
        self.entries.append(seen)
        return seen.fact.answer

    def on_choice(self, seen: Choice) -> int:
        """Keep a choice."""
        self.entries.append(seen)
        return seen.fact.winner

    def on_public_answer(self, seen: PublicAnswer) -> None:
        """Keep a free answer."""
        self.entries.append(seen)

    def on_randomness(self, what: str, drawn: Any) -> Any:
        """Keep what was drawn."""
        self.entries.append((what, drawn))
        return drawn


@dataclass
class Replay:
    """A run that is given recorded answers, and what was found to differ.

    Attributes
    ----------
    recording
        The run on the neighbouring table.
    findings
        What depends on the unit without having been paid for; empty when all is well.
    loss
        The most that the transcript tells about which of the two tables it came from, in the run's currency.
    runs
        The same for each run of a private selection, of which one is released.
    """

    recording: Recording
    findings: list[str] = field(default_factory=list)
    loss: float = 0.0
    runs: list[float] = field(default_factory=list)
    position: int = 0

    def on_table(self, seen: ObservedTable) -> Measurement:
        """Compare a table with the recorded one and answer as recorded."""
        what = f"counts of {seen.fact.cells.key}"
        before = self._next(what)
        if not isinstance(before, ObservedTable) or before.fact.cells.key != seen.fact.cells.key:
            self._find(what, "another question was asked on the other table")
            return seen.fact.answer
        self._same(what, "block", before.fact.curator.block, seen.fact.curator.block)
        self._same(what, "budget", before.fact.budget, seen.fact.budget)
        self._same(what, "noise", before.laws, seen.laws)
        self._check_noise(what, before)
        self._check_noise(what, seen)
        self._spend(self._table_loss(what, before, seen))
        old = before.fact.answer
        return replace(seen.fact.answer, values=old.values, kept=old.kept)

    def _check_noise(self, what: str, seen: ObservedTable) -> None:
        """The noise must be of the scale that its price asks for, and each answer the true count plus it."""
        budget, answer = seen.fact.budget, seen.fact.answer
        pure = isinstance(budget, PureDP)
        needed = _declared(seen) / (budget.exact if pure else 2 * budget.exact)
        for law in seen.laws:
            if isinstance(law, DiscreteLaplace) != pure:
                self._find(what, "noise of the other currency")
            elif _scale(law) < needed:
                self._find(what, f"noise was drawn at scale {float(_scale(law)):.4g}, needed {float(needed):.4g}")
        if answer.kept is not None:
            return
        if len(seen.draws) != len(seen.at):
            self._find(what, f"{len(seen.at)} noisy counts but {len(seen.draws)} draws")
        elif not np.array_equal(answer.values[seen.at], seen.true + seen.draws):
            self._find(what, "answers are not the counts plus the noise that was drawn")

    def _table_loss(self, what: str, before: ObservedTable, seen: ObservedTable) -> float:
        """What a table told of which of the two it came from, at most."""
        old, new = before.fact.answer, seen.fact.answer
        for name in ("variance", "mechanism", "noisy", "totals", "single", "threshold"):
            self._same(what, name, getattr(old, name), getattr(new, name))
        if old.kept is not None:
            moved = _sparse_difference(before, seen)
        elif not np.array_equal(before.at, seen.at):
            self._find(what, "other cells carry noise on the other table")
            return inf
        else:
            quiet = np.setdiff1d(np.arange(len(old.values)), before.at)
            if old.single:
                quiet = quiet[~np.isin(quiet + 1, before.at)]
            if not np.array_equal(old.values[quiet], new.values[quiet]):
                self._find(what, "counts that carry no noise differ")
                return inf
            moved = np.abs(before.true - seen.true)
        if not before.laws:
            return inf if moved.any() else 0.0
        pure = isinstance(before.laws[0], DiscreteLaplace)
        distance = int(moved.sum() if pure else (moved**2).sum())
        moves = _moves(before.fact.curator)
        allowed, charged = _declared(before) * moves, before.fact.budget.exact
        if distance > allowed:
            self._find(what, f"true counts differ by {distance:g}, declared {float(allowed):g}")
        scale = min(_scale(law) for law in before.laws)
        cost = Fraction(distance) / (scale if pure else 2 * scale)
        if pure and old.kept is None:
            answers = old.values[before.at].tolist()
            told = abs(log_ratio(scale, answers, before.true.tolist(), seen.true.tolist(), squared=False))
            if told > cost:
                self._find(what, f"the answer told {float(told):.4g}, its noise allows {float(cost):.4g}")
        if cost > moves * charged:
            self._find(what, f"cost {float(cost):.4g}, charged {float(charged):.4g}")
        return float(cost)

    def on_choice(self, seen: Choice) -> int:
        """Compare scores with the recorded ones and answer as recorded."""
        asked, new = seen.question, seen.fact
        assert asked.score is not None
        assert asked.budget is not None
        assert asked.curator is not None
        what, moves = f"choice by {asked.score.name}", _moves(asked.curator)
        before = self._next(what)
        if not isinstance(before, Choice) or len(before.fact.scores) != len(new.scores):
            self._find(what, "another question was asked on the other table")
            return new.winner
        old = before.fact
        self._same(what, "candidates", before.question.candidates, asked.candidates)
        self._same(what, "budget", before.question.budget, asked.budget)
        for name in ("sensitivity", "epsilon", "monotone", "law"):
            self._same(what, name, getattr(old, name), getattr(new, name))
        moved = new.scores - old.scores
        size = 1 + max(float(np.abs(new.scores).max()), float(np.abs(old.scores).max()))
        widest = float(np.abs(moved).max())
        if widest > moves * float(new.sensitivity) + SLACK * size:
            self._find(what, f"scores differ by {widest:.6g}, declared {float(new.sensitivity):g}")
        if moves == 1 and new.monotone and moved.min() < -SLACK * size and moved.max() > SLACK * size:
            self._find(what, "declared monotone, but scores move both ways")
        if not _priced(new, asked.budget, moves):
            self._find(what, f"ε = {float(new.epsilon):.6g} is more than was charged")
        ratios = _log_ratios(old, new)
        pure = new.law == "permute-and-flip"
        cost = max(abs(r) for r in ratios) if pure else (max(ratios) - min(ratios)) ** 2 / 8
        if cost > (charged := moves * float(asked.budget.exact)) + SLACK:
            self._find(what, f"cost {cost:.4g}, charged {charged:.4g}")
        self._spend(cost)
        return old.winner

    def on_public_answer(self, seen: PublicAnswer) -> None:
        """A free answer must be the recorded one."""
        before = self._next(seen.what)
        if not isinstance(before, PublicAnswer) or before.what != seen.what:
            self._find(seen.what, "another question was asked on the other table")
        elif not same(before.answer, seen.answer):
            self._find(seen.what, "free, and different on the other table")

    def on_randomness(self, what: str, drawn: Any) -> Any:
        """Answer as recorded: it reads no rows, so that both tables may be given the same."""
        before = self._next(what)
        if not isinstance(before, tuple) or before[0] != what:
            self._find(what, "drawn on one table only")
            return drawn
        if what == "run":
            self.runs.append(0.0)
        if what == "order" and len(before[1]) != len(drawn):
            self._find(what, "another number of rows on the other table")
            return drawn
        return before[1]

    def close(self, budget: Budget, price: float | None = None) -> None:
        """Check that nothing is left of the recording and that the whole did not cost more than the budget.

        `price` is what the dearest of several runs is multiplied by: 2 + η (private selection).
        """
        if left := len(self.recording.entries) - self.position:
            self.findings.append(f"{left} answers were asked on one table only")
        if self.runs:
            self.loss += (1.0 if price is None else price) * max(self.runs)
        if self.loss > float(budget.exact) + SLACK:
            self.findings.append(f"the transcript cost {self.loss:.6g}, the budget was {float(budget.exact):g}")

    def _next(self, what: str) -> Entry | None:
        if self.position >= len(self.recording.entries):
            self._find(what, "asked on one table only")
            return None
        self.position += 1
        return self.recording.entries[self.position - 1]

    def _spend(self, loss: float) -> None:
        if self.runs:
            self.runs[-1] += loss
        else:
            self.loss += loss

    def _find(self, what: str, text: str) -> None:
        self.findings.append(f"{what}: {text}")

    def _same(self, what: str, part: str, before: Any, now: Any) -> None:
        if not same(before, now):
            self._find(what, f"another {part} on the other table")


def noise_score(recording: Recording) -> tuple[float, float]:
    """Sums over all draws of (x²/variance − 1), and of its variance: how far the noise is from its law.

    Tables drawn with a variance below one are left out: their sums are far from normal.
    """
    total = spread = 0.0
    for entry in recording.entries:
        if not isinstance(entry, ObservedTable) or len({*entry.laws}) != 1:
            continue
        scale, gaussian = _scale(entry.laws[0]), not isinstance(entry.laws[0], DiscreteLaplace)
        variance, fourth = moments(scale, squared=gaussian)
        if variance < 1:
            continue
        total += float((entry.draws.astype(np.float64) ** 2 / variance - 1).sum())
        spread += (fourth / variance**2 - 1) * len(entry.draws)
    return total, sqrt(spread)


def same(a: Any, b: Any) -> bool:
    """Whether two answers are the same to the last bit."""
    if isinstance(a, Codes) and isinstance(b, Codes):
        return a.names == b.names and all(np.array_equal(a[n], b[n]) for n in a.names)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(type(a) is type(b) and a == b)


def _declared(seen: ObservedTable) -> Fraction:
    """Δ₁, or Δ₂² under ρ: what the charge supposes that a unit moves, by trying every row."""
    curator = seen.fact.curator
    unit = curator.schema.unit
    if isinstance(seen.fact.cells, GrowthSums):
        moved = GROWTH[curator.relation][: seen.fact.cells.size]
        return Fraction(sum(moved) if isinstance(seen.fact.budget, PureDP) else sum(m * m for m in moved))
    noisy = None if seen.fact.answer.kept is not None else seen.at
    most = reach(seen.fact.cells, curator.relation, rows_vary=unit.column is not None, noisy=noisy)
    # A row adds its weight where it would add 1.
    cells = seen.fact.cells
    whose = cells.schema.unit if isinstance(cells, WeightTotals) else unit  # members' weights: of all that count
    heaviest = (1 if whose.protects == "person" else whose.max_rows) * _heaviest(cells)
    return Fraction(most * (heaviest if isinstance(seen.fact.budget, PureDP) else heaviest**2))


def _heaviest(cells: Cells) -> int:
    """The most that one row adds to one number, in its whole steps; found anew, by the schema."""
    if isinstance(cells, WeightedSums):
        return max(map(abs, cells.values))
    if isinstance(cells, WeightTotals):
        domain = cells.schema[cells.weight].domain
        assert isinstance(domain, Bins)
        return round(domain.maximum / cells.step)
    return 1


def _scale(law: NoiseLaw) -> Fraction:
    return law.scale if isinstance(law, DiscreteLaplace) else law.sigma2


def _moves(curator: Curator) -> int:
    """How often a unit may move within what was asked: twice in a block that it may leave and enter."""
    return 2 if curator.moving else 1


def _priced(fact: ChoiceFact, budget: Budget, moves: int) -> bool:
    """Whether the ε of a choice costs at most its charge: ε, or ε²/8 under ρ; half of it where a unit may move twice."""
    if isinstance(budget, PureDP):
        return fact.law == "permute-and-flip" and fact.epsilon <= budget.exact
    return fact.law == "exponential" and fact.epsilon**2 / 8 <= budget.exact / moves


def _sparse_difference(a: ObservedTable, b: ObservedTable) -> NDArray[np.int64]:
    cells = np.union1d(a.at, b.at)
    difference = np.zeros(len(cells), dtype=np.int64)
    difference[np.searchsorted(cells, a.at)] += a.true
    difference[np.searchsorted(cells, b.at)] -= b.true
    return np.abs(difference)


def _log_ratios(before: ChoiceFact, now: ChoiceFact) -> list[float]:
    if np.array_equal(before.scores, now.scores):
        return [0.0]
    one, other = (
        choice_probabilities(s.scores.tolist(), s.sensitivity, s.epsilon, monotone=s.monotone, law=s.law, digits=30)
        for s in (before, now)
    )
    return [
        float(p.ln() - q.ln()) if p > 0 and q > 0 else (0.0 if p == q else log(1e300))
        for p, q in zip(one, other, strict=True)
    ]
