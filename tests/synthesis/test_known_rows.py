"""How many rows to make is one thing, how many the table has another: neither passes for the other."""

import json
import warnings
from dataclasses import MISSING, fields, replace
from fractions import Fraction
from math import ceil

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import ContradictedRows, HopelessNoise, SchemaError, UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.graph.misfit import Misfit
from dipsmith.privacy.calibration import noise_for
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Attribute, Categories, Marginal, Unit
from dipsmith.schema.places import LARGEST_TOTAL
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.known_rows import contradiction, noise_reach

PEOPLE = 3000


def schema(neighbours="add-remove", **more):
    columns = [
        {"name": "age", "type": "integer", "minimum": 0, "maximum": 79, "bins": {"width": 8}, "role": "public"},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ]
    return ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": neighbours, "fields": columns, **more})


def people():
    rng = np.random.default_rng(1)
    age = np.minimum(rng.exponential(20, PEOPLE), 79).astype(int)
    return pa.table({"age": age, "sex": rng.choice(["F", "M"], PEOPLE)})


def method_named(name):
    needed = any(f.name == "targets" and f.default is MISSING for f in fields(METHODS[name]))
    return METHODS[name](targets=("sex",)) if needed else METHODS[name]()


def make(method=None, declared=None, epsilon=1, **more):
    declared = schema() if declared is None else declared
    options = {"testing": True, "noise_seed": 5, "seed": 2, **more}
    return ds.synthesize(people(), declared, method or ds.Flat(), budget=ds.PureDP(epsilon), **options)


@pytest.mark.parametrize("name", [n for n in METHODS if "add-remove" in METHODS[n].relations])
def test_how_many_rows_are_made_never_touches_the_fit(name):
    """Means of rows drawn from one model: 6 standard errors, 1e-8 for each comparison by the normal law."""
    made = {rows: make(method_named(name), rows=rows) for rows in (None, 500, 20_000)}
    assert len({release.model.to_files() for release in made.values()}) == 1
    ages = {rows: release.tables[0]["age"].to_numpy() for rows, release in made.items()}
    for rows in (500, 20_000):
        assert len(ages[rows]) == rows
        error = np.std(people()["age"]) * np.sqrt(1 / rows + 1 / PEOPLE)
        assert abs(ages[rows].mean() - ages[None].mean()) < 6 * error


def test_a_wrong_number_is_contradicted_aloud_and_on_the_card():
    with pytest.warns(ContradictedRows, match="stated as 2,000, but noisy counts add up to"):
        wrong = make(known_rows=2000)
    assert (wrong.card.rows, wrong.card.known_rows) == (2000, 2000)
    assert any("stated as 2,000" in note for note in wrong.card.notes)
    assert "the number of rows is publicly known: 2,000" in wrong.card.steward_says


@pytest.mark.parametrize("name", [n for n in METHODS if "add-remove" in METHODS[n].relations])
def test_a_true_number_is_not_contradicted(name):
    """One run by each method: false alarms below 1e-6 each."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContradictedRows)
        release = make(method_named(name), known_rows=PEOPLE)
    assert release.card.rows_known == "publicly known, as the steward states"
    assert not any("stated as" in note for note in release.card.notes)


@pytest.mark.parametrize("budget", [ds.PureDP("0.2"), ds.PureDP(3), ds.ZCDP("0.01"), ds.ZCDP(4)])
@pytest.mark.parametrize("cells", [1, 2, 20])
def test_false_alarms_are_as_rare_as_stated(budget, cells):
    """Against the exact law of the sum, convolved; the bound is at most twice as far as it need be."""
    declared = schema()
    law, rare = noise_for("add-remove", 1, budget), 1e-6
    table = Measurement(Marginal(declared, ()), np.zeros(cells, np.int64), law.variance, budget, law.name)
    allowed = noise_reach(table, rare)
    reach = 4 * ceil(allowed) + 4
    pmf = law.pmf(np.arange(-reach, reach + 1))
    size = 1 << int(np.ceil(np.log2(cells * len(pmf) + 1)))
    total = np.fft.irfft(np.fft.rfft(pmf, size) ** cells, size)[: cells * (len(pmf) - 1) + 1]
    far = np.abs(np.arange(len(total)) - cells * reach)
    assert total[far > allowed].sum() <= rare
    assert total[far > allowed / 2 - 1].sum() > rare


def test_tables_of_a_part_of_the_rows_contradict_nothing():
    release = make(ds.Forest(targets=("sex",), strata="age"), rows=10)
    assert not any("stated as" in note for note in release.card.notes)
    assert contradiction([], 5, schema()) == ""


def test_a_schema_states_the_number_for_every_run():
    declared = schema(rows=PEOPLE)
    assert (declared.known_rows, ds.Schema.from_dict(declared.to_dict())) == (PEOPLE, declared)
    assert declared.digest != schema().digest
    release = make(declared=declared)
    assert (release.card.rows, release.card.known_rows) == (PEOPLE, PEOPLE)
    assert [s["what"] for s in release.card.spending] == ["counts of age × sex"]
    with pytest.raises(UsageError, match="known_rows is 5, but the schema says rows: 3000"):
        make(declared=declared, known_rows=5)


@pytest.mark.parametrize(("stated", "said"), [({"neighbours": "replace"}, "is public and read"), ({"rows": -1}, "-1")])
def test_a_number_that_is_public_or_none_is_refused(stated, said):
    with pytest.raises(SchemaError, match=said):
        schema(**{"rows": 7, **stated})
    with pytest.raises(UsageError, match=said):
        make(declared=schema(stated.get("neighbours", "add-remove")), known_rows=stated.get("rows", 7))


def test_a_number_given_to_an_earlier_version_was_taken_as_known():
    facts = json.loads(make(known_rows=PEOPLE).card.to_json())
    del facts["known_rows"]
    assert Card.from_json(json.dumps(facts)).known_rows is None
    facts["rows_known"] = "given by the steward"
    assert Card.from_json(json.dumps(facts)).known_rows == PEOPLE


@pytest.mark.filterwarnings("ignore:age is a number known in bins")
def test_intervals_stand_for_the_people_and_not_for_the_rows_drawn():
    """Drawn tenfold, an estimate is no surer than the people behind it leave it."""

    def mean_age(table):
        age = table["age"].to_numpy()
        return age.mean(), age.var() / len(age)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HopelessNoise)
        releases = [make(rows=rows, epsilon=5) for rows in (None, 10 * PEOPLE)]
    plain, tenfold = (ds.noise_aware(r, mean_age, columns=["age"], replicates=20, seed=1) for r in releases)
    assert releases[1].people == releases[0].card.rows
    assert tenfold.within[0] == pytest.approx(plain.within[0], rel=0.1)
    assert replace(releases[0]).people == releases[0].card.rows


def test_a_number_of_rows_that_no_table_has_is_refused_before_anything_is_charged():
    """Of 10¹⁸ stated rows a float is off by 128: one unit would move a score as far, and a choice was priced at 1."""
    book = ds.Ledger(":memory:")
    book.grant("people", ds.PureDP(1))
    with pytest.raises(UsageError, match="expected 0 to 10,000,000,000"):
        ds.synthesize(people(), schema(), "aim", budget=ds.PureDP(1), ledger=book, known_rows=10**18)
    with pytest.raises(SchemaError, match="expected 0 to 10,000,000,000"):
        schema(rows=10**10 + 1)
    assert book.show("people").spent_units == 0


@pytest.mark.parametrize("cells", [6, 60_000])
def test_scores_of_the_largest_number_of_rows_are_exact_to_half_a_step(cells):
    """What `select` asks of scores (half of 1/1024 of Δ), against sums of fractions."""
    one = Categories.of([str(i) for i in range(cells)], other="0")
    declared = ds.Schema("t", (Attribute("a", "string", one),), Unit(), "add-remove")
    random = np.random.default_rng(2)
    shares = random.random(cells)
    expected = LARGEST_TOTAL * shares / shares.sum()
    counts = random.integers(0, 10**6, cells)
    exact = sum(abs(Fraction(int(n)) - Fraction(m)) for n, m in zip(counts, expected, strict=True))
    told = Misfit(declared, {("a",): expected}).value(("a",), [counts])
    assert abs(Fraction(told) - exact) < Fraction(1, 2048)
