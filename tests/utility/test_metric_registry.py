"""A metric of another package, found by its entry point, is used by comparisons and studies like any other."""

import json

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith import registry
from dipsmith.errors import InputError, RegistryError
from dipsmith.experiments.experiment import Experiment
from dipsmith.report.sections import page, section
from dipsmith.utility.metric import all_metrics, metric

MODULE = """
from dipsmith.utility.metric import Chapter, Metric, MetricValue, mean_over_sets


def rows_apart(authentic, synthetic):
    return abs(len(authentic) - len(synthetic)) / len(authentic)


def by_level(both):
    labels = both.schema["sex"].labels
    pair = both.pairs[0]
    return [
        MetricValue("", abs((pair.authentic["sex"] == i).mean() - (pair.synthetic["sex"] == i).mean()), 0.0, level=label)
        for i, label in enumerate(labels)
    ]


ROWS_APART = Metric("rows-apart", "difference of the numbers of rows", "lower", mean_over_sets(rows_apart), "0 is perfect")
SEX_SHARE = Metric("sex-share", "error of the share of a sex", "lower", by_level, "0 is perfect")
CHAPTER = Chapter("Sizes", lambda both: {"size": len(both.pairs[0].synthetic)}, lambda found: [f"{found[0]['size']} rows"])
SIZE = Metric("size", "synthetic rows", "target", lambda both: (len(both.pairs[0].synthetic), len(both.authentic)), chapter=CHAPTER)
WRONG = "no metric"
"""


@pytest.fixture
def other_package(tmp_path, monkeypatch):
    """Install a package with metrics: a module and its metadata on the path, as pip leaves them."""

    def install(**metrics):
        site = tmp_path / "site"
        info = site / "sizes-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "sizes.py").write_text(MODULE)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sizes\nVersion: 1.0\n")
        points = "".join(f"{name.replace('_', '-')} = sizes:{of}\n" for name, of in metrics.items())
        (info / "entry_points.txt").write_text(f"[dipsmith.metrics]\n{points}")
        monkeypatch.syspath_prepend(str(site))
        registry.entry_points_of.cache_clear()
        registry.load.cache_clear()

    yield install
    monkeypatch.undo()
    registry.entry_points_of.cache_clear()
    registry.load.cache_clear()


FIELDS = [
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 69, "bins": {"width": 10}},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]


def people(n=400):
    rng = np.random.default_rng(0)
    return pa.table({"age": rng.integers(20, 70, n), "sex": rng.choice(["F", "M"], n)})


def comparison(tmp_path):
    schema = ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": "replace", "fields": FIELDS})
    release = ds.synthesize(people(), schema, ds.Flat(), budget=ds.PureDP(2), testing=True, noise_seed=1, seed=1)
    return ds.compare(people(), release, ledger=tmp_path / "budget.db", classifiers=[], sensitive=[], draws=2)


@pytest.mark.slow
def test_a_comparison_shows_it_in_the_summary_and_in_json(other_package, tmp_path):
    other_package(rows_apart="ROWS_APART", sex_share="SEX_SHARE", size="SIZE")
    found = comparison(tmp_path)
    assert "difference of the numbers of rows" in str(found)
    assert "error of the share of a sex, F" in str(found)
    plain = json.loads(found.to_json())["releases"][0]
    assert plain["metrics"]["rows-apart"] == [
        {"metric": "rows-apart", "value": 0.0, "reference": None, "term": "", "level": ""}
    ]
    assert [v["level"] for v in plain["metrics"]["sex-share"]] == ["F", "M"]
    assert plain["size"] == 400  # what its chapter found
    assert "marginals" in plain
    assert "results" not in plain
    *_, own, how = found.page.sections
    assert (own.heading, own.blocks) == ("Sizes", ("400 rows",))
    assert how.heading == "How this was compared"
    assert "0 is perfect; lower is better" in section(found.page.sections[1])
    assert "CONFIDENTIAL" in page(found.page)


def test_fields_of_findings_are_now_found_by_key(tmp_path):
    (found,) = comparison(tmp_path).findings
    with pytest.warns(DeprecationWarning, match=r"findings\.marginals is now findings\['marginals'\]"):
        assert found.marginals is found["marginals"]
    with pytest.raises(AttributeError):
        _ = found.nothing


def test_a_study_names_it(other_package, tmp_path):
    other_package(rows_apart="ROWS_APART")
    (tmp_path / "study.yaml").write_text(
        "name: sizes\nquestion: How many rows?\ndata: {example: regression, rows: 200}\n"
        "vary: {epsilon: [1, 2]}\nmethods: [{method: flat}]\nrepeats: 1\nmetrics: [rows-apart, tvd-1]\n"
    )
    experiment = Experiment.read(tmp_path / "study.yaml", tmp_path / "out")
    results = experiment.run(1)
    assert results.metrics == ["rows-apart", "tvd-1"]
    assert results.response("rows-apart").values.tolist() == [0, 0]
    assert "difference of the numbers of rows" in (tmp_path / "out" / "report.html").read_text()


def test_without_the_package_a_study_that_names_it_is_refused():
    with pytest.raises(InputError, match="metric 'rows-apart' is unknown"):
        metric("rows-apart")


def test_what_is_no_metric_is_refused_before_the_look(other_package, tmp_path):
    other_package(wrong="WRONG")
    with pytest.raises(RegistryError, match="'wrong' of package sizes is no dipsmith Metric"):
        comparison(tmp_path)
    assert ds.Ledger(tmp_path / "budget.db").looks("people") == 0


def test_dipsmiths_own_metrics_stand_behind_the_same_door():
    names = [m.name for m in all_metrics()]
    assert len(names) == len(set(names)) >= 24
    assert all(m.title and m.reference and m.chapter for m in all_metrics())
