"""Growing a tree: splitting its branches, level by level, while they have enough rows.

Which attribute a node asks is drawn among those that its path has not asked yet (Fan, Wang, Yu and Ma
2003; for differential privacy Jagannathan, Pillaipakkamnatt and Wright 2012). A node is split while its
count is large enough. Counts are public, or noisy and paid for, so that a grown tree is a function of
public facts, coins and what was paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import Generator


@dataclass(frozen=True, eq=False)
class AttributeDraw:
    """How a node picks what it asks among the attributes that its path has not asked.

    `weights` are the columns' chances in proportion. `coins` are public randomness, one number for every node
    that is split; without them the largest weight is taken. Every path asks the columns in `must_ask` before others.
    """

    weights: Floats
    coins: Generator | None
    must_ask: Bools

    def pick(self, used: Bools) -> Ints:
        """What each node asks, given what its path has asked (nodes × columns)."""
        free = ~used
        must: Bools = np.asarray(free & self.must_ask)
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
    """Counts rows given as a `code_table`, each as often as its weight says; moves them down level by level."""

    def __init__(
        self, table: NDArray[np.unsignedinteger], weights: NDArray[np.integer] | NDArray[np.floating] | None = None
    ) -> None:
        self._table, self._weights = table, weights
        self._rows = np.arange(table.shape[1], dtype=np.int32)
        self._place = np.zeros(table.shape[1], dtype=np.int32)  # of each row's node, within its level

    def count(self, tree: TreeShape) -> Floats:
        """The rows at every node of the last level."""
        start, stop = tree.levels[-2:]
        if len(tree.levels) > 2:
            nodes = self._place + np.int32(tree.levels[-3])
            self._rows, nodes = tree.descend(self._table, self._rows, nodes)
            self._place = nodes - np.int32(start)
        weights = None if self._weights is None else self._weights.take(self._rows)
        return np.bincount(self._place, weights, stop - start).astype(np.float64)

    def keep(self, kept: Bools) -> None:
        """Number the level's nodes anew, without those that are gone."""
        here = kept.take(self._place)
        number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        self._rows, self._place = self._rows[here], number.take(self._place[here])


class NoisyCounter:
    """Noisy sizes of branches, bought level by level; once all is spent, an equal share of the branch above."""

    def __init__(self, curator: Curator, rows: float, levels: Sequence[Budget]) -> None:
        self._curator = curator
        self._last = np.array([rows])
        self.unspent = list(levels)

    def count(self, tree: TreeShape) -> Floats:
        """The sizes of the nodes of the last level."""
        if len(tree.levels) == 2:
            return self._last
        start, stop = tree.levels[-2:]
        if self.unspent:
            measured = self._curator.measure([tree], [self.unspent.pop(0)])[0]
            self._last = measured.values[tree.leaf_of[start:stop]].astype(np.float64)
        else:
            up = tree.parent[start:stop]
            self._last = self._last[up - tree.levels[-3]] / tree.fans[tree.asks[up]]
        return self._last

    def keep(self, kept: Bools) -> None:
        """Forget nodes of the last level."""
        self._last = self._last[kept]


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree and the counts of all its nodes that decided its growth."""

    tree: TreeShape
    counts: Floats


def grow(
    root: TreeShape,
    counter: RowCounter | NoisyCounter,
    draw: AttributeDraw,
    n_b: float,
    n_leaf: float | None = None,
    max_depth: int | None = None,
) -> GrownTree:
    """Split nodes level by level while their count is at least `n_b` and their path has something left to ask.

    A node whose split would make a child with fewer rows than `n_leaf`, but more than none, stays a leaf.
    No path asks more than `max_depth` attributes.
    """
    tree, used = root, np.zeros((1, len(root.columns)), dtype=bool)
    counts = counter.count(root)
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
        below = counter.count(grown)
        if n_leaf is not None:
            fans = tree.fans[asked[chosen]]
            thin = np.logical_or.reduceat((below > 0) & (below < n_leaf), np.cumsum(fans) - fans)
            asked[chosen[thin]] = -1
            kept = np.repeat(~thin, fans)
            grown, below = tree.split(asked), below[kept]
            if len(grown.levels) == len(tree.levels):
                break
            counter.keep(kept)
            chosen, free = chosen[~thin], free[~thin]
        # What a path has asked is kept for the nodes that were split; `above` tells each child's.
        used = free
        used[np.arange(len(chosen)), asked[chosen]] = True
        above = np.repeat(np.arange(len(chosen)), tree.fans[asked[chosen]])
        tree, counts = grown, below
        seen.append(counts)
    return GrownTree(tree, np.concatenate(seen))
