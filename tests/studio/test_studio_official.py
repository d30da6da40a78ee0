"""What an official saw who brought tables of 15 and 60 columns: sentences that were not true, words that were cut, paper."""

import uuid

import pytest
from test_studio_browser import fresh

from conftest import PEOPLE

LONG = "Region (NUTS-2) of usual residence at the last census of all"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def broad(shared):
    """A released table of labels with twelve columns, one of a long name; its project and run."""
    names = [LONG, *(f"column_{i}" for i in range(9)), "grade"]
    lines = [",".join(["sex", *names])] + [",".join(["FM"[i % 2], *[str(i % 4)] * 11]) for i in range(200)]
    (shared.folder / "broad.csv").write_text("\n".join(lines) + "\n")
    fields = "".join(f"- {{name: '{n}', type: integer, minimum: 0, maximum: 3, role: public}}\n" for n in names)
    sex = "- {name: sex, type: string, enum: [F, M], other: M, role: private}\n"
    schema = f"name: broad\nunit: row\nneighbours: label\nfields:\n{sex}{fields}"
    project = shared.project("broad.csv", schema)
    shared.choose(project, method="loglinear", amount="1", rows=None)
    run = shared.start(project, uuid.uuid4().hex)
    assert shared.wait(project, run, "finished", "failed")["status"] == "finished"
    return project, run


def test_rows_of_labels_are_not_said_to_be_nobody(shared, broad, visit):
    """Under `label` public columns are those of a person; on paper as many columns stand as fit, and their number."""
    project, _ = broad
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/release")
    page.wait_for_selector("html[data-reported]", state="attached", timeout=120_000)
    caption = page.locator("#rows caption")
    assert caption.inner_text() == "First rows of 1 set; public columns are as they are, only private ones were drawn"
    assert "No row is a person" not in page.inner_text("main")
    assert "Rows stand for somebody" in page.inner_text("#report-here")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 800, "height": 800})
    assert page.evaluate(FITS)
    narrow = page.evaluate("[...document.querySelectorAll('#rows thead th')].slice(0, 6).map((t) => t.clientWidth)")
    assert min(narrow) > 60, "headings are not broken letter by letter"
    assert caption.inner_text().endswith("; 6 of 12 columns")
    assert page.locator("#rows tbody tr:first-child td:visible").count() == 6


def test_a_long_name_fits_the_form_of_a_comparison(shared, broad, visit):
    project, _ = broad
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/compare")
    page.wait_for_selector("#by")
    for width in (360, 400, 800):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(FITS), width


def test_the_first_page_shows_the_command_of_the_file_that_is_chosen(studio, people, visit, tmp_path):
    people(tmp_path)
    (tmp_path / "a survey.csv").write_text("a,b\n1,2\n")
    running = studio()
    page = visit()
    fresh(running, page)
    assert page.input_value("#data") == "a survey.csv"
    assert page.inner_text("#command") == "dipsmith schema init 'a survey.csv'"
    page.select_option("#data", "people.csv")
    assert page.inner_text("#command") == "dipsmith schema init people.csv"
    page.set_input_files("#file", {"name": "mine.csv", "mimeType": "text/csv", "buffer": b"a\n1\n"})
    assert page.inner_text("#command") == "dipsmith schema init FILE"


def test_what_is_to_be_done_before_a_run_is_not_said_after_it(studio, people, visit, tmp_path):
    people(tmp_path)
    running = studio("--grace", "1")
    project = running.project()
    running.choose(project, amount="0.5")
    page = visit()
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/run")
    assert "For 1 second, and while the file is checked" in page.inner_text("#go")
    assert page.is_visible("#unchecked")
    page.check("#sure")
    page.click("#start")
    page.wait_for_selector("h1:has-text('It is done')")
    assert page.is_hidden("#unchecked")


def test_what_analysts_are_to_ask_for_is_said_to_the_steward(shared, visit):
    """Who reads a plan is the steward, who has a page for bounds and no keys of files."""
    schema = PEOPLE.replace("name: people", "name: opened", 1).replace(
        "{name: grade, type: integer, minimum: 1, maximum: 5}",
        "{name: grade, type: integer, minimum: 1, maximum: 5, open: high}",
    )
    project = shared.project(schema=schema)
    shared.choose(project, method="mst", amount="1", rows=3000)
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#above a:visible")
    page.click("#step-analyses > summary")
    page.fill("#analyses", "grade ~ sex")
    page.wait_for_selector(".verdict.error:has-text('state the bounds of grade on the Schema page')")
    said = page.inner_text("main")
    assert "the steward" not in said
    assert "without open" not in said


def test_levels_are_not_broken_in_the_middle_of_a_word(visit):
    from test_studio_seen import CSS

    bars = '<td class="bar"></td><td class="n">66.85</td><td class="n">67.07</td><td class="n">+0.23</td>'
    rows = "".join(f"<tr><th>{level}</th>{bars}</tr>" for level in ("Female", "other"))
    names = ("bars end at 75 %", "authentic, %", "synthetic, %", "difference, points")
    head = "".join(f'<th class="{"n" if i else ""}">{name}</th>' for i, name in enumerate(names))
    levels = f"<table class=levels><thead><tr><th>level</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    page = visit(400, 800)
    page.set_content(f"<style>{CSS}</style><main><div id=shown><div class=scroll>{levels}</div></div></main>")
    assert page.evaluate(FITS)
    heights = page.evaluate("[...document.querySelectorAll('tbody th')].map((t) => t.clientHeight)")
    assert max(heights) < 40, heights
