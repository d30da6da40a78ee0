"""Bins that rows, noise and planned analyses bear."""

import pytest

import dipsmith as ds
from dipsmith.planning.bin_proposals import FEWEST, propose_bins


def field(name, low, high, kind="number", **keys):
    return {"name": name, "type": kind, "minimum": low, "maximum": high, "role": "private", **keys}


def schema(*fields, neighbours="add-remove", analyses=()):
    place = {"name": "place", "type": "string", "enum": ["a", "b"], "other": "a", "role": "private"}
    told = {
        "name": "p",
        "unit": "row",
        "neighbours": neighbours,
        "fields": [*fields, place],
        "analyses": list(analyses),
    }
    return ds.Schema.from_dict(told)


def proposals(declared, rows, epsilon="1"):
    planned = ds.plan(declared, ds.AIM(), budget=ds.ZCDP.from_approx(epsilon, 1e-9), rows=rows)
    return {p.column: p for p in planned.bins}


def test_the_more_rows_and_budget_the_more_bins():
    declared = schema(field("length", 20, 100, bins={"count": 900}), field("depth", 20, 100, bins={"count": 900}))
    counts = [
        proposals(declared, rows, epsilon)["length"].count
        for rows, epsilon in ((500, "0.1"), (5_000, "1"), (50_000, "1"), (50_000, "8"))
    ]
    assert counts == sorted(counts)
    assert counts[0] <= FEWEST < counts[1] < counts[2] < counts[3]


def test_bins_that_suit_are_left_alone_and_too_few_are_said():
    few, right, many = ({"count": n} for n in (2, 20, 300))
    found = proposals(
        schema(field("a", 20, 100, bins=few), field("b", 20, 100, bins=right), field("c", 20, 100, bins=many)), 50_000
    )
    assert set(found) == {"a", "c"}
    assert "allows for finer ones" in found["a"].reason
    assert "drowns what finer bins tell" in found["c"].reason
    assert found["a"].now == 2
    assert found["c"].now == 300


def test_a_planned_analysis_is_named_and_money_gets_log_steps():
    numbers = field("pay", 0, 250_000, bins={"count": 400}), field("age", 17, 90, "integer")
    pay = proposals(schema(*numbers, analyses=["log(pay + 1) ~ age"]), 50_000)["pay"]
    assert "'log(pay + 1) ~ age' uses it as a number" in pay.reason
    assert pay.bins["law"] == "log"
    assert pay.bins["edges"][:3] == [0, 0.01, 10]
    assert pay.count == len(pay.bins["edges"]) - 1


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_what_is_proposed_can_be_written_and_is_then_left_alone(kind):
    declared = schema(field("n", 1, 900, kind, bins={"width": 1}))
    (found,) = proposals(declared, 20_000).values()
    again = schema(field("n", 1, 900, kind, bins=found.bins))
    assert len(again["n"].domain.cuts) - 1 == found.count
    assert proposals(again, 20_000) == {}


def test_nothing_is_proposed_without_rows_or_for_columns_that_are_released_as_they_stand():
    declared = schema(field("n", 1, 900, bins={"count": 400}))
    assert proposals(declared, None) == {}
    public = schema({**field("n", 1, 900, bins={"count": 400}), "role": "public"}, neighbours="label")
    assert propose_bins(public, ds.plan(public, ds.LogLinear(targets=["place"]), budget=ds.PureDP(1)).steps, 9000) == ()
