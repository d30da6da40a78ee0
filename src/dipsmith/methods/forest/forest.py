"""Forest: random decision trees over categories, with differentially private label distributions in their leaves.

A tree asks one attribute after another and has one branch for every label of each. Its shape depends on
public facts, coins and answers that were paid for; only the label counts in its leaves are private, and
they get exact noise in every leaf. Rows are labelled by their leaf's distribution.

Under `label` the predictors are public: trees grow on their exact counts for free, leaves that are publicly
empty need no noise, and of two labels one count is enough. Under `add-remove` and `replace` nothing is
public: a sequence of ensembles makes whole rows, from the first attribute's histogram to the last
attribute, each trained on the authentic attributes before it and applied to the synthetic ones.

Sources: random decision trees, Fan, Wang, Yu and Ma 2003; with differential privacy, Jagannathan,
Pillaipakkamnatt and Wright 2012; variable depth and synthesis of labels, the synthetic data project of Duke
University (2018, 2019). Different here: an explicit neighbouring relation, noise on every label of the
public domain, joint leaves or sequences trained on authentic labels, a private order of attributes, and
leaves that are estimated together (`dipsmith.methods.forest.shrinkage`). Proof: ``docs/proofs/forest.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, Final, Literal

import numpy as np

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.estimation.answers import pooled
from dipsmith.estimation.lawful import require_possible
from dipsmith.methods.forest.ensemble import Ensemble
from dipsmith.methods.forest.leaf_simulation import pooled_width
from dipsmith.methods.forest.model import Block, ForestModel
from dipsmith.methods.forest.preview import Questions, Strata
from dipsmith.methods.forest.training import Ground, Purchase, Recipe, Step
from dipsmith.methods.method import Planned, PublicFacts, knob, require_relation
from dipsmith.methods.outlook import LabelCells, Outlook, PlannedTable, TreePreview, table_effort, tables_of
from dipsmith.methods.public_table import PublicTable, supply_statement
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Marginal, Schema

Growth = Literal["public-predictors", "public-data", "noisy", "synthetic"]

JOINT_LABELS: Final = 50
"""Up to so many joint labels several targets share a leaf."""

GROWTH_ROWS: Final = 200_000
"""The most rows that are synthesised for trees to grow on."""

FIRST_WEIGHT: Final = 0.5
"""Budget of the first attribute's histogram, against 1 for each ensemble of trees."""


@dataclass(frozen=True)
class Forest:
    """Variable-depth random decision trees.

    Parameters
    ----------
    targets
        The private attributes to label. Under `label` by default all of them. Under `add-remove` and
        `replace` every attribute is synthesised; those named here come last and share leaves.
    predictors
        What trees may ask; by default every public attribute (`label`) or every attribute before.
    trees
        Trees per ensemble. The budget is divided among them, so that one is usually best.
    n_b
        A branch is split while its public (or noisy, or guessed) number of rows is at least this; by default
        a multiple of the noise on a leaf's counts.
    n_leaf
        A split that would make a branch with fewer rows than this, but more than none, is not made.
    weights
        "auto": attributes that tell most about the targets come first (a share of the budget finds
        out); a mapping from attributes to weights, 1 where it says nothing and 0 for never; None: all alike.
    must_include
        Attributes that every path asks, before any other.
    max_depth
        The most attributes on a path.
    leaves
        "joint": all targets share leaves, so that their association is kept; "sequential": one after
        another in the order given, each asking those before; by default joint up to 50 joint labels.
    growth
        What decides where branches end: "public-predictors" (only under `label`, free, the default there),
        "public-data" (a table given as `public`), "synthetic" (rows drawn from the ensembles before; free,
        default otherwise), "noisy" (noisy counts of branches, which cost `growth_share`).
    public
        A public table for growth.
    strata
        An attribute, such as the year, for whose labels separate forests are made.
    shrink
        Whether leaves are estimated together. Without, a leaf is its own noisy counts.
    marginal_share, order_share, growth_share
        Shares of the budget for the label marginal, the order of attributes and noisy growth.

    Examples
    --------
    >>> Forest(targets=["sex", "race"], trees=3, n_b=500).targets
    ('sex', 'race')
    """

    targets: Sequence[str] | None = None
    predictors: Sequence[str] | None = None
    trees: int = field(default=1, metadata=knob(1, 10, 1, "trees"))
    n_b: int | None = field(
        default=None, metadata=knob(20, 5000, 10, "n_B: split a node only if it has so many records")
    )
    n_leaf: int | None = field(default=None, metadata=knob(10, 2500, 10, "fewest records in a leaf"))
    weights: Literal["auto"] | Mapping[str, float] | None = "auto"
    must_include: Sequence[str] = ()
    max_depth: int | None = field(default=None, metadata=knob(1, 20, 1, "deepest branch"))
    leaves: Literal["joint", "sequential"] | None = None
    growth: Growth | None = None
    public: PublicTable | None = None
    strata: str | None = None
    shrink: bool = True
    marginal_share: float = 0.15
    order_share: float = 0.1
    growth_share: float = 0.2

    name: ClassVar[str] = "forest"
    summary: ClassVar[str] = (
        "Trees grown on public columns, noisy labels in their leaves; the method of the leaf intervals below."
    )
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace", "label")
    models: ClassVar[tuple[type[ForestModel], ...]] = (ForestModel,)

    def __post_init__(self) -> None:
        for name in ("targets", "predictors", "must_include"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name, least in (("trees", 1), ("n_b", 1), ("n_leaf", 1), ("max_depth", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"forest: {name} is {value}, expected at least {least}")
        for name in ("marginal_share", "order_share", "growth_share"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"forest: {name} is {getattr(self, name)}, expected a share from 0 to 1")
        if self.marginal_share + self.order_share + self.growth_share >= 1:
            raise UsageError(
                "forest: the shares leave nothing for the leaves; they must add up to less than 1"
            )
        if self.leaves not in (None, "joint", "sequential"):
            raise UsageError(f"forest: leaves is '{self.leaves}', expected 'joint' or 'sequential'")
        if isinstance(self.weights, str) and self.weights != "auto":
            raise UsageError(f"forest: weights is '{self.weights}', expected 'auto', a mapping or nothing")
        if isinstance(self.weights, Mapping):
            object.__setattr__(self, "weights", dict(self.weights))
            if bad := [n for n, w in self.weights.items() if not 0 <= w < float("inf")]:
                raise UsageError(f"forest: the weight of '{bad[0]}' must be a finite number from 0")
        if self.growth not in (None, "public-predictors", "public-data", "noisy", "synthetic"):
            raise UsageError(
                f"forest: growth is '{self.growth}', expected 'public-predictors', 'public-data', 'synthetic' "
                "or 'noisy'"
            )
        if (self.growth == "public-data") != (self.public is not None) and self.growth is not None:
            raise UsageError(
                "forest: growth 'public-data' and a public table go together; give both or neither"
            )
        if self.n_leaf is not None and self.growth == "noisy":
            raise UsageError("forest: n_leaf needs sizes that are known; leave it out when growth is 'noisy'")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes on trust: the public table, and weights that a steward gave."""
        supplied = () if self.public is None else (supply_statement(self.public.what, self.public.cost),)
        weighed = ("the weights were not taken from the rows",) if isinstance(self.weights, Mapping) else ()
        return (*supplied, *weighed)

    # --- fit --------------------------------------------------------------------------------------

    def fit(self, curator: Curator) -> ForestModel:
        """Buy the ensembles, one after another, in every stratum.

        Privacy
        -------
        Reads private rows through `measure` and `choose` alone. All ensembles, questions and trees compose
        sequentially within the curator's budget; strata are disjoint blocks (`Curator.partition`).
        """
        require_relation(self, curator.relation)
        schema, growth = curator.schema, self._growth(curator.relation)
        steps = self._steps(schema, curator.relation)
        if self.public is not None:
            self._check_public(schema, curator.relation, steps)
            curator.public(self.public.what, self.public.cost)
        left = curator.remaining
        if left is None:
            raise UsageError("forest: the public table cost the whole budget, nothing is left for the trees")
        if self.strata is None:
            blocks = [self._block(curator, left, curator.rows, steps, growth)]
        else:
            children = curator.partition(self.strata, Strata.of(schema, self.strata, left).whole)
            typical = None if curator.rows is None else curator.rows // len(children)
            blocks = [self._block(child, child.budget, typical, steps, growth) for child in children]
        targets = self._targets(schema, curator.relation)
        return ForestModel(schema, curator.relation, targets, self.strata, tuple(blocks))

    def _block(
        self, curator: Curator, budget: Budget, rows: int | None, steps: Sequence[Step], growth: Growth
    ) -> Block:
        """One stratum; `rows` is the public number of rows that the division of the budget reckons with."""
        made, totals = list[Ensemble](), list[tuple[float, float]]()
        drawn: Codes | None = None
        for i, (step, share) in enumerate(zip(steps, self._split(budget, steps), strict=True)):
            asked = curator if len(steps) == 1 else curator.nested(share, str(step))
            recipe = self._recipe
            shares = recipe.shares(
                curator.schema, step, share, relation=curator.relation, rows=rows, noisy=growth == "noisy"
            )
            ground = self._ground(curator, step, growth, drawn, totals)
            ensemble, counted = Purchase(asked, recipe, step, shares, ground, growth).buy()
            made.append(ensemble)
            totals.append(counted)
            if growth == "synthetic" and i + 1 < len(steps):
                if drawn is None:
                    drawn = Codes(curator.schema, {}, int(min(pooled(totals)[0], GROWTH_ROWS)))
                drawn = ensemble.draw(drawn, curator.coins(f"rows to grow on: {step}"))
        return Block(tuple(made), pooled(totals)[0])

    def _ground(
        self,
        curator: Curator,
        step: Step,
        growth: Growth,
        drawn: Codes | None,
        totals: Sequence[tuple[float, float]],
    ) -> Ground | None:
        if growth == "noisy" or not step.predictors:
            return None
        if growth == "synthetic":
            assert drawn is not None
            return Ground(drawn, np.full(len(drawn), pooled(totals)[0] / max(len(drawn), 1)))
        private: list[str] = []
        if curator.relation == "label":
            private = [n for n in step.predictors if curator.schema[n].role == "private"]
        names = [n for n in step.predictors if n not in private]
        if growth == "public-predictors":
            if names:
                rows, often = curator.public_rows(names)
            else:
                # A sequence of targets without public columns: to the public, all rows are alike.
                (often,) = curator.public_counts([Marginal(curator.schema, ())])
                rows = Codes(curator.schema, {}, len(often))
            ground = Ground(rows, often.astype(np.float64))
        else:
            assert self.public is not None
            codes = self.public.codes.project(names)
            n = float(len(codes) if curator.rows is None else curator.rows)
            ground = Ground(codes, np.full(len(codes), n / max(len(codes), 1)))
        return ground.crossed(private) if private else ground

    # --- what is asked ----------------------------------------------------------------------------

    @property
    def _recipe(self) -> Recipe:
        return Recipe(
            trees=self.trees,
            n_b=self.n_b,
            n_leaf=self.n_leaf,
            weights=self.weights if isinstance(self.weights, Mapping) else None,
            ordered=self.weights == "auto" and self.order_share > 0,
            max_depth=self.max_depth,
            shrink=self.shrink,
            marginal_share=self.marginal_share,
            order_share=self.order_share,
            growth_share=self.growth_share,
        )

    def _growth(self, relation: str) -> Growth:
        if self.growth is None:
            if self.public is not None:
                return "public-data"
            return "public-predictors" if relation == "label" else "synthetic"
        if self.growth == "public-predictors" and relation != "label":
            raise UnsupportedError(
                f"forest: growth 'public-predictors' reads exact counts, which are public only under neighbours "
                f"'label'; the schema says '{relation}': use 'synthetic', 'noisy' or a public table"
            )
        if self.growth == "synthetic" and relation == "label":
            raise UnsupportedError(
                "forest: growth 'synthetic' is for whole rows; under neighbours 'label' public predictors are free"
            )
        return self.growth

    def _targets(self, schema: Schema, relation: str) -> tuple[str, ...]:
        """What the model labels, in the schema's order."""
        wanted = set(schema.private if self.targets is None and relation == "label" else self.targets or ())
        for name in wanted:
            schema[name]
        return tuple(name for name in schema.names if name in wanted)

    def _steps(self, schema: Schema, relation: str) -> list[Step]:
        """The ensembles, in order."""
        require_possible(schema)
        self._check_names(schema, relation)
        targets = self._targets(schema, relation)
        if relation == "label":
            given = schema.public if self.predictors is None else self.predictors
            asked = tuple(n for n in given if n != self.strata and self._weight(n) > 0)
            return self._labelling(schema, targets, asked)
        names = [n for n in schema.names if n not in targets and n != self.strata]
        steps = [Step((n,), tuple(m for m in names[:i] if self._weight(m) > 0)) for i, n in enumerate(names)]
        steps = [Step(s.targets, s.predictors, self._forced(s.predictors)) for s in steps]
        if targets:
            given = tuple(names) if self.predictors is None else self.predictors
            steps += self._labelling(schema, targets, tuple(n for n in given if self._weight(n) > 0))
        return steps

    def _labelling(self, schema: Schema, targets: tuple[str, ...], asked: tuple[str, ...]) -> list[Step]:
        joint = self.leaves == "joint" or (self.leaves is None and schema.size(targets) <= JOINT_LABELS)
        if joint:
            return [Step(targets, asked, self._forced(asked))]
        order = targets if self.targets is None else tuple(self.targets)
        steps = []
        for i, name in enumerate(order):
            before: list[str] = []
            for earlier in reversed(order[:i]):
                if prod(schema[n].size for n in (*before, earlier)) <= JOINT_LABELS:
                    before.insert(0, earlier)
            forced = (*before, *self._forced(asked))
            steps.append(Step((name,), (*asked, *before), forced))
        return steps

    def _forced(self, asked: Sequence[str]) -> tuple[str, ...]:
        return tuple(n for n in self.must_include if n in asked)

    def _weight(self, name: str) -> float:
        return self.weights.get(name, 1.0) if isinstance(self.weights, Mapping) else 1.0

    def _split(self, budget: Budget, steps: Sequence[Step]) -> list[Budget]:
        return list(budget.split([1.0 if s.predictors or len(steps) == 1 else FIRST_WEIGHT for s in steps]))

    def _check_names(self, schema: Schema, relation: str) -> None:
        targets = self._targets(schema, relation)
        if relation == "label" and not targets:
            raise UsageError("forest: the schema has no private column to label; mark one, or name targets")
        named = [*(self.predictors or ()), *self.must_include, *([self.strata] if self.strata else [])]
        named += self.weights if isinstance(self.weights, Mapping) else []
        for name in named:
            role = schema[name].role
            if name in targets:
                raise UsageError(f"forest: '{name}' is a target and cannot be asked by the trees as well")
            if relation == "label" and role == "private":
                raise UsageError(
                    f"forest: '{name}' is private, and under neighbours 'label' a private column may never "
                    "route a released row; name public columns"
                )
        for name in targets:
            if relation == "label" and schema[name].role == "public":
                raise UsageError(f"forest: target '{name}' is public, nothing to synthesise; make it private")
        if self.strata is not None and self.strata in {*(self.predictors or ()), *self.must_include}:
            raise UsageError(f"forest: '{self.strata}' divides the rows already; trees need not ask it")

    def _check_public(self, schema: Schema, relation: str, steps: Sequence[Step]) -> None:
        assert self.public is not None
        asked = {n for s in steps for n in s.predictors if relation != "label" or schema[n].role == "public"}
        if absent := [n for n in schema.names if n in asked and n not in self.public.codes.columns]:
            raise UsageError(f"forest: the public table has no column '{absent[0]}', which trees may ask")

    # --- before anything is spent -----------------------------------------------------------------

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line for each question; under strata, the questions that each stratum is asked."""
        return self._questions(schema, budget, public).planned()

    def preview(self, schema: Schema, budget: Budget, public: PublicFacts) -> TreePreview:
        """The ε table, and under `label` with public rows the depths of branches and sizes of leaves."""
        return self._questions(schema, budget, public).preview()

    def outlook(
        self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
    ) -> Outlook:
        """The label marginals, and under `label` the leaves of the trees."""
        preview = self.preview(schema, budget, public)
        tables, cells = list(tables_of(schema, steps, self.strata)), list[LabelCells]()
        if schema.neighbours == "label":
            for sizes in preview.shapes:
                labels = schema.size(sizes.targets)
                rows = tuple(max(1, round(s)) for s in sizes.typical_sizes)
                pooled = pooled_width if self.shrink else None
                cells.append(
                    LabelCells(sizes.ensemble, labels, sizes.noise, rows, sizes.leaves, True, pooled)
                )
                if public.public_rows is not None:
                    names, leaves = (*schema.public, *sizes.targets), sizes.leaves / self.trees
                    tables.append(PlannedTable(names, leaves * labels, sizes.noise**2, labels, self.trees))
        return Outlook(
            tables=tuple(tables),
            label_cells=tuple(cells),
            effort=table_effort(steps),
            trees=preview,
            fix_sizes=_fixed_sizes if self.n_b is None else None,
        )

    def _questions(self, schema: Schema, budget: Budget, public: PublicFacts) -> Questions:
        relation = schema.neighbours
        require_relation(self, relation)
        steps, growth = self._steps(schema, relation), self._growth(relation)
        left = budget
        if self.public is not None and self.public.cost is not None:
            if type(budget) is not type(self.public.cost) or self.public.cost.units >= budget.units:
                raise UsageError(
                    f"forest: the public table cost {self.public.cost}, which {budget} cannot cover"
                )
            left = type(budget).of_units(budget.units - self.public.cost.units)
        strata = Strata.of(schema, self.strata, left)
        budgets = self._split(strata.each, steps)
        return Questions(
            schema, self._recipe, tuple(steps), tuple(budgets), strata, growth == "noisy", public
        )


def _fixed_sizes(least: int) -> str:
    return f"--set n_b={2 * least} --set n_leaf={least}"
