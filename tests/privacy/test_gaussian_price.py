"""Every step under ρ tells no more than normal noise does, and together they use an (ε, δ) whole."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, localcontext
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from scipy.special import expit, log_expit, ndtri, ndtri_exp
from scipy.stats import norm

from dipsmith.errors import BudgetError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.mst import MST
from dipsmith.privacy.accountant import Accountant, cost
from dipsmith.privacy.budget import UNITS, ZCDP, PureDP, approx_to_rho, rho_to_approx
from dipsmith.privacy.calibration import choice_epsilon, noise_for
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured
from dipsmith.privacy.gaussian_price import PI, pure_price, range_price, variance_needed
from dipsmith.privacy.gaussian_profile import largest_rho, smallest_epsilon
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit

NORMAL = ["1/200", "1/12", "1/6", "1/5", "1/3", "1/2", "1", "2", "10", "100", "1000"]


def widest_step(sigma2: float) -> float:
    """How far apart the two normal quantiles of X ≥ t and X ≥ t + 1 are, at the t where they are farthest."""
    reach = int(45 * math.sqrt(sigma2)) + 9
    k = np.arange(reach + 1)
    log_weight = -(k**2) / (2 * sigma2)
    tails = np.logaddexp.accumulate(log_weight[::-1])[::-1]  # log Σ over j ≥ k of the weights
    log_tails = tails - np.logaddexp(tails[0], tails[1])
    quantiles = -ndtri_exp(log_tails[1:])
    steps = np.diff(quantiles[quantiles < 36])
    return max(2 * quantiles[0], steps.max() if steps.size else 0.0)


@pytest.mark.parametrize("normal", NORMAL)
def test_discrete_noise_hides_as_much_as_normal_noise(normal):
    """P[X ≥ t] against P[X ≥ t + 1] at every threshold t: no test gains more than between N(0, v) and N(1, v)."""
    v = Fraction(normal)
    sigma2 = variance_needed(v)
    assert widest_step(float(sigma2)) <= (1 + 1e-12) / math.sqrt(v)
    if v >= 1:
        # Little is lost: a twelfth of a count of variance would have to be added at least, a sixth is.
        assert v + Fraction(1, 6) <= sigma2 <= v + Fraction(1, 5)


def test_noise_never_grows_with_what_is_paid():
    """Beside v = 1/3 and v = 1/6 the formula changes; more than is needed would still be lawful."""
    grid = [Fraction(n, 600) for n in range(1, 400)]
    needed = [variance_needed(v) for v in grid]
    assert needed == sorted(needed)
    assert variance_needed(Fraction(1, 4)) == Fraction(2, 3) < Fraction(3, 4)
    assert all(widest_step(1.3 * float(s)) <= 1 / math.sqrt(v) for v, s in zip(grid[::20], needed[::20], strict=True))


@pytest.mark.parametrize("normal", ["1/12", "1", "100"])
def test_the_same_variance_would_not_do(normal):
    """So it must never be assumed that discrete noise is as good as normal noise of the same variance."""
    assert widest_step(float(Fraction(normal))) > 1 / math.sqrt(Fraction(normal))


@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 3.0, 8.0])
def test_choices_and_pure_steps_are_priced_at_their_worst_odds(epsilon):
    """A bounded range ε is two outcomes whose log-odds differ by ε, at any base; ε-DP is one with 2ε at base 0."""
    base = np.linspace(-20, 20, 4001)
    gain = -ndtri_exp(log_expit(-(base + epsilon / 2))) + ndtri_exp(log_expit(-(base - epsilon / 2)))
    price = math.sqrt(2 * range_price(Fraction(epsilon)))
    assert gain.max() <= price
    assert gain.max() == pytest.approx(2 * ndtri(expit(epsilon / 2)), rel=1e-6)
    if epsilon < 0.2:
        assert gain.max() > 0.999 * price
    assert 2 * ndtri(expit(epsilon)) <= math.sqrt(2 * pure_price(Fraction(epsilon)))
    assert math.pi < PI


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
def test_a_table_is_given_what_its_rho_pays_for_and_no_less(relation):
    law = noise_for(relation, 3, ZCDP("0.02"))
    moved = {"add-remove": 9, "replace": 18, "label": 18}[relation]
    assert law.sigma2 == variance_needed(Fraction(moved) / (2 * Fraction("0.02")))
    table = {"cells": "age", "size": 2, "mechanism": law.name, "sensitivity": Fraction(moved), "budget": ZCDP("0.02")}
    assert cost(Measured(**table, scale=law.sigma2), "rho") == UNITS // 50
    before = Measured(**table, scale=Fraction(moved) / (2 * Fraction("0.02")))
    assert cost(before, "rho", "zcdp") == UNITS // 50
    with pytest.raises(BudgetError, match="were it normal noise"):
        cost(before, "rho")


def test_laplace_noise_under_rho_is_priced_as_pure():
    table = {
        "cells": "age",
        "size": 2,
        "mechanism": "discrete Laplace",
        "sensitivity": Fraction(1),
        "scale": Fraction(10),
    }
    assert DiscreteLaplace(Fraction(10)).name == table["mechanism"]
    assert cost(Measured(**table, budget=ZCDP("0.0079")), "rho") == 79 * UNITS // 10_000
    with pytest.raises(BudgetError, match="were it normal noise"):
        cost(Measured(**table, budget=ZCDP("0.0078")), "rho")


def test_a_choice_is_made_at_the_epsilon_that_its_rho_pays_for():
    rho = ZCDP("0.001")
    epsilon = choice_epsilon(rho)
    assert range_price(epsilon) <= rho.exact < range_price(epsilon + Fraction(2, 10**9))


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-9), (1, 1e-5), (0.1, 1e-9), (4, 1e-6)])
def test_rho_and_delta_agree_with_the_oracle(epsilon, delta):
    """dp_accounting's own composition of 40 continuous Gaussians, optimistic and pessimistic, encloses δ."""
    share = float(approx_to_rho(epsilon, delta)) / 40
    bounds = []
    for pessimistic in (False, True):
        one = oracle.from_gaussian_mechanism(
            1 / math.sqrt(2 * share), value_discretization_interval=1e-4, pessimistic_estimate=pessimistic
        )
        bounds.append(one.self_compose(40).get_delta_for_epsilon(epsilon))
    assert bounds[0] <= delta <= bounds[1] * 1.0001
    assert rho_to_approx(approx_to_rho(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)


def test_the_conversion_is_its_own_whatever_decimals_the_caller_uses():
    delta = Fraction("1.051e-9")
    right = largest_rho.__wrapped__(Fraction(1), delta, UNITS)
    with localcontext() as coarse:
        coarse.prec, coarse.rounding = 2, ROUND_CEILING
        assert largest_rho.__wrapped__(Fraction(1), delta, UNITS) == right
        assert smallest_epsilon.__wrapped__(Fraction(right, UNITS), delta) <= 1
    # e^ε has more than a million digits.
    assert 0.99 * 10**9 < approx_to_rho(10**9, 1e-9) < 10**9


def test_a_whole_run_uses_its_epsilon_and_never_more():
    """36 discrete tables and 12 choices at the edge of ε = 1, δ = 1e-9, composed numerically by dp_accounting."""
    epsilon, delta = 1.0, 1e-9
    whole = ZCDP.from_approx(epsilon, delta)
    for choices, floor in ((0, 0.98), (12, 0.25)):
        parts = whole.split([3] * 36 + [1] * choices)
        law = noise_for("add-remove", 1, parts[0])
        step = {"value_discretization_interval": 5e-6, "pessimistic_estimate": True}
        table = oracle.from_discrete_gaussian_mechanism(math.sqrt(law.sigma2), 1, **step)
        composed = table.self_compose(36)
        if choices:
            # Worst two outcomes of a bounded range ε: an answer with the odds e^(ε/2).
            odds = math.exp(float(choice_epsilon(parts[-1])) / 2)
            pick = oracle.from_randomized_response(2 / (1 + odds), 2, **step)
            composed = composed.compose(pick.self_compose(choices))
        told = composed.get_delta_for_epsilon(epsilon)
        # The oracle rounds every loss up: by 36 times 5e-6 at most, which is 0.3 % of δ here.
        assert floor * delta < told <= delta * 1.004


def test_two_neighbours_of_a_drawn_table_are_told_apart_no_better_than_normal_ones():
    """All thresholds of the noise that is drawn, at a shift of one and of three, by its exact probabilities."""
    law = DiscreteGaussian(variance_needed(Fraction(2)))
    k = np.arange(-60, 61)
    p = np.array([float(law.pmf(x)) for x in k])
    for shift in (1, 3):
        q = np.roll(p, shift)
        power, size = np.cumsum(q[::-1]), np.cumsum(p[::-1])
        seen = (size > 1e-12) & (power < 1 - 1e-12)
        assert np.all(power[seen] <= norm.cdf(norm.ppf(size[seen]) + shift / math.sqrt(2)) + 1e-12)


@pytest.mark.parametrize("method", [AIM(rounds=4), MST()], ids=["aim", "mst"])
def test_a_run_spends_its_rho_to_the_last_unit_on_gaussian_steps(method):
    attributes = tuple(Attribute(name, "string", Categories.of(["u", "v", "w"], other="u")) for name in "abcd")
    schema = Schema("people", attributes, Unit(), "add-remove")
    rows = np.random.default_rng(3).integers(0, 3, (500, 4))
    whole = ZCDP.from_approx(1, 1e-9)
    curator = Curator.rehearse(Codes.of(schema, dict(zip("abcd", rows.T, strict=True))), whole, seed=1)
    method.fit(curator)
    accountant = Accountant(whole, "add-remove")
    accountant.record(*curator._journal.events)
    assert accountant.remaining is None
    assert {type(e) for e in accountant.events} == {Measured, Chosen}
    with pytest.raises(BudgetError):
        accountant.record(Chosen(candidates=2, score="misfit", mechanism="exponential mechanism", sensitivity=Fraction(1), budget=PureDP("0.000000000001")))  # fmt: skip
