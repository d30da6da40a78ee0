"""A page in a real browser: tables are sorted by a click, nothing is fetched, nothing is wider than the screen."""

import json
import re
import shutil
import subprocess
import zlib

import pytest

from dipsmith.report.content import Figure, Page, Section, Table
from dipsmith.report.figures import ChartLine, available, bars
from dipsmith.report.sections import page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no browser here; install chromium"),
    pytest.mark.skipif(not available(), reason="no matplotlib here; install dipsmith[analysis]"),
]

SCORES = Table.of(
    "Scores",
    ("table", "distance", "rows"),
    [("pay × sex", 0.0012, 9), ("age", 0.5, 1234567), ("job × race", None, 80), ("sex", 1e-9, 700)],
)

SCRIPT = """<script>
addEventListener('load', function () {
  var said = {}, column = function (i) { return Array.from(document.querySelectorAll('tbody tr')).map(function (r) { return r.cells[i].textContent; }); };
  var buttons = document.querySelectorAll('th button');
  said.before = column(0);
  buttons[1].click(); said.up = column(1); said.marked = buttons[1].parentNode.getAttribute('aria-sort');
  buttons[1].click(); said.down = column(1);
  buttons[0].click(); said.names = column(0);
  said.fetched = performance.getEntriesByType('resource').map(function (e) { return e.name; });
  said.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  said.band = getComputedStyle(document.querySelector('.band')).position;
  said.text = document.querySelector('svg text').getBoundingClientRect().height;
  document.title = 'RESULT' + JSON.stringify(said);
});
</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import numpy as np

    drawing = bars(["a", "b"], np.array([0.6, 0.4]), [ChartLine("synthetic", np.array([0.5, 0.5]))], "share of rows")
    figure = Figure("Is it kept?", drawing, "n = 10", "two bars", SCORES)
    whole = page(Page("t", ("One.",), (Section("s", (SCORES, figure)),), confidential=True, sortable=True))
    made = tmp_path_factory.mktemp("page")
    (made / "plain.html").write_text(whole, "utf-8")
    (made / "page.html").write_text(whole.replace("</body>", SCRIPT + "</body>"), "utf-8")
    return made


@pytest.fixture(scope="module")
def said(folder):
    ran = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1280,900",
            "--dump-dom",
            f"file://{folder / 'page.html'}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r"<title>RESULT(.*?)</title>", ran.stdout)
    assert found, ran.stdout[:500]
    return json.loads(found[1].replace("&lt;", "<").replace("&amp;", "&"))


def test_a_click_sorts_by_value_and_another_turns_it_round(said):
    assert said["before"] == ["pay × sex", "age", "job × race", "sex"]
    known = [v for v in said["up"] if v != "–"]
    assert known == ["1.0e-9", "0.00120", "0.500"]
    assert [v for v in said["down"] if v != "–"] == known[::-1]
    assert said["marked"] == "ascending"
    assert said["names"] == sorted(said["names"])


def test_nothing_is_fetched(said):
    assert said["fetched"] == []


def test_the_page_fits_the_screen_and_is_legible(said):
    assert said["wide"] <= 0
    assert said["band"] == "sticky"
    assert said["text"] >= 9  # pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way(folder, scheme):
    """No violation of the rules that axe knows (WCAG 2 A and AA: names, order, contrast), in either colour scheme."""
    playwright = pytest.importorskip("playwright.sync_api")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(color_scheme=scheme)
        opened.goto(f"file://{folder / 'plain.html'}")
        found = axe.Axe().run(opened)
        browser.close()
    assert [v["id"] for v in found.response["violations"]] == []


LONG = Table.of("Lines", ("line", "value"), [(f"line {i}", i / 7) for i in range(90)])
RED = b".702 .149 .1176 rg"
"""The alarm colour as the browser writes it into a PDF."""


def printed_pages(folder, content):
    """What is drawn on every page that the browser prints."""
    (folder / "long.html").write_text(page(content), "utf-8")
    subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={folder / 'long.pdf'}",
            f"file://{folder / 'long.html'}",
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    whole = (folder / "long.pdf").read_bytes()
    objects = dict(re.findall(rb"(\d+) 0 obj\s(.*?)endobj", whole, re.DOTALL))
    drawn = []
    for one in objects.values():
        if re.search(rb"/Type\s*/Page\b", one):
            held = objects[re.search(rb"/Contents (\d+) 0 R", one)[1]]
            drawn.append(zlib.decompress(re.search(rb"stream\r?\n(.*?)\r?\nendstream", held, re.DOTALL)[1]))
    return drawn


@pytest.mark.parametrize("confidential", [True, False])
def test_every_printed_page_says_what_it_is(folder, confidential):
    """The red band is on every page of a confidential page's print, at the top and at the side, and on none of another's."""
    found = printed_pages(folder, Page("t", ("One.",), (Section("s", (LONG, LONG)),), confidential=confidential))
    assert len(found) > 3
    # red text above, red rectangle at the side: the colour is set at least twice
    assert [drawn.count(RED) >= 2 for drawn in found] == [confidential] * len(found)
    assert any(RED in drawn for drawn in found) == confidential
