"""Decoding: exact round trips for every code, both ends of every bin, types, and what is released."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_strategies import schemas

from dipsmith.codec import Encoder, codebook, decode, released_schema
from dipsmith.schema import Bins, Categories, Codes, Schema, Unit


def schema_of(*fields: dict[str, Any], neighbours: str = "replace") -> Schema:
    return Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": list(fields)})


class Corner(np.random.Generator):
    """A generator whose uniform draws are the smallest or the largest there are."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, size: Any = None, *_: Any) -> Any:
        return np.full(size, self.value)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(schema=schemas(max_fields=3), seed=st.integers(0, 2**32 - 1))
def test_every_code_survives_decoding_and_encoding(schema: Schema, seed: int) -> None:
    rows = max(a.size for a in schema)
    codes = Codes.of(schema, {a.name: np.arange(rows) % a.size for a in schema})
    released = released_schema(schema)
    assert released.unit == Unit()
    assert [a.size for a in released] == [a.size for a in schema]
    for rng in (np.random.default_rng(seed), Corner(0.0), Corner(1 - 2**-53)):
        table = decode(codes, rng)
        for reading in (schema_if_uncollapsed(schema), released_if_not_verbatim(schema)):
            if reading is None:
                continue
            again, keep = Encoder(reading).encode(table)
            assert keep.all()
            for name in schema.names:
                assert again[name].tolist() == codes[name].tolist()


def schema_if_uncollapsed(schema: Schema) -> Schema | None:
    """The original schema reads its own release as long as no values were collapsed."""
    collapsed = any(isinstance(a.domain, Categories) and a.domain.values != a.domain.labels for a in schema)
    return None if collapsed else schema


def released_if_not_verbatim(schema: Schema) -> Schema | None:
    """Under label the public columns are released verbatim, not decoded."""
    verbatim = [a for a in schema if schema.neighbours == "label" and a.role == "public"]
    if any(isinstance(a.domain, Categories) and a.domain.values != a.domain.labels for a in verbatim):
        return None
    return released_schema(schema)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(schema=schemas(max_fields=2), data=st.data())
def test_listed_values_come_back_as_they_were(schema: Schema, data: st.DataObject) -> None:
    for attribute in schema:
        domain = attribute.domain
        if not isinstance(domain, Categories) or domain.values != domain.labels or attribute.type == "boolean":
            continue
        values = data.draw(st.lists(st.sampled_from(domain.values), min_size=1))
        codes, _ = Encoder(schema, [attribute.name]).encode(pa.record_batch({attribute.name: values}))
        assert [str(v) for v in decode(codes, np.random.default_rng(0))[attribute.name].to_pylist()] == values


def test_both_ends_of_a_bin_are_reached_and_never_passed() -> None:
    schema = schema_of(
        {"name": "i", "type": "integer", "minimum": 17, "maximum": 90, "bins": {"width": 5}},
        {"name": "n", "type": "number", "minimum": 0, "maximum": 10, "bins": {"width": 5}},
        {
            "name": "d",
            "type": "date",
            "minimum": "2020-02-01",
            "maximum": "2020-03-31",
            "bins": {"width": "month"},
        },
        {
            "name": "t",
            "type": "datetime",
            "minimum": "2020-01-01",
            "maximum": "2020-01-02",
            "bins": {"count": 1},
        },
    )
    codes = Codes.of(
        schema, {"i": np.array([0, 14]), "n": np.array([0, 1]), "d": np.array([0, 1]), "t": np.array([0, 0])}
    )
    low, high = decode(codes, Corner(0.0)).to_pydict(), decode(codes, Corner(1 - 2**-53)).to_pydict()
    assert (low["i"], high["i"]) == ([17, 87], [21, 90])
    assert low["n"] == [0.0, 5.0]
    assert high["n"][0] == 4.999
    assert 9.999 < high["n"][1] <= 10
    assert low["d"] == [dt.date(2020, 2, 1), dt.date(2020, 3, 1)]
    assert high["d"] == [dt.date(2020, 2, 29), dt.date(2020, 3, 31)]
    assert low["t"][0] == dt.datetime(2020, 1, 1)
    assert high["t"][0] == dt.datetime(2020, 1, 2)


def test_draws_are_uniform_within_a_bin() -> None:
    """n = 60,000 draws over 6 values: a cell's count is Binomial(n, 1/6), sd 91.3.

    6 sd is exceeded with probability 2e-9 per cell, 1.2e-8 in all; the seed is fixed besides.
    """
    schema = schema_of({"name": "i", "type": "integer", "minimum": 0, "maximum": 5, "bins": {"count": 1}})
    drawn = decode(Codes.of(schema, {"i": np.zeros(60_000, int)}), np.random.default_rng(3))["i"].to_numpy()
    counts = np.bincount(drawn, minlength=6)
    assert len(counts) == 6
    assert np.abs(counts - 10_000).max() < 6 * np.sqrt(60_000 / 6 * 5 / 6)


def test_types_and_missing_values() -> None:
    schema = schema_of(
        {
            "name": "s",
            "type": "string",
            "enum": ["a1", "a2", "b"],
            "collapse": {"prefix": 1},
            "missing": True,
        },
        {"name": "i", "type": "integer", "enum": [3, 5], "missing": True},
        {"name": "w", "type": "integer", "enum": [3, 5], "collapse": {"map": {3: "low"}}, "missing": True},
        {"name": "b", "type": "boolean", "missing": True},
        {"name": "d", "type": "date", "minimum": "2020-01-01", "maximum": "2020-01-01", "missing": True},
        {"name": "n", "type": "number", "minimum": 0, "maximum": 1, "missing": True},
    )
    last = {a.name: np.array([0, a.size - 1]) for a in schema}
    table = decode(Codes.of(schema, last), np.random.default_rng(0))
    assert [str(t) for t in table.schema.types] == [
        "dictionary<values=string, indices=int32, ordered=0>",
        "int64",
        "dictionary<values=string, indices=int32, ordered=0>",
        "bool",
        "date32[day]",
        "double",
    ]
    rows = table.to_pylist()
    assert rows[0] | {"n": None} == {
        "s": "a",
        "i": 3,
        "w": "low",
        "b": False,
        "d": dt.date(2020, 1, 1),
        "n": None,
    }
    assert set(rows[1].values()) == {None}
    released = released_schema(schema)
    assert [a.type for a in released] == ["string", "integer", "string", "boolean", "date", "number"]
    assert Schema.from_dict(released.to_dict()) == released


def test_under_label_public_columns_keep_their_description() -> None:
    job = {"type": "string", "enum": ["a1", "a2", "b"], "collapse": {"prefix": 1}, "other": "b"}
    fields = [{"name": "p", "role": "public"} | job, {"name": "q"} | job]
    data: dict[str, Any] = {
        "name": "t",
        "unit": {"column": "id", "max_rows": 2},
        "neighbours": "label",
        "fields": fields,
        "rules": [{"never": {"p": "a", "q": "b"}}],
    }
    schema = Schema.from_dict(data)
    released = released_schema(schema)
    assert released["p"] == schema["p"]
    assert released["q"].domain == Categories.of(["a", "b"], other="b")
    assert released.rules == schema.rules
    assert released.notes == ("unit of protection: id, at most 2 rows",)
    released.check()


def test_codebook() -> None:
    schema = schema_of(
        {"name": "job", "type": "string", "enum": ["a1", "a2", "b"], "collapse": {"prefix": 1}, "other": "b"},
        {"name": "pay", "type": "number", "minimum": 0, "maximum": 10, "bins": {"round": 5}, "missing": True},
        {
            "name": "age",
            "type": "integer",
            "minimum": 17,
            "maximum": 26,
            "bins": {"width": 5},
            "role": "public",
        },
    )
    rows = codebook(schema).to_pylist()
    assert [r["code"] for r in rows] == [0, 1, 0, 1, 2, 3, 0, 1]
    assert rows[0]["note"] == "stands for a1, a2"
    assert rows[1]["note"] == "and values outside the list"
    assert (rows[3]["label"], rows[3]["lower"], rows[3]["upper"]) == ("5", "2.5", "7.5")
    assert rows[3]["note"] == "upper end excluded"
    assert rows[5]["note"] == "missing"
    assert (rows[6]["lower"], rows[6]["upper"], rows[6]["role"]) == ("17", "21", "public")
    assert rows[6]["note"] == "and anything below; and unreadable values"
    assert codebook(schema).column_names == [
        "column",
        "code",
        "label",
        "lower",
        "upper",
        "type",
        "role",
        "note",
        "title",
    ]


@settings(max_examples=40, deadline=None)
@given(schema=schemas())
def test_a_codebook_names_every_code(schema: Schema) -> None:
    table = codebook(schema)
    assert table.num_rows == sum(a.size for a in schema)
    assert table["label"].to_pylist() == [label for a in schema for label in a.labels]
    assert all(bool(r["lower"]) == isinstance(schema[r["column"]].domain, Bins) or r["note"] for r in table.to_pylist())


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows: int) -> None:
    schema = schema_of({"name": "n", "type": "number", "minimum": 0, "maximum": 1})
    assert decode(Codes.of(schema, {"n": np.zeros(rows, int)}), np.random.default_rng(0)).num_rows == rows
