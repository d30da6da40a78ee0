"""Where commands write: never into a release, whole or not at all, and never into the void."""

import json
import os
from pathlib import Path

import pytest

RUN = ("synthesize", "people.csv", "--schema", "people.yaml", "--method", "flat", "--epsilon", "1")
RUN = (*RUN, "--ledger", "b.db", "--out")


@pytest.fixture
def office(dipsmith, office):
    assert dipsmith(*RUN, "release", "--request", "first").code == 0
    return office


def shown(dipsmith):
    return json.loads(dipsmith("ledger", "show", "people", "--ledger", "b.db", "--json").out)


@pytest.mark.parametrize(
    "arguments",
    [
        (*RUN, "release/more"),
        ("compare", "people.csv", "release", "--ledger", "b.db", "--out", "release/comparison"),
        ("report", "release", "--out", "release/again.html"),
        ("report", "release", "--out", "link/again.html"),
        ("ledger", "backup", "release/copy.db", "--ledger", "b.db"),
        ("schema", "init", "people.csv", "--out", "release/draft.yaml"),
    ],
    ids=lambda a: " ".join(a[:2]),
)
def test_nothing_is_written_into_a_release(dipsmith, office, arguments):
    """Above all no comparison: the folder is published, and the comparison shows exact figures."""
    (office / "link").symlink_to("release")
    before = shown(dipsmith)
    ran = dipsmith(*arguments)
    assert (ran.code, ran.out) == (3, "")
    assert "inside the release 'release'" in ran.err
    assert shown(dipsmith) == before
    assert dipsmith("verify", "release", "--ledger", "b.db").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "release", "--out", "made"),
        ("schema", "init", "people.csv", "--out", "made"),
        ("ledger", "backup", "made", "--ledger", "b.db"),
    ],
    ids=lambda a: a[0],
)
def test_single_files_are_written_whole_or_not_at_all(dipsmith, office, monkeypatch, arguments):
    (office / "made").symlink_to("nowhere")
    ran = dipsmith(*arguments)
    assert (ran.code, "exists already" in ran.err) == (3, True)
    (office / "made").unlink()

    def full(path, text, *args):
        path.write_bytes(text[:5].encode())
        raise OSError(28, "No space left on device")

    before = sorted(office.iterdir())
    with monkeypatch.context() as there:
        there.setattr(Path, "write_text", full)
        there.setattr("dipsmith.privacy.chain._copy", lambda connection, path: full(path, "12345678"))
        ran = dipsmith(*arguments)
    assert ran.code == 3
    assert "No space left" in ran.err
    assert sorted(office.iterdir()) == before
    assert dipsmith(*arguments).code == 0
    assert (office / "made").stat().st_size > 100


def test_a_ledger_is_always_a_file(dipsmith, office):
    """SQLite's name for a database in memory would take grants and looks, and forget them."""
    assert dipsmith("ledger", "grant", "people", "--ledger", ":memory:", "--epsilon", "1").code == 0
    look = ("schema", "check", "people.yaml", "--source", "people.csv", "--ledger", ":memory:", "--json")
    assert dipsmith(*look).code == 0
    told = json.loads(dipsmith("ledger", "show", "people", "--ledger", ":memory:", "--json").out)
    assert (told["granted"], told["looks"]) == (1, 1)


def test_an_empty_ledger_says_so(dipsmith, office):
    (office / "new.db").touch()
    assert dipsmith("ledger", "show", "--ledger", "new.db").out == "the ledger is empty\n"


def test_a_repeated_request_says_that_nothing_was_drawn(dipsmith, office):
    again = dipsmith(*RUN, "other", "--request", "first")
    assert (again.code, "nothing was drawn or charged" in again.out) == (0, True)
    (office / "release").rename(office / "moved")
    gone = dipsmith(*RUN, "other", "--request", "first")
    assert gone.code == 4
    assert "request 'first' was released to" in gone.err
    assert not (office / "other").exists()
    assert shown(dipsmith)["spent"] == 1


@pytest.mark.slow
def test_a_release_that_the_ledger_could_not_note_is_told_of(dipsmith, office, monkeypatch):
    from dipsmith.errors import InputError
    from dipsmith.privacy.reservation import Reservation

    def held(self, digest, path):
        raise InputError("ledger 'b.db' was held by another process for over 60 s: try again")

    monkeypatch.setattr(Reservation, "finish", held)
    ran = dipsmith(*RUN, "second")
    assert (ran.code, ran.out) == (3, "")
    assert "'second' was written and is whole, but the ledger could not note it" in ran.err
    assert dipsmith("verify", "second").code == 0
    assert shown(dipsmith)["spent"] == 2


def test_a_card_that_is_none_is_named(dipsmith, office):
    (office / "binary").write_bytes(os.urandom(200))
    ran = dipsmith("ledger", "verify", "--ledger", "b.db", "--card", "binary")
    assert (ran.code, "'binary'" in ran.err) == (5, True)
