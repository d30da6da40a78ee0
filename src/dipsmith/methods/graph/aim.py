"""AIM: marginals chosen one after another where the model fits worst, for a workload of marginals.

After McKenna, Mullins, Sheldon and Miklau, "AIM: an adaptive and iterative mechanism for differentially private synthetic
data" (PVLDB 15, 2022): start from independent columns; in each round choose, privately, the marginal that the current model
misses most after allowing for the noise it would carry, measure it and fit again; when a measurement changes the model by no
more than its own noise, the following rounds get more budget each. Candidates are the workload's marginals and all marginals
below them, as long as the model with them stays within `max_cells`, a limit that opens as the budget is spent.

Where rows follow one another (``unit: {column: person, order: year}``) the same is done to their *steps*, so that careers
can be drawn (`careers`): transitions, arrivals and departures are measured outright, other tables are chosen. Where rows are
households with members it is done to their *lines* (`households`).
Where a column has places in larger places (``hierarchy: [state, county, tract]``), counts by place are measured on every
level first (`places`), and tables are chosen for rows that are seen in their larger places.

With ``degree="auto"`` the workload is all pairs, and some rounds are *wide*: they also offer triples and
fours (`wide`), so that interactions that pairs cannot show are found unasked.

What is different here, at the same ε: fewer and better measurements to begin with (three times as many
rounds as columns instead of sixteen times); noise is reckoned as what remains of it once negative counts are
removed (`misfit.noise_left`), so that sparse tables are not shunned; columns get a budget of their own;
cells are shrunk as far as their noise demands, every fit starts where the last one ended (`entropy`); a table
with many cells that noise reaches gets more budget than one with few (`misfit.relative_shares`).

Privacy
-------
`stages.measure_columns`, then in each round one call of `Curator.choose` with `Misfit` and one of
`Curator.measure`. How much a round may spend depends only on earlier answers, its own choice included.
The curator sees to it that the sum never exceeds the budget (fully adaptive composition under a budget that is fixed beforehand:
Whitehouse, Ramdas, Rogers and Wu, ICML 2023, section 3). ``docs/proofs/aim.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np

from dipsmith.estimation.parameters import as_groups, require_least, require_one_of, require_shares
from dipsmith.methods.graph import careers
from dipsmith.methods.graph.candidates import fitting_candidates, score_candidates, workload_weights
from dipsmith.methods.graph.entropy import EntropyFit, fit
from dipsmith.methods.graph.evidence import CLOSE, ROUGH, Evidence, join_repeats, tolerance
from dipsmith.methods.graph.households import HouseholdModel, compositions, covered_columns, line_pairs
from dipsmith.methods.graph.junction import Array, Attributes
from dipsmith.methods.graph.model import GraphModel, rule_links
from dipsmith.methods.graph.moves import expected_moves
from dipsmith.methods.graph.place_tables import measure_places, plan_places, wanted_sets
from dipsmith.methods.graph.places import (
    PLACE_ROOM,
    PLACE_WEIGHT,
    PlaceModel,
    area_column,
    area_evidence,
    area_level,
    fill_places,
    known_columns,
)
from dipsmith.methods.graph.planned import as_columns, carried_cells, measure_planned, plan_tables, sets_for
from dipsmith.methods.graph.prior import join_expected, plan_trust, split_prior, start_from
from dipsmith.methods.graph.queries import marginal
from dipsmith.methods.graph.stages import (
    graph_outlook,
    measure_columns,
    noisy_marginals,
    plan_columns,
    signal,
)
from dipsmith.methods.graph.wide import LARGEST, bearable_cells, choice_doubt, larger_sets
from dipsmith.methods.method import Planned, PublicFacts, count_noise, knob, require_relation
from dipsmith.methods.outlook import Outlook, Suitability
from dipsmith.methods.public_table import PublicTable, supply_statement
from dipsmith.privacy import neighbours
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.households import line_schema
from dipsmith.schema.places import coarse_schema
from dipsmith.schema.steps import entry_name, entry_schema

ITERATIONS = 40
"""The most iterations of a fit between rounds."""

COLUMN_SECONDS, LEVEL_SECONDS = 0.04, 1.4e-5
"""CPU seconds per column, and per level of one, that choosing and fitting take in typical rounds."""
PLANNED_SECONDS = 1e-6
"""Per column, which are as many as rounds, and cell of the planned tables in the model, which is fitted again in each."""

PREFETCHED = 1 << 22
"""Up to so many cells in all, candidates are counted together with the columns, in one pass."""

ANNEALING = 2
"""How many times as much budget a round gets after one that learned nothing new."""

REPAID_SIGNAL = 4_000.0
"""Rows × ε above which adaptive marginals repay their rounds.

Measured on Adult and on simulated voters (``benchmarks/suggest.py``): at 300 to 1,500 MST errs less on both, at 3,000
on one of the two, from 5,000 on AIM errs less on both.
"""


@dataclass(frozen=True)
class AIM:
    """Marginals chosen adaptively for a workload.

    The workload is all marginals of `degree` attributes ("auto": pairs, and larger ones where pairs do not show what
    there is), or those of the sets of attributes in `workload`. The sets in `planned` are measured before anything is
    chosen, with `planned_share` of what the columns leave. The budget is divided into so many `rounds` at first, by
    default three times the number of columns. `one_way` is the share of the budget for the columns one by one, `choice`
    the share of each round's budget for choosing. Of a column of places: those of `planned` that name it are counted by
    place on every level (by default its smallest columns), with `place_share` of the budget. The model has at most `max_cells` cells.
    A `prior` is a public table of the same columns (`ds.public_table`) to start from, trusted as far as the rows agree.
    """

    degree: int | Literal["auto"] = field(default="auto", metadata=knob(1, 3, 1, "columns in a marginal"))
    workload: Sequence[Sequence[str]] | None = None
    planned: Sequence[Sequence[str]] = ()
    rounds: int | None = field(default=None, metadata=knob(1, 200, 1, "rounds"))
    one_way: float = 0.35
    planned_share: float = 0.6
    choice: float = 0.1
    place_share: float = 0.65
    max_cells: int = 1 << 20
    prior: PublicTable | None = None

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "Chooses marginals in rounds, by what the model still gets wrong; repays a larger budget."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[GraphModel | careers.CareerModel | HouseholdModel | PlaceModel], ...]] = (
        GraphModel,
        careers.CareerModel,
        HouseholdModel,
        PlaceModel,
    )
    makes_members: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.degree, int):
            require_one_of(self, "degree", ("auto",))
        require_least(self, 1, *(["degree"] if self.degree != "auto" else []), "rounds", "max_cells")
        require_shares(self, "one_way")
        require_shares(self, "planned_share")
        require_shares(self, "choice")
        require_shares(self, "place_share")
        object.__setattr__(self, "planned", as_groups(self.planned))
        if self.workload is not None:
            object.__setattr__(self, "workload", tuple(tuple(w) for w in self.workload))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes on trust: the public table."""
        return () if self.prior is None else (supply_statement(self.prior.what, self.prior.cost),)

    def for_analyses(self, analyses: Sequence[PlannedAnalysis], schema: Schema) -> Self:
        """The same method, with the tables that these analyses need measured before anything is chosen."""
        return replace(self, planned=sets_for(analyses, schema, self.max_cells, self.planned))

    def fit(self, curator: Curator) -> GraphModel | careers.CareerModel | HouseholdModel | PlaceModel:
        """Measure columns; then choose, measure and fit until the budget is spent. Of a panel: of its steps."""
        require_relation(self, curator.relation)
        schema = curator.schema
        split_prior(self.name, self.prior, schema, curator.budget)  # refuses what cannot be, before anything is charged
        if schema.places is not None:
            return self._fit_places(curator)
        if schema.unit.order is None and schema.members is None:
            return self._fit_rows(curator)
        derived, of_steps = curator.with_panel_steps(curator.budget), self._of_steps(schema)
        if schema.members is not None:
            return HouseholdModel(schema, of_steps._fit_rows(derived, covered=covered_columns(schema, self.max_cells)))
        for_entries, for_presence, for_steps, for_growth = careers.split_career(schema, curator.budget)
        some, covered = careers.most_steps(schema, curator.budget), careers.covered_columns(schema, self.max_cells)
        entries = self._of_entries(schema)._fit_rows(derived.with_panel_steps(for_entries))
        presence = careers.measure_presence(derived, schema, for_presence, some)
        growth = careers.measure_growth(derived, schema, for_growth)
        steps = of_steps._fit_rows(derived.with_fewer_steps(for_steps, some), covered=covered)
        return careers.CareerModel(schema, steps, entries, presence).with_growth(growth)

    def _of_entries(self, schema: Schema) -> Self:
        """The same method for the entries of a panel."""
        planned = (*careers.entry_tables(schema), *(tuple(map(entry_name, names)) for names in self.planned))
        workload = None if self.workload is None else [tuple(map(entry_name, names)) for names in self.workload]
        return replace(self, planned=planned, workload=workload, planned_share=careers.TERMS_SHARE)

    def _of_steps(self, schema: Schema) -> Self:
        """The same method for the steps of a panel, or for the lines of households."""
        households = schema.members is not None
        planned = (*(compositions if households else careers.transitions)(schema), *self.planned)
        workload = (
            (line_pairs if households else careers.step_pairs)(schema) if self.workload is None else self.workload
        )
        one_way = self.one_way if households else careers.STEP_COLUMNS
        share = self.planned_share if households else careers.MOVES_SHARE
        return replace(self, planned=planned, workload=workload, one_way=one_way, planned_share=share)

    def _fit_places(self, curator: Curator) -> PlaceModel:
        schema = curator.schema
        for_places, for_areas = curator.budget.split([self.place_share, 1 - self.place_share])
        rows = None if curator.rows is None or schema.rules else float(curator.rows)
        sets = wanted_sets(schema, as_groups(self.planned))
        estimates = measure_places(curator, sets, for_places, rows)
        total = max(1.0, float(estimates.table(())[0]))
        level = area_level(schema, total, self._round_noise(schema, for_areas))
        known = area_evidence(estimates, level, self.max_cells)
        coarse = curator.with_larger_places(for_areas, level)
        areas = self._of_areas(schema)._fit_rows(coarse, known, total, place=area_column(schema, level))
        return fill_places(estimates, areas, level)

    def _round_noise(self, schema: Schema, budget: Budget) -> float:
        """The noise on a count of a table that is chosen in an average round."""
        share = budget.split([1, self._rounds(schema)])[1].split(self._rounds(schema))[0]
        return count_noise(schema.priced_as, schema.unit.max_rows, share).sd

    def _of_areas(self, schema: Schema) -> Self:
        """The same method for rows in larger places: what names the place itself is counted by place."""
        place = "" if schema.places is None else schema.places.attribute.name
        workload = None if self.workload is None else [w for w in self.workload if place not in w]
        planned = [p for p in self.planned if place not in p]
        return replace(self, planned=planned, workload=workload, max_cells=PLACE_ROOM * self.max_cells)

    def _fit_rows(
        self,
        curator: Curator,
        known: Sequence[Evidence] = (),
        rows: float | None = None,
        covered: Collection[str] = (),
        place: str = "",
    ) -> GraphModel:
        """Fit a model; columns with `known` evidence, or `covered` by planned tables, are not measured by themselves."""
        schema, asked = curator.schema, len(curator.answers)
        shares = split_prior(self.name, self.prior, schema, curator.budget)
        budget = shares.rest
        if self.prior is not None:
            curator.public(self.prior.what, shares.table)
        weights = {c: w * (PLACE_WEIGHT if place in c else 1.0) for c, w in self.weights(schema).items()}
        for_columns, for_planned, for_rounds = self._stages(budget, weights)
        if for_rounds is not None and sum(map(schema.size, weights)) <= PREFETCHED:
            later = larger_sets(schema, LARGEST) if self._looks_wide else []
            curator.prefetch(Marginal.of(schema, c) for c in (*weights, *later))
        columns = measure_columns(curator, for_columns, {*covered, *(n for e in known for n in e.attributes)})
        evidence, total = [*columns.evidence, *known], columns.total if rows is None else rows
        start = start_from(curator, self.prior, evidence, total, list(weights), shares.choice, self.max_cells)
        evidence, prior = start.evidence, [*start.factors]
        if for_planned is not None:
            planned = measure_planned(curator, self.planned, for_planned, self.max_cells)
            prior += expected_moves(planned, schema)
            evidence += planned
        tied = [*(e.attributes for e in evidence if len(e.attributes) > 1), *start.links]
        links = [*start.links, *rule_links(schema, tied, self.max_cells // 2)]
        fit_again = partial(fit, schema, linked=links, prior=prior)
        fitted = fit_again(evidence, total)
        refused: set[Attributes] = set()
        share = 0 if for_rounds is None else max(1, for_rounds.units // self._rounds(schema))
        looking, quiet = self._looks_wide, False
        while for_rounds is not None and curator.remaining is not None:
            left = curator.remaining.units
            spend = left if left < 2 * share else share
            done = 1 - (left - spend) / budget.units
            linked = [*(e.attributes for e in evidence), *links]
            late = left <= for_rounds.units / 2
            for_choice, for_table = type(budget).of_units(spend).split([self.choice, 1 - self.choice])
            sd = count_noise(curator.relation, curator.max_rows, for_table).sd
            wide = looking and (quiet or late)
            larger = larger_sets(schema, bearable_cells(total, sd)) if wide else []
            offered = weights | dict.fromkeys(larger, 1.0)
            allowed = fitting_candidates(offered, fitted.tree, linked, done, self.max_cells, refused)
            curator.report("choosing, measuring, fitting", done)
            doubt = choice_doubt(neighbours.l1(curator.relation, curator.max_rows), for_choice, len(larger))
            doubts = dict.fromkeys(set(larger) - set(weights), doubt)
            score, times = score_candidates(schema, fitted, allowed, offered, sd, doubts, budget.currency)
            chosen = curator.choose(allowed, score, for_choice)
            before = fitted.total * marginal(fitted.tree, fitted.beliefs, chosen)
            if spend < left:
                most = curator.remaining.units - share
                for_table = type(budget).of_units(min(round(for_table.units * times[chosen]), most))
            (table,) = curator.measure([Marginal.of(schema, chosen)], [for_table])
            if chosen in weights:
                looking = looking and not (wide and late)
            else:
                weights[chosen] = 1.0
            learned = join_expected(Evidence.of(table), before) if start.factors else Evidence.of(table)
            evidence = join_repeats([*evidence, learned])
            fitted = fit_again(
                evidence, total, start=fitted, tolerance=tolerance(evidence, total, ROUGH), iterations=ITERATIONS
            )
            quiet = _change(fitted, before, chosen) <= score.cost[chosen]
            if quiet:
                share *= ANNEALING
        fitted = fit_again(evidence, total, start=fitted, tolerance=tolerance(evidence, total, CLOSE))
        return GraphModel.of(schema, fitted, columns.rows, noisy_marginals(curator, asked, columns))

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Every column, then rounds of one choice and one marginal."""
        shares = split_prior(self.name, self.prior, schema, budget)
        if trust := plan_trust(self.prior, shares):
            return [*trust, *self._plan_rows(schema, shares.rest, public)]
        if schema.places is not None:
            return self._plan_places(schema, budget, public)
        if schema.members is not None:
            covered = covered_columns(schema, self.max_cells)
            return as_columns(schema, self._of_steps(schema)._plan_rows(line_schema(schema), budget, public, covered))
        if schema.unit.order is not None:
            for_entries, for_presence, for_steps, for_growth = careers.split_career(schema, budget)
            entries = self._of_entries(schema).plan(entry_schema(schema), for_entries, PublicFacts())
            there = careers.presence_table(schema, careers.most_steps(schema, budget))
            presence = plan_tables(there.schema, [there.attributes], for_presence)
            some, covered = careers.thinned_schema(schema, budget), careers.covered_columns(schema, self.max_cells)
            moves = self._of_steps(schema)._plan_rows(some, for_steps, public, covered)
            return as_columns(schema, [*entries, *presence, *careers.plan_growth(schema, for_growth), *moves])
        return self._plan_rows(schema, budget, public)

    def _plan_rows(
        self, schema: Schema, budget: Budget, public: PublicFacts, known: Collection[str] = ()
    ) -> list[Planned]:
        weights = self.weights(schema)
        for_columns, for_planned, for_rounds = self._stages(budget, weights)
        steps = plan_columns(schema, for_columns, public.rows, [*weights, *as_groups(self.planned)], known)
        unspent = for_columns.units - sum(step.budget.units for step in steps)
        if for_planned is not None:
            steps += plan_tables(schema, self.planned, for_planned)
        if for_rounds is None:
            return steps
        for_rounds = type(budget).of_units(for_rounds.units + unspent)
        rounds = self._rounds(schema)
        for_choices, for_tables = for_rounds.split([self.choice, 1 - self.choice])
        sd = count_noise(schema.priced_as, schema.unit.max_rows, for_tables.split(rounds)[0]).sd
        what = f"up to {rounds} of {len(weights)} marginals"
        note = f"rounds get {ANNEALING} times as much budget when nothing new is learned"
        return [
            *steps,
            Planned("choices", what, for_choices),
            Planned("chosen marginals", what, for_tables, sd=sd, note=note),
        ]

    def _plan_places(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        for_places, for_areas = budget.split([self.place_share, 1 - self.place_share])
        level = area_level(schema, float(public.rows or 0), self._round_noise(schema, for_areas))
        sets, coarse = wanted_sets(schema, as_groups(self.planned)), coarse_schema(schema, level)
        steps = plan_places(schema, sets, for_places, public.rows)
        covered = known_columns(coarse, sets, self.max_cells)
        areas = self._of_areas(schema)._plan_rows(coarse, for_areas, public, covered)
        return [*steps, *as_columns(schema, areas)]

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """The columns, and every pair as if it were chosen in an average round."""
        levels, planned = sum(a.size for a in schema.attributes), carried_cells(schema, self.planned, self.max_cells)
        each = COLUMN_SECONDS + PLANNED_SECONDS * planned
        return graph_outlook(schema, steps, seconds=each * len(schema.names) + LEVEL_SECONDS * levels)

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """Rounds of choices repay their budget where there is some."""
        if schema.members is not None:
            return Suitability(1, "it makes households together with their members")
        learned = signal(schema, budget, rows)
        if learned < REPAID_SIGNAL:
            return None
        reason = f"{len(schema.names)} columns, and rows × ε = {learned:,.0f} is enough to choose marginals adaptively"
        return Suitability(1, reason)

    def weights(self, schema: Schema) -> dict[Attributes, float]:
        """The candidates, from public sizes only, and how much of the workload each overlaps (at most 1)."""
        degree = 2 if self.degree == "auto" else self.degree
        return workload_weights(schema, degree, self.workload, self.max_cells)

    def _stages(self, budget: Budget, weights: dict[Attributes, float]) -> tuple[Budget, Budget | None, Budget | None]:
        """What columns, planned tables and rounds may cost; None where there is no such stage."""
        choosing = any(len(c) > 1 for c in weights)
        if not (choosing or self.planned):
            return budget, None, None
        first, rest = budget.split([self.one_way, 1 - self.one_way])
        if not (choosing and self.planned):
            return (first, None, rest) if choosing else (first, rest, None)
        second, third = rest.split([self.planned_share, 1 - self.planned_share])
        return first, second, third

    @property
    def _looks_wide(self) -> bool:
        """Whether some rounds offer sets of three and four columns besides the workload."""
        return self.degree == "auto" and self.workload is None

    def _rounds(self, schema: Schema) -> int:
        return 3 * len(schema.names) if self.rounds is None else self.rounds


def _change(fitted: EntropyFit, before: Array, chosen: Attributes) -> float:
    """How far the fit moved the expected counts of a marginal."""
    return float(np.abs(fitted.total * marginal(fitted.tree, fitted.beliefs, chosen) - before).sum())
