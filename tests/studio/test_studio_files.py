"""The studio's own files in a folder that others can write to: no link is followed, no folder of theirs is used."""

import fcntl
import os

import pytest

from dipsmith.errors import InputError
from dipsmith.studio import jobs
from dipsmith.studio.workspace import HIDDEN, Workspace, open_lock, write_json, write_whole


def test_a_hidden_folder_that_is_not_ours_alone_is_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    work = tmp_path / "work"
    work.mkdir()
    (work / HIDDEN).symlink_to(theirs)
    with pytest.raises(InputError, match="not a folder of yours alone"):
        Workspace.of(work)
    (work / HIDDEN).unlink()
    workspace = Workspace.of(work)
    (work / HIDDEN).mkdir()
    (work / HIDDEN).chmod(0o777)
    with pytest.raises(InputError, match="not a folder of yours alone"):
        workspace.create("people", "people.csv", ("age",), {})
    assert list((work / HIDDEN).iterdir()) == []
    (work / HIDDEN).chmod(0o700)
    assert workspace.create("people", "people.csv", ("age",), {}).id == "people"


@pytest.mark.parametrize("name", ["lock", "alive", "door"])
def test_locks_are_not_opened_through_links_and_lose_nothing(tmp_path, name):
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    (tmp_path / name).symlink_to(theirs)
    with pytest.raises(OSError), open_lock(tmp_path / name):
        pass
    with pytest.raises(OSError):
        jobs.lock_is_free(tmp_path / name)
    assert theirs.read_text() == "precious"
    with open_lock(tmp_path / f"{name}-2") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert not jobs.lock_is_free(tmp_path / f"{name}-2")
        assert os.fstat(handle).st_mode & 0o077 == 0


def test_small_files_replace_a_link_and_leave_what_it_points_to(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    for write, content in ((write_whole, b"ours"), (write_json, {"a": 1})):
        file = tmp_path / "state.json"
        file.unlink(missing_ok=True)
        file.symlink_to(theirs)
        write(file, content)
        assert not file.is_symlink()
        assert file.stat().st_mode & 0o077 == 0
    assert theirs.read_text() == "precious"
