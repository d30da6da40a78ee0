"""AIM on a panel: careers whose transitions, arrivals and departures are those that were measured."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.codec.encode import Encoder
from dipsmith.counting.count import BatchRows, MemoryRows
from dipsmith.counting.steps import given_rows, step_rows
from dipsmith.errors import UsageError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.careers import CareerModel, most_steps
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Measured, Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.steps import ARRIVAL, NEXT, before
from dipsmith.sources import source
from dipsmith.testing import RecordedAnswers

PERIODS = 4


def panel(relation="add-remove", max_rows=PERIODS):
    return Schema.from_dict(
        {
            "name": "careers",
            "unit": {"column": "person", "max_rows": max_rows, "order": "year"},
            "neighbours": relation,
            "fields": [
                {"name": "year", "type": "integer", "minimum": 2001, "maximum": 2000 + PERIODS},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
                {"name": "grade", "type": "integer", "enum": list(range(9)), "ordered": True, "other": 0},
                {"name": "place", "type": "string", "enum": ["x", "y", "z"], "other": "x"},
            ],
            "rules": [{"never": {"place": "z", "grade": 8}}],
        }
    )


def careers(schema, people=3_000, seed=0):
    """Careers: grades that rise more often for men, places that hardly change, entries, exits and returns."""
    random = np.random.default_rng(seed)
    sex, grade = random.integers(0, 2, people), random.integers(0, 6, people)
    place, entry = random.integers(0, 3, people), random.integers(0, PERIODS, people)
    here, was, rows = np.zeros(people, bool), np.zeros(people, bool), []
    for period in range(PERIODS):
        back = was & ~here & (random.random(people) < 0.2)
        here = (here & (random.random(people) > 0.1)) | (entry == period) | back
        was |= here
        grade = np.minimum(grade + (random.random(people) < 0.2 + 0.3 * sex), 8)
        moved = random.random(people) < 0.05
        place = np.where(moved, random.integers(0, 3, people), place)
        place = np.where(grade == 8, np.minimum(place, 1), place)
        at = np.flatnonzero(here)
        rows.append((np.full(at.size, period), sex[at], grade[at], place[at], at))
    columns = [np.concatenate(part) for part in zip(*rows, strict=True)]
    named = dict(zip(schema.names, columns[:4], strict=True))
    codes = Codes.of(schema, named)
    return Codes(schema, codes.columns, len(codes), columns[4])


def fitted(codes, budget, seed=3, method=None, observer=None):
    journal = Rehearsal()
    stream = Stream.for_testing(seed, observer)
    curator = Curator(MemoryRows(codes), budget, stream=stream, journal=journal)
    return (method or AIM()).fit(curator), journal.events


def steps_of_rows(codes):
    return step_rows(codes.schema, lambda: given_rows(codes), lambda: len(codes)).codes


def distance(first, second, names):
    table = Marginal.of(first.schema, names)
    shares = [np.bincount(table.index(c), minlength=table.size) / max(len(c), 1) for c in (first, second)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


@pytest.fixture(scope="module")
def exact():
    codes = careers(panel(), 6_000)
    return codes, fitted(codes, PureDP(1000))[0]


@pytest.mark.slow
def test_with_hardly_any_noise_careers_are_the_measured_ones(exact):
    codes, model = exact
    true, made = steps_of_rows(codes), steps_of_rows(model.sample(len(codes), seed=1))
    # About 18,000 steps: a table of 90 cells drawn by itself is off by about .02 on average.
    for names in (("grade", before("grade")), ("place", before("place")), ("year", ARRIVAL), ("year", NEXT)):
        assert distance(true, made, names) < 0.035, names
    for names in (("sex", "grade"), ("grade", "place"), ("sex", before("grade"))):
        assert distance(true, made, names) < 0.05, names


def test_every_unit_is_one_person(exact):
    made = exact[1].sample(5_000, seed=2)
    assert len(made) == len(made.units) == 5_000
    assert made.lawful().all()
    pairs = made.units * PERIODS + made["year"]
    assert len(np.unique(pairs)) == 5_000  # one row in a period
    assert (np.diff(pairs) > 0).all()  # by unit, then by period
    for unit in np.unique(made.units)[:300]:
        assert len(set(made["sex"][made.units == unit].tolist())) == 1
    assert set(made.units.tolist()) == set(range(1, made.units.max() + 1))


def test_a_model_is_read_back_and_draws_the_same(exact):
    facts, arrays = exact[1].state()
    again = CareerModel.from_state(exact[0].schema, json.loads(json.dumps(facts)), arrays)
    first, second = exact[1].sample(500, seed=9), again.sample(500, seed=9)
    assert all(np.array_equal(first[n], second[n]) for n in first.names)
    assert np.array_equal(first.units, second.units)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP("0.1")], ids=str)
def test_a_whole_career_is_protected_and_the_budget_spent(relation, budget):
    schema = panel(relation, max_rows=4)
    _, events = fitted(careers(schema, 300), budget)
    from dipsmith.privacy.accountant import total

    assert 0.99 * budget.units <= total(events, budget.currency, relation) <= budget.units
    asked = [e for e in events if isinstance(e, Measured | Chosen)]
    times, most = 2 if relation == "replace" else 1, most_steps(schema, budget)
    assert 1 < most < 4
    some = [e for e in asked if e.block == f"steps of a unit=at most {most}"]
    entries = [e for e in asked if e.block == "" and (isinstance(e, Chosen) or "(presence)" not in e.cells)]
    (presence,) = (e for e in asked if e not in some and e not in entries)

    def squared(rows):
        return rows**2 if isinstance(budget, ZCDP) else rows

    # What is asked of entries moves by one line of a unit, all else by the steps or periods that count.
    assert {e.sensitivity for e in entries} == {times}
    assert presence.cells == "year (between) × (presence)"
    assert presence.sensitivity == squared(most) * times
    assert {e.sensitivity for e in some if isinstance(e, Measured)} == {squared(most) * times}
    assert {e.sensitivity for e in some if isinstance(e, Chosen)} == {most * times}
    names = {part for e in entries if isinstance(e, Measured) for part in e.cells.split(" × ")}
    assert all(name.endswith(" (first)") or name in ("(last period)", "(gaps)") for name in names)


def test_with_answers_frozen_other_careers_give_the_same_model():
    schema = panel()
    answers = RecordedAnswers()
    first, asked = fitted(careers(schema, 300), PureDP(1), observer=answers)
    second, again = fitted(careers(schema, 100, seed=8), PureDP(1), observer=RecordedAnswers(answers.given))
    assert asked == again
    assert first.state()[0] == second.state()[0]
    assert all(np.array_equal(a, second.state()[1][n]) for n, a in first.state()[1].items())


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_are_no_reason_to_fail(rows):
    codes = careers(panel(), 50).take(slice(0, rows))
    model, _ = fitted(codes, PureDP("0.1"))
    assert len(model.sample(10, seed=1)) == 10


def test_the_plan_is_that_of_the_steps():
    schema = panel()
    plan = AIM().plan(schema, PureDP(1), PublicFacts(3_000))
    assert sum(step.budget.units for step in plan) == PureDP(1).units
    assert any(before("grade") in step.what for step in plan)
    assert all(set(step.attributes) <= set(schema.names) for step in plan)


@pytest.mark.slow
def test_whoever_could_go_on_only_against_a_rule_leaves():
    schema = panel()
    ruled = Schema.from_dict({**schema.to_dict(), "rules": [{"never": {"sex": "F", "year": 2004}}]})
    codes = careers(ruled, 1_000)
    model, _ = fitted(codes, PureDP(1000), method=AIM(max_cells=200))  # too small a model to hold the rule
    made = model.sample(2_000, seed=1)
    assert made.lawful().all()
    assert (made["year"] == 3).any()


@pytest.mark.slow
def test_careers_without_a_lawful_row_are_refused_in_words(exact, monkeypatch):
    def nothing(self, known, rows, random):
        drawn, lawful = complete(self, known, rows, random)
        return drawn, np.zeros_like(lawful)

    complete = GraphModel.complete
    monkeypatch.setattr(GraphModel, "complete", nothing)
    monkeypatch.setattr("dipsmith.methods.graph.careers.BARREN", 100)
    with pytest.raises(UsageError, match=r"none has a row that the rules allow.*max_cells"):
        exact[1].sample(5, seed=1)


@pytest.mark.parametrize("held", [True, False])
def test_how_many_rows_break_a_rule_is_not_told_for_free(held):
    """With one row of a person under `replace` the number of rows is public, that of lawful ones is not."""
    schema = panel("replace", max_rows=1)

    def told(grade):
        table = pa.table(
            {"person": range(9), "year": [2001] * 9, "sex": ["F"] * 9, "grade": [grade] + [1] * 8, "place": ["z"] * 9}
        )
        rows = BatchRows(source(table), schema, bytes(32))
        if held:
            rows = MemoryRows(Encoder(schema).encode(table)[0])
        curator = Curator(rows, PureDP(1), stream=Stream.of(1), journal=Rehearsal())
        return curator.rows, curator.with_panel_steps(PureDP(1)).rows

    assert told(1) == told(8) == (9, 9)


@pytest.mark.parametrize("held", [True, False])
def test_one_period_does_not_make_the_number_of_rows_public(held):
    """Where there is one period a unit has one step, however many rows: how many these are together stays private."""
    fields = [{"name": "year", "type": "integer", "minimum": 2001, "maximum": 2001}]
    fields += [{"name": "place", "type": "string", "enum": ["x", "y"], "other": "x"}]
    unit = {"column": "person", "max_rows": 5, "order": "year"}
    schema = Schema.from_dict({"name": "once", "unit": unit, "neighbours": "replace", "fields": fields})
    table = pa.table({"person": [1, 2, 3, 3, 3], "year": [2001] * 5, "place": ["x", "y", "x", "y", "x"]})
    rows = BatchRows(source(table), schema, bytes(32))
    if held:
        rows = MemoryRows(replace(Encoder(schema).encode(table)[0], units=np.array([0, 1, 2, 2, 2])))
    steps = Curator(rows, PureDP(1), stream=Stream.of(1), journal=Rehearsal()).with_panel_steps(PureDP(1))
    assert steps.max_rows == 1
    assert steps.rows is None


@pytest.mark.slow
def test_who_has_more_periods_than_rows_may_count_is_taken_for_away():
    """Long careers, of which few rows count, are asked as often as short ones: their gaps are no chance."""
    fields = [{"name": "month", "type": "integer", "minimum": 0, "maximum": 39}]
    fields += [{"name": "place", "type": "string", "enum": ["x", "y"], "other": "x"}]
    unit = {"column": "person", "max_rows": 8, "order": "month"}
    schema = Schema.from_dict({"name": "months", "unit": unit, "neighbours": "add-remove", "fields": fields})
    random, people = np.random.default_rng(4), 1_500
    begin = random.integers(0, 40, people)
    length = np.minimum(random.integers(1, 41, people), 40 - begin)
    # Of longer careers eight months count: the first, the last and six others.
    months = [
        b + np.unique([0, n - 1, *random.permutation(n)[:8]])[:8] if n > 8 else b + np.arange(n)
        for b, n in zip(begin, length, strict=True)
    ]
    rows = np.concatenate(months)
    codes = Codes.of(schema, {"month": rows, "place": random.integers(0, 2, len(rows))})
    codes = Codes(schema, codes.columns, len(codes), np.repeat(np.arange(people), [len(m) for m in months]))
    model, _ = fitted(codes, PureDP(30), method=AIM(rounds=1))
    assert model.rows == pytest.approx(len(rows), rel=0.06)  # 1.2 times as many, if gaps were told by short careers
