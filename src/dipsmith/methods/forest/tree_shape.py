"""The shape of one random decision tree, level by level.

A node asks one attribute and has one child for every label of that attribute's public domain; a leaf asks
nothing. Children of a node are neighbours in memory, so a row moves down by one lookup:
``node = first[node] + code of the attribute that node asks``. Nothing is recursive. A shape depends on public
facts, coins and answers that were paid for (`dipsmith.methods.forest.splitting`), so its leaves are a
partition in the sense of `dipsmith.schema.Cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.lawful import label_codes, meets
from dipsmith.schema import Cells, Codes, Condition, Conditions, Crossed, Marginal, Schema

BLOCK = 1 << 15
"""Rows routed at a time: their codes and positions stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class TreeShape:
    """A tree over some attributes, nodes in breadth-first order. Its cells are its leaves.

    `asks` gives for each node the position in `columns` of what it asks, −1 for a leaf; `first` its first child, a
    leaf its own. Level `l` is the nodes `levels[l]` up to, not including, `levels[l + 1]`. With `occupied`, only the
    leaves of these numbers, ascending, are cells of their own, and one more cell is all the others: where sizes are
    public, most leaves of a deep tree are known to be empty.

    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> s = Schema("t", (Attribute("a", "string", Categories.of("xyz")),), Unit(), "replace")
    >>> tree = TreeShape.root(s, ["a"]).split(np.array([0]))
    >>> tree.size, tree.index(Codes.of(s, {"a": np.array([2, 0])})).tolist()
    (3, [2, 0])
    """

    schema: Schema
    columns: tuple[str, ...]
    asks: NDArray[np.int16]
    first: NDArray[np.int32]
    levels: tuple[int, ...]
    occupied: Ints | None = None

    @classmethod
    def root(cls, schema: Schema, columns: Sequence[str]) -> TreeShape:
        """A tree that is one leaf."""
        for name in columns:
            schema[name]
        asks, first = np.full(1, -1, dtype=np.int16), np.zeros(1, dtype=np.int32)
        return cls(schema, tuple(columns), asks, first, (0, 1))

    def split(self, asked: NDArray[np.integer]) -> TreeShape:
        """Let every node of the last level ask the attribute given for it (−1: it stays a leaf)."""
        start, size = self.levels[-2], self.levels[-1]
        asks = self.asks.copy()
        asks[start:] = asked
        inner = start + np.flatnonzero(asks[start:] >= 0)
        fan = self.fans[asks[inner]]
        ends = size + np.cumsum(fan)
        grown = int(ends[-1]) if len(ends) else size
        if grown > np.iinfo(np.int32).max:
            raise UsageError("a tree would have more than two thousand million nodes; raise n_b")
        first = np.concatenate([self.first, np.arange(size, grown, dtype=np.int32)])
        first[inner] = ends - fan
        new = np.full(grown - size, -1, dtype=np.int16)
        levels = (*self.levels, grown) if grown > size else self.levels
        return TreeShape(self.schema, self.columns, np.concatenate([asks, new]), first, levels)

    def with_occupied(self, occupied: Ints) -> TreeShape:
        """The same tree, with only some leaves as cells of their own."""
        return replace(self, occupied=occupied)

    # --- nodes ------------------------------------------------------------------------------------

    @cached_property
    def fans(self) -> Ints:
        """Number of labels of each of `columns`."""
        return np.array([self.schema[name].size for name in self.columns], dtype=np.int64)

    @property
    def step_offsets(self) -> Ints:
        """Where the steps down by each of `columns` start, when all steps are numbered."""
        return np.concatenate([[0], np.cumsum(self.fans)])

    @cached_property
    def leaves(self) -> Ints:
        """The leaf nodes."""
        return np.flatnonzero(self.asks < 0)

    @cached_property
    def leaf_of(self) -> NDArray[np.int32]:
        """For each node its number among the leaves, −1 for an inner node."""
        number = np.full(len(self.asks), -1, dtype=np.int32)
        number[self.leaves] = np.arange(len(self.leaves), dtype=np.int32)
        return number

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """The parent of each node, −1 for the root."""
        inner = np.flatnonzero(self.asks >= 0).astype(np.int32)
        below = np.repeat(inner, self.fans[self.asks[inner]])
        return np.concatenate([np.array([-1], dtype=np.int32), below])

    @cached_property
    def code(self) -> NDArray[np.int32]:
        """The label that leads from its parent to each node, −1 for the root."""
        code = np.arange(len(self.asks), dtype=np.int32)
        code[1:] -= self.first[self.parent[1:]]
        code[0] = -1
        return code

    @property
    def below_root(self) -> list[tuple[int, int]]:
        """Where each level below the root starts and stops."""
        return list(zip(self.levels[1:-1], self.levels[2:], strict=True))

    @property
    def depth(self) -> Ints:
        """How many attributes the path to each leaf asked."""
        return np.repeat(np.arange(len(self.levels) - 1), np.diff(self.levels))[self.leaves]

    def paths(self) -> NDArray[np.int32]:
        """For each cell the label of every column on its path, −1 where the path does not ask it."""
        known = np.full((len(self.asks), len(self.columns)), -1, dtype=np.int32)
        for start, stop in self.below_root:
            up = self.parent[start:stop]
            known[start:stop] = known[up]
            known[np.arange(start, stop), self.asks[up]] = self.code[start:stop]
        leaves = known[self.leaves]
        return leaves if self.occupied is None else np.append(leaves[self.occupied], -1 + 0 * leaves[:1], axis=0)

    def asked_shares(self, sizes: NDArray[np.floating]) -> dict[str, float]:
        """For each of `columns` the share of rows whose path asks it, from the rows in each leaf."""
        rows = np.maximum(sizes, 0.0).astype(np.float64)
        asked = rows @ (self.paths() >= 0) / max(float(rows.sum()), 1e-9)
        return dict(zip(self.columns, asked.tolist(), strict=True))

    # --- cells ------------------------------------------------------------------------------------

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that some node asks."""
        asked = set(np.unique(self.asks).tolist())
        return tuple(name for i, name in enumerate(self.columns) if i in asked)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.leaves) if self.occupied is None else len(self.occupied) + 1

    @cached_property
    def key(self) -> str:
        """The number of leaves and a digest of the whole shape."""
        digest = sha256("\0".join(self.columns).encode())
        digest.update(self.asks.tobytes())
        some = "" if self.occupied is None else f"{len(self.occupied)} of "
        return f"{some}{len(self.leaves)} leaves ({digest.hexdigest()[:8]})"

    @cached_property
    def _inner(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The inner nodes, what they ask and their first children."""
        inner = np.flatnonzero(self.asks >= 0)
        return inner, self.asks[inner].astype(np.intp), self.first[inner].astype(np.intp)

    @cached_property
    def _ends(self) -> NDArray[np.int32]:
        """For each node where a row goes on: an inner node's number, or ~c in a leaf of cell c.

        Inner nodes are few and are numbered by themselves, so that what is looked up at them stays in the
        processor's cache; only this table, one number per node, is read at random.
        """
        cells = np.arange(len(self.leaves), dtype=np.int32)
        if self.occupied is not None:
            cells = np.full(len(self.leaves), len(self.occupied), dtype=np.int32)
            cells[self.occupied] = np.arange(len(self.occupied), dtype=np.int32)
        ends = np.empty(len(self.asks), dtype=np.int32)
        inner, _, _ = self._inner
        ends[inner] = np.arange(len(inner), dtype=np.int32)
        ends[self.leaves] = ~cells
        return ends

    def index(self, codes: Codes) -> Ints:
        """The cell of every row."""
        if len(self.asks) == 1:
            return np.full(len(codes), ~self._ends[0], dtype=np.int64)
        cell = np.empty(len(codes), dtype=np.int64)
        _, asks, first = self._inner
        for start in range(0, len(codes), BLOCK):
            block = codes if len(codes) <= BLOCK else codes.take(slice(start, start + BLOCK))
            table = code_table(block, self.columns, self.attributes)
            codes_of, places = table.ravel(), asks * len(block)
            here = cell[start : start + len(block)]
            here[:] = self._ends.take(first[0] + table[asks[0]].astype(np.intp))
            rows, at = np.arange(len(block)), here
            for _ in range(len(self.levels) - 3):
                moving = np.flatnonzero(at >= 0)
                rows, at = rows.take(moving), at.take(moving)
                place = places.take(at)
                place += rows
                child = first.take(at)
                child += codes_of.take(place).astype(np.intp)
                at = self._ends.take(child).astype(np.intp)
                here[rows] = at
        return np.invert(cell, out=cell)

    def descend(
        self, table: NDArray[np.unsignedinteger], rows: NDArray[np.int32], nodes: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Move the rows that stand at inner nodes to their children; drop those that stand at leaves."""
        asked = self.asks.take(nodes)
        if asked.min(initial=0) < 0:
            moving = np.flatnonzero(asked >= 0)
            rows, nodes, asked = rows.take(moving), nodes.take(moving), asked.take(moving)
        place = np.multiply(asked, table.shape[1], dtype=np.int64)
        place += rows
        down = self.first.take(nodes)
        down += table.ravel().take(place).astype(np.int32, copy=False)
        return rows, down

    def possible(self) -> Bools | None:
        """Cells whose path breaks no rule; None when no rule speaks of these attributes alone."""
        rules = [r for r in self.schema.rules if set(r.attributes) <= set(self.attributes)]
        if not rules:
            return None
        paths = dict(zip(self.columns, self.paths().T, strict=True))
        return np.asarray(~np.any([meets(rule, paths, self.size) for rule in rules], axis=0))

    def conditions(self, cells: Ints) -> Conditions:
        """The labels on the path to each leaf."""
        paths = dict(zip(self.columns, self.paths()[cells].T, strict=True))
        return {n: Condition(self.schema[n].labels, paths[n]) for n in self.attributes}

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """(self, None) when only public attributes are asked, otherwise not factored."""
        public = all(self.schema[name].role == "public" for name in self.attributes)
        return (self, None) if public else (None, self)


class LabelledLeaves(Crossed):
    """The leaves of a tree × the labels of some targets, with the rules that link a path and a label."""

    first: TreeShape
    second: Marginal

    def possible(self) -> Bools | None:
        """Cells that no rule over path and labels forbids."""
        rules = [r for r in self.schema.rules if set(r.attributes) <= set(self.attributes)]
        if not rules:
            return None
        tree, targets = self.first, self.second
        paths = dict(zip(tree.columns, tree.paths().T, strict=True))
        labels = label_codes(self.schema, targets.attributes)
        broken = [np.outer(meets(r, paths, tree.size), meets(r, labels, targets.size)) for r in rules]
        return np.asarray(~np.any(broken, axis=0).ravel())


def code_table(codes: Codes, columns: Sequence[str], asked: Sequence[str] | None = None) -> NDArray[np.unsignedinteger]:
    """The codes of some columns as one matrix, columns × rows, in the smallest type that holds them all.

    With `asked`, only those columns are filled: rows that are counted hold no others.
    """
    filled = columns if asked is None else asked
    kind = np.result_type(np.uint8, *(codes[name].dtype for name in filled))
    table = np.empty((len(columns), len(codes)), dtype=kind)
    for i, name in enumerate(columns):
        if name in filled:
            table[i] = codes[name]
    return table
