"""Formulas that end in "| by …": planned results, direct estimates, rows, each part by itself."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import UsageError

FIELDS = [
    {"name": "year", "type": "integer", "enum": [9, 10], "other": "9", "role": "public"},
    {"name": "a", "type": "string", "enum": ["p", "q"], "other": "p", "role": "public"},
    {"name": "y", "type": "integer", "minimum": 0, "maximum": 19, "bins": {"width": 1}, "role": "public"},
    {"name": "s", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
]
ASKED = "y ~ s | a | by year"


def rows(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    year, a, s = rng.choice([9, 10], n), rng.integers(0, 2, n), rng.random(n) < 0.4
    y = np.clip(np.round(8 + a + 2.0 * s * (year == 10) + rng.normal(0, 2, n)), 0, 19).astype(int)
    return pa.table({"year": year, "a": np.array(list("pq"))[a], "y": y, "s": np.where(s, "M", "F")})


def made(neighbours, method, budget, **more):
    schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": FIELDS})
    return ds.synthesize(rows(), schema, method, budget=ds.PureDP(budget), testing=True, noise_seed=1, **more)


def test_planned_parts_are_found_by_their_formula():
    release = made("label", ds.Forest(targets=["s"]), 3, analyses=[ASKED])
    found = ds.fit(release, "y ~ s | a |  by year")
    assert found.names == ("year 9: s[T.M]", "year 10: s[T.M]")
    assert found.direct
    assert found.formula == ASKED
    for result, name in zip(release.results, found.names, strict=True):
        assert found[name].value == result["s[T.M]"].estimate
        assert found[name].high == pytest.approx(result["s[T.M]"].high)
    assert found.joint("s").p_value < 1e-6
    turned = ds.fit(release, ASKED, reference={"s": "M"})
    assert turned["year 10: s[T.F]"].value == pytest.approx(-found["year 10: s[T.M]"].value)
    assert found["year 10: s[T.M]"].value > 1.0


def test_plain_tables_are_fitted_part_by_part():
    table = rows()
    found = ds.fit(table, ASKED)
    for year in (9, 10):
        alone = ds.fit(table.filter(pa.compute.equal(table["year"], year)), "y ~ s | a")
        assert found[f"year {year}: s[T.M]"].value == pytest.approx(alone["s[T.M]"].value)
        assert found[f"year {year}: s[T.M]"].std_error == pytest.approx(alone["s[T.M]"].std_error)
    assert "| by year: Least squares, 2,000 rows" in str(found)


@pytest.mark.parametrize(
    ("neighbours", "method"), [("label", ds.LogLinear(targets=["s"])), ("replace", ds.Marginals(cliques=3))]
)
def test_noisy_tables_tell_parts_that_nobody_planned(neighbours, method):
    # under label: the share of each year; whole rows: all triples were measured
    formula = 'I(s == "M") ~ a | by year'
    release = made(neighbours, method, 10_000 if neighbours == "label" else 300)
    if neighbours == "label":
        formula = 'I(s == "M") ~ 1 | by year'
    found, authentic = ds.fit(release, formula, family="ols"), ds.fit(rows(), formula, family="ols")
    assert found.direct
    for name in found.names:
        assert found[name].value == pytest.approx(authentic[name].value, abs=0.005)


def test_rows_are_run_again_part_by_part():
    release = made("label", ds.LogLinear(targets=["s"], analyses=["y ~ s | year + a"]), 20)
    found = ds.fit(release, "s ~ 1 | by year", rule="noise-aware", replicates=10, seed=1)
    assert len(found.names) == 2
    assert np.isfinite(found.combined.interval[0]).all()


def test_what_cannot_be_repeated_is_said():
    with pytest.raises(UsageError, match="there is no column 'month' to repeat the formula by"):
        ds.fit(rows(), "y ~ s | by month")
    with pytest.raises(UsageError, match="also one of its terms"):
        ds.fit(rows(), "y ~ s | by s")
