"""Drawing cells: as little variance as possible, no bias, no order that leaks from group to group."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import UsageError
from dipsmith.estimation.sampling import sample_cells, sample_within
from dipsmith.privacy.randomness import generator

weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(weights, st.integers(0, 500), st.integers(0, 2**32))
def test_counts_are_within_one_of_what_is_expected(values, n, seed):
    table = np.array(values)
    drawn = sample_cells(table, n, generator(seed))
    counts = np.bincount(drawn, minlength=table.size)
    assert counts.sum() == n
    if table.sum() > 0:
        expected = n * table / table.sum()
        assert (np.abs(counts - expected) < 1 + 1e-6).all()
        assert (counts[table == 0] == 0).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(weights, min_size=1, max_size=5), st.integers(0, 300), st.integers(0, 2**32))
def test_counts_within_groups_too(lines, n, seed):
    width = max(len(line) for line in lines)
    table = np.array([line + [0.0] * (width - len(line)) for line in lines])
    groups = np.random.default_rng(seed).integers(0, len(lines), n)
    drawn = sample_within(table, groups, generator(seed))
    assert drawn.shape == (n,)
    for g, line in enumerate(table):
        counts = np.bincount(drawn[groups == g], minlength=width)
        if line.sum() > 0:
            expected = (groups == g).sum() * line / line.sum()
            assert (np.abs(counts - expected) < 1 + 1e-6).all()
            assert (counts[line == 0] == 0).all()
        else:
            assert np.ptp(counts) <= 1


@pytest.mark.slow
def test_rounding_is_unbiased():
    """20,000 draws of 3 rows from 7 cells: each mean count errs by at most 0.5/√20,000 · 5.6, FPR 7 · 2.2e-8."""
    table = np.array([0.1, 0.3, 0.05, 0.25, 0.0, 0.2, 0.1])
    random = generator(1)
    one = np.mean([np.bincount(sample_cells(table, 3, random), minlength=7) for _ in range(20_000)], axis=0)
    groups = np.repeat(np.arange(20_000), 3)
    many = np.bincount(sample_within(np.tile(table, (20_000, 1)), groups, random), minlength=7) / 20_000
    for mean in (one, many):
        assert np.abs(mean - 3 * table).max() < 5.6 * 0.5 / np.sqrt(20_000)


def test_rounding_does_not_add_up_over_groups():
    """5,000 groups of one row and equal weights: the counts err like one rounding, not like 5,000 coins (sd 35)."""
    line = np.array([0.11, 0.23, 0.41, 0.25])
    drawn = sample_within(np.tile(line, (5000, 1)), np.arange(5000), generator(3))
    assert np.abs(np.bincount(drawn, minlength=4) - 5000 * line).max() < 5


def test_order_is_random_within_groups():
    """The correlation of two columns drawn for the same groups, n = 40,000: beyond 5.6/√n with probability 2e-8."""
    groups = np.repeat(np.arange(4), 10_000)
    table = np.tile(np.array([0.5, 0.5]), (4, 1))
    random = generator(4)
    one, other = (sample_within(table, groups, random) for _ in range(2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5.6 / np.sqrt(40_000)
    alone = sample_cells(np.array([0.5, 0.5]), 40_000, random)
    assert abs(np.corrcoef(alone[:-1], alone[1:])[0, 1]) < 5.6 / np.sqrt(40_000)


def test_the_last_cell_is_never_overrun():
    """Points at the very end of a group stay in its last possible cell, whatever rounding does."""

    class AlmostOne:
        def random(self):
            return np.nextafter(1.0, 0.0)

        def permutation(self, x):
            return np.arange(x) if isinstance(x, int) else x

    table = np.array([[0.3, 0.7, 0.0], [1e-300, 0.0, 0.0]])
    drawn = sample_within(table, np.array([0, 0, 1, 1]), AlmostOne())
    assert drawn.tolist() == [1, 1, 0, 0]
    assert sample_cells(np.array([1e-9, 1.0, 0.0]), 3, AlmostOne()).max() == 1


@pytest.mark.parametrize("bad", [[], [np.nan], [-1.0, 2.0], [np.inf]])
def test_bad_weights_are_refused(bad):
    with pytest.raises(UsageError, match="weights"):
        sample_cells(np.array(bad), 1, generator(0))
    with pytest.raises(UsageError, match="weights"):
        sample_within(np.array([bad]), np.zeros(1, dtype=int), generator(0))
