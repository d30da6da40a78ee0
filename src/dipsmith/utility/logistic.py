"""Logistic regression on codes: one effect per level, sums of columns instead of a design matrix.

The linear predictor of a row is an intercept plus one number per block, looked up by the row's code. So the
gradient is a handful of `bincount`s and the Hessian a handful of cross-tables, and a million rows take
seconds. Rows are given once per distinct combination, with how often each outcome occurred.

A ridge so small that it only decides among equivalent parametrisations (an intercept and all levels are
redundant) keeps the Hessian invertible; contrasts between levels are those of maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from dipsmith.schema import Codes

RIDGE = 1e-4
"""A prior standard deviation of 100 on the log-odds: nothing, unless a level has only one outcome."""
NEWTON = 1500
"""Up to this many effects Newton's method is used; beyond, quasi-Newton without a Hessian."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Block:
    """A column of codes, or several crossed into one: every one of its `size` values has an effect."""

    names: tuple[str, ...]
    index: NDArray[np.integer]
    size: int

    def take(self, rows: NDArray[np.bool_] | NDArray[np.integer]) -> Block:
        """The same block for some of the rows."""
        return Block(self.names, self.index[rows], self.size)


def blocks(codes: Codes, groups: Sequence[Sequence[str]]) -> list[Block]:
    """One block per group of columns; only the combinations that occur are numbered."""
    made = []
    for names in groups:
        index = codes[names[0]].astype(np.int64)
        for name in names[1:]:
            index = index * codes.schema[name].size + codes[name]
        if len(names) > 1:
            occurring, index = np.unique(index, return_inverse=True)
            size = len(occurring)
        else:
            size = codes.schema[names[0]].size
        made.append(Block(tuple(names), index.astype(np.int32), size))
    return made


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted model: log-odds = intercept + the effect of each block's code.

    `covariance` is that of all parameters, intercept first, where Newton's method was used.
    """

    intercept: float
    effects: tuple[Floats, ...]
    covariance: Floats | None

    def log_odds(self, design: Sequence[Block]) -> Floats:
        """The linear predictor of every row."""
        return _predictor(self.intercept, self.effects, design)

    def contrast(self, block: int, reference: int) -> tuple[Floats, Floats]:
        """The effects of a block against one of its codes, and their standard errors."""
        effects = self.effects[block]
        if self.covariance is None:
            return effects - effects[reference], np.full(len(effects), np.nan)
        start = 1 + sum(len(e) for e in self.effects[:block])
        part = self.covariance[start : start + len(effects), start : start + len(effects)]
        variance = np.diag(part) + part[reference, reference] - 2 * part[:, reference]
        return effects - effects[reference], np.sqrt(np.maximum(variance, 0.0))


def fit_logistic(
    design: Sequence[Block], ones: NDArray[np.number], total: NDArray[np.number], ridge: float = RIDGE
) -> Logistic:
    """Fit by penalised maximum likelihood.

    Parameters
    ----------
    design
        The blocks, one code per distinct row each.
    ones, total
        How many rows of each kind have outcome 1, and how many there are.
    ridge
        Penalty ridge/2 · θ² on every effect (not on the intercept).

    Examples
    --------
    >>> b = Block(("x",), np.array([0, 1]), 2)
    >>> m = fit_logistic([b], np.array([20, 60]), np.array([100, 100]))
    >>> effect, se = m.contrast(0, 0)
    >>> round(float(effect[1]), 4), round(float(se[1]), 4)  # log odds ratio 6, se² = 1/20 + 1/80 + 1/60 + 1/40
    (1.7918, 0.3227)
    """
    y, n = np.asarray(ones, dtype=np.float64), np.asarray(total, dtype=np.float64)
    rate = float(np.clip(y.sum() / max(1.0, n.sum()), 1e-9, 1 - 1e-9))
    start = float(np.log(rate / (1 - rate)))
    if 1 + sum(b.size for b in design) <= NEWTON:
        return _newton(design, y, n, start, ridge)
    return _quasi_newton(design, y, n, start, rate, ridge)


def gram(design: Sequence[Block], weights: Floats) -> Floats:
    """XᵀWX of the intercept and all effects, from cross-tables of the blocks."""
    sizes = [1, *(b.size for b in design)]
    at = np.concatenate([[0], np.cumsum(sizes)])
    found = np.zeros((at[-1], at[-1]))
    found[0, 0] = weights.sum()
    for i, first in enumerate(design, start=1):
        one = np.bincount(first.index, weights, minlength=first.size)
        rows = slice(at[i], at[i + 1])
        found[rows, rows] = np.diag(one)
        found[0, rows] = found[rows, 0] = one
        for j, second in enumerate(design[i:], start=i + 1):
            key = first.index * np.int32(second.size) + second.index
            table = np.bincount(key, weights, minlength=first.size * second.size)
            columns = slice(at[j], at[j + 1])
            found[rows, columns] = table.reshape(first.size, second.size)
            found[columns, rows] = found[rows, columns].T
    return found


def score(design: Sequence[Block], residual: Floats) -> Floats:
    """Xᵀr of the intercept and all effects."""
    parts = [np.bincount(b.index, residual, minlength=b.size) for b in design]
    return np.concatenate([[residual.sum()], *parts])


def split(parameters: Floats, design: Sequence[Block]) -> tuple[float, tuple[Floats, ...]]:
    """A parameter vector as intercept and effects."""
    ends = np.cumsum([b.size for b in design])
    return float(parameters[0]), tuple(np.split(parameters[1:], ends[:-1]))


def rank(design: Sequence[Block], weights: Floats) -> int:
    """The number of parameters that the rows can tell apart, the intercept included."""
    scale = gram(design, weights)
    diagonal = np.sqrt(np.maximum(np.diag(scale), 1e-300))
    values = np.linalg.eigvalsh(scale / np.outer(diagonal, diagonal))
    return int((values > 1e-9 * len(values)).sum())


def _predictor(intercept: float, effects: Sequence[Floats], design: Sequence[Block]) -> Floats:
    found = np.full(len(design[0].index) if design else 1, intercept)
    for block, effect in zip(design, effects, strict=True):
        found += effect[block.index]
    return found


def _loss(eta: Floats, y: Floats, n: Floats) -> float:
    return float((n * np.logaddexp(0.0, eta) - y * eta).sum())


def _newton(design: Sequence[Block], y: Floats, n: Floats, start: float, ridge: float) -> Logistic:
    size = 1 + sum(b.size for b in design)
    penalty = np.full(size, ridge)
    penalty[0] = 0.0
    parameters = np.zeros(size)
    parameters[0] = start
    eta = _predictor(*split(parameters, design), design)
    loss = _loss(eta, y, n) + 0.5 * float(penalty @ parameters**2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-eta))
        factor = scipy.linalg.cho_factor(gram(design, n * p * (1 - p)) + np.diag(penalty + 1e-10))
        gradient = score(design, y - n * p) - penalty * parameters
        step = scipy.linalg.cho_solve(factor, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-9:
            break
        for halving in range(20):
            tried = parameters + step * 0.5**halving
            eta = _predictor(*split(tried, design), design)
            found = _loss(eta, y, n) + 0.5 * float(penalty @ tried**2)
            if found <= loss:
                break
        parameters, gained, loss = tried, loss - found, found
        if gained < 1e-9 * max(1.0, abs(loss)):
            break
    p = 1 / (1 + np.exp(-eta))
    information = gram(design, n * p * (1 - p)) + np.diag(penalty + 1e-10)
    covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(information), np.eye(size))
    return Logistic(*split(parameters, design), covariance)


def _quasi_newton(
    design: Sequence[Block], y: Floats, n: Floats, start: float, rate: float, ridge: float
) -> Logistic:
    # In units of their own standard errors the effects are all of one size: without this scaling the
    # stopping rule would be met at the starting point when both tables have the same marginals.
    scale = 1 / np.sqrt(
        score(design, n) * rate * (1 - rate) + np.append(1e-10, np.full(sum(b.size for b in design), ridge))
    )
    penalty = np.append(0.0, np.full(len(scale) - 1, ridge))

    def objective(scaled: Floats) -> tuple[float, Floats]:
        parameters = scaled * scale
        eta = _predictor(*split(parameters, design), design)
        p = 1 / (1 + np.exp(-eta))
        value = _loss(eta, y, n) + 0.5 * float(penalty @ parameters**2)
        return value, (penalty * parameters - score(design, y - n * p)) * scale

    first = np.zeros(len(scale))
    first[0] = start / scale[0]
    found = scipy.optimize.minimize(
        objective, first, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-12, "gtol": 1e-2}
    )
    return Logistic(*split(found.x * scale, design), None)
