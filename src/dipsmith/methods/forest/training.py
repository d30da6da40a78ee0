"""Growing: how one ensemble of trees is bought from a curator, question by question.

Five questions, each with its share of the budget:

1. the label marginal, which would otherwise drown in the sum of the leaves' noise;
2. which attributes tell most about the labels, and so come first on every path (`Dependence`);
3. if the sizes of branches are neither public nor guessed for free, noisy sizes, level by level;
4. the label counts of all leaves of each tree;
5. nothing more: estimation is post-processing (`dipsmith.methods.forest.shrinkage`).

Shares follow from the schema and the recipe alone, so a plan made beforehand and the run agree to the
last unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, log, pi, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.methods.forest.ensemble import Ensemble, LeafTable
from dipsmith.methods.forest.leaves import LeafCounts, as_floats, estimated_sizes, joined_marginal, plain
from dipsmith.methods.forest.shrinkage import shrink
from dipsmith.methods.forest.splitting import Draw, Grown, RowCounter, grow
from dipsmith.methods.forest.tree_shape import (
    Branching,
    LabelledLeaves,
    OccupiedLeaves,
    code_table,
)
from dipsmith.methods.method import count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Codes, Marginal, Schema

SPLIT_WHILE: Final = 40.0
"""A branch is split while it has this many standard deviations of a leaf's noise (when n_b is not given)."""

LEAST_SPLIT: Final = 25
"""No branch with fewer rows is split (when n_b is not given)."""

RANK_RATIO: Final = 3.0
"""With several trees, how many times likelier each attribute is to be asked next than the one ranked after it."""

MARGINAL_COST: Final = 1e-3
"""Nats per row that the noise on the label marginal may cost."""

MOST_FOR_MARGINAL: Final = 0.6

MEASURED_AT_ONCE: Final = 1 << 22
"""Cells counted in one pass over the rows: 32 MB of counts."""


@dataclass(frozen=True)
class Step:
    """One ensemble: what it labels, what its trees may ask, what every path asks first."""

    targets: tuple[str, ...]
    predictors: tuple[str, ...]
    forced: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " × ".join(self.targets)


@dataclass(frozen=True)
class Recipe:
    """The parameters of a forest that concern one ensemble."""

    trees: int
    n_b: int | None
    n_leaf: int | None
    weights: Mapping[str, float] | None
    ordered: bool
    max_depth: int | None
    shrink: bool
    marginal_share: float
    order_share: float
    growth_share: float

    def depth(self, schema: Schema, step: Step) -> int:
        """How many levels a tree is expected to have: until ten thousand equal branches."""
        if not step.predictors:
            return 0
        mean = sum(log(schema[name].size) for name in step.predictors) / len(step.predictors)
        expected = 8 if mean <= 0 else min(max(ceil(log(1e4) / mean), 2), 8)
        deepest = len(step.predictors) if self.max_depth is None else self.max_depth
        return min(expected, deepest, len(step.predictors))

    def shares(
        self,
        schema: Schema,
        step: Step,
        budget: Budget,
        *,
        relation: str,
        rows: int | None,
        noisy: bool,
    ) -> Shares:
        """What each question of a step may cost, given the public number of rows."""
        if not step.predictors:
            return Shares(budget, (), (), ())
        depth = self.depth(schema, step)
        choices = min(depth, len(step.predictors) - 1) if self.ordered else 0
        levels = depth - 1 if noisy else 0
        marginal = self._for_marginal(schema, step, budget, relation, rows)
        rest = (1.0 - marginal) / (1.0 - self.marginal_share)
        asked = [
            marginal,
            rest * self.order_share if choices else 0.0,
            rest * self.growth_share if levels else 0.0,
        ]
        parts: list[Budget] = list(budget.split([*(a for a in asked if a > 0), 1.0 - sum(asked)]))
        trees: tuple[Budget, ...] = tuple(parts.pop().split(self.trees))
        given: list[Budget | None] = [parts.pop(0) if a > 0 else None for a in asked]
        return Shares(
            given[0],
            () if given[1] is None else tuple(given[1].split(choices)),
            () if given[2] is None else tuple(given[2].split(levels * self.trees)),
            trees,
        )

    def _for_marginal(
        self, schema: Schema, step: Step, budget: Budget, relation: str, rows: int | None
    ) -> float:
        """The share of the label marginal: as set, or more where its noise alone would cost too much.

        With K equally frequent labels, noise of variance v on their counts costs K(K−1)·v/2n² nats per row,
        and v falls with the square of ε, or with ρ.
        """
        if self.marginal_share == 0 or not rows:
            return self.marginal_share
        labels = schema.size(step.targets)
        whole = count_noise(
            relation, schema.unit.max_rows, budget, single=relation == "label" and labels == 2
        )
        loss = labels * (labels - 1) * whole.sd**2 / (2 * rows**2)
        needed = (loss / MARGINAL_COST) ** (0.5 if budget.currency == "epsilon" else 1.0)
        return float(max(self.marginal_share, min(needed, MOST_FOR_MARGINAL)))


@dataclass(frozen=True)
class Shares:
    """What each question costs: the label marginal, each choice, each level of each tree, each tree's leaves."""

    marginal: Budget | None
    order: tuple[Budget, ...]
    growth: tuple[Budget, ...]
    trees: tuple[Budget, ...]

    def levels(self, tree: int) -> tuple[Budget, ...]:
        """What the levels of one tree may cost."""
        each = len(self.growth) // max(len(self.trees), 1)
        return self.growth[tree * each : (tree + 1) * each]


@dataclass(frozen=True, eq=False)
class Ground:
    """Rows that trees may grow on for free: public ones, or ones synthesised from what was already paid for.

    Attributes
    ----------
    rows
        Codes with the columns that trees ask.
    weights
        For how many private rows each of them stands.
    """

    rows: Codes
    weights: NDArray[np.float64]

    def crossed(self, names: Sequence[str]) -> Ground:
        """Every row once for each combination of private attributes, which say nothing about growth."""
        schema, columns = self.rows.schema, dict(self.rows.columns)
        size = schema.size(names)
        grid = np.unravel_index(np.arange(size), [schema[n].size for n in names])
        spread = {n: np.tile(c, len(self.rows)) for n, c in zip(names, grid, strict=True)}
        kept = {n: np.repeat(c, size) for n, c in columns.items()}
        codes = Codes.of(schema, {**kept, **spread}, len(self.rows) * size)
        return Ground(codes, np.repeat(self.weights, size) / size)


@dataclass(frozen=True, eq=False)
class Dependence:
    """How far targets are from independent of an attribute: rows that would have to change their label.

    The score of attribute a is ½ Σ_c Σ_k |N_ck − N_c·π_k| minus what chance alone would give, N the counts of
    a's labels c with the targets' labels k, π a distribution fixed beforehand. One row more or less in cell
    (c, k) changes the sum by ½·(1 − π_k + Σ_{j≠k} π_j) = 1 − π_k ≤ 1, a changed label by ½·2 = 1, a replaced
    row by at most 2. Under `label` a row whose predictor is private as well (a sequence of targets) may leave
    one group and enter another, as a replaced row does (``docs/proofs/forest.md``).

    Attributes
    ----------
    marginal
        π: noisy and paid for, or public.
    chance
        For each attribute what independence would score on average; public.
    """

    schema: Schema
    targets: tuple[str, ...]
    marginal: NDArray[np.float64]
    chance: Mapping[str, float]

    name = "rows off independence"

    def tables(self, candidate: str) -> Sequence[Marginal]:
        """The attribute with the targets."""
        return [Marginal.of(self.schema, (candidate, *self.targets))]

    def value(self, candidate: str, counts: Sequence[NDArray[np.int64]]) -> float:
        """Rows beyond chance."""
        table = counts[0].reshape(-1, len(self.marginal)).astype(np.float64)
        apart = np.abs(table - table.sum(axis=1, keepdims=True) * self.marginal)
        return float(apart.sum()) / 2 - self.chance[candidate]

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """One for each row, two where a row may change its group: replaced, or asked about a private attribute."""
        asks_private = any(self.schema[name].role == "private" for name in self.chance)
        moves = relation == "replace" or (relation == "label" and asks_private)
        return Fraction(max_rows * (2 if moves else 1))

    def monotone(self, relation: str) -> bool:
        """A row may bring some attributes nearer to independence and others further from it."""
        return False


class NoisyCounter:
    """Noisy sizes of branches, bought level by level; once all is spent, an equal share of the branch above."""

    def __init__(self, curator: Curator, rows: float, levels: Sequence[Budget]) -> None:
        self._curator = curator
        self._levels = list(levels)
        self._last = np.array([rows])

    def __call__(self, tree: Branching) -> NDArray[np.float64]:
        """The sizes of the nodes of the last level."""
        if len(tree.levels) == 2:
            return self._last
        start, stop = tree.levels[-2:]
        if self._levels:
            measured = self._curator.measure([tree], [self._levels.pop(0)])[0]
            self._last = measured.values[tree.leaf_of[start:stop]].astype(np.float64)
        else:
            up = tree.parent[start:stop]
            self._last = self._last[up - tree.levels[-3]] / tree.fans[tree.asks[up]]
        return self._last

    @property
    def left(self) -> list[Budget]:
        """What the tree did not need, because it stopped earlier."""
        return self._levels


@dataclass(frozen=True, eq=False)
class Purchase:
    """One ensemble being bought."""

    curator: Curator
    recipe: Recipe
    step: Step
    shares: Shares
    ground: Ground | None
    growth: str

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.curator.schema

    @cached_property
    def labels(self) -> Marginal:
        """The joint labels of the targets."""
        return Marginal.of(self.schema, self.step.targets)

    @property
    def free(self) -> bool:
        """Whether trees grow on the exact public counts of the very rows that are measured."""
        return self.growth == "public-predictors" and all(
            self.schema[name].role == "public" for name in self.step.predictors
        )

    @cached_property
    def n_b(self) -> float:
        """The count down to which branches are split."""
        if self.recipe.n_b is not None:
            return self.recipe.n_b
        return split_while(self.schema, self.curator.relation, self.step, self.shares.trees[0])

    def buy(self) -> tuple[Ensemble, tuple[float, float]]:
        """Ask all questions; return the ensemble, and the number of rows with its variance."""
        root = Branching.root(self.schema, ())
        known, marginal = [], np.full(self.labels.size, 1.0 / self.labels.size)
        rows = (0.0, float("inf")) if self.curator.rows is None else (float(self.curator.rows), 0.0)
        if self.shares.marginal is not None:
            table = self.curator.measure([self.labels], [self.shares.marginal])[0]
            counts = self._leaf_counts(Grown(root, np.zeros(1)), table)
            known.append(counts.totals)
            marginal = joined_marginal(known)
            if self.curator.rows is None:
                rows = (max(float(table.values.sum()), 0.0), self.labels.size * table.variance)
        if not self.step.predictors:
            tables: tuple[LeafTable, ...] = (LeafTable(root, marginal[None, :].astype(np.float32)),)
            return Ensemble(self.schema, self.step.targets, tables), rows
        grown = self._grown(self._weights(marginal, rows[0]), rows[0])
        leaves = self._measured(grown)
        del grown
        if self.shares.marginal is not None or self.recipe.shrink:
            marginal = joined_marginal([*known, *(counts.totals for counts in leaves)])
        made: list[LeafTable] = []
        trees = len(leaves)
        while leaves:
            self.curator.report("shrinking", len(made) / trees)
            counts = leaves.pop(0)
            p = shrink(counts, marginal) if self.recipe.shrink else plain(counts, marginal).astype(np.float32)
            # A copy, without what was worked out on the way.
            made.append(LeafTable(replace(counts.tree), p))
        return Ensemble(self.schema, self.step.targets, tuple(made)), rows

    def _weights(self, marginal: NDArray[np.float64], rows: float) -> NDArray[np.float64]:
        """How early each predictor is asked: as given, or by what it tells about the targets."""
        names = self.step.predictors
        if not self.recipe.ordered:
            given = self.recipe.weights or {}
            return np.array([given.get(name, 1.0) for name in names])
        score = Dependence(self.schema, self.step.targets, marginal, self._chance(marginal, rows))
        left, order = list(names), []
        for share in self.shares.order:
            order.append(self.curator.choose(left, score, share))
            left.remove(order[-1])
        rest = self.curator.coins(f"{self.step}: order").permutation(len(left))
        order += [left[i] for i in rest]
        return np.array([RANK_RATIO ** -order.index(name) for name in names])

    def _chance(self, marginal: NDArray[np.float64], rows: float) -> dict[str, float]:
        """What the score of an independent attribute is on average: E|N_ck − N_c·π_k| = √(2·N_c·π_k(1−π_k)/π).

        From public sizes N_c where they are, else the most it can be: equal sizes.
        """
        spread = float(np.sqrt(marginal * (1 - marginal)).sum()) * sqrt(2 / pi) / 2
        found = {
            name: spread * sqrt(max(rows, 0.0) * self.schema[name].size) for name in self.step.predictors
        }
        public = [n for n in self.step.predictors if self.schema[n].role == "public"]
        if self.curator.relation == "label" and public:
            sizes = self.curator.public_counts([Marginal.of(self.schema, [n]) for n in public])
            found |= {n: spread * float(np.sqrt(s).sum()) for n, s in zip(public, sizes, strict=True)}
        return found

    def _grown(self, weights: NDArray[np.float64], rows: float) -> list[tuple[Grown, Budget]]:
        """Each tree, and what its leaves may cost: its share, and what its growth did not need."""
        names = self.step.predictors
        forced = np.array([name in self.step.forced for name in names])
        table = None if self.ground is None else code_table(self.ground.rows, names)
        made = []
        for i, share in enumerate(self.shares.trees):
            self.curator.report("growing", i / len(self.shares.trees))
            alone = self.recipe.ordered and len(self.shares.trees) == 1
            draw = Draw(weights, None if alone else self.curator.coins(f"{self.step}: tree {i + 1}"), forced)
            counter: RowCounter | NoisyCounter = NoisyCounter(self.curator, rows, self.shares.levels(i))
            if self.ground is not None and table is not None:
                counter = RowCounter(table, self.ground.weights)
            root = Branching.root(self.schema, names)
            grown = grow(root, counter, draw, self.n_b, self.recipe.n_leaf, self.recipe.max_depth)
            unused = counter.left if isinstance(counter, NoisyCounter) else []
            made.append((grown, _sum([share, *unused])))
        return made

    def _measured(self, grown: Sequence[tuple[Grown, Budget]]) -> list[LeafCounts]:
        """The noisy label counts of all trees, in as few passes over the rows as memory allows."""
        found: list[LeafCounts] = []
        waiting: list[tuple[Grown, Budget, LabelledLeaves]] = []
        for tree, budget in grown:
            cells = LabelledLeaves(self._leaves(tree), self.labels)
            if waiting and sum(c.size for _, _, c in waiting) + cells.size > MEASURED_AT_ONCE:
                found += self._answered(waiting)
                waiting = []
            waiting.append((tree, budget, cells))
        return found + self._answered(waiting)

    def _answered(self, asked: Sequence[tuple[Grown, Budget, LabelledLeaves]]) -> list[LeafCounts]:
        """The label counts of some trees, in one pass."""
        answers = self.curator.measure([c for _, _, c in asked], [b for _, b, _ in asked])
        return [self._leaf_counts(g, m) for (g, _, _), m in zip(asked, answers, strict=True)]

    def _leaves(self, grown: Grown) -> Branching | OccupiedLeaves:
        """What is measured: all leaves, or where their sizes are public those that have rows."""
        if not self.free:
            return grown.tree
        return OccupiedLeaves(grown.tree, np.flatnonzero(grown.counts[grown.tree.leaves] > 0))

    def _leaf_counts(self, grown: Grown, measured: Measurement) -> LeafCounts:
        values = as_floats(measured.values.reshape(-1, self.labels.size))
        # A tree that asks private attributes alone has only the public total of all rows.
        if measured.totals is not None and len(measured.totals) == len(values):
            sizes, leaves = measured.totals.astype(np.float64), getattr(measured.cells, "leaves", None)
            if isinstance(leaves, OccupiedLeaves):
                cells = leaves.occupied
                return LeafCounts(grown.tree, values[:-1], measured.variance, sizes[:-1], True, cells)
            return LeafCounts(grown.tree, values, measured.variance, sizes, public=True)
        guess = grown.counts[grown.tree.leaves]
        sizes = estimated_sizes(
            values.sum(axis=1, dtype=np.float64), self.labels.size * measured.variance, guess
        )
        return LeafCounts(grown.tree, values, measured.variance, sizes, public=False)


def split_while(schema: Schema, relation: str, step: Step, budget: Budget) -> float:
    """The count down to which branches are split by default: a multiple of the noise on a leaf's counts."""
    noise = leaf_noise(schema, relation, step, budget)
    return max(LEAST_SPLIT, ceil(SPLIT_WHILE * noise))


def leaf_noise(schema: Schema, relation: str, step: Step, budget: Budget) -> float:
    """Standard deviation of the noise on one count of a leaf."""
    public = relation == "label" and all(schema[n].role == "public" for n in step.predictors)
    single = public and schema.size(step.targets) == 2
    return count_noise(relation, schema.unit.max_rows, budget, single=single).sd


def _sum(budgets: Sequence[Budget]) -> Budget:
    return type(budgets[0]).of_units(sum(b.units for b in budgets))
