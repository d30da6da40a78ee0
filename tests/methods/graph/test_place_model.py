"""AIM with a tree of places: least squares against a dense solver, counts that add up, totals that are kept."""

from itertools import product
from math import prod

import numpy as np
import pytest

from dipsmith.counting.count import MemoryRows
from dipsmith.errors import UsageError
from dipsmith.methods.graph import aim, place_tables
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.place_tables import (
    PlaceEstimates,
    measure_places,
    place_questions,
    wanted_sets,
)
from dipsmith.methods.graph.places import PLACE_WEIGHT, PlaceModel, area_level, place_totals
from dipsmith.methods.graph.raking import RakingGoal, rake, round_places
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Measured, Rehearsal
from dipsmith.privacy.observer import Observer
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.places import PlaceTable
from dipsmith.testing import RecordedAnswers

PLACES = ["a11", "a12", "a21", "b11", "b12", "b13"]
SETS = (("x", "y"), ("y", "z"))


def nation(relation="replace", totals=None, rules=True, **more):
    place = {"name": "t", "type": "string", "enum": PLACES, "hierarchy": {"s": 1, "c": 2, "t": 3}, "other": "a11"}
    others = [
        {"name": n, "type": "string", "enum": list("pqr")[:k], "other": "p"} for n, k in (("x", 2), ("y", 3), ("z", 2))
    ]
    if totals:
        place["totals"] = totals
    never = [{"never": {"x": "p", "z": "q"}}] if rules else []
    return Schema.from_dict(
        {"name": "p", "unit": "row", "neighbours": relation, "fields": [place, *others], "rules": never, **more}
    )


def people(schema, rows=400, seed=0):
    random = np.random.default_rng(seed)
    place = np.minimum(random.geometric(0.35, rows) - 1, 5)
    y = np.minimum(random.binomial(2, 0.3 + 0.1 * (place % 3)), 2)
    codes = Codes.of(
        schema, {"t": place, "x": random.integers(0, 2, rows), "y": y, "z": random.integers(0, 2, rows)}, rows
    )
    return codes.take(codes.lawful())


def fitted(codes, budget, seed=3, method=None, observer=None):
    journal = Rehearsal()
    curator = Curator(MemoryRows(codes), budget, stream=Stream.for_testing(seed, observer), journal=journal)
    return (method or AIM(planned=[("t", *q) for q in SETS])).fit(curator), journal.events


def estimates(schema, seed=0, totals=True):
    """Random noisy tables with random variances."""
    random = np.random.default_rng(seed)
    values, variances = {}, {}
    for question in place_questions(schema, SETS):
        shape = (schema.places.sizes[question.level], *(schema[n].size for n in question.columns))
        values[question] = random.normal(20, 8, shape)
        variances[question] = float(random.uniform(0.5, 9))
    return PlaceEstimates(schema, SETS, values, variances, 120.0 if totals else None)


def dense(told, columns):
    """Least squares over all cells of all smallest places at once, and the estimates and variances of one table."""
    schema, places = told.schema, told.places
    names, leaves = ("x", "y", "z"), places.sizes[-1]
    shape = tuple(schema[n].size for n in names)
    codes = np.array(list(product(range(leaves), *(range(n) for n in shape))))

    def rows_of(level, wanted):
        node = places.nodes[level][np.argsort(places.nodes[-1])][codes[:, 0]]
        sizes = (places.sizes[level], *(schema[n].size for n in wanted))
        at = np.ravel_multi_index([node, *(codes[:, 1 + names.index(n)] for n in wanted)], sizes)
        matrix = np.zeros((prod(sizes), len(codes)))
        matrix[at, np.arange(len(codes))] = 1
        return matrix

    blocks, goals, weights = [], [], []
    for question, value in told.values.items():
        blocks.append(rows_of(question.level, question.columns))
        goals.append(value.ravel())
        weights.append(np.full(value.size, told.variances[question] ** -0.5))
    design, goal, weight = np.vstack(blocks), np.concatenate(goals), np.concatenate(weights)
    exact = np.concatenate([rows_of(level, ()) for level in range(len(places.sizes))])[np.isfinite(told.exact)]
    known = told.exact[np.isfinite(told.exact)]
    # On the affine set {exact · x = known}: a point of it, and directions along it.
    if len(known):
        _, s, vt = np.linalg.svd(exact)
        free = vt[int((s > 1e-9).sum()) :].T
        point = np.linalg.pinv(exact) @ known
    else:
        free, point = np.eye(len(codes)), np.zeros(len(codes))
    scaled = design @ free * weight[:, None]
    inverse = np.linalg.pinv(scaled)
    x = point + free @ (inverse @ ((goal - design @ point) * weight))
    wanted = np.vstack([rows_of(level, columns) for level in range(len(places.sizes))])
    spread = wanted @ free @ inverse
    return wanted @ x, (spread**2).sum(axis=1)


@pytest.mark.parametrize(
    ("totals", "rows"),
    [(None, False), (None, True), ({"c": {"a1": 40, "b1": 50}}, True), ({"s": {"a": 70}}, False)],
)
@pytest.mark.parametrize("columns", [(), ("y",), ("x", "y"), ("y", "z")])
def test_least_squares_is_that_of_a_dense_solver(totals, rows, columns):
    told = estimates(nation(totals=totals, rules=False), totals=rows)
    values, variances = dense(told, columns)
    np.testing.assert_allclose(told.table(columns).ravel(), values, rtol=0, atol=1e-9 * 200)
    cells = told.table(columns)[0].size
    np.testing.assert_allclose(np.repeat(told.table_variance(columns), cells), variances, rtol=1e-9, atol=1e-9)


def test_all_estimates_agree():
    told = estimates(nation(rules=False))
    assert np.allclose(told.table(("x", "y")).sum(axis=1), told.table(("y", "z")).sum(axis=2), atol=1e-9)
    for level, parents in enumerate(told.places.parents, start=1):
        above = np.zeros_like(told.table(("x", "y"))[told.level(level - 1)])
        np.add.at(above, parents, told.table(("x", "y"))[told.level(level)])
        assert np.allclose(above, told.table(("x", "y"))[told.level(level - 1)], atol=1e-9)


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.05")])
def test_counts_are_whole_add_up_and_keep_public_totals(budget):
    totals = {"s": {"a": 300, "b": 100}, "c": {"a1": 250}}
    schema = nation("add-remove", totals)
    model, _ = fitted(people(schema), budget)
    drawn = model.sample(seed=1)
    assert len(drawn) == model.rows == 400
    assert drawn.lawful().all()
    found = np.bincount(PlaceTable(schema, 1, ()).index(drawn), minlength=2)
    assert found.tolist() == [300, 100]
    assert np.bincount(PlaceTable(schema, 2, ()).index(drawn), minlength=3)[0] == 250
    assert (model.counts >= 0).all()
    table = PlaceTable(schema, 3, ("x", "y", "z"))
    assert np.array_equal(
        np.bincount(table.index(drawn), minlength=table.size).reshape(6, -1)[schema.places.nodes[-1]], model.counts
    )


def test_whole_totals_add_up_on_every_level():
    for seed in range(20):
        told = estimates(nation(totals={"c": {"a2": 7}}, rules=False), seed)
        whole = place_totals(told)
        for level, parents in enumerate(told.places.parents, start=1):
            sums = np.bincount(parents, whole[told.level(level)], told.places.sizes[level - 1])
            assert np.array_equal(sums, whole[told.level(level - 1)])
        assert (whole >= 0).all()
        assert whole[0] == 120
        assert whole[told.level(2)][1] == 7


def test_raking_with_precise_targets_is_proportional_fitting():
    random = np.random.default_rng(1)
    true = random.gamma(2.0, 10.0, (4, 6))
    shape, block = (2, 3), np.array([0, 0, 1, 1])
    above = np.stack([true[:2].sum(axis=0), true[2:].sum(axis=0)])
    targets = [
        RakingGoal((0,), true.reshape(4, 2, 3).sum(axis=2), np.zeros(4)),
        RakingGoal((1,), true.reshape(4, 2, 3).sum(axis=1), np.zeros(4)),
    ]
    x = rake(above[block] / 2, block, above, true.sum(axis=1), targets, shape)
    for target in targets:
        np.testing.assert_allclose(target.sums(x, shape), target.values, rtol=1e-3)
    np.testing.assert_allclose(np.stack([x[:2].sum(axis=0), x[2:].sum(axis=0)]), above, rtol=1e-9)


def test_rounding_shares_out_exactly_and_keeps_tables_within_a_few():
    random = np.random.default_rng(2)
    for _ in range(20):
        shape, block = (2, 3, 4), np.repeat(np.arange(3), 5)
        above = random.poisson(6.0, (3, 24))
        share = random.gamma(0.5, 1.0, (15, 24)) + 1e-3
        x = share / np.stack([share[block == b].sum(axis=0) for b in range(3)])[block] * above[block]
        totals = np.concatenate([_whole(x[block == b].sum(axis=1)) for b in range(3)])
        targets = [RakingGoal((0, 1), np.zeros((15, 6)), np.ones(15)), RakingGoal((2,), np.zeros((15, 4)), np.ones(15))]
        whole = round_places(x, block, above, totals, targets, shape)
        assert (whole >= 0).all()
        assert np.array_equal(np.stack([whole[block == b].sum(axis=0) for b in range(3)]), above)
        assert np.array_equal(whole.sum(axis=1), totals)
        for target in targets:
            off = np.abs(target.sums(whole.astype(float), shape) - target.sums(x, shape))
            assert off.mean() < 0.8
            assert off.max() < 4


def _whole(sums):
    whole = np.floor(sums).astype(int)
    whole[: round(sums.sum()) - whole.sum()] += 1
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.05")])
def test_every_table_is_charged_and_the_budget_spent(relation, budget):
    schema = nation(relation)
    _, events = fitted(people(schema), budget)
    assert sum(e.budget.units for e in events) <= budget.units
    assert sum(e.budget.units for e in events) >= 0.999 * budget.units
    tables = [e for e in events if isinstance(e, Measured)]
    assert len(tables) >= len(place_questions(schema, SETS))
    plan = AIM(planned=[("t", *q) for q in SETS]).plan(schema, budget, PublicFacts(400))
    assert sum(step.budget.units for step in plan) == budget.units
    assert all(set(step.attributes) <= set(schema.names) for step in plan)
    asked = [step.budget.units for step in plan if step.group == "counts by place"]
    assert [e.budget.units for e in tables[: len(asked)]] == asked


def test_with_answers_frozen_other_people_give_the_same_model():
    schema = nation("add-remove")
    answers = RecordedAnswers()
    first, asked = fitted(people(schema, 300), PureDP(1), observer=answers)
    second, again = fitted(people(schema, 100, seed=8), PureDP(1), observer=RecordedAnswers(answers.given))
    assert asked == again
    assert first.state()[0] == second.state()[0]
    assert all(np.array_equal(a, second.state()[1][n]) for n, a in first.state()[1].items())


def test_the_model_comes_back_from_its_state():
    schema = nation()
    model, _ = fitted(people(schema), PureDP(2))
    again = PlaceModel.from_state(schema, *model.state())
    one, other = model.sample(50, seed=4), again.sample(50, seed=4)
    assert all(np.array_equal(one[n], other[n]) for n in schema.names)
    assert len(one) == 50
    assert ("t", "x", "y") in model.kept_tables()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_are_no_reason_to_fail(rows):
    codes = people(nation("add-remove")).take(slice(0, rows))
    model, _ = fitted(codes, PureDP("0.1"))
    assert len(model.sample(10, seed=1)) == 10


def test_columns_that_no_place_is_counted_with_are_drawn_from_the_larger_place():
    schema = nation(rules=False)
    model, _ = fitted(people(schema), PureDP(50), method=AIM(planned=[("t", "x")]))
    assert model.columns == ("x",)
    assert set(model.sample(seed=1).names) == set(schema.names)


def test_rows_come_near_the_tables_of_larger_places(monkeypatch):
    """Rows of a place are completed by chance; of two completions the one is kept that brings all tables nearer."""
    schema = nation(rules=False)
    model, _ = fitted(people(schema, 20_000), PureDP(40), method=AIM(planned=[("t", "x")], degree=1))
    missed = []
    for balanced in (True, False):
        if not balanced:
            monkeypatch.setattr("dipsmith.methods.graph.model.GraphModel.balances", lambda self, rows: False)
        rows = model.sample(seed=4)
        tables = [Marginal.of(schema, names) for names in (("y", "z"), ("x", "z"), ("x", "y"))]
        found = [np.bincount(t.index(rows), minlength=t.size) for t in tables]
        wanted = [model.rows * model.areas.marginal(t.attributes).ravel() for t in tables]
        missed.append(sum(np.abs(f - w).sum() for f, w in zip(found, wanted, strict=True)))
        places = np.bincount(rows["t"] * 2 + rows["x"], minlength=12)
        assert (places.reshape(6, 2) == model.counts).all()
    assert missed[0] < 0.5 * missed[1]


def test_tables_that_are_too_large_are_refused_in_words(monkeypatch):
    monkeypatch.setattr(place_tables, "MOST_CELLS", 30)
    with pytest.raises(UsageError, match="plan fewer columns"):
        wanted_sets(nation(), [("t", "x", "y")])
    assert wanted_sets(nation(), []) == (("x",), ("z",))


def test_the_plan_tells_the_error_that_least_squares_leaves():
    schema = nation("replace", rules=False)
    plan = AIM(planned=[("t", "x")]).plan(schema, ZCDP("0.05"), PublicFacts(400))
    steps = {s.what: s for s in plan if s.group == "counts by place"}
    assert set(steps) == {"all × x", "s", "s × x", "c", "c × x", "t", "t × x"}
    assert all("with all levels together" in s.note for s in steps.values())
    left = {what: float(s.note.split("±")[1].split(" ")[0]) for what, s in steps.items()}
    assert all(left[what] <= steps[what].sd + 0.05 for what in steps)
    told = measure_places(Curator.rehearse(people(schema), ZCDP("0.0325"), seed=1), (("x",),), ZCDP("0.0325"), 400.0)
    expected = np.sqrt(told.table_variance(("x",))[told.level(2)].mean())
    assert abs(left["c × x"] - expected) <= 0.06


class Inside(Observer):
    """Sees true counts, answers and the variance of their noise from inside."""

    def __init__(self):
        self.seen = []

    def on_table(self, fact):
        answer = fact.answer
        self.seen.append((fact.true.astype(float), answer.values.astype(float), answer.variance))
        return answer


def world(schema, rows):
    """A small nation of these rows."""
    return Codes.of(schema, dict(zip(schema.names, np.array(rows, dtype=int).T, strict=True)), len(rows))


def counted(schema, rows, budget, seed=0):
    """What is counted by place in a nation of these rows, and what is answered."""
    inside = Inside()
    measure_places(Curator.rehearse(world(schema, rows), budget, seed=seed, observer=inside), SETS, budget, None)
    return inside.seen


def likelihood(seen, one, two):
    """The statistic of the strongest test of one world against the other, and how far apart it puts them."""
    terms = [
        (other - true, values - true, v)
        for (true, _, v), (other, *_), (_, values, _) in zip(one, two, seen, strict=True)
    ]
    return sum(float(d @ y) / v for d, y, v in terms), sum(float(d @ d) / v for d, _, v in terms)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_no_two_worlds_are_further_apart_than_is_charged(relation):
    """Any person of 24 kinds, added or put in the place of another: normal noise of all tables together, exactly."""
    schema, budget = nation(relation, rules=False), ZCDP("0.5")
    kinds = list(product(range(6), range(2), range(3), range(2)))[::-3]
    others = kinds[::2]
    one = counted(schema, others if relation == "add-remove" else [*others, kinds[0]], budget)
    apart = [likelihood(one, one, counted(schema, [*others, kind], budget))[1] for kind in kinds]
    assert max(apart) <= 2 * float(budget.rho)
    assert max(apart) >= 0.9 * 2 * float(budget.rho)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_strongest_test_of_two_worlds_is_as_strong_as_is_charged(relation):
    """250 runs in either world at μ = 1: their means differ by μ standard deviations, within 5.2 s.e. (1e-6 together)."""
    schema, budget, trials = nation(relation, rules=False), ZCDP("0.5"), 250
    others = list(product(range(6), range(2), range(3), range(2)))[::5]
    rows = [others if relation == "add-remove" else [*others, (0, 0, 0, 0)], [*others, (5, 1, 2, 1)]]
    one, two = (counted(schema, r, budget) for r in rows)
    found = np.array(
        [
            [likelihood(counted(schema, r, budget, 1 + 2 * i + w), one, two)[0] for i in range(trials)]
            for w, r in enumerate(rows)
        ]
    )
    distance = (found[1].mean() - found[0].mean()) / np.sqrt(found.var(axis=1).mean())
    # The distance of two samples of unit variance: 2/n for the means, d²/4n for the spread.
    assert abs(distance - np.sqrt(likelihood(one, one, two)[1])) < 5.2 * np.sqrt(2.25 / trials)
    assert distance <= np.sqrt(2 * float(budget.rho)) + 5.2 * np.sqrt(2.25 / trials)


@pytest.mark.parametrize(("sd", "level"), [(5.7, 3), (5.8, 2), (8.2, 1), (100.0, 1)])
def test_the_model_sees_the_finest_places_whose_counts_chance_moves_more_than_noise(sd, level):
    # 400 rows, columns of 2 values: 33 in a cell of the six smallest places, 67 of the three above them.
    assert area_level(nation(), 400, sd) == level


def test_tables_by_place_weigh_less_than_others_where_tables_are_chosen(monkeypatch):
    seen = []

    def spy(schema, fitted, candidates, weights, *rest):
        seen.append(weights)
        return score(schema, fitted, candidates, weights, *rest)

    score = aim.score_candidates
    monkeypatch.setattr(aim, "score_candidates", spy)
    schema = nation(rules=False)
    model, _ = fitted(people(schema), ZCDP.from_approx(1, 1e-9))
    (place,) = set(model.areas.schema.names) - set(schema.names)
    assert seen
    for weights in seen:
        assert {w for c, w in weights.items() if len(c) == 2 and place in c} == {PLACE_WEIGHT}
        assert {w for c, w in weights.items() if len(c) == 2 and place not in c} == {1.0}
