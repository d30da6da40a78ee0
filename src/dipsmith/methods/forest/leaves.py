"""Leaves: what was measured in the leaves of a tree, what can be read off without a model, and the tree as people see it.

Privacy: reads noisy counts and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.methods.model_tree import ModelTree, TreeNode
from dipsmith.schema import Marginal


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """What was measured at the leaves of a tree.

    `values` are noisy counts, leaves × labels, each with noise of the given variance. `sizes` are rows in each
    leaf: exact and `public`, so that the counts of a leaf are known to add up to its size, or an estimate. `cells`
    are the numbers of the leaves that were measured, ascending; None when all were. The others are empty.
    """

    tree: TreeShape
    values: NDArray[np.floating]
    variance: float
    sizes: Floats
    public: bool
    cells: Ints | None = None

    def spread(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """What is known of each measured leaf as an array over all leaves, 0 where nothing was measured."""
        if self.cells is None:
            return x
        full = np.zeros((self.tree.size, *x.shape[1:]))
        full[self.cells] = x
        return full

    @property
    def labels(self) -> int:
        """Number of labels."""
        return int(self.values.shape[1])

    @cached_property
    def _sums(self) -> Floats:
        # A product with ones is several times as fast as a sum over so short an axis.
        return np.asarray(self.values @ np.ones(self.labels, dtype=self.values.dtype), dtype=np.float64)

    @cached_property
    def _excess(self) -> Floats:
        """By how much each count of a leaf must fall so that they add up to its public size."""
        return np.asarray((self._sums - self.sizes) / self.labels if self.public else 0.0 * self.sizes)

    @property
    def totals(self) -> tuple[Floats, float]:
        """The counts summed over all leaves, and the variance of each sum."""
        left = self._left_of_noise * self.variance
        noisy = int((self.sizes > 0).sum()) if self.public else len(self.sizes)
        return self.values.sum(axis=0, dtype=np.float64) - self._excess.sum(), left * noisy

    @property
    def _left_of_noise(self) -> float:
        # With two labels a single count was drawn: the other is the size minus it.
        return 1.0 - 1.0 / self.labels if self.public and self.labels > 2 else 1.0

    def place_among(self, cells: NDArray[np.integer], labels: list[int], places: Ints, size: int) -> WorkingCounts:
        """Some leaves and labels at their places among `size` nodes; other nodes get one row that says nothing."""
        here: NDArray[np.integer] | slice = cells
        if self.cells is not None:
            here = slice(None) if len(cells) == len(self.cells) else np.searchsorted(self.cells, cells)
        values, excess = np.zeros((len(labels), size), dtype=np.float32), self._excess[here].astype(np.float32)
        for row, label in zip(values, labels, strict=True):
            row[places] = self.values[here, label].astype(np.float32) - excess
        sizes = np.ones(size, dtype=np.float32)
        sizes[places] = self.sizes[here]
        if self.public:
            return WorkingCounts(values, sizes, sizes, self.variance * self._left_of_noise, None)
        sums = np.ones(size, dtype=np.float32)
        sums[places] = self._sums[here]
        return WorkingCounts(values, sizes, sums, self.variance, self.labels)


@dataclass(frozen=True, eq=False)
class WorkingCounts:
    """Counts of some nodes, labels × nodes, with what they must be compared to.

    `values` are noisy counts with noise of the given variance, `sizes` the rows in each node, exact or estimated,
    and `sums` what the counts of a node add up to: its size, or the sum of its noisy counts. `labels` is the number
    of labels whose noise is in `sums`; None where these are exact.
    """

    values: NDArray[np.float32]
    sizes: NDArray[np.float32]
    sums: NDArray[np.float32]
    variance: float
    labels: int | None

    def part(self, here: slice) -> WorkingCounts:
        """Some of the nodes."""
        return replace(self, values=self.values[:, here], sizes=self.sizes[here], sums=self.sums[here])

    def apart(self, p: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far the counts are from what `p` predicts."""
        return np.asarray(self.values - self.sums * p)

    def noise(self, p: NDArray[np.float32]) -> NDArray[np.float32]:
        """The variance that noise adds to `apart`."""
        if self.labels is None:
            return np.float32(self.variance)  # type: ignore[return-value]
        return np.asarray(np.float32(self.variance) * ((1.0 - p) ** 2 + (self.labels - 1) * p**2))


def estimate_sizes(sums: Floats, variance: float, guess: Floats) -> Floats:
    """Sizes of leaves whose counts are private: the noisy sums, drawn to a guess where noise is large.

    The guess (from a public table, from rows synthesised so far, or from noisy counts of the growing
    tree) is trusted to within about a half of itself.
    """
    guess = np.maximum(guess, 0.0)
    prior = 1.0 + guess + (guess / 2) ** 2
    return np.maximum(guess + prior / (prior + variance) * (sums - guess), 0.0)


def join_marginals(parts: list[tuple[Floats, float]]) -> Floats:
    """The label distribution from several noisy count vectors, each with its variance, by least squares.

    Noise can make the count of a rare label negative or far too small, and a label whose probability is
    put at nearly 0 costs far more than one that is put too high: each count is replaced by its posterior
    mean given that it is not negative.
    """
    weights = [1.0 / max(variance, 1e-9) for _, variance in parts]
    counts = sum(w * c for w, (c, _) in zip(weights, parts, strict=True)) / sum(weights)
    sd = np.sqrt(1.0 / sum(weights) + 1.0)
    at = counts / sd
    mean = counts + sd * np.exp(-(at**2) / 2 - 0.5 * np.log(2 * np.pi) - scipy.special.log_ndtr(at))
    return np.asarray(mean / mean.sum())


def estimate_separately(counts: LeafCounts, marginal: Floats) -> NDArray[np.float32]:
    """Leaves as they are: negative counts set to 0, then proportions; no leaf learns from another.

    A leaf whose noisy total is not above one standard deviation of its noise takes the distribution of the
    nearest ancestor whose summed leaves are, else the marginal.
    """
    tree, labels = counts.tree, counts.labels
    own = np.zeros((len(tree.asks), labels))
    own[tree.leaves] = counts.spread(counts.values)
    noise = np.zeros(len(tree.asks))
    noise[tree.leaves] = np.where(counts.spread(counts.sizes) > 0, labels * counts.variance, 0.0)
    for start, stop in reversed(tree.below_root):
        np.add.at(own, tree.parent[start:stop], own[start:stop])
        np.add.at(noise, tree.parent[start:stop], noise[start:stop])
    own = np.maximum(own, 0.0)
    total = own.sum(axis=1)
    alive = total > np.sqrt(noise) if not counts.public else total > 0
    p = own / np.where(total > 0, total, 1.0)[:, None]
    if not alive[0]:
        p[0] = marginal
    for start, stop in tree.below_root:
        dead = start + np.flatnonzero(~alive[start:stop])
        p[dead] = p[tree.parent[dead]]
    return p[tree.leaves].astype(np.float32)


@dataclass(frozen=True, eq=False)
class LeafView:
    """A tree with the label distribution and the rows of each leaf; `public` says whether the rows are a public fact."""

    shape: TreeShape
    p: NDArray[np.float32]
    sizes: NDArray[np.float32] | None
    labels: Marginal
    public: bool

    def tree(self, which: str) -> ModelTree:
        """All of it; `which` says which tree of the model it is."""
        first = int(self.shape.asks[0])
        asked = "nothing is asked" if first < 0 else f"{self.shape.columns[first]} is asked first"
        counts = "not kept by the version that made this model"
        if self.sizes is not None:
            public, noisy = "public numbers of rows", "numbers of rows, estimated from noisy counts"
            counts = public if self.public else noisy
        return ModelTree(f"{which}: {asked}", self._node(0, "all rows"), counts, self.public)

    @cached_property
    def _rows(self) -> Floats | None:
        """The rows of every node."""
        if self.sizes is None:
            return None
        rows = np.zeros(len(self.shape.asks))
        rows[self.shape.leaves] = self.sizes
        for start, stop in reversed(self.shape.below_root):
            np.add.at(rows, self.shape.parent[start:stop], rows[start:stop])
        return rows

    def _node(self, node: int, label: str) -> TreeNode:
        rows = None if self._rows is None else float(self._rows[node])
        asked = int(self.shape.asks[node])
        if asked < 0:
            return TreeNode(label, rows, note=self._most_frequent(int(self.shape.leaf_of[node])))
        name, first = self.shape.columns[asked], int(self.shape.first[node])

        def branches() -> Sequence[TreeNode]:
            return [self._node(first + i, text) for i, text in enumerate(self.shape.schema[name].labels)]

        return TreeNode(label, rows, (name,), branches=branches)

    def _most_frequent(self, leaf: int) -> str:
        best = int(self.p[leaf].argmax())
        codes = np.unravel_index(best, self.labels.shape)
        names = (self.labels.schema[n].labels[c] for n, c in zip(self.labels.attributes, codes, strict=True))
        return f"{', '.join(names)} {self.p[leaf, best]:.0%}"
