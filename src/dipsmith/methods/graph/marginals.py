"""Marginals: noisy tables of chosen groups of attributes, and rows drawn from them.

One-way marginals (independent columns), one n-way table, or any list of cliques. Each table is a
synthetic representation that answers ranges, counts and means by itself; rows are drawn from a model
that agrees with all of them. The tables share the budget by the cube-root rule: ε ∝ (cells)^(1/3)
minimises the total squared error Σ cells·2/ε².
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf
from typing import Any, ClassVar, Self, get_args

from dipsmith.errors import UsageError
from dipsmith.estimation.answers import Answering, NoisyTable, Post, pool_estimates
from dipsmith.estimation.lawful import require_possible
from dipsmith.estimation.parameters import as_groups, require_least, require_one_of
from dipsmith.methods.graph.model import MAX_CELLS, GraphModel, fit_tables
from dipsmith.methods.graph.planned import sets_for
from dipsmith.methods.graph.stages import FIT_SECONDS, graph_outlook
from dipsmith.methods.method import (
    Arrays,
    Planned,
    PublicFacts,
    arrays_of,
    count_noise,
    join_states,
    knob,
    require_relation,
)
from dipsmith.methods.outlook import Outlook, Suitability
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

PLANNED_WEIGHT = 4.0
"""How much more than its cube root a planned table weighs."""


@dataclass(frozen=True, eq=False)
class MarginalsModel(Answering):
    """Noisy tables, and a joint model that agrees with them."""

    tables: tuple[NoisyTable, ...]
    joint: GraphModel
    post: Post

    kind: ClassVar[str] = "marginals"

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.tables[0].marginal.schema

    @property
    def rows(self) -> int:
        """The model's own estimate of the number of rows."""
        return max(0, round(self.tables[0].total))

    @property
    def measurements(self) -> tuple[NoisyTable, ...]:
        """All noisy tables as they were measured."""
        return self.tables

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw rows that break no rule."""
        return self.joint.sample(self.rows if n is None else n, seed)

    def about(self, *attributes: str) -> NoisyTable:
        """The most precise table that has these attributes."""
        having = [t for t in self.tables if set(attributes) <= set(t.marginal.attributes)]
        if not having:
            measured = "; ".join(t.marginal.key for t in self.tables[:8])
            raise UsageError(f"no table has {' and '.join(attributes)} together; measured: {measured}")
        return min(having, key=lambda t: t.marginal.size * t.variance)

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The cliques of the joint model."""
        return self.joint.kept_tables()

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The noisy tables; the joint model is refitted when loaded."""
        facts, arrays = join_states(table.state() for table in self.tables)
        return {"post": self.post, "tables": facts}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        each = enumerate(facts["tables"])
        tables = tuple(NoisyTable.from_state(schema, fact, arrays_of(i, arrays)) for i, fact in each)
        return cls(tables, fit_tables(tables, facts["post"]), facts["post"])


@dataclass(frozen=True)
class Marginals:
    """Noisy marginals of some cliques of attributes.

    `cliques` is a number of ways (1: every column by itself, 2: all pairs, …) or a list of groups of attributes;
    attributes in no group are added one by one. `weights` has the budget weight of each clique in the order given,
    by default the cube root of its cells, four times that for the sets of columns in `planned`, which are measured besides
    and come first (`weights` begins with theirs). `post` is "project" or "clip".

    >>> Marginals(cliques=[["age", "occupation"], ["sex"]]).cliques
    (('age', 'occupation'), ('sex',))
    """

    cliques: int | Sequence[Sequence[str]] = field(default=1, metadata=knob(1, 3, 1, "columns in a table"))
    weights: Sequence[float] | None = None
    post: Post = "project"
    planned: Sequence[Sequence[str]] = ()

    name: ClassVar[str] = "marginals"
    summary: ClassVar[str] = "Measures all tables of so many columns; for few columns."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[MarginalsModel], ...]] = (MarginalsModel,)

    def __post_init__(self) -> None:
        if isinstance(self.cliques, int):
            require_least(self, 1, "cliques")
        else:
            object.__setattr__(self, "cliques", as_groups(self.cliques))
        object.__setattr__(self, "planned", as_groups(self.planned))
        require_one_of(self, "post", get_args(Post))

    def for_analyses(self, analyses: Sequence[PlannedAnalysis], schema: Schema) -> Self:
        """The same method, with the tables that these analyses need measured besides, and more precisely."""
        return replace(self, planned=sets_for(analyses, schema, MAX_CELLS, self.planned))

    def fit(self, curator: Curator) -> MarginalsModel:
        """Measure all tables in one pass."""
        require_relation(self, curator.relation)
        marginals = self._marginals(curator.schema)
        measured = curator.measure(marginals, self._budgets(marginals, curator.budget))
        found = [
            NoisyTable(m, x.values, x.variance, 0.0, inf, mechanism=x.mechanism)
            for m, x in zip(marginals, measured, strict=True)
        ]
        public = None if curator.rows is None else (float(curator.rows), 0.0)
        total, variance = public or pool_estimates([table.own_total for table in found])
        tables = tuple(replace(table, total=total, total_variance=variance) for table in found)
        curator.report("fitting", 0.5)
        return MarginalsModel(tables, fit_tables(tables, self.post), self.post)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line per table."""
        marginals = self._marginals(schema)
        steps = []
        for m, share in zip(marginals, self._budgets(marginals, budget), strict=True):
            noise = count_noise(schema.neighbours, schema.unit.max_rows, share)
            steps.append(Planned("marginal", m.key, share, m.size, noise.sd, attributes=m.attributes))
        return steps

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """Tables that are all that is ever known."""
        tables = self._marginals(schema)
        overlap = sum(len(m.attributes) for m in tables) > len(schema.names)  # else they are taken as they are
        fitting = FIT_SECONDS * sum(m.size for m in tables) if overlap else 0.0
        return replace(graph_outlook(schema, steps, {}, fitting), complete=True)

    @classmethod
    def suits(cls, schema: Schema, budget: Budget, rows: int) -> Suitability | None:
        """One table is enough for one or two columns."""
        if len(schema.names) > 2:
            return None
        return Suitability(
            2, f"two columns with {schema.size():,} cells: one noisy table, projected; coarser bins would help"
        )

    def _marginals(self, schema: Schema) -> list[Marginal]:
        """The planned tables, then those of `cliques` that lie in none of them, then columns that lie in none."""
        require_possible(schema)
        asked = [(n,) for n in schema.names]
        groups: list[Sequence[str]] = (
            list(combinations(schema.names, min(self.cliques, len(schema.names))))
            if isinstance(self.cliques, int)
            else list(self.cliques)
        )
        planned = [set(names) for names in self.planned]
        wanted = [*self.planned, *(g for g in groups if not any(set(g) <= p for p in planned))]
        covered = {n for names in wanted for n in names}
        return [Marginal.of(schema, names) for names in (*wanted, *(c for c in asked if c[0] not in covered))]

    def _budgets(self, marginals: Sequence[Marginal], budget: Budget) -> list[Budget]:
        weights = [m.size ** (1 / 3) for m in marginals]
        first = len(self.planned)
        weights = [PLANNED_WEIGHT * w for w in weights[:first]] + weights[first:]
        if self.weights is not None:
            given = list(self.weights)
            if len(given) > len(marginals):
                raise UsageError(f"marginals: {len(given)} weights for {len(marginals)} tables")
            weights = given + [1.0] * (len(marginals) - len(given))
        return list(budget.split(weights))
