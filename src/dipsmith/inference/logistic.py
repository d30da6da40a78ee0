"""Logistic regression: by maximum likelihood, with Firth's penalty, or with a ridge.

One Newton's method (`climb`) on counted rows fits all three, and the regressions on codes of
`dipsmith.utility.logistic` as well. *Maximum likelihood* does not exist under separation and is refused then; the
tests hold it to statsmodels, which takes sixty times as long over a million rows with fixed effects. *Firth's
penalty* (Firth 1993; for separation Heinze and Schemper 2002) maximises ℓ(b) + ½ log det I(b), Jeffreys' prior:
always finite, and less biased in small samples. Solved by Fisher scoring on the modified score
Xᵀ(s − t·p + h(½ − p)), with h the leverages, steps halved until the penalised likelihood rises. *Ridge* maximises
ℓ(b) − λ/2 Σb², intercept and fixed effects free; its covariance is that of the posterior mode. Columns that are not
0/1 count in units of two standard deviations (Gelman 2008), so that one λ is fair to all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from dipsmith.errors import UsageError
from dipsmith.inference.binomial_rows import BinomialRows, count_rows, is_separated
from dipsmith.inference.estimates import Estimates, Float
from dipsmith.inference.least_squares import penalty_units, place_estimates, sandwich
from dipsmith.inference.model_frame import ModelFrame

STEPS = 200
HALVINGS = 30
LONGEST = 5.0
SMALL = 1e-13
"""A step that promises less than this, in squared standard errors, is the last one."""

FAR = 15.0
"""Log-odds beyond this are looked at for separation."""


class Regressors(Protocol):
    """The columns X of a regression, as numbers or as codes."""

    @property
    def width(self) -> int:
        """Number of columns."""

    def times(self, b: Float) -> Float:
        """Xb."""

    def score(self, residual: Float) -> Float:
        """Xᵀr."""

    def gram(self, weights: Float) -> Float:
        """XᵀWX."""


@dataclass(frozen=True, eq=False)
class Climb:
    """Where Newton's method ended: coefficients, the information there (with the ridge), and whether it is the top."""

    b: Float
    information: Float
    arrived: bool


def maximum_likelihood(frame: ModelFrame, *, robust: bool = False) -> Estimates | None:
    """Fit by maximum likelihood; None where there is no maximum (separation)."""
    rows = count_rows(frame)
    top = climb(rows, rows.successes, rows.trials, np.zeros(rows.width))
    if (not top.arrived or bool((np.abs(rows.times(top.b)) > FAR).any())) and is_separated(rows):
        return None
    return _estimates(frame, rows, top, robust=robust)


def firth(frame: ModelFrame, *, robust: bool = False) -> Estimates:
    """Fit by Firth's penalised likelihood: finite whatever the data."""
    rows = count_rows(frame)
    top = climb(rows, rows.successes, rows.trials, np.zeros(rows.width), leverages=rows.leverages)
    return _estimates(frame, rows, top, robust=robust)


def ridge_logistic(frame: ModelFrame, penalty: float, *, robust: bool = False) -> Estimates:
    """Fit with a ridge of strength λ on everything but intercept and fixed effects."""
    rows = count_rows(frame)
    own = len(rows.kept)
    units = penalty_units(rows.X[:, :own], rows.trials) * ~frame.is_intercept[rows.kept]
    ridge = np.append(penalty * units**2, np.zeros(rows.width - own))
    return _estimates(frame, rows, climb(rows, rows.successes, rows.trials, ridge), robust=robust)


def climb(
    columns: Regressors,
    successes: Float,
    trials: Float,
    ridge: Float,
    *,
    leverages: Callable[[Float, Float], Float] | None = None,
    small: float = SMALL,
) -> Climb:
    """Maximise a penalised likelihood: Fisher scoring, each step halved until it rises.

    `successes` of `trials` rows of each kind have a response of 1; `ridge` is λ of every coefficient; with
    `leverages`, a function of weights and the inverse of the information, Firth's penalty is added.
    """

    def value(b: Float) -> tuple[float, Float, Float, Float]:
        eta = columns.times(b)
        p = expit(eta)
        information = columns.gram(trials * p * (1 - p))
        found = float(successes @ eta - trials @ np.logaddexp(0.0, eta)) - 0.5 * float(ridge @ b**2)
        if leverages is not None:
            found += 0.5 * float(np.linalg.slogdet(information)[1])
        return found, information + np.diag(ridge), eta, p

    b = np.zeros(columns.width)
    best, information, eta, p = value(b)
    for _ in range(STEPS):
        try:
            inverse: Float = np.asarray(np.linalg.inv(information), dtype=np.float64)
        except np.linalg.LinAlgError:
            # Only where every response is certain: far beyond `FAR`, which is then looked at.
            return Climb(b, information, True)
        residual = successes - trials * p
        if leverages is not None:
            residual += leverages(trials * p * (1 - p), inverse) * (0.5 - p)
        score = columns.score(residual) - ridge * b
        step = inverse @ score
        gain = float(score @ step)
        if not gain > small:
            return Climb(b + step, value(b + step)[1], True)
        # Of separated numbers log-odds may have to go far: no step more than doubles them.
        longest = max(LONGEST, float(np.abs(eta).max()))
        step = step * min(1.0, longest / float(np.abs(columns.times(step)).max()))
        for _ in range(HALVINGS):
            new, information, eta, p = value(b + step)
            if new >= best - 1e-12 * abs(best):
                break
            step = step / 2
        b, best = b + step, new
    return Climb(b, information, False)


def _estimates(frame: ModelFrame, rows: BinomialRows, top: Climb, *, robust: bool) -> Estimates:
    if not top.arrived:
        raise UsageError(
            "the logistic regression did not converge; use family='firth', a penalty, or fewer terms"
        )
    covariance: Float = np.asarray(np.linalg.inv(top.information), dtype=np.float64)
    p = expit(rows.times(top.b))
    df = float("inf")
    if rows.clusters is not None:
        scores = rows.X * (rows.successes - rows.trials * p)[:, None]
        covariance, groups = sandwich(covariance, scores, rows.clusters)
        df = float(groups - 1)
    elif robust:
        squares = rows.successes * (1 - p) ** 2 + (rows.trials - rows.successes) * p**2
        covariance = covariance @ rows.gram(squares) @ covariance * (frame.rows / (frame.rows - rows.width))
    own = slice(0, len(rows.kept))
    return place_estimates(frame, rows.kept, top.b[own], covariance[own, own], df, rows.centre)
