"""Training: how one ensemble of trees is bought from a curator, question by question.

1. The label marginal, which would otherwise drown in the sum of the leaves' noise.
2. Which attributes tell most about the labels, and so come first on every path (`Dependence`).
3. If the sizes of branches are neither public nor guessed for free: noisy sizes, level by level.
4. The label counts of all leaves of each tree.

Estimation is post-processing (`dipsmith.methods.forest.shrinkage`). What each question costs is decided
beforehand (`dipsmith.methods.forest.settings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import pi, sqrt
from typing import Final

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.methods.forest.leaves import LeafCounts, estimate_separately, estimate_sizes, join_marginals
from dipsmith.methods.forest.model import Ensemble, LeafTable
from dipsmith.methods.forest.settings import EnsembleCosts, EnsembleSpec, TreeSettings
from dipsmith.methods.forest.shrinkage import shrink
from dipsmith.methods.forest.splitting import AttributeDraw, GrownTree, NoisyCounter, RowCounter, grow
from dipsmith.methods.forest.tree_shape import LabelledLeaves, TreeShape, code_table
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.score import Score
from dipsmith.schema import Codes, Marginal, Schema

RANK_RATIO: Final = 3.0
"""With several trees, how many times likelier each attribute is to be asked next than the one ranked after it."""
MEASURED_AT_ONCE: Final = 1 << 22
"""Cells counted in one pass over the rows: 32 MB of counts."""


@dataclass(frozen=True, eq=False)
class GrowthRows:
    """Rows that trees may grow on for free: public ones, or ones synthesised from what was already paid for.

    They have the columns that trees ask; `weights` says for how many private rows each of them stands.
    """

    rows: Codes
    weights: Floats

    @classmethod
    def standing_for(cls, rows: Codes, total: float) -> GrowthRows:
        """Rows that stand for `total` rows together."""
        return cls(rows, np.full(len(rows), total / max(len(rows), 1)))

    @classmethod
    def public(cls, curator: Curator, spec: EnsembleSpec, table: PublicTable | None) -> GrowthRows:
        """Rows of a public table, else the public columns of the private table's own rows (neighbours `label`)."""
        names = spec.growth_columns(curator.schema, curator.relation)
        if table is not None:
            codes = table.codes.project(names)
            found = cls.standing_for(codes, len(codes) if curator.rows is None else curator.rows)
        elif names:
            rows, often = curator.public_rows(names)
            found = cls(rows, often.astype(np.float64))
        else:
            # A sequence of targets without public columns: to the public, all rows are alike.
            (often,) = curator.public_counts([Marginal(curator.schema, ())])
            found = cls(Codes(curator.schema, {}, len(often)), often.astype(np.float64))
        return found.cross_with([n for n in spec.predictors if n not in names])

    def cross_with(self, names: Sequence[str]) -> GrowthRows:
        """Repeat every row once for each combination of private attributes, which say nothing about growth."""
        if not names:
            return self
        schema, size = self.rows.schema, self.rows.schema.size(names)
        grid = np.unravel_index(np.arange(size), [schema[n].size for n in names])
        columns = {n: np.repeat(c, size) for n, c in self.rows.columns.items()}
        columns |= {n: np.tile(c, len(self.rows)) for n, c in zip(names, grid, strict=True)}
        codes = Codes.of(schema, columns, len(self.rows) * size)
        return GrowthRows(codes, np.repeat(self.weights, size) / size)


@dataclass(frozen=True, eq=False)
class Dependence(Score[str]):
    """How far targets are from independent of an attribute: rows that would have to change their label.

    The score of attribute a is ½ Σ_c Σ_k |N_ck − N_c·π_k| minus what chance alone would give, N the counts of
    a's labels c with the targets' labels k, π a distribution fixed beforehand. One row more or less in cell
    (c, k) changes the sum by ½·(1 − π_k + Σ_{j≠k} π_j) = 1 − π_k ≤ 1, a changed label by ½·2 = 1, a replaced
    row by at most 2. Under `label` a row whose predictor is private as well (a sequence of targets) may leave
    one group and enter another, as a replaced row does (``docs/proofs/forest.md``).

    `marginal` is π: noisy and paid for, or public. `chance` is what each attribute would score on average were it
    independent; public.
    """

    schema: Schema
    targets: tuple[str, ...]
    marginal: Floats
    chance: Mapping[str, float]

    name = "rows off independence"

    def tables(self, candidate: str) -> Sequence[Marginal]:
        """The attribute with the targets."""
        return [Marginal.of(self.schema, (candidate, *self.targets))]

    def value(self, candidate: str, counts: Sequence[Ints]) -> float:
        """Rows beyond chance."""
        table = counts[0].reshape(-1, len(self.marginal)).astype(np.float64)
        apart = np.abs(table - table.sum(axis=1, keepdims=True) * self.marginal)
        return float(apart.sum()) / 2 - self.chance[candidate]

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """One for each row, two where a row may change its group: replaced, or asked about a private attribute."""
        asks_private = any(self.schema[name].role == "private" for name in self.chance)
        moves = relation == "replace" or (relation == "label" and asks_private)
        return Fraction(max_rows * (2 if moves else 1))


@dataclass(frozen=True, eq=False)
class EnsembleTraining:
    """One ensemble being trained.

    Trees grow on `growth_rows`; without, on noisy counts. `exact` says whether these are the public columns of the
    very rows that are measured.
    """

    curator: Curator
    settings: TreeSettings
    spec: EnsembleSpec
    costs: EnsembleCosts
    growth_rows: GrowthRows | None
    exact: bool

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.curator.schema

    @cached_property
    def labels(self) -> Marginal:
        """The joint labels of the targets."""
        return Marginal.of(self.schema, self.spec.targets)

    def train(self) -> tuple[Ensemble, tuple[float, float]]:
        """Ask all questions; return the ensemble, and the number of rows with its variance."""
        root = TreeShape.root(self.schema, ())
        known, marginal = [], np.full(self.labels.size, 1.0 / self.labels.size)
        rows = (0.0, float("inf")) if self.curator.rows is None else (float(self.curator.rows), 0.0)
        if self.costs.marginal is not None:
            table = self.curator.measure([self.labels], [self.costs.marginal])[0]
            known.append(self._leaf_counts(GrownTree(root, np.zeros(1)), table).totals)
            marginal = join_marginals(known)
            if self.curator.rows is None:
                rows = (max(float(table.values.sum()), 0.0), self.labels.size * table.variance)
        if not self.spec.predictors:
            tables = [LeafTable(root, marginal[None, :].astype(np.float32))]
            return Ensemble(self.schema, self.spec.targets, tuple(tables)), rows
        leaves = self._measure_leaves(self._grow_trees(self._weights(marginal, rows[0]), rows[0]))
        if self.costs.marginal is not None or self.settings.shrink:
            marginal = join_marginals([*known, *(counts.totals for counts in leaves)])
        estimate = shrink if self.settings.shrink else estimate_separately
        tables, trees = [], len(leaves)
        while leaves:
            self.curator.report("shrinking", len(tables) / trees)
            counts = leaves.pop(0)
            # `replace` copies the shape without what was worked out on the way.
            sizes = counts.spread(counts.sizes).astype(np.float32)
            tables.append(LeafTable(replace(counts.tree), estimate(counts, marginal), sizes))
        return Ensemble(self.schema, self.spec.targets, tuple(tables)), rows

    def _weights(self, marginal: Floats, rows: float) -> Floats:
        """How early each predictor is asked: as given, or by what it tells about the targets."""
        names = self.spec.predictors
        if not self.settings.ordered:
            return np.array([self.settings.weight(name) for name in names])
        score = Dependence(self.schema, self.spec.targets, marginal, self._chance(marginal, rows))
        left, order = list(names), []
        for cost in self.costs.order:
            order.append(self.curator.choose(left, score, cost))
            left.remove(order[-1])
        rest = self.curator.coins(f"{self.spec}: order").permutation(len(left))
        order += [left[i] for i in rest]
        return np.array([RANK_RATIO ** -order.index(name) for name in names])

    def _chance(self, marginal: Floats, rows: float) -> dict[str, float]:
        """What the score of an independent attribute is on average: E|N_ck − N_c·π_k| = √(2·N_c·π_k(1−π_k)/π).

        From public sizes N_c where they are, else the most it can be: equal sizes.
        """
        spread = float(np.sqrt(marginal * (1 - marginal)).sum()) * sqrt(2 / pi) / 2
        names = self.spec.predictors
        found = {n: spread * sqrt(max(rows, 0.0) * self.schema[n].size) for n in names}
        public = [n for n in names if self.schema[n].role == "public"]
        if self.curator.relation == "label" and public:
            sizes = self.curator.public_counts([Marginal.of(self.schema, [n]) for n in public])
            found |= {n: spread * float(np.sqrt(s).sum()) for n, s in zip(public, sizes, strict=True)}
        return found

    def _grow_trees(self, weights: Floats, rows: float) -> list[tuple[GrownTree, Budget]]:
        """Each tree, and what its leaves may cost: its share, and what its growth did not need."""
        names, settings, curator = self.spec.predictors, self.settings, self.curator
        n_b = settings.split_from(self.schema, curator.relation, self.spec, self.costs.trees[0])
        forced = np.array([name in self.spec.must_ask for name in names])
        table = None if self.growth_rows is None else code_table(self.growth_rows.rows, names)
        made = []
        for i, cost in enumerate(self.costs.trees):
            curator.report("growing", i / len(self.costs.trees))
            alone = settings.ordered and len(self.costs.trees) == 1
            coins = None if alone else curator.coins(f"{self.spec}: tree {i + 1}")
            noisy = NoisyCounter(curator, rows, self.costs.levels(i))
            counter: RowCounter | NoisyCounter = noisy
            if self.growth_rows is not None and table is not None:
                counter = RowCounter(table, self.growth_rows.weights)
            root, draw = TreeShape.root(self.schema, names), AttributeDraw(weights, coins, forced)
            grown = grow(root, counter, draw, n_b, settings.n_leaf, settings.max_depth)
            made.append((grown, type(cost).of_units(sum(b.units for b in (cost, *noisy.unspent)))))
        return made

    def _measure_leaves(self, grown: Sequence[tuple[GrownTree, Budget]]) -> list[LeafCounts]:
        """The noisy label counts of all trees, in as few passes over the rows as memory allows."""
        found: list[LeafCounts] = []
        waiting: list[tuple[GrownTree, Budget, LabelledLeaves]] = []

        def measure() -> None:
            answers = self.curator.measure([cells for _, _, cells in waiting], [b for _, b, _ in waiting])
            found.extend(self._leaf_counts(g, m) for (g, _, _), m in zip(waiting, answers, strict=True))
            waiting.clear()

        for tree, budget in grown:
            cells = LabelledLeaves(self._cells(tree), self.labels)
            if waiting and sum(c.size for _, _, c in waiting) + cells.size > MEASURED_AT_ONCE:
                measure()
            waiting.append((tree, budget, cells))
        measure()
        return found

    def _cells(self, grown: GrownTree) -> TreeShape:
        """What is measured: all leaves, or where their sizes are public those that have rows."""
        if not self.exact:
            return grown.tree
        return grown.tree.with_occupied(np.flatnonzero(grown.counts[grown.tree.leaves] > 0))

    def _leaf_counts(self, grown: GrownTree, measured: Measurement) -> LeafCounts:
        tree, values = grown.tree, measured.values.reshape(-1, self.labels.size).astype(np.float64)
        # A tree that asks private attributes alone has only the public total of all rows.
        if measured.totals is not None and len(measured.totals) == len(values):
            sizes = measured.totals.astype(np.float64)
            occupied = measured.cells.first.occupied if isinstance(measured.cells, LabelledLeaves) else None
            if occupied is None:
                return LeafCounts(tree, values, measured.variance, sizes, public=True)
            return LeafCounts(tree, values[:-1], measured.variance, sizes[:-1], True, occupied)
        sums = values.sum(axis=1, dtype=np.float64)
        sizes = estimate_sizes(sums, self.labels.size * measured.variance, grown.counts[tree.leaves])
        return LeafCounts(tree, values, measured.variance, sizes, public=False)
