"""Panels, survey weights and households in the studio: from their files to their comparison."""

import json
import random
import re
import uuid
from itertools import pairwise

import pytest
from test_studio_browser import fresh, serious

from dipsmith.examples import households, personnel
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.schema.markup import parse, render
from dipsmith.studio.choices import methods_for
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.verify import verify

WEIGHTED = """
name: weighted
unit: row
neighbours: add-remove
fields:
- {name: sex, type: string, enum: [F, M], other: M}
- {name: region, type: string, enum: [n, s], other: s}
- {name: w, type: number, minimum: 2, maximum: 30, role: weight}
"""


def put_weighted(folder) -> str:
    draw = random.Random(7)
    lines = [
        "sex,region,w",
        *(f"{draw.choice('FM')},{draw.choice('ns')},{draw.uniform(2, 30):.2f}" for _ in range(500)),
    ]
    (folder / "weighted.csv").write_text("\n".join(lines) + "\n")
    return WEIGHTED


def put_panel(folder) -> str:
    personnel.write_panel(folder, rows_per_year=150, years=range(2008, 2011), seed=7)
    return (folder / "panel.yaml").read_text()


def test_fixed_columns_and_weights_are_complete(shared):
    """What a column may be within its unit, or beside others, is no fault of the column by itself."""
    text = put_panel(shared.folder)
    made = shared.ask("POST", "/api/projects", {"data": "panel.parquet"})["project"]
    address = f"/api/p/{made}/schema/import"
    for whole in (text, WEIGHTED):
        found = shared.ask("POST", address, {"text": whole})["report"]
        assert [c["error"] for c in found["columns"]] == [""] * len(found["columns"])
        assert found["share"] == 1
    assert "fixed" in shared.ask("POST", address, {"text": text.replace(", order: year", "")})["report"]["problem"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "put", "method"), [("weighted.csv", put_weighted, "mst"), ("panel.parquet", put_panel, "aim")]
)
def test_from_a_file_to_its_comparison(studio, visit, tmp_path, file, put, method):
    schema = put(tmp_path)
    running = studio("--grace", "0")
    project = running.project(file, schema, "4")
    page = visit(1280, 900)
    fresh(running, page)
    # The page that edits a schema keeps what it has no field for, and offers what these tables need.
    page.goto(f"{running.origin}/p/{project}/schema")
    page.wait_for_selector("#progress:has-text('Complete')")
    if method == "aim":
        assert page.input_value("#unit-order") == "year"
        page.click("tr[data-name=pay] td:nth-child(2)")
        page.fill("#f-title", "basic pay")
        page.wait_for_timeout(1000)
        page.click("tr[data-name=sex] td:nth-child(2)")
        assert page.is_checked("#f-fixed")
        page.select_option("#unit-order", "")
        page.wait_for_timeout(1000)
        page.select_option("#unit-order", "year")
        page.wait_for_timeout(1000)
        held = json.loads((tmp_path / ".dipsmith-studio" / "projects" / f"{project}.json").read_text())["document"]
        assert held["unit"]["order"] == "year"
        pay = next(f for f in held["fields"] if f["name"] == "pay")
        assert (pay["title"], pay["bins"]["law"], len(pay["bins"]["edges"])) == ("basic pay", "log", 32)
    else:
        page.click("tr[data-name=w] td:nth-child(2)")
        assert page.input_value("#f-role") == "weight"
    assert serious(page) == []
    # planned, run and compared
    page.goto(f"{running.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td")
    running.choose(project, method=method, amount="2", rows=None)
    job = running.start(project, uuid.uuid4().hex)
    done = running.wait(project, job, "finished", "failed")
    assert done["status"] == "finished", done
    release = Release.load(next((tmp_path / "releases").iterdir()))
    if method == "aim":
        assert "employee_id" in release.tables[0].column_names, "rows of one person are linked by a new number"
    page.goto(f"{running.origin}/p/{project}/compare")
    for name in ("interactions", "cart", "boosting"):
        page.uncheck(f"input[name=classifier][value={name}]")
    page.click("#look")
    page.wait_for_selector("#pick button", timeout=240_000)
    assert page.locator("#verdict p").count()
    page.wait_for_selector("#shown table, #shown svg")
    assert serious(page) == []


@pytest.mark.slow
def test_households_and_their_members_from_two_files_to_their_comparison(studio, visit, tmp_path):
    """Each table is a project with its own schema; the households name the project of their members."""
    households.write(tmp_path, 800, seed=7)
    described = households.schema().to_dict()
    people = {**described.pop("members"), "unit": "row", "neighbours": "add-remove"}
    own = {name: described[name] for name in ("name", "neighbours", "fields")}
    running = studio("--grace", "0")
    running.project("persons.parquet", render(people), None)
    project = running.project("households.parquet", render({**own, "unit": "row"}), "4")
    page = visit(1280, 900)
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/schema")
    page.wait_for_selector("#progress:has-text('Complete')")
    page.check("input[name=unit][value=household]")
    page.wait_for_selector("#home-key:visible")
    assert (page.input_value("#home-project"), page.input_value("#home-key")) == ("persons", "hid")
    page.select_option("#home-order", "relation")
    page.wait_for_selector("#apart:has-text('hid')")
    page.wait_for_selector("#progress:has-text('Complete: 3 columns')")
    page.wait_for_timeout(500)
    held = json.loads((tmp_path / ".dipsmith-studio" / "projects" / f"{project}.json").read_text())["document"]
    assert held["members"] == {"project": "persons"}
    assert Schema.from_dict(parse(running.client.get(f"/p/{project}/schema.yaml").text)) == households.schema()
    assert serious(page) == []
    # back to rows and forth again: the key is a column to describe in between
    page.check("input[name=unit][value=row]")
    page.wait_for_selector("tr[data-name=hid]")
    page.check("input[name=unit][value=household]")
    page.wait_for_selector("tr[data-name=hid]", state="detached")
    page.select_option("#home-order", "relation")
    page.wait_for_selector("#progress:has-text('Complete: 3 columns')")
    page.wait_for_timeout(500)
    # planned with what makes households, run, both tables shown, compared
    page.goto(f"{running.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td", state="attached")
    assert page.locator("input[name=method]").count() == len(methods_for("add-remove", households=True))
    assert page.is_hidden("#trade")
    running.choose(project, method="aim", amount="2", rows=800)
    page.reload()
    page.wait_for_selector("#errors td, #columns td")
    page.goto(f"{running.origin}/p/{project}/run")
    page.wait_for_selector("dd:has-text('its members in persons.parquet')")
    page.wait_for_selector("#command:has-text('--members persons.parquet')")
    job = running.start(project, uuid.uuid4().hex)
    done = running.wait(project, job, "finished", "failed")
    assert done["status"] == "finished", done
    release = Release.load(next((tmp_path / "releases").iterdir()))
    page.goto(f"{running.origin}/p/{project}/release")
    page.wait_for_selector("#rows caption:has-text('households: first rows')")
    page.wait_for_selector("#rows-2 caption:has-text('persons: first rows')")
    page.wait_for_selector("#first-picture figure svg", timeout=120_000)
    assert page.locator("#report-here :text('persons')").count()
    assert serious(page) == []
    shown = Ledger(tmp_path / "budget.db").show("households")
    assert shown.spent == 2
    assert verify(release.folder, Ledger(tmp_path / "budget.db")).files
    page.goto(f"{running.origin}/p/{project}/compare")
    for name in ("interactions", "cart", "boosting"):
        page.uncheck(f"input[name=classifier][value={name}]")
    page.click("#look")
    page.wait_for_selector("#pick button", timeout=240_000)
    page.wait_for_selector("#shown table, #shown svg")
    told = [re.search(r"TVD ([.\d]+); chance ([.\d]+)", t) for t in page.locator("#pick span").all_inner_texts()]
    beyond = [float(t[1]) - float(t[2]) for t in told]
    assert len(beyond) == 8
    assert all(a >= b - 0.0011 for a, b in pairwise(beyond)), "members' columns too"
    assert "of 5 columns are farther off than chance" in page.inner_text(".verdict.big")
    page.click("#scores > summary")
    page.wait_for_selector(".report h2:has-text('Households')")
    assert serious(page) == []
    script = running.client.get(f"/p/{project}/script.py").text
    assert script.count("members='persons.parquet',") == 2


def test_members_are_chosen_on_the_page_and_no_file_is_looked_for(shared):
    """A schema file with members brings their description; which table they are in is chosen among the projects."""
    households.write(shared.folder, 20, seed=7)
    made = shared.ask("POST", "/api/projects", {"data": "households.parquet"})["project"]
    text = (shared.folder / "households.yaml").read_text()
    address = f"/api/p/{made}/schema/import"
    assert "begin with that file on the first page" in shared.ask("POST", address, {"text": text})["report"]["problem"]
    for members in ("/etc/passwd", "../persons.yaml", "{project: nobody}"):
        found = shared.ask("POST", address, {"text": f"fields: []\nmembers: {members}\n"})
        assert "then choose it here" in found["report"]["problem"]
    people = shared.ask("POST", "/api/projects", {"data": "persons.parquet"})["project"]
    found = shared.ask("POST", address, {"text": text})
    assert found["document"]["members"]["project"] == people
    assert found["report"]["ready"], found["report"]
    single = shared.ask("POST", address, {"text": text.replace("unit: household", "unit: person")})
    assert single["report"]["ready"], single["report"]
    # a code list of a member is a public file of the workspace, or refused
    bad = text.replace("enum: [F, M]", "enum: ../../etc/passwd")
    assert not shared.ask("POST", address, {"text": bad})["report"]["ready"]
