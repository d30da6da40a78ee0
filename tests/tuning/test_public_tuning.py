"""Free tuning on a stand-in: ranked settings, nothing charged."""

import json

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import UsageError
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.graph.marginals import Marginals
from dipsmith.methods.hierarchy.flat import Flat
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.privacy.budget import PureDP
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.tuning.public_tuning import tune


def schema(relation):
    return Schema(
        "people",
        (
            Attribute("place", "string", Categories.of("vwxyz", other="v"), "public"),
            Attribute("grade", "string", Categories.of("abcd", other="a"), "public"),
            Attribute("sex", "string", Categories.of("FM", other="M"), "private"),
        ),
        Unit(),
        relation,
    )


def standing(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 4, n)
    sex = (rng.random(n) < 0.1 + 0.25 * grade).astype(int)
    return pa.table(
        {
            "place": np.array(list("vwxyz"))[rng.integers(0, 5, n)],
            "grade": np.array(list("abcd"))[grade],
            "sex": np.array(list("FM"))[sex],
        }
    )


def test_labellers_are_ranked_by_held_out_log_loss():
    found = tune(
        LogLinear(targets=["sex"]),
        {"predictors": [["place"], ["grade"], ["place", "grade"]]},
        tune_on=standing(),
        schema=schema("label"),
        budget=PureDP(1),
    )
    assert found.metric == "log loss"
    assert [t.mean for t in found.trials] == sorted(t.mean for t in found.trials)
    assert found.trials[-1].settings == {"predictors": ["place"]}
    assert "grade" in found.best.predictors
    assert found.trials[0].mean < found.floor - 0.05
    assert all(len(t.scores) == 3 for t in found.trials)
    assert json.loads(json.dumps(found.to_dict()))["metric"] == "log loss"
    assert "nothing was charged" in str(found)
    assert "<table>" in found._repr_html_()


def test_tables_are_ranked_by_distance():
    found = tune(
        Marginals(),
        {"cliques": [1, 2]},
        tune_on=standing(),
        schema=schema("replace"),
        budget=PureDP(5),
        repeats=2,
    )
    assert found.metric == "tvd"
    assert found.trials[0].settings == {"cliques": 2}
    assert found.best == Marginals(cliques=2)


def test_rows_against_noise_decide():
    """What is best depends on the private table's size, which the stand-in is brought to."""
    few, many = (
        tune(
            Forest(targets=["sex"], shrink=False),
            {"n_b": [1, 10**9]},
            tune_on=standing(5_000),
            schema=schema("label"),
            budget=PureDP("0.05"),
            rows=n,
        )
        for n in (200, 100_000)
    )
    assert few.best.n_b == 10**9  # leaves would be nothing but noise
    assert many.best.n_b == 1
    assert (few.rows, many.rows) == (200, 100_000)


def test_same_seed_same_ranking_same_noise_for_all():
    once, again, other = (
        tune(
            Flat(),
            {"post": ["project", "clip"]},
            tune_on=standing(500),
            schema=schema("replace"),
            budget=PureDP(1),
            seed=s,
        )
        for s in (1, 1, 2)
    )
    assert once.to_dict() == again.to_dict()
    assert once.to_dict() != other.to_dict()


@pytest.mark.parametrize("relation", ["replace", "add-remove", "label"])
def test_a_release_can_stand_in(relation):
    method = Forest(targets=["sex"]) if relation == "label" else Flat()
    release = ds.synthesize(standing(800), schema(relation), method, budget=PureDP(3), testing=True)
    grid = {"n_b": [50, 5000]} if relation == "label" else {"post": ["project", "clip"]}
    found = tune(method, grid, tune_on=release, schema=schema(relation), budget=PureDP(1), repeats=1)
    assert len(found.trials) == 2


def test_codes_and_files_can_stand_in(tmp_path):
    import pyarrow.csv

    pyarrow.csv.write_csv(standing(600), tmp_path / "old.csv")
    s = schema("replace")
    rng = np.random.default_rng(0)
    codes = Codes.of(s, {a.name: rng.integers(0, a.size, 600) for a in s})
    for given in (tmp_path / "old.csv", str(tmp_path / "old.csv"), codes):
        assert tune(Flat(), [{}], tune_on=given, schema=s, budget=PureDP(1), repeats=1).rows == 600


def test_collapsed_labels_of_a_release_are_recognised():
    s = Schema.from_dict(
        {
            "name": "jobs",
            "unit": "row",
            "neighbours": "replace",
            "fields": [
                {
                    "name": "job",
                    "type": "string",
                    "enum": ["0101", "0102", "0201"],
                    "collapse": {"prefix": 2},
                    "other": "0101",
                },
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
            ],
        }
    )
    data = pa.table({"job": ["0101", "0201"] * 200, "sex": ["F", "M"] * 200})
    release = ds.synthesize(data, s, Flat(), budget=PureDP(50), testing=True, seed=1)
    found = tune(Flat(), [{}], tune_on=release, schema=s, budget=PureDP(100), repeats=1)
    assert found.trials[0].mean < 0.1  # read with raw labels, every job would be the other one


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"grid": {}}, None),
        ({"grid": []}, "no settings"),
        ({"grid": {"post": "clip"}}, "as a list"),
        ({"grid": {"pots": ["clip"]}}, "pots"),
        ({"metric": "accuracy"}, "expected 'log loss'"),
        ({"metric": "log loss"}, "does not label"),
        ({"repeats": 0}, "repeats"),
        ({"rows": 0}, "rows"),
        ({"tune_on": standing(0)}, "no rows"),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong, match):
    asked = {
        "method": Flat(),
        "grid": {"post": ["clip"]},
        "tune_on": standing(50),
        "schema": schema("replace"),
        "budget": PureDP(1),
    }
    asked |= wrong
    if match is None:  # an empty grid has one setting: the method as it is
        assert len(tune(**asked).trials) == 1
        return
    with pytest.raises(UsageError, match=match):
        tune(**asked)
