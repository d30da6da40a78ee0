"""What people get wrong, and what the pages must not say then: refused grants, uploads, choices, jobs and addresses."""

import uuid

import pytest
import yaml
from test_studio_browser import fresh, serious

from conftest import PEOPLE

LONG = "a_column_name_without_any_space_that_a_program_made_up_for_an_export_of_all_people_of_2024"


@pytest.mark.parametrize(
    ("name", "amount", "why"),
    [
        ("people", "1000000000", "would protect nobody"),
        ("ad ult/..", "1", "name has a '/'"),
        ("people", "-1", ""),
        ("people", "much", ""),
    ],
)
def test_a_grant_is_checked(shared, name, amount, why):
    body = {"name": name, "currency": "epsilon", "amount": amount}
    headers = {"Origin": shared.origin}
    answer = shared.client.post("/api/grant", json=body, headers=headers)
    assert 400 <= answer.status_code < 500
    assert why in answer.json()["error"]


def test_an_upload_without_a_header_is_not_offered_again(shared):
    own = {"Origin": shared.origin, "X-Dipsmith-Token": shared.page_token}
    for name, content in (("empty.csv", b""), ("broken.parquet", b"no parquet"), ("twice.csv", b"a,a\n1,2\n")):
        answer = shared.client.put(f"/api/upload/{name}", headers=own, content=content)
        assert answer.status_code == 400, (name, answer.text)
        assert name not in shared.client.get("/").text
        assert not (shared.folder / ".dipsmith-studio" / "uploads" / name).exists()


def test_a_price_that_the_grant_cannot_express_is_not_told_as_nothing(shared):
    project = shared.project()
    told = shared.choose(project, method="mst", currency="rho", amount="0.5")["spending"]
    assert not told["allowed"]
    assert told["units"] is None


def test_after_a_failed_comparison_the_form_asks_anew(shared):
    """The same request twice is one job; the answer brings the id of the next request."""
    project = shared.project()
    shared.choose(project, amount="0.01")
    run = shared.start(project, uuid.uuid4().hex)
    assert shared.wait(project, run, "finished", "failed")["status"] == "finished"
    again = shared.client.get(f"/p/{project}/run").text
    assert "Another run?" in again
    assert "For 0 seconds" not in again
    asked = {"releases": [run], "analyses": "nothing ~ sex", "by": "", "reference": "", "classifiers": ["logistic"]}
    first, second = (shared.ask("POST", f"/api/p/{project}/compare", {**asked, "request": "e" * 32}) for _ in range(2))
    assert first["job"] == second["job"]
    third = shared.ask("POST", f"/api/p/{project}/compare", {**asked, "request": first["next"]})
    assert third["job"] == first["next"] != first["job"]


def test_an_address_without_a_page_is_answered_in_the_studios_dress(shared):
    stranger = shared.stranger()
    for client, status in ((shared.client, 404), (stranger, 401)):
        answer = client.get("/nowhere")
        assert answer.status_code == status
        assert '<link rel="stylesheet" href="/static/studio.css">' in answer.text
        assert '<a class="go" href="/">' in answer.text
    stranger.close()


def test_a_long_name_fits_a_narrow_window(shared, visit):
    """The page is not scrolled sideways, whatever a column is called; the unit's column is not called unread."""
    (shared.folder / "long.csv").write_text(f"id,{LONG},b\n1,2,3\n")
    made = shared.ask("POST", "/api/projects", {"data": "long.csv"})["project"]
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{made}/schema")
    page.check("input[name=unit][value=column]")
    page.select_option("#unit-column", LONG)
    page.wait_for_selector(f"#apart:has-text('{LONG}')")
    assert LONG not in page.inner_text("#dropped")
    for width in (360, 400, 800):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


def test_open_ends_are_seen_and_closed_on_the_page(shared, visit):
    """What learned bounds leave open can be closed without a file; logarithmic bins survive another edge."""
    made = shared.ask("POST", "/api/projects", {"data": "people.csv"})["project"]
    fields = (
        "- {name: grade, type: integer, minimum: 0, maximum: 99, open: high, bins: {edges: [0, 1, 10, 100], law: log}}"
    )
    text = f"name: open\nunit: row\nneighbours: replace\nfields:\n{fields}\n"
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{made}/schema")
    page.set_input_files("#yaml-file", {"name": "open.yaml", "mimeType": "application/yaml", "buffer": text.encode()})
    page.wait_for_selector("tr[data-name=grade] td:has-text('open above')")
    page.click("tr[data-name=grade] td:nth-child(2)")
    assert page.input_value("#f-open") == "high"
    page.wait_for_selector("#f-open-says:has-text('state the bounds that you know')")
    page.wait_for_selector("#f-says:has-text('open above')")
    page.select_option("#f-open", "")
    page.fill("#f-cut-at", "0, 1, 20, 100")
    page.wait_for_selector("tr[data-name=grade] td:has-text('0 to 99 in 3 bins'):not(:has-text('open'))")
    assert page.is_hidden("#f-open-says")
    page.reload()
    page.wait_for_selector("tr[data-name=grade] td:has-text('0 to 99 in 3 bins'):not(:has-text('open'))")
    written = yaml.safe_load(shared.client.get(f"/p/{made}/schema.yaml").text)["fields"][0]
    assert "open" not in written
    assert written["bins"]["law"] == "log"
    assert serious(page) == []


def test_a_refused_choice_shows_nothing_of_the_one_before(shared, visit):
    project = shared.project()
    shared.choose(project)
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td")
    bars = "[...document.querySelectorAll('#errors .part')].map((part) => Number(part.getAttribute('width')))"
    before = page.evaluate(bars)
    page.fill("#amount", "1")
    page.wait_for_selector("#sentence:has-text('ε = 1 of')")
    assert all(now < then or then == 100 for now, then in zip(page.evaluate(bars), before, strict=True)), "one scale"
    assert ".." not in page.inner_text("#warnings")
    page.fill("#amount", "much")
    page.wait_for_selector("#amount-says:has-text('must be a number above 0')")
    assert page.inner_text("#sentence") == ""
    assert page.is_hidden("#outcome")
    assert page.is_hidden("#onward"), "nobody goes on with the choice before"
    assert page.is_hidden("#above")
    assert "= 0 " not in page.inner_text("#figures")
    assert page.inner_text("#command") == ""
    page.fill("#amount", "0.5")
    page.wait_for_selector("#stages td:visible")
    page.select_option("#currency", "rho")
    page.wait_for_selector("#sentence.error")
    assert "= 0 " not in page.inner_text("#figures")
    page.select_option("#currency", "epsilon")
    page.wait_for_selector("#stages td:visible")
    assert "--" not in page.inner_text("main"), "the page's own words"
    page.click("#step-protected > summary")
    page.fill("#rows", "many")
    page.wait_for_selector("#rows-says:has-text('is no number of rows')")
    assert page.is_hidden("#outcome")
    page.fill("#rows", "")
    page.wait_for_selector("#errors p:has-text('State the number of rows')")
    page.fill("#rows", "300")
    page.wait_for_selector("#columns td:has-text('age')")
    page.fill("#seek", "sex")
    page.wait_for_selector("#columns td:has-text('age')", state="detached")
    assert page.locator("#columns tbody tr").count() == 1
    assert serious(page) == []


def test_an_amount_is_explained_where_it_is_chosen(shared, visit):
    """Odds that move with the amount and agree with the page for officials, what was spent before, what others spent."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.passport.officials import chance

    project = shared.project()
    told = shared.choose(project, amount="0.5")
    spent = Ledger(shared.folder / "budget.db").show("people").spent
    assert told["meaning"]["epsilon"] == 0.5
    assert told["meaning"]["together"] == (pytest.approx(0.5 + spent) if spent else None)
    page = visit(400, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    for amount in (0.1, 0.5, 1, 3):
        page.fill("#amount", str(amount))
        won = chance(amount)
        assert f"bet 50:50 that a person is in the table can reach at most {won}:{100 - won}" in page.inner_text(
            "#odds"
        )
    assert page.get_attribute("tr.near", "data-epsilon") == "3"
    assert page.inner_text("#before").startswith(f"ε = {spent:g} was" if spent else "Nothing was spent")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []


def test_the_explorer_says_where_its_scale_ends(shared):
    """A band that is flat at the edge of the picture would look like an answer."""
    flat, whole = (
        shared.client.get("/interval.svg", params={"p0": "0.5", "lam": lam, "n": "25"}).text for lam in ("0.05", "2")
    )
    assert "beyond ± 40 points: the scale ends here" in flat
    assert "scale ends here" not in whole


def test_a_zip_holds_the_release_and_follows_no_link(tmp_path):
    import zipfile

    from dipsmith.studio.archive import archive, files_of

    release, store = tmp_path / "release", tmp_path / "store"
    (release / "metadata").mkdir(parents=True)
    store.mkdir()
    (release / "card.json").write_text("{}")
    (release / "metadata" / "ddi.xml").write_text("<a/>")
    (tmp_path / "private.csv").write_text("secret")
    (release / "leak.csv").symlink_to(tmp_path / "private.csv")
    assert files_of(release) == ["card.json", "metadata/ddi.xml"]
    made = archive(release, store)
    with zipfile.ZipFile(made) as whole:
        assert whole.namelist() == ["release/card.json", "release/metadata/ddi.xml"]
    assert made.stat().st_mode & 0o077 == 0
    assert [p.name for p in store.iterdir()] == ["release.zip"]


def test_a_method_that_leaves_pairs_out_does_not_look_best(shared, visit):
    """One-way tables have the smallest errors of single columns; the page says first what they lose."""
    project = shared.project()
    shared.choose(project, method="mst", amount="1")
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#errors td:has-text('age × sex')")
    assert page.locator("#apart").count() == 0
    page.click("#step-method > summary")
    page.click("input[value=marginals]")
    page.wait_for_selector("#errors #apart:first-child")
    words = page.inner_text("#apart")
    assert words.startswith("None of the 3 pairs will be measured (age × sex, age × grade, sex × grade)")
    assert "lost at any budget" in words
    assert page.evaluate("getComputedStyle(document.getElementById('apart')).color") == page.evaluate(
        "getComputedStyle(document.body).color"
    ), "not in the colour of a footnote"
    page.click("input[value=mst]")
    page.wait_for_selector("#apart", state="detached")


def test_bars_of_pairs_have_one_scale_at_every_amount(shared, visit):
    """Drawn against the worst of them they would stay as long whatever is spent."""
    project = shared.project()
    shared.choose(project, method="flat", amount="3")
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    widest = (
        "Math.max(...[...document.querySelectorAll('#errors svg.share .part')].map((s) => s.getAttribute('width')))"
    )
    page.wait_for_selector("#errors td:has-text('age × sex')")
    before = page.evaluate(widest)
    page.fill("#amount", "12")
    for _ in range(100):
        if page.evaluate(widest) < 0.9 * before:
            break
        page.wait_for_timeout(100)
    assert 0 < page.evaluate(widest) < 0.5 * before <= 50, "before and after in percent of a full bar"


def test_the_run_page_says_what_is_true_in_every_state(studio, people, visit, tmp_path):
    """Whoever opens the page while a run is not done reads of it first, and what Cancel does."""
    people(tmp_path)
    running = studio("--grace", "60")
    project = running.project()
    running.choose(project, amount="0.5")
    page = visit()
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/run")
    assert page.inner_text("h1") == "Spend it?"
    assert "For 60 seconds, and while the file is checked, it can be cancelled" in page.inner_text("#go")
    running.start(project, uuid.uuid4().hex)
    page.reload()
    page.wait_for_selector("h1:has-text('It begins')")
    page.wait_for_selector(".job[data-status=waiting]:has-text('can be cancelled')")
    page.wait_for_selector("h2:has-text('The next one')")
    page.click("text=Cancel, give the budget back")
    page.wait_for_selector(".job[data-status=cancelled]:has-text('everything was given back')")
    page.wait_for_selector("h1:has-text('It was cancelled')")
    page.reload()
    page.wait_for_selector("h1:has-text('Spend it?')")


TOLD = """async (job) => {
  const { draw } = await import('/static/jobs.js'), place = document.createElement('div');
  draw(place, [{ id: job.ledger, says: 'flat', stage: 'measuring', share: 0.5, message: '', ...job }], () => '', () => {});
  return place.querySelector('.message').textContent;
}"""


def test_a_run_that_has_read_says_that_it_is_paid(shared, visit):
    """There is no button to cancel it any more; why not stands beside it."""
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{shared.project()}/run")
    page.wait_for_selector("#job-list :first-child")
    assert page.evaluate(TOLD, {"status": "running", "ledger": "reserved"}) == ""
    assert "what was spent stays spent" in page.evaluate(TOLD, {"status": "running", "ledger": "read"})


def test_a_choice_beyond_the_grant_leads_nowhere(shared, visit):
    """Nobody is sent on to a run that the ledger will refuse; tables of forecasts are reached by keyboard."""
    # Its own name: grants of other tests to "people" add up.
    project = shared.project(schema=PEOPLE.replace("name: people", "name: alone", 1))
    shared.choose(project, method="mst", amount="0.5")
    page = visit(400, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#above a:visible")
    page.fill("#amount", "20")
    page.wait_for_selector("#sentence.error:has-text('the ledger will refuse it')")
    assert page.is_hidden("#above")
    assert page.is_hidden("#onward")
    page.fill("#amount", "much")
    page.wait_for_selector("#unplanned:has-text('has to be mended first')")
    page.fill("#amount", "0.5")
    page.wait_for_selector("#above a:visible")
    assert page.is_hidden("#unplanned")
    page.click("#step-analyses > summary")
    page.fill("#analyses", "grade ~ sex")
    page.wait_for_selector("#forecasts td")
    assert serious(page) == []


COVERED = """() => {
  const says = document.getElementById('says').getBoundingClientRect();
  const hidden = (e) => { const at = e.getBoundingClientRect(); return at.bottom > says.top + 1 && at.top < says.bottom - 1 && at.right > says.left && at.left < says.right; };
  return [...document.querySelectorAll('main h1, main tr, main button, main input, main p')].filter((e) => e.id !== 'says' && e.getClientRects().length && hidden(e)).map((e) => e.outerHTML.slice(0, 80));
}"""


@pytest.mark.parametrize("step", ["schema", "plan", "run", "ledger"])
def test_a_message_covers_nothing(shared, visit, step):
    """A message has its own place, seen wherever the page was scrolled to, and lies on no table and no button."""
    project = shared.project()
    shared.choose(project, method="mst")
    page = visit(1280, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/{step}", wait_until="networkidle")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.evaluate("(async () => (await import('/static/page.js')).complain(new Error('The studio does not answer')))()")
    box = page.locator("#says").bounding_box()
    assert 0 <= box["y"] < 800 - box["height"]
    assert page.evaluate(COVERED) == []


def test_a_grant_is_withdrawn_while_nothing_was_spent(shared, visit):
    """In the wrong currency, for instance; the ledger keeps both entries."""
    name = "withdrawn"
    project = shared.project(schema=PEOPLE.replace("name: people", f"name: {name}", 1))
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/ledger")
    page.click("button:has-text('withdraw the grant')")
    page.wait_for_selector("text=Nothing is granted yet")
    assert page.locator("[data-withdraw]").count() == 0
    page.select_option("#grant-currency", "rho")
    page.fill("#grant-amount", "0.5")
    page.click("#grant button")
    page.wait_for_selector("text=ρ = 0.5")
    refused = shared.ask("POST", "/api/withdraw", {"name": "nobody"}, expect=409)
    assert refused["error"] == "'nobody' has no grant to withdraw"
