"""LogLinear: private labels from public predictors, through one small noisy table per effect.

Under `label` the predictors are public. A conditional log-linear model of the labels then touches the
private rows only through its sufficient statistics, small tables of label counts; everything else in
its likelihood is public. So each table is noised once, and estimation, choice of penalties, standard
errors and labelling are post-processing (``docs/proofs/loglinear.md``). A tree must cut the rows ever
thinner to hold six predictors at once; this model holds them all with tables of a few dozen cells.

Sources: the model is multinomial logistic regression (McCullagh and Nelder 1989, ch. 6) seen as a
conditional log-linear model; noising the sufficient statistics of an exponential family is Foulds,
Geumlek, Welling and Chaudhuri 2016, "On the theory and practice of privacy-preserving Bayesian data
analysis", and Bernstein and Sheldon 2018, "Differentially private Bayesian inference for exponential
families". Keeping the likelihood's normaliser public is what the `label` relation allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any, ClassVar, Final, Literal

import numpy as np

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.estimation.lawful import require_possible
from dipsmith.estimation.parameters import as_groups, freeze_names, require_least
from dipsmith.methods.loglinear.clique import Clique, needed_columns
from dipsmith.methods.loglinear.effort import FitSize
from dipsmith.methods.loglinear.memory import Memory
from dipsmith.methods.loglinear.model import LogLinearModel, StratumEffects
from dipsmith.methods.loglinear.noisy_tables import NoisyTables
from dipsmith.methods.loglinear.penalty import SCALE, Penalty, trend, walk
from dipsmith.methods.loglinear.solver import FREE
from dipsmith.methods.loglinear.table_plan import (
    NOISE_TO_SAMPLING,
    ModelSpec,
    TablePlan,
    TablePlanner,
    noise_sd,
    target_groups,
)
from dipsmith.methods.method import Planned, PublicFacts
from dipsmith.methods.outlook import (
    QUANTILES,
    Effort,
    LabelCells,
    Outlook,
    Suitability,
    table_effort,
    tables_of,
    typical_sizes,
)
from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.formula import Formula

MOST_LABELS: Final = 2000
"""Joint labels whose probabilities are held for each row of a chunk, at most."""
WIDE: Final = 0.25
"""Precision of the intercepts: labels may well be a thousand times as frequent as others."""
WALKED: Final = 1500
"""Tables with more cells are not smoothed."""


@dataclass(frozen=True)
class LogLinear:
    """A conditional log-linear model of private labels given public predictors.

    Parameters
    ----------
    targets
        The private attributes to label.
    predictors
        The public attributes to use; default: all of them. Every attribute that an analyst will control
        for, and the response, must be among them: what is not in the model is independent of the
        synthetic labels given what is.
    interactions
        "auto" to choose interactions of predictors when the budget can pay for them and no analyses are
        planned, a list of groups of predictors to include, or 0 for none.
    analyses
        Planned analyses, as formulas ("log(pay) ~ sex + race + age | agency") or as attributes. Their
        public attributes are put in the model, products with a target as interactions with the response,
        and the whole budget goes to those.
    strata
        A public attribute (a year) by whose labels the rows are divided, one model for each.
    smooth
        Attributes along which neighbouring effects are drawn together; default: the ordered ones.
    shrink
        Whether to draw effects towards zero as far as the noise makes wise. Only for large ε without.
    max_effects
        Interactions are chosen adaptively while the model has at most so many effects (cells × labels − 1).

    >>> LogLinear(targets=["sex", "race"], interactions=[("occupation", "pay")]).interactions
    (('occupation', 'pay'),)
    """

    targets: Sequence[str]
    predictors: Sequence[str] | None = None
    interactions: Literal["auto", 0] | Sequence[Sequence[str]] = "auto"
    analyses: Sequence[str | Sequence[str]] = ()
    strata: str | None = None
    smooth: Sequence[str] | None = None
    shrink: bool = True
    max_effects: int = 2500

    name: ClassVar[str] = "loglinear"
    summary: ClassVar[str] = "One small noisy table per public column; keeps planned regressions at little ε."
    relations: ClassVar[tuple[str, ...]] = ("label",)
    models: ClassVar[tuple[type[LogLinearModel], ...]] = (LogLinearModel,)

    def __post_init__(self) -> None:
        freeze_names(self, "targets", "predictors", "smooth")
        analyses = (self.analyses,) if isinstance(self.analyses, str) else self.analyses
        object.__setattr__(self, "analyses", tuple(a if isinstance(a, str) else tuple(a) for a in analyses))
        if not self.targets:
            raise UsageError("loglinear: targets is empty; name the private columns to label")
        if isinstance(self.interactions, str | int):
            if self.interactions not in ("auto", 0):
                raise UsageError(
                    f"loglinear: interactions is '{self.interactions}', expected 'auto', 0 or a list of groups"
                )
        else:
            groups = as_groups(self.interactions)
            if short := [g for g in groups if len(set(g)) < 2]:
                raise UsageError(f"loglinear: interaction {short[0]} needs two different predictors or more")
            object.__setattr__(self, "interactions", groups)
        require_least(self, 1, "max_effects")

    def fit(self, curator: Curator) -> LogLinearModel:
        """Measure the tables, fit, add interactions if there is budget for them.

        Privacy
        -------
        `label` only. Reads private rows through `curator.measure` and `curator.choose` alone; public
        rows and their multiplicities are free. Spends the curator's whole budget; strata are disjoint
        blocks of public rows (`Curator.partition`).
        """
        return self._fit(curator, None)

    def fit_near(self, curator: Curator, model: Any) -> LogLinearModel:
        """Fit again, starting from the effects and penalties of an earlier model.

        Privacy
        -------
        As `fit`.
        """
        return self._fit(curator, model if isinstance(model, LogLinearModel) and model.strata == self.strata else None)

    def _fit(self, curator: Curator, near: LogLinearModel | None) -> LogLinearModel:
        spec = self._spec(curator.schema, curator.relation)
        children = [curator] if self.strata is None else curator.partition(self.strata, curator.budget)
        known = [None] * len(children) if near is None else near.blocks
        blocks = [self._fit_stratum(child, spec, block) for child, block in zip(children, known, strict=True)]
        curator.report("fitting", 1.0)
        return LogLinearModel(curator.schema, spec.targets, self.strata, tuple(blocks))

    def _fit_stratum(self, curator: Curator, spec: ModelSpec, near: StratumEffects | None) -> StratumEffects:
        columns = needed_columns(curator.schema, spec.targets, spec.predictors)
        if columns:
            rows, multiplicities = curator.public_rows(columns)
        else:
            (multiplicities,) = curator.public_counts([Marginal(curator.schema, ())])
            rows = Codes(curator.schema, {}, len(multiplicities))
        planner = TablePlanner(spec, PublicFacts(int(multiplicities.sum()), (rows, multiplicities)), self.max_effects)
        memory, asked = Memory() if near is None else near.memory, (self, spec, curator.budget)
        known = [multiplicities, *rows.columns.values()]
        plan = memory.recall(asked, known, lambda: self._table_plan(planner, curator.budget))
        tables = NoisyTables(spec.targets, lambda c: self._penalty(spec, c), rows, multiplicities, near)
        tables = tables.measure(curator, plan.tables, plan.costs)
        found, candidates = tables.fit(curator, rough=bool(plan.rounds)), list(plan.candidates)
        for i, (for_choice, cost) in enumerate(plan.rounds, start=1):
            if not candidates:
                # Nothing more fits: what is left buys the main tables a second time.
                left = planner.split(curator.remaining or cost, plan.tables)
                tables = tables.measure(curator, plan.tables, left)
                return tables.effects(tables.fit(curator, found, rough=False))
            chosen = curator.choose(candidates, tables.misfit(candidates, found, cost), for_choice)
            tables = tables.measure(curator, [chosen], [cost])
            candidates = planner.next_candidates(candidates, tables.cliques, cost)
            found = tables.fit(curator, found, rough=i < len(plan.rounds))
        return tables.effects(found)

    # --- what is asked ----------------------------------------------------------------------------

    def _spec(self, schema: Schema, relation: str) -> ModelSpec:
        """Check roles and names; a formula adds its public attributes and its products."""
        if relation != "label":
            raise UnsupportedError(
                f"loglinear needs public predictors, neighbours label, and the schema says {relation}: "
                "its likelihood is public only given public columns; use forest, mst or aim to make whole rows"
            )
        require_possible(schema)
        for name in self.targets:
            if schema[name].role == "public":
                raise UsageError(f"loglinear: target '{name}' is public, nothing to synthesise; make it private")
        labelled = tuple(n for n in schema.names if n in set(self.targets))
        if (joint := schema.size(labelled)) > MOST_LABELS:
            raise UnsupportedError(
                f"loglinear: {', '.join(labelled)} have {joint:,} joint labels, at most {MOST_LABELS:,} are "
                "possible; collapse labels, label some of them in another run, or use forest"
            )
        wanted = set(schema.public if self.predictors is None else self.predictors)
        groups = [] if isinstance(self.interactions, str | int) else [tuple(g) for g in self.interactions]
        responses: set[str] = set()
        for analysis in self.analyses:
            names, products, explained = _read_analysis(schema, analysis)
            responses |= {n for n in explained if schema[n].role == "public" and n != self.strata}
            for name in names:
                if schema[name].role == "private" and name not in labelled:
                    raise UsageError(f"loglinear: an analysis uses private column '{name}'; add it to targets")
            wanted |= {n for n in names if schema[n].role == "public"}
            groups += products
        wanted |= {n for g in groups for n in g} | ({self.strata} if self.strata else set())
        for name in schema.names:
            if name in wanted and schema[name].role == "private":
                raise UsageError(f"loglinear: predictor '{name}' is private; predictors must be public columns")
        for name in wanted:
            schema[name]
        groups = [tuple(n for n in g if n != self.strata) for g in groups]
        distinct = {frozenset(g): g for g in reversed(groups) if len(g) > 1}
        asked = tuple(n for n in schema.names if n in wanted and n != self.strata)
        return ModelSpec(schema, labelled, asked, tuple(reversed(distinct.values())), frozenset(responses))

    def _table_plan(self, planner: TablePlanner, budget: Budget) -> TablePlan:
        return planner.plan(budget, adaptive=self.interactions == "auto" and not self.analyses)

    def _penalty(self, spec: ModelSpec, clique: Clique) -> Penalty:
        """The prior of a table's effects."""
        shape = [spec.schema[p].size for p in clique.predictors]
        cells, contrasts = prod(shape), clique.labels(spec.schema) - 1
        if not self.shrink:
            return Penalty(cells, contrasts, given_strength=FREE)
        if not clique.predictors and clique.targets in target_groups(spec.schema, spec.targets):
            return Penalty(cells, contrasts, given_strength=WIDE)
        ordered = [self._count_ordered(spec.schema, p) for p in clique.predictors]
        if cells > WALKED or max(ordered, default=0) < 3:
            return Penalty(cells, contrasts)
        if len(shape) == 1:
            return Penalty(cells, contrasts, trend(cells, ordered[0]))
        return Penalty(cells, contrasts, (None, walk(shape, ordered)))

    def _count_ordered(self, schema: Schema, name: str) -> int:
        """How many labels of an attribute are in order."""
        domain = schema[name].domain
        chosen = domain.ordered if self.smooth is None else name in self.smooth
        return domain.size - int(domain.missing) if chosen else 0

    # --- before anything is spent -----------------------------------------------------------------

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line per table and choice, with the standard error to expect of a typical effect."""
        spec = self._spec(schema, schema.neighbours)
        if public.public_rows is not None:
            public = replace(public, rows=int(public.public_rows[1].sum()))
        if self.strata is None:
            return self._lines(spec, budget, public, "")
        unit, size = schema.unit, schema[self.strata].size
        facts = [self._stratum(public, code, size) for code in range(size)]
        if not neighbours.unit_recurs(unit.max_rows, unit.per, self.strata):
            # Strata cost no more together than one: shown is the smallest, where noise weighs most.
            least = min(facts, key=lambda f: f.rows or np.inf)
            return self._lines(spec, budget, least, f"in each {self.strata}: ")
        lines = []
        parts: list[Budget] = [*budget.split(size)]
        for label, part, known in zip(schema[self.strata].labels, parts, facts, strict=True):
            lines += self._lines(spec, part, known, f"{self.strata} {label}: ")
        return lines

    def _stratum(self, public: PublicFacts, code: int, size: int) -> PublicFacts:
        """What is public about one stratum; an equal share of the rows where it is not known."""
        assert self.strata is not None
        if public.public_rows is None or self.strata not in public.public_rows[0].columns:
            return PublicFacts(None if public.rows is None else public.rows // size)
        rows, multiplicities = public.public_rows
        here = np.flatnonzero(rows[self.strata] == code)
        return PublicFacts(int(multiplicities[here].sum()), (rows.take(here), multiplicities[here]))

    def _lines(self, spec: ModelSpec, budget: Budget, facts: PublicFacts, prefix: str) -> list[Planned]:
        schema, plan = spec.schema, self._table_plan(TablePlanner(spec, facts, self.max_effects), budget)
        stages = {0: "label marginal", 1: "effect"}
        lines = []
        for clique, cost in zip(plan.tables, plan.costs, strict=True):
            labels, cells = clique.labels(schema), facts.occupied(schema, clique.predictors)
            sd = noise_sd(schema, cost, labels)
            error = _expected_error(facts.rows, cells, labels, sd) if clique.predictors else None
            precision = "" if error is None else f": effects to ± {error:.2g}"
            hidden = error is not None and error > SCALE
            note = f"noise hides all but large effects of {' × '.join(clique.predictors)}" if hidden else ""
            stage, what = prefix + stages.get(len(clique.predictors), "interaction"), str(clique) + precision
            lines.append(Planned(stage, what, cost, cells * labels, sd, note, error, clique.attributes))
        for i, (choice, cost) in enumerate(plan.rounds, start=1):
            which = f"{i} of {len(plan.rounds)}"
            among = f"one of {len(plan.candidates)} pairs of predictors, or one chosen before and a third"
            lines.append(Planned(f"{prefix}choice {which}", among, choice, group=f"{prefix}choice"))
            sd = noise_sd(schema, cost, plan.candidates[0].labels(schema))
            group = f"{prefix}interaction"
            lines.append(Planned(f"{group} {which}", "as chosen", cost, None, sd, group=group))
        return lines

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """The tables, and the cells in which labels are made."""
        cells = [self._cells(schema, step, public) for step in steps if step.attributes]
        tables, fitting = table_effort(steps), self._size(schema, steps, public).effort
        strata = schema.size(() if self.strata is None else (self.strata,))
        return Outlook(
            tables_of(schema, steps, self.strata),
            label_cells=tuple(c for c in cells if c is not None),
            effort=Effort(tables.seconds + strata * fitting.seconds, tables.memory + fitting.memory),
        )

    def _size(self, schema: Schema, steps: Sequence[Planned], public: PublicFacts) -> FitSize:
        """How large the fit of one stratum is."""
        distinct = public.rows or 0 if public.public_rows is None else len(public.public_rows[0])
        strata = schema.size(() if self.strata is None else (self.strata,))
        spec = self._spec(schema, schema.neighbours)
        named = {s.attributes for s in steps if s.attributes}
        cliques = [Clique.of(schema, names) for names in named]
        rounds = [s for s in steps if not s.attributes and s.sd is not None]
        added = candidates = 0
        if rounds:
            labels = cliques[0].labels(schema)
            most = NOISE_TO_SAMPLING * (public.rows or 0) / strata / labels / (rounds[0].sd or 1.0) ** 2
            pairs = [schema.size(p) for p in combinations(spec.predictors, 2)]
            small = [p for p in pairs if p <= most] or [int(most)]
            added, candidates = sum(small) // len(small), len(small)
        return FitSize(
            rows=distinct // strata,
            labels=schema.size(spec.targets),
            cells=tuple(schema.size(c.predictors) for c in cliques),
            effects=tuple(c.effects(schema) for c in cliques),
            alike=len({c.targets for c in cliques}) <= 1,
            rounds=len({s.stage for s in rounds}),
            candidates=candidates,
            candidate_cells=added,
        )

    def _cells(self, schema: Schema, step: Planned, public: PublicFacts) -> LabelCells | None:
        """How many rows lie in the cells of an effect's table."""
        assert step.sd is not None
        what, strata = " × ".join(step.attributes), () if self.strata is None else (self.strata,)
        columns = [*(n for n in step.attributes if schema[n].role == "public"), *strata]
        labels = schema.size([n for n in step.attributes if n not in columns])
        if public.public_rows is None:
            cells = max(1, (step.cells or labels) // labels) * schema.size(strata)
            typical = (max(1, public.rows // cells),) * len(QUANTILES) if public.rows else ()
            return LabelCells(what, labels, step.sd, typical, cells)
        codes, often = public.public_rows
        index = Marginal.of(schema, columns).index(codes)
        sizes = np.bincount(index, weights=often, minlength=schema.size(columns))
        sizes = sizes[sizes > 0]
        if not len(sizes):
            return None
        return LabelCells(what, labels, step.sd, tuple(int(s) for s in typical_sizes(sizes)), len(sizes))

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """Private columns beside public ones."""
        return Suitability(
            1,
            "private columns beside public ones: a log-linear model holds all public columns at once with one small noisy "
            "table each, and keeps planned regressions at a fraction of the ε that trees need",
        )


def _expected_error(rows: int | None, cells: int, labels: int, sd: float) -> float | None:
    """Standard error of the log-odds of equally frequent labels in a cell of average size, before shrinkage."""
    if not rows:
        return None
    information = rows / max(cells, 1) / labels
    variance = sd**2 * (2 if labels == 2 else 1)
    return float(np.sqrt(2 * (information + variance)) / information)


def _read_analysis(
    schema: Schema, text: str | Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
    """The attributes of an analysis, the groups of public ones that it multiplies, and what it explains.

    A product with a private column ("sex*agency") is about how the response depends on it, so the
    response belongs to the group.
    """
    if not isinstance(text, str):
        return tuple(text), [], ()
    if "~" not in text:
        return (text,), [], ()
    formula = Formula.parse(text)
    groups = []
    for product in formula.products:
        private = any(schema[n].role == "private" for n in product)
        names = dict.fromkeys((*product, *(formula.response if private else ())))
        groups.append(tuple(n for n in names if schema[n].role == "public"))
    return formula.attributes, [g for g in groups if len(g) > 1], tuple(formula.response)
