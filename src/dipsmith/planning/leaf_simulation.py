"""Simulated leaves: what the exact law leaves out.

`LeafLaw` is about one label of one leaf. By simulation: several labels whose noisy counts are projected
on the leaf's public size, and leaves that are estimated together (`dipsmith.methods.forest.shrinkage`),
where the shares of a small leaf come mostly from its siblings. Nothing private is read: shares, sizes
and λ are assumptions of whoever plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.estimation.simplex import project_within
from dipsmith.planning.law import LeafLaw, NoiseLaw
from dipsmith.privacy.noise import DiscreteGaussian
from dipsmith.privacy.randomness import generator


@dataclass(frozen=True, eq=False)
class SimulatedLeaf:
    """Synthetic shares of the labels of a leaf, one row per repetition.

    >>> leaf = simulate_leaf([0.25, 0.75], lam=0.3, n=1000, draws=2000, seed=1)
    >>> leaf.shares.shape
    (2000, 2)
    """

    shares: Floats

    def interval(self, label: int = 0, level: float = 0.9) -> tuple[float, float]:
        """The empirical quantiles of a label's synthetic share."""
        lo, hi = np.quantile(self.shares[:, label], [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
        return float(lo), float(hi)

    @property
    def mean(self) -> Floats:
        """The mean share of every label."""
        return np.asarray(self.shares.mean(axis=0))

    @property
    def sd(self) -> Floats:
        """The standard deviation of every label's share."""
        return np.asarray(self.shares.std(axis=0))


def simulate_label(
    p0: float,
    lam: float,
    n: int,
    *,
    m: int | None = None,
    noise: NoiseLaw = "continuous",
    draws: int = 10_000,
    seed: int | None = None,
) -> SimulatedLeaf:
    """One label by itself, as in `LeafLaw`: noise on its count, clipped to the leaf, then drawing."""
    law = LeafLaw(p0, n, n if m is None else m, noise)
    _check(lam, draws)
    rng = generator(seed)
    p = np.clip((law.centre + _noise(noise, lam, (draws,), rng)) / n, 0.0, 1.0)
    return SimulatedLeaf((rng.binomial(law.m, p) / law.m)[:, None])


def simulate_leaf(
    p: Sequence[float],
    lam: float,
    n: int,
    *,
    m: int | None = None,
    noise: NoiseLaw = "discrete",
    public_size: bool = True,
    draws: int = 10_000,
    seed: int | None = None,
) -> SimulatedLeaf:
    """Several labels: noise on every count, projected to counts that can be, then drawing.

    `p` are the authentic shares of the labels, `lam` is ε/Δ of the noise on every count. With `public_size` (neighbours
    `label`) the leaf's size is public: counts are projected on it, and of two labels one count is noised.
    """
    shares = np.asarray(p, dtype=np.float64)
    if shares.ndim != 1 or len(shares) < 2 or shares.min() < 0 or abs(shares.sum() - 1) > 1e-6:
        raise UsageError("shares of labels must be at least two numbers from 0 that add up to 1")
    _check(lam, draws)
    drawn = LeafLaw(0.0, n, n if m is None else m, noise).m
    rng = generator(seed)
    counts = _counts(shares / shares.sum(), n)
    if public_size and len(shares) == 2:
        one = _noise(noise, lam, (draws,), rng)
        noisy = counts + np.stack([-one, one], axis=1)
    else:
        noisy = counts + _noise(noise, lam, (draws, len(shares)), rng)
    if public_size:
        family = np.repeat(np.arange(draws), len(shares))
        fitted = project_within(noisy.ravel(), family, np.full(draws, float(n))).reshape(noisy.shape)
    else:
        fitted = np.maximum(noisy, 0.0)
        fitted[fitted.sum(axis=1) <= 0] = 1.0
    return SimulatedLeaf(rng.multinomial(drawn, fitted / fitted.sum(axis=1, keepdims=True)) / drawn)


def _noise(law: NoiseLaw, lam: float, shape: tuple[int, ...], rng: Generator) -> Floats:
    if law == "continuous":
        return rng.laplace(0.0, 1 / lam, shape)
    if law == "discrete":
        stop = -np.expm1(-lam)
        return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(np.float64)
    widest = int(12 / lam) + 12
    k = np.arange(-widest, widest + 1)
    chance = DiscreteGaussian(1 / Fraction(lam) ** 2).pmf(k)
    return rng.choice(k.astype(np.float64), shape, p=chance / chance.sum())


def _counts(shares: Floats, n: int) -> Floats:
    """Whole counts nearest to the shares, by largest remainders."""
    counts = np.floor(n * shares + 1e-9)
    order = np.argsort(-(n * shares - counts), kind="stable")
    counts[order[: n - int(counts.sum())]] += 1
    return counts


def _check(lam: float, draws: int) -> None:
    if not (0 < lam < float("inf")):
        raise UsageError(f"lam is {lam}, expected a finite number above 0")
    if not 1 <= draws <= 10_000_000:
        raise UsageError(f"draws is {draws}, expected 1 to 10,000,000 repetitions")
