"""Ridge regression: least squares with a penalty on the squares of the coefficients.

Minimises ‖y − Xb‖² + λ Σ(s·b)², intercept and fixed effects free, s as in
`dipsmith.inference.logistic.fair`. Without a given λ it is chosen by generalised cross-validation (Golub,
Heath and Wahba 1979): the least n·RSS/(n − e)² with e = tr[X(XᵀX + Λ)⁻¹Xᵀ] plus the free parameters. The
covariance is the Bayesian one, σ²(XᵀX + Λ)⁻¹, whose intervals cover on average over the coefficients
although each estimate is shrunk (Nychka 1988); σ² = RSS/(n − e).
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from dipsmith.inference.design import Design
from dipsmith.inference.estimates import Estimates, Float
from dipsmith.inference.grouped import is_intercept
from dipsmith.inference.least_squares import in_place, normal
from dipsmith.inference.logistic import fair

LIGHTEST, HEAVIEST = -8.0, 12.0
"""log₁₀ λ that are compared, in units of the penalised columns."""


def ridge(design: Design, penalty: float | None = None) -> Estimates:
    """Fit with the given λ, or with the one that generalised cross-validation prefers."""
    n = normal(design)
    free = is_intercept(design)[n.kept]
    weights = fair(design.X[:, n.kept], np.ones(design.rows)) * ~free
    gram, cross, square = n.X.T @ n.X, n.X.T @ n.y, float(n.y @ n.y)

    def fitted(strength: float) -> tuple[Float, Float, float, float]:
        inverse = linalg.inv(gram + strength * np.diag(weights**2))
        b = inverse @ cross
        effective = float(np.trace(inverse @ gram)) + n.parameters
        left = max(square - 2 * float(b @ cross) + float(b @ gram @ b), 0.0)
        return b, inverse, left, effective

    def criterion(log_strength: float) -> float:
        _, _, left, effective = fitted(10.0**log_strength)
        return float(np.log(max(left, 1e-300)) - 2 * np.log(design.rows - effective))

    if penalty is None:
        grid = np.linspace(LIGHTEST, HEAVIEST, 41)
        best = int(np.argmin([criterion(x) for x in grid]))
        around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        penalty = 10.0 ** float(optimize.minimize_scalar(criterion, bounds=around, method="bounded").x)
    b, inverse, _, effective = fitted(penalty)
    residual = n.y - n.X @ b
    df = design.rows - effective
    estimates = in_place(design, n.kept, b, inverse * float(residual @ residual) / df, df, n.centre)
    note = f"Ridge penalty λ = {penalty:.3g}."
    return Estimates(
        estimates.names, estimates.values, estimates.covariance, design.rows, df, (*estimates.notes, note)
    )
