"""Logistic regression: by maximum likelihood, with Firth's penalty, or with a ridge.

All three are Newton's method on counted rows (`dipsmith.inference.grouped`). *Maximum likelihood* does not exist
under separation (`dipsmith.inference.separation`), and is refused then; the tests hold it to statsmodels, which
takes sixty times as long over a million rows with fixed effects.
*Firth's penalty* (Firth 1993; for separation Heinze and Schemper 2002) maximises ℓ(b) + ½ log det I(b), Jeffreys'
prior: always finite, and less biased in small samples. Solved by Fisher scoring on the modified score
Xᵀ(s − t·p + h(½ − p)), with h the leverages, steps halved until the penalised likelihood rises. *Ridge*
maximises ℓ(b) − λ/2 Σb², intercept and fixed effects free; its covariance is that of the posterior mode.
Columns that are not 0/1 count in units of two standard deviations (Gelman 2008), so that one λ is fair to all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dipsmith.errors import UsageError
from dipsmith.inference.design import Design
from dipsmith.inference.estimates import Estimates, Float
from dipsmith.inference.grouped import Grouped, grouped, is_intercept
from dipsmith.inference.least_squares import clustered, in_place
from dipsmith.inference.separation import separated

STEPS = 200
HALVINGS = 30
LONGEST = 5.0
SMALL = 1e-13
"""A step that promises less than this, in squared standard errors, is the last one."""

FAR = 15.0
"""Log-odds beyond this are looked at for separation."""


def maximum_likelihood(design: Design, *, robust: bool = False) -> Estimates | None:
    """Fit by maximum likelihood; None where there is no maximum (separation)."""
    rows = grouped(design)
    b, arrived = _climb(rows, _Ridge(np.zeros(rows.X.shape[1])))
    if (not arrived or bool((np.abs(rows.X @ b) > FAR).any())) and separated(rows):
        return None
    _require(arrived)
    return _estimates(design, rows, b, _information(rows, b), robust=robust)


def firth(design: Design, *, robust: bool = False) -> Estimates:
    """Fit by Firth's penalised likelihood: finite whatever the data."""
    rows = grouped(design)
    b, arrived = _climb(rows, _Firth())
    _require(arrived)
    return _estimates(design, rows, b, _information(rows, b), robust=robust)


def ridge_logistic(design: Design, penalty: float, *, robust: bool = False) -> Estimates:
    """Fit with a ridge of strength λ on everything but intercept and fixed effects."""
    rows = grouped(design)
    strengths = np.zeros(rows.X.shape[1])
    own = len(rows.kept)
    strengths[:own] = penalty * fair(rows.X[:, :own], rows.trials) ** 2 * ~is_intercept(design)[rows.kept]
    b, arrived = _climb(rows, _Ridge(strengths))
    _require(arrived)
    return _estimates(design, rows, b, _information(rows, b) + np.diag(strengths), robust=robust)


def fair(X: Float, weights: Float) -> Float:
    """The unit in which a column is penalised: 1 for 0/1 columns, two standard deviations for others."""
    binary = ((X == 0) | (X == 1)).all(axis=0)
    centre = np.average(X, axis=0, weights=weights)
    spread = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
    return np.where(binary, 1.0, 2 * spread)


# --- penalised likelihoods ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Firth:
    """½ log det of the information."""

    def value(self, information: Float, b: Float) -> float:
        return 0.5 * float(np.linalg.slogdet(information)[1])

    def score(self, rows: Grouped, p: Float, inverse: Float, b: Float) -> Float:
        leverage = rows.trials * p * (1 - p) * ((rows.X @ inverse) * rows.X).sum(axis=1)
        return np.asarray(rows.X.T @ (leverage * (0.5 - p)))

    def curvature(self) -> Float | float:
        return 0.0


@dataclass(frozen=True, eq=False)
class _Ridge:
    """−½ Σ λb²."""

    strengths: Float

    def value(self, information: Float, b: Float) -> float:
        return -0.5 * float(self.strengths @ b**2)

    def score(self, rows: Grouped, p: Float, inverse: Float, b: Float) -> Float:
        return -self.strengths * b

    def curvature(self) -> Float | float:
        return np.diag(self.strengths)


def _climb(rows: Grouped, penalty: _Firth | _Ridge) -> tuple[Float, bool]:
    """Fisher scoring, each step halved until the penalised likelihood rises; and whether it came to an end."""
    b = np.zeros(rows.X.shape[1])
    value, information = _value(rows, penalty, b)
    for _ in range(STEPS):
        eta = rows.X @ b
        p = expit(eta)
        try:
            inverse: Float = np.asarray(np.linalg.inv(information + penalty.curvature()), dtype=np.float64)
        except np.linalg.LinAlgError:
            # Only where every response is certain: far beyond `FAR`, which is then looked at.
            return b, True
        score = rows.X.T @ (rows.successes - rows.trials * p) + penalty.score(rows, p, inverse, b)
        step = inverse @ score
        gain = float(score @ step)
        if not gain > SMALL:
            return b + step, True
        # Of separated numbers log-odds may have to go far: no step more than doubles them.
        longest = max(LONGEST, float(np.abs(eta).max()))
        step = step * min(1.0, longest / float(np.abs(rows.X @ step).max()))
        for _ in range(HALVINGS):
            ahead = b + step
            new, information = _value(rows, penalty, ahead)
            if new >= value - 1e-12 * abs(value):
                break
            step = step / 2
        b, value = ahead, new
    return b, False


def _require(arrived: bool) -> None:
    if not arrived:
        raise UsageError(
            "the logistic regression did not converge; use family='firth', a penalty, or fewer terms"
        )


def _value(rows: Grouped, penalty: _Firth | _Ridge, b: Float) -> tuple[float, Float]:
    eta = rows.X @ b
    likelihood = float(rows.successes @ eta - rows.trials @ np.logaddexp(0.0, eta))
    information = _information(rows, b)
    return likelihood + penalty.value(information, b), information


def _information(rows: Grouped, b: Float) -> Float:
    p = expit(rows.X @ b)
    return np.asarray((rows.X * (rows.trials * p * (1 - p))[:, None]).T @ rows.X)


def _estimates(design: Design, rows: Grouped, b: Float, information: Float, *, robust: bool) -> Estimates:
    inverse: Float = np.asarray(np.linalg.inv(information), dtype=np.float64)
    p = expit(rows.X @ b)
    df = float("inf")
    if rows.clusters is not None:
        scores = rows.X * (rows.successes - rows.trials * p)[:, None]
        inverse, groups = clustered(inverse, scores, rows.clusters)
        df = float(groups - 1)
    elif robust:
        squares = rows.successes * (1 - p) ** 2 + (rows.trials - rows.successes) * p**2
        inverse = inverse @ ((rows.X * squares[:, None]).T @ rows.X) @ inverse
        inverse *= rows.rows / (rows.rows - rows.X.shape[1])
    own = slice(0, len(rows.kept))
    return in_place(design, rows.kept, b[own], inverse[own, own], df, rows.centre)
