"""Branching: the shape of one random decision tree, held level by level.

A node asks one attribute and has one child for every label of that attribute's public domain; a leaf
asks nothing. The children of a node are neighbours in memory, so that a row moves down by one lookup:
``node = first[node] + code of the attribute that node asks``. Growth, routing and every later pass go level
by level over arrays; nothing is recursive. A branching depends on public facts, coins and answers that were
paid for (`dipsmith.methods.forest.splitting`), so its leaves are a partition in the sense of `dipsmith.schema.Cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.schema import Cells, Codes, Marginal, Schema

BLOCK = 1 << 15
"""Rows routed at a time: their codes and positions stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Branching:
    """A tree over some attributes, nodes in breadth-first order. Its cells are its leaves.

    Attributes
    ----------
    schema
        The schema of the rows that it sorts.
    columns
        The attributes that nodes may ask.
    asks
        For each node the position in `columns` of what it asks, −1 for a leaf.
    first
        For each node its first child; a leaf is its own.
    levels
        Level `l` is the nodes `levels[l]` up to, not including, `levels[l + 1]`.

    Examples
    --------
    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> s = Schema("t", (Attribute("a", "string", Categories.of("xyz")),), Unit(), "replace")
    >>> tree = Branching.root(s, ["a"]).split(np.array([0]))
    >>> tree.size, tree.index(Codes.of(s, {"a": np.array([2, 0])})).tolist()
    (3, [2, 0])
    """

    schema: Schema
    columns: tuple[str, ...]
    asks: NDArray[np.int16]
    first: NDArray[np.int32]
    levels: tuple[int, ...]

    @classmethod
    def root(cls, schema: Schema, columns: Sequence[str]) -> Branching:
        """A tree that is one leaf."""
        for name in columns:
            schema[name]
        return cls(
            schema, tuple(columns), np.full(1, -1, dtype=np.int16), np.zeros(1, dtype=np.int32), (0, 1)
        )

    def split(self, asked: NDArray[np.integer]) -> Branching:
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
        return Branching(self.schema, self.columns, np.concatenate([asks, new]), first, levels)

    # --- shape ------------------------------------------------------------------------------------

    @cached_property
    def fans(self) -> NDArray[np.int64]:
        """Number of labels of each of `columns`."""
        return np.array([self.schema[name].size for name in self.columns], dtype=np.int64)

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """The leaf nodes; cell `i` is the rows that end in `leaves[i]`."""
        return np.flatnonzero(self.asks < 0)

    @cached_property
    def leaf_of(self) -> NDArray[np.int32]:
        """For each node the number of its cell, −1 for an inner node."""
        cell = np.full(len(self.asks), -1, dtype=np.int32)
        cell[self.leaves] = np.arange(len(self.leaves), dtype=np.int32)
        return cell

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

    @cached_property
    def depth(self) -> NDArray[np.int64]:
        """How many attributes the path to each leaf asked."""
        level = np.repeat(np.arange(len(self.levels) - 1), np.diff(self.levels))
        return level[self.leaves]

    def paths(self) -> NDArray[np.int32]:
        """For each leaf the label of every column on its path, −1 where the path does not ask it."""
        known = np.full((len(self.asks), len(self.columns)), -1, dtype=np.int32)
        for start, stop in zip(self.levels[1:], self.levels[2:], strict=False):
            up = self.parent[start:stop]
            known[start:stop] = known[up]
            known[np.arange(start, stop), self.asks[up]] = self.code[start:stop]
        return known[self.leaves]

    # --- cells ------------------------------------------------------------------------------------

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that some node asks."""
        asked = set(np.unique(self.asks).tolist())
        return tuple(name for i, name in enumerate(self.columns) if i in asked)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self.leaves)

    @cached_property
    def key(self) -> str:
        """The number of leaves and a digest of the whole shape."""
        digest = sha256("\0".join(self.columns).encode())
        digest.update(self.asks.tobytes())
        return f"{self.size} leaves ({digest.hexdigest()[:8]})"

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The leaf of every row."""
        return self.routed(codes, self._ends)

    @cached_property
    def _ends(self) -> NDArray[np.int32]:
        return self.ends(np.arange(self.size, dtype=np.int32))

    def ends(self, cells: NDArray[np.int32]) -> NDArray[np.int32]:
        """For each node where a row goes on: an inner node's number, or ~c in a leaf of cell c.

        Inner nodes are few and are numbered by themselves, so that what is looked up at them stays in the
        processor's cache; only this table, one number per node, is read at random.
        """
        ends = np.empty(len(self.asks), dtype=np.int32)
        inner, _, _ = self._inner
        ends[inner] = np.arange(len(inner), dtype=np.int32)
        ends[self.leaves] = ~cells
        return ends

    @cached_property
    def _inner(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The inner nodes, what they ask and their first children."""
        inner = np.flatnonzero(self.asks >= 0)
        return inner, self.asks[inner].astype(np.intp), self.first[inner].astype(np.intp)

    def routed(self, codes: Codes, ends: NDArray[np.int32]) -> NDArray[np.int64]:
        """The cell of every row, for cells of leaves as `ends` gives them."""
        if len(self.asks) == 1:
            return np.full(len(codes), ~ends[0], dtype=np.int64)
        cell = np.empty(len(codes), dtype=np.int64)
        _, asks, first = self._inner
        for start in range(0, len(codes), BLOCK):
            block = codes if len(codes) <= BLOCK else codes.take(slice(start, start + BLOCK))
            table = code_table(block, self.columns, self.attributes)
            codes_of, places = table.ravel(), asks * len(block)
            here = cell[start : start + len(block)]
            here[:] = ends.take(first[0] + table[asks[0]].astype(np.intp))
            rows, at = np.arange(len(block)), here
            for _ in range(len(self.levels) - 3):
                moving = np.flatnonzero(at >= 0)
                rows, at = rows.take(moving), at.take(moving)
                place = places.take(at)
                place += rows
                child = first.take(at)
                child += codes_of.take(place).astype(np.intp)
                at = ends.take(child).astype(np.intp)
                here[rows] = at
        return np.invert(cell, out=cell)

    def enter(self, table: NDArray[np.unsignedinteger]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Move all rows from the root to its children."""
        rows = np.arange(table.shape[1], dtype=np.int32)
        return rows, table[self.asks[0]].astype(np.int32) + self.first[0]

    def descend(
        self, table: NDArray[np.unsignedinteger], rows: NDArray[np.int32], nodes: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Move the rows that stand at inner nodes to their children; drop those that have arrived."""
        asked = self.asks.take(nodes)
        if asked.min(initial=0) < 0:
            moving = np.flatnonzero(asked >= 0)
            rows, nodes, asked = rows.take(moving), nodes.take(moving), asked.take(moving)
        place = np.multiply(asked, table.shape[1], dtype=np.int64)
        place += rows
        down = self.first.take(nodes)
        down += table.ravel().take(place).astype(np.int32, copy=False)
        return rows, down

    def possible(self) -> NDArray[np.bool_] | None:
        """Leaves whose path breaks no rule; None when no rule speaks of these attributes alone."""
        rules = [r for r in self.schema.rules if set(r.attributes) <= set(self.attributes)]
        if not rules:
            return None
        paths = self.paths()
        fine = np.ones(self.size, dtype=bool)
        for rule in rules:
            broken = np.ones(self.size, dtype=bool)
            for name, codes in rule.never:
                broken &= np.isin(paths[:, self.columns.index(name)], codes)
            fine &= ~broken
        return fine

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """(self, None) when only public attributes are asked, otherwise not factored."""
        if all(self.schema[name].role == "public" for name in self.attributes):
            return self, None
        return None, self


@dataclass(frozen=True, eq=False)
class OccupiedLeaves:
    """The leaves of a tree in which public rows lie, each a cell of its own; the last cell is all others.

    Where sizes are public, most leaves of a deep tree are known to be empty: nothing is counted there, and
    nothing has to be held.

    Attributes
    ----------
    tree
        The tree.
    occupied
        The numbers of its occupied leaves, ascending.
    """

    tree: Branching
    occupied: NDArray[np.int64]

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.tree.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes that nodes may ask."""
        return self.tree.columns

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that some node asks."""
        return self.tree.attributes

    @property
    def size(self) -> int:
        """Number of occupied leaves, and one."""
        return len(self.occupied) + 1

    @property
    def key(self) -> str:
        """The tree's key and the number of leaves that are occupied."""
        return f"{len(self.occupied)} of {self.tree.key}"

    @cached_property
    def _ends(self) -> NDArray[np.int32]:
        cells = np.full(self.tree.size, len(self.occupied), dtype=np.int32)
        cells[self.occupied] = np.arange(len(self.occupied), dtype=np.int32)
        return self.tree.ends(cells)

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The cell of every row."""
        return self.tree.routed(codes, self._ends)

    def paths(self) -> NDArray[np.int32]:
        """As the tree's, with nothing known about the last cell."""
        paths = self.tree.paths()
        return np.concatenate([paths[self.occupied], np.full((1, paths.shape[1]), -1, dtype=np.int32)])

    def possible(self) -> NDArray[np.bool_] | None:
        """Cells whose path breaks no rule."""
        fine = self.tree.possible()
        return None if fine is None else np.append(fine[self.occupied], True)

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """As the tree's."""
        return (self, None) if self.tree.by_role()[0] is not None else (None, self)


@dataclass(frozen=True, eq=False)
class LabelledLeaves:
    """The leaves of a tree × the labels of some targets: cell = leaf · labels + label.

    Like `dipsmith.schema.Crossed`, and it knows the rules that link a path with a label.
    """

    leaves: Branching | OccupiedLeaves
    labels: Marginal

    @property
    def schema(self) -> Schema:
        """The schema of both."""
        return self.leaves.schema

    @property
    def attributes(self) -> tuple[str, ...]:
        """What the tree asks, then the targets."""
        return tuple(dict.fromkeys((*self.leaves.attributes, *self.labels.attributes)))

    @property
    def size(self) -> int:
        """Leaves × labels."""
        return self.leaves.size * self.labels.size

    @property
    def key(self) -> str:
        """The tree's key and the targets."""
        return f"{self.leaves.key} × {self.labels.key}"

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The cell of every row."""
        return self.leaves.index(codes) * self.labels.size + self.labels.index(codes)

    def possible(self) -> NDArray[np.bool_] | None:
        """Cells that no rule over path and labels forbids."""
        known = {*self.leaves.attributes, *self.labels.attributes}
        rules = [r for r in self.schema.rules if set(r.attributes) <= known]
        if not rules:
            return None
        paths = self.leaves.paths()
        label = dict(
            zip(
                self.labels.attributes,
                np.unravel_index(np.arange(self.labels.size), self.labels.shape),
                strict=True,
            )
        )
        fine = np.ones((self.leaves.size, self.labels.size), dtype=bool)
        for rule in rules:
            here, there = np.ones(self.leaves.size, dtype=bool), np.ones(self.labels.size, dtype=bool)
            for name, codes in rule.never:
                if name in label:
                    there &= np.isin(label[name], codes)
                else:
                    here &= np.isin(paths[:, self.leaves.columns.index(name)], codes)
            fine &= ~(here[:, None] & there[None, :])
        return fine.ravel()

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """(leaves, labels) when the tree asks only public and the targets are all private attributes."""
        public = all(self.schema[n].role == "public" for n in self.leaves.attributes)
        private = all(self.schema[n].role == "private" for n in self.labels.attributes)
        return (self.leaves, self.labels) if public and private else (None, self)


def code_table(
    codes: Codes, columns: Sequence[str], asked: Sequence[str] | None = None
) -> NDArray[np.unsignedinteger]:
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
