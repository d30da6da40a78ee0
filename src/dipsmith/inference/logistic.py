"""Logistic regression: by maximum likelihood (statsmodels), with Firth's penalty, or with a ridge.

*Maximum likelihood* does not exist under separation (`dipsmith.inference.separation`), and is refused then.
*Firth's penalty* (Firth 1993; for separation Heinze and Schemper 2002) maximises ℓ(b) + ½ log det I(b), Jeffreys'
prior: always finite, and less biased in small samples. Solved by Fisher scoring on the modified score
Xᵀ(s − t·p + h(½ − p)), with h the leverages, steps halved until the penalised likelihood rises. *Ridge*
maximises ℓ(b) − λ/2 Σb², intercept and fixed effects free; its covariance is that of the posterior mode.
Columns that are not 0/1 count in units of two standard deviations (Gelman 2008), so that one λ is fair to all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dipsmith.errors import UsageError
from dipsmith.inference.design import Design, extra
from dipsmith.inference.estimates import Estimates, Float
from dipsmith.inference.grouped import Grouped, grouped, is_intercept
from dipsmith.inference.least_squares import clustered, in_place
from dipsmith.inference.separation import separated

STEPS = 200
HALVINGS = 30
LONGEST = 5.0
SMALL = 1e-10
"""A step that promises less than this, in squared standard errors, is the last one."""

FAR = 15.0
"""Log-odds beyond this are looked at for separation."""


def maximum_likelihood(design: Design, *, robust: bool = False) -> Estimates | None:
    """Fit by maximum likelihood; None where there is no maximum (separation)."""
    rows = grouped(design)
    if not 0 < rows.successes.sum() < rows.trials.sum():
        return None
    models = extra("statsmodels.genmod.generalized_linear_model")
    families = extra("statsmodels.genmod.families")
    endog = np.column_stack([rows.successes, rows.trials - rows.successes])
    with warnings.catch_warnings():
        # Separation and divergence are looked for below, by what they are.
        warnings.simplefilter("ignore")
        fitted = models.GLM(endog, rows.X, family=families.Binomial()).fit(maxiter=60, tol=1e-12)
    b = np.asarray(fitted.params)
    far = not np.isfinite(b).all() or bool((np.abs(rows.X @ b) > FAR).any())
    if (far or not fitted.converged) and separated(rows):
        return None
    if not np.isfinite(b).all() or not fitted.converged:
        raise UsageError("the logistic regression did not converge; use family='firth', or fewer terms")
    b, information = _polished(rows, b)
    return _estimates(design, rows, b, information, robust=robust)


def firth(design: Design, *, robust: bool = False) -> Estimates:
    """Fit by Firth's penalised likelihood: finite whatever the data."""
    rows = grouped(design)
    b = _climb(rows, _Firth())
    return _estimates(design, rows, b, _information(rows, b), robust=robust)


def ridge_logistic(design: Design, penalty: float, *, robust: bool = False) -> Estimates:
    """Fit with a ridge of strength λ on everything but intercept and fixed effects."""
    rows = grouped(design)
    strengths = np.zeros(rows.X.shape[1])
    own = len(rows.kept)
    strengths[:own] = penalty * fair(rows.X[:, :own], rows.trials) ** 2 * ~is_intercept(design)[rows.kept]
    b = _climb(rows, _Ridge(strengths))
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
        leverage = rows.trials * p * (1 - p) * np.einsum("ij,jk,ik->i", rows.X, inverse, rows.X)
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


def _climb(rows: Grouped, penalty: _Firth | _Ridge) -> Float:
    """Fisher scoring, each step halved until the penalised likelihood rises."""
    b = np.zeros(rows.X.shape[1])
    value, information = _value(rows, penalty, b)
    for _ in range(STEPS):
        p = _probabilities(rows, b)
        inverse = linalg.inv(information + penalty.curvature())
        score = rows.X.T @ (rows.successes - rows.trials * p) + penalty.score(rows, p, inverse, b)
        step = inverse @ score
        gain = float(score @ step)
        if gain < SMALL:
            return b
        step *= min(1.0, LONGEST / float(np.abs(step).max()))
        for _ in range(HALVINGS):
            ahead = b + step
            new, information = _value(rows, penalty, ahead)
            if new > value - 1e-12 * abs(value):
                break
            step = step / 2
        b, value = ahead, new
    raise UsageError("the penalised logistic regression did not converge; use fewer terms")


def _value(rows: Grouped, penalty: _Firth | _Ridge, b: Float) -> tuple[float, Float]:
    eta = rows.X @ b
    likelihood = float(rows.successes @ eta - rows.trials @ np.logaddexp(0.0, eta))
    information = _information(rows, b)
    return likelihood + penalty.value(information, b), information


def _probabilities(rows: Grouped, b: Float) -> Float:
    from scipy.special import expit

    return np.asarray(expit(rows.X @ b))


def _information(rows: Grouped, b: Float) -> Float:
    p = _probabilities(rows, b)
    return np.asarray((rows.X * (rows.trials * p * (1 - p))[:, None]).T @ rows.X)


def _polished(rows: Grouped, b: Float) -> tuple[Float, Float]:
    """One more Newton step, so that results do not depend on where the library stopped."""
    score = rows.X.T @ (rows.successes - rows.trials * _probabilities(rows, b))
    b = b + linalg.solve(_information(rows, b), score, assume_a="pos")
    return b, _information(rows, b)


def _estimates(design: Design, rows: Grouped, b: Float, information: Float, *, robust: bool) -> Estimates:
    inverse = linalg.inv(information)
    p = _probabilities(rows, b)
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
    return in_place(design, rows.kept, b[own], inverse[own, own], df)
