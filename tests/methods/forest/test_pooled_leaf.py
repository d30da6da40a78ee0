"""Leaves that are estimated together, against the exact law of a leaf on its own."""

import pytest

from dipsmith.errors import UsageError
from dipsmith.methods.forest.pooled_leaf import pooled_width, simulate_pooled_leaf
from dipsmith.planning.leaf_interval import interval


@pytest.mark.slow
def test_siblings_narrow_a_small_leaf():
    alone = interval(0.25, 0.1, 60, kind="equal", noise="discrete")
    assert pooled_width(0.25, 0.9, 0.1, 60, 50) < 0.6 * alone.width
    # A leaf unlike its siblings pays for it in bias.
    assert simulate_pooled_leaf(0.05, 0.1, 60, spread=2.0, draws=200, seed=1).mean() > 0.06


@pytest.mark.slow
def test_a_large_leaf_stands_alone():
    alone = interval(0.25, 1.0, 3000, kind="equal", noise="discrete")
    together = simulate_pooled_leaf(0.25, 1.0, 3000, draws=300, seed=2)
    assert together.mean() == pytest.approx(0.25, abs=0.005)
    assert together.std() == pytest.approx(alone.width / 3.29, rel=0.2)


@pytest.mark.parametrize("wrong", [{"p0": 0}, {"p0": 1.2}, {"lam": 0}, {"draws": 0}, {"n": 0}, {"leaves": 1}])
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError):
        simulate_pooled_leaf(**{"p0": 0.5, "lam": 1.0, "n": 10, "draws": 2, "seed": 1, **wrong})
