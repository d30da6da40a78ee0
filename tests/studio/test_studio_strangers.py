"""Other people on the same machine: a server of theirs on another port, a list of processes, a replayed cookie."""

import os
import re
import socketserver
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dipsmith.studio.invitation import invitation
from dipsmith.studio.session import ALPHABET, MOST_TRIES, Session

SCRIPT = """#!/bin/sh
echo "$@" > "{folder}/argv"
sleep 8
"""


class Eavesdropper:
    """A web server of somebody else on another port of this machine; notes every request's headers."""

    def __init__(self) -> None:
        heard: list[tuple[str, dict[str, str]]] = []

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append((self.path, dict(self.headers)))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>theirs</title><p>theirs</p>")

            def log_message(self, *_: object) -> None:
                pass

        self.heard = heard
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def eavesdropper():
    made = Eavesdropper()
    yield made
    made.close()


@pytest.fixture
def browsing(browser):
    """A browser of the steward, without the checks of `visit`: it goes to other servers here."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()


def enter(page, running) -> None:
    page.goto(running.address)
    page.fill("#code", running.code)
    page.click("text=Enter")
    page.wait_for_selector("#begin")


def test_no_other_port_ever_gets_the_cookie_or_the_secret(studio, people, tmp_path, browsing, eavesdropper):
    """A server on another port of 127.0.0.1, localhost or another name under it: visited, embedded, posted to."""
    people(tmp_path)
    running = studio(enter=False)
    enter(browsing, running)
    held = {c["name"]: c for c in browsing.context.cookies()}
    cookie = held[f"dipsmith-{running.port}"]
    assert cookie["domain"] == urlsplit(running.origin).hostname
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    secret = browsing.evaluate("sessionStorage.getItem('dipsmith-secret')")
    tab = browsing.context.new_page()
    for host in ("127.0.0.1", "localhost", "other.localhost"):
        tab.goto(f"http://{host}:{eavesdropper.port}/")
        tab.evaluate("fetch('/more', {credentials: 'include'}).then((a) => a.text())")
        assert tab.evaluate("sessionStorage.length + localStorage.length") == 0
        assert tab.evaluate("document.cookie") == ""
    assert len(eavesdropper.heard) >= 6
    for path, headers in eavesdropper.heard:
        assert "Cookie" not in headers, path
        assert secret not in str(headers)
        assert cookie["value"] not in str(headers)
    # the attack of the eavesdropper, had it got the cookie: nothing but the empty page
    with running.stranger() as replay:
        shown = replay.get("/", headers={"Cookie": f"{cookie['name']}={cookie['value']}"})
        assert "people" not in shown.text
        assert secret not in shown.text


def test_even_a_server_that_knows_the_name_gets_nothing_to_use(studio, people, tmp_path, browsing, eavesdropper):
    """Cookies ignore ports: under the same name another port does get the cookie. It opens nothing."""
    people(tmp_path)
    running = studio(enter=False)
    enter(browsing, running)
    host = urlsplit(running.origin).hostname
    secret = browsing.evaluate("sessionStorage.getItem('dipsmith-secret')")
    tab = browsing.context.new_page()
    tab.goto(f"http://{host}:{eavesdropper.port}/")
    assert tab.evaluate("sessionStorage.length + localStorage.length") == 0
    asked = "new Promise((done) => { const c = new BroadcastChannel('dipsmith-tabs'); c.onmessage = (e) => done(e.data); c.postMessage('asks'); setTimeout(() => done('silence'), 1500); })"
    assert tab.evaluate(asked) == "silence"
    got = next(h["Cookie"] for _, h in eavesdropper.heard if "Cookie" in h)
    assert secret not in str(eavesdropper.heard)
    # its page asks the studio, with the cookie that the browser adds by itself
    request = f"fetch('{running.origin}/api/grant', {{method: 'POST', credentials: 'include', mode: 'no-cors', body: '{{}}'}})"
    tab.evaluate(f"{request}.catch(() => null).then(() => 0)")
    with running.stranger() as replay:
        body = {"name": "people", "currency": "epsilon", "amount": "1000"}
        forged = {"Cookie": got, "Origin": running.origin}
        assert replay.post("/api/grant", json=body, headers=forged).status_code == 401
        assert replay.get("/interval.csv", headers=forged).status_code == 401
        assert "people.csv" not in replay.get("/", headers=forged).text
    assert not (tmp_path / "budget.db").exists()


def test_a_second_tab_gets_in_from_the_first_and_a_second_browser_does_not(studio, browser, browsing):
    running = studio(enter=False)
    enter(browsing, running)
    tab = browsing.context.new_page()
    tab.goto(running.origin + "/")
    tab.wait_for_selector("#begin")
    other = browser.new_context()
    stranger = other.new_page()
    stranger.goto(running.origin + "/")
    stranger.wait_for_selector("#code:visible")
    assert "Begin" not in stranger.content()
    stranger.fill("#code", running.code)
    stranger.click("text=Enter")
    stranger.wait_for_selector("#refused:has-text('entered already')")
    other.close()
    # a reload keeps the tab's secret; the plain address is refused with words
    tab.reload()
    tab.wait_for_selector("#begin")
    assert tab.goto(f"http://127.0.0.1:{running.port}/").status == 421
    assert "the one that the terminal printed" in tab.content()


def command_lines() -> dict[int, str]:
    """What every user of the machine can read about every process."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[int(file.parent.name)] = file.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
    return found


def test_no_process_names_the_token_and_the_browser_gets_in(tmp_path, browsing):
    """`dipsmith studio` opens a browser on a file that only its owner can read; its arguments hold no secret."""
    own, tools = tmp_path / "run", tmp_path / "tools"
    for folder in (own, tools, tmp_path / "work"):
        folder.mkdir(mode=0o700)
    fake = tools / "browser"
    fake.write_text(SCRIPT.format(folder=tools))
    fake.chmod(0o755)
    environment = {**os.environ, "BROWSER": str(fake), "XDG_RUNTIME_DIR": str(own)}
    command = [
        sys.executable,
        "-m",
        "dipsmith.cli.main",
        "studio",
        "--port",
        "0",
        "--folder",
        str(tmp_path / "work"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        end = time.monotonic() + 240
        while not (tools / "argv").exists() and time.monotonic() < end:
            time.sleep(0.05)
        (argument,) = (tools / "argv").read_text().split()
        file = Path(urlsplit(argument).path)
        text = file.read_text()
        token = re.search(r"#([\w-]{40,})", text)[1]
        code = re.search(r"once:  (\S+)", said)[1]
        lines = command_lines()
        assert any(str(file) in line for line in lines.values()), "the browser is not running"
        for pid, line in lines.items():
            assert token not in line, pid
            assert code not in line, pid
        assert token not in said
        for path, mode in ((file, 0o600), (file.parent, 0o700)):
            assert stat.S_IMODE(path.stat().st_mode) == mode
            assert path.stat().st_uid == os.getuid()
        assert file.parent.parent == own

        browsing.goto(file.as_uri())
        browsing.wait_for_selector("#begin")
        assert token not in browsing.url
        # used up: neither the file nor the code lets another in
        address = re.search(r"http://\S+/enter", said)[0]
        host = urlsplit(address).netloc
        with httpx.Client(base_url=f"http://127.0.0.1:{host.split(':')[1]}", headers={"Host": host}) as other:
            for offer in (token, code):
                answer = other.post("/enter", json={"offer": offer}, headers={"Origin": f"http://{host}"})
                assert answer.status_code == 403
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
    assert list(own.iterdir()) == [], "the file outlives the studio"


def test_without_a_browser_the_terminal_says_where_and_how(studio):
    running = studio(enter=False)
    assert "token" not in running.address
    assert "#" not in running.address
    assert set(running.code) <= {*ALPHABET, "-"}


def test_an_invitation_is_not_written_where_others_could_change_it(tmp_path, monkeypatch):
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(loose))
    with invitation("http://x.localhost:1/enter", 'a"><script>') as file:
        assert not file.is_relative_to(loose)
        assert "<script>" not in file.read_text()
        kept = file
    assert not kept.exists()


def test_token_and_code_share_their_tries_and_are_used_up_together():
    for wanted in ("token", "code", "shown_code"):
        session = Session()
        assert session.enter(getattr(session, wanted))
        assert not any(session.enter(offer) for offer in (session.token, session.code))
    session = Session()
    for _ in range(MOST_TRIES):
        assert not session.enter("wrong")
    assert not session.enter(session.token)
    assert not session.enter(session.code)
    assert len({Session().host for _ in range(50)}) == 50
    assert not Session().knows("", "")
