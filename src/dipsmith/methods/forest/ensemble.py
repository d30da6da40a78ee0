"""An ensemble: some trees with a label distribution in every leaf, ready to label rows.

A row's distribution is the average of the distributions of its leaves, one from each tree. Drawing one tree
at random and then a label from its leaf gives exactly the same distribution to a single draw, so that
labels are drawn through one tree per row. Labels that a rule forbids for a row have probability 0; a row
that the rules leave no label keeps its distribution.

Privacy: made of noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.estimation.sampling import sample_cells
from dipsmith.methods.forest.tree_shape import TreeShape, label_codes, meets
from dipsmith.privacy.randomness import Generator
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.rules import Rule

Floats = NDArray[np.float64]
Narrow = NDArray[np.float32]

BLOCK = 1 << 19
"""Probabilities held at once when labelling."""


@dataclass(frozen=True, eq=False)
class LeafTable:
    """A tree with the label distribution of each leaf (leaves × labels)."""

    tree: TreeShape
    p: Narrow


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees that label some targets jointly; joint labels vary fastest in the last target.

    There is at least one tree. A tree without questions has one leaf, the label marginal.
    """

    schema: Schema
    targets: tuple[str, ...]
    trees: tuple[LeafTable, ...]

    @cached_property
    def labels(self) -> Marginal:
        """The joint labels."""
        return Marginal.of(self.schema, self.targets)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The attributes that some tree asks."""
        asked = {name for t in self.trees for name in t.tree.attributes}
        return tuple(name for name in self.schema.names if name in asked)

    def probabilities(self, rows: Codes) -> Floats:
        """The probability of every joint label for every row (rows × labels)."""
        p = np.empty((len(rows), self.labels.size))
        for here, part in self._blocks(rows):
            p[here] = self._average(part)
        return p

    def draw(self, rows: Codes, generator: Generator) -> Codes:
        """The rows with the targets drawn; other columns are kept."""
        drawn = np.empty(len(rows), dtype=np.int64)
        if not self.columns and not self._barring(rows):
            drawn = sample_cells(self.trees[0].p[0].astype(np.float64), len(rows), generator)
        else:
            for here, part in self._blocks(rows):
                drawn[here] = self._labels(part, generator)
        codes = dict(zip(self.targets, np.unravel_index(drawn, self.labels.shape), strict=True))
        return Codes.of(self.schema, {**rows.columns, **codes}, len(rows))

    def _blocks(self, rows: Codes) -> Iterator[tuple[slice, Codes]]:
        if absent := [name for name in self.columns if name not in rows.columns]:
            needed = ", ".join(self.columns)
            raise UsageError(f"rows to be labelled have no column '{absent[0]}'; the model needs: {needed}")
        step = max(256, BLOCK // self.labels.size)
        for start in range(0, len(rows), step):
            here = slice(start, min(start + step, len(rows)))
            yield here, rows.take(here) if rows.columns else Codes(self.schema, {}, here.stop - start)

    def _labels(self, part: Codes, generator: Generator) -> NDArray[np.int64]:
        if len(self.trees) == 1 or self._barring(part):
            return _pick(self._average(part), generator)
        which = generator.integers(0, len(self.trees), len(part))
        asked = part.project(self.columns)
        label = np.empty(len(part), dtype=np.int64)
        for i, table in enumerate(self.trees):
            mine = np.flatnonzero(which == i)
            label[mine] = _pick(table.p.take(table.tree.index(asked.take(mine)), axis=0), generator)
        return label

    def _average(self, part: Codes) -> Floats:
        p = np.zeros((len(part), self.labels.size))
        for table in self.trees:
            p += table.p.take(table.tree.index(part), axis=0)
        for rule in self._barring(part):
            p = self._barred(p, part, rule)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def _barring(self, part: Codes) -> list[Rule]:
        """The rules that name a target, and nothing that these rows lack."""
        known, targets = {*part.columns, *self.targets}, {*self.targets}
        return [r for r in self.schema.rules if set(r.attributes) <= known and set(r.attributes) & targets]

    def _barred(self, p: Floats, part: Codes, rule: Rule) -> Floats:
        barred = meets(rule, label_codes(self.labels), self.labels.size)
        others = {n: c for n, c in part.columns.items() if n not in self.targets}
        concerned = meets(rule, others, len(part))
        allowed = p.copy()
        allowed[np.ix_(concerned, barred)] = 0.0
        hopeless = allowed.sum(axis=1) <= 0
        allowed[hopeless] = p[hopeless]
        return allowed

    # --- keeping ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The ensemble as JSON-able facts and arrays."""
        facts: dict[str, Any] = {"targets": list(self.targets), "trees": []}
        arrays: dict[str, NDArray[Any]] = {}
        for i, table in enumerate(self.trees):
            tree = table.tree
            facts["trees"].append({"columns": list(tree.columns), "levels": [int(x) for x in tree.levels]})
            arrays[f"{i}/asks"], arrays[f"{i}/p"] = tree.asks, table.p
        return facts, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The ensemble back from its state."""
        targets = tuple(facts["targets"])
        tables = []
        for i, fact in enumerate(facts["trees"]):
            tree = TreeShape.root(schema, fact["columns"])
            asks, levels = np.asarray(arrays[f"{i}/asks"]), fact["levels"]
            for start, stop in pairwise(levels[:-1]):
                tree = tree.split(asks[start:stop])
            p = np.asarray(arrays[f"{i}/p"], dtype=np.float32)
            if len(tree.asks) != len(asks) or p.shape != (tree.size, schema.size(targets)):
                raise ValueError("a tree and its leaves do not fit together")
            tables.append(LeafTable(tree, p))
        return cls(schema, targets, tuple(tables))


def _pick(p: NDArray[np.floating], generator: Generator) -> NDArray[np.int64]:
    """One label for each row, with the given probabilities."""
    # Label by label, which is several times as fast as along so short an axis.
    reached = p.T.copy()
    for before, here in pairwise(reached):
        here += before
    at = generator.random(len(p)) * reached[-1]
    label = np.zeros(len(p), dtype=np.int64)
    for limit in reached:
        label += limit <= at
    # A label of probability 0 at the end must not be reached by rounding.
    if (beyond := np.flatnonzero(label == len(reached))).size:
        label[beyond] = len(reached) - 1 - (p[beyond, ::-1] > 0).argmax(axis=1)
    return label
