"""The ledger's rules: grants, charges, request ids, statements, tampering."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import BudgetError, DamageError, InputError, OutputError, UsageError
from dipsmith.privacy import account as account_module
from dipsmith.privacy import chain
from dipsmith.privacy.budget import UNITS, ZCDP, PureDP, rho_to_approx
from dipsmith.privacy.chain import Row
from dipsmith.privacy.events import Measured, Partitioned
from dipsmith.privacy.gaussian_profile import concentrated_to_approx
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.protection import Label, Replace
from dipsmith.schema import Unit
from dipsmith.studio.meaning import meaning

ROW = Unit()
PERSON = Unit("employee_id", 4)
DIGEST = "d" * 64


EVERYTHING = Replace(ROW)
SEX = Label(ROW, ("sex",))


def ask(ledger, budget, request="r1", *, name="people", protects=EVERYTHING, method="flat", source=None, **more):
    return ledger.reserve(name, budget, protects=protects, source=source, request_id=request, method=method, **more)


def counts(budget, **more):
    return Measured(
        cells="age",
        size=4,
        mechanism="discrete Laplace",
        sensitivity=Fraction(2),
        scale=2 / budget.exact,
        budget=budget,
        **more,
    )


def fail_after(run, step=lambda: None, error=ZeroDivisionError):
    with run:
        step()
        raise error


def granted(folder):
    book = Ledger(folder / "budget.db")
    book.grant("people", PureDP(2), by="data office", why="pilot")
    return book


@pytest.fixture
def ledger(tmp_path):
    return granted(tmp_path)


def spent(ledger, name="people"):
    return Ledger(ledger.path).show(name).spent


# --- grants ---------------------------------------------------------------------------------------


def test_the_constructor_touches_nothing(tmp_path):
    Ledger(tmp_path / "no" / "such" / "folder" / "budget.db")
    assert list(tmp_path.iterdir()) == []


def test_grants_of_one_currency_add_up(ledger):
    ledger.grant("people", PureDP("0.5"))
    assert ledger.show("people").granted == 2.5
    with pytest.raises(BudgetError, match="one currency per dataset"):
        ledger.grant("people", ZCDP("0.5"))
    ledger.grant("others", ZCDP("0.5"))
    assert [s.name for s in ledger.show()] == ["others", "people"]


def test_who_and_why_are_kept(ledger, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ann")
    ledger.grant("people", PureDP(1))
    first, second = Ledger(ledger.path).show("people").grants
    assert (first.by, first.why) == ("data office", "pilot")
    assert (second.by, second.why) == ("ann", "")


def test_a_user_without_a_name_still_leaves_a_trace(ledger, monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(account_module.getpass, "getuser", unknown)
    ledger.grant("people", PureDP(1))
    assert ledger.show("people").grants[-1].by == f"uid {os.getuid()}"


@pytest.mark.parametrize("budget", [1, 0.5, "1", None, float("nan")])
def test_a_number_is_not_a_budget(ledger, budget):
    with pytest.raises(BudgetError, match="PureDP"):
        ledger.grant("people", budget)
    with pytest.raises(BudgetError, match="PureDP"):
        ask(ledger, budget)


@pytest.mark.parametrize("text", ["", "two\nlines", "bell\x07", "x" * 1001, "\udc80"])
def test_names_are_one_printable_line(ledger, text):
    with pytest.raises(UsageError):
        ledger.grant(text, PureDP(1))
    with pytest.raises(UsageError):
        ledger.look(text, "x")
    if text:
        with pytest.raises(UsageError):
            ask(ledger, PureDP(1), text)


# --- charges --------------------------------------------------------------------------------------


def test_a_charge_is_there_before_anything_is_read(ledger):
    ask(ledger, PureDP("0.75"))
    assert spent(ledger) == 0.75


def test_without_a_grant_nothing_is_spent(tmp_path, ledger):
    nowhere = Ledger(tmp_path / "new.db")
    with pytest.raises(BudgetError, match=r"dipsmith ledger grant people --ledger .*new\.db --epsilon 1$"):
        ask(nowhere, PureDP(1))
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(BudgetError, match="'others' has no grant"):
        ask(ledger, PureDP(1), name="others")
    ledger.look("others", "comparison")
    with pytest.raises(BudgetError, match="'others' has no grant"):
        ask(ledger, PureDP(1), name="others")


def test_a_grant_is_never_exceeded_and_the_refusal_says_what_to_do(ledger):
    ask(ledger, PureDP("1.25"))
    with pytest.raises(BudgetError) as refusal:
        ask(ledger, PureDP(1), "r2")
    assert str(refusal.value) == (
        "'people' was asked for ε = 1 but ε = 0.75 of ε = 2 is left; "
        f"to grant more: dipsmith ledger grant people --ledger {ledger.path} --epsilon 0.25"
    )
    ask(ledger, PureDP("0.75"), "r3")
    with pytest.raises(BudgetError, match="nothing of ε = 2 is left"):
        ask(ledger, PureDP("0.000000000001"), "r4")


def test_pure_epsilon_costs_pi_quarters_of_its_square_in_rho(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", ZCDP("0.1"))
    ask(book, PureDP("0.1"))
    assert book.show("people").spent_units == 7_853_982_301
    ask(book, PureDP("0.000000000001"), "r2")
    assert book.show("people").spent_units == 7_853_982_302, "a charge is rounded up"
    with pytest.raises(BudgetError, match=r"which costs ρ = 0\.785398230089, .*--rho 0\.693252212391$"):
        ask(book, PureDP(1), "r3")


def test_a_run_of_the_version_before_keeps_its_charge(tmp_path):
    """A pure run was charged ε²/2 in ρ, and its reservation did not say how it was priced."""
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", ZCDP("0.1"))
    ask(book, ZCDP("0.01"))
    with closing(sqlite3.connect(book.path)) as raw:
        rows = [(kind, json.loads(payload)) for kind, payload in raw.execute("SELECT kind, payload FROM entry")]
    (reserved,) = (content for kind, content in rows if kind == "reserved")
    assert reserved.pop("pricing") == "gaussian"
    before = reserved | {"request": "old", "budget": {"epsilon": UNITS // 10}, "charge": UNITS // 200}
    assert "(ε = 2.44 of 2.58 at" in str(book.show("people"))
    book._write(lambda books: [("reserved", before)])
    assert book.show("people").spent_units == UNITS // 100 + UNITS // 200
    # ρ was zero-concentrated then: it implies less.
    assert "of 2.72 at" in str(book.show("people"))
    together = meaning(book.show("people"), ZCDP("0.085"))["together"]
    assert together == concentrated_to_approx(0.1, 1e-9) > rho_to_approx("0.1", 1e-9)
    for unlawful in ({"pricing": "gaussian"}, {"charge": UNITS // 200 - 1}):
        with pytest.raises(DamageError, match="not the budget's price"):
            book._write(lambda books, more=unlawful: [("reserved", before | more | {"request": "forged"})])


def test_rho_is_refused_from_an_epsilon_grant(ledger):
    with pytest.raises(BudgetError, match="no price in pure ε"):
        ask(ledger, ZCDP("0.001"))
    assert spent(ledger) == 0


def test_relation_and_unit_are_fixed_by_the_first_spend(ledger):
    ask(ledger, PureDP("0.1"), protects=Label(PERSON, ("sex",)))
    with pytest.raises(BudgetError, match="neighbours 'label', got 'replace'"):
        ask(ledger, PureDP("0.1"), "r2", protects=Replace(PERSON))
    with pytest.raises(BudgetError, match="unit 'employee_id, at most 4 rows', got 'row'"):
        ask(ledger, PureDP("0.1"), "r2", protects=SEX)
    with pytest.raises(UsageError):
        ask(ledger, PureDP("0.1"), "r2", protects="bounded")
    assert spent(ledger) == 0.1


def test_a_cancelled_first_spend_fixes_nothing(ledger):
    ask(ledger, PureDP("0.1"), protects=Label(PERSON, ("sex",))).cancel()
    ask(ledger, PureDP("0.1"), "r2")
    assert ledger.show("people").relation == "replace"


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["keep", "cancel", "fail"])), max_size=12))
def test_no_sequence_of_spends_exceeds_the_grant(requests):
    book = Ledger(":memory:")
    book.grant("people", PureDP(1))
    model = 0
    for i, (percent, fate) in enumerate(requests):
        try:
            run = ask(book, PureDP(Fraction(percent, 100)), f"r{i}")
        except BudgetError:
            assert model + percent > 100
            continue
        assert model + percent <= 100
        if fate == "cancel":
            run.cancel()
            continue
        model += percent
        if fate == "fail":
            with pytest.raises(ZeroDivisionError):
                fail_after(run, run.read)
    assert book.show("people").spent_units == model * UNITS // 100
    assert book.verify().rows > 0


# --- a run's life ---------------------------------------------------------------------------------


def test_a_failure_before_reading_is_given_back(ledger):
    with pytest.raises(ZeroDivisionError):
        fail_after(ask(ledger, PureDP(1)))
    assert spent(ledger) == 0
    assert ledger.show("people").runs[0].state == "cancelled"


def test_a_failure_after_reading_keeps_the_charge(ledger):
    run = ask(ledger, PureDP(1))
    with pytest.raises(KeyboardInterrupt):
        fail_after(run, run.read, KeyboardInterrupt)
    assert spent(ledger) == 1
    assert ledger.show("people").runs[0].state == "failed"
    with pytest.raises(BudgetError, match="stays"):
        ledger.cancel("r1")


def test_a_block_that_ends_without_a_release_is_settled_as_well(ledger):
    with ask(ledger, PureDP("0.5")):
        pass
    with ask(ledger, PureDP("0.5"), "r2") as run:
        run.read()
    assert [r.state for r in ledger.show("people").runs] == ["cancelled", "failed"]
    assert spent(ledger) == 0.5


def test_events_are_kept_within_the_reservation(ledger):
    with ask(ledger, PureDP(1)) as run:
        run.record(counts(PureDP("0.6")))
        with pytest.raises(BudgetError, match=r"'age' asks for ε = 0\.6, but ε = 0\.4 of ε = 1 is left"):
            run.record(counts(PureDP("0.6")))
        run.record(Partitioned(attribute="year", rule="sum", budget=PureDP("0.4")))
        run.record(counts(PureDP("0.3"), block="year=1988"), counts(PureDP("0.1"), block="year=1996"))
        run.finish(DIGEST, "release")
    ledger.verify()


def test_recording_counts_as_reading(ledger):
    run = ask(ledger, PureDP(1))
    with pytest.raises(ZeroDivisionError):
        fail_after(run, lambda: run.record(counts(PureDP("0.6"))))
    assert spent(ledger) == 1


def test_a_settled_run_is_over(ledger):
    with ask(ledger, PureDP(1)) as run:
        run.read()
        run.finish(DIGEST, "release")
    for verb in (run.read, run.cancel, lambda: run.record(counts(PureDP("0.5")))):
        with pytest.raises(BudgetError):
            verb()
    cancelled = ask(ledger, PureDP(1), "r2")
    cancelled.cancel()
    for verb in (cancelled.read, cancelled.cancel, lambda: cancelled.finish(DIGEST, "x")):
        with pytest.raises(BudgetError):
            verb()


def test_a_release_may_be_saved_twice(ledger, tmp_path):
    with ask(ledger, PureDP(1)) as run:
        run.read()
        run.finish(DIGEST, tmp_path / "one")
    run.finish("e" * 64, tmp_path / "two")
    assert ledger.released("r1") == DIGEST
    assert ledger.issued("r1") == (DIGEST, "e" * 64)
    assert ledger.released("r2") is None
    with pytest.raises(AlreadyReleased) as earlier:
        ask(ledger, PureDP(1))
    assert (earlier.value.path, earlier.value.digest) == (str(tmp_path / "one"), DIGEST)
    assert earlier.value.exit_code == 4


def test_a_forked_child_cannot_use_its_parents_reservation(ledger):
    with ask(ledger, PureDP(1)) as run:
        child = os.fork()
        if child == 0:
            try:
                run.read()
            except UsageError:
                run.__exit__(None, None, None)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        run.read()
        run.finish(DIGEST, "release")
    assert [r.state for r in ledger.show("people").runs] == ["finished"]


# --- request ids ----------------------------------------------------------------------------------


def test_a_request_id_buys_one_run(ledger):
    with ask(ledger, PureDP(1)) as run:
        run.read()
        run.finish(DIGEST, "release")
    for _ in range(3):
        with pytest.raises(AlreadyReleased) as earlier:
            ask(Ledger(ledger.path), PureDP(1))
        assert earlier.value.path == str(Path("release").absolute())
    assert spent(ledger) == 1


@pytest.mark.parametrize("settled", [True, False])
def test_an_id_that_read_data_without_a_release_never_draws_again(ledger, settled):
    run = ask(ledger, PureDP("0.5"))
    run.read()
    if settled:
        run.__exit__(None, None, None)
    with pytest.raises(BudgetError, match="never draws again: use a new request id, which is a new charge"):
        ask(ledger, PureDP("0.5"))
    assert spent(ledger) == 0.5


def test_an_id_that_never_read_continues_without_a_second_charge(ledger):
    ask(ledger, PureDP("1.5"))
    with ask(Ledger(ledger.path), PureDP("1.5")) as again:
        again.read()
        again.finish(DIGEST, "release")
    assert spent(ledger) == 1.5


def test_only_one_holder_of_an_id_passes_the_gate(ledger):
    first, second = ask(ledger, PureDP(1)), ask(Ledger(ledger.path), PureDP(1))
    second.read()
    with pytest.raises(BudgetError, match="taken over"):
        first.read()
    with pytest.raises(BudgetError, match="stays"):
        first.cancel()
    second.finish(DIGEST, "release")
    assert spent(ledger) == 1


def test_a_cancelled_reservation_cannot_be_read(ledger):
    held = ask(ledger, PureDP(1))
    ledger.cancel("r1")
    other = ask(ledger, PureDP("1.5"))
    with pytest.raises(BudgetError, match="taken over or given back"):
        held.read()
    with pytest.raises(BudgetError, match="holds no reservation"):
        held.cancel()
    other.read()
    assert spent(ledger) == 1.5
    with pytest.raises(BudgetError, match="holds no reservation"):
        ledger.cancel("nobody")


@pytest.mark.parametrize(
    "change",
    [
        {"budget": PureDP("0.25")},
        {"name": "others"},
        {"protects": SEX},
        {"protects": Replace(PERSON)},
        {"method": "forest"},
    ],
)
def test_an_id_with_another_request_is_refused(ledger, change):
    ledger.grant("others", PureDP(2))
    ask(ledger, PureDP("0.5"))
    with pytest.raises(BudgetError, match="use a new request id"):
        ask(ledger, **{"budget": PureDP("0.5"), **change})
    assert spent(ledger) == 0.5


def test_an_id_is_drawn_when_none_is_given(ledger):
    ids = {ask(ledger, PureDP("0.1"), None).id for _ in range(5)}
    assert len(ids) == 5


# --- what people see ------------------------------------------------------------------------------


def test_looks_are_logged_and_counted(ledger, tmp_path):
    assert ledger.looks("people") == 0
    assert ledger.look("people", "comparison of release 1", by="ann") == 1
    assert ledger.look("people", "schema check") == 2
    assert Ledger(ledger.path).looks("people") == 2
    assert ledger.looks("others") == 0
    assert Ledger(tmp_path / "new.db").looks("people") == 0
    assert spent(ledger) == 0


def test_statements_read_well(ledger):
    ask(ledger, PureDP("0.75"), "<b>r1</b>")
    shown = ledger.show("people")
    first = "people: ε = 1.25 left of 2, neighbours replace, unit row, 0 confidential looks"
    assert str(shown).splitlines()[0] == first
    assert "by data office: pilot" in str(shown)
    assert "flat  reserved  request <b>r1</b>" in str(shown)
    html = ledger.show()._repr_html_()
    assert "&lt;b&gt;r1" in html
    assert "<b>r1" not in html
    facts = json.loads(json.dumps(shown.as_dict()))
    assert (facts["granted"], facts["spent"], facts["remaining"]) == (2.0, 0.75, 1.25)
    assert facts["runs"][0]["state"] == "reserved"
    with pytest.raises(BudgetError, match="it has: people"):
        ledger.show("others")


def test_an_approximate_grant_is_shown_as_it_was_stated(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.grant("people", ZCDP.from_approx(1, 1e-9))
    assert "ρ = 0.01656 (ε = 1, δ = 1e-09)" in str(book.show("people"))


def test_the_ledger_holds_nothing_but_what_it_was_told(ledger):
    """Every string in the file was given by the caller or is the ledger's own vocabulary."""
    with ask(ledger, PureDP(1)) as run:
        run.record(counts(PureDP(1)))
        run.finish(DIGEST, "release")
    with closing(sqlite3.connect(ledger.path)) as raw:
        payloads = [json.loads(p) for (p,) in raw.execute("SELECT payload FROM entry ORDER BY seq")]
    assert [sorted(p) for p in payloads] == [
        ["id"],
        ["budget", "by", "name", "stated", "why"],
        ["budget", "by", "charge", "method", "name", "relation", "request", "unit"],
        ["request"],
        ["events", "request"],
        ["digest", "path", "request"],
    ]


def test_threads_share_a_ledger(ledger):
    done, refused = [], []

    def spend(i):
        try:
            ask(ledger, PureDP("0.15"), f"t{i}")
            done.append(i)
        except BudgetError:
            refused.append(i)

    threads = [threading.Thread(target=spend, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(done), len(refused)) == (13, 7)
    assert spent(ledger) == 1.95


def test_no_row_tells_how_long_a_run_took(ledger, monkeypatch):
    """Reading takes longer the more rows there are, so nothing after the reservation may say when it happened."""

    class Later(chain.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2999, 1, 1, tzinfo=tz)

    failing = ask(ledger, PureDP("0.25"), "r2")
    with ask(ledger, PureDP("0.5")) as run:
        monkeypatch.setattr(chain, "datetime", Later)
        run.read()
        run.record(counts(PureDP("0.5")))
        run.finish(DIGEST, "release")
        run.finish(DIGEST, "copy")
        with pytest.raises(ZeroDivisionError):
            fail_after(failing, failing.read)
    with closing(sqlite3.connect(ledger.path)) as raw:
        rows = raw.execute("SELECT kind, time, payload FROM entry WHERE kind NOT IN ('opened', 'granted')")
        times = {(json.loads(payload)["request"], time) for _, time, payload in rows}
    assert times == {("r1", run.time), ("r2", failing.time)}
    assert not any(time.startswith("2999") for _, time in times)
    ledger.verify()


def test_time_may_go_back(ledger, monkeypatch):
    class Backwards(chain.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(1999, 1, 1, tzinfo=tz)

    monkeypatch.setattr(chain, "datetime", Backwards)
    ask(ledger, PureDP(1))
    ledger.verify()
    assert ledger.show("people").runs[0].time.startswith("1999")


# --- verification ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A ledger with a finished run, an unfinished one, a refund and a look."""
    ledger = granted(tmp_path_factory.mktemp("template"))
    with ask(ledger, PureDP("0.5"), "r1") as run:
        run.record(counts(PureDP("0.5")))
        run.finish(DIGEST, "release")
    ask(ledger, PureDP("0.25"), "r2").read()
    ask(ledger, PureDP("0.25"), "r3").cancel()
    ledger.look("people", "comparison")
    return ledger


@pytest.fixture
def used(template, tmp_path):
    shutil.copy(template.path, tmp_path / "budget.db")
    return Ledger(tmp_path / "budget.db")


def tamper(path, *statements):
    """Edit the file as an insider would: without the guards, which are put back afterwards."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA synchronous=OFF")
        guards = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(*statement)
        for _, sql in guards:
            raw.execute(sql)
        raw.commit()


def test_an_intact_ledger_is_verified(used):
    report = used.verify(cards=[used.head])
    assert report.head == used.head
    assert report.cards == 1
    assert str(report).startswith(f"ledger intact: {report.rows} rows, 1 card found in it, head ")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET payload = '{}'",
        "DELETE FROM entry",
        "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
        "INSERT OR REPLACE INTO entry SELECT 3, time, kind, payload, previous, 'x' FROM entry WHERE seq = 3",
        "REPLACE INTO entry SELECT seq, time, kind, '{}', previous, hash FROM entry WHERE seq = 3",
        "INSERT INTO entry VALUES (99, '', 'granted', '{}', '', 'x')",
    ],
)
def test_the_guards_refuse_changes(used, statement):
    with (
        closing(sqlite3.connect(used.path)) as raw,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        raw.execute(statement)
    used.verify()


ROWS = 11


@pytest.mark.parametrize("seq", range(1, ROWS))
@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE entry SET payload = replace(payload, '1', '2') || ' ' WHERE seq = :seq",
        "UPDATE entry SET kind = 'looked ' WHERE seq = :seq",
        "UPDATE entry SET time = '2000-01-01' WHERE seq = :seq",
        "UPDATE entry SET hash = replace(hash, substr(hash, 1, 1), 'g') WHERE seq = :seq",
        "UPDATE entry SET previous = hash WHERE seq = :seq",
        "UPDATE entry SET payload = x'00ff' WHERE seq = :seq",
        "UPDATE entry SET seq = 1000 WHERE seq = :seq",
        "DELETE FROM entry WHERE seq = :seq",
    ],
)
def test_edited_and_deleted_rows_are_detected(used, edit, seq):
    assert used.verify().rows == ROWS
    tamper(used.path, (edit, {"seq": seq}))
    for fresh in (Ledger(used.path), used):
        with pytest.raises(DamageError, match="row"):
            fresh.verify()
    with pytest.raises(DamageError):
        Ledger(used.path).show()
    with pytest.raises(DamageError):
        ask(Ledger(used.path), PureDP("0.1"), "r9")


@pytest.mark.parametrize("seq", range(1, ROWS))
def test_reordered_rows_are_detected(used, seq):
    tamper(
        used.path,
        ("UPDATE entry SET seq = 1000 WHERE seq = ?", (seq,)),
        ("UPDATE entry SET seq = ? WHERE seq = ?", (seq, seq + 1)),
        ("UPDATE entry SET seq = ? WHERE seq = 1000", (seq + 1,)),
    )
    with pytest.raises(DamageError, match="edited, deleted or reordered"):
        Ledger(used.path).verify()


def forge(path, forged):
    """Rewrite the whole file with a recomputed chain."""
    with closing(sqlite3.connect(path)) as raw:
        old = raw.execute("SELECT seq, kind, payload FROM entry ORDER BY seq").fetchall()
    rows = []
    for seq, kind, payload in old:
        rows.append(Row.after(rows[-1] if rows else None, kind, forged(seq, kind, json.loads(payload))))
    tamper(
        path,
        ("DELETE FROM entry",),
        *(
            (
                "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?)",
                (r.seq, r.time, r.kind, r.payload, r.previous, r.hash),
            )
            for r in rows
        ),
    )


def test_a_recomputed_chain_is_betrayed_by_a_card(used):
    head = used.head
    forge(used.path, lambda seq, kind, content: {**content, "by": "mallory"} if "by" in content else content)
    Ledger(used.path).verify()
    with pytest.raises(DamageError, match="rolled back"):
        Ledger(used.path).verify(cards=[head])


def test_a_rollback_is_betrayed_by_a_card(ledger, tmp_path):
    shutil.copy(ledger.path, tmp_path / "older.db")
    with ask(ledger, PureDP("0.5")) as run:
        run.record(counts(PureDP("0.5")))
        head = run.head
        run.finish(DIGEST, "release")
    ledger.verify(cards=[head])
    shutil.copy(tmp_path / "older.db", ledger.path)
    assert Ledger(ledger.path).verify().rows == 2, "by itself an older copy is a valid ledger"
    with pytest.raises(DamageError, match=f"does not contain head {head[:16]}"):
        Ledger(ledger.path).verify(cards=[head])
    with pytest.raises(DamageError, match="rolled back or replaced while in use"):
        ask(ledger, PureDP("0.5"), "r2")


def test_every_head_of_a_run_is_in_the_chain(ledger):
    heads = [ledger.head]
    with ask(ledger, PureDP("0.5")) as run:
        heads.append(run.head)
        run.read()
        heads.append(run.head)
        run.record(counts(PureDP("0.5")))
        heads.append(run.head)
        run.finish(DIGEST, "release")
        heads.append(run.head)
    assert len(set(heads)) == 5
    assert ledger.verify(cards=heads).cards == 5


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("reserved", {"budget": {"epsilon": 9 * UNITS}, "charge": 9 * UNITS}),
        ("reserved", {"charge": 1}),
        ("reserved", {"relation": "bounded"}),
        ("reserved", {"name": "others"}),
        ("reserved", {"request": "r1"}),
        ("reserved", {"unit": {"column": "x", "max_rows": 3, "per": None}}),
        ("granted", {"budget": {"epsilon": -UNITS}}),
        ("granted", {"budget": {"rho": UNITS}}),
        ("granted", {"budget": "much"}),
        ("cancelled", {"request": "r1"}),
        ("cancelled", {"request": "r2"}),
        ("cancelled", {"request": "r9"}),
        ("recorded", {"events": [{"event": "guessed"}]}),
        ("recorded", {"request": "r3"}),
    ],
)
def test_rows_that_could_not_lawfully_be_written_are_detected(used, kind, change):
    """Even where every hash is right: the last row of a kind is changed and the chain recomputed."""
    with closing(sqlite3.connect(used.path)) as raw:
        ((target,),) = raw.execute("SELECT max(seq) FROM entry WHERE kind = ?", (kind,))
    forge(used.path, lambda seq, _, content: {**content, **change} if seq == target else content)
    with pytest.raises(DamageError):
        Ledger(used.path).verify()


def test_events_beyond_their_reservation_are_detected(used):
    def doubled(seq, kind, content):
        return {**content, "events": content["events"] * 2} if kind == "recorded" else content

    forge(used.path, doubled)
    with pytest.raises(DamageError, match="exceed their reservation"):
        Ledger(used.path).verify()


def test_removed_guards_are_detected(used):
    with closing(sqlite3.connect(used.path)) as raw:
        raw.execute("DROP TRIGGER entry_is_never_deleted")
        raw.commit()
    with pytest.raises(DamageError, match="guards"):
        used.verify()


# --- backup ---------------------------------------------------------------------------------------


def test_a_backup_is_the_whole_ledger(used, tmp_path):
    used.backup(tmp_path / "copy.db")
    copy = Ledger(tmp_path / "copy.db")
    assert copy.verify(cards=[used.head]) == used.verify(cards=[used.head])
    assert copy.show("people") == used.show("people")
    ask(copy, PureDP("0.1"), "r9")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.db", "copy.db"]


def test_a_backup_is_made_under_a_name_that_nobody_foretells(used, tmp_path, monkeypatch):
    seen = []

    def watched(source, target):
        seen.append((target.name, target.stat().st_mode & 0o777))
        return copied(source, target)

    copied = chain._copy
    monkeypatch.setattr(chain, "_copy", watched)
    for i in range(2):
        used.backup(tmp_path / f"copy{i}.db")
    assert [mode for _, mode in seen] == [0o600, 0o600]
    assert str(os.getpid()) not in "".join(re.sub(r"copy\d", "", name) for name, _ in seen)
    assert seen[0][0].replace("copy0", "") != seen[1][0].replace("copy1", "")
    assert (tmp_path / "copy0.db").stat().st_mode & 0o777 == 0o600


def test_a_backup_never_overwrites(used, tmp_path):
    (tmp_path / "copy.db").write_text("precious")
    for target in (tmp_path / "copy.db", used.path):
        with pytest.raises(OutputError, match="exists already"):
            used.backup(target)
    with pytest.raises(OutputError, match="does not exist"):
        used.backup(tmp_path / "no" / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_damaged_ledger_is_not_backed_up(used, tmp_path):
    tamper(used.path, ("UPDATE entry SET payload = '{}' WHERE seq = 3",))
    with pytest.raises(DamageError):
        Ledger(used.path).backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_missing_ledger_cannot_be_shown(tmp_path):
    nowhere = Ledger(tmp_path / "new.db")
    for verb in (
        nowhere.show,
        nowhere.verify,
        lambda: nowhere.head,
        lambda: nowhere.backup(tmp_path / "copy.db"),
        lambda: nowhere.released("r1"),
    ):
        with pytest.raises(InputError, match="no such file"):
            verb()
    assert list(tmp_path.iterdir()) == []


def test_a_grant_that_nothing_was_spent_from_can_be_withdrawn(tmp_path):
    ledger = Ledger(tmp_path / "b.db")
    ledger.grant("people", PureDP(2))
    ledger.withdraw("people", by="ann", why="meant ρ")
    with pytest.raises(BudgetError, match="no grant to withdraw"):
        ledger.withdraw("people")
    ledger.grant("people", ZCDP("0.02"))
    assert "at δ = 1e-09" in str(ledger.show("people"))
    assert ledger.verify().rows == 4
    with ledger.reserve("people", ZCDP("0.01"), protects=Replace(Unit()), source=None, method="flat") as run:
        run.read()
    with pytest.raises(BudgetError, match="has spent"):
        ledger.withdraw("people")
    with pytest.raises(BudgetError, match="no grant to withdraw"):
        ledger.withdraw("nobody")
