"""Signed grants: who may grant need not be who may spend."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from dipsmith.errors import BudgetError, DamageError, InputError, OutputError, UsageError
from dipsmith.privacy.budget import UNITS, ZCDP, PureDP
from dipsmith.privacy.chain import Chain
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.protection import Label
from dipsmith.privacy.signature import (
    Signed,
    make_keys,
    read_key,
    read_public,
    sign_grant,
    sign_successor,
)
from dipsmith.schema import Unit


@pytest.fixture
def office(tmp_path):
    secret, public = make_keys(tmp_path / "office")
    return read_key(secret), read_public(public)


@pytest.fixture
def ledger(tmp_path, office):
    book = Ledger(tmp_path / "budget.db")
    book.require_signature(office[1])
    return book


def append(path, kind, content):
    with Chain(path).writing() as transaction:
        transaction.append(transaction.rows()[-1], [(kind, content)])


def test_keys_are_written_once_and_the_secret_one_for_its_owner(tmp_path):
    secret, public = make_keys(tmp_path / "office")
    assert (secret.name, public.name) == ("office.key", "office.pub")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert read_public(public) == read_key(secret).public_key().public_bytes_raw().hex()
    before = secret.read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        make_keys(tmp_path / "office")
    public.unlink()
    with pytest.raises(OutputError, match="exists already"):
        make_keys(tmp_path / "office")
    assert secret.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    for read in (read_key, read_public, Signed.read):
        with pytest.raises(InputError) as refusal:
            read(tmp_path / "x")
        assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_key(tmp_path / "nowhere")


def test_a_signed_grant_counts_once(ledger, office, tmp_path):
    signed = sign_grant(office[0], ledger.id, "people", PureDP("1.5"), by="data office", why="pilot")
    signed.write(tmp_path / "grant.json")
    assert Signed.read(tmp_path / "grant.json") == signed
    assert ledger.grant_signed(Signed.read(tmp_path / "grant.json")) == "people"
    shown = Ledger(ledger.path).show("people")
    assert (shown.granted, shown.grants[0].by, shown.grants[0].why) == (1.5, "data office", "pilot")
    assert shown.grants[0].signed
    assert "signed by data office: pilot" in str(shown)
    for book in (ledger, Ledger(ledger.path)):
        with pytest.raises(BudgetError, match="taken before"):
            book.grant_signed(signed)
    report = ledger.verify()
    assert report.signed == 1
    assert "1 signature checked" in str(report)


def test_unsigned_grants_are_refused_and_told_how(ledger):
    with pytest.raises(BudgetError, match=rf"dipsmith ledger sign people --epsilon 2 --ledger-id {ledger.id} ") as no:
        ledger.grant("people", PureDP(2))
    assert no.value.exit_code == 4
    assert len(ledger.show()) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"name": "others"},
        {"budget": {"epsilon": 9 * UNITS}},
        {"stated": "ε = 9"},
        {"by": "mallory"},
        {"why": "more"},
        {"private": ["race"]},
        {"private": []},
    ],
)
def test_a_signature_binds_all_of_a_grant(ledger, office, change):
    signed = sign_grant(office[0], ledger.id, "people", PureDP(1), by="x", why="y", private=["sex"])
    forged = replace(signed, content={**signed.content, **change})
    with pytest.raises(BudgetError, match="the statement was changed"):
        ledger.grant_signed(forged)
    stripped = replace(signed, content={k: v for k, v in signed.content.items() if k != "private"})
    with pytest.raises(BudgetError, match="the statement was changed"):
        ledger.grant_signed(stripped)
    with pytest.raises(BudgetError, match="the statement was changed"):
        ledger.grant_signed(replace(signed, nonce="0" * 32))
    ledger.grant_signed(signed)
    assert ledger.show("people").private == ("sex",)


def test_a_signature_counts_in_one_ledger(ledger, office, tmp_path):
    signed = sign_grant(office[0], ledger.id, "people", PureDP(1))
    other = Ledger(tmp_path / "other.db")
    with pytest.raises(InputError, match="no such file"):
        other.grant_signed(signed)
    other.grant("people", PureDP(1))
    with pytest.raises(UsageError, match="names no key"):
        other.grant_signed(signed)
    other.require_signature(office[1])
    with pytest.raises(BudgetError, match="another id"):
        other.grant_signed(signed)
    with pytest.raises(BudgetError, match="the statement was changed"):
        other.grant_signed(replace(signed, ledger=other.id))


def test_only_the_key_in_office_counts(ledger, office, tmp_path):
    other = read_key(make_keys(tmp_path / "mallory")[0])
    with pytest.raises(BudgetError, match="not that of the key"):
        ledger.grant_signed(sign_grant(other, ledger.id, "people", PureDP(1)))
    with pytest.raises(BudgetError, match="names a key already"):
        ledger.require_signature(other.public_key().public_bytes_raw().hex())
    with pytest.raises(BudgetError, match="not that of the key"):
        ledger.require_signature(sign_successor(other, ledger.id, other.public_key().public_bytes_raw().hex()))


def test_another_key_takes_over_by_a_signature_of_the_one_before(ledger, office, tmp_path):
    secret, public = make_keys(tmp_path / "next")
    change = sign_successor(office[0], ledger.id, read_public(public))
    early = sign_grant(office[0], ledger.id, "people", PureDP(1))
    with pytest.raises(BudgetError, match="no grant"):
        ledger.grant_signed(change)
    with pytest.raises(BudgetError, match="is a grant"):
        ledger.require_signature(early)
    ledger.require_signature(change)
    with pytest.raises(BudgetError, match="not that of the key"):
        ledger.grant_signed(early)
    ledger.grant_signed(sign_grant(read_key(secret), ledger.id, "people", PureDP(1)))
    back = sign_successor(read_key(secret), ledger.id, office[1])
    ledger.require_signature(back)
    with pytest.raises(BudgetError, match="taken before"):
        ledger.require_signature(change)
    assert ledger.verify().rows == 5


def test_a_grant_without_a_lawful_signature_is_damage(ledger, office):
    """Whoever writes the file past dipsmith, with every hash right, adds no budget."""
    good = sign_grant(office[0], ledger.id, "people", PureDP(1))
    ledger.grant_signed(good)
    kept = Chain(ledger.path)
    with kept.reading() as transaction:
        rows = transaction.rows()
    for content in (
        {k: v for k, v in good.row.items() if k != "signed"},
        good.row,
        {**good.row, "budget": {"epsilon": 9 * UNITS}},
        {**good.row, "signed": {"nonce": "1" * 32, "signature": "00" * 64}},
        {**good.row, "signed": "yes"},
    ):
        with pytest.raises(DamageError, match="granted"):
            Ledger(ledger.path)._books.after([*rows, type(rows[0]).after(rows[-1], "granted", content)])
    append(ledger.path, "granted", {**good.row, "budget": {"epsilon": 9 * UNITS}})
    for verb in (Ledger(ledger.path).verify, Ledger(ledger.path).show):
        with pytest.raises(DamageError, match="row 4"):
            verb()


def test_rho_and_approximate_budgets_are_signed_as_stated(ledger, office):
    ledger.grant_signed(sign_grant(office[0], ledger.id, "people", ZCDP.from_approx(1, 1e-9)))
    assert "ρ = 0.01656 (ε = 1, δ = 1e-09)" in str(ledger.show("people"))
    with pytest.raises(BudgetError, match="one currency per dataset"):
        ledger.grant_signed(sign_grant(office[0], ledger.id, "people", PureDP(1)))


def test_a_signed_grant_states_the_private_columns(ledger, office):
    ledger.grant_signed(sign_grant(office[0], ledger.id, "people", PureDP(1), private=["sex", "race"]))
    ask = {"source": None, "method": "flat"}
    with pytest.raises(BudgetError, match="granted for neighbours 'label'"):
        ledger.reserve("people", PureDP(1), protects=Label(Unit(), ("sex",)), **ask)
    ledger.reserve("people", PureDP(1), protects=Label(Unit(), ("race", "sex")), **ask)


def test_old_grants_stay_when_signatures_come(tmp_path, office):
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", PureDP(1))
    book.require_signature(office[1])
    book.grant_signed(sign_grant(office[0], book.id, "people", PureDP(1)))
    assert book.show("people").granted == 2
    assert [g.signed for g in book.show("people").grants] == [False, True]
    assert book.verify().signed == 1


@pytest.mark.parametrize("public", ["", "0" * 63, "G" * 64, "0x" + "0" * 62, 5, "A" * 64])
def test_a_public_key_is_64_digits(tmp_path, public):
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        Ledger(tmp_path / "budget.db").require_signature(public)
    assert not (tmp_path / "budget.db").exists()


def test_what_is_not_a_signed_grant_is_refused(tmp_path, ledger, office):
    signed = sign_grant(office[0], ledger.id, "people", PureDP(1))
    signed.write(tmp_path / "good.json")
    facts = json.loads((tmp_path / "good.json").read_text("utf-8"))
    for change in (
        {"format": "2"},
        {"kind": "opened"},
        {"content": {**facts["content"], "charge": 1}},
        {"content": {"name": "people"}},
        {"content": 5},
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**facts, **change}))
        with pytest.raises(InputError, match="not a signed grant"):
            Signed.read(tmp_path / "bad.json")
    with pytest.raises(OutputError, match="exists already"):
        signed.write(tmp_path / "good.json")


def test_the_ledger_keeps_no_secret_key(ledger, office, tmp_path):
    ledger.grant_signed(sign_grant(office[0], ledger.id, "people", PureDP(1)))
    with closing(sqlite3.connect(ledger.path)) as raw:
        text = "".join(p for (p,) in raw.execute("SELECT payload FROM entry"))
    assert office[1] in text
    assert office[0].private_bytes_raw().hex() not in text
