"""A tree reads only the columns that it asks: rows from files hold no others."""

import numpy as np
import pytest

from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit


def test_columns_that_no_node_asks_need_not_be_there():
    schema = Schema(
        "t", tuple(Attribute(n, "string", Categories.of("xyz", other="x")) for n in "abc"), Unit(), "replace"
    )
    tree = TreeShape.root(schema, ["a", "b", "c"]).split(np.array([1]))
    assert tree.attributes == ("b",)
    rows = {n: np.array([0, 1, 2, 1]) for n in "abc"}
    whole, asked = (Codes.of(schema, {n: rows[n] for n in names}) for names in ("abc", "b"))
    np.testing.assert_array_equal(tree.index(asked), tree.index(whole))
    with pytest.raises(KeyError):
        tree.index(Codes.of(schema, {"a": rows["a"]}))
