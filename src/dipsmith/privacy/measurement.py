"""A measurement: noisy counts of cells, with all that later steps may know about the noise.

It is the only thing about private rows that leaves the barrier. Everything computed from it is
post-processing and free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.privacy.budget import Budget
from dipsmith.schema import Cells


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts of every cell of a partition.

    Attributes
    ----------
    values
        One noisy count per cell. Cells that a rule forbids, and cells of groups that are publicly
        empty, are exactly 0 and carry no noise.
    variance, noisy
        The variance of the noise, and which cells carry it; None when all do.
    totals
        Under `label`, for cells that are public groups × private labels: the public size of each
        group. None otherwise.
    single
        Under `label` with two labels: only the second label's count was drawn, the first is the
        public size minus it, so that the two carry the same noise with opposite signs.
    kept
        For tables too large to hold: the indices of the cells whose noisy count exceeded
        `threshold`; `values` then has one entry per kept cell.
    """

    cells: Cells
    values: NDArray[np.int64]
    variance: float
    budget: Budget
    mechanism: str
    noisy: NDArray[np.bool_] | None = None
    totals: NDArray[np.int64] | None = None
    single: bool = False
    kept: NDArray[np.int64] | None = None
    threshold: int | None = None

    @property
    def groups(self) -> NDArray[np.int64]:
        """The values as a matrix: one row per public group, one column per private label."""
        if self.totals is None:
            raise ValueError("this measurement has no public groups")
        return self.values.reshape(len(self.totals), -1)
