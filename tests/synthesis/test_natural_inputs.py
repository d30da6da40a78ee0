"""What people write first: taken where it has one meaning, otherwise answered with a sentence."""

import numpy as np
import pandas as pd
import pytest

import dipsmith as ds
from dipsmith.errors import DipsmithError, UnsupportedError, UsageError
from dipsmith.examples import voters

SCHEMA = ds.Schema.from_dict(
    {
        "name": "t", "unit": "row", "neighbours": "replace",
        "fields": [
            {"name": "age", "type": "integer", "minimum": 20, "maximum": 29},
            {"name": "grade", "type": "string", "enum": ["low", "middle", "high"], "ordered": True, "other": "low"},
        ],
    }
)  # fmt: skip
ROWS = pd.DataFrame({"age": np.arange(200) % 10 + 20, "grade": ["low", "high"] * 100})


def made(schema=SCHEMA, method="mst", budget=None):
    return ds.synthesize(ROWS, schema, method, budget=budget or ds.PureDP(5), testing=True, noise_seed=1)


@pytest.mark.parametrize("method", ["mst", "MST", ds.MST, ds.MST()])
def test_methods_by_name_and_class(method):
    assert made(method=method).card.method == "mst"


def test_schemas_by_path_and_as_plain_data(tmp_path):
    SCHEMA.write(tmp_path / "t.yaml")
    for given in (tmp_path / "t.yaml", str(tmp_path / "t.yaml"), SCHEMA.to_dict()):
        assert made(schema=given).schema.names == SCHEMA.names


def test_ordered_levels_survive_into_pandas():
    frame = made().to_pandas()
    assert frame["grade"].dtype == pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    assert frame["age"].dtype.kind == "i"


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"budget": 1}, UsageError, r"ds.PureDP\(1\) is pure ε"),
        ({"budget": "0.5"}, UsageError, "does not say in which currency"),
        ({"budget": object()}, UsageError, "got a object"),
        ({"method": "mts"}, UsageError, "method 'mts' is unknown"),
        ({"method": 3}, UsageError, "got a int"),
        ({"method": int}, UsageError, "got the class int"),
        ({"schema": 3}, UsageError, "got a int"),
        ({"method": "loglinear"}, DipsmithError, "replace"),
    ],
)
def test_natural_mistakes_get_a_sentence(how, error, said):
    with pytest.raises(error, match=said):
        made(**how)


def test_a_plan_in_one_line():
    plan = ds.plan(voters.schema(), "mst", ds.PureDP(1), rows=5000)
    assert plan.rows == 5000
    with pytest.raises(UnsupportedError):
        ds.plan(SCHEMA, "loglinear", ds.PureDP(1))


def test_numbers_of_a_csv_are_numbers(tmp_path):
    x = np.arange(60)
    pd.DataFrame({"y": 2.0 * x + x % 3, "x": x, "zip": [f"0{i % 3}" for i in x]}).to_csv(
        tmp_path / "r.csv", index=False
    )
    fit = ds.fit(tmp_path / "r.csv", "y ~ x + zip")
    assert set(fit.names) == {"Intercept", "x", "zip[T.01]", "zip[T.02]"}
    assert fit["x"].estimate == fit["x"].value == pytest.approx(2.0, abs=0.1)


def test_public_columns_of_a_csv_have_their_declared_type(tmp_path):
    fields = [
        {"name": "age", "type": "integer", "minimum": 0, "maximum": 99, "missing": True, "role": "public"},
        {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
    ]
    schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "label", "fields": fields})
    lines = "\n".join(f"{'' if i % 7 == 0 else f'{18 + i % 40}.0'},{'FM'[i % 2]}" for i in range(200))
    (tmp_path / "t.csv").write_text(f"age,sex\n{lines}\n")
    release = ds.synthesize(tmp_path / "t.csv", schema, "forest", budget=ds.PureDP(1), testing=True, noise_seed=1)
    assert str(release.tables[0]["age"].type) == "int64"
    assert release.tables[0]["age"].null_count == 29


@pytest.mark.slow
def test_a_report_stays_small_whatever_the_schema(tmp_path):
    fields = [
        {"name": "gain", "type": "integer", "minimum": 0, "maximum": 49_999},
        {"name": "code", "type": "string", "enum": [f"c{i}" for i in range(3000)], "other": "c0"},
    ]
    schema = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    rows = pd.DataFrame({"gain": np.arange(400) * 100, "code": [f"c{i % 50}" for i in range(400)]})
    release = ds.synthesize(rows, schema, ds.Marginals(), budget=ds.PureDP(9), testing=True, noise_seed=1)
    folder = release.save(tmp_path / "release")
    assert (folder / "report.html").stat().st_size < 3e6


def test_a_name_with_a_hyphen_is_explained():
    frame = pd.DataFrame({"education-num": [1.0, 2, 3, 4], "y": [1.0, 2, 3, 5]})
    with pytest.raises(UsageError, match="in backticks: `education-num`"):
        ds.fit(frame, "y ~ education-num")
    assert "education-num" in ds.fit(frame, "y ~ `education-num`").names
