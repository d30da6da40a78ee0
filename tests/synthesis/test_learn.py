"""A schema learned privately: what one unit can move, what is told, what it costs, what the draft says."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dipsmith as ds
from dipsmith.cli.main import app
from dipsmith.codec.forms import FORMS, SPIKES, Forms, Grid, Magnitudes, Years
from dipsmith.counting.count import BatchRows
from dipsmith.counting.frequent import count_values
from dipsmith.errors import BudgetError, SchemaError, UnsupportedError, UsageError
from dipsmith.privacy import neighbours
from dipsmith.privacy.discovery import FrequentValues, Survey
from dipsmith.privacy.events import Discovered, event_from, event_record, tail_bound
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Unit
from dipsmith.schema.proposals import LARGEST, CellCounts, cut_by_mass
from dipsmith.sources import source
from dipsmith.synthesis.learn import blank_schema
from dipsmith.synthesis.learned_fields import (
    FoundType,
    ValueExtent,
    find_extent,
    find_type,
    number_field,
    text_field,
    unknown_field,
)

MIXED = ["17", "3.5", "0", "", "2011-05-06", "x", "-99", "1e9", "007", None]


def blank(table, neighbours="add-remove", unit=None, private=None):
    return blank_schema(source(table), "t", unit or "row", neighbours, private, ())


def survey(table, schema):
    names = schema.names
    tables = [
        cells
        for n in names
        for cells in (Forms(n), Magnitudes(n, False), Years(n, "date"), Grid(n, "number", (0.0, 1.0, 50.0)))
    ]
    return Survey("all", schema, tuple(tables)), BatchRows(source(table), schema, b"k" * 32)


def counted(table, schema):
    asked, rows = survey(table, schema)
    return asked.count(rows, Stream.for_testing(1))


def value_counts(table, schema):
    found = {}
    for name, values, counts in count_values(BatchRows(source(table), schema, b"k" * 32).raw, schema.names):
        found |= {(name, v): int(n) for v, n in zip(values.to_pylist(), counts, strict=True)}
    return found


def changed(table, relation, unit):
    """Every table that differs from a small one in one unit."""
    rows = table.to_pylist()
    people = range(len(rows)) if unit is None else sorted({r["id"] for r in rows})
    for who in people:
        own = [i for i, r in enumerate(rows) if (i if unit is None else r["id"]) == who]
        rest = [r for i, r in enumerate(rows) if i not in own]
        if relation == "add-remove":
            yield pa.Table.from_pylist(rest, schema=table.schema)
            continue
        for value in ("zzz", "12", "1999-01-01", None):
            moved = [
                {**r, "a": value} | ({} if relation == "label" else {"b": value}) if i in own else r
                for i, r in enumerate(rows)
            ]
            yield pa.Table.from_pylist(moved, schema=table.schema)


def small(unit):
    columns = {"a": MIXED, "b": MIXED[::-1]}
    if unit is not None:
        columns["id"] = ["p", "q", "p", "r", "q", "p", "s", "s", "q", "t"]
    return pa.table({n: pa.array(v, pa.string()) for n, v in columns.items()})


@pytest.mark.slow
@pytest.mark.parametrize("relation", neighbours.RELATIONS)
@pytest.mark.parametrize("unit", [None, Unit("id", 2)])
def test_one_unit_moves_a_survey_no_further(relation, unit):
    table = small(unit)
    schema = blank(table, relation, unit, ["a"] if relation == "label" else None)
    asked, _ = survey(table, schema)
    here = counted(table, schema)
    moved = [counted(other, schema) - here for other in changed(table, relation, unit)]
    k = schema.unit.max_rows
    for budget, size in ((ds.PureDP(1), lambda d: np.abs(d).sum()), (ds.ZCDP(1), lambda d: (d * d).sum())):
        _, event = asked.price(relation, k, budget, "")
        assert max(map(size, moved)) <= event.sensitivity
        assert event.sensitivity == len(asked.tables) * (
            neighbours.l1(relation, k) if isinstance(budget, ds.PureDP) else neighbours.l2_squared(relation, k)
        )


@pytest.mark.parametrize("relation", neighbours.RELATIONS)
@pytest.mark.parametrize("unit", [None, Unit("id", 2)])
def test_one_unit_moves_counts_of_values_no_further(relation, unit):
    table = small(unit)
    schema = blank(table, relation, unit, ["a"] if relation == "label" else None)
    here, k = value_counts(table, schema), schema.unit.max_rows
    _, event = FrequentValues(schema.names, Fraction(1, 10**6)).price(relation, k, ds.PureDP(1), "")
    for other in changed(table, relation, unit):
        there = value_counts(other, schema)
        assert sum(abs(here.get(v, 0) - there.get(v, 0)) for v in {*here, *there}) <= event.sensitivity
        for one, two in ((here, there), (there, here)):
            new = [n for v, n in one.items() if v not in two]
            assert len(new) <= event.columns * k
            assert max(new, default=0) <= k


def test_many_values_are_counted_in_parts_alike():
    table = pa.table({"a": [f"v{i % 700}" for i in range(3000)], "b": ["x"] * 3000})
    schema = blank(table)
    rows = BatchRows(source(table), schema, b"k" * 32)
    whole = value_counts(table, schema)
    parts = list(count_values(rows.raw, schema.names, most=200))
    assert len(parts) > 4
    found = {(n, v): int(c) for n, values, counts in parts for v, c in zip(values.to_pylist(), counts, strict=True)}
    assert found == whole
    assert sum(len(values) for _, values, _ in parts) == len(whole)


@pytest.mark.parametrize("budget", [ds.PureDP("0.5"), ds.ZCDP("0.1")])
@pytest.mark.parametrize("relation", neighbours.RELATIONS)
def test_a_threshold_too_low_for_its_delta_is_refused(budget, relation):
    _, event = FrequentValues(("a", "b"), Fraction(1, 10**9)).price(relation, 3, budget, "")
    assert event_from(event_record(event)) == event
    terms = {name: getattr(event, name) for name in Discovered.__slots__}
    # one column's worth less distance is too little: the bound is tight to a few units
    gap = event.threshold - 3
    with pytest.raises(BudgetError, match="too low"):
        Discovered(**{**terms, "threshold": 3 + int(gap * 0.99) - 2})
    with pytest.raises(BudgetError, match="costs more"):
        Discovered(**{**terms, "scale": event.scale * Fraction(99, 100)})


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(7, 2)), DiscreteGaussian(Fraction(9))])
def test_the_tail_is_bounded(law):
    scale = law.scale if isinstance(law, DiscreteLaplace) else law.sigma2
    for distance in (1, 5, 20, 40):
        tail = float(law.pmf(np.arange(distance, distance + 400)).sum())
        assert tail <= float(tail_bound(law.name, scale, distance))


def test_the_law_of_what_is_told():
    """The exact law on two values, one of them one person's alone: P(A) ≤ e^ε·P′(A) + δ for the worst set A of answers."""
    question = FrequentValues(("a",), Fraction(1, 100))
    law, event = question.price("add-remove", 1, ds.PureDP("0.5"), "")
    reach = np.arange(-200, 201)

    def answers(count):
        """Probabilities of being told so much, and of not being told (the last)."""
        if count == 0:
            return np.append(np.zeros(len(reach)), 1.0)
        told = np.where(reach >= event.threshold, law.pmf(reach - count), 0.0)
        return np.append(told, 1 - told.sum())

    for here, there in (((9, 1), (9, 0)), ((9, 0), (9, 1)), ((9, 0), (8, 0)), ((12, 1), (12, 0))):
        p, q = (np.outer(answers(a), answers(b)) for a, b in (here, there))
        loss = np.maximum(p - np.exp(0.5) * q, 0).sum()
        assert loss <= 0.01


def people(n=20_000):
    rng = np.random.default_rng(8)
    job = rng.choice(["clerk", "nurse", "cook", "smith"], n, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    job[:3] = ["spy", "king", "ghost"]
    paid = np.where(rng.random(n) < 0.7, 0, np.exp(rng.normal(7.5, 1, n)).round()).astype(int)
    columns = {
        "age": rng.integers(18, 91, n).astype(str),
        "hours": np.where(rng.random(n) < 0.5, 40, rng.integers(1, 80, n)).astype(str),
        "dividends": paid.astype(str),
        "rate": np.char.mod("%.2f", rng.uniform(1, 9, n)),
        "start": (np.datetime64("2015-03-01") + rng.integers(0, 900, n)).astype(str),
        "job": job,
        "flag": rng.choice(["true", "false"], n),
        "grade": np.where(rng.random(n) < 0.2, "", rng.integers(1, 6, n).astype(str)),
        "zip": np.char.zfill(rng.choice(["1067", "4103", "9111"], n), 5),
        "note": [f"n{i}" for i in range(n)],
    }
    columns["start"][0] = "2031-01-01"
    # a frame of objects, as CSV gives them: nothing states a type
    return pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})


@pytest.fixture(scope="module")
def learned():
    return ds.learn_schema(
        people(),
        name="people",
        budget=ds.PureDP(2),
        delta=1e-9,
        neighbours="add-remove",
        unit="row",
        testing=True,
        noise_seed=3,
    )


@pytest.mark.slow
def test_a_draft_says_what_the_columns_are(learned):
    by = {f["name"]: f for f in learned.schema.to_dict()["fields"]}
    assert {n: f["type"] for n, f in by.items()} == {
        "age": "integer", "hours": "integer", "dividends": "integer", "rate": "number", "start": "date", "job": "string",
        "flag": "boolean", "grade": "integer", "zip": "string",
    }  # fmt: skip
    assert learned.unsaid == ("note",)
    assert by["age"]["minimum"] == 0
    assert 91 <= by["age"]["maximum"] <= 109
    assert by["age"]["open"] == "high"
    assert by["start"]["open"] == "both"
    assert by["job"]["enum"] == ["clerk", "cook", "nurse", "smith"]
    assert by["zip"]["enum"] == ["01067", "04103", "09111"]
    assert "2015-01-01" <= by["start"]["minimum"] <= "2015-03-01"
    assert by["start"]["maximum"] < "2018"
    assert by["rate"]["precision"] == 0.01
    assert [n for n, f in by.items() if f.get("missing")] == ["grade"]
    assert {40, 41} <= set(by["hours"]["bins"]["edges"])
    assert by["dividends"]["bins"]["edges"][:2] == [0, 1]
    assert by["dividends"]["bins"]["law"] == "log"
    assert learned.schema.provenance == "learned, ε = 2, δ = 1e-09"


def test_values_of_one_unit_are_never_told(learned):
    assert not any(word in learned.text for word in ("spy", "king", "ghost", "n17", "2031"))


def test_spikes_survive_a_release_made_with_the_draft(learned):
    schema = learned.schema.project(["dividends", "hours"])
    release = ds.synthesize(
        people()[["dividends", "hours"]],
        schema,
        ds.Marginals(),
        budget=ds.PureDP(20),
        testing=True,
        noise_seed=2,
    )
    made, true = release.tables[0].to_pandas(), people()
    paid = true["dividends"].astype(int)
    assert (made["dividends"] == 0).mean() == pytest.approx((paid == 0).mean(), abs=0.01)
    assert made["dividends"].mean() == pytest.approx(paid.mean(), rel=0.15)
    assert (made["hours"] == 40).mean() == pytest.approx((true["hours"] == "40").mean(), abs=0.01)
    assert release.card.provenance == "learned, ε = 2, δ = 1e-09"


def test_the_draft_is_a_function_of_noisy_answers():
    """One table's answers, replayed on another that has nothing but the header in common: the same bytes."""
    told = []

    class Recorder:
        def __init__(self, tape):
            self.tape = tape
            self.at = 0

        def next(self, answer):
            if self.tape is told and len(told) <= self.at:
                told.append(answer)
            self.at += 1
            return told[self.at - 1]

    first = people(400)
    second = pd.DataFrame({name: ["x", "7"] for name in first.columns}, dtype=object)
    texts = []
    for rows in (first, second):
        recorder = Recorder(told)
        with pytest.MonkeyPatch.context() as patch:
            from dipsmith.privacy.curator import Curator

            ask, discover = Curator.ask, Curator.discover
            patch.setattr(Curator, "ask", lambda *a, r=recorder, f=ask: r.next(f(*a)))
            patch.setattr(Curator, "discover", lambda *a, r=recorder, f=discover: r.next(f(*a)))
            found = ds.learn_schema(
                rows, name="p", budget=ds.PureDP(9), delta=1e-6, neighbours="add-remove", unit="row", testing=True,
                noise_seed=1, request="r",
            )  # fmt: skip
        texts.append(found.text)
    assert texts[0] == texts[1]
    assert len(told) == 4


@pytest.mark.slow
def test_order_and_form_of_the_file_do_not_matter(tmp_path):
    """The same rows in another order, and as Parquet of texts or CSV, with the same noise: the same bytes."""
    table = pa.Table.from_pandas(people(2_000).drop(columns="note"), preserve_index=False)
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    pq.write_table(
        shuffled.cast(pa.schema([(n, pa.dictionary(pa.int32(), pa.string())) for n in table.column_names])),
        tmp_path / "p.parquet",
    )
    table.to_pandas().to_csv(tmp_path / "p.csv", index=False)
    how = {
        "name": "p",
        "budget": ds.PureDP(9),
        "delta": 1e-6,
        "neighbours": "add-remove",
        "unit": "row",
        "testing": True,
        "noise_seed": 1,
    }
    csv = ds.learn_schema(tmp_path / "p.csv", **how).text
    shuffled.to_pandas().to_csv(tmp_path / "q.csv", index=False)
    assert ds.learn_schema(tmp_path / "q.csv", **how).text == csv
    typed = ds.learn_schema(tmp_path / "p.parquet", **how).schema
    assert typed["age"].type == "string"  # the file says so


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_of_units_with_too_many_rows_the_same_ones_count_in_any_order(relation):
    random = np.random.default_rng(3)
    columns = {"id": random.integers(0, 300, 1200), "pay": np.exp(random.normal(9, 1, 1200)).round(2)}
    table = pa.table({**columns, "age": random.integers(0, 99, 1200), "job": random.choice(["aa", "bb", "cc"], 1200)})
    how = {"name": "p", "budget": ds.PureDP(20), "delta": 1e-6, "neighbours": relation, "unit": Unit("id", 1)}

    def draft(table):
        return ds.learn_schema(table, **how, testing=True, noise_seed=7).text

    found = draft(table)
    assert "minimum" in found
    for seed in range(3):
        assert draft(table.take(np.random.default_rng(seed).permutation(1200))) == found


def test_it_is_charged_once_in_the_ledger(tmp_path):
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("people", ds.PureDP(1))
    how = {
        "budget": ds.PureDP("0.4"),
        "delta": "1e-9",
        "neighbours": "replace",
        "unit": "row",
        "ledger": ledger,
        "name": "people",
    }
    found = ds.learn_schema(people(500), request="r1", out=tmp_path / "d.yaml", **how)
    statement = ledger.show("people")
    assert statement.remaining_units == ds.PureDP("0.6").units
    assert statement.delta == Fraction(1, 10**9)
    assert "δ = 1e-09 spent" in str(statement)
    assert ledger.verify().rows > 4
    again = ds.learn_schema(people(500), request="r1", out=tmp_path / "d.yaml", **how)
    assert again.text == found.text == (tmp_path / "d.yaml").read_text("utf-8")
    assert ledger.show("people").remaining_units == ds.PureDP("0.6").units
    for delta in (None, "1e-3"):
        with pytest.raises(BudgetError, match="had δ '1e-09', got "):
            ds.learn_schema(people(500), request="r1", out=tmp_path / "d.yaml", **{**how, "delta": delta})
    with pytest.raises(BudgetError, match="is left"):
        ds.learn_schema(people(500), out=tmp_path / "e.yaml", **{**how, "budget": ds.PureDP("0.7")})
    assert not (tmp_path / "e.yaml").exists()


def test_more_delta_than_was_reserved_is_refused(tmp_path):
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("t", ds.PureDP(1))
    protects = protection_of(blank(small(None)))
    _, event = FrequentValues(("a",), Fraction(1, 10**6)).price("add-remove", 1, ds.PureDP("0.5"), "")
    run = ledger.reserve(
        "t", ds.PureDP("0.5"), protects=protects, source=None, method="schema learn", delta=Fraction(1, 10**7)
    )
    with run, pytest.raises(BudgetError, match="was reserved"):
        run.record(event)


def test_without_delta_texts_are_left_to_the_steward():
    found = ds.learn_schema(
        people(4000), budget=ds.PureDP(9), neighbours="replace", unit="row", name="p", testing=True, noise_seed=1
    )
    assert {"job", "zip", "note"} <= set(found.unsaid)
    assert found.schema.provenance == "learned, ε = 9"


@pytest.mark.slow
def test_the_command_asks_for_unit_and_neighbours_and_charges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people(3000).to_csv("people.csv", index=False)
    run = CliRunner()
    base = ["schema", "learn", "people.csv", "--epsilon", "1", "--delta", "1e-9", "--ledger", "b.db"]
    asked = run.invoke(app, base).exception
    assert isinstance(asked, UsageError)
    assert "--unit row" in str(asked)
    assert "--neighbours add-remove" in str(asked)
    terms = ["--neighbours", "add-remove", "--unit", "row", "--skip", "note"]
    ungranted = run.invoke(app, [*base, *terms])
    assert isinstance(ungranted.exception, BudgetError)
    assert "note: Noise will hide about 964 rows in each column" in ungranted.stderr, "said before anything is paid"
    assert run.invoke(app, ["ledger", "grant", "people", "--rho", "2", "--ledger", "b.db"]).exit_code == 0
    done = run.invoke(app, [*base, *terms, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["out"] == "people.yaml"
    schema = ds.Schema.read("people.yaml")
    assert schema.provenance == "learned, ε = 1, δ = 1e-09"
    assert ds.Ledger("b.db").show("people").delta == Fraction(1, 8 * 10**9)
    assert run.invoke(app, ["schema", "check", "people.yaml"]).exit_code == 0
    assert "times more" not in done.stderr
    (tmp_path / "people.csv").rename("again.csv")
    assert run.invoke(app, ["ledger", "grant", "again", "--epsilon", "2", "--ledger", "c.db"]).exit_code == 0
    done = run.invoke(app, ["schema", "learn", "again.csv", *base[3:-1], "c.db", *terms])
    assert "times more than the same ε and δ would from a grant of both" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"unit": "person"}, UsageError, "say 'row'"),
        ({"unit": Unit("who", 2)}, SchemaError, "'who', which is no column of the header's [0-9]+$"),
        ({"unit": Unit("a", 2, "b")}, UnsupportedError, "per column"),
        ({"neighbours": "label"}, UsageError, "private columns go together"),
        ({"private": ["a"]}, UsageError, "go together"),
        ({"skip": ["a", "b"]}, SchemaError, "no column is left"),
    ],
)
def test_what_cannot_be_is_refused_before_a_charge(how, error, said):
    terms = {"budget": ds.PureDP(1), "neighbours": "replace", "unit": "row", "name": "t", "testing": True, **how}
    with pytest.raises(error, match=said):
        ds.learn_schema(small(None), **terms)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"budget": ds.PureDP("1e-12")}, "too small"),
        ({"budget": ds.ZCDP("1e-12")}, "too small"),
        ({"unit": Unit("a", 2**60)}, "scale must be positive and at most"),
        ({"delta": "1e-500"}, "δ must lie between 0 and 1"),
        ({"delta": "1e-400000000"}, "δ must lie between 0 and 1"),
        ({"delta": "1e-9", "budget": ds.PureDP(10**9)}, "lower ε to 1,000"),
        ({"delta": "1e-250", "budget": ds.PureDP(900)}, "no threshold can be found"),
    ],
)
def test_a_budget_that_buys_no_answer_is_refused_before_a_charge(tmp_path, how, said):
    ledger, terms = ds.Ledger(tmp_path / "b.db"), {"budget": ds.PureDP(1), "unit": "row", **how}
    ledger.grant("t", terms["budget"])
    with pytest.raises((BudgetError, UsageError), match=said):
        ds.learn_schema(small(None), neighbours="add-remove", name="t", ledger=ledger, out=tmp_path / "t.yaml", **terms)
    assert ledger.show("t").spent_units == 0


@pytest.mark.parametrize("terms", [["--skip", "a"] * 9, ["--epsilon", "0.000001"]])
def test_advice_that_cannot_be_given_fails_no_paid_run(tmp_path, monkeypatch, terms):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n" + "x,1\n" * 50)
    ds.Ledger("b.db").grant("t", ds.PureDP(1))
    asked = ["--epsilon", "1", "--delta", "1e-9", "--neighbours", "add-remove", "--unit", "row", "--ledger", "b.db"]
    done = CliRunner().invoke(app, ["schema", "learn", "t.csv", *asked, *terms])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "t.yaml").is_file()


def test_forms_and_magnitudes_of_values():
    def forms(values):
        return [FORMS[i] for i in Forms("a").place(pa.array(values))]

    assert forms(["", None, "NA", "TRUE", "12", "18.0", "1.5", "1.25", "1.125", "1e3", "007"]) == [
        "blank", "blank", "missing word", "boolean", "integer", "integer", "1 decimal", "2 decimals", "1.234",
        "more decimals", "code",
    ]  # fmt: skip
    assert forms(["2011-02-03", "2011-02-03T04:05", "2011-02-03 04:05:06", "2011-02-03 04:05:06.5", "2011-02-30"]) == [
        "date", "minute", "second", "fraction", "text",
    ]  # fmt: skip
    cells = Magnitudes("a", True)
    placed = cells.place(pa.array([0, 99, 1, 4, 10**17, -3, None]))
    assert [SPIKES[i - cells.ranges] for i in placed[:2]] == [0, 99]
    for value, cell in ((1, placed[2]), (4, placed[3]), (-3, placed[5])):
        assert cells.edges[cell] <= value <= cells.edges[cell + 1]
    assert placed[6] == -1
    noise = np.array([-5, 3, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, *[15] * (len(FORMS) - 14)])
    assert find_type("a", noise, 20.0, None) is None


def test_cells_that_are_not_written_plainly_are_learned_as_numbers_and_dates():
    """2,000 rows, ε = 20: noise of forms is below 5 rows, so that no form is mistaken in 1e6 runs."""
    rng = np.random.default_rng(3)
    day = (np.datetime64("1970-01-01") + rng.integers(0, 18_000, 2000)).astype(object)
    rows = pd.DataFrame({
        "pay": [f"${v:,.2f}" for v in np.exp(rng.normal(10, 0.5, 2000))],
        "lohn": [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in np.exp(rng.normal(10, 0.5, 2000))],
        "people": [f"{v:,}" for v in rng.integers(1, 40_000, 2000)],
        "born": [d.strftime("%d/%m/%Y") for d in day],
        "room": [f"A{v}" for v in rng.integers(1, 5, 2000)],
    })  # fmt: skip
    how = {"neighbours": "add-remove", "unit": "row", "testing": True, "noise_seed": 1, "delta": "1e-6"}
    fields = {
        f["name"]: f
        for f in yaml.safe_load(ds.learn_schema(rows, name="p", budget=ds.PureDP(20), **how).text)["fields"]
    }
    assert {n: f["type"] for n, f in fields.items()} == {
        "pay": "number", "lohn": "number", "people": "integer", "born": "date", "room": "string",
    }  # fmt: skip
    spelled = {
        n: {k: f[k] for k in ("decimalChar", "groupChar", "bareNumber", "format") if k in f} for n, f in fields.items()
    }
    assert spelled == {
        "pay": {"groupChar": ",", "bareNumber": False},
        "lohn": {"decimalChar": ",", "groupChar": ".", "bareNumber": False},
        "people": {"groupChar": ","}, "born": {"format": "%d/%m/%Y"}, "room": {},
    }  # fmt: skip
    assert 20_000 < float(fields["pay"]["maximum"]) < 500_000


def test_bounds_hold_where_noise_drowns_single_cells():
    """Few rows for the noise: the ends of a range are not those of the few cells that stand out."""
    rows = pd.DataFrame({"age": np.random.default_rng(4).integers(18, 91, 8000).astype(str).astype(object)})
    for seed in range(5):
        found = ds.learn_schema(
            rows, name="p", budget=ds.PureDP("0.02"), neighbours="add-remove", unit="row", testing=True, noise_seed=seed
        )
        domain = found.schema["age"].domain
        assert domain.minimum <= 25
        assert domain.maximum >= 84


def test_a_column_of_which_one_value_stands_out_is_left_to_the_steward():
    """A tail that noise hides must not become a column of zeros."""
    gains = np.where(np.arange(4000) % 12 == 0, 1000 + np.arange(4000), 0)
    found = ds.learn_schema(
        pd.DataFrame({"gain": gains}),
        name="p",
        budget=ds.PureDP("0.02"),
        neighbours="add-remove",
        unit="row",
        testing=True,
        noise_seed=1,
    )
    assert found.schema is None
    assert found.unsaid == ("gain",)
    assert "only 0 surely occurs" in found.text


@pytest.mark.parametrize(("beside", "said"), [([90, -40, 60], True), ([90, 110, 60], False), ([95, 95, 95], False)])
def test_a_neighbour_that_only_noise_reaches_opens_no_range(beside, said):
    """Cells beside 0 that stand out neither alone nor together: a tail beyond them would be cut off, and 0 is all there is."""
    cells = CellCounts(np.array([-2.0, -1.0, 1.0, 2.0]), np.array(beside, dtype=float), 100.0)
    found = FoundType("loss", "integer", missing=False)
    grid = CellCounts(np.arange(-2.0, 3.0), np.array([0.0, 0.0, 9000.0, 0.0]), 100.0)
    drafted = number_field(ValueExtent(found, cells, ((0.0, 9000.0),), None), grid, 40)
    assert (drafted.keys is None) == said
    assert ("only 0 surely occurs" in drafted.reason) == said


def test_the_level_for_others_is_told_from_a_value_that_is_called_so():
    levels = [("White", 1200), ("Other", 800)]
    drafted = text_field(FoundType("race", "string", missing=False, values=2900, doubt=1000.0), levels)
    assert (drafted.keys["enum"], drafted.keys["other"]) == (["Other", "White", "any other"], "any other")


def test_values_that_noise_hides_do_not_count_as_the_most_frequent_one():
    """Where noise could hide many rows of other values they keep a level of their own; where it cannot, none is needed."""
    levels = [("husband", 1200), ("single", 800)]
    doubtful = text_field(FoundType("r", "string", missing=False, values=2900, doubt=1000.0), levels)
    assert doubtful.keys["enum"] == ["husband", "single", "other"]
    assert doubtful.keys["other"] == "other"
    clear = text_field(FoundType("r", "string", missing=False, values=2010, doubt=60.0), levels)
    assert (clear.keys["enum"], clear.keys["other"]) == (["husband", "single"], "husband")
    alone = text_field(FoundType("r", "string", missing=False, values=2010, doubt=60.0), levels[:1])
    assert alone.keys["enum"] == ["husband", "other"]


def test_blanks_that_noise_may_hide_are_asked_for():
    """Where noise hides many blank rows the draft asks whether there are any: unsaid they count as the minimum."""
    rows = pd.DataFrame({"n": np.where(np.arange(8000) % 16 == 0, "N", np.arange(8000) % 9).astype(object)})
    terms = {"name": "p", "neighbours": "add-remove", "unit": "row", "testing": True, "noise_seed": 1}
    noisy = ds.learn_schema(rows, budget=ds.PureDP("0.02"), **terms)
    assert "n: " in noisy.text
    assert "write missing: true if there may be any" in " ".join(noisy.text.replace("#", " ").split())
    clear = ds.learn_schema(rows[rows["n"] != "N"], budget=ds.PureDP("5"), **terms)
    assert "missing" not in clear.text


def test_words_among_numbers_do_not_make_levels_of_them():
    """Amounts with decimals are numbers, whose words count as missing; whole numbers may be codes: the steward says."""
    rng = np.random.default_rng(5)
    none = np.arange(6000) % 5 == 0
    rows = pd.DataFrame({
        "pay": np.where(none, "N", np.round(np.exp(rng.normal(8, 1, 6000)), 2).astype(str)),
        "share": np.where(none, "N", (np.arange(6000) * 37 % 5001).astype(str)),
        "grade": np.where(none, "N", (np.arange(6000) % 4).astype(str)),
        "plain": np.arange(6000) * 37 % 5001,
    })  # fmt: skip
    terms = {"neighbours": "add-remove", "unit": "row", "testing": True, "noise_seed": 1, "delta": "1e-6"}
    learned = ds.learn_schema(rows, name="p", budget=ds.PureDP(20), **terms)
    fields = {f["name"]: f for f in yaml.safe_load(learned.text)["fields"]}
    assert (fields["pay"]["type"], fields["pay"]["missing"]) == ("number", True)
    assert "words among the numbers count as missing" in learned.text
    assert learned.unsaid == ("share",)
    assert "most are numbers, others words" in learned.text
    assert {"0", "1", "2", "3", "N"} <= set(fields["grade"]["enum"])
    assert (fields["plain"]["type"], "missing" in fields["plain"]) == ("integer", False)


def test_a_draft_of_noisy_forms_can_be_read_whatever_the_noise():
    """Of 160 runs four ended, paid for, with bins that hold no whole number: these are run again."""
    for seed in (91, 108, 110, 140):
        found = ds.learn_schema(
            people(3000),
            name="p",
            budget=ds.ZCDP.from_approx(1, 0.5e-9),
            delta=Fraction(1, 8 * 10**9),
            neighbours="add-remove",
            unit="row",
            skip=["note"],
            testing=True,
            noise_seed=seed,
        )
        assert found.schema is not None, found.text
    counts = np.zeros(len(FORMS), np.int64)
    counts[FORMS.index("integer")] = 2000
    for form in ("1 decimal", "2 decimals", "more decimals", "1.234"):
        counts[FORMS.index(form)] = 40
    assert find_type("n", counts, 100.0, None).type == "integer", "four forms that are noise are noise together"


def test_noise_alone_does_not_open_amounts_below_zero():
    """Cells above those that surely hold rows belong to them where they probably do; below 0 only where they surely do."""
    counts = np.zeros(Magnitudes("a", True).size, np.int64)
    half = Magnitudes("a", True).ranges // 2
    counts[half : half + 6] = 900
    counts[half - 1] = 60
    found = find_extent(FoundType("age", "integer", missing=False), counts, doubt=100.0)
    assert found.cells.edges[0] == 0
    counts[half - 1] = 150
    assert find_extent(FoundType("age", "integer", missing=False), counts, doubt=100.0).cells.edges[0] < 0


def test_cells_that_surely_hold_rows_lend_nothing_to_noise_far_from_them():
    """Of sixty columns some reached from 0 to millions: noise in one far cell, in one sum with all the rows there are."""
    counts = np.zeros(64)
    counts[30:34] = 300
    counts[[25, 38]] = 80
    assert CellCounts(np.arange(65.0), counts, 100.0).occupied_range() == (30, 33)
    spread = np.zeros(64)
    spread[10:26] = 60
    assert CellCounts(np.arange(65.0), spread, 100.0).occupied_range() == (10, 25), (
        "rows of many cells are found together"
    )


def test_the_more_columns_the_fewer_narrow_bins():
    """Tables of pairs grow with the square of bins times the square of columns."""
    cells = CellCounts(np.arange(0.0, 111.0), np.full(110, 400.0))
    sizes = [
        len(cut_by_mass("integer", cells, n).keys.get("bins", {"edges": [0] * 111})["edges"]) - 1 for n in (9, 24, 45)
    ]
    assert sizes[0] == 110
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] <= 40


def test_one_year_that_stands_out_does_not_bound_the_others():
    counts = np.zeros(300, dtype=np.int64)
    counts[100:140] = 20
    counts[120] = 120
    hired = FoundType("hired", "date", missing=False)
    assert find_extent(hired, counts, doubt=100.0) is None
    assert "of type date" in unknown_field("hired", hired).reason
    counts[100:140] = 60
    assert len(find_extent(hired, counts, doubt=100.0).cells.counts) == 40


def test_one_stray_date_opens_no_century():
    """Of rows that may be read exactly: a date of 1899 and one of 2199 among 4,000 of nine years."""
    days = np.datetime64("2001-01-01") + np.arange(4000) % 3200
    days[:2] = np.array(["1899-01-01", "2199-12-31"], "M8[D]")
    text = ds.draft_schema(pd.DataFrame({"hired": days.astype(str)}), name="p", public_rows=True)
    (field,) = yaml.safe_load(text)["fields"]
    assert (field["minimum"][:4], field["maximum"][:4]) == ("2001", "2009")
    few = ds.draft_schema(pd.DataFrame({"hired": ["1899-01-01", "2001-05-05"]}), name="p", public_rows=True)
    assert yaml.safe_load(few)["fields"][0]["minimum"][:4] == "1899"


ODD = (
    "new\nline",
    "\u2028line",
    "\x7f",
    "\uffff",
    "a\x85b",
    "'",
    "{a: b}",
    "- y",
    "\u202eabc",
    "\x1b[31m",
    "08",
    "é" * 90,
)


@pytest.mark.parametrize("value", ODD)
def test_whatever_the_frequent_values_are_the_draft_can_be_read(value):
    """A value with a line break, or one that YAML does not take in a comment, ended a run that was paid for."""
    table = pa.table({"c": [value] * 3000 + ["plain"] * 2000, "d": [-(10**18), 10**18] * 2500})
    found = ds.learn_schema(
        table, budget=ds.PureDP(4), delta=1e-9, neighbours="replace", unit="row", name="t", testing=True, noise_seed=1
    )
    assert found.schema is not None
    assert set(found.schema["c"].labels) == {value, "plain"}
    assert found.schema["d"].domain.minimum == -LARGEST > -(2**53)
