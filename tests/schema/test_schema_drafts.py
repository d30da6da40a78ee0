"""Drafts from the header alone."""

from __future__ import annotations

import pytest

from dipsmith.errors import SchemaError
from dipsmith.schema import Schema, draft
from dipsmith.schema.markup import parse


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


@pytest.mark.parametrize(
    ("header", "said"), [([], "no column"), (["a", " "], "column 2"), (["a", "b", "a"], "columns 1 and 3")]
)
def test_a_draft_refuses_a_broken_header(header: list[str], said: str) -> None:
    with pytest.raises(SchemaError, match=said) as refused:
        draft(header, "t")
    assert "'a'" not in str(refused.value), "a file without a header has values there"
