"""Lookup: a finite discrete law sampled from 16 random bits, exactly.

A uniform number U picks outcome j when it lies between the law's cumulative probabilities C_j and
C_{j+1}. Its first 16 binary digits name one of 65 536 buckets; where no C_j falls into the bucket the
outcome is certain and stands in a table. In the other buckets 48 more digits are drawn and
compared with enclosures of the C_j, 64 digits wide; where U still falls inside an enclosure, digits are
added and the enclosures tightened until the comparison is certain. No probability is ever
rounded: the outcome is that of the inverse-distribution method applied to a real U.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.privacy.enclosure import WORD, settle
from dipsmith.privacy.randomness import Stream

Boundaries = Callable[[int], list[tuple[int, int]]]
"""Given bits: for each C_1 < C_2 < …, integers that enclose C_j·2^bits."""

_INDEX: Final = 16
_OPEN: Final = np.int16(-(1 << 15))
_LAST: Final = (1 << WORD) - 1


@dataclass(frozen=True, eq=False)
class Lookup:
    """The table of one law.

    `outcomes` has the outcome of each bucket, or a mark where more digits are needed; `lower` and `upper` the first 64
    digits of each boundary's enclosure. The first outcome is `origin`; the others follow it one by one.
    """

    outcomes: NDArray[np.int16]
    lower: NDArray[np.uint64]
    upper: NDArray[np.uint64]
    origin: int
    boundaries: Boundaries

    @classmethod
    def build(cls, boundaries: Boundaries, origin: int, *, tails: bool) -> Lookup:
        """Make the table of a law of m outcomes from its boundaries C_1 < … < C_{m-1}.

        With `tails` the first and last outcomes stand for tails that need more work; `draw` always reports them
        among the rare positions.
        """
        lower, upper = _digits(boundaries, WORD)
        low = np.array([min(b, _LAST) for b in lower], np.uint64)
        high = np.array([min(b, _LAST) for b in upper], np.uint64)
        # How many boundaries end in a bucket before, and how many begin in it or before.
        ended, last = (
            np.cumsum(np.bincount((b >> np.uint64(WORD - _INDEX)).astype(np.int64), minlength=1 << _INDEX))
            for b in (high, low)
        )
        first = np.append(0, ended[:-1])
        certain = first == last
        if tails:
            certain &= (first > 0) & (first < len(lower))
        outcomes = np.where(certain, first + origin, _OPEN).astype(np.int16)
        return cls(outcomes, low, high, origin, boundaries)

    def draw(self, stream: Stream, n: int) -> tuple[NDArray[np.int16], NDArray[np.intp]]:
        """Draw n outcomes, and the positions of those that 16 bits did not settle."""
        words = stream.words16(n)
        drawn = self.outcomes.take(words)
        rare = np.flatnonzero(drawn == _OPEN)
        if rare.size:
            drawn[rare] = self._refine(stream, words[rare])
        return drawn, rare

    def _refine(self, stream: Stream, buckets: NDArray[np.uint16]) -> Ints:
        """Settle U's that lie in open buckets, with 48 more digits and then as many as it takes."""
        rest = stream.words64(buckets.size) >> np.uint64(_INDEX)
        words = buckets.astype(np.uint64) << np.uint64(WORD - _INDEX) | rest
        first = np.searchsorted(self.upper, words, side="left")
        last = np.searchsorted(self.lower, words, side="right")
        for i in np.flatnonzero(first != last):
            first[i] = settle(stream, int(words[i]), self._locate)
        return first + self.origin

    def _locate(self, u: int, bits: int) -> int | None:
        """Return how many boundaries lie below U in [u, u+1)/2^bits, or None while that is open."""
        lower, upper = _digits(self.boundaries, bits)
        passed = sum(b < u for b in upper)
        return passed if passed == sum(b <= u for b in lower) else None


def _digits(boundaries: Boundaries, bits: int) -> tuple[list[int], list[int]]:
    """Return integers l_j, h_j with l_j ≤ C_j·2^bits < h_j + 1, each list in rising order.

    U in [u, u+1)/2^bits is then above C_j if u > h_j, and below if u < l_j.
    """
    guard = 32
    enclosures = boundaries(bits + guard)
    # The C_j rise, so that a neighbour's bound is a bound: the lists can be made to rise too.
    lower = list(accumulate((low >> guard for low, _ in enclosures), max))
    upper = list(accumulate((high >> guard for _, high in reversed(enclosures)), min))
    return lower, upper[::-1]
