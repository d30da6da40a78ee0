"""Every fault a few times; `make faults` plays them in a loop and counts."""

import os
import shutil
import tempfile
from pathlib import Path

import fault_scenes as scenes
import pytest

import dipsmith as ds
from dipsmith.counting.encoded import EncodedRows

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

TIMES = {
    "kill -9": 6,
    "corrupted ledger": 40,
    "truncated release": 15,
    "two processes on one ledger": 4,
    "interrupted experiment": 4,
}


@pytest.fixture
def place():
    """A folder that another user can enter (pytest's own are closed), in memory where there is some."""
    memory = Path("/dev/shm")
    inside = str(memory) if memory.is_dir() and os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=inside))
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", scenes.SCENES)
def test_after_a_fault_everything_is_in_order(name, place):
    times = TIMES.get(name, 6)
    played, seen = scenes.SCENES[name](place, times, seed=1)
    assert played == times
    assert seen


def test_a_run_has_noted_that_it_reads_before_it_reads(tmp_path, monkeypatch):
    book = scenes.granted(tmp_path)
    states = []
    passing = EncodedRows.blocks

    def watched(self, *given):
        states.extend(run.state for run in ds.Ledger(book).show("people").runs)
        return passing(self, *given)

    monkeypatch.setattr(EncodedRows, "blocks", watched)
    scenes.release(book, tmp_path / "out", "r")
    assert states
    assert set(states) == {"read"}
