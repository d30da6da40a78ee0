"""Slips that a person saw on the page, seen by a browser: uploads, columns that are not read, notes, the explorer's scale."""

from importlib.resources import files
from itertools import pairwise

import numpy as np
import yaml
from test_studio_browser import fresh, serious

from conftest import PEOPLE
from dipsmith.report.content import Figure, Section
from dipsmith.report.content import Page as ReportPage
from dipsmith.report.histograms import Overlay
from dipsmith.report.support_map import Shade, support_map
from dipsmith.studio.fragments import fragment
from dipsmith.studio.overlay import histogram

CSS = files("dipsmith.studio").joinpath("static/studio.css").read_text("utf-8")

OUTSIDE = """() => [...document.querySelectorAll('.map text')].filter((t) => {
  const [at, room] = [t.getBoundingClientRect(), document.querySelector('.map').getBoundingClientRect()];
  return at.left < room.left || at.right > room.right || at.bottom > room.bottom;
}).map((t) => t.textContent)"""


def test_a_failed_upload_is_not_chosen_for_the_next_try(shared, visit):
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/")
    before = page.input_value("#data")
    for name, content in (("empty.csv", b""), ("twice.csv", b"a,a\n1,2\n")):
        page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": content})
        page.click("text=Read the header")
        page.wait_for_selector("#new-says:not(:empty)")
        assert page.input_value("#data") == before
        page.reload()
        assert page.input_value("#data") == before
        assert page.locator(f"#data option:has-text('{name}')").count() == 0


def test_what_tells_units_apart_is_not_said_to_be_never_read(shared, visit):
    (shared.folder / "persons.csv").write_text("person_id,age,sex,note\n1,30,F,x\n")
    project = shared.ask("POST", "/api/projects", {"data": "persons.csv"})["project"]
    page = visit(800, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/schema")
    page.click("tr[data-name=note] td:nth-child(2)")
    page.click("text=leave this column out")
    page.wait_for_selector("#dropped:has-text('note')")
    page.check("input[name=unit][value=column]")
    page.select_option("#unit-column", "person_id")
    page.wait_for_selector("#apart:has-text('person_id')")
    assert page.inner_text("#dropped") == "Never read, never released: note."
    assert page.inner_text("#apart") == "Read only to tell units apart, never released: person_id."


def test_every_note_about_noise_names_its_column(shared, visit):
    project = shared.project(schema=PEOPLE.replace("name: people", "name: noted", 1))
    shared.choose(project, method="mst", amount="0.001", rows=300)
    page = visit(800, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#hopeless:has-text('3 of the tables')")
    notes = [t for t in page.locator("#warnings li").all_inner_texts() if "hopeless" in t]
    assert sorted(n.partition("'")[2].partition("'")[0] for n in notes) == ["age", "grade", "sex"]
    assert page.evaluate(
        "document.querySelector('#columns').scrollWidth <= document.querySelector('#columns').clientWidth"
    )
    assert page.locator("#columns td:has-text('too noisy for rare levels')").count() == 3


def test_the_explorer_marks_where_its_scale_ends(shared, visit):
    project = shared.project()
    shared.choose(project, method="forest", amount="0.05", rows=50_000)
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#x-figure svg")
    page.fill("#x-p0", "0.5")
    for lam, state in (("0.05", "attached"), ("3", "detached"), ("0.05", "attached")):
        page.fill("#x-lam", lam)
        page.wait_for_selector("#x-figure text:has-text('the scale ends here')", state=state)


def test_a_refused_formula_leads_to_no_run(shared, visit):
    """What can be planned without it stays; nobody is sent on to a run that will refuse it."""
    project = shared.project(schema=PEOPLE.replace("name: people", "name: asked", 1))
    shared.choose(project, method="mst", amount="0.5", rows=300)
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#above a:visible")
    page.click("#step-analyses > summary")
    page.fill("#analyses", "grade ~ height")
    page.wait_for_selector("#analyses-says:has-text('height')")
    assert page.is_hidden("#above")
    assert page.is_hidden("#onward")
    assert "has to be mended before a run" in page.inner_text("#unplanned")
    assert "--method mst" in page.inner_text("#command"), "the plan that is shown"
    assert "height" not in page.inner_text("#command"), "not the formula that was refused"
    form, outcome = (page.locator(place).bounding_box() for place in ("#choices", "#outcome"))
    assert outcome["x"] > form["x"] + form["width"], "side by side"
    page.fill("#analyses", "grade ~ sex")
    page.wait_for_selector("#above a:visible")
    assert "--analysis 'grade ~ sex'" in page.inner_text("#command")
    assert page.is_hidden("#unplanned")
    assert serious(page) == []


def test_labels_of_the_support_map_are_whole(visit):
    """Names in capitals too, left of the map and below it."""
    names = ["PUMA", "HOUSING_TYPE", "PINCP_DECILE", "WGTP", "sex"]
    page = visit(1280, 800)
    drawn = support_map(names, lambda row, column: Shade("measured", ""))
    page.set_content(f"<body style=\"font-family: 'DejaVu Serif'\">{drawn}")
    assert page.locator(".map text").count() == 2 * len(names) + 1
    assert page.evaluate(OUTSIDE) == []


OVERLAPS = """() => [...document.querySelectorAll('.overlay')].flatMap((svg) => {
  const room = svg.getBoundingClientRect(), boxes = [...svg.querySelectorAll('text')].map((t) => t.getBoundingClientRect());
  const out = boxes.filter((b) => b.left < room.left - 1 || b.right > room.right + 1);
  return [...out, ...boxes.filter((b, i) => boxes.some((c, j) => j > i && b.left < c.right && c.left < b.right && b.top < c.bottom && c.top < b.bottom))];
}).length"""


def test_labels_of_a_histogram_have_room(visit):
    """Bins with long ends, at every width and as one of several; a scale that ends at 100 % is not cut."""
    ends = [10_000 * 1.1**i for i in range(32)]
    bins = [f"[{a:.0f}, {b:.0f})" for a, b in pairwise(ends)]
    shares = np.eye(len(bins))[3]
    words = [f"less than {n} hours" for n in range(8)]
    drawn = [
        histogram(Overlay("pay", "", labels, side, (side,), ordered=True))
        for labels, side in ((bins, shares), (words, np.full(8, 0.125)))
    ]
    assert "[10000" not in drawn[0], "a range is named by where it begins"
    page = visit()
    for width in (360, 800, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.set_content(f"<style>{CSS}</style><main><div id=shown>{''.join(drawn)}</div></main>")
        assert page.locator(".overlay text").count() > 8
        assert page.evaluate(OVERLAPS) == 0, width


def test_drawings_are_not_blown_up(shared, visit):
    """What a report says about the width of a drawing holds where no style is allowed."""
    drawn = support_map(["age", "sex"], lambda row, column: Shade("measured", ""))
    figure = Figure("Which pairs", drawn, "n = 1", "a map")
    page = visit(1920, 1000)
    shown = fragment(ReportPage("t", (), (Section("s", (figure,)),)), "").html
    page.set_content(f"<style>{CSS}</style><main><div class=report>{shown}</div></main>")
    assert page.locator(".map").bounding_box()["width"] <= 500
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_head_and_text_begin_at_one_line(shared, visit):
    for width in (800, 1920, 2560):
        page = visit(width, 1000)
        fresh(shared, page)
        page.goto(f"{shared.origin}/ledger")
        mark, head = page.locator(".mark").bounding_box(), page.locator("h1").bounding_box()
        assert abs(mark["x"] - head["x"]) < 1, width


def test_uploads_are_called_by_their_name(studio, people, visit, tmp_path):
    """On pages and in what is refused; only the command to copy says where they lie."""
    people(tmp_path)
    running = studio("--grace", "0")
    own = {"Origin": running.origin, "X-Dipsmith-Token": running.page_token}
    kept = {"people": (tmp_path / "people.csv").read_bytes(), "short": b"age,sex\n30,F\n"}
    for name, rows in kept.items():
        assert running.client.put(f"/api/upload/{name}.csv", headers=own, content=rows).status_code == 200
    project = running.project(".dipsmith-studio/uploads/people.csv")
    running.choose(project, method="forest")
    page = visit()
    fresh(running, page)
    for step in ("schema", "check", "plan", "run", "compare"):
        page.goto(f"{running.origin}/p/{project}/{step}")
        assert "uploads/" not in page.inner_text("main"), step
        assert step in ("plan", "compare") or "people.csv" in page.inner_text("main")
    assert ".dipsmith-studio/uploads/people.csv" in page.inner_text("#command")
    page.goto(f"{running.origin}/")
    shown = page.content().replace('value=".dipsmith-studio/uploads/', "")
    assert "uploads/" not in shown.replace('data-command="dipsmith schema init .dipsmith-studio/uploads/', "")
    names = page.locator("#data option").all_inner_texts()
    assert names == ["–", "people.csv (uploaded)", "short.csv (uploaded)", "people.csv"]
    running.ask("POST", f"/api/p/{project}/check")
    page.goto(f"{running.origin}/p/{project}/check")
    page.wait_for_selector("#found-title:has-text('people.csv: every cell fits')")
    assert page.inner_text("#found-title").startswith("people.csv")
    other = running.project(".dipsmith-studio/uploads/short.csv", PEOPLE.replace("name: people", "name: short", 1))
    refused = running.ask("POST", f"/api/p/{other}/check", expect=400)
    assert refused["error"].startswith("short.csv: column 'grade' not found"), refused


def test_bins_are_proposed_where_bounds_are_said(shared, visit):
    """Amounts get steps of 1, 2, 5, 10, … and a bin for 0 in one click, without a file; before, 20 bins of one width."""
    made = shared.ask("POST", "/api/projects", {"data": "people.csv"})["project"]
    text = "name: pay\nunit: row\nneighbours: replace\nfields:\n- {name: age, type: number, minimum: 0}\n"
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{made}/schema")
    page.set_input_files("#yaml-file", {"name": "pay.yaml", "mimeType": "application/yaml", "buffer": text.encode()})
    page.wait_for_selector("text=Read 1 column from pay.yaml")
    page.click("tr[data-name=age] td:nth-child(2)")
    assert page.is_hidden("#f-proposal")
    page.fill("#f-high", "250000")
    page.wait_for_selector("#f-says:has-text('in 20 bins')")
    page.wait_for_selector("#f-proposal-says:has-text('0 by itself, to the cent')")
    assert page.is_hidden("#f-law")
    assert serious(page) == []
    page.click("#f-propose")
    page.wait_for_selector("#f-says:has-text('in 16 bins')")
    assert page.is_hidden("#f-proposal")
    assert (page.input_value("#f-law"), page.input_value("#f-step")) == ("log", "0.01")
    assert page.input_value("#f-cut-at").startswith("0, 0.01, 10, 20")
    page.select_option("#f-law", "")
    page.fill("#f-step", "")
    for _ in range(600):
        written = yaml.safe_load(shared.client.get(f"/p/{made}/schema.yaml").text)["fields"][0]
        if "precision" not in written:
            break
        page.wait_for_timeout(50)
    assert set(written) == {"name", "type", "role", "minimum", "maximum", "bins"}
    assert set(written["bins"]) == {"edges"}


SEEN = """(id) => { const at = document.getElementById(id).getBoundingClientRect(); return at.top >= 0 && at.bottom <= innerHeight; }"""


def test_the_editor_of_a_column_is_seen_when_it_is_opened(shared, visit):
    """It stands beside the table, in a narrow window far below it: a click there seemed to do nothing."""
    names = [f"c{i:02d}" for i in range(60)]
    (shared.folder / "sixty.csv").write_text(",".join(names) + "\n")
    made = shared.ask("POST", "/api/projects", {"data": "sixty.csv"})["project"]
    page = visit()
    fresh(shared, page)
    for width in (400, 800, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{shared.origin}/p/{made}/schema")
        page.click("tr[data-name=c04] td:nth-child(2)")
        page.wait_for_selector("#editor-title:has-text('c04')")
        assert page.evaluate(SEEN, "editor-title"), width
        page.click("#f-next")
        page.wait_for_selector("#editor-title:has-text('c05')")
        assert page.evaluate(SEEN, "editor-title"), width
        assert page.evaluate("document.activeElement.id") == "f-type"
        assert page.evaluate(SEEN, "f-type"), width


def test_hints_in_fields_are_dark_enough(shared, visit):
    """What a browser makes of a placeholder by itself has a contrast of 3.6 in dark mode; WCAG asks for 4.5."""
    page = visit()
    fresh(shared, page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{shared.origin}/ledger")
        hint, soft = page.evaluate(
            "['#grant-by', '.soft'].map((s, i) => getComputedStyle(document.querySelector(s), i ? null : '::placeholder').color)"
        )
        assert hint == soft


def test_a_delta_is_told_as_a_chance(shared, visit):
    project = shared.project()
    shared.choose(project, method="mst", currency="approx", amount="0.5", delta="1e-6")
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#odds:has-text('but for a chance of 1 in 1,000,000, whatever else is known')")
