"""From question to answer: charged once, answered once, and nothing told but the noisy number."""

from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.confirm.answer import AnswerCard, verify_answer
from dipsmith.confirm.confirm import approve, rehearse
from dipsmith.confirm.page import answer_page
from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.queue import answers, decline, list_questions
from dipsmith.confirm.verdict import in_three_digits
from dipsmith.errors import BudgetError, DamageError, OutputError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.value_question import Poll
from dipsmith.schema import Schema

# Noise at ε = 20 moves a poll by 2 or more with probability below 1e-16: what is tested here is not chance.
QUESTION = Inquiry("people", "0" * 64, "y ~ s + x | g", "s[F] < 0", PureDP(20), parts=20, reference=(("s", "M"),))


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", PureDP(80))
    return book


def asked(ledger, out, question=QUESTION, table=None, **more):
    table = table_of(2000, effect=-0.5) if table is None else table
    return approve(question, table, schema_of("label"), ledger=ledger, out=out, **more)


def test_a_claim_that_holds_is_confirmed_and_charged_once(ledger, tmp_path):
    first = asked(ledger, tmp_path / "answer")
    assert first.answer.verdict == "confirmed"
    assert first.answer.sentence.startswith("Confirmed: s[F] is below 0 in most random parts; posterior ")
    assert ledger.show("people").remaining == 60
    again = asked(ledger, tmp_path / "other", replace(QUESTION, by="somebody else"))
    assert again.before
    assert again.answer == AnswerCard.load(tmp_path / "answer")
    assert not (tmp_path / "other").exists()
    assert ledger.show("people").remaining == 60
    verify_answer(tmp_path / "answer", ledger)
    assert Inquiry.read(tmp_path / "answer" / "question.yaml") == QUESTION


def test_a_schema_that_was_read_from_the_confidential_file_is_refused(ledger, tmp_path):
    pa_csv.write_csv(table_of(200, effect=-0.5), tmp_path / "p.csv")
    digest = sha256((tmp_path / "p.csv").read_bytes()).hexdigest()
    schema = replace(schema_of("label"), named_files=(("jobs.csv", digest),))
    with pytest.raises(UsageError, match=r"jobs\.csv is taken for public, but is the confidential one itself"):
        approve(QUESTION, tmp_path / "p.csv", schema, ledger=ledger, out=tmp_path / "answer")
    assert ledger.show("people").remaining == 80


@pytest.mark.parametrize(
    ("claim", "effect", "verdict"),
    [
        ("s[F] < 0", 0.5, "contradicted"),
        ("s[F] > 0.2", 0.5, "confirmed"),
        ("0.2 < s[F] < 0.8", 0.5, "confirmed"),
        ("-0.1 < s[F] < 0.1", 0.6, "contradicted"),
        ("g[b] = g[c] within 1", 0.0, "confirmed"),
        ("s[F] = s[M] within 0.3", 0.0, "confirmed"),
        ("s[F] = 0.5 within 0.3", 0.5, "confirmed"),
    ],
)
def test_each_kind_of_claim_finds_the_truth(claim, effect, verdict):
    """Effects are ten standard errors of the table away from each threshold."""
    formula = "y ~ s + x + g" if "g[" in claim else "y ~ s + x | g"
    question = replace(QUESTION, claim=claim, formula=formula, budget=PureDP(20))
    assert rehearse(question, table_of(3000, effect=effect), schema_of("label"), seed=1).verdict == verdict


def test_a_trend_and_an_agreement_are_found():
    table = table_of(4000, effect=0.0)
    question = replace(QUESTION, formula="y ~ x", claim="trend of mean over g > 0", budget=PureDP(20), reference=())
    assert rehearse(question, table, schema_of("label"), seed=1).verdict == "confirmed"
    falls = replace(question, claim="trend of mean over g < 0")
    assert rehearse(falls, table, schema_of("label"), seed=1).verdict == "contradicted"
    agrees = replace(question, claim="x = release", known=(0.5, 0.016))
    assert rehearse(agrees, table, schema_of("label"), seed=1).verdict == "confirmed"
    apart = replace(agrees, known=(1.5, 0.016))
    assert rehearse(apart, table, schema_of("label"), seed=1).verdict == "contradicted"


def test_logistic_regressions_and_shares_are_asked_alike():
    table = table_of(4000, effect=1.0)
    odds = replace(QUESTION, formula="s ~ y", family="logistic", claim="y < 0", budget=PureDP(20), reference=())
    assert rehearse(odds, table, schema_of("label"), seed=1).verdict == "confirmed"  # s = M is the second level
    share = replace(QUESTION, formula="I(s == 'F') ~ 1", claim="share > 0.4", budget=PureDP(20), reference=())
    assert rehearse(share, table, schema_of("label"), seed=1).verdict == "confirmed"


def test_a_table_that_cannot_be_fitted_is_undecided():
    few = rehearse(QUESTION, table_of(30), schema_of("label"), seed=1)
    none = rehearse(QUESTION, table_of(0), schema_of("add-remove"), seed=1)
    assert (few.verdict, none.verdict) == ("cannot tell", "cannot tell")


def test_a_price_in_rho_is_charged_and_named(tmp_path):
    book = Ledger(tmp_path / "rho.db")
    book.grant("people", ZCDP(1))
    found = asked(book, tmp_path / "answer", replace(QUESTION, budget=ZCDP("0.5"))).answer
    assert found.noise == "discrete Gaussian"
    assert found.guarantee.startswith("ρ = 0.5 (ε = ")


@pytest.mark.parametrize("claim", ["s[F] < 0", "-1 < s[F] < 1"])
def test_every_byte_follows_from_the_noisy_numbers(claim, monkeypatch, tmp_path):
    """Two tables with nothing in common, whose parts are made to vote alike: the same bytes, whatever the rows are."""
    question, told = replace(QUESTION, claim=claim), []
    counted = Poll.count
    for table, unit in ((table_of(600), None), (table_of(90, seed=5, effect=3.0, units=40), "id")):
        schema = schema_of("label", unit=unit)

        def same(poll, rows, stream):
            counted(poll, rows, stream.child("another"))
            return np.full(poll.vote.answers - 1, 9)

        monkeypatch.setattr(Poll, "count", same)
        answer = rehearse(question, table, schema, seed=7)
        fixed = replace(answer, created="2026-01-01T00:00:00+00:00", unit="", guarantee="")
        folder, _ = fixed.save(tmp_path / f"answer {len(told)}")
        told.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert told[0] == told[1]
    assert set(told[0]) == {"answer.json", "answer.html", "question.yaml"}


@pytest.mark.parametrize("claim", ["s[F] < 0", "-0.5 < s[F] < 0.5", "trend of s[F] over g > 0"])
@pytest.mark.parametrize(
    ("relation", "unit"), [("label", None), ("label", "id"), ("add-remove", None), ("replace", "id")]
)
def test_another_order_or_form_of_the_file_is_answered_alike(relation, unit, claim, tmp_path):
    """With frozen noise: the same bytes of an answer that hangs on every row, with copies among the rows."""
    table = table_of(90, units=None if unit is None else 60)
    for at in (0, 1):
        table = table.set_column(at, table.column_names[at], pa.array(np.round(table.column(at).to_numpy())))
    question = replace(QUESTION, formula="y ~ s + x", claim=claim)
    pq.write_table(table.take(np.random.default_rng(3).permutation(90)), tmp_path / "other.parquet", row_group_size=7)
    pa_csv.write_csv(table.take(np.arange(90)[::-1]), tmp_path / "other.csv")
    told = [
        replace(rehearse(question, data, schema_of(relation, unit=unit, max_rows=2), seed=7), created="")
        for data in (table, tmp_path / "other.parquet", tmp_path / "other.csv")
    ]
    assert told[0].to_json() == told[1].to_json() == told[2].to_json()


def test_refusals_cost_nothing(ledger, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        asked(ledger, tmp_path / "there")
    for wrong, told in (
        (replace(QUESTION, dataset="others"), "about 'others'"),
        (replace(QUESTION, formula="y ~ s + z"), "no column"),
        (replace(QUESTION, claim="z < 0"), "no coefficient"),
        (replace(QUESTION, claim="trend of s[F] over s > 0"), "public column"),
    ):
        with pytest.raises(Exception, match=told):
            asked(ledger, tmp_path / "answer", wrong)
    with pytest.raises(BudgetError, match="asked for"):
        asked(ledger, tmp_path / "answer", replace(QUESTION, budget=PureDP(81)))
    with pytest.raises(UsageError, match="testing=True"):
        asked(ledger, tmp_path / "answer", noise_seed=1)
    assert ledger.show("people").remaining == 80
    assert not (tmp_path / "answer").exists()


def test_a_failure_after_reading_keeps_the_charge_and_never_draws_again(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(AnswerCard, "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        asked(ledger, tmp_path / "answer")
    monkeypatch.undo()
    assert ledger.show("people").remaining == 60
    with pytest.raises(BudgetError, match="never draws again"):
        asked(ledger, tmp_path / "answer")
    assert asked(ledger, tmp_path / "answer", QUESTION.asked_again()).answer.verdict == "confirmed"
    assert ledger.show("people").remaining == 40


@pytest.mark.parametrize("name", ["question.yaml", "answer.html", "answer.json"])
def test_an_answer_that_was_changed_is_found(ledger, tmp_path, name):
    folder = asked(ledger, tmp_path / "answer").folder
    file = folder / name
    file.write_text(file.read_text("utf-8").replace("s[F]", "s[M]"), "utf-8")
    with pytest.raises(DamageError):
        verify_answer(folder, ledger)
    with pytest.raises(DamageError):
        asked(ledger, tmp_path / "again")


def test_a_forged_card_is_not_the_ledgers(ledger, tmp_path):
    folder = asked(ledger, tmp_path / "answer").folder
    forged = replace(AnswerCard.load(folder), verdict="contradicted", sentence="Contradicted.", signer=None)
    forged.save(tmp_path / "forged")
    assert "NOT SIGNED" in str(verify_answer(tmp_path / "forged"))
    with pytest.raises(DamageError, match="no answer"):
        verify_answer(tmp_path / "forged", ledger)
    with pytest.raises(DamageError, match="not signed, although"):
        verify_answer(tmp_path / "forged", public=ledger.answer_key.public)
    (folder / "more").touch()
    with pytest.raises(DamageError, match="'more'"):
        verify_answer(folder)


def test_the_queue_says_what_was_decided(ledger, tmp_path):
    inbox, out = tmp_path / "inbox", tmp_path / "out"
    inbox.mkdir()
    out.mkdir()
    kinds = {"a": QUESTION, "b": replace(QUESTION, claim="s[F] > 0"), "c": replace(QUESTION, formula="y ~ s + zz")}
    for name, question in kinds.items():
        (inbox / f"{name}.yaml").write_text(question.to_yaml(), "utf-8")
    (inbox / "d.yaml").write_text("nonsense")
    (inbox / "e.txt").write_text("no question")
    approve(inbox / "a.yaml", table_of(500), schema_of("label"), ledger=ledger, out=out / "a")
    decline(inbox / "b.yaml", ledger, "asked twice", by="ann")
    found = list_questions(inbox, ledger, schema_of("label"))
    assert [q.state for q in found] == ["answered", "declined", "open", "unreadable"]
    assert (found[0].answer, found[1].problem) == (out / "a", "asked twice")
    assert "zz" in found[2].problem
    assert [path for path, _ in answers(out)] == [out / "a"]
    with pytest.raises(BudgetError, match="cannot be declined"):
        decline(QUESTION, ledger, "too late")
    with pytest.raises(UsageError, match="say why"):
        decline(kinds["b"], ledger, " ")
    ledger.verify()


def test_every_entry_of_a_question_and_of_an_answer_is_explained():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "question.md").read_text("utf-8")
    names = {f.name for kind in (Inquiry, AnswerCard) for f in fields(kind)} - {"budget"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_picture_is_drawn_by_the_noise_of_the_answer():
    """Persons in households are priced as under replace, whatever their neighbours are called."""
    people = {"name": "people", "fields": [{"name": "age", "type": "integer", "enum": [1, 2], "other": 2}]}
    fields_of_homes = [
        {"name": "own", "type": "string", "enum": ["y", "n"], "other": "n"},
        {"name": "rent", "type": "number", "minimum": 0, "maximum": 10, "bins": {"count": 5}},
    ]
    homes = {"name": "homes", "unit": "person", "neighbours": "add-remove", "key": "hid", "max_members": 3}
    schema = Schema.from_dict({**homes, "members": people, "fields": fields_of_homes})
    rng = np.random.default_rng(1)
    own, rent = rng.choice(["y", "n"], 200), rng.uniform(0, 10, 200)
    question = Inquiry("homes", "0" * 64, "rent ~ own", "own[n] < 100", PureDP(1), parts=8)
    answer = rehearse(question, pa.table({"hid": np.arange(200), "own": own, "rent": rent}), schema, seed=3)
    assert answer.scale == 2
    assert f"the probability of the claim is {in_three_digits(answer.probability)}." in answer_page(answer)
