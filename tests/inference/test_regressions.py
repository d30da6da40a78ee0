"""Regressions against independent implementations: statsmodels, scikit-learn, published tables, brute force."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize
from scipy.special import expit

from dipsmith.errors import UsageError
from dipsmith.examples import personnel
from dipsmith.regression.analysis import Analysis
from dipsmith.regression.least_squares import absorb, independent
from dipsmith.regression.logistic import count_rows, distinct, is_separated
from dipsmith.regression.model_frame import ModelFrame, number_groups

sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

REFERENCE = {"sex": "M", "race": "E"}
PAY = "log(pay) ~ sex + race + age + I(age**2)"


@pytest.fixture(scope="module")
def staff():
    table, _ = personnel.simulate(1500, seed=4)
    return table


@pytest.fixture(scope="module")
def frame(staff):
    import pandas as pd

    frame = staff.to_pandas()
    for name, first in REFERENCE.items():
        levels = sorted(frame[name].unique())
        frame[name] = pd.Categorical(frame[name].astype(str), [first, *(v for v in levels if v != first)])
    return frame


def estimates(formula, table, **options):
    return Analysis.of(formula, [table], **options)(table)


def agree(found, fitted, terms, rtol=1e-8):
    for ours, theirs in terms.items():
        i = found.names.index(ours)
        assert found.values[i] == pytest.approx(fitted.params[theirs], rel=rtol, abs=1e-12)
        assert np.sqrt(found.covariance[i, i]) == pytest.approx(fitted.bse[theirs], rel=rtol)


TERMS = {
    "sex[T.F]": "sex[T.F]",
    "race[T.A]": "race[T.A]",
    "race[T.D]": "race[T.D]",
    "age": "age",
    "I(age ** 2)": "I(age ** 2)",
}


def test_least_squares_is_statsmodels(staff, frame):
    found = estimates(PAY, staff, reference=REFERENCE)
    fitted = smf.ols("np.log(pay) ~ sex + race + age + I(age**2)", frame).fit()
    agree(found, fitted, TERMS | {"Intercept": "Intercept"})
    assert found.df == fitted.df_resid
    where = [found.names.index(n) for n in TERMS]
    assert found.covariance[np.ix_(where, where)] == pytest.approx(
        fitted.cov_params().loc[list(TERMS.values()), list(TERMS.values())].to_numpy(), rel=1e-7
    )


@pytest.mark.parametrize("effects", [["agency"], ["agency", "occupation"], ["agency", "occupation", "year"]])
def test_fixed_effects_are_dummies(staff, frame, effects):
    found = estimates(f"{PAY} | {' + '.join(effects)}", staff, reference=REFERENCE)
    dummies = " + ".join(f"C({e})" for e in effects)
    fitted = smf.ols(f"np.log(pay) ~ sex + race + age + I(age**2) + {dummies}", frame).fit()
    assert "Intercept" not in found.names
    agree(found, fitted, TERMS)
    assert found.df == fitted.df_resid


def test_combined_fixed_effects(staff, frame):
    found = estimates(f"{PAY} | agency^year", staff, reference=REFERENCE)
    fitted = smf.ols("np.log(pay) ~ sex + race + age + I(age**2) + C(agency):C(year) - 1", frame).fit()
    agree(found, fitted, {k: v for k, v in TERMS.items() if "sex" not in k})
    assert found.values[0] == pytest.approx(fitted.params["sex[F]"] - fitted.params["sex[M]"], rel=1e-8)


def test_fixed_effects_in_unconnected_parts_lose_one_parameter_each():
    rng = np.random.default_rng(0)
    first = np.repeat([0, 0, 1, 1, 2, 2, 3, 3], 10)
    second = np.repeat([0, 1, 0, 1, 2, 3, 2, 3], 10)
    columns = rng.normal(size=(80, 2))
    dummies = np.column_stack([np.eye(4)[first], np.eye(4)[second]])
    absorbed, parameters = absorb(columns, (first, second))
    assert parameters == np.linalg.matrix_rank(dummies) == 6
    assert absorbed == pytest.approx(columns - dummies @ np.linalg.pinv(dummies) @ columns, abs=1e-10)


def test_robust_and_clustered_errors_are_statsmodels(staff, frame):
    model = smf.ols("np.log(pay) ~ sex + race + age + I(age**2) + C(agency)", frame)
    formula = f"{PAY} | agency"
    agree(estimates(formula, staff, reference=REFERENCE, robust=True), model.fit(cov_type="HC1"), TERMS, 1e-7)
    clusters = {"groups": frame["occupation"].cat.codes}
    found = estimates(formula, staff, reference=REFERENCE, cluster="occupation")
    agree(found, model.fit(cov_type="cluster", cov_kwds=clusters), TERMS, 1e-7)
    assert found.df == 26


def test_logistic_is_statsmodels(staff, frame):
    found = estimates("sex ~ race + age + I(age**2)", staff, reference={"race": "E", "sex": "M"})
    frame = frame.assign(female=(frame["sex"] == "F").astype(float))
    model = smf.glm("female ~ race + age + I(age**2)", frame, family=sm.families.Binomial())
    fitted = model.fit(tol=1e-14)
    terms = {"race[T.A]": "race[T.A]", "race[T.D]": "race[T.D]", "age": "age", "Intercept": "Intercept"}
    agree(found, fitted, terms, 1e-7)
    clustered = estimates("sex ~ race + age + I(age**2)", staff, reference={"race": "E", "sex": "M"}, cluster="agency")
    by = {"groups": frame["agency"].cat.codes, "use_correction": False}
    theirs = model.fit(tol=1e-14, cov_type="cluster", cov_kwds=by).bse["age"] * np.sqrt(24 / 23)
    assert np.sqrt(clustered.covariance[clustered.names.index("age")].max()) > 0
    assert clustered.variances[clustered.names.index("age")] ** 0.5 == pytest.approx(theirs, rel=1e-6)


def test_logistic_fixed_effects_are_dummies(staff, frame):
    found = estimates("sex ~ race + age | agency + education", staff, reference={"race": "E", "sex": "M"})
    frame = frame.assign(female=(frame["sex"] == "F").astype(float))
    model = smf.glm("female ~ race + age + C(agency) + C(education)", frame, family=sm.families.Binomial())
    agree(found, model.fit(tol=1e-14), {"race[T.A]": "race[T.A]", "age": "age"}, 1e-7)
    robust = estimates("sex ~ race + age", staff, reference={"race": "E", "sex": "M"}, robust=True)
    plain = smf.glm("female ~ race + age", frame, family=sm.families.Binomial()).fit(tol=1e-14, cov_type="HC0")
    n, k = 6000, 6
    for name in ("race[T.A]", "age"):
        ours = robust.variances[robust.names.index(name)]
        assert ours == pytest.approx(plain.bse[name] ** 2 * n / (n - k), rel=1e-6)


def test_ridge_is_scikit_learn(staff, frame):
    linear = pytest.importorskip("sklearn.linear_model")
    found = estimates("log(pay) ~ sex + race", staff, reference=REFERENCE, family="ridge", penalty=37.0)
    X = np.column_stack([frame["sex"] == "F", *(frame["race"] == r for r in "ABCD")]).astype(float)
    theirs = linear.Ridge(alpha=37.0).fit(X, np.log(frame["pay"]))
    assert found.values[1:] == pytest.approx(theirs.coef_, rel=1e-8)
    assert found.values[0] == pytest.approx(theirs.intercept_, rel=1e-8)


def test_ridge_chooses_its_penalty_by_cross_validation(staff):
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (300, 20)).astype(float)
    y = X @ rng.normal(0, 0.25, 20) + rng.normal(size=300)
    table = pa.table({"y": y} | {f"x{i}": X[:, i] for i in range(20)})
    found = estimates("y ~ " + " + ".join(f"x{i}" for i in range(20)), table, family="ridge")
    chosen = float(found.notes[-1].split("=")[1].strip(" ."))
    # Leave-one-out of the same model: generalised cross-validation comes close to it.
    strengths = np.geomspace(0.1, 1e4, 400)
    theirs = linear.RidgeCV(strengths, scoring="neg_mean_squared_error").fit(X, y)
    assert chosen == pytest.approx(theirs.alpha_, rel=0.25)
    assert (
        np.abs(found.values[1:]).sum()
        < np.abs(estimates("y ~ " + " + ".join(f"x{i}" for i in range(20)), table).values[1:]).sum()
    )


def test_ridge_and_fixed_effects(staff, frame):
    light = estimates(f"{PAY} | agency", staff, reference=REFERENCE, family="ridge", penalty=1e-9)
    plain = estimates(f"{PAY} | agency", staff, reference=REFERENCE)
    assert light.values == pytest.approx(plain.values, rel=1e-6)
    assert light.variances == pytest.approx(plain.variances, rel=1e-6)


def test_a_ridge_on_log_odds_is_a_penalised_likelihood():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(200), rng.integers(0, 2, 200), rng.normal(3, 4, 200)])
    y = rng.random(200) < 1 / (1 + np.exp(-(X @ [0.3, -0.8, 0.2])))
    found = estimates("y ~ a + b", pa.table({"y": y, "a": X[:, 1], "b": X[:, 2]}), family="logistic", penalty=4.0)
    unit = np.array([0.0, 1.0, 2 * X[:, 2].std()])

    def cost(b):
        return np.logaddexp(0, X @ b).sum() - y @ (X @ b) + 2.0 * ((unit * b) ** 2).sum()

    best = optimize.minimize(
        cost, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}
    )
    assert found.values == pytest.approx(best.x, abs=1e-5)


# --- Firth ------------------------------------------------------------------------------------------
# Urinary tract infection and contraception in 239 college women (Foxman et al. 1997), as R's logistf has it:
# age, oc, vic, vicl, vis, dia, infected, not infected. Published: logistf (Heinze and Ploner), data set sex2.
INFECTIONS = """
0 0 0 0 1 0 1 1 | 0 0 1 0 0 0 14 2 | 0 0 1 0 1 0 3 1 | 0 0 1 1 0 0 10 8 | 0 0 1 1 1 0 12 18 | 0 0 1 1 1 1 1 0
0 1 0 0 0 0 44 42 | 0 1 0 0 0 1 3 0 | 0 1 0 0 1 0 0 1 | 0 1 1 0 0 0 15 1 | 0 1 1 0 0 1 1 0 | 0 1 1 0 1 0 2 0
0 1 1 1 0 0 7 5 | 0 1 1 1 1 0 3 6 | 1 0 1 0 0 0 2 0 | 1 0 1 0 1 0 1 0 | 1 0 1 0 1 1 1 0 | 1 0 1 1 0 0 1 2
1 0 1 1 1 1 1 0 | 1 0 1 1 1 0 0 4 | 1 1 0 0 0 0 5 14 | 1 1 0 0 1 0 0 1 | 1 1 1 0 0 0 3 1 | 1 1 1 1 1 0 0 2
"""
LOGISTF = {
    "Intercept": (0.12025405, 0.485542),
    "age": (-1.10598131, 0.42366),
    "oc": (-0.06881673, 0.443793),
    "vic": (2.26887464, 0.548416),
    "vicl": (-2.11140817, 0.543082),
    "vis": (-0.78831694, 0.417368),
    "dia": (3.09601166, 1.67501),
}


def infections():
    cells = [[int(v) for v in line.split()] for line in INFECTIONS.replace("\n", "|").split("|") if line.strip()]
    rows = [(*c[:6], case) for c in cells for case, n in ((1, c[6]), (0, c[7])) for _ in range(n)]
    assert len(rows) == 239
    return pa.table(dict(zip(("age", "oc", "vic", "vicl", "vis", "dia", "case"), np.array(rows).T, strict=True)))


def test_firth_is_logistf():
    found = estimates("case ~ age + oc + vic + vicl + vis + dia", infections(), family="firth")
    for name, (coefficient, error) in LOGISTF.items():
        i = found.names.index(name)
        assert found.values[i] == pytest.approx(coefficient, rel=1e-5)
        assert found.variances[i] ** 0.5 == pytest.approx(error, rel=1e-4)


def test_firth_maximises_the_penalised_likelihood():
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(40), rng.normal(size=40), rng.integers(0, 2, 40)])
    y = (X[:, 1] > 0.1).astype(float)

    def cost(b):
        p = 1 / (1 + np.exp(-X @ b))
        information = (X * (p * (1 - p))[:, None]).T @ X
        return np.logaddexp(0, X @ b).sum() - y @ (X @ b) - 0.5 * np.linalg.slogdet(information)[1]

    best = optimize.minimize(
        cost, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}
    )
    found = estimates("y ~ a + b", pa.table({"y": y, "a": X[:, 1], "b": X[:, 2]}), family="firth")
    assert found.values == pytest.approx(best.x, abs=1e-4)


def separable(n=400, seed=0):
    """Nobody votes who is not registered."""
    rng = np.random.default_rng(seed)
    registered, young = rng.random(n) < 0.5, rng.random(n) < 0.3
    voted = registered & (rng.random(n) < 0.6)
    return pa.table({"voted": voted, "registered": registered, "young": young})


def test_separation_is_found_and_named():
    table = separable()
    with pytest.raises(UsageError, match="separation"):
        estimates("voted ~ registered*young", table, family="logistic")
    auto = Analysis.of("voted ~ registered*young", [table])
    assert auto.family == "logistic"
    found = auto(table)
    assert found.family == "firth"
    # Maximum likelihood would give 20 with a standard error in the hundreds.
    assert 4 < found.values[found.names.index("registered")] < 9
    assert found.variances[found.names.index("registered")] ** 0.5 < 2
    ridge = estimates("voted ~ registered*young", table, family="logistic", penalty=1.0)
    assert 2 < ridge.values[ridge.names.index("registered")] < 9
    alone = table.filter(table["registered"])
    assert estimates("voted ~ young", alone).family == ""


@pytest.mark.parametrize("seed", range(20))
def test_separation_is_exact(seed):
    """The linear program against brute force over all directions on a fine grid, two columns."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    X = np.column_stack([np.ones(n), rng.integers(-2, 3, n).astype(float)])
    y = (rng.random(n) < 0.5).astype(float)
    if np.ptp(X[:, 1]) == 0:
        X[0, 1] += 1
    made = ModelFrame(y, X, ("Intercept", "x"), (), None, 0)
    signed = np.where(y[:, None] > 0, X, -X)
    angles = np.linspace(0, 2 * np.pi, 721)
    across = np.column_stack([X[:, 1], -X[:, 0]])
    directions = np.concatenate([np.column_stack([np.cos(angles), np.sin(angles)]), across, -across])
    brute = any((signed @ d >= -1e-9).all() and (signed @ d).max() > 1e-9 for d in directions)
    assert is_separated(count_rows(made)) == brute


# --- parts ------------------------------------------------------------------------------------------


def test_columns_that_others_say_are_left_out(staff):
    found = estimates("log(pay) ~ age + I(2*age) + sex", staff)
    assert np.isnan(found.values[found.names.index("I(2 * age)")])
    assert not np.isnan(found.values[found.names.index("sex[T.M]")])
    assert "Not identified" in found.notes[0]
    assert "I(2 * age)" in found.notes[0]
    # A column that is constant within a fixed effect is the fixed effect's.
    years = estimates("log(pay) ~ sex + year | year", staff)
    assert np.isnan(years.values[years.names.index("year")])
    assert not np.isnan(years.values[years.names.index("sex[T.M]")])


def test_columns_of_very_different_size_are_kept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) * [1e-8, 1.0, 1e9]
    assert independent(X.T @ X).tolist() == [0, 1, 2]


def test_high_powers_are_solved_as_well_as_by_qr():
    rng = np.random.default_rng(1)
    age = rng.uniform(20, 70, 500)
    y = 3 + 0.1 * age - 2e-3 * age**2 + rng.normal(size=500)
    found = estimates("y ~ age + I(age**2) + I(age**3)", pa.table({"y": y, "age": age}))
    X = np.column_stack([np.ones(500), age, age**2, age**3])
    q, r = np.linalg.qr(X)
    assert found.values == pytest.approx(np.linalg.solve(r, q.T @ y), rel=1e-6)


@pytest.mark.parametrize(
    ("response", "rest", "options"),
    [
        ("y", "", {}),
        ("y", "", {"robust": True}),
        ("y", "", {"cluster": "g"}),
        ("y", " | g", {}),
        ("y", "", {"family": "ridge", "penalty": 2.0}),
        ("b", "", {}),
        ("b", " | g", {}),
        ("b", "", {"family": "firth"}),
        ("b", "", {"family": "logistic", "penalty": 2.0}),
    ],
)
def test_columns_far_from_zero_say_what_they_say_near_it(response, rest, options):
    """Years with their squares, and amounts in the millions, against the same numbers reckoned from their middle."""
    rng = np.random.default_rng(2)
    n = 600
    t, z = rng.integers(-5, 5, n).astype(float), rng.normal(size=n)
    latent = 0.1 * t - 0.05 * t**2 + 0.5 * z + rng.logistic(size=n)
    table = pa.table(
        {"y": latent, "b": (latent > 0).astype(int), "t": t, "z": z, "g": rng.choice(list("abcdef"), n)}
        | {"year": t + 2020, "amount": z + 2.0**20}
    )
    # A ridge penalises years and their squares as they stand: there without squares.
    ridge = "penalty" in options
    near = estimates(f"{response} ~ t + z{'' if ridge else ' + I(t**2)'}{rest}", table, **options)
    far = estimates(f"{response} ~ year + amount{'' if ridge else ' + I(year**2)'}{rest}", table, **options)
    for here, there in (("t", "year") if ridge else ("I(t ** 2)", "I(year ** 2)"), ("z", "amount")):
        i, j = near.names.index(here), far.names.index(there)
        assert far.values[j] == pytest.approx(near.values[i], rel=1e-5)
        assert far.variances[j] == pytest.approx(near.variances[i], rel=1e-5)
    if not rest and not ridge:
        # y = a + b(year − 2020) + c(year − 2020)² + d(amount − 2²⁰), all at 0.
        back = np.array(
            [{"Intercept": 1, "t": -2020.0, "I(t ** 2)": 2020.0**2, "z": -(2.0**20)}[n] for n in near.names]
        )
        assert far.values[0] == pytest.approx(back @ near.values, rel=1e-5)
        assert far.variances[0] == pytest.approx(back @ near.covariance @ back, rel=1e-5)


def test_a_constant_far_from_zero_is_the_intercepts(staff):
    found = estimates("log(pay) ~ sex + I(0*age + 1234567.1)", staff)
    assert np.isnan(found.values[-1])
    assert found.values[:2] == pytest.approx(estimates("log(pay) ~ sex", staff).values)


@pytest.mark.parametrize("n", [30, 1000])
def test_a_number_that_decides_the_response_is_found_separated(n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    table = pa.table({"x": x, "y": (x > np.median(x)).astype(int)})
    with pytest.raises(UsageError, match="separation"):
        estimates("y ~ x", table, family="logistic")
    found = estimates("y ~ x", table)
    assert found.family == "firth"
    made = Analysis.of("y ~ x", [table]).frame(table)

    def penalised(b):
        eta = made.X @ b
        p = expit(eta)
        information = (made.X * (p * (1 - p))[:, None]).T @ made.X
        return made.y @ eta - np.logaddexp(0, eta).sum() + 0.5 * np.linalg.slogdet(information)[1]

    best = penalised(found.values)
    for moved in (0.9, 1.1):
        assert penalised(found.values * moved) < best


def test_too_few_rows_are_refused():
    table = pa.table({"y": [1.0, 2.0, 3.0], "x": ["a", "b", "c"]})
    with pytest.raises(UsageError, match="3 rows are too few"):
        estimates("y ~ x", table)


def test_equal_rows_are_counted_once():
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 3, (5000, 4)).astype(float)
    cell, first = distinct(columns)
    assert len(first) == len(np.unique(columns, axis=0)) == 81
    assert (columns[first][cell] == columns).all()


@pytest.mark.parametrize("index", [pa.uint8(), pa.uint32(), pa.uint64(), pa.int8()])
def test_a_dictionary_may_have_unsigned_indices_and_missing_values(index):
    """Polars and some files have them; no unsigned number is −1."""
    parts = [pa.array([0, 1, None], index), pa.array([1, 0], index)]
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(p, pa.array(["a", "b"])) for p in parts])
    assert number_groups(pa.table({"g": column}), "g").tolist() == [1, 2, 0, 2, 1]
