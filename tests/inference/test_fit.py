"""`fit`: formulas on releases, the rule that the card calls for, what is printed, what is refused."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.examples import personnel
from dipsmith.regression.analysis import Analysis
from dipsmith.regression.formula import RegressionFormula

FORMULA = "pay ~ sex + age + I(age**2) | agency"


@pytest.fixture(scope="module")
def staff():
    return personnel.simulate(1500, seed=4)[0]


def people(n=2500, seed=4):
    """Simulated staff in few levels: quick to label again, and all of it measured."""
    rng = np.random.default_rng(seed)
    agency, sex, race = rng.integers(0, 3, n), rng.random(n) < 0.5, rng.integers(0, 3, n)
    age = np.clip(rng.integers(0, 8, n) + agency, 0, 9)
    pay = np.clip(np.round(8 + 0.5 * age + agency + 2.0 * sex + race + rng.normal(0, 2, n)), 1, 24).astype(int)
    names = np.array(list("pqr"))[agency], np.where(sex, "M", "F"), np.array(list("ABC"))[race]
    return pa.table(dict(zip(("agency", "sex", "race", "age", "pay"), (*names, age, pay), strict=True)))


def layout(**more):
    public, private = {"role": "public"}, {"role": "private"}
    return ds.Schema.from_dict(
        {
            "name": "people",
            "unit": "row",
            "neighbours": "label",
            "fields": [
                {"name": "agency", "type": "string", "enum": ["p", "q", "r"], "other": "p", **public},
                {"name": "age", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 1}, **public},
                {"name": "pay", "type": "integer", "minimum": 1, "maximum": 24, "bins": {"width": 1}, **public},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", **private},
                {"name": "race", "type": "string", "enum": ["A", "B", "C"], "other": "C", **private},
            ],
            **more,
        }
    )


def labelled(budget, **more):
    method = more.pop("method", ds.LogLinear(targets=["sex", "race"]))
    schema = more.pop("schema", layout())
    return ds.synthesize(people(), schema, method, budget=ds.PureDP(budget), testing=True, noise_seed=1, **more)


@pytest.fixture(scope="module")
def released():
    return labelled(3)


@pytest.fixture(scope="module")
def split():
    return labelled(9, sets=3, each="split")


def test_one_set_is_fitted_with_its_noise(released):
    found = ds.fit(released, FORMULA, reference={"sex": "M"}, rule="noise-aware", replicates=12, seed=1)
    assert found.names == ("sex[T.F]", "age", "I(age ** 2)")
    ordinary = ds.fit(released, FORMULA, reference={"sex": "M"}, rule="sampling")
    assert found["sex[T.F]"].std_error > ordinary["sex[T.F]"].std_error
    assert found.combined.raw[0] == pytest.approx(ordinary["sex[T.F]"].value)
    assert "T = ū + Var_noise, by 12 runs of loglinear" in str(found)
    assert "too short" in str(ordinary)
    again = ds.fit(released, FORMULA, reference={"sex": "M"}, rule="noise-aware", replicates=12, seed=1)
    assert again["sex[T.F]"] == found["sex[T.F]"]


def test_separate_sets_are_corrected_like_one(split):
    found = ds.fit(split, FORMULA, rule="noise-aware", replicates=12, seed=1)
    each = np.array([e.values[0] for e in found.each])
    assert len(found.each) == 3
    assert found.combined.raw[0] == pytest.approx(each.mean())
    assert "over 3 sets that were sanitised separately, by 12 runs" in str(found)
    assert found.combined.bias is not None
    combined = ds.fit(split, FORMULA, rule="combine")
    assert combined["sex[T.M]"].value == pytest.approx(each.mean())
    assert combined.combined.between[0] == pytest.approx(each.var(ddof=1))
    assert "T = ū + B/m over 3 sets" in str(combined)
    assert "A bias that all sets share" in str(combined)


def test_clusters_leave_few_degrees_of_freedom_in_any_number_of_sets(split, released):
    one = ds.fit(released, "pay ~ age", cluster="agency", replicates=10, seed=1)
    several = ds.fit(split, "pay ~ age", cluster="agency", rule="combine")
    assert one["age"].df < 4
    assert several["age"].df < 4


@pytest.mark.slow
def test_a_folder_is_a_release(tmp_path, split):
    split.save(tmp_path / "release")
    options = {"rule": "noise-aware", "replicates": 10, "seed": 1}
    inside = ds.fit(split, FORMULA, **options)["age"]
    assert ds.fit(tmp_path / "release", FORMULA, **options)["age"] == inside
    assert ds.fit(str(tmp_path / "release"), FORMULA, **options)["age"].value == inside.value
    one = ds.fit(tmp_path / "release" / "synthetic-1.parquet", FORMULA)
    assert one["age"].value == pytest.approx(ds.fit(split.tables[0], FORMULA)["age"].value)


def test_draws_refuse_the_first_rule():
    draws = labelled(3, sets=2, each="draw")
    with pytest.raises(UnsupportedError, match="share its noise"):
        ds.fit(draws, FORMULA, rule="combine")
    found = ds.fit(draws, FORMULA, rule="noise-aware", replicates=10, seed=1)
    assert "sets drawn from one model" in str(found)


def test_plain_tables_of_any_kind(staff):
    polars = pytest.importorskip("polars")
    frames = (staff, staff.to_pandas(), polars.from_arrow(staff))
    values = [ds.fit(f, FORMULA)["age"].value for f in frames]
    assert values == pytest.approx([values[0]] * 3)
    assert "nothing is known of any noise" in str(ds.fit(staff, FORMULA))
    with pytest.raises(UsageError, match="needs a release"):
        ds.fit(staff, FORMULA, rule="combine")


def test_it_prints_a_table(split):
    found = ds.fit(split, FORMULA, reference={"sex": "M"}, rule="combine")
    lines = str(found).splitlines()
    assert lines[0] == f"{FORMULA}: Least squares, 2,500 rows in each of 3 sets"
    assert lines[2].split()[:2] == ["estimate", "s.e."]
    assert lines[3].startswith("sex[T.F]")
    assert lines[-1].startswith("Reference: sex = M. T = ū + B/m")
    assert "90% from" in str(found.at(0.9))
    html = found._repr_html_()
    assert html.count("<tr>") == 4
    assert found.to_pandas().loc["age", "estimate"] == found["age"].value
    assert pa.table(found).column_names[:2] == ["term", "estimate"]
    assert found.formula == FORMULA


def test_terms_are_tested_together(staff, released, split):
    smf = pytest.importorskip("statsmodels.formula.api")
    frame = staff.to_pandas().assign(race=lambda f: f["race"].astype(str), agency=lambda f: f["agency"].astype(str))
    wald = smf.ols("np.log(pay) ~ race + age + agency", frame).fit().wald_test_terms(scalar=True).table
    found = ds.fit(staff, "log(pay) ~ race + age | agency").joint("race")
    assert found.statistic == pytest.approx(wald.loc["race", "statistic"], rel=1e-7)
    assert found.p_value == pytest.approx(wald.loc["race", "pvalue"], rel=1e-6)
    # One coefficient: F is the square of t, whichever rule.
    for release, options in ((split, {"rule": "combine"}), (released, {"replicates": 15, "seed": 1})):
        fitted = ds.fit(release, "pay ~ sex + race + age", **options)
        one = fitted.joint("sex")
        t = fitted["sex[T.M]"].value / fitted["sex[T.M]"].std_error
        assert one.statistic == pytest.approx(t**2, rel=0.15)
        assert fitted.joint("sex", "race").df > 2
    with pytest.raises(UsageError, match="no coefficient of agency"):
        ds.fit(staff, "log(pay) ~ race | agency").joint("agency")


def test_a_perfect_fit_has_nothing_to_test():
    table = pa.table({"y": [0.0] * 40, "g": ["a", "b"] * 20})
    with pytest.raises(UsageError, match="without error"):
        ds.fit(table, "y ~ g", family="ols").joint("g")


@pytest.mark.parametrize("formula", ["log(pay) ~ race*sex + age", "log(pay) ~ age + sex*race"])
def test_a_term_is_tested_without_its_products(staff, formula):
    smf = pytest.importorskip("statsmodels.formula.api")
    frame = staff.to_pandas().assign(race=lambda f: f["race"].astype(str), sex=lambda f: f["sex"].astype(str))
    reference = {"race": sorted(set(frame["race"]))[0], "sex": sorted(set(frame["sex"]))[0]}
    wald = smf.ols(formula.replace("log", "np.log"), frame).fit().wald_test_terms(scalar=True).table
    fitted = ds.fit(staff, formula, reference=reference)
    product = next(name for name in wald.index if ":" in name)
    for term in ("race", "sex", product):
        found = fitted.joint(term)
        assert found.df == pytest.approx(wald.loc[term, "df_constraint"])
        assert found.statistic == pytest.approx(wald.loc[term, "statistic"], rel=1e-6)


def test_levels_come_from_the_schema_and_are_the_same_in_every_set(split):
    found = ds.fit(split, "pay ~ race", rule="combine")
    assert found.names == ("Intercept", "race[T.B]", "race[T.C]")
    none_of_b = [t.filter(pa.compute.not_equal(t["race"].cast(pa.string()), "B")) for t in split.tables]
    analysis = Analysis.of("pay ~ race", none_of_b, schema=split.schema)
    estimates = analysis(none_of_b[0])
    assert estimates.names == found.names
    assert np.isnan(estimates.values[1])
    assert not np.isnan(estimates.values[2])


def test_numbers_become_categories_when_asked(staff):
    found = ds.fit(staff, "log(pay) ~ C(year) + sex", reference={"year": 2003})
    assert found.names[1:4] == ("C(year)[T.1988]", "C(year)[T.1996]", "C(year)[T.2011]")
    assert found["C(year)[T.2011]"].value > 0 > found["C(year)[T.1988]"].value


def test_a_response_of_two_levels(staff):
    one = ds.fit(staff, "sex ~ age", reference={"sex": "M"})
    other = ds.fit(staff, 'sex == "M" ~ age')
    assert one["age"].value == pytest.approx(-other["age"].value, rel=1e-9)
    assert "Logistic regression" in str(one)
    assert ds.fit(staff, "I(age > 40) ~ sex").analysis.family == "logistic"
    linear = ds.fit(staff, "sex ~ age", family="ols")
    assert linear.analysis.family == "ols"
    with pytest.raises(UsageError, match="'race' has 5 levels"):
        ds.fit(staff, "race ~ age")
    with pytest.raises(UsageError, match="two levels or 0 and 1"):
        ds.fit(staff, "pay ~ age", family="logistic")


def test_separated_sets_are_all_fitted_by_firth():
    rng = np.random.default_rng(0)
    registered = rng.random(500) < 0.5
    voted = registered & (rng.random(500) < 0.6)
    layout = ds.Schema.from_dict(
        {
            "name": "v",
            "unit": "row",
            "neighbours": "replace",
            "fields": [{"name": "voted", "type": "boolean"}, {"name": "registered", "type": "boolean"}],
            "rules": [{"never": {"voted": "true", "registered": "false"}}],
        }
    )
    release = ds.synthesize(
        pa.table({"voted": voted, "registered": registered}),
        layout,
        ds.Flat(),
        budget=ds.PureDP(2),
        testing=True,
        noise_seed=1,
    )
    found = ds.fit(release, "voted ~ registered", replicates=10, seed=1)
    assert "Firth" in str(found)
    assert np.isfinite(found["registered"].std_error)
    assert found["registered"].std_error < 3
    with pytest.raises(UsageError, match="separation"):
        ds.fit(release, "voted ~ registered", family="logistic")


def test_missing_and_infinite_values_are_left_out():
    table = pa.table(
        {"y": [1.0, None, 3.0, 4.0, 0.0, 6.0], "x": ["a", "b", None, "b", "a", "b"], "z": [1, 2, 3, 4, 5, 6]}
    )
    found = ds.fit(table, "log(y) ~ z")
    assert found.each[0].rows == 4
    assert "2 rows with missing or infinite values were left out" in str(found)
    assert ds.fit(table, "y ~ x").each[0].rows == 4
    empty = pa.table({"y": pa.array([None, None], pa.float64()), "z": [1, 2]})
    with pytest.raises(UsageError, match="there is no row"):
        ds.fit(pa.table({"y": [1.0], "x": [2.0]}).slice(0, 0).to_pandas(), "y ~ x")
    with pytest.raises(UsageError, match="no row is left"):
        ds.fit(empty, "y ~ z")


def test_dates_are_days():
    days = np.array(["2020-01-01", "2020-01-03", "2020-01-05", "2020-01-09"], dtype="datetime64[D]")
    table = pa.table({"y": [0.0, 2.0, 4.0, 8.5], "day": days, "moment": days.astype("datetime64[us]")})
    assert ds.fit(table, "y ~ day")["day"].value == pytest.approx(ds.fit(table, "y ~ moment")["moment"].value)
    assert ds.fit(table, "y ~ day")["day"].value == pytest.approx(np.polyfit([0, 2, 4, 8], [0, 2, 4, 8.5], 1)[0])


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("pay", "0 tildes"),
        ("pay ~ nonsense", "'nonsense', which is no column"),
        ("pay ~ __import__('os').system('true')", "not part of a formula"),
        ("pay ~ __import__('os')", "calls '__import__'"),
        ("pay ~ pay.__class__", "no column"),
        ("pay ~ eval(sex)", "calls 'eval'"),
        ("pay ~ scale(age)", "calls 'scale'"),
        ("pay ~ {age}", "not part of a formula"),
        ("pay ~ age[0]", "not part of a formula"),
        ("pay ~ age | agency | year", "2 bars"),
        ("pay ~ age |", "lacks a part"),
        ("~ age", "lacks a part"),
        ("pay ~ age | agency * year", "fixed effects are columns"),
        ("pay ~ log(sex)", "cannot be evaluated"),
        ("pay ~ sex + + ", "cannot be read"),
    ],
)
def test_formulas_that_are_refused(staff, formula, said):
    with pytest.raises(UsageError, match=said):
        ds.fit(staff, formula)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reference": {"sex": "X"}}, "has no level 'X'"),
        ({"reference": {"race": "E"}}, "the formula does not use"),
        ({"family": "probit"}, "family is 'probit'"),
        ({"rule": "hope"}, "rule is 'hope'"),
        ({"penalty": 1.0}, "penalty is a number"),
        ({"family": "ridge", "robust": True}, "no robust"),
        ({"cluster": "nowhere"}, "no column 'nowhere'"),
        ({"level": 95}, "level is 95"),
    ],
)
def test_options_that_are_refused(staff, options, said):
    with pytest.raises(UsageError, match=said):
        ds.fit(staff, FORMULA, **options)


def test_errors_do_not_repeat_values():
    table = pa.table({"y": ["12", "canary-7"], "x": [1.0, 2.0]})
    for formula in ("log(y) ~ x", "x ~ log(y)", "x ~ y + sqrt(y)"):
        with pytest.raises(UsageError) as caught:
            ds.fit(table, formula)
        assert "canary" not in str(caught.value)


def test_odd_names_are_quoted(staff):
    table = staff.rename_columns(
        ["pay-rate" if n == "pay" else "class" if n == "sex" else n for n in staff.column_names]
    )
    ticked = ds.fit(table, "log(`pay-rate`) ~ class + age")
    quoted = ds.fit(table, 'log(Q("pay-rate")) ~ class + age')
    assert (
        ticked["age"].value == quoted["age"].value == pytest.approx(ds.fit(staff, "log(pay) ~ sex + age")["age"].value)
    )


def test_hats_are_powers():
    known = ["y", "a", "b"]
    assert RegressionFormula.parse("y ~ I(a^2)", known).terms == RegressionFormula.parse("y ~ I(a**2)", known).terms
    assert [str(t) for t in RegressionFormula.parse("y ~ I(a^2)", known).terms] == ["1", "I(a ** 2)"]
    assert [str(t) for t in RegressionFormula.parse("y ~ np.log(a)", known).terms] == ["1", "log(a)"]
    assert RegressionFormula.parse("y ~ a | b:a", known).fixed == (("b", "a"),)


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("formulaic", "pyfixest", "pandas", "statsmodels"):
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
import pyarrow as pa
import dipsmith as ds
from dipsmith.errors import MissingExtraError
try:
    ds.fit(pa.table({"y": [1.0, 2.0, 4.0], "x": [1.0, 2.0, 3.0]}), "y ~ x")
except MissingExtraError as error:
    print(error, error.exit_code)
print(ds.combine([1, 2], [1, 1]).estimate)
"""


@pytest.mark.slow
def test_without_the_extra_it_says_what_to_install():
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    said, combined = ran.stdout.splitlines()
    assert said == "Fitting a formula needs more libraries: pip install 'dipsmith[analysis]' 6"
    assert combined == "[1.5]"


def test_a_million_rows_with_fixed_effects_take_seconds():
    import time

    table = personnel.simulate(50_000, seed=1)[0]
    ds.fit(table.slice(0, 2000), FORMULA)
    start = time.process_time()
    ds.fit(table, "log(pay) ~ sex + race + age + I(age**2) | agency + occupation")
    # 200,000 rows: a fifth of a million in a fifth of five seconds (measured: 0.3 s).
    assert time.process_time() - start < 1.5
