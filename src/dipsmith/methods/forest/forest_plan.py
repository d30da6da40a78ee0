"""What a forest will cost and look like, from public facts only: shown to a steward before anything is spent.

Costs follow from schema and budget alone. Depths and leaf sizes need the public rows (neighbours `label`)
and are exact for hand-set weights up to the coins; where the order of attributes will itself be bought,
they are those of a random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipsmith.methods.forest.pooled_leaf import pooled_width
from dipsmith.methods.forest.settings import ADVICE, EnsembleCosts, EnsembleSpec, TreeSettings
from dipsmith.methods.forest.splitting import AttributeDraw, RowCounter, grow
from dipsmith.methods.forest.tree_shape import TreeShape, code_table
from dipsmith.methods.method import Planned, PublicFacts, count_noise
from dipsmith.methods.model_tree import PathShares
from dipsmith.methods.outlook import (
    QUANTILES,
    Effort,
    LabelCells,
    Outlook,
    PlannedTable,
    TreeCost,
    TreePreview,
    TreeSizes,
    table_effort,
    tables_of,
    typical_sizes,
)
from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.randomness import coins
from dipsmith.schema import Schema


@dataclass(frozen=True)
class Strata:
    """How a budget is divided among the labels of an attribute: every stratum gets `each`.

    `times` is how often the run pays it: once where a unit lies in one stratum, as often as there are
    strata where its rows may lie in all of them. `apart` says whether a person who occurs in every
    stratum is protected only once in each, so that all strata together cost them the sum.
    """

    attribute: str | None
    size: int
    each: Budget
    relation: str
    times: int
    apart: bool

    @classmethod
    def of(cls, schema: Schema, attribute: str | None, budget: Budget) -> Strata:
        """The rule of the schema's relation and unit."""
        relation, unit = schema.neighbours, schema.unit
        if attribute is None:
            return cls(None, 1, budget, relation, 1, False)
        column = schema[attribute]
        recurs = neighbours.unit_recurs(unit.max_rows, unit.per, attribute)
        rule = neighbours.blocks_rule(relation, column.role == "public", recurs)
        within = neighbours.blocks_relation(relation, column.role == "public", recurs)
        times = {"maximum": 1, "two-dearest": 2, "sum": column.size}[rule]
        apart = rule != "sum" and unit.per == attribute
        return cls(attribute, column.size, budget.split(times)[0], within, times, apart)

    @property
    def whole(self) -> Budget:
        """What all strata cost together: the budget, but for a remainder of a few units that cannot be divided."""
        return type(self.each).of_units(self.each.units * self.times)


@dataclass(frozen=True)
class ForestPlan:
    """The ensembles of a forest with their budgets, and what is public about the rows."""

    schema: Schema
    settings: TreeSettings
    specs: tuple[EnsembleSpec, ...]
    budgets: tuple[Budget, ...]
    strata: Strata
    noisy: bool
    facts: PublicFacts

    def preview(self) -> TreePreview:
        """The ε table per tree × trees × ensembles × strata, and the shapes."""
        lines: list[TreeCost] = []
        shapes = []
        for spec, costs in self._ensembles():
            questions = (
                ("label marginal", () if costs.marginal is None else (costs.marginal,)),
                ("attribute order", costs.order),
                ("noisy growth", costs.growth),
                ("leaves of a tree", costs.trees),
            )
            # The last part of a split takes the remainder of a few units: parts of one size make one line.
            for question, parts in questions:
                for units in sorted({p.units for p in parts}, reverse=True):
                    alike = [p for p in parts if p.units == units]
                    lines.append(TreeCost(str(spec), question, alike[0], len(alike), self.strata.times))
            if costs.trees:
                shapes.append(self._sizes(spec, costs))
        total = sum(line.total.units for line in lines)
        of = type(self.strata.each).of_units
        every = of(total * (self.strata.size if self.strata.apart else 1))
        return TreePreview(tuple(lines), tuple(shapes), of(total), every)

    def lines(self) -> list[Planned]:
        """One line for each question."""
        prefix = f"in each {self.strata.attribute}: " if self.strata.attribute else ""
        lines = [line for spec, costs in self._ensembles() for line in self._lines(spec, costs, prefix)]
        of = type(self.strata.each).of_units
        return [replace(line, budget=of(line.budget.units * self.strata.times)) for line in lines]

    def outlook(self, steps: Sequence[Planned]) -> Outlook:
        """The label marginals, and under `label` the leaves of the trees."""
        schema, trees, preview = self.schema, self.settings.trees, self.preview()
        tables, cells = list(tables_of(schema, steps, self.strata.attribute)), list[LabelCells]()
        width = pooled_width if self.settings.shrink else None
        for sizes in preview.shapes if schema.neighbours == "label" else ():
            labels = schema.size(sizes.targets)
            rows = tuple(max(1, round(s)) for s in sizes.typical_sizes)
            cells.append(LabelCells(sizes.ensemble, labels, sizes.noise, rows, sizes.leaves, True, width))
            if self.facts.public_rows is not None:
                names, counts = (*schema.public, *sizes.targets), sizes.leaves / trees * labels
                tables.append(PlannedTable(names, counts, sizes.noise**2, labels, trees))
        return Outlook(
            tables=tuple(tables),
            label_cells=tuple(cells),
            effort=self._effort(steps),
            trees=preview,
            path_shares=self.path_shares(preview.shapes),
            fix_sizes=_options_of_sizes if self.settings.n_b is None else None,
        )

    def _effort(self, steps: Sequence[Planned]) -> Effort:
        """What it takes; of trees whose leaves are not public, as many as branches of equal sizes would have."""
        known, cells, rows = table_effort(steps), 0.0, self.facts.rows or 0
        for spec, costs in self._ensembles() if self.schema.neighbours != "label" and rows else ():
            if not costs.trees:
                continue
            n_b = self.settings.split_from(self.schema, self.strata.relation, spec, costs.trees[0])
            leaves, branches = 1.0, 1.0
            # A column with many levels tells little of each, so that it is asked last.
            for size in sorted(self.schema[n].size for n in spec.predictors)[: self.settings.max_depth]:
                # Around n_b some branches are large enough to be split, and others are not.
                often = rows / self.strata.size / branches / n_b
                divided = branches * often**SHARP / (1 + often**SHARP)
                leaves, branches = leaves + divided * (size - 1), max(divided * size, 1.0)
            cells += leaves * self.schema.size(spec.targets) * len(costs.trees) * self.strata.size
        return Effort(known.seconds + LEAF_SECONDS * cells, known.memory + LEAF_BYTES * cells)

    def _ensembles(self) -> Iterator[tuple[EnsembleSpec, EnsembleCosts]]:
        """Every ensemble with its costs, in one stratum."""
        rows = self.facts.rows
        if self.facts.public_rows is not None:
            rows = int(self.facts.public_rows[1].sum())
        typical, relation = None if rows is None else rows // self.strata.size, self.strata.relation
        for spec, budget in zip(self.specs, self.budgets, strict=True):
            yield (
                spec,
                self.settings.costs(self.schema, spec, budget, relation=relation, rows=typical, noisy=self.noisy),
            )

    def _lines(self, spec: EnsembleSpec, costs: EnsembleCosts, prefix: str) -> Iterator[Planned]:
        schema, strata, unit = self.schema, self.strata, self.schema.unit
        labels = schema.size(spec.targets)
        if (cost := costs.marginal) is not None:
            single = strata.relation == "label" and labels == 2
            noise = count_noise(strata.relation, unit.max_rows, cost, single=single)
            stage = prefix + ("label marginal" if spec.predictors else "histogram")
            # Under other relations a joint marginal of the last targets says nothing that leaves do not say better.
            named = spec.targets if schema.neighbours == "label" or len(spec.targets) == 1 else ()
            yield Planned(stage, str(spec), cost, cells=labels, sd=noise.sd, attributes=named)
        for i, cost in enumerate(costs.order, start=1):
            what = f"one of {len(spec.predictors) - i + 1} attributes that tells most about {spec}"
            stage = f"{prefix}attribute {i} of the order"
            yield Planned(stage, what, cost, group=f"{prefix}attribute of the order")
        if not costs.trees:
            return
        for i, cost in enumerate(costs.growth, start=1):
            sd, group = count_noise(strata.relation, unit.max_rows, cost).sd, f"{prefix}growth"
            yield Planned(f"{group} {i}", "sizes of branches", cost, sd=sd, group=group)
        sizes = self._sizes(spec, costs)
        what = f"{spec} by {', '.join(spec.predictors)}; branches split from {sizes.n_b:,.0f} rows"
        cells = sizes.leaves // (len(costs.trees) * strata.size) * labels or None
        for i, cost in enumerate(costs.trees, start=1):
            stage, group = f"{prefix}tree {i} of {len(costs.trees)}", f"{prefix}tree"
            yield Planned(stage, what, cost, cells, sizes.noise, group=group)

    def _sizes(self, spec: EnsembleSpec, costs: EnsembleCosts) -> TreeSizes:
        """Grow trees on the public rows to see how deep branches go and how large leaves are."""
        schema, settings, relation, budget = self.schema, self.settings, self.strata.relation, costs.trees[0]
        n_b = settings.split_from(schema, relation, spec, budget)
        unknown = TreeSizes(str(spec), spec.targets, n_b, spec.leaf_noise(schema, relation, budget))
        public = [n for n in spec.predictors if schema[n].role == "public"]
        if self.facts.public_rows is None or relation != "label" or not public:
            return unknown
        rows, often = self.facts.public_rows
        ways = schema.size([n for n in spec.predictors if n not in public])
        table = code_table(rows, public)
        blocks = [np.arange(len(rows))]
        if self.strata.attribute is not None:
            codes = rows[self.strata.attribute]
            blocks = [np.flatnonzero(codes == c) for c in range(self.strata.size)]
        draw = AttributeDraw(
            np.array([settings.weight(n) for n in public]),
            coins(b"preview", str(spec)),
            np.array([n in spec.must_ask for n in public]),
        )
        depths, sizes = [], []
        for block in blocks:
            for _ in costs.trees:
                root, counter = TreeShape.root(schema, public), RowCounter(table[:, block], often[block])
                grown = grow(root, counter, draw, n_b * ways, settings.n_leaf, settings.max_depth)
                depths.append(grown.tree.depth)
                sizes.append(grown.counts[grown.tree.leaves])
        depth, size = np.concatenate(depths), np.concatenate(sizes)
        depth, size = depth[size > 0], size[size > 0]
        if not len(size):
            return unknown
        return replace(
            unknown,
            leaves_by_depth=tuple(np.bincount(depth).tolist()),
            rows_by_depth=tuple(np.bincount(depth, size).astype(np.int64).tolist()),
            leaf_sizes=tuple(float(q) for q in np.quantile(size, QUANTILES)),
            typical_sizes=typical_sizes(size),
        )

    def path_shares(self, shapes: Sequence[TreeSizes]) -> tuple[PathShares, ...]:
        """How often paths will ask each public column: from weights, and how many columns paths ask."""
        found = []
        expected = "If all columns tell alike (their order is bought later)" if self.settings.ordered else ""
        depths = {shape.targets: shape.rows_by_depth for shape in shapes}
        for spec in self.specs if self.schema.neighbours == "label" else ():
            if spec.targets not in depths:
                continue
            asked = dict.fromkeys(self.schema.public, 0.0) | self._chances(spec, depths[spec.targets])
            if self.strata.attribute is not None:
                asked[self.strata.attribute] = 1.0
            shares = {name: asked[name] for name in self.schema.public}
            found.append(PathShares(spec.targets, shares, expected, ADVICE))
        return tuple(found)

    def _chances(self, spec: EnsembleSpec, rows_by_depth: Sequence[int]) -> dict[str, float]:
        """The chance of each column to be among those that a path draws, by public coins."""
        weights = np.array([self.settings.weight(n) for n in spec.predictors])
        # To draw without replacement is to take the smallest of exponential times with these rates.
        times = coins(b"preview", f"{spec}: paths").standard_exponential((DRAWS, len(weights))) / weights
        times[:, [n in spec.must_ask for n in spec.predictors]] = 0.0
        place = np.argsort(np.argsort(times, axis=1, kind="stable"), axis=1)
        rows = np.array(rows_by_depth or np.eye(len(weights) + 1)[self.settings.expected_depth(self.schema, spec)])
        deeper = 1.0 - np.cumsum(rows) / rows.sum()  # the share of rows whose path asks more than so many columns
        often = np.append(deeper, np.zeros(len(weights)))[place].mean(axis=0)
        return dict(zip(spec.predictors, often.tolist(), strict=True))


SHARP = 6
"""How sharply the share of branches that are split rises with their rows: by simulated tables of 20,000 rows."""
LEAF_SECONDS, LEAF_BYTES = 1.4e-6, 65.0
"""Per noisy number of a leaf: counting, noise, shrinking, its row in the file of measurements."""
DRAWS = 20_000
"""Paths drawn to find how often each column is asked."""


def _options_of_sizes(least: int) -> str:
    """The options by which no leaf has fewer rows."""
    return f"--set n_b={2 * least} --set n_leaf={least}"
