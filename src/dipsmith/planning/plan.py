"""The plan of a run: what will be asked, what each question costs, and how good the answers can be.

Made before anything is spent, from public facts only: the schema, the budget, the number of rows where
it is public or given, and under `label` the public columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.estimation.weights import split_budget, weighted_tables
from dipsmith.methods.method import Method, Planned, PublicFacts, require_members, require_relation
from dipsmith.methods.model_tree import PathShares
from dipsmith.methods.outlook import Outlook, TreePreview, outlook_of
from dipsmith.planning.analysis_plan import AnalysisPlan
from dipsmith.planning.bin_proposals import BinProposal, propose_bins
from dipsmith.planning.expected_error import ExpectedError, expected_errors
from dipsmith.planning.label_width import SHARE, LabelWidths, label_widths
from dipsmith.planning.law import NoiseLaw
from dipsmith.planning.leaf_interval import rows_for_width
from dipsmith.planning.price import DeltaOffer, offer_delta, solve, strain_of_labels, strain_of_marginals
from dipsmith.planning.resources import Resources, resources
from dipsmith.planning.smears import bin_warnings
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.person_total import PersonTotal
from dipsmith.privacy.value_question import WeightQuestion
from dipsmith.schema import Schema, WeightTotals
from dipsmith.schema.analysis import PlannedAnalysis


@dataclass(frozen=True)
class Stage:
    """Questions of one kind, together."""

    name: str  # what they are for
    questions: int  # how many there are
    budget: Budget  # what they cost together
    share: float  # the same as a share of the run's budget
    cells: int | None  # noisy numbers in all; None where no line says how many
    sd: tuple[float, float] | None  # smallest and largest of the noise on one count; None for choices

    def to_dict(self) -> dict[str, Any]:
        """The stage as JSON-able values."""
        return {
            "stage": self.name,
            "questions": self.questions,
            "cost": float(self.budget.exact),
            "share": self.share,
            "cells": self.cells,
            "sd": None if self.sd is None else list(self.sd),
        }


@dataclass(frozen=True)
class Plan:
    """The questions of a run, in order, and what can be expected of it."""

    dataset: str
    method: str
    budget: Budget
    neighbours: str
    unit: str
    rows: int | None
    sets: int
    each: str | None
    steps: tuple[Planned, ...]  # the questions of one sanitisation
    errors: tuple[ExpectedError, ...]  # of every 1- and 2-way marginal
    widths: tuple[LabelWidths, ...]  # under `label`: the leaves or cells in which labels are made
    p0: float  # the authentic share, and the level, that `widths` are for
    level: float
    resources: Resources
    trees: TreePreview | None = None  # of methods that grow trees: what each costs, how deep branches go
    smears: tuple[str, ...] = ()  # what bins will do to means, quantiles and spikes
    bins: tuple[BinProposal, ...] = ()  # those that would suit rows, noise and analyses better
    path_shares: tuple[PathShares, ...] = ()  # how often each column is asked before a label is drawn
    delta: DeltaOffer | None = None  # under pure ε: what a tiny δ would buy
    life: str = ""  # what a unit of a panel pays over all its periods, in words
    person_total: PersonTotal | None = None  # where the unit is a person in one period
    analyses: AnalysisPlan | None = None  # how precise planned analyses will be

    def __str__(self) -> str:
        """What is asked, what it costs, how long it takes; `dipsmith plan` says more."""
        rows = "rows unknown" if self.rows is None else f"{self.rows:,} rows"
        lines = [
            f"{self.method} on '{self.dataset}': {self.budget}, unit {self.unit}, neighbours {self.neighbours}, {rows}"
        ]
        for s in self.stages:
            noise = (
                ""
                if s.sd is None
                else f", noise sd {s.sd[0]:.3g}" + (f" to {s.sd[1]:.3g}" if s.sd[1] > s.sd[0] else "")
            )
            lines.append(f"{s.name}: {s.questions} asked for {s.share:.0%}{noise}")
        took = self.resources
        lines.append(f"About {took.memory / 1e6:,.0f} MB of memory and {took.seconds:.3g} s of processor time")
        lines += [] if self.analyses is None else [str(self.analyses)]
        return "\n".join([*lines, *dict.fromkeys(self.warnings)])

    @property
    def cells(self) -> int:
        """Noisy numbers in all, of one sanitisation."""
        return sum(s.cells or 0 for s in self.steps)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The questions by what they are for, in order."""
        groups: dict[str, list[Planned]] = {}
        for step in self.steps:
            groups.setdefault(step.group or step.stage, []).append(step)
        return tuple(_stage(name, group, self.steps) for name, group in groups.items())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a steward should think about before spending."""
        return (*self.smears, *(f"{s.place}: {s.note}" for s in self.steps if s.note))

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-able values."""
        told = ("stage", "what", "cells", "sd", "note", "effect_error")
        steps = [{"cost": float(s.budget.exact), **{name: getattr(s, name) for name in told}} for s in self.steps]
        plain = ("dataset", "method", "neighbours", "unit", "rows", "sets", "each", "cells")
        return {
            **{name: getattr(self, name) for name in plain},
            "budget": {self.budget.currency: float(self.budget.exact)},
            "memory_bytes": self.resources.memory,
            "seconds": self.resources.seconds,
            "resources": self.resources.to_dict(),
            **({} if not self.life else {"life": self.life}),
            "stages": [stage.to_dict() for stage in self.stages],
            "steps": steps,
            "errors": [e.to_dict() for e in self.errors],
            "labels": {"p0": self.p0, "level": self.level, "widths": [w.to_dict() for w in self.widths]},
            "warnings": list(self.warnings),
            "bins": [proposal.to_dict() for proposal in self.bins],
            **({} if self.person_total is None else {"person_total": self.person_total.to_dict()}),
            **({} if self.trees is None else {self.method: self.trees.to_dict()}),
            **({} if self.delta is None else {"delta": {**asdict(self.delta), "sentence": self.delta.sentence}}),
            **({"path_shares": [asdict(p) for p in self.path_shares]} if self.path_shares else {}),
            **({} if self.analyses is None else {"analyses": self.analyses.to_dict()}),
        }


def plan(
    schema: Schema,
    method: Method,
    budget: Budget,
    *,
    public: PublicFacts | None = None,
    sets: int = 1,
    each: str | None = None,
    p0: float = SHARE,
    level: float = 0.9,
    analyses: Sequence[PlannedAnalysis] = (),
    forecast: AnalysisPlan | None = None,
) -> Plan:
    """What `synthesize` would ask and spend, and what can be expected of it; reads no private value.

    `public` has the number of rows, and under `label` the public rows. `p0` and `level` say for which authentic share, and
    at which level, the widths of label shares are given. `analyses` are forecast from the tables that the method measures, and
    decide which weighted totals are measured, where there is a survey weight. Under `label` their `forecast` is given, and the
    plan is of the budget that they leave.
    """
    require_relation(method, schema.neighbours)
    require_members(method, schema)
    if sets > 1 and each not in ("split", "draw"):
        raise UsageError("several sets need --each split or --each draw")
    facts = public or PublicFacts()
    budget = budget if forecast is None else forecast.rest(budget)
    share = _each(budget, sets, each)
    tables = weighted_tables(schema, analyses or schema.analyses)
    totals, share = _plan_totals(schema, share, tables)
    own = tuple(method.plan(schema, share, facts))
    outlook, steps = outlook_of(method, schema, share, own, facts), (*totals, *own)
    crowded = schema.neighbours != "label"  # there few tables of labels are asked, for which ε needs no δ
    if forecast is None and analyses and schema.neighbours != "label":
        forecast = AnalysisPlan.of_tables(analyses, schema, steps, facts.rows)
    divided = schema.unit.per is not None and getattr(method, "strata", None) == schema.unit.per  # by the unit's period
    return Plan(
        dataset=schema.name,
        method=method.name,
        budget=budget,
        neighbours=schema.neighbours,
        unit=str(schema.unit),
        rows=facts.rows,
        sets=sets,
        each=each,
        steps=steps,
        errors=expected_errors(schema, outlook, facts, pure=budget.currency == "epsilon"),
        widths=label_widths(outlook, _law(budget), p0=p0, level=level, pooled=True),
        p0=p0,
        level=level,
        resources=resources(
            schema, outlook, facts.rows, steps=own, analyses=analyses or schema.analyses, sets=sets, each=each
        ),
        trees=outlook.trees,
        smears=bin_warnings(schema),
        bins=propose_bins(schema, own, facts.rows, analyses or schema.analyses),
        path_shares=outlook.path_shares,
        life=_life(schema, budget),
        person_total=PersonTotal.of(schema, budget, budget.units if divided else 0),
        delta=offer_delta(
            budget, own, lambda b: method.plan(schema, split_budget(_each(b, sets, each), tables)[1], facts)
        )
        if crowded
        else None,
        analyses=forecast,
    )


def budget_for_width(
    schema: Schema,
    method: Method,
    width: float,
    *,
    currency: str = "epsilon",
    public: PublicFacts | None = None,
    sets: int = 1,
    each: str | None = None,
    p0: float = SHARE,
    level: float = 0.9,
) -> Budget:
    """The least budget, to three digits, with which shares are as precise as asked.

    Under `label`: the interval of a label's synthetic share in the leaf or cell of the median row is no
    wider than `width`, in every ensemble or effect. Otherwise: the noise's interval of a share is no wider,
    in every 1- and 2-way marginal whose noise is known beforehand.
    """
    if not 0 < width < 1:
        raise UsageError(f"the target width is {width}, expected a share between 0 and 1")
    require_relation(method, schema.neighbours)
    facts = public or PublicFacts()

    def expect(budget: Budget) -> Outlook:
        share = _each(budget, sets, each)
        return outlook_of(method, schema, share, method.plan(schema, share, facts), facts)

    fix_sizes = expect(PureDP(1) if currency == "epsilon" else ZCDP(1)).fix_sizes
    if fix_sizes is not None:
        least = rows_for_width(width, p0, 1e3, noise="discrete", level=level)
        raise UsageError(
            f"{method.name}: by default leaves shrink as the noise does, so no ε makes them precise; fix their size, e.g. "
            f"{fix_sizes(least)} (a width of {width} needs {least:,} rows or more in a leaf)"
        )

    def strain(budget: Budget) -> float:
        outlook = expect(budget)
        if schema.neighbours == "label":
            return strain_of_labels(label_widths(outlook, _law(budget), p0=p0, level=level), width, p0, level)
        errors = expected_errors(schema, outlook, facts, pure=budget.currency == "epsilon")
        return strain_of_marginals(errors, width, level)

    return solve(strain, currency)


def _each(budget: Budget, sets: int, each: str | None) -> Budget:
    return budget.split(sets)[0] if each == "split" else budget


def _life(schema: Schema, budget: Budget) -> str:
    """What a unit of a panel pays over its life; empty without periods."""
    unit = schema.unit
    if unit.order is None:
        return ""
    return (
        f"{budget} is the price of a whole career: one {unit.column} with up to {unit.max_rows} rows pays it once for all of "
        f"them, not once for each {unit.order}. Noise grows with max_rows."
    )


def _law(budget: Budget) -> NoiseLaw:
    return "discrete" if budget.currency == "epsilon" else "gaussian"


def _plan_totals(schema: Schema, budget: Budget, tables: Sequence[WeightTotals]) -> tuple[list[Planned], Budget]:
    """The lines of a plan for weighted totals, and what is left for the rows."""
    each, rest = split_budget(budget, tables)
    steps = []
    for table, cost in zip(tables, each, strict=True):
        law, _ = WeightQuestion(table).price(str(schema.priced_as), schema.unit.max_rows, cost, "")
        error = law.variance**0.5 * table.step
        note = f"noise on a weighted total: standard error {round(error):,}"
        steps.append(Planned("weighted totals", table.key, cost, table.size, error, note, group="weighted totals"))
    return steps, rest


def _stage(name: str, group: Sequence[Planned], steps: Sequence[Planned]) -> Stage:
    units = sum(s.budget.units for s in group)
    whole = sum(s.budget.units for s in steps)
    cells = [s.cells for s in group if s.cells is not None]
    sds = [s.sd for s in group if s.sd is not None]
    noise = (min(sds), max(sds)) if sds else None
    cost = type(group[0].budget).of_units(units)
    return Stage(name, len(group), cost, units / whole, sum(cells) if cells else None, noise)
