"""Least squares from noisy tables: the textbook where there is no noise, and honest intervals where there is."""

from itertools import combinations

import numpy as np
import pytest

from dipsmith.analyses.pairs import estimate_from_tables, find_unmeasured
from dipsmith.errors import UsageError
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.marginals import Marginals
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.regression.tables import tables_needed
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.bins import by_width, singles

WIDE = Attribute("x", "integer", by_width("integer", 0, 9, 5))


def schema_of(relation="replace", unit=None):
    return Schema(
        "t",
        (
            Attribute("y", "integer", singles("integer", -8, 7)),
            Attribute("x", "integer", singles("integer", 4, 13)),
            Attribute("s", "string", Categories.of(["F", "M"], other="M")),
            Attribute("r", "string", Categories.of(["A", "B", "C"], other="C")),
            Attribute("g", "string", Categories.of([str(i) for i in range(4)], other="0")),
            Attribute.boolean("h"),
        ),
        unit or Unit(),
        relation,
    )


def rows_of(n, seed, relation="replace", unit=None):
    rng = np.random.default_rng(seed)
    g, h = rng.integers(0, 4, n), rng.integers(0, 2, n)
    s = (rng.random(n) < 0.4 + 0.05 * g).astype(int)
    r = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    x = np.clip((rng.normal(42 + 3 * s, 11, n) - 20) // 5, 0, 9).astype(int)
    y = 0.03 * (5 * x - 23) + 0.3 * s - 0.2 * (r == 1) + 0.1 * g + rng.normal(0, 0.8, n)
    codes = {"y": np.clip(((y + 4) / 0.5).astype(int), 0, 15), "x": x, "s": s, "r": r, "g": g, "h": h}
    return Codes.of(schema_of(relation, unit), codes, n)


def frame_of(codes):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(
        {
            "y": codes["y"].astype(float) - 8,
            "x": codes["x"].astype(int) + 4,
            "s": np.array(["F", "M"])[codes["s"]],
            "r": np.array(["A", "B", "C"])[codes["r"]],
            "g": codes["g"].astype(str),
            "h": codes["h"].astype(float),
            "gr": 3 * codes["g"] + codes["r"],
        }
    )


def counted(codes, names):
    cells = Marginal.of(codes.schema, names)
    counts = np.bincount(cells.index(codes), minlength=cells.size)
    return Measurement(cells, counts, 0.0, PureDP(1), "discrete Laplace")


def tables_for(codes, formula):
    return [counted(codes, names) for names in tables_needed([PlannedAnalysis(formula)], codes.schema)]


FORMULAS = [
    ("y ~ s + r + x", None),
    ("y ~ s + r + x + I(x**2) | g", "y ~ s + r + x + I(x**2) + C(g)"),
    ("y ~ s + x | g^r", "y ~ s + x + C(gr)"),
    ("y ~ s*r + x", None),
    ("y ~ s*x + h", None),
    ("y ~ 0 + s + x", None),
    ("exp(y) ~ s + log(x) + r:g", "np.exp(y) ~ s + np.log(x) + r:g"),
    ('I(r == "B") ~ s + x', 'I(1.0 * (r == "B")) ~ s + x'),
    ("I(y * h) ~ s + g", None),
    ("y ~ 1", None),
    ("y ~ s + C(x)", None),
]


@pytest.mark.parametrize(("formula", "theirs"), FORMULAS, ids=[f for f, _ in FORMULAS])
def test_without_noise_it_is_least_squares_on_the_binned_table(formula, theirs):
    smf = pytest.importorskip("statsmodels.formula.api")
    codes = rows_of(3000, 1)
    (found,) = estimate_from_tables(formula, codes.schema, tables_for(codes, formula), rows=3000, draws=2)
    fitted = smf.ols(theirs or formula, frame_of(codes)).fit()
    for c in found.coefficients:
        name = c.name.replace("log(", "np.log(")
        assert c.estimate == pytest.approx(fitted.params[name], rel=1e-8, abs=1e-8)
        assert c.se == pytest.approx(fitted.bse[name], rel=1e-8)
    assert found.sigma == pytest.approx(np.sqrt(fitted.scale), rel=1e-8)
    assert found.rows == 3000
    assert found.df == pytest.approx(fitted.df_resid)


def test_every_value_of_by_is_a_regression_of_its_own():
    smf = pytest.importorskip("statsmodels.formula.api")
    codes = rows_of(3000, 2)
    formula = "y ~ s + x | by g"
    results = estimate_from_tables(formula, codes.schema, tables_for(codes, formula), rows=3000, draws=2)
    assert [r.part for r in results] == ["g 0", "g 1", "g 2", "g 3"]
    frame = frame_of(codes)
    for i, found in enumerate(results):
        fitted = smf.ols("y ~ s + x", frame[frame.g == str(i)]).fit()
        assert found["s[T.M]"].estimate == pytest.approx(fitted.params["s[T.M]"], rel=1e-8)
        assert found.rows == int((codes["g"] == i).sum())


def test_what_was_not_measured_is_said():
    codes = rows_of(100, 1)
    with pytest.raises(UsageError, match=r"no noisy table holds y × s, x × s; ask for a release") as error:
        estimate_from_tables("y ~ s + x", codes.schema, [counted(codes, ("y", "x"))])
    assert "\n" not in str(error.value)
    planned = PlannedAnalysis("y ~ s*x")
    pairs = list(combinations(["y", "x", "s"], 2))
    assert find_unmeasured(planned, codes.schema, pairs) == [("y", "x", "s")]
    assert find_unmeasured(planned, codes.schema, [("y", "x", "s", "g")]) == []


@pytest.mark.parametrize(
    ("analysis", "message"),
    [
        (PlannedAnalysis("s ~ x", model="logistic"), "a logistic regression is not determined by tables of pairs"),
        (PlannedAnalysis("log(y) ~ s"), r"log\(1 \+ x\)"),
        (PlannedAnalysis("r ~ s"), "the response has 3 levels"),
        (PlannedAnalysis("y ~ g | by g"), "also one of its terms"),
    ],
)
def test_what_tables_cannot_tell_is_refused(analysis, message):
    codes = rows_of(100, 1)
    tables = [counted(codes, names) for names in combinations(codes.schema.names, 2)]
    with pytest.raises(UsageError, match=message):
        estimate_from_tables(analysis, codes.schema, tables)


def test_a_category_of_wide_bins_is_refused():
    schema = Schema("t", (Attribute("y", "integer", singles("integer", 0, 3)), WIDE), Unit(), "replace")
    codes = Codes.of(schema, {"y": np.arange(4), "x": np.arange(4) % 2}, 4)
    with pytest.raises(UsageError, match=r"C\(x\) asks for a level of every value"):
        estimate_from_tables("y ~ C(x)", schema, [counted(codes, ("y", "x"))])


def test_missing_values_are_refused():
    attributes = (
        Attribute("s", "string", Categories.of(["F", "M"], missing=True)),
        Attribute("y", "string", Categories.of(["0", "1"], other="0")),
    )
    schema = Schema("t", attributes, Unit(), "replace")
    codes = Codes.of(schema, {"s": np.array([0, 1, 2, 0]), "y": np.array([0, 1, 0, 1])}, 4)
    with pytest.raises(UsageError, match="column 's' may be missing"):
        estimate_from_tables("y ~ s", schema, [counted(codes, ("s", "y"))])


def truth(formula, n=1_000_000):
    codes = rows_of(n, 77)
    (found,) = estimate_from_tables(formula, codes.schema, tables_for(codes, formula), rows=n, draws=2)
    return {c.name: c.estimate for c in found.coefficients}


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "budget"), [("replace", PureDP(1)), ("add-remove", ZCDP("0.05"))])
def test_intervals_cover(relation, budget):
    """60 runs, 3 coefficients: fewer than 136 of 180 covering has odds below 1e-6 even if each run's hits were one."""
    formula = PlannedAnalysis("y ~ s + r + x")
    true = truth("y ~ s + r + x")
    method = Marginals().for_analyses([formula], schema_of(relation))
    hits, errors, shares = 0, [], []
    for seed in range(60):
        codes = rows_of(6000, 1000 + seed, relation)
        curator = Curator.rehearse(codes, budget, seed=seed)
        marginals = method._marginals(codes.schema)
        tables = curator.measure(marginals, method._budgets(marginals, budget))
        (found,) = estimate_from_tables(formula, codes.schema, tables, rows=curator.rows, draws=200, seed=seed)
        for name in ("s[T.M]", "r[T.B]", "x"):
            c = found[name]
            hits += c.low <= true[name] <= c.high
            errors.append((c.estimate - true[name]) / c.se)
            shares.append(c.noise_share)
    assert hits >= 136
    assert np.std(errors) == pytest.approx(1.0, abs=0.35)
    assert 0.2 < np.mean(shares) < 1


@pytest.mark.slow
def test_aim_with_a_planned_formula_gives_its_coefficients():
    codes = rows_of(20_000, 5, "add-remove")
    planned = PlannedAnalysis("y ~ s + x | g")
    model = AIM(rounds=4).for_analyses([planned], codes.schema).fit(Curator.rehearse(codes, PureDP(2), seed=1))
    (found,) = estimate_from_tables(planned, codes.schema, model.measurements, rows=None)
    true = truth("y ~ s + x | g")
    for name in ("s[T.M]", "x"):
        # Five standard errors: odds below 1e-6.
        assert abs(found[name].estimate - true[name]) < 5 * found[name].se
    assert found["s[T.M]"].se < 0.1
    assert found.rows == pytest.approx(20_000, abs=500)


def noisy(codes, names, variance, seed):
    exact = counted(codes, names)
    noise = np.rint(np.random.default_rng(seed).laplace(0, np.sqrt(variance / 2), exact.values.shape)).astype(int)
    return Measurement(exact.cells, exact.values + noise, variance, PureDP(1), "discrete Laplace")


def test_where_noise_swamps_the_rows_nothing_is_told():
    codes = rows_of(300, 1)
    tables = [noisy(codes, names, 40.0**2, i) for i, names in enumerate(combinations(["y", "x", "s"], 2))]
    (found,) = estimate_from_tables("y ~ s + x", codes.schema, tables)
    assert {c.estimate for c in found.coefficients} == {None}
    assert "this release cannot tell" in found.notes[-1]


def test_a_level_that_hardly_anybody_has_is_not_told_and_harms_no_other():
    codes = rows_of(5000, 3)
    columns = {n: codes[n] for n in codes.names} | {"r": np.where(np.arange(5000) < 3, 2, codes["r"] % 2)}
    codes = Codes.of(codes.schema, columns, 5000)
    tables = [noisy(codes, names, 4.0, i) for i, names in enumerate(combinations(["y", "x", "s", "r"], 2))]
    (found,) = estimate_from_tables("y ~ s + r + x", codes.schema, tables, rows=5000)
    assert found["r[T.C]"].estimate is None
    assert found["r[T.B]"].se < 0.1
    assert any("Too rare" in note and "r[T.C]" in note for note in found.notes)


def test_a_note_says_that_rows_of_one_unit_are_taken_to_be_independent():
    codes = rows_of(3000, 1, unit=Unit("person", 3))
    (found,) = estimate_from_tables("y ~ x", codes.schema, tables_for(codes, "y ~ x"), draws=2)
    assert "Rows of one unit (up to 3)" in " ".join(found.notes)


def test_the_same_tables_give_the_same_result():
    codes = rows_of(2000, 1)
    tables = [noisy(codes, names, 9.0, i) for i, names in enumerate(combinations(["y", "x", "s"], 2))]
    one = estimate_from_tables("y ~ s + x", codes.schema, tables, rows=2000)
    assert one == estimate_from_tables("y ~ s + x", codes.schema, tables, rows=2000)
    turned = estimate_from_tables("y ~ s + x", codes.schema, tables[::-1], rows=2000)
    assert [c.estimate for c in turned[0].coefficients] == pytest.approx([c.estimate for c in one[0].coefficients])
