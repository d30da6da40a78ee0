"""Answers from noisy tables: right values, and standard errors that dense least squares confirms."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable, midpoints, overlap, pool_estimates
from dipsmith.schema import Attribute, Bins, Categories, Marginal, Rule, Schema, Unit


def years(low=17, high=90, width=1):
    edges = tuple(float(x) for x in range(low, high + 2, width))
    return Bins(edges, "integer", tuple(str(int(e)) for e in edges[:-1]), low, high)


def schema(rules=()):
    return Schema(
        "t",
        (Attribute("age", "integer", years(17, 26, 2)), Attribute("sex", "string", Categories.of("FM"))),
        Unit(),
        "add-remove",
        rules,
    )


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cell_variance=st.floats(0.1, 100),
    total_variance=st.sampled_from([0.0, 0.5, 30.0, inf]),
    ruled=st.booleans(),
)
def test_variance_agrees_with_dense_least_squares(seed, cell_variance, total_variance, ruled):
    rng = np.random.default_rng(seed)
    rules = (Rule((("age", (0,)), ("sex", (1,))), "never"),) if ruled else ()
    marginal = Marginal.of(schema(rules), ["age", "sex"])
    free = np.ones(10, bool) if not ruled else marginal.possible()
    values = np.where(free, rng.integers(-5, 50, 10), 0)
    table = NoisyTable(marginal, values, cell_variance, 123.0, total_variance)
    k = int(free.sum())
    weights = rng.normal(size=10)
    # Dense reference: weighted least squares of the cells and, if measured, their total.
    design = np.vstack([np.eye(k), np.ones((1, k))])
    observed = np.r_[values[free], 123.0]
    precision = np.r_[np.full(k, 1 / cell_variance), 0 if total_variance == inf else 1 / max(total_variance, 1e-5)]
    covariance = np.linalg.inv(design.T @ (precision[:, None] * design))
    estimate = covariance @ (design.T @ (precision * observed))
    answer = table.answer(weights)
    assert answer.value == pytest.approx(weights[free] @ estimate, rel=1e-3, abs=1e-3)
    expected = weights[free] @ covariance @ weights[free]
    assert answer.standard_error**2 == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_ranges_cut_bins_in_proportion():
    bins = years(17, 26, 2)  # [17, 19), [19, 21), …, [25, 27)
    assert overlap(bins, 18, 22).tolist() == [0.5, 1.0, 0.5, 0.0, 0.0]
    assert overlap(bins, 0, 99).tolist() == [1.0] * 5
    assert midpoints(years(17, 20)).tolist() == [17, 18, 19, 20]
    assert midpoints(bins)[0] == 17.5


def test_range_mean_and_count_without_noise():
    counts = np.arange(1, 11)
    table = NoisyTable(Marginal.of(schema(), ["age", "sex"]), counts, 0.0, 55.0, 0.0)
    assert table.range_query("age", 17, 21).value == 1 + 2 + 3 + 4
    assert table.count({"sex": "M"}).value == 2 + 4 + 6 + 8 + 10
    assert table.count({"sex": "M"}).standard_error == 0
    ages = np.repeat([17.5, 19.5, 21.5, 23.5, 25.5], 2)
    assert table.mean("age").value == pytest.approx(np.average(ages, weights=counts))
    assert table.range_query("age", 17, 21).scaled(55, 110).value == 20
    with pytest.raises(UsageError, match="'sex'"):
        table.mean("sex")
    with pytest.raises(UsageError, match="no label 'X'"):
        table.count({"sex": "X"})


def test_estimates_are_pooled_by_inverse_variance():
    assert pool_estimates([(10.0, 1.0), (20.0, 3.0)]) == pytest.approx((12.5, 0.75))
    assert pool_estimates([(10.0, 1.0), (7.0, 0.0)]) == (7.0, 0.0)
    assert pool_estimates([(10.0, 2.0), (99.0, inf)]) == (10.0, 2.0)
    assert pool_estimates([(5.0, 1e-310), (5.0, 1e-310)]) == (5.0, 0.0)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), post=st.sampled_from(["project", "clip"]))
def test_tables_are_counts_with_the_right_total(seed, post):
    values = np.random.default_rng(seed).integers(-30, 60, 10)
    table = NoisyTable(Marginal.of(schema(), ["age", "sex"]), values, 50.0, 100.0, 0.0).table(post)
    assert table.min() >= 0
    assert table.sum() == pytest.approx(100)
