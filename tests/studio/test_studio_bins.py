"""Bins that a plan proposes stand beside what they would mend, and one click takes them into the schema."""

import yaml
from test_studio_browser import fresh, serious

WIDE = """\
name: people
unit: row
neighbours: add-remove
fields:
- {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
- {name: sex, type: string, enum: [F, M], other: M}
- {name: id, type: integer, minimum: 0, maximum: 9999, bins: {count: 5000}}
"""


def test_a_plan_has_the_bins_that_the_command_line_prints(shared):
    project = shared.project(schema=WIDE, grant=None)
    found = shared.choose(project, method="mst", amount="1", rows=20_000)
    (proposal,) = [b for b in found["bins"] if b["column"] == "id"]
    assert proposal["now"] == 5000
    assert proposal["count"] < 200
    assert "drowns what finer bins tell" in proposal["reason"]
    with_formula = shared.choose(project, method="mst", amount="1", rows=20_000, analyses=["id ~ sex"])
    (asked,) = [b for b in with_formula["bins"] if b["column"] == "id"]
    assert asked["reason"].startswith("'id ~ sex' uses it as a number: ")
    assert shared.choose(project, method="mst", amount="1", rows=None)["bins"] == [], "without rows nothing is known"
    shared.ask("POST", f"/api/p/{project}/schema/bins", {"column": "nobody", "bins": {"width": 1}}, expect=400)


def test_one_click_takes_them_to_the_schema_page(studio, people, visit, tmp_path):
    people(tmp_path)
    here = studio("--grace", "0")
    project = here.project(schema=WIDE)
    here.choose(project, method="mst", amount="1", rows=20_000)
    page = visit()
    fresh(here, page)
    page.goto(f"{here.origin}/p/{project}/plan")
    page.click("#bins-say:has-text('Other bins would suit')", timeout=20_000)
    page.wait_for_selector("#bins td:has-text('drowns')")
    assert serious(page) == []
    for width in (360, 800, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    page.click("button[aria-label='Cut id so']")
    page.wait_for_selector("#editor-title:has-text('id')")
    assert page.url.endswith("/schema#id")
    assert page.evaluate("document.activeElement.id") == "f-cut"
    fields = {f["name"]: f for f in yaml.safe_load(here.client.get(f"/p/{project}/schema.yaml").text)["fields"]}
    assert "count" not in fields["id"]["bins"]
    page.goto(f"{here.origin}/p/{project}/plan")
    page.wait_for_selector("html[data-drawn]")
    assert page.is_hidden("button[aria-label='Cut id so']")
