"""Growth: splitting the branches of a tree, level by level, while they have enough rows.

Which attribute a node asks is drawn among those that its path has not asked yet (Fan, Wang, Yu and Ma
2003; for differential privacy Jagannathan, Pillaipakkamnatt and Wright 2012). A node is split while the
count that the grower is given for it is large enough. Counts come from a `Counter`: they are public, or
noisy and paid for, so that a grown tree is a function of public facts, coins and what was paid for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.methods.forest.tree_shape import Branching
from dipsmith.privacy.randomness import Generator

Counter = Callable[[Branching], NDArray[np.floating] | NDArray[np.integer]]
"""Gives the counts of the nodes of a tree's last level: public ones, or noisy ones that were paid for."""


@dataclass(frozen=True, eq=False)
class Draw:
    """How a node picks what it asks among the attributes that its path has not asked.

    Attributes
    ----------
    weights
        For each column its chance in proportion; larger comes earlier.
    coins
        Public randomness, one number for every node that is split; None: always the largest weight.
    forced
        Columns that every path asks before any other.
    """

    weights: NDArray[np.float64]
    coins: Generator | None
    forced: NDArray[np.bool_]

    def pick(self, used: NDArray[np.bool_]) -> NDArray[np.int64]:
        """What each node asks, given what its path has asked (nodes × columns)."""
        free = ~used
        must: NDArray[np.bool_] = np.asarray(free & self.forced)
        free = np.where(must.any(axis=1, keepdims=True), must, free)
        weight = np.where(free, self.weights, 0.0)
        if self.coins is None:
            return np.asarray(weight.argmax(axis=1), dtype=np.int64)
        reached = np.cumsum(weight, axis=1)
        at = self.coins.random(len(used)) * reached[:, -1]
        # The last free column also takes what rounding leaves above it.
        last = weight.shape[1] - 1 - (weight[:, ::-1] > 0).argmax(axis=1)
        return np.asarray(np.minimum((reached <= at[:, None]).sum(axis=1), last), dtype=np.int64)


class RowCounter:
    """Counts public rows at the nodes of a growing tree, moving each row down once per level.

    Parameters
    ----------
    table
        The codes of the columns that the tree may ask (`code_table`).
    weights
        How often each row occurs; None when once.
    """

    def __init__(
        self,
        table: NDArray[np.unsignedinteger],
        weights: NDArray[np.integer] | NDArray[np.floating] | None = None,
    ) -> None:
        self._table = table
        self._weights = weights
        self._above = (np.arange(table.shape[1], dtype=np.int32), np.zeros(table.shape[1], dtype=np.int32))
        self._here = self._above
        self._seen: Branching | None = None

    def __call__(self, tree: Branching) -> NDArray[np.floating] | NDArray[np.integer]:
        """Count the rows at every node of the last level; to be asked level by level."""
        if len(tree.levels) == 3:
            self._here = tree.enter(self._table)
        elif len(tree.levels) > 3:
            self._above = self._standing(tree)
            self._here = tree.descend(self._table, *self._above)
        self._seen = tree
        rows, nodes = self._here
        start, stop = tree.levels[-2:]
        weights = None if self._weights is None else self._weights.take(rows)
        return np.bincount(nodes - np.int32(start), weights, stop - start)

    def _standing(self, tree: Branching) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Where rows stand one level above the last: nodes may have been numbered anew since they moved."""
        assert self._seen is not None
        level = slice(tree.levels[-4], tree.levels[-3])
        if np.array_equal(self._seen.asks[level], tree.asks[level]):
            return self._here
        return tree.enter(self._table) if level.start == 0 else tree.descend(self._table, *self._above)


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree and the counts of all its nodes that decided its growth."""

    tree: Branching
    counts: NDArray[np.float64]


def grow(
    root: Branching,
    counter: Counter,
    draw: Draw,
    n_b: float,
    n_leaf: float | None = None,
    max_depth: int | None = None,
) -> Grown:
    """Split nodes level by level while their count is at least `n_b`.

    Parameters
    ----------
    root
        A tree of one leaf.
    counter
        Gives the counts that decide, level by level.
    draw
        Picks attributes.
    n_b
        A node is split while its count is at least this and its path has something left to ask.
    n_leaf
        A node whose split would make a child with fewer rows than this, but more than none, stays a leaf.
    max_depth
        The most attributes on a path.
    """
    tree, used = root, np.zeros((1, len(root.columns)), dtype=bool)
    counts: NDArray[np.float64] = np.asarray(counter(root), dtype=np.float64)
    seen, above = [counts], np.zeros(1, dtype=np.int64)
    deepest = len(root.columns) if max_depth is None else min(max_depth, len(root.columns))
    for _ in range(deepest):
        chosen = np.flatnonzero(counts >= n_b)
        if not len(chosen):
            break
        free = used[above[chosen]]
        asked = np.full(len(counts), -1, dtype=np.int64)
        asked[chosen] = draw.pick(free)
        grown = tree.split(asked)
        below = np.asarray(counter(grown), dtype=np.float64)
        if n_leaf is not None:
            fans = tree.fans[asked[chosen]]
            thin = np.logical_or.reduceat((below > 0) & (below < n_leaf), np.cumsum(fans) - fans)
            asked[chosen[thin]] = -1
            grown, below = tree.split(asked), below[np.repeat(~thin, fans)]
            if len(grown.levels) == len(tree.levels):
                break
            chosen, free = chosen[~thin], free[~thin]
        # What a path has asked is kept for the nodes that were split; `above` tells each child's.
        used = free
        used[np.arange(len(chosen)), asked[chosen]] = True
        above = np.repeat(np.arange(len(chosen)), tree.fans[asked[chosen]])
        tree, counts = grown, below
        seen.append(counts)
    return Grown(tree, np.concatenate(seen))
