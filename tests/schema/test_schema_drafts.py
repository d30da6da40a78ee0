"""Drafts: from the header alone, and from a peek that says so."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dipsmith.errors import SchemaError
from dipsmith.schema import Schema, draft, peek
from dipsmith.schema.markup import parse

ROWS = {
    "id": [f"p{i}" for i in range(2000)],
    "age": [20 + i % 50 for i in range(2000)],
    "pay": [1000.5 + 13 * i for i in range(2000)],
    "sex": ["F", "M", None, "M "] * 500,
    "flag": ["yes", "no"] * 1000,
    "day": ["2020-01-05", "2021-11-30"] * 1000,
    "at": ["2001-01-05T10:00:00", "2021-11-30T12:30:00"] * 1000,
    "code": [10**6 + i for i in range(2000)],
    "nothing": [None] * 2000,
}


def filled(text: str, relation: str = "replace") -> Schema:
    return Schema.from_dict(
        parse(text.replace("unit:\n", "unit: row\n").replace("neighbours:\n", f"neighbours: {relation}\n"))
    )  # type: ignore[arg-type]


def test_a_draft_asks_for_what_it_must_not_choose() -> None:
    text = draft(["age", "no", "a: b", "null"], "people")
    with pytest.raises(SchemaError, match="'unit' is missing"):
        Schema.from_dict(parse(text))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="column 'age': 'type' is missing"):
        filled(text)
    assert [f["name"] for f in parse(text)["fields"]] == ["age", "no", "a: b", "null"]  # type: ignore[index]
    assert "data-derived" not in text


@pytest.mark.parametrize(("header", "said"), [([], "no column"), (["a", " "], "column 2"), (["a", "a"], "twice")])
def test_a_draft_refuses_a_broken_header(header: list[str], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        draft(header, "t")


def test_a_peek_reads_types_levels_and_bounds_and_says_so() -> None:
    table = pa.table({name: values for name, values in ROWS.items() if name not in ("id", "nothing")})
    text = peek(table.to_batches(max_chunksize=700), "people")
    schema = filled(text)
    assert schema.provenance == "data-derived"
    assert [a.type for a in schema] == [
        "integer",
        "number",
        "string",
        "boolean",
        "date",
        "datetime",
        "integer",
    ]
    assert schema["sex"].labels == ("F", "M", "(missing)")
    assert schema["age"].domain.minimum == 20  # type: ignore[union-attr]
    assert 69 <= schema["age"].domain.maximum <= 75  # type: ignore[union-attr]
    assert schema["pay"].size == 20
    assert schema["code"].size == 20
    assert schema["day"].labels[0] == "2020-01-01"
    assert schema["at"].labels[-1] == "2021-12"


def test_the_same_peek_when_everything_arrives_as_text() -> None:
    table = pa.table(ROWS).drop_columns(["id", "nothing"])
    text = pa.table({n: c.cast(pa.string()) for n, c in zip(table.column_names, table.columns, strict=True)})
    assert peek(text.to_batches(), "people") == peek(table.to_batches(), "people")


def test_free_text_is_left_open() -> None:
    text = peek(pa.table({"id": ROWS["id"], "nothing": pa.array(ROWS["nothing"], pa.string())}).to_batches(), "t")
    with pytest.raises(SchemaError, match="column 'id': type string needs 'enum'"):
        filled(text)
    assert "p17" not in text


@pytest.mark.parametrize("days", [["2020-01-05", "2021-03-02T10:00"], ["2021-03-02T10:00", "2020-01-05"]])
def test_dates_among_datetimes_are_datetimes(days):
    fields = parse(peek(pa.table({"day": days}).to_batches(), "visits"))["fields"]
    assert fields[0]["type"] == "datetime"
    assert fields[0]["minimum"] == "2020-01-01"
    assert fields[0]["maximum"] == "2021-12-31T23:59:59"
