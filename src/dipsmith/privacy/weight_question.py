"""Weighted totals: the survey weight added up over the cells of a table, with exact noise.

Weights are clipped to their public bounds and rounded to whole steps, each by itself, so that one row adds between 0 and W
to one total. One unit of at most k rows moves the totals by Δ₁ = kW (add-remove) or 2kW (replace), Δ₂² = k²W² or 2k²W². Of
members of households k is the number of members that count, or 1 where the unit is a person.
Proof: ``docs/proofs/weight-totals.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.counting.values import ValueReading
from dipsmith.errors import UnsupportedError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import priced_table
from dipsmith.privacy.events import Measured
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes, WeightTotals


@dataclass(frozen=True, eq=False)
class WeightQuestion:
    """Totals of the survey weight: a question to the values of rows."""

    cells: WeightTotals

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise for a price, by the largest weight that the schema allows."""
        if relation == "label":
            raise UnsupportedError("weighted totals are of whole rows: under label a weight is public")
        k = max(max_rows, self.cells.schema.priced_rows)
        return priced_table(relation, k, self.cells, budget, False, block)

    def count(self, rows: Rows, stream: Stream) -> NDArray[np.int64]:
        """The exact totals, in whole steps."""
        cells = self.cells
        reading = ValueReading(cells.schema, numbers=(cells.weight,), codes=cells.attributes)
        found = np.zeros(cells.size, np.int64)
        for values, _ in rows.values(reading):
            codes = Codes.of(cells.schema, {n: values.levels[n] for n in cells.attributes}, values.rows)
            found += cells.add_up(cells.index(codes), values.numbers[cells.weight])
        return found
