"""Rows of a binary regression, counted: equal rows are one row with its trials and successes.

A synthetic table of categories has few distinct rows, and a likelihood is a sum over them. Fixed effects
become indicator columns here, because a logistic regression cannot absorb them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.inference.design import Design, centres
from dipsmith.inference.estimates import Float
from dipsmith.inference.least_squares import independent
from dipsmith.inference.matrix import INTERCEPT
from dipsmith.privacy.randomness import generator

MOST_EFFECTS = 2000
"""Indicators of fixed effects that a logistic regression takes at most."""

_SEED = 1984
"""Of the weights by which rows are told apart: any will do."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """Distinct rows with trials and successes.

    Attributes
    ----------
    X
        Distinct rows; the design's kept columns first, less their `centre`, then indicators of fixed effects.
    trials, successes
        Rows that are equal to it, and how many of them have a response of 1.
    kept
        Which columns of the design the first ones are.
    clusters
        The cluster of each, if errors are clustered.
    centre
        What was taken off each column of the design.
    """

    X: Float
    trials: Float
    successes: Float
    kept: NDArray[np.int64]
    clusters: NDArray[np.int64] | None
    centre: Float

    @property
    def rows(self) -> int:
        """Rows in all."""
        return int(self.trials.sum())


def grouped(design: Design) -> Grouped:
    """Count the equal rows of a binary regression."""
    if not design.binary:
        raise UsageError("a logistic regression needs a response of two levels or 0 and 1; use family='ols'")
    codes = [f.astype(np.float64) for f in design.fixed]
    if design.clusters is not None:
        codes.append(design.clusters.astype(np.float64))
    cell, first = distinct(np.column_stack([design.X, *codes]))
    trials = np.bincount(cell).astype(np.float64)
    own = design.X[first]
    extra = [np.ones((len(first), 1)), *_indicators(design, first)] if design.fixed else []
    free = bool(design.fixed) or INTERCEPT in design.names
    centre = centres(own, trials) if free else np.zeros(own.shape[1])
    whole = np.column_stack([own, *extra])
    wide = np.column_stack([own - centre, *extra])
    kept = independent((wide * trials[:, None]).T @ wide, np.einsum("ij,ij,i->j", whole, whole, trials))
    return Grouped(
        X=np.ascontiguousarray(wide[:, kept]),
        trials=trials,
        successes=np.bincount(cell, weights=design.y).astype(np.float64),
        kept=kept[kept < own.shape[1]],
        clusters=None if design.clusters is None else design.clusters[first],
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


def _indicators(design: Design, rows: NDArray[np.int64]) -> list[Float]:
    """One column per group of every fixed effect but its first, for some rows."""
    sizes = [int(f.max()) + 1 for f in design.fixed]
    if sum(sizes) > MOST_EFFECTS:
        raise UsageError(
            f"{sum(sizes):,} fixed effects are more than a logistic regression takes ({MOST_EFFECTS:,}); "
            "use coarser groups, or family='ols' for a linear probability model"
        )
    return [
        (f[rows, None] == np.arange(1, size)).astype(np.float64)
        for f, size in zip(design.fixed, sizes, strict=True)
    ]


def is_intercept(design: Design) -> NDArray[np.bool_]:
    """Which of the design's columns are the intercept."""
    return np.array([name == INTERCEPT for name in design.names], dtype=bool)
