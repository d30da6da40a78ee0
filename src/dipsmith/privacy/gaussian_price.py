"""Gaussian prices: what a step costs in ρ, so that it tells no more than normal noise of that ρ.

A step is *Gaussian* with ρ if every test between two neighbouring tables errs at least as much on its answer as the
best test does between N(0, 1) and N(μ, 1), μ² = 2ρ. Such steps add up in ρ, also where a later one is chosen by
earlier answers, as long as the total is fixed beforehand (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023).
Three kinds are priced here; ``docs/proofs/accounting.md`` proves each:

- *discrete Gaussian counts*: integers are told apart a little better than normal values of the same variance, by one
  part in 12σ². A sixth of a count added to the variance makes up for it;
- *a choice* whose log-probabilities move within an interval of length ε, as the exponential mechanism's do: at most
  πε²/16;
- *anything ε-DP*: at most πε²/4, and at most 4ε.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal

Pricing = Literal["zcdp", "gaussian"]
"""What ρ meant when a run was charged: zero-concentrated DP (until version 0.1), or Gaussian DP, which implies it."""

PI: Final = Fraction(355, 113)
"""A little more than π."""


def variance_needed(normal: Fraction) -> Fraction:
    """The σ² of discrete Gaussian noise that hides integers at least as well as normal noise of variance `normal`.

    >>> [str(variance_needed(Fraction(v))) for v in ("1000", "1/2", "1/4", "1/12")]
    ['6000000/5999', '3/4', '2/3', '1/3']
    """
    if normal >= Fraction(1, 3):
        return 6 * normal**2 / (6 * normal - 1)
    return min(Fraction(2, 3), 4 * normal)


def range_price(epsilon: Fraction) -> Fraction:
    """What a choice costs whose log-probabilities move within an interval of length ε: (μ = √(2π)·ε/4)²/2."""
    return PI * epsilon**2 / 16


def pure_price(epsilon: Fraction) -> Fraction:
    """What an ε-DP step costs; in tests it is at most as good as one answer with the odds e^ε."""
    return min(PI * epsilon**2 / 4, 4 * epsilon)
