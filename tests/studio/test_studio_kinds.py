"""Panels, survey weights and households in the studio: what goes from a file to its comparison, and what is refused."""

import json
import random
import uuid

import pytest
from test_studio_browser import fresh, serious

from dipsmith.examples import households, personnel
from dipsmith.schema.markup import render
from dipsmith.synthesis.release import Release

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


def test_households_are_refused_where_their_schema_was_chosen(shared, visit):
    """Two tables: the page says so in its own words, and has the command for both; no members' file is looked for."""
    made = shared.ask("POST", "/api/projects", {"data": "people.csv"})["project"]
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{made}/schema")
    file = {
        "name": "homes.yaml",
        "mimeType": "application/yaml",
        "buffer": render(households.schema().to_dict()).encode(),
    }
    page.set_input_files("#yaml-file", file)
    page.wait_for_selector("#progress:has-text('this schema has two, households and their members')")
    page.wait_for_selector("#command:has-text('--members FILE')")
    assert page.is_hidden("#next")
    for members in ("/etc/passwd", "../persons.yaml"):
        found = shared.ask("POST", f"/api/p/{made}/schema/import", {"text": f"fields: []\nmembers: {members}\n"})
        assert "makes one table" in found["report"]["problem"]
