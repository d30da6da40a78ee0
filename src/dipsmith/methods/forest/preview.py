"""What a forest will cost and look like, from public facts only: shown to a steward before anything is spent.

Costs follow from schema and budget alone. Depths and leaf sizes need the public rows (neighbours `label`)
and are exact for hand-set weights up to the coins; where the order of attributes will itself be bought,
they are those of a random order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dipsmith.methods.forest.splitting import Draw, RowCounter, grow
from dipsmith.methods.forest.training import Recipe, Shares, Step, leaf_noise, split_while
from dipsmith.methods.forest.tree_shape import Branching, code_table
from dipsmith.methods.method import Planned, PublicFacts, count_noise
from dipsmith.methods.outlook import QUANTILES, TreeCost, TreePreview, TreeSizes, typical_sizes
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
        if rule == "maximum":
            return cls(attribute, column.size, budget, within, 1, unit.per == attribute)
        if rule == "two-dearest":
            return cls(attribute, column.size, budget.split(2)[0], within, 2, unit.per == attribute)
        return cls(attribute, column.size, budget.split(column.size)[0], within, column.size, False)

    @property
    def whole(self) -> Budget:
        """What all strata cost together: the budget, but for a remainder of a few units that cannot be divided."""
        return type(self.each).of_units(self.each.units * self.times)


@dataclass(frozen=True)
class Questions:
    """The steps of a forest with their shares of the budget, and what is public about the rows."""

    schema: Schema
    recipe: Recipe
    steps: tuple[Step, ...]
    budgets: tuple[Budget, ...]
    strata: Strata
    noisy: bool
    facts: PublicFacts

    def shares(self) -> list[Shares]:
        """The shares of every step, in one stratum."""
        rows = self.facts.rows
        if self.facts.public_rows is not None:
            rows = int(self.facts.public_rows[1].sum())
        typical = None if rows is None else rows // self.strata.size
        return [
            self.recipe.shares(
                self.schema,
                step,
                budget,
                relation=self.strata.relation,
                rows=typical,
                noisy=self.noisy,
            )
            for step, budget in zip(self.steps, self.budgets, strict=True)
        ]

    def preview(self) -> TreePreview:
        """The ε table per tree × trees × ensembles × strata, and the shapes."""
        costs: list[TreeCost] = []
        shapes = []
        for step, shares in zip(self.steps, self.shares(), strict=True):
            lines = (
                ("label marginal", () if shares.marginal is None else (shares.marginal,)),
                ("attribute order", shares.order),
                ("noisy growth", shares.growth),
                ("leaves of a tree", shares.trees),
            )
            # The last part of a split takes the remainder of a few units: parts of one size make one line.
            for question, parts in lines:
                for units in sorted({p.units for p in parts}, reverse=True):
                    alike = [p for p in parts if p.units == units]
                    costs.append(TreeCost(str(step), question, alike[0], len(alike), self.strata.times))
            if shares.trees:
                shapes.append(self._shape(step, shares))
        total = sum(c.total.units for c in costs)
        budget = type(self.strata.each).of_units(total)
        every = type(self.strata.each).of_units(total * (self.strata.size if self.strata.apart else 1))
        return TreePreview(tuple(costs), tuple(shapes), budget, every)

    def planned(self) -> list[Planned]:
        """One line for each question."""
        lines: list[Planned] = []
        prefix = f"in each {self.strata.attribute}: " if self.strata.attribute else ""
        unit = self.schema.unit.max_rows
        for step, shares in zip(self.steps, self.shares(), strict=True):
            labels = self.schema.size(step.targets)
            single = self.strata.relation == "label" and labels == 2
            if shares.marginal is not None:
                noise = count_noise(self.strata.relation, unit, shares.marginal, single=single)
                what = "label marginal" if step.predictors else "histogram"
                # Under other relations a joint marginal of the last targets says nothing that leaves do not say better.
                named = step.targets if self.schema.neighbours == "label" or len(step.targets) == 1 else ()
                lines.append(
                    Planned(
                        prefix + what, str(step), shares.marginal, cells=labels, sd=noise.sd, attributes=named
                    )
                )
            for i, share in enumerate(shares.order, start=1):
                what = f"one of {len(step.predictors) - i + 1} attributes that tells most about {step}"
                stage = f"{prefix}attribute {i} of the order"
                lines.append(Planned(stage, what, share, group=f"{prefix}attribute of the order"))
            if not shares.trees:
                continue
            for i, share in enumerate(shares.growth, start=1):
                noise = count_noise(self.strata.relation, unit, share)
                stage = f"{prefix}growth {i}"
                lines.append(Planned(stage, "sizes of branches", share, sd=noise.sd, group=f"{prefix}growth"))
            shape = self._shape(step, shares)
            cells = shape.leaves // (len(shares.trees) * self.strata.size) * labels or None
            note = ""
            if self.strata.apart:
                note = (
                    f"costs a person who is in all {self.strata.size} strata {self.strata.size} times as much: "
                    f"the unit is {self.schema.unit}"
                )
            for i, share in enumerate(shares.trees, start=1):
                what = f"{step} by {', '.join(step.predictors)}; branches split from {shape.n_b:,.0f} rows"
                stage = f"{prefix}tree {i} of {len(shares.trees)}"
                told = note if i == 1 else ""
                lines.append(
                    Planned(stage, what, share, cells=cells, sd=shape.noise, note=told, group=f"{prefix}tree")
                )
        of = type(self.strata.each).of_units
        return [replace(line, budget=of(line.budget.units * self.strata.times)) for line in lines]

    def _shape(self, step: Step, shares: Shares) -> TreeSizes:
        relation, budget = self.strata.relation, shares.trees[0]
        n_b = self.recipe.n_b or split_while(self.schema, relation, step, budget)
        noise = leaf_noise(self.schema, relation, step, budget)
        public = [n for n in step.predictors if self.schema[n].role == "public"]
        if self.facts.public_rows is None or relation != "label" or not public:
            return TreeSizes(str(step), step.targets, n_b, noise)
        rows, often = self.facts.public_rows
        ways = self.schema.size([n for n in step.predictors if n not in public])
        table = code_table(rows, public)
        blocks = [np.arange(len(rows))]
        if self.strata.attribute is not None:
            codes = rows[self.strata.attribute]
            blocks = [np.flatnonzero(codes == c) for c in range(self.strata.size)]
        given = self.recipe.weights or {}
        draw = Draw(
            np.array([given.get(n, 1.0) for n in public]),
            coins(b"preview", str(step)),
            np.array([n in step.forced for n in public]),
        )
        depths, sizes = [], []
        for block in blocks:
            for _ in shares.trees:
                counter = RowCounter(table[:, block], often[block])
                root = Branching.root(self.schema, public)
                grown = grow(root, counter, draw, n_b * ways, self.recipe.n_leaf, self.recipe.max_depth)
                depths.append(grown.tree.depth)
                sizes.append(grown.counts[grown.tree.leaves])
        depth, size = np.concatenate(depths), np.concatenate(sizes)
        depth, size = depth[size > 0], size[size > 0]
        if not len(size):
            return TreeSizes(str(step), step.targets, n_b, noise)
        return TreeSizes(
            str(step),
            step.targets,
            n_b,
            noise,
            tuple(np.bincount(depth).tolist()),
            tuple(np.bincount(depth, size).astype(np.int64).tolist()),
            tuple(float(q) for q in np.quantile(size, QUANTILES)),
            typical_sizes(size),
        )
