"""The accountant adds up, rounds up, and refuses what it cannot price."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import BudgetError, DamageError, UsageError
from dipsmith.privacy.accountant import Accountant, convert, cost, total
from dipsmith.privacy.budget import UNITS, ZCDP, PureDP
from dipsmith.privacy.events import (
    Chosen,
    Looked,
    Measured,
    Partitioned,
    Supplied,
    block_of,
    event_from,
    event_record,
    path_inside,
)
from dipsmith.privacy.gaussian_price import pure_price, range_price, variance_needed

amounts = st.integers(1, 10**13)


def counts(budget, block="", relation=None, cells="age"):
    """Counts with exactly the noise that the budget pays for, at sensitivity 1."""
    law, scale = (
        ("discrete Laplace", 1 / budget.exact)
        if isinstance(budget, PureDP)
        else ("discrete Gaussian", variance_needed(1 / (2 * budget.exact)))
    )
    return Measured(
        cells=cells,
        size=4,
        mechanism=law,
        sensitivity=Fraction(1),
        scale=scale,
        budget=budget,
        block=block,
        relation=relation,
    )


def choice(budget, block="", mechanism="exponential mechanism"):
    return Chosen(
        candidates=3, score="misfit", mechanism=mechanism, sensitivity=Fraction(1), budget=budget, block=block
    )


# --- prices ---------------------------------------------------------------------------------------


@given(amounts)
@settings(deadline=None)
def test_charges_are_exact_or_rounded_up_by_less_than_a_unit(n):
    epsilon = PureDP.of_units(n)
    assert convert(epsilon, "epsilon") == n
    for charge, price in (
        (convert(epsilon, "rho"), pure_price(epsilon.exact)),
        (cost(choice(epsilon), "rho"), range_price(epsilon.exact)),
        (cost(choice(epsilon, mechanism="permute-and-flip"), "rho"), pure_price(epsilon.exact)),
        (convert(epsilon, "rho", "zcdp"), epsilon.exact**2 / 2),
        (cost(choice(epsilon), "rho", "zcdp"), epsilon.exact**2 / 8),
    ):
        assert 0 <= Fraction(charge, UNITS) - price < Fraction(1, UNITS)


def test_pure_epsilon_has_a_price_in_rho_and_not_the_reverse():
    assert convert(PureDP(1), "rho") / UNITS == pytest.approx(math.pi / 4, rel=1e-6)
    assert cost(choice(PureDP(1)), "rho") / UNITS == pytest.approx(math.pi / 16, rel=1e-6)
    for paid in (lambda: convert(ZCDP(1), "epsilon"), lambda: cost(counts(ZCDP(1)), "epsilon")):
        with pytest.raises(BudgetError, match="no price in pure ε"):
            paid()


def test_looks_and_public_tables_are_free():
    assert cost(Looked(what="comparison", by="ann"), "epsilon") == 0
    assert cost(Supplied(what="census margins"), "rho") == 0
    assert cost(Supplied(what="stand-in", budget=PureDP("0.5")), "epsilon") == UNITS // 2


def test_what_is_not_an_event_is_refused_by_name():
    @dataclass(frozen=True)
    class Guessed:
        block: str = ""
        relation: str | None = None

    with pytest.raises(BudgetError, match="Guessed"):
        total([Guessed()], "epsilon", "replace")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scale": Fraction(199, 100)}, "costs more"),
        ({"sensitivity": Fraction(2)}, "costs more"),
        ({"sensitivity": Fraction(0)}, "above 0"),
        ({"scale": Fraction(0)}, "above 0"),
        ({"size": 0}, "at least one"),
        ({"mechanism": "uniform"}, "no known price"),
        ({"mechanism": "discrete Gaussian"}, "never pure"),
        ({"budget": 0.5}, "PureDP"),
    ],
)
def test_noise_too_small_for_its_charge_is_refused(change, says):
    fair = {
        "cells": "age",
        "size": 4,
        "mechanism": "discrete Laplace",
        "sensitivity": Fraction(1),
        "scale": Fraction(2),
        "budget": PureDP("0.5"),
    }
    Measured(**fair)
    with pytest.raises(BudgetError, match=says):
        Measured(**{**fair, **change})


def test_gaussian_noise_is_checked_by_its_variance():
    fair = {"cells": "age", "size": 4, "mechanism": "discrete Gaussian", "sensitivity": Fraction(18)}
    Measured(**fair, scale=Fraction(90), budget=ZCDP("0.1"))
    with pytest.raises(BudgetError, match="costs more"):
        Measured(**fair, scale=Fraction(90) - Fraction(1, 10**9), budget=ZCDP("0.1"))


# --- composition ----------------------------------------------------------------------------------


@given(st.lists(amounts, max_size=20), amounts)
@settings(deadline=None)
def test_no_sequence_of_events_exceeds_the_budget(asked, limit):
    accountant = Accountant(PureDP.of_units(limit), "replace")
    taken = 0
    for n in asked:
        if taken + n <= limit:
            accountant.record(counts(PureDP.of_units(n)))
            taken += n
        else:
            with pytest.raises(BudgetError, match="is left"):
                accountant.record(counts(PureDP.of_units(n)))
        assert accountant.spent_units == taken
    left = accountant.remaining
    assert (0 if left is None else left.units) == limit - taken
    assert total(accountant.events, "epsilon", "replace") == taken


def test_several_events_are_recorded_together_or_not_at_all():
    accountant = Accountant(PureDP(1), "replace")
    with pytest.raises(BudgetError):
        accountant.record(counts(PureDP("0.6")), counts(PureDP("0.6")))
    assert accountant.spent_units == 0
    assert accountant.events == ()
    accountant.record(counts(PureDP("0.6")), counts(PureDP("0.4")))
    assert accountant.remaining is None


def test_a_grid_of_48_settings_costs_108():
    """Trees {3, 6} × ε {0.25, 0.5, 0.75} over 8 further settings: the price of tuning by looking."""
    events = [
        counts(PureDP(epsilon), cells=f"tree {t}")
        for _ in range(8)
        for trees in (3, 6)
        for epsilon in ("0.25", "0.5", "0.75")
        for t in range(trees)
    ]
    assert total(events, "epsilon", "label") == 108 * UNITS


def test_different_relations_are_never_added_up():
    mixed = [counts(PureDP(1), relation="replace"), counts(PureDP(1), relation="label")]
    with pytest.raises(BudgetError, match="'label' cannot be added to events under 'replace'"):
        total(mixed, "epsilon", "replace")
    with pytest.raises(UsageError):
        Accountant(PureDP(1), "bounded")
    with pytest.raises(UsageError):
        counts(PureDP(1), relation="bounded")


def partitioned(rule, budget, block=""):
    return Partitioned(attribute="year", rule=rule, budget=budget, block=block)


def in_year(budget, year, block="", **more):
    return counts(budget, block=path_inside(block_of(block, "year", str(year)), "tree 1"), **more)


def test_blocks_compose_by_their_maximum():
    accountant = Accountant(PureDP(1), "label")
    accountant.record(partitioned("maximum", PureDP(1)))
    assert accountant.remaining is None
    for year in (1988, 1996, 2003):
        accountant.record(in_year(PureDP("0.6"), year))
        accountant.record(in_year(PureDP("0.4"), year))
        with pytest.raises(BudgetError, match=f"year={year}"):
            accountant.record(in_year(PureDP("0.000000000001"), year))
    assert accountant.spent_units == UNITS


def test_two_dearest_blocks_cost_twice_the_dearest():
    accountant = Accountant(PureDP(1), "replace")
    accountant.record(partitioned("two-dearest", PureDP(1)))
    accountant.record(in_year(PureDP("0.1"), 1988))
    # 0.9 + 0.1 = 1, but a record that changes within 1996 costs 2 × 0.9.
    with pytest.raises(BudgetError):
        accountant.record(in_year(PureDP("0.9"), 1996))
    accountant.record(in_year(PureDP("0.5"), 1996))
    accountant.record(in_year(PureDP("0.4"), 1988))


def test_blocks_of_units_that_recur_add_up():
    accountant = Accountant(PureDP(1), "replace")
    accountant.record(partitioned("sum", PureDP(1)))
    accountant.record(in_year(PureDP("0.7"), 1988))
    with pytest.raises(BudgetError):
        accountant.record(in_year(PureDP("0.4"), 1996))
    accountant.record(in_year(PureDP("0.3"), 1996))


def test_blocks_have_their_own_relation():
    accountant = Accountant(PureDP(1), "replace")
    accountant.record(partitioned("two-dearest", PureDP(1)))
    accountant.record(in_year(PureDP("0.1"), 1988, relation="add-remove"))
    with pytest.raises(BudgetError, match="neighbours 'replace'"):
        accountant.record(in_year(PureDP("0.1"), 1988, relation="replace"))
    accountant = Accountant(PureDP(1), "label")
    accountant.record(partitioned("sum", PureDP(1)))
    accountant.record(in_year(PureDP("0.1"), 1988, relation="replace"))


def test_a_rule_that_has_no_proof_is_refused():
    with pytest.raises(BudgetError, match="leave one block"):
        Accountant(PureDP(1), "replace").record(partitioned("maximum", PureDP(1)))
    with pytest.raises(BudgetError, match="unknown"):
        partitioned("mean", PureDP(1))


def test_blocks_opened_twice_share_what_was_paid_twice():
    accountant = Accountant(PureDP(1), "add-remove")
    accountant.record(partitioned("maximum", PureDP("0.4")))
    accountant.record(in_year(PureDP("0.4"), 1988))
    accountant.record(partitioned("maximum", PureDP("0.6")))
    accountant.record(in_year(PureDP("0.6"), 1988))
    with pytest.raises(BudgetError):
        accountant.record(in_year(PureDP("0.1"), 1988))
    with pytest.raises(BudgetError, match="another rule"):
        Accountant(PureDP(1), "add-remove").record(
            partitioned("maximum", PureDP("0.1")), partitioned("sum", PureDP("0.1"))
        )


def test_partitions_nest():
    accountant = Accountant(PureDP(1), "add-remove")
    accountant.record(partitioned("maximum", PureDP(1)))
    for year in (1988, 1996):
        block = block_of("", "year", str(year))
        accountant.record(Partitioned(attribute="agency", rule="maximum", budget=PureDP("0.5"), block=block))
        for agency in ("N/A", "N/B", "x=y"):
            accountant.record(counts(PureDP("0.5"), block=block_of(block, "agency", agency)))
            with pytest.raises(BudgetError):
                accountant.record(counts(PureDP("0.1"), block=block_of(block, "agency", agency)))
        accountant.record(counts(PureDP("0.5"), block=path_inside(block, "rest")))
        with pytest.raises(BudgetError):
            accountant.record(counts(PureDP("0.1"), block=path_inside(block, "rest")))
    assert accountant.spent_units == UNITS


def test_pure_blocks_under_rho_are_converted_whole():
    accountant = Accountant(ZCDP.of_units(convert(PureDP(1), "rho")), "replace")
    accountant.record(partitioned("two-dearest", PureDP(1)))
    assert accountant.remaining is None
    accountant.record(in_year(PureDP("0.5"), 1988))
    with pytest.raises(BudgetError):
        accountant.record(in_year(PureDP("0.1"), 1988))


def test_choices_cost_double_in_rho_blocks_that_a_record_may_leave():
    """A record that changes within its block moves a score by 2Δ, hence ε by 2 and ρ by 4, not 2."""
    accountant = Accountant(ZCDP(1), "replace")
    accountant.record(partitioned("two-dearest", ZCDP(1)))
    block = block_of("", "year", "1988")
    accountant.record(choice(ZCDP("0.25"), block))
    with pytest.raises(BudgetError):
        accountant.record(choice(ZCDP("0.000000000001"), block))
    accountant.record(counts(ZCDP("0.5"), block_of("", "year", "1996")))

    # The worst case itself: two candidates whose scores cross, at add-remove sensitivity 1.
    rho = 0.25
    epsilon = math.sqrt(8 * rho)
    p = np.exp(epsilon * np.array([1.0, -1.0]) / 2)
    p /= p.sum()
    q = p[::-1]
    orders = np.array([1.0001, 1.5, 2, 4, 16, 64])
    renyi = np.array([np.log(np.sum(p**a * q ** (1 - a))) / (a - 1) for a in orders])
    worst = float(np.max(renyi / orders))
    assert 2 * rho < worst <= 4 * rho


# --- records --------------------------------------------------------------------------------------

EVENTS = [
    counts(PureDP("0.5"), block="year=1988/tree 1", relation="label"),
    counts(ZCDP("0.123456789012")),
    choice(ZCDP("0.5")),
    partitioned("two-dearest", PureDP(3)),
    Supplied(what="stand-in", budget=PureDP("0.5")),
    Supplied(what="census margins"),
    Looked(what="comparison", by="ann"),
    replace(counts(PureDP("0.5")), attributes=("age", "sex")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_events_survive_json(event):
    assert event_from(json.loads(json.dumps(event_record(event)))) == event


def test_the_written_form_of_events_never_changes():
    """Ledgers keep events for good: a change here needs a new field with a default, not an edit."""
    assert event_record(EVENTS[0]) == {
        "event": "measured",
        "cells": "age",
        "size": 4,
        "mechanism": "discrete Laplace",
        "sensitivity": "1",
        "scale": "2",
        "budget": {"epsilon": 500000000000},
        "block": "year=1988/tree 1",
        "relation": "label",
    }
    assert event_record(EVENTS[-1])["attributes"] == ["age", "sex"]
    assert event_record(EVENTS[2]) == {
        "event": "chosen",
        "candidates": 3,
        "score": "misfit",
        "mechanism": "exponential mechanism",
        "sensitivity": "1",
        "budget": {"rho": 500000000000},
        "block": "",
        "relation": None,
    }
    assert event_record(EVENTS[3]) == {
        "event": "partitioned",
        "attribute": "year",
        "rule": "two-dearest",
        "budget": {"epsilon": 3000000000000},
        "block": "",
        "relation": None,
    }


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"event": "guessed"},
        {"event": "looked"},
        {"event": "looked", "what": "x", "by": "y", "colour": "red"},
        {**event_record(EVENTS[0]), "scale": "x"},
        {**event_record(EVENTS[0]), "scale": "1/0"},
        {**event_record(EVENTS[0]), "budget": 3},
        {**event_record(EVENTS[0]), "budget": {}},
    ],
)
def test_records_that_are_no_events_are_damage(record):
    with pytest.raises(DamageError):
        event_from(record)


@pytest.mark.parametrize(("mechanism", "candidates"), [("best", 2), ("permute-and-flip", 0)])
def test_impossible_choices_are_refused(mechanism, candidates):
    with pytest.raises(BudgetError):
        Chosen(candidates=candidates, score="s", mechanism=mechanism, sensitivity=Fraction(1), budget=PureDP(1))
