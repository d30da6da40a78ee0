"""Leaves estimated together: exact smoothing, honest variances, and never worse than no tree at all."""

import numpy as np
import pytest
from scipy.special import expit, logit

from dipsmith.methods.forest import shrinkage
from dipsmith.methods.forest.leaves import LeafCounts, estimate_separately, estimate_sizes, join_marginals
from dipsmith.methods.forest.shrinkage import _LevelEffects, _Smoother, shrink
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.schema import Attribute, Categories, Schema, Unit


def schema_of(sizes):
    attributes = [
        Attribute(f"x{i}", "string", Categories.of([str(v) for v in range(s)]), "public") for i, s in enumerate(sizes)
    ]
    return Schema("leaves", tuple(attributes), Unit(), "label")


def full_tree(sizes):
    """Every path asks x0, then x1, …"""
    tree = TreeShape.root(schema_of(sizes), [f"x{i}" for i in range(len(sizes))])
    for i in range(len(sizes)):
        tree = tree.split(np.full(tree.levels[-1] - tree.levels[-2], i))
    return tree


def ragged_tree():
    """Some branches end early."""
    tree = TreeShape.root(schema_of([3, 4, 2]), ["x0", "x1", "x2"]).split(np.array([0]))
    return tree.split(np.array([1, -1, 2])).split(np.array([2, -1, 2, -1, -1, 1]))


def noisy(tree, sizes, p, scale, seed, single=True):
    """Counts drawn from p (leaves × labels) with discrete Laplace noise of the given scale."""
    rng = np.random.default_rng(seed)
    counts = np.array([rng.multinomial(n, q) for n, q in zip(sizes, p, strict=True)]).astype(float)
    q = np.exp(-1 / scale)
    noise = rng.geometric(1 - q, counts.shape) - rng.geometric(1 - q, counts.shape)
    values = counts + noise * (sizes > 0)[:, None]
    if counts.shape[1] == 2 and single:
        values[:, 0] = sizes - values[:, 1]
    return LeafCounts(tree, values, 2 * q / (1 - q) ** 2, sizes.astype(float), True)


def loss(truth, p, sizes):
    """Expected log loss above that of the truth, per row."""
    return float((sizes[:, None] * truth * np.log(truth / p)).sum() / sizes.sum())


def test_up_and_down_equals_the_dense_posterior_mean(monkeypatch):
    tree = ragged_tree()
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, tree.size)
    sizes[3] = 0
    counts = noisy(tree, sizes, np.tile([0.7, 0.3], (tree.size, 1)), 3.0, 1)
    taus = [0.5, 0.2, 0.9]
    gammas = [rng.normal(0, 0.3, (1, 9)) for _ in taus]
    smoother = _Smoother(counts, np.array([0.7, 0.3]), [1])
    effects = [_LevelEffects(t, g) for t, g in zip(taus, gammas, strict=True)]
    monkeypatch.setattr(shrinkage, "_level_effects", lambda level, z, w, before, turns: before)
    odds = np.full((1, len(smoother.shape.nodes)), logit(0.3), dtype=np.float32)
    z, w = np.zeros_like(odds), np.zeros_like(odds)
    smoother._linearise(odds, z, w)
    leaf_z, leaf_w = z.copy(), w.copy()
    smoother._upward(z, w, effects, 1)
    monkeypatch.setattr(shrinkage, "STEP", 100.0)
    smoother._downward(z, w, effects, odds)
    found = odds

    # Dense: η = root + A·(γ of each step + δ), δ ~ N(0, τ²); leaves observe η with precision w.
    nodes = smoother.shape.nodes
    offsets = np.concatenate([[0], np.cumsum(tree.fans)])
    level = np.repeat(np.arange(len(tree.levels) - 1), np.diff(tree.levels))
    mean = np.zeros(len(tree.asks))
    ancestry = np.zeros((len(tree.asks), len(tree.asks)))
    mean[0] = logit(0.3)
    for node in range(1, len(tree.asks)):
        up = tree.parent[node]
        step = offsets[tree.asks[up]] + tree.code[node]
        mean[node] = mean[up] + gammas[level[node] - 1][0, step]
        ancestry[node] = ancestry[up]
        ancestry[node, node] = 1.0
    prior = np.diag([0.0, *(taus[level[node] - 1] for node in range(1, len(tree.asks)))])
    covariance = ancestry @ prior @ ancestry.T
    seen = nodes[smoother.shape.leaves]
    observed = leaf_z[0, smoother.shape.leaves].astype(float)
    noise = np.diag(1 / leaf_w[0, smoother.shape.leaves].astype(float))
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + noise)
    dense = mean + gain @ (observed - mean[seen])
    np.testing.assert_allclose(found[0], dense[nodes], atol=2e-5)


@pytest.mark.parametrize("labels", [2, 3])
def test_parts_and_samples_of_a_level_change_nothing_that_matters(monkeypatch, labels):
    tree = full_tree([6, 8, 5])
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.arange(1, labels + 1) * 3, tree.size)
    sizes = rng.poisson(rng.gamma(0.5, 200, tree.size))
    counts = noisy(tree, sizes, truth, 3.0, 2)
    whole = shrink(counts, truth.mean(axis=0))
    for part in (1, 7, 60):
        monkeypatch.setattr(shrinkage, "PART", part)
        np.testing.assert_allclose(shrink(counts, truth.mean(axis=0)), whole, atol=1e-4)
    monkeypatch.setattr(shrinkage, "SAMPLE", 150)
    monkeypatch.setattr(shrinkage, "LARGE", 100)
    assert loss(truth, shrink(counts, truth.mean(axis=0)), sizes) < 1.1 * loss(truth, whole, sizes)


def test_no_signal_gives_every_leaf_the_marginal():
    tree = full_tree([6, 8, 5])
    sizes = np.random.default_rng(2).poisson(20, tree.size)
    truth = np.tile([0.85, 0.1, 0.03, 0.01, 0.01], (tree.size, 1))
    for seed in range(5):
        counts = noisy(tree, sizes, truth, 25.0, seed)
        p = shrink(counts, truth[0])
        assert loss(truth, p, sizes) < 0.002
        raw = estimate_separately(counts, truth[0])
        assert loss(truth, np.maximum(raw, 1e-3), sizes) > 0.5  # what the leaves alone would give


def test_enough_rows_give_every_leaf_its_own_shares():
    tree = full_tree([4, 5])
    rng = np.random.default_rng(3)
    truth = rng.dirichlet([3, 2, 1], tree.size)
    sizes = np.full(tree.size, 40_000)
    p = shrink(noisy(tree, sizes, truth, 1.0, 4), truth.mean(axis=0))
    assert np.abs(p - truth).max() < 0.02


def test_steps_that_mean_the_same_everywhere_are_learned_from_tiny_leaves():
    """Leaves of five rows under noise of sd 14: no leaf tells anything, all together tell the main effects."""
    tree = full_tree([8, 10, 6])
    rng = np.random.default_rng(5)
    effects = [rng.normal(0, 0.8, s) for s in (8, 10, 6)]
    paths = tree.paths()
    p1 = expit(-0.5 + sum(e[paths[:, i]] for i, e in enumerate(effects)))
    truth = np.stack([1 - p1, p1], axis=1)
    sizes = rng.poisson(30, tree.size)
    marginal = (sizes @ truth) / sizes.sum()
    nothing = loss(truth, np.tile(marginal, (tree.size, 1)), sizes)
    counts = noisy(tree, sizes, truth, 5.0, 6)
    assert loss(truth, shrink(counts, marginal), sizes) < 0.2 * nothing
    assert loss(truth, np.clip(estimate_separately(counts, np.full(2, 0.5)), 0.01, 0.99), sizes) > 0.5 * nothing


@pytest.mark.parametrize("scale", [0.5, 5.0, 40.0, 400.0])
@pytest.mark.parametrize("labels", [2, 5])
def test_is_never_worse_than_the_marginal(scale, labels):
    tree = full_tree([7, 6, 5])
    rng = np.random.default_rng(7)
    base = np.array([0.6, 0.4]) if labels == 2 else np.array([0.8, 0.1, 0.05, 0.03, 0.02])
    sizes = rng.poisson(rng.gamma(0.3, 60, tree.size))
    for seed in range(3):
        tilt = rng.normal(0, 0.15, (tree.size, labels))
        truth = base * np.exp(tilt)
        truth /= truth.sum(axis=1, keepdims=True)
        marginal = (sizes @ truth) / sizes.sum()
        nothing = loss(truth, np.tile(marginal, (tree.size, 1)), sizes)
        p = shrink(noisy(tree, sizes, truth, scale, seed), marginal)
        assert loss(truth, p, sizes) < nothing + 0.01


def test_leaves_add_up_to_the_marginal_and_are_distributions():
    tree = full_tree([5, 4])
    sizes = np.random.default_rng(8).poisson(50, tree.size)
    truth = np.random.default_rng(9).dirichlet([2, 2, 2], tree.size)
    marginal = np.array([0.5, 0.3, 0.2])
    p = shrink(noisy(tree, sizes, truth, 2.0, 1), marginal)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(sizes @ p / sizes.sum(), marginal, atol=1e-3)


def test_a_leaf_without_rows_expects_what_its_step_means_elsewhere():
    tree = full_tree([6, 2])
    paths = tree.paths()
    truth = np.where(paths[:, [1]] == 0, [[0.9, 0.1]], [[0.2, 0.8]])
    sizes = np.full(tree.size, 3000)
    sizes[paths[:, 0] == 5] = [3000, 0]
    p = shrink(noisy(tree, sizes, truth, 1.0, 3), np.array([0.5, 0.5]))
    empty = np.flatnonzero(sizes == 0)[0]
    assert p[empty, 1] > 0.65


def test_a_tree_without_rows_or_without_questions_is_the_marginal():
    marginal = np.array([0.2, 0.3, 0.5])
    for tree in (full_tree([3, 2]), full_tree([])):
        zero = LeafCounts(tree, np.zeros((tree.size, 3)), 8.0, np.zeros(tree.size), True)
        np.testing.assert_allclose(shrink(zero, marginal), np.tile(marginal, (tree.size, 1)), atol=1e-6)


@pytest.mark.parametrize("public", [True, False])
def test_a_single_label_is_certain(public):
    tree = full_tree([3, 2])
    counts = LeafCounts(tree, np.full((tree.size, 1), 5.0), 8.0, np.full(tree.size, 5.0), public)
    np.testing.assert_array_equal(shrink(counts, np.ones(1)), np.ones((tree.size, 1)))


def test_private_sizes_still_find_the_shares():
    tree = full_tree([5, 6])
    rng = np.random.default_rng(11)
    truth = rng.dirichlet([4, 2, 1], tree.size)
    sizes = rng.poisson(3000, tree.size)
    counts = noisy(tree, sizes, truth, 4.0, 2)
    guess = sizes * rng.uniform(0.6, 1.5, tree.size)
    estimated = estimate_sizes(counts.values.sum(axis=1), 3 * counts.variance, guess)
    assert np.abs(estimated - sizes).max() < 60
    private = LeafCounts(tree, counts.values, counts.variance, estimated, False)
    p = shrink(private, (sizes @ truth) / sizes.sum())
    assert np.abs(p - truth).max() < 0.05


def test_private_sizes_drown_in_noise_without_harm():
    tree = full_tree([9, 8, 7])
    sizes = np.random.default_rng(12).poisson(4, tree.size)
    truth = np.tile([0.7, 0.2, 0.1], (tree.size, 1))
    counts = noisy(tree, sizes, truth, 30.0, 5)
    estimated = estimate_sizes(counts.values.sum(axis=1), 3 * counts.variance, np.full(tree.size, 4.0))
    p = shrink(LeafCounts(tree, counts.values, counts.variance, estimated, False), truth[0])
    assert loss(truth, p, sizes) < 0.005


def test_extreme_noise_and_hardly_any_are_both_survived():
    tree = full_tree([4, 3])
    sizes = np.full(tree.size, 10)
    truth = np.tile([0.5, 0.5], (tree.size, 1))
    values = noisy(tree, sizes, truth, 1.0, 1).values
    for variance in (0.0, 1e24):
        p = shrink(LeafCounts(tree, values * (1 + variance**0.5), variance, sizes * 1.0, True), truth[0])
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_marginals_are_joined_by_least_squares():
    precise, vague = (np.array([700.0, 300.0]), 4.0), (np.array([400.0, 600.0]), 4e6)
    np.testing.assert_allclose(join_marginals([precise, vague]), [0.7, 0.3], atol=1e-3)
    np.testing.assert_allclose(join_marginals([precise, (vague[0], 4.0)]), [0.55, 0.45], atol=2e-3)


def test_a_label_that_noise_hid_is_not_put_at_zero():
    joined = join_marginals([(np.array([10_000.0, -150.0, 200.0]), 150.0**2)])
    assert joined.min() > 0.002
    assert joined[0] > 0.95


def test_plain_leaves_back_off_to_an_ancestor_when_noise_ate_them():
    tree = full_tree([2, 2])
    values = np.array([[-3.0, -1.0], [30.0, 10.0], [-2.0, -5.0], [-1.0, -4.0]])
    counts = LeafCounts(tree, values, 2.0, np.full(4, 5.0), True)
    p = estimate_separately(counts, np.array([0.4, 0.6]))
    np.testing.assert_allclose(p[0], np.array([27, 9]) / 36)  # its parent: the sum of both leaves
    np.testing.assert_allclose(p[1], [0.75, 0.25])
    np.testing.assert_allclose(p[2], p[3])
    np.testing.assert_allclose(p[2], [24 / 24, 0])  # up to the root, whose second label is negative
    everything = LeafCounts(tree, -np.ones((4, 2)), 2.0, np.full(4, 5.0), True)
    np.testing.assert_allclose(estimate_separately(everything, np.array([0.4, 0.6])), np.tile([0.4, 0.6], (4, 1)))
