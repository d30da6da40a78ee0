"""Places in larger places: how a schema says them, and what it refuses."""

import pytest

from dipsmith.errors import SchemaError
from dipsmith.schema import Schema
from dipsmith.schema.files import from_dict

LIST = "code,state,county\n0101,A,A1\n0102,A,A1\n0103,A,A2\n0201,B,B1\n0202,B,B2\n"


def made(folder, relation="add-remove", more=None, **field):
    (folder / "places.csv").write_text(LIST)
    place = {
        "name": "tract",
        "type": "string",
        "enum": "places.csv",
        "hierarchy": ["state", "county", "tract"],
        **field,
    }
    fields = [place, {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"}]
    return from_dict({"name": "p", "unit": "row", "neighbours": relation, "fields": fields, **(more or {})}, folder)


def test_levels_come_from_the_code_list(tmp_path):
    places = made(tmp_path, missing=True).places
    assert places.names == ("all", "state", "county", "tract")
    assert places.sizes == (1, 3, 5, 6)
    assert places.labels(2) == ("A1", "A2", "B1", "B2", "(missing)")
    assert [p.tolist() for p in places.parents] == [[0, 0, 0], [0, 0, 1, 1, 2], [0, 0, 1, 2, 3, 4]]


def test_places_of_one_place_stand_together_whatever_the_order_of_the_list(tmp_path):
    schema = from_dict(
        {
            "name": "p",
            "unit": "row",
            "neighbours": "add-remove",
            "fields": [
                {"name": "t", "type": "string", "enum": ["b2", "a1", "b1", "a2"], "hierarchy": {"s": 1, "t": 2}}
            ],
        }
    )
    assert schema.places.nodes[1].tolist() == [0, 1, 0, 1]
    assert schema.places.labels(2) == ("b2", "b1", "a1", "a2")
    assert all((p[1:] >= p[:-1]).all() for p in schema.places.parents)


def test_a_schema_with_places_is_written_and_read_back(tmp_path):
    (tmp_path / "s.csv").write_text("code,count\nA,30\nB,20\n")
    schema = made(tmp_path, totals={"state": "s.csv"})
    schema.write(tmp_path / "copy.yaml")
    again = Schema.read(tmp_path / "copy.yaml")
    assert again == schema
    assert again.digest == schema.digest
    assert "public facts from s.csv" in schema.notes[0]
    assert schema.places.known_rows() == 50
    assert "2 state, 4 county, 5 tract" in str(schema)
    assert "2 public totals by state" in str(schema)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"hierarchy": ["region", "tract"]}, "has no column 'region'"),
        ({"hierarchy": ["tract"]}, "two or more levels"),
        ({"hierarchy": {"state": 2, "tract": 3}}, "is the column's own values"),
        ({"hierarchy": {"state": ["A"], "tract": 4}}, "lists 1 places for 5 values"),
        ({"hierarchy": {"x": ["a", "b", "a", "b", "a"], "y": ["p"] * 5, "tract": 4}}, "lies in several places of x"),
        ({"collapse": {"prefix": 2}}, "does not go with collapse"),
        ({"totals": {"region": {"A": 1}}}, "no level of hierarchy"),
        ({"totals": {"state": {"C": 1}}}, "not in the list"),
        ({"totals": {"state": {"A": -1}}}, "expected 0 to"),
        ({"totals": {"state": {"A": 3}, "county": {"A1": 4}}}, "contradict each other"),
        ({"totals": {"state": {"B": 3}, "county": {"B1": 1, "B2": 1}}}, "contradict each other"),
        ({"hierarchy": None, "totals": {"state": {"A": 1}}}, "totals go with hierarchy"),
    ],
)
def test_what_is_not_clear_is_refused(tmp_path, field, message):
    with pytest.raises(SchemaError, match=message):
        made(tmp_path, **field)


@pytest.mark.parametrize(
    ("relation", "more", "message"),
    [
        ("label", {}, "add-remove or replace"),
        ("add-remove", {"rules": [{"never": {"tract": "0101", "sex": "F"}}]}, "no rule may name it"),
        ("add-remove", {"rows": 51}, "sum to 50, but rows is 51"),
    ],
)
def test_what_contradicts_the_rest_of_the_schema_is_refused(tmp_path, relation, more, message):
    with pytest.raises(SchemaError, match=message):
        made(tmp_path, relation, more, other="0101", totals={"state": {"A": 30, "B": 20}})


def test_a_total_that_is_no_number_is_refused_by_its_place_alone(tmp_path):
    (tmp_path / "s.csv").write_text("code,count\nA,3.5\n")
    with pytest.raises(SchemaError, match="the count of 'A' is not a whole number"):
        made(tmp_path, totals={"state": "s.csv"})
