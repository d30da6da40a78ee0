"""The first page and the ledger page: practice on invented people, entries with what was left, a picture, CSV."""

import csv
import io
from xml.etree import ElementTree as ET

from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.protection import Replace
from dipsmith.schema.schema import Unit
from dipsmith.studio import accounts
from dipsmith.studio.budget_bar import held_units


def book(path):
    """Granted 2, spent 0.5, a run of 0.3 cancelled, granted 1 more, 0.25 held."""
    ledger = Ledger(path)
    ledger.grant("people", PureDP(2), by="the office", why="=1+1")
    for request, amount in (("a" * 32, "0.5"), ("b" * 32, "0.3")):
        ledger.reserve(
            "people", PureDP(amount), protects=Replace(Unit()), source=None, request_id=request, method="counts"
        )
    ledger.cancel("b" * 32)
    ledger.grant("people", PureDP(1), by="the office", why="second year")
    ledger.reserve(
        "people", PureDP("0.25"), protects=Replace(Unit()), source=None, request_id="c" * 32, method="counts"
    )
    return ledger.show("people")


def test_entries_add_up_to_the_balance(tmp_path):
    statement = book(tmp_path / "budget.db")
    found = accounts.entries(statement)
    assert [(e.kind, e.left / 1e12) for e in found] == [
        ("grant", 2),
        ("run", 1.5),
        ("run", 1.5),
        ("grant", 2.5),
        ("run", 2.25),
    ]
    assert found[-1].left == statement.remaining_units
    drawn = ET.fromstring(accounts.burn_down(statement, found))
    marks = [(m.tag, m.get("class")) for m in drawn if m.get("class") in ("granted", "spent", "held")]
    # a cancelled run took nothing and is not drawn; what nobody has read yet is held
    assert [kind for _, kind in marks].count("granted") == 2
    assert [kind for tag, kind in marks if tag == "circle"] == ["held", "held"]
    assert drawn.get("aria-label").endswith("spent 0.25, left 2.25")
    assert accounts.burn_down(statement, []) == ""


def test_entries_are_told_in_words(tmp_path):
    """What is held is not called spent, what was given back took nothing, and an answer is no run."""
    ledger_file = tmp_path / "budget.db"
    book(ledger_file)
    ledger = Ledger(ledger_file)
    for request, method in (("d" * 32, "confirm"), ("e" * 32, "schema learn"), ("f" * 32, "count")):
        ledger.reserve(
            "people", PureDP("0.1"), protects=Replace(Unit()), source=None, request_id=request, method=method
        ).read()
    statement = ledger.show("people")
    told = [(e.shown_kind, e.shown_state) for e in accounts.entries(statement)]
    assert sorted(told, key=str) == sorted(
        [
            *[("grant", "")] * 2,
            ("run", "held"),
            ("run", "cancelled, 0.3 given back"),
            ("run", "held"),
            *[(kind, "rows read") for kind in ("answer", "learning", "count")],
        ],
        key=str,
    )
    assert held_units(statement) == 75 * 10**10


def test_csv_holds_every_entry_and_no_formula(tmp_path):
    rows = list(csv.DictReader(io.StringIO(accounts.as_csv([book(tmp_path / "budget.db")]))))
    assert [(r["entry"], r["amount"], r["left"], r["state"]) for r in rows] == [
        ("grant", "2", "2", ""),
        ("run", "0.5", "1.5", "reserved"),
        ("run", "0", "1.5", "cancelled"),
        ("grant", "1", "2.5", ""),
        ("run", "0.25", "2.25", "reserved"),
    ]
    assert rows[0]["what"] == "'=1+1"
    assert rows[3]["by"] == "the office"


def test_practice_is_ready_and_touches_no_other_ledger(studio, people, tmp_path):
    people(tmp_path)
    running = studio("--grace", "0")
    first = running.client.get("/").text
    assert "<h2>Plan and budget</h2>" in first
    assert str(tmp_path) not in first.split("Begin with a file")[0], "no path is the headline"
    made = running.ask("POST", "/api/practice")["project"]
    assert running.ask("POST", "/api/practice")["project"] == made
    assert not (tmp_path / "budget.db").exists()
    page = running.client.get(f"/p/{made}/ledger").text
    assert "3</b> left" in page
    assert "practice on invented people" in page
    running.choose(made, method="loglinear", amount="0.5", rows=None)
    job = running.start(made, "d" * 32)
    assert running.wait(made, job, "finished", "failed")["status"] == "finished"
    own = Ledger(tmp_path / "invented-people" / "budget.db")
    assert (own.show("personnel").spent, own.show("personnel").runs[0].state) == (0.5, "finished")
    assert not (tmp_path / "budget.db").exists()
    assert running.client.get(f"/p/{made}/release").status_code == 200
    # a grant goes to the project's own ledger, a grant on the other page to the workspace's
    running.ask("POST", f"/api/p/{made}/grant", {"currency": "epsilon", "amount": "1"})
    assert own.show("personnel").granted == 4
    running.ask("POST", "/api/grant", {"name": "personnel", "currency": "epsilon", "amount": "1"})
    assert Ledger(tmp_path / "budget.db").show("personnel").spent == 0
    told = running.client.get(f"/p/{made}/ledger.csv").text
    assert told.count("\n") == 4
    assert running.client.get("/ledger.csv").text.count("\n") == 2
