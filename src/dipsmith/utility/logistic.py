"""Logistic regression on codes: one effect per level, sums over codes instead of a matrix of indicators.

The linear predictor of a row is an intercept plus one number per column, looked up by the row's code. So the gradient
is a handful of `bincount`s and the Hessian a handful of cross-tables, and a million rows take seconds. Rows are given
once per distinct combination, with how often each outcome occurred; `dipsmith.regression.logistic` does the fitting.

A ridge so small that it only decides among equivalent parametrisations (an intercept and all levels are redundant)
keeps the Hessian invertible; contrasts between levels are those of maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import expit

from dipsmith.arrays import Bools, Floats
from dipsmith.regression.logistic import climb
from dipsmith.schema import Codes

RIDGE = 1e-4
"""A prior standard deviation of 100 on the log-odds: nothing, unless a level has only one outcome."""
NEWTON = 1500
"""Up to this many effects Newton's method is used; beyond, quasi-Newton without a Hessian."""
CROSSED = 30
"""Up to this many columns cross-tables of all pairs are cheaper than steps without them."""
SMALL = 1e-4
"""Newton's method ends with a step that promises less than this, in squared standard errors."""


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column of codes, or several crossed into one: every one of its `size` values has an effect."""

    names: tuple[str, ...]
    index: NDArray[np.integer]
    size: int


@dataclass(frozen=True, eq=False)
class Indicators:
    """An intercept and an indicator of every value of some coded columns: the X of a regression, never made."""

    columns: tuple[CodedColumn, ...]

    @classmethod
    def of(cls, codes: Codes, groups: Sequence[Sequence[str]]) -> Indicators:
        """One column per group of columns; of crossed ones only the combinations that occur are numbered."""
        made = []
        for names in groups:
            index, size = codes[names[0]].astype(np.int64), codes.schema[names[0]].size
            for name in names[1:]:
                index = index * codes.schema[name].size + codes[name]
            if len(names) > 1:
                occurring, index = np.unique(index, return_inverse=True)
                size = len(occurring)
            made.append(CodedColumn(tuple(names), index.astype(np.int32), size))
        return cls(tuple(made))

    def take(self, rows: Bools | NDArray[np.integer]) -> Indicators:
        """The same for some of the rows."""
        return Indicators(tuple(CodedColumn(c.names, c.index[rows], c.size) for c in self.columns))

    def within(self, names: Collection[str]) -> Indicators:
        """Those that only some columns decide."""
        return Indicators(tuple(c for c in self.columns if set(c.names) <= set(names)))

    @property
    def width(self) -> int:
        """Number of effects, the intercept included."""
        return 1 + sum(c.size for c in self.columns)

    def split(self, b: Floats) -> list[Floats]:
        """The effects of every column, from those of all."""
        return np.split(b[1:], np.cumsum([c.size for c in self.columns])[:-1])

    def times(self, b: Floats) -> Floats:
        """Xb: the linear predictor of every row."""
        found = np.full(len(self.columns[0].index), b[0])
        for column, effect in zip(self.columns, self.split(b), strict=True):
            found += effect[column.index]
        return found

    def score(self, residual: Floats) -> Floats:
        """Xᵀr, by sums over codes."""
        parts = [np.bincount(c.index, residual, minlength=c.size) for c in self.columns]
        return np.concatenate([[residual.sum()], *parts])

    def sparse(self) -> Any:
        """X itself, for many products with it."""
        from scipy.sparse import csr_matrix

        starts = np.cumsum([1, *(c.size for c in self.columns)])[:-1]
        rows = len(self.columns[0].index)
        found = np.zeros((rows, 1 + len(self.columns)), dtype=np.int32)
        for i, (column, start) in enumerate(zip(self.columns, starts, strict=True), start=1):
            found[:, i] = column.index + start
        pointers = np.arange(0, found.size + 1, found.shape[1])
        return csr_matrix((np.ones(found.size), found.ravel(), pointers), (rows, self.width))

    def gram(self, weights: Floats) -> Floats:
        """XᵀWX, by cross-tables."""
        at = np.cumsum([1, *(c.size for c in self.columns)])
        found = np.zeros((at[-1], at[-1]))
        found[0] = found[:, 0] = self.score(weights)
        np.fill_diagonal(found, found[0])
        for i, first in enumerate(self.columns):
            rows = slice(at[i], at[i + 1])
            for j, second in enumerate(self.columns[i + 1 :], start=i + 1):
                key = first.index * np.int32(second.size) + second.index
                table = np.bincount(key, weights, minlength=first.size * second.size)
                columns = slice(at[j], at[j + 1])
                found[rows, columns] = table.reshape(first.size, second.size)
                found[columns, rows] = found[rows, columns].T
        return found


def rank(gram: Floats) -> int:
    """The number of effects that rows with these cross-tables can tell apart, the intercept included."""
    diagonal = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    values = np.linalg.eigvalsh(gram / np.outer(diagonal, diagonal))
    return int((values > 1e-9 * len(values)).sum())


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted model: log-odds = Xb. Its covariance is known where Newton's method was used."""

    b: Floats
    covariance: Floats | None

    def contrast(self, design: Indicators, column: int, reference: int) -> tuple[Floats, Floats]:
        """The effects of a column against one of its codes, and their standard errors."""
        effects = design.split(self.b)[column]
        if self.covariance is None:
            return effects - effects[reference], np.full(len(effects), np.nan)
        start = 1 + sum(c.size for c in design.columns[:column])
        part = self.covariance[start : start + len(effects), start : start + len(effects)]
        variance = np.diag(part) + part[reference, reference] - 2 * part[:, reference]
        return effects - effects[reference], np.sqrt(np.maximum(variance, 0.0))


def fit_logistic(
    design: Indicators,
    ones: NDArray[np.number],
    total: NDArray[np.number],
    ridge: float = RIDGE,
    *,
    covariance: bool = True,
) -> Logistic:
    """Fit by penalised maximum likelihood; where nobody needs the covariance of many columns, without cross-tables of them.

    `ones` of the `total` rows of each kind have outcome 1; the penalty is ridge/2 · θ² on every effect but the intercept.

    >>> x = Indicators((CodedColumn(("x",), np.array([0, 1]), 2),))
    >>> m = fit_logistic(x, np.array([20, 60]), np.array([100, 100]))
    >>> effect, se = m.contrast(x, 0, 0)
    >>> round(float(effect[1]), 4), round(float(se[1]), 4)  # log odds ratio 6, se² = 1/20 + 1/80 + 1/60 + 1/40
    (1.7918, 0.3227)
    """
    y, n = np.asarray(ones, dtype=np.float64), np.asarray(total, dtype=np.float64)
    penalty = np.append(0.0, np.full(design.width - 1, ridge))
    if design.width > NEWTON or (not covariance and len(design.columns) > CROSSED):
        return Logistic(_quasi_newton(design, y, n, penalty), None)
    top = climb(design, y, n, penalty, small=SMALL)
    # A little on the intercept too, for rows whose outcomes are all the same.
    information = top.information + 1e-10 * np.eye(design.width)
    return Logistic(top.b, np.asarray(np.linalg.inv(information), dtype=np.float64))


def _quasi_newton(design: Indicators, y: Floats, n: Floats, penalty: Floats) -> Floats:
    rate = float(np.clip(y.sum() / max(1.0, n.sum()), 1e-9, 1 - 1e-9))
    # In units of their own standard errors the effects are all of one size: without this scaling the
    # stopping rule would be met at the starting point when both tables have the same marginals.
    scale = 1 / np.sqrt(design.score(n) * rate * (1 - rate) + np.maximum(penalty, 1e-10))

    x = design.sparse()

    def objective(scaled: Floats) -> tuple[float, Floats]:
        b = scaled * scale
        eta = x @ b
        value = float((n * np.logaddexp(0.0, eta) - y * eta).sum()) + 0.5 * float(penalty @ b**2)
        residual = y - n * expit(eta)
        score = x.T @ residual
        score[0] = residual.sum()  # in numpy's order of summation: to the last bit what `design.score` gives
        return value, (penalty * b - score) * scale

    start = np.zeros(design.width)
    start[0] = np.log(rate / (1 - rate)) / scale[0]
    options = {"maxiter": 200, "ftol": 1e-12, "gtol": 1e-2}
    found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x * scale)
