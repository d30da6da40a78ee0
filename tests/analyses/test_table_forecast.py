"""What a plan promises of regressions of whole rows, against what noisy tables of uneven rows tell."""

import numpy as np
import pytest

import dipsmith as ds
from dipsmith.analyses.agreed_tables import NoisyMarginal
from dipsmith.analyses.measure import Expectation
from dipsmith.analyses.odds import estimate_planned
from dipsmith.analyses.results import DirectCoefficient, Result
from dipsmith.analyses.table_forecast import expect_from_tables
from dipsmith.methods.method import Planned
from dipsmith.planning.analysis_plan import AnalysisPlan
from dipsmith.planning.coarser_bins import advise_bins
from dipsmith.schema.analysis import PlannedAnalysis

ROWS = 40_000
NAMES = ("paid", "sex", "age", "hours")


def schema_of(width: int) -> ds.Schema:
    fields = [
        {"name": "paid", "type": "string", "enum": ["n", "y"], "other": "n"},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
        {"name": "age", "type": "integer", "minimum": 17, "maximum": 90, "bins": {"width": width}},
        {"name": "hours", "type": "integer", "minimum": 1, "maximum": 99, "bins": {"width": width}},
    ]
    return ds.Schema.from_dict({"name": "p", "unit": "row", "neighbours": "add-remove", "fields": fields})


def counts(width: int) -> np.ndarray:
    """Uneven rows: few are old, half work 40 hours, a quarter is paid well, and the odds differ."""
    rng = np.random.default_rng(3)
    sex = rng.random(ROWS) < 0.67
    age = np.clip(17 + rng.gamma(2.3, 9.3, ROWS), 17, 90).astype(int)
    hours = np.where(rng.random(ROWS) < 0.5, 40, np.clip(rng.normal(40, 15, ROWS), 1, 99)).astype(int)
    odds = -1.9 + 0.8 * sex + 0.045 * (age - 38) + 0.035 * (hours - 40)
    paid = rng.random(ROWS) < 1 / (1 + np.exp(-odds))
    shape = (2, 2, -(-74 // width), -(-99 // width))
    at = np.ravel_multi_index((paid, sex, (age - 17) // width, (hours - 1) // width), shape)
    return np.bincount(at, minlength=np.prod(shape)).reshape(shape).astype(float)


def promised(schema: ds.Schema, formula: str, sd: float) -> tuple[Expectation, ...]:
    return expect_from_tables([PlannedAnalysis.of(formula)], schema, [table_step(sd)], ROWS)


def table_step(sd: float) -> Planned:
    return Planned("planned table", " × ".join(NAMES), ds.PureDP(1), 2, sd, attributes=NAMES)


def told(schema: ds.Schema, width: int, formula: str, sd: float, seed: int) -> Result | None:
    values = counts(width)
    noise = np.random.default_rng(seed).laplace(0, sd / 2**0.5, values.shape)
    table = NoisyMarginal(NAMES, values + noise, np.full(values.shape, sd**2), True)
    found = estimate_planned(PlannedAnalysis.of(formula), schema, [table], rows=ROWS, draws=100)
    return found[0] if found else None


def told_coefficients(found: Result | None) -> tuple[DirectCoefficient, ...]:
    return () if found is None else found.coefficients[1:]


@pytest.mark.parametrize("formula", ["paid ~ sex + age + hours", "age ~ sex + hours"])
@pytest.mark.parametrize("sd", [0.5, 2.0])
def test_standard_errors_are_promised_to_a_factor_of_four(formula: str, sd: float) -> None:
    """Were levels taken to be equally frequent, noise would be promised five to ten times too small."""
    schema = schema_of(1)
    expected = {e.name: e for e in promised(schema, formula, sd)}
    found = told(schema, 1, formula, sd, 1)
    assert found is not None
    for c in told_coefficients(found):
        assert c.se is not None
        assert 1 / 4 < c.se / np.hypot(expected[c.name].noise, expected[c.name].sampling) < 4, c


@pytest.mark.parametrize(("width", "sds"), [(1, (1.0, 3.0, 10.0, 40.0)), (5, (8.0, 20.0, 60.0, 120.0))])
def test_odds_that_are_promised_are_told_and_hopeless_ones_are_not(width: int, sds: tuple[float, ...]) -> None:
    schema, formula = schema_of(width), "paid ~ sex + age + hours"
    seen = set()
    for sd in sds:
        hopeless = {e.hopeless for e in promised(schema, formula, sd)}
        runs = [told(schema, width, formula, sd, seed) for seed in range(3)]
        share = np.mean([r is not None and all(c.se is not None for c in told_coefficients(r)) for r in runs])
        if hopeless == {False}:
            assert share > 0.5, sd
        if hopeless == {True}:
            assert share < 0.5, sd
        seen |= hopeless
    assert seen == {False, True}


def test_bins_are_advised_with_which_hidden_odds_are_told() -> None:
    sd, formula = 25.0, "paid ~ sex + age + hours"
    plan = AnalysisPlan.of_tables([PlannedAnalysis.of(formula)], schema_of(1), [table_step(sd)], ROWS)
    assert plan.hopeless == (f"{formula}: noise is likely to hide all of it; raise the budget, or ask for less",)
    advice = advise_bins(PlannedAnalysis.of(formula), schema_of(1), [table_step(sd)], ROWS)
    assert f"{formula}: {advice}" in plan.notes
    assert advice.startswith("with age in bins of 5 and hours in bins of 5 (1,200 cells instead of 29,304)")
    assert all(c.se is not None for c in told_coefficients(told(schema_of(5), 5, formula, sd, 2)))


def test_bins_that_are_too_wide_are_named_before_anything_is_spent() -> None:
    """With little noise what a bin hides outweighs it: finer bins are asked for, not a larger budget."""
    plan = AnalysisPlan.of_tables(
        [PlannedAnalysis.of("paid ~ sex + age + hours")], schema_of(5), [table_step(0.5)], ROWS
    )
    (hidden,) = plan.hopeless
    assert "known in bins" in hidden
    assert "finer bins" in hidden
    assert "budget" not in hidden
