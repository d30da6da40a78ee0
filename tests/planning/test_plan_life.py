"""What a plan says of a unit's whole life."""

import dipsmith as ds
from dipsmith.examples.personnel import panel_schema, schema
from dipsmith.planning.plan import plan


def test_a_panel_says_what_a_career_costs():
    made = plan(panel_schema(range(2008, 2012)), ds.AIM(), ds.PureDP(1))
    assert made.life.startswith("ε = 1 is the price of a whole career: one employee_id with up to 4 rows")
    assert made.to_dict()["life"] == made.life


def test_without_periods_nothing_is_said():
    assert plan(schema().with_role("sex", "private"), ds.LogLinear(targets=["sex"]), ds.PureDP(1)).life == ""
