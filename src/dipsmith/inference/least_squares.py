"""Ordinary least squares, with or without fixed effects, fast enough to be run fifty times over.

Normal equations on scaled columns, solved by Cholesky and refined once by the residuals (the corrected
seminormal equations: Björck 1987), so that a million rows cost one matrix product. Columns that others
already say are left out, later ones first, as statistical software does. Variances are iid, robust (HC1:
MacKinnon and White 1985) or clustered (Liang and Zeger 1986, with Stata's small-sample factor). The tests hold
it to statsmodels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dipsmith.errors import UsageError
from dipsmith.inference.absorb import absorb
from dipsmith.inference.design import Design, centres
from dipsmith.inference.estimates import Estimates, Float
from dipsmith.inference.matrix import INTERCEPT

COLLINEAR = 1e-10
"""A column of which others leave less than this share of its squares is theirs."""

CONSTANT = 1e-16
"""A column of which its mean, or fixed effects, leave less than this share of its squares is theirs."""


@dataclass(frozen=True, eq=False)
class Normal:
    """A design without its fixed effects: its own columns and the normal equations.

    Attributes
    ----------
    X, y
        Columns kept, and response.
    kept
        Which columns of the design they are.
    parameters
        Parameters of fixed effects.
    centre
        What was taken off each column of the design, for the intercept to account for.
    """

    X: Float
    y: Float
    kept: NDArray[np.int64]
    parameters: int
    centre: Float

    @property
    def rank(self) -> int:
        """Parameters in all."""
        return len(self.kept) + self.parameters


def normal(design: Design) -> Normal:
    """Take out fixed effects and columns that others already say."""
    X, y, parameters = design.X, design.y, 0
    before = np.einsum("ij,ij->j", X, X)
    centre = np.zeros(X.shape[1])
    if design.fixed:
        absorbed = absorb(np.column_stack([y, X]), design.fixed)
        y, X, parameters = absorbed.columns[:, 0], absorbed.columns[:, 1:], absorbed.parameters
    elif INTERCEPT in design.names:
        centre = centres(X, np.ones(len(X)))
        X = X - centre if centre.any() else X
    kept = independent(X.T @ X, before)
    if len(kept) < X.shape[1]:
        X = np.ascontiguousarray(X[:, kept])
    if design.rows <= len(kept) + parameters:
        raise UsageError(
            f"{design.rows} rows are too few for {len(kept) + parameters} parameters; drop terms or fixed effects"
        )
    return Normal(X, y, kept, parameters, centre)


def independent(gram: Float, before: Float | None = None) -> NDArray[np.int64]:
    """The columns that those before them do not already say, by their cross-products.

    Parameters
    ----------
    gram
        XᵀX.
    before
        Squares of the columns before means or fixed effects were taken out of them.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [1.0, 2.0, 5.0]])
    >>> independent(X.T @ X).tolist()
    [0, 2]
    """
    squares = np.diag(gram).copy()
    whole = squares if before is None else before
    scale = np.sqrt(np.where(squares > 0, squares, 1.0))
    left = gram / np.outer(scale, scale)
    share = np.divide(squares, whole, out=np.zeros_like(squares), where=whole > 0)
    kept = []
    for j in range(len(gram)):
        pivot = left[j, j]
        if pivot > COLLINEAR and share[j] > CONSTANT:
            kept.append(j)
            left = left - np.outer(left[:, j], left[j]) / pivot
    return np.array(kept, dtype=np.int64)


def least_squares(design: Design, *, robust: bool = False) -> Estimates:
    """Fit y = Xb + fixed effects; clustered where the design has clusters."""
    n = normal(design)
    scale = np.sqrt(np.einsum("ij,ij->j", n.X, n.X))
    gram = (n.X.T @ n.X) / np.outer(scale, scale)
    factor = linalg.cho_factor(gram, lower=True)
    b = linalg.cho_solve(factor, n.X.T @ n.y / scale) / scale
    residual = n.y - n.X @ b
    b += linalg.cho_solve(factor, n.X.T @ residual / scale) / scale
    residual = n.y - n.X @ b
    inverse = linalg.cho_solve(factor, np.eye(len(b))) / np.outer(scale, scale)
    free = design.rows - n.rank
    df = float(free)
    if design.clusters is not None:
        covariance, groups = clustered(inverse, n.X * residual[:, None], design.clusters)
        covariance *= (design.rows - 1) / free
        df = float(groups - 1)
    elif robust:
        scores = n.X * residual[:, None]
        covariance = inverse @ (scores.T @ scores) @ inverse * (design.rows / free)
    else:
        covariance = inverse * (residual @ residual / free)
    return in_place(design, n.kept, b, covariance, df, n.centre)


def clustered(bread: Float, scores: Float, clusters: NDArray[np.int64]) -> tuple[Float, int]:
    """The sandwich of scores summed within clusters, and how many clusters there are."""
    groups = int(clusters.max()) + 1
    if groups < 2:
        raise UsageError("errors cannot be clustered in a single cluster; name a column with several values")
    summed = np.column_stack([np.bincount(clusters, weights=s, minlength=groups) for s in scores.T])
    return bread @ (summed.T @ summed) @ bread * (groups / (groups - 1)), groups


def in_place(
    design: Design, kept: NDArray[np.int64], b: Float, covariance: Float, df: float, centre: Float
) -> Estimates:
    """Estimates under the design's names, the intercept where columns are 0; NaN for columns that were left out."""
    k = len(design.names)
    if INTERCEPT in design.names and centre.any():
        back = np.eye(len(kept))
        back[kept == design.names.index(INTERCEPT)] -= centre[kept]
        b, covariance = back @ b, back @ covariance @ back.T
    values, whole = np.full(k, np.nan), np.full((k, k), np.nan)
    values[kept] = b
    whole[np.ix_(kept, kept)] = covariance
    notes = []
    if len(kept) < k:
        lost = [design.names[j] for j in range(k) if j not in set(kept.tolist())]
        some = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        notes.append(f"Not told apart from other terms, or constant: {some}.")
    if design.left_out:
        notes.append(f"{design.left_out:,} rows with missing or infinite values were left out.")
    return Estimates(design.names, values, whole, design.rows, df, tuple(notes))
