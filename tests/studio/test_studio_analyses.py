"""Planned analyses in the studio: forecast before anything is spent, refused for free, results on the release's page."""

import json
import uuid
from html import unescape

import pytest
from test_studio_browser import fresh, open_step, serious

from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.synthesis.release import Release

GAP = "log(pay) ~ sex + age + education"
NARROW = f"{GAP}; width 0.3"


def project_in(rooms) -> str:
    return rooms.project("personnel.csv", (rooms.folder / "personnel.yaml").read_text(), None)


def test_the_plan_forecasts_every_coefficient(rooms):
    project = project_in(rooms)
    plain = rooms.choose(project, method="loglinear", amount="1")
    found = rooms.choose(project, method="loglinear", amount="1", analyses=[NARROW])
    assert plain["analyses"] == {"problem": ""}
    (sex,) = found["analyses"]["coefficients"]
    assert (sex["name"], sex["wanted"], sex["hopeless"]) == ("sex[T.M]", 0.3, False)
    assert 0 < sex["sampling"] < sex["noise"]
    # What analyses take is not planned for the labeller.
    costs = [sum(stage["cost"] for stage in f["stages"]) for f in (plain, found)]
    assert costs[1] == pytest.approx(costs[0] * (1 - found["analyses"]["share"]), rel=1e-6)
    assert f"--analysis '{NARROW}'" in found["commands"]["run"]


def test_a_hopeless_coefficient_is_named_before_anything_is_spent(rooms):
    found = rooms.choose(project_in(rooms), method="loglinear", amount="0.01", analyses=[GAP])["analyses"]
    assert found["hopeless"] == [f"{GAP}: noise is likely to hide sex[T.M]; raise the budget, or ask for less"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("log(pay) ~ sexx", "names 'sexx', which is no column"),
        ("log(pay) ~", "analysis 'log(pay) ~' lacks a part"),
        (f"{GAP}; width much", "width is 'much', expected a number above 0"),
        (f"{GAP} | by race", "repeated by 'race', which is private"),
    ],
)
def test_what_cannot_be_planned_is_said_and_a_run_refuses_it_for_free(rooms, line, why):
    project = project_in(rooms)
    rooms.ask("POST", "/api/grant", {"name": "personnel", "currency": "epsilon", "amount": "1"})
    found = rooms.choose(project, method="loglinear", amount="1", analyses=[line])
    assert why in found["analyses"]["problem"]
    assert found["stages"]
    before = rooms.client.get(f"/p/{project}/run")
    assert before.status_code == 200
    assert 'id="sure">' not in before.text, "nobody is asked to spend on what would be refused"
    assert why in unescape(before.text)
    request = uuid.uuid4().hex
    answer = rooms.ask("POST", f"/api/p/{project}/run", {"request": request}, expect=400)
    assert why in answer["error"]
    assert request not in [run.id for s in Ledger(rooms.folder / "budget.db").show() for run in s.runs]


def test_whole_rows_are_forecast_from_the_tables_that_will_be_measured(shared):
    project = shared.project()
    asked = {"method": "mst", "amount": "1", "analyses": ["grade ~ sex + age"]}
    found = shared.choose(project, **asked)["analyses"]
    assert [c["name"] for c in found["coefficients"]] == ["sex[T.M]", "age"]
    assert found["share"] == 0
    unknown = shared.choose(project, **{**asked, "rows": None})["analyses"]
    assert "state it" in unknown["notes"][0]
    assert "cannot be told which analyses" in shared.choose(project, analyses=["grade ~ sex"])["analyses"]["problem"]


@pytest.mark.parametrize("analyses", [7, "a ~ b", [7], ["a ~ b"] * 21, ["a ~ " + "b" * 1000], ["a ~ b\nc ~ d"]])
def test_a_body_that_no_page_sends_is_refused(shared, analyses):
    body = {"choices": {"method": "flat", "analyses": analyses}}
    shared.ask("POST", f"/api/p/{shared.project()}/plan", body, expect=400)


def test_from_a_formula_to_its_result_in_a_browser(rooms, visit):
    """Type two formulas, see one hopeless and one forecast, run the second, read estimate and interval on the page."""
    project = project_in(rooms)
    rooms.ask("POST", "/api/grant", {"name": "personnel", "currency": "epsilon", "amount": "9"})
    rooms.choose(project, method="loglinear", amount="8", rows=None)
    page = visit()
    fresh(rooms, page)
    page.goto(f"{rooms.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td")
    assert page.is_hidden("#forecast-box")
    open_step(page, "analyses")
    page.fill("#analyses", "log(pay) ~ sexx")
    page.wait_for_selector("#analyses-says:has-text(\"names 'sexx'\")")
    open_step(page, "budget")
    page.wait_for_selector("#is-analyses.error:has-text(\"names 'sexx'\")")
    page.reload()
    page.wait_for_selector("#is-analyses.error:has-text(\"names 'sexx'\")")
    open_step(page, "analyses")
    page.fill("#analyses", NARROW)
    page.wait_for_selector("#forecasts td:has-text('sex[T.M]')")
    assert page.inner_text("#analyses-says") == ""
    assert page.locator("#is-analyses.error").count() == 0
    page.wait_for_selector("#stages td:has-text('planned analyses')")
    open_step(page, "budget")
    page.fill("#amount", "0.01")
    page.wait_for_selector("#forecasts .error:has-text('Hopeless: log(pay)')")
    findings = serious(page)
    page.fill("#amount", "8")
    page.wait_for_selector("#forecasts .error", state="detached")
    page.click("text=Go on to the run")
    page.wait_for_selector(f"dd:has-text('{GAP}')")
    page.check("#sure")
    page.click("#start")
    page.wait_for_selector(".job[data-status=finished]", timeout=240_000)
    page.click("text=See it")
    page.wait_for_selector("#results tr:has-text('sex[T.M]')")
    findings += serious(page)
    (folder,) = (rooms.folder / "releases").iterdir()
    estimate = Release.load(folder).results[0]["sex[T.M]"].estimate
    cells = page.locator("#results tr", has_text="sex[T.M]").locator("th, td").all_inner_texts()
    assert float(cells[1].replace("−", "-")) == pytest.approx(estimate, rel=0.01)
    assert findings == []
    # Synthetic rows carry it.
    assert json.loads((folder / "card.json").read_text())["analyses"] == [{"formula": GAP, "width": 0.3}]
    page.click("text=files, one by one")
    with page.expect_download() as got:
        page.click(".files a:has-text('results.json')")
    assert json.loads(got.value.path().read_text())["results"][0]["formula"] == GAP


def test_pages_with_analyses_fit_a_narrow_window(rooms, visit):
    """At 400 pixels nothing but tables in their own frames is wider than the window."""
    project = project_in(rooms)
    rooms.choose(project, method="loglinear", amount="1", rows=None, analyses=[NARROW])
    page = visit(width=400, scheme="dark")
    fresh(rooms, page)
    page.goto(f"{rooms.origin}/p/{project}/plan")
    page.wait_for_selector("#forecasts td")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_schema_page_keeps_analyses(rooms):
    """A schema file that names analyses keeps them through the studio, and the plan counts them."""
    text = (rooms.folder / "personnel.yaml").read_text() + f"analyses:\n- {{formula: {GAP}, width: 0.5}}\n"
    project = rooms.project("personnel.csv", text, None)
    exported = Schema.from_dict(rooms.ask("POST", f"/api/p/{project}/schema/import", {"text": text})["document"])
    assert [(a.text, a.width) for a in exported.analyses] == [(GAP, 0.5)]
    found = rooms.choose(project, method="loglinear", amount="1", analyses=["sex ~ age"])["analyses"]
    assert {c["analysis"] for c in found["coefficients"]} == {GAP, "sex ~ age"}
