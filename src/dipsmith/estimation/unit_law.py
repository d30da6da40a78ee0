"""The law of a label that all rows of a unit share, from a labeller's law of each of its rows.

A labeller knows p_t(l), the law of the label given the public columns of row t. Somebody who has one sex in all years needs
one law for all of their rows. The law given the whole career, were it known, would keep every table: averaged over the
rows of any cell x it is p(l | x) again. So what is taken is the law that does this for the tables that people look at:

    q_u(l) ∝ m_u(l) · exp(mean over the rows t of u of Σ_j λ_j(x_jt, l)),

where m_u is the mean of p_t over the unit's rows, and the λ_j are found by going round the tables j, each time adding the
logarithm of what a cell lacks (Deming and Stephan's proportional fitting, where a unit lies in as many cells as it has
rows). At its end Σ_rows q_u(l) = Σ_rows p_t(l) in every cell of every table.

Multiplying the rows' laws, Π_t p_t(l)^w, was tried: w = 1 takes the same evidence for new each year and doubles the error of
yearly tables; the w that keeps the mean logarithm of p is 1/T, which is as good as the mean and fails where a row's law has
a zero (``docs/decisions/0014-careers.md``).

Privacy
-------
Reads a model's probabilities and public columns: post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dipsmith.privacy.randomness import Generator

Float = NDArray[np.floating]
Ints = NDArray[np.int64]

ROUNDS = 8
"""Rounds of the tables: beyond, what cells lack is a tenth of what drawing adds, or less."""

LEAST = 0.5
"""Rows that every cell is taken to have besides, in all its labels together: a cell of one row is not followed wholly."""

TINY = 1e-30

GOLDEN = (5**0.5 - 1) / 2


def unit_law(p: Float, starts: Ints, cells: Sequence[Ints], barred: NDArray[np.bool_] | None = None) -> Float:
    """The law of every unit's label: units × labels.

    Parameters
    ----------
    p
        The law of every row's label, rows × labels; the rows of a unit stand together.
    starts
        Where each unit's rows begin.
    cells
        Of each table that is kept: the cell of every row.
    barred
        Labels that a row cannot have; a unit whose every label is barred in some row has its mean law.

    >>> p = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    >>> unit_law(p, np.array([0, 2]), []).round(2).tolist()
    [[0.7, 0.3], [0.2, 0.8]]
    """
    if not len(p):
        return np.zeros((0, p.shape[1]))
    rows, labels = p.shape
    many = np.diff(np.append(starts, rows))
    z = np.log(np.maximum(np.add.reduceat(p, starts, dtype=np.float64) / many[:, None], TINY))
    if barred is not None:
        never = np.logical_or.reduceat(barred, starts)
        z[never & ~never.all(axis=1, keepdims=True)] = -np.inf
    goals = [_sums(cell, p) for cell in cells]
    least = LEAST / labels
    for _ in range(ROUNDS):
        for cell, goal in zip(cells, goals, strict=True):
            now = _sums(cell, np.repeat(_softmax(z), many, axis=0))
            lacking = np.log((goal + least) / (now + least))
            z += np.add.reduceat(lacking[cell], starts) / many[:, None]
    return _softmax(z)


def draw_labels(p: Float, uniforms: Float) -> Ints:
    """One label for every row of probabilities; a label that cannot be is not reached by rounding."""
    reached = np.cumsum(p, axis=1, dtype=np.float64)
    aim = np.minimum(uniforms * reached[:, -1], np.nextafter(reached[:, -1], 0))
    return np.asarray((reached[:, :-1] <= aim[:, None]).sum(axis=1), np.int64)


def even_numbers(random: Generator, many: int) -> Float:
    """Uniform numbers that fill the interval evenly, one after the other (Kronecker's sequence from a random start).

    Units that follow one another are alike, so that labels drawn by them come nearer to their law than by chance.
    """
    found = np.arange(many, dtype=np.float64)
    found *= GOLDEN
    found += random.random()
    found -= np.floor(found)
    return np.asarray(found)


def _sums(cell: Ints, p: Float) -> Float:
    """The sum of every label's probability over the rows of each cell: cells × labels."""
    size = int(cell.max(initial=-1)) + 1
    return np.column_stack([np.bincount(cell, weights=column, minlength=size) for column in p.T])


def _softmax(z: Float) -> Float:
    w = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(w / w.sum(axis=1, keepdims=True))
