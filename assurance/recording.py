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

from assurance.definitions import log_ratio, moments, reach
from dipsmith.audit.choice_law import choice_probabilities
from dipsmith.audit.observed import Counted, NoiseLaw, Picked, Shown
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.schema import Codes

Entry = Counted | Picked | Shown | tuple[str, Any]

SLACK = 1e-9
"""For scores and losses that are computed in floating point."""


class Recording:
    """Every answer of a run, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def counted(self, seen: Counted) -> Measurement:
        """Keep a table."""
        self.entries.append(seen)
        return seen.answer

    def picked(self, seen: Picked) -> int:
        """Keep a choice."""
        self.entries.append(seen)
        return seen.winner

    def shown(self, seen: Shown) -> None:
        """Keep a free answer."""
        self.entries.append(seen)

    def random(self, what: str, drawn: Any) -> Any:
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
    """

    recording: Recording
    findings: list[str] = field(default_factory=list)
    loss: float = 0.0
    at: int = 0
    runs: list[float] = field(default_factory=list)
    nesting: bool = False

    def _next(self, what: str) -> Entry | None:
        if self.at >= len(self.recording.entries):
            self.findings.append(f"{what}: asked on one table only")
            return None
        self.at += 1
        return self.recording.entries[self.at - 1]

    def _spend(self, loss: float) -> None:
        if self.nesting:
            self.runs[-1] += loss
        else:
            self.loss += loss

    def counted(self, seen: Counted) -> Measurement:
        """Compare a table with the recorded one and answer as recorded."""
        what = f"counts of {seen.cells.key}"
        before = self._next(what)
        if not isinstance(before, Counted) or before.cells.key != seen.cells.key:
            self.findings.append(f"{what}: another question was asked on the other table")
            return seen.answer
        self._same(what, "block", before.curator.block, seen.curator.block)
        self._same(what, "budget", before.budget, seen.budget)
        self._same(what, "noise", before.laws, seen.laws)
        self._sums(what, before)
        self._sums(what, seen)
        self._spend(self._table_loss(what, before, seen))
        return replace(seen.answer, values=before.answer.values, kept=before.answer.kept)

    def _table_loss(self, what: str, before: Counted, seen: Counted) -> float:
        old, new = before.answer, seen.answer
        for name in ("variance", "mechanism", "noisy", "totals", "single", "threshold"):
            self._same(what, name, getattr(old, name), getattr(new, name))
        if old.kept is None:
            if not np.array_equal(before.at, seen.at):
                self.findings.append(f"{what}: other cells carry noise on the other table")
                return inf
            quiet = np.setdiff1d(np.arange(len(old.values)), before.at)
            if old.single:
                quiet = quiet[~np.isin(quiet + 1, before.at)]
            if not np.array_equal(old.values[quiet], new.values[quiet]):
                self.findings.append(f"{what}: counts that carry no noise differ")
                return inf
            moved = np.abs(before.true - seen.true)
        else:
            moved = _sparse_difference(before, seen)
        if not before.laws:
            return inf if moved.any() else 0.0
        pure = isinstance(before.laws[0], DiscreteLaplace)
        distance = int(moved.sum() if pure else (moved**2).sum())
        allowed = _declared(before) * _moves(before)
        if distance > allowed:
            self.findings.append(f"{what}: true counts differ by {distance:g}, declared {allowed:g}")
        scale = min(_scale(law) for law in before.laws)
        cost = Fraction(distance) / (scale if pure else 2 * scale)
        if pure and old.kept is None:
            at = before.at
            told = abs(
                log_ratio(
                    scale, old.values[at].tolist(), before.true.tolist(), seen.true.tolist(), squared=False
                )
            )
            if told > cost:
                self.findings.append(
                    f"{what}: the answer told {float(told):.4g}, its noise allows {float(cost):.4g}"
                )
        if cost > _moves(before) * before.budget.exact:
            self.findings.append(f"{what}: cost {float(cost):.4g}, charged {float(before.budget.exact):.4g}")
        return float(cost)

    def _sums(self, what: str, seen: Counted) -> None:
        """The noise must be of the scale that its price asks for, and the answer the true count plus it, cell by cell."""
        needed = _declared(seen) / (
            seen.budget.exact if isinstance(seen.budget, PureDP) else 2 * seen.budget.exact
        )
        for law in seen.laws:
            if isinstance(law, DiscreteLaplace) != isinstance(seen.budget, PureDP):
                self.findings.append(f"{what}: noise of the other currency")
            elif _scale(law) < needed:
                self.findings.append(
                    f"{what}: noise was drawn at scale {float(_scale(law)):.4g}, needed {float(needed):.4g}"
                )
        if seen.answer.kept is not None:
            return
        if len(seen.draws) != len(seen.at):
            self.findings.append(f"{what}: {len(seen.at)} noisy counts but {len(seen.draws)} draws")
        elif not np.array_equal(seen.answer.values[seen.at], seen.true + seen.draws):
            self.findings.append(f"{what}: answers are not the counts plus the noise that was drawn")

    def picked(self, seen: Picked) -> int:
        """Compare scores with the recorded ones and answer as recorded."""
        what = f"choice by {seen.score.name}"
        before = self._next(what)
        if not isinstance(before, Picked) or len(before.scores) != len(seen.scores):
            self.findings.append(f"{what}: another question was asked on the other table")
            return seen.winner
        self._same(what, "candidates", list(before.candidates), list(seen.candidates))
        for name in ("sensitivity", "epsilon", "monotone", "law", "budget"):
            self._same(what, name, getattr(before, name), getattr(seen, name))
        moved = seen.scores - before.scores
        size = 1 + max(float(np.abs(seen.scores).max()), float(np.abs(before.scores).max()))
        widest, moves = float(np.abs(moved).max()), _moves(seen)
        if widest > moves * float(seen.sensitivity) + SLACK * size:
            self.findings.append(
                f"{what}: scores differ by {widest:.6g}, declared {float(seen.sensitivity):g}"
            )
        if moves == 1 and seen.monotone and moved.min() < -SLACK * size and moved.max() > SLACK * size:
            self.findings.append(f"{what}: declared monotone, but scores move both ways")
        if not _priced(seen):
            self.findings.append(f"{what}: ε = {float(seen.epsilon):.6g} is more than was charged")
        ratios = _log_ratios(before, seen)
        charged = moves * float(seen.budget.exact)
        if seen.law == "permute-and-flip":
            cost = max(abs(r) for r in ratios)
        else:
            cost = (max(ratios) - min(ratios)) ** 2 / 8
        if cost > charged + SLACK:
            self.findings.append(f"{what}: cost {cost:.4g}, charged {charged:.4g}")
        self._spend(cost)
        return before.winner

    def shown(self, seen: Shown) -> None:
        """A free answer must be the recorded one."""
        before = self._next(seen.what)
        if not isinstance(before, Shown) or before.what != seen.what:
            self.findings.append(f"{seen.what}: another question was asked on the other table")
        elif not same(before.answer, seen.answer):
            self.findings.append(f"{seen.what}: free, and different on the other table")

    def random(self, what: str, drawn: Any) -> Any:
        """Answer as recorded: it reads no rows, so that both tables may be given the same."""
        before = self._next(what)
        if not isinstance(before, tuple) or before[0] != what:
            self.findings.append(f"{what}: drawn on one table only")
            return drawn
        if what == "run":
            self.nesting = True
            self.runs.append(0.0)
        if what == "order" and len(before[1]) != len(drawn):
            self.findings.append("order: another number of rows on the other table")
            return drawn
        return before[1]

    def _same(self, what: str, part: str, before: Any, now: Any) -> None:
        if not same(before, now):
            self.findings.append(f"{what}: another {part} on the other table")

    def close(self, budget: Budget, price: float | None = None) -> None:
        """Check that nothing is left of the recording and that the whole did not cost more than the budget.

        `price` is what the dearest of several runs is multiplied by: 2 + η (private selection).
        """
        if self.at < len(self.recording.entries):
            self.findings.append(
                f"{len(self.recording.entries) - self.at} answers were asked on one table only"
            )
        if self.runs:
            self.loss += (1.0 if price is None else price) * max(self.runs)
        if self.loss > float(budget.exact) + SLACK:
            self.findings.append(
                f"the transcript cost {self.loss:.6g}, the budget was {float(budget.exact):g}"
            )


def noise_score(recording: Recording) -> tuple[float, float]:
    """Sums over all draws of (x²/variance − 1), and of its variance: how far the noise is from its law.

    Tables drawn with a variance below one are left out: their sums are far from normal.
    """
    total = spread = 0.0
    for entry in recording.entries:
        if not isinstance(entry, Counted) or len({*entry.laws}) != 1:
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


def _declared(seen: Counted) -> Fraction:
    """Δ₁, or Δ₂² under ρ: what the charge supposes that a unit moves, by trying every row."""
    curator = seen.curator
    unit = curator.schema.unit
    noisy = None if seen.answer.kept is not None else seen.at
    most = reach(seen.cells, curator.relation, rows_vary=unit.column is not None, noisy=noisy)
    return Fraction(most * (unit.max_rows if isinstance(seen.budget, PureDP) else unit.max_rows**2))


def _scale(law: NoiseLaw) -> Fraction:
    return law.scale if isinstance(law, DiscreteLaplace) else law.sigma2


def _priced(seen: Picked) -> bool:
    """Whether the ε of a choice costs at most its charge: ε, or ε²/8 under ρ; half of it where a unit may move twice."""
    if isinstance(seen.budget, PureDP):
        return seen.law == "permute-and-flip" and seen.epsilon <= seen.budget.exact
    charged = seen.budget.exact / (2 if seen.curator.moving else 1)
    return seen.law == "exponential" and seen.epsilon**2 / 8 <= charged


def _moves(seen: Counted | Picked) -> int:
    """How often a unit may move within what was asked: twice in a block that it may leave and enter."""
    return 2 if seen.curator.moving else 1


def _sparse_difference(a: Counted, b: Counted) -> np.ndarray[Any, np.dtype[np.int64]]:
    cells = np.union1d(a.at, b.at)
    difference = np.zeros(len(cells), dtype=np.int64)
    difference[np.searchsorted(cells, a.at)] += a.true
    difference[np.searchsorted(cells, b.at)] -= b.true
    return np.abs(difference)


def _log_ratios(before: Picked, seen: Picked) -> list[float]:
    if np.array_equal(before.scores, seen.scores):
        return [0.0]
    one, other = (
        choice_probabilities(
            s.scores.tolist(), s.sensitivity, s.epsilon, monotone=s.monotone, law=s.law, digits=30
        )
        for s in (before, seen)
    )
    return [
        float(p.ln() - q.ln()) if p > 0 and q > 0 else (0.0 if p == q else log(1e300))
        for p, q in zip(one, other, strict=True)
    ]
