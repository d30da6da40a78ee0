"""SPECKS: how well a classifier tells synthetic rows from authentic ones.

Authentic and synthetic rows are pooled, a logistic regression estimates the probability that a row is
synthetic, and the Kolmogorov–Smirnov distance between the two groups' scores is the measure (Bowen, Liu and
Su, arXiv 1803.06763, section 2.4). 0: the regression cannot tell; 1: it always can. Main effects see the
margins, interactions of two see the pairs as well.

In the package this is `dipsmith.compare`, which reads any frame; here rows are codes of a simulated table, and one
design matrix of the authentic rows serves all comparisons.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from dipsmith.schema import Codes

Float32 = NDArray[np.float32]

RIDGE = 1e-4
"""Penalty per row: enough for a solution to exist where a column of the design separates the groups."""


def design(codes: Codes, *, interactions: bool) -> Float32:
    """Dummies of every column but the first label, and their products for every pair of columns."""
    blocks = [
        np.stack([codes[a.name] == level for level in range(1, a.size)], axis=1).astype(np.float32)
        for a in codes.schema
    ]
    columns = [np.ones((len(codes), 1), dtype=np.float32), *blocks]
    if interactions:
        for i, left in enumerate(blocks):
            for right in blocks[:i]:
                columns.append((left[:, :, None] * right[:, None, :]).reshape(len(codes), -1))
    return np.concatenate(columns, axis=1)


def distance(authentic: Float32, synthetic: Float32) -> float:
    """The Kolmogorov–Smirnov distance of the propensity scores of two groups."""
    scores = _propensity(authentic, synthetic)
    first, second = np.sort(scores[: len(authentic)]), np.sort(scores[len(authentic) :])
    points = np.concatenate([first, second])
    below = [np.searchsorted(group, points, side="right") / len(group) for group in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def _propensity(authentic: Float32, synthetic: Float32) -> NDArray[np.float64]:
    """The linear score of every row, by penalised maximum likelihood."""
    x = np.concatenate([authentic, synthetic])
    synthetic_row = np.concatenate([np.zeros(len(authentic)), np.ones(len(synthetic))])

    def loss(beta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        eta = (x @ beta.astype(np.float32)).astype(np.float64)
        value = np.logaddexp(0.0, eta).mean() - (synthetic_row * eta).mean() + RIDGE / 2 * (beta**2).sum()
        left = (expit(eta) - synthetic_row).astype(np.float32)
        return float(value), (left @ x).astype(np.float64) / len(x) + RIDGE * beta

    found = minimize(
        loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 150, "ftol": 1e-7}
    )
    return np.asarray(x @ found.x.astype(np.float32), dtype=np.float64)
