"""Designs: everything, an optimal fraction, or a random part."""

from itertools import product

import numpy as np
import pytest
from experiment_studies import SMALL, altered
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import InputError
from dipsmith.experiments.design import Factor, fraction, model_matrix
from dipsmith.experiments.design import settings as settings_of
from dipsmith.experiments.study import parse


def efficiency(sizes, chosen, ways):
    """D-efficiency: 1 for an orthogonal design."""
    grid = np.array(list(product(*(range(s) for s in sizes))))
    x = model_matrix(grid[chosen], sizes, ways)
    return np.exp(np.linalg.slogdet(x.T @ x)[1] / x.shape[1]) / len(chosen)


def test_the_half_fraction_of_five_factors_is_the_textbooks():
    # 2^(5-1) of resolution V: 16 runs estimate 5 main effects and 10 interactions, all orthogonal.
    chosen = fraction([2] * 5, 16)
    assert efficiency([2] * 5, chosen, 2) == pytest.approx(1)
    parity = {sum(row) % 2 for row in np.array(list(product([0, 1], repeat=5)))[chosen]}
    assert len(parity) == 1


def test_mixed_levels_are_nearly_orthogonal():
    chosen = fraction([2, 2, 2, 2, 3], 24)
    assert efficiency([2, 2, 2, 2, 3], chosen, 1) > 0.95
    assert efficiency([2, 2, 2, 2, 3], chosen, 2) > 0.6


@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_fractions_are_settings_of_the_grid_without_repetition(sizes, seed):
    whole = int(np.prod(sizes))
    runs = min(whole - 1, 1 + sum(s - 1 for s in sizes) + 1)
    chosen = fraction(sizes, runs, seed)
    assert len(set(chosen)) == runs
    assert set(chosen) <= set(range(whole))
    assert efficiency(sizes, chosen, 1) > 0
    assert chosen == fraction(sizes, runs, seed)


def test_a_fraction_that_is_too_small_is_refused():
    with pytest.raises(InputError, match="give 6 or more"):
        fraction([2] * 5, 4)


def test_designs_of_a_study():
    wide = altered(SMALL, "{post: [project, clip]}", "{post: [project, clip], count_share: [0.01, 0.1, 0.2]}")
    assert len(settings_of(parse(wide))) == 2 * 2 * 3 + 2
    drawn = settings_of(parse(wide + "design: {random: 5}\n"))
    assert len(drawn) == 5 + 2
    assert drawn == settings_of(parse(wide + "design: {random: 5}\n"))
    assert drawn != settings_of(parse(altered(wide, "seed: 4", "seed: 5") + "design: {random: 5}\n"))
    part = settings_of(parse(wide + "design: {fractional: 6}\n"))
    assert len(part) == 6 + 2
    assert {s.levels["count_share"] for s in part[:6]} == {"0.01", "0.1", "0.2"}


def test_levels_may_be_named():
    assert Factor.of("w", {"none": None, "pay": {"pay": 40}}).values == (None, {"pay": 40})
    with pytest.raises(InputError, match="no levels"):
        Factor.of("w", [])
