"""How far the cross-tables of the synthetic rows are from those of the authentic ones.

The total variation distance (TVD) of two tables of shares is half the sum of their absolute differences: the
share of rows that would have to move. Its mean over all k-way tables is the k-marginal score of the NIST
challenges, which counts 1000·(1 − TVD) points. Two perfect samples also differ, so each mean stands beside the
TVD that two independent samples of the authentic distribution would have (the *floor*).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import NDArray

from dipsmith.utility.crosstabs import Crosstab, Crosstabs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TableError:
    """One table's distance and floor."""

    names: tuple[str, ...]
    tvd: float
    floor: float


@dataclass(frozen=True)
class MarginalError:
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
        """Mean TVD of two independent samples."""
        return float(np.mean([t.floor for t in self.tables])) if self.tables else float("nan")

    @property
    def score(self) -> float:
        """The k-marginal score, of 1000 points."""
        return 1000 * (1 - self.mean)

    @property
    def worst(self) -> TableError | None:
        """The table with the largest distance."""
        return max(self.tables, key=lambda t: t.tvd, default=None)


def marginal_error(crosstabs: Crosstabs, ways: int) -> MarginalError:
    """The TVD of every k-way table."""
    tables = [table_error(table) for table in crosstabs.all(ways)]
    return MarginalError(ways, tuple(tables), crosstabs.possible_ways(ways))


def table_error(table: Crosstab) -> TableError:
    """The TVD of one table, and its floor."""
    authentic, synthetic = table.proportions()
    return TableError(
        table.names,
        0.5 * float(np.abs(authentic - synthetic).sum()),
        expected_tvd(authentic, int(table.authentic.sum()), int(table.synthetic.sum())),
    )


def expected_tvd(shares: Floats, n: int, m: int) -> float:
    """The expected TVD of two independent samples of sizes n and m from one distribution.

    >>> round(expected_tvd(np.full(100, 0.01), 10_000, 10_000), 4)
    0.0561
    """
    return 0.5 * float(expected_gap(shares, n, m).sum())


def expected_gap(shares: Floats, n: NDArray[np.integer] | int, m: NDArray[np.integer] | int) -> Floats:
    """E|p̂ − q̂| of every cell for two independent samples of sizes n and m.

    A count of a small cell is Poisson, and E|X − Y| of two Poisson counts with mean λ is
    2λe^{−2λ}(I₀(2λ) + I₁(2λ)) (Skellam); for large λ that is the normal value √(2/π)·sd. Unequal sizes are
    replaced by their harmonic mean, and λ = hp(1 − p) gives cells of any size the right variance.
    """
    a, s = np.maximum(np.asarray(n, dtype=np.float64), 1.0), np.maximum(np.asarray(m, dtype=np.float64), 1.0)
    h = 2 * a * s / (a + s)
    rate = h * shares * (1 - shares)
    return np.asarray(2 * rate * (scipy.special.ive(0, 2 * rate) + scipy.special.ive(1, 2 * rate)) / h)
