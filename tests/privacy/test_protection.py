"""What a spend protects: relation, unit, private columns and what one `per` is, fixed by the first spend."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dipsmith.errors import BudgetError, DamageError, InputError, UsageError
from dipsmith.privacy.budget import UNITS, PureDP
from dipsmith.privacy.chain import Chain
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.protection import (
    AddRemove,
    Label,
    Replace,
    as_format_1_noted,
    column_set,
    protection_from,
    protection_of,
    protection_record,
)
from dipsmith.schema import Schema, Unit

ROW, YEARLY = Unit(), Unit("id", 2, "year")
SEX, BOTH = Label(ROW, ("sex",)), Label(ROW, ("race", "sex"))


def schema(neighbours="label", private=("sex",), unit="row", width=1, year_title="", **more):
    fields = [{"name": n, "type": "string", "enum": ["a", "b"], "other": "b"} for n in ("sex", "race", "hiv")]
    for field in fields:
        field["role"] = "private" if field["name"] in private else "public"
    year = {"name": "year", "type": "integer", "minimum": 1980, "maximum": 1999, "bins": {"width": width}}
    year |= {"role": "public", "title": year_title} if year_title else {"role": "public"}
    facts = {"name": "people", "unit": unit, "neighbours": neighbours, "fields": [*fields, year]}
    return Schema.from_dict({**facts, **more})


def ask(ledger, protects, request="r1", name="people"):
    return ledger.reserve(name, PureDP("0.5"), protects=protects, source=None, request_id=request, method="flat")


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", PureDP(5))
    return book


# --- the types ------------------------------------------------------------------------------------


def test_a_schema_says_what_is_protected():
    assert protection_of(schema("replace")) == Replace(ROW)
    assert protection_of(schema("add-remove")) == AddRemove(ROW)
    assert protection_of(schema(private=("sex", "race"))) == BOTH
    assert protection_of(schema(private=("race", "sex"))) == BOTH


def test_relations_with_the_same_unit_are_different_things():
    kinds = {AddRemove(ROW), Replace(ROW), SEX, BOTH, Label(ROW, None)}
    assert len(kinds) == 5


def test_the_domain_of_per_says_what_a_unit_is():
    unit = {"column": "id", "max_rows": 2, "per": "year"}
    yearly = protection_of(schema("add-remove", unit=unit))
    assert yearly == protection_of(schema("add-remove", unit=unit, year_title="the year"))
    assert yearly != protection_of(schema("add-remove", unit=unit, width=5))
    assert yearly.per_domain is not None
    person = {"column": "id", "max_rows": 2}
    assert protection_of(schema(unit=person)) == protection_of(schema(unit=person, width=5)), "no other domain matters"


@pytest.mark.slow
@given(
    st.sampled_from([AddRemove, Replace]),
    st.lists(st.text(min_size=1), min_size=1),
    st.sampled_from([(ROW, None), (YEARLY, "e" * 64)]),
)
def test_protections_survive_the_ledger(kind, names, of):
    for protects in (kind(*of), Label(of[0], column_set(names), of[1])):
        record = json.loads(json.dumps(protection_record(protects)))
        assert protection_from(record) == protects
        old = {key: record[key] for key in ("relation", "unit")}
        assert protection_from(old) == as_format_1_noted(protects)


@pytest.mark.parametrize(
    "protects",
    [
        "label",
        Label(ROW, None),
        Label(ROW, ("sex", "race")),
        Label(ROW, ()),
        Label(ROW, "sex"),
        Replace(YEARLY),
        Replace(ROW, "e" * 64),
    ],
)
def test_half_a_protection_is_not_charged_for(ledger, protects):
    with pytest.raises(UsageError):
        ask(ledger, protects)
    assert ledger.show("people").spent == 0


# --- fixed by the first spend ---------------------------------------------------------------------


def test_the_private_columns_are_fixed_by_the_first_spend(ledger):
    """Sex private and hiv public, then the reverse: together everything is public, for one grant."""
    ask(ledger, SEX)
    for other in (Label(ROW, ("hiv",)), BOTH, Label(ROW, ("hiv", "sex"))):
        with pytest.raises(BudgetError, match="private column 'sex', got private column") as refusal:
            ask(ledger, other, "r2")
        assert all(f"'{name}'" in str(refusal.value) for name in other.private)
        assert refusal.value.exit_code == 4
    ask(ledger, SEX, "r2")
    assert ledger.show("people").spent == 1
    assert Ledger(ledger.path).show("people").private == ("sex",)
    assert "neighbours label, unit row, private column 'sex'" in str(ledger.show("people"))


def test_what_one_unit_is_is_fixed_by_the_first_spend(ledger):
    ask(ledger, AddRemove(YEARLY, "a" * 64))
    with pytest.raises(BudgetError, match="other values or bins of column 'year'"):
        ask(ledger, AddRemove(YEARLY, "b" * 64), "r2")
    assert ledger.show("people").spent == 0.5


def test_a_cancelled_first_spend_frees_the_columns(ledger):
    ask(ledger, SEX).cancel()
    ask(ledger, BOTH, "r2")
    assert ledger.show("people").private == ("race", "sex")


def test_a_request_id_that_comes_back_with_other_columns_is_refused(ledger):
    ask(ledger, SEX)
    with pytest.raises(BudgetError, match="had private columns 'sex', got 'race, sex': use a new request id"):
        ask(ledger, BOTH)


def test_rows_that_mix_columns_could_not_lawfully_be_written(ledger):
    ask(ledger, SEX)
    reserved = ledger_rows(ledger.path)[-1]
    with Chain(ledger.path).writing() as transaction:
        last = transaction.rows()[-1]
        for change in ({"private": ["hiv"]}, {"private": []}, {"private": "sex"}, {"relation": "replace"}):
            forged = {**reserved, "request": "r2", **change}
            with pytest.raises(DamageError, match="could not lawfully be written"):
                Ledger(ledger.path)._books.after([*transaction.rows(), _row_after(last, forged)])


def _row_after(last, content):
    from dipsmith.privacy.chain import Row

    return Row.after(last, "reserved", content)


def ledger_rows(path):
    with closing(sqlite3.connect(path)) as raw:
        return [json.loads(p) for (p,) in raw.execute("SELECT payload FROM entry ORDER BY seq")]


# --- stated by a grant ----------------------------------------------------------------------------


def test_a_grant_may_state_the_private_columns_first(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.grant("people", PureDP(1), private=["sex", "race"])
    for other in (SEX, Replace(ROW)):
        with pytest.raises(BudgetError, match="granted for neighbours 'label' with private columns 'race', 'sex'"):
            ask(ledger, other)
    ask(ledger, BOTH)
    with pytest.raises(BudgetError, match="has private columns 'race', 'sex' already, got column 'sex'"):
        ledger.grant("people", PureDP(1), private=["sex"])
    ledger.grant("people", PureDP(1), private=["race", "sex"])
    ledger.grant("people", PureDP(1))
    assert ledger.show("people").granted == 3
    ledger.verify()


def test_a_grant_cannot_contradict_what_was_spent(ledger):
    ask(ledger, Replace(ROW))
    with pytest.raises(BudgetError, match="every column is protected: leave the private columns out"):
        ledger.grant("people", PureDP(1), private=["sex"])
    for wrong in ([], "sex", [""], [1]):
        with pytest.raises(UsageError):
            ledger.grant("people", PureDP(1), private=wrong)


# --- ledgers of format 1 --------------------------------------------------------------------------


def old_ledger(path, relation="label", unit=ROW, state=("read", "finished")):
    """A ledger as it was written when neither private columns nor sources were noted."""
    facts = {"column": unit.column, "max_rows": unit.max_rows, "per": unit.per}
    rows = [
        ("opened", {"id": "0" * 32}),
        (
            "granted",
            {"name": "people", "budget": {"epsilon": 2 * UNITS}, "stated": "ε = 2", "by": "x", "why": ""},
        ),
        (
            "reserved",
            {
                "name": "people",
                "request": "r1",
                "budget": {"epsilon": UNITS // 2},
                "charge": UNITS // 2,
                "relation": relation,
                "unit": facts,
                "method": "flat",
                "by": "x",
            },
        ),
        *(
            (kind, {"request": "r1", **({"digest": "d" * 64, "path": "/out"} if kind == "finished" else {})})
            for kind in state
        ),
    ]
    with Chain(path).writing(create=True) as transaction:
        transaction.append(None, rows)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version=1")
    return Ledger(path)


def test_an_old_ledger_opens_verifies_and_says_what_is_missing(tmp_path):
    ledger = old_ledger(tmp_path / "budget.db")
    assert ledger.verify().rows == 5
    assert "neighbours label, unit row, 0" in str(ledger.show("people"))
    with pytest.raises(
        BudgetError, match=r"dipsmith ledger grant people \.\.\. --private race --private sex$"
    ) as refusal:
        ask(ledger, BOTH, "r2")
    assert "did not note which columns were private" in str(refusal.value)
    ledger.grant("people", PureDP(1), private=["race", "sex"])
    with pytest.raises(BudgetError, match="with private columns 'race', 'sex', got private column 'sex'"):
        ask(ledger, SEX, "r2")
    ask(ledger, BOTH, "r2")
    again = Ledger(ledger.path)
    assert again.verify().rows == 7
    assert again.show("people").spent == 1


def test_what_an_old_ledger_released_is_returned(tmp_path):
    ledger = old_ledger(tmp_path / "budget.db")
    with pytest.raises(AlreadyReleased):
        ask(ledger, BOTH)


def test_a_reservation_of_an_old_ledger_is_not_continued_for_columns_it_does_not_name(tmp_path):
    ledger = old_ledger(tmp_path / "budget.db", state=())
    with pytest.raises(BudgetError, match="private columns 'unknown'"):
        ask(ledger, BOTH)


def test_an_old_ledger_of_another_relation_goes_on(tmp_path):
    ledger = old_ledger(tmp_path / "budget.db", "replace")
    ask(ledger, Replace(ROW), "r2")
    assert ledger.show("people").spent == 1
    yearly = old_ledger(tmp_path / "yearly.db", "replace", YEARLY)
    with pytest.raises(BudgetError, match="bins of column 'year'"):
        ask(yearly, Replace(YEARLY, "e" * 64), "r2")


def test_the_version_before_refuses_what_it_would_misread(tmp_path, monkeypatch):
    """It would add up charges for different columns: a ledger that was written to since is of a newer format."""
    ledger = old_ledger(tmp_path / "budget.db", "replace")
    ledger.look("people", "nothing")
    monkeypatch.setattr("dipsmith.privacy.chain.VERSION", 1)
    with pytest.raises(InputError, match="upgrade dipsmith"):
        Ledger(ledger.path).show()
