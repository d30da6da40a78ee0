"""Codes and cells: types, order, projections, and the split by role."""

from __future__ import annotations

import numpy as np
import pytest

from dipsmith.errors import SchemaError
from dipsmith.schema import Attribute, Categories, Codes, Crossed, Marginal, Schema, Unit
from dipsmith.schema.bins import by_width
from dipsmith.schema.codes import code_dtype

SCHEMA = Schema(
    "t",
    (
        Attribute("a", "string", Categories.of("xy", other="x"), role="public"),
        Attribute("b", "integer", by_width("integer", 0, 299, 1), role="private"),
        Attribute("c", "string", Categories.of("uvw", other="u"), role="private"),
    ),
    Unit(),
    "label",
)


def test_columns_take_the_smallest_type() -> None:
    assert [np.dtype(code_dtype(n)) for n in (256, 257, 65_536, 65_537)] == [
        np.uint8,
        np.uint16,
        np.uint16,
        np.uint32,
    ]
    codes = Codes.of(SCHEMA, {"c": np.array([2, 0]), "b": np.array([299, 0])})
    assert codes.names == ("b", "c")
    assert codes["b"].dtype == np.uint16
    assert len(codes) == 2


def test_take_project_concatenate() -> None:
    codes = Codes.of(SCHEMA, {"a": np.array([0, 1, 1]), "c": np.array([0, 1, 2])})
    assert codes.take(np.array([True, False, True]))["c"].tolist() == [0, 2]
    assert len(codes.project([]).take(slice(1, None))) == 2
    twice = Codes.concatenate([codes, codes.take(np.array([1]))])
    assert twice["c"].tolist() == [0, 1, 2, 1]


def test_marginal_index_is_mixed_radix() -> None:
    codes = Codes.of(SCHEMA, {"a": np.array([0, 1]), "b": np.array([5, 7]), "c": np.array([2, 1])})
    cells = Marginal.of(SCHEMA, ["a", "c", "b"])
    assert cells.size == 1800
    assert cells.index(codes).tolist() == [(0 * 3 + 2) * 300 + 5, (1 * 3 + 1) * 300 + 7]
    assert Marginal.of(SCHEMA, []).index(codes).tolist() == [0, 0]
    with pytest.raises(SchemaError, match="column 'z'"):
        Marginal.of(SCHEMA, ["z"])


def test_split_by_role() -> None:
    public, private = Marginal.of(SCHEMA, ["a", "b", "c"]).by_role()
    assert public is not None
    assert private is not None
    assert (public.attributes, private.attributes) == (("a",), ("b", "c"))
    assert Marginal.of(SCHEMA, ["b", "a"]).by_role()[0] is None
    crossed = Crossed(Marginal.of(SCHEMA, ["a"]), Marginal.of(SCHEMA, ["c"]))
    assert crossed.by_role() == (crossed.first, crossed.second)
    codes = Codes.of(SCHEMA, {"a": np.array([1]), "c": np.array([2])})
    assert crossed.index(codes).tolist() == Marginal.of(SCHEMA, ["a", "c"]).index(codes).tolist() == [5]
