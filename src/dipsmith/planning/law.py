"""The law of a synthetic label count in one leaf: noise on the count, then drawing.

A leaf has n authentic records, c = n·p0 of them with a label. Its count gets noise E, the noisy share is
p = clip((c + E)/n, 0, 1), and m records are labelled with it: X | p ~ Bin(m, p). Hence

    P(X = k) = P(E ≤ −c)·1[k = 0] + P(E ≥ n − c)·1[k = m] + ∫ Bin(k; m, p) dP(p),

the Laplace–binomial law of the synthetic data project of Duke University (2018), whose printed formula is
the joint law of X and p; the integral over p is what gives the distribution of X. E is Laplace with scale
1/λ, λ = ε/Δ (that report's law), the discrete Laplace that is really drawn (then c = round(n·p0)), or a
discrete Gaussian with standard deviation 1/λ (for budgets in ρ).

Evaluated to about 1e-12: the integral is cut at the kink p0 into panels that are short against the noise
and against the width of the binomial, and on each panel a Gauss rule of 16 points is exact for
polynomials of degree 31, also for sums over consecutive integers (Gauss–Gram rules: the orthogonal
polynomials of a uniform grid, Szegő 1975, section 2.8; nodes by Golub and Welsch 1969).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Final, Literal, get_args

import numpy as np
import scipy

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.privacy.noise import DiscreteGaussian

NoiseLaw = Literal["continuous", "discrete", "gaussian"]

POINTS: Final = 16
"""Nodes of a panel."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(POINTS)
"""The Gauss–Legendre rule on (−1, 1)."""

FARTHEST: Final = 45.0
"""Noise beyond so many scales has probability below 1e-19 and counts as the farthest."""

PANEL: Final = 4.0
"""The longest panel, in standard deviations of the binomial: 16 points resolve it to rounding error."""

LARGEST: Final = 5_000_000
"""Records for which the law is evaluated; beyond, the normal approximation has no visible error."""


@dataclass(frozen=True)
class LeafLaw:
    """What decides a label's synthetic count in a leaf, but for the amount of noise.

    >>> law = LeafLaw(p0=0.0, n=1000, m=1000)
    >>> round(float(law.counts([0.3])[0, 0]), 4)     # no synthetic record has the label
    0.6153
    """

    p0: float  # the authentic share of the label
    n: int  # authentic records in the leaf
    m: int  # synthetic records that are labelled from it
    noise: NoiseLaw = "continuous"  # Laplace; or "discrete" Laplace, or discrete "gaussian"

    def __post_init__(self) -> None:
        if not 0 <= self.p0 <= 1:
            raise UsageError(f"p0 is {self.p0}, expected a share between 0 and 1")
        for name, value in (("n", self.n), ("m", self.m)):
            if isinstance(value, bool) or not 1 <= value <= LARGEST:
                raise UsageError(f"{name} is {value}, expected whole records, 1 to {LARGEST:,}")
        if self.noise not in get_args(NoiseLaw):
            raise UsageError(f"the law is '{self.noise}', expected one of: {', '.join(get_args(NoiseLaw))}")

    @property
    def centre(self) -> float:
        """The authentic count of the label; whole where noise is."""
        return self.n * self.p0 if self.noise == "continuous" else float(round(self.n * self.p0))

    def counts(self, lams: Floats | list[float]) -> Floats:
        """P(X = k) for k = 0 … m: one row for each λ."""
        rates = np.atleast_1d(np.asarray(lams, dtype=np.float64))
        if not (np.isfinite(rates).all() and (rates > 0).all()):
            raise UsageError("lam must be a finite number above 0: it is ε divided by the sensitivity")
        law = np.zeros((len(rates), self.m + 1))
        factorials = scipy.special.gammaln(np.arange(self.m + 1) + 1)
        choose = factorials[-1] - factorials - factorials[::-1]
        middle = np.zeros_like(rates) if self.noise == "continuous" else self._density(rates, np.zeros(1))[:, 0]
        if 0 < self.centre < self.n:
            self._mix(law, choose, np.array([self.centre / self.n]), middle[:, None])
        else:
            law[:, 0 if self.centre == 0 else self.m] += middle
        for sign, room in ((-1.0, self.centre), (1.0, self.n - self.centre)):
            left = (1.0 - middle) / 2
            for away, weights in self._panels(sign, room, rates):
                self._mix(law, choose, (self.centre + sign * away) / self.n, weights)
                left -= weights.sum(axis=1)
            law[:, 0 if sign < 0 else self.m] += np.maximum(left, 0.0)
        return law

    def _density(self, rates: Floats, away: Floats) -> Floats:
        """Density or probability of noise of that size, λ × sizes."""
        if self.noise == "gaussian":
            laws = [DiscreteGaussian(1 / Fraction(float(r)) ** 2) for r in rates]
            return np.stack([law.pmf(away) for law in laws])
        height = rates / 2 if self.noise == "continuous" else np.tanh(rates / 2)
        return np.asarray(height[:, None] * np.exp(-rates[:, None] * away))

    def _panels(self, sign: float, room: float, rates: Floats) -> list[tuple[Floats, Floats]]:
        """Distances from the centre and their weights, panel by panel, as far as noise reaches inside (0, 1)."""
        whole = self.noise != "continuous"
        reach = min(room, FARTHEST / float(rates.min()) + 1)
        step, start = 2.0 / float(rates.max()), 1.0 if whole else 0.0
        stop = min(reach, room - 1) + 1 if whole else reach  # the farthest count inside, plus one
        panels = []
        while start < stop:
            p = min(max((self.centre + sign * start) / self.n, 0.0), 1.0)
            wide = self.n * PANEL * max(sqrt(p * (1 - p) / self.m), 1.0 / self.m)
            end = min(start + min(max(step, start), wide), stop)
            if whole:
                count = max(int(end - start), 1)
                nodes, weights = summation_rule(count)
                away, end = start + nodes, start + count
            else:
                away, weights = start + (end - start) * (_NODES + 1) / 2, (end - start) * _WEIGHTS / 2
            panels.append((away, self._density(rates, away) * weights))
            start = end
        return panels

    def _mix(self, law: Floats, choose: Floats, p: Floats, weights: Floats) -> None:
        """Add the binomials with the shares `p`, each with its weight, where they are not negligible."""
        m, p = self.m, np.clip(p, 1e-300, 1 - 2.0**-53)
        low, high = float(p.min()), float(p.max())
        first = max(0, int(m * low - 9 * sqrt(m * low * (1 - low)) - 30))
        last = min(m, int(m * high + 9 * sqrt(m * high * (1 - high)) + 30))
        k = np.arange(first, last + 1)
        logs = choose[first : last + 1] + np.multiply.outer(np.log(p), k) + np.multiply.outer(np.log1p(-p), m - k)
        law[:, first : last + 1] += weights @ np.exp(logs)


@lru_cache(maxsize=4096)
def summation_rule(count: int) -> tuple[Floats, Floats]:
    """Nodes in [0, count − 1] and weights such that Σ w·f(x) = f(0) + … + f(count − 1) for degree ≤ 31.

    >>> x, w = summation_rule(1000)
    >>> len(x), round(float(w @ x**3)) == sum(j**3 for j in range(1000))
    (16, True)
    """
    if count <= POINTS:
        return np.arange(count, dtype=np.float64), np.ones(count)
    k = np.arange(1, POINTS, dtype=np.float64)
    off = np.sqrt(k**2 * (count**2 - k**2) / (4 * (4 * k**2 - 1)))
    nodes, vectors = scipy.linalg.eigh_tridiagonal(np.zeros(POINTS), off)
    return nodes + (count - 1) / 2, count * vectors[0] ** 2
