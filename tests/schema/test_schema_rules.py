"""Rules: which codes a condition selects, and that writing a condition selects the same codes again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_strategies import schemas

from dipsmith.errors import SchemaError
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema
from dipsmith.schema.bins import by_calendar, by_edges, by_width, point
from dipsmith.schema.rules import choose_codes, condition_of, in_words

AGE = Attribute("age", "integer", by_width("integer", 17, 90, 5, missing=True))
PAY = Attribute("pay", "number", by_edges("number", [0, 10, 20, 30]))
GRADE = Attribute("grade", "string", Categories.of(["low", "mid", "top"], other="low", ordered=True))
DAY = Attribute("day", "date", by_calendar("date", point("date", "2020-01-15"), point("date", "2020-04-02"), "month"))


@pytest.mark.parametrize(
    ("attribute", "condition", "codes"),
    [
        (AGE, {"below": 22}, (0,)),
        (AGE, {"below": 21}, ()),  # 17-21 lies only partly below 21
        (AGE, {"to": 21}, (0,)),
        (AGE, {"to": 20}, ()),
        (AGE, {"from": 82}, (13, 14)),
        (AGE, {"above": 82}, (14,)),
        (AGE, {"above": 81}, (13, 14)),
        (AGE, {"from": 22, "below": 32}, (1, 2)),
        (AGE, {"missing": True}, (15,)),
        (AGE, {"missing": False, "below": 22}, (0,)),
        (AGE, {"below": 22, "missing": "true"}, (0, 15)),
        (AGE, ["17-21", "(missing)"], (0, 15)),
        (PAY, {"below": 10}, (0,)),
        (PAY, {"below": 30}, (0, 1)),  # 30 itself belongs to the last bin
        (PAY, {"below": 31}, (0, 1, 2)),
        (PAY, {"to": 30}, (0, 1, 2)),
        (PAY, {"above": 0}, (1, 2)),
        (PAY, {"from": 10}, (1, 2)),
        (PAY, "[0, 10)", (0,)),
        (GRADE, {"below": "top"}, (0, 1)),
        (GRADE, {"above": "low"}, (1, 2)),
        (GRADE, {"from": "mid", "to": "mid"}, (1,)),
        (GRADE, "top", (2,)),
        (DAY, {"below": "2020-03-01"}, (0, 1)),
        (DAY, {"from": "2020-02-01"}, (1, 2, 3)),
        (DAY, "2020-02", (1,)),
    ],
)
def test_conditions(attribute: Attribute, condition: Any, codes: tuple[int, ...]) -> None:
    assert choose_codes(attribute, condition) == codes


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(schema=schemas(max_fields=1), data=st.data())
def test_a_written_condition_selects_the_same_codes(schema: Schema, data: st.DataObject) -> None:
    (attribute,) = schema.attributes
    codes = tuple(sorted(data.draw(st.sets(st.integers(0, attribute.size - 1), min_size=1))))
    assert choose_codes(attribute, condition_of(attribute, codes)) == codes
    assert attribute.name in in_words(attribute, codes)


def test_impossible_cells_and_unlawful_rows_agree() -> None:
    data: dict[str, Any] = {
        "name": "t",
        "unit": "row",
        "neighbours": "replace",
        "fields": [
            {"name": "a", "type": "string", "enum": ["x", "y"], "other": "x"},
            {"name": "b", "type": "integer", "minimum": 0, "maximum": 4},
            {"name": "c", "type": "boolean"},
        ],
        "rules": [{"never": {"a": "x", "b": {"from": 3}}}, {"never": {"b": 0, "c": "true"}}],
    }
    schema = Schema.from_dict(data)
    grid = np.indices((2, 5, 2)).reshape(3, -1)
    codes = Codes.of(schema, dict(zip("abc", grid, strict=True)))
    possible = Marginal.of(schema, ["a", "b", "c"]).possible()
    assert possible is not None
    assert possible.tolist() == codes.lawful().tolist()
    assert (~possible).sum() == 2 * 2 + 2
    # a rule over columns that are not there does not apply
    assert codes.project(["a", "c"]).lawful().all()
    assert codes.project([]).lawful().all()
    assert Marginal.of(schema, ["a", "c"]).possible() is None
    swapped = Marginal.of(schema, ["c", "b", "a"]).possible()
    assert swapped is not None
    assert (swapped.reshape(2, 5, 2).transpose(2, 1, 0).ravel() == possible).all()
    assert schema.project(["a", "b"]).rules == schema.rules[:1]


def schools(neighbours="add-remove", rules=None):
    import dipsmith as ds

    fields = [
        {"name": "education", "type": "string", "enum": ["Preschool", "HS-grad", "Masters"], "other": "Preschool"},
        {"name": "years", "type": "integer", "minimum": 1, "maximum": 16, "bins": {"width": 2}},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ]
    pairs = {"Preschool": 1, "HS-grad": 9, "Masters": 14}
    rules = [{"determines": {"education": "years"}, "map": pairs}] if rules is None else rules
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": fields, "rules": rules})


@pytest.mark.parametrize("method", ["flat", "marginals", "mst", "steps"])
def test_a_column_that_another_determines_does_so_in_every_row(method):
    import dipsmith as ds

    rng = np.random.default_rng(2)
    at = rng.integers(0, 3, 3000)
    rows = {
        "education": np.array(["Preschool", "HS-grad", "Masters"])[at],
        "years": np.where(rng.random(3000) < 0.07, 5, np.array([1, 9, 14])[at]),
        "sex": rng.choice(["F", "M"], 3000),
    }
    schema = schools()
    assert ds.Schema.from_dict(schema.to_dict()) == schema
    made = (
        ds.synthesize(pa.table(rows), schema, method, budget=ds.PureDP("0.5"), testing=True, noise_seed=1)
        .tables[0]
        .to_pandas()
    )
    low = made["education"].astype(str).map({"Preschool": 1, "HS-grad": 9, "Masters": 13})
    assert len(made) > 2000
    assert made["years"].between(low, low + 1).all()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"determines": {"education": "years"}}, "goes with map"),
        ({"never": {"sex": "F"}, "determines": {"education": "years"}, "map": {"Masters": 14}}, "either never"),
        ({"determines": {"education": "pay"}, "map": {"Masters": 14}}, "'pay', which is not in fields"),
        ({"determines": {"education": "years"}, "map": {"Masters": 44}}, "'44' is not one of its labels"),
        ({"determines": {"education": "years"}, "map": {"PhD": 16}}, "'PhD' is not one of its labels"),
    ],
)
def test_a_dependency_that_cannot_be_is_refused(rule, said):
    with pytest.raises(SchemaError, match=said):
        schools(rules=[rule])
