"""Enclosures of exp(-x), and decisions that are certain because of them.

A probability such as exp(-1/3) is irrational: no float holds it. It is known here through integer
bounds at any precision, and a uniform real number through as many of its binary digits as a
comparison needs. ``U < exp(-x)`` is decided as soon as the digits drawn so far put U wholly on
one side of the enclosure; otherwise more digits are drawn and the enclosure is tightened. The
decision is then exactly Bernoulli(exp(-x)): rounding never enters. (exp(-x) is irrational for
rational x ≠ 0, so the comparison ends; it takes a third word of digits with probability 2⁻¹²⁰.)

The same idea with thousands of comparisons at once: `flips` first looks at 53 digits and a
float estimate whose error is bounded by IEEE-754 arithmetic alone (`_exp_floats`), which settles
all but one comparison in 2³⁶, and hands the rest to the integers.

The exact-sampling viewpoint is that of Canonne, Kamath and Steinke, "The Discrete Gaussian for
Differential Privacy" (2020), whose Bernoulli(exp(-γ)) needs only Bernoulli of
rationals; enclosures reach the same law and let a whole array share the fast path.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.privacy.randomness import Stream

WORD: Final = 64
"""Binary digits drawn at a time."""

_FAR: Final = 38.0
"""From here on exp(-x) < 2⁻⁵³: heads only if the first 53 digits are all 0, and then not surely."""

_MARGIN: Final = 2.0**-38
"""Relative error allowed to `_exp_floats`, whose docstring proves it to be below 2⁻⁴²."""


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Enclose exp(-x)·2^bits between two integers, for x ≥ 0.

    The Taylor series of exp(-x/2^t) in fixed point, with every rounding directed outwards, then t
    squarings. The two integers differ by 1 or 2 (1 when the value is below one unit).

    >>> exp_bounds(Fraction(0), 10)
    (1024, 1024)
    >>> exp_bounds(Fraction(1), 10)  # 376.7…
    (376, 377)
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # exp(-x) < 2^-x
        return 0, 1
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1) + 8
    # Each squaring doubles the relative error, and about 32 roundings start it.
    work = bits + halvings + 16
    below = (x.numerator << work) // (x.denominator << halvings)
    above = below + 1
    low = high = low_term = high_term = 1 << work
    order = 0
    while high_term > 1:
        order += 1
        low_term = (low_term * below >> work) // order
        high_term = (high_term * above >> work) // order + 1
        if order % 2:
            low, high = low - high_term, high - low_term
        else:
            low, high = low + low_term, high + high_term
    # The series alternates and its terms fall: what is left out is less than the last term.
    low, high = low - high_term, high + high_term
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    shift = work - bits
    return low >> shift, -(-high >> shift)


def exp_powers(rate: Fraction, most: int, bits: int) -> list[tuple[int, int]]:
    """Enclose exp(-j·rate)·2^bits as `exp_bounds` does, for j = 0 … most: each is the one before times the first.

    >>> exp_powers(Fraction(1), 2, 10)  # 376.7…, 138.5…
    [(1024, 1024), (376, 377), (138, 139)]
    """
    # A product adds its own rounding and those of the first to what it had: fewer than four units a step.
    shift = most.bit_length() + 3
    first_low, first_high = exp_bounds(rate, bits + shift)
    low = high = 1 << bits + shift
    found = []
    for _ in range(most + 1):
        found.append((low >> shift, -(-high >> shift)))
        low, high = low * first_low >> bits + shift, (high * first_high >> bits + shift) + 1
    return found


def exp_squares(rate: Fraction, step: int, start: int, most: int, bits: int) -> list[tuple[int, int]]:
    """Enclose exp(-(step·j + start)²·rate)·2^bits as `exp_bounds` does, for j = 0 … most, by products.

    One is the one before times exp(-(step² + 2·step·(step·j + start))·rate), and so is each of these factors a product.

    >>> exp_squares(Fraction(1), 1, 0, 2, 10)  # 376.7…, 18.7…
    [(1024, 1024), (376, 377), (18, 19)]
    """
    # Errors of the factors add up as in `exp_powers`, and each product adds its factor's and one rounding.
    shift = 2 * most.bit_length() + 4
    work = bits + shift
    low, high = exp_bounds(start * start * rate, work)
    low_factor, high_factor = exp_bounds((step * step + 2 * step * start) * rate, work)
    low_ratio, high_ratio = exp_bounds(2 * step * step * rate, work)
    found = []
    for _ in range(most + 1):
        found.append((low >> shift, -(-high >> shift)))
        low, high = low * low_factor >> work, (high * high_factor >> work) + 1
        low_factor, high_factor = low_factor * low_ratio >> work, (high_factor * high_ratio >> work) + 1
    return found


def settle(stream: Stream, prefix: int, decide: Callable[[int, int], int | None]) -> int:
    """Draw further binary digits of a uniform number, after a prefix of 64, until `decide` can tell.

    It is given (u, bits), where U lies in [u, u+1)/2^bits: the decision, or None while it is open.
    """
    bits = WORD
    while (answer := decide(prefix, bits)) is None:
        prefix = prefix << WORD | stream.bits(WORD)
        bits += WORD
    return answer


def flip(stream: Stream, x: Fraction, prefix: int | None = None) -> bool:
    """Draw Bernoulli(exp(-x)) exactly, for rational x ≥ 0; `prefix` are 64 digits that were already drawn."""
    if x == 0:
        return True

    def decide(u: int, bits: int) -> int | None:
        low, high = exp_bounds(x, bits)
        if u < low:
            return True
        return False if u >= high else None

    return bool(settle(stream, stream.bits(WORD) if prefix is None else prefix, decide))


def flips(stream: Stream, steps: Ints, rate: Fraction, prefix: NDArray[np.uint64] | None = None) -> Bools:
    """Draw Bernoulli(exp(-rate·steps)) exactly, for arrays of steps ≥ 0; `prefix` are digits that were already drawn.

    >>> flips(Stream(), np.array([0, 10**9]), Fraction(1)).tolist()
    [True, False]
    """
    words = stream.words64(steps.size) if prefix is None else prefix
    # A rate beyond 2⁹⁰⁰ would overflow; at 2⁹⁰⁰ only steps = 0 is still undecided.
    x = steps.astype(np.float64) * float(min(rate, Fraction(1 << 900)))
    near = np.flatnonzero(x < _FAR)
    estimate = np.zeros(x.size)
    estimate[near] = _exp_floats(x[near])
    digits = (words >> np.uint64(WORD - 53)).astype(np.float64)  # exact: 53 digits fit
    scaled = estimate * 2.0**53
    accepted = digits + 1 <= scaled * (1 - _MARGIN)
    open_ = ~accepted & (digits < scaled * (1 + _MARGIN) + 2.0**-20)
    for i in np.flatnonzero(open_):
        accepted[i] = flip(stream, int(steps[i]) * rate, int(words[i]))
    return accepted


def _exp_floats(x: Floats) -> Floats:
    """Estimate exp(-x) within a relative error of 2⁻⁴², for 0 ≤ x ≤ 38.

    Only sums and products, which IEEE-754 rounds correctly (to within u = 2⁻⁵³), so the bound
    needs no trust in a library's exp. With y = x/64 < 0.6, the Taylor polynomial of degree 17 is cut
    with an error below 0.6¹⁸/18! < 2⁻⁶⁵. In Horner's rule t ← 1 - t·y/j all t lie in [0, 1], and an
    error e becomes at most (y/j)·e + 4u, so that it ends below 4u·exp(y) < 2⁻⁵⁰; relative to
    exp(-y) > 0.54 that is below 2⁻⁴⁹. Six squarings multiply a relative error by 64 and add 63u. The
    relative error 3u of x itself adds less than 120u. The sum is below 2⁻⁴³ + 2⁻⁴⁵ < 2⁻⁴².
    """
    y = x * 2.0**-6
    total = np.ones_like(y)
    for order in range(17, 0, -1):
        total = 1 - total * y * (1 / order)
    for _ in range(6):
        total = total * total
    return total
