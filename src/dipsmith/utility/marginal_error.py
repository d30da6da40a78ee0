"""How far the cross-tables of the synthetic rows are from those of the authentic ones.

The total variation distance (TVD) of two tables of shares is half the sum of their absolute differences: the
share of rows that would have to move. Its mean over all k-way tables is the k-marginal score of the NIST
challenges, which counts 1000·(1 − TVD) points. Two perfect samples also differ, so each mean stands beside the
TVD that chance alone gives (the *floor*): the expectation when it is drawn anew which rows are called synthetic
(`dipsmith.utility.chance`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dipsmith.utility.crosstabs import Crosstab, Crosstabs


@dataclass(frozen=True)
class TableError:
    """One table's distance and floor."""

    names: tuple[str, ...]
    tvd: float
    floor: float


@dataclass(frozen=True)
class TableErrors:
    """The distances of all k-way tables.

    `possible` is how many there are; `tables` may be a random choice of them. Tables of given columns are not
    among them.
    """

    ways: int
    tables: tuple[TableError, ...]
    possible: int

    @property
    def mean(self) -> float:
        """Mean TVD."""
        return float(np.mean([t.tvd for t in self.tables])) if self.tables else float("nan")

    @property
    def floor(self) -> float:
        """Mean TVD by chance alone."""
        return float(np.mean([t.floor for t in self.tables])) if self.tables else float("nan")

    @property
    def score(self) -> float:
        """The k-marginal score, of 1000 points."""
        return 1000 * (1 - self.mean)

    @property
    def worst(self) -> TableError | None:
        """The table with the largest distance."""
        return max(self.tables, key=lambda t: t.tvd, default=None)


def marginal_error(crosstabs: Crosstabs, ways: int) -> TableErrors:
    """The TVD of every k-way table."""
    tables = [table_error(table) for table in crosstabs.all(ways)]
    return TableErrors(ways, tuple(tables), crosstabs.possible_ways(ways))


def table_error(table: Crosstab) -> TableError:
    """The TVD of one table, and its floor."""
    authentic, synthetic = table.proportions()
    return TableError(
        table.names, 0.5 * float(np.abs(authentic - synthetic).sum()), 0.5 * float(table.chance_gaps().sum())
    )
