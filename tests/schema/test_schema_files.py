"""Reading and writing schema files: what is written reads back equal, and means what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from schema_strategies import schemas

from dipsmith.errors import OutputError
from dipsmith.schema import Bins, Categories, Schema, Unit
from dipsmith.schema.markup import parse
from dipsmith.schema.writing import to_yaml

EXAMPLE = """
name: personnel
unit: {column: employee_id, max_rows: 1, per: year}   # or: unit: row
neighbours: label                                     # add-remove | replace | label
fields:
  - {name: year, type: integer, minimum: 1988, maximum: 2011, role: public}
  - {name: age,  type: integer, minimum: 17, maximum: 90, bins: {width: 5}, role: public}
  - {name: pay,  type: number,  minimum: 0, maximum: 250000, bins: {round: 5000}, role: public}
  - {name: occupation, type: string, enum: codes/occupation.csv, collapse: {prefix: 2}, other: "0000", role: public}
  - {name: sex,  type: string,  enum: [F, M], other: M, role: private}
  - {name: race, type: string,  enum: [A, B, C, D, E], other: E, role: private}
rules:
  - {never: {age: {below: 20}, occupation: "06"}}     # structural zeros
"""


@pytest.fixture
def example(tmp_path: Path) -> Schema:
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "occupation.csv").write_text("code,title\n0601,nurse\n0602,physician\n0000,other\n")
    (tmp_path / "personnel.yaml").write_text(EXAMPLE)
    return Schema.read(tmp_path / "personnel.yaml")


def field(**entry: Any) -> Any:
    data = {"name": "t", "unit": "row", "neighbours": "add-remove", "fields": [{"name": "x"} | entry]}
    return Schema.from_dict(data)["x"]


def test_the_documented_example(example: Schema) -> None:
    assert example.unit == Unit("employee_id", 1, "year")
    assert [a.size for a in example] == [24, 15, 51, 2, 2, 5]
    assert example["occupation"].labels == ("06", "00")
    assert example.public == ("year", "age", "pay", "occupation")
    assert example["age"].labels[0] == "17-21"
    assert example["age"].labels[-1] == "87-90"
    # no bin lies wholly below 20, so the rule forbids nothing, and the schema says so
    assert example.rules == ()
    assert "no label of age" in example.notes[0]


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=schemas())
def test_what_is_written_reads_back_equal(schema: Schema) -> None:
    again = Schema.from_dict(parse(to_yaml(schema)))  # type: ignore[arg-type]
    assert again == schema
    assert again.digest == schema.digest
    assert to_yaml(again) == to_yaml(schema)


def test_write_then_read(example: Schema, tmp_path: Path) -> None:
    example.write(tmp_path / "out.yaml")
    assert Schema.read(tmp_path / "out.yaml") == example
    assert [p.name for p in tmp_path.glob(".*")] == []
    with pytest.raises(OutputError, match="exists"):
        example.write(tmp_path / "out.yaml")
    example.write(tmp_path / "out.yaml", overwrite=True)


def test_digest_follows_meaning_not_spelling() -> None:
    one = field(type="number", minimum=0, maximum=100)
    assert one == field(type="number", minimum="0.0", maximum="1e2", bins={"count": 20})
    assert one == field(type="number", minimum=0, maximum=100, bins={"width": 5})
    base = {"name": "t", "unit": "row", "neighbours": "replace"}
    digests = {
        Schema.from_dict(base | {"fields": [{"name": "x", "type": "integer", "minimum": 0, "maximum": m}]}).digest
        for m in (3, 4, 5)
    }
    assert len(digests) == 3


def test_yaml_words_and_leading_zeros_stay_text() -> None:
    data = parse("enum: [no, Yes, 0000, 1e3, 2011-12-31, ~x, 'null']")
    assert data == {"enum": ["no", "Yes", "0000", "1e3", "2011-12-31", "~x", "null"]}


@pytest.mark.parametrize(
    ("entry", "edges", "labels"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 2}, (0, 1, 2, 3), ("0", "1", "2")),
        ({"type": "integer", "minimum": 5, "maximum": 5}, (5, 6), ("5",)),
        (
            {"type": "integer", "minimum": 0, "maximum": 9, "bins": {"count": 3}},
            (0, 3, 6, 10),
            ("0-2", "3-5", "6-9"),
        ),
        (
            {"type": "integer", "minimum": -5, "maximum": 4, "bins": {"width": 5}},
            (-5, 0, 5),
            ("-5 to -1", "0-4"),
        ),
        (
            {"type": "integer", "minimum": 17, "maximum": 25, "bins": {"round": 5}},
            (17, 18, 23, 26),
            ("15", "20", "25"),
        ),
        (
            {"type": "integer", "bins": {"edges": [0, 18, 65, 99]}},
            (0, 18, 65, 100),
            ("0-17", "18-64", "65-99"),
        ),
        (
            {
                "type": "integer",
                "minimum": 0,
                "maximum": 99,
                "bins": {"edges": [0, 99, 100], "labels": ["no", "yes"]},
            },
            (0, 99, 100),
            ("no", "yes"),
        ),
        ({"type": "number", "minimum": 0, "maximum": 0.3, "bins": {"width": 0.1}}, (0, 0.1, 0.2, 0.3), None),
        (
            {"type": "number", "minimum": 0, "maximum": 10, "bins": {"round": 5}},
            (0, 2.5, 7.5, 10),
            ("0", "5", "10"),
        ),
        (
            {"type": "date", "minimum": "1970-01-02", "maximum": "1970-01-03"},
            (1, 2, 3),
            ("1970-01-02", "1970-01-03"),
        ),
        (
            {"type": "date", "minimum": "1969-12-30", "maximum": "1970-02-01", "bins": {"width": "month"}},
            (-2, 0, 31, 32),
            ("1969-12", "1970-01", "1970-02"),
        ),
        (  # 1970-01-01 is a Thursday: its ISO week runs from Monday 1969-12-29 to Sunday 1970-01-04
            {"type": "date", "minimum": "1970-01-01", "maximum": "1970-01-06", "bins": {"width": "week"}},
            (0, 4, 6),
            ("1970-W01", "1970-W02"),
        ),
        (
            {
                "type": "datetime",
                "minimum": "1970-01-01T00:00",
                "maximum": "1970-01-01T02:00",
                "bins": {"width": "hour"},
            },
            (0, 3.6e9, 7.2e9, 7.2e9 + 1),
            ("1970-01-01T00h", "1970-01-01T01h", "1970-01-01T02h"),
        ),
    ],
)
def test_bins_of_a_file(entry: dict[str, Any], edges: tuple[float, ...], labels: tuple[str, ...] | None) -> None:
    domain = field(**entry).domain
    assert isinstance(domain, Bins)
    assert domain.edges == edges
    assert labels is None or domain.labels == labels


def test_categories_of_a_file() -> None:
    domain = field(type="string", enum=["a1", "a2", "b1"], collapse={"prefix": 1}, other="b1", missing=True).domain
    assert domain == Categories(("a1", "a2", "b1"), ("a", "b"), (0, 0, 1), other=1, missing=True)
    domain = field(type="string", enum=["x", "y", "z"], collapse={"map": {"x": "w", "z": "w"}}).domain
    assert domain.labels == ("w", "y")
    domain = field(type="integer", enum=[10, 12], ordered=True, missing="yes").domain
    assert (domain.values, domain.ordered, domain.missing) == (("10", "12"), True, True)


def test_code_list_collapse(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes("\ufeffcode;collapse;who\n 01 ;low;a\n02;low;b\n03;;c\n09;gone;d\n".encode())
    entry = {"name": "x", "type": "string", "enum": ["01", "02", "03"], "collapse": {"file": "jobs.csv"}}
    data = {"name": "t", "unit": "row", "neighbours": "add-remove", "fields": [entry]}
    assert Schema.from_dict(data, base=tmp_path)["x"].labels == ("low", "03")


@pytest.mark.slow
def test_a_long_code_list_is_read_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("code\n" + "\n".join(f"{i:07d}" for i in range(1_000_000)))
    entry = {"name": "x", "type": "string", "enum": "codes.csv", "collapse": {"prefix": 2}, "missing": True}
    data = {"name": "t", "unit": "row", "neighbours": "replace", "fields": [entry]}
    assert Schema.from_dict(data, base=tmp_path)["x"].size == 11


def test_rules_speak_of_labels_wholly_inside(example: Schema) -> None:
    data = example.to_dict() | {"rules": [{"never": {"age": {"below": 27}, "occupation": "06"}}]}
    (rule,) = Schema.from_dict(data).rules
    assert rule.never == (("age", (0, 1)), ("occupation", (0,)))
    assert rule.text == "age below 27 and occupation 06"


def test_verbs(example: Schema) -> None:
    some = example.project(["sex", "age"])
    assert some.names == ("age", "sex")
    assert some.size() == 30
    assert example.size(["sex", "race"]) == 10
    assert example.with_role("sex", "public").private == ("race",)
    assert example.columns[-1] == "employee_id"
