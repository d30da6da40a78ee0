"""A tree of a forest as people look at it: what each branch asks, its rows, and the most frequent label of a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.methods.model_tree import ModelTree, TreeNode
from dipsmith.schema import Marginal


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
