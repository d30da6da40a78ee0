"""A public table to start from: what it gains, what a bad one costs, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from dipsmith.errors import BudgetError, UsageError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.evidence import Evidence
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.graph.prior import CHOICE, PublicModel, join_expected
from dipsmith.methods.method import PublicFacts
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Supplied
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Rule, Schema, Unit

SIZES = {"a": 4, "b": 5, "c": 3, "d": 6, "e": 4, "f": 2}
BUDGET = ZCDP.from_approx("0.1", "1e-9")


def schema(rules=()):
    named = [Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in SIZES.items()]
    return Schema("t", tuple(named), Unit(), "add-remove", tuple(rules))


def rows(n=20_000, seed=0):
    """Columns in a chain: each is the one before, as far as it goes, in two thirds of the rows."""
    rng = np.random.default_rng(seed)
    columns, last = {}, np.zeros(n, dtype=int)
    for name, size in SIZES.items():
        own = np.minimum(rng.geometric(0.45, n) - 1, size - 1)
        columns[name] = last = np.where(rng.random(n) < 2 / 3, last % size, own) if columns else own
    return Codes.of(schema(), columns, n)


def error(model, truth):
    found = []
    for a in SIZES:
        for b in SIZES:
            if a < b:
                cells = Marginal.of(truth.schema, (a, b))
                shares = np.bincount(cells.index(truth), minlength=cells.size) / len(truth)
                found.append(np.abs(model.marginal((a, b)).ravel() - shares).sum() / 2)
    return float(np.mean(found))


METHODS = {"aim": AIM(degree=2), "mst": MST()}


def mean_error(name, prior, budget=BUDGET, seeds=range(6)):
    truth, method = rows(), replace(METHODS[name], prior=prior)
    return float(np.mean([error(method.fit(Curator.rehearse(truth, budget, seed=s)), truth) for s in seeds]))


@pytest.fixture(scope="module", params=METHODS)
def alone(request):
    """A method, and its error without a public table, at ε = 0.1 and 6 seeds."""
    return request.param, mean_error(request.param, None)


@pytest.mark.slow
def test_a_good_public_table_takes_off_more_than_half_of_the_error(alone):
    name, error_alone = alone
    assert mean_error(name, PublicTable(rows(seed=1))) < 0.5 * error_alone


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["turned", "apart"])
def test_one_that_misleads_costs_next_to_nothing(kind, alone):
    """All codes turned round, which looks as telling as a good one; or columns that have nothing to do with each other."""
    rng = np.random.default_rng(3)
    columns = {
        n: SIZES[n] - 1 - c.astype(int) if kind == "turned" else rng.permutation(c)
        for n, c in rows(seed=1).columns.items()
    }
    name, error_alone = alone
    assert mean_error(name, PublicTable(Codes.of(schema(), columns))) < 1.05 * error_alone


@pytest.mark.parametrize("plain", [AIM(rounds=6), MST(), MST(planned=[("a", "b", "c")])], ids=["aim", "mst", "planned"])
@pytest.mark.parametrize("budget", [PureDP("0.5"), BUDGET], ids=["pure", "rho"])
def test_the_budget_is_spent_to_the_last_unit_and_planned(budget, plain):
    cost = type(budget).of_units(budget.units // 4)
    method = replace(plain, prior=PublicTable(rows(500, 1), cost, "a pilot"))
    curator = Curator.rehearse(rows(500), budget, seed=1)
    method.fit(curator)
    told = curator._journal.events
    assert curator.remaining is None
    assert sum(e.budget.units for e in told) == budget.units
    assert [(e.what, e.budget) for e in told if isinstance(e, Supplied)] == [("a pilot", cost)]
    trust = [e for e in told if isinstance(e, Chosen) and e.score == "disagreement"]
    assert [e.candidates for e in trust] == [6]
    assert trust[0].budget.units == pytest.approx(CHOICE * (budget.units - cost.units), rel=1e-6)
    steps = method.plan(schema(), budget, PublicFacts(500))
    assert "a pilot" in steps[0].what
    assert sum(s.budget.units for s in steps) == budget.units - cost.units
    assert method.assumptions == (f"a pilot cost {cost}" + (", as normal noise would" if budget is BUDGET else ""),)


def test_a_table_of_some_columns_and_with_rows_that_break_rules():
    rule = Rule((("a", (0,)), ("b", (1,))))
    truth = rows(800)
    ruled = replace(truth, schema=schema((rule,)))
    some = rows(800, 1).project(("a", "b", "e"))
    prior = PublicModel.of(some, ruled.schema, 1 << 20)
    assert set(prior.shares) == {"a", "b", "e"}
    assert set(prior.interactions) <= {("a", "b"), ("a", "e"), ("b", "e")}
    assert prior.interactions
    model = AIM(rounds=4, prior=PublicTable(some)).fit(Curator.rehearse(ruled, PureDP(1), seed=1))
    assert model.marginal(("a", "b"))[0, 1] == 0
    none = PublicModel.of(some.take(some["a"] > 9), ruled.schema, 1 << 20)
    assert (none.shares, none.interactions) == ({}, {})


@pytest.mark.parametrize("room", [60, 1 << 19])
def test_a_tree_beside_what_a_public_table_ties_stays_within_the_limit(room):
    """Of a tree alone the cells of pairs add up; with links between them cliques are larger than pairs."""
    table = PublicTable(rows(5000, 1))
    model = MST(prior=table, max_cells=room).fit(Curator.rehearse(rows(5000), PureDP(50), seed=1))
    tables = [belief for belief, names in zip(model.beliefs, model.tree.cliques, strict=True) if len(names) > 1]
    assert sum(belief.size for belief in tables) <= room
    links = set(PublicModel.of(table.codes, schema(), room).interactions)
    assert bool(links) == (room > 60)
    assert all(model.tree.find_clique(pair) is not None for pair in links)


def test_tables_are_joined_by_how_far_they_lie_apart():
    rng = np.random.default_rng(0)
    expected = np.array([5000.0, 3000.0, 1500.0, 480.0, 20.0, 0.0])
    noise = rng.normal(0, 50, 6)
    noise *= 50 / np.sqrt((noise**2).mean())  # as large as it is said to be
    noisy = Evidence(("a",), expected + noise, 2500.0)
    same = join_expected(noisy, expected)
    np.testing.assert_allclose(same.values, expected, atol=1e-9)
    far = replace(noisy, values=noisy.values + np.array([-4000.0, 0, 0, 0, 0, 4000.0]))
    kept = join_expected(far, expected)
    # Inverse variance by hand: the public table is apart by 32 million in all, a fifth of it anywhere.
    apart = ((far.values - expected) ** 2).sum() - 6 * 2500
    between = apart * (0.8 * expected / 10_000 + 0.2 / 6)
    by_hand = (far.values / 2500 + expected / between) / (1 / 2500 + 1 / between)
    np.testing.assert_allclose(kept.values, by_hand)
    assert kept.values[5] > 3900  # which the public table has never seen
    assert kept.variance < far.variance


@pytest.mark.parametrize("made", [AIM, MST])
def test_what_it_cannot_be_given_for_is_refused_before_anything_is_charged(made):
    dear = made(prior=PublicTable(rows(50), PureDP(1)))
    for budget in (PureDP(1), ZCDP("0.5")):
        with pytest.raises(UsageError, match="cannot cover"):
            dear.plan(schema(), budget, PublicFacts(50))
    assert dear.plan(schema(), ZCDP(1), PublicFacts(50))
    with pytest.raises(BudgetError, match="no price"):
        made(prior=PublicTable(rows(50), ZCDP(1))).plan(schema(), PureDP(9), PublicFacts(50))
    panel = replace(schema(), unit=Unit("id", 3, order="a"))
    with pytest.raises(UsageError, match=f"{made.name}: .* leave the prior out"):
        made(prior=PublicTable(rows(50))).plan(panel, PureDP(1), PublicFacts(50))
