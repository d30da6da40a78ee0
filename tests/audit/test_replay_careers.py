"""Record and replay on neighbours that differ in a whole career, a whole household, a person in one, or a weighted person."""

from dataclasses import replace

import pytest

from assurance.cases import linked_cases
from assurance.matrix import pieces, replay_piece
from assurance.rerun import check_pair
from assurance.unit_pairs import CAREERS, PERSONS, SIZES
from dipsmith.counting import steps as counting
from dipsmith.methods.graph.aim import AIM
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.schema import Schema
from dipsmith.schema import steps as steps_module
from dipsmith.schema.growth import GrowthSpread, GrowthSums

BUDGETS = {"pure": PureDP(2), "zcdp": ZCDP("0.3")}
CASES = {case.key: replace(case, method=AIM(rounds=1)) for case in linked_cases()}


@pytest.mark.parametrize("key", CASES)
@pytest.mark.parametrize(("currency", "seed"), [*(("pure", seed) for seed in range(5)), ("zcdp", 2), ("zcdp", 3)])
def test_nothing_but_paid_answers_depends_on_one_unit(key, currency, seed):
    case = CASES[key]
    checked = check_pair(case.pairs(case.relation, seed), case, BUDGETS[currency], seed, figures=False)
    assert checked.findings == ()
    assert checked.questions > 3


def test_steps_at_the_price_of_entries_are_found(monkeypatch):
    """What a career costs is what the answers about it cost together: the same pair tells that it was more."""
    whole = steps_module.step_schema

    def cheap(schema):
        made = whole(schema)
        return replace(made, unit=replace(made.unit, max_rows=1))

    for room in ("dipsmith.counting.steps", "dipsmith.methods.graph.careers"):
        monkeypatch.setattr(f"{room}.step_schema", cheap)
    case = CASES["aim, careers · add-remove"]
    pair = case.pairs("add-remove", list(CAREERS).index("more rows than count"))
    assert check_pair(pair, case, PureDP(2), 3, figures=False).findings != ()


def test_presence_at_the_price_of_one_line_is_found(monkeypatch):
    whole = steps_module.presence_schema

    def cheap(schema, most):
        made = whole(schema, most)
        return replace(made, unit=replace(made.unit, max_rows=1))

    monkeypatch.setattr("dipsmith.methods.graph.careers.presence_schema", cheap)
    draws = counting.drawn_steps
    monkeypatch.setattr(counting, "presence_schema", cheap)
    monkeypatch.setattr(counting, "drawn_steps", lambda opens, hashes, periods, _: draws(opens, hashes, periods, 3))
    case = CASES["aim, careers · add-remove"]
    pair = case.pairs("add-remove", list(CAREERS).index("more rows than count"))
    assert check_pair(pair, case, PureDP(2), 3, figures=False).findings != ()


@pytest.mark.parametrize(
    ("cells", "relation", "cheap"),
    [(GrowthSums, "add-remove", (1, 1)), (GrowthSums, "replace", (1, 2)), (GrowthSpread, "replace", (0.5,))],
)
def test_growth_at_too_small_a_price_is_found(monkeypatch, cells, relation, cheap):
    monkeypatch.setitem(cells.reach, relation, cheap)
    case = CASES[f"aim, careers · {relation}"]
    assert check_pair(case.pairs(relation, 0), case, PureDP(2), 3, figures=False).findings != ()


def test_persons_at_the_price_of_households_are_found(monkeypatch):
    """A person who lives alone takes the household along; a head who leaves puts another line in the place of its own."""
    monkeypatch.setattr(Schema, "priced_as", property(lambda schema: schema.neighbours))
    case = CASES["aim, persons in households · add-remove"]
    pair = case.pairs("add-remove", list(PERSONS).index("is the head"))
    assert check_pair(pair, case, PureDP(2), 3, figures=False).findings != ()


def test_members_weights_at_the_price_of_one_are_found(monkeypatch):
    monkeypatch.setattr(Schema, "priced_rows", property(lambda schema: 1))
    case = CASES["aim, households · add-remove"]
    pair = case.pairs("add-remove", list(SIZES).index("all that count"))
    assert check_pair(pair, case, PureDP(2), 3, figures=False).findings != ()


def test_they_are_pieces_of_the_whole_audit():
    names = [name for name in pieces(4, 1, 1) if "careers" in name or "households" in name or "weights" in name]
    assert len(names) == 4 * 2 * 2
    found = replay_piece(CASES["aim, weights · replace"], "pure", 2)
    assert found["findings"] == {}
    assert found["largest_loss"] <= found["budget"]
