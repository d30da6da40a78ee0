"""The planted bugs: each still has its place, and some are caught here; all of them by `make mutants`."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "mutants"


@pytest.fixture(scope="module")
def running():
    spec = importlib.util.spec_from_file_location("mutants_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


def test_every_mutant_still_has_its_place(running):
    assert len(running.MUTANTS) >= 14
    for mutant in running.MUTANTS:
        for file, text in running.planted(mutant, running.PACKAGE).items():
            compile(text, file, "exec")


def test_every_mutants_test_exists(running):
    for mutant in running.MUTANTS:
        file, _, name = mutant.test.partition("::")
        text = (running.ROOT / file).read_text("utf-8")
        assert not name or f"def {name.partition('[')[0]}(" in text, mutant.test


def test_a_mutant_whose_place_is_gone_is_refused(running, tmp_path):
    mutant = running.MUTANTS[0]
    (tmp_path / mutant.file).parent.mkdir(parents=True)
    (tmp_path / mutant.file).write_text("nothing of the kind\n")
    with pytest.raises(SystemExit, match="0 times"):
        running.planted(mutant, tmp_path)


def test_a_planted_bug_is_caught(running):
    mutant = next(m for m in running.MUTANTS if m.name == "replayed request id")
    assert running.caught(mutant)[0]


def test_without_a_bug_the_same_test_passes(running):
    mutant = next(m for m in running.MUTANTS if m.name == "replayed request id")
    harmless = running.Mutant("none", mutant.file, ((mutant.edits[0][0],) * 2,), mutant.test)
    assert not running.caught(harmless)[0]
