"""The trees of every method that has one: branches add up, paths ask a column once, counts are the model's own."""

from collections import Counter

import numpy as np
import pytest

import dipsmith as ds
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.model_tree import WithTrees
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.testing import example_rows, example_schema

CASES = {
    "steps by branch": (ds.Steps(layers=2), "replace"),
    "steps in one order": (ds.Steps(layers=[["grade"], ["age", "sex"]]), "add-remove"),
    "universal": (ds.Universal(), "replace"),
    "forest of labels": (ds.Forest(targets=["sex", "race"], trees=2, n_b=40, weights=None), "label"),
    "forest in strata": (ds.Forest(targets=["sex"], strata="place", n_b=40), "label"),
    "forest of rows": (ds.Forest(n_b=40), "replace"),
}


def fitted(method, relation, budget=4):
    rows = example_rows(example_schema(relation))
    return rows, method.fit(Curator.rehearse(rows, ds.PureDP(budget), seed=3))


def nodes(node, path=()):
    """Every node with the (columns, label) pairs that lead to it."""
    yield path, node
    for branch in node.branches():
        yield from nodes(branch, (*path, (node.divided_by, branch.label)))


def test_the_methods_that_have_trees():
    found = {name for name in METHODS if any(isinstance(m, type) and hasattr(m, "trees") for m in METHODS[name].models)}
    assert found == {"steps", "universal", "forest"}


@pytest.mark.parametrize("case", CASES)
def test_branches_add_up_and_paths_ask_a_column_once(case):
    method, relation = CASES[case]
    _, model = fitted(method, relation)
    assert isinstance(model, WithTrees)
    trees = model.trees()
    assert trees
    for tree in trees:
        for path, node in nodes(tree.root):
            asked = Counter(name for columns, _ in path for name in columns)
            assert set(asked.values()) <= {1}
            assert set(asked) <= set(model.schema.names)
            branches = node.branches()
            assert bool(branches) == bool(node.divided_by)
            if branches:
                assert len(branches) == model.schema.size(node.divided_by)
                assert sum(b.rows for b in branches) == pytest.approx(node.rows, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_has_the_same_trees(case):
    method, relation = CASES[case]
    _, model = fitted(method, relation)
    again = type(model).from_state(model.schema, *model.state())
    for one, other in zip(model.trees(), again.trees(), strict=True):
        assert one.finding == other.finding
        mine, theirs = ([(p, n.label, n.rows, n.divided_by, n.note) for p, n in nodes(t.root)] for t in (one, other))
        assert mine == theirs


@pytest.mark.parametrize("case", ["steps by branch", "steps in one order", "universal"])
def test_counts_of_a_hierarchy_are_sums_of_its_cells(case):
    method, relation = CASES[case]
    _, model = fitted(method, relation)
    table = model.noisy.marginal
    cells = model.noisy.cells(model.post).reshape(table.shape)
    codes = dict(zip(table.attributes, np.indices(table.shape), strict=True))
    (tree,) = model.trees()
    for path, node in nodes(tree.root):
        here = np.ones(table.shape, dtype=bool)
        for columns, label in path:
            for name, value in zip(columns, label.split(", "), strict=True):
                here &= codes[name] == model.schema[name].labels.index(value)
        assert node.rows == pytest.approx(cells[here].sum(), abs=1e-6)


def test_public_leaves_have_their_public_number_of_rows():
    rows, model = fitted(*CASES["forest of labels"])
    for tree in model.trees():
        assert tree.public
        for path, node in nodes(tree.root):
            here = np.ones(len(rows), dtype=bool)
            for (name,), label in path:
                here &= rows[name] == rows.schema[name].labels.index(label)
            assert node.rows == here.sum()


def test_private_leaves_have_estimates_of_noisy_counts():
    """Under `replace` no size is public: two runs with other noise tell other numbers."""
    _, model = fitted(*CASES["forest of rows"])
    tree = model.trees()[0]
    assert not tree.public
    assert "noisy" in tree.counts
    rows = example_rows(example_schema("replace"))
    other = CASES["forest of rows"][0].fit(Curator.rehearse(rows, ds.PureDP(4), seed=4))
    first, second = ([n.rows for _, n in nodes(m.trees()[0].root)] for m in (model, other))
    assert first != second


def test_intervals_of_one_column():
    values = Attribute("age", "string", Categories.of([str(i) for i in range(40)]))
    schema = Schema("ages", (values,), Unit(), "add-remove")
    rows = np.random.default_rng(0).integers(0, 40, 500)
    codes = Codes.of(schema, {"age": rows}, 500)
    model = ds.Universal(branching=6).fit(Curator.rehearse(codes, ds.PureDP(2), seed=1))
    (tree,) = model.trees()
    found = [n for _, n in nodes(tree.root)]
    assert [n.label for n in found][:3] == ["all rows", "0 … 35", "0 … 5"]
    assert [b.label for b in tree.root.branches()] == ["0 … 35", "36 … 39"]
    assert [n.label for n in found if not n.divided_by] == [str(i) for i in range(40)]
    assert sum(b.rows for b in tree.root.branches()) == pytest.approx(tree.root.rows)


def test_a_model_of_a_version_without_sizes_has_no_numbers():
    _, model = fitted(*CASES["forest of labels"])
    facts, arrays = model.state()
    older = type(model).from_state(model.schema, facts, {k: v for k, v in arrays.items() if not k.endswith("/sizes")})
    assert {n.rows for _, n in nodes(older.trees()[0].root)} == {None}
    broken = {k: np.full_like(v, np.nan) if k.endswith("/sizes") else v for k, v in arrays.items()}
    with pytest.raises(ValueError, match="do not fit together"):
        type(model).from_state(model.schema, facts, broken)
