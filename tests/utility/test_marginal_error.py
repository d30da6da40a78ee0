"""Distances of marginals and their floors, range queries, cell sizes, subgroups."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.schema import Codes
from dipsmith.utility.crosstabs import Crosstabs, exchanged_gaps, expected_gaps
from dipsmith.utility.full_table import cell_sizes
from dipsmith.utility.marginal_error import answers, marginal_error, range_error
from dipsmith.utility.pair import Pair
from dipsmith.utility.subgroups import subgroups


@pytest.fixture
def pair(small):
    schema = small.lists([3, 4, 2, 5], ordered=(1, 3))
    rng = np.random.default_rng(0)
    return Pair(small.uniform(schema, 700, rng), small.uniform(schema, 900, rng))


def by_hand(pair, names):
    shares = []
    for side in (pair.authentic, pair.synthetic):
        rows = zip(*(side[n].tolist() for n in names), strict=True)
        shares.append({k: v / len(side) for k, v in Counter(rows).items()})
    keys = set(shares[0]) | set(shares[1])
    return 0.5 * sum(abs(shares[0].get(k, 0) - shares[1].get(k, 0)) for k in keys)


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_every_distance_is_that_of_the_definition(pair, ways):
    found = marginal_error(Crosstabs(pair), ways)
    assert [t.names for t in found.tables] == list(combinations(pair.names, ways))
    for table in found.tables:
        assert table.tvd == pytest.approx(by_hand(pair, table.names))
    assert found.mean == pytest.approx(np.mean([by_hand(pair, n) for n in combinations(pair.names, ways)]))
    assert found.possible == len(found.tables)


def test_a_table_held_by_its_occupied_cells_gives_the_same(pair, monkeypatch):
    dense = marginal_error(Crosstabs(pair), 3)
    monkeypatch.setattr("dipsmith.utility.crosstabs.DENSE_CELLS", 10)
    sparse = marginal_error(Crosstabs(pair), 3)
    assert [t.tvd for t in sparse.tables] == pytest.approx([t.tvd for t in dense.tables])


def test_equal_tables_have_no_distance(pair):
    same = Crosstabs(Pair(pair.authentic, pair.authentic))
    assert marginal_error(same, 2).mean == 0
    assert cell_sizes(same.pair).invented == 0
    assert cell_sizes(same.pair).correlation == pytest.approx(1)


def test_many_columns_are_sampled_and_the_report_knows(small, monkeypatch):
    monkeypatch.setattr("dipsmith.utility.crosstabs.MOST_TABLES", 30)
    schema = small.lists([2] * 12)
    rng = np.random.default_rng(1)
    found = marginal_error(Crosstabs(Pair(small.uniform(schema, 50, rng), small.uniform(schema, 50, rng))), 3)
    assert len(found.tables) == 30
    assert found.possible == 220


def test_the_floor_is_what_two_samples_give(small):
    # 200 pairs of samples from one distribution: the mean distance equals the mean floor. The s.e. of a mean TVD over
    # 200 pairs is below .0004; the tolerance is five of them.
    rng = np.random.default_rng(2)
    schema = small.lists([6, 7])
    p = rng.dirichlet(np.full(42, 0.4))
    gaps, floors = [], []
    for _ in range(200):
        sides = []
        for n in (300, 450):
            cell = rng.choice(42, n, p=p)
            sides.append(Codes.of(schema, {"x0": cell // 7, "x1": cell % 7}, n))
        found = marginal_error(Crosstabs(Pair(*sides)), 2)
        gaps.append(found.mean)
        floors.append(found.floor)
    assert np.mean(floors) == pytest.approx(np.mean(gaps), abs=0.002)


def test_the_floor_with_given_columns_is_what_fresh_labels_give(small):
    # Labels drawn twice from P(y | x) for the same rows x, x nearly unique.
    rng = np.random.default_rng(3)
    schema = small.lists([30, 20, 3], neighbours="label", public=(0, 1))
    n = 1500
    x0, x1 = rng.integers(0, 30, n), rng.integers(0, 20, n)
    p = rng.dirichlet([0.5, 0.5, 0.5], 30)[x0]
    gaps, floors, loose = [], [], []
    for _ in range(60):
        sides = []
        for _ in range(2):
            y = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
            sides.append(Codes.of(schema, {"x0": x0, "x1": x1, "x2": y}, n))
        pair = Pair.of(*sides, schema.public)
        assert pair.given == ("x0", "x1")
        found = marginal_error(Crosstabs(pair), 2)
        gaps.append(found.mean)
        floors.append(found.floor)
        loose.append(marginal_error(Crosstabs(Pair(*sides)), 2).floor)
    # s.e. of both means about .0005
    assert np.mean(floors) == pytest.approx(np.mean(gaps), abs=0.004)
    assert np.mean(loose) > 1.2 * np.mean(gaps)  # ignoring what is given would flatter the release


@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_expected_gaps_equal_enumeration(k, n, m):
    from scipy.stats import hypergeom

    k = min(k, n + m)
    drawn = np.arange(k + 1)
    exact = float((hypergeom.pmf(drawn, n + m, n, k) * np.abs(drawn / n - (k - drawn) / m)).sum())
    assert expected_gaps(np.array([k]), n, m)[0] == pytest.approx(exact, abs=1e-9)


def test_exchanged_gaps_are_those_of_random_signs():
    rng = np.random.default_rng(4)
    for flips in (1, 2, 5, 30, 400):
        signs = np.abs(rng.choice([-1, 1], (4000, flips)).sum(axis=1)).mean()
        assert exchanged_gaps(np.array([float(flips)]), 1)[0] == pytest.approx(signs, rel=0.2)


def test_range_queries_are_sums_of_cells(pair):
    found = {e.names: e for e in range_error(Crosstabs(pair))}
    assert set(found) == {("x1",), ("x3",), ("x1", "x3")}
    shares = [np.bincount(s["x3"], minlength=5) / len(s) for s in (pair.authentic, pair.synthetic)]
    errors = [abs(shares[0][a:b].sum() - shares[1][a:b].sum()) for a in range(5) for b in range(a + 1, 6)]
    assert found[("x3",)].queries == 15
    assert found[("x3",)].mean == pytest.approx(np.mean(errors))
    assert found[("x3",)].largest == pytest.approx(max(errors))


def test_the_floor_of_range_queries_is_what_two_samples_give(small):
    # 300 pairs of samples of 400 and 500 rows: the mean error of all 15 ranges has a standard deviation of about .6 of its
    # mean; five standard errors are .6·5/√300 = .17 of it
    schema = small.lists([5, 3], ordered=(0,))
    rng = np.random.default_rng(3)
    errors, floors = [], []
    for _ in range(300):
        drawn = [Codes.of(schema, {"x0": rng.binomial(4, 0.4, n), "x1": rng.integers(0, 3, n)}, n) for n in (400, 500)]
        found = {e.names: e for e in range_error(Crosstabs(Pair(*drawn)))}[("x0",)]
        errors.append(found.mean)
        floors.append(found.floor)
    assert np.mean(floors) == pytest.approx(np.mean(errors), rel=0.17)
    assert np.std(floors) < 0.1 * np.mean(floors)  # it is an expectation, not a draw


def test_rectangles_are_sums_of_cells():
    table = np.arange(12.0).reshape(3, 4)
    found = answers(table, [(np.array([0, 1]), np.array([2, 3])), (np.array([1, 0]), np.array([4, 1]))])
    assert found.tolist() == [table[0:2, 1:4].sum(), table[1:3, 0:1].sum()]


def test_cell_sizes_by_hand(small):
    schema = small.lists([10, 10])
    left = Codes.of(schema, {"x0": np.array([0, 0, 0, 1, 2, 2]), "x1": np.array([0, 0, 0, 1, 2, 2])}, 6)
    right = Codes.of(schema, {"x0": np.array([0, 1, 5, 5]), "x1": np.array([0, 1, 5, 5])}, 4)
    found = cell_sizes(Pair(left, right))
    assert found.cells == 100
    assert found.authentic == ((1, 1), (1, 2), (1, 3), (0, 0), (0, 0), (0, 0))
    assert found.synthetic == ((2, 2), (1, 2), (0, 0), (0, 0), (0, 0), (0, 0))
    assert (found.invented, found.invented_rows) == (pytest.approx(1 / 3), 0.5)
    assert (found.lost, found.lost_rows) == (pytest.approx(1 / 3), pytest.approx(2 / 6))


def test_the_group_that_was_spoiled_is_named(small):
    rng = np.random.default_rng(5)
    schema = small.lists([6, 5, 4, 3])
    left = small.uniform(schema, 6000, rng)
    right = small.uniform(schema, 6000, rng)
    spoiled = (right["x0"] == 3) & (right["x1"] == 2)
    right = Codes.of(schema, {**right.columns, "x2": np.where(spoiled, 0, right["x2"])}, 6000)
    found = subgroups(Crosstabs(Pair(left, right)))
    assert str(found.worst[0]) == "x0 = l3, x1 = l2"
    assert found.worst[0].excess > 0.2
    assert found.worst[1].excess < found.worst[0].excess - 0.1


def test_small_groups_are_counted_but_not_named(small):
    rng = np.random.default_rng(6)
    schema = small.lists([2, 2, 2])
    left = small.uniform(schema, 500, rng)
    columns = {n: c.copy() for n, c in left.columns.items()}
    columns["x0"][:] = 0
    columns["x0"][:3] = 1  # three people
    left = Codes.of(schema, columns, 500)
    right = Codes.of(schema, {**left.columns, "x0": np.zeros(500, int)}, 500)
    found = subgroups(Crosstabs(Pair(left, right)))
    assert all(g.authentic >= 10 for g in found.worst)
    assert sum(c.lost for c in found.classes) > 0


def test_without_a_difference_no_group_stands_out(small):
    # With perfect samples the mean excess over all groups is 0 up to chance.
    rng = np.random.default_rng(7)
    schema = small.lists([8, 8, 4])
    excess = []
    for _ in range(20):
        found = subgroups(Crosstabs(Pair(small.uniform(schema, 1500, rng), small.uniform(schema, 1500, rng))))
        excess += [c.tvd - c.floor for c in found.classes]
    assert abs(np.mean(excess)) < 0.01


def test_tables_that_are_not_kept_give_the_same_in_the_same_order(pair, monkeypatch):
    """Large tables are counted again by who asks again, and factorials computed where there are too many to look up."""
    kept = Crosstabs(pair)
    known = [marginal_error(kept, 3), subgroups(kept)]
    monkeypatch.setattr("dipsmith.utility.crosstabs.KEPT_CELLS", 30)
    monkeypatch.setattr("dipsmith.utility.crosstabs.AT_ONCE", 50)
    monkeypatch.setattr("dipsmith.utility.crosstabs.FACTORIALS", 1)
    again = Crosstabs(pair)
    found = [marginal_error(again, 3), subgroups(again)]
    assert len(again._counted) < len(kept._counted)
    assert [t.names for t in found[0].tables] == [t.names for t in known[0].tables]
    assert found[0].floor == pytest.approx(known[0].floor, rel=1e-9)
    assert [(str(g), g.authentic) for g in found[1].worst] == [(str(g), g.authentic) for g in known[1].worst]
    assert [c.floor for c in found[1].classes] == pytest.approx([c.floor for c in known[1].classes], rel=1e-9)
