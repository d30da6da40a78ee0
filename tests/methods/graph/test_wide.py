"""Wide rounds: AIM finds what no pair of columns shows, and loses nothing where there is nothing to find."""

import numpy as np
import pytest

from dipsmith.errors import UsageError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.wide import MOST_CELLS, MOST_SETS, bearable_cells, handicap, larger_sets
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit


def rows_of(columns, relation="add-remove"):
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(int(c.max()) + 1)], other="0"))
        for n, c in columns.items()
    )
    return Codes.of(Schema("t", attributes, Unit(), relation), columns)


def parity_rows(ways, n=50_000, keep=0.95, columns=8, seed=0, relation="add-remove"):
    """Fair coins, and y, which is the parity of the first few in `keep` of the rows."""
    rng = np.random.default_rng(seed)
    found = {f"x{i}": rng.integers(0, 2, n) for i in range(columns - 1)}
    parity = sum(found[f"x{i}"] for i in range(ways)) % 2
    found["y"] = np.where(rng.random(n) < keep, parity, 1 - parity)
    return rows_of(found, relation)


def kept(model, ways):
    """How often y is the parity in the model."""
    table = model.marginal((*(f"x{i}" for i in range(ways)), "y"))
    even = np.indices(table.shape).sum(axis=0) % 2 == 0
    return float(table[even].sum())


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP.from_approx(1, 1e-9)], ids=["pure", "zcdp"])
@pytest.mark.parametrize("ways", [2, 3])
def test_parities_are_found_without_being_told(ways, budget):
    """The set misses 45,000 rows, a hundred times the scale of the choice: to pass it over has odds below e^-50."""
    codes = parity_rows(ways)
    curator = Curator.rehearse(codes, budget, seed=3)
    model = AIM().fit(curator)
    assert kept(model, ways) >= 0.93
    assert sum(e.budget.units for e in curator._journal.events) == budget.units
    assert {c.sensitivity for c in curator._journal.events if isinstance(c, Chosen)} == {1}
    pairs = AIM(degree=2).fit(Curator.rehearse(codes, budget, seed=3))
    assert kept(pairs, ways) < 0.6
    assert all(len(t.marginal.attributes) <= 2 for t in pairs.measurements)


@pytest.mark.slow
def test_a_parity_of_four_is_kept_where_sets_of_five_are_asked_for():
    model = AIM(degree=5).fit(Curator.rehearse(parity_rows(4), ZCDP.from_approx(1, 1e-9), seed=3))
    assert kept(model, 4) >= 0.93


def test_a_weak_parity_among_columns_that_depend_on_each_other():
    rng = np.random.default_rng(1)
    n = 30_000
    a = rng.integers(0, 4, n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(0, 4, n))
    c = np.where(rng.random(n) < 0.5, b, rng.integers(0, 4, n))
    p, q = rng.integers(0, 2, n), (c + rng.integers(0, 2, n)) % 2
    y = np.where(rng.random(n) < 0.7, p ^ q, 1 - (p ^ q))
    codes = rows_of({"a": a, "b": b, "c": c, "p": p, "q": q, "y": y})
    model = AIM().fit(Curator.rehearse(codes, ZCDP("0.02"), seed=1))
    table = model.marginal(("p", "q", "y"))
    even = np.indices(table.shape).sum(axis=0) % 2 == 0
    assert float(table[even].sum()) == pytest.approx(0.7, abs=0.03)


@pytest.mark.slow
def test_nothing_larger_is_measured_where_pairs_say_all():
    """A chain of columns: over 3 runs no triple misses more than the best pair by 5 % of the rows."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        columns = {"x0": rng.integers(0, 3, 20_000)}
        for i in range(1, 7):
            columns[f"x{i}"] = np.where(rng.random(20_000) < 0.6, columns[f"x{i - 1}"], rng.integers(0, 3, 20_000))
        model = AIM(rounds=10).fit(Curator.rehearse(rows_of(columns), ZCDP("0.05"), seed=seed))
        assert max(len(t.marginal.attributes) for t in model.measurements) == 2


def test_a_wide_round_stays_within_the_limit_of_the_model():
    codes = parity_rows(3, n=5000)
    for limit in (20, 40):
        model = AIM(max_cells=limit).fit(Curator.rehearse(codes, ZCDP(1), seed=1))
        assert model.tree.cells <= limit


def test_a_workload_of_ones_own_is_not_widened():
    codes = parity_rows(2, n=5000)
    model = AIM(workload=[["x0", "x1"], ["x1", "y"]]).fit(Curator.rehearse(codes, ZCDP(1), seed=1))
    assert max(len(t.marginal.attributes) for t in model.measurements) == 2


def test_larger_sets_are_bounded_by_public_sizes():
    many = rows_of({f"x{i}": np.arange(60) % 3 for i in range(60)}).schema
    found = larger_sets(many, 1e9)
    assert len(found) == MOST_SETS
    assert {len(s) for s in found} == {3}
    wide = rows_of({f"x{i}": np.arange(120) for i in range(6)}).schema
    assert sum(map(wide.size, larger_sets(wide, 1e9))) <= MOST_CELLS
    assert larger_sets(wide, 1000) == []
    eight = parity_rows(2, n=100).schema
    assert len(larger_sets(eight, 8)) == 56
    assert len(larger_sets(eight, 16)) == 56 + 70


def test_the_handicap_grows_with_chance_and_rows():
    assert handicap(np.zeros(4), 1000.0) == pytest.approx(50)
    assert handicap(np.full(4, 250.0), 1000.0) == pytest.approx(50 + 4 * np.sqrt(1000 / np.pi))
    assert bearable_cells(1000, 10) < bearable_cells(1000, 1) < bearable_cells(10_000, 1)


def test_degree_is_a_number_or_auto():
    for wrong in (0, "all"):
        with pytest.raises(UsageError, match="degree"):
            AIM(degree=wrong)


def test_what_wide_rounds_offer_is_counted_with_the_columns(monkeypatch):
    ahead, offered = set(), set()
    monkeypatch.setattr(Curator, "prefetch", lambda self, tables: ahead.update(t.attributes for t in tables))
    choose = Curator.choose
    monkeypatch.setattr(Curator, "choose", lambda self, sets, *more: offered.update(sets) or choose(self, sets, *more))
    AIM(rounds=4).fit(Curator.rehearse(parity_rows(2, n=3000, columns=5), PureDP(10), seed=1))
    assert {len(names) for names in offered} == {1, 2, 3, 4}
    assert offered <= ahead
