"""Bounds on exp(-x), and coins that are exact to the last of however many digits."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dipsmith.privacy.enclosure import _exp_floats, exp_bounds, exp_powers, exp_squares, flip, flips
from dipsmith.privacy.randomness import Stream


class Scripted(Stream):
    """A stream whose uniform number is given: 64-bit words, most significant first."""

    def __init__(self, digits: int, width: int) -> None:
        super().__init__()
        self.words = [digits >> shift & (1 << 64) - 1 for shift in range(width - 64, -1, -64)]

    def bits(self, k: int) -> int:
        assert k == 64
        return self.words.pop(0)

    def words64(self, n: int) -> np.ndarray:
        return np.array([self.words.pop(0) for _ in range(n)], np.uint64)


def digits_of_exp(x: Fraction, bits: int) -> int:
    """floor(exp(-x)·2^bits), by decimal arithmetic."""
    with localcontext(Context(prec=bits // 3 + 60)):
        return int((-Decimal(x.numerator) / x.denominator).exp() * 2**bits)


rationals = st.fractions(min_value=0, max_value=200, max_denominator=10**12)


@settings(deadline=None)
@given(x=rationals, bits=st.integers(1, 400))
def test_bounds_enclose_exp(x: Fraction, bits: int):
    low, high = exp_bounds(x, bits)
    true = digits_of_exp(x, bits)
    assert low <= true
    assert high >= true + (x > 0)
    assert high - low <= 2


@settings(deadline=None, max_examples=25)
@given(rate=st.fractions(min_value=Fraction(1, 10**9), max_value=20, max_denominator=10**12), bits=st.integers(1, 200))
def test_bounds_of_powers_enclose_them(rate: Fraction, bits: int):
    most = 60
    for j, (low, high) in enumerate(exp_powers(rate, most, bits)):
        true = digits_of_exp(j * rate, bits)
        assert low <= true
        assert high >= true + (j > 0)
        assert high - low <= 2


@settings(deadline=None, max_examples=25)
@given(
    rate=st.fractions(min_value=Fraction(1, 10**9), max_value=3, max_denominator=10**12),
    step=st.sampled_from([1, 2, 256]),
    start=st.integers(0, 1),
    bits=st.integers(1, 200),
)
def test_bounds_of_squares_enclose_them(rate: Fraction, step: int, start: int, bits: int):
    for j, (low, high) in enumerate(exp_squares(rate, step, start, 40, bits)):
        x = (step * j + start) ** 2 * rate
        true = digits_of_exp(min(x, Fraction(10**4)), bits)
        assert low <= true
        assert high >= true + (x > 0)
        assert high - low <= 2


def test_bounds_of_many_powers_stay_narrow():
    """As many as the table of a leading digit has."""
    far = exp_powers(Fraction(1, 40), 832, 96)[-1]
    assert far[0] <= digits_of_exp(Fraction(832, 40), 96) < far[1] <= far[0] + 2


@pytest.mark.parametrize("x", [Fraction(10**9), Fraction(10**30), Fraction(1, 10**30), Fraction(1, 2**70)])
def test_bounds_of_extreme_arguments(x: Fraction):
    low, high = exp_bounds(x, 128)
    assert low <= digits_of_exp(min(x, Fraction(10**6)), 128) <= high
    assert high - low <= 2


def test_float_estimates_keep_their_promise():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 38, 3000), 10.0 ** rng.uniform(-12, 1.5, 1000), [0.0, 38.0]])
    estimates = _exp_floats(x)
    with localcontext(Context(prec=40)):
        for value, estimate in zip(x.tolist(), estimates.tolist(), strict=True):
            true = (-Decimal(value)).exp()
            assert abs(Decimal(estimate) / true - 1) < Decimal(2) ** -42


@pytest.mark.parametrize(
    "x", [Fraction(1, 3), Fraction(2), Fraction(1, 10**6), Fraction(113, 7), Fraction(37), Fraction(50)]
)
@pytest.mark.parametrize("depth", [64, 128, 192, 320])
def test_the_coin_turns_exactly_at_exp(x: Fraction, depth: int):
    # U agrees with exp(-x) on all but its last digits, so every earlier word is a tie.
    threshold = digits_of_exp(x, depth)
    for offset, expected in ((-1, True), (1, False)):
        if threshold + offset < 0:
            continue
        one = Scripted(threshold + offset, depth)
        assert flip(one, x) is expected
        assert not one.words  # all words were needed
        many = Scripted(threshold + offset, depth)
        step = np.array([x.numerator])
        assert flips(many, step, Fraction(1, x.denominator)).tolist() == [expected]
        assert not many.words


def test_coins_that_are_certain():
    # The largest and the smallest 64 digits a uniform number can have.
    top, bottom = Scripted((1 << 64) - 1, 64), Scripted(1, 64)
    assert flips(top, np.array([0]), Fraction(1, 7)).tolist() == [True]
    assert flips(bottom, np.array([10**18]), Fraction(10**300)).tolist() == [False]
    assert flips(Stream(), np.array([0, 1]), Fraction(10**5000)).tolist() == [True, False]
    assert flip(Stream(), Fraction(0))


@pytest.mark.parametrize("x", [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(5)])
def test_frequency_of_heads(x: Fraction):
    # n = 1e6 in bulk and 2e4 one by one; exact binomial test, FPR 1e-7 each.
    p = float(np.exp(-float(x)))
    stream = Stream.for_testing(str(x))
    heads = int(flips(stream, np.full(1_000_000, x.numerator), Fraction(1, x.denominator)).sum())
    assert stats.binomtest(heads, 1_000_000, p).pvalue > 1e-7
    heads = sum(flip(stream, x) for _ in range(20_000))
    assert stats.binomtest(heads, 20_000, p).pvalue > 1e-7


def test_heads_follow_each_coins_own_probability():
    # n = 1e6 coins over 100 probabilities, χ² with 100 degrees of freedom, FPR 1e-7.
    steps = np.tile(np.arange(1, 101), 10_000)
    heads = flips(Stream.for_testing(5), steps, Fraction(1, 20)).reshape(-1, 100).sum(axis=0)
    p = np.exp(-np.arange(1, 101) / 20)
    statistic = ((heads - 10_000 * p) ** 2 / (10_000 * p * (1 - p))).sum()
    assert stats.chi2.sf(statistic, 100) > 1e-7
