"""Logistic regression: by maximum likelihood, with Firth's penalty, or with a ridge.

One Newton's method (`climb`) on counted rows fits all three, and the regressions on codes of
`dipsmith.utility.logistic` as well. *Maximum likelihood* does not exist under separation and is refused then; the
tests hold it to statsmodels, which takes sixty times as long over a million rows with fixed effects. *Firth's
penalty* (Firth 1993; for separation Heinze and Schemper 2002) maximises ℓ(b) + ½ log det I(b), Jeffreys' prior:
always finite, and less biased in small samples. Solved by Fisher scoring on the modified score
Xᵀ(s − t·p + h(½ − p)), with h the leverages, steps halved until the penalised likelihood rises. *Ridge* maximises
ℓ(b) − λ/2 Σb², intercept and fixed effects free; its covariance is that of the posterior mode. Columns that are not
0/1 count in units of two standard deviations (Gelman 2008), so that one λ is fair to all.

Rows are counted (`BinomialRows`): equal rows are one row with its trials and successes, because a synthetic table of
categories has few distinct rows, and a likelihood is a sum over them. Fixed effects become indicator columns, because
a logistic regression cannot absorb them.

*Separation*: a combination of columns predicts some responses without error. Then no maximum of the likelihood
exists: coefficients run off to infinity, and what software prints for them (20 with a standard error of 120) means
nothing. It happens whenever a rule makes it happen, as in "nobody votes who is not registered".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.privacy.randomness import generator
from dipsmith.regression.estimates import Estimates
from dipsmith.regression.least_squares import centres, independent, penalty_units, place_estimates, sandwich
from dipsmith.regression.model_frame import ModelFrame, is_binary

STEPS = 200
HALVINGS = 30
LONGEST = 5.0
SMALL = 1e-13
"""A step that promises less than this, in squared standard errors, is the last one."""
FAR = 15.0
"""Log-odds beyond this are looked at for separation."""
MOST_EFFECTS = 2000
"""Indicators of fixed effects that a logistic regression takes at most."""
_SEED = 1984
"""Seed of the random weights that identify distinct rows: any will do."""
_ZERO = 1e-9


class Regressors(Protocol):
    """The columns X of a regression, as numbers or as codes."""

    @property
    def width(self) -> int:
        """Number of columns."""

    def times(self, b: Floats) -> Floats:
        """Xb."""

    def score(self, residual: Floats) -> Floats:
        """Xᵀr."""

    def gram(self, weights: Floats) -> Floats:
        """XᵀWX."""


@dataclass(frozen=True, eq=False)
class Climb:
    """Where Newton's method ended: coefficients, the information there (with the ridge), and whether it is the top."""

    b: Floats
    information: Floats
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
    successes: Floats,
    trials: Floats,
    ridge: Floats,
    *,
    leverages: Callable[[Floats, Floats], Floats] | None = None,
    small: float = SMALL,
) -> Climb:
    """Maximise a penalised likelihood: Fisher scoring, each step halved until it rises.

    `successes` of `trials` rows of each kind have a response of 1; `ridge` is λ of every coefficient; with
    `leverages`, a function of weights and the inverse of the information, Firth's penalty is added.
    """

    def value(b: Floats) -> tuple[float, Floats, Floats, Floats]:
        eta = columns.times(b)
        p = scipy.special.expit(eta)
        information = columns.gram(trials * p * (1 - p))
        found = float(successes @ eta - trials @ np.logaddexp(0.0, eta)) - 0.5 * float(ridge @ b**2)
        if leverages is not None:
            found += 0.5 * float(np.linalg.slogdet(information)[1])
        return found, information + np.diag(ridge), eta, p

    b = np.zeros(columns.width)
    best, information, eta, p = value(b)
    for _ in range(STEPS):
        try:
            inverse: Floats = np.asarray(np.linalg.inv(information), dtype=np.float64)
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
        raise UsageError("the logistic regression did not converge; use family='firth', a penalty, or fewer terms")
    covariance: Floats = np.asarray(np.linalg.inv(top.information), dtype=np.float64)
    p = scipy.special.expit(rows.times(top.b))
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


@dataclass(frozen=True, eq=False)
class BinomialRows:
    """Distinct rows with trials and successes.

    X has the frame's `kept` columns first, less their `centre`, then indicators of fixed effects; `trials` counts the
    rows that are equal to each, `successes` those of them with a response of 1.
    """

    X: Floats
    trials: Floats
    successes: Floats
    kept: Ints
    clusters: Ints | None
    centre: Floats

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    def times(self, b: Floats) -> Floats:
        """Xb: the log-odds of every row."""
        return np.asarray(self.X @ b)

    def score(self, residual: Floats) -> Floats:
        """Xᵀr."""
        return np.asarray(self.X.T @ residual)

    def gram(self, weights: Floats) -> Floats:
        """XᵀWX."""
        return np.asarray((self.X * weights[:, None]).T @ self.X)

    def leverages(self, weights: Floats, inverse: Floats) -> Floats:
        """The diagonal of WX(XᵀWX)⁻¹Xᵀ, from weights and the inverse."""
        return np.asarray(weights * ((self.X @ inverse) * self.X).sum(axis=1))


def count_rows(frame: ModelFrame) -> BinomialRows:
    """Count the equal rows of a binary regression."""
    if not is_binary(frame.y):
        raise UsageError("a logistic regression needs a response of two levels or 0 and 1; use family='ols'")
    codes = [f.astype(np.float64) for f in frame.fixed]
    if frame.clusters is not None:
        codes.append(frame.clusters.astype(np.float64))
    cell, first = distinct(np.column_stack([frame.X, *codes]))
    trials = np.bincount(cell).astype(np.float64)
    own = frame.X[first]
    extra = [np.ones((len(first), 1)), *_indicators(frame, first)] if frame.fixed else []
    free = bool(frame.fixed) or bool(frame.is_intercept.any())
    centre = centres(own, trials) if free else np.zeros(own.shape[1])
    whole = np.column_stack([own, *extra])
    wide = np.column_stack([own - centre, *extra])
    kept = independent((wide * trials[:, None]).T @ wide, np.einsum("ij,ij,i->j", whole, whole, trials))
    return BinomialRows(
        X=np.ascontiguousarray(wide[:, kept]),
        trials=trials,
        successes=np.bincount(cell, weights=frame.y).astype(np.float64),
        kept=kept[kept < own.shape[1]],
        clusters=None if frame.clusters is None else frame.clusters[first],
        centre=centre,
    )


def distinct(columns: Floats) -> tuple[Ints, Ints]:
    """Number the distinct rows: the number of each row, and the first row of each number.

    Rows are told apart by two random weighted sums, and the result is checked: sorting numbers is many times
    faster than sorting rows.

    >>> distinct(np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]]))[0].tolist() in ([0, 1, 0], [1, 0, 1])
    True
    """
    weights = generator(_SEED).normal(size=(columns.shape[1], 2))
    keys = np.zeros((len(columns), 2))
    for j, column in enumerate(columns.T):
        keys += column[:, None] * weights[j]
    _, first, cell = np.unique(keys[:, 0] + 1j * keys[:, 1], return_index=True, return_inverse=True)
    if (columns == columns[first][cell]).all():
        return cell.astype(np.int64), first
    return np.arange(len(columns)), np.arange(len(columns))


def _indicators(frame: ModelFrame, rows: Ints) -> list[Floats]:
    """One column per group of every fixed effect but its first, for some rows."""
    sizes = [int(f.max()) + 1 for f in frame.fixed]
    if sum(sizes) > MOST_EFFECTS:
        raise UsageError(
            f"{sum(sizes):,} fixed effects are more than a logistic regression takes ({MOST_EFFECTS:,}); "
            "use coarser groups, or family='ols' for a linear probability model"
        )
    return [
        (f[rows, None] == np.arange(1, size)).astype(np.float64) for f, size in zip(frame.fixed, sizes, strict=True)
    ]


def is_separated(rows: BinomialRows) -> bool:
    """Whether a maximum of the likelihood does not exist.

    Rows in which both responses occur cannot be separated, so only combinations of columns that are zero on all of
    them come in question; among these a linear program decides (Albert and Anderson 1984; Konis 2007).
    """
    scale = np.sqrt(np.einsum("ij,ij->j", rows.X, rows.X))
    X = rows.X / np.where(scale > 0, scale, 1.0)
    mixed = (rows.successes > 0) & (rows.successes < rows.trials)
    value, basis = np.linalg.eigh(X[mixed].T @ X[mixed])
    free = basis[:, value < _ZERO * max(float(value.max()), _ZERO)]
    pure = X[~mixed] @ free
    signed = np.where(rows.successes[~mixed, None] > 0, pure, -pure)
    signed = signed[np.abs(signed).max(axis=1, initial=0.0) > _ZERO]
    if not signed.size:
        return False
    none = np.zeros(len(signed))
    found = scipy.optimize.linprog(-signed.sum(axis=0), -signed, none, bounds=(-1.0, 1.0), method="highs")
    return bool(found.status == 0 and -found.fun > _ZERO * len(signed))
