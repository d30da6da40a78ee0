"""What moves from one period to the next look like before their own noisy counts are believed.

Nearly everybody stays, or moves by a level or two. Taken cell by cell, a table of a column with itself a period before is
mostly noise, and a fit that knows nothing else draws it towards independence: people who jump anywhere. What is seen well
are sums over all levels: how many move by so many levels, how many stay. They make a law of few numbers,

    moves[now | was] ∝ c[now − was]                       of an ordered column: changes, the same at every level,
    moves[now | was] = s·[now = was] + (1 − s)·m[now]      of any other: stayers and movers,

in which c falls on both sides of the most frequent move (diagonals and quasi-independence: Goodman, "Some multiplicative
models for the analysis of cross-classified data", Proc. Sixth Berkeley Symposium 1, 1972). A fit starts from this law,
with the levels as frequent as they are, and follows the counts of single cells as far as their noise allows.

Privacy: reads noisy tables and public facts; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from dipsmith.estimation.simplex import project
from dipsmith.methods.graph.evidence import FLOOR_SD, Evidence
from dipsmith.methods.graph.junction import Array, Attributes
from dipsmith.schema import Schema
from dipsmith.schema.steps import before

MOST = 1 - 1e-6
"""Nobody is sure to stay."""

RARE_SD = 0.01
"""Moves that noise says nobody makes keep a hundredth of the noise."""

DOUBT = 2.0
"""Moves whose sum is below so many standard deviations of its noise are taken for none."""

TINY = 1e-300


def expected_moves(evidence: Sequence[Evidence], schema: Schema) -> list[tuple[Attributes, Array]]:
    """For every table of a column with itself before: how many times as frequent each move is as by chance."""
    found: list[tuple[Attributes, Array]] = []
    for table in evidence:
        name, *rest = table.attributes
        if rest != [before(name)]:
            continue
        domain, size = schema[name].domain, len(table.values)
        values, sd = table.values[:, :size], sqrt(table.variance)
        moves = _changes(values, sd, domain.missing_code) if domain.ordered else _stays_and_moves(values, sd)
        chance = np.outer(moves.sum(axis=1), moves.sum(axis=0)) / moves.sum()
        # Those who were absent have no move; whence they come says nothing.
        found.append((table.attributes, np.pad(moves / chance, ((0, 0), (0, 1)), constant_values=1.0)))
    return found


def _levels(sums: Array, sd: float) -> Array:
    """How frequent levels are; where noise says none, there may be some."""
    counts = project(sums, max(float(sums.sum()), 1.0)) + FLOOR_SD * sd
    return np.asarray(counts / counts.sum())


def _stays_and_moves(values: Array, sd: float) -> Array:
    """The law of a column without an order."""
    levels = _levels(values.sum(axis=0) + values.sum(axis=1), sd)
    same, whole = float(levels @ levels), max(float(values.sum()), 1.0)
    stay = min(MOST, max(0.0, (float(np.trace(values)) / whole - same) / max(1 - same, 1 - MOST)))
    return np.outer(levels, levels) * (1 - stay) + np.diag(levels) * stay


def _changes(values: Array, sd: float, missing: int | None) -> Array:
    """The law of an ordered column, by how many levels a move goes."""
    size, levels = len(values), _levels(values.sum(axis=0), sd)
    now, was = np.indices(values.shape)
    kinds, last = np.asarray(now - was + size - 1), 2 * size - 1
    if missing is not None:  # never far from and never near to a number
        kinds = np.where(now == missing, last + (was == missing), np.where(was == missing, last + 2, kinds))
    tables: list[Array] = [np.ones_like(values), values, np.broadcast_to(levels, values.shape)]
    cells, sums, spread = (np.bincount(kinds.ravel(), weights=t.ravel()).astype(np.float64) for t in tables)
    rates = sums / np.maximum(spread, TINY)
    near = _falling_from_mode(rates[:last], spread[:last], cells[:last], sd)
    law = np.maximum(np.append(near, rates[last:]), RARE_SD * sd)[kinds]
    return np.asarray(law / law.sum(axis=0) * levels)


def _falling_from_mode(rates: Array, spread: Array, cells: Array, sd: float) -> Array:
    """The nearest rates that rise to the most frequent move and fall after it, without those that noise explains."""
    mode, trust = int(np.argmax(rates * spread)), spread**2 / np.maximum(cells, 1)
    up, down = _fit_falling(rates[mode::-1], trust[mode::-1]), _fit_falling(rates[mode:], trust[mode:])
    found = np.concatenate([up[:0:-1], down])
    # Far moves share one rate. Their sum has noise of its own: what is within it is taken for none.
    _, block = np.unique(found, return_inverse=True)
    noise = sd * np.sqrt(np.bincount(block, weights=cells)) / np.maximum(np.bincount(block, weights=spread), TINY)
    doubt = np.minimum(DOUBT * noise[block], np.maximum(found, 0.0)) / np.maximum(found, TINY)
    return np.asarray(found * (1 - doubt**2))


def _fit_falling(values: Array, weights: Array) -> Array:
    """The nearest numbers that never rise: isotonic regression by its formula of least and largest means.

    >>> _fit_falling(np.array([5.0, 1.0, 3.0, 0.0]), np.ones(4)).tolist()
    [5.0, 2.0, 2.0, 0.0]
    """
    mass, sums = (np.append(0.0, np.cumsum(x)) for x in (weights, weights * values))
    first, last = np.indices((len(values), len(values)))
    between = np.maximum(mass[last + 1] - mass[first], 1e-300)
    means = np.where(last >= first, (sums[last + 1] - sums[first]) / between, -np.inf)
    # Of every start the largest mean that ends at a place or after it; of these the least that starts before it.
    largest = np.maximum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.diagonal(np.minimum.accumulate(largest, axis=0)))
