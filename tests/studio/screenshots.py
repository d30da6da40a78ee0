"""Draw the studio's pages.

python tests/studio/screenshots.py docs/images        the pictures of the documentation
python tests/studio/screenshots.py FOLDER --every     every page and state, 360 to 2560 pixels, light, dark and printed

Everything shown is made on the spot from simulated people. `--only WORD,WORD` draws the states whose name has one of the
words, `--look WORD` the looks that have it (400, dark, light-1280); `--keep FOLDER` keeps what was made, so that the next call
need not make it again.
"""

import argparse
import json
import os
import re
import signal
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from test_studio_browser import fresh, open_step, serious
from test_studio_jobs import pid_of
from test_studio_kinds import put_panel
from test_studio_questions import FIRST, SECOND, put

from conftest import CHROMIUM, PEOPLE, serve, settle, write_people
from dipsmith.examples import households, personnel
from dipsmith.schema.markup import render
from dipsmith.studio.choices import methods_for
from dipsmith.studio.jobs import STARTING, write_state
from dipsmith.studio.workspace import HIDDEN
from dipsmith.synthesis.writing import digest

ANALYSIS = "log(pay) ~ sex + race + age + education"
LOOKS = [
    *((scheme, width) for scheme in ("light", "dark") for width in (400, 800, 1280, 1920)),
    ("light", 360),
    ("light", 2560),
    ("print", 800),
]
HELD: list[int] = []
"""Processes that were stopped for a picture."""
CHECKED = (400, 1280)
"""Widths at which axe looks too."""
TALL = 1500
"""Pixels of a column of a contact sheet."""


@dataclass(frozen=True)
class State:
    """A page as somebody may see it: its address, or a file; what is done there first; and what is looked at."""

    name: str
    address: str
    act: Callable[[object], object] = lambda page: None
    look_at: str = ""


def main(out: Path, *, every: bool, only: str, look: str, keep: str) -> None:
    folder = Path(keep or tempfile.mkdtemp(prefix="stewards-"))
    folder.mkdir(exist_ok=True)
    out.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        if every and not only and not look:
            bare(browser, out)
        made = folder / "made.json"
        if not made.is_file():
            personnel.write(folder, rows_per_year=2500, seed=7)
        running = serve(folder, "--grace", "4")
        running.enter()
        try:
            facts = json.loads(made.read_text()) if made.is_file() else prepare(running, every)
            made.write_text(json.dumps(facts))
            states = [s for s in list_states(running, facts) if any(word in s.name for word in only.split(","))]
            if every:
                looks = [(s, w) for s, w in LOOKS if look in f"{s}-{w}"]
                draw(browser, running, states, out, looks)
                for scheme, width in looks:
                    lay_out(out, f"{scheme}-{width}", width)
            else:
                illustrate(browser, running, states, out)
            for worker in [*HELD, *([] if keep else facts.get("held", []))]:
                os.kill(worker, signal.SIGKILL)
        finally:
            running.stop()
        browser.close()


def prepare(running, every: bool) -> dict:
    """Make what the pages show: releases, comparisons, questions, and jobs in every state."""
    folder = running.folder
    project = running.project("personnel.csv", (folder / "personnel.yaml").read_text(), "3")
    for amount in ("0.75", "0.5"):
        running.choose(project, method="loglinear", amount=amount, rows=None)
        running.wait(project, running.start(project, uuid.uuid4().hex), "finished")
    running.choose(project, method="forest", amount="1", rows=None)
    releases = [j["id"] for j in running.ask("GET", f"/api/p/{project}/jobs")["jobs"]]
    look = {"by": "", "reference": "sex=M, race=E", "classifiers": ["logistic"]}
    compare(running, project, {"releases": releases[:2], "analyses": ANALYSIS, **look})
    running.ask("POST", f"/api/p/{project}/tradeoff", {"stand_in": ""})
    ended(running, f"/api/p/{project}/tradeoff")
    facts = {"project": project, "release": releases[1]}
    if not every:
        return facts
    for i, name in enumerate(("waiting", "running", "cancelled", "failed", "stopped", "new", "people")):
        write_people(folder, 300 + i)
        (folder / "people.csv").rename(folder / f"{name}.csv")
        schema = PEOPLE.replace("name: people", f"name: {name}", 1)
        facts[name] = running.project(f"{name}.csv", schema, None if name == "new" else "2")
        running.choose(facts[name], method="mst", amount="1")
    for name in ("waiting", "running", "cancelled", "failed", "stopped"):
        if name == "failed":
            with (folder / "failed.csv").open("a") as file:
                file.write("300,41,F\n")
        job = running.start(facts[name], uuid.uuid4().hex)
        if name == "cancelled":
            running.ask("POST", f"/api/jobs/{job}/cancel", {})
        elif name == "failed":
            running.wait(facts[name], job, "failed")
        else:
            while running.job(facts[name], job)["stage"] == STARTING:
                time.sleep(0.1)
            worker = pid_of(job)
            os.kill(worker, signal.SIGKILL if name == "stopped" else signal.SIGSTOP)
            if name == "running":
                write_state(folder / HIDDEN / "jobs" / job, "running", "measuring tables", 0.45)
            facts["held"] = [*facts.get("held", []), *([] if name == "stopped" else [worker])]
    people = facts["people"]
    job = running.start(people, uuid.uuid4().hex)
    running.wait(people, job, "finished")
    asked = {"releases": [job], "analyses": "", "by": "", "reference": "", "classifiers": ["logistic"]}
    compare(running, people, asked | {"analyses": "nothing ~ sex"})
    (release,) = folder.glob(f"releases/{people}-*")
    first, second = (replace(q, release=digest(release / "card.json")) for q in (FIRST, SECOND))
    put(folder, "first.yaml", first)
    put(folder, "second.yaml", second)
    put(folder, "third.yaml", b"not a question")
    facts["answer"] = first.request.removeprefix("question ")
    running.ask("POST", f"/api/p/{people}/questions/{facts['answer']}/approve", {})
    ended(running, f"/api/p/{people}/questions")
    (folder / "wide.csv").write_text(
        ",".join(f"column_{i:02d}" for i in range(60)) + "\n" + ",".join(["1"] * 60) + "\n"
    )
    facts["wide"] = running.ask("POST", "/api/projects", {"data": "wide.csv"})["project"]
    facts |= linked(running)
    return facts


def linked(running) -> dict:
    """Tables whose rows belong together: careers, and households with their members; released and compared."""
    facts = {"panel": running.project("panel.parquet", put_panel(running.folder), "4")}
    households.write(running.folder, 800, seed=7)
    described = households.schema().to_dict()
    people = {**described.pop("members"), "unit": "row", "neighbours": "add-remove"}
    running.project("persons.parquet", render(people), None)
    text = (running.folder / "households.yaml").read_text()
    facts["homes"] = running.project("households.parquet", text, "4")
    for project, rows in ((facts["panel"], None), (facts["homes"], 800)):
        running.choose(project, method="aim", amount="2", rows=rows)
        job = running.start(project, uuid.uuid4().hex)
        running.wait(project, job, "finished")
        asked = {"releases": [job], "analyses": "", "by": "", "reference": "", "classifiers": ["logistic"]}
        compare(running, project, asked)
    return facts


def compare(running, project: str, asked: dict) -> None:
    running.ask("POST", f"/api/p/{project}/compare", {"request": uuid.uuid4().hex, **asked})
    ended(running, f"/api/p/{project}/comparisons")


def ended(running, address: str) -> None:
    while running.ask("GET", address)["jobs"][0]["status"] not in ("finished", "failed"):
        time.sleep(0.5)


def list_states(running, facts: dict) -> list[State]:
    """Every page and state; of the documentation's pictures those that `illustrate` names."""
    p = f"/p/{facts['project']}"
    found = [
        State("start", "/"),
        State("ledger", f"{p}/ledger"),
        State("schema", f"{p}/schema", lambda page: page.click("tr[data-name=occupation] td:nth-child(2)")),
        State("plan", f"{p}/plan", planned),
        State("tradeoff", f"{p}/plan", planned, "#trade"),
        State("explorer", f"{p}/plan", planned, ".explore"),
        State("run", f"{p}/run"),
        State("release", f"{p}/release", reported),
        State("compare", f"{p}/compare", lambda page: page.wait_for_selector("#shown table, #shown svg")),
    ]
    if "people" not in facts:
        return found
    q, release = f"/p/{facts['people']}", running.folder / "releases"
    (here,) = release.glob(f"{facts['project']}-{facts['release'][:8]}")

    def step(name: str, *more: Callable[[object], object]) -> Callable[[object], None]:
        def act(page) -> None:
            planned(page)
            if name != "budget":
                open_step(page, name)
            for do in more:
                before = page.evaluate("document.documentElement.dataset.drawn")
                do(page)
                for _ in range(100):
                    page.wait_for_timeout(100)
                    if page.evaluate("document.documentElement.dataset.drawn") != before:
                        break

        return act

    def fill(place: str, text: str) -> Callable[[object], None]:
        return lambda page: page.fill(place, text)

    found += [
        State("start-refused", "/", refuse_upload),
        State("schema-new", f"/p/{facts['wide']}/schema"),
        State("schema-bulk", f"/p/{facts['wide']}/schema", lambda page: page.check("#all")),
        State("schema-learn", f"/p/{facts['wide']}/schema", lambda page: page.click("#learn-title")),
        State("plan-ungranted", f"/p/{facts['new']}/plan", planned),
        *(
            State(f"plan-step-{name}", f"{p}/plan", step(name))
            for name in ("protected", "method", "files", "files-out")
        ),
        State("plan-refused", f"{q}/plan", step("budget", fill("#amount", "much"))),
        State("plan-hopeless", f"{q}/plan", step("budget", fill("#amount", "0.001"))),
        State("plan-beyond", f"{q}/plan", step("budget", fill("#amount", "20"))),
        State("plan-analyses", f"{p}/plan", step("analyses", fill("#analyses", "log(pay) ~ sex + age | agency"))),
        State("plan-analyses-refused", f"{p}/plan", step("analyses", fill("#analyses", "log(pay) ~ height"))),
        *(
            State(
                f"plan-{name}", f"{q}/plan", step("method", lambda page, name=name: page.click(f"input[value={name}]"))
            )
            for name in methods_for("add-remove")
        ),
        *(
            State(f"run-{name}", f"/p/{facts[name]}/run", lambda page: page.wait_for_selector("#job-list .job"))
            for name in ("waiting", "running", "cancelled", "failed", "stopped", "people")
        ),
        State("release-none", f"/p/{facts['new']}/release"),
        State("release-card", f"{p}/release", lambda page: (reported(page), page.click("#whole-card summary"))),
        State("compare-none", f"/p/{facts['new']}/compare"),
        State("compare-failed", f"{q}/compare"),
        State("compare-pair", f"{p}/compare", pair),
        State("compare-scores", f"{p}/compare", lambda page: page.click("#scores > summary")),
        State("ledger-all", "/ledger"),
        State("questions", f"{q}/questions", lambda page: page.wait_for_timeout(1500)),
        State("questions-none", f"/p/{facts['new']}/questions"),
        State("answer", f"{q}/questions/{facts['answer']}"),
        *(
            State(f"{name}-{step}", f"/p/{facts[name]}/{step}", act)
            for name in ("panel", "homes")
            for step, act in (
                ("schema", lambda page: page.wait_for_timeout(800)),
                ("plan", planned),
                ("run", lambda page: page.wait_for_selector("#job-list .job")),
                ("release", reported),
                ("compare", lambda page: page.wait_for_selector("#shown table, #shown svg")),
            )
        ),
        State("nowhere", "/p/nobody/plan"),
        State("no-address", "/nowhere"),
        *(State(f"file-{f.stem}", f.as_uri()) for f in sorted(here.glob("*.html"))),
        *(State(f"file-{f.stem}", f.as_uri()) for f in sorted((running.folder / "comparisons").glob("*/*.html"))[:1]),
        State("compare-running", f"{q}/compare", look),
        State(
            "plan-bins", f"{q}/plan", step("protected", fill("#rows", "5000000"), lambda page: page.click("#bins-say"))
        ),
    ]
    return found


def planned(page) -> None:
    page.wait_for_selector("#stages td", state="attached")
    page.wait_for_timeout(1200)


def reported(page) -> None:
    page.wait_for_selector("html[data-reported]", state="attached", timeout=120_000)


def refuse_upload(page) -> None:
    page.set_input_files("#file", {"name": "empty.csv", "mimeType": "text/csv", "buffer": b""})
    page.click("text=Read the header")
    page.wait_for_selector("#new-says:not(:empty)")


def look(page) -> None:
    """Begin a comparison, and hold it half-way."""
    if not page.is_visible("#look"):
        page.click("summary:has-text('Another comparison')")
    page.click("#look")
    page.wait_for_selector(".job[data-status=running]:has-text('comparing')")
    HELD.append(pid_of(page.get_attribute(".job[data-status=running]", "data-job")))
    os.kill(HELD[-1], signal.SIGSTOP)
    page.wait_for_timeout(600)


def pair(page) -> None:
    page.wait_for_selector("#shown table, #shown svg")
    page.select_option("#column", "pay")
    page.select_option("#within", "sex")
    page.wait_for_selector("#shown .groups")


def bare(browser, out: Path) -> None:
    """The entrance and the first page of an empty folder."""
    running = serve(Path(tempfile.mkdtemp(prefix="empty-")))
    for scheme, width in LOOKS:
        page = new_page(browser, scheme, width)
        page.goto(running.origin + "/")
        page.wait_for_selector("#code")
        page.screenshot(path=out / f"entrance-{scheme}-{width}.png", full_page=True)
    running.enter()
    draw_all = [State("start-empty", "/"), State("ledger-empty", "/ledger")]
    draw(browser, running, draw_all, out, LOOKS)
    running.stop()


def new_page(browser, scheme: str, width: int):
    height = 1000 if width > 1280 else 800
    dark = "dark" if scheme == "dark" else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=dark)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.emulate_media(media="print" if scheme == "print" else "screen", color_scheme=dark)
    return page


def draw(browser, running, states: list[State], out: Path, looks: list[tuple[str, int]]) -> None:
    """Whole pages, each loaded once and seen in every look; what is wider than its window is said, and what axe finds."""
    page = new_page(browser, "light", 1280)
    plain = page.goto
    settle(page)
    fresh(running, page)
    for state in states:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.emulate_media(media="screen", color_scheme="light")
        if state.address.startswith("file:") or state.name == "no-address":
            plain(state.address if state.address.startswith("file:") else running.origin + state.address)
        else:
            page.goto(running.origin + state.address)
        state.act(page)
        for scheme, width in looks:
            page.set_viewport_size({"width": width, "height": 1000 if width > 1280 else 800})
            dark = "dark" if scheme == "dark" else "light"
            page.emulate_media(media="print" if scheme == "print" else "screen", color_scheme=dark)
            page.wait_for_timeout(150)
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                print(f"{state.name} at {width}: {wide} pixels wide", flush=True)
            if width in CHECKED and scheme != "print":
                for found in serious(page):
                    print(f"{state.name}, {scheme} at {width}: {found}", flush=True)
            page.screenshot(path=out / f"{state.name}-{scheme}-{width}.png", full_page=True)
    page.context.close()


def lay_out(out: Path, look: str, width: int) -> None:
    """Contact sheets of one look: pages cut into columns, side by side."""
    across = max(1, 1680 // width)
    columns = []
    for file in sorted(out.glob(f"*-{look}.png")):
        whole = Image.open(file).convert("RGB")
        columns += [
            whole.crop((0, top, whole.width, min(top + TALL, whole.height))) for top in range(0, whole.height, TALL)
        ]
    (out / "sheets").mkdir(exist_ok=True)
    for i in range(0, len(columns), across):
        sheet = Image.new("RGB", (across * (width + 12), TALL), "#999")
        for j, part in enumerate(columns[i : i + across]):
            sheet.paste(part, (j * (width + 12), 0))
        sheet.save(out / "sheets" / f"{look}-{i // across:02d}.png")


def illustrate(browser, running, states: list[State], out: Path) -> None:
    """The pictures of the documentation: one screen each, and one figure."""
    page = new_page(browser, "light", 1280)
    settle(page)
    fresh(running, page)
    for state in states:
        page.goto(running.origin + state.address)
        state.act(page)
        if state.name == "run":
            page.check("#sure")
            page.click("#start")
            page.wait_for_selector(".job[data-status=running]", timeout=120_000)
        page.wait_for_timeout(300)
        if state.look_at:
            page.evaluate("(s) => document.querySelector(s).scrollIntoView()", state.look_at)
        page.screenshot(path=out / f"studio-{state.name}.png")
        if state.name == "plan":
            page.emulate_media(color_scheme="dark")
            page.screenshot(path=out / "studio-plan-dark.png")
            page.emulate_media(color_scheme="light")
        if state.name == "compare":
            page.click("#scores > summary")
            figure = page.locator("figure", has=page.locator("p", has_text=re.compile("^Coefficients"))).last
            # it would lie over the figure
            page.evaluate("document.querySelector('.band').remove()")
            figure.scroll_into_view_if_needed()
            figure.screenshot(path=out / "studio-coefficients.png")
    page.context.close()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("out", type=Path)
    words.add_argument("--every", action="store_true")
    words.add_argument("--only", default="")
    words.add_argument("--look", default="")
    words.add_argument("--keep", default="")
    given = words.parse_args()
    main(given.out, every=given.every, only=given.only, look=given.look, keep=given.keep)
