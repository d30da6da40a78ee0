"""What weighted totals of a survey weight will cost, and how noisy they will be."""

from __future__ import annotations

from collections.abc import Sequence

from dipsmith.estimation.weights import split_budget
from dipsmith.methods.method import Planned
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.weight_question import WeightQuestion
from dipsmith.schema import Schema, WeightTotals


def plan_totals(schema: Schema, budget: Budget, tables: Sequence[WeightTotals]) -> tuple[list[Planned], Budget]:
    """The lines of a plan for weighted totals, and what is left for the rows."""
    each, rest = split_budget(budget, tables)
    steps = []
    for table, cost in zip(tables, each, strict=True):
        law, _ = WeightQuestion(table).priced(str(schema.neighbours), schema.unit.max_rows, cost, "")
        error = law.variance**0.5 * table.step
        note = f"noise on a weighted total: standard error {error:,.3g}"
        steps.append(Planned("weighted totals", table.key, cost, table.size, error, note, group="weighted totals"))
    return steps, rest
