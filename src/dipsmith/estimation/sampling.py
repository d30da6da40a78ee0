"""Drawing rows from tables of weights: post-processing.

Both functions draw systematically: a cell with an expected count of e is drawn ⌊e⌋ or ⌈e⌉ times, e on
average, so that drawing adds less than one row of error per cell to what the noise did. What is drawn
is put in random order, within its group where there are groups: without that, columns that are
independent given the group would come out correlated, because every one of them would list its cells
in the same order.

Systematic sampling: Madow, Annals of Mathematical Statistics 20 (1949).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.privacy.randomness import Generator

GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, are spread more evenly than random numbers (Weyl)."""


def sample_cells(weights: Floats, n: int, generator: Generator) -> Ints:
    """Draw `n` cells in proportion to their weights, in random order, with as little variance as can be.

    Weights that are all zero count as equal.

    >>> from dipsmith.privacy.randomness import generator
    >>> np.bincount(sample_cells(np.array([1.0, 0.0, 3.0]), 8, generator())).tolist()
    [2, 0, 6]
    """
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    _refuse_bad(weights)
    reached = np.cumsum(weights, dtype=np.float64)
    if reached[-1] <= 0:
        reached = np.arange(1, weights.size + 1, dtype=np.float64)
    points = (np.arange(n) + generator.random()) * (reached[-1] / n)
    # The last point may round up to the very end, past cells of weight 0 that close the table.
    last = int(np.searchsorted(reached, reached[-1], side="left"))
    cells = np.minimum(np.searchsorted(reached, points, side="right"), last)
    return generator.permutation(cells).astype(np.int64, copy=False)


def sample_within(weights: Floats, groups: NDArray[np.integer], generator: Generator) -> Ints:
    """Draw a cell for every row, from the weights of the row's group.

    `weights` has one line per group; a line of zeros counts as equal weights. Within a group the counts of cells are
    within one of what is expected; groups with the same weights round differently, so that the errors do not add up.
    The cells are in random order.

    >>> from dipsmith.privacy.randomness import generator
    >>> groups = np.array([0, 1, 0, 1, 0, 0])
    >>> cells = sample_within(np.array([[1.0, 1.0], [0.0, 5.0]]), groups, generator())
    >>> np.bincount(cells[groups == 0]).tolist(), cells[groups == 1].tolist()
    ([2, 2], [1, 1])
    """
    rows = groups.size
    if rows == 0:
        return np.zeros(0, dtype=np.int64)
    _refuse_bad(weights)
    lines, width = weights.shape
    reached = np.cumsum(weights, axis=1, dtype=np.float64)
    empty = reached[:, -1] <= 0
    if empty.any():
        reached[empty] = np.arange(1, width + 1)
    reached /= reached[:, -1:]
    last = np.argmax(reached >= 1.0, axis=1)
    order = generator.permutation(rows)
    order = order[np.argsort(groups[order], kind="stable")]
    sizes = np.bincount(groups, minlength=lines)
    line = np.repeat(np.arange(lines), sizes)
    place = np.arange(rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # In a random order: two draws by the same small groups would otherwise go hand in hand.
    offset = (generator.random() + GOLDEN * generator.permutation(lines)) % 1.0
    points = line + (place + offset[line]) / sizes[line]
    reached += np.arange(lines)[:, None]
    drawn = np.searchsorted(reached.ravel(), points, side="right") - line * width
    cells = np.empty(rows, dtype=np.int64)
    cells[order] = np.minimum(drawn, last[line])
    return cells


def _refuse_bad(weights: Floats) -> None:
    if weights.size == 0 or not np.isfinite(weights).all() or (weights < 0).any():
        raise UsageError("weights must be finite, non-negative and at least one")
