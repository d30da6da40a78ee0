"""Simulated leaves agree with the exact law where there is one, and go beyond it."""

import numpy as np
import pytest

from dipsmith.errors import UsageError
from dipsmith.planning.law import LeafLaw
from dipsmith.planning.leaf_simulation import simulate_label, simulate_leaf


@pytest.mark.parametrize(
    ("p0", "ends"),
    [
        (0, (0, 0.008)),
        (0.01, (0.002, 0.02)),
        (0.05, (0.037, 0.064)),
        (0.1, (0.083, 0.117)),
        (0.25, (0.226, 0.274)),
        (0.5, (0.473, 0.527)),
    ],
)
def test_the_reports_simulation(p0, ends):
    # 10,000 draws: a 5 % quantile moves by a record or two of 1,000.
    found = simulate_label(p0, 0.3, 1000, seed=2018).interval()
    assert found == pytest.approx(ends, abs=0.002)


@pytest.mark.parametrize("noise", ["continuous", "discrete", "gaussian"])
@pytest.mark.parametrize(("p0", "n", "m"), [(0.02, 60, 60), (0.4, 60, 25)])
def test_draws_follow_the_exact_law(noise, p0, n, m):
    draws = 40_000
    found = simulate_label(p0, 0.35, n, m=m, noise=noise, draws=draws, seed=5).shares[:, 0]
    empirical = np.bincount(np.rint(found * m).astype(int), minlength=m + 1).cumsum() / draws
    exact = LeafLaw(p0, n, m, noise).counts([0.35])[0].cumsum()
    # Dvoretzky–Kiefer–Wolfowitz: beyond 0.0137 with probability 2·exp(−2·40000·0.0137²) = 6e-7.
    assert np.abs(empirical - exact).max() < 0.0137


def test_further_labels_change_little_in_a_large_leaf():
    sds = [simulate_leaf(p, 0.4, 1000, seed=3, noise="continuous").sd[0] for p in ([0.25, 0.75], [0.25] * 4)]
    # One label by itself has 0.01414; 10,000 draws give the third digit.
    assert sds == pytest.approx([0.01414, 0.01404], rel=0.03)
    alone = simulate_leaf([0.25] * 4, 0.4, 1000, public_size=False, seed=3).sd[0]
    assert alone == pytest.approx(0.0141, rel=0.03)


def test_projection_on_a_public_size_takes_noise_away_from_many_labels():
    """Noise of variance v becomes v(1 − 1/K) when the counts must add up."""
    lam, n, m = 0.5, 100_000, 5_000_000
    for labels in (3, 8):
        sd = simulate_leaf([1 / labels] * labels, lam, n, m=m, draws=4000, seed=1, noise="continuous").sd.mean()
        noise = np.sqrt(8 * (1 - 1 / labels)) / n
        drawing = np.sqrt((1 / labels) * (1 - 1 / labels) / m)
        # Mean over labels of 4,000 draws: relative error below 2 %.
        assert sd == pytest.approx(np.hypot(noise, drawing), rel=0.05)


def test_empty_leaves_get_equal_chances():
    leaf = simulate_leaf([0.5, 0.5, 0.0], 3.0, 1, public_size=False, draws=4000, seed=1, m=100_000)
    assert np.abs(leaf.shares.sum(axis=1) - 1).max() < 1e-9


@pytest.mark.parametrize("wrong", [{"p": [0.5, 0.6]}, {"p": [1.0]}, {"lam": 0}, {"draws": 0}, {"n": 0}])
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError):
        simulate_leaf(**{"p": [0.5, 0.5], "lam": 1.0, "n": 10, "draws": 2, **wrong})
