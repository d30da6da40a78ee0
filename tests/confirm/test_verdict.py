"""Verdicts and their chances, held to the published table and to numerical integration."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dipsmith.confirm.design import Combination, PartNumbers, estimate
from dipsmith.confirm.power import (
    PartSize,
    best_parts,
    enough_budget,
    most_parts,
    outlook,
    outlook_of_interval,
    outlook_of_share,
)
from dipsmith.confirm.verdict import judge_ends, posterior
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.calibration import noise_of
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.value_question import poll_sensitivity

REFERENCE = {
    (50, "1"): (0.042, 0.69, 0.97, 1.0),
    (100, "0.25"): (0.046, 0.46, 0.84, 0.997),
    (25, "0.25"): (0.029, 0.12, 0.23, 0.49),
}
"""Chances of "confirmed" at z = 0, 3, 5 and 10, simulated independently."""


@pytest.mark.parametrize(("parts", "epsilon"), REFERENCE)
def test_the_chances_are_those_of_the_table(parts, epsilon):
    found = [outlook(z, parts, PureDP(epsilon), "label").confirmed for z in (0, 3, 5, 10)]
    np.testing.assert_allclose(found, REFERENCE[parts, epsilon], atol=0.02)


@pytest.mark.parametrize("relation", ["add-remove", "label", "replace"])
@pytest.mark.parametrize("budget", [PureDP("0.1"), PureDP("0.5"), PureDP(1), PureDP(5), ZCDP("0.02"), ZCDP(1)], ids=str)
@pytest.mark.parametrize("parts", [5, 10, 25, 50, 100])
def test_a_claim_on_its_threshold_is_confirmed_in_one_of_twenty_at_most(parts, budget, relation):
    """The size, by exact sums: both verdicts, where parts are of two minds."""
    found = outlook(0, parts, budget, relation)
    assert found.confirmed <= 0.05
    assert found.contradicted <= 0.05


def test_a_claim_that_is_false_is_confirmed_more_seldom():
    chances = [outlook(z, 50, PureDP("0.5"), "label").confirmed for z in (-6, -3, -1, 0)]
    assert chances == sorted(chances)


@pytest.mark.parametrize(
    "law", [DiscreteLaplace(Fraction(4)), DiscreteGaussian(Fraction(9))], ids=["Laplace", "Gaussian"]
)
@pytest.mark.parametrize("noisy", [-3, 12, 20, 40])
def test_the_posterior_is_that_of_integration(noisy, law):
    parts = 30
    yes = np.arange(parts + 1)

    def weight(r):
        return float(stats.binom.pmf(yes, parts, r) @ law.pmf(noisy - yes))

    whole, above = (integrate.quad(weight, low, 1, limit=200)[0] for low in (0, 0.5))
    found = posterior([noisy], parts, law)
    assert found.probability == pytest.approx(above / whole, abs=1e-6)
    low, high = found.interval
    assert integrate.quad(weight, low, high, limit=200)[0] / whole == pytest.approx(0.95, abs=1e-5)
    assert found.densities[0].mean() == pytest.approx(1)


def test_the_posterior_of_three_answers_is_that_of_drawing_shares():
    """400,000 draws from the Dirichlet prior, weighted; a weighted share is off by .01 with probability below 1e-6."""
    law, parts, noisy = DiscreteLaplace(Fraction(6)), 20, (4, 7)
    rng = np.random.default_rng(5)
    shares = rng.dirichlet([1, 1, 1], 400_000)
    counts = rng.multinomial(parts, shares)
    weights = law.pmf(noisy[0] - counts[:, 0]) * law.pmf(noisy[1] - counts[:, 2])
    expected = weights @ (np.maximum(shares[:, 0], shares[:, 2]) < 0.5) / weights.sum()
    assert posterior(noisy, parts, law).probability == pytest.approx(expected, abs=0.01)


def test_numbers_far_outside_are_read_as_the_nearest_end():
    law = DiscreteLaplace(Fraction(1))
    assert posterior([10_000_000], 50, law).verdict == "confirmed"
    assert posterior([-10_000_000], 50, law).verdict == "contradicted"
    assert posterior([25], 50, law).verdict == "cannot tell"
    assert posterior([0, 0], 50, law).verdict == "confirmed"
    assert posterior([50, 0], 50, law).verdict == "contradicted"


@pytest.mark.parametrize(("low", "high"), [(0.0, 20.0), (20.0, 0.0), (0.0, 0.0)])
def test_an_interval_whose_end_is_the_truth_is_confirmed_in_one_of_twenty_at_most(low, high):
    for epsilon in ("0.25", "2"):
        assert outlook_of_interval(low, high, 40, PureDP(epsilon), "label").confirmed <= 0.05


def test_the_chances_of_an_interval_are_those_of_drawing_polls():
    """4,000 polls drawn; a share is off by .04 with probability below 1e-6."""
    parts, budget = 40, PureDP(1)
    law = noise_of(poll_sensitivity("label", 3, budget), budget)
    rng = np.random.default_rng(2)
    ends = stats.norm.sf(np.array([6.0, 9.0]) / np.sqrt(parts))
    counts = rng.multinomial(parts, [ends[0], 1 - ends.sum(), ends[1]], 4000)
    reach = np.arange(-200, 201)
    noise = rng.choice(reach, p=law.pmf(reach) / law.pmf(reach).sum(), size=(4000, 2))
    below, above = (counts[:, [0, 2]] + noise).T
    wide = np.arange(-200, 241)
    confirmed = judge_ends(wide, wide, parts, law).confirmed[below + 200, above + 200]
    found = outlook_of_interval(6.0, 9.0, parts, budget, "label")
    assert confirmed.mean() == pytest.approx(found.confirmed, abs=0.04)


def test_what_is_proposed_does_what_it_says():
    enough = enough_budget(5.0, PureDP(1), "label", 100)
    assert enough is not None
    parts = best_parts(5.0, enough, "label", 100)
    assert outlook(5.0, parts, enough, "label").confirmed >= 0.8
    assert enough_budget(0.1, PureDP(1), "label", 100) is None
    assert most_parts(1000, 9) == 10
    assert outlook_of_share(0.95, 25, PureDP(1), "label").confirmed > 0.99


@pytest.mark.slow
def test_fixed_effects_take_rows_from_small_parts():
    """A part's estimate, by brute force: 400 regressions of 100 rows with 24 and 27 levels, and of 200. Their spread about
    0 is that of the forecast within 15 % (4.2 standard errors of a spread at 400)."""
    rng = np.random.default_rng(5)
    size = PartSize(10_000, 1, (np.full(24, 1 / 24), np.full(27, 1 / 27)))
    for rows in (100, 200):
        found = []
        for _ in range(400):
            groups = tuple(rng.integers(0, levels, rows) for levels in (24, 27))
            dense = tuple(np.unique(g, return_inverse=True)[1] for g in groups)
            numbers = PartNumbers(rng.normal(size=rows), rng.normal(size=(rows, 1)), dense)
            found.append(estimate(numbers, ("x",), "ols", Combination((("x", 1.0),))))
        whole = 1 / np.sqrt(size.freedom(1))
        assert np.std(found) == pytest.approx(whole / size.shrink(10_000 // rows), rel=0.15)
    assert size.shrink(250) == 0.0
    assert best_parts(8.0, PureDP(1), "label", 200, size) < 75 < best_parts(8.0, PureDP("0.1"), "label", 200)
