"""The whole path: what comes out, what is charged, what is refused, what never depends on a value."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import BudgetError, DamageError, OutputError, UnsupportedError, UsageError


def schema(neighbours="replace", **more):
    return ds.Schema.from_dict(
        {
            "name": "people",
            "unit": "row",
            "neighbours": neighbours,
            "fields": [
                {"name": "age", "type": "integer", "minimum": 17, "maximum": 90, "bins": {"width": 10}},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
                {
                    "name": "born",
                    "type": "date",
                    "minimum": "1920-01-01",
                    "maximum": "2000-12-31",
                    "bins": {"width": "year"},
                    "missing": True,
                },
            ],
            **more,
        }
    )


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    born = np.array("1930-01-01", dtype="datetime64[D]") + rng.integers(0, 20000, n)
    return pa.table({"age": rng.integers(17, 91, n), "sex": np.array(["F", "M"])[rng.integers(0, 2, n)], "born": born})


@pytest.fixture
def ledger(tmp_path):
    book = ds.Ledger(tmp_path / "budget.db")
    book.grant("people", ds.PureDP(3))
    return book


def test_a_release_round_trips(tmp_path, ledger):
    release = ds.synthesize(people(), schema(), ds.Marginals(), budget=ds.PureDP(1), ledger=ledger)
    release.save(tmp_path / "release")
    again = ds.Release.load(tmp_path / "release")
    assert again.tables[0].equals(release.tables[0])
    assert again.card.budget == ds.PureDP(1)
    assert again.model.sample(50, seed=1).columns.keys() == release.model.sample(50, seed=1).columns.keys()
    for name, column in again.model.sample(50, seed=1).columns.items():
        assert column.tolist() == release.model.sample(50, seed=1)[name].tolist()
    assert release.tables[0].schema.field("born").type == pa.date32()
    assert ds.verify(tmp_path / "release", ledger).ledger


def test_the_card_says_what_was_charged(tmp_path, ledger):
    release = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP("0.7"), ledger=ledger, request="r")
    card = release.card
    assert sum(line["cost"] for line in card.spending) == pytest.approx(0.7, abs=1e-12)
    assert ledger.show("people").remaining == pytest.approx(2.3)
    assert card.neighbours == "replace"
    assert card.disclosed == ("the number of rows",)
    assert card.ledger_head
    assert "ε = 0.7" in card.to_html()
    assert json.loads(card.to_json())["files"] == {}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_both_formats_verify(tmp_path, ledger, ending):
    release = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    release.save(tmp_path / "out", format=ending)
    found = ds.verify(tmp_path / "out", ledger)
    assert found.rows == 3000
    assert (tmp_path / "out" / f"synthetic-1.{ending}").is_file()


def test_sets_are_split_or_drawn(ledger):
    split = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, sets=4, each="split")
    assert len(split.tables) == len(split.models) == 4
    assert sum(line["cost"] for line in split.card.spending) == pytest.approx(1)
    assert {line["cost"] for line in split.card.spending} == {0.25}
    drawn = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, sets=4, each="draw")
    assert len(drawn.tables) == 4
    assert len(drawn.models) == 1
    assert not drawn.tables[0].equals(drawn.tables[1])
    assert "does not apply" in drawn.card.sets_text


def test_a_request_buys_one_run(tmp_path, ledger):
    first = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, request="r1")
    with pytest.raises(BudgetError, match="r1"):
        ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, request="r1")
    first.save(tmp_path / "one")
    again = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, request="r1")
    assert again.folder == tmp_path / "one"
    assert again.tables[0].equals(first.tables[0])
    assert ledger.show("people").remaining == pytest.approx(2)


def test_a_failure_after_reading_keeps_the_charge(ledger):
    class Failing(ds.Flat):
        def fit(self, curator):
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        ds.synthesize(people(), schema(), Failing(), budget=ds.PureDP(1), ledger=ledger, request="f")
    assert ledger.show("people").remaining == pytest.approx(2)
    with pytest.raises(BudgetError):
        ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, request="f")


class NoMethod:
    name, relations = "no method", ("replace",)


@dataclass(frozen=True)
class Untold(ds.Flat):
    secret: tuple = (object(),)


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (NoMethod(), "it has no summary"),
        (Untold(), "a card cannot state its parameters"),
    ],
)
def test_what_is_no_method_is_refused_before_anything_is_charged(ledger, method, told):
    with pytest.raises(UsageError, match=told):
        ds.synthesize(people(), schema(), method, budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("people").remaining == pytest.approx(3)


def test_what_the_syntax_pass_sees_costs_nothing(tmp_path, ledger):
    broken = tmp_path / "broken.csv"
    broken.write_text("age,sex,born\n1,F\n")
    with pytest.raises(ds.errors.SourceError):
        ds.synthesize(broken, schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    with pytest.raises(ds.errors.SourceError, match="'born'"):
        ds.synthesize(people().drop_columns("born"), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("people").remaining == 3


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"sets": 2}, "each='split'"),
        ({"each": "draw"}, "sets=2"),
        ({"sets": 0}, "1 or more"),
        ({"rows": -1}, "0 or more"),
        ({"onto": "x.csv"}, "needs neighbours 'label'"),
        ({"noise_seed": 1}, "testing=True"),
        ({"ledger": None}, "a ledger is required"),
    ],
)
def test_contradictions_are_refused_before_anything_is_read(ledger, more, match):
    with pytest.raises(UsageError, match=match):
        ds.synthesize("no-such-file.csv", schema(), ds.Flat(), budget=ds.PureDP(1), **{"ledger": ledger, **more})
    assert ledger.show("people").remaining == 3


@pytest.mark.parametrize("budget", [ds.PureDP("0.000000000300"), ds.ZCDP("0.000000009")], ids=str)
def test_a_budget_that_no_method_can_divide_is_refused_before_it_is_charged(ledger, budget):
    """At ε = 3e-10 rounds of AIM got less than a unit each, and the run failed in the middle, after its charge."""
    with pytest.raises(BudgetError, match=r"too small for a run: give it at least (ε = 0\.000001|ρ = 0\.00000001)$"):
        ds.synthesize(people(), schema(), ds.AIM(), budget=budget, ledger=ledger)
    with pytest.raises(BudgetError, match=r"at least ε = 0\.000001 for each of 1,000 sets"):
        ds.synthesize(people(), schema(), "aim", budget=ds.PureDP("0.0009"), ledger=ledger, sets=1000, each="split")
    assert ledger.show("people").spent_units == 0


def test_unsupported_relation_is_refused(ledger):
    declared = schema("label").with_role(["age", "born"], "public")
    with pytest.raises(UnsupportedError, match="use forest or loglinear"):
        ds.synthesize(people(), declared, ds.Flat(), budget=ds.PureDP(1), ledger=ledger)


def test_a_noise_seed_stamps_the_release():
    first, second = (
        ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=4, seed=1)
        for _ in range(2)
    )
    assert first.tables[0].equals(second.tables[0])
    assert first.card.testing
    page = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", first.card.to_html(), flags=re.DOTALL)
    assert "NOT PRIVATE" in page
    assert not re.search(r"\bnull\b|\bNone\b|\[\]|\{\}", page), "what is not there is not told, or told in words"
    assert "NOT PRIVATE" in str(first)


def test_row_count_policy(ledger):
    table = people()
    private = ds.synthesize(table, schema("add-remove"), ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=1)
    assert private.card.rows_known == "noisy estimate"
    assert private.card.rows != 3000  # the seed's noise on n is not 0
    given = ds.synthesize(table, schema("add-remove"), ds.Flat(), budget=ds.PureDP(1), rows=777, testing=True)
    assert (given.card.rows, given.card.rows_known) == (777, "as many as were asked for")
    public = ds.synthesize(table, schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    assert (public.card.rows, public.card.rows_known) == (3000, "public")


def test_nothing_is_overwritten_or_half_written(tmp_path, ledger, monkeypatch):
    release = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        release.save(tmp_path / "taken")
    with pytest.raises(OutputError, match="does not exist"):
        release.save(tmp_path / "no" / "such" / "place")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter", full)
    with pytest.raises(OutputError, match="No space left"):
        release.save(tmp_path / "full")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.db", "budget.db.key", "taken"]


def test_damage_is_found(tmp_path, ledger):
    release = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    whole = release.save(tmp_path / "whole", format="csv")
    changes = {
        "synthetic-1.csv": lambda p: p.write_text(p.read_text().replace("F", "M", 1)),
        "card.json": lambda p: p.write_text("{}"),
        "codebook.csv": lambda p: p.unlink(),
        "extra.txt": lambda p: p.write_text("x"),
        "model-1.npz": lambda p: p.write_bytes(p.read_bytes()[:100]),
        "schema.yaml": lambda p: p.write_text(p.read_text() + "\n# changed\n"),
    }
    for name, change in changes.items():
        folder = Path(shutil.copytree(whole, tmp_path / f"with-{name}"))
        change(folder / name)
        with pytest.raises(DamageError):
            ds.verify(folder)
    assert ds.verify(tmp_path / "whole", ledger)


def test_a_card_of_another_ledger_is_refused(tmp_path, ledger):
    release = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    release.save(tmp_path / "r")
    other = ds.Ledger(tmp_path / "other.db")
    other.grant("people", ds.PureDP(1))
    with pytest.raises(DamageError):
        ds.verify(tmp_path / "r", other)


def test_rules_are_never_broken(ledger):
    ruled = schema(rules=[{"never": {"age": {"below": 27}, "sex": "F"}}])
    for method in (ds.Flat(), ds.Marginals()):
        table = ds.synthesize(people(), ruled, method, budget=ds.PureDP("0.5"), testing=True).tables[0].to_pydict()
        assert not any(a < 27 and s == "F" for a, s in zip(table["age"], table["sex"], strict=True))
        assert any(a < 27 for a in table["age"])


def test_everything_prints(ledger):
    release = ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    assert "ε = 1" in str(release)
    for shown in (release._repr_html_(), release.card._repr_html_()):
        assert shown.startswith("<iframe ")  # in a notebook a page keeps its styles to itself
        assert "&lt;!doctype html&gt;" in shown


def test_formulas_are_escaped_when_asked(tmp_path):
    declared = ds.Schema.from_dict(
        {
            "name": "people",
            "unit": "row",
            "neighbours": "replace",
            "fields": [{"name": "note", "type": "string", "enum": ["=1+1", "plain"], "other": "plain"}],
        }
    )
    assert declared.formula_like() == [("note", "=1+1")]
    table = pa.table({"note": ["=1+1"] * 50 + ["plain"] * 50})
    release = ds.synthesize(table, declared, ds.Flat(), budget=ds.PureDP(10), testing=True, noise_seed=1)
    release.save(tmp_path / "plain", format="csv")
    release.save(tmp_path / "safe", format="csv", escape=True)
    assert '"=1+1"' in (tmp_path / "plain" / "synthetic-1.csv").read_text()
    assert '"=1+1"' not in (tmp_path / "safe" / "synthetic-1.csv").read_text()
    assert "'=1+1" in (tmp_path / "safe" / "synthetic-1.csv").read_text()
    assert ds.verify(tmp_path / "safe").rows == 100
    assert set(ds.Release.load(tmp_path / "safe").tables[0]["note"].to_pylist()) == {"=1+1", "plain"}


@pytest.mark.slow
def test_a_replayed_request_is_compared_with_what_lies_there(tmp_path, ledger):
    def run(request):
        return ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger, request=request)

    run("r1").save(tmp_path / "one")
    run("r2").save(tmp_path / "two")
    shutil.move(tmp_path / "one", tmp_path / "kept")
    shutil.copytree(tmp_path / "two", tmp_path / "one")
    with pytest.raises(DamageError, match="not that release"):
        run("r1")
    shutil.rmtree(tmp_path / "one")
    shutil.move(tmp_path / "kept", tmp_path / "one")
    assert run("r1").card.request == "r1"


def test_one_table_is_not_granted_twice_unnoticed(ledger):
    ledger.grant("others", ds.PureDP(1))
    other = schema(name="others")
    ds.synthesize(people(), schema(), ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    with pytest.raises(BudgetError, match="same source as 'people'"):
        ds.synthesize(people(), other, ds.Flat(), budget=ds.PureDP(1), ledger=ledger)
    ds.synthesize(people(seed=1), other, ds.Flat(), budget=ds.PureDP("0.5"), ledger=ledger)
    release = ds.synthesize(people(), other, ds.Flat(), budget=ds.PureDP("0.5"), ledger=ledger, another_grant=True)
    assert "adds up" in release.card.steward_says[0]
    assert not any("the one name" in text for text in release.card.steward_says)
    assert [run.another_grant for run in ledger.show("others").runs] == [False, True]
