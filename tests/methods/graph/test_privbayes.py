"""PrivBayes: sensitivities by enumeration, the network, the noise, the limits."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from dipsmith.counting import count
from dipsmith.counting.tally import Tally
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.graph import privbayes
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.association import (
    Association,
    MutualInformation,
    information_sensitivity,
    mutual_information,
    table_of,
)
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.graph.privbayes import PrivBayes
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


def network_rows(n=20_000, relation="add-remove", rules=(), seed=0):
    """c is decided by a and b together, and by neither alone; d follows b, e follows d."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, n), rng.integers(0, 3, n)
    c = np.where(rng.random(n) < 0.9, ((a == b) + (a == 0)) % 2, rng.integers(0, 2, n))
    d = np.where(rng.random(n) < 0.7, b, rng.integers(0, 4, n))
    e = np.where(rng.random(n) < 0.7, d % 2, rng.integers(0, 2, n))
    return Codes.of(schema_of(SIZES, relation, rules), {"a": a, "b": b, "c": c, "d": d, "e": e}, n)


def tables_of(rows, columns, n):
    """All tables of n rows."""
    cells = rows * columns
    for filled in product(range(n + 1), repeat=cells - 1):
        if sum(filled) <= n:
            yield np.array([*filled, n - sum(filled)]).reshape(rows, columns)


def added(table):
    for cell in np.ndindex(table.shape):
        more = table.copy()
        more[cell] += 1
        yield more


def replaced(table):
    for gone in zip(*np.nonzero(table), strict=True):
        less = table.copy()
        less[gone] -= 1
        yield from added(less)


def largest_change(score, neighbours, shape, n):
    return max(
        abs(score(other) - value)
        for table in tables_of(*shape, n)
        for value in [score(table)]
        for other in neighbours(table)
    )


def association(table):
    family = ("a", ("b",))
    schema = schema_of({"a": table.shape[0], "b": table.shape[1]})
    return Association(schema).value(family, [table.ravel()])


# --- sensitivities ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "n"), [((2, 2), 7), ((2, 3), 5), ((3, 3), 3)])
def test_association_is_within_its_sensitivity_by_enumeration(shape, n):
    """Every table of n rows and every neighbour: 2 − 2/(n+1) for a row added, below 3 for one replaced."""
    by_adding = largest_change(association, added, shape, n)
    by_replacing = largest_change(association, replaced, shape, n)
    score = Association(schema_of(SIZES))
    assert by_adding == pytest.approx(2 - 2 / (n + 1))
    assert by_adding < score.sensitivity("add-remove", 1) == 2
    assert by_replacing < score.sensitivity("replace", 1) == 3
    assert (score.sensitivity("add-remove", 5), score.sensitivity("replace", 5)) == (10, 15)
    assert not score.monotone("replace")


def test_replacing_a_row_can_change_the_residuals_by_the_bound():
    """½‖D − D′‖₁ ≤ 3(n − 1)/n, and here it is: the proof's inequality is tight."""
    one, other = np.diag([1, 0, 99]), np.diag([0, 1, 99])
    residuals = [t - np.outer(t.sum(1), t.sum(0)) / t.sum() for t in (one, other)]
    assert np.abs(residuals[0] - residuals[1]).sum() / 2 == pytest.approx(3 * 99 / 100)


def test_adding_a_row_changes_the_residuals_by_a_rank_one_matrix():
    """The identity of the proof, on random tables."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        table = rng.integers(0, 5, (3, 4)) + np.eye(3, 4, dtype=int)
        n = table.sum()
        a, b = rng.integers(0, 3), rng.integers(0, 4)
        more = table.copy()
        more[a, b] += 1

        def residual(t):
            return t - np.outer(t.sum(1), t.sum(0)) / t.sum()

        p, q = table.sum(1) / n, table.sum(0) / n
        expected = n / (n + 1) * np.outer(np.eye(3)[a] - p, np.eye(4)[b] - q)
        np.testing.assert_allclose(residual(more) - residual(table), expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "n", "value"),
    [((2, 2), 8, 0.54356), ((2, 2), 12, 0.41382), ((2, 3), 6, None), ((3, 3), 5, 1.10196)],
)
def test_information_sensitivity_is_exact_by_enumeration(shape, n, value):
    largest = largest_change(mutual_information, replaced, shape, n)
    claimed = information_sensitivity(n, binary=2 in shape)
    assert largest == pytest.approx(claimed, abs=1e-9)
    assert value is None or claimed == pytest.approx(value, abs=5e-6)
    # One bound for all candidates: the general one covers the binary one.
    assert information_sensitivity(n, binary=False) >= information_sensitivity(n, binary=True)


@pytest.mark.slow
def test_information_sensitivity_is_a_bound_for_even_n():
    assert largest_change(mutual_information, replaced, (3, 3), 4) < information_sensitivity(4, binary=False)


def test_information_moves_with_a_private_n_under_add_remove():
    """Why it is refused there: a second row may bring a whole bit, and each further n has another bound."""
    largest = [largest_change(mutual_information, added, (2, 2), n) for n in range(1, 9)]
    assert largest[0] == pytest.approx(1)
    assert all(more > less for more, less in pairwise(largest))
    # What software that mixes the relations would claim for n = 1,000 is a hundredth of that.
    assert information_sensitivity(1000, binary=False) < 0.03


def test_the_information_score_claims_its_sensitivity():
    score = MutualInformation(schema_of(SIZES, "replace"), 1000)
    claimed = score.sensitivity("replace", 1)
    exact = Fraction(information_sensitivity(1000, binary=False))
    assert exact < claimed < exact * Fraction(1_000_001, 1_000_000)
    for relation, rows in (("add-remove", 1), ("replace", 2)):
        with pytest.raises(UnsupportedError, match="association"):
            score.sensitivity(relation, rows)
    # persons in households are priced as under replace where their number is not public
    with pytest.raises(UnsupportedError, match="association"):
        MutualInformation(schema_of(SIZES, "add-remove"), 1000).sensitivity("replace", 1)


def test_scores_read_the_column_against_its_parents():
    codes = network_rows(5000)
    schema = codes.schema
    score = Association(schema, cost={("c", ("a", "b")): 10.0})
    family = ("c", ("b", "a"))
    counts = np.bincount(table_of(schema, family).index(codes), minlength=18)
    table = counts.reshape(3, 3, 2).transpose(2, 0, 1).reshape(2, 9)
    by_hand = np.abs(table - np.outer(table.sum(1), table.sum(0)) / 5000).sum() / 2
    assert score.value(family, [counts]) == pytest.approx(by_hand)
    assert score.value(("c", ("a", "b")), [counts]) == pytest.approx(by_hand - 10)
    assert score.value(("c", ()), []) == 0
    assert score.value(family, [0 * counts]) == 0
    informed = MutualInformation(schema, 5000)
    assert informed.value(family, [counts]) == pytest.approx(mutual_information(table))
    assert informed.value(("c", ()), []) == 0


# --- the method -------------------------------------------------------------------------------------


def events(curator, kind):
    return [e for e in curator._journal.events if isinstance(e, kind)]


def distance(model, codes, names):
    cells = Marginal.of(codes.schema, names)
    true = np.bincount(cells.index(codes), minlength=cells.size) / len(codes)
    return 0.5 * np.abs(model.marginal(names).ravel() - true).sum()


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PureDP(20), ZCDP(5)], ids=["pure", "zcdp"])
def test_finds_parents_that_matter_only_together(relation, budget):
    codes = network_rows(relation=relation)
    model = PrivBayes().fit(Curator.rehearse(codes, budget, seed=1))
    assert distance(model, codes, ("a", "b", "c")) < 0.02
    assert distance(model, codes, ("b", "d")) < 0.01
    assert distance(model, codes, ("d", "e")) < 0.01
    pairs_only = PrivBayes(degree=1).fit(Curator.rehearse(codes, budget, seed=1))
    assert distance(pairs_only, codes, ("a", "b", "c")) > 0.1


def test_all_families_are_counted_in_one_pass_where_they_are_few(monkeypatch):
    passes = []

    class Watched(Tally):
        def add(self, codes):
            passes[-1].append(len(self._cells))
            super().add(codes)

    monkeypatch.setattr(count, "Tally", Watched)
    made = []
    for most in (privbayes.PREFETCHED, 0):
        monkeypatch.setattr(privbayes, "PREFETCHED", most)
        passes.append([])
        model = PrivBayes().fit(Curator.rehearse(network_rows(2000), PureDP(2), seed=3))
        made.append(model.sample(seed=0))
    together, apart = passes
    # The columns; then all ten pairs and ten triples. In rounds: the pairs, then what each new column adds.
    assert together == [5, 20]
    assert len(apart) > 3
    assert sum(apart) <= sum(together)
    for name in SIZES:
        np.testing.assert_array_equal(made[0][name], made[1][name])


def test_only_tables_that_a_family_can_have_are_tables_of_families(monkeypatch):
    schema = schema_of(SIZES)
    few = privbayes._tables_of_families(schema, ways=3, largest=8)
    assert [t.key for t in few] == ["a × c", "a × e", "b × c", "b × e", "c × d", "c × e", "d × e"]
    every = privbayes._tables_of_families(schema, ways=3, largest=24)
    assert all(t.size <= 24 for t in every)
    monkeypatch.setattr(privbayes, "PREFETCHED", sum(t.size for t in every))
    assert len(privbayes._tables_of_families(schema, ways=3, largest=24)) == len(every)
    monkeypatch.setattr(privbayes, "PREFETCHED", sum(t.size for t in every) - 1)
    assert privbayes._tables_of_families(schema, ways=3, largest=24) == []


def test_mutual_information_finds_them_too():
    codes = network_rows(relation="replace")
    method = PrivBayes(score="mutual-information", share=0.3)
    curator = Curator.rehearse(codes, PureDP(50), seed=1)
    model = method.fit(curator)
    assert {e.score for e in events(curator, Chosen)} == {"mutual information"}
    assert distance(model, codes, ("a", "b", "c")) < 0.02


@pytest.mark.parametrize("given", [2, 10**6])
def test_mutual_information_answers_at_the_true_number_of_rows_whatever_was_stated(given):
    """Its sensitivity falls with n: a stated number that is too large would make the noise too small."""
    curator = Curator.rehearse(network_rows(300, "replace"), PureDP(1), given_rows=given, seed=1)
    PrivBayes(score="mutual-information").fit(curator)
    exact = information_sensitivity(300, binary=False)
    assert all(exact <= e.sensitivity <= exact * (1 + 1e-9) for e in events(curator, Chosen))


def test_noise_that_is_0_to_double_precision_leaves_every_family_useful():
    codes = network_rows(500)
    curator = Curator.rehearse(codes, PureDP(10_000), seed=1)
    method = PrivBayes(theta=4)
    assert sum(step.budget.units for step in method.plan(codes.schema, PureDP(10_000), PublicFacts(500)))
    assert distance(method.fit(curator), codes, ("a", "b")) < 0.01


def test_mutual_information_is_refused_where_it_has_no_proof():
    rules = (Rule((("a", (0,)), ("b", (1,)))),)
    several = Codes.of(schema_of(SIZES, "replace", unit=Unit("person", 2)), network_rows(50).columns)
    for codes in (network_rows(50), network_rows(50, "replace", rules), several):
        curator = Curator.rehearse(codes, PureDP(1), seed=1)
        with pytest.raises(UnsupportedError, match="association"):
            PrivBayes(score="mutual-information").fit(curator)
        assert curator._journal.events == []
        with pytest.raises(UnsupportedError, match="association"):
            PrivBayes(score="mutual-information").plan(codes.schema, PureDP(1), PublicFacts())


@pytest.mark.parametrize(
    ("relation", "max_rows", "l1", "l2", "choice"),
    [("add-remove", 1, 1, 1, 2), ("replace", 1, 2, 2, 3), ("replace", 2, 4, 8, 6)],
)
def test_noise_has_the_scale_that_the_relation_demands(relation, max_rows, l1, l2, choice):
    schema = schema_of(SIZES, relation, unit=Unit("person", max_rows))
    codes = Codes.of(schema, network_rows(500).columns)
    for budget, sensitivity in ((PureDP(1), Fraction(l1)), (ZCDP("0.1"), Fraction(l2))):
        curator = Curator.rehearse(codes, budget, seed=1)
        PrivBayes(share=0.5).fit(curator)
        for event in events(curator, Measured):
            pure = sensitivity / event.budget.exact
            assert event.scale == (pure if budget.currency == "epsilon" else variance_needed(pure / 2))
        choices = events(curator, Chosen)
        assert {c.sensitivity for c in choices} == {Fraction(choice)}
        assert sum(c.budget.units for c in choices) == pytest.approx(budget.units / 2, rel=1e-6)
        assert sum(e.budget.units for e in curator._journal.events) == budget.units


def test_theta_limits_the_families():
    """θ-usefulness under pure ε and replace: |dom(X)|·|dom(Π)| ≤ n·ε₂/(2·(d − 1)·θ)."""
    codes = network_rows(2000, "replace")
    for theta in (4, 20):
        curator = Curator.rehearse(codes, PureDP(1), seed=1)
        PrivBayes(theta=theta, share=0.2, one_way=0.3).fit(curator)
        limit = 2000 * 0.5 / (2 * 4 * theta)
        # Laplace noise of scale b has mean absolute value b; its discrete law differs by less than 1 %.
        assert max(e.size for e in events(curator, Measured) if " × " in e.cells or e.size > 4) <= limit * 1.01
    free = Curator.rehearse(codes, PureDP(1), seed=1)
    PrivBayes(theta=0).fit(free)
    assert max(e.size for e in events(free, Measured)) > 12


def test_columns_without_useful_parents_stay_alone():
    codes = network_rows(300)
    curator = Curator.rehearse(codes, PureDP("0.01"), seed=1)
    model = PrivBayes(theta=1000).fit(curator)
    assert all(len(c) == 1 for c in model.tree.cliques)
    assert sum(e.budget.units for e in curator._journal.events) == PureDP("0.01").units


def test_the_model_never_outgrows_its_limit():
    codes = network_rows(5000)
    for limit in (40, 60, 144):
        model = PrivBayes(max_cells=limit, degree=3, theta=0).fit(Curator.rehearse(codes, ZCDP(5), seed=1))
        assert model.tree.cells <= limit


def test_a_column_with_many_levels_is_no_blow_up():
    """10⁵ levels: families that do not fit the limits are no candidates, by public sizes alone."""
    sizes = {"zip": 100_000, "a": 4, "b": 3, "c": 5}
    rng = np.random.default_rng(0)
    codes = Codes.of(schema_of(sizes), {n: rng.integers(0, s, 3000) for n, s in sizes.items()})
    model = PrivBayes().fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert model.tree.cells <= 1 << 18
    assert not any("zip" in c and len(c) > 1 for c in model.tree.cliques)
    assert len(model.sample(50, seed=1)) == 50


@pytest.mark.parametrize("method", [PrivBayes(), MST(), AIM()], ids=lambda m: m.name)
def test_a_column_with_many_levels_is_said_before_it_is_bought(method):
    sizes = {"zip": 100_000, "a": 40, "b": 3000}
    few, *_ = method.plan(schema_of(sizes), PureDP(1), PublicFacts(rows=3000))
    assert few.what == "zip"
    assert "hopeless" in few.note
    assert "collapse" in few.note
    many, *_ = method.plan(schema_of(sizes), PureDP(1), PublicFacts(rows=10**8))
    assert "independently of all others" in many.note
    assert "collapse" in many.note
    fine, *_ = method.plan(schema_of({"a": 4, "b": 3}), PureDP(1), PublicFacts(rows=10**4))
    assert fine.note == ""


def test_rules_hold_in_the_model():
    rules = (Rule((("a", (0,)), ("b", (1,)))), Rule((("c", (1,)), ("e", (0,)))))
    codes = network_rows(rules=rules)
    model = PrivBayes().fit(Curator.rehearse(codes, PureDP("0.5"), seed=2))
    assert model.marginal(("a", "b"))[0, 1] == 0
    assert model.marginal(("c", "e"))[1, 0] == 0
    assert model.sample(5000, seed=1).lawful().all()


def test_the_plan_has_every_stage():
    plan = PrivBayes(theta=4).plan(schema_of(SIZES, "replace"), PureDP(1), PublicFacts(rows=20_000))
    assert [s.stage for s in plan] == ["column"] * 5 + ["network", "families"]
    assert sum(s.budget.units for s in plan) == PureDP(1).units
    assert "useful" in plan[-1].note
    assert PrivBayes().plan(schema_of(SIZES), PureDP(1), PublicFacts())[-1].note == ""


def test_parameters_are_checked():
    for wrong in ({"degree": 0}, {"theta": -1}, {"share": 0.8}, {"score": "entropy"}, {"max_cells": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            PrivBayes(**wrong)
