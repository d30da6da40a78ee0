"""Flat and Marginals: histograms as synthetic representations, as the textbook chapter uses them."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import UsageError
from dipsmith.estimation.answers import NoisyTable
from dipsmith.methods.hierarchy.flat import FlatModel
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Measured
from dipsmith.schema import Attribute, Bins, Categories, Codes, Marginal, Schema, Unit
from dipsmith.synthesis import fitted
from dipsmith.synthesis.fitted import FittedModel

ADULT = Path(__file__).parents[4] / "shared" / "data" / "adult.csv"


def ages_and_jobs(relation="add-remove", jobs=3):
    edges = tuple(float(x) for x in range(17, 92))
    bins = Bins(edges, "integer", tuple(str(int(e)) for e in edges[:-1]), 17, 90)
    listed = Categories.of([f"job {i}" for i in range(jobs)], other="job 0")
    return Schema("t", (Attribute("age", "integer", bins), Attribute("job", "string", listed)), Unit(), relation)


def workers(schema, n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    ages = np.clip(rng.normal(22, 13, n), 0, 73).astype(int)
    return Codes.of(schema, {"age": ages, "job": (ages + rng.integers(0, 20, n)) * schema["job"].size // 94}, n)


def test_charges_are_what_was_measured():
    schema = ages_and_jobs()
    for method, tables in (
        (ds.Flat(), 1),
        (ds.Flat(count_share=0.2), 1),
        (ds.Marginals(), 2),
        (ds.Marginals(cliques=2), 1),
        (ds.Marginals(cliques=[["age"]], weights=[3]), 2),
    ):
        curator = Curator.rehearse(workers(schema), ds.PureDP("0.9"), seed=1)
        method.fit(curator)
        events = curator._journal.events
        assert len(events) == tables
        assert all(isinstance(e, Measured) for e in events)
        assert sum(e.budget.units for e in events) == ds.PureDP("0.9").units


def test_large_tables_buy_their_row_count():
    schema = ages_and_jobs(jobs=9)  # 666 cells
    curator = Curator.rehearse(workers(schema), ds.PureDP(1), seed=1)
    model = ds.Flat().fit(curator)
    assert [e.cells for e in curator._journal.events] == ["(total)", "age × job"]
    assert curator._journal.events[0].budget == ds.PureDP("0.05")
    assert abs(model.rows - 20_000) < 600  # 20/ε·√2 = 28 is the sd of the count; P(|noise| > 600) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("method", [ds.Flat(), ds.Marginals(), ds.Marginals(cliques=2)])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_answers_cover_the_truth(method, relation):
    # 300 fits, 3 questions each; a 95 % interval that is right covers 900·.95 = 855 ± 6.5 (sd) on
    # average if the questions were independent; correlated at worst three by three, sd 11.3. Six sd: 787.
    schema = ages_and_jobs(relation)
    codes = workers(schema)
    counts = np.bincount(codes["age"], minlength=74)
    truth = [counts[4:16].sum(), counts[13:54].sum(), (np.arange(17, 91) * counts).sum() / counts.sum()]
    covered = 0
    for seed in range(300):
        model = method.fit(Curator.rehearse(codes, ds.PureDP("0.5"), seed=seed))
        answers = [model.range_query("age", 21, 33), model.range_query("age", 30, 71), model.mean("age")]
        covered += sum(a.interval[0] <= t <= a.interval[1] for a, t in zip(answers, truth, strict=True))
    assert 787 <= covered <= 890


def test_projection_beats_clipping_on_sparse_tables():
    schema = ages_and_jobs("replace", jobs=40)
    codes = workers(schema, 3000)
    true = np.bincount(Marginal.of(schema, schema.names).index(codes), minlength=74 * 40)
    errors = {}
    for post in ("project", "clip"):
        models = [ds.Flat(post=post).fit(Curator.rehearse(codes, ds.PureDP(2), seed=s)) for s in range(10)]
        errors[post] = np.mean([np.abs(m.noisy.table(post) - true).sum() for m in models])
    assert errors["project"] < 0.8 * errors["clip"]


def test_two_way_marginals_keep_the_association():
    schema = ages_and_jobs("replace")
    codes = workers(schema)
    authentic = np.corrcoef(codes["age"], codes["job"])[0, 1]
    joint = ds.Marginals(cliques=2).fit(Curator.rehearse(codes, ds.PureDP(2), seed=1)).sample(seed=1)
    apart = ds.Marginals().fit(Curator.rehearse(codes, ds.PureDP(2), seed=1)).sample(seed=1)
    assert authentic > 0.7
    assert np.corrcoef(joint["age"], joint["job"])[0, 1] > authentic - 0.05
    assert abs(np.corrcoef(apart["age"], apart["job"])[0, 1]) < 0.05


def test_hopeless_noise_is_said_before_it_is_bought():
    schema = ages_and_jobs("replace", jobs=400)
    (step,) = ds.Flat().plan(schema, ds.PureDP("0.1"), PublicFacts(rows=1000))
    assert "hopeless" in step.note
    assert "mst" in step.note
    (fine,) = ds.Flat().plan(schema, ds.PureDP(10), PublicFacts(rows=10**6))
    assert fine.note == ""


def test_tables_beyond_reach_are_refused_by_name():
    bins = Bins(tuple(float(x) for x in range(10**4 + 1)), "integer", tuple(map(str, range(10**4))), 0, 10**4 - 1)
    schema = Schema("t", tuple(Attribute(f"a{i}", "integer", bins) for i in range(3)), Unit(), "replace")
    codes = Codes.of(schema, {f"a{i}": np.zeros(5, int) for i in range(3)})
    with pytest.raises(UsageError, match=r"a2 \(10,000\)"):
        ds.Flat().fit(Curator.rehearse(codes, ds.PureDP(1), seed=0))


@pytest.mark.slow
def test_tables_too_large_to_hold_are_drawn_in_blocks(monkeypatch):
    monkeypatch.setattr("dipsmith.methods.hierarchy.flat.DENSE_CELLS", 1 << 12)
    monkeypatch.setattr("dipsmith.methods.hierarchy.flat.KEPT_CELLS", 1 << 8)
    schema = ages_and_jobs("replace", jobs=100)
    codes = workers(schema)
    model = ds.Flat().fit(Curator.rehearse(codes, ds.PureDP(5), seed=0))
    assert model.noisy.kept is not None
    rows = model.sample(seed=1)
    assert len(rows) == 20_000
    assert abs(rows["age"].mean() - codes["age"].mean()) < 1
    with pytest.raises(UsageError, match="too large to keep whole"):
        model.mean("age")
    facts, arrays = model.state()
    again = type(model).from_state(schema, facts, arrays)
    assert again.sample(100, seed=3)["age"].tolist() == model.sample(100, seed=3)["age"].tolist()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"cliques": 0}, "1 or more"),
        ({"post": "x"}, "project"),
        ({"cliques": [["a"]], "weights": [1, 2, 3]}, "weights"),
    ],
)
def test_wrong_parameters(arguments, match):
    schema = Schema("t", (Attribute("a", "string", Categories.of("xy")),), Unit(), "add-remove")
    codes = Codes.of(schema, {"a": np.zeros(3, int)})
    with pytest.raises(UsageError, match=match):
        ds.Marginals(**arguments).fit(Curator.rehearse(codes, ds.PureDP(1)))


needs_adult = pytest.mark.skipif(
    not ADULT.is_file(), reason="NOT TESTED: the public Adult extract is not beside the checkout"
)


@pytest.fixture(scope="module")
def adult():
    with ADULT.open() as file:
        rows = list(csv.DictReader(file))[:32_561]
    return pa.table({"age": [int(r["age"]) for r in rows], "occupation": [r["occupation"].strip() for r in rows]})


def adult_schema(occupations=None):
    fields = [{"name": "age", "type": "integer", "minimum": 0, "maximum": 99}]
    if occupations:
        fields.append({"name": "occupation", "type": "string", "enum": occupations, "missing": True})
    return ds.Schema.from_dict({"name": "adult", "unit": "row", "neighbours": "add-remove", "fields": fields})


@needs_adult
@pytest.mark.needs_adult
def test_the_chapters_figures(adult):
    """Range queries, mean and marginals of the Programming Differential Privacy chapter, at ε so large that noise is 0."""
    release = ds.synthesize(adult, adult_schema(), ds.Flat(), budget=ds.PureDP(100), testing=True, noise_seed=1)
    model = release.model
    for low, high, rows in (
        (21, 33, 9878),
        (20, 65, 29_568),
        (20, 30, 8054),
        (30, 31, 861),
        (30, 71, 22_310),
    ):
        assert model.range_query("age", low, high).value == pytest.approx(rows, abs=1e-6)
    assert model.mean("age").value == pytest.approx(38.58164675532078)
    assert (model.inner.noisy.values == 0).sum() == 27
    assert release.card.rows == 32_561
    assert model.range_query("age", 20, 65, rows=10_000).value == pytest.approx(9080.8, abs=0.05)


@needs_adult
@pytest.mark.needs_adult
def test_the_chapters_two_way_marginal(adult):
    jobs = ["Adm-clerical", "Craft-repair", "Other-service", "Sales"]
    listed = [j for j in dict.fromkeys(adult["occupation"].to_pylist()) if j != "?"]
    assert set(jobs) <= set(listed)
    assert len(listed) == 14
    method = ds.Marginals(cliques=[["age", "occupation"]])
    model = ds.synthesize(adult, adult_schema(listed), method, budget=ds.PureDP(100), testing=True, noise_seed=1).model
    for job, rows in (("Adm-clerical", 23), ("Craft-repair", 14), ("Other-service", 129)):
        assert model.count({"age": "17", "occupation": job}).value == pytest.approx(rows, abs=1e-6)
    assert model.count({"occupation": "(missing)"}).value == pytest.approx(1843, abs=1e-6)


@needs_adult
@pytest.mark.needs_adult
def test_rows_drawn_from_noisy_histograms_answer_within_noise(adult):
    release = ds.synthesize(adult, adult_schema(), ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=2)
    ages = release.tables[0]["age"].to_numpy()
    # A range of 45 noisy bins at ε = 1 has sd √(2·45) = 9.5; systematic drawing adds less than 1 per bin.
    assert abs(((ages >= 20) & (ages < 65)).sum() - 29_568) < 130


def test_a_large_table_of_almost_nothing_can_be_read_back(tmp_path, monkeypatch):
    """Zeros pack to a thousandth of their size, which a reader takes for a bomb from 64 MB on; here from nothing."""
    monkeypatch.setattr(fitted, "ROOM", 0)
    labels = Categories.of([str(i) for i in range(60)])
    schema = Schema("t", tuple(Attribute(n, "string", labels) for n in ("a", "b", "c")), Unit(), "add-remove")
    table = Marginal.of(schema, schema.names)
    values = np.zeros(table.size, dtype=np.int64)
    values[7] = 3
    FittedModel("flat", FlatModel(NoisyTable(table, values, 1e-9, 3.0, 0.0), "project")).save(tmp_path / "m")
    again = FittedModel.load(tmp_path / "m").inner
    assert isinstance(again, FlatModel)
    assert np.array_equal(again.noisy.values, values)
