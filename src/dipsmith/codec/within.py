"""Values drawn within bins: by a stated law, in steps that the schema states or implies.

A released number has no more digits than its column has: the step that the schema states (`precision: 0.01`), else the
largest power of ten that leaves a thousand values in the narrowest bin and every edge on the grid. Moments come in whole
seconds unless the schema is finer. By `law: log` a value is drawn evenly in the logarithm, as suits money and sizes; bins
that reach 0 are drawn evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log10

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.schema import Bins
from dipsmith.schema.bins import PRECISIONS

VALUES_PER_BIN = 1000
"""A number without a stated precision has at least so many different values in every bin."""
_FINEST = 12


@dataclass(frozen=True, eq=False)
class BinPoints:
    """For each bin the first and the last multiple of 1/`per` · `unit` that it holds; `per` is 0 where floats have no grid."""

    bins: Bins
    first: Floats
    last: Floats
    unit: float
    per: float

    @classmethod
    def of(cls, bins: Bins) -> BinPoints:
        """The values that may be released within bins."""
        unit, per = _step(bins)
        edges = -(-bins.cuts // unit) if bins.whole else _ceil(bins.cuts * per)
        first, last = edges[:-1].copy(), edges[1:] - 1
        if (last < first).any() or np.abs(last).max() > 2.0**52:
            return cls(bins, first, last, unit, 0.0)
        if not bins.whole:
            last[-1] = max(first[-1], np.floor(bins.cuts[-1] * per * (1 + 1e-15)))
        return cls(bins, first, last, unit, per)

    def draw(self, at: NDArray[np.integer], share: Floats) -> Floats:
        """A value within the bin of each code, at a place that is drawn between 0 and 1."""
        first, last = self.first[at], self.last[at]
        if not self.per:
            low, high = self.bins.cuts[:-1][at], self.bins.cuts[1:][at]
            return self._inside(low + share * (high - low), at)
        # the product can round up to the width itself, which is the first value of the next bin
        place = first + np.minimum(np.floor(share * (last - first + 1)), last - first)
        if self.bins.law == "log":
            positive, negative = first > 0, last < 0
            near, far = np.where(negative, -last, first), np.where(negative, -first, last) + 1
            size = np.floor(np.exp(np.log(np.maximum(near, 1)) * (1 - share) + np.log(np.maximum(far, 1)) * share))
            size = np.clip(size, near, far - 1)
            place = np.where(positive | negative, np.where(negative, -size, size), place)
        value = place / self.per * self.unit
        return value if self.bins.whole else self._inside(value, at)

    def _inside(self, value: Floats, at: NDArray[np.integer]) -> Floats:
        """What rounding put beyond an edge, back into its bin: the last value of a half-open one is just below its end."""
        top = np.append(np.nextafter(self.bins.cuts[1:-1], -np.inf), self.bins.cuts[-1])
        return np.asarray(np.clip(value, self.bins.cuts[:-1][at], top[at]))


def _step(bins: Bins) -> tuple[float, float]:
    """The distance of released values as a whole number of units, or one of so many parts of 1."""
    if bins.scale == "datetime":
        second = PRECISIONS["second"]
        ends = bins.cuts[:-1]
        return bins.step or (
            second if bool((ends % second == 0).all() and np.diff(bins.cuts).min() >= second) else 1.0
        ), 1.0
    if bins.scale != "number":
        return 1.0, 1.0
    if bins.step is not None:
        return 1.0, float(round(1 / bins.step))
    narrowest = float(np.diff(bins.cuts).min())
    places = max(0, ceil(log10(VALUES_PER_BIN / narrowest) - 1e-9)) if narrowest < VALUES_PER_BIN else 0
    while places < _FINEST and not np.allclose(
        bins.cuts * 10.0**places, np.rint(bins.cuts * 10.0**places), rtol=0, atol=1e-6
    ):
        places += 1
    return 1.0, 10.0**places


def _ceil(values: Floats) -> Floats:
    """Round up, but for what binary arithmetic added to a whole number."""
    near = np.rint(values)
    return np.where(np.abs(values - near) <= 1e-9 * np.maximum(1.0, np.abs(near)), near, np.ceil(values))
