"""The exact privacy profile of Gaussian noise: how (ε, δ) and ρ go over into each other without loss.

One normal variable with standard deviation 1 that moves by μ has the profile (Balle and Wang 2018, Theorem 8)

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ),

and whatever loses no more than it, for every test, is *Gaussian* with ρ = μ²/2 (Dong, Roth and Su 2022). All that
dipsmith does for a ρ is (``docs/proofs/accounting.md``), so that ρ and δ give exactly this ε, and no smaller one.

Tails of the normal law are enclosed in 60-digit arithmetic: by its alternating series near 0, elsewhere by
consecutive convergents of Laplace's continued fraction, which lie on either side. So what is promised is on the safe
side; a search in floating point only proposes where to look.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

_DIGITS = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_TINY = Decimal("1e-45")
_ROOT_TAU = Decimal("2.50662827463100050241576528481104525300698674060993831662993")
"""√(2π)."""

_NEAR = Decimal(3)
"""Up to here the series converges without losing more than four digits."""


def least_delta(epsilon: Fraction, rho: Fraction) -> tuple[Decimal, Decimal]:
    """Bounds on the δ at which a Gaussian ρ implies ε.

    >>> low, high = least_delta(Fraction(1), Fraction("0.016556"))
    >>> 0.99e-9 < low <= high < 1.01e-9
    True
    """
    with localcontext(_DIGITS):
        e = _decimal(epsilon)
        shift = (2 * _decimal(rho)).sqrt()
        near, far = e / shift - shift / 2, e / shift + shift / 2
        (near_low, near_high), (far_low, far_high) = _tail(near), _tail(far)
        growth = e.exp()
        # Rounding of the arguments moves a tail by far less than this, in proportion.
        slack = near_high * Decimal("1e-40")
        return near_low - growth * far_high - slack, near_high - growth * far_low + slack


def _tail(x: Decimal) -> tuple[Decimal, Decimal]:
    """Bounds on the probability that a standard normal variable exceeds x."""
    if abs(x) <= _NEAR:
        middle = Decimal("0.5") - _area(x)
        return middle * (1 - _TINY), middle * (1 + _TINY)
    low, high = _far_tail(abs(x))
    return (low, high) if x > 0 else (1 - high, 1 - low)


def _area(x: Decimal) -> Decimal:
    """The probability between 0 and x, by Σ (−1)ⁿ x^(2n+1) / (2ⁿ n! (2n+1)) / √(2π)."""
    power, total, n = x, x, 0
    while abs(power) > Decimal("1e-58"):
        n += 1
        power = -power * x * x / (2 * n)
        total += power / (2 * n + 1)
    return total / _ROOT_TAU


def _far_tail(x: Decimal) -> tuple[Decimal, Decimal]:
    """Consecutive convergents of φ(x) / (x + 1/(x + 2/(x + 3/(x + …)))), which lie on either side of the tail."""
    top, bottom, last_top, last_bottom = Decimal(1), x, Decimal(0), Decimal(1)
    n, one, other = 0, Decimal(0), top / bottom
    while abs(one - other) > _TINY * other:
        n += 1
        top, last_top = x * top + n * last_top, top
        bottom, last_bottom = x * bottom + n * last_bottom, bottom
        one, other = other, top / bottom
    density = (-x * x / 2).exp() / _ROOT_TAU
    return density * min(one, other) * (1 - _TINY), density * max(one, other) * (1 + _TINY)


@lru_cache(maxsize=256)
def largest_rho(epsilon: Fraction, delta: Fraction, unit: int) -> int:
    """The largest ρ, in whole parts of 1/`unit`, whose Gaussian noise implies (ε, δ); 0 where there is none.

    >>> largest_rho(Fraction(1), Fraction("1e-9"), 10**6)
    16557
    """
    target = _decimal_below(delta)

    def allowed(parts: int) -> bool:
        return parts == 0 or least_delta(epsilon, Fraction(parts, unit))[1] <= target

    guess = _root(lambda log_rho: _log_delta(float(epsilon), math.exp(log_rho)) - math.log(delta), -60.0, 25.0)
    return _last_true(allowed, int(math.exp(guess) * unit))


@lru_cache(maxsize=256)
def smallest_epsilon(rho: Fraction, delta: Fraction) -> float:
    """The smallest ε, rounded up, that Gaussian noise of this ρ implies with δ.

    >>> 0.999 < smallest_epsilon(Fraction("0.016556"), Fraction("1e-9")) < 1
    True
    """
    target = _decimal_below(delta)
    if least_delta(Fraction(0), rho)[1] <= target:
        return 0.0
    guess = _root(lambda log_e: math.log(delta) - _log_delta(math.exp(log_e), float(rho)), -60.0, 25.0)
    grid = 2.0 ** (math.frexp(math.exp(guess))[1] - 50)

    def too_small(parts: int) -> bool:
        return parts == 0 or least_delta(Fraction(parts) * Fraction(grid), rho)[1] > target

    return (_last_true(too_small, int(math.exp(guess) / grid)) + 1) * grid


def _last_true(holds: Callable[[int], bool], guess: int) -> int:
    """The largest number for which `holds`, which is true at 0 and false from some number on; near a guess."""
    low, high, step = max(guess, 0), max(guess, 0) + 1, 1
    while not holds(low):
        low, high, step = max(low - step, 0), low, 2 * step
    while step == 1 and holds(high):
        low, high = high, 2 * high - max(guess, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _log_delta(epsilon: float, rho: float) -> float:
    """Log δ in floating point: where to look."""
    shift = math.sqrt(2 * rho)
    first = _log_tail(epsilon / shift - shift / 2)
    gap = epsilon + _log_tail(epsilon / shift + shift / 2) - first
    return first + (math.log(-math.expm1(gap)) if gap < 0 else -math.inf)


def _log_tail(x: float) -> float:
    if x < 30:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    return -x * x / 2 - math.log(x * math.sqrt(2 * math.pi)) + math.log1p(-1 / (x * x))


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) <= 0 else (low, middle)
    return low


def _decimal(exact: Fraction) -> Decimal:
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def _decimal_below(exact: Fraction) -> Decimal:
    """The number rounded down in its 60th digit, whatever decimal context the caller works in."""
    with localcontext(_DIGITS) as digits:
        digits.rounding = ROUND_FLOOR
        return _decimal(exact)


def concentrated_to_approx(rho: float, delta: float) -> float:
    """An ε, rounded up in its tenth digit, such that ρ-zCDP implies (ε, δ)-differential privacy.

    For runs that were charged until version 0.1. By Canonne, Kamath and Steinke 2020, Proposition 12, for every α > 1
    δ = exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α: the search for the best α may be approximate.

    >>> concentrated_to_approx(0.01498, 1e-9) > 1 > concentrated_to_approx(0.01496, 1e-9)
    True
    """

    def epsilon(t: float) -> float:
        """ε at the order α = 1 + exp(t)."""
        log_order = math.log1p(math.exp(t))
        return (1 + math.exp(t)) * rho + t - log_order + (-math.log(delta) - log_order) / math.exp(t)

    # log δ is convex in α, hence ε(α) at fixed δ has one valley.
    low, high, ratio = -40.0, 40.0, (math.sqrt(5) - 1) / 2
    for _ in range(90):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if epsilon(a) <= epsilon(b) else (a, high)
    return max(epsilon((low + high) / 2) * (1 + 1e-10), 0.0)
