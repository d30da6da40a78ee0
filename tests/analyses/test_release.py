"""Planned analyses in a release: results on the card, labels that carry them, bytes that tell nothing of the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.analyses.test_direct import people, schema

import dipsmith as ds
from dipsmith.errors import SchemaError, UsageError
from dipsmith.schema.analysis import PlannedAnalysis

pytestmark = pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")  # tables of a few hundred rows

FORMULA = "log(pay) ~ sex + race + age | agency + year"
CHANGING = ("card.json", "card.html", "ro-crate-metadata.json")
"""Files that tell when they were made."""
METHODS = [ds.LogLinear(targets=["sex", "race"]), ds.Forest(targets=["sex", "race"])]


def release(frame: pd.DataFrame, method: ds.Method, seed: int = 1, **asked: object) -> ds.Release:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    wanted = {"analyses": [FORMULA], "budget": ds.PureDP(1), **asked}
    return ds.synthesize(table, schema(), method, testing=True, noise_seed=seed, seed=seed, **wanted)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_a_plain_regression_of_the_release_says_the_direct_estimate(method: ds.Method) -> None:
    made = release(people(6000, 11), method)
    (result,) = made.results
    found = ds.fit(made.tables[0], FORMULA, rule="sampling")
    for name in ("sex[T.M]", "race[T.B]", "race[T.C]"):
        direct = result[name].estimate
        assert direct is not None
        assert float(found[name]) == pytest.approx(direct, abs=0.003)


def test_labels_without_a_plan_do_not_carry_it() -> None:
    """What the test above shows of the forest is the calibration's doing."""
    plain = release(people(6000, 11), METHODS[1], analyses=())
    assert plain.results == ()
    assert abs(float(ds.fit(plain.tables[0], FORMULA, rule="sampling")["sex[T.M]"])) < 0.08


def test_odds_and_shares_of_a_label_are_carried() -> None:
    asked = ["I(sex == 'F') ~ age + agency", PlannedAnalysis("I(race == 'B') ~ 0 + C(year)", model="ols")]
    made = release(people(6000, 12), METHODS[1], analyses=asked)
    for result, formula in zip(
        made.results, ("I(sex == 'F') ~ age + agency", "I(race == 'B') ~ 0 + C(year)"), strict=True
    ):
        family = "logistic" if result.model == "logistic" else "ols"
        found = ds.fit(made.tables[0], formula, rule="sampling", family=family)
        for c in result.coefficients:
            assert c.estimate is not None
            assert c.se is not None
            # A balanced draw is off by .01 to .11 of a standard error (ten releases), labels drawn by chance by one.
            assert float(found[c.name]) == pytest.approx(c.estimate, abs=max(0.25 * c.se, 0.004)), c.name


@pytest.fixture(scope="module")
def half_carried() -> ds.Release:
    """The forest's labels are adjusted to the first analysis; to one with labels on both sides they are not."""
    asked = ["log(pay) ~ sex | agency", PlannedAnalysis("I(sex == 'F') ~ race + age", model="ols")]
    return release(people(3000, 11), METHODS[1], analyses=asked)


def test_results_say_what_a_plain_regression_of_the_rows_gives(half_carried: ds.Release) -> None:
    for result in half_carried.results:
        found = ds.fit(half_carried.tables[0], result.formula, rule="sampling", family="ols")
        for c in result.coefficients:
            assert c.in_rows == pytest.approx(float(found[c.name]), rel=1e-9), c.name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "cut"),
    [("log(pay) ~ sex:agency + age | year", False), ("log(pay) ~ sex + age + I(2*age)", False), (FORMULA, True)],
    ids=["products", "a column said twice", "rows that do not count"],
)
def test_rows_say_the_same_by_sums_of_labels_and_by_a_regression(formula: str, cut: bool) -> None:
    """Rows that say the same occur twice, and pay has gaps; what sums cannot say is left to the regression."""
    frame = pd.concat([people(500, 11)] * 2)
    frame.loc[frame.pay < frame.pay.quantile(0.01), "pay"] = np.nan
    told = schema().to_dict()
    if cut:
        frame["person"] = np.arange(len(frame)) // 4
        told["unit"] = {"column": "person", "max_rows": 2}
    table = pa.Table.from_pandas(frame, preserve_index=False)
    told["fields"][3]["missing"] = True
    made = ds.synthesize(
        table,
        ds.Schema.from_dict(told),
        METHODS[1],
        testing=True,
        noise_seed=1,
        seed=1,
        analyses=[formula],
        budget=ds.PureDP(20),
    )
    found = ds.fit(made.tables[0], formula, rule="sampling")
    for c in made.results[0].coefficients:
        same = float(found[c.name])
        assert c.in_rows == (None if np.isnan(same) else pytest.approx(same, rel=1e-7)), c.name


def test_a_release_says_which_planned_result_its_rows_do_not_carry(half_carried: ds.Release) -> None:
    carried, other = half_carried.results
    assert not carried.row_difference
    assert half_carried.supports(carried.formula).in_rows
    assert "The rows do not carry" not in str(carried)
    found = half_carried.supports(other.formula, family="ols")
    assert (found.level, found.planned, found.in_rows) == ("measured", True, False)
    assert "use results.json or ds.fit, not lm" in found.reason
    (note,) = [n for n in half_carried.card.notes if n.startswith("The rows do not carry")]
    assert other.formula in note
    assert "ds.fit" in note
    assert half_carried.card.to_html().count("a plain regression of the rows gives") == 2


@pytest.mark.slow
@pytest.mark.parametrize("turn", [1, -1])
def test_analyses_that_ask_for_the_same_sum_do_not_hinder_each_other(turn: int) -> None:
    """Both have the same public columns and so the same residual, and noise makes them contradict each other."""
    simple, products = "log(pay) ~ sex + age | agency", "log(pay) ~ sex*agency + age"
    made = release(people(6000, 11), METHODS[1], analyses=[simple, products][::turn])
    result = made.results[::turn][0]
    assert result.formula == simple
    assert not result["sex[T.M]"].rows_differ


def test_parts_and_the_agreed_reference_are_fitted_as_planned() -> None:
    asked = PlannedAnalysis("log(pay) ~ sex | agency | by year", reference=(("sex", "M"),))
    made = release(people(3000, 11), METHODS[1], analyses=[asked])
    for result in made.results:
        rows = made.tables[0].filter(pc.equal(made.tables[0]["year"], int(str(result.part).split()[1])))
        found = ds.fit(rows, "log(pay) ~ sex | agency", reference={"sex": "M"}, rule="sampling")
        assert result["sex[T.F]"].in_rows == pytest.approx(float(found["sex[T.F]"]), rel=1e-9)


@pytest.mark.slow
def test_results_are_saved_read_back_and_on_the_card(tmp_path: Path) -> None:
    made = release(people(3000, 13), METHODS[0])
    folder = made.save(tmp_path / "release")
    read = ds.Release.load(folder)
    assert read.results == made.results
    assert read.card.analyses == (FORMULA,)
    assert "Results of planned analyses" in (folder / "card.html").read_text("utf-8")
    told = json.loads((folder / "results.json").read_text("utf-8"))
    assert told["results"][0]["coefficients"][0]["name"] == "age"
    spent = sum(float(line["cost"]) for line in read.card.spending)
    assert spent == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_damaged_results_are_refused(tmp_path: Path) -> None:
    folder = release(people(1000, 13), METHODS[1]).save(tmp_path / "release")
    (folder / "results.json").write_text("{}", "utf-8")
    with pytest.raises(ds.errors.DipsmithError, match=r"results\.json"):
        ds.Release.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_the_bytes_do_not_tell_the_file(method: ds.Method, tmp_path: Path) -> None:
    """Rows sorted by their labels, as dictionaries in Parquet, against rows in another order as plain text in CSV."""
    frame = people(1500, 14)
    first, second = tmp_path / "a.parquet", tmp_path / "b.csv"
    by_label = frame.sort_values(["sex", "race"], kind="stable")
    table = pa.Table.from_pandas(by_label, preserve_index=False)
    for name in ("agency", "sex", "race"):
        i = table.column_names.index(name)
        table = table.set_column(i, name, table.column(name).combine_chunks().dictionary_encode())
    pq.write_table(table, first, row_group_size=97)
    frame.sample(frac=1, random_state=3).to_csv(second, index=False)
    folders = []
    for file in (first, second):
        made = ds.synthesize(
            file,
            schema(),
            method,
            budget=ds.PureDP(1),
            testing=True,
            noise_seed=4,
            seed=4,
            analyses=[FORMULA],
            request="r",
        )
        folders.append(made.save(tmp_path / file.stem))
    for path in sorted(p for p in folders[0].rglob("*") if p.is_file() and p.name not in CHANGING):
        assert path.read_bytes() == (folders[1] / path.relative_to(folders[0])).read_bytes(), path.name


def test_what_cannot_be_planned_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    frame = people(300, 15)
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("staff", ds.PureDP(1))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    only_sex = ds.Forest(targets=["sex"])
    for method, asked, message in (
        (METHODS[1], "log(pay) ~ sex + height", "'height', which is no column"),
        (only_sex, "log(pay) ~ race", "does not label"),
        (METHODS[1], "log(pay) ~ sex | by race", "which is private"),
        (METHODS[1], "log(pay) ~ I(age * (sex == 'F'))", "mixes private and public"),
        (METHODS[1], "race ~ age", "compare it with one of them"),
    ):
        with pytest.raises(UsageError, match=message):
            ds.synthesize(table, schema(), method, budget=ds.PureDP(1), ledger=ledger, analyses=[asked])
    with pytest.raises(SchemaError, match="model is"):
        PlannedAnalysis("log(pay) ~ sex", model="probit")  # type: ignore[arg-type]
    assert ledger.show("staff").remaining == 1


@pytest.mark.slow
def test_analyses_of_the_schema_file(tmp_path: Path) -> None:
    text = schema()
    declared = ds.Schema.from_dict(
        {
            **text.to_dict(),
            "analyses": [FORMULA, {"formula": "log(pay) ~ sex", "width": 0.05, "reference": {"sex": "M"}}],
        }
    )
    assert declared.analyses[1].reference == (("sex", "M"),)
    file = tmp_path / "staff.yaml"
    declared.write(file)
    assert ds.Schema.read(file) == declared
    table = pa.Table.from_pandas(people(800, 17), preserve_index=False)
    made = ds.synthesize(table, declared, METHODS[1], budget=ds.PureDP(1), testing=True, noise_seed=1)
    assert [r.formula for r in made.results] == [FORMULA, "log(pay) ~ sex"]
    assert made.results[1].coefficients[1].name == "sex[T.F]"


@pytest.mark.slow
def test_units_with_several_rows(tmp_path: Path) -> None:
    """Rows beyond max_rows are in no sum: the results are of those that count."""
    frame = people(600, 18)
    frame["person"] = np.arange(600) // 3
    declared = ds.Schema.from_dict({**schema().to_dict(), "unit": {"column": "person", "max_rows": 2}})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    made = ds.synthesize(
        table, declared, METHODS[1], budget=ds.PureDP(5), testing=True, noise_seed=1, analyses=[FORMULA]
    )
    assert made.results[0].rows == 400
    assert made.tables[0].num_rows == 600
