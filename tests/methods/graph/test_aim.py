"""AIM: what it chooses, what it spends, and what it never exceeds."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dipsmith.errors import SchemaError, UsageError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.evidence import Evidence, tolerance
from dipsmith.methods.graph.junction import cells_needed
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured
from dipsmith.privacy.gaussian_price import variance_needed
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Rule, Schema, Unit

SIZES = {"a": 3, "b": 3, "c": 2, "d": 4, "e": 2}


def schema_of(sizes, relation="add-remove", rules=(), unit=None):
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in sizes.items()
    )
    return Schema("t", attributes, unit or Unit(), relation, tuple(rules))


def loop_rows(n=20_000, relation="add-remove", rules=(), seed=0):
    """A loop a – b – d – e – a that no tree can hold, and c that depends on a and b only together."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.6, a, rng.integers(0, 3, n))
    d = np.where(rng.random(n) < 0.6, b, rng.integers(0, 4, n))
    e = np.where(rng.random(n) < 0.7, (a + d) % 2, rng.integers(0, 2, n))
    c = np.where(rng.random(n) < 0.8, (a + b) % 2, rng.integers(0, 2, n))
    return Codes.of(schema_of(SIZES, relation, rules), {"a": a, "b": b, "c": c, "d": d, "e": e}, n)


def mean_distance(model, codes, ways=2):
    errors = []
    for names in combinations(SIZES, ways):
        cells = Marginal.of(codes.schema, names)
        true = np.bincount(cells.index(codes), minlength=cells.size) / len(codes)
        errors.append(0.5 * np.abs(model.marginal(names).ravel() - true).sum())
    return float(np.mean(errors))


def events(curator, kind):
    return [e for e in curator._journal.events if isinstance(e, kind)]


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PureDP(10), ZCDP(2)], ids=["pure", "zcdp"])
def test_learns_what_a_tree_cannot(relation, budget):
    codes = loop_rows(relation=relation)
    model = AIM().fit(Curator.rehearse(codes, budget, seed=1))
    tree = MST().fit(Curator.rehearse(codes, budget, seed=1))
    assert mean_distance(model, codes) < 0.012
    assert mean_distance(tree, codes) > 2 * mean_distance(model, codes)


def test_a_workload_of_triples_learns_triples():
    codes = loop_rows()
    twos = AIM(degree=2).fit(Curator.rehearse(codes, ZCDP(2), seed=1))
    threes = AIM(degree=3).fit(Curator.rehearse(codes, ZCDP(2), seed=1))
    assert mean_distance(threes, codes, 3) < 0.03
    assert mean_distance(threes, codes, 3) < mean_distance(twos, codes, 3)


def test_a_workload_of_ones_own():
    codes = loop_rows()
    curator = Curator.rehearse(codes, ZCDP(1), seed=1)
    AIM(workload=[["b", "a"], ["d", "b"]]).fit(curator)
    asked = {e.cells for e in events(curator, Measured)}
    assert asked <= {*SIZES, "a × b", "b × d"}
    assert {"a × b", "b × d"} <= asked
    with pytest.raises(SchemaError, match="'x'"):
        AIM(workload=[["a", "x"]]).fit(Curator.rehearse(codes, ZCDP(1), seed=1))


def test_candidates_are_the_workload_and_what_lies_below_it():
    weights = AIM(degree=2).weights(schema_of(SIZES))
    assert set(weights) == {(n,) for n in SIZES} | set(combinations(SIZES, 2))
    # A pair overlaps itself by 2 and its 2·(5 − 2) neighbours by 1; a column its 4 pairs by 1.
    assert weights["a", "b"] == 1
    assert weights["a",] == 4 / 8
    assert set(AIM(workload=[["c", "a", "b"]]).weights(schema_of(SIZES))) == {
        c for k in (1, 2, 3) for c in combinations("abc", k)
    }


@pytest.mark.parametrize(
    ("relation", "max_rows", "l1", "l2"),
    [("add-remove", 1, 1, 1), ("replace", 1, 2, 2), ("replace", 2, 4, 8)],
)
def test_noise_has_the_scale_that_the_relation_demands(relation, max_rows, l1, l2):
    schema = schema_of(SIZES, relation, unit=Unit("person", max_rows))
    codes = Codes.of(schema, loop_rows(500).columns)
    for budget, sensitivity in ((PureDP(1), Fraction(l1)), (ZCDP("0.1"), Fraction(l2))):
        curator = Curator.rehearse(codes, budget, seed=1)
        AIM().fit(curator)
        for event in events(curator, Measured):
            pure = sensitivity / event.budget.exact
            assert event.scale == (pure if budget.currency == "epsilon" else variance_needed(pure / 2))
        assert {c.sensitivity for c in events(curator, Chosen)} == {Fraction(l1)}
        assert sum(e.budget.units for e in curator._journal.events) == budget.units


def test_rounds_that_learn_nothing_are_followed_by_dearer_ones():
    """Independent columns: there is nothing to learn, so that budget is not frittered away in 15 rounds."""
    rng = np.random.default_rng(0)
    codes = Codes.of(schema_of(SIZES), {n: rng.integers(0, s, 2000) for n, s in SIZES.items()})
    curator = Curator.rehearse(codes, ZCDP("0.05"), seed=1)
    AIM().fit(curator)
    spent = [e.budget.units for e in events(curator, Chosen)]
    assert len(spent) < 10
    assert spent[1] == pytest.approx(2 * spent[0], rel=1e-6)


@pytest.mark.slow
def test_the_model_never_outgrows_its_limit():
    codes = loop_rows(5000)
    for limit in (30, 60, 100):
        curator = Curator.rehearse(codes, ZCDP(5), seed=1)
        model = AIM(max_cells=limit).fit(curator)
        assert model.tree.cells <= limit
    assert cells_needed(SIZES, [tuple(SIZES)]) == 144
    assert AIM().fit(Curator.rehearse(codes, ZCDP(5), seed=1)).tree.cells > 100


@pytest.mark.slow
def test_a_column_with_many_levels_is_no_blow_up():
    sizes = {"zip": 100_000, "a": 40, "b": 3, "c": 5}
    rng = np.random.default_rng(0)
    codes = Codes.of(schema_of(sizes), {n: rng.integers(0, s, 3000) for n, s in sizes.items()})
    assert ("zip", "a") not in AIM().weights(codes.schema)
    model = AIM(rounds=3).fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert model.tree.cells <= 1 << 19
    assert len(model.sample(50, seed=1)) == 50


def test_rules_hold_in_the_model():
    rules = (Rule((("a", (0,)), ("b", (1,)))), Rule((("c", (1,)), ("d", (2, 3)), ("e", (0,)))))
    codes = loop_rows(rules=rules)
    model = AIM().fit(Curator.rehearse(codes, PureDP("0.5"), seed=2))
    assert model.marginal(("a", "b"))[0, 1] == 0
    assert model.marginal(("c", "d", "e"))[1, 2:4, 0].sum() == 0
    assert model.sample(5000, seed=1).lawful().all()


def test_the_plan_has_every_stage():
    schema = schema_of(SIZES)
    plan = AIM(rounds=8).plan(schema, ZCDP("0.1"), PublicFacts())
    assert [s.stage for s in plan] == ["column"] * 5 + ["choices", "chosen marginals"]
    assert "up to 8 of 15" in plan[-1].what
    assert sum(s.budget.units for s in plan) == ZCDP("0.1").units
    curator = Curator.rehearse(loop_rows(500), ZCDP("0.1"), seed=1)
    AIM(rounds=8).fit(curator)
    first = events(curator, Measured)[5]
    assert plan[-1].sd / 2 <= float(first.scale) ** 0.5 <= plan[-1].sd * 2


def test_tables_with_more_cells_that_noise_reaches_get_more_budget():
    sizes = {"a": 12, "b": 12, "c": 2, "d": 2}
    rng = np.random.default_rng(3)
    wide, narrow = rng.integers(0, 12, 20_000), rng.integers(0, 2, 20_000)
    codes = Codes.of(schema_of(sizes), {"a": wide, "b": wide, "c": narrow, "d": narrow})
    curator = Curator.rehearse(codes, ZCDP("0.5"), seed=1)
    AIM(rounds=20, degree=2).fit(curator)
    rounds = zip(events(curator, Chosen), events(curator, Measured)[len(sizes) :], strict=True)
    costs = {table.size: table.budget.units / choice.budget.units for choice, table in list(rounds)[:-1]}
    assert costs[144] > 2 * min(costs.values())
    assert sum(e.budget.units for e in curator._journal.events) == ZCDP("0.5").units


def test_parameters_are_checked():
    for wrong in ({"degree": 0}, {"rounds": 0}, {"one_way": 1.0}, {"choice": 0.0}, {"max_cells": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            AIM(**wrong)


def test_a_fit_is_as_close_as_the_noise_of_a_typical_table_asks():
    """Of a table of c cells noise amounts to σ²c²/2n² nats per row; columns alone do not count."""
    tables = [Evidence(("a", "b"), np.zeros((10, 10)), variance) for variance in (1.0, 4.0, 1e9)]
    column = Evidence(("a",), np.zeros(10), 1e-6)
    assert tolerance([column, *tables], 1000.0, (0.0, 1.0, 1.0)) == pytest.approx(4 * 100**2 / (2 * 1000**2))
    assert tolerance([column, *tables], 1e9, (1e-7, 0.1, 1e-5)) == 1e-7
    assert tolerance([column, *tables], 10.0, (1e-7, 0.1, 1e-5)) == 1e-5
    assert tolerance([column], 1e9, (1e-7, 0.1, 1e-5)) == 1e-5


def test_of_many_rows_rounds_are_not_spent_where_only_the_fit_is_behind():
    """Weak ties in small tables of 200,000 rows with hardly any noise: with a rough fit one pair is measured all the time."""
    random = np.random.default_rng(0)
    first = random.integers(0, 3, 200_000)
    columns = {n: np.where(random.random(200_000) < 0.12, first, random.integers(0, 3, 200_000)) for n in "abcdef"}
    attributes = tuple(Attribute(n, "string", Categories.of(list("xyz"), other="x")) for n in columns)
    rows = Codes.of(Schema("t", attributes, Unit(), "add-remove"), columns)
    model = AIM(degree=2).fit(Curator.rehearse(rows, ZCDP.from_approx(10, 1e-9), seed=1))
    pairs = [t.marginal.attributes for t in model.measurements if len(t.marginal.attributes) == 2]
    assert len(set(pairs)) == 15
