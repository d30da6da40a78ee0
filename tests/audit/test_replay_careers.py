"""Record and replay on neighbours that differ in a whole career, or in a whole household with all its members."""

import numpy as np
import pyarrow as pa
import pytest

from assurance.cases import Case
from assurance.pairs import Pair
from assurance.rerun import check_pair
from dipsmith.methods.graph.aim import AIM
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.schema import Schema
from dipsmith.schema import steps as steps_module

BUDGETS = {"pure": PureDP(2), "zcdp": ZCDP("0.3")}
RELATIONS = ("add-remove", "replace")
COLUMNS = ("person", "year", "sex", "grade")

CAREERS = {
    "whole": [(year, "F", 1) for year in range(1, 5)],
    "a gap": [(1, "F", 0), (4, "F", 1)],
    "more rows than count": [(year, "M", grade) for year in range(1, 5) for grade in (0, 1)],
    "forbidden": [(year, "F", 2) for year in range(1, 4)],
    "one row": [(3, "M", 1)],
}


def panel(relation):
    fields = [
        {"name": "year", "type": "integer", "minimum": 1, "maximum": 4},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
        {"name": "grade", "type": "integer", "enum": [0, 1, 2], "ordered": True, "other": 0},
    ]
    unit = {"column": "person", "max_rows": 3, "order": "year"}
    rules = [{"never": {"sex": "F", "grade": 2}}]
    told = {"name": "careers", "unit": unit, "neighbours": relation, "fields": fields, "rules": rules}
    return Schema.from_dict(told)


def career_pair(relation, kind, people=12):
    """People over four years, who differ in one career: it is there or not, or another one is in its place."""
    random = np.random.default_rng(len(kind))
    rows = [
        (f"p{person}", year, "FM"[person % 2], int(random.integers(0, 2)))
        for person in range(people)
        for year in range(1 + person % 3, 5)
        if random.random() < 0.8
    ]
    ours = [("x", *row) for row in CAREERS[kind]]
    instead = [] if relation == "add-remove" else [("x", 2, "M", 2)]
    before, after = (
        pa.table(dict(zip(COLUMNS, zip(*side, strict=True), strict=True)))
        for side in ([*rows, *instead], [*rows, *ours])
    )
    return Pair(kind, panel(relation), before, after)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("currency", "kind"), [*(("pure", kind) for kind in CAREERS), ("zcdp", "more rows than count")]
)
def test_nothing_but_paid_answers_depends_on_one_career(relation, currency, kind):
    checked = check_pair(
        career_pair(relation, kind), Case("aim, panel", relation, AIM(rounds=1)), BUDGETS[currency], 3, figures=False
    )
    assert checked.findings == ()
    assert checked.questions > 6


def test_steps_at_the_price_of_entries_are_found(monkeypatch):
    """What a career costs is what the answers about it cost together: the same pair tells that it was more."""
    whole = steps_module.step_schema

    def cheap(schema):
        from dataclasses import replace

        made = whole(schema)
        return replace(made, unit=replace(made.unit, max_rows=1))

    for room in ("dipsmith.counting.steps", "dipsmith.methods.graph.careers", "dipsmith.methods.graph.aim"):
        monkeypatch.setattr(f"{room}.step_schema", cheap)
    pair = career_pair("add-remove", "more rows than count")
    checked = check_pair(pair, Case("aim, panel", "add-remove", AIM(rounds=1)), PureDP(2), 3, figures=False)
    assert checked.findings != ()


def household_pair(relation):
    """Households that differ in one, with all its members: more of them than count."""
    told = {
        "name": "homes",
        "key": "hid",
        "max_members": 3,
        "neighbours": relation,
        "fields": [{"name": "tenure", "type": "string", "enum": ["own", "rent"], "other": "own"}],
        "members": {
            "name": "people",
            "fields": [{"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"}],
        },
    }
    homes = [{"hid": f"h{i}", "tenure": ("own", "rent")[i % 2]} for i in range(8)]
    people = [{"hid": f"h{i}", "sex": "FM"[j % 2]} for i in range(8) for j in range(i % 4)]
    crowd = [{"hid": "x", "sex": "F"} for _ in range(6)]
    instead = ([{"hid": "x", "tenure": "rent"}], []) if relation == "replace" else ([], [])
    sides = (
        ([*homes, *instead[0]], [*people, *instead[1]]),
        ([*homes, {"hid": "x", "tenure": "own"}], [*people, *crowd]),
    )
    before, after = (tuple(map(pa.Table.from_pylist, side)) for side in sides)
    return Pair("a household", Schema.from_dict(told), before, after)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("currency", BUDGETS)
def test_nothing_but_paid_answers_depends_on_one_household(relation, currency):
    case = Case("aim, households", relation, AIM(rounds=1))
    checked = check_pair(household_pair(relation), case, BUDGETS[currency], 3, figures=False)
    assert checked.findings == ()
    assert checked.questions > 6
