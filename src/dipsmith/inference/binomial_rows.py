"""Rows of a binary regression, counted: equal rows are one row with its trials and successes.

A synthetic table of categories has few distinct rows, and a likelihood is a sum over them. Fixed effects become
indicator columns here, because a logistic regression cannot absorb them.

*Separation*: a combination of columns predicts some responses without error. Then no maximum of the likelihood
exists: coefficients run off to infinity, and what software prints for them (20 with a standard error of 120) means
nothing. It happens whenever a rule makes it happen, as in "nobody votes who is not registered".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from dipsmith.errors import UsageError
from dipsmith.inference.estimates import Float
from dipsmith.inference.least_squares import centres, independent
from dipsmith.inference.model_frame import ModelFrame, is_binary
from dipsmith.privacy.randomness import generator

MOST_EFFECTS = 2000
"""Indicators of fixed effects that a logistic regression takes at most."""

_SEED = 1984
"""Of the weights by which rows are told apart: any will do."""

_ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class BinomialRows:
    """Distinct rows with trials and successes.

    X has the frame's `kept` columns first, less their `centre`, then indicators of fixed effects; `trials` counts the
    rows that are equal to each, `successes` those of them with a response of 1.
    """

    X: Float
    trials: Float
    successes: Float
    kept: NDArray[np.int64]
    clusters: NDArray[np.int64] | None
    centre: Float

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    def times(self, b: Float) -> Float:
        """Xb: the log-odds of every row."""
        return np.asarray(self.X @ b)

    def score(self, residual: Float) -> Float:
        """Xᵀr."""
        return np.asarray(self.X.T @ residual)

    def gram(self, weights: Float) -> Float:
        """XᵀWX."""
        return np.asarray((self.X * weights[:, None]).T @ self.X)

    def leverages(self, weights: Float, inverse: Float) -> Float:
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


def distinct(columns: Float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def _indicators(frame: ModelFrame, rows: NDArray[np.int64]) -> list[Float]:
    """One column per group of every fixed effect but its first, for some rows."""
    sizes = [int(f.max()) + 1 for f in frame.fixed]
    if sum(sizes) > MOST_EFFECTS:
        raise UsageError(
            f"{sum(sizes):,} fixed effects are more than a logistic regression takes ({MOST_EFFECTS:,}); "
            "use coarser groups, or family='ols' for a linear probability model"
        )
    return [
        (f[rows, None] == np.arange(1, size)).astype(np.float64)
        for f, size in zip(frame.fixed, sizes, strict=True)
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
    found = optimize.linprog(-signed.sum(axis=0), -signed, none, bounds=(-1.0, 1.0), method="highs")
    return bool(found.status == 0 and -found.fun > _ZERO * len(signed))
