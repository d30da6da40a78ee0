"""Analysis of variance against statsmodels, and on designs that cannot tell terms apart."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from dipsmith.experiments.anova import anova
from dipsmith.experiments.ranges import Numbers, Range
from dipsmith.experiments.results import Response


def response(rows, seed=0, drop=0):
    rng = np.random.default_rng(seed)
    made = [(a, b, c, r) for a, b, c in product("xyz", "uv", "pq") for r in range(rows)]
    made = [made[i] for i in np.sort(rng.permutation(len(made))[drop:])]
    a, b, c, r = (np.array(column) for column in zip(*made, strict=True))
    y = (a == "x") * 2.0 + (b == "u") * (c == "p") * 1.5 + r * 0.3 + rng.normal(0, 0.5, len(a))
    return Response("m", "", {"a": a, "b": b, "c": c}, r.astype(int), y, np.zeros(len(y)))


@pytest.mark.slow
@pytest.mark.parametrize("drop", [0, 7])
def test_type_two_sums_of_squares_are_those_of_statsmodels(drop):
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    given = response(4, drop=drop)
    frame = pd.DataFrame({**given.factors, "r": given.repeat, "y": given.values})
    model = smf.ols("y ~ C(r) + C(a) + C(b) + C(c) + C(a):C(b) + C(a):C(c) + C(b):C(c)", frame).fit()
    expected = sm.stats.anova_lm(model, typ=2)
    found = anova(given)
    for term in found.terms:
        row = expected.loc[":".join(f"C({n})" for n in term.factors)]
        assert term.squares == pytest.approx(row["sum_sq"], rel=1e-8)
        assert term.freedom == row["df"]
        assert term.f == pytest.approx(row["F"], rel=1e-8)
        assert term.p == pytest.approx(row["PR(>F)"], rel=1e-6, abs=1e-300)
    assert found.residual_squares == pytest.approx(expected.loc["Residual", "sum_sq"], rel=1e-8)
    assert found.residual_freedom == expected.loc["Residual", "df"]


def test_a_range_is_a_curve_and_its_interactions_are_those_of_its_slope():
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    rng = np.random.default_rng(2)
    a = rng.choice(list("xyz"), 60)
    x, z = np.exp(rng.uniform(0, np.log(100), 60)), rng.uniform(0, 1, 60)
    y = np.log(x) * (1 + (a == "x")) + 2 * z**2 + rng.normal(0, 0.3, 60)
    spans = {"x": Numbers(Range(1, 100, logarithmic=True), x), "z": Numbers(Range(0, 1), z)}
    labels = {n: np.array([v.range.label(u) for u in v.values]) for n, v in spans.items()}
    found = anova(Response("m", "", {"a": a, **labels}, np.zeros(60, int), y, y, spans))
    frame = pd.DataFrame({"a": a, "x": np.log(x) / np.log(10) - 1, "z": 2 * z - 1, "y": y})
    whole = "y ~ C(a) + x + I(x**2) + z + I(z**2) + C(a):x + C(a):z + x:z"
    fitted = smf.ols(whole, frame).fit()
    assert found.residual_squares == pytest.approx(fitted.ssr, rel=1e-8)
    expected = sm.stats.anova_lm(fitted, typ=2)
    for names, row in ((("a", "x"), "C(a):x"), (("a", "z"), "C(a):z"), (("x", "z"), "x:z")):
        term = next(t for t in found.terms if t.factors == names)
        assert (term.squares, term.freedom) == pytest.approx((expected.loc[row, "sum_sq"], expected.loc[row, "df"]))
    # The main effect of z after everything that does not contain it: slope and bend together.
    without = smf.ols("y ~ C(a) + x + I(x**2) + C(a):x", frame).fit().ssr
    with_it = smf.ols("y ~ C(a) + x + I(x**2) + C(a):x + z + I(z**2)", frame).fit().ssr
    term = next(t for t in found.terms if t.factors == ("z",))
    assert (term.squares, term.freedom) == (pytest.approx(without - with_it), 2)


def test_the_largest_term_comes_first_and_shares_of_a_balanced_design_add_up():
    found = anova(response(4))
    assert found.terms[0].factors == ("a",)
    blocks = 1 - found.residual_share - sum(t.share for t in found.terms)
    assert 0 <= blocks < 0.2  # what the repeats explain


def test_terms_that_a_fraction_cannot_tell_apart_have_no_freedom():
    rows = [(a, b, c) for a, b, c in product("01", repeat=3) if (int(a) + int(b) + int(c)) % 2 == 0] * 2
    a, b, c = (np.array(v) for v in zip(*rows, strict=True))
    y = np.random.default_rng(1).normal(size=8)
    found = anova(Response("m", "", {"a": a, "b": b, "c": c}, np.zeros(8, int), y, y))
    assert {t.freedom for t in found.terms if len(t.factors) == 2} == {0}
    assert all(np.isnan(t.p) for t in found.terms if len(t.factors) == 2)


def test_missing_numbers_are_left_out():
    whole = response(3)
    holed = Response("m", "", whole.factors, whole.repeat, whole.values.copy(), whole.references)
    holed.values[5] = np.nan
    assert anova(holed).runs == len(whole.values) - 1


def test_constant_numbers_are_no_failure():
    given = response(2)
    flat = Response("m", "", given.factors, given.repeat, np.ones(len(given.values)), given.references)
    assert anova(flat).residual_squares == pytest.approx(0)
