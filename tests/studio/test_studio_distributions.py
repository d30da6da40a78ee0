"""The distribution browser: what it shows is what the comparison counted, for any column and any pair."""

import csv
import io
import re
import time
import uuid

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from test_studio_browser import fresh, serious, until


@pytest.fixture(scope="module")
def compared(rooms):
    """A release of personnel records and its comparison."""
    project = rooms.project("personnel.csv", (rooms.folder / "personnel.yaml").read_text(), "3")
    rooms.choose(project, method="loglinear", amount="1", rows=None)
    run = rooms.start(project, uuid.uuid4().hex)
    assert rooms.wait(project, run, "finished", "failed")["status"] == "finished"
    return rooms, project, compare(rooms, project, run)["id"], run


def compare(running, project: str, run: str, analyses: str = "") -> dict:
    asked = {"releases": [run], "analyses": analyses, "by": "", "reference": "", "classifiers": ["logistic"]}
    job = running.ask("POST", f"/api/p/{project}/compare", {**asked, "request": uuid.uuid4().hex})["job"]
    for _ in range(600):
        found = next(j for j in running.ask("GET", f"/api/p/{project}/comparisons")["jobs"] if j["id"] == job)
        if found["status"] in ("finished", "failed"):
            return found
        time.sleep(0.3)
    raise AssertionError(found)


def numbers(running, project: str, job: str, column: str, within: str = "") -> list[dict[str, str]]:
    asked = {"column": column, "within": within}
    answer = running.client.get(f"/p/{project}/compare/{job}/distribution.csv", params=asked)
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_shares_are_those_of_the_two_files(compared):
    """Counted anew from the files: one column, and one within the levels of another, both ways round."""
    running, project, job, _ = compared
    (release,) = (running.folder / "releases").glob(f"{project}-*")
    sides = pc.read_csv(running.folder / "personnel.csv"), pq.read_table(release / "synthetic-1.parquet")
    sex, agency = ([np.asarray(t[c].to_pylist(), dtype=str) for t in sides] for c in ("sex", "agency"))
    for row in numbers(running, project, job, "sex"):
        for side, values in zip(("authentic", "synthetic"), sex, strict=True):
            assert float(row[side]) == pytest.approx((values == row["level"]).mean())
    found = numbers(running, project, job, "sex", "agency")
    assert {row["sex"] for row in found} == {"F", "M"}
    for row in found:
        code = row["agency"]
        for side, values, groups in zip(("authentic", "synthetic"), sex, agency, strict=True):
            assert float(row[side]) == pytest.approx((values[groups == code] == row["sex"]).mean())
    other = numbers(running, project, job, "agency", "sex")
    share = {(r["sex"], r["agency"]): float(r["authentic"]) for r in other}
    assert share["F", "VA"] == pytest.approx((agency[0][sex[0] == "F"] == "VA").mean())


def test_what_cannot_be_shown_is_refused_in_words(compared):
    running, project, job, _ = compared
    ask = f"/api/p/{project}/compare/{job}/distribution"
    for column, within, why in (
        ("nobody", "", "choose a column of the list"),
        ("sex", "sex", "another one"),
        ("", "", "choose a column"),
        ("age", "year", "both are public"),
    ):
        answer = running.client.get(ask, params={"column": column, "within": within})
        assert answer.status_code == 400, answer.text
        assert why in answer.json()["error"]
    folder = running.folder / ".dipsmith-studio" / "jobs" / job
    assert all(f.stat().st_mode & 0o077 == 0 for f in folder.iterdir() if f.name.startswith("distributions"))


def test_the_browser_names_what_was_lost_and_a_failure_can_be_dismissed(compared, visit):
    running, project, _, run = compared
    failed = compare(running, project, run, "nothing ~ sex")
    assert failed["status"] == "failed"
    page = visit(400, 800)
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/compare")
    until(page, "document.documentElement.dataset.browsed === '1'")
    assert page.locator("#verdict p").count() == 2
    assert page.is_visible(".band")
    assert page.locator(".settings dd").count() == 2
    assert page.locator(".report figure dl").count() == 0, "settings are printed once"
    assert page.locator(".report").is_hidden(), "scores are folded"
    first = page.inner_text("#pick li:first-child b")
    assert page.input_value("#column") == first
    page.check("input[name=list][value=pairs]")
    page.fill("#find", "sex agen")
    assert page.locator("#pick button").count() == 1
    page.click("#pick button")
    until(page, "document.documentElement.dataset.browsed === '2'")
    assert page.locator("#shown .overlay").count() > 1
    assert page.locator("#shown td.n").count() > 10, "values are to be read, not only hovered over"
    page.select_option("#within", "")
    until(page, "document.documentElement.dataset.browsed === '3'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})
    assert serious(page) == []
    page.click("text=Dismiss")
    page.wait_for_selector(".job", state="detached")
    page.reload()
    page.wait_for_selector("#pick button")
    assert page.locator(".job").count() == 0
    # the form still works
    page.click("text=Another comparison")
    page.uncheck("input[name=release]")
    page.click("#look")
    page.wait_for_selector("#ask-says:has-text('choose one to 4 releases')")


def test_the_first_picture_is_the_worst_and_paper_has_what_was_opened(compared, visit):
    """Scores that are folded stay off the paper, opened ones and the card are on it; the choices are not."""
    running, project, job, run = compared
    page = visit(360, 800)
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/compare/{job}")
    page.wait_for_selector("#pick button[aria-pressed=true]")
    assert page.get_attribute("#pick li:first-child button", "aria-pressed") == "true"
    label = page.locator("label:has([name=release])").first
    assert label.locator("> *").count() == 2, "the box, and the words as one piece"
    for address, place in ((f"compare/{job}", "#scores"), (f"release/{run}", "#whole-card")):
        page.emulate_media(media="screen")
        page.goto(f"{running.origin}/p/{project}/{address}")
        page.emulate_media(media="print")
        assert page.is_hidden(place)
        page.emulate_media(media="screen")
        page.click(f"{place} > summary")
        page.emulate_media(media="print")
        assert page.is_visible(f"{place} table >> nth=0")
    assert page.is_hidden("#next")
    assert page.is_visible("#citation")


def test_a_comparison_of_an_earlier_version_is_still_shown(compared):
    running, project, job, _ = compared
    folder = running.folder / ".dipsmith-studio" / "jobs" / job
    kept = (folder / "distributions.json").rename(folder / "away.json")
    try:
        page = running.client.get(f"/p/{project}/compare/{job}").text
        assert 'id="browse"' not in page
        assert "Can a classifier tell them apart?" in page
        answer = running.client.get(f"/api/p/{project}/compare/{job}/distribution", params={"column": "sex"})
        assert "earlier version" in answer.json()["error"]
    finally:
        kept.rename(folder / "distributions.json")


LISTED = """async ([share, status, kind]) => {
  const { draw } = await import('/static/jobs.js');
  const place = document.getElementById('job-list');
  const job = { id: `e${kind}`.padEnd(32, 'e'), kind, status, stage: 'comparing a: Marginals', share, message: '', says: 'no analyses' };
  draw(place, [job], () => '', () => {});
  return [place.textContent, place.querySelector('progress').value];
}"""


def test_a_running_comparison_says_stage_share_and_time_left_and_a_run_does_not(compared, visit):
    """How long a run takes depends on the rows: time left is for what is confidential as a whole."""
    running, project, _, _ = compared
    page = visit()
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/compare")
    page.wait_for_selector("#pick button")
    for kind in ("compare", "run"):
        assert page.evaluate(LISTED, [0.1, "running", kind])[0].endswith("comparing a: Marginals, 10 %")
        page.wait_for_timeout(3200)
        words, done = page.evaluate(LISTED, [0.4, "running", kind])
        assert done == pytest.approx(0.4)
        said = re.search(r"Marginals, 40 %(.*)", words)[1]
        assert re.fullmatch(r", (about \d+ seconds left|a few seconds left)" if kind == "compare" else "", said), said
