"""Sources in the ledger: recognised by whoever has the key, random bytes to everybody else."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from dipsmith.errors import BudgetError, DamageError, LostKey, OutputError
from dipsmith.privacy import sealing
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.protection import Replace
from dipsmith.privacy.sealing import Seal
from dipsmith.schema import Unit

ONE, NEIGHBOUR = (hashlib.sha256(text).hexdigest() for text in (b"ann,F\nbob,M\n", b"ann,F\nbob,F\n"))


def ask(ledger, name="people", request="r1", source=ONE, **more):
    return ledger.reserve(
        name,
        PureDP("0.5"),
        protects=Replace(Unit()),
        source=source,
        request_id=request,
        method="flat",
        **more,
    )


def office(folder):
    folder.mkdir(exist_ok=True)
    book = Ledger(folder / "budget.db")
    for name in ("people", "others"):
        book.grant(name, PureDP(2), by="data office")
    return book


@pytest.fixture
def ledger(tmp_path):
    return office(tmp_path)


def key_of(ledger):
    return Path(f"{ledger.path}.key")


def payloads(ledger):
    with closing(sqlite3.connect(ledger.path)) as raw:
        return [json.loads(p) for (p,) in raw.execute("SELECT payload FROM entry ORDER BY seq")]


def sealed(ledger):
    return [p["source"] for p in payloads(ledger) if "source" in p]


# --- one source, two names ------------------------------------------------------------------------


def test_a_source_under_another_name_must_be_confirmed(ledger):
    ask(ledger)
    with pytest.raises(BudgetError, match=r"'others' has the same source as 'people'.*--another-grant") as refusal:
        ask(ledger, "others", "r2")
    assert refusal.value.exit_code == 4
    assert "another_grant=True" in str(refusal.value)
    assert ledger.show("others").spent == 0
    ask(Ledger(ledger.path), "others", "r2", another_grant=True)
    shown = Ledger(ledger.path).show("others")
    assert shown.runs[0].another_grant
    assert shown.as_dict()["runs"][0]["another_grant"] is True
    assert "another grant for its source was confirmed" in str(shown)
    assert ledger.verify().rows == 5


def test_other_sources_and_the_same_name_need_no_word(ledger):
    ask(ledger)
    ask(ledger, request="r2")
    ask(ledger, "others", "r3", NEIGHBOUR)
    ask(ledger, "others", "r4", None)
    assert "confirmed" not in str(ledger.show())


def test_a_cancelled_reservation_was_charged_for_nothing(ledger):
    ask(ledger).cancel()
    ask(ledger, "others", "r2")


def test_a_reservation_is_continued_for_its_own_rows(ledger):
    ask(ledger, "others", "r1", another_grant=True)
    with pytest.raises(BudgetError, match="reserved for other rows: use a new request id"):
        ask(ledger, "others", source=NEIGHBOUR)
    ask(ledger, "others")
    assert ledger.show("others").spent == 0.5


def test_a_finished_request_gives_nothing_to_other_rows(ledger):
    reservation = ask(ledger, "others", "r1")
    reservation.read()
    reservation.finish("0" * 64, "release")
    with pytest.raises(AlreadyReleased):
        ask(ledger, "others", "r1")
    with pytest.raises(BudgetError, match="reserved for other rows: use a new request id"):
        ask(ledger, "others", "r1", source=NEIGHBOUR)


def test_a_ledger_in_memory_seals_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = Ledger(":memory:")
    for name in ("people", "others"):
        book.grant(name, PureDP(2))
    ask(book)
    with pytest.raises(BudgetError, match="same source"):
        ask(book, "others", "r2")
    assert list(tmp_path.iterdir()) == []


# --- what the ledger tells ------------------------------------------------------------------------


def test_the_seal_is_a_keyed_digest(ledger):
    ask(ledger)
    (seal,) = sealed(ledger)
    key = key_of(ledger).read_bytes()
    assert len(key) == 32
    made = hmac.new(key, f"{seal['salt']}|{ONE}".encode(), hashlib.sha256).hexdigest()
    assert seal["tag"] == made


def test_without_the_key_nothing_is_told(tmp_path, monkeypatch):
    """With the salt fixed, all that is left to make seals differ between ledgers is the key."""
    monkeypatch.setattr(sealing.secrets, "token_hex", lambda size: "5" * 2 * size)
    tags = set()
    for i in range(4):
        ledger = office(tmp_path / str(i))
        ask(ledger)
        (seal,) = sealed(ledger)
        tags.add(seal["tag"])
        for guess in (ONE, f"{seal['salt']}|{ONE}", f"{seal['salt']}{ONE}"):
            assert hashlib.sha256(guess.encode()).hexdigest() != seal["tag"]
    assert len(tags) == 4
    whole = Path(ledger.path).read_bytes()
    key = key_of(ledger).read_bytes()
    for secret in (key, key.hex().encode(), ONE.encode(), bytes.fromhex(ONE)):
        assert secret not in whole


def test_nobody_sees_whether_two_runs_read_one_file(ledger):
    for i, source in enumerate((ONE, ONE, NEIGHBOUR)):
        ask(ledger, request=f"r{i}", source=source)
    assert len({seal["tag"] for seal in sealed(ledger)}) == 3
    assert len({seal["salt"] for seal in sealed(ledger)}) == 3
    assert len({seal["key"] for seal in sealed(ledger)}) == 1


def test_ledgers_of_neighbouring_tables_have_one_form(tmp_path):
    forms = []
    for name, source in (("a", ONE), ("b", NEIGHBOUR)):
        ledger = office(tmp_path / name)
        with ask(ledger, source=source) as run:
            run.read()
            run.finish("d" * 64, "/release")
        found = payloads(ledger)
        found[0]["id"] = ""
        for part in ("key", "salt", "tag"):
            text = found[3]["source"][part]
            found[3]["source"][part] = len(bytes.fromhex(text))
        forms.append((found, Path(ledger.path).stat().st_size))
    assert forms[0] == forms[1]
    assert forms[0][0][3]["source"] == {"key": 8, "salt": 16, "tag": 32}


def test_a_malformed_seal_could_not_lawfully_be_written():
    good = asdict(sealing.Key(bytes(32)).seal(ONE))
    assert asdict(Seal.from_record(good)) == good
    for part in good:
        for wrong in ("", "zz", good[part] + "00", good[part][2:]):
            with pytest.raises(ValueError, match=r".+"):
                Seal.from_record({**good, part: wrong})


# --- the key file ---------------------------------------------------------------------------------


def test_the_key_is_for_its_owners_eyes_and_made_once(ledger):
    before = os.umask(0)
    try:
        ask(ledger)
    finally:
        os.umask(before)
    assert key_of(ledger).stat().st_mode & 0o777 == 0o600
    key = key_of(ledger).read_bytes()
    ask(Ledger(ledger.path), request="r2")
    assert key_of(ledger).read_bytes() == key


def test_many_threads_make_one_key(tmp_path):
    ledger = office(tmp_path)
    threads = [
        threading.Thread(target=ask, args=(Ledger(ledger.path), "people", f"t{i}"), kwargs={"source": ONE})
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({seal["key"] for seal in sealed(ledger)}) == 1
    assert len(sealed(ledger)) == 4


def test_a_lost_key_is_said_and_no_damage(ledger):
    ask(ledger)
    key_of(ledger).unlink()
    with pytest.warns(LostKey, match=r"budget\.db\.key' is not the key of earlier runs"):
        ask(ledger, "others", "r2")
    assert ledger.show("others").spent == 0.5
    assert ledger.verify().rows == 5
    with pytest.raises(BudgetError, match="same source as 'others'"):
        ask(ledger, "people", "r3")


def test_a_restored_key_recognises_again(ledger):
    ask(ledger)
    kept = key_of(ledger).read_bytes()
    key_of(ledger).write_bytes(b"x" * 32)
    with pytest.warns(LostKey):
        ask(ledger, "others", "r2", NEIGHBOUR)
    key_of(ledger).write_bytes(kept)
    with pytest.raises(BudgetError, match="same source as 'people'"):
        ask(ledger, "others", "r3")


@pytest.mark.parametrize("made", ["short", "link", "folder", "pipe"])
def test_what_is_no_key_is_neither_followed_nor_overwritten(ledger, tmp_path, made):
    key = key_of(ledger)
    if made == "short":
        key.write_bytes(b"short")
    elif made == "link":
        (tmp_path / "elsewhere").write_bytes(b"x" * 32)
        key.symlink_to("elsewhere")
    elif made == "folder":
        key.mkdir()
    else:
        os.mkfifo(key)
    with pytest.warns(LostKey, match="cannot be read or is no key"):
        ask(ledger)
    assert sealed(ledger) == []
    assert ledger.show("people").spent == 0.5


def test_a_dangling_link_is_no_place_for_a_key(ledger, tmp_path):
    key_of(ledger).symlink_to("nowhere")
    with pytest.warns(LostKey):
        ask(ledger)
    assert not (tmp_path / "nowhere").exists()


def test_a_key_that_cannot_be_written_charges_nothing(ledger, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sealing.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        ask(ledger)
    monkeypatch.undo()
    assert Ledger(ledger.path).show("people").spent == 0
    assert not key_of(ledger).exists()
    ask(ledger)


def test_a_backup_leaves_the_key_behind(ledger, tmp_path):
    ask(ledger)
    ledger.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db.key").exists()
    copy = Ledger(tmp_path / "copy.db")
    with pytest.warns(LostKey):
        ask(copy, "others", "r2")
    with pytest.raises(DamageError):
        copy.verify(cards=["0" * 64])
