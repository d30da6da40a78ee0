"""Planned analyses at the edges: few rows, one label, one group, many groups; what cannot be is refused before a charge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from tests.analyses.test_direct import from_exact_sums, people, schema
from tests.analyses.test_release import FORMULA, METHODS, release

import dipsmith as ds
from dipsmith.analyses import design, measure, prior, public_columns, sums
from dipsmith.confirm.confirm import approve
from dipsmith.confirm.question import Inquiry
from dipsmith.errors import BudgetError, UsageError
from dipsmith.schema.analysis import PlannedAnalysis

pytestmark = pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")

FOREST = METHODS[1]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("log(pay) ~ sex + race + age | agency + year", "np.log(pay) ~ sex + race + age + agency + C(year)"),
        ("log(pay) ~ sex*agency + age | year", "np.log(pay) ~ sex*agency + age + C(year)"),
        ("I(sex == 'F') ~ age + race | agency", "female ~ age + race + agency"),
    ],
)
def test_an_absorbed_fixed_effect_changes_nothing(ours: str, theirs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest fixed effect is absorbed, as if there were many groups: least squares as statsmodels has it."""
    monkeypatch.setattr(public_columns, "DENSE", 2)
    monkeypatch.setattr(sums, "LEAST_BIAS", 0.0)
    monkeypatch.setattr(prior, "SD", 1e8)
    frame = people(900, 1)
    frame["female"] = (frame.sex == "F").astype(int)
    found, wanted = from_exact_sums(ours, frame, model="ols"), smf.ols(theirs, frame).fit()
    for name, value, variance in zip(found.names, found.values, np.diag(found.covariance), strict=True):
        assert value == pytest.approx(wanted.params[name], rel=1e-8, abs=1e-9), name
        assert variance**0.5 == pytest.approx(wanted.bse[name], rel=1e-6), name


@pytest.mark.parametrize("formula", ["v ~ z + g", "z ~ v + g", "y ~ v + g", "v ~ y + g"])
@pytest.mark.parametrize("largest", [1e59, 1e200])
def test_numbers_whose_squares_overflow_are_refused_before_a_charge(formula: str, largest: float) -> None:
    """They would end a run with an error of linear algebra, after the charge."""
    bins = {"edges": [0, largest / 2, largest]}
    fields = [{"name": "g", "type": "string", "role": "public", "enum": ["a", "b"], "other": "a"}]
    fields += [{"name": "v", "type": "number", "role": "public", "bins": bins}]
    fields += [{"name": "y", "type": "number", "role": "private", "bins": bins}]
    fields += [{"name": "z", "type": "string", "role": "private", "enum": ["a", "b"], "other": "a"}]
    declared = ds.Schema.from_dict({"name": "vast", "neighbours": "label", "unit": "row", "fields": fields})
    table = pa.table({"g": ["a", "b", "a"], "v": [0.0, largest / 3, largest]})
    if largest < measure.LARGEST:
        assert len(measure.read_designs([PlannedAnalysis(formula)], declared, table)) == 1
        return
    with pytest.raises(UsageError, match=r"numbers beyond 1e\+60"):
        measure.read_designs([PlannedAnalysis(formula)], declared, table)


def test_rows_in_any_order_have_the_same_sums() -> None:
    """Runs of rows that agree in the public columns are one row: sorted rows have few, others none."""
    frame = pd.concat([people(300, 1)] * 2).sort_values(["agency", "year", "age", "race", "sex", "pay"])
    asked = "log(pay) ~ sex + race + age + I(age**2) | agency + year"
    one, other = (from_exact_sums(asked, f) for f in (frame, frame.sample(frac=1, random_state=1)))
    assert np.allclose(one.values, other.values, rtol=1e-9, atol=1e-12)
    few, none = (
        public_columns.RowRuns.of([design.PublicBlock("a", codes, 9, None, np.arange(9), ())], 900)
        for codes in (np.repeat(np.arange(9), 100), np.tile(np.arange(9), 100))
    )
    assert (len(few.starts), len(none.starts)) == (9, 900)
    values = np.random.default_rng(0).normal(size=900)
    assert np.allclose(few.sums(values), values.reshape(9, 100).sum(axis=1))
    assert np.array_equal(few.spread(np.arange(9.0)), np.repeat(np.arange(9.0), 100))


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("asked", [FORMULA, "I(sex == 'F') ~ age + agency", "log(pay) ~ sex*agency + age"])
def test_tables_of_a_few_rows(rows: int, asked: str) -> None:
    made = release(people(400, 1).iloc[:rows], FOREST, analyses=[asked])
    assert made.tables[0].num_rows == rows
    assert len(made.results) == 1


def test_odds_of_columns_that_are_not_told_apart_can_be_saved(tmp_path: Path) -> None:
    """What is not told of one coefficient (an agency that is a year, too) leaves the others' shares of noise known."""
    frame = people(400, 2)
    frame["year"] = np.where(frame.agency == frame.agency.iloc[0], 1988, 1996)
    frame = frame[frame.agency.isin(frame.agency.unique()[:2])]
    made = release(frame, FOREST, analyses=["sex ~ agency + C(year)"])
    told = [c for c in made.results[0].coefficients if c.estimate is not None]
    assert 0 < len(told) < len(made.results[0].coefficients)
    assert all(c.noise_share is not None and 0 <= c.noise_share <= 1 for c in told)
    made.save(tmp_path / "release")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["agency", "sex", "age"])
def test_a_column_with_one_value(column: str) -> None:
    frame = people(300, 2)
    frame[column] = frame[column].iloc[0]
    asked = ["log(pay) ~ sex*agency + age", "I(race == 'B') ~ age + agency", "log(pay) ~ 0 + sex"]
    assert len(release(frame, FOREST, analyses=asked).results) == 3


def test_a_constant_response_has_no_effects() -> None:
    frame = people(300, 3)
    frame["pay"] = 50_000.0
    (result,) = release(frame, FOREST, analyses=["log(pay) ~ sex"], budget=ds.PureDP(20)).results
    assert (result["sex[T.M]"].estimate or 0.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [ds.PureDP(20), ds.ZCDP(20)])
def test_units_under_both_currencies_and_strata(budget: ds.PureDP | ds.ZCDP) -> None:
    frame = people(600, 4)
    frame["person"] = np.arange(600) // 3
    declared = ds.Schema.from_dict({**schema().to_dict(), "unit": {"column": "person", "max_rows": 2}})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    method = ds.Forest(targets=["sex", "race"], strata="year")
    made = ds.synthesize(table, declared, method, budget=budget, testing=True, noise_seed=1, analyses=[FORMULA])
    assert made.results[0].rows == 400
    assert sum(float(line["cost"]) for line in made.card.spending) == pytest.approx(20)


def test_rows_without_a_unit_count_nowhere() -> None:
    frame = people(60, 5)
    frame["person"] = None
    declared = ds.Schema.from_dict({**schema().to_dict(), "unit": {"column": "person", "max_rows": 2}})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    made = ds.synthesize(table, declared, FOREST, budget=ds.PureDP(1), testing=True, noise_seed=1, analyses=[FORMULA])
    assert made.results == ()


@pytest.mark.slow
def test_what_rows_make_impossible_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = people(200, 6)
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("staff", ds.PureDP(1))

    def refused(rows: pd.DataFrame, asked: str, message: str) -> None:
        table = pa.Table.from_pandas(rows, preserve_index=False)
        with pytest.raises(UsageError, match=message):
            ds.synthesize(table, schema(), FOREST, budget=ds.PureDP(1), ledger=ledger, analyses=[asked])

    refused(frame.iloc[:0], FORMULA, "no row has all")
    refused(frame.assign(pay=0.0), FORMULA, "no row has all")
    monkeypatch.setattr(measure, "MOST_PARTS", 2)
    refused(frame, "log(pay) ~ sex | by year", "3 parts")
    monkeypatch.setattr(design, "MOST_PUBLIC", 10)
    refused(frame, "log(pay) ~ sex | age + pay", "one fixed effect")
    refused(frame, "I(sex == 'F') ~ 1 | age", "for odds in all")
    monkeypatch.setattr(design, "MOST_PUBLIC", 3000)
    monkeypatch.setattr(design, "MOST_GROUPS", 10)
    refused(frame, "log(pay) ~ sex | age", "one fixed effect")
    monkeypatch.setattr(design, "MOST_SUMS", 10_000)
    refused(frame, "log(pay) ~ sex:age | agency", "counts of rows")
    assert ledger.show("staff").remaining == 1


@pytest.mark.slow
def test_many_groups() -> None:
    """A fixed effect of 2,000 groups beside another: more than are inverted as one matrix."""
    frame = people(6000, 7)
    frame["age"] = np.random.default_rng(1).integers(0, 2000, 6000)
    (result,) = release(
        frame, FOREST, analyses=[PlannedAnalysis("log(pay) ~ sex | age + agency")], budget=ds.PureDP(60)
    ).results
    wanted = ds.fit(pa.Table.from_pandas(frame), "log(pay) ~ sex | age + agency", rule="sampling")
    found = result["sex[T.M]"]
    assert found.estimate is not None
    assert found.se is not None
    assert found.estimate == pytest.approx(float(wanted["sex[T.M]"]), abs=4 * found.se)


def test_a_budget_too_small_for_the_noise_of_sums_is_refused_before_it_is_charged(tmp_path):
    """500 rows of a unit at ρ = 0.00001: σ² beyond 2⁶⁰, which ended the run after it was paid for."""
    declared = ds.Schema.from_dict(
        {
            "name": "people",
            "unit": {"column": "id", "max_rows": 500},
            "neighbours": "label",
            "fields": [
                {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"count": 4}, "role": "public"},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
            ],
        }
    )
    table = pa.table(
        {
            "id": [str(i // 3) for i in range(300)],
            "pay": [float(i % 97) for i in range(300)],
            "sex": ["F", "M", "M"] * 100,
        }
    )
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("people", ds.ZCDP(1))
    asked = {"ledger": ledger, "analyses": ("pay ~ sex",)}
    with pytest.raises(BudgetError, match="too small for the sums of planned analyses with 500 rows of a unit"):
        ds.synthesize(table, declared, "loglinear", budget=ds.ZCDP("0.00001"), **asked)
    question = Inquiry(
        "people", "0" * 64, "pay ~ sex", "sex[F] < 0", ds.ZCDP("0.000001"), "direct", reference=(("sex", "M"),)
    )
    with pytest.raises(BudgetError, match="too small for the sums"):
        approve(question, table, declared, ledger=ledger, out=tmp_path / "answer")
    assert ledger.show("people").spent_units == 0
