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


CENSUS = "job;age\n" + "a;1\n" * 9 + "b ;2\n" * 2 + "c;0\n" + "d;3\n" * 5 + "zz;4\n" * 6 + ";5\n"
LISTED = "code,count,title\na,9,x\nb,2,x\nc,1,x\nd,5,x\nzz,6,x\n"


@pytest.mark.parametrize("text", [CENSUS, LISTED], ids=["a table", "a list of counts"])
def test_a_schema_file_merges_by_public_counts_as_python_does(tmp_path, text) -> None:
    (tmp_path / "public.csv").write_text(text)
    job = {**DATA["fields"][0], "collapse": {"rare": 5, "counts": "public.csv"}}
    rules = [{"never": {"job": ["(rare)"], "age": 0}}, {"never": {"job": "a", "age": 1}}]
    schema = Schema.from_dict({**DATA, "fields": [job, *DATA["fields"][1:]], "rules": rules}, tmp_path)
    by_python = Schema.from_dict(DATA).collapse(PUBLIC, {"job": 5})
    assert schema["job"].labels == by_python["job"].labels
    assert schema["job"].domain.other == by_python["job"].domain.other
    assert [r.never for r in schema.rules] == [r.never for r in by_python.rules]
    assert schema.notes == (
        "labels of job with fewer than 5 rows in the public file public.csv are merged into (rare)",
    )
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("collapse", "text", "said"),
    [
        ({"rare": 5}, CENSUS, "go together"),
        ({"counts": "public.csv"}, CENSUS, "exactly one of prefix, file, map, rare"),
        ({"rare": 0, "counts": "public.csv"}, CENSUS, "at least 1"),
        ({"rare": 5, "counts": "public.csv"}, "x,y\n1,2\n", "'code' and 'count', or a column 'job'"),
        ({"rare": 5, "counts": "public.csv"}, "code,count\na,many\n", "line 2: column 'count'"),
        ({"rare": 5, "counts": "public.csv"}, f"code,count\na,{'9' * 5000}\n", "line 2: column 'count'"),
        ({"rare": 5, "counts": "public.csv"}, "code,count\na\n", "line 2: 1 fields"),
        ({"rare": 5, "counts": "none.csv"}, "", "none.csv"),
    ],
)
def test_counts_that_cannot_be_read_are_refused(tmp_path, collapse, text, said) -> None:
    (tmp_path / "public.csv").write_text(text)
    with pytest.raises(SchemaError, match=said):
        Schema.from_dict({**DATA, "rules": [], "fields": [{**DATA["fields"][0], "collapse": collapse}]}, tmp_path)
