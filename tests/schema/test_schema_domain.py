"""Domains check themselves; bins of every kind cover their scale without gap or overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from schema_strategies import numeric, temporal

from dipsmith.errors import SchemaError
from dipsmith.schema import Attribute, Bins, Categories, Schema, Unit
from dipsmith.schema.bins import by_edges, by_rounding, by_width, number, point, recipe, show


def test_codes_follow_first_use() -> None:
    made = Categories.of(["b1", "a1", "b2"], {"b1": "b", "b2": "b", "a1": "a"}, other="a1")
    assert (made.labels, made.codes, made.other, made.size) == (("b", "a"), (0, 1, 0), 1, 2)
    assert made.missing_code is None
    assert made.total


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"values": (), "labels": (), "codes": ()}, "empty"),
        ({"values": ("a", "a"), "labels": ("a",), "codes": (0, 0)}, "listed twice"),
        ({"values": ("a", "b"), "labels": ("a", "b"), "codes": (0,)}, "as many codes"),
        ({"values": ("a", "b"), "labels": ("a", "b"), "codes": (1, 0)}, "order"),
        ({"values": ("a", "b"), "labels": ("a", "b"), "codes": (0, 0)}, "order"),
        ({"values": ("a",), "labels": ("a",), "codes": (0,), "other": 1}, "outside"),
        ({"values": ("a\ud800",), "labels": ("a",), "codes": (0,)}, "surrogate"),
    ],
)
def test_wrong_categories(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Categories(**arguments)


@pytest.mark.parametrize(
    ("edges", "scale", "labels", "maximum", "said"),
    [
        ((0, 1), "number", ("a", "b"), 1, "labels"),
        ((0,), "number", (), 0, "labels"),
        ((0, 0), "number", ("a",), 0, "increase"),
        ((0, float("inf")), "number", ("a",), float("inf"), "finite"),
        ((0, 2.0**60), "integer", ("a",), 2.0**60 - 1, "finite"),
        ((0, 1.5), "integer", ("a",), 0.5, "whole"),
        ((0, 1, 2), "number", ("a", "a"), 2, "differ"),
        ((0, 1), "number", ("(missing)",), 1, "differ"),
        ((0, 1), "number", ("a",), 2, "agree"),
        ((0, 1), "integer", ("a",), 1, "agree"),
    ],
)
def test_wrong_bins(edges: Any, scale: Any, labels: Any, maximum: float, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Bins(edges, scale, labels, 0, maximum)


def test_too_many_levels_are_refused_before_they_are_made() -> None:
    with pytest.raises(SchemaError, match="1,000,000,001 levels"):
        by_width("integer", 0, 10**9, 1)
    with pytest.raises(SchemaError, match="labels are more than"):
        Categories.of([str(i) for i in range(100_001)])


@settings(max_examples=200, deadline=None)
@given(entry=numeric() | temporal())
def test_bins_tile_their_scale(entry: dict[str, Any]) -> None:
    data = {"name": "t", "unit": "row", "neighbours": "replace", "fields": [{"name": "x"} | entry]}
    bins = Schema.from_dict(data)["x"].domain
    assert isinstance(bins, Bins)
    assert bins.edges[0] == bins.minimum == point(bins.scale, entry["minimum"])
    assert bins.maximum == point(bins.scale, entry["maximum"])
    assert (np.diff(bins.cuts) > 0).all()
    assert len(set(bins.labels)) == len(bins.labels) == len(bins.edges) - 1
    assert all(type(edge) is float for edge in bins.edges)


@settings(deadline=None)
@given(entry=numeric())
def test_rounding_is_to_the_nearest(entry: dict[str, Any]) -> None:
    step = max(1.0, round((entry["maximum"] - entry["minimum"]) / 7))
    bins = by_rounding(entry["type"], entry["minimum"], entry["maximum"], step)
    for low, high, label in zip(bins.edges, bins.edges[1:], bins.labels, strict=False):
        inside = [low, low if entry["type"] == "integer" else (low + high) / 2]
        for value in inside:
            assert abs(value - float(label)) <= step / 2 + 1e-9 * step


def test_recipes_are_short() -> None:
    assert recipe(by_width("integer", 17, 90, 5)) == {"width": 5}
    assert recipe(by_width("integer", 17, 90, 1)) is None
    assert recipe(by_edges("number", [0, 1, 10])) == {"edges": [0, 1, 10]}
    assert recipe(by_edges("integer", [0, 5, 6], maximum=5)) == {"width": 5}
    assert recipe(by_edges("integer", [0, 3, 5, 6], maximum=5)) == {"edges": [0, 3, 5, 6]}
    labelled = by_edges("integer", [0, 18, 99], labels=["minor", "adult"])
    assert recipe(labelled) == {"edges": [0, 18, 99], "labels": ["minor", "adult"]}


def test_points() -> None:
    assert point("datetime", "1970-01-01T01:00+01:00") == 0
    assert show("datetime", 1.0) == "1970-01-01T00:00:00.000001"
    assert number(3.0) == 3
    assert number(0.1) == 0.1
    for scale, text in [("integer", "1_000"), ("number", ""), ("date", "12/31/2011"), ("number", "nan")]:
        with pytest.raises(SchemaError):
            point(scale, text)  # type: ignore[arg-type]


def test_attributes_refuse_a_domain_of_another_type() -> None:
    for kind in ("number", "date", "boolean", "integer"):
        with pytest.raises(SchemaError, match="column 'x'"):
            Attribute("x", kind, Categories.of("ab"))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="column 'x'"):
        Attribute("x", "number", by_width("integer", 0, 5, 1))


def test_units() -> None:
    assert str(Unit()) == "row"
    assert str(Unit("id", 2, "year")) == "id per year, at most 2 rows"
    for wrong in ({"max_rows": 2}, {"column": "id", "max_rows": 0}, {"per": "year"}):
        with pytest.raises(SchemaError):
            Unit(**wrong)  # type: ignore[arg-type]
