"""MST: one-way marginals, a private spanning tree of two-way marginals, one model of them all.

The method that won the 2018 NIST challenge in its general form (McKenna, Miklau and Sheldon, "Winning
the NIST contest: a scalable and general approach to differentially private synthetic data", JPC 11,
2021). It has four stages:

1. measure every column by itself, with noise;
2. choose d − 1 pairs of columns that form a tree, privately: where independence fits worst;
3. measure the cross-tables of these pairs, with noise;
4. fit a graphical model to all noisy tables, from which rows are drawn.

What is different from the paper, at the same ε:

- a pair's score is its misfit less the error that its noise will leave (`misfit.noise_left`); of two
  pairs that fit equally badly the one with the richer columns is taken, because more of the other
  columns hang on it;
- choosing is cheap, so it gets a tenth of the budget and the pairs get most of it, larger tables more
  (`misfit.budget_weights`);
- cells are shrunk towards independence as far as their noise demands (`entropy`);
- rows are drawn with rounding that keeps the tables, shuffled within their groups (`sampling`).

Privacy
-------
`measure_columns` (one `Curator.measure`), with a public table one choice (`prior`), d − 1 calls of `Curator.choose` with
`Misfit`, `measure_tables` (one `Curator.measure`): sequential composition of what the curator charges. ``docs/proofs/mst.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from dipsmith.estimation.parameters import as_groups, require_least, require_shares
from dipsmith.methods.graph.entropy import fit
from dipsmith.methods.graph.junction import Array, cell_counter, cells_needed
from dipsmith.methods.graph.misfit import Misfit, budget_weights, noise_left
from dipsmith.methods.graph.model import COUNTED_CELLS, GraphModel, within_cells
from dipsmith.methods.graph.planned import carried_cells, carried_sets, measure_planned, plan_tables, sets_for
from dipsmith.methods.graph.prior import (
    PUBLIC_ITERATIONS,
    PUBLIC_TOLERANCE,
    Start,
    join_expected,
    plan_trust,
    split_prior,
    start_from,
)
from dipsmith.methods.graph.queries import pairs
from dipsmith.methods.graph.stages import (
    FIT_SECONDS,
    Columns,
    Stages,
    fit_model,
    graph_outlook,
    measure_columns,
    measure_tables,
    noisy_marginals,
    plan_columns,
    signal,
    split_stages,
)
from dipsmith.methods.method import Planned, PublicFacts, count_noise, require_relation
from dipsmith.methods.outlook import Outlook, PlannedTable, Suitability
from dipsmith.methods.public_table import PublicTable, supply_statement
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

Pair = tuple[str, ...]

FINEST_FIT, ROUGHEST_FIT = 1e-5, 3e-5
"""Bounds on the tolerance of the fit, in nats per row; between them it is a quarter of what the noise amounts to."""

RICHNESS = 0.045
"""What a nat of entropy in a pair's columns is worth, as a share of the rows."""


@dataclass(frozen=True)
class MST:
    """A tree of two-way marginals.

    `one_way` is the share of the budget for the columns one by one, `choice` that for choosing the tree. The sets of
    columns in `planned` are measured before the tree is chosen, with `planned_share` of what the columns leave; columns
    that they link are not linked again. The model has at most `max_cells` cells: pairs that need more are no
    candidates, and a column that is in no candidate is drawn independently.
    A `prior` is a public table of the same columns (`ds.public_table`) to start from, trusted as far as the rows agree.
    """

    one_way: float = 0.35
    choice: float = 0.1
    planned: Sequence[Sequence[str]] = ()
    planned_share: float = 0.6
    max_cells: int = 1 << 19
    prior: PublicTable | None = None

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "A tree of pairs, chosen privately: cheap, and never blows up."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[GraphModel], ...]] = (GraphModel,)

    def __post_init__(self) -> None:
        require_shares(self, "one_way", "choice")
        require_shares(self, "planned_share")
        require_least(self, 1, "max_cells")
        object.__setattr__(self, "planned", as_groups(self.planned))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes on trust: the public table."""
        return () if self.prior is None else (supply_statement(self.prior.what, self.prior.cost),)

    def for_analyses(self, analyses: Sequence[PlannedAnalysis], schema: Schema) -> Self:
        """The same method, with the tables that these analyses need measured before the tree is chosen."""
        return replace(self, planned=sets_for(analyses, schema, self.max_cells, self.planned))

    def fit(self, curator: Curator) -> GraphModel:
        """Measure columns, choose a tree, measure its pairs, fit."""
        require_relation(self, curator.relation)
        schema, answered_before = curator.schema, len(curator.answers)
        candidates = self.candidates(schema)
        shares = split_prior(self.name, self.prior, schema, curator.budget)
        if self.prior is not None:
            curator.public(self.prior.what, shares.table)
        for_columns, for_planned, for_tree = self._budgets(schema, shares.rest)
        if for_tree is not None:
            # One pass over the rows then counts everything that the choices will look at.
            curator.prefetch(Marginal.of(schema, pair) for pair in candidates)
        # Stage 1: columns; then how far the public table is to be trusted, and what is planned.
        columns = measure_columns(curator, for_columns)
        compared = [*((n,) for n in schema.names), *candidates]
        start = start_from(
            curator, self.prior, columns.evidence, columns.total, compared, shares.choice, self.max_cells
        )
        evidence, expected = start.evidence, _expected_counts(schema, columns, start, candidates)
        if for_planned is not None:
            evidence += measure_planned(curator, self.planned, for_planned, self.max_cells)
        if for_tree is not None:
            # Stages 2 and 3: the tree and its pairs.
            curator.report("choosing pairs", 0.2)
            tree = self._choose_tree(curator, columns, expected, start.links, *for_tree)
            curator.report("measuring pairs", 0.5)
            # Where no pair has room beside the planned tables, the columns themselves are measured again.
            chosen = tree or [(name,) for name in schema.names]
            noisy = measure_tables(curator, [Marginal.of(schema, names) for names in chosen])
            public = expected if start.factors else {}
            evidence += [join_expected(e, public[e.attributes]) if e.attributes in public else e for e in noisy]
        # Stage 4: the model.
        curator.report("fitting", 0.7)
        tolerance = min(ROUGHEST_FIT, max(FINEST_FIT, sum(e.noise_per_row(columns.total) for e in evidence) / 4))
        measured = noisy_marginals(curator, answered_before, columns)
        return fit_model(schema, columns, evidence, self.max_cells, tolerance, measured, start.factors)

    def candidates(self, schema: Schema) -> list[Pair]:
        """The pairs that may be chosen, from public sizes only."""
        small = [p for p in combinations(schema.names, 2) if schema.size(p) <= self.max_cells]
        return within_cells(schema, small, COUNTED_CELLS)

    def _budgets(self, schema: Schema, budget: Budget) -> Stages:
        """What columns, planned tables, and choosing and measuring pairs may cost."""
        share = self.planned_share if self.planned else None
        return split_stages(budget, self.one_way, self.choice, share, self._count_joins(schema) > 0)

    def _count_joins(self, schema: Schema) -> int:
        """The most pairs that the tree can have: each joins two of the parts that planned tables leave."""
        parts, joins = self._parts(schema), 0
        for pair in self.candidates(schema):
            if parts.separate(pair):
                parts.join(pair)
                joins += 1
        return joins

    def _parts(self, schema: Schema) -> _Parts:
        """The columns, each a part of its own but for those that planned tables join."""
        parts = _Parts(schema.names)
        for names in carried_sets(schema, self.planned, self.max_cells):
            for other in names[1:]:
                parts.join((names[0], other))
        return parts

    def _choose_tree(
        self,
        curator: Curator,
        columns: Columns,
        expected: Mapping[Pair, Array],
        links: Sequence[Pair],
        for_choice: Budget,
        for_pairs: Budget,
    ) -> list[Pair]:
        """Kruskal's algorithm with private choices: the best pair that joins two parts, until one part is left.

        `expected` are the counts of each pair before any is measured; `links` the pairs that the public model ties.
        """
        schema, candidates = curator.schema, self.candidates(curator.schema)
        parts, joins = self._parts(schema), self._count_joins(schema)
        sd = count_noise(curator.relation, curator.max_rows, for_pairs.split(joins)[0]).sd
        score = _misfit_score(schema, columns, expected, sd)
        tree: list[Pair] = []
        before = [*carried_sets(schema, self.planned, self.max_cells), *links]  # in the model without any choice
        sizes = {a.name: a.size for a in schema.attributes}
        cells = cells_needed(sizes, before) if before else schema.size(())
        for share in for_choice.split(joins):
            room = self.max_cells - cells
            joinable = [p for p in candidates if parts.separate(p) and schema.size(p) <= room]
            if links:  # with these the pairs form no tree, and the model may grow by more than the pair's cells
                needed = cell_counter(sizes, [*before, *tree])
                joinable = [p for p in joinable if needed(p) <= self.max_cells]
            if not joinable:
                break
            chosen = curator.choose(joinable, score, share)
            tree.append(chosen)
            cells = cells_needed(sizes, [*before, *tree]) if links else cells + schema.size(chosen)
            parts.join(chosen)
        return tree

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Every column, one choice per pair, every pair."""
        candidates = self.candidates(schema)
        shares = split_prior(self.name, self.prior, schema, budget)
        for_columns, for_planned, for_tree = self._budgets(schema, shares.rest)
        steps = plan_trust(self.prior, shares)
        steps += plan_columns(schema, for_columns, public.rows, [*candidates, *as_groups(self.planned)])
        if for_planned is not None:
            steps += plan_tables(schema, self.planned, for_planned)
        if for_tree is None:
            return steps
        for_choice, for_pairs = for_tree
        joins = self._count_joins(schema)
        sd = count_noise(schema.neighbours, schema.unit.max_rows, for_pairs.split(joins)[0]).sd
        note = "larger pairs get a larger share"
        return [
            *steps,
            Planned("choice of pairs", f"{joins} of {len(candidates)} pairs", for_choice),
            Planned("chosen pairs", f"{joins} pairs", for_pairs, sd=sd, note=note),
        ]

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """The noise on every column, at worst, and on every pair, were it chosen."""
        for_tree = self._budgets(schema, split_prior(self.name, self.prior, schema, budget).rest)[2]
        fitting = FIT_SECONDS * carried_cells(schema, self.planned, self.max_cells)
        if for_tree is None:
            return graph_outlook(schema, steps, {}, fitting)
        noise = self._noise_if_chosen(schema, for_tree[1])
        outlook = graph_outlook(schema, steps, noise, fitting)
        # A spanning tree measures at least one pair of every column: assume the noisiest.
        noisiest = []
        for name in schema.names:
            sums = [v * schema.size(pair) / schema[name].size for pair, v in noise.items() if name in pair]
            noisiest += [PlannedTable((name,), schema[name].size, max(sums))] if sums else []
        return replace(outlook, tables=(*outlook.tables, *noisiest))

    def _noise_if_chosen(self, schema: Schema, for_pairs: Budget) -> dict[Pair, float]:
        """The variance on a count of every pair, were it measured beside average ones."""
        pairs = self.candidates(schema)
        weights = budget_weights([schema.size(p) for p in pairs], for_pairs.currency)
        rest = (len(schema.names) - 2) * sum(weights) / len(weights)
        found = {}
        for pair, weight in zip(pairs, weights, strict=True):
            share = for_pairs.split([weight, rest])[0] if rest > 0 else for_pairs
            found[pair] = count_noise(schema.neighbours, schema.unit.max_rows, share).sd ** 2
        return found

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """A tree of pairs costs little and never blows up."""
        strength = signal(schema, budget, rows)
        known = f"{len(schema.names)} columns, and rows × ε = {strength:{',.0f' if strength >= 10 else '.2g'}}"
        return Suitability(0, f"{known} is too little for more than a tree of pairs")


class _Parts:
    """Sets of columns that are joined by pairs so far: the connected components of Kruskal's algorithm."""

    def __init__(self, names: Iterable[str]) -> None:
        self.part_of = {name: frozenset((name,)) for name in names}

    def separate(self, pair: Pair) -> bool:
        """Whether the two columns lie in different parts."""
        return pair[1] not in self.part_of[pair[0]]

    def join(self, pair: Pair) -> None:
        """Make one part of the two in which they lie."""
        joined = self.part_of[pair[0]] | self.part_of[pair[1]]
        self.part_of.update(dict.fromkeys(joined, joined))


def _expected_counts(schema: Schema, columns: Columns, start: Start, candidates: Sequence[Pair]) -> dict[Pair, Array]:
    """The counts expected of every pair before any is measured: of independent columns, or by the public table."""
    if not start.factors:
        independent = columns.distributions()
        return {(a, b): columns.total * np.multiply.outer(independent[a], independent[b]) for a, b in candidates}
    fitted = fit(
        schema,
        start.evidence,
        columns.total,
        linked=start.links,
        prior=start.factors,
        tolerance=PUBLIC_TOLERANCE,
        iterations=PUBLIC_ITERATIONS,
    )
    tables = pairs(fitted.tree, fitted.beliefs, candidates)
    return {(a, b): columns.total * tables[a, b] for a, b in candidates}


def _misfit_score(schema: Schema, columns: Columns, expected: Mapping[Pair, Array], sd: float) -> Misfit:
    """Misfit of what is expected, less the noise to come, with a preference for rich columns."""
    entropy = {name: float(-(p * np.log(p)).sum()) for name, p in columns.distributions().items()}
    return Misfit(
        schema,
        expected,
        cost={pair: noise_left(table, sd) for pair, table in expected.items()},
        bonus={(a, b): RICHNESS * columns.total * (entropy[a] + entropy[b]) for a, b in expected},
    )
