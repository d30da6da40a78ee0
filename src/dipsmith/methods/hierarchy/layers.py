"""Layers: a cross-table divided step by step, from all rows down to its single cells.

Level 0 is all rows. Every node of a level is divided by the values of one group of attributes; which
group may differ from node to node, and a node may stay whole (the empty group), so that branches have
their own order and length. Below the last layer the nodes are divided by all attributes that their
branch has not used yet: the leaves are the cells of the full cross-table, each once.

Every level is a partition of all rows: one row lies in exactly one node of it. A branch that stops
early is a node with one child, measured again at each level that follows; least squares pools what it
says (`tree.gls`). So no budget is lost on short branches.

Source: Bowen, Liu and Su, "Differentially private data release via statistical election to partition
sequentially" (arXiv 1803.06763), section 2.2, without its phantom categories.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.lawful import meets
from dipsmith.estimation.tree import Tree
from dipsmith.methods.outlook import Names
from dipsmith.schema import Cells, Codes, Condition, Conditions, Marginal, Schema
from dipsmith.schema.codes import code_dtype


@dataclass(frozen=True, eq=False)
class Layer:
    """How the nodes of one level are divided: groups of attributes, and for every node which of them divides it.

    The empty group leaves a node whole.
    """

    groups: tuple[Names, ...]
    group_of: Ints

    @classmethod
    def of(cls, nodes: Sequence[Names]) -> Self:
        """The layer from the group of every node."""
        groups = tuple(dict.fromkeys(nodes))
        place = {group: i for i, group in enumerate(groups)}
        return cls(groups, np.array([place[group] for group in nodes], dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Layers:
    """The splits of a cross-table, level by level.

    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> listed = {"a": "xy", "b": "uvw", "c": "12345"}
    >>> s = Schema("t", tuple(Attribute(n, "string", Categories.of(v)) for n, v in listed.items()), Unit(), "replace")
    >>> Layers.uniform(s, [("b",)]).nodes
    (1, 3, 30)
    >>> Layers(s, (Layer.of([("a",)]), Layer.of([("b",), ("c",)]))).nodes
    (1, 2, 8, 30)
    """

    schema: Schema
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        for i, (layer, nodes) in enumerate(zip(self.layers, self._nodes_above_leaves, strict=False), 1):
            if layer.group_of.size != nodes:
                raise UsageError(f"layer {i} divides {layer.group_of.size} nodes, expected {nodes}")
        for i, layer in enumerate(self.layers, 1):
            twice = self._used_before(i - 1, layer)
            if twice is not None:
                raise UsageError(f"layer {i}: column '{twice}' has already divided this branch; name it once")

    def _used_before(self, level: int, layer: Layer) -> str | None:
        if self.order is not None:
            above = [name for group in self.order[:level] for name in group]
            names = layer.groups[0]
            return next((n for i, n in enumerate(names) if n in above or n in names[:i]), None)
        path = self.path(level)
        for i, group in enumerate(layer.groups):
            for place, name in enumerate(group):
                if name in group[:place] or (name in path and (path[name][layer.group_of == i] >= 0).any()):
                    return name
        return None

    @classmethod
    def uniform(cls, schema: Schema, groups: Sequence[Sequence[str]]) -> Self:
        """The same order on all branches: every node of layer l is divided by ``groups[l]``."""
        layers, nodes = [], 1
        for group in groups:
            layers.append(Layer((tuple(group),), np.zeros(nodes, dtype=np.int64)))
            nodes *= schema.size(group)
        return cls(schema, tuple(layers))

    def deepen(self, depth: int) -> Layers:
        """The same with layers at the end that divide nothing, up to `depth` layers."""
        whole = Layer(((),), np.zeros(self._nodes_above_leaves[-1], dtype=np.int64))
        return Layers(self.schema, self.layers + (whole,) * (depth - self.depth))

    @property
    def depth(self) -> int:
        """Number of layers between the root and the leaves."""
        return len(self.layers)

    @cached_property
    def _nodes_above_leaves(self) -> tuple[int, ...]:
        return (1, *(int(self.fanouts(layer).sum()) for layer in self.layers))

    @property
    def nodes(self) -> tuple[int, ...]:
        """Number of nodes of each level: root, layers, leaves."""
        return (*self._nodes_above_leaves, self.schema.size())

    def fanouts(self, layer: Layer) -> Ints:
        """How many children each node that the layer divides has."""
        sizes = np.array([self.schema.size(group) for group in layer.groups], dtype=np.int64)
        return np.asarray(sizes[layer.group_of], dtype=np.int64)

    @property
    def order(self) -> tuple[Names, ...] | None:
        """The group of every layer when all branches share one order, else None."""
        if any(len(layer.groups) > 1 for layer in self.layers):
            return None
        return tuple(layer.groups[0] for layer in self.layers)

    @property
    def table(self) -> Marginal:
        """The full cross-table; with one order on all branches, in the order of the leaves."""
        first = [name for group in self.order or () for name in group]
        return Marginal(self.schema, (*first, *(n for n in self.schema.names if n not in first)))

    @property
    def levels(self) -> tuple[Cells, ...]:
        """The partition of rows that each level is: root, layers, full cross-table."""
        if self.order is not None:
            names = [tuple(n for group in self.order[:l] for n in group) for l in range(self.depth + 1)]
            return (*(Marginal(self.schema, n) for n in names), self.table)
        nodes = (LayerCells(self, l) for l in range(1, self.depth + 1))
        return (Marginal(self.schema, ()), *nodes, self.table)

    @cached_property
    def tree(self) -> Tree:
        """The shape of the tree, leaves included."""
        used = np.ones(1, dtype=np.int64)
        fans = []
        for layer in self.layers:
            fan = self.fanouts(layer)
            fans.append(fan)
            used = np.repeat(used * fan, fan)
        return Tree.build([*fans, self.schema.size() // used])

    @cached_property
    def leaf_cells(self) -> Ints | slice:
        """The cell of `table` that each leaf is, in the order of the tree."""
        if self.order is not None:
            return slice(None)
        every = _every_cell(self.table, LayerCells(self, self.depth).attributes)
        node = LayerCells(self, self.depth).index(every)
        return np.argsort(node.astype(np.int32), kind="stable")

    def path(self, level: int) -> Mapping[str, Ints]:
        """For every attribute used above a level, its code at each node; -1 where the branch has not used it."""
        path: dict[str, Ints] = {}
        for layer in self.layers[:level]:
            fan = self.fanouts(layer)
            place = np.arange(fan.sum()) - np.repeat(np.cumsum(fan) - fan, fan)
            taken = np.repeat(layer.group_of, fan)
            path = {name: np.repeat(codes, fan) for name, codes in path.items()}
            for i, group in enumerate(layer.groups):
                below = place[taken == i]
                for name in reversed(group):
                    codes = path.setdefault(name, np.full(taken.size, -1, dtype=np.int64))
                    codes[taken == i] = below % self.schema[name].size
                    below = below // self.schema[name].size
        return path

    @cached_property
    def digest(self) -> str:
        """A short text that tells this tree from others over the same attributes."""
        text = repr([(layer.groups, layer.group_of.tolist()) for layer in self.layers])
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def state(self) -> tuple[list[list[list[str]]], dict[str, Ints]]:
        """The splits as JSON-able facts and arrays."""
        facts = [[list(group) for group in layer.groups] for layer in self.layers]
        return facts, {f"layer/{i}": layer.group_of for i, layer in enumerate(self.layers)}

    @classmethod
    def from_state(
        cls, schema: Schema, facts: Sequence[Sequence[Sequence[str]]], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """The splits back from their state."""
        groups = [tuple(tuple(group) for group in layer) for layer in facts]
        return cls(schema, tuple(Layer(g, arrays[f"layer/{i}"]) for i, g in enumerate(groups)))


@dataclass(frozen=True, eq=False)
class LayerCells(Cells):
    """The nodes of one level, as a partition of rows; which attributes decide differs from branch to branch."""

    layers: Layers
    level: int

    @property
    def schema(self) -> Schema:
        """The schema whose rows are partitioned."""
        return self.layers.schema

    @property
    def attributes(self) -> Names:
        """The attributes that decide the node, in the order of the schema."""
        used = {n for layer in self.layers.layers[: self.level] for group in layer.groups for n in group}
        return tuple(n for n in self.schema.names if n in used)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.layers.nodes[self.level]

    @property
    def key(self) -> str:
        """What divides the nodes, layer by layer, and which tree it is."""
        parts = [
            " or ".join(" × ".join(group) for group in layer.groups if group)
            for layer in self.layers.layers[: self.level]
        ]
        return f"{', then '.join(parts)} (tree {self.layers.digest})"

    def index(self, codes: Codes) -> Ints:
        """The node of every row."""
        node = np.zeros(len(codes), dtype=np.int64)
        for layer in self.layers.layers[: self.level]:
            fan = self.layers.fanouts(layer)
            first = np.cumsum(fan) - fan
            step = np.zeros(len(codes), dtype=np.int64)
            taken = layer.group_of[node]
            for i, group in enumerate(layer.groups):
                here = np.flatnonzero(taken == i) if len(layer.groups) > 1 else slice(None)
                key: Ints = np.zeros(len(step[here]), dtype=np.int64)
                for name in group:
                    key *= self.schema[name].size
                    key += codes[name][here]
                step[here] = key
            node = first[node] + step
        return node

    def possible(self) -> Bools | None:
        """The nodes that no rule over their own path forbids; None when all are possible."""
        path, forbidden = self.layers.path(self.level), np.zeros(self.size, dtype=bool)
        for rule in self.schema.rules:
            if set(rule.attributes) <= set(path):
                forbidden |= meets(rule, path, self.size)
        return ~forbidden if forbidden.any() else None

    def conditions(self, cells: Ints) -> Conditions:
        """The labels on the path to each node."""
        path = self.layers.path(self.level)
        return {n: Condition(self.schema[n].labels, path[n][cells]) for n in self.attributes}


def _every_cell(table: Marginal, names: Sequence[str]) -> Codes:
    """Every cell of a table as a row, with the named columns only."""
    columns: dict[str, NDArray[np.unsignedinteger]] = {}
    for axis, (name, size) in enumerate(zip(table.attributes, table.shape, strict=True)):
        if name in names:
            once = np.repeat(np.arange(size, dtype=code_dtype(size)), prod(table.shape[axis + 1 :]))
            columns[name] = np.tile(once, prod(table.shape[:axis]))
    return Codes(table.schema, columns, table.size)
