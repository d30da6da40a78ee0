"""By how much two tables of one population differ by chance: the expected gap of every cell.

Call rows authentic and synthetic at random, keep everything else: then a cell with k rows in both tables together gets a
hypergeometric number of authentic ones, whose mean absolute deviation has a closed form: 2j(m − k + j)/N · P(X = j) with
j = ⌊kn/N⌋ + 1 (Diaconis and Zabell, Statistical Science 6, 1991). Given k it is exact, so over all samples it is unbiased,
also for cells with a handful of rows, where the normal approximation is not.

Where columns are given (the same rows in both tables), rows may only be exchanged among those with the same given
columns. Of such a stratum a cell gets a hypergeometric number again; the variances of the strata add up, and a sum of so
many ±1 gives the expected difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]


def expected_gaps(
    pooled: NDArray[np.integer], n: NDArray[np.integer] | int, m: NDArray[np.integer] | int
) -> Floats:
    """E|share of n − share of m| of cells with `pooled` rows in both tables together.

    >>> expected_gaps(np.array([0, 1, 2]), 100, 100).round(5).tolist()
    [0.0, 0.01, 0.00995]
    >>> half_normal = np.sqrt(2 / np.pi * .01 * .99 * 2 / 10_000)  # two samples of 10,000, a share of .01
    >>> round(float(expected_gaps(np.array([200]), 10_000, 10_000)[0] / half_normal), 2)
    1.0
    """
    k = np.asarray(pooled, dtype=np.float64)
    a, s = np.maximum(np.asarray(n, dtype=np.float64), 1.0), np.maximum(np.asarray(m, dtype=np.float64), 1.0)
    whole = a + s
    j = np.floor(k * a / whole) + 1
    possible = (j <= np.minimum(k, a)) & (k - j <= s)
    at = np.where(possible, j, np.minimum(k, a))
    logs = _log_choose(a, at) + _log_choose(s, np.where(possible, k - j, 0.0)) - _log_choose(whole, k)
    deviation = np.where(possible, 2 * j * (s - k + j) / whole * np.exp(np.minimum(logs, 0.0)), 0.0)
    return np.asarray((1 / a + 1 / s) * deviation)


def _log_choose(n: Floats, k: Floats) -> Floats:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def exchanged_gaps(variance: Floats, n: NDArray[np.integer] | int) -> Floats:
    """E|share − share| of cells whose difference of counts has this variance, being a sum of so many ±1.

    >>> exchanged_gaps(np.array([0.0, 400.0]), 1000).round(4).tolist()  # normal: √(2/π · 400) / 1000
    [0.0, 0.016]
    """
    half = (np.maximum(variance, 1.0) + 0.5) / 2
    sums = 2 * np.exp(gammaln(half + 0.5) - gammaln(half)) / np.sqrt(np.pi)
    return np.asarray(np.minimum(variance, 1.0) * sums / np.maximum(np.asarray(n, dtype=np.float64), 1.0))
