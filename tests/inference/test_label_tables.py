"""Direct estimates under `label`: noisy label tables hold shares, odds and regressions that nobody planned."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.analyses.direct import DECIDE
from dipsmith.errors import NotCarried
from dipsmith.inference.direct import NoisyPair
from dipsmith.inference.tests import _Average, independence
from dipsmith.synthesis.label_system import LabelSystem, RowWeights
from dipsmith.synthesis.label_table import LabelTable
from dipsmith.synthesis.label_tables import LabelTables

FIELDS = [
    {"name": "a", "type": "string", "enum": ["p", "q", "r"], "other": "p", "role": "public"},
    {"name": "x", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 1}, "role": "public"},
    {"name": "z", "type": "number", "minimum": 0, "maximum": 10, "bins": {"width": 2}, "role": "public"},
    {"name": "y", "type": "integer", "minimum": 0, "maximum": 19, "bins": {"width": 1}, "role": "public"},
    {"name": "s", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
    {"name": "t", "type": "string", "enum": ["u", "v", "w"], "other": "u", "role": "private"},
]
SCHEMA = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "label", "fields": FIELDS})
MAIN = "y ~ s + t + x + a"
DETERMINED = [
    ('I(s == "F") ~ 1', "ols"),
    ('I(s == "F") ~ a', "ols"),
    ("s ~ a + x", "logistic"),
    ('I(s == "F") ~ t', "ols"),
    (MAIN, "ols"),
    ("y ~ s + x | a", "ols"),
]


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    x = np.clip(a + rng.integers(0, 8, n), 0, 9)
    s = rng.random(n) < 0.25 + 0.05 * x
    t = np.searchsorted([0.3, 0.7], rng.random(n))
    y = np.clip(np.round(5 + 0.6 * x + a - 2.0 * s + t + rng.normal(0, 2, n)), 0, 19).astype(int)
    labels = {"s": np.where(s, "F", "M"), "t": np.array(list("uvw"))[t]}
    return pa.table({"a": np.array(list("pqr"))[a], "x": x, "z": rng.random(n) * 10, "y": y, **labels})


def made(method, budget, **more):
    return ds.synthesize(
        rows(), SCHEMA, method, budget=more.pop("kind", ds.PureDP)(budget), testing=True, noise_seed=1, **more
    )


@pytest.fixture(scope="module")
def exact():
    """So large a budget that there is no noise: tables are what they count."""
    return made(ds.LogLinear(targets=["s", "t"]), 10_000)


@pytest.fixture(scope="module")
def planned():
    return made(ds.Forest(targets=["s", "t"]), 3, analyses=[MAIN])


@pytest.mark.parametrize(("formula", "family"), DETERMINED)
def test_without_noise_it_is_the_authentic_estimate(exact, formula, family):
    found = ds.fit(exact, formula, family=family)
    authentic = ds.fit(rows(), formula, family=family)
    assert found.direct
    assert "s" in formula
    for name in found.names:
        assert found[name].value == pytest.approx(authentic[name].value, abs=1e-4), name
        assert found[name].std_error == pytest.approx(authentic[name].std_error, rel=0.02), name


def test_the_reference_is_as_asked(exact):
    one, other = (ds.fit(exact, MAIN, reference={"s": level})["s[T." + to + "]"].value for level, to in ("MF", "FM"))
    assert one == pytest.approx(-other)


@pytest.mark.parametrize("formula", ["z ~ s + a", "y ~ s | z", "y ~ s*x*a"])
def test_what_bins_or_tables_do_not_hold_is_not_told_directly(exact, formula):
    tables = LabelTables.of(exact)
    from dipsmith.analyses.design import design_of
    from dipsmith.analyses.sums import Layout
    from dipsmith.schema.analysis import PlannedAnalysis

    layout = Layout.of(design_of(PlannedAnalysis(formula), SCHEMA, tables.public, tables.often))
    assert tables.sums(layout) is None


def test_a_share_is_told_whatever_was_planned(planned):
    share = ds.fit(planned, 'I(s == "F") ~ 1', family="ols")
    truth = np.mean(rows()["s"].to_numpy() == "F")
    assert share.direct
    assert abs(share["Intercept"].value - truth) < 5 * share["Intercept"].std_error
    # the planned sums have agency × label: shares by it are theirs
    assert ds.fit(planned, 'I(s == "F") ~ a', family="ols").direct
    with pytest.raises(NotCarried, match="adjusted to other analyses"):
        ds.fit(planned, "z ~ s")


def test_sums_of_other_analyses_are_read_only_where_counts_do_not_decide(planned, monkeypatch):
    read = []
    bought = LabelTables.whole.func
    monkeypatch.setattr(LabelTables.whole, "func", lambda tables: read.append(1) or bought(tables))
    share = 'I(s == "F") ~ 1'
    fresh = replace(planned)
    assert (fresh.supports(share, family="ols").level, read) == ("measured", [])
    # shares by agency are told by what was planned alone
    assert (fresh.supports('I(s == "F") ~ a', family="ols").level, read) == ("measured", [1])
    assert ds.fit(replace(planned), share, family="ols").direct
    assert read == [1, 1]


def test_tables_that_say_the_same_are_averaged(planned):
    tables = LabelTables.of(planned).whole
    counts = tables.joint(("s", "t"))
    own = [t.noise_of(6).sum() for t in tables.tables if t.labels == ("s", "t") and t.weight is None]
    spread = counts.redraw(np.random.default_rng(0), 4000)[""][:, 0].var(axis=0).mean()
    assert len(own) >= 3
    # 6 · 4000 draws: the variance is known to 2 % (5 σ: 12 %)
    assert spread == pytest.approx(1 / sum(1 / v for v in own), rel=0.12)


def test_gaussian_noise_is_drawn_again_as_such():
    release = made(ds.LogLinear(targets=["s", "t"]), 0.5, kind=ds.ZCDP)
    assert not any(t.laplace for t in LabelTables.of(release).tables)
    assert ds.fit(release, 'I(s == "F") ~ a', family="ols").direct


def test_tables_of_other_rows_are_not_used():
    other = rows(700, seed=5).drop_columns(["s", "t"])
    release = made(ds.LogLinear(targets=["s", "t"]), 3, onto=other)
    assert LabelTables.of(release).tables == ()


def test_sets_that_were_sanitised_separately_are_pooled():
    release = made(ds.LogLinear(targets=["s", "t"]), 6, sets=2, each="split")
    both = LabelTables.of(release)
    one = replace(both, tables=both.tables[: len(both.tables) // 2])
    spreads = [t.joint(("s",)).redraw(np.random.default_rng(0), 2000)[""].std() for t in (one, both)]
    assert spreads[1] == pytest.approx(spreads[0] / np.sqrt(2), rel=0.1)


def test_two_labels_are_tested_from_their_noisy_table(planned):
    found = independence(planned, "s", "t")
    assert found.inflation > 1
    assert 0 < found.p_value <= 1


def test_the_test_of_a_noisy_table_keeps_its_size():
    rng = np.random.default_rng(11)
    shares, sd, hits = np.outer([0.3, 0.7], [0.2, 0.3, 0.5]).ravel(), 12.0, 0
    for _ in range(150):
        counts = rng.multinomial(1500, shares).reshape(2, 3) + rng.laplace(0, sd / np.sqrt(2), (2, 3))
        noisy = NoisyPair(counts, rng.laplace(0, sd / np.sqrt(2), (120, 2, 3))).told_apart()
        average = _Average.of([noisy.counts])
        scattered = np.array([average.residuals(noisy.counts + e) for e in noisy.noise])
        hits += average.test(scattered, 1.0, "").p_value < 0.05
    # 150 repeats: .05 + 5 · .018 (6e-7)
    assert hits / 150 < 0.14


def test_levels_that_noise_hides_are_left_out():
    counts = np.array([[400.0, 300.0, 2.0], [300.0, 400.0, -1.0]])
    noise = np.random.default_rng(0).normal(0, 10, (500, 2, 3))
    assert (NoisyPair(counts, noise).told_apart().counts[:, 2] == 0).all()
    assert (NoisyPair(counts, noise).told_apart().counts[:, :2] > 0).all()


@pytest.mark.parametrize("seed", range(12))
def test_weights_are_met_where_a_dense_solver_meets_them(seed):
    """Against least squares over all cells: the same are determined, and no function with less noise meets them."""
    rng = np.random.default_rng(seed)
    rows, sizes = 60, (1, 3, 6)
    tables = []
    for size in sizes:
        weight = rng.uniform(1, 2, rows).round(1) if size == 3 and seed % 2 else None
        noise = np.full((size, 2), rng.uniform(1, 5))
        tables.append(LabelTable(("s",), rng.integers(0, size, rows), weight, np.zeros((size, 2)), noise, True, False))
    system = LabelSystem.of(tables, ("s",), SCHEMA)
    dense = np.zeros((rows, sum(sizes)))
    for table, start in zip(system.chosen, system.starts, strict=True):
        dense[np.arange(rows), table.cell + start] += 1.0 if table.weight is None else table.weight
    spoiled = rng.normal(size=rows) * np.array([0, 0, 1])[seed % 3]
    met = dense @ rng.normal(size=sum(sizes)) + spoiled
    best = np.linalg.lstsq(dense / system.noise, met, rcond=1e-10)[0] / system.noise
    possible = np.abs(dense @ best - met).max() < 1e-6
    solved = system.solve({"": RowWeights(np.zeros(rows, np.int64), 1, met)})
    assert possible == (solved is not None) == (seed % 3 != 2)
    if solved is not None:
        np.testing.assert_allclose(solved[""].functions[:, 0], best, atol=1e-8)


def test_rows_that_were_not_asked_first_still_decide():
    """A few rows do not show that cells of two tables are told apart, or that weights are not met; the others do."""
    rows = 20_000
    cell = [np.isin(np.arange(rows), (5, 100)).astype(int), np.isin(np.arange(rows), 100).astype(int)]
    tables = [LabelTable(("s",), c, None, np.zeros((2, 2)), np.ones((2, 2)), True, False) for c in cell]
    system = LabelSystem.of(tables, ("s",), SCHEMA)
    assert 5 not in system.few_rows.rows
    one = system.solve({"": RowWeights(np.zeros(rows, np.int64), 1, cell[0] + 2.0 * cell[1])})
    assert one is not None
    np.testing.assert_allclose(np.diff(one[""].functions[:, 0])[[0, 2]], [1.0, 2.0], atol=1e-8)
    odd = np.zeros(rows)
    odd[next(i for i in range(rows) if i not in set(system.few_rows.rows.tolist()))] = 1.0
    assert system.solve({"": RowWeights(np.zeros(rows, np.int64), 1, odd)}) is None


def test_what_is_carried_is_said_without_many_draws(exact, monkeypatch):
    """`supports` has to answer at once: it draws the noise only as often as the decision needs, and `fit` decides by the same."""
    drawn, draw = [], LabelTable.draw
    monkeypatch.setattr(LabelTable, "draw", lambda own, random, draws: drawn.append(draws) or draw(own, random, draws))
    assert exact.supports(MAIN).level == "measured"
    assert max(drawn) == DECIDE
    drawn.clear()
    ds.fit(exact, MAIN)
    assert drawn[0] == DECIDE
    assert max(drawn) > DECIDE
