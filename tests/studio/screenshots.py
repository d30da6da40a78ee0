"""Draw the pages for the documentation: python tests/studio/screenshots.py docs/images.

Everything shown is made on the spot from simulated personnel records.
"""

import sys
import tempfile
import time
import uuid
from pathlib import Path

from playwright.sync_api import sync_playwright
from test_studio_browser import fresh

from conftest import CHROMIUM, serve, settle
from dipsmith.examples import personnel

ANALYSIS = "log(pay) ~ sex + race + age + education"


def main(out: Path, every: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="stewards-"))
    personnel.write(folder, rows_per_year=2500, seed=7)
    running = serve(folder, "--grace", "4")
    running.enter()
    try:
        project = running.project("personnel.csv", (folder / "personnel.yaml").read_text(), "3")
        for amount in ("0.75", "0.5"):
            running.choose(project, method="loglinear", amount=amount, rows=None)
            job = running.start(project, uuid.uuid4().hex)
            running.wait(project, job, "finished", "failed")
        running.choose(project, method="forest", amount="1", rows=None)
        releases = [j["id"] for j in running.ask("GET", f"/api/p/{project}/jobs")["jobs"]]
        body = {
            "request": uuid.uuid4().hex,
            "releases": releases[:2],
            "analyses": ANALYSIS,
            "by": "",
            "reference": "sex=M, race=E",
            "classifiers": ["logistic"],
        }
        running.ask("POST", f"/api/p/{project}/compare", body)
        while running.ask("GET", f"/api/p/{project}/comparisons")["jobs"][0]["status"] not in (
            "finished",
            "failed",
        ):
            time.sleep(0.5)
        running.ask("POST", f"/api/p/{project}/tradeoff", {"stand_in": ""})
        while running.ask("GET", f"/api/p/{project}/tradeoff")["jobs"][0]["status"] not in ("finished", "failed"):
            time.sleep(0.5)
        looks = [("light", 1280)] if not every else [("light", 1280), ("dark", 1280), ("light", 1600), ("dark", 1600)]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            if not every:
                draw(browser, running, project, out, "dark", 1280, "-dark", only=("plan",))
            for scheme, width in looks:
                draw(browser, running, project, out, scheme, width, "" if not every else f"-{scheme}-{width}")
            browser.close()
    finally:
        running.stop()


def draw(browser, running, project, out, scheme, width, mark, only=()):
    context = browser.new_context(
        viewport={"width": width, "height": 800 if width == 1280 else 1000}, color_scheme=scheme
    )
    page = context.new_page()
    settle(page)
    fresh(running, page)

    def take(called, full=False, scroll=""):
        if only and called not in only:
            return
        if scroll:
            page.evaluate("(s) => document.querySelector(s).scrollIntoView()", scroll)
        page.screenshot(path=out / f"studio-{called}{mark}.png", full_page=full)

    page.goto(running.origin + "/")
    take("start")
    page.goto(f"{running.origin}/p/{project}/ledger")
    take("ledger")
    page.goto(f"{running.origin}/p/{project}/schema")
    page.click("tr[data-name=occupation] td:nth-child(2)")
    page.wait_for_timeout(300)
    take("schema")
    page.goto(f"{running.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td")
    page.wait_for_timeout(2500)
    take("plan")
    take("tradeoff", scroll="#trade")
    take("explorer", scroll=".explore")
    page.goto(f"{running.origin}/p/{project}/run")
    if not only and scheme == "light" and width == 1280:
        page.check("#sure")
        page.click("#start")
        page.wait_for_selector(".job[data-status=running]", timeout=120_000)
    take("run")
    page.goto(f"{running.origin}/p/{project}/release")
    page.wait_for_selector("html[data-reported]", state="attached", timeout=120_000)
    take("release")
    page.goto(f"{running.origin}/p/{project}/compare")
    page.wait_for_timeout(300)
    take("compare")
    if not only:
        page.click("#scores > summary")
        figure = page.locator("figure", has_text="Coefficients").last
        figure.scroll_into_view_if_needed()
        figure.screenshot(path=out / f"studio-coefficients{mark}.png")
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--every" in sys.argv)
