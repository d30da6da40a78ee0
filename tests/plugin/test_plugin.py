"""A method in a package of its own: checked, run by the command line and the studio, read back with and without it."""

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import dipsmith as ds
from dipsmith.errors import DamageError, RegistryError, UnsupportedError
from dipsmith.methods.graph.mst import MST
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.testing import check_method

MODULE = Path(__file__).parent / "package" / "src" / "dipsmith_columns.py"
PEOPLE = """\
name: people
unit: row
neighbours: {neighbours}
fields:
- {{name: age, type: integer, minimum: 17, maximum: 90, bins: {{width: 10}}}}
- {{name: sex, type: string, enum: [F, M], other: M}}
- {{name: grade, type: integer, minimum: 1, maximum: 5}}
"""


def run(python, *words, cwd, expect=0):
    done = subprocess.run(
        [python, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def dipsmith(python, *words, cwd, expect=0):
    return run(python, "-m", "dipsmith.cli.main", *words, cwd=cwd, expect=expect)


@pytest.fixture(scope="session")
def released(plugged, tmp_path_factory):
    """A release by the plug-in under each relation that it declares, made by the command line."""
    folder = tmp_path_factory.mktemp("released")
    rows = ["age,sex,grade", *(f"{17 + i * 37 % 74},{'FM'[i * i % 3 > 0]},{1 + i % 5}" for i in range(400))]
    (folder / "people.csv").write_text("\n".join(rows) + "\n")
    for neighbours in ("add-remove", "replace"):
        (folder / f"{neighbours}.yaml").write_text(PEOPLE.format(neighbours=neighbours))
        dipsmith(plugged, "ledger", "grant", "people", "--ledger", f"{neighbours}.db", "--epsilon", 3, cwd=folder)
        dipsmith(
            plugged,
            *("synthesize", "people.csv", "--schema", f"{neighbours}.yaml", "--method", "columns"),
            *("--epsilon", 2, "--ledger", f"{neighbours}.db", "--out", neighbours, "--set", "sharpen=1"),
            cwd=folder,
        )
    return folder


def test_authors_import_from_two_modules_only():
    tree = ast.parse(MODULE.read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in found if name.split(".")[0] == "dipsmith"} <= {"dipsmith", "dipsmith.extend"}


def test_it_passes_the_published_checks(plugged, tmp_path):
    code = "from dipsmith.testing import check_method; from dipsmith_columns import Columns; check_method(Columns())"
    run(plugged, "-c", code, cwd=tmp_path)


def test_it_is_planned_suggested_to_nobody_and_listed(plugged, released):
    words = (
        "plan",
        "--schema",
        "replace.yaml",
        "--method",
        "columns",
        "--epsilon",
        1,
        "--rows",
        400,
        "--json",
    )
    told = json.loads(dipsmith(plugged, *words, cwd=released).stdout)
    assert [step["what"] for step in told["steps"]] == ["age", "sex", "grade"]
    single = [e for e in told["errors"] if len(e["marginal"]) == 1]
    assert all(e["how"] == "at most" and e["tvd"] > 0 for e in single)
    refused = dipsmith(
        plugged,
        *("plan", "--schema", "replace.yaml", "--method", "nothing", "--epsilon", 1),
        cwd=released,
        expect=2,
    )
    assert "columns" in refused.stderr


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_release_is_verified_reported_and_analysed(plugged, released, neighbours):
    dipsmith(plugged, "verify", neighbours, "--ledger", f"{neighbours}.db", cwd=released)
    described = json.loads((released / neighbours / "model-1.json").read_text())
    assert (described["kind"], described["package"]) == ("columns", "dipsmith-columns")
    code = (
        "import dipsmith as ds\n"
        f"release = ds.Release.load('{neighbours}')\n"
        "assert len(release.model.sample(50)) == 50\n"
        "print(ds.fit(release, 'grade ~ sex', allow_unsupported=True))\n"
    )
    assert "sex" in run(plugged, "-c", code, cwd=released).stdout


def test_a_comparison_shows_its_metric(plugged, released):
    words = ("compare", "people.csv", "replace", "--ledger", "replace.db", "--out", "comparison", "--json")
    dipsmith(plugged, *words, cwd=released)
    compared = json.loads((released / "comparison" / "comparison.json").read_text())
    assert "first-share" in json.dumps(compared)
    assert "Share of the first label" in (released / "comparison" / "comparison.html").read_text()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_without_the_package_the_tables_can_be_used_and_its_name_is_said(released, neighbours):
    verified = ds.verify(released / neighbours)
    assert "pip install dipsmith-columns" in str(verified)
    shown = dipsmith(sys.executable, "verify", neighbours, cwd=released)
    assert "dipsmith-columns" in shown.stdout
    release = ds.Release.load(released / neighbours)
    assert set(release.tables[0].column_names) == {"age", "sex", "grade"}
    for ask in (
        lambda: release.model.sample(5),
        lambda: release.model.rows,
        lambda: release.model.label(release.tables[0]),
        lambda: release.model.count({"sex": "F"}),
        lambda: release.save(released / f"{neighbours}-again"),
    ):
        with pytest.raises(RegistryError, match="pip install dipsmith-columns"):
            ask()
    assert not (released / f"{neighbours}-again").exists()
    # Its noisy tables can be read without the package, and so can what they tell by themselves.
    assert "Intercept" in str(ds.fit(release, "grade ~ 1"))


@pytest.mark.parametrize("wrong", ["x --index-url http://elsewhere", "a;b", "\x1b[2J", "", ["a"], None])
@pytest.mark.parametrize("key", ["package", "kind"])
def test_a_release_cannot_tell_anyone_to_install_what_is_no_name(released, tmp_path, key, wrong):
    for ending in ("json", "npz"):
        shutil.copy(released / "replace" / f"model-1.{ending}", tmp_path)
    described = json.loads((tmp_path / "model-1.json").read_text())
    (tmp_path / "model-1.json").write_text(json.dumps({**described, key: wrong}))
    with pytest.raises(DamageError, match="get the release again") as refused:
        FittedModel.load(tmp_path / "model-1")
    assert "install" not in str(refused.value)


# --- what cannot be loaded again is refused before anything is reserved -----------------------------------


class Unregistered:
    """A model of no kind that any package registers."""

    kind: ClassVar[str] = "unregistered"


@dataclass(frozen=True)
class Stranger(MST):
    name: ClassVar[str] = "stranger"
    models: ClassVar[tuple[type, ...]] = (Unregistered,)


def test_a_method_whose_models_nobody_can_load_costs_nothing(released, tmp_path):
    ledger = ds.Ledger(tmp_path / "budget.db")
    ledger.grant("people", ds.PureDP(1))
    schema = ds.Schema.read(released / "replace.yaml")
    with pytest.raises(UnsupportedError, match=r"could not be loaded again.*dipsmith\.methods"):
        ds.synthesize(released / "people.csv", schema, Stranger(), budget=ds.PureDP(1), ledger=ledger)
    assert ledger.show("people").remaining_units == ds.PureDP(1).units
    with pytest.raises(UnsupportedError, match="could not be loaded again"):
        check_method(Stranger())


@dataclass(frozen=True)
class Renamed(MST):
    """A method that nobody registers, whose models are of a kind that is known: it can be loaded again."""

    name: ClassVar[str] = "renamed"


def test_a_method_of_a_script_with_a_known_kind_of_model_is_loaded_again(released, tmp_path):
    schema = ds.Schema.read(released / "replace.yaml")
    release = ds.synthesize(released / "people.csv", schema, Renamed(), budget=ds.PureDP(1), testing=True, noise_seed=1)
    release.save(tmp_path / "release")
    ds.verify(tmp_path / "release")
    assert len(ds.Release.load(tmp_path / "release").model.sample(7)) == 7
