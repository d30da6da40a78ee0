"""Penalties: chosen where the evidence is highest, large for noise, small for signal."""

import numpy as np
import pytest
from scipy import linalg
from scipy.optimize import minimize

from dipsmith.methods.loglinear import penalty as module
from dipsmith.methods.loglinear.penalty import (
    SCALE,
    SPREAD,
    Penalty,
    cellwise_covariance,
    choose_by_contrast,
    choose_cellwise,
    choose_dense,
    dense_covariance,
    quadratic,
    trend,
    walk,
)


def log_evidence(G, g, penalties, log_strengths):
    """What `choose_dense` maximises: the log probability of λ given the noisy tables, up to a constant."""
    total = G.copy()
    value, start = 0.0, 0
    for penalty, strengths in zip(penalties, log_strengths, strict=True):
        precision = penalty.precision(strengths)
        here = slice(start, start + penalty.size)
        total[here, here] += np.kron(precision, np.eye(penalty.contrasts))
        value += 0.5 * penalty.contrasts * float(np.linalg.slogdet(precision)[1])
        if penalty.given_strength is None:
            value -= float(np.sum(((-strengths / 2 - np.log(SCALE)) / SPREAD) ** 2)) / 2
        start = here.stop
    factor = linalg.cho_factor(total, lower=True)
    value -= float(np.log(np.diag(factor[0])).sum())
    return value + 0.5 * float(g @ linalg.cho_solve(factor, g))


def problem(seed, penalties, information, scales):
    """A quadratic φᵀGφ/2 − gᵀφ made from effects of known scale and correlated information."""
    rng = np.random.default_rng(seed)
    size = sum(p.size for p in penalties)
    root = rng.normal(0, 1, (size, size + 5)) * np.sqrt(information / size)
    G = root @ root.T
    truth = np.concatenate([rng.normal(0, s, p.size) for p, s in zip(penalties, scales, strict=True)])
    g = G @ truth + np.linalg.cholesky(G) @ rng.normal(0, 1, size)
    return G, g, truth


def test_choice_maximises_the_evidence():
    penalties = [Penalty(1, 2, given_strength=0.25), Penalty(9, 2), Penalty(14, 2, (None, walk([14], [14])))]
    G, g, _ = problem(0, penalties, 40.0, (1.0, 0.8, 0.4))
    start = [p.start() for p in penalties]
    found = choose_dense(G, g, penalties, start, rounds=200)

    def loss(x):
        return -log_evidence(G, g, penalties, [start[0], x[:1], x[1:]])

    best = minimize(loss, np.concatenate(start[1:]), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-9})
    chosen = np.concatenate(found.log_strengths[1:])
    # The fixed point stops when λ moves by less than a tenth on the log scale.
    np.testing.assert_allclose(chosen, best.x, atol=0.35)
    assert loss(chosen) == pytest.approx(best.fun, abs=0.1)
    expected = np.linalg.solve(np.linalg.inv(dense_covariance(G, penalties, found.log_strengths)), g)
    np.testing.assert_allclose(found.effects, expected, rtol=1e-6, atol=1e-9)


def test_signal_is_kept_and_noise_is_not():
    penalties = [Penalty(40, 1), Penalty(40, 1)]
    shrunk = []
    for seed in range(20):
        G, g, truth = problem(seed, penalties, 30.0, (1.0, 0.0))
        found = choose_dense(G, g, penalties, [p.start() for p in penalties])
        taus = [float(np.exp(-s[0] / 2)) for s in found.log_strengths]
        assert 0.5 < taus[0] < 2.0
        shrunk.append(taus[1])
        raw = np.linalg.solve(G, g)
        assert np.sum((found.effects - truth) ** 2) < np.sum((raw - truth) ** 2)
    assert np.median(shrunk) < SCALE


def test_no_information_leaves_the_prior():
    penalties = [Penalty(5, 3)]
    found = choose_dense(np.zeros((15, 15)), np.zeros(15), penalties, [np.array([3.0])], rounds=100)
    assert np.exp(-found.log_strengths[0][0] / 2) == pytest.approx(SCALE, rel=0.1)


def test_contrasts_one_by_one_choose_nearly_the_same(monkeypatch):
    """Information of the kind that a multinomial model has: cells × (diag p − ppᵀ)."""
    rng = np.random.default_rng(1)
    k, cells = 3, (8, 12)
    penalties = [Penalty(c, k) for c in cells]
    hot = np.concatenate([np.eye(c)[rng.integers(0, c, 4000)] for c in cells], axis=1)
    p = rng.dirichlet([5, 3, 2, 1], 4000)[:, :k]
    each = np.einsum("na,ab->nab", p, np.eye(k)) - p[:, :, None] * p[:, None, :]
    G = np.einsum("nx,nab,ny->xayb", hot, each, hot, optimize=True).reshape(20 * k, 20 * k) / 20
    truth = np.concatenate([rng.normal(0, s, c * k) for s, c in ((0.7, 8), (0.2, 12))])
    g = G @ truth + np.linalg.cholesky(G + 1e-9 * np.eye(60)) @ rng.normal(0, 1, 60)
    start = [p.start() for p in penalties]
    exact = choose_dense(G, g, penalties, start, rounds=100)
    monkeypatch.setattr(module, "EXACT", 0)
    near = choose_dense(G, g, penalties, start, rounds=100)
    for one, other in zip(exact.log_strengths, near.log_strengths, strict=True):
        assert abs(one[0] - other[0]) < 0.3
    np.testing.assert_allclose(exact.effects, near.effects, atol=0.05)


def test_cell_by_cell_agrees_with_dense_where_cells_do_not_inform_each_other():
    rng = np.random.default_rng(2)
    cells, k = 30, 2
    blocks = np.stack([(r := rng.normal(0, 2, (k, k + 2))) @ r.T for _ in range(cells)])
    G = np.zeros((cells, k, cells, k))
    G[np.arange(cells), :, np.arange(cells), :] = blocks
    g = rng.normal(0, 3, (cells, k))
    penalty = Penalty(cells, k)
    dense = choose_dense(G.reshape(60, 60), g.ravel(), [penalty], [penalty.start()], rounds=200)
    apart = choose_cellwise(blocks, g, penalty, penalty.start())
    assert dense.log_strengths[0][0] == pytest.approx(apart.log_strengths[0][0], abs=0.15)
    np.testing.assert_allclose(dense.effects, apart.effects, atol=0.05)
    whole = dense_covariance(G.reshape(60, 60), [penalty], apart.log_strengths).reshape(cells, k, cells, k)
    small = cellwise_covariance(blocks, float(apart.log_strengths[0][0]))
    np.testing.assert_allclose(whole[3, :, 3], small[3], rtol=1e-9)


def test_a_line_costs_only_its_slope():
    ridge, curvature, slope = trend(9, 8)  # the ninth cell is a missing level
    line = np.zeros((9, 1))
    line[:8, 0] = np.arange(8) - 3.5
    assert quadratic(ridge, line) == pytest.approx(0, abs=1e-9)
    assert quadratic(curvature, line) == pytest.approx(0, abs=1e-9)
    assert quadratic(slope, line) == pytest.approx(float(np.sum(line**2)) / 9)
    bent = line**2
    assert quadratic(curvature, bent) > 1
    apart = np.zeros((9, 1))
    apart[8] = 1.0
    assert quadratic(curvature, apart) == 0
    assert quadratic(ridge, apart) == 1


def test_walk_measures_steps_along_ordered_axes_only():
    R = walk([3, 4], [3, 0])
    table = np.add.outer(np.zeros(3), np.arange(4.0)).reshape(12, 1)
    assert quadratic(R, table) == 0
    table = np.add.outer(np.arange(3.0), np.zeros(4)).reshape(12, 1)
    assert quadratic(R, table) == 2 * 4
    assert walk([3, 4], [0, 1]) is None


def test_pull_is_the_gradient_of_the_cost():
    rng = np.random.default_rng(3)
    penalty = Penalty(6, 2, trend(6, 6))
    strengths, effects = rng.normal(0, 1, 3), rng.normal(0, 1, 12)
    pull = penalty.pull(strengths, effects)
    assert effects @ pull == pytest.approx(penalty.cost(strengths, effects))
    whole = np.kron(penalty.precision(strengths), np.eye(2))
    np.testing.assert_allclose(whole @ effects, pull)


def test_contrasts_that_do_not_inform_each_other_are_chosen_as_if_together():
    rng = np.random.default_rng(8)
    k, cells = 3, 14
    penalties = [Penalty(5, k), Penalty(9, k, trend(9, 9))]
    blocks = []
    for _ in range(k):
        root = rng.normal(size=(cells, 40))
        blocks.append(root @ root.T)
    g = rng.normal(0, 8, (k, cells))
    G = np.zeros((cells, k, cells, k))
    for j, block in enumerate(blocks):
        G[:, j, :, j] = block
    start = [p.start() for p in penalties]
    whole = choose_dense(G.reshape(cells * k, -1), g.T.ravel(), penalties, start, rounds=50)
    found = choose_by_contrast([np.tril(b) for b in blocks], g, penalties, start, rounds=50)
    np.testing.assert_allclose(found.effects, whole.effects, rtol=1e-8)
    for one, two in zip(found.log_strengths, whole.log_strengths, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8)
