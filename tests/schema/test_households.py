"""Schemas of households: two tables in one file or two, what is refused, and the lines that are made of them."""

import json

import pytest

from dipsmith.errors import BudgetError, SchemaError
from dipsmith.privacy.protection import protection_from, protection_of, protection_record, require_agreement
from dipsmith.schema import Schema
from dipsmith.schema.households import EARLIER, SIZE, line_schema, of_earlier, of_head, of_member

PERSONS = """
name: persons
fields:
  - {name: relation, type: string, enum: [head, partner, child], other: child}
  - {name: age, type: integer, minimum: 0, maximum: 99, bins: {width: 20}}
rules:
  - {never: {relation: head, age: {below: 20}}}
"""
HOUSEHOLDS = """
name: households
neighbours: add-remove
members: persons.yaml
key: hid
max_members: 8
order: relation
fields:
  - {name: tenure, type: string, enum: [own, rent], other: own}
rules:
  - {never: {tenure: own, relation: child}}
"""


def written(folder, households=HOUSEHOLDS, persons=PERSONS):
    (folder / "households.yaml").write_text(households)
    (folder / "persons.yaml").write_text(persons)
    return Schema.read(folder / "households.yaml")


def test_two_files_are_one_schema_and_read_back_equal(tmp_path):
    schema = written(tmp_path)
    assert schema.columns == ("tenure", "hid")
    people = schema.members.schema
    assert people.columns == ("relation", "age", "hid")
    assert (schema.unit.max_rows, people.unit.max_rows) == (1, 8)
    assert str(schema.unit) == "household (hid) with at most 8 members"
    assert [r.attributes for r in schema.rules] == []
    assert [r.attributes for r in schema.members.rules] == [("tenure", "relation")]
    schema.write(tmp_path / "again.yaml")
    again = Schema.read(tmp_path / "again.yaml")
    assert again == schema
    assert again.digest == schema.digest
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_person_may_be_the_unit(tmp_path, relation):
    """Priced as under replace, one row each; another protection than that of households, under a name of its own."""
    told = HOUSEHOLDS.replace("neighbours: add-remove", f"unit: person\nneighbours: {relation}")
    schema = written(tmp_path, told)
    assert str(schema.unit) == "person in a household (hid) with at most 8 members"
    assert schema.neighbours == relation
    for table in (*schema.tables, line_schema(schema)):
        assert (table.priced_as, table.priced_rows) == ("replace", 1)
    schema.write(tmp_path / "again.yaml")
    assert Schema.read(tmp_path / "again.yaml") == schema
    protects = protection_of(schema)
    assert protection_from(json.loads(json.dumps(protection_record(protects)))) == protects
    other = written(tmp_path, HOUSEHOLDS.replace("add-remove", relation))
    assert protection_of(other) != protects
    with pytest.raises(BudgetError, match=r"has spent under unit 'household .* got 'person in a household"):
        require_agreement("households", protection_of(other), protects)


def test_what_is_protected_names_the_household_and_its_members(tmp_path):
    protects = protection_of(written(tmp_path))
    assert protection_from(json.loads(json.dumps(protection_record(protects)))) == protects
    other = HOUSEHOLDS.replace("max_members: 8", "max_members: 9")
    assert protection_of(written(tmp_path, other)) != protects


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("key: hid\n", "", "households and their members go together"),
        ("max_members: 8\n", "", "max_members"),
        ("members: persons.yaml\n", "unit: household\n", "households and their members go together"),
        ("max_members: 8", "max_members: 1", "expected 2 to 100"),
        ("max_members: 8", "max_members: many", "max_members"),
        ("neighbours: add-remove", "neighbours: label", "under add-remove or replace"),
        ("neighbours: add-remove", "neighbours: add-remove\nunit: row", "unit is row, but there are members"),
        ("order: relation", "order: rank", "no column of members"),
        ("order: relation", "order: age", "an enum of two or more levels"),
        ("tenure", "age", "column 'age' is in both tables"),
        ("tenure", "hid", "column 'hid' is the unit"),
        ("tenure", "(members)", "a name that lines of households need"),
        ("name: households", "name: persons", "another name than"),
        ("members: persons.yaml", "members: nobody.yaml", "nobody.yaml"),
        ("rules:\n", 'analyses: ["tenure ~ age"]\nrules:\n', "only columns of households are planned"),
        ("relation: child}}", "rank: 1}}", "names column 'rank'"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(tmp_path, old, new, message):
    assert old in HOUSEHOLDS
    with pytest.raises(SchemaError) as caught:
        written(tmp_path, HOUSEHOLDS.replace(old, new))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: persons", "name: persons\nunit: row", "'unit' is said of the households"),
        ("name: persons", "name: all persons", "letters, digits"),
        ("name: persons", 'name: persons\nanalyses: ["age ~ 1"]', "not planned for members"),
        ("bins: {width: 20}}", "bins: {width: 20}, missing: true, role: weight}", "no missing values"),
        ("other: child", "other: head", "other may not be the head's level"),
        ("other: child}", "missing: true}", "no missing"),
        ("name: age", "name: age (head)", "a name that lines of households need"),
    ],
)
def test_members_that_contradict_their_households_are_refused(tmp_path, old, new, message):
    persons = PERSONS.replace(old, new)
    if "name: age (head)" in persons:
        persons = persons.replace("age: {below", "age (head): {below").replace(
            "- {name: relation", "- {name: age, type: integer, minimum: 0, maximum: 9}\n  - {name: relation"
        )
    with pytest.raises(SchemaError) as caught:
        written(tmp_path, persons=persons)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lines_have_one_copy_of_a_member_for_the_head_a_member_and_the_one_before(tmp_path):
    schema = written(tmp_path)
    lines = line_schema(schema)
    copies = [c(n) for c in (of_head, of_member, of_earlier) for n in ("relation", "age")]
    assert lines.names == ("tenure", SIZE, EARLIER, *copies)
    assert lines[SIZE].size == 9
    assert lines[of_head("age")].size == schema.members.schema["age"].size + 1
    assert (lines.unit.max_rows, lines.members) == (1, None)
    named = {rule.attributes for rule in lines.rules}
    assert ("tenure", of_head("relation")) in named
    assert (of_member("relation"), of_member("age")) in named
