"""Methods in whole runs: what is refused costs nothing, and what is made can be saved and verified."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import SchemaError, UnsupportedError, UsageError
from dipsmith.methods.graph.privbayes import PrivBayes
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.accountant import total
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Unit


def schema(neighbours):
    fields = [
        {"name": "grade", "type": "string", "enum": list("abcd"), "other": "a", "role": "public"},
        {"name": "place", "type": "string", "enum": list("xyz"), "other": "x", "role": "public"},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    ]
    return ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": neighbours, "fields": fields})


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "grade": rng.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]),
            "place": rng.choice(list("xyz"), n),
            "sex": rng.choice(["F", "M"], n),
        }
    )


@pytest.fixture
def ledger(tmp_path):
    book = ds.Ledger(tmp_path / "budget.db")
    book.grant("people", ds.PureDP(20_000))
    return book


@pytest.mark.parametrize(
    ("neighbours", "method", "error", "match"),
    [
        ("add-remove", PrivBayes(score="mutual-information"), UnsupportedError, "association"),
        ("add-remove", ds.Steps(layers=2, select="bic"), UnsupportedError, "bic"),
        ("label", ds.LogLinear(targets=["grade"]), UsageError, "is public"),
        ("label", ds.LogLinear(targets=["nobody"]), SchemaError, "nobody"),
        ("label", ds.Forest(targets=["sex"], must_include=["sex"]), UsageError, "is a target"),
    ],
)
def test_what_a_plan_refuses_is_not_charged(ledger, neighbours, method, error, match):
    with pytest.raises(error, match=match):
        ds.synthesize(people(), schema(neighbours), method, budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("people").remaining_units == ds.PureDP(20_000).units


def test_a_plan_that_needs_the_row_count_is_not_refused_where_reading_tells_it(ledger):
    made = ds.synthesize(
        people(), schema("replace"), ds.Steps(layers=2, select="bic"), budget=ds.PureDP(1), ledger=ledger
    )
    assert made.tables[0].num_rows == 400


@pytest.mark.slow
@pytest.mark.parametrize("method", [ds.Flat(), ds.MST()])
def test_separately_sanitised_sets_have_one_size_and_verify(tmp_path, ledger, method):
    """Under add-remove each of them counts the rows anew, with its own noise."""
    made = ds.synthesize(
        people(),
        schema("add-remove"),
        method,
        budget=ds.PureDP("0.5"),
        ledger=ledger,
        sets=5,
        each="split",
    )
    assert len({m.rows for m in made.models}) > 1, "the case is no longer one"
    made.save(tmp_path / "out")
    assert ds.verify(tmp_path / "out", ledger).rows == round(sum(m.rows for m in made.models) / 5)


def test_a_release_without_noticeable_noise_can_be_saved(tmp_path, ledger):
    made = ds.synthesize(people(), schema("add-remove"), ds.Marginals(2), budget=ds.PureDP(10_000), ledger=ledger)
    made.save(tmp_path / "out")
    assert ds.verify(tmp_path / "out", ledger).rows == 400


@pytest.mark.parametrize("method", [ds.Flat(), ds.MST(), ds.Steps(), ds.Universal()])
@pytest.mark.parametrize("rows", [40, 4000])
def test_how_many_rows_are_made_does_not_change_what_they_say_where_the_true_number_is_public(method, rows):
    """Noise of sd < 1 on counts of 40 to 160: shares within .05, that is 2 of 40 rows."""
    how = {"budget": ds.PureDP(20), "testing": True, "noise_seed": 1, "seed": 1}
    made = ds.synthesize(people(), schema("replace"), method, rows=rows, **how)
    assert made.tables[0].num_rows == rows
    for level in "abcd":
        found, true = (np.mean(t["grade"].to_numpy() == level) for t in (made.tables[0], people()))
        assert found == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 3)])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace", "label"])
def test_strata_cost_what_the_plan_says_to_the_last_unit(neighbours, unit):
    """A budget that neither two dearest blocks nor four strata divide evenly."""
    made = replace(schema(neighbours), unit=unit)
    rows = Codes.of(made, {"grade": np.arange(80) % 4, "place": np.arange(80) % 3, "sex": np.arange(80) % 2}, 80)
    method, budget = ds.Forest(targets=["sex"], strata="grade"), PureDP.of_units(10**12 + 7)
    curator = Curator.rehearse(rows, budget, seed=1)
    method.fit(curator)
    public = curator.public_rows(made.public) if neighbours == "label" else None
    planned = method.plan(made, budget, PublicFacts(curator.rows, public))
    spent = total(curator._journal.events, "epsilon", neighbours)
    assert sum(step.budget.units for step in planned) == spent
    assert budget.units - 4 < spent <= budget.units


@pytest.mark.parametrize("strata", [None, "grade"])
@pytest.mark.parametrize("n", [0, 80])
def test_targets_after_one_another_need_no_public_column(strata, n):
    made = schema("label")
    kept = [a.with_role("private") if a.name == "place" else a for a in made if strata or a.name != "grade"]
    made = replace(made, attributes=tuple(kept))
    columns = {"grade": np.arange(n) % 4, "place": np.arange(n) % 3, "sex": np.arange(n) % 2}
    rows = Codes.of(made, columns, n)
    method = ds.Forest(targets=["place", "sex"], leaves="sequential", strata=strata, n_b=1)
    model = method.fit(Curator.rehearse(rows, PureDP(50), seed=1))
    labelled = model.label(rows.project(made.public), seed=1)
    assert len(labelled) == n
    assert set(labelled.names) == set(made.names)
