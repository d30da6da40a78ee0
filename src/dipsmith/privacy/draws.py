"""How values of noise are drawn; ``docs/proofs/noise.md`` has the proofs.

*Discrete Laplace*: a sign and the digits of a geometric variable. P(k) ∝ exp(-abs(k)/scale). The value is Y or -1-Y,
where Y ≥ 0 is geometric and the sign is negative with probability q/(1+q), q = exp(-1/scale). The digits of a geometric
variable in any base are independent, so a small scale takes one lookup, for sign and value at once, and a large scale
one for sign and leading digit and one for each further digit of eight bits. The leading digit is tabulated up to a cut;
a variable that reaches the cut starts again from there, because a geometric variable has no memory.

*Discrete Gaussian*: a block of integers, a place in it, and an acceptance. P(k) ∝ exp(-k²/(2σ²)). The integers are cut
into blocks of 2^j, at most 64 to a σ. A block is drawn by lookup in proportion to its largest weight, a place in it
uniformly, and the place is accepted with the ratio of its own weight to that largest one, which is the exponential of a
rational number. Nearly always the first 16 digits of the acceptance settle it. Below σ = 64 a block is one integer and
nothing is ever rejected. Beyond a cut the two tails are drawn under a geometric envelope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.privacy.enclosure import WORD, exp_bounds, exp_powers, exp_squares, flip, flips
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


_BLOCKS: Final = 64
"""Blocks per σ at most: the acceptance then fails in about 1 % of the draws."""


@dataclass(frozen=True, eq=False)
class GaussianBlocks:
    """Blocks of 2^bits integers: block c holds c·2^bits … (c+1)·2^bits - 1, for -cut ≤ c < cut.

    `safe` holds the acceptance probability of each block's far end, rounded down to 16 bits, and 0
    for the two tails: those of blocks 0 … cut and then, found by counting from the end, -cut-1 … -1.
    """

    lead: Lookup
    cut: int
    bits: int
    rate: Fraction
    safe: NDArray[np.uint16]

    def in_tail(self, block: NDArray[np.int16]) -> Bools:
        """Tell which blocks stand for a tail."""
        tail: Bools = (block == self.cut) | (block == -self.cut - 1)
        return tail


@lru_cache(maxsize=64)
def gaussian_blocks(sigma2: Fraction, cut: int | None = None) -> GaussianBlocks:
    """Tabulate the blocks, each in proportion to its largest weight, up to a tail from `cut` on."""
    bits = 0
    while sigma2 > (_BLOCKS << bits) ** 2:
        bits += 1
    rate = 1 / (2 * sigma2)
    # exp(-x²/2) < 2⁻³⁰ at x² = 41.6: the tails are reached once in a billion draws.
    cut = cut or math.isqrt(math.ceil(sigma2 * Fraction(208, 5) / (1 << 2 * bits))) + 1
    lead = Lookup.build(_block_boundaries(rate, bits, cut), -cut - 1, tails=True)
    safe = [_safe(y, bits, 0, rate) for y in range(cut)] + [0, 0]
    safe += [_safe(y, bits, 1, rate) for y in reversed(range(cut))]
    return GaussianBlocks(lead, cut, bits, rate, np.minimum(safe, 0xFFFF).astype(np.uint16))


def _start(y: int, bits: int, negative: int) -> int:
    """Smallest absolute value in block y of the positive or of the negative side (which has no 0)."""
    return (y << bits) + negative


def _safe(y: int, bits: int, negative: int, rate: Fraction) -> int:
    """Bound from below the weight of a block's far end in terms of its near end's, in 16 bits."""
    if not bits:  # a block of one value
        return 1 << 16
    near, far = _start(y, bits, negative), _start(y + 1, bits, negative) - 1
    return exp_bounds((far * far - near * near) * rate, 16)[0]


def _block_boundaries(rate: Fraction, bits_per_block: int, cut: int) -> Boundaries:
    """Cumulative probabilities of the blocks and of the two tails' envelopes."""

    def envelope(low: int, high: int, negative: int, bits: int) -> tuple[int, int]:
        """Σ over y ≥ cut of weight(cut)·ratio^(y-cut), which is above weight(y) everywhere."""
        ratio = exp_bounds(_ratio(cut, bits_per_block, negative, rate), bits)
        one = 1 << bits
        return (low << bits) // (one - ratio[0]), -(-(high << bits) // (one - ratio[1]))

    def at(bits: int) -> list[tuple[int, int]]:
        work = bits + 32
        above, below = (exp_squares(rate, 1 << bits_per_block, negative, cut, work) for negative in (0, 1))
        weights = [
            envelope(*below[-1], 1, work),
            *reversed(below[:-1]),
            *above[:-1],
            envelope(*above[-1], 0, work),
        ]
        least, most = sum(low for low, _ in weights), sum(high for _, high in weights)
        enclosures = []
        low_sum = high_sum = 0
        for low, high in weights[:-1]:
            low_sum, high_sum = low_sum + low, high_sum + high
            enclosures.append(((low_sum << bits) // most, -(-(high_sum << bits) // least)))
        return enclosures

    return at


def _ratio(cut: int, bits: int, negative: int, rate: Fraction) -> Fraction:
    """-log of the envelope's ratio: that of the two first blocks of the tail."""
    return (_start(cut + 1, bits, negative) ** 2 - _start(cut, bits, negative) ** 2) * rate


def fill_gaussian(stream: Stream, blocks: GaussianBlocks, out: Ints) -> None:
    """Fill an array with draws."""
    block, rare = blocks.lead.draw(stream, out.size)
    out[:] = block
    rejected: list[np.intp] = []
    if blocks.bits:
        place = stream.words16(out.size) if blocks.bits <= 16 else stream.words32(out.size)
        place &= place.dtype.type((1 << blocks.bits) - 1)
        out <<= blocks.bits
        out |= place
        digits = stream.words16(out.size)
        unsure = np.flatnonzero(digits >= blocks.safe.take(block))
        unsure = unsure[~blocks.in_tail(block[unsure])]
        accepted = _accept(stream, blocks, block[unsure], out[unsure], digits[unsure])
        rejected.extend(unsure[~accepted])
    for i in rare[blocks.in_tail(block[rare])]:
        value = _draw_tail(stream, blocks, negative=int(block[i] < 0))
        if value is None:
            rejected.append(i)
        else:
            out[i] = value
    if rejected:
        again = np.empty(len(rejected), np.int64)
        fill_gaussian(stream, blocks, again)
        out[rejected] = again


def _accept(
    stream: Stream, blocks: GaussianBlocks, block: NDArray[np.int16], value: Ints, digits: NDArray[np.uint16]
) -> Bools:
    """Accept a value with the probability that its weight has in terms of its block's largest."""
    size = np.abs(value)
    start = np.where(block < 0, ~block, block).astype(np.int64) << blocks.bits
    start += block < 0
    prefix = digits.astype(np.uint64) << np.uint64(WORD - 16) | stream.words64(digits.size) >> np.uint64(16)
    return flips(stream, (size - start) * (size + start), blocks.rate, prefix)


def _draw_tail(stream: Stream, blocks: GaussianBlocks, negative: int) -> int | None:
    """Draw from a tail's geometric envelope; None where the proposal is rejected."""
    ratio = _ratio(blocks.cut, blocks.bits, negative, blocks.rate)
    beyond = 0
    while flip(stream, ratio):
        beyond += 1
    size = _start(blocks.cut + beyond, blocks.bits, negative) + stream.bits(blocks.bits)
    start = _start(blocks.cut, blocks.bits, negative)
    if not flip(stream, (size * size - start * start) * blocks.rate - beyond * ratio):
        return None
    return min(_INT64, size) * (-1 if negative else 1)
