"""Noise: exact discrete Laplace and discrete Gaussian integers.

Both laws live on the integers and are sampled exactly: every decision is certain by integer
bounds on irrational probabilities (`enclosure`, `lookup`), so the guarantee that the proofs give to
the ideal law is the guarantee of the numbers released, and the floating-point attack (Mironov
2012) has nothing to hold on to.

*Discrete Laplace*, P(k) ∝ exp(-abs(k)/scale), scale = Δ/ε: pure ε-DP for integers of sensitivity Δ
(Ghosh, Roughgarden and Sundararajan 2009). *Discrete Gaussian*, P(k) ∝ exp(-k²/(2σ²)):
Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020).

How they are drawn (proofs in ``docs/proofs/noise.md``): a value of the discrete Laplace is a sign and a
geometric variable; the digits of a geometric variable in any base are independent, so a large scale
takes one lookup for sign and leading digit and one for each further digit. A value of the
discrete Gaussian is a block of 2^j integers, drawn by lookup in proportion to its largest weight,
a uniform place within it, and an acceptance that nearly always succeeds on its first 16 bits.

Drawing takes time that depends on the values drawn; no duration is ever reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

_CHUNK: Final = 1 << 17
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
        return _filled(n, lambda piece: _fill_laplace(stream, tables, piece))


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
        return _filled(n, lambda piece: _fill_gaussian(stream, blocks, piece))


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


def _filled(shape: int | tuple[int, ...], fill: Callable[[NDArray[np.int64]], None]) -> NDArray[np.int64]:
    """Make an array and fill it in place, piece by piece."""
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        fill(flat[start : start + _CHUNK])
    return out


# --- Discrete Laplace -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _LaplaceTables:
    """X = Y or -1-Y, where Y has a leading digit and then `digits`, each with its width in bits."""

    lead: Lookup
    cut: int
    digits: tuple[tuple[Lookup, int], ...]


@lru_cache(maxsize=64)
def _laplace_tables(scale: Fraction, cut: int | None) -> _LaplaceTables:
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
    return _LaplaceTables(lead, cut, tuple(digits))


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


def _fill_laplace(stream: Stream, tables: _LaplaceTables, out: NDArray[np.int64]) -> None:
    sign = _fill_lead(stream, tables, out)
    for table, width in tables.digits:
        digit = table.draw(stream, out.size)[0]
        # -1 - (lead·m + digit) = (-1 - lead)·m + (m - 1 - digit); for m = 2^width the last is a xor.
        digit ^= sign & np.int16((1 << width) - 1)
        out <<= width
        out |= digit


def _fill_lead(stream: Stream, tables: _LaplaceTables, out: NDArray[np.int64]) -> NDArray[np.int16]:
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


# --- Discrete Gaussian ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _GaussianBlocks:
    """Blocks of 2^bits integers: block c holds c·2^bits … (c+1)·2^bits - 1, for -cut ≤ c < cut.

    `safe` holds the acceptance probability of each block's far end, rounded down to 16 bits, and 0
    for the two tails: those of blocks 0 … cut and then, found by counting from the end, -cut-1 … -1.
    """

    lead: Lookup
    cut: int
    bits: int
    rate: Fraction
    safe: NDArray[np.uint16]

    def in_tail(self, block: NDArray[np.int16]) -> NDArray[np.bool_]:
        tail: NDArray[np.bool_] = (block == self.cut) | (block == -self.cut - 1)
        return tail


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
    safe = [_safe(y, bits, 0, rate) for y in range(cut)] + [0, 0]
    safe += [_safe(y, bits, 1, rate) for y in reversed(range(cut))]
    return _GaussianBlocks(lead, cut, bits, rate, np.minimum(safe, 0xFFFF).astype(np.uint16))


def _start(y: int, bits: int, negative: int) -> int:
    """Smallest absolute value in block y of the positive or of the negative side (which has no 0)."""
    return (y << bits) + negative


def _safe(y: int, bits: int, negative: int, rate: Fraction) -> int:
    """Bound from below the weight of a block's far end in terms of its near end's, in 16 bits."""
    near, far = _start(y, bits, negative), _start(y + 1, bits, negative) - 1
    return exp_bounds((far * far - near * near) * rate, 16)[0]


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


def _fill_gaussian(stream: Stream, blocks: _GaussianBlocks, out: NDArray[np.int64]) -> None:
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
        _fill_gaussian(stream, blocks, again)
        out[rejected] = again


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
