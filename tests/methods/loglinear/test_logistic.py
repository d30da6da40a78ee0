"""The fit: derivatives, agreement with other software, noise, thinning, very large terms."""

import numpy as np
import pytest

from dipsmith.methods.loglinear import solver as logistic
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.methods.loglinear.penalty import Penalty
from dipsmith.methods.loglinear.public_design import LabelTerm, PublicDesign, contrasts
from dipsmith.methods.loglinear.softmax import BarredLabels
from dipsmith.methods.loglinear.solver import FREE, EffectEquations, estimate_effects
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Schema


def design_of(columns, sizes, labels, maps=None, multiplicities=None, barred=()):
    rows = len(columns[0]) if columns else 0
    every = np.arange(labels)
    intercept = LabelTerm(np.zeros(rows, dtype=np.int32), 1, every, labels)
    terms = [intercept] + [LabelTerm(np.asarray(c), s, every, labels) for c, s in zip(columns, sizes, strict=True)]
    for of_label, size, column, cells in maps or ():
        terms.append(LabelTerm(np.asarray(column), cells, np.asarray(of_label), size))
    weights = np.ones(rows, dtype=np.int64) if multiplicities is None else multiplicities
    return PublicDesign(tuple(terms), weights, labels, tuple(barred))


def counted(design, labels):
    """True statistics of rows with one label each, repeated by multiplicity."""
    tables = []
    for term in design.terms:
        table = np.zeros((term.cells, term.labels))
        np.add.at(table, (term.cell, term.of_label[labels]), design.multiplicities)
        tables.append(table)
    return tables


def log_likelihood(design, phi, statistics):
    """ℓ(θ) up to a constant in θ."""
    log_z = sum(design.multiplicities[rows] @ z for rows, _, z in design._passes(phi, design.labels))
    return phi @ statistics - log_z


@pytest.fixture(scope="module")
def mixed():
    """A design with joint labels, a term on part of them, and a rule."""
    rng = np.random.default_rng(0)
    n = 60
    x, z = rng.integers(0, 3, n), rng.integers(0, 4, n)
    maps = [(np.arange(6) // 3, 2, z, 4), (np.arange(6) % 3, 3, np.zeros(n, dtype=int), 1)]
    barred = (BarredLabels(x == 0, np.arange(6) == 5),)
    return design_of([x], [3], 6, maps, rng.integers(1, 9, n), barred), rng


def test_contrasts_are_orthonormal_and_sum_to_zero():
    for labels in (1, 2, 3, 7):
        basis = contrasts(labels)
        assert basis.shape == (labels, labels - 1)
        np.testing.assert_allclose(basis.T @ basis, np.eye(labels - 1), atol=1e-12)
        np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)


def test_gradient_matches_finite_differences(mixed):
    design, rng = mixed
    phi, statistics = rng.normal(0, 0.5, design.size), rng.normal(0, 3, design.size)
    value, gradient = log_likelihood(design, phi, statistics), statistics - design.moments(phi).expected
    step = 1e-5
    for i in range(design.size):
        ahead = phi + step * (np.arange(design.size) == i)
        behind = phi - step * (np.arange(design.size) == i)
        slope = log_likelihood(design, ahead, statistics) - log_likelihood(design, behind, statistics)
        assert slope / (2 * step) == pytest.approx(gradient[i], abs=1e-5 * max(1, abs(value)))


def test_information_matches_finite_differences_of_the_gradient(mixed):
    design, rng = mixed
    phi = rng.normal(0, 0.5, design.size)
    moments = design.moments(phi, dense=range(len(design.terms)), blocks=[1, 2])
    step = 1e-5
    for i in range(design.size):
        unit = step * (np.arange(design.size) == i)
        change = design.moments(phi + unit).expected - design.moments(phi - unit).expected
        np.testing.assert_allclose(moments.information[i], change / (2 * step), atol=1e-4)
    for c in (1, 2):
        term, here = design.terms[c], design.slices[c]
        own = moments.information[here, here].reshape(term.cells, term.contrasts, term.cells, term.contrasts)
        for cell in range(term.cells):
            np.testing.assert_allclose(moments.blocks[c][cell], own[cell, :, cell], atol=1e-9)


def test_moments_do_not_depend_on_the_chunk(mixed, monkeypatch):
    design, rng = mixed
    phi = rng.normal(0, 0.5, design.size)
    whole = design.moments(phi, dense=range(len(design.terms)))
    monkeypatch.setattr("dipsmith.methods.loglinear.public_design.CHUNK_BYTES", 1)
    monkeypatch.setattr("dipsmith.methods.loglinear.public_design.LEAST_ROWS", 7)
    parts = design.moments(phi, dense=range(len(design.terms)))
    np.testing.assert_allclose(whole.expected, parts.expected)
    np.testing.assert_allclose(whole.information, parts.information, atol=1e-9)


def exact(design, tables, penalties=None, variance=0.0):
    penalties = penalties or [Penalty(t.cells, t.contrasts, given_strength=FREE) for t in design.terms]
    free = tuple(True for _ in design.terms)
    variances = tuple(variance for _ in design.terms)
    return EffectEquations(design, design.statistics(tables), variances, tuple(penalties), free)


def simulated(n, sizes, labels, seed, scale=0.6):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, s, n) for s in sizes]
    effects = [rng.normal(0, scale, (s, labels)) for s in sizes]
    eta = sum(e[c] for e, c in zip(effects, columns, strict=True)) + rng.gumbel(size=(n, labels))
    return columns, eta.argmax(axis=1), rng


@pytest.mark.slow
@pytest.mark.parametrize("labels", [2, 4])
def test_without_noise_and_penalty_it_is_statsmodels_logistic_regression(labels):
    statsmodels = pytest.importorskip("statsmodels.api")
    columns, y, _ = simulated(3000, [3, 4], labels, seed=1)
    design = design_of(columns, [3, 4], labels)
    found = estimate_effects(exact(design, counted(design, y)))
    dummies = [(c[:, None] == np.arange(1, s)) for c, s in zip(columns, [3, 4], strict=True)]
    theirs = statsmodels.MNLogit(y, statsmodels.add_constant(np.hstack(dummies).astype(float))).fit(disp=0, tol=1e-12)
    tables = design.effects(found.effects)
    odds = [t[:, 1:] - t[:, :1] for t in tables]
    ours = np.vstack([odds[0] + odds[1][:1] + odds[2][:1], odds[1][1:] - odds[1][:1], odds[2][1:] - odds[2][:1]])
    np.testing.assert_allclose(ours, np.asarray(theirs.params), atol=1e-4)
    # … and so are the standard errors of differences between levels.
    k = labels - 1
    basis = contrasts(labels)
    cov = found.reading.covariances[1].reshape(3, k, 3, k)
    q = basis[1] - basis[0]
    variance = np.einsum("a,xayb,b->xy", q, cov, q)
    ours_se = np.sqrt(variance[1, 1] + variance[0, 0] - 2 * variance[0, 1])
    assert ours_se == pytest.approx(np.asarray(theirs.bse).reshape(6, k)[1, 0], rel=1e-2)


@pytest.mark.slow
def test_without_noise_it_is_ridge_regression_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    columns, y, _ = simulated(2000, [5, 3], 3, seed=2)
    design = design_of(columns, [5, 3], 3)
    penalties = [
        Penalty(1, 2, given_strength=FREE),
        Penalty(5, 2, given_strength=4.0),
        Penalty(3, 2, given_strength=4.0),
    ]
    found = estimate_effects(exact(design, counted(design, y), penalties))
    hot = np.hstack([(c[:, None] == np.arange(s)) for c, s in zip(columns, [5, 3], strict=True)]).astype(float)
    theirs = linear_model.LogisticRegression(C=1 / 4.0, tol=1e-10, max_iter=5000).fit(hot, y)
    tables = design.effects(found.effects)
    ours = np.vstack(tables[1:])
    np.testing.assert_allclose(ours, theirs.coef_.T, atol=1e-4)


def test_solution_satisfies_its_equations():
    """H(H + V)⁻¹(S̃ − E_θ S) = Pφ, for tables with noise of different size."""
    columns, y, rng = simulated(2000, [4, 6], 3, seed=3)
    design = design_of(columns, [4, 6], 3)
    variances = (50.0, 400.0, 2000.0)
    tables = [t + rng.normal(0, v**0.5, t.shape) for t, v in zip(counted(design, y), variances, strict=True)]
    penalties = (Penalty(1, 2, given_strength=0.25), Penalty(4, 2), Penalty(6, 2))
    equations = EffectEquations(design, design.statistics(tables), variances, penalties, (True,) * 3)
    found = estimate_effects(equations)
    moments = design.moments(found.effects, dense=range(3))
    noise = np.concatenate([np.full(t.size, v) for t, v in zip(design.terms, variances, strict=True)])
    H = moments.information
    left = H @ np.linalg.solve(H + np.diag(noise), equations.statistics - moments.expected)
    right = np.concatenate(
        [p.pull(s, found.effects[h]) for p, s, h in zip(penalties, found.log_strengths, design.slices, strict=True)]
    )
    # The weights are those of an earlier step, less than a tenth of an error bar away.
    np.testing.assert_allclose(left, right, rtol=0.02, atol=0.03)
    assert np.abs(right).max() > 0.2  # the penalty does pull here


def test_noise_of_any_size_gives_finite_effects():
    columns, y, rng = simulated(500, [4, 6], 5, seed=4)
    design = design_of(columns, [4, 6], 5)
    for sd in (1e2, 1e4, 1e7):
        tables = [t + rng.laplace(0, sd, t.shape) for t in counted(design, y)]
        penalties = [Penalty(1, 4, given_strength=0.25), Penalty(4, 4), Penalty(6, 4)]
        found = estimate_effects(exact(design, tables, penalties, variance=2 * sd**2))
        assert np.isfinite(found.effects).all()
        assert np.abs(found.effects).max() < 8
        assert np.isfinite(found.reading.unshrunk).all()


def test_separated_data_end_at_large_finite_effects():
    x = np.repeat([0, 1], 50)
    design = design_of([x], [2], 2)
    found = estimate_effects(exact(design, counted(design, x)))
    odds = design.effects(found.effects)[1]
    assert np.isfinite(odds).all()
    assert odds[1, 1] - odds[1, 0] > 5


def test_thinned_steps_solve_the_equations_of_all_rows(monkeypatch):
    columns, y, rng = simulated(6000, [12, 15, 9], 3, seed=5)
    design = design_of(columns, [12, 15, 9], 3)
    tables = [t + rng.normal(0, 20, t.shape) for t in counted(design, y)]
    penalties = [Penalty(1, 2, given_strength=0.25), *(Penalty(s, 2) for s in (12, 15, 9))]
    equations = exact(design, tables, penalties, variance=400.0)
    whole = estimate_effects(equations)
    monkeypatch.setattr(logistic, "THINNED", 1500)
    thin = estimate_effects(equations)
    # Weights and penalties come from a quarter of the rows, expectations from all: a fraction of an error bar.
    errors = np.sqrt(np.concatenate([np.diag(c) for c in whole.reading.covariances]))
    assert np.abs((thin.effects - whole.effects) / np.minimum(errors, 1)).max() < 0.35
    assert len(design.thin(1500).multiplicities) <= 1500
    assert design.thin(1500).multiplicities.sum() == pytest.approx(6000)


def test_a_large_term_solved_by_itself_agrees_with_all_together(monkeypatch):
    columns, y, rng = simulated(8000, [40, 6], 3, seed=6)
    design = design_of(columns, [40, 6], 3)
    tables = [t + rng.normal(0, 5, t.shape) for t in counted(design, y)]
    penalties = [Penalty(1, 2, given_strength=0.25), Penalty(40, 2), Penalty(6, 2)]
    equations = exact(design, tables, penalties, variance=25.0)
    together = estimate_effects(equations)
    monkeypatch.setattr(logistic, "TOGETHER", 30)
    apart = estimate_effects(equations)
    assert apart.reading.covariances[1].shape == (40, 2, 2)
    for one, other in zip(design.effects(together.effects), design.effects(apart.effects), strict=True):
        one, other = one - one.mean(axis=0), other - other.mean(axis=0)
        assert np.abs(one - other).max() < 0.05


def test_starting_from_a_fit_ends_where_it_was():
    columns, y, rng = simulated(3000, [4, 6], 3, seed=7)
    design = design_of(columns, [4, 6], 3)
    tables = [t + rng.normal(0, 10, t.shape) for t in counted(design, y)]
    penalties = [Penalty(1, 2, given_strength=0.25), Penalty(4, 2), Penalty(6, 2)]
    equations = exact(design, tables, penalties, variance=100.0)
    first = estimate_effects(equations)
    again = estimate_effects(equations, first.effects, first.log_strengths)
    np.testing.assert_allclose(first.effects, again.effects, atol=2e-3)


# --- label contrasts one at a time ------------------------------------------------------------------------


def labelled_rows(n=3000, sizes=(6, 9, 4), labels=4):
    rng = np.random.default_rng(11)
    columns = [rng.integers(0, s, n) for s in sizes]
    odds = sum(rng.normal(0, 0.7, (s, labels))[c] for s, c in zip(sizes, columns, strict=True))
    p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return design_of(columns, list(sizes), labels), y, rng


def fitted(*args, **kwargs):
    return estimate_effects(exact(*args, **kwargs))


def by_contrast(monkeypatch, *args, **kwargs):
    with monkeypatch.context() as patch:
        patch.setattr(logistic, "EXACT", 0)
        return fitted(*args, **kwargs)


def test_contrast_information_is_the_diagonal_of_the_whole():
    design, _, rng = labelled_rows()
    phi = rng.normal(0, 0.5, design.size)
    found = design.contrast_information(phi)
    whole = design.moments(phi, dense=range(len(design.terms))).information
    cells, k = sum(t.cells for t in design.terms), len(found.basis)
    turned = np.einsum("xayb,aj,bj->jxy", whole.reshape(cells, k, cells, k), found.basis, found.basis)
    for j, block in enumerate(found.blocks):
        np.testing.assert_allclose(np.tril(block), np.tril(turned[j]), atol=1e-8)


def test_contrasts_of_rows_with_one_label_distribution_differ_by_a_factor():
    design, _, rng = labelled_rows()
    phi = np.zeros(design.size)
    phi[design.slices[0]] = rng.normal(0, 1, design.terms[0].size)
    alike = design.contrast_information(phi)
    phi[-1] = 1e-9
    other = design.contrast_information(phi)
    for one, two in zip(alike.blocks, other.blocks, strict=True):
        np.testing.assert_allclose(np.tril(one), np.tril(two), rtol=1e-6, atol=1e-5)


def test_without_noise_contrasts_one_at_a_time_change_nothing(monkeypatch):
    design, y, _ = labelled_rows()
    penalties = [Penalty(t.cells, t.contrasts, given_strength=4.0) for t in design.terms]
    whole = fitted(design, counted(design, y), penalties)
    found = by_contrast(monkeypatch, design, counted(design, y), penalties)
    errors = np.sqrt(np.concatenate([np.diag(c) for c in whole.reading.covariances]))
    assert np.abs(found.effects - whole.effects).max() < 0.01
    np.testing.assert_array_less(np.abs(found.reading.unshrunk - whole.reading.unshrunk), 0.02 * errors + 1e-3)


def test_with_noise_contrasts_one_at_a_time_stay_within_a_fraction_of_the_error(monkeypatch):
    design, y, rng = labelled_rows()
    noise = [rng.normal(0, 15, t.shape) for t in counted(design, y)]
    tables = [t + e - e.mean(axis=1, keepdims=True) for t, e in zip(counted(design, y), noise, strict=True)]
    penalties = [Penalty(t.cells, t.contrasts) for t in design.terms]
    whole = fitted(design, tables, penalties, variance=225.0)
    found = by_contrast(monkeypatch, design, tables, penalties, variance=225.0)
    errors = np.sqrt(np.concatenate([np.diag(c) for c in whole.reading.covariances]))
    assert np.sqrt(np.mean(((found.effects - whole.effects) / errors) ** 2)) < 0.2


def test_what_is_only_for_reading_waits_until_it_is_asked_for(monkeypatch):
    design, y, _ = labelled_rows(n=200)
    read = []
    monkeypatch.setattr(logistic, "_read", lambda *_: read.append(1) or "read")
    found = fitted(design, counted(design, y))
    assert not read
    assert (found.reading, found.reading) == ("read", "read")
    assert len(read) == 1


def test_a_fit_that_starts_nearby_comes_to_the_same():
    rng = np.random.default_rng(8)
    x, z = rng.integers(0, 12, 3000), rng.integers(0, 5, 3000)
    y = (rng.random(3000) < 1 / (1 + np.exp(-(0.2 * x - 1 + 0.3 * (z == 2))))).astype(int)
    fields = [
        {"name": "x", "type": "integer", "minimum": 0, "maximum": 11, "bins": {"width": 1}, "role": "public"},
        {"name": "z", "type": "integer", "enum": list(range(5)), "other": "0", "role": "public"},
        {"name": "y", "type": "integer", "enum": [0, 1], "other": "0", "role": "private"},
    ]
    schema = Schema.from_dict({"name": "t", "unit": "row", "neighbours": "label", "fields": fields})
    codes = Codes.of(schema, {"x": x, "z": z, "y": y}, 3000)
    method = LogLinear(targets=["y"])
    first, again = (method.fit(Curator.rehearse(codes, PureDP(2), seed=s)) for s in (1, 2))
    near, remembered = (method.fit_near(Curator.rehearse(codes, PureDP(2), seed=2), first) for _ in range(2))
    assert first.blocks[0].memory.answers  # the second began with the same plan and weights, found once
    assert np.array_equal(near.probabilities(codes), remembered.probabilities(codes))
    p, q, r = (m.probabilities(codes)[:, 1] for m in (again, near, first))
    apart, begun = (float(np.sqrt(np.mean((other - p) ** 2))) for other in (q, r))
    # λ is found to a tenth from either side
    assert apart < 0.25 * begun
