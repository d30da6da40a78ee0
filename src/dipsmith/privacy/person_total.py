"""What a person pays in all where the unit is a person *in one period* (``unit: {column: person, max_rows: 1, per: year}``).

The budget of a run protects the rows of one unit. A trait that does not change, such as sex, stands in every period of a
person, so that k units tell of it together. Their price is that of a group of k units: k·ε under pure privacy, k²·ρ where
ρ is Gaussian (the shift of a Gaussian answer is k times as large). Where rows are divided by the period first and each
block is asked by itself, every answer sees one unit of the person, and the answers of k blocks compose: k·ρ.
(Dwork and Roth 2014, theorem 2.2; Dong, Roth and Su 2022, theorem 2.14.)

Reads the schema's unit and the prices of a run: public facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dipsmith.privacy.budget import LARGEST, UNITS, Budget
from dipsmith.privacy.events import Event, Partitioned
from dipsmith.schema import Schema


@dataclass(frozen=True)
class PersonTotal:
    """What the run costs a person who is in every one of so many periods."""

    person: str
    per: str
    periods: int
    unit: Budget
    total: Budget

    @classmethod
    def of(cls, schema: Schema, budget: Budget, apart: int) -> PersonTotal | None:
        """From the budget of the run, and how many units of it are spent in blocks of one period; None without periods.

        >>> from dipsmith.privacy.budget import PureDP, ZCDP
        >>> fields = [{"name": "year", "type": "integer", "minimum": 2001, "maximum": 2004}]
        >>> schema = Schema.from_dict(
        ...     {"name": "t", "unit": {"column": "who", "max_rows": 1, "per": "year"}, "neighbours": "replace", "fields": fields}
        ... )
        >>> str(PersonTotal.of(schema, PureDP("0.5"), 0).total), str(PersonTotal.of(schema, ZCDP("0.5"), 0).total)
        ('ε = 2', 'ρ = 8')
        """
        unit = schema.unit
        if unit.per is None or unit.column is None:
            return None
        k = schema[unit.per].size
        whole = budget.units - apart
        units = min(k * apart + (k if budget.currency == "epsilon" else k * k) * whole, LARGEST * UNITS)
        return cls(unit.column, unit.per, k, budget, type(budget).of_units(units))

    @classmethod
    def of_events(cls, schema: Schema, budget: Budget, events: Sequence[Event]) -> PersonTotal | None:
        """From what was asked."""
        apart = [
            e.budget.units
            for e in events
            if isinstance(e, Partitioned) and e.rule == "maximum" and e.attribute == schema.unit.per
        ]
        return cls.of(schema, budget, min(sum(apart), budget.units))

    @property
    def sentence(self) -> str:
        """For cards and plans."""
        return (
            f"{self.unit} is for one {self.person} in one {self.per}: of what does not change, one with rows in all "
            f"{self.periods} ({self.per}) pays {self.total} in all."
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data; the total in units."""
        return {"person": self.person, "per": self.per, "periods": self.periods, "units": self.total.units}
