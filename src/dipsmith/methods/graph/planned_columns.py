"""What the columns one by one will cost, and which of them a steward should collapse first.

A column with very many values is no blow-up, by two public rules: its pairs with other columns are
candidates only where they fit the model, and its own table is measured as it is. But noise on values that
hardly anybody has makes rows where there are none, and a column that fits with no other is drawn
independently of all of them. Both are said before anything is spent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dipsmith.estimation.hopeless import forewarning
from dipsmith.methods.graph.columns import one_way_budgets
from dipsmith.methods.method import Planned, count_noise
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

ADVICE = "collapse its values (collapse, bins) or leave it out"


def planned_columns(
    schema: Schema, budget: Budget, rows: int | None, pairs: Collection[tuple[str, ...]]
) -> list[Planned]:
    """One line for every column.

    Parameters
    ----------
    schema, budget
        The columns, and what they may cost together.
    rows
        The public number of rows, None where it is not known.
    pairs
        The sets of columns that the method may measure together.
    """
    together = {name for pair in pairs if len(pair) > 1 for name in pair}
    steps = []
    for attribute, share in zip(schema.attributes, one_way_budgets(schema, budget), strict=True):
        sd = count_noise(schema.neighbours, schema.unit.max_rows, share).sd
        note = forewarning(attribute.size, sd, rows, advice=ADVICE)
        hopeless = bool(note)
        if not note and len(schema.names) > 1 and attribute.name not in together:
            note = f"drawn independently of all others: no pair with its {attribute.size:,} values fits; {ADVICE}"
        line = Planned("column", attribute.name, share, attribute.size, sd, note)
        steps.append(replace(line, attributes=(attribute.name,), hopeless=hopeless))
    return steps
