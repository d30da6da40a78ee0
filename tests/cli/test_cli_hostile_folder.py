"""Files beside the data that are called as libraries are: no command, and no process that one starts, runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dipsmith.processes import PACKAGE, safe_children, safe_environment

MODULES = (
    "pyarrow",
    "numpy",
    "yaml",
    "json",
    "pickle",
    "sitecustomize",
    "usercustomize",
    "multiprocessing",
    "dipsmith",
)
SCHEMA = """
name: people
unit: row
neighbours: add-remove
fields:
- {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
- {name: sex, type: string, enum: [F, M], other: M}
"""
STUDY = """
name: small
question: Does more ε help?
data: {example: regression, rows: 200}
vary: {epsilon: [0.5, 2]}
methods: [{method: flat}]
repeats: 1
metrics: [tvd-1]
"""


def plant(folder: Path) -> Path:
    """Put modules of common names into a folder; the marker appears when one of them runs."""
    marker = folder / "RAN"
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r})\n")
    (folder / "matplotlibrc").write_text("text.usetex: True\nbackend: module://evil\n")
    return marker


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "people.csv").write_text("age,sex\n" + "".join(f"{20 + i % 60},{'FM'[i % 2]}\n" for i in range(200)))
    (tmp_path / "people.yaml").write_text(SCHEMA)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def typed(folder, tmp_path_factory):
    """Type a command in the folder, by a script as installers write it."""
    script = tmp_path_factory.mktemp("bin") / "dipsmith"
    script.write_text(
        "import sys\nfrom dipsmith.cli.main import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    environment |= {"PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(script), *words]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_plant_works(folder):
    """The attack is real: Python, started in the folder as a worker used to be, runs the file beside the data."""
    marker = plant(folder)
    subprocess.run([sys.executable, "-c", "import yaml"], cwd=folder, capture_output=True, check=False)
    assert "yaml" in marker.read_text()


@pytest.mark.slow
def test_commands_import_nothing_from_the_current_folder(folder, typed):
    marker = plant(folder)
    spend = ["--method", "flat", "--epsilon", "1", "--rows", "200", "--ledger", "b.db", "--out", "release"]
    for words in (
        ["schema", "check", "people.yaml"],
        ["ledger", "grant", "people", "--ledger", "b.db", "--epsilon", "2"],
        ["synthesize", "people.csv", "--schema", "people.yaml", *spend],
        ["verify", "release", "--ledger", "b.db"],
        [
            "compare",
            "people.csv",
            "release",
            "--ledger",
            "b.db",
            "--out",
            "comparison",
            "--classifier",
            "logistic",
        ],
        ["experiment", "run", "study.yaml", "--jobs", "2"],
    ):
        ran = typed(*words)
        assert ran.returncode == 0, (words, ran.stderr)
        assert not marker.exists(), (words, marker.read_text())


def test_children_of_multiprocessing_import_nothing_from_the_current_folder(folder):
    """A spawned process is started with -c, which puts the current folder first unless the path is safe."""
    marker = plant(folder)
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if p]\n"
        "import os\nfrom multiprocessing import get_context\n"
        "from dipsmith.processes import safe_children\n"
        f"os.chdir({str(folder)!r})\n"
        "with safe_children({}):\n"
        "    child = get_context('spawn').Process(target=print)\n"
        "    child.start()\n"
        "child.join()\nassert child.exitcode == 0\n"
        "assert 'PYTHONSAFEPATH' not in os.environ\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGE}"}
    subprocess.run([sys.executable, "-c", code], cwd="/", env=environment, check=True)
    assert not marker.exists()


@pytest.mark.parametrize("entry", ["", ".", "work", "./work/lib", "{folder}", "{folder}/lib", "{link}"])
def test_entries_of_the_path_that_lead_into_the_data_folder_are_left_out(tmp_path, monkeypatch, entry):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "link").symlink_to(work)
    monkeypatch.chdir(work if entry in ("", ".") else tmp_path)
    named = entry.format(folder=work, link=tmp_path / "link")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), named, "/usr/lib/elsewhere"]))
    held = safe_environment(work)
    assert held["PYTHONPATH"].split(os.pathsep) == [str(PACKAGE), "/usr/lib/elsewhere"]
    assert held["PYTHONSAFEPATH"] == "1"
    before = dict(os.environ)
    with safe_children({"OMP_NUM_THREADS": "7"}):
        assert os.environ["OMP_NUM_THREADS"] == "7"
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert dict(os.environ) == before


@pytest.mark.parametrize("path", ["", os.pathsep, f"{os.pathsep}/usr/lib/elsewhere", "lib", "."])
def test_empty_and_relative_entries_mean_no_folder_wherever_a_process_is_started(tmp_path, monkeypatch, path):
    """An empty entry is the current folder for Python; written out it would follow the worker."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", path)
    held = safe_environment(tmp_path / "work")["PYTHONPATH"].split(os.pathsep)
    assert [entry for entry in held if entry and entry != "/usr/lib/elsewhere"] == []
    assert held == [""] or "" not in held
