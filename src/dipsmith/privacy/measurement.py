"""A measurement: noisy counts of cells, with all that later steps may know about the noise.

It is the only thing about private rows that leaves the barrier. Everything computed from it is
post-processing and free.
"""

from __future__ import annotations

from dataclasses import dataclass

from dipsmith.arrays import Bools, Ints
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Cells


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts of every cell of a partition.

    `values` has one noisy count per cell; cells that a rule forbids, and cells of groups that are publicly empty, are
    exactly 0 and carry no noise. `variance` is that of the noise, `noisy` which cells carry it (None when all do). `totals`,
    under `label` for cells that are public groups × private labels, are the public sizes of the groups. With `single` (two
    labels) only the second label's count was drawn and the first is the public size minus it, so that the two carry the
    same noise with opposite signs. Of tables too large to hold, `kept` are the indices of the cells whose noisy count
    exceeded `threshold`, and `values` are theirs.
    """

    cells: Cells
    values: Ints
    variance: float
    budget: Budget
    mechanism: str
    noisy: Bools | None = None
    totals: Ints | None = None
    single: bool = False
    kept: Ints | None = None
    threshold: int | None = None

    @property
    def groups(self) -> Ints:
        """The values as a matrix: one row per public group, one column per private label."""
        if self.totals is None:
            raise ValueError("this measurement has no public groups")
        return self.values.reshape(len(self.totals), -1)


@dataclass(frozen=True, eq=False)
class NoisyAnswer:
    """A measurement, and the block of rows that it is about (empty for all rows)."""

    measurement: Measurement
    block: str = ""
