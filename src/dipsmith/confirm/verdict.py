"""From noisy numbers to a verdict, by exact sums: what a poll tells of the share of parts in which a claim holds.

A part's vote is "yes" with an unknown probability r. Before anything is known every r is as likely as any other, Beta(1, 1);
then the number of yeses S among M parts is uniform on 0 … M, and given S, r is Beta(S + 1, M − S + 1). The noise has a
known law p, so that given the noisy number s̃ the number S has weights p(s̃ − S), and r is a mixture of Beta laws:

    P(r > ½ | s̃) = Σ_S p(s̃ − S) · P(Beta(S + 1, M − S + 1) > ½) / Σ_S p(s̃ − S).

With three answers the shares (below, within, above) are Dirichlet(1, 1, 1) at first, and the claim is that neither end has
a majority.

A verdict also has to be a test: on the threshold itself, r = ½, the noisy number must be as extreme with probability .05
at most, by the exact law of Binomial(M, ½) plus noise. The posterior alone is sure there in up to .06 of polls. An interval
is confirmed when both of its ends pass (an intersection–union test), and contradicted when one fails at half the level.
Everything is post-processing of the noisy numbers (Barrientos, Bolton, Balmat, Reiter et al. 2018, Annals of
Applied Statistics 12; the sums over S replace their sampling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.privacy.noise import DiscreteLaplace, NoiseLaw

Verdict = Literal["confirmed", "contradicted", "cannot tell", "shown"]
"""A picture without a claim is shown."""

SURE: Final = 0.95
"""A verdict needs at least this posterior probability."""
LEVEL: Final = 0.95
LARGE: Final = 2000.0
"""From this standard deviation on, noise is treated as continuous."""

Numbers = NDArray[np.floating[Any]]

GRID: Final = (np.arange(200) + 0.5) / 200
"""Where densities are computed."""


def verdict_of(sure: float) -> Verdict:
    """The verdict on a claim that holds with this probability."""
    return "confirmed" if sure > SURE else "contradicted" if sure < 1 - SURE else "cannot tell"


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the share of parts in which the claim holds.

    `probability` that the claim holds for most parts; `interval` of the share, at `LEVEL`; and the verdict. For a picture:
    densities of a share before and after, at `grid`: of the parts in which the claim holds, or with three answers of those
    below and those above the interval.
    """

    probability: float
    verdict: Verdict
    interval: tuple[float, float]
    grid: Floats
    prior: Floats
    densities: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Judgement:
    """For some noisy numbers: the probability of the claim, and which of them confirm or contradict it."""

    probability: Floats
    confirmed: Bools
    contradicted: Bools

    @property
    def verdict(self) -> Verdict:
        """Of a single one."""
        if bool(self.confirmed.all()):
            return "confirmed"
        return "contradicted" if bool(self.contradicted.all()) else "cannot tell"


def judge(noisy: Ints, parts: int, law: NoiseLaw) -> Judgement:
    """Judge noisy numbers of yeses."""
    yes = np.arange(parts + 1)
    sure = np.asarray(_weights(noisy, parts, law) @ majority(yes, parts - yes))
    confirmed = (sure > SURE) & (tail_at_half(noisy, parts, law) <= 1 - SURE)
    contradicted = (sure < 1 - SURE) & (tail_at_half(parts - noisy, parts, law) <= 1 - SURE)
    return Judgement(sure, confirmed, contradicted)


def judge_ends(below: Ints, above: Ints, parts: int, law: NoiseLaw) -> Judgement:
    """Judge every pair of noisy numbers of parts below and parts above an interval."""
    number = np.arange(parts + 1)
    possible = (number[:, None] + number[None, :] <= parts).astype(np.float64)
    end = majority(number, parts - number + 1)
    first, second = _weights(below, parts, law), _weights(above, parts, law)
    told = np.maximum(first @ possible @ second.T, 1e-300)
    # No two of three shares can both exceed one half.
    lost = (first @ (possible * (end[:, None] + end[None, :])) @ second.T) / told
    sure = np.clip(1 - lost, 0.0, 1.0)
    inside = [tail_at_half(parts - n, parts, law) <= 1 - SURE for n in (below, above)]
    outside = [tail_at_half(n, parts, law) <= (1 - SURE) / 2 for n in (below, above)]
    confirmed = (sure > SURE) & inside[0][:, None] & inside[1][None, :]
    contradicted = (sure < 1 - SURE) & (outside[0][:, None] | outside[1][None, :])
    return Judgement(sure, confirmed, contradicted)


def posterior(noisy: Sequence[int], parts: int, law: NoiseLaw) -> Posterior:
    """The posterior of a poll, from its one noisy number (of yeses) or two (of parts below and above)."""
    if len(noisy) == 1:
        return _posterior_of_yes(int(noisy[0]), parts, law)
    return _posterior_of_ends(int(noisy[0]), int(noisy[1]), parts, law)


def _posterior_of_yes(noisy: int, parts: int, law: NoiseLaw) -> Posterior:
    one = np.array([noisy])
    found, weights = judge(one, parts, law), _weights(one, parts, law)[0]
    density = _density(weights, parts, 1.0)
    return Posterior(
        float(found.probability[0]), found.verdict, _interval(weights, parts, 1.0), GRID, np.ones(len(GRID)), (density,)
    )


def _posterior_of_ends(below: int, above: int, parts: int, law: NoiseLaw) -> Posterior:
    first, second = np.array([below]), np.array([above])
    weights = np.outer(_weights(first, parts, law)[0], _weights(second, parts, law)[0])
    number = np.arange(parts + 1)
    outer = number[:, None] + number[None, :]
    weights = np.where(outer <= parts, weights, 0.0) / np.where(outer <= parts, weights, 0.0).sum()
    within: Numbers = np.bincount(np.maximum(parts - outer, 0).ravel(), weights.ravel(), parts + 1).astype(np.float64)
    found = judge_ends(first, second, parts, law)
    ends = (_density(weights.sum(axis=1), parts, 2.0), _density(weights.sum(axis=0), parts, 2.0))
    sure, interval = float(found.probability[0, 0]), _interval(within, parts, 2.0)
    return Posterior(sure, found.verdict, interval, GRID, 2 * (1 - GRID), ends)


def tail_at_half(noisy: Ints, parts: int, law: NoiseLaw) -> Floats:
    """P(Binomial(parts, ½) + noise ≥ noisy): how often so large a number occurs where half of the parts agree."""
    yes = np.arange(parts + 1)
    # Imported here: it is slow to import, and pages that only list answers do not need it.
    from scipy.stats import binom

    return np.asarray(upper_tail(law, noisy[:, None] - yes[None, :]) @ binom.pmf(yes, parts, 0.5))


def upper_tail(law: NoiseLaw, k: Ints) -> Floats:
    """P(noise ≥ k)."""
    if isinstance(law, DiscreteLaplace):
        rate = float(1 / law.scale)
        above = np.exp(-rate * np.maximum(k, 0)) / (1 + np.exp(-rate))
        below = 1 - np.exp(-rate * np.maximum(1 - k, 0)) / (1 + np.exp(-rate))
        return np.asarray(np.where(k > 0, above, below))
    sigma = float(law.sigma2) ** 0.5
    if sigma > LARGE:  # the discrete law is the continuous one, cut at halves
        return np.asarray(scipy.special.ndtr((0.5 - k) / sigma))
    far = int(40 * sigma) + 40
    tails = np.append(np.cumsum(law.pmf(np.arange(-far, far + 1))[::-1])[::-1], 0.0)
    return np.asarray(np.minimum(tails[np.clip(k + far, 0, 2 * far + 1)], 1.0))


def majority(yes: Ints, no: Ints) -> Floats:
    """P(Beta(yes + 1, no + 1) > ½)."""
    return np.asarray(1.0 - scipy.special.betainc(yes + 1.0, no + 1.0, 0.5))


def _weights(noisy: Ints, parts: int, law: NoiseLaw) -> Floats:
    """The weight of every number of answers 0 … parts, given each noisy number."""
    found = law.pmf(noisy[:, None] - np.arange(parts + 1)[None, :])
    near = law.pmf(np.clip(noisy, 0, parts)[:, None] - np.arange(parts + 1)[None, :])
    # So far out that the law is 0 in floating point, it decides as at the nearest end.
    found = np.where(found.sum(axis=1, keepdims=True) > 0, found, near)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _density(weights: Numbers, parts: int, others: float) -> Floats:
    """The density of a mixture of Beta(s + 1, parts − s + others), averaged over small steps."""
    s = np.arange(parts + 1)
    steps = np.linspace(0.0, 1.0, len(GRID) + 1)
    cumulative = [float(weights @ scipy.special.betainc(s + 1.0, parts - s + others, x)) for x in steps]
    return np.asarray(np.diff(cumulative) * len(GRID))


def _interval(weights: Numbers, parts: int, others: float) -> tuple[float, float]:
    s = np.arange(parts + 1)
    found = []
    for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            below = float(weights @ scipy.special.betainc(s + 1.0, parts - s + others, middle)) < q
            low, high = (middle, high) if below else (low, middle)
        found.append((low + high) / 2)
    return found[0], found[1]


def in_three_digits(probability: float) -> str:
    """A probability in three digits that is never rounded to certainty.

    >>> in_three_digits(0.99999), in_three_digits(0.9812), in_three_digits(0.00001)
    ('above .999', '.981', 'below .001')
    """
    if probability > 0.9995:
        return "above .999"
    return "below .001" if probability < 0.0005 else f"{probability:.3f}"[1:]
