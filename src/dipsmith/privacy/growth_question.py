"""Growth of a number within the units of a panel: bounded sums over units, with exact noise.

Whatever the rows of a unit say, it adds at most W steps to the one sum and 2W up or down to the other. So one unit moves both
by Δ₁ = 3W, Δ₂² = 5W² (add-remove) or Δ₁ = 5W, Δ₂² = 17W² (replace), however many rows it has. To the spread of growth, one sum
of squares, it adds 0 to W: Δ₁ = W, Δ₂² = W².
Proof: ``docs/proofs/growth.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.counting.steps import StepRows
from dipsmith.errors import UnsupportedError
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import priced_counts
from dipsmith.privacy.events import Measured, labels_of_block
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes
from dipsmith.schema.growth import WHOLE, GrowthSums
from dipsmith.schema.steps import ARRIVAL, FIRST, step_schema


@dataclass(frozen=True, eq=False)
class GrowthQuestion:
    """The sums behind the growth of one column: a question to all steps of a panel."""

    cells: GrowthSums

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise for a price, by how much a unit can add."""
        if relation not in self.cells.reach:
            raise UnsupportedError(f"growth within units has no proof under {relation}; use add-remove or replace")
        if labels_of_block(block):  # where a unit's first step may be missing, two units would be taken for one
            raise UnsupportedError("growth is asked of all steps of a panel, not of some of them")
        reach = self.cells.reach[relation]
        moved = sum(reach) * WHOLE if isinstance(budget, PureDP) else sum(r * r for r in reach) * WHOLE**2
        return priced_counts(self.cells, Fraction(moved), budget, block)

    def count(self, rows: Rows, stream: Stream) -> NDArray[np.int64]:
        """The exact sums, in whole steps."""
        if rows.schema.names != step_schema(self.cells.schema).names:
            raise UnsupportedError("growth is asked of all steps of a panel")
        steps: Codes = cast("StepRows", rows).held
        return self.cells.add_up(np.cumsum(steps[ARRIVAL] == FIRST) - 1, steps)
