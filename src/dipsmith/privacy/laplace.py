"""How discrete Laplace values are drawn: a sign and the digits of a geometric variable.

P(k) ∝ exp(-abs(k)/scale). The value is Y or -1-Y, where Y ≥ 0 is geometric and the sign is negative with
probability q/(1+q), q = exp(-1/scale). The digits of a geometric variable in any base are
independent, so a small scale takes one lookup, for sign and value at once, and a large scale one
for sign and leading digit and one for each further digit of eight bits. The leading digit is
tabulated up to a cut; a variable that reaches the cut starts again from there, because a geometric
variable has no memory. ``docs/proofs/noise.md`` has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.privacy.enclosure import exp_bounds, exp_powers
from dipsmith.privacy.lookup import Boundaries, Lookup
from dipsmith.privacy.randomness import Stream

_COARSE: Final = 40
"""Largest scale of the leading digit (1 % open buckets)."""

_DIGIT: Final = 8
"""Bits per further digit (0.4 % open buckets)."""

_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, eq=False)
class LaplaceTables:
    """X = Y or -1-Y, where Y has a leading digit and then `digits`, each with its width in bits."""

    lead: Lookup
    cut: int
    digits: tuple[tuple[Lookup, int], ...]


@lru_cache(maxsize=64)
def laplace_tables(scale: Fraction, cut: int | None = None) -> LaplaceTables:
    """Tabulate sign and leading digit (up to `cut`, beyond which a tail begins) and further digits."""
    bits = max(0, math.ceil(scale / _COARSE) - 1).bit_length()
    lead_scale = scale / (1 << bits)
    # exp(-20.8) < 2⁻³⁰: the tail is reached once in a billion draws.
    cut = cut or max(1, math.ceil(lead_scale * Fraction(104, 5)))
    lead = Lookup.build(_lead_boundaries(scale, 1 / lead_scale, cut), -cut - 1, tails=True)
    digits = []
    while bits:
        width = min(_DIGIT, bits)
        bits -= width
        table = Lookup.build(_digit_boundaries((1 << bits) / scale, 1 << width), 0, tails=False)
        digits.append((table, width))
    return LaplaceTables(lead, cut, tuple(digits))


def _lead_boundaries(scale: Fraction, rate: Fraction, cut: int) -> Boundaries:
    """Cumulative probabilities of sign and leading digit, Q = exp(-rate), q = exp(-1/scale).

    The value is negative with probability q/(1+q); the leading digit exceeds a with probability
    Q^(a+1), whatever the sign.
    """

    def at(bits: int) -> list[tuple[int, int]]:
        one = 1 << bits
        low, high = exp_bounds(1 / scale, bits)
        negative = (low << bits) // (one + low), -(-(high << bits) // (one + high))
        positive = one - negative[1], one - negative[0]
        powers = exp_powers(rate, cut, bits)
        below = [(negative[0] * a >> bits, (negative[1] * b >> bits) + 1) for a, b in reversed(powers)]
        above = [(one - (positive[1] * b >> bits) - 1, one - (positive[0] * a >> bits)) for a, b in powers[1:]]
        return below + above

    return at


def _digit_boundaries(rate: Fraction, width: int) -> Boundaries:
    """Cumulative probabilities of a digit r in 0 … width-1 with P(r) ∝ exp(-rate·r)."""
    # 1 - exp(-rate·width) is about rate·width: as many digits again are lost in the division.
    lost = max(0, math.ceil(1 / rate).bit_length()) + 8

    def at(bits: int) -> list[tuple[int, int]]:
        work = bits + lost
        one = 1 << work
        powers = exp_powers(rate, width, work)[1:]
        least, most = one - powers[-1][1], one - powers[-1][0]
        return [((one - high << bits) // most, -(-(one - low << bits) // least)) for low, high in powers[:-1]]

    return at


def fill_laplace(stream: Stream, tables: LaplaceTables, out: Ints) -> None:
    """Fill an array with draws."""
    sign = _fill_lead(stream, tables, out)
    for table, width in tables.digits:
        digit = table.draw(stream, out.size)[0]
        # -1 - (lead·m + digit) = (-1 - lead)·m + (m - 1 - digit); for m = 2^width the last is a xor.
        digit ^= sign & np.int16((1 << width) - 1)
        out <<= width
        out |= digit


def _fill_lead(stream: Stream, tables: LaplaceTables, out: Ints) -> NDArray[np.int16]:
    """Draw leading digits, a or -1-a, and return their signs, 0 or -1."""
    drawn, rare = tables.lead.draw(stream, out.size)
    out[:] = drawn
    cut = tables.cut
    far = rare[(drawn[rare] == cut) | (drawn[rare] == -cut - 1)]
    if far.size:
        # A geometric variable that has reached the cut starts again from there.
        again = np.empty(far.size, np.int64)
        _fill_lead(stream, tables, again)
        most = _INT64 >> sum(width for _, width in tables.digits)
        reached = np.minimum(cut + np.where(again < 0, ~again, again), most)
        out[far] = np.where(drawn[far] < 0, ~reached, reached)
    return drawn >> 15
