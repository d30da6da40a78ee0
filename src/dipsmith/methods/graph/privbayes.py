"""PrivBayes: a private Bayesian network, its families measured together, one model of them all.

After Zhang, Cormode, Procopiuc, Srivastava and Xiao, "PrivBayes: private data release via Bayesian
networks" (TODS 42, 2017): column after column is attached, privately, to the parents that it has most to
do with; the marginal of each column with its parents is measured; a family is a candidate only while its
cells hold enough rows against the noise (θ-usefulness). What is different here, at the same ε:

- the score is n·R, whose sensitivity is constant and holds under add-remove too (`association`; mutual
  information is kept for `replace`), and it counts the noise that a larger family would carry;
- the first pair is chosen as well, not drawn; a column may stay without parents;
- the tables are not turned into conditional distributions one by one but fitted together (`entropy`):
  what two families say about the same columns is reconciled, and impossible combinations get
  probability 0. That is possible because only families are chosen with which the joint model stays
  within `max_cells`.

Privacy
-------
`stages.measure_columns`, at most d − 1 calls of `Curator.choose` with `Association` or
`MutualInformation`, one call of `Curator.measure`: sequential composition of what the curator charges.
``docs/proofs/privbayes.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, combinations
from math import comb, inf, pi, prod, sqrt
from typing import ClassVar, Literal, Self

import numpy as np

from dipsmith.errors import UnsupportedError
from dipsmith.estimation.parameters import as_groups, require_least, require_one_of, require_shares
from dipsmith.methods.graph.association import Association, Family, MutualInformation, table_of
from dipsmith.methods.graph.junction import Attributes, cells_needed
from dipsmith.methods.graph.misfit import noise_left
from dipsmith.methods.graph.model import COUNTED_CELLS, GraphModel
from dipsmith.methods.graph.planned import carried_cells, carried_sets, measure_planned, plan_tables, sets_for
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
    split_stages,
)
from dipsmith.methods.method import Planned, PublicFacts, count_noise, knob, require_relation
from dipsmith.methods.outlook import Outlook
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

ENUMERATED = 200_000
"""Up to so many possible tables are looked at one by one to see which can be counted."""

PREFETCHED = 1 << 22
"""Up to so many cells, all tables that a family can have are counted at once: 32 MB."""

TOLERANCE = 1e-4
"""Of the fit, in nats per row: families have noise in so many cells that a closer fit errs no less (measured)."""

CAUTION = 0.25
"""How much of the noise in a family's table counts against it: fitted together, most of it averages out."""


@dataclass(frozen=True)
class PrivBayes:
    """A Bayesian network of bounded degree.

    A column has at most `degree` parents. A family is a candidate while the rows per cell are at least `theta` times
    the mean noise, 0 for no such limit (the paper takes 4; tables that are fitted together bear more noise than that).
    `share` is the share of the budget for choosing the network, `one_way` that for the columns one by one. The sets of
    columns in `planned` are measured first, with `planned_share` of what the columns leave, and the network grows from
    them. `score` is "association" (n·R) or "mutual-information" (only under `replace`). The joint model has at most
    `max_cells` cells.
    """

    degree: int = field(default=2, metadata=knob(1, 4, 1, "parents of a column"))
    theta: float = 0.5
    share: float = 0.1
    one_way: float = 0.35
    planned: Sequence[Sequence[str]] = ()
    planned_share: float = 0.6
    score: Literal["association", "mutual-information"] = "association"
    max_cells: int = 1 << 18

    name: ClassVar[str] = "privbayes"
    summary: ClassVar[str] = "A Bayesian network: each column given a few others."
    relations: ClassVar[tuple[str, ...]] = ("add-remove", "replace")
    models: ClassVar[tuple[type[GraphModel], ...]] = (GraphModel,)

    def __post_init__(self) -> None:
        require_least(self, 1, "degree", "max_cells")
        require_least(self, 0, "theta")
        require_shares(self, "share", "one_way")
        require_shares(self, "planned_share")
        object.__setattr__(self, "planned", as_groups(self.planned))
        require_one_of(self, "score", ("association", "mutual-information"))

    def for_analyses(self, analyses: Sequence[PlannedAnalysis], schema: Schema) -> Self:
        """The same method, with the tables that these analyses need measured before the network grows from them."""
        return replace(self, planned=sets_for(analyses, schema, self.max_cells, self.planned))

    def fit(self, curator: Curator) -> GraphModel:
        """Measure columns, build the network, measure its families, fit them together."""
        require_relation(self, curator.relation)
        schema, asked = curator.schema, len(curator.answers)
        self._refuse_information(schema, curator.relation, curator.max_rows)
        for_columns, for_planned, for_network = self._budgets(schema, curator.budget)
        columns = measure_columns(curator, for_columns)
        evidence = list(columns.evidence)
        if for_planned is not None:
            evidence += measure_planned(curator, self.planned, for_planned, self.max_cells)
        if for_network is not None:
            network = self._build_network(curator, columns, *for_network)
            families = [family for family in network if family[1]]
            # Where no family was worth its noise, the columns themselves are measured again.
            families = families or [(name, ()) for name in schema.names]
            evidence += measure_tables(curator, [table_of(schema, family) for family in families])
        curator.report("fitting", 0.8)
        tables = noisy_marginals(curator, asked, columns)
        return fit_model(schema, columns, evidence, self.max_cells, TOLERANCE, tables)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """Every column, one choice per column but the first, every family."""
        self._refuse_information(schema, schema.neighbours, schema.unit.max_rows)
        for_columns, for_planned, for_network = self._budgets(schema, budget)
        steps = plan_columns(schema, for_columns, public.rows, [*self._pairs(schema), *as_groups(self.planned)])
        if for_planned is not None:
            steps += plan_tables(schema, self.planned, for_planned)
        if for_network is None:
            return steps
        for_choice, for_tables = for_network
        links = self._count_links(schema)
        sd = count_noise(schema.neighbours, schema.unit.max_rows, for_tables.split(links)[0]).sd
        largest = self._useful_cells(float(public.rows or inf), sd, for_tables.currency)
        note = "" if largest == inf else f"families of at most {largest:,.0f} cells are useful"
        return [
            *steps,
            Planned("network", f"{links} choices, up to {self.degree} parents", for_choice),
            Planned("families", f"up to {links} tables", for_tables, sd=sd, note=note),
        ]

    def outlook(self, schema: Schema, budget: Budget, steps: Sequence[Planned], public: PublicFacts) -> Outlook:
        """The columns, and every pair as if it were measured with an average share."""
        fitting = FIT_SECONDS * carried_cells(schema, self.planned, self.max_cells)
        return graph_outlook(schema, steps, seconds=fitting)

    def _refuse_information(self, schema: Schema, relation: str, max_rows: int) -> None:
        if self.score == "association":
            return
        if relation != "replace" or max_rows != 1 or schema.rules:
            raise UnsupportedError(
                "privbayes: score 'mutual-information' needs neighbours 'replace', one row per unit and no rules, "
                "because its sensitivity depends on a public number of counted rows; use score='association'"
            )

    def _pairs(self, schema: Schema) -> list[tuple[str, ...]]:
        """The pairs that may be a family, from public sizes only."""
        largest = min(self.max_cells, _countable(schema, self.degree + 1))
        return [p for p in combinations(schema.names, 2) if schema.size(p) <= largest]

    def _budgets(self, schema: Schema, budget: Budget) -> Stages:
        """What columns, planned tables, and choosing and measuring families may cost."""
        share = self.planned_share if self.planned else None
        return split_stages(budget, self.one_way, self.share, share, self._count_links(schema) > 0)

    def _count_links(self, schema: Schema) -> int:
        """How many columns are attached to others: all but the first, or all but those of planned tables."""
        inside = {n for names in carried_sets(schema, self.planned, self.max_cells) for n in names}
        return len(schema.names) - max(1, len(inside))

    def _useful_cells(self, rows: float, sd: float, currency: str) -> float:
        """The largest table whose cells hold θ times the mean absolute noise: θ-usefulness, section 4.3."""
        if self.theta == 0:
            return inf
        mean_noise = sd / sqrt(2) if currency == "epsilon" else sd * sqrt(2 / pi)
        # At a very large ε the noise is 0 to double precision, and every table is useful.
        return rows / (self.theta * mean_noise) if mean_noise > 0 else inf

    def _build_network(
        self, curator: Curator, columns: Columns, for_choice: Budget, for_tables: Budget
    ) -> list[Family]:
        """Attach column after column to those already in the network."""
        schema = curator.schema
        links = self._count_links(schema)
        sd = count_noise(curator.relation, curator.max_rows, for_tables.split(links)[0]).sd
        largest = min(
            self._useful_cells(columns.total, sd, for_tables.currency),
            self.max_cells,
            _countable(schema, self.degree + 1),
        )
        planned = carried_sets(schema, self.planned, self.max_cells)
        growth = _Growth(schema, self.degree, largest, self.max_cells, planned)
        curator.prefetch(_tables_of_families(schema, self.degree + 1, largest))
        shares: list[Budget] = list(for_choice.split(links))
        for done, share in enumerate(shares):
            curator.report("building the network", 0.2 + 0.5 * done / links)
            candidates = growth.candidates()
            if not any(parents for _, parents in candidates):
                break
            score: Association | MutualInformation = MutualInformation(schema, curator.rows or 0)
            if self.score == "association":
                score = Association(schema, _costs(columns, schema, candidates, sd))
            growth.attach(curator.choose(candidates, score, share))
        return growth.network


class _Growth:
    """A network that grows by one column at a time and never outgrows its limits; public sizes only."""

    def __init__(
        self, schema: Schema, degree: int, largest: float, max_cells: int, planned: Sequence[Attributes] = ()
    ) -> None:
        self.sizes = {a.name: a.size for a in schema.attributes}
        self.degree, self.largest = degree, largest
        self.limit = max(max_cells, sum(self.sizes.values()))
        self.network: list[Family] = []
        self.inside = [n for n in schema.names if any(n in names for names in planned)]
        self.links = list(planned)
        self.refused: set[Attributes] = set()

    def candidates(self) -> list[Family]:
        """Every outside column with every set of parents that is useful and leaves the model small enough."""
        names = list(self.sizes)
        if not self.inside:
            first = [(b, (a,)) for a, b in combinations(names, 2)]
            return [f for f in first if self._cells(f) <= min(self.largest, self.limit)]
        outside = [n for n in names if n not in self.inside]
        least = min(self.sizes[n] for n in outside)
        found: list[Family] = [(n, ()) for n in outside]
        now = cells_needed(self.sizes, self.links)
        for count in range(1, self.degree + 1):
            for parents in combinations(self.inside, count):
                if self._cells((outside[0], parents)) / self.sizes[outside[0]] * least > self.largest:
                    continue
                room = min(self.largest, self.limit - self._cells_if_joined(parents, now))
                found += [f for n in outside if self._cells(f := (n, parents)) <= room]
        return found

    def attach(self, family: Family) -> None:
        """Take a family into the network."""
        column, parents = family
        if not self.inside and parents:
            self.network.append((parents[0], ()))
            self.inside.append(parents[0])
        self.network.append(family)
        self.inside.append(column)
        self.links.append((column, *parents))

    def _cells(self, family: Family) -> int:
        return prod(self.sizes[n] for n in (family[0], *family[1]))

    def _cells_if_joined(self, parents: Attributes, now: int) -> float:
        """Cells of the model once the parents are in one clique: the column then adds its family's cells."""
        if len(parents) == 1 or any(set(parents) <= set(link) for link in self.links):
            return now
        if parents in self.refused:
            return inf
        cells = cells_needed(self.sizes, [*self.links, parents])
        if cells >= self.limit:
            # The model only grows: what does not fit now never will.
            self.refused.add(parents)
        return cells


def _count_tables(schema: Schema, ways: int) -> int:
    return sum(comb(len(schema.names), k) for k in range(2, ways + 1))


def _countable(schema: Schema, ways: int) -> float:
    """The largest table such that all tables of up to that size could be counted in bounded memory."""
    if _count_tables(schema, ways) > ENUMERATED:
        return COUNTED_CELLS / _count_tables(schema, ways)
    sizes = [a.size for a in schema.attributes]
    cells = np.sort([float(prod(c)) for k in range(2, ways + 1) for c in combinations(sizes, k)])
    fitting = int(np.searchsorted(np.cumsum(cells), COUNTED_CELLS, side="right"))
    return float(cells[fitting - 1]) if fitting else 0.0


def _tables_of_families(schema: Schema, ways: int, largest: float) -> list[Marginal]:
    """Every table that a family can have, if there are few: nearly all are looked at in one round or another."""
    if _count_tables(schema, ways) > ENUMERATED:
        return []
    families = chain.from_iterable(combinations(schema.names, k) for k in range(2, ways + 1))
    useful = [names for names in families if schema.size(names) <= largest]
    if sum(map(schema.size, useful)) > PREFETCHED:
        return []
    return [Marginal.of(schema, names) for names in useful]


def _costs(columns: Columns, schema: Schema, candidates: list[Family], sd: float) -> dict[Family, float]:
    """Half the L1 error that the noise would leave in each family's table, were it independent."""
    alone = columns.distributions()

    @cache
    def cost(names: Attributes) -> float:
        expected = np.full(1, columns.total)
        for name in names:
            expected = np.multiply.outer(expected, alone[name]).ravel()
        return CAUTION * noise_left(expected, sd) / 2

    return {family: cost(table_of(schema, family).attributes) for family in candidates if family[1]}
