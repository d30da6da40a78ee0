"""MST: one-way marginals, a private spanning tree of two-way marginals, one model of them all.

The method that won the 2018 NIST challenge in its general form (McKenna, Miklau and Sheldon, "Winning
the NIST contest: a scalable and general approach to differentially private synthetic data", JPC 11,
2021): measure every column, choose d − 1 pairs that form a tree where independence fits worst, measure
them, fit a graphical model, draw rows. What is different here, at the same ε:

- a pair's score is its misfit less the error that its noise will leave (`misfit.noise_left`), and of
  two pairs that fit equally badly the one with the richer columns is taken, because more of the other
  columns hang on it;
- choosing is cheap, so that it gets a tenth of the budget and the pairs get most of it, larger tables
  more (`misfit.budget_weights`);
- cells are shrunk towards independence as far as their noise demands (`entropy`);
- rows are drawn with rounding that keeps the tables, shuffled within their groups (`sampling`).

Privacy
-------
`columns.OneWay.measure`, d − 1 calls of `Curator.choose` with `Misfit`, one call of `Curator.measure`:
sequential composition of what the curator charges. ``docs/proofs/mst.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np

from dipsmith.errors import UsageError
from dipsmith.methods.graph.columns import OneWay, entropy
from dipsmith.methods.graph.entropy import Evidence, fit
from dipsmith.methods.graph.junction import Array
from dipsmith.methods.graph.misfit import Misfit, budget_weights, noise_left
from dipsmith.methods.graph.model import COUNTED_CELLS, GraphModel, rule_links, within_cells
from dipsmith.methods.graph.outlook import graph_outlook, signal
from dipsmith.methods.graph.planned_columns import planned_columns
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

    Examples
    --------
    >>> MST().choice
    0.1
    """

    one_way: float = 0.35
    choice: float = 0.1
    max_cells: int = 1 << 19

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "A tree of pairs, chosen privately: cheap, and never blows up."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[GraphModel], ...]] = (GraphModel,)

    def __post_init__(self) -> None:
        if not (self.one_way > 0 and self.choice > 0 and self.one_way + self.choice < 1):
            raise UsageError(
                f"mst: one_way is {self.one_way} and choice {self.choice}, expected positive shares below 1 in sum"
            )
        if self.max_cells < 1:
            raise UsageError(f"mst: max_cells is {self.max_cells}, expected at least 1")

    def fit(self, curator: Curator) -> GraphModel:
        """Measure columns, choose a tree, measure its pairs, fit."""
        require_relation(self, curator.relation)
        schema = curator.schema
        for_columns, for_choice, for_pairs = self._stages(schema, curator.budget)
        if for_choice is not None:
            curator.prefetch(Marginal.of(schema, pair) for pair in self.candidates(schema))
        columns = OneWay.measure(curator, for_columns)
        curator.report("choosing pairs", 0.2)
        evidence = list(columns.evidence)
        if for_choice is not None and for_pairs is not None:
            tree = self._tree(curator, columns, for_choice, for_pairs)
            curator.report("measuring pairs", 0.5)
            marginals = [Marginal.of(schema, pair) for pair in tree]
            left = curator.remaining
            assert left is not None
            shares = left.split(budget_weights([m.size for m in marginals], left.currency))
            evidence += [Evidence.of(m) for m in curator.measure(marginals, list(shares))]
        curator.report("fitting", 0.7)
        links = rule_links(schema, [e.attributes for e in evidence], self.max_cells)
        close = min(ROUGHEST, max(CLOSEST, _noise(evidence, columns.total) / 4))
        fitted = fit(schema, evidence, columns.total, linked=links, tolerance=close)
        return GraphModel.of(schema, fitted, columns.rows)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Every column, one choice per pair, every pair."""
        relation, k = schema.neighbours, schema.unit.max_rows
        for_columns, for_choice, for_pairs = self._stages(schema, budget)
        steps = planned_columns(schema, for_columns, public.rows, self.candidates(schema))
        if for_choice is None or for_pairs is None:
            return steps
        candidates = self.candidates(schema)
        joins = _joins(schema, candidates)
        typical = for_pairs.split(joins)[0]
        steps.append(Planned("choice of pairs", f"{joins} of {len(candidates)} pairs", for_choice))
        steps.append(
            Planned(
                "chosen pairs",
                f"{joins} pairs",
                for_pairs,
                sd=count_noise(relation, k, typical).sd,
                note="larger pairs get a larger share",
            )
        )
        return steps

    def outlook(
        self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
    ) -> Outlook:
        """The columns, what a tree's pairs say of them at least, and every pair as if it were chosen."""
        for_pairs = self._stages(schema, budget)[2]
        if for_pairs is None:
            return graph_outlook(schema, steps, {})
        noise = self._noise_if_chosen(schema, for_pairs)
        found = graph_outlook(schema, steps, noise)
        # A spanning tree measures a pair of every column: count on the least telling one.
        more = []
        for name in schema.names:
            sums = [v * schema.size(pair) / schema[name].size for pair, v in noise.items() if name in pair]
            more += [PlannedTable((name,), schema[name].size, max(sums))] if sums else []
        return replace(found, tables=(*found.tables, *more))

    def _noise_if_chosen(self, schema: Schema, for_pairs: Budget) -> dict[Pair, float]:
        """The variance on a count of every pair, were it measured beside average ones: larger pairs get a larger share."""
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

    def candidates(self, schema: Schema) -> list[Pair]:
        """The pairs that may be chosen, from public sizes only."""
        fitting = [p for p in combinations(schema.names, 2) if schema.size(p) <= self.max_cells]
        return within_cells(schema, fitting, COUNTED_CELLS)

    def _stages(self, schema: Schema, budget: Budget) -> tuple[Budget, Budget | None, Budget | None]:
        if not self.candidates(schema):
            return budget, None, None
        first, second, third = budget.split([self.one_way, self.choice, 1 - self.one_way - self.choice])
        return first, second, third

    def _tree(self, curator: Curator, columns: OneWay, for_choice: Budget, for_pairs: Budget) -> list[Pair]:
        """Kruskal's algorithm with private comparisons: the best pair that joins two parts, until one is left."""
        schema = curator.schema
        candidates = self.candidates(schema)
        joins = _joins(schema, candidates)
        sd = count_noise(curator.relation, curator.max_rows, for_pairs.split(joins)[0]).sd
        score = _score(schema, columns, candidates, sd)
        part = {name: {name} for name in schema.names}
        tree: list[Pair] = []
        cells = schema.size(())
        for share in for_choice.split(joins):
            joining = [
                p
                for p in candidates
                if part[p[0]] is not part[p[1]] and cells + schema.size(p) <= self.max_cells
            ]
            if not joining:
                break
            chosen = curator.choose(joining, score, share)
            tree.append(chosen)
            cells += schema.size(chosen)
            joined = part[chosen[0]] | part[chosen[1]]
            part.update(dict.fromkeys(joined, joined))
        return tree


def _score(schema: Schema, columns: OneWay, candidates: list[Pair], sd: float) -> Misfit:
    """Misfit of independence, less the noise to come, with a preference for rich columns."""
    alone: Mapping[str, Array] = columns.independent()
    rich = {name: entropy(p) for name, p in alone.items()}
    expected: dict[Pair, Array] = {
        (a, b): columns.total * np.multiply.outer(alone[a], alone[b]) for a, b in candidates
    }
    return Misfit(
        schema,
        expected,
        cost={pair: noise_left(table, sd) for pair, table in expected.items()},
        bonus={(a, b): RICHNESS * columns.total * (rich[a] + rich[b]) for a, b in candidates},
    )


def _noise(evidence: list[Evidence], total: float) -> float:
    """What the noise on all tables amounts to, in nats per row, were every cell as full as the others."""
    return sum(e.variance * (e.values.size / max(total, 1.0)) ** 2 for e in evidence) / 2


def _joins(schema: Schema, candidates: list[Pair]) -> int:
    """How many pairs a tree over the candidates has at most: columns less connected parts."""
    part = {name: name for name in schema.names}
    joins = 0
    for a, b in candidates:
        if part[a] != part[b]:
            joins += 1
            gone, into = part[a], part[b]
            part = {name: into if p == gone else p for name, p in part.items()}
    return joins
