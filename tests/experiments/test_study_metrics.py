"""Metrics by name and the rows of a study."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import InputError
from dipsmith.examples import personnel
from dipsmith.experiments.datasets import dataset
from dipsmith.experiments.study import DataEntry
from dipsmith.sources import source
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.marginal_error import marginal_error
from dipsmith.utility.metric import SideBySide, all_metrics, metric
from dipsmith.utility.pair import authentic_codes
from dipsmith.utility.propensity import propensity
from dipsmith.utility.telling_apart import specks

PEOPLE = DataEntry(example="personnel", rows=600, years=[1988, 2011])


def compared(rows, release, schema, fresh):
    return SideBySide(authentic_codes(source(rows), schema, schema.names)[0], release, schema, fresh)


def measure(names, both):
    return [value for name in names for value in metric(name).values(both)]


@pytest.fixture(scope="module")
def labels():
    data = dataset(PEOPLE, 1)
    method = ds.Forest(targets=["sex", "race"])
    release = ds.synthesize(data.rows, data.schema, method, budget=ds.PureDP(2), testing=True, noise_seed=1)
    return compared(data.rows, release, data.schema, data.fresh)


def test_every_metric_gives_a_number_and_its_reference(labels):
    slow = ("specks-forest", "specks-boosting", "specks-cart")
    linked = ("transition-tvd", "spell-tvd", "turnover", "memory", "weighted-tvd")  # of panels and of weighted rows
    quick = [m.name for m in all_metrics() if m.name not in (*slow, *linked, "range-error")]
    found = measure(quick, labels)
    assert [m.metric for m in found] == quick
    for m in found:
        assert np.isfinite(m.value), m.metric
        assert np.isfinite(m.reference), m.metric


def test_metrics_are_those_of_a_comparison(labels):
    found = {m.metric: m for m in measure(["tvd-2", "specks"], labels)}
    pair = labels.pairs[0]
    assert pair.given  # public columns are not compared with themselves
    error = marginal_error(Crosstabs(pair), 2)
    assert (found["tvd-2"].value, found["tvd-2"].reference) == (error.mean, error.floor)
    assert found["specks"].value == specks(propensity(pair, draws=0)).value


def test_log_loss_is_that_of_rows_that_the_run_did_not_see(labels):
    (found,) = measure(["log-loss"], labels)
    fresh = labels.fresh
    p = labels.release.model.probabilities(fresh)
    sex = np.array([["F", "M"].index(v) for v in fresh["sex"].to_pylist()])
    race = np.array([list("ABCDE").index(v) for v in fresh["race"].to_pylist()])
    # The years' rows may be dropped by a rule; none is here.
    assert found.value == pytest.approx(-np.log(p[np.arange(len(p)), sex * 5 + race]).mean(), rel=1e-9)
    shares = np.bincount(sex * 5 + race) / len(sex)
    assert found.reference == pytest.approx(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def test_ranges_are_of_ordered_columns(labels):
    (nothing,) = measure(["range-error"], labels)  # neither sex nor race is ordered
    assert np.isnan(nothing.value)
    data = dataset(DataEntry(example="regression", rows=200), 1)
    release = ds.synthesize(data.rows, data.schema, ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=1)
    (found,) = measure(["range-error"], compared(data.rows, release, data.schema, None))
    assert 0 < found.value < 0.5


def test_log_loss_is_for_labellers():
    data = dataset(DataEntry(example="regression", rows=200), 1)
    release = ds.synthesize(data.rows, data.schema, ds.Flat(), budget=ds.PureDP(9), testing=True, noise_seed=1)
    with pytest.raises(InputError, match="methods that label"):
        measure(["log-loss"], compared(data.rows, release, data.schema, None))


def test_repeats_are_other_rows_of_the_same_population():
    first, again, second = (dataset(PEOPLE, seed) for seed in (1, 1, 2))
    assert first.rows.equals(again.rows)
    assert not first.rows.equals(second.rows)
    assert not first.rows.equals(first.fresh)
    assert first.schema == second.schema


def test_schemas_can_be_changed():
    change = {
        "race": {"role": "public"},
        "pay": {"bins": {"round": 25_000}},
        "drop": ["occupation"],
        "rules": [],
        "rare": {"agency": 100},
    }
    made = dataset(PEOPLE, 1, change=change)
    assert made.schema.private == ("sex",)
    assert made.schema["pay"].size < personnel.schema()["pay"].size
    assert "occupation" not in made.schema
    assert "(rare)" in made.schema["agency"].labels
    # Which labels are rare is decided on the independent draw, never on the rows themselves.
    counts = made.fresh["agency"].value_counts().to_pylist()
    rare = {c["values"] for c in counts if c["counts"] < 100}
    assert not rare & set(made.schema["agency"].labels)
    replaced = dataset(PEOPLE.model_copy(update={"neighbours": "replace"}), 1)
    assert (replaced.schema.neighbours, replaced.schema.unit.max_rows) == ("replace", 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pya": {"role": "public"}}, "'pya' is no column"),
        ({"drop": ["ocupation"]}, "'ocupation', which is no column"),
        ({"pay": 3}, "'pay' is no column"),
    ],
)
def test_changes_that_make_no_sense_are_told(change, said):
    with pytest.raises(InputError, match=said):
        dataset(PEOPLE, 1, change=change)


def test_files_have_no_public_frequencies(tmp_path):
    schema = dataset(DataEntry(example="regression"), 1).schema
    schema.write(tmp_path / "s.yaml")
    pa.csv.write_csv(pa.table({"x1": [1]}), tmp_path / "f.csv")
    entry = DataEntry.model_validate({"file": "f.csv", "schema": "s.yaml", "public": "a test"})
    with pytest.raises(InputError, match="public frequencies"):
        dataset(entry, 1, change={"rare": {"x4": 5}}, base=tmp_path)
