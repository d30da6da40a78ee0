"""A page in a real browser: tables are sorted by a click, nothing is fetched, nothing is wider than the screen."""

import json
import re
import shutil
import subprocess
import zlib
from dataclasses import replace
from itertools import pairwise

import pytest

from dipsmith.report.content import Figure, Page, Section, Table
from dipsmith.report.figures import Against, ChartLine, Distribution, against, available, bars, curves, distributions
from dipsmith.report.histograms import Overlay, overlays
from dipsmith.report.sections import page
from dipsmith.report.support_map import Shade, support_map

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


def test_a_column_is_found_by_its_first_letters_without_a_script(tmp_path):
    """On the map others are faint, and of the list its rows are left, also those that nobody sees before; not on paper."""
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("age", "pay", "sex")
    drawing = support_map(names, lambda a, b: Shade("measured", f"{a} × {b}"))
    pairs = [("age × pay",), ("age × sex",), ("pay × sex",)]
    listed = replace(Table.of("Pairs", ("pair",), pairs), marks=("c0 c1", "c0 c2", "c1 c2 more"))
    figure = Figure("Which?", drawing, "n = 10", "a triangle", searched=names)
    whole = page(Page("t", (), (Section("s", (figure, listed)), Section("other", (SCORES,)))))
    assert "<script" not in whole
    (tmp_path / "page.html").write_text(whole, "utf-8")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page()
        opened.goto(f"file://{tmp_path / 'page.html'}")

        def shown():
            rows = opened.locator("#s tbody tr").all()
            faint = "all => all.map(g => getComputedStyle(g).opacity != 1)"
            return [row.is_visible() for row in rows], opened.locator(".map g").evaluate_all(faint)

        assert shown() == ([True, True, False], [False] * 6)
        opened.get_by_label("Look for a column").focus()
        opened.keyboard.type("se")
        # Cells go row by row: age; pay × age, pay; sex × age, sex × pay, sex.
        assert shown() == ([False, True, True], [True, True, True, False, False, False])
        assert opened.locator("#other tbody tr").first.is_visible()
        opened.emulate_media(media="print")
        assert shown() == ([True, True, False], [False] * 6)
        assert not opened.locator(".find").is_visible()
        browser.close()


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


TEXTS = """() => [...document.querySelectorAll('figure svg')].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const words = [...svg.querySelectorAll('text')].filter((t) => t.textContent.trim());
  const boxes = words.map((t) => [t.textContent.trim(), t.getBoundingClientRect()]);
  const cut = boxes.filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1);
  const over = boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
    .map(([other]) => `${one} | ${other}`));
  return [...cut.map(([t]) => `cut: ${t}`), ...over];
})"""


def test_no_title_is_cut_and_no_label_lies_on_another():
    """Range bins side by side, long names above narrow panels, points with names: text keeps apart and inside."""
    import numpy as np

    playwright = pytest.importorskip("playwright.sync_api")
    ranges = [f"{i * 2500:,} to {i * 2500 + 2499:,}" for i in range(40)]
    wide = Distribution("pay_before_taxes_and_transfers_of_the_household", ranges, np.full(40, 1 / 40), True)
    few = Distribution("hours", ["0 to 9", "10 to 39", "40 to 40", "41 to 99"], np.full(4, 0.25), True, noise=0.02)
    steps = [0, 1, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 99_999, 100_000]
    spans = [f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in pairwise(steps)]
    money = Distribution("capital-gain", spans, np.full(12, 1 / 12), True)
    losses = Distribution(
        "capital-loss", ["10000-19999", "20000-49999", "50000-99999", "100000-199999"] * 2, np.full(8, 1 / 8), True
    )
    line = ChartLine("ceiling", np.linspace(0, 1, 11))
    rocs = [
        (f"marital_status_and_household_{i} (AUC 0.71, ceiling 0.88)", line, [ChartLine("attacker", line.values**0.8)])
        for i in range(4)
    ]
    at, beside = np.array([0.1, 0.1001, 0.5, 0.9]), np.array([0.4, 0.4001, 0.5, 0.7])
    named = [
        f"pay = {w} by education = {x}" for w, x in (("50,000 to 59,999", "Bachelors"),) * 2 + (("a", "b"), ("c", "d"))
    ]
    drawn = [
        distributions([wide, few]),
        distributions([few] * 5),
        distributions([money, losses, few]),
        overlays([Overlay(d.title, "TVD .1", d.labels, d.shares, (d.shares,), True) for d in (money, losses)], ["a"]),
        curves(rocs, np.linspace(0, 1, 11), "false positive rate", "true positive rate"),
        curves(rocs[:3], np.linspace(0, 1, 11), "false positive rate", "true positive rate"),
        against([Against("pairs", at, beside, named)], "authentic", "synthetic"),
        against([Against(t, at[::-1], beside, named, "r = 0.5\nslope 1") for t in "abc"], "authentic", "synthetic"),
    ]
    blocks = tuple(Figure("Is it kept?", svg, "n = 10", "a figure", SCORES) for svg in drawn)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.set_content(page(Page("t", ("One.",), (Section("s", blocks),))))
        found = opened.evaluate(TEXTS)
        browser.close()
    assert found == []


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
