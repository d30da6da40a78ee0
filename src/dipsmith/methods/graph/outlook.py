"""What can be expected of graphical models before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from dipsmith.methods.method import Planned
from dipsmith.methods.outlook import Names, Outlook, table_effort, tables_of
from dipsmith.privacy.budget import Budget, PureDP, zcdp_to_approx
from dipsmith.schema import Schema

FIT_SECONDS: Final = 2.5
"""Fitting a graphical model to many overlapping tables."""


def graph_outlook(
    schema: Schema, steps: Sequence[Planned], if_chosen: Mapping[Names, float], seconds: float = 0.0
) -> Outlook:
    """The columns, and the tables that may be chosen with the variance of the noise on each."""
    effort = table_effort(steps)
    return Outlook(
        tables_of(schema, steps),
        if_chosen=if_chosen,
        effort=replace(effort, seconds=effort.seconds + seconds),
    )


def signal(schema: Schema, budget: Budget, rows: int) -> float:
    """Rows × ε per unit: how much can be learned."""
    epsilon = budget.epsilon if isinstance(budget, PureDP) else zcdp_to_approx(budget.rho, 1e-9)
    return rows * epsilon / schema.unit.max_rows
