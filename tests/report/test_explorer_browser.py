"""explore.html in a real browser, from the disk: its numbers, its code, its words; keys, screen readers, narrow and dark."""

import csv
import io
import shutil
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import dipsmith as ds

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no browser here; install chromium"),
]
playwright = pytest.importorskip("playwright.sync_api")

FIELDS = [
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 79, "bins": {"width": 1}},
    {"name": "job", "type": "string", "enum": ["clerk", "<b>cook</b>", "nurse"], "other": "clerk"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]
COVERED = """([values, noise]) => values.map(([a, b]) => explore.fieller(a, noise, b, noise, 2.1183))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = np.arange(6000)
    rows = pa.table(
        {
            "age": 20 + (at * at) % 60,
            "job": np.array(["clerk", "<b>cook</b>", "nurse"])[at % 3 * (at % 7 > 1)],
            "sex": np.array(["F", "M"])[at // 7 % 2],
        }
    )
    schema = ds.Schema.from_dict({"name": "people", "unit": "row", "neighbours": "add-remove", "fields": FIELDS})
    method = ds.Marginals(cliques=[["age"], ["job", "sex"]])
    made = ds.synthesize(rows, schema, method, budget=ds.PureDP(1), testing=True, noise_seed=1, seed=1)
    return made.save(tmp_path_factory.mktemp("explore") / "release")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, folder):
    """Open the page, and hold that it fetched nothing and that its script never failed."""
    pages, wrong = [], []

    def go(address="", **more):
        page = browser.new_page(**more)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(f"file://{folder}/explore.html") else wrong.append(r.url))
        page.goto(f"file://{folder / 'explore.html'}{address}")
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert wrong == []


def lines(page):
    """The table that would be saved."""
    text = page.evaluate("explore.csv(explore.picked(), explore.answer(explore.picked()))")
    return list(csv.DictReader(io.StringIO(text)))


def test_numbers_and_intervals_are_those_of_the_noisy_table(visit, folder):
    page = visit("#a=job&b=sex")
    noisy = ds.measurements(folder).over("job", "sex")[0]
    half = np.ceil(2.1183 * noisy.standard_error)
    found = {(r["job"], r["sex"]): r for r in lines(page)}
    for i, job in enumerate(FIELDS[1]["enum"]):
        for k, sex in enumerate("FM"):
            value, told = noisy.array[i, k], found[job, sex]
            assert float(told["estimate"]) == value
            assert (float(told["low"]), float(told["high"])) == (max(0, value - half), max(0, value + half))
    assert page.locator("#numbers tbody tr").count() == 6
    assert page.inner_text("#verdict").startswith("Measured")


def test_a_column_is_added_up_and_a_third_restricts(visit, folder):
    noisy = ds.measurements(folder).over("job", "sex")[0].array
    page = visit("#a=job")
    assert {r["job"]: float(r["estimate"]) for r in lines(page)} == dict(
        zip(FIELDS[1]["enum"], noisy.sum(axis=1).astype(float).tolist(), strict=True)
    )
    only = visit("#a=job&c=sex&d=1")
    assert {r["job"]: float(r["estimate"]) for r in lines(only)} == dict(
        zip(FIELDS[1]["enum"], noisy[:, 1].astype(float).tolist(), strict=True)
    )


def test_what_is_not_carried_is_not_shown(visit):
    page = visit("#a=age&b=sex")
    assert page.inner_text("#verdict").startswith("Not carried")
    assert page.locator("#numbers table").count() == 0
    assert page.locator("#plot svg").count() == 0
    assert not page.is_visible("#save")
    assert 'supports("age", "sex")' in page.inner_text("#code")


def test_labels_reach_the_screen_as_text(visit):
    page = visit("#a=job")
    assert "<b>cook</b>" in page.inner_text("#numbers")
    assert page.locator("#numbers b").count() == 0


def test_the_code_for_python_runs_and_agrees(visit, folder, monkeypatch, capsys):
    page = visit("#a=job&b=sex")
    monkeypatch.chdir(folder)
    inside: dict[str, pd.DataFrame] = {}
    exec(page.inner_text("#code"), inside)
    for row in lines(page):
        told = inside["told"].loc[row["job"], row["sex"]]
        assert told["value"] == float(row["estimate"])
        assert abs(told["value"] + told["half"] - float(row["high"])) <= 1
    page.click("[data-code=Stata]")
    assert "import delimited" in page.inner_text("#code")


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no R here; make test installs it")
@pytest.mark.parametrize("shown", ["#a=job&b=sex", "#a=age"])
def test_the_code_for_r_runs_and_agrees(visit, folder, shown, tmp_path):
    """As it stands but for the reader of Parquet: R's own is not in Debian, so R gets the same rows as CSV."""
    page = visit(shown)
    told = {tuple(v for k, v in row.items() if k in ("job", "sex", "age")): row for row in lines(page)}
    page.click("[data-code=R]")
    pa_csv.write_csv(pq.read_table(folder / "measurements.parquet"), tmp_path / "measurements.csv")
    read = 'read.csv("measurements.csv", check.names = FALSE, colClasses = c(table = "integer"))'
    code = page.inner_text("#code").replace('arrow::read_parquet("measurements.parquet")', read)
    assert read in code
    (tmp_path / "page.R").write_text(code + 'write.csv(told, "told.csv", row.names = FALSE)\n')
    subprocess.run(["Rscript", "page.R"], cwd=tmp_path, check=True, capture_output=True)
    found = list(csv.DictReader(io.StringIO((tmp_path / "told.csv").read_text("utf-8"))))
    assert len(found) == len(told)
    for row in found:
        there = told[tuple(v for k, v in row.items() if k.startswith("by_"))]
        value, half = float(row["value"]), float(row["half"])
        assert value == float(there["estimate"])
        assert abs(max(0, value + half) - float(there["high"])) <= 1  # no table has fewer than none


def test_shares_of_two_noisy_sums_are_covered(visit):
    """20,000 pairs of noisy counts around 300 and 700: fewer than 94 % covered has a chance below 1e-9 if 95 % are."""
    rng = np.random.default_rng(11)
    scale = 40 / np.sqrt(2)
    values = np.array([300.0, 700.0]) + rng.laplace(0, scale, (20_000, 2))
    found = visit().evaluate(COVERED, [values.tolist(), 40.0**2])
    assert np.mean([f is None or f[0] <= 0.3 <= f[1] for f in found]) >= 0.94
    assert np.mean([f is not None for f in found]) > 0.99
    swamped = visit().evaluate(COVERED, [[[5.0, 3.0]], 40.0**2])
    assert swamped == [None]


def test_keys_alone_pick_and_turn_to_shares(visit):
    page = visit()
    page.focus("#a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("s")  # by sex: a select finds an entry by its first letters
    assert page.evaluate("location.hash") == "#a=job&b=sex"
    page.select_option("#how", "each")
    assert sum(float(r["estimate"]) for r in lines(page) if r["sex"] == "F") == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("address", ["", "#a=job&b=sex&how=each", "#a=age&b=sex"])
def test_a_screen_reader_finds_its_way(visit, address):
    """By all rules in the light; in the dark colours alone are others."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(address)
    assert [v["id"] for v in axe.run(page).response["violations"]] == []
    page.emulate_media(color_scheme="dark")
    colours = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    assert [v["id"] for v in axe.run(page, options=colours).response["violations"]] == []


@pytest.mark.parametrize("width", [360, 800, 2560])
def test_nothing_is_wider_than_the_screen(visit, width):
    page = visit("#a=job&b=sex", viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.evaluate("document.querySelector('#plot text').getBoundingClientRect().height") >= 9


def test_it_prints_without_its_controls(visit):
    page = visit("#a=job")
    page.emulate_media(media="print")
    assert not page.is_visible("#pick")
    assert page.is_visible("#numbers table")
