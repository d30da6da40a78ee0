"""A studio as its users have it: a process of its own, and a real browser that reports what it refused or fetched."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dipsmith.examples import personnel

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PEOPLE = """\
name: people
unit: row
neighbours: add-remove
fields:
- {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
- {name: sex, type: string, enum: [F, M], other: M}
- {name: grade, type: integer, minimum: 1, maximum: 5}
"""


def pytest_terminal_summary(terminalreporter):
    skipped = [
        r
        for r in terminalreporter.stats.get("skipped", [])
        if "tests/studio" in r.nodeid and "chromium" in str(r.longrepr)
    ]
    if skipped:
        terminalreporter.write_sep("!", f"{len(skipped)} STUDIO TESTS NOT RUN: chromium is missing")


def write_people(folder: Path, rows: int = 300) -> None:
    lines = ["id,age,sex,grade"]
    lines += [f"{i},{17 + (i * 37) % 74},{'FM'[(i * i) % 3 > 0]},{1 + i % 5}" for i in range(rows)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.yaml").write_text(PEOPLE)


@dataclass
class Running:
    """One server process, and a client that has entered it."""

    folder: Path
    process: subprocess.Popen[str]
    address: str
    code: str
    port: int
    client: httpx.Client = field(init=False)
    page_token: str = field(init=False)

    @property
    def origin(self) -> str:
        return self.address.removesuffix("/enter")

    @property
    def cookie(self) -> str:
        return self.client.cookies[f"dipsmith-{self.port}"]

    def stranger(self) -> httpx.Client:
        """A client of this machine that knows the studio's name and nothing else."""
        named = {"Host": urlsplit(self.origin).netloc}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=named, timeout=240)

    def enter(self) -> None:
        self.client = self.stranger()
        first = self.client.post("/enter", json={"offer": self.code}, headers={"Origin": self.origin})
        assert first.status_code == 200, first.text
        self.page_token = first.json()["secret"]
        self.client.headers["X-Dipsmith-Token"] = self.page_token

    def ask(self, method: str, address: str, body: object = None, expect: int = 200) -> dict:
        headers = {"Origin": self.origin, "X-Dipsmith-Token": self.page_token}
        answer = self.client.request(method, address, json=body, headers=headers)
        assert answer.status_code == expect, answer.text
        return answer.json()

    def project(self, file: str = "people.csv", schema: str = PEOPLE, grant: str | None = "2") -> str:
        made = self.ask("POST", "/api/projects", {"data": file})["project"]
        read = self.ask("POST", f"/api/p/{made}/schema/import", {"text": schema})
        kept = self.ask("POST", f"/api/p/{made}/schema", {"revision": 1, "document": read["document"]})
        assert kept["report"]["ready"], kept["report"]
        if grant:
            name = read["document"]["name"]
            self.ask("POST", "/api/grant", {"name": name, "currency": "epsilon", "amount": grant})
        return made

    def choose(self, project: str, **choices: object) -> dict:
        chosen = {"method": "flat", "currency": "epsilon", "amount": "0.5", "rows": 300, **choices}
        return self.ask("POST", f"/api/p/{project}/plan", {"choices": chosen})

    def start(self, project: str, request: str) -> str:
        return self.ask("POST", f"/api/p/{project}/run", {"request": request})["job"]

    def job(self, project: str, job: str) -> dict:
        return next(j for j in self.ask("GET", f"/api/p/{project}/jobs")["jobs"] if j["id"] == job)

    def wait(self, project: str, job: str, *statuses: str, seconds: float = 240) -> dict:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.job(project, job)
            if found["status"] in statuses:
                return found
            time.sleep(0.2)
        raise AssertionError(f"still {found}")

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)
        self.process.stdout.close()


def serve(folder: Path, *more: str, python: str = sys.executable) -> Running:
    process = subprocess.Popen(
        [
            python,
            "-m",
            "dipsmith.cli.main",
            "studio",
            "--folder",
            str(folder),
            "--port",
            "0",
            "--no-browser",
            "--json",
            *more,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    told = ""
    for line in process.stdout:
        told += line
        if line.startswith("}"):
            break
    facts = json.loads(told)
    return Running(folder, process, facts["address"], facts["code"], facts["port"])


@pytest.fixture
def people() -> Callable[[Path], None]:
    """Write people.csv and people.yaml into a folder."""
    return write_people


@pytest.fixture
def studio(tmp_path) -> Iterator[Callable[..., Running]]:
    """Start studios on a folder; they are stopped when the test ends."""
    made: list[Running] = []

    def start(*more: str, folder: Path = tmp_path, enter: bool = True) -> Running:
        running = serve(folder, *more)
        made.append(running)
        if enter:
            running.enter()
        return running

    yield start
    for running in made:
        running.stop()


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Iterator[Running]:
    """One studio for the tests that leave nothing behind that others mind."""
    folder = tmp_path_factory.mktemp("shared")
    write_people(folder)
    running = serve(folder, "--grace", "0", "--most-upload", "0.001")
    running.enter()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def rooms(tmp_path_factory) -> Iterator[Running]:
    """A studio beside simulated personnel records."""
    folder = tmp_path_factory.mktemp("personnel")
    personnel.write(folder, rows_per_year=250, seed=7)
    running = serve(folder, "--grace", "0")
    running.enter()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is missing: the studio's pages cannot be tested (apt install chromium)")
        pytest.skip("chromium is missing: the studio's pages are not tested")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield found
        found.close()


def settle(page) -> None:
    """Let `goto` end when the page's content is there: the shell fetches it after the document has loaded."""
    plain = page.goto

    def goto(url: str, **more):
        answer = plain(url, **more)
        page.wait_for_selector("html[data-page]", state="attached")
        return answer

    page.goto = goto


@pytest.fixture
def visit(browser):
    """Open pages; at the end nothing was refused by the content policy, nothing went elsewhere, nothing failed."""
    contexts, wrong = [], []

    def open_page(width: int = 1280, height: int = 800, scheme: str = "light"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.add_init_script(
            "document.addEventListener('securitypolicyviolation', (e) => console.error('CSP ' + e.violatedDirective + ' ' + e.blockedURI));"
        )
        contexts.append(context)

        def request(r):
            where = urlsplit(r.url)
            if where.scheme not in ("blob", "data") and not (where.hostname or "").endswith(".localhost"):
                wrong.append(f"request to {r.url}")

        def said(message):
            if message.type == "error" and "status of 4" not in message.text:
                wrong.append(message.text)

        context.on("page", settle)
        context.on("request", request)
        context.on("console", said)
        context.on("weberror", lambda e: wrong.append(str(e.error)))
        page = context.new_page()
        page.set_default_timeout(240_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
