"""Least squares on trees against dense constrained weighted least squares and published weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import null_space

from dipsmith.errors import UsageError
from dipsmith.estimation.tree import Tree, gls, sum_variance, upward

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    tree: Tree
    values: Floats
    variances: Floats


def random_tree(rng: np.random.Generator) -> Tree:
    depth = int(rng.integers(1, 5))
    children = [np.array([rng.integers(1, 6)])]
    for _ in range(depth - 1):
        fan = rng.integers(1, 6, size=int(children[-1].sum()))
        children.append(np.where(rng.random(fan.size) < 0.4, fan, 0))
    return Tree.build(children)


def leaf_matrix(tree: Tree) -> Floats:
    """Row v: which leaves are below node v."""
    below = np.zeros((tree.size, tree.size))
    for v in range(tree.size - 1, -1, -1):
        below[v, v] += 0.0 if v in tree.inner else 1.0
        if tree.parent[v] >= 0:
            below[tree.parent[v]] += below[v]
    return below[:, tree.leaves]


def random_case(seed: int, unmeasured: float = 0.25, exact: float = 0.15) -> Case:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    truth = leaf_matrix(tree) @ rng.integers(0, 50, tree.leaves.size).astype(float)
    variances = rng.uniform(0.1, 10, tree.size)
    kind = rng.random(tree.size)
    variances[kind < unmeasured] = np.inf
    variances[kind > 1 - exact] = 0.0
    noise = np.where(np.isfinite(variances), variances, 0.0) ** 0.5
    values = np.where(np.isfinite(variances), truth + rng.normal(size=tree.size) * noise, np.nan)
    return Case(tree, values, variances)


def dense(case: Case) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Estimates, their covariance, and which nodes the measurements determine: null-space method."""
    below = leaf_matrix(case.tree)
    exact, noisy = case.variances == 0, (case.variances > 0) & np.isfinite(case.variances)
    leaves = below.shape[1]
    start, basis = np.zeros(leaves), np.eye(leaves)
    if exact.any():
        start = np.linalg.lstsq(below[exact], case.values[exact], rcond=None)[0]
        basis = null_space(below[exact])
    moves = below @ basis
    root_precision = 1 / np.sqrt(case.variances[noisy])
    design = moves[noisy] * root_precision[:, None]
    response = (case.values[noisy] - below[noisy] @ start) * root_precision
    inverse = np.linalg.pinv(design, rcond=1e-10)
    unseen = np.eye(basis.shape[1]) - inverse @ design
    estimates = below @ start + moves @ (inverse @ response)
    covariance = moves @ inverse @ inverse.T @ moves.T
    return estimates, covariance, np.abs(moves @ unseen).max(axis=1, initial=0.0) < 1e-8


SEEDS = range(260)


def estimated(tree: Tree, values: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    """The estimate of every node, and its variance: that of a sum of one node."""
    nodes = np.arange(tree.size)
    return gls(tree, values, variances), np.array([sum_variance(tree, variances, nodes == n) for n in nodes])


@pytest.mark.parametrize("seed", SEEDS)
def test_gls_equals_dense_constrained_least_squares(seed: int) -> None:
    case = random_case(seed)
    x, variances = estimated(case.tree, case.values, case.variances)
    expected, covariance, determined = dense(case)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x[determined], expected[determined], rtol=0, atol=1e-9)
    np.testing.assert_allclose(variances[determined], np.diag(covariance)[determined], rtol=0, atol=1e-9)
    assert np.isinf(variances[~determined]).all()
    np.testing.assert_allclose(x, leaf_matrix(case.tree) @ x[case.tree.leaves], rtol=0, atol=1e-9)


def test_the_random_trees_cover_every_kind_of_case() -> None:
    cases = [random_case(seed) for seed in SEEDS]
    determined = [dense(case)[2] for case in cases]
    assert sum(bool(d.all()) for d in determined) > 20
    assert sum(not d.all() for d in determined) > 20
    assert sum(d.any() and not d.all() for d in determined) > 20
    assert max(len(case.tree.layers) for case in cases) == 6
    assert any(len(set(np.diff(case.tree.first))) > 1 for case in cases)
    assert any((case.variances[case.tree.inner] == 0).any() for case in cases)
    # Leaves in two different layers: branches of different length.
    depth = [np.searchsorted(case.tree.layers, case.tree.leaves, side="right") for case in cases]
    assert sum(len(set(d.tolist())) > 1 for d in depth) > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_variance_of_a_weighted_sum_equals_dense(seed: int) -> None:
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    _, covariance, determined = dense(case)
    for weights in (rng.normal(size=case.tree.size), rng.integers(0, 2, case.tree.size).astype(float)):
        known_only = np.where(determined, weights, 0.0)
        expected = known_only @ covariance @ known_only
        assert sum_variance(case.tree, case.variances, known_only) == pytest.approx(expected, abs=1e-8)


def test_a_difference_of_two_unmeasured_leaves_is_undetermined_and_their_sum_is_not() -> None:
    tree, variances = Tree([-1, 0, 0, 0]), [2.0, np.inf, np.inf, 1.0]
    assert sum_variance(tree, variances, [0, 1, -1, 0]) == np.inf
    assert sum_variance(tree, variances, [0, 1, 1, 0]) == pytest.approx(3.0)
    assert sum_variance(tree, [np.inf, np.inf, np.inf, 1.0], [0, 1, 1, 0]) == np.inf


@pytest.mark.parametrize("b", [2, 3, 5])
def test_own_weight_is_that_of_hay_et_al(b: int) -> None:
    tree = Tree.build([b, b, b])
    weight = upward(tree, np.ones(tree.size)).weight
    by_height = {h: weight[tree.layers[4 - h]] for h in (2, 3, 4)}
    published = {2: (0.6667, 0.5714, 0.5333), 3: (0.75, 0.6923, 0.675), 5: (0.8333, 0.8065, 0.8013)}
    for h, rounded in zip((2, 3, 4), published[b], strict=True):
        assert by_height[h] == pytest.approx((b**h - b ** (h - 1)) / (b**h - 1), abs=1e-12)
        assert by_height[h] == pytest.approx(rounded, abs=5e-5)


@pytest.mark.parametrize("b", [2, 3, 5])
def test_estimates_are_those_of_hay_et_al(b: int) -> None:
    tree = Tree.build([b, b, b])
    rng = np.random.default_rng(b)
    y = rng.normal(size=tree.size)
    z, x = y.copy(), np.empty(tree.size)
    children = {int(v): np.flatnonzero(tree.parent == v) for v in tree.inner}
    height = 4 - (np.searchsorted(tree.layers, np.arange(tree.size), side="right") - 1)
    for v in tree.inner[::-1]:
        h = int(height[v])
        own = (b**h - b ** (h - 1)) / (b**h - 1)
        z[v] = own * y[v] + (b ** (h - 1) - 1) / (b**h - 1) * z[children[int(v)]].sum()
    x[0] = z[0]
    for v in tree.inner:
        below = children[int(v)]
        x[below] = z[below] + (x[v] - z[below].sum()) / b
    np.testing.assert_allclose(gls(tree, y, np.ones(tree.size)), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("c", "leaf"), [(2, 0.667), (5, 0.833), (60, 0.984), (322_560, 1.000)])
def test_variance_of_a_node_and_its_leaves(c: int, leaf: float) -> None:
    tree = Tree.build([c])
    variances = [sum_variance(tree, np.ones(tree.size), np.arange(tree.size) == node) for node in (0, 1)]
    assert variances[1] == pytest.approx(c / (c + 1), abs=1e-12)
    assert variances[1] == pytest.approx(leaf, abs=5e-4)
    assert variances[0] == pytest.approx(leaf, abs=5e-4)
    all_leaves = np.r_[0.0, np.ones(c)]
    assert sum_variance(tree, np.ones(tree.size), all_leaves) == pytest.approx(c / (c + 1), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fanouts", "by_layer"),
    [
        ((2, 3, 4, 5, 15), (0.35, 0.55, 0.65, 0.78, 0.94)),
        ((2, 2, 14), (0.33, 0.55, 0.93)),
        ((5, 2, 3), (0.48, 0.50, 0.72)),
    ],
)
def test_mean_squared_error_by_layer_below_a_public_total(
    fanouts: tuple[int, ...], by_layer: tuple[float, ...]
) -> None:
    tree = Tree.build(fanouts)
    variances = np.ones(tree.size)
    variances[0] = 0.0
    _, result = estimated(tree, np.zeros(tree.size), variances)
    assert result[0] == 0.0
    for layer, expected in enumerate(by_layer, start=1):
        nodes = slice(tree.layers[layer], tree.layers[layer + 1])
        np.testing.assert_allclose(result[nodes], expected, rtol=0, atol=5.01e-3)


@pytest.mark.parametrize("seed", range(30))
def test_stated_variances_are_those_of_the_linear_map(seed: int) -> None:
    # The estimate is x = K·y, so its variance is Σ_j K_ij²·σ_j²; K column by column, from unit vectors.
    case = random_case(seed, exact=0.0)
    measured = np.isfinite(case.variances)
    units = np.eye(case.tree.size)
    gain = np.array([gls(case.tree, unit, case.variances) for unit in units]).T
    _, stated = estimated(case.tree, case.values, case.variances)
    implied = gain[:, measured] ** 2 @ case.variances[measured]
    determined = np.isfinite(stated)
    np.testing.assert_allclose(stated[determined], implied[determined], rtol=1e-9, atol=1e-12)


def test_exact_nodes_keep_their_value_to_the_last_bit() -> None:
    rng = np.random.default_rng(3)
    tree = Tree.build([3, 4, 5])
    values, variances = rng.normal(size=tree.size) * 1e3, rng.uniform(0.1, 2, tree.size)
    exact = [0, 2, 7, 30]
    variances[exact] = 0.0
    x, result = estimated(tree, values, variances)
    assert x[exact].tolist() == values[exact].tolist()
    assert result[exact].tolist() == [0.0] * 4


def test_structural_zeros_empty_the_nodes_above_them() -> None:
    tree = Tree.build([2, 2])
    variances = np.array([1.0, 1, 1, 0, 0, 1, 1])
    x, result = estimated(tree, [10.0, 5, 9, 0, 0, 4, 4], variances)
    assert x[[1, 3, 4]].tolist() == [0, 0, 0]
    assert result[1] == 0
    assert x[0] == x[2]


def test_known_parts_of_a_known_total_that_agree_are_accepted() -> None:
    x, result = estimated(Tree([-1, 0, 0]), [0.3, 0.1, 0.2], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(x, [0.3, 0.1, 0.2], rtol=0, atol=1e-15)
    assert result.tolist() == [0, 0, 0]


def test_known_parts_that_contradict_a_known_total_are_refused() -> None:
    with pytest.raises(UsageError, match="contradict"):
        gls(Tree([-1, 0, 0]), [10, 4, 5], [0, 0, 0])


def test_what_nothing_determines_is_shared_equally_among_the_unmeasured_leaves() -> None:
    tree = Tree.build([[3], [2, 0, 0]])
    x, variances = estimated(tree, [12, np.nan, np.nan, 3, np.nan, np.nan], [1, *[np.inf] * 2, 1, *[np.inf] * 2])
    np.testing.assert_allclose(x, [12, 6, 3, 3, 3, 3])
    assert variances.tolist() == [1, np.inf, np.inf, 1, np.inf, np.inf]


def test_several_roots_are_independent() -> None:
    both = Tree([-1, -1, 0, 0, 1, 1, 1])
    rng = np.random.default_rng(1)
    y, s = rng.normal(size=7), rng.uniform(1, 2, 7)
    x, variances = estimated(both, y, s)
    for nodes in ([0, 2, 3], [1, 4, 5, 6]):
        alone = estimated(Tree([-1, *[0] * (len(nodes) - 1)]), y[nodes], s[nodes])
        np.testing.assert_allclose(x[nodes], alone[0])
        np.testing.assert_allclose(variances[nodes], alone[1])


def test_a_chain_averages_its_measurements() -> None:
    x, variances = estimated(Tree([-1, 0, 1, 2]), [1.0, 2, 3, 6], [1.0, 1, 1, 1])
    np.testing.assert_allclose(x, 3.0)
    np.testing.assert_allclose(variances, 0.25)


def test_a_single_node_is_returned() -> None:
    x, variances = estimated(Tree([-1]), [4.5], [2.0])
    assert (x.tolist(), variances.tolist()) == ([4.5], [2.0])


@pytest.mark.parametrize("parent", [[], [0], [-1, 1], [-1, 0, 1, 0], [-1, 2, 0], [[-1, 0]], [-1, -2], [-1, 0, 5]])
def test_parents_out_of_breadth_first_order_are_refused(parent: list[int]) -> None:
    with pytest.raises(UsageError, match="tree's parents"):
        Tree(np.array(parent, dtype=np.int64))


def test_children_that_do_not_match_the_layer_are_refused() -> None:
    with pytest.raises(UsageError, match="2 nodes"):
        Tree.build([[2], [1, 1, 1]])


@pytest.mark.parametrize(
    ("values", "variances"),
    [([1, 2], [1, 1, 1]), ([1, 2, np.nan], [1, 1, 1]), ([1, 2, 3], [1, -1, 1]), ([1, 2, 3], [1, np.nan, 1])],
)
def test_unusable_numbers_are_refused(values: list[float], variances: list[float]) -> None:
    with pytest.raises(UsageError):
        gls(Tree([-1, 0, 0]), values, variances)


def test_inputs_are_left_alone() -> None:
    parent = np.array([-1, 0, 0])
    y, s = np.array([5.0, 1, 1]), np.array([1.0, 1, 1])
    tree = Tree(parent)
    gls(tree, y, s)
    assert (y.tolist(), s.tolist(), parent.flags.writeable) == ([5, 1, 1], [1, 1, 1], True)
    with pytest.raises(ValueError, match="read-only"):
        tree.parent[1] = 0
