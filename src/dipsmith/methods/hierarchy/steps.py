"""STEPS: rows divided step by step by the attributes that matter most, every step measured.

Bowen, Liu and Su, "Differentially private data release via statistical election to partition
sequentially" (arXiv 1803.06763). The first layers divide the rows by a few attributes, in an order that
is public (free) or chosen privately, node by node; below them comes the cross-table of all other
attributes. Counts of every level get noise and are made to agree, so that sums over the first
attributes are precise even where single cells are not. What is different from the paper:

- least squares is exact for any shape and any variances, instead of phantom categories and a printed
  formula that leaves the released cells as noisy as they were (`tree.gls`);
- every level that gets noise is paid for: L layers and the leaves are L + 1 levels (the paper divides by
  L), the row count is public or one more;
- larger levels get more of the budget (cube-root rule), negative counts go by projection, not clipping;
- AIC takes its number of levels from the schema, which halves its sensitivity, and is used at the rate
  that a monotone score allows; attributes are chosen by the rows that a split puts in their place unless
  AIC is asked for, which prefers few and skewed levels whatever they are good for (`importance`);
- `layers="auto"` stops where public facts say that a further layer would drown in its own noise.

Layers buy precise upper marginals, never precise cells: while the full table is readable by itself,
`Flat` is better, and "auto" then uses no layer. `plan` says so before anything is spent.

Privacy
-------
One `Curator.choose` per node of a layer, blocks in parallel (`Curator.partition`), then one
`Curator.measure` of all levels: ``docs/proofs/steps.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import log
from typing import ClassVar, Literal, get_args

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.estimation.answers import Post
from dipsmith.estimation.parameters import as_groups, require_least, require_one_of, require_shares
from dipsmith.estimation.tree import level_weights
from dipsmith.methods.hierarchy.importance import Contrast, InformationCriterion, MisplacedRows, misplaced_by_noise
from dipsmith.methods.hierarchy.layers import Layer, Layers
from dipsmith.methods.hierarchy.levels import (
    Readable,
    check_weights,
    level_budgets,
    level_outlook,
    plan_levels,
    possible_cells,
)
from dipsmith.methods.hierarchy.noisy_tree import TreeModel, measure
from dipsmith.methods.method import Planned, PublicFacts, knob, require_relation
from dipsmith.methods.outlook import Names, Outlook
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.score import Score
from dipsmith.schema import Schema

Select = Literal["marginal-error", "aic", "bic"]

UNKNOWN_ROWS = 2
"""Layers of "auto" when the number of rows is private and was not given: as in the paper's studies."""

MOST_LAYERS = 10
"""Layers of "auto" at most: below, the choices would share too little."""

MOST_NODES = 128
"""Nodes of a layer that are divided one by one at most: each choice is a pass over the rows."""

MOST_CLUSTERED = 12
"""Columns of which all ways of making two groups are tried at most."""


@dataclass(frozen=True)
class Steps:
    """Rows divided layer by layer, every level measured.

    Parameters
    ----------
    layers
        The attributes of each layer, which makes the order public and free; or how many layers to choose
        privately; or "auto", as many as public facts say are readable.
    select
        By what attributes are chosen: "marginal-error" (the rows that a split puts in their place), "aic" as
        in the paper, or "bic" (needs a public row count).
    share
        Share of the budget for choosing.
    groups
        Groups of attributes that divide a layer together, each chosen as one; or 2, to choose privately which
        attributes make one layer and which are left to the leaves.
    layer_weights
        Budget weights of the layers and the leaves, and before them of the row count where it is private
        and is to be measured. Default: cube root of the number of nodes.
    post
        "project" or "clip", within each parent from the root down.
    same_order
        Whether one order is chosen for all branches instead of one for each: one pass over the rows for
        each layer instead of each node, cheaper under `replace`, and the only way where a unit may own
        several rows. Default: for "auto", whose trees are deep; not for a given number of layers, as in the
        paper.

    >>> Steps(layers=[["voted"], ["college_degree"]]).layers
    (('voted',), ('college_degree',))
    """

    layers: int | str | Sequence[Sequence[str]] = field(default="auto", metadata=knob(1, 8, 1, "layers"))
    select: Select = "marginal-error"
    share: float = 0.1
    groups: int | Sequence[Sequence[str]] | None = None
    layer_weights: Sequence[float] | None = None
    post: Post = "project"
    same_order: bool | None = None

    name: ClassVar[str] = "steps"
    summary: ClassVar[str] = "The full table in layers, from coarse to fine."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[TreeModel], ...]] = (TreeModel,)

    def __post_init__(self) -> None:
        if isinstance(self.layers, str) and self.layers != "auto":
            raise UsageError(f"steps: layers is '{self.layers}', expected a number, a list of layers or 'auto'")
        if isinstance(self.layers, int):
            require_least(self, 0, "layers")
        if self.groups is not None and not isinstance(self.layers, int | str):
            raise UsageError("steps: groups are for layers that are chosen, and these layers are given")
        if isinstance(self.groups, int) and (self.groups != 2 or self.layers != "auto"):
            raise UsageError("steps: groups is a list of groups, or 2 with layers left at 'auto'")
        require_one_of(self, "select", get_args(Select))
        require_one_of(self, "post", get_args(Post))
        require_shares(self, "share")
        if not isinstance(self.layers, int | str):
            object.__setattr__(self, "layers", as_groups(self.layers))
        if self.groups is not None and not isinstance(self.groups, int):
            object.__setattr__(self, "groups", as_groups(self.groups))
        if self.layer_weights is not None:
            object.__setattr__(self, "layer_weights", check_weights(self.name, self.layer_weights))

    def fit(self, curator: Curator) -> TreeModel:
        """Choose what divides the rows, measure every level, make the counts agree."""
        require_relation(self, curator.relation)
        stages = self._stages(curator.schema, curator.relation, curator.budget, curator.rows)
        self._budgets(stages, Layers.uniform(curator.schema, stages.layers))
        if stages.for_choice is None:
            layers = Layers.uniform(curator.schema, stages.layers)
        elif self.groups == 2:
            layers = self._two_groups(curator, stages, stages.for_choice)
        elif curator.max_rows > 1 or (self.layers == "auto" if self.same_order is None else self.same_order):
            layers = self._common_order(curator, stages, stages.for_choice)
        else:
            layers = self._own_orders(curator.nested(stages.for_choice, "order"), stages)
        if self.layer_weights is not None:
            layers = layers.deepen(len(stages.layers))
        if curator.remaining is not None:
            # Choices that turned out not to be needed are paid to the counts.
            stages = replace(stages, facts=replace(stages.facts, budget=curator.remaining))
        curator.report("counting", 0.5)
        return TreeModel(measure(curator, layers, self._budgets(stages, layers)), self.post)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """The choice of attributes, and one line for every level that gets noise."""
        stages = self._stages(schema, schema.neighbours, budget, public.rows)
        layers = Layers.uniform(schema, stages.layers)
        steps = []
        if stages.for_choice is not None:
            what = "two groups" if self.groups == 2 else f"{layers.depth} layers"
            steps.append(Planned("order", f"{what} by {self.select}", stages.for_choice, note=_ASSUMED))
        ordered = stages.for_choice is None
        return steps + plan_levels(layers, self._budgets(stages, layers), stages.facts, ordered=ordered)

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """What the levels say."""
        return level_outlook(schema, steps)

    # --- what public facts decide -----------------------------------------------------------------

    def _stages(self, schema: Schema, relation: str, budget: Budget, rows: int | None) -> _Stages:
        """What is chosen and what is given, and what each stage may cost."""
        if self.select == "bic" and rows is None:
            raise UnsupportedError(
                "steps: select 'bic' needs a public row count, because K·log n by itself moves by K·log 2 with "
                "one row; state the number of rows, or use 'aic'"
            )
        facts = Readable(relation, schema.unit.max_rows, budget, rows, possible_cells(schema))
        if not isinstance(self.layers, int | str):
            return _Stages(facts, _above_leaves(schema, self.layers), None)
        candidates = sorted(self._candidates(schema), key=schema.size)
        for_choice, for_counts = budget.split([self.share, 1 - self.share])
        chosen = replace(facts, budget=for_counts)
        if self.groups == 2:
            if len(candidates) > MOST_CLUSTERED:
                raise UsageError(
                    f"steps: groups=2 tries all pairs of groups, which is feasible up to {MOST_CLUSTERED} columns, "
                    f"and there are {len(candidates)}; list the groups, or leave them out"
                )
            first = tuple(name for group in candidates[: len(candidates) // 2] for name in group)
            return _Stages(chosen, (first,), for_choice) if first else _Stages(facts, (), None)
        depth = self._depth(schema, facts, chosen, candidates)
        if depth == 0 or len(self._dividing_groups(schema, chosen, candidates, 1)) < 2:
            # Where there is nothing to choose between, nothing is paid for choosing.
            return _Stages(facts, _above_leaves(schema, candidates[:depth]), None)
        return _Stages(chosen, tuple(candidates[:depth]), for_choice)

    def _candidates(self, schema: Schema) -> list[Names]:
        named = [tuple(g) for g in self.groups] if isinstance(self.groups, tuple) else []
        grouped = [name for group in named for name in group]
        twice = next((name for name in grouped if grouped.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"steps: column '{twice}' is in two groups; name it once")
        alone = [(n,) for n in schema.names if n not in grouped and schema[n].size > 1]
        return [g for g in named if schema.size(g) > 1] + alone

    def _depth(self, schema: Schema, alone: Readable, shared: Readable, candidates: Sequence[Names]) -> int:
        """How many layers: the number asked for, or as many as are readable when the leaves are not.

        The last candidate divides the leaves in any case.
        """
        most = max(0, len(candidates) - 1)
        if isinstance(self.layers, int):
            return min(self.layers, most)
        if shared.rows is None:
            return min(UNKNOWN_ROWS, most)
        if not alone.hopeless(alone.leaves, alone.sd_alone):
            return 0
        depth, nodes = 0, 1
        while depth < min(most, MOST_LAYERS):
            nodes *= schema.size(candidates[depth])
            if not shared.worth_dividing(nodes):
                break
            depth += 1
        return depth

    def _dividing_groups(self, schema: Schema, facts: Readable, candidates: Sequence[Names], nodes: int) -> list[Names]:
        """The groups that may divide a node that is one of `nodes` like it."""
        if self.layers != "auto":
            return list(candidates)
        return [c for c in candidates if facts.worth_dividing(nodes * schema.size(c))]

    def _budgets(self, stages: _Stages, layers: Layers) -> list[Budget | None]:
        """What each level may cost, root first; a public row count is not measured."""
        nodes = [*layers.nodes[:-1], stages.facts.leaves]
        facts = stages.facts
        weights = level_weights(nodes, facts.budget.currency)
        return level_budgets(facts.budget, facts.rows, weights, self.layer_weights)

    # --- private choices --------------------------------------------------------------------------

    def _score(
        self, facts: Readable, schema: Schema, candidates: Sequence[Names], nodes: int, within: Names = ()
    ) -> Score[Names]:
        """The score of candidates that divide a node which is one of `nodes`, or all nodes at once."""
        if self.select == "marginal-error":
            own = schema.size(within)
            cells = {c: schema.size(c) for c in candidates}
            cost = {c: misplaced_by_noise(own * k, facts.sd(nodes * k)) for c, k in cells.items()}
            return MisplacedRows(schema, cost, within)
        if self.select == "bic":
            assert facts.rows is not None
            return InformationCriterion(schema, within, log(max(2.0, facts.rows / nodes)), "bic")
        return InformationCriterion(schema, within)

    def _two_groups(self, curator: Curator, stages: _Stages, budget: Budget) -> Layers:
        names = tuple(n for group in self._candidates(curator.schema) for n in group)
        first: list[Names] = [c for k in range(1, len(names)) for c in combinations(names, k)]
        each = self._score(stages.facts, curator.schema, [(n,) for n in names], 1)
        chosen: Names = curator.choose(first, Contrast(each, names), budget)
        return Layers.uniform(curator.schema, [chosen])

    def _common_order(self, curator: Curator, stages: _Stages, budget: Budget) -> Layers:
        """One choice per layer, by the score summed over its nodes: a row lies in one of them."""
        schema, order, nodes = curator.schema, list[Names](), 1
        left = self._candidates(schema)
        for share in budget.split(len(stages.layers)):
            dividing = self._dividing_groups(schema, stages.facts, left, nodes)
            if not dividing:
                break
            within = tuple(name for group in order for name in group)
            score = self._score(stages.facts, schema, dividing, nodes, within)
            group = curator.choose(dividing, score, share)
            order.append(group)
            left.remove(group)
            nodes *= schema.size(group)
        return Layers.uniform(schema, order)

    def _own_orders(self, curator: Curator, stages: _Stages) -> Layers:
        """One choice per node, nodes of a layer in parallel."""
        schema = curator.schema
        nodes = [_Node(curator, tuple(self._candidates(schema)), 1)]
        layers = []
        for left in range(len(stages.layers), 0, -1):
            if len(nodes) > MOST_NODES:
                break
            chosen, below = [], []
            for node in nodes:
                dividing = self._dividing_groups(schema, stages.facts, node.unused, node.nodes)
                group = self._choice(node, dividing, stages.facts, left) if len(node.unused) > 1 else ()
                chosen.append(group)
                below += node.divide(group, blocks=left > 1)
            if not any(chosen):
                break
            layers.append(Layer.of(chosen))
            nodes = below
            curator.report("choosing", 0.4 * len(layers) / len(stages.layers))
        return Layers(schema, tuple(layers))

    def _choice(self, node: _Node, dividing: Sequence[Names], facts: Readable, left: int) -> Names:
        if len(dividing) < 2:
            return dividing[0] if dividing else ()
        assert node.curator.remaining is not None
        share = node.curator.remaining.split(left)[0]
        score = self._score(facts, node.curator.schema, dividing, node.nodes)
        return node.curator.choose(dividing, score, share)


_ASSUMED = "layers below: as if the columns with the fewest values were chosen"


@dataclass(frozen=True)
class _Stages:
    """What a run will do, as far as public facts decide it.

    `facts` says what the counts may cost, and what that makes readable; `layers` has the groups that divide the
    layers (where they are chosen, a typical choice); `for_choice` is None when nothing is chosen.
    """

    facts: Readable
    layers: tuple[Names, ...]
    for_choice: Budget | None


@dataclass(frozen=True, eq=False)
class _Node:
    """A node that may be divided: its rows' curator, the groups not used yet, how many nodes are like it."""

    curator: Curator
    unused: tuple[Names, ...]
    nodes: int

    def divide(self, group: Names, *, blocks: bool) -> list[_Node]:
        """The children; with `blocks`, each with a curator for its own rows."""
        if not group:
            return [replace(self, unused=())]
        curators = [self.curator]
        for name in group:
            curators = [c for parent in curators for c in _blocks(parent, name, blocks)]
        unused = tuple(g for g in self.unused if g != group)
        return [_Node(curator, unused, self.nodes * len(curators)) for curator in curators]


def _blocks(curator: Curator, attribute: str, blocks: bool) -> list[Curator]:
    if not blocks or curator.remaining is None:
        return [curator] * curator.schema[attribute].size
    return curator.partition(attribute, curator.remaining)


def _above_leaves(schema: Schema, groups: Sequence[Sequence[str]]) -> tuple[Names, ...]:
    """The layers without the last one if it makes single cells: those are the leaves."""
    named = {name for group in groups for name in group}
    whole = all(name in named or schema[name].size == 1 for name in schema.names)
    kept = groups[:-1] if whole else groups
    return tuple(tuple(group) for group in kept)
