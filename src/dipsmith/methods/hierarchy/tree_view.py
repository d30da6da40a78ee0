"""The tree of a hierarchy as people look at it: which branch was divided by which columns, and the counts that agree.

Bowen, Liu and Su draw it so (arXiv 1803.06763, figures 1 and 4). Nodes that stay whole from one layer to the next are
drawn once. The cross-table below the last layer is not a layer: its size stands in the node that it divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isinf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.estimation.answers import Post
from dipsmith.methods.hierarchy.layers import Layers
from dipsmith.methods.hierarchy.ranges import Ranges
from dipsmith.methods.model_tree import ModelTree, TreeNode

if TYPE_CHECKING:
    from dipsmith.methods.hierarchy.noisy_tree import NoisyTree

MOST_NAMED = 2
"""Columns that are named in one place; more are counted."""


@dataclass(frozen=True, eq=False)
class TreeView:
    """A noisy tree, with the counts that rows are drawn from."""

    noisy: NoisyTree
    post: Post

    def tree(self) -> ModelTree:
        """All of it, from all rows down."""
        noise = tuple(None if isinf(v) else sqrt(v) for v in self.noisy.variances)
        hierarchy = self.noisy.hierarchy
        if isinstance(hierarchy, Ranges):
            found = f"{hierarchy.schema.names[0]} is divided into intervals, {hierarchy.branching} in each"
            return ModelTree(found, self._interval(hierarchy, 0, 0), COUNTS, noise=noise)
        found = _order(hierarchy)
        return ModelTree(found, self._node(hierarchy, 0, 0, "all rows", ()), COUNTS, noise=noise[:-1])

    @cached_property
    def _counts(self) -> Floats:
        return self.noisy.counts(self.post)

    @cached_property
    def _first(self) -> Ints:
        """The first child of every node, −1 where there is none."""
        first = np.full(self.noisy.tree.size, -1, dtype=np.int64)
        first[self.noisy.tree.inner] = self.noisy.tree.first
        return first

    def _node(self, layers: Layers, level: int, node: int, label: str, used: tuple[str, ...]) -> TreeNode:
        schema, starts, rows = layers.schema, self.noisy.tree.layers, float(self._counts[node])
        while level < layers.depth:
            layer = layers.layers[level]
            group = layer.groups[int(layer.group_of[node - starts[level]])]
            first, level = int(self._first[node]), level + 1
            if group:
                break
            node = first
        else:
            return TreeNode(label, rows, note=_cells(layers, used))
        shape = [schema[name].size for name in group]
        known, below = (*used, *group), level

        def branches() -> Sequence[TreeNode]:
            labels = [
                ", ".join(schema[n].labels[c] for n, c in zip(group, codes, strict=True))
                for codes in np.ndindex(*shape)
            ]
            return [self._node(layers, below, first + i, text, known) for i, text in enumerate(labels)]

        return TreeNode(label, rows, group, branches=branches)

    def _interval(self, ranges: Ranges, level: int, node: int) -> TreeNode:
        (name,) = ranges.schema.names
        labels, starts = ranges.schema[name].labels, self.noisy.tree.layers
        width = ranges.branching ** (len(ranges.nodes) - 1 - level)
        low = (node - starts[level]) * width
        high = min(low + width, len(labels)) - 1
        label = "all rows" if not level else labels[low] if low == high else f"{labels[low]} … {labels[high]}"
        first, rows = int(self._first[node]), float(self._counts[node])
        if first < 0:
            return TreeNode(label, rows)
        fan = int(np.searchsorted(self.noisy.tree.parent, node, "right")) - first
        return TreeNode(
            label, rows, (name,), branches=lambda: [self._interval(ranges, level + 1, first + i) for i in range(fan)]
        )


COUNTS = "noisy numbers of rows, made to agree and to be no less than 0"


def _order(layers: Layers) -> str:
    """What divides the rows, layer by layer, in words."""
    groups = [sorted({" × ".join(g) for g in layer.groups if g}) for layer in layers.layers]
    told = [" or ".join(g) if len(g) <= MOST_NAMED else f"one of {len(g)} columns" for g in groups if g]
    if not told:
        return "No layer divides the rows before all columns do"
    elected = any(len(g) > 1 for g in groups)
    return f"Rows are divided by {', then by '.join(told)}" + (", each branch in its own way" if elected else "")


def _cells(layers: Layers, used: tuple[str, ...]) -> str:
    """What divides a node below the last layer."""
    left = [name for name in layers.schema.names if name not in used]
    if not left:
        return ""
    named = " × ".join(left) if len(left) <= MOST_NAMED else f"{len(left)} columns"
    return f"{named}: {layers.schema.size(left):,} cells"
