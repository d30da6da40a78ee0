"""Merging rare labels by the frequencies of a public table."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from dipsmith.errors import SchemaError, UsageError
from dipsmith.schema import Schema

DATA = {
    "name": "t",
    "unit": "row",
    "neighbours": "replace",
    "fields": [
        {
            "name": "job",
            "type": "string",
            "enum": ["a", "b", "c", "d", "e"],
            "other": "e",
            "missing": True,
            "ordered": True,
        },
        {"name": "age", "type": "integer", "minimum": 0, "maximum": 9},
        {"name": "code", "type": "integer", "enum": [1, 2, 3], "other": 3},
    ],
    "rules": [{"never": {"job": ["b", "c"], "age": 0}}, {"never": {"job": ["a", "b"], "age": 1}}],
}
PUBLIC = {"job": ["a"] * 9 + ["b "] * 2 + ["c"] + ["d"] * 5 + ["zz"] * 6 + [None], "code": [1] * 23 + [2]}


@pytest.mark.parametrize("table", [PUBLIC, pa.table(PUBLIC), pl.DataFrame(PUBLIC)], ids=["dict", "arrow", "polars"])
def test_rare_labels_are_merged(table: object) -> None:
    schema = Schema.from_dict(DATA).collapse(table, {"job": 5, "code": 3})
    job = schema["job"].domain
    assert schema["job"].labels == ("a", "(rare)", "d", "e", "(missing)")
    assert job.other == 3  # type: ignore[union-attr]
    assert schema["code"].labels == ("1", "(rare)")
    assert schema["age"].size == 10
    # (rare) stands for b and c: both were ruled out by the first rule, only one of them by the second
    assert [rule.never for rule in schema.rules] == [
        (("job", (1,)), ("age", (0,))),
        (("job", (0,)), ("age", (1,))),
    ]
    assert "2 labels of job with fewer than 5 rows in a public table" in schema.notes[0]
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_rule_that_no_longer_holds_for_a_whole_label_goes() -> None:
    data = DATA | {"rules": [{"never": {"job": "b", "age": 1}}]}
    assert Schema.from_dict(data).collapse(PUBLIC, {"job": 5}).rules == ()


def test_nothing_to_merge() -> None:
    schema = Schema.from_dict(DATA)
    assert schema.collapse(PUBLIC, {"job": 1}) is schema
    assert schema.collapse(PUBLIC, {"job": 2}) is schema  # one rare label alone stays what it is


def test_refusals() -> None:
    schema = Schema.from_dict(DATA)
    with pytest.raises(SchemaError, match="'age' is not a list of categories"):
        schema.collapse(PUBLIC, {"age": 3})
    with pytest.raises(SchemaError, match="'code' is not in the public table"):
        schema.collapse({"job": ["a"]}, {"code": 3})
    with pytest.raises(UsageError, match="threshold must be at least 1"):
        schema.collapse(PUBLIC, {"job": 0})
    with pytest.raises(UsageError, match="expected a table"):
        schema.collapse("people.csv", {"job": 3})
    with pytest.raises(SchemaError, match="has a label 'a' already"):
        schema.collapse(PUBLIC, {"job": 5}, label="a")
