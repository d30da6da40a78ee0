"""Counts of a tree that can be counts: non-negative, whole, and children that sum to their parent.

Estimates of a tree (`tree.gls`) are made into counts from the root down: the children of a node are projected onto the
node's own count (`project_down`) and rounded within it (`round_top_down`). What is known exactly is kept.

Privacy: reads noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.simplex import any_within, as_finite, as_mask, project_within, round_to, round_within
from dipsmith.estimation.tree import CONFLICT_TOLERANCE, Tree, upward


def project_down(tree: Tree, x: ArrayLike, variances: ArrayLike) -> Floats:
    """Make a consistent tree non-negative from the root down, and keep it consistent.

    The children of a node are projected onto the node's final value with the variances that `gls`
    gave them; `x` and `variances` are its estimates and what it was given. Exactly known nodes keep their value:
    every node stays at or above the sum of the exactly known counts below it.

    >>> from dipsmith.estimation.tree import gls
    >>> tree, noise = Tree([-1, 0, 0, 0]), [0, 1, 1, 0]
    >>> x = gls(tree, [10, -3, 13, 2], noise)
    >>> x.tolist(), project_down(tree, x, noise).tolist()
    ([10.0, -4.0, 12.0, 2.0], [10.0, 0.0, 8.0, 2.0])
    """
    up = upward(tree, variances)
    estimate = _estimates(tree, x)
    floor = _known_below(tree, estimate, np.asarray(variances, dtype=np.float64) == 0)
    spread = np.where(up.free > 0, np.inf, up.own)
    movable = spread > 0
    out = np.where(movable, np.maximum(estimate, floor), floor)
    for family in tree.families():
        children, owner = family.children, family.owner
        room = np.maximum(out[family.nodes] - family.sums(floor[children]), 0.0)
        room[~any_within(movable[children], owner, room.size)] = 0.0
        beyond = estimate[children] - floor[children]
        out[children] = floor[children] + project_within(beyond, owner, room, spread[children], movable[children])
    return out


def _known_below(tree: Tree, estimate: Floats, exact: Bools) -> Floats:
    """Sum the exactly known counts at or below each node."""
    floor = np.where(exact, estimate, 0.0)
    if (floor < -CONFLICT_TOLERANCE).any():
        raise UsageError("Exactly known counts: expected none below 0; correct the public totals")
    np.maximum(floor, 0.0, out=floor)
    for family in reversed(tree.families()):
        below, own, known = family.sums(floor[family.children]), floor[family.nodes], exact[family.nodes]
        if (known & (below - own > CONFLICT_TOLERANCE * np.maximum(1.0, own))).any():
            raise UsageError(
                "Exactly known counts contradict each other: parts exceed their total; "
                "correct the public totals or the impossible cells"
            )
        floor[family.nodes] = np.where(known, own, below)
    return floor


def round_top_down(tree: Tree, x: ArrayLike, total: int | None = None, possible: Bools | None = None) -> Ints:
    """Round a non-negative, consistent tree, such as that of `project_down`, to whole numbers that are consistent too.

    The roots sum to `total`, by default the nearest whole number to their sum. `possible` is False for leaves that
    must be 0 (inner nodes are ignored); it matters only where `x` is 0 everywhere although `total` is not.

    >>> round_top_down(Tree([-1, 0, 0, 1, 1]), [3.6, 2.5, 1.1, 1.25, 1.25]).tolist()
    [4, 3, 1, 2, 1]
    """
    estimate = _estimates(tree, x)
    allowed = as_mask(estimate, possible).copy()
    for family in reversed(tree.families()):
        allowed[family.nodes] = np.logical_or.reduceat(allowed[family.children], family.starts)
    out = np.zeros(tree.size, dtype=np.int64)
    roots = slice(0, tree.layers[1])
    top = np.maximum(estimate[roots], 0.0)
    out[roots] = round_to(top, round(float(top.sum())) if total is None else total, allowed[roots])
    for family in tree.families():
        children = family.children
        out[children] = round_within(estimate[children], family.owner, out[family.nodes], allowed[children])
    return out


def _estimates(tree: Tree, x: ArrayLike) -> Floats:
    estimate = as_finite(x)
    if estimate.shape != (tree.size,):
        raise UsageError(f"Estimates of a tree: expected {tree.size} numbers, got {estimate.size}")
    return estimate
