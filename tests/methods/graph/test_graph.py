"""Graphical models against brute force over the full joint table."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable
from dipsmith.estimation.simplex import project
from dipsmith.methods.graph.completion import draw_columns
from dipsmith.methods.graph.entropy import SHRINK, fit
from dipsmith.methods.graph.evidence import (
    NONE,
    POSSIBLE,
    Evidence,
    column_distribution,
    denoise_columns,
    join_repeats,
    likely_counts,
    pool_total,
)
from dipsmith.methods.graph.junction import UNTHREADED, JunctionTree, cells_needed, product, sum_to
from dipsmith.methods.graph.model import GraphModel, admit, fit_tables, rule_links, within_cells
from dipsmith.methods.graph.propagation import Propagation
from dipsmith.methods.graph.queries import marginal, pairs
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Rule, Schema, Unit

NAMES = "abcdef"


def schema_of(sizes, rules=()):
    attributes = tuple(Attribute(n, "string", Categories.of([str(i) for i in range(s)])) for n, s in sizes.items())
    return Schema("t", attributes, Unit(), "replace", tuple(rules))


def joint_of(tree, potentials):
    """The full table of a product of clique potentials, by brute force."""
    names = list(tree.sizes)
    full = np.ones(tuple(tree.sizes.values()))
    for clique, table in zip(tree.cliques, potentials, strict=True):
        order = sorted(range(len(clique)), key=lambda i: names.index(clique[i]))
        spread = [tree.sizes[n] if n in clique else 1 for n in names]
        full = full * table.transpose(order).reshape(spread)
    return full


def propagated(tree, potentials):
    """Clique marginals of a product of clique potentials, and the logarithm of its sum."""
    run = Propagation(tree, tree.cliques)
    log_sum = run.run(potentials)
    return run.beliefs(), log_sum


def marginal_of(full, names, kept):
    """A marginal of the full table, axes in the order of `kept`."""
    summed = full.sum(axis=tuple(i for i, n in enumerate(names) if n not in kept))
    order = [n for n in names if n in kept]
    return summed.transpose([order.index(n) for n in kept])


@st.composite
def models(draw):
    sizes = {n: draw(st.integers(1, 3)) for n in NAMES}
    subsets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
    linked = draw(st.lists(subsets, min_size=1, max_size=7))
    tree = JunctionTree.of(sizes, linked)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Some exact zeros, as structural zeros make them.
    potentials = [rng.random(tree.shape(c)) * (rng.random(tree.shape(c)) > 0.1) + 1e-3 for c in tree.cliques]
    return linked, tree, potentials


@settings(max_examples=40, deadline=None)
@given(models())
def test_junction_tree_is_one(case):
    linked, tree, _ = case
    for link in linked:
        assert tree.find_clique(link) is not None
    for i, clique in enumerate(tree.cliques):
        assert clique[: len(tree.separators[i])] == tree.separators[i]
        if i:
            parent = tree.cliques[tree.parents[i]]
            assert tree.parents[i] < i
            assert set(tree.separators[i]) == set(clique) & set(parent)
            # Running intersection: what was seen before is in the separator.
            before = {n for c in tree.cliques[:i] for n in c}
            assert set(clique) & before == set(tree.separators[i])
    assert {n for c in tree.cliques for n in c} == set(NAMES)
    assert tree.cells == cells_needed(tree.sizes, linked)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(models())
def test_marginals_equal_brute_force(case):
    _, tree, potentials = case
    full = joint_of(tree, potentials)
    beliefs, log_sum = propagated(tree, potentials)
    assert log_sum == pytest.approx(np.log(full.sum()), abs=1e-9)
    full /= full.sum()
    for clique, belief in zip(tree.cliques, beliefs, strict=True):
        np.testing.assert_allclose(belief, marginal_of(full, NAMES, clique), atol=1e-12)
    found = pairs(tree, beliefs)
    assert set(found) == set(combinations(NAMES, 2))
    for pair, table in found.items():
        np.testing.assert_allclose(table, marginal_of(full, NAMES, pair), atol=1e-12)
    for pair, table in pairs(tree, beliefs, [("a", "f"), ("b", "e"), ("c",)]).items():
        assert pair in [("a", "f"), ("b", "e")] or tree.find_clique(pair) is not None
        np.testing.assert_allclose(table, found[pair], atol=1e-12)
    for wanted in [*permutations("abc"), ("f",), (), ("a", "c", "d", "f"), ("e", "b"), ("f", "a", "d")]:
        np.testing.assert_allclose(marginal(tree, beliefs, wanted), marginal_of(full, NAMES, wanted), atol=1e-12)


@st.composite
def factored(draw):
    """Small factors, as fits have them: mostly pairs, so that cliques can be kept in parts."""
    sizes = {n: draw(st.integers(1, 3)) for n in NAMES}
    subsets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
    pairs_of = st.lists(st.sampled_from(NAMES), min_size=2, max_size=2, unique=True)
    scopes = [tuple(s) for s in draw(st.lists(st.one_of(pairs_of, pairs_of, subsets), min_size=1, max_size=9))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shapes = [tuple(sizes[n] for n in s) for s in scopes]
    factors = [rng.random(s) * (rng.random(s) > 0.1) + 1e-3 for s in shapes]
    fixed = [((n,), rng.random(sizes[n]) + 0.1) for n in NAMES]
    return JunctionTree.of(sizes, scopes), scopes, factors, fixed


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(factored(), st.sampled_from([0, 1 << 11]))
def test_cliques_in_parts_equal_brute_force(case, small):
    tree, scopes, factors, fixed = case
    run = Propagation(tree, scopes, fixed, small=small)
    for _ in range(2):  # a second run must not remember the first
        log_sum = run.run(factors)
    full = np.ones(tuple(tree.sizes.values()))
    for scope, table in [*zip(scopes, factors, strict=True), *fixed]:
        order = sorted(range(len(scope)), key=lambda i: NAMES.index(scope[i]))
        full = full * table.transpose(order).reshape([tree.sizes[n] if n in scope else 1 for n in NAMES])
    assert log_sum == pytest.approx(np.log(full.sum()), abs=1e-9)
    full /= full.sum()
    for scope, found in zip(scopes, run.marginals(), strict=True):
        np.testing.assert_allclose(found, marginal_of(full, NAMES, scope), atol=1e-12)
    for clique, belief in zip(tree.cliques, run.beliefs(), strict=True):
        np.testing.assert_allclose(belief, marginal_of(full, NAMES, clique), atol=1e-12)


def test_a_large_clique_of_pairs_is_never_filled_while_fitting():
    sizes = dict.fromkeys("abcd", 16)
    tree = JunctionTree.of(sizes, [*combinations("abcd", 2)])
    run = Propagation(tree, [*combinations("abcd", 2)])
    run.run([np.ones((16, 16))] * 6)
    assert tree.cells == 16**4
    assert max(t.size for c in run._cliques for t in [*c.tables, *(s for s in c.sums if s is not None)]) == 16**3


@pytest.mark.parametrize("shape", [(7, 3, 5), (900, 40, 30), (30, 40, 900), (30, 9000, 2), (900, 1, 500)])
def test_products_in_pieces_are_the_product(shape):
    rows, inner, columns = shape
    rng = np.random.default_rng(0)
    left, right = rng.random((rows, inner)), rng.random((inner, columns))
    np.testing.assert_allclose(product(left, right), np.einsum("ik,kj->ij", left, right), rtol=1e-12)
    if rows * inner * columns > UNTHREADED:
        stack = product(np.stack([left, 2 * left]), np.stack([right, right]))
        np.testing.assert_allclose(stack[1], 2 * stack[0], rtol=1e-12)


def test_impossible_potentials_sum_to_nothing():
    tree = JunctionTree.of({"a": 2, "b": 2}, [("a",), ("b",)])
    for nothing in (np.zeros(2), np.full(2, np.inf), np.full(2, np.nan)):
        assert Propagation(tree, [("a",), ("b",)]).run([nothing, np.ones(2)]) == -np.inf


def test_rules_that_leave_nothing_are_refused_by_the_fit():
    schema = schema_of({"a": 2, "b": 2}, [Rule((("a", (0, 1)), ("b", (0, 1))))])
    with pytest.raises(UsageError, match="no combination"):
        fit(schema, [Evidence(("a", "b"), np.ones((2, 2)), 1.0)], 4.0)


@pytest.mark.parametrize("spread", [300.0, 500.0])
def test_many_tables_that_contradict_each_other_do_not_lose_the_product(spread):
    """Each has its largest potential at another combination: with those taken off, the product would be e^-3000."""
    names = [f"x{i}" for i in range(6)]
    rng = np.random.default_rng(0)
    evidence = [Evidence(c, rng.normal(0, spread, (2, 2, 2)), 36.0) for c in combinations(names, 3)]
    fitted = fit(schema_of(dict.fromkeys(names, 2)), evidence, 100.0)
    largest = {e.attributes: float(fitted.potentials[e.attributes].max()) for e in evidence}
    assert sum(largest.values()) > 2000, "the case is no longer hard"
    for e in evidence:
        expected = 100 * marginal(fitted.tree, fitted.beliefs, e.attributes)
        pull = SHRINK * 6 * fitted.potentials[e.attributes]
        np.testing.assert_allclose(expected + pull, e.summing_to(100.0), atol=1.0)


def test_size_is_known_without_allocating():
    sizes = {f"x{i}": 1000 for i in range(12)}
    assert cells_needed(sizes, [tuple(sizes)]) == 1000**12
    assert cells_needed(sizes, []) == 12_000


# --- fitting --------------------------------------------------------------------------------------


def chain(n=4000, seed=0):
    """Counts of a → b → c → d as a full table."""
    rng = np.random.default_rng(seed)
    a = rng.dirichlet(np.ones(3))
    steps = [rng.dirichlet(np.ones(k) * 0.7, size=j) for j, k in ((3, 4), (4, 2), (2, 5))]
    return n * np.einsum("a,ab,bc,cd->abcd", a, *steps)


def noiseless(full, sets, variance=1e-6):
    return [Evidence(s, marginal_of(full, "abcd", s), variance) for s in sets]


def test_tree_reproduces_what_was_measured_without_noise():
    full = chain()
    schema = schema_of({"a": 3, "b": 4, "c": 2, "d": 5})
    evidence = noiseless(full, [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("c", "b"), ("c", "d")])
    model = GraphModel.of(schema, fit(schema, evidence, 4000, tolerance=1e-10, iterations=2000))
    for e in evidence:
        np.testing.assert_allclose(4000 * model.marginal(e.attributes), e.values, atol=0.5)
    # A chain is determined by its pairs: what was not measured comes out right as well.
    np.testing.assert_allclose(4000 * model.marginal("abcd"), full, atol=1)


def test_fit_solves_the_stated_problem():
    """The optimum's conditions, on the full table: p ∝ q·exp(Σθ) and N·p − y + λ·θ = 0, with y of denoised columns."""
    rng = np.random.default_rng(1)
    schema = schema_of({"a": 3, "b": 4, "c": 2, "d": 5})
    full = chain(seed=2)
    sets = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]
    evidence = [
        Evidence(s, marginal_of(full, "abcd", s) + rng.normal(0, 20, marginal_of(full, "abcd", s).shape), 400.0)
        for s in sets
    ]
    fitted = fit(schema, evidence, 4000, tolerance=1e-12, iterations=2000)
    q = np.ones(())
    for n in "abcd":
        q = np.multiply.outer(q, column_distribution(n, schema[n].size, evidence, 4000))
    theta = np.zeros(full.shape)
    for names, table in fitted.potentials.items():
        ordered = table.transpose([names.index(n) for n in sorted(names)])
        theta = theta + ordered.reshape([schema[n].size if n in names else 1 for n in "abcd"])
    p = q * np.exp(theta)
    p /= p.sum()
    np.testing.assert_allclose(marginal(fitted.tree, fitted.beliefs, "abcd"), p, atol=1e-9)
    for e in denoise_columns(evidence, 4000):
        names = next(k for k in fitted.potentials if set(k) == set(e.attributes))
        pull = fitted.potentials[names].transpose([names.index(n) for n in e.attributes])
        y = e.values + (4000 - e.values.sum()) / e.values.size
        residual = 4000 * marginal_of(p, "abcd", e.attributes) - y + SHRINK * 20 * pull
        np.testing.assert_allclose(residual, 0, atol=1e-2)


def test_likely_counts_are_posterior_medians():
    """Against the posterior of each count by itself, on a grid a hundred times as fine; counts sum to their total."""
    sd, low, high = 40.0, POSSIBLE[0], POSSIBLE[1]
    noisy = np.array([-70.0, -5.0, 0.0, 12.0, 60.0, 110.0, 170.0, 260.0, 9_000.0])
    fine = np.geomspace(low, high, 100 * POSSIBLE[2]) * sd
    medians = []
    for y in noisy[:-1]:
        weight = np.exp(-(((y - fine) / sd) ** 2) / 2)
        none = 100 * NONE * np.exp(-((y / sd) ** 2) / 2)
        at = np.searchsorted(none + np.cumsum(weight), (none + weight.sum()) / 2)
        medians.append(0.0 if none > weight.sum() else fine[at])
    expected = np.array([*medians, noisy[-1]])
    found = likely_counts(noisy, sd, expected.sum())
    assert found.sum() == pytest.approx(expected.sum())
    np.testing.assert_allclose(found, expected, atol=0.15 * sd)


def test_likely_counts_bring_rare_levels_together():
    """One level of 43,000 rows and 41 of 120, noise of 220: cut at 0 they err at least a seventh more, in each of 50 draws."""
    rng = np.random.default_rng(5)
    true = np.array([43_000.0] + [120.0] * 41)
    total = true.sum()
    for _ in range(50):
        noisy = true + rng.normal(0, 220, true.size)
        cut, likely = project(noisy, total), likely_counts(noisy, 220.0, total)
        assert 1.15 * np.abs(likely - true).sum() < np.abs(cut - true).sum()


def test_columns_that_noise_cannot_make_stay_as_they_are():
    counts = np.array([4_000.0, 2_500.0, 900.0])
    (column,) = denoise_columns([Evidence(("a",), counts, 25.0)], 7_400.0)
    np.testing.assert_allclose(column.values, counts, atol=1e-9)


def test_fit_starts_where_the_last_one_ended():
    schema = schema_of({"a": 3, "b": 4, "c": 2, "d": 5})
    evidence = noiseless(chain(), [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], variance=25.0)
    done = fit(schema, evidence, 4000, tolerance=1e-12, iterations=1000)
    again = fit(schema, evidence[::-1], 4000, start=done, tolerance=1e-12, iterations=1)
    np.testing.assert_allclose(
        marginal(again.tree, again.beliefs, "abcd"), marginal(done.tree, done.beliefs, "abcd"), atol=1e-6
    )


def test_noise_is_shrunk_towards_independence():
    """With noise far above the counts a pair says nothing; with little noise, all."""
    schema = schema_of({"a": 2, "b": 2})
    table = np.array([[900.0, 100.0], [100.0, 900.0]])
    columns = [Evidence((n,), np.array([1000.0, 1000.0]), 1.0) for n in "ab"]
    near, far = (
        2000 * fit(schema, [*columns, Evidence(("a", "b"), table, sd**2)], 2000).beliefs[0] for sd in (1.0, 1e6)
    )
    np.testing.assert_allclose(near, table, atol=3)
    np.testing.assert_allclose(far, 500, atol=3)


def test_repeated_measurements_are_weighted_by_inverse_variance():
    one = Evidence(("a", "b"), np.array([[8.0, 0.0], [0.0, 0.0]]), 1.0)
    other = Evidence(("b", "a"), np.array([[0.0, 4.0], [0.0, 0.0]]), 3.0)
    (joined,) = join_repeats([one, other])
    assert joined.values.tolist() == [[6.0, 0.0], [1.0, 0.0]]
    assert joined.variance == 0.75
    assert pool_total([one, other]) == pytest.approx((8 * 3 + 4) / 4)


RULES = (
    Rule((("a", (0,)), ("b", (1,)))),
    Rule((("c", (1,)), ("d", (2, 3)))),
    Rule((("a", (2,)), ("d", (4,)))),
)


def lawful_joint(seed=0):
    full = chain(seed=seed)
    full[0, 1] = 0
    full[:, :, 1, 2:4] = 0
    full[2, :, :, 4] = 0
    return full * 4000 / full.sum()


def drawn_once(model, n):
    """Rows as the model draws them, those that break a rule included."""
    return Codes.of(model.schema, draw_columns(model.tree, model.beliefs, n, generator(1)), n)


def test_impossible_combinations_have_probability_zero():
    schema = schema_of({"a": 3, "b": 4, "c": 2, "d": 5}, RULES)
    full = lawful_joint()
    evidence = noiseless(full, [("a", "b"), ("b", "c"), ("c", "d")], variance=100.0)
    links = rule_links(schema, [e.attributes for e in evidence], 1000)
    model = GraphModel.of(schema, fit(schema, evidence, 4000, linked=links))
    assert model.marginal("ab")[0, 1] == 0
    assert model.marginal("cd")[1, 2:4].sum() == 0
    assert model.marginal("ad")[2, 4] == 0
    assert drawn_once(model, 5000).lawful().all()


def test_rules_over_several_cliques_hold_in_the_rows():
    schema = schema_of({"a": 3, "b": 4, "c": 2, "d": 5}, RULES)
    evidence = noiseless(lawful_joint(), [("a", "b"), ("b", "c"), ("c", "d")], variance=100.0)
    assert rule_links(schema, [e.attributes for e in evidence], 30) == [("a", "b"), ("c", "d")]
    model = GraphModel.of(schema, fit(schema, evidence, 4000))
    assert model.marginal("ad")[2, 4] > 0
    assert not drawn_once(model, 5000).lawful().all()
    assert model.sample(5000, seed=1).lawful().all()
    known = model.sample(3000, seed=2).project(["a", "b"])
    assert model.sample_given(known, seed=3).lawful().all()


def test_rows_that_break_a_rule_cannot_be_completed():
    schema = schema_of({"a": 3, "b": 4, "c": 2, "d": 5}, RULES)
    model = GraphModel.of(schema, fit(schema, noiseless(lawful_joint(), [("a", "b")]), 4000))
    broken = Codes.of(schema, {"a": np.array([0]), "b": np.array([1])})
    with pytest.raises(UsageError, match="break a rule"):
        model.sample_given(broken)


# --- drawing --------------------------------------------------------------------------------------


def random_model(seed=3, rows=4000):
    sizes = {"a": 3, "b": 4, "c": 2, "d": 5}
    tree = JunctionTree.of(sizes, [("a", "b"), ("b", "c"), ("b", "d")])
    rng = np.random.default_rng(seed)
    beliefs, _ = propagated(tree, [rng.random(tree.shape(c)) ** 3 for c in tree.cliques])
    return GraphModel(schema_of(sizes), tree, tuple(beliefs), float(rows), rows)


def shares(codes, names, schema):
    cells = Marginal.of(schema, names)
    return (np.bincount(cells.index(codes), minlength=cells.size) / len(codes)).reshape(cells.shape)


def test_samples_keep_the_models_marginals():
    """n = 100,000 rows. Were they drawn independently, a share would err by more than 6.2/√(4n) with
    probability below 6e-10: false-positive rate over the 71 cells below 5e-8.
    """
    model = random_model()
    rows = model.sample(100_000, seed=4)
    for pair in combinations("abcd", 2):
        error = np.abs(shares(rows, pair, model.schema) - pairs(model.tree, model.beliefs)[pair])
        assert error.max() < 6.2 / np.sqrt(4 * 100_000)


def test_all_pairs_are_drawn_almost_exactly():
    """Drawn at random, a cell would miss by up to 300 of 100,000 rows; balanced, by hardly any."""
    model = random_model()
    rows = model.sample(100_000, seed=4)
    for names in [*model.tree.cliques, *combinations(model.schema.names, 2)]:
        error = np.abs(shares(rows, names, model.schema) - model.marginal(names)) * 100_000
        assert error.max() <= (2 if names in model.tree.cliques else 3) + 1e-6


def test_few_rows_are_balanced_as_well():
    """Of 40 rows a cell of a column or of a pair would miss by up to 8 if drawn at random; ten draws."""
    model = random_model()
    sets = [names for ways in (1, 2) for names in combinations(model.schema.names, ways)]
    for seed in range(10):
        rows = model.sample(40, seed=seed)
        missed = [np.abs(shares(rows, names, model.schema) - model.marginal(names)).max() * 40 for names in sets]
        assert max(missed) < 3.5


def test_rules_that_no_clique_holds_leave_rows_as_they_are_drawn(monkeypatch):
    """The model's own tables are then not those of lawful rows, and nothing is balanced to them."""
    model = random_model()
    monkeypatch.setattr("dipsmith.methods.graph.model.balance", None)
    with pytest.raises(TypeError):
        model.sample(10, seed=1)
    apart = next(p for p in combinations(model.schema.names, 2) if model.tree.find_clique(p) is None)
    rule = Rule(tuple((name, (0,)) for name in apart))
    assert len(replace(model, schema=replace(model.schema, rules=(rule,))).sample(10, seed=1)) == 10


def test_siblings_are_independent_given_their_parent():
    """The chi-squared statistic of a × d within each level of b, n = 60,000: false-positive rate 1e-7 each.

    A sampler that does not shuffle within groups fails by orders of magnitude.
    """
    model = random_model()
    rows = model.sample(60_000, seed=5)
    table = shares(rows, ("b", "a", "d"), model.schema) * 60_000
    for level in table:
        expected = np.outer(level.sum(1), level.sum(0)) / level.sum()
        some = expected > 0
        statistic = ((level - expected)[some] ** 2 / expected[some]).sum()
        assert statistic < 47.97  # the upper 1e-7 quantile of χ² with (3 − 1)(5 − 1) degrees of freedom


@pytest.mark.parametrize("known", ["a", "d", "ad", "bc", "acd", "abcd", ""])
def test_completions_match_brute_force_conditionals(known):
    """n = 120,000 rows over all combinations given: bound as above, 7 times 120 cells: below 6e-7."""
    model = random_model()
    rng = np.random.default_rng(6)
    n = 120_000
    given_rows = Codes.of(model.schema, {x: rng.integers(0, model.schema[x].size, n) for x in known}, n)
    rows = model.sample_given(given_rows, seed=7)
    for name in known:
        assert np.array_equal(rows[name], given_rows[name])
    full = marginal(model.tree, model.beliefs, "abcd")
    others = tuple(i for i, x in enumerate("abcd") if x not in known)
    conditional = full / full.sum(axis=others, keepdims=True)
    weight = shares(given_rows, tuple(known), model.schema) if known else np.ones(())
    spread = weight.reshape([model.schema[x].size if x in known else 1 for x in "abcd"])
    assert np.abs(shares(rows, "abcd", model.schema) - conditional * spread).max() < 6.2 / np.sqrt(4 * n)


def test_missing_values_stay_correlated():
    """A column that is missing mostly where another has one level: the model keeps that."""
    place = Categories.of("xy", missing=True)
    schema = Schema(
        "t",
        (Attribute("work", "string", Categories.of(["no", "yes"])), Attribute("place", "string", place)),
        Unit(),
        "replace",
    )
    table = np.array([[5.0, 5.0, 990.0], [500.0, 490.0, 10.0]])
    evidence = [Evidence(("work", "place"), table, 4.0)]
    rows = GraphModel.of(schema, fit(schema, evidence, 2000)).sample(2000, seed=1)
    missing = rows["place"] == place.missing_code
    assert missing[rows["work"] == 0].mean() > 0.95
    assert missing[rows["work"] == 1].mean() < 0.05


def test_drawing_is_repeatable_and_state_round_trips():
    model = random_model()
    facts, arrays = model.state()
    again = GraphModel.from_state(model.schema, facts, arrays)
    for n in "abcd":
        assert model.sample(seed=8)[n].tolist() == again.sample(seed=8)[n].tolist()
    assert len(model.sample(seed=8)) == 4000
    assert len(model.sample(0)) == 0
    assert len(model.sample_given(model.sample(0).project(["a"]))) == 0


# --- limits, and tables that others measured --------------------------------------------------------


def test_only_links_that_fit_are_admitted():
    schema = schema_of({"a": 10, "b": 10, "c": 10, "d": 2})
    assert admit(schema, [("a", "b")], [("b", "c"), ("a", "c"), ("c", "d")], 250) == [
        ("b", "c"),
        ("c", "d"),
    ]
    assert within_cells(schema, [("a", "b"), ("a", "d"), ("c", "d")], 45) == [("a", "d"), ("c", "d")]


def noisy_table(schema, names, values, variance=1.0):
    values = np.asarray(values, dtype=np.int64).ravel()
    return NoisyTable(Marginal.of(schema, names), values, variance, float(values.sum()), 0.0)


def test_disjoint_tables_are_taken_as_they_are():
    schema = schema_of({"a": 2, "b": 2, "c": 2})
    tables = [noisy_table(schema, ("c", "a"), [[40, 10], [60, -10]]), noisy_table(schema, ("b",), [30, 70])]
    model = fit_tables(tables, "clip")
    np.testing.assert_allclose(100 * model.marginal("ca"), tables[0].table("clip").reshape(2, 2))
    np.testing.assert_allclose(100 * model.marginal("b"), [30, 70])


def test_overlapping_tables_are_made_to_agree():
    schema = schema_of({"a": 3, "b": 3, "c": 3})
    strong, weak = 30 * np.eye(3) + 1, np.full((3, 3), 11)
    tables = [noisy_table(schema, "ab", strong), noisy_table(schema, "bc", strong)]
    model = fit_tables(tables)
    np.testing.assert_allclose(99 * model.marginal("ab"), strong, atol=2)
    np.testing.assert_allclose(99 * model.marginal("ac"), strong @ strong / 33, atol=2)
    all_three = [*tables, noisy_table(schema, "ac", weak)]
    np.testing.assert_allclose(fit_tables(all_three, max_cells=20).marginal("ac"), model.marginal("ac"))
    assert fit_tables(all_three, max_cells=27).marginal("ac")[0, 0] < 0.9 * model.marginal("ac")[0, 0]


def test_sums_keep_the_order_of_the_table():
    table = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(sum_to(table, "abc", "ca"), table.sum(axis=1))
