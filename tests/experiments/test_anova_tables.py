"""Analysis of variance against statsmodels, and on designs that cannot tell terms apart."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from dipsmith.experiments.anova import anova
from dipsmith.experiments.results import Response


def response(rows, seed=0, drop=0):
    rng = np.random.default_rng(seed)
    made = [(a, b, c, r) for a, b, c in product("xyz", "uv", "pq") for r in range(rows)]
    made = [made[i] for i in np.sort(rng.permutation(len(made))[drop:])]
    a, b, c, r = (np.array(column) for column in zip(*made, strict=True))
    y = (a == "x") * 2.0 + (b == "u") * (c == "p") * 1.5 + r * 0.3 + rng.normal(0, 0.5, len(a))
    return Response("m", "", {"a": a, "b": b, "c": c}, r.astype(int), y, np.zeros(len(y)))


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
