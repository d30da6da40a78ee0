"""MST: the right tree, the right noise, within its limits."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import UsageError
from dipsmith.methods.graph.misfit import Misfit, budget_weights, noise_left
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.graph.stages import measure_columns
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured
from dipsmith.privacy.gaussian_price import variance_needed
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Rule, Schema, Unit

SIZES = {"a": 4, "b": 3, "c": 5, "d": 2, "e": 6}
TREE = {("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")}


def schema_of(sizes, relation="add-remove", rules=(), unit=None):
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in sizes.items()
    )
    return Schema("t", attributes, unit or Unit(), relation, tuple(rules))


def tree_rows(n=20_000, relation="add-remove", seed=0, rules=()):
    """Rows of the tree a – b – c, b – d – e, strongly linked."""
    rng = np.random.default_rng(seed)
    columns = {"a": rng.integers(0, 4, n)}
    for child, parent in (("b", "a"), ("c", "b"), ("d", "b"), ("e", "d")):
        copied = columns[parent] % SIZES[child]
        columns[child] = np.where(rng.random(n) < 0.7, copied, rng.integers(0, SIZES[child], n))
    return Codes.of(schema_of(SIZES, relation, rules), columns, n)


def distance(model, codes, names):
    cells = Marginal.of(codes.schema, names)
    true = np.bincount(cells.index(codes), minlength=cells.size) / len(codes)
    return 0.5 * np.abs(model.marginal(names).ravel() - true).sum()


def measured(curator):
    return [e for e in curator._journal.events if isinstance(e, Measured)]


def chosen(curator):
    return [e for e in curator._journal.events if isinstance(e, Chosen)]


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PureDP(20), ZCDP(10)], ids=["pure", "zcdp"])
def test_finds_the_tree_and_its_marginals(relation, budget):
    codes = tree_rows(relation=relation)
    curator = Curator.rehearse(codes, budget, seed=1)
    model = MST().fit(curator)
    pairs = {tuple(sorted(e.cells.split(" × "))) for e in measured(curator) if " × " in e.cells}
    assert pairs == TREE
    for pair in combinations(SIZES, 2):
        assert distance(model, codes, pair) < 0.01
    assert distance(model, codes, tuple(SIZES)) < 0.05


def test_a_perfect_budget_gives_the_tables_back():
    """Noise → 0: the model has the measured marginals."""
    codes = tree_rows()
    model = MST().fit(Curator.rehearse(codes, ZCDP(10**6), seed=1))
    assert model.rows == len(codes)
    for pair in TREE:
        assert distance(model, codes, pair) < 5e-4


@pytest.mark.parametrize(
    ("relation", "max_rows", "l1", "l2"),
    [("add-remove", 1, 1, 1), ("replace", 1, 2, 2), ("add-remove", 3, 3, 9), ("replace", 3, 6, 18)],
)
def test_noise_has_the_scale_that_the_relation_demands(relation, max_rows, l1, l2):
    schema = schema_of(SIZES, relation, unit=Unit("person", max_rows))
    codes = Codes.of(schema, tree_rows(500).columns)
    for budget, sensitivity in ((PureDP(1), Fraction(l1)), (ZCDP("0.1"), Fraction(l2))):
        curator = Curator.rehearse(codes, budget, seed=1)
        MST().fit(curator)
        events = measured(curator)
        assert len(events) == len(SIZES) + 4
        for event in events:
            assert event.sensitivity == sensitivity
            pure = sensitivity / event.budget.exact
            assert event.scale == (pure if budget.currency == "epsilon" else variance_needed(pure / 2))
        choices = chosen(curator)
        assert len(choices) == 4
        assert {c.sensitivity for c in choices} == {Fraction(l1)}
        assert sum(e.budget.units for e in [*events, *choices]) == budget.units
        assert sum(c.budget.units for c in choices) == pytest.approx(0.1 * budget.units, rel=1e-6)


counts = st.lists(st.integers(0, 6), min_size=6, max_size=6)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(counts, st.lists(st.floats(0, 10), min_size=6, max_size=6), st.integers(0, 5), st.integers(0, 5))
def test_misfit_moves_by_no_more_than_its_sensitivity(table, estimate, one, other):
    schema = schema_of({"a": 2, "b": 3})
    score = Misfit(
        schema,
        {("a", "b"): np.array(estimate).reshape(2, 3)},
        cost={("a", "b"): 3.5},
        weights={("a", "b"): 0.7},
        bonus={("a", "b"): 11.0},
    )
    before = np.array(table)
    added = before.copy()
    added[one] += 1
    replaced = added.copy()
    if replaced[other] > 0:
        replaced[other] -= 1
    value = score.value(("a", "b"), [before])
    assert abs(score.value(("a", "b"), [added]) - value) <= score.sensitivity("add-remove", 1) + 1e-9
    assert abs(score.value(("a", "b"), [replaced]) - value) <= score.sensitivity("replace", 1) + 1e-9
    assert (score.sensitivity("add-remove", 4), score.sensitivity("replace", 4)) == (4, 8)
    assert not score.monotone("add-remove")


def test_weights_above_one_would_break_the_sensitivity():
    with pytest.raises(UsageError, match="between 0 and 1"):
        Misfit(schema_of({"a": 2}), {}, weights={("a",): 1.5})


def test_rules_hold_in_the_model():
    rules = (Rule((("a", (0,)), ("b", (1,)))), Rule((("a", (1,)), ("e", (2, 3)))))
    codes = tree_rows(rules=rules)
    for seed in range(3):
        model = MST().fit(Curator.rehearse(codes, PureDP("0.5"), seed=seed))
        assert model.marginal(("a", "b"))[0, 1] == 0
        assert model.marginal(("a", "e"))[1, 2:4].sum() == 0
        assert model.sample(5000, seed=1).lawful().all()


def test_a_column_with_many_levels_is_no_blow_up():
    """10⁵ levels: pairs that do not fit the limits are no candidates, by public sizes alone."""
    sizes = {"zip": 100_000, "a": 4, "b": 3, "c": 50}
    rng = np.random.default_rng(0)
    codes = Codes.of(schema_of(sizes), {n: rng.integers(0, s, 3000) for n, s in sizes.items()})
    method = MST()
    assert set(method.candidates(codes.schema)) == {
        ("zip", "a"), ("zip", "b"), ("a", "b"), ("a", "c"), ("b", "c")
    }  # fmt: skip
    model = MST(max_cells=1000).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert max(len(c) for c in model.tree.cliques) == 2
    assert model.tree.find_clique(("zip",)) == 0
    assert model.tree.cliques[0] == ("zip",)
    assert len(model.sample(100, seed=1)) == 100


def test_the_limit_on_cells_is_kept():
    codes = tree_rows(2000)
    for limit in (10, 20, 60):
        model = MST(max_cells=limit).fit(Curator.rehearse(codes, PureDP(10), seed=1))
        linked = sum(np.prod(model.tree.shape(c)) for c in model.tree.cliques if len(c) > 1)
        assert linked <= limit


def test_counts_are_public_where_n_is():
    codes = tree_rows(1000, "replace")
    assert MST().fit(Curator.rehearse(codes, PureDP("0.01"), seed=1)).rows == 1000
    codes = tree_rows(1000, "add-remove")
    estimated = MST().fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert estimated.rows != 1000
    assert estimated.rows == pytest.approx(1000, abs=150)
    assert MST().fit(Curator.rehearse(codes, PureDP("0.01"), seed=1, given_rows=1000)).rows == 1000


def test_one_column_gets_everything():
    codes = tree_rows(100).project(["a"])
    codes = Codes.of(codes.schema.project(["a"]), codes.columns)
    curator = Curator.rehearse(codes, PureDP(1), seed=1)
    MST().fit(curator)
    assert [e.budget for e in curator._journal.events] == [PureDP(1)]
    (step,) = MST().plan(codes.schema, PureDP(1), PublicFacts())
    assert (step.budget, step.cells) == (PureDP(1), 4)


def test_the_plan_is_what_happens():
    codes = tree_rows(500)
    curator = Curator.rehearse(codes, ZCDP("0.1"), seed=1)
    MST().fit(curator)
    plan = MST().plan(codes.schema, ZCDP("0.1"), PublicFacts())
    columns = [s for s in plan if s.stage == "column"]
    assert [(s.what, s.budget) for s in columns] == [(e.cells, e.budget) for e in measured(curator)[:5]]
    for step, event in zip(columns, measured(curator), strict=False):
        assert step.sd == pytest.approx(float(event.scale) ** 0.5, rel=0.01)
    choices, tables = plan[5:]
    assert choices.budget.units == sum(e.budget.units for e in chosen(curator))
    assert tables.budget.units == sum(e.budget.units for e in measured(curator)[5:])


def test_shares_are_checked():
    with pytest.raises(UsageError, match="one_way"):
        MST(one_way=0.9, choice=0.2)
    with pytest.raises(UsageError, match="max_cells"):
        MST(max_cells=0)


def test_budget_weights_minimise_the_summed_error():
    """Against a grid: two tables, error n/√ρ or n/ε."""
    grid = np.linspace(0.01, 0.99, 9801)
    for currency, power in (("rho", 0.5), ("epsilon", 1.0)):
        small, large = budget_weights([10, 200], currency)
        errors = 10 / grid**power + 200 / (1 - grid) ** power
        assert small / (small + large) == pytest.approx(grid[errors.argmin()], abs=2e-4)


def test_noise_left_is_capped_by_the_counts():
    assert noise_left(np.zeros(1000), 50.0) == 0
    assert noise_left(np.full(10, 1e6), 50.0) == pytest.approx(10 * 50 * np.sqrt(2 / np.pi))


def test_columns_alone_give_the_independent_model():
    codes = tree_rows(5000)
    columns = measure_columns(Curator.rehearse(codes, PureDP(100), seed=1), PureDP(100))
    assert columns.total == pytest.approx(5000, abs=5)
    for name, p in columns.distributions().items():
        true = np.bincount(codes[name], minlength=SIZES[name]) / 5000
        np.testing.assert_allclose(p, true, atol=2e-3)
        assert (p > 0).all()
