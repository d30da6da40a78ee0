"""Steps: what a panel's rows become, and what a schema may say of their order."""

import numpy as np
import pytest

from dipsmith.errors import SchemaError
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import AGAIN, ARRIVAL, FIRST, HERE, LEAVES, NEXT, STAYS, before, step_schema, steps_of

FIELDS = [
    {"name": "year", "type": "integer", "minimum": 2001, "maximum": 2004},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
    {"name": "grade", "type": "integer", "enum": [1, 2, 3], "ordered": True, "other": 1},
]


def panel(**changed):
    told = {
        "name": "careers",
        "unit": {"column": "person", "max_rows": 4, "order": "year"},
        "neighbours": "add-remove",
        "fields": FIELDS,
    }
    return Schema.from_dict(told | changed)


def test_a_row_is_put_beside_that_of_the_period_before():
    schema = panel()
    # one unit in years 0, 1 and 3; another in year 1 alone
    rows = Codes.of(
        schema, {"year": np.array([0, 1, 3, 1]), "sex": np.array([0, 0, 0, 1]), "grade": np.array([0, 1, 2, 2])}
    )
    steps = steps_of(rows, np.array([7, 7, 7, 9]), schema)
    assert steps[ARRIVAL].tolist() == [FIRST, HERE, AGAIN, FIRST]
    assert steps[NEXT].tolist() == [STAYS, LEAVES, LEAVES, LEAVES]
    assert steps[before("grade")].tolist() == [3, 0, 3, 3]  # 3: absent
    assert before("sex") not in steps
    assert Codes.of(step_schema(schema), steps).lawful().all()


def test_no_rows_have_no_steps():
    schema = panel()
    empty = Codes.of(schema, {n: np.zeros(0, dtype=int) for n in schema.names}, 0)
    assert all(len(column) == 0 for column in steps_of(empty, np.zeros(0, dtype=int), schema).values())


def test_order_is_read_and_written():
    schema = panel()
    assert schema.unit.order == "year"
    assert schema["sex"].fixed
    assert Schema.from_dict(schema.to_dict()) == schema
    assert str(schema.unit) == "person over every year, at most 4 rows"


@pytest.mark.parametrize(
    "said",
    [
        {"unit": {"column": "person", "max_rows": 4, "per": "year"}, "order": "year"},
        {"unit": {"column": "person", "max_rows": 4}, "order": "year"},
        {"unit": {"column": "person", "max_rows": 4, "per": "year", "order": "year"}},
    ],
)
def test_order_may_be_said_in_either_place_and_per_says_the_same(said):
    assert panel(**said).unit == panel().unit


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"unit": "row", "order": "year"}, "one period only"),
        ({"unit": {"column": "person", "max_rows": 4, "order": "month"}}, "must be one of the columns"),
        ({"unit": {"column": "person", "max_rows": 4, "order": "sex"}}, "periods in order"),
        ({"unit": {"column": "person", "max_rows": 4, "per": "sex", "order": "year"}}, "leave per out"),
        ({"unit": {"column": "person", "max_rows": 4, "order": "year"}, "order": "grade"}, "say it once"),
        ({"fields": [*FIELDS, {"name": "(next)", "type": "boolean"}]}, "rename it"),
    ],
)
def test_an_order_that_cannot_be_is_refused(said, complaint):
    with pytest.raises(SchemaError, match=complaint):
        panel(**said)
