"""The pages in a real browser: the whole journey, 100 columns, the explorer, the keyboard, contrast, and speed.

Every test ends with a check that the browser refused nothing on account of the content policy, that no request left
this machine, and that no script failed (see `visit`).
"""

import csv
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from dipsmith.examples import personnel
from dipsmith.planning.leaf_interval import interval, rows_for_width
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.synthesis.verify import verify


def serious(page, rule: str | None = None) -> list[str]:
    """What axe-core finds on a page and calls serious or critical, WCAG A and AA; or by one rule alone."""
    tags = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    found = Axe().run(page, options={"runOnly": tags if rule is None else {"type": "rule", "values": [rule]}})
    return [
        f"{page.url}: {v['id']}: {v['nodes'][0]['html'][:120]}"
        for v in found.response["violations"]
        if v["impact"] in ("serious", "critical")
    ]


def open_step(page, name: str) -> None:
    """Open one decision of the Plan page; the one before closes."""
    page.click(f"#step-{name} > summary")


def until(page, holds: str) -> None:
    """Wait for a condition; asked from outside, because the content policy forbids the page to evaluate text."""
    for _ in range(1200):
        if page.evaluate(holds):
            return
        page.wait_for_timeout(50)
    raise AssertionError(holds)


def fresh(running, page) -> None:
    """Enter with a browser: a server lets one in once, so the test's client hands its secrets over."""
    cookie = {"name": f"dipsmith-{running.port}", "value": running.cookie, "url": running.origin}
    page.context.add_cookies([{**cookie, "sameSite": "Strict", "httpOnly": True}])
    held = json.dumps([running.origin, running.page_token])
    page.context.add_init_script(
        f"(([origin, secret]) => {{ if (location.origin === origin) sessionStorage.setItem('dipsmith-secret', secret); }})({held})"
    )
    page.goto(running.origin + "/")


def test_the_whole_journey(studio, visit, tmp_path):
    """From a CSV file to a release and its comparison, by mouse and keyboard, in an empty folder."""
    data = tmp_path / "source"
    data.mkdir()
    personnel.write(data, rows_per_year=250, seed=7)
    work = tmp_path / "work"
    work.mkdir()
    running = studio("--grace", "1", folder=work, enter=False)
    page = visit()
    page.goto(running.address)
    findings: list[str] = serious(page)
    page.fill("#code", running.code.lower().replace("-", " "))
    page.click("text=Enter")

    # upload; only the header is read
    page.set_input_files("#file", str(data / "personnel.csv"))
    page.fill("#name", "personnel")
    page.click("text=Read the header")
    page.wait_for_url("**/p/personnel/schema")
    page.wait_for_selector("#grid tbody tr")
    assert page.locator("#grid tbody tr").count() == 10
    assert "0 of 10 columns are complete" in page.inner_text("#progress")

    # the schema: two columns by hand, the unit, then the rest from a file
    page.check("input[name=neighbours][value=label]")
    page.check("input[name=unit][value=column]")
    page.wait_for_selector("tr[data-name=employee_id]", state="detached")
    page.click("tr[data-name=age] td:nth-child(2)")
    page.select_option("#f-type", "integer")
    page.fill("#f-low", "17")
    page.fill("#f-high", "75")
    page.select_option("#f-cut", "width")
    page.fill("#f-cut-at", "5")
    page.wait_for_selector("#f-says:has-text('17 to 75 in 12 bins')")
    page.click("tr[data-name=sex] td:nth-child(2)")
    page.select_option("#f-type", "string")
    page.fill("#f-codes", "F\nM")
    page.wait_for_selector("#f-says:has-text('say where a value outside the list goes')")
    page.select_option("#f-other", "M")
    page.wait_for_selector("#f-says:has-text('others to M')")
    findings += serious(page)
    page.set_input_files("#yaml-file", str(data / "personnel.yaml"))
    page.wait_for_selector("#progress:has-text('Complete: 9 columns')")
    above = page.evaluate("document.querySelector('#onward').getBoundingClientRect().bottom <= innerHeight")
    assert above, "the way on is seen without scrolling, whichever column is open"
    with page.expect_download() as got:
        page.click("text=Export as YAML")
    exported = work / "exported.yaml"
    got.value.save_as(exported)
    assert Schema.read(exported) == Schema.read(data / "personnel.yaml")

    # without a grant the plan says so; a slip of the keyboard is refused where it was made
    page.click("#next a")
    page.wait_for_selector("#sentence:has-text('Nothing is granted')")
    page.click("a.book")
    assert page.input_value("#grant-name") == "personnel"
    page.fill("#grant-amount", "1e9")
    page.click("#grant button")
    page.wait_for_selector("#grant-says:has-text('would protect nobody')")
    page.fill("#grant-amount", "2")
    page.fill("#grant-why", "pilot")
    page.click("#grant button")
    page.wait_for_selector("text=2 granted")
    page.wait_for_selector("td:has-text('pilot')")
    findings += serious(page)
    page.click("nav >> text=Plan")
    page.wait_for_selector("#sentence:has-text('ε = 1 remains')")
    page.fill("#amount", "0.75")
    page.wait_for_selector("#sentence:has-text('spends ε = 0.75 of the ε = 2 granted')")
    assert "employee_id per year, at most 1 row" in page.inner_text("#sentence")
    assert page.is_hidden("input[value=loglinear]"), "one decision at a time"
    open_step(page, "method")
    assert page.is_hidden("#amount")
    assert page.is_checked("input[value=loglinear]")
    page.click("input[value=forest]")
    page.wait_for_selector("#stages td:has-text('tree')")
    page.click("input[value=loglinear]")
    page.wait_for_selector("#stages td:has-text('effect')")
    findings += serious(page)

    # the run
    page.click("text=Go on to the run")
    page.wait_for_selector("#job-list p")
    assert page.is_disabled("#start")
    assert page.evaluate("document.querySelector('#start').getBoundingClientRect().bottom <= innerHeight"), (
        "no scrolling"
    )
    page.check("#sure")
    page.click("#start")
    page.wait_for_selector(".job[data-status=waiting]")
    page.wait_for_selector(".job[data-status=finished]", timeout=240_000)
    page.wait_for_selector("#title:has-text('It is done')")
    assert page.is_hidden("#go"), "nobody is asked to spend what was spent"
    assert "ε = 1.25 is left" in page.inner_text("#sentence")
    findings += serious(page)
    page.click("text=See it")
    page.wait_for_url("**/release/*")
    # the picture comes first, the report below, the card is opened and not downloaded
    page.wait_for_selector("#first-picture figure svg", timeout=120_000)
    assert "ε = 0.75" in page.inner_text(".lead")
    assert page.locator("#rows tbody tr").count() == 12
    assert page.locator("#report-here table").count()
    page.click("#whole-card summary")
    page.wait_for_selector("#card:has-text('neighbours')")
    page.click("#verify")
    page.wait_for_selector("#verified:has-text('Whole')")
    page.click("text=files, one by one")
    with page.expect_download() as got:
        page.click(".files a:has-text('synthetic-1.parquet')")
    kept = Path(got.value.path()).read_bytes()
    (release,) = (work / "releases").iterdir()
    assert kept == (release / "synthetic-1.parquet").read_bytes()
    with page.expect_download() as got:
        page.click("text=Everything as one zip")
    with zipfile.ZipFile(got.value.path()) as whole:
        inside = {name.partition("/")[2]: whole.read(name) for name in whole.namelist()}
        assert {entry.date_time for entry in whole.infolist()} == {(1980, 1, 1, 0, 0, 0)}, "no time of writing"
    assert inside == {p.relative_to(release).as_posix(): p.read_bytes() for p in release.rglob("*") if p.is_file()}
    page.click("button[data-copy=citation]")
    cited = page.evaluate("navigator.clipboard.readText()")
    assert cited.startswith("Synthetic data in place of personnel. Differentially private release, ε = 0.75")
    assert page.locator(".band").count() == 0
    findings += serious(page)

    # the comparison is confidential, on screen and in the ledger
    page.click("text=Compare with the authentic rows")
    page.wait_for_selector(".band")
    assert page.inner_text(".band").startswith("CONFIDENTIAL")
    for name in ("interactions", "cart", "boosting"):
        page.uncheck(f"input[name=classifier][value={name}]")
    page.fill("#analyses", "log(pay) ~ sex + race + age")
    page.fill("#reference", "sex=M, race=E")
    command = page.inner_text("#command")
    assert (
        "--analysis 'log(pay) ~ sex + race + age' --reference sex=M --reference race=E --classifier logistic" in command
    )
    page.click("text=Look at the authentic rows")
    page.wait_for_url("**/compare/*", timeout=240_000)
    page.wait_for_selector("#pick button")
    page.click("#scores > summary")
    page.wait_for_selector(".report figure svg")
    assert page.locator("text=Can a classifier tell them apart?").count()
    assert page.locator("figure:has-text('Coefficients')").count()
    assert page.title().startswith("CONFIDENTIAL")
    page.emulate_media(color_scheme="dark")
    findings += serious(page)
    # a sortable table sorts
    column = page.locator(".report th button").first
    column.click()
    assert page.locator(".report th[aria-sort=ascending]").count() == 1

    ledger = Ledger(work / "budget.db")
    assert (ledger.show("personnel").spent, ledger.looks("personnel")) == (0.75, 1)
    assert verify(release, ledger).rows == 1000
    (comparison,) = (work / "comparisons").iterdir()
    assert comparison.stat().st_mode & 0o077 == 0
    assert findings == []


def test_images_and_files_come_with_the_pages_secret(shared, visit):
    """An image inside a figure is fetched by the script and shown; its plain address brings nothing."""
    page = visit()
    fresh(shared, page)
    shown = page.evaluate(
        """async () => {
          const { pictures } = await import('/static/page.js');
          const root = document.createElement('div');
          root.innerHTML = '<svg width="50" height="50"><image data-src="/interval.svg?n=100" width="50" height="50"/></svg>';
          document.body.append(root);
          pictures(root);
          const image = root.querySelector('image');
          await new Promise((done, fail) => { image.addEventListener('load', done); image.addEventListener('error', fail); });
          const plain = await fetch('/interval.svg?n=100');
          return [image.getAttribute('href'), plain.status];
        }"""
    )
    assert shown[0].startswith(f"blob:{shared.origin}/")
    assert shown[1] == 401


HOSTILE = """<img src=x onerror=alert(1)>"""


def test_names_and_codes_are_text_whatever_they_say(shared, visit):
    """A header and a code list full of markup: shown as they are, and no element comes of them."""
    (shared.folder / "hostile.csv").write_text(f'"{HOSTILE}","</script><script>x"\na,b\n')
    schema = f"""
name: hostile columns
unit: row
neighbours: add-remove
fields:
- {{name: "{HOSTILE}", type: string, enum: ["{HOSTILE}", "'b"], other: "'b"}}
- {{name: "</script><script>x", type: string, enum: [b], missing: true}}
rules:
- {{never: {{"{HOSTILE}": "{HOSTILE}"}}}}
"""
    running = shared
    project = running.project("hostile.csv", schema, "1")
    # no schema has such a name, but a ledger that another program wrote may
    Ledger(shared.folder / "budget.db").grant(HOSTILE, PureDP(1))
    page = visit()
    fresh(running, page)
    for path in (
        "/ledger",
        f"/p/{project}/schema",
        f"/p/{project}/plan",
        f"/p/{project}/run",
        f"/p/{project}/compare",
    ):
        page.goto(running.origin + path)
        page.wait_for_load_state("networkidle")
        assert page.locator("main img, main script:not([type='application/json']), [onerror]").count() == 0, path
        assert HOSTILE in page.inner_text("main") or path.endswith("compare"), path


WIDE = [f"c{i:03d}" for i in range(100)]


def test_a_hundred_columns_by_keyboard_alone(shared, visit):
    """Search, select, bulk edit, one column by hand, a rule, and undo of a left-out column; no pointer is used."""
    (shared.folder / "wide.csv").write_text(",".join(WIDE) + "\n" + ",".join(["1"] * 100) + "\n")
    running = shared
    running.ask("POST", "/api/projects", {"data": "wide.csv"})
    page = visit()
    fresh(running, page)
    page.goto(running.origin + "/p/wide/schema")
    assert page.locator("#grid tbody tr").count() == 100
    key = page.keyboard.press

    # bulk: all columns become strings of three codes, missing a level
    key("/")
    page.keyboard.type("c0")
    until(page, "document.querySelectorAll('#grid tbody tr').length === 100")
    key("Control+A")
    key("Delete")
    key("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.name") == "c000"
    key("Control+A")
    assert page.inner_text("#bulk-count") == "100 selected:"
    page.focus("#bulk-type")
    page.keyboard.type("string")
    page.focus("#bulk-missing")
    page.keyboard.type("a level")
    page.focus("#bulk-codes")
    page.keyboard.type("a, b, c")
    page.focus("#bulk-apply")
    key("Enter")
    page.wait_for_selector("#progress:has-text('100 of 100 columns are complete')")

    # terms by arrow keys
    page.focus("input[name=neighbours][value=add-remove]")
    key("Space")
    page.focus("input[name=unit][value=row]")
    key("Space")
    page.wait_for_selector("#progress:has-text('Complete: 100 columns')")

    # one column: found, opened, changed; Escape comes back to its row
    key("Escape")
    page.focus("#grid tbody tr[tabindex='0']")
    key("Escape")
    key("/")
    page.keyboard.type("c042")
    until(page, "document.querySelectorAll('#grid tbody tr').length === 1")
    key("Enter")
    key("Enter")
    assert page.evaluate("document.activeElement.id") == "f-type"
    page.keyboard.type("int")
    page.wait_for_selector("[data-for=bounds]:visible")
    page.focus("#f-low")
    page.keyboard.type("0")
    key("Tab")
    page.keyboard.type("9")
    page.wait_for_selector("#f-says:has-text('0 to 9')")
    key("Escape")
    assert page.evaluate("document.activeElement.dataset.name") == "c042"

    # selected by Space, left out, and taken in again
    key("Space")
    assert page.inner_text("#bulk-count") == "1 selected:"
    page.focus("#bulk-drop")
    key("Enter")
    page.wait_for_selector("#dropped button")
    page.focus("#dropped button")
    page.evaluate("document.getElementById('open-only').dispatchEvent(new Event('change'))")  # as a late answer does
    assert page.evaluate("document.activeElement.dataset.take") == "c042", "drawing the page anew took the focus away"
    key("Enter")
    page.focus("#search")
    key("Escape")
    until(page, "document.querySelectorAll('#grid tbody tr').length === 100")
    page.wait_for_selector("#progress:has-text('99 of 100 columns are complete')")
    page.focus("#open-only")
    key("Space")
    until(page, "document.querySelectorAll('#grid tbody tr').length === 1")
    key("Space")

    # a rule
    page.select_option(".r-column", "c001")
    page.wait_for_selector("select.r-value")
    page.select_option(".r-value", ["a", "b"])
    page.focus("#rule button[type=submit]")
    key("Enter")
    page.wait_for_selector("#rule-list li:has-text('never: c001 a or b')")
    assert serious(page) == []

    held = json.loads((shared.folder / ".dipsmith-studio" / "projects" / "wide.json").read_text())["document"]
    assert len(held["fields"]) == 100
    assert held["fields"][7] == {
        "name": "c007",
        "role": "private",
        "type": "string",
        "missing": True,
        "enum": ["a", "b", "c"],
    }
    assert held["rules"] == [{"never": {"c001": ["a", "b"]}}]

    # an edit is answered with 100 columns too
    page.fill("#search", "c042")
    key("Enter")
    key("Enter")
    page.select_option("#f-type", "integer")
    page.fill("#f-low", "0")
    for high in (10, 11):
        page.fill("#f-high", str(high))
        page.wait_for_selector(f"#f-says:has-text('0 to {high}')")

    # and the plan of 100 columns is drawn
    page.goto(running.origin + "/p/wide/plan")
    page.wait_for_selector("#stages td", timeout=120_000)


def test_explorer_says_what_the_command_says(shared, visit):
    project = shared.project()
    shared.choose(project)
    page = visit()
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td")
    assert page.is_hidden("#explore"), "only for methods with leaves"
    open_step(page, "method")
    page.click("input[value=forest]")
    page.wait_for_selector("#x-tied:has-text('this plan')")
    until(page, "document.getElementById('x-least').dataset.least")
    assert "both sides" in page.inner_text("#x-kind-says")
    ran = {}
    for p0, lam, width, kind, law in (
        ("0.25", "0.4", "0.05", "sym", "continuous"),
        ("0.1", "1", "0.08", "equal", "discrete"),
        ("0", "0.3", "0.1", "interp", "continuous"),
    ):
        page.select_option("#x-kind", kind)
        page.select_option("#x-law", law)
        for name, value in (("p0", p0), ("lam", lam), ("width", width)):
            slide(page, f"#x-{name}", value)
        said = explored(page)
        n = int(re.search(r"--n (\d+)", page.inner_text("#x-command"))[1])
        exact = interval(float(p0), float(lam), n, kind=kind, noise=law)
        assert (float(said["lo"]), float(said["hi"])) == (exact.lo, exact.hi)
        assert int(said["least"]) == rows_for_width(float(width), float(p0), float(lam), noise=law)
        ran[page.inner_text("#x-command")] = said
    # the command on the page, typed in a terminal, prints the same numbers
    command, said = next(iter(ran.items()))
    words = command.split()
    typed = subprocess.run(
        [sys.executable, "-m", "dipsmith.cli.main", *words[1:], "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(typed.stdout)
    assert (told["lo"], told["hi"]) == (float(said["lo"]), float(said["hi"]))

    # dragging a dashed line changes the width, and with it the records that are needed
    before = page.input_value("#x-width")
    page.locator("#x-figure").scroll_into_view_if_needed()
    box = page.locator("#x-figure .hit").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 40, steps=5)
    page.mouse.up()
    assert float(page.input_value("#x-width")) != float(before)
    said = explored(page)
    assert int(said["least"]) == rows_for_width(float(page.input_value("#x-width")), 0.0, 0.3)

    with page.expect_download() as got:
        page.click("text=Numbers as CSV")
    rows = list(csv.DictReader(Path(got.value.path()).read_text().splitlines()))
    assert {r["lam"] for r in rows} == {"0.3"}
    with page.expect_download() as got:
        page.click("text=Picture as SVG")
    assert Path(got.value.path()).read_text().startswith("<svg")
    page.click("button[data-copy=x-command]")
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#x-command")
    page.click("button[data-copy=command]")
    assert page.evaluate("navigator.clipboard.readText()").startswith("dipsmith plan")


def slide(page, slider: str, value: str) -> None:
    page.evaluate(
        "([s, v]) => { const e = document.querySelector(s); e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }",
        [slider, value],
    )


def explored(page) -> dict[str, str]:
    """The explorer's numbers once it is at rest."""
    page.wait_for_selector("#x-figure[aria-busy=false]", state="attached")
    return page.evaluate(
        "({...document.getElementById('x-says').dataset, ...document.getElementById('x-least').dataset})"
    )


def test_every_page_is_accessible_and_fits_every_window(shared, visit):
    """axe-core: no serious finding on any page, nor a colour in the dark; nothing has to be scrolled sideways."""
    project = shared.project()
    shared.choose(project)
    page = visit()
    fresh(shared, page)
    steps = ("schema", "check", "plan", "run", "release", "questions", "compare", "ledger")
    for path in ("/", "/ledger", *(f"/p/{project}/{step}" for step in steps), "/p/nobody/plan"):
        page.goto(shared.origin + path)
        page.wait_for_load_state("networkidle")
        for scheme, ground in (("light", "rgb(255, 253, 249)"), ("dark", "rgb(22, 23, 26)")):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
            assert serious(page, "color-contrast" if scheme == "dark" else None) == []
        page.emulate_media(color_scheme="light")
        for width in (360, 400, 800, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)


def test_two_tabs_spend_at_once(studio, people, visit, tmp_path):
    """Both tabs show that it can be afforded, both confirm: one run is charged, the other is told in its page."""
    people(tmp_path)
    running = studio("--grace", "60")
    project = running.project(grant="1")
    running.choose(project, amount="0.6")
    first = visit()
    fresh(running, first)
    second = first.context.new_page()
    for tab in (first, second):
        tab.goto(f"{running.origin}/p/{project}/run")
        tab.check("#sure")
    for tab in (first, second):
        tab.evaluate("document.getElementById('start').click()")
    for tab in (first, second):
        tab.wait_for_selector("#run-says:not(:empty), h1:has-text('It begins')")
    (refused,) = (told for tab in (first, second) if (told := tab.text_content("#run-says")))
    assert "0.4 of ε = 1 is left" in refused
    assert Ledger(tmp_path / "budget.db").show("people").spent == 0.6
    # and it is cancelled from the page
    first.click("text=Cancel, give the budget back")
    first.wait_for_selector(".job[data-status=cancelled]")
    asked = next(tab for tab in (first, second) if tab.is_hidden("#go"))
    asked.wait_for_selector("h1:has-text('It was cancelled')")
    assert asked.inner_text("#sentence").startswith("ε = 1 is left")
    assert Ledger(tmp_path / "budget.db").show("people").spent == 0


def first_page(running, page) -> tuple[int, list[float]]:
    """Bytes of the first page with an empty cache, and the milliseconds until it is seen, three times."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    seen: list[int] = []
    session.on("Network.loadingFinished", lambda e: seen.append(e["encodedDataLength"]))
    painted = []
    for _ in range(3):
        seen.clear()
        page.goto(running.origin + "/", wait_until="networkidle")
        painted.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    return sum(seen), painted


def test_the_first_page_is_small_and_sliders_redraw_the_page(shared, visit):
    """Less than 60 kB with many projects; how long things take depends on the machine: `benchmarks/studio.py` prints it."""
    for i in range(12):
        (shared.folder / f"many-{i}.csv").write_text("a\n1\n")
        shared.ask("POST", "/api/projects", {"data": f"many-{i}.csv"})
    project = shared.project()
    shared.choose(project, method="forest", rows=50_000)
    page = visit()
    fresh(shared, page)
    assert first_page(shared, page)[0] < 60_000
    assert page.locator("article.account").count() == 8
    page.click("summary:has-text('earlier')")
    assert page.locator("details.account a:visible").count() >= 5
    assert serious(page) == []
    page.goto(f"{shared.origin}/p/{project}/plan", wait_until="networkidle")
    page.wait_for_selector("#stages td")
    assert page.evaluate(REDRAWN, ["#amount-slider", "drawn", ["0.05", "-0.4"]])
    assert page.evaluate(REDRAWN, ["#x-n", "explored", ["10", "30"]])
    assert page.evaluate(REDRAWN, ["#x-lam", "explored", ["0.5", "0.6"]])
    assert page.evaluate(SKETCHED, ["0.05", "-0.4"])


REDRAWN = """async ([slider, mark, values]) => {
  const root = document.documentElement, element = document.querySelector(slider), took = [];
  const rest = (ms) => new Promise((done) => setTimeout(done, ms));
  for (const value of values) {
    await rest(400);
    const before = root.dataset[mark], start = performance.now();
    element.value = value;
    element.dispatchEvent(new Event('input', { bubbles: true }));
    while (root.dataset[mark] === before) await rest(1);
    await new Promise((done) => requestAnimationFrame(done));
    took.push(performance.now() - start);
  }
  return took;
}"""

SKETCHED = """async (values) => {
  const slider = document.querySelector('#amount-slider'), took = [];
  for (const value of values) {
    await new Promise((done) => setTimeout(done, 300));
    const before = document.querySelector('#figures').textContent, start = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(done));
    if (document.querySelector('#figures').textContent === before) throw new Error('not redrawn');
    took.push(performance.now() - start);
  }
  return took;
}"""
