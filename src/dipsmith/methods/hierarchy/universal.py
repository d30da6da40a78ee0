"""Universal histograms: counts of a whole hierarchy, made to agree.

*One column*: its values in a tree of intervals, after Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of
differentially private histograms through consistency" (VLDB 2010), so that any range is the sum of a few
noisy counts, and all ranges agree. `depth` and `branching` are found from the number of values: below about
ninety a flat histogram answers ranges better, and that is what is used.

*Several columns*: the modified universal histogram with which Bowen, Liu and Su (arXiv 1803.06763) compare
STEPS: the rows are divided by a few columns in random order, then by all others at once. Nodes have as many
children as the column has values; least squares is exact for that (`tree.gls`), where the original
formula needs equal fan-outs. It is a baseline: an order that somebody thought about (`Steps`) is better.

Privacy
-------
The order is drawn from public coins; one `Curator.measure` of all levels: ``docs/proofs/universal.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, get_args

from dipsmith.errors import UsageError
from dipsmith.estimation.answers import Post
from dipsmith.estimation.parameters import require_least, require_one_of
from dipsmith.estimation.tree import level_weights
from dipsmith.methods.hierarchy.layers import Layers
from dipsmith.methods.hierarchy.levels import (
    Readable,
    check_weights,
    level_budgets,
    level_outlook,
    plan_levels,
    possible_cells,
)
from dipsmith.methods.hierarchy.noisy_tree import Hierarchy, TreeModel, measure
from dipsmith.methods.hierarchy.ranges import Ranges, best_depth, branching_for, range_weights
from dipsmith.methods.method import Planned, PublicFacts, knob, require_relation
from dipsmith.methods.outlook import Outlook
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Schema

LAYERS = 2
"""Columns that divide the rows before all others do, unless `depth` says otherwise."""


@dataclass(frozen=True)
class Universal:
    """A hierarchy of counts: intervals of one column, or several columns in random order.

    With one column, `depth` is the number of levels of intervals, single values included, by default that with the
    smallest error of an average range, or `branching` says how many intervals make one of the next level. With
    several, `depth` of them divide the rows one after another. `layer_weights` are budget weights of the levels below
    the root, and before them of the row count where it is private and is to be measured. `post` is "project" or
    "clip", within each parent from the root down.
    """

    depth: int | None = field(default=None, metadata=knob(1, 12, 1, "layers"))
    branching: int | None = field(default=None, metadata=knob(2, 32, 1, "branching"))
    layer_weights: Sequence[float] | None = None
    post: Post = "project"

    name: ClassVar[str] = "universal"
    summary: ClassVar[str] = "A hierarchy of ranges: accurate range counts of ordered columns."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[TreeModel], ...]] = (TreeModel,)

    def __post_init__(self) -> None:
        require_least(self, 1, "depth")
        require_least(self, 2, "branching")
        if self.depth is not None and self.branching is not None:
            raise UsageError("universal: depth and branching say the same thing; give one of them")
        if self.layer_weights is not None:
            object.__setattr__(self, "layer_weights", check_weights(self.name, self.layer_weights))
        require_one_of(self, "post", get_args(Post))

    def fit(self, curator: Curator) -> TreeModel:
        """Draw the order, measure every level, make the counts agree."""
        require_relation(self, curator.relation)
        possible_cells(curator.schema)
        names = [a.name for a in curator.schema if a.size > 1]
        order = [names[i] for i in curator.coins("order").permutation(len(names))]
        hierarchy = self._hierarchy(curator.schema, curator.budget, curator.rows, order)
        budgets = self._budgets(hierarchy, curator.budget, curator.rows)
        return TreeModel(measure(curator, hierarchy, budgets), self.post)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line for every level that gets noise; with several columns, as if they came in their own order."""
        order = [a.name for a in schema if a.size > 1]
        facts = Readable(schema.neighbours, schema.unit.max_rows, budget, public.rows, possible_cells(schema))
        hierarchy = self._hierarchy(schema, budget, public.rows, order)
        remark = "" if isinstance(hierarchy, Ranges) else "the order of the columns will be drawn at random"
        budgets = self._budgets(hierarchy, budget, public.rows)
        return plan_levels(hierarchy, budgets, facts, ordered=not remark, remark=remark)

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """What the levels say."""
        return level_outlook(schema, steps)

    def _hierarchy(self, schema: Schema, budget: Budget, rows: int | None, order: Sequence[str]) -> Hierarchy:
        if len(schema.names) == 1:
            if self.branching is not None:
                return Ranges(schema, self.branching)
            depth = self.depth or best_depth(schema.size(), budget.currency, total_known=rows is not None)
            return Ranges(schema, branching_for(schema.size(), depth))
        if self.branching is not None:
            raise UsageError("universal: branching is for a schema with one column; with several, give depth")
        depth = min(self.depth or LAYERS, max(0, len(order) - 1))
        return Layers.uniform(schema, [(name,) for name in order[:depth]])

    def _budgets(self, hierarchy: Hierarchy, budget: Budget, rows: int | None) -> list[Budget | None]:
        nodes = [*hierarchy.nodes[:-1], possible_cells(hierarchy.table.schema)]
        rule = range_weights if isinstance(hierarchy, Ranges) else level_weights
        return level_budgets(budget, rows, rule(nodes, budget.currency), self.layer_weights)
