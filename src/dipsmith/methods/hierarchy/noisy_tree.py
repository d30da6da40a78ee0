"""A noisy tree: counts of every level of a hierarchy over a cross-table, made to agree.

Each level is a partition of all rows, finer than the one above; the last is the full cross-table. All of
them were measured with noise of known variance (or not at all, or are public). From that follow

* unbiased estimates of every cell that use all measurements (`tree.gls`), and with them the
  answer to any counting question with its standard error;
* a table without negative counts, made from the root down, as in the TopDown algorithm of the 2020 census (Abowd et
  al. 2022), which solves larger problems by optimisation (`project_down`);
* whole rows: counts are rounded within each node, so that upper levels are met exactly.

A hierarchy buys precise sums of the nodes it measures. It never makes single cells more precise than
measuring them alone with the whole budget would (Hay, Rastogi, Miklau and Suciu, VLDB 2010; Qardaji, Yang
and Li, VLDB 2013).

Privacy: `measure` asks the curator for one table per level and charges each; the rest is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf, sqrt
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.estimation.answers import Answer, Answering, NoisyTable, Post
from dipsmith.estimation.simplex import clip_within
from dipsmith.estimation.tree import Tree, gls, sum_variance
from dipsmith.estimation.tree_counts import project_down, round_top_down
from dipsmith.methods.hierarchy.layers import Layers
from dipsmith.methods.hierarchy.ranges import Ranges
from dipsmith.methods.hierarchy.tree_view import TreeView
from dipsmith.methods.model_tree import ModelTree
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import Generator, generator
from dipsmith.schema import Codes, Marginal, Schema

LARGEST_TABLE = 1 << 24
"""A tree is held whole, at about a hundred bytes for each cell."""

LEAST_VARIANCE = 1e-9
"""Of a measured count, where noise is 0 to double precision: only what is public is exact, and may not be contradicted."""


N = TypeVar("N", "NoisyTree", NoisyTable)

Hierarchy = Layers | Ranges
"""A cross-table and coarser and coarser partitions above it, up to all rows in one node."""


@dataclass(frozen=True, eq=False)
class NoisyTree:
    """Noisy counts of all levels of a hierarchy, root first, each in the order of its nodes.

    `variances` has the noise variance of each level: 0 for a public count, infinite for a level not measured.
    """

    hierarchy: Hierarchy
    values: tuple[Ints, ...]
    variances: tuple[float, ...]

    @property
    def tree(self) -> Tree:
        """The shape of the hierarchy."""
        return self.hierarchy.tree

    @property
    def marginal(self) -> Marginal:
        """The cross-table whose cells the leaves are."""
        return self.hierarchy.table

    @cached_property
    def possible(self) -> Bools:
        """The nodes that hold at least one cell that no rule forbids."""
        nodes = np.ones(self.tree.size, dtype=bool)
        cells = self.marginal.possible()
        if cells is None:
            return nodes
        nodes[self._leaves] = cells[self.hierarchy.leaf_cells]
        for family in reversed(self.tree.families()):
            nodes[family.nodes] = np.logical_or.reduceat(nodes[family.children], family.starts)
        return nodes

    @property
    def _leaves(self) -> slice:
        return slice(self.tree.layers[-2], self.tree.layers[-1])

    @cached_property
    def noise(self) -> Floats:
        """The noise variance of every node; 0 where it is public or impossible."""
        return np.where(self.possible, np.repeat(self.variances, np.diff(self.tree.layers)), 0.0)

    @cached_property
    def estimates(self) -> Floats:
        """The unbiased estimate of every node, before anything negative is removed."""
        measured = np.where(self.possible, np.concatenate(self.values), 0.0)
        return gls(self.tree, measured, self.noise)

    @property
    def total(self) -> float:
        """The estimated number of rows."""
        return float(self.estimates[0])

    def counts(self, post: Post) -> Floats:
        """Non-negative numbers for all nodes, children summing to their parent."""
        if post == "project":
            return project_down(self.tree, self.estimates, self.noise)
        made, able = np.maximum(self.estimates, 0.0), self.possible
        for family in self.tree.families():
            below = family.children
            made[below] = clip_within(self.estimates[below], family.owner, made[family.nodes], able[below])
        return made

    def cells(self, post: Post) -> Floats:
        """The non-negative table, in the order of its cells."""
        return self._by_cell(self.counts(post)[self._leaves])

    def rows(self, post: Post, n: int, random: Generator) -> Ints:
        """Draw `n` rows: how many of them lie in each cell of the table.

        Counts above the leaves are rounded by largest remainders within their parent. Leaves are rounded
        up or down at random, so that each is met on average, and to the exact sum of their parent.
        """
        made = self.counts(post)
        if made[0] <= 0:
            made = self._evenly()
        above = Tree(self.tree.parent[: self._leaves.start])
        whole = round_top_down(above, made[: above.size] * (n / made[0]), n, self.possible[: above.size])
        family = self.tree.families()[-1]
        wanted, weights = whole[family.nodes], made[self._leaves]
        # Rounding may give a row to a node without weight: spread it over what is possible.
        bare = (family.sums(weights) <= 0) & (wanted > 0)
        if bare.any():
            weights = np.where(np.repeat(bare, family.sizes), self._evenly()[self._leaves], weights)
        return self._by_cell(_round_at_random(weights, family.sizes, wanted, random))

    def sample(self, post: Post, n: int, random: Generator) -> Codes:
        """Draw `n` rows, in random order."""
        drawn = np.repeat(np.arange(self.marginal.size), self.rows(post, n, random))
        columns = np.unravel_index(random.permutation(drawn), self.marginal.shape)
        return Codes.of(self.marginal.schema, dict(zip(self.marginal.attributes, columns, strict=True)), len(drawn))

    def answer(self, weights: Floats) -> Answer:
        """The sum of the table's cells with these weights, and its standard error."""
        nodes = np.zeros(self.tree.size)
        nodes[self._leaves] = weights[self.hierarchy.leaf_cells]
        nodes[~self.possible] = 0.0
        value = float(np.dot(nodes, self.estimates))
        return Answer(value, sqrt(max(sum_variance(self.tree, self.noise, nodes), 0.0)))

    def _by_cell(self, leaves: NDArray[Any]) -> NDArray[Any]:
        cells = np.empty_like(leaves)
        cells[self.hierarchy.leaf_cells] = leaves
        return cells

    def _evenly(self) -> Floats:
        """One for every possible cell, and the sums of them above."""
        nodes = self.possible.astype(np.float64)
        for family in reversed(self.tree.families()):
            nodes[family.nodes] = family.sums(nodes[family.children])
        return nodes


@dataclass(frozen=True, eq=False)
class WholeTable(Answering, Generic[N]):
    """A model of all columns together: noisy counts, and how negative ones are removed when rows are drawn."""

    noisy: N
    post: Post

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.noisy.marginal.schema

    @property
    def rows(self) -> int:
        """The model's own estimate of the number of rows."""
        return max(0, round(self.noisy.total))

    def about(self, *attributes: str) -> N:
        """All that was measured."""
        return self.noisy

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """All columns together."""
        return (self.schema.names,)


class TreeModel(WholeTable[NoisyTree]):
    """The noisy counts of all levels of a hierarchy."""

    kind: ClassVar[str] = "tree"

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows: upper levels are met as exactly as whole numbers allow, cells on average."""
        return self.noisy.sample(self.post, self.rows if n is None else n, generator(seed))

    def trees(self) -> tuple[ModelTree, ...]:
        """The one tree: which branch was divided by which columns."""
        return (TreeView(self.noisy, self.post).tree(),)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The hierarchy, the noisy counts and what is known of the noise."""
        hierarchy, arrays = self.noisy.hierarchy, dict[str, NDArray[Any]]()
        facts: dict[str, Any] = {"post": self.post}
        facts["variances"] = [None if isinf(v) else v for v in self.noisy.variances]
        if isinstance(hierarchy, Ranges):
            facts["branching"] = hierarchy.branching
        else:
            facts["layers"], arrays = hierarchy.state()
        return facts, arrays | {f"level/{i}": values for i, values in enumerate(self.noisy.values)}

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""
        if "branching" in facts:
            hierarchy: Hierarchy = Ranges(schema, facts["branching"])
        else:
            hierarchy = Layers.from_state(schema, facts["layers"], arrays)
        variances = tuple(inf if v is None else v for v in facts["variances"])
        values = tuple(arrays[f"level/{i}"] for i in range(len(variances)))
        return cls(NoisyTree(hierarchy, values, variances), facts["post"])


def measure(curator: Curator, hierarchy: Hierarchy, budgets: Sequence[Budget | None]) -> NoisyTree:
    """Measure the levels, root first, that have a budget, in one pass; take the public row count where there is one.

    Privacy
    -------
    Every level is a partition of all rows, so each costs its own budget at the sensitivity of one table;
    together they cost the sum (sequential composition). ``docs/proofs/steps.md``.
    """
    levels = hierarchy.levels
    paid = [i for i, budget in enumerate(budgets) if budget is not None]
    answers = curator.measure([levels[i] for i in paid], [b for b in budgets if b is not None])
    values = [np.zeros(size, dtype=np.int64) for size in np.diff(hierarchy.tree.layers)]
    variances = [inf] * len(levels)
    for i, answer in zip(paid, answers, strict=True):
        values[i], variances[i] = answer.values, max(answer.variance, LEAST_VARIANCE)
    values[-1] = values[-1][hierarchy.leaf_cells]
    if curator.rows is not None:
        values[0], variances[0] = np.array([curator.rows], dtype=np.int64), 0.0
    return NoisyTree(hierarchy, tuple(values), tuple(variances))


def _round_at_random(weights: Floats, sizes: Ints, totals: Ints, random: Generator) -> Ints:
    """Whole numbers with each family's total, each within one of its share and equal to it on average.

    Systematic sampling (Madow 1949) in a random order within the family: in the order of the cells, a
    regular pattern of weights would meet the regular steps of the sampling, and some columns would come
    out constant.
    """
    # Of 16-bit numbers numpy sorts by radix: several times as fast, and the same order.
    kind = np.uint16 if sizes.size <= 1 << 16 else np.int64
    family = np.repeat(np.arange(sizes.size, dtype=kind), sizes)
    order = random.permutation(weights.size)
    order = order[np.argsort(family[order], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    sums = np.add.reduceat(weights, starts)
    share = np.divide(totals, sums, out=np.zeros(sizes.size), where=sums > 0)
    expected = weights[order] * np.repeat(share, sizes)
    reached = np.cumsum(expected)
    reached -= np.repeat(reached[starts] - expected[starts], sizes)
    # Rounding must not lose a family's last row, nor give one to a cell of weight 0.
    low = np.floor(reached + np.repeat(random.random(sizes.size), sizes))
    place = np.arange(expected.size)
    last = np.maximum(np.maximum.reduceat(np.where(expected > 0, place, -1), starts), starts)
    goal = np.repeat(totals, sizes).astype(np.float64)
    low = np.where(place >= np.repeat(last, sizes), goal, np.minimum(low, goal))
    steps = np.diff(low, prepend=0.0)
    steps[starts] = low[starts]
    drawn = np.empty(weights.size, dtype=np.int64)
    drawn[order] = steps.astype(np.int64)
    return drawn
