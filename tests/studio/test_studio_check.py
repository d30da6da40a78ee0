"""Cells that the schema does not hold: counted in one click, confidential and logged; and how cells are written."""

import time

import yaml
from test_studio_browser import fresh, serious

from dipsmith.privacy.ledger import Ledger

ODD = """\
name: odd
unit: row
neighbours: replace
fields:
- {name: pay, type: number, minimum: 0, maximum: 5000, bins: {width: 500}, missing: true}
- {name: born, type: date, minimum: '1950-01-01', maximum: '2009-12-31', bins: {width: year}}
- {name: sex, type: string, enum: [F, M], other: M}
"""


def write_odd(folder) -> None:
    lines = ["pay,born,sex"]
    lines += [
        f'"${1000 + 37 * i % 3000:,}.50",{1 + i % 28:02}/{1 + i % 12:02}/{1950 + i % 60},{"X" if i < 3 else "FM"[i % 2]}'
        for i in range(200)
    ]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")


def counted(studio, project) -> dict:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        told = studio.ask("GET", f"/api/p/{project}/check")
        if told["result"]:
            return told["result"]
        assert told["jobs"][0]["status"] in ("waiting", "running"), told
        time.sleep(0.1)
    raise AssertionError("still counting")


def test_a_check_is_logged_counted_and_asked_for_before_a_run(studio, tmp_path):
    write_odd(tmp_path)
    here = studio("--grace", "0")
    project = here.project("odd.csv", ODD)
    here.choose(project, method="mst", amount="0.5", rows=None)
    unasked = here.client.get(f"/p/{project}/run").text
    assert 'id="unchecked"' in unasked
    assert here.ask("GET", f"/api/p/{project}/check") == {"jobs": [], "result": None}
    here.ask("POST", f"/api/p/{project}/check")
    told = counted(here, project)
    assert told["rows"] == 200
    assert [(line["what"], line["cells"]) for line in told["amiss"]] == [
        ("pay: unreadable", 200), ("born: unreadable", 200), ("sex: outside the list", 3),
    ]  # fmt: skip
    assert not told["stale"]
    (ledger,) = tmp_path.glob("*.db")
    (look,) = Ledger(ledger).looked("odd")
    assert look.startswith("schema check of odd.csv, fields ")
    assert 'id="unchecked"' not in here.client.get(f"/p/{project}/run").text
    assert Ledger(ledger).show("odd").spent == 0


def test_the_schema_page_counts_in_one_click_and_says_how_cells_are_written(studio, visit, tmp_path):
    write_odd(tmp_path)
    here = studio("--grace", "0")
    project = here.project("odd.csv", ODD)
    page = visit()
    fresh(here, page)
    page.goto(f"{here.origin}/p/{project}/schema")
    page.wait_for_selector("#check:visible")
    page.click("#check")
    page.wait_for_selector("#amiss td:has-text('pay: unreadable')")
    assert page.url.endswith(f"/p/{project}/check")
    assert page.is_visible(".band:has-text('CONFIDENTIAL')")
    assert "100.0 %" in page.inner_text("#amiss")
    assert "--" not in page.inner_text("main"), "the page's own words"
    assert serious(page) == []

    page.goto(f"{here.origin}/p/{project}/schema")
    page.click("tr[data-name=pay] td:nth-child(2)")
    assert page.is_hidden("#f-format")
    page.select_option("#f-marks", ".|,")
    page.check("#f-around")
    page.wait_for_selector("tr[data-name=pay] td:has-text('written such as 1,234.5')")
    page.click("tr[data-name=born] td:nth-child(2)")
    assert page.is_hidden("#f-marks")
    page.fill("#f-format", "%d/%m")
    page.wait_for_selector("#f-says.error:has-text('needs one year, one month and one day')")
    page.fill("#f-format", "%d/%m/%Y")
    page.wait_for_selector("tr[data-name=born] td:has-text('written as %d/%m/%Y')")
    assert serious(page) == []
    page.click("#check")
    page.wait_for_selector("#found-title:has-text('not all cells fit')")
    page.wait_for_selector("#amiss td:has-text('pay: unreadable')", state="detached")
    assert page.locator("#amiss tbody tr").count() == 1, "the three that are in no list"
    fields = {f["name"]: f for f in yaml.safe_load(here.client.get(f"/p/{project}/schema.yaml").text)["fields"]}
    assert (fields["pay"]["groupChar"], fields["pay"]["bareNumber"]) == (",", False)
    assert fields["born"]["format"] == "%d/%m/%Y"
    for width in (360, 400, 800, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
