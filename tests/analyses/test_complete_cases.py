"""Regressions leave out rows in which a column is missing; noisy tables that hold all those columns know which these are."""

import numpy as np
import pandas as pd
import pytest

from dipsmith.analyses.agreed_tables import NoisyMarginal
from dipsmith.analyses.complete_cases import complete_cases, never_missing
from dipsmith.analyses.odds import estimate_planned
from dipsmith.analyses.pairs import estimate_from_tables, find_unmeasured
from dipsmith.errors import UsageError
from dipsmith.regression.formula import RegressionFormula
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

FIELDS = [
    {"name": "y", "type": "integer", "minimum": 0, "maximum": 3, "bins": {"width": 1}, "missing": True},
    {"name": "s", "type": "string", "enum": ["F", "M"], "other": "F", "missing": True},
    {"name": "g", "type": "string", "enum": ["a", "b", "c"], "other": "a", "missing": True},
]
SCHEMA = Schema.from_dict({"name": "p", "unit": "row", "neighbours": "replace", "fields": FIELDS})


def people(rows: int, seed: int) -> Codes:
    """Rows in which whoever is high in y tends to be M, and is more often silent about s."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, rows)
    s = (rng.random(rows) < 0.2 + 0.15 * y).astype(int)
    g = rng.integers(0, 3, rows)
    s = np.where(rng.random(rows) < 0.05 + 0.1 * y, 2, s)
    y = np.where(rng.random(rows) < 0.1, 4, y)
    g = np.where(rng.random(rows) < 0.1, 3, g)
    return Codes.of(SCHEMA, {"y": y, "s": s, "g": g}, rows)


def table(codes: Codes, names: list[str], sd: float = 0.0, seed: int = 0) -> NoisyMarginal:
    cells = Marginal.of(SCHEMA, names)
    counts = np.bincount(cells.index(codes), minlength=cells.size).astype(float)
    noise = np.rint(sd * np.random.default_rng(seed).normal(size=cells.size))
    return NoisyMarginal(cells.attributes, (counts + noise).reshape(cells.shape), np.full(cells.shape, sd**2), False)


def complete_rows(codes: Codes, names: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame({"y": codes["y"], "s": codes["s"], "g": codes["g"]})
    known = frame[(frame[names] < [SCHEMA[n].size - 1 for n in names]).all(axis=1)]
    return known.assign(s=known.s.map({0: "F", 1: "M"}), g=known.g.map(dict(enumerate("abc"))), m=known.s)


@pytest.mark.parametrize("formula", ["y ~ s + g", "y ~ s", "y ~ s * g"])
def test_without_noise_it_is_least_squares_of_the_complete_rows(formula):
    smf = pytest.importorskip("statsmodels.formula.api")
    codes, parsed = people(4000, 1), RegressionFormula.parse(formula, SCHEMA.names)
    schema, tables, rows = complete_cases(SCHEMA, [table(codes, ["y", "s", "g"])], 4000, never_missing(parsed))
    (found,) = estimate_from_tables(formula, schema, tables, rows=rows, draws=2)
    fitted = smf.ols(formula, complete_rows(codes, list(parsed.columns))).fit()
    for c in found.coefficients:
        assert c.estimate == pytest.approx(fitted.params[c.name], rel=1e-8, abs=1e-8)
        assert c.se == pytest.approx(fitted.bse[c.name], rel=1e-8)
    assert found.rows == int(fitted.nobs) < 4000


def test_without_noise_odds_are_those_of_the_complete_rows():
    smf = pytest.importorskip("statsmodels.formula.api")
    codes = people(4000, 2)
    (found,) = estimate_planned(
        PlannedAnalysis("s ~ y + g"), SCHEMA, [table(codes, ["y", "s", "g"])], rows=4000, draws=2
    )
    fitted = smf.logit("m ~ y + g", complete_rows(codes, ["y", "s", "g"])).fit(disp=0)
    for c in found.coefficients:
        assert c.estimate == pytest.approx(fitted.params[c.name], rel=1e-6, abs=1e-6)


def test_a_table_without_a_column_that_may_be_missing_does_not_tell_which_rows_are_complete():
    codes = people(1000, 3)
    pairs = [table(codes, names) for names in (["y", "s"], ["y", "g"], ["s", "g"])]
    parsed = RegressionFormula.parse("y ~ s + g", SCHEMA.names)
    schema, tables, _ = complete_cases(SCHEMA, pairs, None, never_missing(parsed))
    assert tables == []
    assert find_unmeasured(PlannedAnalysis("y ~ s + g"), schema, [t.attributes for t in tables])
    with pytest.raises(UsageError, match="rows without y or s or g are left out"):
        estimate_planned(PlannedAnalysis("y ~ s + g", model="ols"), SCHEMA, pairs, rows=1000)


@pytest.mark.parametrize("model", ["ols", "logistic"])
def test_intervals_cover_what_the_complete_rows_of_everybody_have(model):
    """150 tables, of 3,000 rows with noise of 15: fewer than 126 covering has odds of 6e-7 at .95."""
    formula = "s ~ y" if model == "logistic" else "y ~ s"
    planned, name = PlannedAnalysis(formula, model=model), "y" if model == "logistic" else "s[T.M]"
    names = never_missing(RegressionFormula.parse(formula, SCHEMA.names))

    def estimated(rows: int, sd: float, seed: int):
        whole = [table(people(rows, seed), ["y", "s"], sd, seed)]
        schema, tables, known = complete_cases(SCHEMA, whole, rows, names)
        return estimate_planned(planned, schema, tables, rows=known, draws=200)[0][name]

    true = estimated(2_000_000, 0.0, 10).estimate
    found = [estimated(3000, 15.0, 100 + i) for i in range(150)]
    assert sum(c.low <= true <= c.high for c in found) >= 126
