"""Layers and ranges as hierarchies, the noisy tree on them, and what public facts say is readable."""

from math import sqrt

import numpy as np
import pytest

from dipsmith.errors import UsageError
from dipsmith.estimation.tree import Tree, level_weights
from dipsmith.methods.hierarchy.layers import Layer, LayerCells, Layers
from dipsmith.methods.hierarchy.levels import Readable
from dipsmith.methods.hierarchy.noisy_tree import NoisyTree, _round_at_random, measure
from dipsmith.methods.hierarchy.ranges import (
    Ranges,
    average_variance,
    best_depth,
    branching_for,
    range_weights,
)
from dipsmith.methods.outlook import spurious_rows
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Bins, Categories, Codes, Marginal, Rule, Schema, Unit


def schema_of(rules=(), relation="replace", **sizes):
    listed = {name: Categories.of([str(i) for i in range(k)], other="0") for name, k in sizes.items()}
    return Schema("t", tuple(Attribute(n, "string", d) for n, d in listed.items()), Unit(), relation, rules)


def rows_of(schema, n=500, seed=0):
    rng = np.random.default_rng(seed)
    codes = Codes.of(schema, {a.name: (a.size * rng.random(n) ** 1.5).astype(int) for a in schema}, n)
    return codes.take(codes.lawful())


RULES = (Rule((("a", (1,)), ("c", (0, 2)))), Rule((("b", (2,)), ("d", (1,)))))


def branching(schema):
    """Three layers with branches of their own order and length."""
    return Layers(
        schema,
        (
            Layer.of([("a",)]),
            Layer.of([("b", "d"), ("c",)]),
            Layer.of([("c",), (), ("c",), (), ("c",), (), ("b",), (), (), ("d",)]),
        ),
    )


@pytest.fixture(scope="module")
def schema():
    return schema_of(RULES, a=2, b=3, c=4, d=2)


def test_shape_of_a_tree_with_branches_of_their_own(schema):
    layers = branching(schema)
    assert layers.nodes == (1, 2, 10, 4 + 1 + 4 + 1 + 4 + 1 + 3 + 1 + 1 + 2, 48)
    assert layers.order is None
    assert np.diff(layers.tree.layers).tolist() == list(layers.nodes)
    assert np.array_equal(np.sort(layers.leaf_cells), np.arange(48))


@pytest.mark.parametrize("make", [branching, lambda s: Layers.uniform(s, [("b",), ("a", "d")])])
def test_every_level_adds_up_to_the_one_above(schema, make):
    layers = make(schema)
    codes = rows_of(schema)
    counts = [np.bincount(cells.index(codes), minlength=cells.size) for cells in layers.levels]
    if layers.leaf_cells is not None:
        counts[-1] = counts[-1][layers.leaf_cells]
    tree, flat = layers.tree, np.concatenate(counts)
    for family in tree.families():
        assert np.array_equal(family.sums(flat[family.children].astype(float)), flat[family.nodes])


@pytest.mark.parametrize("make", [branching, lambda s: Layers.uniform(s, [("a",), ("c",)])])
def test_nodes_that_rules_forbid_are_known(schema, make):
    layers = make(schema)
    every = np.unravel_index(np.arange(48), (2, 3, 4, 2))
    codes = Codes.of(schema, dict(zip(schema.names, every, strict=True)))
    lawful = codes.lawful()
    for cells in layers.levels:
        possible = cells.possible()
        if possible is None:
            possible = np.ones(cells.size, dtype=bool)
        # A node with a lawful cell is possible; one that its own path forbids has none.
        holds = np.bincount(cells.index(codes), lawful, cells.size) > 0
        assert not (holds & ~possible).any()
    last = layers.levels[-2].possible()
    assert last is not None
    assert not last.all()


def test_keys_tell_trees_apart(schema):
    first = branching(schema)
    second = Layers(schema, (Layer.of([("a",)]), Layer.of([("b", "d"), ("d",)])))
    third = Layers(schema, (Layer.of([("a",)]), Layer.of([("d",), ("b", "d")])))
    keys = {LayerCells(layers, 2).key for layers in (first, second, third)}
    assert len(keys) == 3
    assert LayerCells(first, 2).attributes == ("a", "b", "c", "d")
    assert LayerCells(first, 2).by_role()[0] is None


@pytest.mark.parametrize(
    ("layers", "match"),
    [
        ([Layer.of([("a",)]), Layer.of([("a",), ("b",)])], "already divided"),
        ([Layer.of([("a", "a")])], "already divided"),
        ([Layer.of([("a",)]), Layer.of([("b",)])], "divides 1 nodes, expected 2"),
        ([Layer.of([("a",)]), Layer.of([("b",), ()]), Layer.of([("c",), ("b",), (), ()])], "already divided"),
    ],
)
def test_impossible_layers_are_refused(schema, layers, match):
    with pytest.raises(UsageError, match=match):
        Layers(schema, tuple(layers))


def test_uniform_layers_use_a_column_once(schema):
    with pytest.raises(UsageError, match="'a' has already divided"):
        Layers.uniform(schema, [("a",), ("b", "a")])


def test_state_round_trips(schema):
    layers = branching(schema)
    again = Layers.from_state(schema, *layers.state())
    assert again.digest == layers.digest
    assert np.array_equal(again.tree.parent, layers.tree.parent)


# --- the noisy tree ----------------------------------------------------------------------------------


def noisy(layers, seed=0, epsilon="1", relation_rows=None):
    curator = Curator.rehearse(rows_of(layers.schema, 400), PureDP(epsilon), given_rows=relation_rows, seed=seed)
    weights = level_weights(layers.nodes[1:], "epsilon")
    return measure(curator, layers, [None, *curator.budget.split(weights)])


@pytest.mark.parametrize("post", ["project", "clip"])
@pytest.mark.parametrize("seed", range(5))
def test_counts_are_consistent_lawful_and_have_the_public_total(schema, post, seed):
    tree = noisy(branching(schema), seed, "0.3")
    made = tree.counts(post)
    assert made.min() >= 0
    assert made[0] == pytest.approx(tree.values[0][0])
    for family in tree.tree.families():
        assert family.sums(made[family.children]) == pytest.approx(made[family.nodes], abs=1e-8)
    forbidden = ~tree.marginal.possible()
    assert (tree.cells(post)[forbidden] == 0).all()
    assert (tree.estimates[~tree.possible] == 0).all()
    drawn = tree.rows(post, 1000, generator(seed))
    assert drawn.sum() == 1000
    assert (drawn[forbidden] == 0).all()


@pytest.mark.slow
def test_rows_meet_the_upper_levels_and_every_cell_on_average(schema):
    tree = noisy(branching(schema), 3)
    made = tree.counts("project") * 250 / tree.total
    cells = tree.cells("project") * 250 / tree.total
    # 600 draws; a cell's rounding has variance at most 1/4, plus up to 1 per node from rounding above it,
    # which is not random. Its mean is therefore compared with the share of its rounded parent.
    total = np.zeros(48)
    node = LayerCells(tree.hierarchy, 3).index(
        Codes.of(schema, dict(zip(schema.names, np.unravel_index(np.arange(48), (2, 3, 4, 2)), strict=True)))
    )
    parents = made[tree.tree.layers[3] : tree.tree.layers[4]]
    for seed in range(600):
        drawn = tree.rows("project", 250, generator(seed))
        total += drawn
        upper = np.bincount(node, drawn, len(parents))
        assert np.abs(upper - parents).max() < 3  # one rounding for each of three levels
    rounded = upper[node]
    expected = np.divide(cells * rounded, parents[node], out=np.zeros(48), where=parents[node] > 0)
    # six standard errors: 6·0.5/√600 = 0.123; 48 cells: false-positive rate below 1e-7
    assert np.abs(total / 600 - expected).max() < 0.123


def test_rounding_does_not_favour_every_second_cell():
    """Equal weights of one half in a table of two columns: in the order of cells, one column would be constant."""
    sizes, totals = np.array([1000]), np.array([500])
    drawn = _round_at_random(np.full(1000, 0.5), sizes, totals, generator(1))
    assert drawn.sum() == 500
    even = drawn[::2].sum()
    assert 100 < even < 400  # hypergeometric: mean 250, sd 8


def test_rounding_is_exact_in_every_family():
    rng = np.random.default_rng(0)
    for seed in range(200):
        sizes = rng.integers(1, 9, 30)
        weights = np.where(rng.random(sizes.sum()) < 0.4, 0.0, rng.exponential(3, sizes.sum()))
        sums = np.add.reduceat(weights, np.cumsum(sizes) - sizes)
        totals = np.where(sums > 0, rng.poisson(np.maximum(sums, 0.1)), 0)
        drawn = _round_at_random(weights, sizes, totals, generator(seed))
        assert np.array_equal(np.add.reduceat(drawn, np.cumsum(sizes) - sizes), totals)
        assert drawn.min() >= 0
        assert (drawn[weights == 0] == 0).all()
        share = np.divide(totals, sums, out=np.zeros(30), where=sums > 0)
        assert np.abs(drawn - weights * np.repeat(share, sizes)).max() < 1 + 1e-9


def test_a_tree_of_noise_alone_still_gives_rows(schema):
    layers = branching(schema)
    values = tuple(np.full(n, -5, dtype=np.int64) for n in layers.nodes)
    tree = NoisyTree(layers, values, (4.0, 2.0, 2.0, 2.0, 1.0))
    drawn = tree.rows("project", 100, generator(0))
    assert drawn.sum() == 100
    assert (drawn[~tree.marginal.possible()] == 0).all()


def test_answers_have_the_variance_of_least_squares(schema):
    """Against dense least squares: the answer to a random question and its standard error."""
    layers = branching(schema)
    tree = noisy(layers, 1)
    incidence = np.zeros((layers.tree.size, 48))
    for node in range(layers.tree.size - 48, layers.tree.size):
        leaf, up = node - (layers.tree.size - 48), node
        while up >= 0:
            incidence[up, leaf] = 1
            up = layers.tree.parent[up]
    possible = tree.possible[-48:]
    used = np.flatnonzero((tree.noise > 0) & tree.possible)
    root = np.array([0])
    a, y, v = incidence[np.ix_(used, possible)], np.concatenate(tree.values)[used], tree.noise[used]
    kkt = np.block(
        [
            [a.T @ (a / v[:, None]), incidence[np.ix_(root, possible)].T],
            [incidence[np.ix_(root, possible)], np.zeros((1, 1))],
        ]
    )
    right = np.concatenate([a.T @ (y / v), tree.values[0]])
    x = np.linalg.solve(kkt, right)[:-1]
    covariance = np.linalg.inv(kkt)[:-1, :-1]
    weights = np.random.default_rng(0).standard_normal(48)
    in_order = weights[layers.leaf_cells][possible]
    found = tree.answer(weights)
    assert found.value == pytest.approx(in_order @ x, rel=1e-9)
    assert found.standard_error == pytest.approx(sqrt(in_order @ covariance @ in_order), rel=1e-9)


# --- ranges ------------------------------------------------------------------------------------------


def test_ranges_are_intervals_within_intervals():
    ages = Schema(
        "t",
        (
            Attribute(
                "age",
                "integer",
                Bins(tuple(map(float, range(101))), "integer", tuple(map(str, range(100))), 0, 99),
            ),
        ),
        Unit(),
        "replace",
        (Rule((("age", tuple(range(90, 100))),)),),
    )
    ranges = Ranges(ages, 5)
    assert ranges.nodes == (1, 4, 20, 100)
    codes = Codes.of(ages, {"age": np.arange(90)})
    counts = np.concatenate([np.bincount(c.index(codes), minlength=c.size) for c in ranges.levels])
    for family in ranges.tree.families():
        assert np.array_equal(family.sums(counts[family.children].astype(float)), counts[family.nodes])
    assert [int(c.possible().sum()) for c in ranges.levels[1:]] == [4, 18, 90]
    assert Ranges(ages, 100).nodes == (1, 100)
    assert Ranges(schema_of(a=1), 2).nodes == (1, 1)
    with pytest.raises(UsageError, match="one column"):
        Ranges(schema_of(a=2, b=2), 2)
    with pytest.raises(UsageError, match="at least 2"):
        Ranges(ages, 1)


@pytest.mark.parametrize("values", [1, 2, 3, 10, 90, 1000, 4096])
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_branching_is_the_smallest_that_reaches(values, depth):
    b = branching_for(values, depth)
    assert b**depth >= values
    assert b == 2 or (b - 1) ** depth < values


@pytest.mark.slow
def test_depth_pays_only_for_many_values():
    assert best_depth(50, "epsilon") == 1
    assert best_depth(256, "epsilon") == 2
    assert best_depth(4096, "epsilon") > 1
    for values in (50, 256):
        found = [average_variance(values, d, "epsilon") for d in (1, 2, 3, 4)]
        assert best_depth(values, "epsilon") == 1 + int(np.argmin(found))
    assert range_weights([1, 64], "epsilon") == [1.0, 2.0]
    assert range_weights([1, 16], "rho") == [1.0, 2.0]


# --- readable ----------------------------------------------------------------------------------------


def test_spurious_rows_are_what_noise_leaves_in_empty_cells():
    rng = np.random.default_rng(0)
    noise = rng.laplace(0, 3.0, 10**6)
    # 1e6 draws of max(0, Laplace(3)): mean 1.5, sd of the mean 0.0026; six of them
    assert spurious_rows(1, 3 * sqrt(2)) == pytest.approx(np.maximum(noise, 0).mean(), abs=0.016)


@pytest.mark.parametrize("budget", [PureDP("0.2"), ZCDP("0.01")])
def test_layers_are_readable_until_their_noise_outweighs_the_rows(budget):
    facts = Readable("replace", 1, budget, 44_821, 1_290_240)
    assert facts.hopeless(facts.leaves, facts.sd_alone)
    sizes = [2**k for k in range(18)]
    worth = [facts.worth_dividing(size) for size in sizes]
    assert worth[0]
    assert worth == sorted(worth, reverse=True)
    assert not worth[-1]
    assert facts.sd(4) > facts.sd_alone
    unknown = Readable("replace", 1, budget, None, 1_290_240)
    assert unknown.worth_dividing(10**6)


def test_level_weights_minimise_total_squared_error():
    nodes = [2, 30, 1800]
    for currency, power in (("epsilon", 2), ("rho", 1)):
        best = np.array(level_weights(nodes, currency))
        best = best / best.sum()
        error = (nodes / best**power).sum()
        rng = np.random.default_rng(0)
        for _ in range(200):
            other = best * np.exp(0.1 * rng.standard_normal(3))
            other /= other.sum()
            assert (nodes / other**power).sum() >= error * (1 - 1e-9)


def test_tree_of_a_uniform_order_needs_no_reordering(schema):
    layers = Layers.uniform(schema, [("d",)])
    assert layers.leaf_cells == slice(None)
    assert layers.table.attributes == ("d", "a", "b", "c")
    assert isinstance(layers.tree, Tree)
    assert [c.key for c in layers.levels] == ["(total)", "d", "d × a × b × c"]
    assert isinstance(layers.levels[1], Marginal)
    assert layers.deepen(3).nodes == (1, 2, 2, 2, 48)
