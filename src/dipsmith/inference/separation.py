"""Separation: when a combination of columns predicts some responses without error.

Then no maximum of the likelihood exists: coefficients run off to infinity, and what software prints for
them (20 with a standard error of 120) means nothing. It happens whenever a rule makes it happen, as in
"nobody votes who is not registered". Rows in which both responses occur cannot be separated, so only the
combinations of columns that are zero on all of them come in question; among these a linear program decides
(Albert and Anderson 1984; Konis 2007).
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from dipsmith.inference.estimates import Float
from dipsmith.inference.grouped import Grouped

ZERO = 1e-9


def separated(rows: Grouped) -> bool:
    """Whether a maximum of the likelihood does not exist."""
    scale = np.sqrt(np.einsum("ij,ij->j", rows.X, rows.X))
    X = rows.X / np.where(scale > 0, scale, 1.0)
    mixed = (rows.successes > 0) & (rows.successes < rows.trials)
    free = _null_space(X[mixed], X.shape[1])
    if not free.shape[1]:
        return False
    pure = X[~mixed] @ free
    signed = np.where(rows.successes[~mixed, None] > 0, pure, -pure)
    signed = signed[np.abs(signed).max(axis=1) > ZERO]
    if not len(signed):
        return False
    found = optimize.linprog(
        -signed.sum(axis=0),
        A_ub=-signed,
        b_ub=np.zeros(len(signed)),
        bounds=[(-1.0, 1.0)] * free.shape[1],
        method="highs",
    )
    return bool(found.status == 0 and -found.fun > ZERO * len(signed))


def _null_space(X: Float, width: int) -> Float:
    """The combinations of columns that are zero on every one of these rows."""
    if not len(X):
        return np.eye(width)
    value, basis = np.linalg.eigh(X.T @ X)
    return np.asarray(basis[:, value < ZERO * max(float(value.max()), ZERO)])
