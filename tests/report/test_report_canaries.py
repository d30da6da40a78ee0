"""Strings planted in private values turn up in nothing that is released, printed, logged or raised.

A canary stands wherever a private value can stand: in a category, in a number, in the identifier of the unit of
protection, in a column that the schema does not name, and in a row that is damaged.
"""

import logging
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import dipsmith as ds
from dipsmith.cli.main import app
from dipsmith.methods.catalogue import METHODS

WORD = "Zuleika-Canary-7731"
NUMBER = 98765432123
CANARIES = (WORD, str(NUMBER))
FIELDS = [
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 69, "bins": {"width": 10}},
    {"name": "job", "type": "string", "enum": ["01", "02", "03"], "other": "01"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]


def schema(neighbours):
    public = {"age", "job"} if neighbours == "label" else set()
    fields = [{**f, "role": "public" if f["name"] in public else "private"} for f in FIELDS]
    unit = {"column": "person", "max_rows": 1}
    return ds.Schema.from_dict({"name": "staff", "unit": unit, "neighbours": neighbours, "fields": fields})


def planted(neighbours, n=600):
    """Rows with canaries in everything that is private."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(20, 70, n).tolist(),
        "job": np.array(["01", "02", "03"])[rng.integers(0, 3, n)].tolist(),
        "sex": np.where(rng.random(n) < 0.5, "F", "M").tolist(),
        "person": [f"p{i}" for i in range(n)],
        "diary": ["nothing"] * n,
    }
    columns["sex"][3] = columns["person"][4] = columns["diary"][5] = WORD
    if neighbours != "label":
        columns["job"][6], columns["age"][7] = WORD, NUMBER
    return pa.table(columns)


def texts(folder):
    """Everything that a folder says, compressed or not."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        held = path.read_bytes()
        yield path.name, held.decode("utf-8", "replace")
        if path.suffix == ".parquet":
            yield path.name, str(pa.parquet.read_table(path).to_pylist())
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield f"{path.name}/{name}", archive.read(name).decode("latin-1")


def clean(said):
    return not any(canary in said for canary in CANARIES)


@pytest.mark.parametrize(
    ("name", "relation"),
    [(name, relation) for name, method in METHODS.items() for relation in method.relations],
)
def test_no_method_releases_a_canary(tmp_path, caplog, capsys, name, relation):
    caplog.set_level(logging.DEBUG)
    method = METHODS[name](targets=["sex"]) if relation == "label" else METHODS[name]()
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("staff", ds.PureDP(2))
    release = ds.synthesize(planted(relation), schema(relation), method, budget=ds.PureDP(2), ledger=ledger)
    release.save(tmp_path / "out", format="parquet")
    found = list(texts(tmp_path / "out"))
    assert {"report.html", "card.html", "synthetic-1.parquet"} <= {n for n, _ in found}
    for file, said in found:
        assert clean(said), file
    printed = capsys.readouterr()
    assert clean(printed.out + printed.err + caplog.text + str(release) + release.card._repr_html_())
    assert clean(str(ledger.show("staff")) + ledger.show()._repr_html_())
    assert clean((tmp_path / "budget.db").read_bytes().decode("latin-1"))


def test_the_detector_would_see_one(tmp_path):
    (tmp_path / "x.csv").write_text(f"a\n{WORD}\n")
    np.savez_compressed(tmp_path / "y.npz", a=np.array([WORD.encode()]))
    pa.parquet.write_table(pa.table({"a": [NUMBER]}), tmp_path / "z.parquet")
    seen = {file.split("/")[0] for file, said in texts(tmp_path) if not clean(said)}
    assert seen == {"x.csv", "y.npz", "z.parquet"}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with the authentic file, its schema and a ledger."""
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(planted("replace"), "staff.csv")
    schema("replace").write("staff.yaml")
    ds.Ledger("budget.db").grant("staff", ds.PureDP(5))
    return tmp_path


def dipsmith(*words):
    ran = CliRunner().invoke(app, [str(w) for w in words])
    return ran.exit_code, ran.output + str(ran.exception or "")


def test_no_command_prints_a_canary(desk, caplog):
    caplog.set_level(logging.DEBUG)
    made = ["--schema", "staff.yaml", "--method", "marginals", "--epsilon", 1, "--ledger", "budget.db"]
    code, said = dipsmith("synthesize", "staff.csv", *made, "--out", "release", "--format", "csv")
    assert code == 0, said
    assert clean(said)
    assert (desk / "release" / "synthetic-1.csv").is_file()
    assert all(clean(text) for _, text in texts(desk / "release"))
    for words in (
        ("verify", "release", "--ledger", "budget.db"),
        ("report", "release", "--out", "again.html"),
        ("ledger", "show", "staff", "--ledger", "budget.db"),
    ):
        code, said = dipsmith(*words)
        assert code == 0, said
        assert clean(said), words
    assert clean((desk / "again.html").read_text())
    assert clean(caplog.text)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text.replace("\n", f'\n"{WORD}\n', 1), id="an open quote"),
        pytest.param(lambda text: text + f"{WORD},{NUMBER}\n", id="too few fields"),
        pytest.param(lambda text: text + f"1,2,3,4,5,{WORD},{NUMBER}\n", id="too many fields"),
        pytest.param(lambda text: text.replace("sex", "gender", 1), id="a missing column"),
    ],
)
def test_no_error_about_a_damaged_file_tells_a_value(desk, caplog, damage):
    caplog.set_level(logging.DEBUG)
    (desk / "staff.csv").write_text(damage((desk / "staff.csv").read_text()))
    words = ["--schema", "staff.yaml", "--method", "marginals", "--epsilon", 1, "--ledger", "budget.db"]
    code, said = dipsmith("synthesize", "staff.csv", *words, "--out", "release")
    assert code != 0
    assert clean(said)
    assert clean(caplog.text)
