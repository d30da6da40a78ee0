"""One noisy count: which rows it is about, what it costs, what is refused before."""

import json
from datetime import date
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import dipsmith as ds
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import BudgetError, UnsupportedError, UsageError
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Attribute, Categories, Marginal, Unit
from dipsmith.synthesis import noisy_count
from dipsmith.synthesis.column_map import map_columns

FIELDS = [
    {"name": "age", "type": "integer", "minimum": 0, "maximum": 90, "bins": {"width": 10}, "role": "public"},
    {
        "name": "pay",
        "type": "number",
        "minimum": 0,
        "maximum": 100,
        "bins": {"round": 25},
        "missing": True,
        "role": "public",
    },
    {"name": "born", "type": "date", "minimum": "1950-01-01", "maximum": "1999-12-31", "bins": {"width": "year"}},
    {
        "name": "job code",
        "type": "string",
        "enum": ["0601", "0602", "0701"],
        "collapse": {"prefix": 2},
        "other": "0701",
    },
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    {"name": "staff", "type": "boolean"},
]
N = 700


def schema(neighbours="add-remove", **more):
    return ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": neighbours, "fields": FIELDS, **more})


def people():
    rng = np.random.default_rng(4)
    born = np.datetime64("1945-01-01") + rng.integers(0, 22_000, N)
    pay = rng.uniform(-5, 120, N).round(1)
    columns = {
        "age": rng.integers(0, 91, N), "pay": pa.array(pay, mask=rng.random(N) < 0.1), "born": pa.array(born.astype("datetime64[D]")),
        "job code": rng.choice(["0601", "0602", "0701", "zz"], N), "sex": rng.choice(["F", "M"], N), "staff": rng.random(N) < 0.3,
    }  # fmt: skip
    return pa.table(columns)


def exact(where, **more):
    """ε so large that there is no noise to speak of: P(noise ≠ 0) < 1e-8."""
    return ds.count_where(people(), schema(**more), where, budget=ds.PureDP(40), testing=True, noise_seed=1)[0].value


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("age in [33, 71)", lambda p: (p.age >= 33) & (p.age < 71)),
        ("age in [33, 71]", lambda p: (p.age >= 33) & (p.age <= 71)),
        ("age > 33 and age <= 90", lambda p: p.age > 33),
        ("age = 41", lambda p: p.age == 41),
        ("age < 1", lambda p: p.age == 0),
        ("age in [-7, 400)", lambda p: p.age >= 0),
        ("pay >= 99.5", lambda p: p.pay >= 99.5),
        ("pay in [0, 0.5) ", lambda p: p.pay < 0.5),
        ("born in [1951-02-03, 1960-07-01)", lambda p: (p.born >= date(1951, 2, 3)) & (p.born < date(1960, 7, 1))),
        ("`job code` = 06", lambda p: p["job code"].isin(["0601", "0602"])),
        ("`job code` in {0602, '0701'} and sex != F", lambda p: ~p["job code"].isin(["0601"]) & (p.sex == "M")),
        ("staff = true and sex == F and age>=50", lambda p: p.staff & (p.sex == "F") & (p.age >= 50)),
    ],
)  # fmt: skip
def test_it_counts_the_rows_that_are_meant(where, holds):
    assert exact(where) == int(holds(people().to_pandas()).sum())


def test_rules_units_and_relations_are_those_of_the_schema():
    frame = people().to_pandas()
    rules = [{"never": {"age": {"below": 20}, "sex": "F"}}]
    assert exact("sex = F and age < 35", rules=rules) == int(((frame.sex == "F") & frame.age.between(20, 34)).sum())
    assert (
        exact("sex = F", neighbours="replace") == exact("sex = F", neighbours="label") == int((frame.sex == "F").sum())
    )
    with pytest.raises(UnsupportedError, match="public columns alone"):
        exact("age < 30", neighbours="label")
    unit = {"unit": {"column": "sex id", "max_rows": 3}}
    table = people().append_column("sex id", people()["sex"])
    found, _ = ds.count_where(table, schema(**unit), "age >= 0", budget=ds.PureDP(100), testing=True, noise_seed=1)
    assert found.value == 6


@pytest.mark.slow
@pytest.mark.parametrize("budget", [ds.PureDP("0.4"), ds.ZCDP("0.02")])
def test_noise_is_that_of_one_count_and_the_interval_covers(budget):
    """400 draws. The true number is outside of 95 % intervals 20 times; more than 50 times has p < 1e-9 (binomial)."""
    true = int((people()["sex"].to_numpy() == "F").sum())
    rows = people().select(["sex"])
    narrow = schema().project(["sex"])
    drawn = [ds.count_where(rows, narrow, "sex = F", budget=budget, testing=True, noise_seed=i)[0] for i in range(400)]
    assert sum(not d.low <= true <= d.high for d in drawn) <= 50
    variance = 2 * np.exp(-0.4) / (1 - np.exp(-0.4)) ** 2 if isinstance(budget, ds.PureDP) else 3750 / 149
    assert drawn[0].standard_error == pytest.approx(variance**0.5, rel=1e-4)
    # The mean of 400 has a standard error of sd/20; 6.5 of them are exceeded with p < 1e-9.
    assert np.mean([d.value for d in drawn]) == pytest.approx(true, abs=6.5 * variance**0.5 / 20)


def test_it_is_charged_once_and_found_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = ds.Ledger("b.db")
    ledger.grant("people", ds.PureDP(1))
    ask = {"budget": ds.PureDP("0.3"), "ledger": ledger, "request": "q1"}
    found, path = ds.count_where(people(), schema(), "age  in [30, 71)", **ask)
    assert json.loads(path.read_text())["value"] == found.value
    assert ledger.show("people").remaining_units == ds.PureDP("0.7").units
    assert ds.count_where(people(), schema(), "age in [30, 71)", **ask) == (found, path.absolute())
    with pytest.raises(UsageError, match="asked where age in"):
        ds.count_where(people(), schema(), "age in [30, 72)", **ask)
    assert ledger.show("people").remaining_units == ds.PureDP("0.7").units


def test_spaces_of_a_quoted_value_make_another_question(tmp_path):
    office = Attribute("office", "string", Categories.of(["A 1", "A  1"], other="A 1"), "private")
    offices = ds.Schema("offices", (office,), Unit(), "add-remove")
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("offices", ds.PureDP(1))
    rows = pa.table({"office": ["A 1", "A  1"]})
    ask = {"budget": ds.PureDP("0.3"), "ledger": ledger, "request": "q1", "out": tmp_path / "x.json"}
    ds.count_where(rows, offices, "office = 'A 1'", **ask)
    with pytest.raises(UsageError, match="asked where office"):
        ds.count_where(rows, offices, "office = 'A  1'", **ask)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "cannot be read at its end"),
        ("age", "cannot be read at 'age'"),
        ("age in [30, 71", "cannot be read"),
        ("age < 3 and ", "its end"),
        ("age in [30)", "cannot be read"),
        ("age in [30, 40, 50)", "cannot be read"),
        ("age between 3", "'age between 3'"),
        ("age < 3 or sex = F", "'or sex = F'"),
        ("wage < 3", "'wage', which is no column"),
        ("sex = X", "'X' is no value of it; it has: F, M"),
        ("sex < F", "no order"),
        ("age = 3 and age in {3, 4}", "ask for an interval"),
        ("age in [50, 40)", "no value of the column lies there"),
        ("age < many", "many"),
        ("pay <= 3", "use >= and <"),
        ("pay < 100", "counted as 100"),
        ("pay in [100, 101)", "no value of the column lies there"),
        (" and ".join(["age < 40"] * 40), "cells, the limit is"),
        ("__import__('os')", "cannot be read"),
        ("age = ;", "is no|cannot|expected|number"),
        ("x" * 3000, "3,000 characters"),
    ],
)
def test_what_is_no_condition_is_refused_before_a_charge(tmp_path, where, said):
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("people", ds.PureDP(1))
    with pytest.raises(UsageError, match=said):
        ds.count_where(people(), schema(), where, budget=ds.PureDP(1), ledger=ledger, out=tmp_path / "x.json")
    assert ledger.show("people").remaining_units == ds.PureDP(1).units


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "reach"), [("1e-12", 3.0e12), ("1e-8", 3.0e8), ("1", 3)])
def test_an_answer_has_its_interval_however_small_the_budget(tmp_path, epsilon, reach):
    ledger, budget = ds.Ledger(tmp_path / "b.db"), ds.PureDP(epsilon)
    ledger.grant("people", budget)
    found, _ = ds.count_where(people(), schema(), "sex = F", budget=budget, ledger=ledger, out=tmp_path / "a.json")
    assert noisy_count._reach(
        Measurement(None, np.zeros(1), 2 * float(1 / budget.exact) ** 2, budget, "discrete Laplace")
    ) == pytest.approx(reach, rel=0.01)
    assert found.low <= max(0, found.value) <= found.high


def test_noise_too_wide_to_be_drawn_is_refused_before_a_charge(tmp_path):
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("people", ds.PureDP(1))
    wide = schema(unit={"column": "who", "max_rows": 10**30})
    with pytest.raises(UsageError, match="scale must be positive and at most"):
        ds.count_where(
            people().append_column("who", pa.array(range(N))),
            wide,
            "sex = F",
            budget=ds.PureDP(1),
            ledger=ledger,
            out=tmp_path / "a.json",
        )
    assert ledger.show("people").spent_units == 0


def test_one_row_moves_the_table_that_is_measured_by_one():
    """By brute force over rows taken away or changed: the conditions cut all lawful rows into cells."""
    question = noisy_count._Question.of("age > 33 and age <= 60 and `job code` = 06 and pay < 50", schema())

    def table(rows):
        counted = rows_of(map_columns(rows, question.columns), question.schema)
        return counted.count([Marginal(question.schema, tuple(question.columns))])[0]

    every = people().slice(0, 60)
    whole = table(every)
    assert whole.sum() == 60
    for i in range(60):
        without = table(pa.concat_tables([every.slice(0, i), every.slice(i + 1)]))
        changed = table(pa.concat_tables([every.slice(0, i), every.slice(i + 1), people().slice(100 + i, 1)]))
        assert np.abs(whole - without).sum() == 1
        assert np.abs(whole - changed).sum() in (0, 2)


def test_the_command_prints_and_keeps_the_answer(tmp_path, monkeypatch, capsys):
    from dipsmith.cli.main import app

    monkeypatch.chdir(tmp_path)
    ds.Ledger("b.db").grant("people", ds.PureDP(1))
    schema().write("people.yaml")
    pa.csv.write_csv(people(), "people.csv")
    words = [
        "count",
        "people.csv",
        "--schema",
        "people.yaml",
        "--epsilon",
        "0.1",
        "--ledger",
        "b.db",
        "--out",
        "a.json",
        "--where",
    ]
    assert not app([*words, "age in [30, 71)"], standalone_mode=False)
    assert "rows of 'people' where age in [30, 71), ± 14.1 by noise" in capsys.readouterr().out
    assert json.loads((tmp_path / "a.json").read_text())["guarantee"].startswith("ε = 0.1, unit row")


class Failing:
    """Rows that cannot be read, and note what the ledger says when they are asked for."""

    columns = ("age", "pay", "born", "job code", "sex", "staff")

    def __init__(self, ledger):
        self.ledger, self.seen = ledger, []

    def check(self, required):
        """Nothing is wrong with the header."""

    def describe(self):
        return "rows"

    def batches(self, columns, progress=None):
        self.seen.append((self.ledger.run("r").state, self.ledger.show("people").spent))
        raise RuntimeError


@pytest.mark.parametrize("kind", ["count", "learn"])
def test_rows_are_asked_for_after_the_charge_which_stays(tmp_path, kind):
    ledger, budget = ds.Ledger(tmp_path / "b.db"), ds.PureDP(1)
    ledger.grant("people", ds.PureDP(3))
    rows, terms = Failing(ledger), {"budget": budget, "ledger": ledger, "out": tmp_path / "answer", "request": "r"}
    how = {"neighbours": "add-remove", "unit": "row", "name": "people", **terms}
    run = (
        partial(ds.count_where, rows, schema(), "sex = F", **terms)
        if kind == "count"
        else partial(ds.learn_schema, rows, **how)
    )
    for error in (RuntimeError, BudgetError):  # the same request never draws again
        with pytest.raises(error):
            run()
    assert rows.seen == [("read", 1)]
    assert (ledger.run("r").state, ledger.show("people").spent) == ("failed", 1)
    assert not list(tmp_path.glob("*answer*")), "nothing half-written was left"
