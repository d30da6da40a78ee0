"""The columns one by one: the first thing that every marginal-based method measures.

All one-way marginals in one pass give the independent model that everything else is compared with, and
the number of rows where it is not public.

Privacy
-------
Each marginal is one call of `Curator.measure` with its share of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dipsmith.estimation.lawful import require_possible
from dipsmith.methods.graph.entropy import Evidence, independent, pooled_total
from dipsmith.methods.graph.junction import Array
from dipsmith.methods.graph.misfit import budget_weights
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Marginal, Schema


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy counts of every column by itself.

    Attributes
    ----------
    evidence
        One noisy table per attribute, in the order of the schema.
    total
        The number of lawful rows: public where n is public and no rule can have excluded any, else
        pooled from the tables.
    rows
        The public number of rows, None where it is private.
    """

    evidence: tuple[Evidence, ...]
    total: float
    rows: int | None

    @classmethod
    def measure(cls, curator: Curator, budget: Budget) -> OneWay:
        """Measure all one-way marginals within the budget."""
        schema = curator.schema
        marginals = [Marginal.of(schema, (name,)) for name in schema.names]
        measured = curator.measure(marginals, one_way_budgets(schema, budget))
        evidence = tuple(Evidence.of(m) for m in measured)
        public = curator.rows
        known = public is not None and not schema.rules
        return cls(evidence, float(public or 0) if known else pooled_total(evidence), public)

    def independent(self) -> dict[str, Array]:
        """The distribution of every column, everywhere above 0."""
        return {
            e.attributes[0]: independent(e.attributes[0], e.values.size, [e], max(self.total, 1.0))
            for e in self.evidence
        }


def one_way_budgets(schema: Schema, budget: Budget) -> list[Budget]:
    """The share of every column, in the order of the schema; refused where rules leave no combination of them."""
    require_possible(schema)
    return list(budget.split(budget_weights([a.size for a in schema.attributes], budget.currency)))


def entropy(probabilities: Array) -> float:
    """Shannon's entropy in nats."""
    some = probabilities[probabilities > 0]
    return float(-(some * np.log(some)).sum())
