"""The stages that MST, AIM and PrivBayes share: measure columns, choose tables, measure them, fit one model.

The columns one by one give the independent model that everything else is compared with, and the number of
rows where it is not public. What is measured after them is chosen by each method in its own way.

A column with very many values is no blow-up, by two public rules: its pairs with other columns are
candidates only where they fit the model, and its own table is measured as it is. But noise on values that
hardly anybody has makes rows where there are none, and a column that fits with no other is drawn
independently of all of them. The plan says both before anything is spent.

Privacy
-------
`measure_columns` and `measure_tables` are one call of `Curator.measure` each; the rest is post-processing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from statistics import median
from typing import Final

from dipsmith.estimation.answers import NoisyTable
from dipsmith.estimation.lawful import require_possible
from dipsmith.methods.graph.entropy import Factors, fit
from dipsmith.methods.graph.evidence import Evidence, column_distribution, pool_total
from dipsmith.methods.graph.junction import Array
from dipsmith.methods.graph.misfit import budget_weights
from dipsmith.methods.graph.model import GraphModel, rule_links
from dipsmith.methods.method import Planned, count_noise
from dipsmith.methods.outlook import Effort, Names, Outlook, hopeless_note, table_effort, tables_of
from dipsmith.privacy.budget import Budget, PureDP, rho_to_approx
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema

FIT_SECONDS: Final = 4.5e-6
"""Per cell of a planned table that the model holds: one fit, of a hundred or so evaluations."""

ADVICE = "collapse its values (collapse, bins) or leave it out"


@dataclass(frozen=True, eq=False)
class Columns:
    """Noisy counts of every column by itself.

    `evidence` has one table per attribute that was measured, in the order of the schema. `total` is the number of lawful rows:
    public where n is public and no rule can have excluded any, else pooled from the tables. `rows` is the
    public number of rows, None where it is private.
    """

    evidence: tuple[Evidence, ...]
    total: float
    rows: int | None

    def distributions(self) -> dict[str, Array]:
        """The distribution of every column, everywhere above 0."""
        total, tables = max(self.total, 1.0), {e.attributes[0]: e for e in self.evidence}
        return {name: column_distribution(name, e.values.size, [e], total) for name, e in tables.items()}


def measure_columns(curator: Curator, budget: Budget, known: Collection[str] = ()) -> Columns:
    """Measure all one-way marginals within the budget, but those of columns that are known; what they cost is left."""
    schema, rows = curator.schema, curator.rows
    asked = _column_budgets(schema, budget, known)
    measured = curator.measure([Marginal.of(schema, (name,)) for name in asked], list(asked.values()))
    evidence = tuple(Evidence.of(m) for m in measured)
    public = rows is not None and not schema.rules
    return Columns(evidence, float(rows or 0) if public else pool_total(evidence), rows)


def measure_tables(curator: Curator, tables: Sequence[Marginal]) -> list[Evidence]:
    """Measure tables with all that is left of the budget, larger tables with more of it."""
    left = curator.remaining
    assert left is not None
    shares = left.split(budget_weights([t.size for t in tables], left.currency))
    return [Evidence.of(m) for m in curator.measure(tables, list(shares))]


def noisy_marginals(curator: Curator, asked: int, columns: Columns) -> tuple[NoisyTable, ...]:
    """All noisy tables of marginals since the curator had answered `asked` questions, as they were measured."""
    exact = columns.rows is not None and not curator.schema.rules
    total, variance = (columns.total, 0.0) if exact else (columns.total, inf)
    found = []
    for answer in curator.answers[asked:]:
        m = answer.measurement
        if isinstance(m.cells, Marginal) and m.kept is None:
            found.append(NoisyTable(m.cells, m.values, m.variance, total, variance, mechanism=m.mechanism))
    return tuple(found)


def fit_model(
    schema: Schema,
    columns: Columns,
    evidence: Sequence[Evidence],
    max_cells: int,
    tolerance: float,
    tables: tuple[NoisyTable, ...] = (),
    prior: Factors = (),
) -> GraphModel:
    """Fit one model to noisy tables, with the rules that it can hold; it keeps all `tables` that were measured.

    The factors of a `prior` are what it starts from instead of independent columns.
    """
    linked = [names for names, _ in prior]
    links = [*linked, *rule_links(schema, [*(e.attributes for e in evidence), *linked], max_cells)]
    fitted = fit(schema, evidence, columns.total, linked=links, prior=prior, tolerance=tolerance)
    return GraphModel.of(schema, fitted, columns.rows, tables)


Stages = tuple[Budget, Budget | None, tuple[Budget, Budget] | None]
"""What the columns may cost, what planned tables may, and what choosing and measuring others may; None: no such stage."""


def split_stages(budget: Budget, one_way: float, choice: float, planned: float | None, choosing: bool) -> Stages:
    """Divide a budget; `planned` is the share of planned tables in what the columns leave, None where there are none."""
    if not choosing and planned is None:
        return budget, None, None
    if not choosing:
        for_columns, for_planned = budget.split([one_way, 1 - one_way])
        return for_columns, for_planned, None
    rest = 1 - one_way - choice
    if planned is None:
        for_columns, for_choice, for_tables = budget.split([one_way, choice, rest])
        return for_columns, None, (for_choice, for_tables)
    left = 1 - planned
    shares = budget.split([one_way, (1 - one_way) * planned, choice * left, rest * left])
    return shares[0], shares[1], (shares[2], shares[3])


def _column_budgets(schema: Schema, budget: Budget, known: Collection[str]) -> dict[str, Budget]:
    """The share of every column that is not known, in the schema's order; raises where rules leave no combination."""
    require_possible(schema)
    shares: Sequence[Budget] = budget.split(budget_weights([a.size for a in schema.attributes], budget.currency))
    return {name: share for name, share in zip(schema.names, shares, strict=True) if name not in known}


def plan_columns(
    schema: Schema, budget: Budget, rows: int | None, candidates: Collection[Names], known: Collection[str] = ()
) -> list[Planned]:
    """One line for every column; `candidates` are the sets of columns that may be measured together."""
    together = {name for names in candidates if len(names) > 1 for name in names}
    steps = []
    for name, share in _column_budgets(schema, budget, known).items():
        attribute = schema[name]
        sd = count_noise(schema.priced_as, schema.unit.max_rows, share).sd
        note = hopeless_note(attribute.size, sd, rows, advice=ADVICE)
        hopeless = bool(note)
        if not note and len(schema.names) > 1 and attribute.name not in together:
            note = f"drawn independently of all others: no pair with its {attribute.size:,} values fits; {ADVICE}"
        line = Planned("column", attribute.name, share, attribute.size, sd, note)
        steps.append(replace(line, attributes=(attribute.name,), hopeless=hopeless))
    return steps


CHOICE_SECONDS, PAIR_SECONDS, PAIR_BYTES = 2.7e-6, 9e-4, 75e3
"""Counting all pairs of columns and choosing among them again and again: seconds by the cube of their number and by pair,
bytes by pair."""
CHOSEN_SECONDS, CHOSEN_BYTES = 1.5e-6, 350.0
"""Per cell of a table that is chosen: measured, fitted, written into the file of measurements."""
LARGEST_CHOSEN = 1 << 20
"""Larger pairs are not chosen."""


def graph_outlook(
    schema: Schema, steps: Sequence[Planned], if_chosen: Mapping[Names, float] | None = None, seconds: float = 0.0
) -> Outlook:
    """The columns, and the tables that may be chosen with the variance of the noise on each.

    Without `if_chosen`: every pair, with the noise of the plan's last line if that is about chosen tables.
    """
    if if_chosen is None:
        last = steps[-1]
        chosen = combinations(schema.names, 2) if last.cells is None and last.sd is not None else ()
        if_chosen = dict.fromkeys(chosen, (last.sd or 0.0) ** 2)
    columns, chosen_cells = table_effort(steps), _chosen_cells(schema, if_chosen)
    effort = Effort(
        columns.seconds
        + seconds
        + PAIR_SECONDS * len(if_chosen)
        + CHOICE_SECONDS * len(schema.names) ** 3
        + CHOSEN_SECONDS * chosen_cells,
        columns.memory + PAIR_BYTES * len(if_chosen) + CHOSEN_BYTES * chosen_cells,
    )
    return Outlook(tables_of(schema, steps), if_chosen=if_chosen, effort=effort)


def _chosen_cells(schema: Schema, candidates: Collection[Names]) -> float:
    """The cells of the tables that will be chosen, about: of every column the median pair that could be measured."""
    sizes = {n: schema[n].size for n in schema.names}
    pairs = [(c, cells) for c in candidates if len(c) == 2 and (cells := sizes[c[0]] * sizes[c[1]]) <= LARGEST_CHOSEN]
    found = 0.0
    for name in schema.names:
        own = [cells for c, cells in pairs if name in c]
        found += median(own) if own else 0.0
    return found


def signal(schema: Schema, budget: Budget, rows: int) -> float:
    """Rows × ε per unit: how much can be learned."""
    epsilon = budget.epsilon if isinstance(budget, PureDP) else rho_to_approx(budget.rho, 1e-9)
    return rows * epsilon / schema.unit.max_rows
