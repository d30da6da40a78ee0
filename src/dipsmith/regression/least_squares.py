"""Least squares, ordinary or with a ridge, with or without fixed effects, fast enough to be run fifty times over.

*Ordinary*: normal equations on scaled columns, solved by Cholesky and refined once by the residuals (the corrected
seminormal equations: Björck 1987), so that a million rows cost one matrix product. Columns that others already say
are left out, later ones first, as statistical software does. Variances are iid, robust (HC1: MacKinnon and White
1985) or clustered (Liang and Zeger 1986, with Stata's small-sample factor). The tests hold it to statsmodels.

*Ridge* minimises ‖y − Xb‖² + λ Σ(s·b)², intercept and fixed effects free, s as in `penalty_units`. Without a given λ
it is chosen by generalised cross-validation (Golub, Heath and Wahba 1979): the least n·RSS/(n − e)² with
e = tr[X(XᵀX + Λ)⁻¹Xᵀ] plus the free parameters. The covariance is the Bayesian one, σ²(XᵀX + Λ)⁻¹, whose intervals
cover on average over the coefficients although each estimate is shrunk (Nychka 1988); σ² = RSS/(n − e).

*Fixed effects* are taken out before (Frisch, Waugh and Lovell). A column's projection on them is constant within
every combination of groups that occurs. So rows are first averaged within combinations, and only the averages,
weighted by their rows, are demeaned by pyfixest's alternating projections (Bergé 2018, "Efficient estimation of
maximum likelihood models with multiple fixed-effects"; Gaure 2013). A million rows over 24 agencies and 27
occupations come down to 648.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.regression.estimates import Estimates
from dipsmith.regression.model_frame import ModelFrame, extra, is_binary, number_combinations

COLLINEAR = 1e-10
"""A column of which others leave less than this share of its squares is theirs."""
CONSTANT = 1e-16
"""A column of which its mean, or fixed effects, leave less than this share of its squares is theirs."""
FAR = 1e4
"""A column whose squared mean is this many times its variance is centred first."""
LIGHTEST, HEAVIEST = -8.0, 12.0
"""log₁₀ λ that are compared, in units of the penalised columns."""
TOLERANCE = 1e-12
"""Of the demeaning, against columns of standard deviation 1."""
SWEEPS = 100_000
EXACT_CELLS = 4000
"""Up to so many combinations the rank of three or more fixed effects is computed, not bounded."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Response and independent columns of a frame, less their projection on the fixed effects.

    `kept` says which columns of the frame they are, `parameters` how many the fixed effects have, `centre` what was
    taken off each column of the frame, for the intercept to account for.
    """

    X: Floats
    y: Floats
    kept: Ints
    parameters: int
    centre: Floats


def project(frame: ModelFrame) -> Projection:
    """Take out fixed effects and columns that others already say."""
    X, y, parameters = frame.X, frame.y, 0
    before = np.einsum("ij,ij->j", X, X)
    centre = np.zeros(X.shape[1])
    if frame.fixed:
        columns, parameters = absorb(np.column_stack([y, X]), frame.fixed, frame.weights)
        y, X = columns[:, 0], columns[:, 1:]
    elif frame.is_intercept.any():
        centre = centres(X, np.ones(len(X)) if frame.weights is None else frame.weights)
        X = X - centre if centre.any() else X
    if frame.weights is not None:  # weighted least squares are ordinary ones of rows times the root of their weight
        root = np.sqrt(frame.weights)
        X, y, before = X * root[:, None], y * root, np.einsum("ij,i->j", frame.X**2, frame.weights)
    kept = independent(X.T @ X, before)
    if len(kept) < X.shape[1]:
        X = np.ascontiguousarray(X[:, kept])
    if frame.rows <= len(kept) + parameters:
        raise UsageError(
            f"{frame.rows} rows are too few for {len(kept) + parameters} parameters; drop terms or fixed effects"
        )
    return Projection(X, y, kept, parameters, centre)


def least_squares(frame: ModelFrame, *, robust: bool = False) -> Estimates:
    """Fit y = Xb + fixed effects; clustered where the frame has clusters.

    Weighted rows have robust errors: the linearised variance of a sample drawn with unequal probabilities, with replacement
    (Binder 1983), without strata.
    """
    n = project(frame)
    scale = np.sqrt(np.einsum("ij,ij->j", n.X, n.X))
    factor = scipy.linalg.cho_factor((n.X.T @ n.X) / np.outer(scale, scale), lower=True)
    b = scipy.linalg.cho_solve(factor, n.X.T @ n.y / scale) / scale
    b += scipy.linalg.cho_solve(factor, n.X.T @ (n.y - n.X @ b) / scale) / scale
    residual = n.y - n.X @ b
    inverse = scipy.linalg.cho_solve(factor, np.eye(len(b))) / np.outer(scale, scale)
    df = float(frame.rows - len(n.kept) - n.parameters)
    if frame.clusters is not None:
        covariance, groups = sandwich(inverse, n.X * residual[:, None], frame.clusters)
        covariance, df = covariance * (frame.rows - 1) / df, float(groups - 1)
    elif robust or frame.weights is not None:
        scores = n.X * residual[:, None]
        covariance = inverse @ (scores.T @ scores) @ inverse * (frame.rows / df)
    else:
        covariance = inverse * (residual @ residual / df)
    return place_estimates(frame, n.kept, b, covariance, df, n.centre)


def ridge(frame: ModelFrame, penalty: float | None = None) -> Estimates:
    """Fit with the given λ, or with the one that generalised cross-validation prefers."""
    n = project(frame)
    units = penalty_units(frame.X[:, n.kept], np.ones(frame.rows)) * ~frame.is_intercept[n.kept]
    gram, cross, square = n.X.T @ n.X, n.X.T @ n.y, float(n.y @ n.y)

    def solve(strength: float) -> tuple[Floats, Floats, float]:
        inverse = scipy.linalg.inv(gram + strength * np.diag(units**2))
        return inverse @ cross, inverse, float(np.trace(inverse @ gram)) + n.parameters

    def criterion(log_strength: float) -> float:
        b, _, effective = solve(10.0**log_strength)
        left = square - 2 * float(b @ cross) + float(b @ gram @ b)
        return float(np.log(max(left, 1e-300)) - 2 * np.log(frame.rows - effective))

    if penalty is None:
        grid = np.linspace(LIGHTEST, HEAVIEST, 41)
        best = int(np.argmin([criterion(x) for x in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        penalty = 10.0 ** float(scipy.optimize.minimize_scalar(criterion, bounds=around, method="bounded").x)
    b, inverse, effective = solve(penalty)
    residual = n.y - n.X @ b
    df = frame.rows - effective
    found = place_estimates(frame, n.kept, b, inverse * float(residual @ residual) / df, df, n.centre)
    return replace(found, notes=(*found.notes, f"Ridge penalty λ = {penalty:.3g}."))


def independent(gram: Floats, before: Floats | None = None) -> Ints:
    """The columns that those before them do not already say, by their cross-products.

    `before`: squares of the columns before means or fixed effects were taken out of them.

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
        if left[j, j] > COLLINEAR and share[j] > CONSTANT:
            kept.append(j)
            left = left - np.outer(left[:, j], left[j]) / left[j, j]
    return np.array(kept, dtype=np.int64)


def centres(X: Floats, weights: Floats) -> Floats:
    """The means of the columns that lie far from 0, 0 for others.

    Years and their squares, or amounts in the millions, differ so little against their size that products of whole
    columns would lose what they have to say. With an intercept, or fixed effects, their means may be taken off.

    >>> centres(np.array([[1.0, 2019.0, 3.0], [1.0, 2020.0, -3.0]]), np.ones(2)).tolist()
    [0.0, 2019.5, 0.0]
    """
    found = np.zeros(X.shape[1])
    for j in np.flatnonzero(~is_binary(X)):
        mean = float(np.average(X[:, j], weights=weights))
        spread = float(np.average((X[:, j] - mean) ** 2, weights=weights))
        found[j] = mean if mean**2 > FAR * spread else 0.0
    return found


def penalty_units(X: Floats, weights: Floats) -> Floats:
    """The unit in which a ridge penalises a column: 1 for 0/1 columns, two standard deviations for others."""
    spread = np.average((X - np.average(X, axis=0, weights=weights)) ** 2, axis=0, weights=weights)
    return np.where(is_binary(X), 1.0, 2 * np.sqrt(spread))


def sandwich(bread: Floats, scores: Floats, clusters: Ints) -> tuple[Floats, int]:
    """The sandwich of scores summed within clusters, and how many clusters there are."""
    groups = int(clusters.max()) + 1
    if groups < 2:
        raise UsageError("errors cannot be clustered in a single cluster; name a column with several values")
    summed = np.column_stack([np.bincount(clusters, weights=s, minlength=groups) for s in scores.T])
    return bread @ (summed.T @ summed) @ bread * (groups / (groups - 1)), groups


def place_estimates(
    frame: ModelFrame, kept: Ints, b: Floats, covariance: Floats, df: float, centre: Floats
) -> Estimates:
    """Estimates under the frame's names, the intercept where columns are 0; NaN for columns that were left out."""
    k = len(frame.names)
    if frame.is_intercept.any() and centre.any():
        back = np.eye(len(kept))
        back[frame.is_intercept[kept]] -= centre[kept]
        b, covariance = back @ b, back @ covariance @ back.T
    values, whole = np.full(k, np.nan), np.full((k, k), np.nan)
    values[kept] = b
    whole[np.ix_(kept, kept)] = covariance
    notes = []
    if len(kept) < k:
        lost = [frame.names[j] for j in np.setdiff1d(np.arange(k), kept)]
        some = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        notes.append(f"Not identified beside the other terms, or constant: {some}.")
    if frame.left_out:
        notes.append(f"{frame.left_out:,} rows with missing or infinite values were left out.")
    return Estimates(frame.names, values, whole, frame.rows, df, tuple(notes))


def absorb(columns: Floats, fixed: Sequence[Ints], weights: Floats | None = None) -> tuple[Floats, int]:
    """Take fixed effects out of columns; and how many parameters these were.

    `fixed` has the group of each row, for every fixed effect; rows count by their weights, if they have any.

    >>> absorb(np.array([[1.0], [3.0], [5.0]]), (np.array([0, 0, 1]),))[0].ravel().tolist()
    [-1.0, 1.0, 0.0]
    """
    cell = number_combinations(fixed)
    first = np.empty(int(cell.max()) + 1, dtype=np.int64)
    first[cell] = np.arange(len(cell))
    groups = np.column_stack([f[first] for f in fixed])
    rows = np.bincount(cell, weights=weights).astype(np.float64)
    counted = columns if weights is None else columns * weights[:, None]
    averages = np.column_stack([np.bincount(cell, weights=c) / rows for c in counted.T])
    effects = averages - _demean(averages, groups, rows)
    return columns - effects[cell], _rank(groups)


def _demean(averages: Floats, groups: Ints, rows: Floats) -> Floats:
    if groups.shape[1] == 1:
        # One fixed effect: every combination is a group, and its average is the effect.
        return np.zeros_like(averages)
    centre = np.average(averages, axis=0, weights=rows)
    scale = np.sqrt(np.average((averages - centre) ** 2, axis=0, weights=rows))
    scale[scale == 0] = 1.0
    scaled = np.ascontiguousarray((averages - centre) / scale)
    demean = extra("pyfixest.core.demean").demean
    found, converged = demean(scaled, groups.astype(np.uint64), rows, tol=TOLERANCE, maxiter=SWEEPS)
    if not converged:
        raise UsageError("the fixed effects are not identified; use fewer of them")
    return np.asarray(found * scale)


def _rank(groups: Ints) -> int:
    """How many parameters the fixed effects are: groups, less those that others imply."""
    sizes = [int(g.max()) + 1 for g in groups.T]
    if len(sizes) == 2:
        # Two effects are told apart up to one constant in every connected part of their graph.
        edges = (np.ones(len(groups)), (groups[:, 0], sizes[0] + groups[:, 1]))
        graph = scipy.sparse.coo_array(edges, shape=(sum(sizes), sum(sizes)))
        return sum(sizes) - int(scipy.sparse.csgraph.connected_components(graph, directed=False)[0])
    if len(sizes) > 2 and len(groups) <= EXACT_CELLS and sum(sizes) <= EXACT_CELLS:
        dummies = np.concatenate([np.eye(size)[g] for g, size in zip(groups.T, sizes, strict=True)], axis=1)
        return int(np.linalg.matrix_rank(dummies))
    return sum(sizes) - len(sizes) + 1
