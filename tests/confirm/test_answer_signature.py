"""Who signed an answer: the steward's key, over the card's digest; forged, stripped and exchanged signatures are found."""

import json
import shutil
import stat
from dataclasses import replace
from functools import partial

import pytest
from confirm_tables import schema_of, table_of
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dipsmith.confirm.answer import AnswerCard, verify_answer
from dipsmith.confirm.confirm import approve
from dipsmith.confirm.question import Inquiry
from dipsmith.errors import BudgetError, DamageError, InputError
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.signature import Signed, make_keys, public_of, read_public, sign_answer

QUESTION = Inquiry("people", "0" * 64, "y ~ s", "s[F] < 0", PureDP(1), parts=5, reference=(("s", "M"),))


def answered(folder, number=1, **more):
    question = replace(QUESTION, round=number)
    book, out = folder / "budget.db", folder / f"answer {number}"
    return approve(question, table_of(60), schema_of("label"), ledger=book, out=out, **more).folder


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A ledger, an answer signed by the key beside it, and another one signed by a key of the steward's own."""
    folder = tmp_path_factory.mktemp("office")
    Ledger(folder / "budget.db").grant("people", PureDP(9))
    answered(folder)
    make_keys(folder / "own")
    answered(folder, 2, key=folder / "own.key")
    return folder


@pytest.fixture
def copy(office, tmp_path):
    return shutil.copytree(office / "answer 1", tmp_path / "copy")


def key_of(office):
    return read_public(office / "budget.db.answers.pub")


def test_the_key_is_made_at_first_use_for_its_owner_alone(office):
    assert stat.S_IMODE((office / "budget.db.answers.key").stat().st_mode) == 0o600
    assert AnswerCard.load(office / "answer 1").signer == key_of(office)


def test_verifying_says_by_whom(office):
    one, own = office / "answer 1", read_public(office / "own.pub")
    for given in ({"public": key_of(office)}, {"ledger": office / "budget.db"}):
        assert f"signed by key {key_of(office)[:16]}… (the steward's, as far as you know it)" in str(
            verify_answer(one, **given)
        )
    assert "compare it with the steward's" in str(verify_answer(one))
    assert verify_answer(office / "answer 2", public=own).known
    assert not verify_answer(office / "answer 2", office / "budget.db").known
    with pytest.raises(DamageError, match="not by the key that was given"):
        verify_answer(one, public=own)


def test_the_next_answer_is_signed_by_the_same_key(office):
    assert AnswerCard.load(answered(office, 3)).signer == key_of(office)


def forge(folder, **changes):
    """The card changed and everything made to agree with it, by whoever lacks the key."""
    card = replace(AnswerCard.load(folder), **changes)
    kept = (folder / "signature.json").read_text()
    shutil.rmtree(folder)
    card.save(folder)
    return kept


@pytest.mark.parametrize("change", [{"verdict": "contradicted"}, {"probability": 0.999}, {"request": "question 1"}])
def test_a_changed_card_breaks_the_signature(copy, change):
    kept = forge(copy, **change)
    (copy / "signature.json").write_text(kept)
    with pytest.raises(DamageError, match="not a signature of this card"):
        verify_answer(copy)


def test_a_signature_cannot_be_taken_off_a_card_that_names_its_key(copy):
    (copy / "signature.json").unlink()
    with pytest.raises(DamageError, match=r"'signature\.json' is missing"):
        verify_answer(copy)


def test_a_strangers_signature_is_a_strangers(office, copy):
    """Who signs a forged card with a key of his own is told by the key, and by nothing else."""
    key = Ed25519PrivateKey.generate()
    card = replace(AnswerCard.load(copy), verdict="contradicted", signer=public_of(key))
    shutil.rmtree(copy)
    card.save(copy, partial(sign_answer, key, "another", card.request))
    assert not verify_answer(copy).known
    with pytest.raises(DamageError, match="not by the key that was given"):
        verify_answer(copy, public=key_of(office))
    with pytest.raises(DamageError, match="no answer"):
        verify_answer(copy, office / "budget.db")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: replace(s, kind="granted"),
        lambda s: replace(s, ledger="another"),
        lambda s: replace(s, nonce="0" * 64),
        lambda s: replace(s, content={**s.content, "card": "0" * 64}),
        lambda s: replace(s, signature=s.signature[:-2] + ("00" if s.signature[-2:] != "00" else "11")),
        lambda s: replace(s, signature="no"),
        lambda s: replace(s, signature=7),
    ],
    ids=["kind", "ledger", "nonce", "card", "digit", "text", "number"],
)
def test_a_spoiled_signature_is_none(copy, spoil):
    file = copy / "signature.json"
    spoiled = spoil(Signed.read(file))
    file.write_text(spoiled.to_json())
    with pytest.raises(DamageError, match=r"'signature\.json' is not a signature"):
        verify_answer(copy)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "[" * 9000])
def test_what_is_no_signature_is_refused_in_a_sentence(copy, text):
    (copy / "signature.json").write_text(text)
    with pytest.raises(DamageError, match=r"'signature\.json' is not a signature"):
        verify_answer(copy)


def test_a_signed_answer_is_no_grant(office):
    """The office's own key may be the steward's: what it signed as an answer adds no budget."""
    book = Ledger(office / "other.db")
    book.require_signature(key_of(office))
    with pytest.raises(BudgetError):
        book.grant_signed(Signed.read(office / "answer 1" / "signature.json"))


def test_answers_from_before_are_not_signed_and_still_whole(copy):
    facts = json.loads((copy / "answer.json").read_text())
    del facts["signer"]
    facts["version"] = "0.1.0"
    (copy / "answer.json").write_text(json.dumps(facts))
    (copy / "signature.json").unlink()
    assert "NOT SIGNED" in str(verify_answer(copy))


def test_a_lost_key_is_said_before_anything_is_charged(office, tmp_path):
    for name in ("budget.db", "budget.db.key", "budget.db.answers.pub"):
        shutil.copy(office / name, tmp_path / name)
    spent = Ledger(tmp_path / "budget.db").show("people").spent
    with pytest.raises(InputError, match=r"answers\.key' is gone"):
        answered(tmp_path, 4)
    (tmp_path / "budget.db.answers.key").write_text("no key")
    with pytest.raises(InputError, match="is not an Ed25519 private key"):
        answered(tmp_path, 4)
    with pytest.raises(InputError, match="cannot be read"):
        answered(tmp_path, 4, key=tmp_path / "none.key")
    assert Ledger(tmp_path / "budget.db").show("people").spent == spent
    assert not (tmp_path / "answer 4").exists()
