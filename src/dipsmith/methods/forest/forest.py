"""Forest: random decision trees over categories, with differentially private label distributions in their leaves.

A tree asks one attribute after another and has one branch for every label of each. Its shape depends on
public facts, coins and answers that were paid for. Only the label counts in its leaves are private, and
every leaf gets exact noise. Rows are labelled by their leaf's distribution.

Under `label` the predictors are public: trees grow on their exact counts for free, leaves that are publicly
empty need no noise, and of two labels one count is enough. Under `add-remove` and `replace` nothing is
public: a sequence of ensembles makes whole rows, from the first attribute's histogram to the last
attribute, each trained on the authentic attributes before it and applied to the synthetic ones.

Read on in the order of a run: `settings` (what each question costs), `training` (the questions), `splitting`
and `tree_shape` (how a tree grows), `shrinkage` (how noisy leaves are estimated together), `model` (the result).

Sources: random decision trees, Fan, Wang, Yu and Ma 2003; with differential privacy, Jagannathan,
Pillaipakkamnatt and Wright 2012; variable depth and synthesis of labels, the synthetic data project of Duke
University (2018, 2019). Different here: an explicit neighbouring relation, noise on every label of the
public domain, joint leaves or sequences trained on authentic labels, a private order of attributes, and
leaves that are estimated together. Proof: ``docs/proofs/forest.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from typing import ClassVar, Final, Literal, get_args

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.estimation.answers import pool_estimates
from dipsmith.estimation.lawful import require_possible
from dipsmith.estimation.parameters import freeze_names, require_least, require_one_of
from dipsmith.methods.forest.forest_plan import ForestPlan, Strata
from dipsmith.methods.forest.model import Ensemble, ForestModel, StratumForest
from dipsmith.methods.forest.settings import EnsembleSpec, TreeSettings, split_among
from dipsmith.methods.forest.training import EnsembleTraining, GrowthRows
from dipsmith.methods.method import Planned, PublicFacts, knob, require_relation
from dipsmith.methods.outlook import Outlook, TreePreview
from dipsmith.methods.public_table import PublicTable, supply_statement
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Schema

Growth = Literal["public-predictors", "public-data", "synthetic", "noisy"]

JOINT_LABELS: Final = 50
"""The most joint labels with which several targets share a leaf."""
GROWTH_ROWS: Final = 200_000
"""The most rows that are synthesised for trees to grow on."""


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
        Trees per ensemble. They share the budget, so that one tree is usually best.
    n_b
        A branch is split while its public (or noisy, or guessed) number of rows is at least this; by default
        a multiple of the noise on a leaf's counts.
    n_leaf
        A split is not made if one of its branches would have fewer rows than this; empty branches do not count.
    weights
        "auto": attributes that tell most about the targets come first (which these are is found out with a
        share of the budget); a mapping from attributes to weights, 1 where it says nothing and 0 for never; None: all alike.
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

    >>> Forest(targets=["sex", "race"], trees=3, n_b=500).targets
    ('sex', 'race')
    """

    targets: Sequence[str] | None = None
    predictors: Sequence[str] | None = None
    trees: int = field(default=1, metadata=knob(1, 10, 1, "trees"))
    n_b: int | None = field(default=None, metadata=knob(20, 5000, 10, "records from which a branch is split, n_B"))
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
    summary: ClassVar[str] = "Trees grown on public columns, noisy labels in their leaves."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace", "label")
    models: ClassVar[tuple[type[ForestModel], ...]] = (ForestModel,)

    def __post_init__(self) -> None:
        freeze_names(self, "targets", "predictors", "must_include")
        require_least(self, 1, "trees", "n_b", "n_leaf", "max_depth")
        shares = {n: getattr(self, n) for n in ("marginal_share", "order_share", "growth_share")}
        for name, share in shares.items():
            _require(0 <= share < 1, f"{name} is {share}, expected a share from 0 to 1")
        _require(sum(shares.values()) < 1, "the shares leave nothing for the leaves; they must add up to less than 1")
        if self.leaves is not None:
            require_one_of(self, "leaves", ("joint", "sequential"))
        if isinstance(self.weights, str) and self.weights != "auto":
            raise UsageError(f"forest: weights is '{self.weights}', expected 'auto', a mapping or nothing")
        if isinstance(self.weights, Mapping):
            object.__setattr__(self, "weights", dict(self.weights))
            for name, weight in self.weights.items():
                _require(0 <= weight < float("inf"), f"the weight of '{name}' must be a finite number from 0")
        if self.growth is not None:
            require_one_of(self, "growth", get_args(Growth))
            agree = (self.growth == "public-data") == (self.public is not None)
            _require(agree, "growth 'public-data' and a public table go together; give both or neither")
        known_sizes = self.n_leaf is None or self.growth != "noisy"
        _require(known_sizes, "n_leaf needs sizes that are known; leave it out when growth is 'noisy'")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes on trust: the public table, and weights that a steward gave."""
        public = () if self.public is None else (supply_statement(self.public.what, self.public.cost),)
        weights = ("the weights were not taken from the rows",) if isinstance(self.weights, Mapping) else ()
        return (*public, *weights)

    # --- fit --------------------------------------------------------------------------------------

    def fit(self, curator: Curator) -> ForestModel:
        """Train the ensembles, one after another, in every stratum.

        Privacy
        -------
        Reads private rows through `measure` and `choose` alone. All ensembles, questions and trees compose
        sequentially within the curator's budget; strata are disjoint blocks (`Curator.partition`).
        """
        require_relation(self, curator.relation)
        schema, growth = curator.schema, self._growth_under(curator.relation)
        specs = self._specs(schema, curator.relation)
        if self.public is not None:
            curator.public(self.public.what, self.public.cost)
        budget = curator.remaining
        if budget is None:
            raise UsageError("forest: the public table cost the whole budget, nothing is left for the trees")
        if self.strata is None:
            blocks = [self._fit_stratum(curator, budget, curator.rows, specs, growth, self.public)]
        else:
            children = curator.partition(self.strata, Strata.of(schema, self.strata, budget).whole)
            typical = None if curator.rows is None else curator.rows // len(children)
            blocks = []
            for code, child in enumerate(children):
                own = None if self.public is None else self.public.within(self.strata, code)
                blocks.append(self._fit_stratum(child, child.budget, typical, specs, growth, own))
        targets = self._targets(schema, curator.relation)
        return ForestModel(schema, curator.relation, targets, self.strata, tuple(blocks))

    def _fit_stratum(
        self,
        curator: Curator,
        budget: Budget,
        rows: int | None,
        specs: list[EnsembleSpec],
        growth: Growth,
        public: PublicTable | None,
    ) -> StratumForest:
        """Train the ensembles on one stratum, whose rows `curator` sees.

        `rows` is the public number of rows by which the budget is divided, `public` the table to grow on.
        """
        ensembles, totals = list[Ensemble](), list[tuple[float, float]]()
        synthetic: Codes | None = None  # the columns of the ensembles so far, for the trees of the next to grow on
        for spec, share in zip(specs, split_among(budget, specs), strict=True):
            costs = self._settings.costs(
                curator.schema, spec, share, relation=curator.relation, rows=rows, noisy=growth == "noisy"
            )
            growth_rows = None
            if synthetic is not None:
                growth_rows = GrowthRows.standing_for(synthetic, pool_estimates(totals)[0])
            elif growth in ("public-predictors", "public-data") and spec.predictors:
                growth_rows = GrowthRows.public(curator, spec, public)
            training = EnsembleTraining(
                curator if len(specs) == 1 else curator.nested(share, str(spec)),
                self._settings,
                spec,
                costs,
                growth_rows,
                exact=growth == "public-predictors" and spec.all_public(curator.schema),
            )
            ensemble, total = training.train()
            ensembles.append(ensemble)
            totals.append(total)
            if growth == "synthetic" and spec is not specs[-1]:
                if synthetic is None:
                    synthetic = Codes(curator.schema, {}, int(min(pool_estimates(totals)[0], GROWTH_ROWS)))
                synthetic = ensemble.draw(synthetic, curator.coins(f"rows to grow on: {spec}"))
        return StratumForest(tuple(ensembles), pool_estimates(totals)[0])

    # --- which ensembles there are, and what they grow on -----------------------------------------

    @property
    def _settings(self) -> TreeSettings:
        """The parameters that every tree follows."""
        return TreeSettings(**{f.name: getattr(self, f.name) for f in fields(TreeSettings)})

    def _growth_under(self, relation: str) -> Growth:
        """What decides where branches end: as set, or the relation's usual one."""
        if self.growth is None:
            usual: Growth = "public-predictors" if relation == "label" else "synthetic"
            return usual if self.public is None else "public-data"
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

    def _specs(self, schema: Schema, relation: str) -> list[EnsembleSpec]:
        """The ensembles, in order: every other attribute given those before it, then the targets.

        Refuses names that do not fit the schema, and a public table to grow on that lacks a column.
        """
        require_possible(schema)
        targets = self._targets(schema, relation)
        self._check_names(schema, relation, targets)
        others = [] if relation == "label" else [n for n in schema.names if n not in (*targets, self.strata)]
        specs = [self._spec((name,), others[:i]) for i, name in enumerate(others)]
        if targets:
            usual = [n for n in schema.public if n != self.strata] if relation == "label" else others
            predictors = usual if self.predictors is None else self.predictors
            specs += self._target_specs(schema, targets, predictors)
        if self.public is not None:
            needed = {n for spec in specs for n in spec.growth_columns(schema, relation)}
            for name in [n for n in schema.names if n in needed]:
                is_there = name in self.public.codes.columns
                _require(is_there, f"the public table has no column '{name}', which trees may ask")
        return specs

    def _target_specs(self, schema: Schema, targets: tuple[str, ...], predictors: Sequence[str]) -> list[EnsembleSpec]:
        """One ensemble for all targets, or one for each that also asks those before it, as many as share a leaf."""
        if self.leaves == "joint" or (self.leaves is None and schema.size(targets) <= JOINT_LABELS):
            return [self._spec(targets, predictors)]
        specs = []
        order = targets if self.targets is None else tuple(self.targets)
        for i, name in enumerate(order):
            before: list[str] = []
            for earlier in reversed(order[:i]):
                if prod(schema[n].size for n in (*before, earlier)) <= JOINT_LABELS:
                    before.insert(0, earlier)
            specs.append(self._spec((name,), predictors, tuple(before)))
        return specs

    def _spec(self, targets: tuple[str, ...], predictors: Sequence[str], before: tuple[str, ...] = ()) -> EnsembleSpec:
        """An ensemble whose trees may ask the predictors, and must ask the targets `before` it."""
        usable = tuple(n for n in predictors if self._settings.weight(n) > 0)
        must_ask = tuple(n for n in self.must_include if n in usable)
        return EnsembleSpec(targets, (*usable, *before), (*before, *must_ask))

    def _check_names(self, schema: Schema, relation: str, targets: tuple[str, ...]) -> None:
        """Refuse attributes whose role in the schema, or in another parameter, is another one."""
        label = relation == "label"
        _require(bool(targets) or not label, "the schema has no private column to label; mark one, or name targets")
        trees_ask = [*(self.predictors or ()), *self.must_include, *([self.strata] if self.strata else [])]
        for name in [*trees_ask, *(self.weights if isinstance(self.weights, Mapping) else ())]:
            _require(name not in targets, f"'{name}' is a target and cannot be asked by the trees as well")
            _require(
                not (label and schema[name].role == "private"),
                f"'{name}' is private, and under neighbours 'label' a private column may never route a released "
                "row; name public columns",
            )
        for name in targets:
            nothing_to_do = label and schema[name].role == "public"
            _require(not nothing_to_do, f"target '{name}' is public, nothing to synthesise; make it private")
        twice = self.strata in {*(self.predictors or ()), *self.must_include}
        _require(not twice, f"'{self.strata}' divides the rows already; trees need not ask it")

    # --- before anything is spent -----------------------------------------------------------------

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line for each question; under strata, the questions that each stratum is asked."""
        return self._plan(schema, budget, public).lines()

    def preview(self, schema: Schema, budget: Budget, public: PublicFacts) -> TreePreview:
        """The ε table, and under `label` with public rows the depths of branches and sizes of leaves."""
        return self._plan(schema, budget, public).preview()

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """The label marginals, and under `label` the leaves of the trees."""
        return self._plan(schema, budget, public).outlook(steps)

    def _plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> ForestPlan:
        """The ensembles and what each may cost, after the public table was paid for."""
        relation = schema.neighbours
        require_relation(self, relation)
        specs, growth = self._specs(schema, relation), self._growth_under(relation)
        cost = None if self.public is None else self.public.cost
        if cost is not None:
            covered = type(budget) is type(cost) and cost.units < budget.units
            _require(covered, f"the public table cost {cost}, which {budget} cannot cover")
            budget = type(budget).of_units(budget.units - cost.units)
        strata = Strata.of(schema, self.strata, budget)
        budgets = split_among(strata.each, specs)
        return ForestPlan(schema, self._settings, tuple(specs), budgets, strata, growth == "noisy", public)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(f"forest: {message}")
