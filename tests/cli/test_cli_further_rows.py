"""`dipsmith sample` and `dipsmith label`: further rows from a saved model, free."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import dipsmith as ds

FIELDS = [
    {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 25}, "role": "public"},
    {"name": "code", "type": "string", "enum": ["06", "07"], "other": "07", "role": "public"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]


@pytest.fixture
def releases(tmp_path, made):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(1)
    table = pa.table({
        "pay": rng.uniform(0, 100, 500).round(2), "code": rng.choice(["06", "07"], 500), "sex": rng.choice(["F", "M"], 500),
    })  # fmt: skip
    for neighbours, method in (("add-remove", ds.MST()), ("label", ds.Forest(targets=["sex"]))):
        schema = ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": neighbours, "fields": FIELDS})
        release = ds.synthesize(table, schema, method, budget=ds.PureDP(5), testing=True, noise_seed=1)
        release.save(folder / neighbours)
    return folder


@pytest.mark.slow
def test_a_saved_model_draws_as_many_rows_as_wanted(dipsmith, releases):
    for out, read in (("a.csv", pa_csv.read_csv), ("b.parquet", pq.read_table)):
        ran = dipsmith("sample", "add-remove", "--rows", 1234, "--seed", 1, "--out", out)
        assert ran.code == 0, ran.err
        assert read(releases / out).num_rows == 1234
        assert "1,234 rows, seed 1, from model-1 of mst in add-remove ('staff'; ε = 5" in ran.out
        assert "nothing was charged" in ran.out
    again = ds.Release.load(releases / "add-remove").sample(1234, 1)
    assert again.equals(pq.read_table(releases / "b.parquet"))
    told = json.loads(dipsmith("sample", "add-remove", "--out", "c.csv", "--json").out)
    assert told["rows"] == ds.Release.load(releases / "add-remove").card.rows
    assert dipsmith("sample", "add-remove", "--rows", 10, "--out", "c.csv").code == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("label", "--out", "x.csv"), 2, "dipsmith label RELEASE FILE"),
        (("add-remove", "--out", "x.xlsx"), 2, ".parquet, .csv, .dta, .sav"),
        (("add-remove", "--rows", "-1", "--out", "x.csv"), 2, "rows is -1"),
        (("add-remove", "--model", "2", "--out", "x.csv"), 2, "has 1"),
        (("add-remove", "--out", "add-remove/x.csv"), 3, "inside the release"),
    ],
)
def test_what_cannot_be_drawn_is_refused(dipsmith, releases, words, code, said):
    ran = dipsmith("sample", *words)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert not (releases / "x.csv").exists()


def test_a_further_file_is_labelled_in_its_order_with_its_types(dipsmith, releases):
    """The second file has pay by another name, on another scale: both are the same table to the model."""
    rng = np.random.default_rng(3)
    pay, code = rng.uniform(0, 100, 300).round(2), rng.choice(["06", "07"], 300)
    pa_csv.write_csv(pa.table({"code": code, "pay": pay, "name": ["x"] * 300}), releases / "bd.csv")
    pq.write_table(pa.table({"code": code, "basic": pay / 2}), releases / "other.parquet")
    ran = dipsmith("label", "label", "bd.csv", "--seed", 1, "--out", "bd.parquet")
    assert ran.code == 0, ran.err
    assert "300 rows labelled with sex, seed 1, by model-1 of forest in label" in ran.out
    made = pq.read_table(releases / "bd.parquet")
    assert made.schema == pa.schema({"pay": pa.float64(), "code": pa.string(), "sex": pa.string()})
    assert (made["pay"].to_pylist(), made["code"].to_pylist()) == (pay.tolist(), code.tolist())
    words = ("label", "label", "other.parquet", "--map", "pay=basic*2", "--seed", 1, "--out", "two.parquet", "--json")
    assert json.loads(dipsmith(*words).out)["labels"] == ["sex"]
    assert pq.read_table(releases / "two.parquet")["sex"].equals(made["sex"])
    assert "of its own" not in ran.err
    pq.write_table(made, releases / "whole.parquet")
    assert (
        "the file has a column 'sex' of its own"
        in dipsmith("label", "label", "whole.parquet", "--out", "again.csv").err
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add-remove", "few.csv"), 2, "draws whole rows"),
        (("label", "few.csv"), 3, "'code'"),
        (("label", "few.csv", "--map", "code"), 2, "expected NAME="),
        (("label", "few.csv", "--map", "wage=pay"), 2, "'wage' is no column of the schema"),
        (("label", "few.csv", "--map", "code=office"), 3, "'office'"),
    ],
)
def test_what_cannot_be_labelled_is_refused(dipsmith, releases, words, code, said):
    (releases / "few.csv").write_text("pay\n3\n")
    ran = dipsmith("label", *words, "--out", "x.csv")
    assert (ran.code, said in ran.err) == (code, True), ran.err
