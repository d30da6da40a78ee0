"""Drawing rows from tables of weights: post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError


def sample_cells(
    weights: NDArray[np.float64], n: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw `n` cells in proportion to their weights, in random order, with as little variance as can be.

    Systematic sampling: a cell with expected count e is drawn ⌊e⌋ or ⌈e⌉ times, e on average, so that
    the drawing adds less than one row of error per cell to what the noise did. Weights that are all
    zero count as equal.
    """
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    if weights.size == 0 or not np.isfinite(weights).all() or (weights < 0).any():
        raise UsageError("weights must be finite, non-negative and at least one")
    reached = np.cumsum(weights, dtype=np.float64)
    if reached[-1] <= 0:
        reached = np.arange(1, weights.size + 1, dtype=np.float64)
    points = (np.arange(n) + generator.random()) * (reached[-1] / n)
    # The last point may round up to the very end, past cells of weight 0 that close the table.
    last = int(np.searchsorted(reached, reached[-1], side="left"))
    cells = np.minimum(np.searchsorted(reached, points, side="right"), last)
    return generator.permutation(cells).astype(np.int64, copy=False)
