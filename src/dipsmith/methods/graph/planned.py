"""Planned tables: the sets of columns that planned analyses need, measured before anything is chosen.

A formula becomes a workload (`regression.tables`). Its tables are measured outright, not left to be chosen, so that
its coefficients can be estimated from them directly; a method then chooses what else it wants. The model holds those
that fit into it, in the order of the analyses.

Privacy
-------
Which tables are planned is decided by formulas and schema alone. One call of `Curator.measure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dipsmith.errors import UsageError
from dipsmith.estimation.parameters import as_groups
from dipsmith.methods.graph.evidence import Evidence
from dipsmith.methods.graph.junction import Attributes
from dipsmith.methods.graph.model import admit
from dipsmith.methods.method import Planned, count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.regression.tables import asks_for_odds, tables_needed
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.formula.words import abridge


def sets_for(
    analyses: Sequence[PlannedAnalysis], schema: Schema, max_cells: int, also: Sequence[Sequence[str]] = ()
) -> tuple[Attributes, ...]:
    """The sets of columns that analyses need, before those of `also` that they do not hold; refuses tables too large."""
    for analysis in analyses:
        instead = "; model: ols needs pairs alone" if asks_for_odds(analysis, schema) else ""
        for names in tables_needed([analysis], schema):
            if schema.size(names) > max_cells:
                raise UsageError(
                    f"analysis '{abridge(analysis.text)}' needs the table of {' × '.join(names)}, {schema.size(names):,} "
                    f"cells, and at most {max_cells:,} are measured; use fewer bins or labels, or leave a term out{instead}"
                )
    found = tables_needed(analyses, schema)
    return (*found, *(w for w in as_groups(also) if not any(set(w) <= set(f) for f in found)))


def table_weights(cells: Sequence[int], currency: str) -> list[float]:
    """How to share a budget so that the summed squared error of all cells is least: ε ∝ n^(1/3), ρ ∝ n^(1/2).

    Entries of X′X are sums over cells, whose squared errors add up.

    >>> table_weights([1, 8], "epsilon"), table_weights([1, 9], "rho")
    ([1.0, 2.0], [1.0, 3.0])
    """
    power = 1 / 3 if currency == "epsilon" else 1 / 2
    return [round(n**power, 6) for n in cells]


def measure_planned(
    curator: Curator, planned: Sequence[Sequence[str]], budget: Budget, max_cells: int
) -> list[Evidence]:
    """Measure the planned tables; the evidence of those that the model can hold."""
    schema = curator.schema
    tables = [Marginal.of(schema, _in_order(schema, names)) for names in planned]
    found = curator.measure(tables, _budgets(schema, planned, budget))
    carried = {frozenset(names) for names in carried_sets(schema, planned, max_cells)}
    return [Evidence.of(m) for t, m in zip(tables, found, strict=True) if frozenset(t.attributes) in carried]


def carried_sets(schema: Schema, planned: Sequence[Sequence[str]], max_cells: int) -> list[Attributes]:
    """The planned sets with which the model stays within half of its limit, so that there is room for others."""
    return [tuple(names) for names in admit(schema, [], planned, max_cells // 2)]


def carried_cells(schema: Schema, planned: Sequence[Sequence[str]], max_cells: int) -> int:
    """How many cells the planned tables have that the model holds."""
    return sum(map(schema.size, carried_sets(schema, planned, max_cells)))


def plan_tables(schema: Schema, planned: Sequence[Sequence[str]], budget: Budget) -> list[Planned]:
    """One line for every planned table."""
    steps = []
    for names, share in zip(planned, _budgets(schema, planned, budget), strict=True):
        sd = count_noise(schema.priced_as, schema.unit.max_rows, share).sd
        table = Marginal.of(schema, _in_order(schema, names))
        steps.append(Planned("planned table", table.key, share, table.size, sd, attributes=table.attributes))
    return steps


def as_columns(schema: Schema, steps: Sequence[Planned]) -> list[Planned]:
    """Lines of a plan for rows that are seen in another way: attributes that the schema does not have are not told."""
    return [s if set(s.attributes) <= set(schema.names) else replace(s, attributes=()) for s in steps]


def _budgets(schema: Schema, planned: Sequence[Sequence[str]], budget: Budget) -> list[Budget]:
    return list(budget.split(table_weights([schema.size(names) for names in planned], budget.currency)))


def _in_order(schema: Schema, names: Sequence[str]) -> Attributes:
    """The names in the order of the schema; raises on one that it does not have."""
    known = {schema[name].name for name in names}
    return tuple(n for n in schema.names if n in known)
