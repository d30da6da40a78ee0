"""A schema learned privately on the Schema page: priced, charged, watched, and opened as a draft."""

import random
import time
import uuid

import pytest
import yaml
from test_studio_browser import fresh, serious

from dipsmith.privacy.ledger import Ledger

TERMS = {"unit": "row", "neighbours": "add-remove"}


def write_table(folder, rows=3000) -> None:
    draw = random.Random(5)
    lines = ["person,age,pay,region,note"]
    lines += [
        f"{i},{draw.randint(17, 90)},{draw.lognormvariate(7, 1):.2f},{draw.choice('NESW')},remark {i}"
        for i in range(rows)
    ]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


def begin(here, grant="2", terms=TERMS) -> str:
    """A project whose identifier is left out, with its terms and a grant."""
    project = here.ask("POST", "/api/projects", {"data": "table.csv"})["project"]
    fields = [{"name": n, "role": "private"} for n in ("age", "pay", "region", "note")]
    here.ask(
        "POST", f"/api/p/{project}/schema", {"revision": 1, "document": {"name": "table", **terms, "fields": fields}}
    )
    if grant:
        here.ask("POST", "/api/grant", {"name": "table", "currency": "epsilon", "amount": grant})
    return project


def learned(here, project, **asked) -> dict:
    body = {"request": uuid.uuid4().hex, "epsilon": "1", "delta": "1e-6", **asked}
    job = here.ask("POST", f"/api/p/{project}/learn", body)["job"]
    end = time.monotonic() + 120
    while time.monotonic() < end:
        (found,) = here.ask("GET", f"/api/p/{project}/learn")["jobs"]
        if found["status"] in ("finished", "failed"):
            return found | {"id": job}
        time.sleep(0.1)
    raise AssertionError(f"still {found}")


def take(here, project, job, revision) -> dict:
    return here.ask("POST", f"/api/p/{project}/learn/take", {"job": job["id"], "revision": revision})


def test_what_is_learned_is_priced_charged_once_and_fills_the_draft(studio, tmp_path):
    write_table(tmp_path)
    here = studio("--grace", "0")
    project = begin(here)
    told = here.ask("POST", f"/api/p/{project}/learn/price", {"epsilon": "1", "delta": "1e-6"})
    assert told["columns"] == ["age", "pay", "region", "note"], "the identifier is left out, and costs nothing"
    assert told["spending"]["sentence"].startswith("Learning 4 columns spends ε = 1 of the ε = 2 granted to 'table'")
    assert told["hides"].startswith("Noise will hide about 396 rows in each column")
    assert told["advice"].startswith(
        "Noise hides about 3 times more than the same ε and δ would from a grant in “ε with δ”"
    )
    ledger = Ledger(tmp_path / "budget.db")
    assert ledger.show("table").spent == 0, "a price is not a charge"

    job = learned(here, project)
    assert job["status"] == "finished", job
    (run,) = ledger.show("table").runs
    assert (run.method, run.state, ledger.show("table").spent) == ("schema learn", "finished", 1)
    found = take(here, project, job, 2)
    fields = {f["name"]: f for f in found["document"]["fields"]}
    assert fields["age"]["type"] == "integer"
    assert set("NESW") <= set(fields["region"]["enum"])
    assert fields["note"] == {"name": "note", "role": "private"}
    assert found["unsaid"] == ["note"], "no text is frequent there"
    assert found["document"]["provenance"] == "learned, ε = 1, δ = 1e-06"
    assert here.ask("GET", f"/api/p/{project}/learn")["jobs"] == [], "taken once"
    assert yaml.safe_load((tmp_path / found["file"]).read_text())["provenance"] == "learned, ε = 1, δ = 1e-06"

    # A column that is complete is not learned again; what was learned before stays said.
    told = here.ask("POST", f"/api/p/{project}/learn/price", {"epsilon": "0.1", "delta": ""})
    assert told["columns"] == ["note"]
    assert told["advice"] == "", "without δ there is nothing to compare"
    job = learned(here, project, epsilon="0.1", delta="")
    after = take(here, project, job, 3)["document"]
    assert after["provenance"] == "learned, ε = 0.1; other columns learned, ε = 1, δ = 1e-06"
    assert {f["name"]: f for f in after["fields"]}["age"] == fields["age"]


def test_what_was_written_meanwhile_is_kept(studio, tmp_path):
    write_table(tmp_path)
    here = studio("--grace", "0")
    project = begin(here)
    job = learned(here, project, delta="")
    mine = {"name": "age", "role": "private", "type": "integer", "minimum": 0, "maximum": 120}
    document = {
        "name": "table",
        **TERMS,
        "provenance": "data-derived",
        "fields": [mine, {"name": "pay", "role": "private"}],
    }
    here.ask("POST", f"/api/p/{project}/schema", {"revision": 2, "document": document})
    here.ask("POST", f"/api/p/{project}/learn/take", {"job": job["id"], "revision": 2}, expect=400)
    found = take(here, project, job, 3)["document"]
    assert [f["name"] for f in found["fields"]] == ["age", "pay"]
    assert found["fields"][0] == mine
    assert found["fields"][1]["type"] == "number"
    assert found["provenance"] == "data-derived", "what nothing protects is not called learned"


@pytest.mark.parametrize(
    ("asked", "terms", "words"),
    [
        ({"epsilon": "many"}, TERMS, "many"),
        ({"delta": "two"}, TERMS, "δ must lie between 0 and 1"),
        ({}, {"unit": "row"}, "say first what is protected"),
        ({}, {"unit": {"column": "person", "max_rows": "x"}, "neighbours": "replace"}, "at most, above"),
        ({}, {"unit": {"column": "person", "max_rows": "²"}, "neighbours": "replace"}, "at most, above"),
        ({}, {"unit": {"max_rows": 2}, "neighbours": "replace"}, "say whose rows"),
        ({}, {"unit": "person", "neighbours": "replace"}, "say whose rows"),
        ({}, {"unit": "household", "neighbours": "replace"}, "by hand"),
        ({}, {"unit": {"column": "person", "max_rows": 2, "per": "age"}, "neighbours": "replace"}, "unit per column"),
        ({"epsilon": "99"}, TERMS, "grant more on the Ledger page"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_the_pages_own_words(shared, asked, terms, words):
    write_table(shared.folder, 50)
    project = begin(shared, "2", terms)
    body = {"request": uuid.uuid4().hex, "epsilon": "1", "delta": "1e-6", **asked}
    headers = {"Origin": shared.origin}
    refused = shared.client.post(f"/api/p/{project}/learn", json=body, headers=headers)
    assert refused.status_code in (400, 409, 422), refused.text
    assert words in refused.json()["error"]
    assert "--" not in refused.json()["error"]
    assert shared.ask("GET", f"/api/p/{project}/learn")["jobs"] == []


def test_the_schema_page_learns_and_opens_the_draft(studio, visit, tmp_path):
    write_table(tmp_path)
    here = studio("--grace", "0")
    project = begin(here, None, {})
    page = visit()
    fresh(here, page)
    page.goto(f"{here.origin}/p/{project}/schema")
    assert "Only the header of table.csv was read" in page.inner_text("#origin")
    page.click("#learn-title")
    page.wait_for_selector("#learn-says:has-text('Say first what is protected')")
    page.check("input[name=neighbours][value=add-remove]")
    page.check("input[name=unit][value=row]")
    page.wait_for_selector("#learn-sentence.error:has-text('Nothing is granted to')")
    assert page.is_visible("#learn-grant")
    page.check("#learn-sure")
    assert page.is_disabled("#learn-start"), "nothing can be spent that was not granted"
    assert serious(page) == []
    here.ask("POST", "/api/grant", {"name": "table", "currency": "epsilon", "amount": "2"})
    page.fill("#learn-epsilon", "1.5")
    page.wait_for_selector("#learn-sentence:not(.error):has-text('ε = 0.5 remains')")
    page.fill("#learn-delta", "1e-6")
    page.wait_for_selector("#learn-start:enabled")
    for width in (360, 800, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    page.click("#learn-start")
    page.wait_for_selector("#says:has-text('Left to you')")
    assert "note" in page.inner_text("#says")
    assert page.locator("tr[data-name=age] td:nth-child(5)").inner_text() != "–"
    assert "learned from the rows with noise (ε = 1.5, δ = 1e-06)" in page.inner_text("#origin")
    assert serious(page) == []
    # It is kept, and the page that is opened again says so.
    page.goto(f"{here.origin}/p/{project}/schema")
    page.wait_for_selector("#origin:has-text('learned from the rows')")
    page.click("tr[data-name=note] td:nth-child(2)")
    page.click("#f-drop")
    page.wait_for_selector("#onward:visible")
    page.wait_for_selector("#learn-box", state="hidden")


def test_what_is_left_open_is_not_listed_in_full(studio, visit, tmp_path):
    """Of sixty columns a list would push the page away; an empty list of jobs says nothing."""
    names = [f"note_{i}" for i in range(9)]
    rows = [",".join(f"{name} of {i}" for name in names) for i in range(40)]
    (tmp_path / "table.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    here = studio("--grace", "0")
    project = here.ask("POST", "/api/projects", {"data": "table.csv"})["project"]
    fields = [{"name": n, "role": "private"} for n in names]
    document = {"name": "table", **TERMS, "fields": fields}
    here.ask("POST", f"/api/p/{project}/schema", {"revision": 1, "document": document})
    here.ask("POST", "/api/grant", {"name": "table", "currency": "epsilon", "amount": "2"})
    page = visit()
    fresh(here, page)
    page.goto(f"{here.origin}/p/{project}/schema")
    page.click("#learn-title")
    page.wait_for_selector("#learn-hides:has-text('next to nothing is learned for it')")
    assert "about 9,640 rows in each column" in page.inner_text("#learn-hides")
    page.check("#learn-sure")
    page.click("#learn-start")
    page.wait_for_selector("#says:has-text('and 3 more')")
    assert page.is_hidden("#job-list")
