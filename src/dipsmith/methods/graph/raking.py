"""Counts of many places made to fit: raking to noisy tables, within totals that must be met, and rounding.

A block of places that lie in one larger place shares out the larger place's counts. Given a first guess h, the counts
x of places u and combinations z of columns minimise

    KL(x ‖ h)  +  Σ_q Σ_u ‖x_uq − y_uq‖² / (2 λ_uq),      λ = σ² / (1 + τ²·h_uq),

subject to Σ_u x_u = the larger place's counts and Σ_z x_u = the place's total. A count is expected to lie about its guess
with variance h + τ²·h², by chance and because places differ; how much they differ, τ², is told by the noisy tables
themselves (moments, one τ² for each table of a level). So where noise outweighs what places differ by, they are drawn
towards the larger place, and else follow their own counts. It is solved one table after the other, each in closed form: the dual of one table's cells separates, and a cell
of current mass m moves to λ·ω(log(m/λ) + a) with Wright's function ω, a = y/λ − θ. With λ → 0 this is the proportional
fitting of Deming and Stephan (1940).

Whole numbers are found combination by combination: each combination's count is shared out among the places of a block by
largest remainders, errors of earlier combinations in the same cells of the tables being made good; at last totals are
met by exchanges between places.

Privacy: reads noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import scipy

from dipsmith.arrays import Floats, Ints
from dipsmith.estimation.simplex import round_within

LEAST = 1e-6
"""The least λ, where nothing is noisy."""

ROUNDS, ENOUGH = 100, 1e-3
"""Rounds at most, and the largest change of a count in a round at which raking ends."""


@dataclass(frozen=True, eq=False)
class RakingGoal:
    """A noisy table of every place: which axes of the counts it has, its values, and the noise on one of them."""

    axes: tuple[int, ...]
    values: Floats  # places × cells
    sd: Floats  # of every place

    def sums(self, counts: Floats, shape: tuple[int, ...]) -> Floats:
        """The table of counts, places × cells."""
        others = tuple(1 + i for i in range(len(shape)) if i not in self.axes)
        return np.asarray(counts.reshape(-1, *shape).sum(axis=others).reshape(len(counts), -1))

    def spread(self, cells: Floats, shape: tuple[int, ...]) -> Floats:
        """Numbers of cells as numbers of all combinations, to be broadcast."""
        return cells.reshape(-1, *(n if i in self.axes else 1 for i, n in enumerate(shape)))

    def penalty(self, guess: Floats) -> Floats:
        """λ of every place and cell: how far the noise keeps counts from following the table."""
        noise = (self.sd**2)[:, None]
        apart = ((self.values - guess) ** 2 - noise - guess).sum() / max(float((guess**2).sum()), 1.0)
        return np.maximum(noise / (1 + max(float(apart), 0.0) * guess), LEAST)

    def cells(self, shape: tuple[int, ...]) -> Ints:
        """The cell of every combination."""
        places = np.unravel_index(np.arange(prod(shape)), shape)
        sizes = [shape[i] for i in self.axes]
        return np.ravel_multi_index([places[i] for i in self.axes], sizes) if self.axes else np.zeros(prod(shape), int)


def rake(
    guess: Floats,
    block: Ints,
    above: Floats | None,
    totals: Floats,
    targets: Sequence[RakingGoal],
    shape: tuple[int, ...],
) -> Floats:
    """Counts of places × combinations that fit the targets, share out `above` within blocks and have their totals.

    `guess` is positive wherever `above` is; `block` has each place's row in `above`, ascending. Without `above` every place
    stands by itself.
    """
    x = guess.copy()
    thetas = [np.zeros_like(t.values) for t in targets]
    penalties = [target.penalty(target.sums(guess, shape)) for target in targets]
    starts = np.searchsorted(block, np.arange(block[-1] + 1))
    for _ in range(ROUNDS):
        before = x.copy()
        for target, theta, penalty in zip(targets, thetas, penalties, strict=True):
            mass = target.sums(x, shape)
            there = mass > 0
            start = target.values / penalty - theta
            wanted = np.zeros_like(mass)
            wanted[there] = scipy.special.wrightomega(np.log((mass / penalty)[there]) + start[there])
            step = np.where(there, start - wanted, 0.0)
            theta += step
            factor = np.divide(penalty * wanted, mass, out=np.ones_like(mass), where=there)
            x = (x.reshape(-1, *shape) * target.spread(factor, shape)).reshape(x.shape)
        x *= _ratio(totals, x.sum(axis=1))[:, None]
        if above is not None:
            x *= _ratio(above, np.add.reduceat(x, starts, axis=0))[block]
        if np.abs(x - before).max(initial=0.0) < ENOUGH:
            break
    return x


def _ratio(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)


def round_places(
    x: Floats, block: Ints, above: Ints, totals: Ints, targets: Sequence[RakingGoal], shape: tuple[int, ...]
) -> Ints:
    """Whole counts that share out `above` within blocks exactly and have their totals exactly, near to `x`."""
    cells = [t.cells(shape) for t in targets]
    errors = [np.zeros((len(x), int(c.max(initial=0)) + 1)) for c in cells]
    sums, whole = np.zeros(len(x)), np.zeros(x.shape, dtype=np.int64)
    for z in np.argsort(-x.sum(axis=0), kind="stable"):
        column, goal = x[:, z], above[:, z]
        if not goal.any():
            continue
        owed = (sums + sum(e[:, c[z]] for e, c in zip(errors, cells, strict=True))) / (1 + len(cells))
        # Errors are made good by at most one: counts stay near their own values.
        wish = np.floor(column) + np.clip(column - np.floor(column) - owed, 0.0, 1.0)
        whole[:, z] = _share_out(wish, np.floor(column), block, goal)
        off = whole[:, z] - column
        sums += off
        for e, c in zip(errors, cells, strict=True):
            e[:, c[z]] += off
    _exchange(whole, block, totals, errors, cells)
    return whole


def _share_out(wish: Floats, least: Floats, block: Ints, goal: Ints) -> Ints:
    """Whole numbers with each block's sum: the floor of everybody's count, and one more for the largest wishes."""
    base = least.astype(np.int64)
    short = goal - np.bincount(block, base, len(goal)).astype(np.int64)
    if (short < 0).any() or (short > np.bincount(block, minlength=len(goal))).any():
        return round_within(wish, block, goal)
    order = np.lexsort((least - wish, block))
    rank = np.arange(len(block)) - np.searchsorted(block, np.arange(len(goal)))[block]
    more = np.zeros(len(block), dtype=np.int64)
    more[order] = rank < short[block]
    return np.asarray(base + more)


def _exchange(whole: Ints, block: Ints, totals: Ints, errors: Sequence[Floats], cells: Sequence[Ints]) -> None:
    """Move rows from places of a block that have too many to those that have too few, where it errs least."""
    excess = whole.sum(axis=1) - totals
    for number in np.unique(block[excess > 0]):
        inside = np.arange(*np.searchsorted(block, [number, number + 1]))
        rich = [int(u) for u in inside for _ in range(max(0, int(excess[u])))]
        poor = [int(u) for u in inside for _ in range(max(0, int(-excess[u])))]
        for a, b in zip(rich, poor, strict=True):
            cost = np.zeros(whole.shape[1])
            for e, c in zip(errors, cells, strict=True):
                cost += (e[b] - e[a])[c]
            z = int(np.argmin(np.where(whole[a] > 0, cost, np.inf)))
            whole[a, z] -= 1
            whole[b, z] += 1
            for e, c in zip(errors, cells, strict=True):
                e[a, c[z]] -= 1
                e[b, c[z]] += 1
