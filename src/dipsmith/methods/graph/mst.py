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
`measure_columns` (one `Curator.measure`), d − 1 calls of `Curator.choose` with `Misfit`, `measure_tables` (one
`Curator.measure`): sequential composition of what the curator charges. ``docs/proofs/mst.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np

from dipsmith.estimation.parameters import require_least, require_shares
from dipsmith.methods.graph.evidence import Evidence
from dipsmith.methods.graph.junction import Array
from dipsmith.methods.graph.misfit import Misfit, budget_weights, noise_left
from dipsmith.methods.graph.model import COUNTED_CELLS, GraphModel, within_cells
from dipsmith.methods.graph.stages import (
    Columns,
    fit_model,
    graph_outlook,
    measure_columns,
    measure_tables,
    plan_columns,
    signal,
    split_stages,
)
from dipsmith.methods.method import Planned, PublicFacts, count_noise, require_relation
from dipsmith.methods.outlook import Outlook, PlannedTable, Suitability
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema

Pair = tuple[str, ...]

CLOSEST, ROUGHEST = 1e-5, 3e-5
"""Bounds on the tolerance of the fit, in nats per row; between them it is a quarter of what the noise amounts to."""

RICHNESS = 0.045
"""What a nat of entropy in a pair's columns is worth, as a share of the rows."""


@dataclass(frozen=True)
class MST:
    """A tree of two-way marginals.

    Parameters
    ----------
    one_way
        Share of the budget for the columns one by one.
    choice
        Share of the budget for choosing the tree.
    max_cells
        Cells of the model at most. Pairs with more cells than fit are no candidates; a column that
        fits with no other is drawn independently.
    """

    one_way: float = 0.35
    choice: float = 0.1
    max_cells: int = 1 << 19

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "A tree of pairs, chosen privately: cheap, and never blows up."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[GraphModel], ...]] = (GraphModel,)

    def __post_init__(self) -> None:
        require_shares(self, "one_way", "choice")
        require_least(self, 1, "max_cells")

    def fit(self, curator: Curator) -> GraphModel:
        """Measure columns, choose a tree, measure its pairs, fit."""
        require_relation(self, curator.relation)
        schema = curator.schema
        for_columns, for_tree = self._budgets(schema, curator.budget)
        if for_tree is not None:
            # One pass over the rows then counts everything that the choices will look at.
            curator.prefetch(Marginal.of(schema, pair) for pair in self.candidates(schema))
        columns = measure_columns(curator, for_columns)
        evidence = list(columns.evidence)
        if for_tree is not None:
            curator.report("choosing pairs", 0.2)
            tree = self._choose_tree(curator, columns, *for_tree)
            curator.report("measuring pairs", 0.5)
            evidence += measure_tables(curator, [Marginal.of(schema, pair) for pair in tree])
        curator.report("fitting", 0.7)
        tolerance = min(ROUGHEST, max(CLOSEST, _noise_per_row(evidence, columns.total) / 4))
        return fit_model(schema, columns, evidence, self.max_cells, tolerance)

    def candidates(self, schema: Schema) -> list[Pair]:
        """The pairs that may be chosen, from public sizes only."""
        fitting = [p for p in combinations(schema.names, 2) if schema.size(p) <= self.max_cells]
        return within_cells(schema, fitting, COUNTED_CELLS)

    def _budgets(self, schema: Schema, budget: Budget) -> tuple[Budget, tuple[Budget, Budget] | None]:
        """What the columns may cost, and what choosing and measuring pairs may; None where no pair fits."""
        if not self.candidates(schema):
            return budget, None
        return split_stages(budget, self.one_way, self.choice)

    def _choose_tree(
        self, curator: Curator, columns: Columns, for_choice: Budget, for_pairs: Budget
    ) -> list[Pair]:
        """Kruskal's algorithm with private choices: the best pair that joins two parts, until one part is left."""
        schema, candidates = curator.schema, self.candidates(curator.schema)
        joins = _count_joins(schema.names, candidates)
        sd = count_noise(curator.relation, curator.max_rows, for_pairs.split(joins)[0]).sd
        score = _score(schema, columns, candidates, sd)
        parts = _Parts(schema.names)
        tree: list[Pair] = []
        cells = schema.size(())
        for share in for_choice.split(joins):
            room = self.max_cells - cells
            joining = [p for p in candidates if parts.apart(p) and schema.size(p) <= room]
            if not joining:
                break
            chosen = curator.choose(joining, score, share)
            tree.append(chosen)
            cells += schema.size(chosen)
            parts.join(chosen)
        return tree

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Every column, one choice per pair, every pair."""
        candidates = self.candidates(schema)
        for_columns, for_tree = self._budgets(schema, budget)
        steps = plan_columns(schema, for_columns, public.rows, candidates)
        if for_tree is None:
            return steps
        for_choice, for_pairs = for_tree
        joins = _count_joins(schema.names, candidates)
        sd = count_noise(schema.neighbours, schema.unit.max_rows, for_pairs.split(joins)[0]).sd
        note = "larger pairs get a larger share"
        return [
            *steps,
            Planned("choice of pairs", f"{joins} of {len(candidates)} pairs", for_choice),
            Planned("chosen pairs", f"{joins} pairs", for_pairs, sd=sd, note=note),
        ]

    def outlook(
        self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
    ) -> Outlook:
        """The columns, what a tree's pairs say of them at least, and every pair as if it were chosen."""
        for_tree = self._budgets(schema, budget)[1]
        if for_tree is None:
            return graph_outlook(schema, steps, {})
        noise = self._noise_if_chosen(schema, for_tree[1])
        found = graph_outlook(schema, steps, noise)
        # A spanning tree measures a pair of every column: count on the least telling one.
        more = []
        for name in schema.names:
            sums = [v * schema.size(pair) / schema[name].size for pair, v in noise.items() if name in pair]
            more += [PlannedTable((name,), schema[name].size, max(sums))] if sums else []
        return replace(found, tables=(*found.tables, *more))

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
        if schema.neighbours not in cls.relations:
            return None
        learned = f"{len(schema.names)} columns, and rows × ε = {signal(schema, budget, rows):,.0f}"
        return Suitability(0, f"{learned} is too little for more than a tree of pairs")


class _Parts:
    """The parts that a growing forest of pairs has made of the columns."""

    def __init__(self, names: Iterable[str]) -> None:
        self.part = {name: frozenset((name,)) for name in names}

    def apart(self, pair: Pair) -> bool:
        return pair[1] not in self.part[pair[0]]

    def join(self, pair: Pair) -> None:
        joined = self.part[pair[0]] | self.part[pair[1]]
        self.part.update(dict.fromkeys(joined, joined))


def _count_joins(names: Iterable[str], candidates: Iterable[Pair]) -> int:
    """How many pairs a tree over the candidates has at most: columns less connected parts."""
    parts, joins = _Parts(names), 0
    for pair in candidates:
        if parts.apart(pair):
            parts.join(pair)
            joins += 1
    return joins


def _score(schema: Schema, columns: Columns, candidates: Sequence[Pair], sd: float) -> Misfit:
    """Misfit of independence, less the noise to come, with a preference for rich columns."""
    alone = columns.distributions()
    rich = {name: _entropy(p) for name, p in alone.items()}
    expected: dict[Pair, Array] = {
        (a, b): columns.total * np.multiply.outer(alone[a], alone[b]) for a, b in candidates
    }
    return Misfit(
        schema,
        expected,
        cost={pair: noise_left(table, sd) for pair, table in expected.items()},
        bonus={(a, b): RICHNESS * columns.total * (rich[a] + rich[b]) for a, b in candidates},
    )


def _entropy(probabilities: Array) -> float:
    """Shannon's entropy in nats."""
    return float(-(probabilities * np.log(probabilities)).sum())


def _noise_per_row(evidence: Sequence[Evidence], total: float) -> float:
    """What the noise on all tables amounts to, in nats per row, were every cell as full as the others."""
    return sum(e.variance * (e.values.size / max(total, 1.0)) ** 2 for e in evidence) / 2
