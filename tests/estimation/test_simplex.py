"""Projection by its optimality conditions and by a solver; rounding by its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.optimize import minimize

from dipsmith.errors import UsageError
from dipsmith.estimation.simplex import (
    LARGEST_TOTAL,
    clip,
    clip_within,
    project,
    project_within,
    round_to,
    round_within,
)
from dipsmith.estimation.tree import Tree, gls
from dipsmith.estimation.tree_counts import project_down, round_top_down

Floats = NDArray[np.float64]
NOISY = st.floats(-1e4, 1e4, allow_subnormal=False)
SPREAD = st.floats(1e-3, 1e3)
TABLES = hnp.arrays(np.float64, st.integers(1, 30), elements=NOISY)


def sorted_projection(y: Floats, total: float, s: Floats) -> Floats:
    """Return the projection by the textbook sort: the largest k with y_k/s_k > τ_k."""
    if total <= 0:
        return np.zeros_like(y)
    order = np.argsort(-y / s)
    tau = (np.cumsum(y[order]) - total) / np.cumsum(s[order])
    k = np.flatnonzero((y / s)[order] > tau).max(initial=0)
    return np.maximum(y - tau[k] * s, 0)


def assert_optimal(x: Floats, y: Floats, total: float, s: Floats) -> None:
    """The conditions of Karush, Kuhn and Tucker for min Σ(x−y)²/s, x ≥ 0, Σx = total."""
    scale = max(1.0, float(np.abs(y).max()), total)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(total, abs=1e-11 * scale)
    gradient = (x - y) / s
    multiplier = gradient[x > 0]
    slack = 1e-9 * scale / float(s.min())
    assert np.ptp(multiplier) <= slack
    assert (gradient >= multiplier.max() - slack).all()


@given(y=TABLES, total=st.floats(1e-3, 1e5))
def test_flat_projection_is_optimal(y: Floats, total: float) -> None:
    x = project(y, total)
    assert_optimal(x, y, total, np.ones_like(y))
    np.testing.assert_allclose(x, sorted_projection(y, total, np.ones_like(y)), rtol=0, atol=1e-8)


@pytest.mark.slow
@given(data=st.data(), y=TABLES, total=st.floats(1e-3, 1e5))
def test_weighted_projection_is_optimal(data: st.DataObject, y: Floats, total: float) -> None:
    s = data.draw(hnp.arrays(np.float64, y.shape, elements=SPREAD))
    x = project(y, total, variances=s)
    assert_optimal(x, y, total, s)
    np.testing.assert_allclose(x, sorted_projection(y, total, s), rtol=0, atol=1e-7)


@pytest.mark.parametrize("seed", range(20))
def test_projection_equals_a_quadratic_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, s = rng.normal(3, 5, 6), rng.uniform(0.5, 4, 6)
    total = float(rng.uniform(1, 20))
    solved = minimize(
        lambda x: ((x - y) ** 2 / s).sum(),
        np.full(6, total / 6),
        jac=lambda x: 2 * (x - y) / s,
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total, "jac": lambda x: np.ones(6)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(project(y, total, variances=s), solved.x, rtol=0, atol=1e-5)


@st.composite
def families(draw: st.DrawFn) -> tuple[Floats, NDArray[np.int64], Floats, Floats, NDArray[np.bool_]]:
    """Children of up to six parents in any order; the first child of each parent is possible."""
    parents = draw(st.integers(1, 6))
    extra = draw(st.lists(st.integers(0, parents - 1), max_size=24))
    parent = np.array([*range(parents), *extra])
    y = draw(hnp.arrays(np.float64, parent.shape, elements=NOISY))
    s = draw(hnp.arrays(np.float64, parent.shape, elements=SPREAD))
    totals = draw(hnp.arrays(np.float64, parents, elements=st.floats(-5, 1e4, allow_subnormal=False)))
    possible = draw(hnp.arrays(np.bool_, parent.shape))
    possible[:parents] = True
    order = draw(st.permutations(range(parent.size)))
    return y[order], parent[order], totals, s[order], possible[order]


@pytest.mark.slow
@given(families())
def test_projection_within_parents_is_the_projection_of_each_family(
    case: tuple[Floats, NDArray[np.int64], Floats, Floats, NDArray[np.bool_]],
) -> None:
    y, parent, totals, s, possible = case
    weighted = project_within(y, parent, totals, s, possible)
    equal = project_within(y, parent, totals, possible=possible)
    for v, total in enumerate(totals):
        mine = (parent == v) & possible
        np.testing.assert_allclose(weighted[mine], sorted_projection(y[mine], total, s[mine]), atol=1e-7)
        np.testing.assert_allclose(equal[mine], project(y[mine], total), rtol=0, atol=1e-9)
        assert weighted[mine].sum() == pytest.approx(max(total, 0), abs=1e-9)
    assert not weighted[~possible].any()
    assert not equal[~possible].any()


def test_many_parents_need_no_loop_over_parents() -> None:
    rng = np.random.default_rng(0)
    parent = rng.integers(0, 5_000, 50_000)
    parent[:5_000] = np.arange(5_000)
    y, s, totals = rng.normal(2, 5, parent.size), rng.uniform(0.5, 2, parent.size), rng.uniform(0, 30, 5_000)
    x = project_within(y, parent, totals, s)
    np.testing.assert_allclose(np.bincount(parent, x), totals, rtol=0, atol=1e-9)
    for v in range(0, 5_000, 97):
        mine = parent == v
        np.testing.assert_allclose(x[mine], sorted_projection(y[mine], totals[v], s[mine]), atol=1e-9)


def test_exponentially_spread_values_settle() -> None:
    y = np.concatenate([-(2.0 ** np.arange(0, 900)), [1.0, 2.0]])
    np.testing.assert_allclose(project(y, 1.0)[-2:], [0.0, 1.0])
    np.testing.assert_allclose(project_within(y, np.zeros(y.size, int), [1.0])[-2:], [0.0, 1.0])


def test_a_total_lost_in_rounding_is_still_met() -> None:
    y = np.array([1e17, 1e17, 0.0])
    assert project(y, 1.0).tolist() == [0.5, 0.5, 0.0]
    assert project_within(y, [0, 0, 0], [1.0]).tolist() == [0.5, 0.5, 0.0]


def test_tiny_variances_are_weights_like_any_others() -> None:
    y, s = np.array([5.0, 4.0, 1.0]), np.array([1.0, 2.0, 1.0])
    expected = sorted_projection(y, 7.0, s)
    np.testing.assert_allclose(project(y, 7.0, variances=s * 1e-306), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(project(y, 7.0, variances=[1e-306, 1.0, 1.0]), [5.0, 2.0, 0.0], atol=1e-12)
    far = project([5000.0, 4.0, 1.0], 5002.0, variances=[1e-307, 1.0, 1.0])
    np.testing.assert_allclose(far, [5000.0, 2.0, 0.0], atol=1e-11)


def test_clip_of_almost_nothing_still_meets_the_total() -> None:
    assert clip([1e-308, 0.0], 4.0).tolist() == [4.0, 0.0]
    assert clip_within([1e-308, 0.0], [0, 0], [4.0]).tolist() == [4.0, 0.0]
    assert project_within([1e-308, 0.0], [0, 0], [4.0], [0.0, 0.0]).tolist() == [4.0, 0.0]


def test_known_children_keep_their_value_and_the_rest_share() -> None:
    x = project_within([4.0, 9.0, -1.0, 3.0], [0, 0, 0, 0], [10.0], [0.0, 1.0, 1.0, 1.0])
    assert x[0] == 4.0
    np.testing.assert_allclose(x, [4, 6, 0, 0])


def test_known_children_beyond_the_total_are_scaled_to_it() -> None:
    assert project_within([8.0, 4.0, 5.0], [0, 0, 0], [6.0], [0.0, 0.0, 1.0]).tolist() == [4.0, 2.0, 0.0]
    assert project_within([2.0, 1.0], [0, 0], [6.0], [0.0, 0.0]).tolist() == [4.0, 2.0]


@pytest.mark.parametrize("total", [3.0, 20.0])
def test_unmeasured_children_are_the_limit_of_a_large_variance(total: float) -> None:
    y, s = np.array([5.0, -2.0, 3.0, 1.0, 0.0]), np.array([1.0, 2.0, np.inf, 1.5, np.inf])
    x = project(y, total, variances=s)
    near = project(y, total, variances=np.where(np.isinf(s), 1e9, s))
    np.testing.assert_allclose(x, near, rtol=0, atol=1e-6)


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_a_total_at_or_below_zero_gives_zeros(total: float) -> None:
    y, parent = np.array([5.0, -1.0, 2.0]), [0, 0, 0]
    results = [
        project(y, total),
        project(y, total, variances=[1.0, 0.0, np.inf]),
        project_within(y, parent, [total]),
        project_within(y, parent, [total], [1.0, 0.0, np.inf]),
        clip(y, total),
        clip_within(y, parent, [total]),
        round_to(y, int(total)),
        round_within(y, parent, [int(total)]),
    ]
    for x in results:
        assert not x.any()
        assert x.size == 3


@given(y=TABLES, total=st.floats(1e-3, 1e5))
def test_clip_keeps_proportions(y: Floats, total: float) -> None:
    x = clip(y, total)
    assert x.sum() == pytest.approx(total, rel=1e-9)
    positive = np.maximum(y, 0)
    if positive.sum() > 0:
        np.testing.assert_allclose(x / total, positive / positive.sum(), rtol=1e-9, atol=1e-12)
    else:
        np.testing.assert_allclose(x, total / y.size)


@pytest.mark.slow
@given(families())
def test_clip_within_parents_is_the_clip_of_each_family(
    case: tuple[Floats, NDArray[np.int64], Floats, Floats, NDArray[np.bool_]],
) -> None:
    y, parent, totals, _, possible = case
    x = clip_within(y, parent, totals, possible)
    for v, total in enumerate(totals):
        mine = parent == v
        np.testing.assert_allclose(x[mine], clip(y[mine], total, possible[mine]), rtol=1e-9, atol=1e-12)


# Six digits: what is within 1e-9 of a whole number is taken to be that number.
COUNTS = hnp.arrays(
    np.float64,
    st.integers(1, 30),
    elements=st.one_of(st.just(0.0), st.floats(0, 1e4).map(lambda v: round(v, 6)), st.integers(0, 50)),
)


@given(y=COUNTS, up=st.booleans())
def test_rounding_meets_the_sum_and_moves_no_cell_by_one(y: Floats, up: bool) -> None:
    total = int(np.ceil(y.sum()) if up else np.floor(y.sum()))
    counts = round_to(y, total)
    assert counts.dtype == np.int64
    assert counts.sum() == total
    if total > 0:
        assert (np.abs(counts - y) < 1).all()
    assert not counts[y == 0].any()


@given(y=COUNTS, total=st.integers(0, 10**6))
def test_rounding_to_another_total_rescales_first(y: Floats, total: int) -> None:
    counts = round_to(y, total)
    assert counts.sum() == total
    assert (counts >= 0).all()
    if y.sum() > 0:
        assert not counts[y == 0].any()
        if abs(y.sum() - total) >= 1.001:
            assert (np.abs(counts - y * (total / y.sum())) < 1 + 1e-6).all()


@given(y=COUNTS)
def test_the_largest_remainders_go_up_and_the_first_among_equals(y: Floats) -> None:
    total = int(np.rint(y.sum()))
    counts = round_to(y, total)
    remainder = np.where(np.abs(y - np.rint(y)) <= 1e-9 * np.maximum(1, y * 1e-3), 0, y - np.floor(y))
    went_up = (counts > y) & (remainder > 0)
    if total > 0 and went_up.any() and (~went_up).any():
        assert remainder[went_up].min() >= remainder[~went_up].max()
        last = remainder[went_up].min()
        ties = went_up[remainder == last]
        assert not (np.diff(ties.astype(int)) > 0).any()


@pytest.mark.slow
@given(families())
def test_rounding_within_parents_is_the_rounding_of_each_family(
    case: tuple[Floats, NDArray[np.int64], Floats, Floats, NDArray[np.bool_]],
) -> None:
    y, parent, totals, s, possible = case
    fitted = project_within(y, parent, totals, s, possible)
    for whole in (np.floor(np.maximum(totals, 0)).astype(int), np.full(totals.size, 7)):
        counts = round_within(fitted, parent, whole, possible)
        np.testing.assert_array_equal(np.bincount(parent, counts, totals.size), whole)
        for v in range(totals.size):
            mine = parent == v
            np.testing.assert_array_equal(counts[mine], round_to(fitted[mine], int(whole[v]), possible[mine]))
        assert not counts[~possible].any()


def test_values_far_from_the_total_are_rescaled_before_remainders_decide() -> None:
    assert round_to([0.9, 0.1], 2).tolist() == [2, 0]
    assert round_within([0.9, 0.1, 0.5, 0.5], [0, 0, 1, 1], [2, 1]).tolist() == [2, 0, 1, 0]


def test_rounding_error_is_no_remainder() -> None:
    assert round_to([1 + 1e-12, 999.0], 1001).tolist() == [1, 1000]
    assert round_within([1 + 1e-12, 999.0], [0, 0], [1001]).tolist() == [1, 1000]


def test_known_parts_that_miss_their_known_total_by_rounding_error_are_accepted() -> None:
    assert 0.1 + 0.7 < 0.8
    fitted = project_down(Tree([-1, 0, 0]), [0.8, 0.1, 0.7], [0.0, 0.0, 0.0])
    assert fitted.tolist() == [0.8, 0.1, 0.7]


def test_a_count_that_misses_a_whole_number_by_rounding_error_is_that_number() -> None:
    assert round_to([10 - 1e-12, 3.0 + 2e-12, 0.5, 0.5], 14).tolist() == [10, 3, 1, 0]


def test_a_large_flat_table_is_rounded_and_projected_exactly() -> None:
    rng = np.random.default_rng(2)
    noisy = np.rint(rng.laplace(0, 3, 200_000)).reshape(400, 500)
    possible = rng.random(noisy.shape) < 0.75
    x = project(noisy, 12_345, possible)
    counts = round_to(x, 12_345, possible)
    assert x.shape == counts.shape == noisy.shape
    assert x.sum() == pytest.approx(12_345, abs=1e-8)
    assert counts.sum() == 12_345
    assert not counts[~possible].any()
    assert (np.abs(counts - x) < 1).all()


def random_tree(seed: int) -> tuple[Tree, Floats, Floats]:
    """A tree of counts, noisy, with exact nodes, unmeasured nodes and structural zeros."""
    rng = np.random.default_rng(seed)
    children = [np.array([rng.integers(1, 6)])]
    for _ in range(3):
        fan = rng.integers(1, 6, size=int(children[-1].sum()))
        children.append(np.where(rng.random(fan.size) < 0.5, fan, 0))
    tree = Tree.build(children)
    truth = np.zeros(tree.size)
    truth[tree.leaves] = rng.poisson(2, tree.leaves.size)
    for v in range(tree.size - 1, 0, -1):
        truth[tree.parent[v]] += truth[v]
    variances = rng.uniform(1, 20, tree.size)
    kind = rng.random(tree.size)
    variances[kind < 0.2] = np.inf
    variances[kind > 0.85] = 0.0
    noise = np.sqrt(np.where(np.isfinite(variances), variances, 0.0))
    return tree, truth + rng.normal(size=tree.size) * noise, variances


def children_sums(tree: Tree, x: Floats | NDArray[np.int64]) -> Floats:
    return np.bincount(tree.parent[tree.layers[1] :], x[tree.layers[1] :], tree.size)


@pytest.mark.parametrize("seed", range(80))
def test_a_tree_becomes_counts_that_add_up_and_keeps_what_is_known(seed: int) -> None:
    tree, y, variances = random_tree(seed)
    x = gls(tree, y, variances)
    fitted = project_down(tree, x, variances)
    counts = round_top_down(tree, fitted)
    exact = variances == 0
    for result, tolerance in ((fitted, 1e-9), (counts, 0)):
        assert (result >= 0).all()
        np.testing.assert_allclose(children_sums(tree, result)[tree.inner], result[tree.inner], atol=tolerance)
        np.testing.assert_allclose(result[exact], np.maximum(y[exact], 0), rtol=0, atol=tolerance)
    assert (np.abs(counts - fitted) < 1).all()


@pytest.mark.parametrize("seed", range(80))
def test_projection_down_is_optimal_in_every_family(seed: int) -> None:
    tree, y, variances = random_tree(seed)
    variances = np.where((variances == 0) | np.isinf(variances), 3.0, variances)
    x = gls(tree, y, variances)
    fitted = project_down(tree, x, variances)
    own = variances.copy()
    for v in tree.inner[::-1]:
        below = own[tree.parent == v].sum()
        own[v] = below * own[v] / (below + own[v])
    for v in tree.inner:
        mine = tree.parent == v
        expected = sorted_projection(x[mine], fitted[v], own[mine])
        np.testing.assert_allclose(fitted[mine], expected, rtol=0, atol=1e-9)


def test_a_tree_that_is_already_non_negative_is_left_as_it_is() -> None:
    tree = Tree.build([3, 2])
    x = gls(tree, [60, 20, 20, 20, 9, 11, 10, 10, 12, 8], np.full(10, 2.0))
    np.testing.assert_allclose(project_down(tree, x, np.full(10, 2.0)), x, rtol=0, atol=1e-12)


def test_rounding_a_tree_to_a_given_total_and_impossible_leaves() -> None:
    tree = Tree.build([2, 2])
    possible = np.array([True, True, True, False, False, True, True])
    counts = round_top_down(tree, np.zeros(7), total=5, possible=possible)
    assert counts.tolist() == [5, 0, 5, 0, 0, 3, 2]


def test_contradictory_public_facts_are_refused() -> None:
    tree = Tree([-1, 0, 0])
    with pytest.raises(UsageError, match="parts exceed their total"):
        project_down(tree, [5.0, 10.0, -5.0], [0.0, 0.0, 1.0])
    with pytest.raises(UsageError, match="none below 0"):
        project_down(tree, [5.0, -10.0, 15.0], [1.0, 0.0, 1.0])


@pytest.mark.parametrize("function", [project, clip, round_to])
def test_a_total_without_a_possible_cell_is_refused(function: type[project]) -> None:  # type: ignore[valid-type]
    with pytest.raises(UsageError, match="no possible cell"):
        function(np.ones(3), 4, np.zeros(3, dtype=bool))


@pytest.mark.parametrize("function", [project_within, clip_within, round_within])
def test_a_parent_without_a_possible_child_is_refused(function: type[project_within]) -> None:  # type: ignore[valid-type]
    with pytest.raises(UsageError, match="for 1 parents"):
        function([1.0, 1.0], [0, 0], [2, 3])
    with pytest.raises(UsageError, match="for 1 parents"):
        function([1.0, 1.0], [0, 0], [2], possible=np.zeros(2, dtype=bool))


def test_unusable_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="finite"):
        project([1.0, np.nan], 3)
    with pytest.raises(UsageError, match="finite"):
        clip([1.0, 2.0], float("inf"))
    with pytest.raises(UsageError, match="shape"):
        project([1.0, 2.0], 3, np.ones(3, dtype=bool))
    with pytest.raises(UsageError, match="none negative"):
        project([1.0, 2.0], 3, variances=[1.0, -1.0])
    with pytest.raises(UsageError, match="one parent"):
        project_within([1.0, 2.0], [0, 2], [1.0, 1.0])
    with pytest.raises(UsageError, match="whole numbers"):
        round_within([1.0, 2.0], [0, 0], [2.5])
    with pytest.raises(UsageError, match="whole numbers"):
        round_to([1.0], LARGEST_TOTAL + 1)
