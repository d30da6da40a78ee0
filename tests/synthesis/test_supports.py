"""What a release carries: measured, carried, not carried; from the noisy tables and the model alone."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import UsageError
from dipsmith.estimation.measured_table import measured_tables
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.schema.bins import by_width
from dipsmith.synthesis.holdings import Holdings, Leaves
from dipsmith.synthesis.release import Release

ROWS = 3000


def column(name, size, role="private", labels=None):
    words = [f"{name}{i}" for i in range(size)]
    return Attribute(name, "string", Categories.of(words, labels, other=words[0]), role)


def table(seed, **sizes):
    draw = generator(seed)
    return pa.table({n: [f"{n}{v}" for v in draw.integers(0, k, ROWS)] for n, k in sizes.items()})


SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}


def make(method, relation="add-remove", epsilon=3, **options):
    schema = Schema("t", tuple(column(n, k) for n, k in SIZES.items()), Unit(), relation)
    options = {"noise_seed": 3, "seed": 1} | options
    return ds.synthesize(
        table(8, **SIZES), schema, method, budget=ds.PureDP(epsilon), known_rows=ROWS, testing=True, **options
    )


def labelled(method, *, collapse=True, epsilon=3, extra=(), rows=ROWS, **options):
    """Public pay in bins of 10, age in two bins, a job that is collapsed; private sex."""
    draw = generator(9)
    jobs = {f"job{i}": f"group{i % 2}" for i in range(6)} if collapse else None
    schema = Schema(
        "t",
        (
            Attribute("pay", "integer", by_width("integer", 100, 299, 10), "public"),
            Attribute("age", "integer", by_width("integer", 20, 59, 20), "public"),
            column("agency", 3, "public"),
            column("job", 6, "public", jobs),
            column("sex", 2),
        ),
        Unit(),
        "label",
    )
    data = pa.table(
        {
            "pay": draw.integers(100, 300, rows),
            "age": draw.integers(20, 60, rows),
            "agency": [f"agency{v}" for v in draw.integers(0, 3, rows)],
            "job": [f"job{v}" for v in draw.integers(0, 6, rows)],
            "sex": [f"sex{v}" for v in draw.integers(0, 2, rows)],
        }
    )
    return ds.synthesize(
        data, schema, method, budget=ds.PureDP(epsilon), testing=True, noise_seed=4, seed=1, analyses=extra, **options
    )


@pytest.fixture(scope="module")
def chain():
    """Noisy tables of a × b and of b × c; d by itself."""
    return make(ds.Marginals(cliques=[["a", "b"], ["b", "c"], ["d"]]))


@pytest.fixture(scope="module")
def loglinear():
    return labelled(ds.LogLinear(targets=["sex"]))


# --- columns ---------------------------------------------------------------------------------------


def test_a_pair_in_a_noisy_table_is_measured_with_its_standard_error(chain):
    found = chain.supports("b", "a")
    assert (found.level, found.tables, found.in_rows, found.ask) == ("measured", ("a × b",), True, "")
    (own,) = [t for t in chain.measurements if t.attributes == ("a", "b")]
    assert found.standard_error == pytest.approx(own.variance**0.5)
    assert found.typical_count == ROWS / 6
    # One column of it is a sum over the other: four noisy cells for each value of c, of three of b.
    tables = {t.attributes: t.variance for t in chain.measurements}
    assert chain.supports("c").standard_error == pytest.approx((3 * tables["b", "c"]) ** 0.5)


def test_a_pair_that_no_table_holds_is_not_carried(chain):
    found = chain.supports("a", "c")
    assert found.level == "not carried"
    assert not found.in_rows
    assert found.standard_error is None
    assert "No noisy table holds a and c together" in found.reason
    assert "table of a × c" in found.ask
    assert chain.supports("d", "a").level == "not carried"
    assert chain.supports("d").level == "measured"


def test_the_standard_error_is_that_of_the_noise():
    """Pairs of a table of 48 cells, 8 added up in each, in 150 runs: 900 errors, false positives below 1e-6.

    The variance of 900 sums of eight discrete Laplace numbers (kurtosis 3.4) has a relative standard error of 5.2 %.
    """
    counts = table(8, **SIZES).group_by(["a", "b"]).aggregate([([], "count_all")])
    order = counts.sort_by([("a", "ascending"), ("b", "ascending")])
    truth = order["count_all"].to_numpy().reshape(2, 3)
    schema = Schema("t", tuple(column(n, k) for n, k in SIZES.items()), Unit(), "add-remove")
    codes = Codes.of(schema, {n: np.array([int(v[1:]) for v in c]) for n, c in table(8, **SIZES).to_pydict().items()})
    errors = []
    for seed in range(150):
        curator = Curator.rehearse(codes, ds.PureDP(1), given_rows=ROWS, seed=seed)
        ds.Flat().fit(curator)
        (one,) = measured_tables(curator.answers, schema)
        errors.append(one.array.sum(axis=(2, 3)) - truth)
    told = Holdings.of([one], schema, ROWS).best_table(("a", "b"))
    assert abs(np.var(errors) / told.standard_error**2 - 1) < 0.27


def test_public_columns_are_released_as_they_stand(loglinear):
    found = loglinear.supports("pay", "job")
    assert (found.level, found.public, found.standard_error) == ("measured", True, 0.0)


def test_an_unknown_column_is_refused_in_one_line(chain):
    with pytest.raises(UsageError, match="there is no column 'z'; there are: a, b, c, d"):
        chain.supports("a", "z")
    with pytest.raises(UsageError, match="give a formula"):
        chain.supports()
    with pytest.raises(UsageError, match="no column"):
        chain.supports("a ~ z")


# --- formulas --------------------------------------------------------------------------------------


def test_a_formula_needs_all_pairs_and_its_products_need_triples():
    pairs = make(ds.Marginals(cliques=2))
    assert pairs.supports("I(c == 'c1') ~ a + b + d", family="ols").level == "measured"
    product = pairs.supports("I(c == 'c1') ~ a * b")
    assert product.level == "not carried"
    assert set(product.parts[0].columns) == {"a", "b", "c"}
    triples = make(ds.Marginals(cliques=3))
    assert triples.supports("I(c == 'c1') ~ a * b").level == "measured"
    assert triples.supports("I(c == 'c1') ~ a * b + d", family="ols").level == "measured"
    assert make(ds.Flat()).supports("I(c == 'c1') ~ a * b * d").level == "measured"


def test_confounders_that_are_not_together_leave_a_formula_not_carried(chain):
    """Response b with a and with c is measured, a with c is not: `fit` would be confident and off by a third."""
    found = chain.supports("I(b == 'b1') ~ a + c", family="ols")
    assert found.level == "not carried"
    assert "No noisy table holds a and c together" in found.reason
    assert "--analysis" in found.ask
    assert chain.supports("I(b == 'b1') ~ a").level == "measured"
    assert chain.supports("I(a == 'a1') ~ c").level == "not carried"


def test_a_logistic_regression_needs_more_than_pairs():
    pairs = make(ds.Marginals(cliques=2))
    found = pairs.supports("a ~ b + c")
    assert found.level == "not carried"
    assert found.reason.startswith(
        "Odds need one noisy table of all columns, and no noisy table holds a, b and c together"
    )
    assert "--analysis 'a ~ b + c'" in found.ask
    assert make(ds.Marginals(cliques=3)).supports("a ~ b + c").level == "measured"
    assert pairs.supports("a ~ b").level == "measured"


def test_labels_are_measured_with_the_columns_of_their_tables(loglinear):
    assert loglinear.supports("log(pay) ~ sex").level == "measured"
    assert loglinear.supports("pay ~ sex | agency").level == "measured"
    assert loglinear.supports("pay ~ age + agency").public
    assert loglinear.supports("pay ~ sex * agency").level == "not carried"
    assert loglinear.supports("pay ~ sex | agency | by agency").level == "not carried"


def test_a_control_that_the_schema_collapses_is_not_carried_at_its_own_resolution(loglinear):
    found = loglinear.supports("pay ~ sex | job")
    assert found.level == "not carried"
    assert found.coarse
    assert "collapses its 6 values to 2 labels" in found.reason
    pair = loglinear.supports("job", "sex")
    assert (pair.level, pair.coarse) == ("carried", True)
    assert labelled(ds.LogLinear(targets=["sex"]), collapse=False).supports("pay ~ sex | job").level == "measured"


def test_wide_bins_are_too_coarse_for_a_number_and_narrow_ones_for_a_category(loglinear):
    wide = loglinear.supports("pay ~ sex + age")
    assert wide.level == "not carried"
    assert "of its variance lies within the schema's 2 bins" in wide.reason
    assert "takes each value by itself" in loglinear.supports("pay ~ sex + C(age)").reason
    assert "takes each value by itself" in loglinear.supports("I(agency == 'agency1') ~ sex | pay").reason
    assert loglinear.supports("pay ~ sex").level == "measured"
    assert "variance" in loglinear.supports("I(pay % 10) ~ sex").reason


@pytest.mark.slow
def test_a_planned_analysis_is_measured_at_the_resolution_of_its_formula():
    formula = "pay ~ sex | job"
    release = labelled(ds.LogLinear(targets=["sex"]), extra=[formula])
    found = release.supports(formula)
    assert (found.level, found.planned, found.tables) == ("measured", True, ("results.json",))
    assert release.supports("pay ~ sex + agency | job").level == "not carried"
    sums = [t for t in release.measurements if t.kind == "weighted sums"]
    assert sums
    assert all(t.attributes == ("sex",) and t.weight and t.block == "analyses" for t in sums)


# --- trees -----------------------------------------------------------------------------------------


def test_leaves_carry_a_relation_only_where_they_are_large_and_ask_the_column():
    """A small table's leaves lose an effect; those of a large one, grown deep, keep it."""
    small = labelled(ds.Forest(targets=["sex"]), epsilon=0.5, rows=800)
    found = small.supports("pay", "sex")
    assert found.level == "not carried"
    assert small.supports("pay ~ sex").level == "not carried"
    assert small.supports("sex").level == "measured"
    draw = generator(2)
    schema = Schema("t", (column("x", 3, "public"), column("y", 2, "public"), column("s", 2)), Unit(), "label")
    n = 60_000
    data = pa.table({"x": draw.integers(0, 3, n), "y": draw.integers(0, 2, n), "s": draw.integers(0, 2, n)})
    data = pa.table({name: [f"{name}{v}" for v in data[name].to_pylist()] for name in data.column_names})
    method = ds.Forest(targets=["s"], n_b=100)
    large = ds.synthesize(data, schema, method, budget=ds.PureDP(3), testing=True, noise_seed=1, seed=1)
    assert large.supports("x", "s").level == "carried"
    assert large.supports("I(x == 'x1') ~ s + y", family="ols").level == "carried"


def test_a_leaf_tells_an_effect_by_its_size_and_noise():
    """Half of the rows are in a leaf of 1,000 that asks x: 30² of 30² + 250 + 150 of an effect get through there."""
    leaves = Leaves(np.array([1000.0, 1000.0]), {"x": np.array([True, False]), "s": np.array([True, True])}, 150.0)
    assert leaves.effect_share(("x", "s")) == pytest.approx(0.5 * 900 / 1300)
    assert leaves.effect_share(("s",)) == pytest.approx(900 / 1300)
    assert leaves.effect_share(("z", "s")) == 0.0


# --- the whole release -----------------------------------------------------------------------------


def test_the_worst_of_sets_that_were_sanitised_separately_counts():
    one = make(ds.MST(), sets=3, each="split", epsilon=6)
    each = [
        {
            frozenset(t.attributes)
            for t in one.measurements
            if t.block.split("/")[0] == f"set {i}" and len(t.attributes) == 2
        }
        for i in (1, 2, 3)
    ]
    for pair in map(frozenset, (("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"))):
        assert (one.supports(*pair).level == "measured") == all(pair in found for found in each)


def test_strata_add_up_and_all_must_be_there():
    schema = Schema("t", (column("y", 2, "public"), column("x", 3, "public"), column("s", 2)), Unit(), "label")
    data = table(5, y=2, x=3, s=2)
    method = ds.LogLinear(targets=["s"], strata="y")
    release = ds.synthesize(data, schema, method, budget=ds.PureDP(2), testing=True, noise_seed=1, seed=1)
    found = release.supports("x", "s", "y")
    assert found.level == "measured"
    assert release.supports("x", "s").standard_error == pytest.approx(2**0.5 * found.standard_error)
    half = replace(release, measurements=tuple(t for t in release.measurements if dict(t.within)["y"] == "y0"))
    assert half.supports("x", "s").level == "not carried"


def test_noise_that_outweighs_the_rows_is_told():
    found = make(ds.Flat(), epsilon=0.001).supports("a", "b")
    assert found.level == "measured"
    assert found.noise_dominates
    assert not found.in_rows
    assert "more than an average cell has rows" in found.reason
    table_only = make(ds.Flat(), epsilon=0.03).supports("a", "b")
    assert not table_only.noise_dominates


def test_a_release_without_measurements_says_so(chain):
    old = replace(chain, measurements=())
    with pytest.raises(UsageError, match="earlier version"):
        old.supports("a", "b")
    from dipsmith.synthesis.report_sections import support_blocks

    assert "kept no measurements" in support_blocks(old)[0]


def test_pairs_are_listed_worst_first(chain):
    pairs = chain.support_index.worst_pairs()
    levels = [p.level for p in pairs]
    assert levels == ["not carried"] * 4 + ["measured"] * 2
    noise = [p.standard_error / p.typical_count for p in pairs[4:]]
    assert noise == sorted(noise, reverse=True)


@pytest.mark.slow
def test_what_is_told_is_the_same_after_loading(chain, loglinear, tmp_path):
    for name, release in (("chain", chain), ("loglinear", loglinear)):
        back = Release.load(release.save(tmp_path / name))
        assert [p.to_dict() for p in back.support_index.pairs()] == [p.to_dict() for p in release.support_index.pairs()]
        report = (tmp_path / name / "report.html").read_text("utf-8")
        assert report.count("<g class=") == len(release.schema.names) * (len(release.schema.names) + 1) // 2
        assert "What this release carries" in report
        assert "<script" not in report
