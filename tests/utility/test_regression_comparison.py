"""Regressions side by side: every family, difference in differences, by year, with and without noise in the intervals."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import UsageError
from dipsmith.utility.regression import Regression, compare_regression, overlap

FIELDS = [
    {"name": "year", "type": "integer", "enum": [2008, 2012], "other": 2008},
    {"name": "treated", "type": "string", "enum": ["no", "yes"], "other": "no"},
    {"name": "group", "type": "string", "enum": ["a", "b", "c"], "other": "a"},
    {"name": "score", "type": "number", "minimum": -10, "maximum": 20, "bins": {"width": 1}},
    {"name": "voted", "type": "string", "enum": ["no", "yes"], "other": "no"},
]
SCHEMA = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": FIELDS})


def people(n=4000, seed=0, effect=2.0):
    """A treatment that works in 2012 only, by `effect`: what a difference in differences should find."""
    rng = np.random.default_rng(seed)
    year, treated = rng.choice([2008, 2012], n), rng.choice(["no", "yes"], n)
    works = (year == 2012) & (treated == "yes")
    score = 3 + (year == 2012) + 0.5 * (treated == "yes") + effect * works + rng.normal(0, 1, n)
    voted = rng.random(n) < 1 / (1 + np.exp(-(-1 + 0.8 * works + 0.2 * (score - 3))))
    return pa.table(
        {
            "year": year,
            "treated": treated,
            "group": rng.choice(list("abc"), n),
            "score": score,
            "voted": np.where(voted, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def release():
    return ds.synthesize(people(), SCHEMA, ds.Flat(), budget=ds.PureDP(20), testing=True, noise_seed=1, seed=1)


@pytest.fixture(scope="module")
def copy(release):
    """A release that holds the authentic rows: everything must agree."""
    return replace(release, tables=(people(),))


ANALYSES = [
    ("score ~ C(year)*treated", "ols"),
    ("score ~ treated | group + year", "ols"),
    ("score ~ treated + C(year)", "ridge"),
    ("voted ~ C(year)*treated", "logistic"),
    ("voted ~ treated + score", "firth"),
]


@pytest.mark.parametrize(("formula", "family"), ANALYSES)
def test_a_copy_agrees_in_every_family(copy, formula, family):
    found = compare_regression(Regression(formula, family=family), people(), {"copy": copy}, SCHEMA)
    (agreement,) = found.agreements
    assert agreement.coefficients
    assert agreement.overlap == pytest.approx(1)
    assert (agreement.covered, agreement.same_conclusion, agreement.width_ratio) == (1, 1, pytest.approx(1))


@pytest.mark.parametrize(("formula", "family"), ANALYSES)
def test_the_authentic_side_is_what_fit_finds(release, formula, family):
    found = compare_regression(Regression(formula, family=family), people(), {"r": release}, SCHEMA)
    alone = ds.fit(people(), formula, family=family)
    synthetic = ds.fit(release.tables[0], formula, family=family)
    for c in found.agreements[0].coefficients:
        if c.name in alone.names and c.name in synthetic.names:
            assert c.authentic == pytest.approx(alone[c.name].value, rel=1e-9, abs=1e-12)
            assert c.authentic_interval == pytest.approx((alone[c.name].low, alone[c.name].high), rel=1e-9)
            assert c.synthetic == pytest.approx(synthetic[c.name].value, rel=1e-9, abs=1e-12)
            assert c.overlap == overlap(c.authentic_interval, c.synthetic_interval)


def test_a_difference_in_differences_is_found(release):
    found = compare_regression(
        Regression("score ~ C(year)*treated", reference={"treated": "no"}), people(), {"r": release}, SCHEMA
    )
    held = {c.name: c for c in found.agreements[0].coefficients}
    (name,) = [n for n in held if ":" in n]
    means = people().to_pandas().groupby(["year", "treated"])["score"].mean()
    gaps = {year: means[year]["yes"] - means[year]["no"] for year in (2008, 2012)}
    assert held[name].authentic == pytest.approx(gaps[2012] - gaps[2008], rel=1e-9)
    assert held[name].synthetic == pytest.approx(2.0, abs=0.5)  # the treatment works by 2
    assert held[name].same_conclusion


def test_separated_tables_are_all_fitted_by_firth(copy):
    """Nobody of group c votes: maximum likelihood runs off to infinity, and 'auto' must not mix two methods."""
    authentic = people()
    group = np.array(authentic["group"].to_pylist())
    voted = np.where(group == "c", "no", np.array(authentic["voted"].to_pylist()))
    separated = authentic.set_column(4, "voted", pa.array(voted))
    found = compare_regression(Regression("voted ~ group"), separated, {"copy": copy}, SCHEMA)
    assert found.name == "Firth's logistic regression"
    held = {c.name: c for c in found.agreements[0].coefficients}
    assert np.abs(held["group[T.c]"].authentic) < 15
    assert held["group[T.b]"].synthetic == pytest.approx(
        ds.fit(people(), "voted ~ group", family="firth")["group[T.b]"].value, rel=1e-8
    )


def test_once_per_level_with_the_noise_in_the_intervals(release):
    plain = compare_regression(Regression("score ~ treated", by="year"), people(), {"r": release}, SCHEMA)
    aware = compare_regression(
        Regression("score ~ treated", by="year", replicates=10), people(), {"r": release}, SCHEMA
    )
    assert plain.levels == aware.levels == ("2008", "2012")
    assert "leave the noise of privacy out" in plain.rule
    assert "Var_noise" in aware.rule
    for level in plain.levels:
        narrow, wide = (found.of("r", level) for found in (plain, aware))
        assert wide.width_ratio > narrow.width_ratio


def test_an_analysis_that_does_not_fit_is_refused_in_words(release):
    with pytest.raises(UsageError, match="an analysis is a formula"):
        Regression.of({"formula": "score ~ treated", "colour": "blue"})
    with pytest.raises(UsageError, match="by='town'"):
        compare_regression(Regression("score ~ treated", by="town"), people(), {"r": release}, SCHEMA)
