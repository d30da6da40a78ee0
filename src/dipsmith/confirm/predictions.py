"""Claims about a model that was fitted on the release: how well it predicts the confidential rows.

The model comes with the question and is public; every row has a class by it, and noisy counts of the classes are all that is
measured (`dipsmith.privacy.value_question`). *Accuracy*: rows within a tolerance of their prediction, or not. *Residuals*: a
grid of fitted values by residuals. *ROC*: bins of the score by outcome; the area follows from the counts, its error from the
known law of the noise. What is said is about the table itself, not about people beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import numpy as np
import scipy

from dipsmith.arrays import Floats, Ints
from dipsmith.confirm.answer import MeasuredClaim
from dipsmith.confirm.claim import Accuracy, Claim, Residuals, Roc, in_words
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.verdict import LEVEL, upper_tail, verdict_of
from dipsmith.counting.values import ValueReading, Values
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.schema.formula.words import abridge

MOST_CLASSES: Final = 2000


@dataclass(frozen=True, eq=False)
class Predictor:
    """A public model, and the classes that a claim is about."""

    design: VoteDesign
    claim: Claim
    coefficients: Floats
    first: Floats
    second: Floats

    @classmethod
    def of(cls, question: Inquiry, design: VoteDesign) -> Predictor:
        """The model of a question; refuses what it cannot predict by."""
        if design.formula.fixed:
            raise UnsupportedError(
                "a model that predicts has no fixed effects behind a bar; write them as terms: C(column)"
            )
        model, edges = dict(question.model), dict(question.edges)
        for name in model:
            if name not in design.names:
                raise UsageError(f"model names '{abridge(name)}', which is no coefficient of the formula")
        wanted = {Residuals: ("fitted", "residual"), Roc: ("score",)}.get(type(question.parsed_claim), ())
        if set(edges) != set(wanted):
            raise UsageError(f"edges: expected {' and '.join(wanted) or 'none'} for claim '{abridge(question.claim)}'")
        if isinstance(question.parsed_claim, Roc) and design.family != "logistic":
            raise UsageError("claim 'roc' needs an outcome of two levels: family logistic")
        lists = [np.array(edges[name]) for name in wanted] + [np.zeros(0)] * (2 - len(wanted))
        for values in lists:
            if len(values) > 1 and not (np.diff(values) > 0).all():
                raise UsageError("edges must increase from one to the next")
        made = cls(
            design, question.parsed_claim, np.array([model.get(n, 0.0) for n in design.names]), lists[0], lists[1]
        )
        if made.size > MOST_CLASSES:
            raise UsageError(
                f"{made.size:,} classes are asked for, at most {MOST_CLASSES:,} are counted; use fewer edges"
            )
        return made

    @property
    def name(self) -> str:
        """What is counted, for the ledger."""
        name = f"{self.claim} of a model, {self.design.formula.text}"
        return name if name.isprintable() and len(name) <= 900 else "classes of a model's predictions"

    @property
    def reading(self) -> ValueReading:
        """The columns that it reads."""
        return self.design.reading

    @property
    def size(self) -> int:
        """The number of classes."""
        if isinstance(self.claim, Residuals):
            return (len(self.first) + 1) * (len(self.second) + 1)
        return 2 if isinstance(self.claim, Accuracy) else 2 * (len(self.first) + 1)

    def __call__(self, rows: Values) -> Ints:
        """The class of each row; −1 where the response or the prediction is missing."""
        y, X, known = self.design.matrix(rows)
        # Column by column: a product of matrices rounds a row's sum by its place among others, so that one row more or
        # less could move any number of rows that lie on an edge.
        fitted = np.zeros(rows.rows)
        for column_of, coefficient in zip(X.T, self.coefficients, strict=True):
            fitted = fitted + column_of * coefficient
        fitted = scipy.special.expit(fitted) if self.design.family == "logistic" else fitted
        known = known & np.isfinite(y) & np.isfinite(fitted)
        y, fitted = np.where(known, y, 0.0), np.where(known, fitted, 0.0)
        if isinstance(self.claim, Accuracy):
            found = (np.abs(y - fitted) <= self.claim.within).astype(np.int64)
        elif isinstance(self.claim, Residuals):
            found = np.searchsorted(self.first, fitted) * (len(self.second) + 1) + np.searchsorted(
                self.second, y - fitted
            )
        else:
            known = known & ((y == 0) | (y == 1))
            found = np.searchsorted(self.first, fitted) * 2 + (y == 1)
        return np.asarray(np.where(known, found, -1), np.int64)


def judge_predictions(claim: Claim, predictor: Predictor, counts: Ints, law: NoiseLaw) -> MeasuredClaim:
    """Judge noisy counts: post-processing."""
    if isinstance(claim, Accuracy):
        return _accuracy(claim, counts, law)
    edges = {"first edges": predictor.first.tolist(), "second edges": predictor.second.tolist()}
    if isinstance(claim, Roc):
        return _area(claim, counts.reshape(-1, 2), law, edges)
    text = f"Shown: {in_words(claim)}, as noisy counts of {predictor.size} cells; each is off by {sqrt(law.variance):.2g} or so."
    return MeasuredClaim("shown", text, "rows in each cell", details=edges)


def _accuracy(claim: Accuracy, counts: Ints, law: NoiseLaw) -> MeasuredClaim:
    outside, inside = (int(v) for v in counts)
    share = inside / max(1, inside + outside)
    sure = share_exceeds(claim.share, inside, outside, law)
    low, high = (_share_at(q, inside, outside, law) for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    share = min(1.0, max(0.0, share))
    text = _sentence(claim, sure, f"{share:.3g} of the rows lie so near, 95 % interval {low:.3g} to {high:.3g}")
    return MeasuredClaim(verdict_of(sure), text, "share within the tolerance", share, (low, high), sure)


def share_exceeds(share: float, inside: int, outside: int, law: NoiseLaw) -> float:
    """The probability, given two noisy counts, that more than a share of the rows is inside: by the law of the noise alone.

    The weighted difference (1 − γ)·inside − γ·outside of the exact counts is above 0 exactly then.
    """
    reach = int(30 * sqrt(law.variance)) + 30
    step = max(1, reach // 20_000)
    z = np.arange(-reach, reach + 1, step)
    weights = law.pmf(z)
    told = (1 - share) * inside - share * outside
    # P((1 − γ)·Z₁ − γ·Z₂ < told), summed over Z₂.
    bound = np.ceil((told + share * z) / (1 - share)).astype(np.int64)
    return float(min(1.0, (weights / weights.sum()) @ (1 - upper_tail(law, bound))))


def _share_at(q: float, inside: int, outside: int, law: NoiseLaw) -> float:
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if share_exceeds(middle, inside, outside, law) > q else (low, middle)
    return (low + high) / 2


def _area(claim: Roc, counts: Ints, law: NoiseLaw, edges: dict[str, Any]) -> MeasuredClaim:
    area, error = area_under(counts, law)
    negative, positive = np.maximum(counts, 0).T.astype(np.float64)
    curve = roc_curve(negative, positive)
    details = {**edges, "false positive rate": curve[0].tolist(), "true positive rate": curve[1].tolist()}
    if not np.isfinite(area):
        text = "Cannot tell: noise hides how many rows have each outcome."
        return MeasuredClaim("cannot tell", text, "area under the curve", None, None, 0.5, details)
    interval = (max(0.0, area - 1.96 * error), min(1.0, area + 1.96 * error))
    found = f"the area is {area:.3g}, 95 % interval {interval[0]:.3g} to {interval[1]:.3g}"
    if claim.area is None:
        text = f"Shown: {in_words(claim)}; {found}."
        return MeasuredClaim("shown", text, "area under the curve", area, interval, None, details)
    sure = float(scipy.special.ndtr((area - claim.area) / max(error, 1e-12)))
    text = _sentence(claim, sure, found)
    return MeasuredClaim(verdict_of(sure), text, "area under the curve", area, interval, sure, details)


def area_under(counts: Ints, law: NoiseLaw) -> tuple[float, float]:
    """The area under the ROC curve from counts (score bins × outcome), and its error by the noise, to first order."""
    negative, positive = counts[:, 0].astype(np.float64), counts[:, 1].astype(np.float64)
    n, p = negative.sum(), positive.sum()
    if min(n, p) <= 3 * sqrt(law.variance * len(counts)):
        return float("nan"), float("nan")
    below = np.cumsum(negative) - negative / 2
    above = p - np.cumsum(positive) + positive / 2
    area = float(positive @ below) / (n * p)
    by_positive, by_negative = below / (n * p) - area / p, above / (n * p) - area / n
    return min(1.0, max(0.0, area)), sqrt(law.variance * float(by_positive @ by_positive + by_negative @ by_negative))


def roc_curve(negative: Floats, positive: Floats) -> tuple[Floats, Floats]:
    """The curve that is nearest in likelihood among those that bend one way: shares of positives made to grow by score."""
    merged: list[list[float]] = []
    for n, p in zip(negative, positive, strict=True):
        merged.append([float(n), float(p)])
        while len(merged) > 1 and merged[-2][1] * sum(merged[-1]) >= merged[-1][1] * sum(merged[-2]):
            last = merged.pop()
            merged[-1] = [merged[-1][0] + last[0], merged[-1][1] + last[1]]
    down = np.array(merged[::-1])
    total = np.maximum(down.sum(axis=0), 1e-12)
    steps = np.vstack([[0.0, 0.0], np.cumsum(down, axis=0) / total])
    return steps[:, 0], steps[:, 1]


def _sentence(claim: Claim, sure: float, found: str) -> str:
    verdict = verdict_of(sure)
    start = "Cannot tell at this price whether" if verdict == "cannot tell" else f"{verdict.capitalize()}:"
    return f"{start} {in_words(claim)}; {found}."
