"""Checks that every method must pass, under every relation it supports and in both currencies.

A new method in the catalogue is checked without another line here.
"""

import json
from dataclasses import MISSING, FrozenInstanceError, fields, replace

import numpy as np
import pytest

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import Labeller, Method, Model, PublicFacts
from dipsmith.privacy.accountant import total
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured
from dipsmith.privacy.randomness import place_key
from dipsmith.schema import Attribute, Bins, Categories, Codes, Rule, Schema, Unit

BUDGETS = {"pure": PureDP(1), "zcdp": ZCDP("0.1")}
CASES = [(name, relation) for name, method in METHODS.items() for relation in method.relations]
IDS = [f"{name}-{relation}" for name, relation in CASES]


def schema_under(relation, unit=None):
    ages = tuple(float(x) for x in range(20, 71, 10))
    return Schema(
        "checks",
        (
            Attribute(
                "age", "integer", Bins(ages, "integer", ("20", "30", "40", "50", "60"), 20, 69), "public"
            ),
            Attribute("grade", "string", Categories.of("abcd", other="a"), "public"),
            Attribute("place", "string", Categories.of("xyz", other="x", missing=True), "public"),
            Attribute("sex", "string", Categories.of("FM", other="M"), "private"),
            Attribute("race", "string", Categories.of("ABC", other="C"), "private"),
        ),
        unit or Unit(),
        relation,
        (
            Rule((("age", (0,)), ("grade", (3,))), "no young d"),
            Rule((("grade", (0,)), ("race", (2,))), "no a with C"),
        ),
    )


def rows_of(schema, n=600, seed=0):
    rng = np.random.default_rng(seed)
    columns = {a.name: rng.integers(0, a.size, n) for a in schema}
    columns["sex"] = (rng.random(n) < 0.3 + 0.1 * columns["grade"]).astype(int)
    columns["grade"] = np.where((columns["age"] == 0) & (columns["grade"] == 3), 1, columns["grade"])
    columns["race"] = np.where((columns["grade"] == 0) & (columns["race"] == 2), 0, columns["race"])
    return Codes.of(schema, columns, n)


def relabelled(codes, seed=1):
    """A table that `label` may not tell from the first: same public columns, other labels."""
    rng = np.random.default_rng(seed)
    columns = dict(codes.columns)
    for name in ("sex", "race"):
        columns[name] = rng.permutation(columns[name])
    return Codes.of(codes.schema, columns, len(codes))


def method_for(name, relation):
    targets = next((f for f in fields(METHODS[name]) if f.name == "targets"), None)
    needed = targets is not None and (relation == "label" or targets.default is MISSING)
    return METHODS[name](targets=("sex", "race")) if needed else METHODS[name]()


def fitted(name, relation, budget, codes=None, seed=3):
    codes = rows_of(schema_under(relation)) if codes is None else codes
    curator = Curator.rehearse(codes, budget, seed=seed)
    return method_for(name, relation).fit(curator), curator


def drawn(model, codes, n=200, seed=5):
    if codes.schema.neighbours == "label":
        return model.label(codes.project(codes.schema.public), seed)
    return model.sample(n, seed)


@pytest.mark.parametrize("name", METHODS)
def test_is_a_frozen_method_with_a_model(name):
    method = method_for(name, METHODS[name].relations[-1])
    assert isinstance(method, Method)
    assert method.name == name
    assert method.models
    with pytest.raises(FrozenInstanceError):
        method.anything = 1
    assert method == method_for(name, METHODS[name].relations[-1])


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
@pytest.mark.parametrize("currency", BUDGETS)
def test_spends_its_budget_and_no_more(name, relation, currency):
    budget = BUDGETS[currency]
    _, curator = fitted(name, relation, budget)
    spent = total(curator._journal.events, budget.currency, relation)
    assert spent <= budget.units
    assert spent >= 0.99 * budget.units  # nothing is left unused


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
@pytest.mark.parametrize("currency", BUDGETS)
def test_makes_lawful_rows_of_its_schema(name, relation, currency):
    codes = rows_of(schema_under(relation))
    model, _ = fitted(name, relation, BUDGETS[currency], codes)
    assert isinstance(model, Model)
    made = drawn(model, codes)
    assert len(made) == (len(codes) if relation == "label" else 200)
    for attribute in codes.schema:
        assert attribute.name in made.names
        assert made[attribute.name].max() < attribute.size
    assert made.lawful().all()


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_refuses_other_relations(name, relation):
    for other in {"add-remove", "replace", "label"} - set(METHODS[name].relations):
        curator = Curator.rehearse(rows_of(schema_under(other)), PureDP(1), seed=1)
        with pytest.raises(UnsupportedError, match=name):
            method_for(name, other).fit(curator)
        assert curator._journal.events == []


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_state_round_trips(name, relation):
    codes = rows_of(schema_under(relation))
    model, _ = fitted(name, relation, PureDP(1), codes)
    facts, arrays = model.state()
    again = type(model).from_state(codes.schema, json.loads(json.dumps(facts)), dict(arrays))
    assert all(a.dtype != object for a in arrays.values())
    first, second = drawn(model, codes), drawn(again, codes)
    for column in codes.schema.names:
        assert first[column].tolist() == second[column].tolist()
    # Workers of a cluster draw by keys: a task that is run again draws the same rows, another place others.
    place = place_key(b"secret", 3, 1)
    first, second, other = (
        drawn(m, codes, seed=key)
        for m, key in ((model, place), (again, place), (model, place_key(b"secret", 3, 2)))
    )
    assert all(np.array_equal(first[n], second[n]) for n in first.names)
    assert any(not np.array_equal(first[n], other[n]) for n in first.names)


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_same_noise_gives_the_same_model(name, relation):
    codes = rows_of(schema_under(relation))
    first, second = (fitted(name, relation, PureDP(1), codes)[0] for _ in range(2))
    other = fitted(name, relation, PureDP(1), codes, seed=4)[0]
    assert all(
        np.array_equal(a, b)
        for a, b in zip(first.state()[1].values(), second.state()[1].values(), strict=True)
    )
    same = [
        np.array_equal(a, b)
        for a, b in zip(first.state()[1].values(), other.state()[1].values(), strict=False)
    ]
    assert not all(same)


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_is_a_function_of_noisy_answers_and_public_facts(name, relation, monkeypatch):
    """With every mechanism's output frozen, other private rows give the very same model and charges."""
    codes = rows_of(schema_under(relation))
    other = relabelled(codes) if relation == "label" else rows_of(codes.schema, seed=9)
    tape: list[object] = []
    measure, choose = Curator.measure, Curator.choose

    def recording(verb):
        def record(self, *args, **kwargs):
            answer = verb(self, *args, **kwargs)
            tape.append(answer)
            return answer

        return record

    def replaying(verb):
        def replay(self, *args, **kwargs):
            verb(self, *args, **kwargs)  # charges as it would
            return tape.pop(0)

        return replay

    with monkeypatch.context() as patch:
        patch.setattr(Curator, "measure", recording(measure))
        patch.setattr(Curator, "choose", recording(choose))
        first, curator = fitted(name, relation, PureDP(1), codes)
    with monkeypatch.context() as patch:
        patch.setattr(Curator, "measure", replaying(measure))
        patch.setattr(Curator, "choose", replaying(choose))
        second, curator_again = fitted(name, relation, PureDP(1), other)
    assert tape == []
    assert curator_again._journal.events == curator._journal.events
    assert second.state()[0] == first.state()[0]
    for a, b in zip(first.state()[1].values(), second.state()[1].values(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
@pytest.mark.parametrize("n", [0, 1])
def test_survives_empty_and_tiny_tables(name, relation, n):
    codes = rows_of(schema_under(relation), n=600).take(slice(0, n))
    model, _ = fitted(name, relation, PureDP(1), codes)
    made = drawn(model, codes, n=10)
    assert len(made) == (n if relation == "label" else 10)
    assert made.lawful().all()


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_rules_that_leave_nothing_are_refused_before_anything_is_spent(name, relation):
    schema = schema_under(relation)
    schema = replace(schema, rules=(*schema.rules, Rule((("sex", (0, 1)), ("race", (0, 1, 2))))))
    codes = rows_of(schema).take(slice(0, 0))
    curator = Curator.rehearse(codes, PureDP(1), seed=1)
    with pytest.raises(UsageError, match="no combination of values possible"):
        method_for(name, relation).fit(curator)
    assert curator._journal.events == []
    with pytest.raises(UsageError, match="no combination of values possible"):
        method_for(name, relation).plan(schema, PureDP(1), PublicFacts(600))


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_units_with_several_rows_pay_in_noise(name, relation):
    single, several = (
        fitted(name, relation, PureDP(1), rows_of(schema_under(relation, unit)))[1]
        for unit in (Unit("person", 1), Unit("person", 3))
    )

    def sensitivities(curator, kind):
        return [event.sensitivity for event in curator._journal.events if isinstance(event, kind)]

    # Which questions are asked may differ, as more noise makes other questions wise; what each answers at may not.
    assert min(sensitivities(several, Measured)) >= 3 * min(sensitivities(single, Measured))
    assert all(sensitivity >= 3 for sensitivity in sensitivities(several, Chosen))


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
@pytest.mark.parametrize("currency", BUDGETS)
def test_plan_adds_up_to_the_budget(name, relation, currency):
    schema = schema_under(relation)
    codes = rows_of(schema)
    curator = Curator.rehearse(codes, PureDP(1), seed=1)
    public = curator.public_rows(schema.public) if relation == "label" else None
    facts = PublicFacts(rows=None if relation == "add-remove" else len(codes), public_rows=public)
    steps = method_for(name, relation).plan(schema, BUDGETS[currency], facts)
    assert steps
    planned = sum(step.budget.units for step in steps)
    assert 0.99 * BUDGETS[currency].units <= planned <= BUDGETS[currency].units


@pytest.mark.parametrize(("name", "relation"), CASES, ids=IDS)
def test_labels_and_probabilities_agree(name, relation):
    codes = rows_of(schema_under(relation))
    model, _ = fitted(name, relation, PureDP(1), codes)
    if relation != "label":
        return
    assert isinstance(model, Labeller)
    public = codes.project(codes.schema.public)
    probabilities = model.probabilities(public)
    assert probabilities.shape == (len(codes), 6)
    assert probabilities.min() >= 0
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-9)
    labelled = model.label(public, seed=1)
    joint = labelled["sex"].astype(int) * 3 + labelled["race"]
    assert (probabilities[np.arange(len(codes)), joint] > 0).all()
