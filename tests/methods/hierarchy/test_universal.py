"""Universal histograms: ranges of one column that agree, several columns in random order."""

import json
from math import sqrt

import numpy as np
import pytest

import dipsmith as ds
from dipsmith.errors import UsageError
from dipsmith.methods.hierarchy.noisy_tree import TreeModel
from dipsmith.methods.hierarchy.ranges import Ranges
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import ZCDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Measured
from dipsmith.schema import Attribute, Bins, Categories, Codes, Rule, Schema, Unit


def one_column(values, relation="replace", missing=False, rules=()):
    edges = tuple(float(x) for x in range(values + 1))
    bins = Bins(edges, "integer", tuple(str(int(e)) for e in edges[:-1]), 0, values - 1, missing=missing)
    return Schema("t", (Attribute("x", "integer", bins),), Unit(), relation, rules)


def rows_of(schema, n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    size = schema["x"].size
    return Codes.of(schema, {"x": np.minimum(size * rng.beta(2, 5, n), size - 1).astype(int)}, n)


def several(relation="replace"):
    listed = {"a": 2, "b": 3, "c": 4, "d": 5}
    rules = (Rule((("a", (1,)), ("d", (0, 1)))),)
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(k)], other="0")) for n, k in listed.items()
    )
    return Schema("t", attributes, Unit(), relation, rules)


def fitted(method, codes, epsilon="1", seed=1, rows=None, budget=None):
    curator = Curator.rehearse(codes, budget or ds.PureDP(epsilon), given_rows=rows, seed=seed)
    return method.fit(curator), curator._journal.events


# --- one column --------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_ranges_agree_with_their_parts(relation):
    codes = rows_of(one_column(700, relation))
    model, _ = fitted(ds.Universal(), codes, "0.5")
    rng = np.random.default_rng(0)
    for _ in range(50):
        low, middle, high = np.sort(rng.choice(701, 3, replace=False)).tolist()
        whole = model.range_query("x", low, high).value
        parts = model.range_query("x", low, middle).value + model.range_query("x", middle, high).value
        assert whole == pytest.approx(parts, abs=1e-6)
    assert model.range_query("x", 0, 700).value == pytest.approx(model.noisy.total)


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "currency"), [("add-remove", "pure"), ("replace", "pure"), ("replace", "zcdp")])
def test_standard_errors_of_ranges_are_right(relation, currency):
    """600 fits, 4 ranges: the mean squared error over the stated variance."""
    codes = rows_of(one_column(300, relation), 3000)
    ranges = [(0, 300), (10, 11), (33, 180), (100, 299)]
    budget = ds.PureDP("0.5") if currency == "pure" else ZCDP("0.05")
    truth = np.array([((codes["x"] >= a) & (codes["x"] < b)).sum() for a, b in ranges])
    errors, stated = [], None
    for seed in range(600):
        model, _ = fitted(ds.Universal(depth=2), codes, seed=seed, budget=budget)
        answers = [model.range_query("x", a, b) for a, b in ranges]
        errors.append([float(a) for a in answers] - truth)
        stated = [a.standard_error for a in answers]
    errors = np.array(errors)
    known = relation == "replace"
    assert (stated[0] < 1e-9) == known
    used = slice(1, None) if known else slice(None)
    ratio = (errors**2).mean(axis=0)[used] / np.square(stated)[used]
    # The variance of 600 squared errors with kurtosis at most 6 has relative sd √(5/600) = 0.091: six are 0.55.
    assert np.abs(ratio - 1).max() < 0.55
    # The mean error has sd 1/√600 of the stated one: six are 0.245.
    assert np.abs(errors.mean(axis=0)[used] / np.array(stated)[used]).max() < 0.245


@pytest.mark.slow
def test_many_values_are_answered_better_than_by_a_flat_histogram():
    codes = rows_of(one_column(1024))
    rng = np.random.default_rng(1)
    ranges = [np.sort(rng.choice(1025, 2, replace=False)).tolist() for _ in range(60)]
    squared, stated = {}, {}
    for name, method in {"tree": ds.Universal(), "flat": ds.Flat()}.items():
        found, errors = [], []
        for seed in range(6):
            model, _ = fitted(method, codes, "0.5", seed)
            for low, high in ranges:
                answer = model.range_query("x", low, high)
                truth = int(((codes["x"] >= low) & (codes["x"] < high)).sum())
                found.append((answer.value - truth) ** 2)
                errors.append(answer.standard_error**2)
        squared[name], stated[name] = np.mean(found), np.mean(errors)
    assert squared["tree"] < 0.7 * squared["flat"]
    # by the stated errors alone, which carry no luck
    assert stated["tree"] < 0.5 * stated["flat"]


def test_few_values_are_left_flat():
    model, events = fitted(ds.Universal(), rows_of(one_column(60)))
    assert [e.size for e in events] == [60]
    flat, _ = fitted(ds.Flat(), rows_of(one_column(60)))
    for low, high in ((0, 10), (5, 50)):
        tree_error = model.range_query("x", low, high).standard_error
        assert tree_error == pytest.approx(flat.range_query("x", low, high).standard_error)


def test_a_total_that_is_private_is_one_more_level():
    schema = one_column(200, "add-remove")
    model, events = fitted(ds.Universal(branching=16), rows_of(schema))
    assert [e.size for e in events] == [1, 13, 200]
    assert sum(e.budget.units for e in events) == ds.PureDP(1).units
    assert abs(model.rows - 20_000) < 300
    shares = [float(e.budget.exact) for e in events]
    weights = np.array([1, 13, 200]) ** (1 / 6)
    assert shares == pytest.approx((weights / weights.sum()).tolist(), rel=1e-6)


def test_missing_values_and_rules_stay_out_of_ranges():
    schema = one_column(120, missing=True, rules=(Rule((("x", tuple(range(100, 120))),)),))
    codes = rows_of(schema)
    codes = codes.take(codes.lawful())
    model, _ = fitted(ds.Universal(depth=2), codes, "0.2")
    assert model.range_query("x", 100, 120).value == 0
    assert model.range_query("x", 100, 120).standard_error == 0
    missing = model.count({"x": "(missing)"}).value
    everything = model.range_query("x", 0, 120).value + missing
    assert everything == pytest.approx(model.noisy.total)
    assert model.sample(5000, seed=0).lawful().all()
    true = (codes["x"][codes["x"] < 120]).mean()
    mean = model.mean("x")
    assert abs(mean.value - true) < 8 * mean.standard_error + 0.5


def test_rows_follow_the_histogram():
    codes = rows_of(one_column(500))
    model, _ = fitted(ds.Universal(), codes, "2")
    drawn = model.sample(seed=3)
    assert len(drawn) == 20_000
    assert abs(drawn["x"].mean() - codes["x"].mean()) < 3


def test_ranges_survive_saving():
    model, _ = fitted(ds.Universal(branching=4), rows_of(one_column(90)))
    facts, arrays = model.state()
    again = TreeModel.from_state(model.schema, json.loads(json.dumps(facts)), dict(arrays))
    assert isinstance(again.noisy.hierarchy, Ranges)
    assert again.range_query("x", 3, 77) == model.range_query("x", 3, 77)


# --- several columns ---------------------------------------------------------------------------------


def people(schema, n=1500, seed=0):
    rng = np.random.default_rng(seed)
    codes = Codes.of(schema, {a.name: rng.integers(0, a.size, n) for a in schema}, n)
    return codes.take(codes.lawful())


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("depth", [None, 1, 3])
def test_columns_come_in_random_order(relation, depth):
    codes = people(several(relation))
    orders = set()
    for seed in range(12):
        model, events = fitted(ds.Universal(depth=depth), codes, seed=seed)
        order = model.noisy.hierarchy.order
        assert len(order) == (depth or 2)
        assert all(isinstance(e, Measured) for e in events)
        assert len(events) == len(order) + 1 + (relation == "add-remove")
        assert sum(e.budget.units for e in events) == ds.PureDP(1).units
        assert model.sample(400, seed=0).lawful().all()
        orders.add(order)
    assert len(orders) > 2


def test_the_order_is_public_and_can_be_drawn_again():
    codes = people(several())
    curators = [
        Curator.rehearse(codes, ds.PureDP(1), seed=4),
        Curator.rehearse(people(codes.schema, seed=9), ds.PureDP(1), seed=4),
    ]
    first, second = (ds.Universal(depth=3).fit(c).noisy.hierarchy.order for c in curators)
    assert first == second  # other rows, same coins


def test_unequal_fan_outs_add_up():
    model, _ = fitted(ds.Universal(depth=3, post="clip"), people(several()), "0.3")
    made = model.noisy.counts("clip")
    for family in model.noisy.tree.families():
        assert family.sums(made[family.children]) == pytest.approx(made[family.nodes], abs=1e-8)
    assert made.min() >= 0


def test_depth_is_bounded_by_the_columns():
    model, _ = fitted(ds.Universal(depth=9), people(several()))
    assert model.noisy.hierarchy.depth == 3


def test_plan_names_levels_and_hopeless_ones():
    steps = ds.Universal().plan(several("add-remove"), ds.PureDP(1), PublicFacts())
    assert [s.stage for s in steps] == ["row count", "layer 1", "layer 2", "leaves"]
    assert "random" in steps[1].note
    leaves = ds.Universal().plan(several(), ds.PureDP("0.01"), PublicFacts(rows=500))[-1]
    assert "hopeless" in leaves.note
    assert "mst" in leaves.note
    (ranges,) = ds.Universal(depth=1).plan(one_column(90), ds.PureDP(1), PublicFacts(rows=500))
    assert ranges.note == ""
    assert ranges.sd == pytest.approx(sqrt(2 * np.exp(-0.5) / (1 - np.exp(-0.5)) ** 2))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"depth": 0}, "1 or more"),
        ({"branching": 1}, "2 or more"),
        ({"depth": 2, "branching": 4}, "one of them"),
        ({"layer_weights": [0]}, "above 0"),
        ({"layer_weights": [1]}, "expected 3"),
        ({"post": "round"}, "clip"),
        ({"branching": 4}, "one column"),
    ],
)
def test_wrong_parameters(arguments, match):
    with pytest.raises(UsageError, match=match):
        fitted(ds.Universal(**arguments), people(several()))
