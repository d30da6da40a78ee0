"""The plan of a run: what will be asked, what each question costs, how large the noise will be.

Made before anything is spent, from public facts only: the schema, the budget, the number of rows where
it is public or given, and under `label` the public columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.methods.method import Method, Planned, PublicFacts, require_relation
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

BYTES_PER_CELL = 40
"""Measured: counts, noise, estimates, projection and sampling hold at most five arrays of eight bytes."""


@dataclass(frozen=True)
class Plan:
    """The questions of a run, in order."""

    dataset: str
    method: str
    budget: Budget
    neighbours: str
    unit: str
    rows: int | None
    sets: int
    each: str | None
    steps: tuple[Planned, ...]

    @property
    def cells(self) -> int:
        """Noisy numbers in all, of one sanitisation."""
        return sum(s.cells or 0 for s in self.steps)

    @property
    def memory(self) -> int:
        """About how many bytes the tables will take."""
        return BYTES_PER_CELL * self.cells

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a steward should think about before spending."""
        return tuple(f"{s.stage}: {s.note}" for s in self.steps if s.note)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-able values."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "budget": {self.budget.currency: float(self.budget.exact)},
            "neighbours": self.neighbours,
            "unit": self.unit,
            "rows": self.rows,
            "sets": self.sets,
            "each": self.each,
            "cells": self.cells,
            "memory_bytes": self.memory,
            "steps": [
                {
                    "stage": s.stage,
                    "what": s.what,
                    "cost": float(s.budget.exact),
                    "cells": s.cells,
                    "sd": s.sd,
                    "note": s.note,
                }
                for s in self.steps
            ],
            "warnings": list(self.warnings),
        }


def plan(
    schema: Schema,
    method: Method,
    budget: Budget,
    *,
    public: PublicFacts | None = None,
    sets: int = 1,
    each: str | None = None,
) -> Plan:
    """What `synthesize` would ask and spend; reads no private value."""
    require_relation(method, schema.neighbours)
    if sets > 1 and each is None:
        raise UsageError("several sets need --each split or --each draw")
    facts = public or PublicFacts()
    share = budget.split(sets)[0] if each == "split" else budget
    return Plan(
        dataset=schema.name,
        method=method.name,
        budget=budget,
        neighbours=schema.neighbours,
        unit=str(schema.unit),
        rows=facts.rows,
        sets=sets,
        each=each,
        steps=tuple(method.plan(schema, share, facts)),
    )
