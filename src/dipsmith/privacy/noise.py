"""Noise: exact discrete Laplace and discrete Gaussian integers.

Both laws live on the integers and are sampled exactly: every decision is certain by integer
bounds on irrational probabilities (`laplace` and `gaussian` say how), so the guarantee that the
proofs give to the ideal law is the guarantee of the numbers released, and the floating-point attack
(Mironov 2012) has nothing to hold on to.

*Discrete Laplace*, P(k) ∝ exp(-abs(k)/scale), scale = Δ/ε: pure ε-DP for integers of sensitivity Δ
(Ghosh, Roughgarden and Sundararajan 2009). *Discrete Gaussian*, P(k) ∝ exp(-k²/(2σ²)):
Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020).

Drawing takes time that depends on the values drawn; no duration is ever reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.privacy.draws import fill_gaussian, fill_laplace, gaussian_blocks, laplace_tables
from dipsmith.privacy.randomness import Stream

_CHUNK: Final = 1 << 17
"""Draws at a time: the working arrays stay in the processor's cache."""

_WIDEST_SCALE: Final = Fraction(1 << 50)
_WIDEST_SIGMA2: Final = Fraction(1 << 60)


@dataclass(frozen=True)
class DiscreteLaplace:
    """The law P(k) = (1-q)/(1+q)·q^abs(k) on the integers, q = exp(-1/scale).

    Values beyond ±(2⁶³-1) are clipped, which is post-processing; the scale is at most 2⁵⁰, so that
    this happens with probability below exp(-2¹²). The scale is Δ/ε.

    >>> round(DiscreteLaplace(Fraction(1)).variance, 4)  # continuous Laplace: 2
    1.8413
    """

    scale: Fraction
    name: ClassVar[Literal["discrete Laplace"]] = "discrete Laplace"

    def __post_init__(self) -> None:
        _require("scale", self.scale, _WIDEST_SCALE)

    @property
    def variance(self) -> float:
        """Return 2q/(1-q)²."""
        x = 1 / self.scale
        if x > 700:
            return 0.0 if x > 744 else 2 * math.exp(-float(x))
        return 2 * math.exp(-float(x)) / math.expm1(-float(x)) ** 2

    def pmf(self, k: ArrayLike) -> Floats:
        """Return the probability of each integer."""
        x = float(1 / self.scale)
        return np.asarray(math.tanh(x / 2) * np.exp(-np.abs(np.asarray(k, np.float64)) * x))

    def sample(self, stream: Stream, n: int | tuple[int, ...]) -> Ints:
        """Draw an array of the given shape.

        Privacy
        -------
        Reads no data. Added to integers whose neighbours differ by at most Δ in the sum of absolute
        values, scale = Δ/ε gives ε-DP.
        """
        tables = laplace_tables(self.scale)
        noise = _fill(n, lambda piece: fill_laplace(stream, tables, piece))
        return noise if stream.observer is None else stream.observer.on_noise(self, noise)


@dataclass(frozen=True)
class DiscreteGaussian:
    """The law P(k) ∝ exp(-k²/(2·sigma2)) on the integers.

    Values beyond ±(2⁶³-1) are clipped, which is post-processing; sigma2 is at most 2⁶⁰, so that this
    happens with probability below exp(-2⁶⁵). sigma2 is σ² = Δ₂²/(2ρ); the variance is never larger.

    >>> round(DiscreteGaussian(Fraction(1, 4)).variance, 4)
    0.215
    """

    sigma2: Fraction
    name: ClassVar[Literal["discrete Gaussian"]] = "discrete Gaussian"

    def __post_init__(self) -> None:
        _require("sigma2", self.sigma2, _WIDEST_SIGMA2)

    @property
    def variance(self) -> float:
        """Return Σk²·P(k)."""
        if self.sigma2 > 25:  # Poisson summation: the difference is below exp(-2π²σ²)·σ⁴·8π²
            return float(self.sigma2)
        k = np.arange(-80, 81)
        return float(np.sum(k * k * self.pmf(k)))

    def pmf(self, k: ArrayLike) -> Floats:
        """Return the probability of each integer."""
        rate = float(1 / (2 * self.sigma2))
        if self.sigma2 > 25:
            total = math.sqrt(math.pi / rate)
        else:
            total = float(np.sum(np.exp(-(np.arange(-80.0, 81.0) ** 2) * rate)))
        return np.asarray(np.exp(-(np.asarray(k, np.float64) ** 2) * rate) / total)

    def sample(self, stream: Stream, n: int | tuple[int, ...]) -> Ints:
        """Draw an array of the given shape.

        Privacy
        -------
        Reads no data. Added to integers whose neighbours differ by at most Δ₂ in Euclidean length,
        sigma2 = Δ₂²/(2ρ) gives ρ-zCDP; `gaussian_price.variance_needed` says what is Gaussian with ρ.
        """
        blocks = gaussian_blocks(self.sigma2)
        noise = _fill(n, lambda piece: fill_gaussian(stream, blocks, piece))
        return noise if stream.observer is None else stream.observer.on_noise(self, noise)


NoiseLaw = DiscreteLaplace | DiscreteGaussian


def noisy_blocks(
    noise: NoiseLaw, stream: Stream, indices: Ints, counts: Ints, size: int, threshold: int, block: int = 1 << 20
) -> tuple[Ints, Ints]:
    """Noise a large, mostly empty table and keep the cells that exceed a public threshold.

    Every one of the `size` cells gets its own noise, empty or not, and is kept if its noisy count
    is greater than the threshold: whether a cell was occupied decides nothing by itself. Memory is
    bounded by the block and by what is kept.

    `indices` are the occupied cells, rising, and `counts` their counts. The threshold is public: chosen without looking at the
    counts. Gives the kept cells, rising, and their noisy counts.

    Privacy
    -------
    Reads the counts. The full noisy table costs what the noise costs; thresholding it is
    post-processing.
    """
    if indices.shape != counts.shape or indices.ndim != 1:
        raise UsageError("occupied cells and their counts must be two lists of the same length")
    if indices.size and (indices[0] < 0 or indices[-1] >= size or np.any(np.diff(indices) <= 0)):
        raise UsageError("occupied cells must be distinct, in rising order and inside the table")
    cells: list[Ints] = []
    values: list[Ints] = []
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


def _fill(shape: int | tuple[int, ...], fill: Callable[[Ints], None]) -> Ints:
    """Make an array and fill it in place, piece by piece."""
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        fill(flat[start : start + _CHUNK])
    return out
