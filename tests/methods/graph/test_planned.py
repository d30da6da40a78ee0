"""Planned analyses of whole tables: a formula becomes tables that are measured before anything is chosen."""

import json
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest

from dipsmith.errors import SchemaError, UsageError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.marginals import Marginals
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.graph.planned import carried_sets
from dipsmith.methods.graph.privbayes import PrivBayes
from dipsmith.methods.method import PlansAnalyses, PublicFacts
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Measured
from dipsmith.regression.tables import tables_needed
from dipsmith.schema import Attribute, Categories, Codes, Rule, Schema, Unit
from dipsmith.schema.analysis import PlannedAnalysis

SIZES = {"a": 3, "b": 3, "c": 2, "d": 4, "e": 2, "y": 5}
METHODS = [AIM(), MST(), PrivBayes(), Marginals()]
FORMULA = PlannedAnalysis('I(y == "1") ~ a + c | d', model="ols")
PAIRS = {frozenset(p) for p in combinations("acdy", 2)}


def schema_of(sizes=SIZES, relation="add-remove", rules=()):
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in sizes.items()
    )
    return Schema("t", attributes, Unit(), relation, tuple(rules))


def rows_of(n=2000, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, size, n) for name, size in SIZES.items()}
    columns["y"] = (columns["a"] + columns["c"] + rng.integers(0, 2, n)) % 5
    return Codes.of(schema_of(**kwargs), columns, n)


@pytest.mark.parametrize(
    ("formula", "tables"),
    [
        ("y ~ a + b", ["ay", "by", "ab"]),
        ("y ~ a", ["ay"]),
        ("y ~ 1", ["y"]),
        ("y ~ a | d", ["ay", "dy", "ad"]),
        ("y ~ a | d^e", ["ay", "dey", "ade"]),
        ("y ~ a*b + c", ["aby", "cy", "abc"]),
        ("y ~ a:b + c:d", ["aby", "cdy", "abcd"]),
        ("y ~ a + b | by e", ["aey", "bey", "abe"]),
        ("I(y * c) ~ a + b", ["acy", "bcy", "ab"]),
        ("y ~ a + I(a**2)", ["ay"]),
    ],
)
def test_a_formula_needs_the_tables_of_every_two_terms(formula, tables):
    found = tables_needed([PlannedAnalysis(formula)], schema_of())
    assert {frozenset(t) for t in found} == {frozenset(t) for t in tables}
    assert all(list(t) == sorted(t, key=list(SIZES).index) for t in found)


def test_tables_of_several_formulas_are_joined():
    found = tables_needed([PlannedAnalysis("y ~ a"), PlannedAnalysis("y ~ a*b")], schema_of())
    assert found == (("a", "b", "y"),)
    with pytest.raises(UsageError, match="'x', which is no column"):
        tables_needed([PlannedAnalysis("y ~ x")], schema_of())
    with pytest.raises(SchemaError, match="'x'"):
        tables_needed([PlannedAnalysis("y ~ a | by x")], schema_of())


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.05")], ids=["pure", "zcdp"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_planned_tables_are_measured_and_kept(method, budget):
    codes = rows_of()
    told = method.for_analyses([FORMULA], codes.schema)
    assert isinstance(told, PlansAnalyses)
    assert {frozenset(p) for p in told.planned} == PAIRS
    curator = Curator.rehearse(codes, budget, seed=1)
    model = told.fit(curator)
    assert {frozenset(t.marginal.attributes) for t in model.measurements} >= PAIRS
    assert sum(e.budget.units for e in curator._journal.events) == budget.units
    by_name = {e.cells: e.budget.units for e in curator._journal.events if isinstance(e, Measured)}
    measured = [by_name[t.marginal.key] for t in model.measurements if frozenset(t.marginal.attributes) in PAIRS]
    assert sum(measured) > 0.35 * budget.units
    assert len(model.measurements) == len(curator.answers)
    assert {t.mechanism for t in model.measurements} == {curator.answers[0].measurement.mechanism}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_parameters_tell_everything(method):
    told = method.for_analyses([FORMULA], schema_of())
    again = type(method)(**json.loads(json.dumps(asdict(told))))
    assert again == told
    assert told.for_analyses([FORMULA], schema_of()) == told


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_without_analyses_nothing_changes(method):
    assert method.for_analyses([], schema_of()) == method


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.05")], ids=["pure", "zcdp"])
def test_the_plan_says_what_is_planned(method, budget):
    told = method.for_analyses([FORMULA], schema_of())
    steps = told.plan(schema_of(), budget, PublicFacts(rows=2000))
    assert {frozenset(s.attributes) for s in steps} >= PAIRS
    assert sum(s.budget.units for s in steps) == budget.units


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_tables_that_are_too_large_are_refused(method):
    sizes = {"a": 2000, "b": 2000, "y": 3}
    with pytest.raises(UsageError, match=r"needs the table of a × b, 4,000,000 cells") as error:
        method.for_analyses([PlannedAnalysis("y ~ a + b")], schema_of(sizes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "method", [AIM(max_cells=40), MST(max_cells=40), PrivBayes(max_cells=40)], ids=lambda m: m.name
)
def test_the_model_holds_what_fits_and_measures_the_rest(method):
    codes = rows_of()
    told = method.for_analyses([PlannedAnalysis('I(y == "1") ~ a + b + d', model="ols")], codes.schema)
    assert len(carried_sets(codes.schema, told.planned, 40)) < len(told.planned) == 6
    model = told.fit(Curator.rehearse(codes, PureDP(1), seed=1))
    assert model.tree.cells <= 40
    assert {frozenset(t.marginal.attributes) for t in model.measurements} >= {frozenset(p) for p in told.planned}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_column_may_be_planned(method):
    """Then there is nothing left to choose."""
    codes = rows_of(relation="replace")
    told = method.for_analyses([PlannedAnalysis('I(y == "1") ~ a + b + c + d + e', model="ols")], codes.schema)
    curator = Curator.rehearse(codes, PureDP(1), seed=1)
    assert len(told.fit(curator).sample(100, seed=1)) == 100
    assert curator.remaining is None


def test_trees_and_networks_grow_from_planned_tables():
    codes = rows_of()
    for method in (MST(), PrivBayes()):
        told = method.for_analyses([FORMULA], codes.schema)
        model = told.fit(Curator.rehearse(codes, ZCDP(1), seed=1))
        sets = [frozenset(t.marginal.attributes) for t in model.measurements if len(t.marginal.attributes) > 1]
        others = [s for s in sets if s not in PAIRS]
        assert {n for s in others for n in s} >= {"b", "e"}
        assert all(s & {"b", "e"} for s in others)


def test_rules_hold_beside_planned_tables():
    rules = (Rule((("a", (0,)), ("y", (1,)))),)
    codes = rows_of(rules=rules)
    model = AIM().for_analyses([FORMULA], codes.schema).fit(Curator.rehearse(codes, PureDP(1), seed=2))
    assert model.marginal(("a", "y"))[0, 1] == 0
    assert model.sample(1000, seed=1).lawful().all()


def test_a_graph_model_keeps_its_measurements_when_saved():
    codes = rows_of()
    model = MST().fit(Curator.rehearse(codes, PureDP(1), seed=1))
    facts, arrays = model.state()
    again = GraphModel.from_state(codes.schema, json.loads(json.dumps(facts)), arrays)
    assert len(again.measurements) == len(model.measurements) > len(SIZES)
    for one, other in zip(model.measurements, again.measurements, strict=True):
        assert one.marginal.attributes == other.marginal.attributes
        assert (one.variance, one.mechanism, one.total) == (other.variance, other.mechanism, other.total)
        assert np.array_equal(one.values, other.values)
    old = {k: v for k, v in facts.items() if k != "measurements"}
    assert GraphModel.from_state(codes.schema, old, arrays).measurements == ()
