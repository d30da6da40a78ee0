"""Budgets are exact, refuse nonsense, and convert to the safe side."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dipsmith.errors import BudgetError
from dipsmith.privacy.budget import (
    UNITS,
    ZCDP,
    PureDP,
    approx_to_rho,
    decimal_text,
    of_units,
    rho_to_approx,
)
from dipsmith.privacy.gaussian_profile import _tail, concentrated_to_approx

CURRENCIES = [PureDP, ZCDP]
units = st.integers(1, 10**16)


@pytest.mark.parametrize("budget", CURRENCIES)
@pytest.mark.parametrize(
    "amount",
    [
        0,
        -1,
        0.0,
        -0.0,
        -1e-9,
        math.nan,
        math.inf,
        -math.inf,
        "nan",
        "inf",
        "-0.5",
        "",
        "abc",
        "1/0",
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        Fraction(-1, 2),
        1e-13,
        5e-324,
        "1e-13",
        "1e-999999999",
        "1e999999999",
        Decimal("1E+999999"),
        10**10,
        1e300,
        True,
        None,
        [1],
        1 + 0j,
    ],
)
def test_nonsense_is_refused(budget, amount):
    with pytest.raises(BudgetError) as refusal:
        budget(amount)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("budget", CURRENCIES)
@pytest.mark.parametrize("units", [0, -1, 1.0, 0.5, True, "1", None, math.nan, 10**22])
def test_units_are_whole_and_above_zero(budget, units):
    with pytest.raises(BudgetError, match="whole units"):
        budget.of_units(units)


@pytest.mark.parametrize("budget", CURRENCIES)
def test_a_float_is_read_as_the_decimal_that_it_shows(budget):
    assert budget(0.1).exact == Fraction(1, 10)
    assert budget(np.float64(0.1)) == budget("0.1") == budget(Decimal("0.1")) == budget(Fraction(1, 10))
    assert budget(np.int64(3)) == budget(3)
    assert budget(0.1) + budget(0.2) == budget(0.3)
    assert budget("1/4") == budget(0.25)


@pytest.mark.parametrize("budget", CURRENCIES)
@pytest.mark.parametrize("amount", ["0.1234567890123", Decimal("1e-13") + 1, Fraction(1, 3), "1/3"])
def test_exact_input_beyond_12_decimals_is_refused_and_a_float_rounded_down(budget, amount):
    with pytest.raises(BudgetError, match="12 decimals"):
        budget(amount)
    assert budget(float(Fraction(amount))).exact <= Fraction(float(Fraction(amount)))


def test_trailing_zeros_are_not_decimals():
    assert PureDP("0.50000000000000000000") == PureDP(0.5)


@given(units)
@settings(deadline=None)
def test_text_and_repr_round_trip(n):
    for budget in (PureDP.of_units(n), ZCDP.of_units(n)):
        assert eval(repr(budget)) == budget
        assert type(budget)(decimal_text(n)).units == n
        assert of_units(budget.currency, n) == budget
        if n < 10**15:  # a float keeps fifteen digits
            assert type(budget)(float(budget.exact)).units == n


@given(units, st.integers(1, 50))
@settings(deadline=None)
def test_equal_parts_sum_exactly(n, parts):
    for budget in (PureDP.of_units(n), ZCDP.of_units(n)):
        if n < parts:
            with pytest.raises(BudgetError):
                budget.split(parts)
            continue
        split = budget.split(parts)
        assert sum(p.units for p in split) == n
        assert len({p.units for p in split[:-1]}) <= 1
        assert all(abs(p.units - n // parts) < parts for p in split)


@given(st.integers(10**6, 10**14), st.lists(st.integers(1, 1000) | st.floats(0.01, 100), min_size=1, max_size=20))
def test_weighted_parts_sum_exactly_and_are_in_proportion(n, weights):
    split = PureDP.of_units(n).split(weights)
    assert sum(p.units for p in split) == n
    total = sum(Fraction(repr(w)) for w in weights)
    for part, weight in zip(split, weights, strict=True):
        assert abs(part.units - n * Fraction(repr(weight)) / total) < len(weights)


@pytest.mark.parametrize("parts", [0, -1, True, [], [1, 0], [1, -1], [1, math.nan], ["x"]])
def test_impossible_splits_are_refused(parts):
    with pytest.raises(BudgetError):
        PureDP(1).split(parts)


@given(units, units)
@settings(deadline=None)
def test_arithmetic_and_order_follow_the_units(a, b):
    x, y = ZCDP.of_units(a), ZCDP.of_units(b)
    assert (x + y).units == a + b
    assert (x < y, x <= y, x > y, x >= y, x == y) == (a < b, a <= b, a > b, a >= b, a == b)
    if a > b:
        assert (x - y).units == a - b
    else:
        with pytest.raises(BudgetError):
            x - y


def test_currencies_do_not_mix():
    assert PureDP(1) != ZCDP(1)
    for mixed in (
        lambda: PureDP(1) + ZCDP(1),
        lambda: ZCDP(1) - PureDP("0.5"),
        lambda: PureDP(1) < ZCDP(2),
        lambda: PureDP(1) >= ZCDP(2),
        lambda: PureDP(1) + 1,
    ):
        with pytest.raises(BudgetError, match="currencies"):
            mixed()
    with pytest.raises(BudgetError):
        of_units("euro", 1)


def test_budgets_are_frozen_and_hashable():
    with pytest.raises(AttributeError):
        PureDP(1).units = 2
    assert len({PureDP(1), PureDP("1.0"), ZCDP(1)}) == 2


def test_display():
    assert str(PureDP(0.75)) == "ε = 0.75"
    assert str(ZCDP("0.0125")) == "ρ = 0.0125"
    assert str(ZCDP.from_approx(1, 1e-9)) == "ρ = 0.01656 (ε = 1, δ = 1e-09)"
    assert ZCDP.from_approx(1, 1e-9) == ZCDP.of_units(ZCDP.from_approx(1, 1e-9).units)
    assert ZCDP.from_approx(1, 1e-9).split(2)[0].stated is None


# --- ρ and (ε, δ) ---------------------------------------------------------------------------------


GRID = [(e, d) for e in (0.01, 0.1, 1, 3, 10, 50) for d in (1e-3, 1e-6, 1e-9, 1e-15, 1e-100)]


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_conversions_are_inverse_and_round_to_the_safe_side(epsilon, delta):
    rho = approx_to_rho(epsilon, delta)
    assert rho_to_approx(rho, delta) <= epsilon
    # One unit more would break the promise: the bound is the largest multiple of 1e-12.
    assert rho_to_approx(rho + Fraction(2, UNITS), delta) > epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(e, d) for e, d in GRID if d >= 1e-15])
def test_the_gaussian_mechanism_itself_keeps_the_promise(epsilon, delta):
    """The exact δ of the Gaussian mechanism (Balle and Wang 2018, Theorem 8) at the ρ that we allow."""
    rho = float(approx_to_rho(epsilon, delta))
    mu = math.sqrt(2 * rho)
    exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert exact == pytest.approx(delta, rel=1e-6 if epsilon > 0.05 else 1e-2)


def test_reference_values():
    assert round(float(approx_to_rho(1, 1e-9)), 5) == 0.01656
    assert round(float(approx_to_rho(1, 1e-5)), 5) == 0.03593
    # What zero-concentrated DP would allow: 10.6 and 17.6 % less.
    assert concentrated_to_approx(float(approx_to_rho(1, 1e-9)) / 1.106, 1e-9) == pytest.approx(1, abs=1e-3)
    assert concentrated_to_approx(float(approx_to_rho(1, 1e-5)) / 1.176, 1e-5) == pytest.approx(1, abs=1e-3)


@given(st.floats(-40, 40))
@settings(deadline=None)
def test_normal_tails_are_enclosed(x):
    low, high = _tail(Decimal(x))
    assert low <= high
    assert float(low) == pytest.approx(norm.sf(x), rel=1e-11)
    assert float((high - low) / high) < 1e-40


@pytest.mark.parametrize("delta", [0, 1, -1e-9, 2, math.nan, math.inf, "x", 1e-301, True])
def test_impossible_deltas_are_refused(delta):
    with pytest.raises(BudgetError, match="δ"):
        ZCDP.from_approx(1, delta)
    with pytest.raises(BudgetError, match="δ"):
        rho_to_approx(0.1, delta)


def test_an_epsilon_too_small_for_any_rho_is_refused():
    with pytest.raises(BudgetError, match="raise ε or δ"):
        ZCDP.from_approx(1e-7, 1e-9)


def test_a_large_delta_needs_no_epsilon():
    assert rho_to_approx("1e-12", 0.5) == 0.0
