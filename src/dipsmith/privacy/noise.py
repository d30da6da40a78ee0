"""Noise: exact discrete Laplace and discrete Gaussian integers.

Both laws live on the integers and are sampled exactly: every decision is certain by integer
bounds on irrational probabilities (`enclosure`, `lookup`), so the guarantee that the proofs give to
the ideal law is the guarantee of the numbers released, and the floating-point attack (Mironov
2012) has nothing to hold on to.

*Discrete Laplace*, P(k) ∝ exp(-abs(k)/scale), scale = Δ/ε: pure ε-DP for integers of sensitivity Δ
(Ghosh, Roughgarden and Sundararajan 2009). *Discrete Gaussian*, P(k) ∝ exp(-k²/(2σ²)):
Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020, theorem 4).

How they are drawn (proofs in ``docs/proofs/noise.md``): a value of the discrete Laplace is a sign and a
geometric variable; the digits of a geometric variable in any base are independent, so a large scale
takes one lookup for sign and leading digit and one for each further digit. A value of the
discrete Gaussian is a block of 2^j integers, drawn by lookup in proportion to its largest weight,
a uniform place within it, and an acceptance that nearly always succeeds on its first 16 bits.

Drawing takes time that depends on the values drawn; no duration is ever reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dipsmith.errors import UsageError
from dipsmith.privacy.enclosure import WORD, exp_bounds, flip, flips
from dipsmith.privacy.lookup import Boundaries, Lookup
from dipsmith.privacy.randomness import Stream

_CHUNK: Final = 1 << 16
"""Draws at a time: the working arrays stay in the processor's cache."""

_WIDEST_SCALE: Final = Fraction(1 << 50)
_WIDEST_SIGMA2: Final = Fraction(1 << 60)
_INT64: Final = (1 << 63) - 1

_COARSE: Final = 40
"""Largest scale of the leading digit (1 % open buckets)."""

_DIGIT: Final = 8
"""Bits per further digit (0.4 % open buckets)."""

_BLOCKS: Final = 64
"""Blocks per σ at most: the acceptance then fails in about 1 % of the draws."""


class Noise(Protocol):
    """An integer law that noise can be drawn from."""

    @property
    def variance(self) -> float:
        """Return the variance."""

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of integers."""

    def sample(self, stream: Stream, n: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw an array of the given shape."""


@dataclass(frozen=True)
class DiscreteLaplace:
    """The law P(k) = (1-q)/(1+q)·q^abs(k) on the integers, q = exp(-1/scale).

    Values beyond ±(2⁶³-1) are clipped, which is post-processing; the scale is at most 2⁵⁰, so that
    this happens with probability below exp(-2¹²).

    Attributes
    ----------
    scale : Fraction
        Δ/ε.

    Examples
    --------
    >>> DiscreteLaplace(Fraction(1)).variance  # continuous Laplace: 2
    1.8413...
    """

    scale: Fraction

    def __post_init__(self) -> None:
        _require("scale", self.scale, _WIDEST_SCALE)

    @property
    def variance(self) -> float:
        """Return 2q/(1-q)²."""
        x = 1 / self.scale
        if x > 700:
            return 0.0 if x > 744 else 2 * math.exp(-float(x))
        return 2 * math.exp(-float(x)) / math.expm1(-float(x)) ** 2

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each integer."""
        x = float(1 / self.scale)
        return np.asarray(math.tanh(x / 2) * np.exp(-np.abs(np.asarray(k, np.float64)) * x))

    def sample(self, stream: Stream, n: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw an array of the given shape.

        Privacy
        -------
        Reads no data. Added to integers whose neighbours differ by at most Δ in the sum of absolute
        values, scale = Δ/ε gives ε-DP.
        """
        tables = _laplace_tables(self.scale, None)
        return _filled(n, lambda size: _draw_laplace(stream, tables, size))


@dataclass(frozen=True)
class DiscreteGaussian:
    """The law P(k) ∝ exp(-k²/(2·sigma2)) on the integers.

    Values beyond ±(2⁶³-1) are clipped, which is post-processing; sigma2 is at most 2⁶⁰, so that this
    happens with probability below exp(-2⁶⁵).

    Attributes
    ----------
    sigma2 : Fraction
        σ² = Δ₂²/(2ρ). The variance is never larger.

    Examples
    --------
    >>> DiscreteGaussian(Fraction(1, 4)).variance
    0.21...
    """

    sigma2: Fraction

    def __post_init__(self) -> None:
        _require("sigma2", self.sigma2, _WIDEST_SIGMA2)

    @property
    def variance(self) -> float:
        """Return Σk²·P(k)."""
        if self.sigma2 > 25:  # Poisson summation: the difference is below exp(-2π²σ²)·σ⁴·8π²
            return float(self.sigma2)
        k = np.arange(-80, 81)
        return float(np.sum(k * k * self.pmf(k)))

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each integer."""
        rate = float(1 / (2 * self.sigma2))
        if self.sigma2 > 25:
            total = math.sqrt(math.pi / rate)
        else:
            total = float(np.sum(np.exp(-(np.arange(-80.0, 81.0) ** 2) * rate)))
        return np.asarray(np.exp(-(np.asarray(k, np.float64) ** 2) * rate) / total)

    def sample(self, stream: Stream, n: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Draw an array of the given shape.

        Privacy
        -------
        Reads no data. Added to integers whose neighbours differ by at most Δ₂ in Euclidean length,
        sigma2 = Δ₂²/(2ρ) gives ρ-zCDP.
        """
        blocks = _gaussian_blocks(self.sigma2, None)
        return _filled(n, lambda size: _draw_gaussian(stream, blocks, size))


def noisy_blocks(
    noise: Noise,
    stream: Stream,
    indices: NDArray[np.int64],
    counts: NDArray[np.int64],
    size: int,
    threshold: int,
    block: int = 1 << 20,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Noise a large, mostly empty table and keep the cells that exceed a public threshold.

    Every one of the `size` cells gets its own noise, empty or not, and is kept if its noisy count
    is greater than the threshold: whether a cell was occupied decides nothing by itself. Memory is
    bounded by the block and by what is kept.

    Parameters
    ----------
    noise : Noise
    stream : Stream
    indices : array of int64
        The occupied cells, rising.
    counts : array of int64
        Their counts.
    size : int
        Cells in the table.
    threshold : int
        Public; chosen without looking at the counts.
    block : int
        Cells drawn at a time.

    Returns
    -------
    indices, values : arrays of int64
        The kept cells, rising, and their noisy counts.

    Privacy
    -------
    Reads the counts. The full noisy table costs what the noise costs; thresholding it is
    post-processing.
    """
    if indices.shape != counts.shape or indices.ndim != 1:
        raise UsageError("occupied cells and their counts must be two lists of the same length")
    if indices.size and (indices[0] < 0 or indices[-1] >= size or np.any(np.diff(indices) <= 0)):
        raise UsageError("occupied cells must be distinct, in rising order and inside the table")
    cells: list[NDArray[np.int64]] = []
    values: list[NDArray[np.int64]] = []
    for start in range(0, size, block):
        stop = min(size, start + block)
        noisy = noise.sample(stream, stop - start)
        here = slice(*np.searchsorted(indices, [start, stop]))
        noisy[indices[here] - start] += counts[here]
        kept = np.flatnonzero(noisy > threshold)
        cells.append(kept + start)
        values.append(noisy[kept])
    if not cells:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(cells), np.concatenate(values)


def _require(name: str, value: object, widest: Fraction) -> None:
    if not isinstance(value, Fraction):
        raise UsageError(f"{name} must be a Fraction, got {type(value).__name__}: floats are not exact")
    if not 0 < value <= widest:
        raise UsageError(f"{name} must be positive and at most 2^{int(widest).bit_length() - 1}, got {value}")


class _Chunk(Protocol):
    def __call__(self, size: int, /) -> NDArray[np.int64]: ...


def _filled(shape: int | tuple[int, ...], draw: _Chunk) -> NDArray[np.int64]:
    """Fill an array piece by piece."""
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        piece = flat[start : start + _CHUNK]
        piece[:] = draw(piece.size)
    return out


# --- Discrete Laplace -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _LaplaceTables:
    """X = Y or -1-Y, Y = lead·2^(bits of all digits) + digits, with independent digits."""

    lead: Lookup
    cut: int
    digits: tuple[tuple[Lookup, int], ...]
    bits: int


@lru_cache(maxsize=64)
def _laplace_tables(scale: Fraction, cut: int | None) -> _LaplaceTables:
    """Tabulate sign and leading digit (up to `cut`, beyond which a tail begins) and further digits."""
    bits = max(0, math.ceil(scale / _COARSE) - 1).bit_length()
    lead_scale = scale / (1 << bits)
    # exp(-20.8) < 2⁻³⁰: the tail is reached once in a billion draws.
    cut = cut or max(1, math.ceil(lead_scale * Fraction(104, 5)))
    lead = Lookup.build(_lead_boundaries(scale, 1 / lead_scale, cut), -cut - 1, tails=True)
    digits = []
    for shift in range(0, bits, _DIGIT):
        width = min(_DIGIT, bits - shift)
        table = Lookup.build(_digit_boundaries((1 << shift) / scale, 1 << width), 0, tails=False)
        digits.append((table, shift))
    return _LaplaceTables(lead, cut, tuple(digits), bits)


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
        powers = [exp_bounds(j * rate, bits) for j in range(cut + 1)]
        below = [(negative[0] * a >> bits, (negative[1] * b >> bits) + 1) for a, b in reversed(powers)]
        above = [
            (one - (positive[1] * b >> bits) - 1, one - (positive[0] * a >> bits)) for a, b in powers[1:]
        ]
        return below + above

    return at


def _digit_boundaries(rate: Fraction, width: int) -> Boundaries:
    """Cumulative probabilities of a digit r in 0 … width-1 with P(r) ∝ exp(-rate·r)."""
    # 1 - exp(-rate·width) is about rate·width: as many digits again are lost in the division.
    lost = max(0, math.ceil(1 / rate).bit_length()) + 8

    def at(bits: int) -> list[tuple[int, int]]:
        work = bits + lost
        one = 1 << work
        powers = [exp_bounds(j * rate, work) for j in range(1, width + 1)]
        least, most = one - powers[-1][1], one - powers[-1][0]
        return [((one - high << bits) // most, -(-(one - low << bits) // least)) for low, high in powers[:-1]]

    return at


def _draw_laplace(stream: Stream, tables: _LaplaceTables, n: int) -> NDArray[np.int64]:
    drawn = _draw_lead(stream, tables, n)
    if not tables.digits:
        return drawn
    places = np.zeros(n, np.int64)
    for table, shift in tables.digits:
        places |= table.draw(stream, n)[0].astype(np.int64) << shift
    # -1 - (lead·m + places) = (-1 - lead)·m + (m - 1 - places), and for m = 2^bits the last is a xor.
    places ^= (drawn >> 63) & ((1 << tables.bits) - 1)
    drawn <<= tables.bits
    drawn |= places
    return drawn


def _draw_lead(stream: Stream, tables: _LaplaceTables, n: int) -> NDArray[np.int64]:
    """Draw sign and leading digit: a for a positive value, -1-a for a negative one."""
    drawn, rare = tables.lead.draw(stream, n)
    lead = drawn.astype(np.int64)
    cut = tables.cut
    far = rare[(drawn[rare] == cut) | (drawn[rare] == -cut - 1)]
    if far.size:
        # A geometric variable that has reached the cut starts again from there.
        again = _draw_lead(stream, tables, far.size)
        reached = np.minimum(cut + np.where(again < 0, ~again, again), _INT64 >> tables.bits)
        lead[far] = np.where(lead[far] < 0, ~reached, reached)
    return lead


# --- Discrete Gaussian ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _GaussianBlocks:
    """Blocks of 2^bits integers: block c holds c·2^bits … (c+1)·2^bits - 1, for -cut ≤ c < cut.

    `safe` holds, for the blocks -cut-1 … cut, the acceptance probability of the block's far end,
    rounded down to 16 bits, and 0 for the two tails.
    """

    lead: Lookup
    cut: int
    bits: int
    rate: Fraction
    safe: NDArray[np.uint16]


@lru_cache(maxsize=64)
def _gaussian_blocks(sigma2: Fraction, cut: int | None) -> _GaussianBlocks:
    """Tabulate the blocks, each in proportion to its largest weight, up to a tail from `cut` on."""
    bits = 0
    while sigma2 > (_BLOCKS << bits) ** 2:
        bits += 1
    rate = 1 / (2 * sigma2)
    # exp(-x²/2) < 2⁻³⁰ at x² = 41.6: the tails are reached once in a billion draws.
    cut = cut or math.isqrt(math.ceil(sigma2 * Fraction(208, 5) / (1 << 2 * bits))) + 1
    lead = Lookup.build(_block_boundaries(rate, bits, cut), -cut - 1, tails=True)
    ends = [(_start(y, bits, sign), _start(y + 1, bits, sign) - 1) for sign in (1, 0) for y in range(cut)]
    safe = [exp_bounds((far * far - near * near) * rate, 16)[0] for near, far in ends]
    ordered = [0, *reversed(safe[:cut]), *safe[cut:], 0]
    return _GaussianBlocks(lead, cut, bits, rate, np.minimum(ordered, 0xFFFF).astype(np.uint16))


def _start(y: int, bits: int, negative: int) -> int:
    """Smallest absolute value in block y of the positive or of the negative side (which has no 0)."""
    return (y << bits) + negative


def _block_boundaries(rate: Fraction, bits_per_block: int, cut: int) -> Boundaries:
    """Cumulative probabilities of the blocks and of the two tails' envelopes."""

    def weight(y: int, negative: int, bits: int) -> tuple[int, int]:
        return exp_bounds(_start(y, bits_per_block, negative) ** 2 * rate, bits)

    def envelope(negative: int, bits: int) -> tuple[int, int]:
        """Σ over y ≥ cut of weight(cut)·ratio^(y-cut), which is above weight(y) everywhere."""
        low, high = weight(cut, negative, bits)
        ratio = exp_bounds(_ratio(cut, bits_per_block, negative, rate), bits)
        one = 1 << bits
        return (low << bits) // (one - ratio[0]), -(-(high << bits) // (one - ratio[1]))

    def at(bits: int) -> list[tuple[int, int]]:
        work = bits + 32
        weights = [
            envelope(1, work),
            *(weight(y, 1, work) for y in reversed(range(cut))),
            *(weight(y, 0, work) for y in range(cut)),
            envelope(0, work),
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


def _draw_gaussian(stream: Stream, blocks: _GaussianBlocks, n: int) -> NDArray[np.int64]:
    drawn, rare = blocks.lead.draw(stream, n)
    value = drawn.astype(np.int64)
    cut = blocks.cut
    far = rare[(drawn[rare] == cut) | (drawn[rare] == -cut - 1)]
    refused = []
    for i in far:
        tail = _draw_tail(stream, blocks, negative=int(value[i] < 0))
        if tail is None:
            refused.append(i)
            tail = 0
        value[i] = tail
    rejected = np.array(refused, np.intp)
    if blocks.bits:
        kept = np.ones(n, np.bool_)
        kept[far] = False
        words = stream.words16(n) if blocks.bits <= 16 else stream.words32(n)
        places = words & words.dtype.type((1 << blocks.bits) - 1)
        placed = (drawn.astype(np.int64) << blocks.bits) | places
        digits = stream.words16(n)
        unsure = np.flatnonzero((digits >= blocks.safe.take(drawn + np.int16(cut + 1))) & kept)
        value = np.where(kept, placed, value)
        ok = _accept(stream, blocks, drawn[unsure], placed[unsure], digits[unsure])
        rejected = np.concatenate([rejected, unsure[~ok]])
    if rejected.size:
        value[rejected] = _draw_gaussian(stream, blocks, rejected.size)
    return value


def _accept(
    stream: Stream,
    blocks: _GaussianBlocks,
    block: NDArray[np.int16],
    value: NDArray[np.int64],
    digits: NDArray[np.uint16],
) -> NDArray[np.bool_]:
    """Accept a value with the probability that its weight has in terms of its block's largest."""
    size = np.abs(value)
    start = np.where(block < 0, ~block, block).astype(np.int64) << blocks.bits
    start += block < 0
    prefix = digits.astype(np.uint64) << np.uint64(WORD - 16) | stream.words64(digits.size) >> np.uint64(16)
    return flips(stream, (size - start) * (size + start), blocks.rate, prefix)


def _draw_tail(stream: Stream, blocks: _GaussianBlocks, negative: int) -> int | None:
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
