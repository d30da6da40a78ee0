"""Trees held level by level: routing, growth, rules, and the slow recursive tree they must equal."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import SchemaError
from dipsmith.methods.forest.splitting import AttributeDraw, RowCounter, grow
from dipsmith.methods.forest.tree_shape import LabelledLeaves, TreeShape, code_table
from dipsmith.schema import Attribute, Categories, Codes, Crossed, Marginal, Rule, Schema, Unit


def schema_of(sizes, labels=3, rules=(), roles=None):
    public = tuple(
        Attribute(
            f"x{i}",
            "string",
            Categories.of([str(v) for v in range(size)]),
            "public" if roles is None else roles[i],
        )
        for i, size in enumerate(sizes)
    )
    target = Attribute("y", "string", Categories.of([str(v) for v in range(labels)]), "private")
    return Schema("trees", (*public, target), Unit(), "label", tuple(rules))


def rows_of(schema, n, seed=0):
    rng = np.random.default_rng(seed)
    return Codes.of(schema, {a.name: np.minimum(rng.geometric(0.4, n) - 1, a.size - 1) for a in schema.attributes}, n)


def fair(columns, seed=0, forced=()):
    mask = np.array([c in forced for c in columns], dtype=bool)
    return AttributeDraw(np.ones(len(columns)), np.random.default_rng(seed), mask)


def grown(codes, columns, draw, n_b, n_leaf=None, max_depth=None):
    root = TreeShape.root(codes.schema, columns)
    return grow(root, RowCounter(code_table(codes, columns)), draw, n_b, n_leaf, max_depth)


class Recursive:
    """The tree as a textbook writes it: one call per branch, one mask per label."""

    def __init__(self, uniforms, sizes, n_b, max_depth):
        self.uniforms, self.sizes, self.n_b, self.max_depth = uniforms, sizes, n_b, max_depth
        self.leaves = {}

    def grow(self, table, rows, path=()):
        asked = [a for a, _ in path]
        left = [a for a in range(len(self.sizes)) if a not in asked]
        if len(rows) < self.n_b or not left or len(path) >= self.max_depth:
            self.leaves[path] = rows
            return
        attribute = left[int(self.uniforms[path] * len(left))]
        for label in range(self.sizes[attribute]):
            self.grow(table, rows[table[attribute, rows] == label], (*path, (attribute, label)))


def paths_of(tree):
    """The path of every node: (column, label) pairs from the root."""
    paths = [()]
    for node in range(1, len(tree.asks)):
        up = tree.parent[node]
        paths.append((*paths[up], (int(tree.asks[up]), int(tree.code[node]))))
    return paths


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    n=st.integers(0, 300),
    n_b=st.integers(1, 60),
    max_depth=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_equals_a_slow_recursive_tree_with_the_same_draws(sizes, n, n_b, max_depth, seed):
    schema = schema_of(sizes)
    codes = rows_of(schema, n, seed)
    columns = [f"x{i}" for i in range(len(sizes))]
    made = grown(codes, columns, fair(columns, seed), n_b, max_depth=max_depth)
    tree, paths = made.tree, paths_of(made.tree)
    coins, uniforms = np.random.default_rng(seed), {}
    for start, stop in zip(tree.levels, tree.levels[1:], strict=False):
        asking = [node for node in range(start, stop) if tree.asks[node] >= 0]
        uniforms |= {paths[node]: u for node, u in zip(asking, coins.random(len(asking)), strict=True)}
    slow = Recursive(uniforms, sizes, n_b, max_depth)
    slow.grow(code_table(codes, columns), np.arange(n))
    assert {paths[leaf] for leaf in tree.leaves} == set(slow.leaves)
    index = tree.index(codes)
    for cell, leaf in enumerate(tree.leaves):
        assert np.flatnonzero(index == cell).tolist() == slow.leaves[paths[leaf]].tolist()
        assert made.counts[leaf] == len(slow.leaves[paths[leaf]])


def test_splits_exactly_the_nodes_that_are_large_enough():
    codes = rows_of(schema_of([4, 3, 5]), 4000)
    columns = ["x0", "x1", "x2"]
    made = grown(codes, columns, fair(columns), 50)
    tree = made.tree
    full = np.array([len(path) == 3 for path in paths_of(tree)])
    assert ((tree.asks >= 0) == ((made.counts >= 50) & ~full)).all()
    assert made.counts[tree.leaves].sum() == 4000
    assert (tree.fans[tree.asks[tree.asks >= 0]].sum()) == len(tree.asks) - 1


def test_no_path_asks_twice_and_every_path_asks_what_it_must():
    codes = rows_of(schema_of([3, 3, 3, 3]), 3000)
    columns = ["x0", "x1", "x2", "x3"]
    tree = grown(codes, columns, fair(columns, forced=["x2", "x3"]), 20).tree
    for path in paths_of(tree):
        asked = [a for a, _ in path]
        assert len(set(asked)) == len(asked)
        assert set(asked[:2]) <= {2, 3}


@pytest.mark.slow
def test_weights_decide_how_often_an_attribute_comes_first():
    columns = ["x0", "x1", "x2"]
    codes = rows_of(schema_of([2, 2, 2]), 100)
    coins = np.random.default_rng(1)
    draw = AttributeDraw(np.array([1.0, 20.0, 4.0]), coins, np.zeros(3, dtype=bool))
    first = [grown(codes, columns, draw, 90).tree.asks[0] for _ in range(3000)]
    share = np.bincount(first, minlength=3) / 3000
    # 5 standard errors of a binomial share: false alarm below 1e-6
    assert np.abs(share - np.array([0.04, 0.8, 0.16])).max() < 5 * np.sqrt(0.16 * 0.84 / 3000) + 0.01
    ordered = AttributeDraw(np.array([1.0, 20.0, 4.0]), None, np.zeros(3, dtype=bool))
    tree = grown(codes, columns, ordered, 5).tree
    for level, column in enumerate((1, 2, 0)):
        asked = tree.asks[tree.levels[level] : tree.levels[level + 1]]
        assert set(asked[asked >= 0]) == {column}


@pytest.mark.parametrize("n_leaf", [5, 40])
def test_children_stay_above_n_leaf(n_leaf):
    codes = rows_of(schema_of([4, 3, 5, 2]), 5000)
    columns = ["x0", "x1", "x2", "x3"]
    made = grown(codes, columns, fair(columns), 100, n_leaf)
    sizes = made.counts[1:]
    assert ((sizes == 0) | (sizes >= n_leaf)).all()
    counted = np.bincount(made.tree.index(codes), minlength=made.tree.size)
    np.testing.assert_array_equal(counted, made.counts[made.tree.leaves])
    assert made.tree.size > 1


def test_weighted_rows_count_as_often_as_they_say():
    codes = rows_of(schema_of([4, 3]), 500)
    columns = ["x0", "x1"]
    keys, inverse, often = np.unique(
        Marginal.of(codes.schema, columns).index(codes), return_inverse=True, return_counts=True
    )
    distinct = codes.take(np.array([np.flatnonzero(inverse == i)[0] for i in range(len(keys))]))
    root = TreeShape.root(codes.schema, columns)
    whole = grow(root, RowCounter(code_table(codes, columns)), fair(columns), 30)
    brief = grow(root, RowCounter(code_table(distinct, columns), often), fair(columns), 30)
    assert whole.tree.key == brief.tree.key
    np.testing.assert_array_equal(whole.counts, brief.counts)


def test_rows_go_to_their_leaf_in_blocks_too(monkeypatch):
    codes = rows_of(schema_of([4, 3, 5]), 1000)
    columns = ["x0", "x1", "x2"]
    tree = grown(codes, columns, fair(columns), 20).tree
    whole = tree.index(codes)
    monkeypatch.setattr("dipsmith.methods.forest.tree_shape.BLOCK", 64)
    np.testing.assert_array_equal(tree.index(codes), whole)


def test_large_domains_are_routed():
    schema = schema_of([300, 70_000])
    rng = np.random.default_rng(0)
    codes = Codes.of(
        schema,
        {"x0": rng.integers(0, 300, 500), "x1": rng.integers(0, 70_000, 500), "y": np.zeros(500, int)},
    )
    tree = TreeShape.root(schema, ["x0", "x1"]).split(np.array([0]))
    tree = tree.split(np.where(np.arange(300) == codes["x0"][0], 1, -1))
    path = tree.paths()[tree.index(codes)]
    np.testing.assert_array_equal(path[:, 0], codes["x0"])
    deeper = codes["x0"] == codes["x0"][0]
    np.testing.assert_array_equal(path[deeper, 1], codes["x1"][deeper])
    assert (path[~deeper, 1] == -1).all()


def test_leaves_times_labels_is_the_crossed_partition():
    codes = rows_of(schema_of([4, 3]), 300)
    tree = grown(codes, ["x0", "x1"], fair(["x0", "x1"]), 30).tree
    labels = Marginal.of(codes.schema, ["y"])
    mine, general = LabelledLeaves(tree, labels), Crossed(tree, labels)
    np.testing.assert_array_equal(mine.index(codes), general.index(codes))
    assert (mine.size, mine.attributes) == (general.size, general.attributes)
    assert mine.possible() is None
    assert mine.by_role() == (tree, labels)


def test_rules_forbid_cells_of_paths_and_labels():
    rules = [
        Rule((("x0", (1,)), ("y", (2,))), ""),
        Rule((("x0", (0,)), ("x1", (1,))), ""),
        Rule((("x1", (0,)), ("x2", (0,)), ("y", (0,))), ""),
    ]
    schema = schema_of([2, 2, 2], rules=rules)
    tree = TreeShape.root(schema, ["x0", "x1", "x2"]).split(np.array([0])).split(np.array([1, 1]))
    # leaves: 00, 01, 10, 11 over x0, x1; x2 is never asked, so the third rule decides nothing here
    assert tree.possible().tolist() == [True, False, True, True]
    table = LabelledLeaves(tree, Marginal.of(schema, ["y"])).possible().reshape(4, 3)
    expected = np.ones((4, 3), dtype=bool)
    expected[1] = False
    expected[2:, 2] = False
    np.testing.assert_array_equal(table, expected)


def test_a_private_split_leaves_nothing_public():
    schema = schema_of([2, 2], roles=["public", "private"])
    labels = Marginal.of(schema, ["y"])
    public = TreeShape.root(schema, ["x0", "x1"]).split(np.array([0]))
    private = TreeShape.root(schema, ["x0", "x1"]).split(np.array([1]))
    assert LabelledLeaves(public, labels).by_role() == (public, labels)
    mixed = LabelledLeaves(private, labels)
    assert mixed.by_role() == (None, mixed)
    assert public.by_role() == (public, None)
    assert private.by_role() == (None, private)


def test_key_tells_trees_apart():
    schema = schema_of([2, 2])
    root = TreeShape.root(schema, ["x0", "x1"])
    one, other = root.split(np.array([0])), root.split(np.array([1]))
    assert one.size == other.size
    assert one.key != other.key
    assert one.key == root.split(np.array([0])).key


def test_a_tree_needs_known_columns():
    with pytest.raises(SchemaError, match="nowhere"):
        TreeShape.root(schema_of([2]), ["nowhere"])


def test_draw_never_takes_a_used_column_by_rounding():
    # A coin that falls on the very end of the cumulated weights must stay on the last free column.
    coins = SimpleNamespace(random=lambda n: np.full(n, 1.0))
    draw = AttributeDraw(np.array([0.1, 0.2, 0.7]), coins, np.zeros(3, dtype=bool))
    used = np.array([[False, False, True], [True, False, True], [False, True, True]])
    assert draw.pick(used).tolist() == [1, 1, 0]


def test_occupied_leaves_number_those_with_rows_and_put_all_others_together():
    schema = schema_of([6, 5, 7])
    columns = ["x0", "x1", "x2"]
    seen, others = rows_of(schema, 400, seed=1), rows_of(schema, 5000, seed=2)
    made = grown(seen, columns, fair(columns), 8)
    occupied = np.flatnonzero(made.counts[made.tree.leaves] > 0)
    leaves = made.tree.with_occupied(occupied)
    assert 0 < len(occupied) < made.tree.size
    assert leaves.size == len(occupied) + 1
    found, whole = leaves.index(others), made.tree.index(others)
    inside = np.isin(whole, occupied)
    assert inside.any()
    assert not inside.all()
    np.testing.assert_array_equal(occupied[found[inside]], whole[inside])
    assert (found[~inside] == len(occupied)).all()
    assert (np.bincount(leaves.index(seen), minlength=leaves.size)[:-1] > 0).all()


def test_a_tree_without_questions_is_one_cell_whatever_the_rows():
    schema = schema_of([3])
    root = TreeShape.root(schema, ["x0"])
    assert root.index(rows_of(schema, 5)).tolist() == [0] * 5
    assert root.with_occupied(np.array([0])).index(rows_of(schema, 5)).tolist() == [0] * 5
    assert root.with_occupied(np.array([], dtype=np.int64)).index(rows_of(schema, 5)).tolist() == [0] * 5


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
