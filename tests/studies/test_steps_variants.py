"""The paper's printed algorithms do what is claimed of them, and the committed results support the page."""

import sys
from math import exp, lgamma, log
from pathlib import Path

import numpy as np
import pytest
from in_this_process import InThisProcess

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.steps_simulation import __main__ as command  # noqa: E402
from studies.steps_simulation import findings, scenarios  # noqa: E402
from studies.steps_simulation.estimation import draw_rows, fit, moments, quality, simulate  # noqa: E402
from studies.steps_simulation.variants import (  # noqa: E402
    SHAPE,
    VARIANTS,
    Sanitised,
    by_cell,
    by_node,
    clip,
    discrete_laplace,
    exact_two_levels,
    laplace,
    phantom_tree,
    phantom_two_levels,
    printed_upper,
    project,
)

from dipsmith.estimation.tree import Tree, gls, sum_variance  # noqa: E402


def two_level_variances(step, c):
    """Variance of a released leaf and of the sum of the leaves, noise of variance 1 on node and leaves.

    The steps are linear and treat all leaves alike, so their effect on two leaves of one noisy leaf and
    of the node says everything.
    """
    leaf = np.zeros(c)
    leaf[0] = 1.0
    of_leaf = step(np.zeros(()), leaf)[1]
    of_node = step(np.ones(()), np.zeros(c))[1]
    own, other = of_leaf[0], of_leaf[1] if c > 1 else 0.0
    one = own**2 + (c - 1) * other**2 + of_node[0] ** 2
    return one, c * (own + (c - 1) * other) ** 2 + (c * of_node[0]) ** 2


@pytest.mark.parametrize(
    ("c", "b", "leaf", "exact_leaf", "total", "exact_total"),
    [
        (2, 14, 0.880, 0.667, 1.52, 0.667),
        (5, 15, 0.898, 0.833, 2.46, 0.833),
        (60, 15, 1.113, 0.984, 468, 0.984),
        (60, 225, 0.992, 0.984, 32.4, 0.984),
        (322_560, 14, 1434, 1.000, 1.5e14, 1.000),
    ],
)
def test_phantom_categories_inflate_variances(c, b, leaf, exact_leaf, total, exact_total):
    found = two_level_variances(lambda u, l: phantom_two_levels(u, l, b), c)
    assert found[0] == pytest.approx(leaf, rel=2e-3)
    assert found[1] == pytest.approx(total, rel=0.03)
    found = two_level_variances(lambda u, l: exact_two_levels(u, l, 1.0, 1.0), c)
    assert found[0] == pytest.approx(exact_leaf, abs=1e-3)
    assert found[1] == pytest.approx(exact_total, abs=1e-3)


@pytest.mark.parametrize(
    ("levels", "b", "exact", "phantom"),
    [
        ((2, 3, 4, 5, 15), 15, (0.35, 0.55, 0.65, 0.78, 0.94), (26.92, 8.977, 2.302, 0.842, 0.937)),
        ((2, 2, 14), 14, (0.33, 0.55, 0.93), (1.417, 0.821, 0.933)),
        ((5, 2, 3), 5, (0.48, 0.50, 0.72), (1.554, 0.888, 0.765)),
    ],
)
def test_one_attribute_per_layer(levels, b, exact, phantom):
    """Mean squared error of each layer of the released table, n public, unit noise on every node."""
    sizes = np.cumprod(levels)
    tree = Tree.build(levels)
    noise, nodes = np.concatenate([[0.0], np.ones(tree.size - 1)]), np.arange(tree.size)
    by_layer = [sum_variance(tree, noise, nodes == first) for first in tree.layers[1:-1]]
    assert by_layer == pytest.approx(exact, abs=0.006)
    every = np.eye(sizes.sum())
    noisy = np.split(every, np.cumsum(sizes)[:-1])
    leaves = phantom_tree(noisy, np.zeros(sizes.sum()), b)
    found = [(leaves.reshape(n, -1, sizes.sum()).sum(axis=1) ** 2).sum(axis=1).mean() for n in sizes]
    assert found == pytest.approx(phantom, rel=1e-3)
    if b == 15:
        assert (leaves.sum(axis=0) ** 2).sum() == pytest.approx(53.84, rel=1e-3)  # the public n is missed


def test_the_exact_tree_is_the_package_s():
    rng = np.random.default_rng(0)
    upper, leaves = rng.normal(size=3), rng.normal(size=(3, 7))
    node, made = exact_two_levels(upper, leaves, 2.0, 0.5)
    for i in range(3):
        x = gls(Tree.build([7]), np.concatenate([[upper[i]], leaves[i]]), [2.0, *[0.5] * 7])
        assert x[0] == pytest.approx(node[i])
        assert x[1:] == pytest.approx(made[i])
    assert sum_variance(Tree.build([60]), np.ones(61), [0] + [1] * 60) == pytest.approx(0.984, abs=1e-3)


@pytest.mark.parametrize(("b", "weights"), [(2, 2.0), (14, 1.077)])
def test_printed_weights_do_not_add_up_to_one(b, weights):
    """Equation (2): a node and children that agree are not left as they are."""
    assert printed_upper(np.ones(()), np.full(b, 1 / b), b) == pytest.approx(weights, abs=1e-3)


def test_printed_leaves_are_the_raw_ones():
    tables = np.random.default_rng(0).poisson(5.0, (3, *SHAPE)).astype(float)
    noise = discrete_laplace(1)
    made = Sanitised(tables, 4.0, 9000, noise, np.random.default_rng(0)).printed()
    again = discrete_laplace(1)
    again(4.0 * 0.9 / 2, (3, 30))
    raw = by_node(tables) + again(4.0 * 0.9 / 2, (3, 30, 60))
    expected = clip(raw.reshape(3, -1), np.full(3, 9000.0)).reshape(raw.shape)
    np.testing.assert_allclose(by_node(made), expected)


def test_orders_of_cells_are_undone():
    tables = np.random.default_rng(0).random((2, *SHAPE))
    np.testing.assert_array_equal(by_cell(by_node(tables)), tables)


def test_projection_is_the_package_s():
    from dipsmith.estimation.simplex import project as packaged

    rng = np.random.default_rng(0)
    x = rng.normal(1, 3, (20, 50))
    for line, made in zip(x, project(x, np.full(20, 30.0)), strict=True):
        np.testing.assert_allclose(made, packaged(line, 30.0), atol=1e-9)


# --- equation (5): the printed exponential mechanism --------------------------------------------------


def aic(counts, levels):
    n = sum(counts)
    likelihood = lgamma(n + 1) - sum(lgamma(c + 1) for c in counts) + sum(c * log(c / n) for c in counts if c)
    return -2 * likelihood + 2 * levels


def printed_choice(tables, *, observed, rate):
    """P(first attribute) by weights exp(−rate·AIC), the smallest AIC subtracted."""
    scores = [aic(t, sum(c > 0 for c in t) if observed else len(t)) for t in tables]
    weights = [exp(-rate * (s - min(scores))) for s in scores]
    return [w / sum(weights) for w in weights]


def choice_loss(before, after, **how):
    p, q = printed_choice(before, **how), printed_choice(after, **how)
    return max(abs(log(a / b)) for a, b in zip(p, q, strict=True))


def test_printed_selection_wastes_half_or_spends_double():
    """Weights exp(−AIC·ε/4): with observed levels a changed record costs nearly 2ε, with public ones ε."""
    n = 50_000
    # a is by far the better choice, b has eight even levels and one more; a changed record leaves a level of
    # b that it was alone in, and enters one of a that was empty
    even = [n] * 7
    before, after = ([8 * n + 1, 0], [n, *even, 1]), ([8 * n, 1], [n + 1, *even, 0])
    assert 1.9 < choice_loss(before, after, observed=True, rate=1 / 4) < 2
    assert choice_loss(before, after, observed=False, rate=1 / 4) == pytest.approx(1, abs=1e-3)
    added = ([8 * n, 0], [n, *even, 0]), ([8 * n, 1], [n + 1, *even, 0])
    assert choice_loss(*added, observed=False, rate=1 / 4) == pytest.approx(0.5, abs=1e-3)
    assert choice_loss(*added, observed=False, rate=1 / 2) == pytest.approx(1.0, abs=1e-3)
    assert choice_loss(*added, observed=False, rate=1 / 2) <= 1


# --- the study ---------------------------------------------------------------------------------------


def test_rows_are_drawn_as_they_should_be():
    rng = np.random.default_rng(0)
    tables, exact = simulate(1, 4000, 5, rng)
    assert tables.sum() == 20_000
    beta, variance = fit(1, exact)
    # Σ over 55 coefficients of squared standardised errors: χ² with 55 degrees of freedom, sd 10.5
    z = (beta - scenarios.regression.truth(1).coefficients) / np.sqrt(variance)
    assert 10 < (z**2).sum() < 130
    drawn = draw_rows(tables, 4000, rng)
    assert (drawn.rows.sum(axis=1) == 4000).all()
    # binning by 0.8 and drawing uniformly within adds variance 0.8²/12 each: means stay within noise
    assert np.abs(drawn.sums.sum(axis=1) - exact.sums.sum(axis=1)).max() / 4000 < 0.15
    made = moments(tables.reshape(5, 120, 15).astype(np.int64), rng)
    assert (made.rows == exact.rows).all()
    both = [fit(2, m) for m in (made, exact)]
    assert np.abs(both[0][0] - both[1][0]).mean() < 0.1
    found = quality(1, beta[None], variance[None], rng)
    assert found.coverage > 0.7
    assert 0.8 < found.prediction < 1.3


@pytest.mark.parametrize("law", [laplace(np.random.default_rng(0)), discrete_laplace(0)])
def test_every_variant_returns_tables_with_n_rows(law):
    tables = np.random.default_rng(1).poisson(3.0, (4, *SHAPE)).astype(float)
    for name, variant in VARIANTS.items():
        made = variant(Sanitised(tables, 1.0, 5000, law, np.random.default_rng(2)))
        assert made.shape == tables.shape, name
        assert made.min() >= 0, name
        assert made.sum(axis=(1, 2, 3, 4, 5)) == pytest.approx(5000), name


@pytest.mark.parametrize(("scale", "variance"), [(1.0, 1.8413), (2.0, 0.3620), (0.25, 31.83)])
def test_discrete_noise_has_its_variance(scale, variance):
    # 200,000 draws: relative sd of the variance √(5/200000) = 0.5 %; six are 3 %
    drawn = discrete_laplace(3)(scale, (200_000,))
    assert drawn.var() == pytest.approx(variance, rel=0.03)


def test_reference_values_cover_every_scenario():
    known = scenarios.reference()
    assert len(known) == 148
    wanted = {(m, n, v, e) for m, n, e in scenarios.SCENARIOS for v in VARIANTS}
    assert wanted <= set(known)


def committed():
    return scenarios.read(ROOT / "studies" / "steps_simulation" / "results.csv")


def test_committed_results_hold_every_claim():
    lines = committed()
    assert len(lines) == 16 * (1 + 2 * len(VARIANTS) + len(scenarios.PACKAGE))
    failed = [c.claim for c in findings.checks(lines) if not c.holds]
    assert failed == []


def test_the_page_is_made_from_the_committed_results():
    page = (ROOT / "docs" / "studies" / "steps-simulation.md").read_text("utf-8")
    assert page == findings.page(committed())


def test_every_drawn_coefficient_is_in_the_committed_results():
    """Eleven of Model 1, five quantiles of Model 2; their means are the figures of the tables, up to rounding."""
    drawn = [line for line in committed() if (line.method, line.noise) in scenarios.DRAWN]
    assert len(drawn) == 16 * len(scenarios.DRAWN)
    for line in drawn:
        assert len(line.biases) == len(line.errors) == len(line.coverages) == (11 if line.model == 1 else 5)
        if line.model == 1:
            assert np.mean(line.errors) == pytest.approx(line.rmse, abs=1e-3)
            assert np.mean(line.coverages) == pytest.approx(line.coverage, abs=1e-3)


def test_an_interrupted_study_goes_on_with_what_is_missing(monkeypatch, tmp_path, capsys):
    """All scenarios but the last are known: only that one is run, and the page is that of the whole."""
    known = committed()
    first = [i for i, line in enumerate(known) if line.method == "no privacy"][-1]
    scenarios.write(known[:first], tmp_path / "some.csv")
    asked = []
    monkeypatch.setattr(command, "scenario", lambda *place: asked.append(place[:3]) or known[first:])
    monkeypatch.setattr(command, "draw", lambda lines, folder: None)
    monkeypatch.setattr(command, "ProcessPoolExecutor", InThisProcess)
    page, results = tmp_path / "page.md", tmp_path / "some.csv"
    monkeypatch.setattr(sys, "argv", ["steps", "--results", str(results), "--page", str(page)])
    command.main()
    assert asked == [scenarios.SCENARIOS[-1]]
    assert page.read_text("utf-8") == findings.page(known)
    assert "FAILS" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_short_run_agrees_with_the_committed_results():
    """20 repeats of one scenario: an RMSE over 11 coefficients has a relative sd of about 10 %, six are 60 %."""
    lines = scenarios.scenario(1, 4000, 5.0, repeats=20, seed=7)
    known = {(l.method, l.noise): l.rmse for l in committed() if (l.model, l.n, l.eps) == (1, 4000, 5.0)}
    for line in lines:
        if line.method != "no privacy":
            assert line.rmse / known[line.method, line.noise] == pytest.approx(1, abs=0.6), line.method
