"""From upload to comparison with the keyboard alone: Tab, Enter, Space, arrows and typing, and no pointer.

At every stop of Tab the focus is seen, drawn with a ring, and farther down the page than the one before; at every step
what is needed to decide stands on the first screen of 1280 × 800 pixels. `python tests/studio/test_studio_keyboard.py 60`
walks a table of 60 columns, and says how long each step took.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dipsmith.privacy.ledger import Ledger

KINDS = ("code", "grade", "pay")
MOST_STOPS = 150
"""Presses of Tab before a thing counts as out of reach."""

STOP = """([back]) => {
  const e = document.activeElement, before = window.stopBefore;
  if (!e || e === document.body) return null;
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const within = box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth && box.width > 0 && box.height > 0;
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  const bare = box.height > 300 || !top || top === e || e.contains(top) || top.contains(e) || top.closest('label')?.control === e;
  const place = before && before !== document.body && before.isConnected ? before.compareDocumentPosition(e) : 0;
  const order = !place || Boolean(place & (back ? Node.DOCUMENT_POSITION_PRECEDING : Node.DOCUMENT_POSITION_FOLLOWING));
  return { within, bare, order, ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0, what: e.outerHTML.slice(0, 100) };
}"""


def tab_to(page, place: str, *, back: bool = False) -> None:
    """Press Tab until a thing has the focus; every stop is seen and in order."""
    for _ in range(MOST_STOPS):
        if page.evaluate("(place) => (window.stopBefore = document.activeElement).matches(place)", place):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
        stop = page.evaluate(STOP, [back])
        if stop is not None:
            missed = [seen for seen in ("within", "bare", "ring", "order") if not stop[seen]]
            assert not missed, (missed, stop["what"], page.url)
    raise AssertionError(f"{place} is not reached by Tab on {page.url}")


def press(page, place: str, key: str = "Enter", *, back: bool = False) -> None:
    tab_to(page, place, back=back)
    page.keyboard.press(key)


def type_in(page, place: str, text: str, *, back: bool = False) -> None:
    tab_to(page, place, back=back)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def on_screen(page, *places: str) -> None:
    """What is needed to decide is seen without scrolling, in a window of 1280 × 800 pixels."""
    page.evaluate("scrollTo(0, 0)")
    for place in places:
        page.wait_for_selector(place)
        bottom = page.evaluate("(place) => document.querySelector(place).getBoundingClientRect().bottom", place)
        assert 0 < bottom <= 800, (page.url, place, bottom)


def describe(page, kind: str, *fields: tuple[str, str]) -> None:
    """Find the columns of a kind, select them, and describe them all at once."""
    page.keyboard.press("/")
    page.keyboard.press("Control+A")
    page.keyboard.type(kind)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Control+A")
    page.wait_for_selector("#bulk-apply")
    tab_to(page, "#bulk-apply", back=True)
    for place, text in reversed(fields):
        if place == "#bulk-type":
            tab_to(page, place, back=True)
            page.keyboard.type(text)
        else:
            type_in(page, place, text, back=True)
    press(page, "#bulk-apply")
    press(page, "#bulk-none")


def table(columns: int, rows: int) -> str:
    """Columns of three kinds that depend on one another a little."""
    draw = random.Random(7)
    lines = [",".join(f"{KINDS[i % 3]}_{i:02d}" for i in range(columns))]
    for _ in range(rows):
        kind = draw.randrange(3)
        cells = (
            "abc"[(kind + (draw.random() < 0.3)) % 3],
            str(kind * 3 + draw.randrange(4)),
            f"{draw.uniform(0, 300) * (kind + 1):.0f}",
        )
        lines.append(",".join(cells[i % 3] for i in range(columns)))
    return "\n".join(lines) + "\n"


def walk(running, page, columns: int, rows: int) -> dict[str, float]:
    """The whole way; gives the seconds that each step took."""
    source = Path(tempfile.mkdtemp()) / "survey.csv"
    source.write_text(table(columns, rows))
    took, began = {}, time.monotonic()

    def done(step: str) -> None:
        nonlocal began
        took[step], began = time.monotonic() - began, time.monotonic()

    page.goto(running.origin + "/")
    page.wait_for_selector("#code")
    type_in(page, "#code", running.code)
    page.keyboard.press("Enter")
    page.wait_for_selector("#new")
    on_screen(page, "h1", "#file", "#new button[type=submit]")
    with page.expect_file_chooser() as chooser:
        press(page, "#file")
    chooser.value.set_files(str(source))
    press(page, "#new button[type=submit]")
    page.wait_for_selector(f"#counted:has-text('{columns} columns')")
    done("upload")

    on_screen(page, "#progress", "input[name=neighbours]", "input[name=unit]", "#grid tbody tr:nth-child(5)")
    describe(page, "code", ("#bulk-type", "string"), ("#bulk-codes", "a, b, c"))
    describe(page, "grade", ("#bulk-type", "integer"), ("#bulk-low", "0"), ("#bulk-high", "9"))
    describe(page, "pay", ("#bulk-type", "number"), ("#bulk-low", "0"), ("#bulk-high", "900"), ("#bulk-width", "100"))
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    # backwards one comes to the last of a group; the arrow goes round to the first
    press(page, "input[name=unit]", "ArrowDown", back=True)
    press(page, "input[name=neighbours]", "ArrowDown", back=True)
    page.wait_for_selector(f"#progress:has-text('Complete: {columns} columns')")
    # one column by hand: Enter opens it, Escape comes back to its row
    tab_to(page, "#grid tbody tr")
    page.keyboard.press("Enter")
    type_in(page, "#f-title", "the first code")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.name") == "code_00"
    on_screen(page, "#onward")
    press(page, "#next a")
    page.wait_for_selector("#sentence:has-text('Nothing is granted')")
    done("schema")

    press(page, ".book", back=True)
    page.wait_for_selector("#grant")
    on_screen(page, "h1", "#grant button")
    type_in(page, "#grant-amount", "4")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=4 granted")
    done("grant")
    press(page, "nav a[href$=plan]", back=True)
    page.wait_for_selector("#sentence:has-text('remains')")
    on_screen(page, "#sentence", "#amount", "#odds", "#errors p")
    press(page, "#step-protected > summary")
    type_in(page, "#rows", str(rows))
    press(page, "#step-protected button[data-next=budget]")
    type_in(page, "#amount", "2")
    tab_to(page, "#amount-slider")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#sentence:has-text('of the ε = 4 granted')")
    on_screen(page, "#sentence", "#above a", "#amount", "#odds", "#columns tbody tr")
    press(page, "#step-method > summary")
    tab_to(page, "input[name=method]")
    for _ in range(12):
        if page.evaluate("document.activeElement.value") == "mst":
            break
        page.keyboard.press("ArrowDown")
    page.wait_for_selector("#step-method[open] input[value=mst]:checked")
    page.wait_for_selector("#stages td")
    press(page, ".onward a")
    done("plan")

    page.wait_for_selector("#sure")
    on_screen(page, "#sentence", "#bar", "#sure", "#start")
    press(page, "#sure", "Space")
    press(page, "#start")
    page.wait_for_selector(".job[data-status=finished]", timeout=600_000)
    press(page, ".job a")
    page.wait_for_selector("#rows")
    on_screen(page, "h1", ".lead", "a.button")
    page.wait_for_selector("#first-picture figure", timeout=120_000)
    done("run and release")

    press(page, "nav a[href$=compare]", back=True)
    page.wait_for_selector("#look")
    on_screen(page, ".band", "h1", "#look")
    for i in range(page.locator("input[name=classifier]").count() - 1):
        press(page, f"label:nth-of-type({i + 2}) > input[name=classifier]", "Space")
    press(page, "#look")
    page.wait_for_selector("#pick button", timeout=600_000)
    page.wait_for_selector("#shown table, #shown svg")
    on_screen(page, "#verdict p", "#browse")
    press(page, "#pick li:nth-child(2) button")
    page.wait_for_selector("#pick li:nth-child(2) button[aria-pressed=true]")
    press(page, "#scores > summary")
    page.wait_for_selector(".report figure svg")
    done("compare")
    return took


@pytest.mark.slow
def test_fifteen_columns_from_upload_to_comparison(studio, visit, tmp_path):
    running = studio("--grace", "0", enter=False)
    walk(running, visit(), 15, 400)
    shown = Ledger(tmp_path / "budget.db").show("survey")
    assert 1.9 < shown.spent < 2.2
    assert shown.looks == 1


@pytest.mark.crowd
@pytest.mark.slow
def test_sixty_columns_from_upload_to_comparison(studio, visit, tmp_path):
    running = studio("--grace", "0", enter=False)
    walk(running, visit(), 60, 1000)
    assert Ledger(tmp_path / "budget.db").show("survey").looks == 1


if __name__ == "__main__":
    from playwright.sync_api import sync_playwright

    from conftest import CHROMIUM, serve, settle

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(120_000)
        settle(page)
        running = serve(Path(tempfile.mkdtemp(prefix="keyboard-")), "--grace", "0")
        try:
            for step, seconds in walk(running, page, int(sys.argv[1]), 3000).items():
                print(f"{step}: {seconds:.0f} s")
        finally:
            running.stop()
            browser.close()
