"""AIM: marginals chosen one after another where the model fits worst, for a workload of marginals.

After McKenna, Mullins, Sheldon and Miklau, "AIM: an adaptive and iterative mechanism for differentially
private synthetic data" (PVLDB 15, 2022): start from independent columns; in each round choose, privately,
the marginal that the current model misses most after allowing for the noise it would carry, measure it
and fit again; when a measurement changes the model by no more than its own noise, the following rounds
get more budget each. Candidates are the workload's marginals and all marginals below them, as long as
the model with them stays within `max_cells`, a limit that opens as the budget is spent.

What is different here, at the same ε: fewer and better measurements to begin with (three times as many
rounds as columns instead of sixteen times); the noise that counts is what is left of it after negative counts
are gone (`misfit.noise_left`), so that sparse tables are not shunned; columns get a budget of their own;
cells are shrunk as far as their noise demands, every fit starts where the last one ended (`entropy`).

Privacy
-------
`stages.measure_columns`, then in each round one call of `Curator.choose` with `Misfit` and one of
`Curator.measure`. How much a round may spend depends only on earlier answers; that the sum never exceeds
the budget is the curator's business (fully adaptive composition under a budget that is fixed beforehand:
Whitehouse, Ramdas, Rogers and Wu, ICML 2023, section 3). ``docs/proofs/aim.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar

import numpy as np

from dipsmith.estimation.parameters import require_least, require_shares
from dipsmith.methods.graph.entropy import Fitted, fit
from dipsmith.methods.graph.evidence import Evidence, join_repeats
from dipsmith.methods.graph.junction import Array, Attributes, cells_needed
from dipsmith.methods.graph.misfit import Misfit, noise_left
from dipsmith.methods.graph.model import COUNTED_CELLS, GraphModel, rule_links, within_cells
from dipsmith.methods.graph.queries import marginal, pairs
from dipsmith.methods.graph.stages import FIT_SECONDS, graph_outlook, measure_columns, plan_columns, signal
from dipsmith.methods.method import Planned, PublicFacts, count_noise, knob, require_relation
from dipsmith.methods.outlook import Outlook, Suitability
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema

ROUGH, STEPS = 1e-3, 40
"""Tolerance of the fits between rounds, in nats per row, and their steps at most."""

PREFETCHED = 1 << 22
"""Cells of all candidates up to which they are counted together with the columns, in one pass."""

ANNEALING = 4
"""How many times more budget a round gets after one that told nothing new."""

REPAID_SIGNAL = 4_000.0
"""Rows × ε above which adaptive marginals repay their rounds.

Measured on Adult and on simulated voters (``benchmarks/suggest.py``): at 300 to 1,500 MST errs less on both, at 3,000
on one of the two, from 5,000 on AIM errs less on both.
"""


@dataclass(frozen=True)
class AIM:
    """Marginals chosen adaptively for a workload.

    Parameters
    ----------
    degree
        The workload: all marginals of so many attributes.
    workload
        Instead of `degree`: the sets of attributes whose marginals matter.
    rounds
        Into how many rounds the budget is divided at first; default: three times the number of columns.
    one_way
        Share of the budget for the columns one by one.
    choice
        Share of each round's budget for choosing.
    max_cells
        Cells of the model at most.
    """

    degree: int = field(default=2, metadata=knob(1, 3, 1, "columns in a marginal"))
    workload: Sequence[Sequence[str]] | None = None
    rounds: int | None = field(default=None, metadata=knob(1, 200, 1, "rounds"))
    one_way: float = 0.35
    choice: float = 0.1
    max_cells: int = 1 << 18

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = (
        "Chooses marginals in rounds, by what the model still gets wrong; repays a larger budget."
    )
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[GraphModel], ...]] = (GraphModel,)

    def __post_init__(self) -> None:
        require_least(self, 1, "degree", "rounds", "max_cells")
        require_shares(self, "one_way")
        require_shares(self, "choice")
        if self.workload is not None:
            object.__setattr__(self, "workload", tuple(tuple(w) for w in self.workload))

    def fit(self, curator: Curator) -> GraphModel:
        """Measure columns; then choose, measure and fit until the budget is spent."""
        require_relation(self, curator.relation)
        schema, budget = curator.schema, curator.budget
        weights = self.weights(schema)
        for_columns, for_rounds = self._stages(budget, weights)
        if for_rounds is not None and sum(map(schema.size, weights)) <= PREFETCHED:
            curator.prefetch(Marginal.of(schema, c) for c in weights)
        columns = measure_columns(curator, for_columns)
        evidence, total = list(columns.evidence), columns.total
        links = rule_links(schema, [], self.max_cells // 2)
        fitted = fit(schema, evidence, total, linked=links)
        refused: set[Attributes] = set()
        share = 0 if for_rounds is None else max(1, for_rounds.units // self._rounds(schema))
        while for_rounds is not None and curator.remaining is not None:
            left = curator.remaining.units
            spend = left if left < 2 * share else share
            done = 1 - (left - spend) / budget.units
            linked = [*(e.attributes for e in evidence), *links]
            allowed = self._allowed(schema, weights, fitted, linked, done, refused)
            curator.report("choosing, measuring, fitting", done)
            for_choice, for_table = type(budget).of_units(spend).split([self.choice, 1 - self.choice])
            sd = count_noise(curator.relation, curator.max_rows, for_table).sd
            score = _score(schema, fitted, allowed, weights, sd)
            chosen = curator.choose(allowed, score, for_choice)
            (table,) = curator.measure([Marginal.of(schema, chosen)], [for_table])
            evidence = join_repeats([*evidence, Evidence.of(table)])
            fitted = fit(
                schema, evidence, total, linked=links, start=fitted, tolerance=ROUGH, iterations=STEPS
            )
            if _change(fitted, score.expected[chosen], chosen) <= score.cost[chosen]:
                share *= ANNEALING
        fitted = fit(schema, evidence, total, linked=links, start=fitted)
        return GraphModel.of(schema, fitted, columns.rows)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Every column, then rounds of one choice and one marginal."""
        weights = self.weights(schema)
        for_columns, for_rounds = self._stages(budget, weights)
        steps = plan_columns(schema, for_columns, public.rows, weights)
        if for_rounds is None:
            return steps
        rounds = self._rounds(schema)
        for_choices, for_tables = for_rounds.split([self.choice, 1 - self.choice])
        sd = count_noise(schema.neighbours, schema.unit.max_rows, for_tables.split(rounds)[0]).sd
        what = f"up to {rounds} of {len(weights)} marginals"
        note = f"rounds get {ANNEALING} times more budget when nothing new is learned"
        return [
            *steps,
            Planned("choices", what, for_choices),
            Planned("chosen marginals", what, for_tables, sd=sd, note=note),
        ]

    def outlook(
        self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts
    ) -> Outlook:
        """The columns, and every pair as if it were chosen in an average round."""
        return graph_outlook(schema, steps, seconds=FIT_SECONDS)

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """Rounds of choices repay their budget where there is some."""
        learned = signal(schema, budget, rows)
        if schema.neighbours not in cls.relations or learned < REPAID_SIGNAL:
            return None
        reason = f"{len(schema.names)} columns, and rows × ε = {learned:,.0f} is enough to choose marginals adaptively"
        return Suitability(1, reason)

    def weights(self, schema: Schema) -> dict[Attributes, float]:
        """The candidates, from public sizes only, and how much of the workload each overlaps (at most 1)."""
        if self.workload is None:
            workload = list(combinations(schema.names, min(self.degree, len(schema.names))))
        else:
            rank = {name: i for i, name in enumerate(schema.names)}
            for name in (n for w in self.workload for n in w):
                schema[name]
            workload = [tuple(sorted(set(w), key=rank.__getitem__)) for w in self.workload]
        below = {c for w in workload for size in range(1, len(w) + 1) for c in combinations(w, size)}
        fitting = sorted((c for c in below if schema.size(c) <= self.max_cells), key=lambda c: (len(c), c))
        kept = within_cells(schema, fitting, COUNTED_CELLS)
        asked = Counter(name for w in workload for name in w)
        overlap = {c: float(sum(asked[name] for name in c)) for c in kept}
        most = max(overlap.values(), default=1.0)
        return {c: o / most for c, o in overlap.items()}

    def _stages(self, budget: Budget, weights: dict[Attributes, float]) -> tuple[Budget, Budget | None]:
        if not any(len(c) > 1 for c in weights):
            return budget, None
        first, second = budget.split([self.one_way, 1 - self.one_way])
        return first, second

    def _rounds(self, schema: Schema) -> int:
        return 3 * len(schema.names) if self.rounds is None else self.rounds

    def _allowed(
        self,
        schema: Schema,
        weights: dict[Attributes, float],
        fitted: Fitted,
        linked: Sequence[Collection[str]],
        done: float,
        refused: set[Attributes],
    ) -> list[Attributes]:
        """The candidates with which the model stays within its limit, which opens with the budget spent.

        The model only grows: what would never fit is put into `refused` and not looked at again.
        """
        sizes = {a.name: a.size for a in schema.attributes}
        limit = max(done * self.max_cells, fitted.tree.cells)
        allowed = []
        for c in weights:
            if fitted.tree.holding(c) is not None:
                allowed.append(c)
            elif c not in refused:
                cells = cells_needed(sizes, [*linked, c])
                if cells <= limit:
                    allowed.append(c)
                elif cells > self.max_cells:
                    refused.add(c)
        return allowed


def _score(
    schema: Schema, fitted: Fitted, candidates: list[Attributes], weights: dict[Attributes, float], sd: float
) -> Misfit:
    """Misfit of the current model, less the noise to come."""
    two_way = pairs(fitted.tree, fitted.beliefs, candidates)
    expected: dict[Attributes, Array] = {}
    for c in candidates:
        table = two_way[c[0], c[1]] if len(c) == 2 else marginal(fitted.tree, fitted.beliefs, c)
        expected[c] = fitted.total * table
    cost = {c: noise_left(table, sd) for c, table in expected.items()}
    return Misfit(schema, expected, cost=cost, weights={c: weights[c] for c in candidates})


def _change(fitted: Fitted, before: Array, chosen: Attributes) -> float:
    """How far the fit moved the expected counts of a marginal."""
    return float(np.abs(fitted.total * marginal(fitted.tree, fitted.beliefs, chosen) - before).sum())
