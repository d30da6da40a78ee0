"""The gate: every route refuses every kind of stranger, and every answer carries the headers."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.routing import Mount, Route

from dipsmith.errors import UsageError
from dipsmith.privacy.ledger import Ledger
from dipsmith.studio import gate
from dipsmith.studio.app import ADDRESSES, routes
from dipsmith.studio.gate import HEADERS
from dipsmith.studio.server import Studio
from dipsmith.studio.workspace import Workspace

PLACE = {"project": "people", "job": "0" * 32, "request": "0" * 32, "question": "0" * 32, "name": "people.csv"}


def table() -> list[tuple[str, str]]:
    """Every method and address of the route table, with values in place of its parameters."""
    found = [("GET", "/enter")]
    for route in routes():
        if isinstance(route, Mount):
            found += [("GET", f"{route.path}/studio.css"), ("GET", f"{route.path}/page.js")]
            continue
        assert isinstance(route, Route)
        path = re.sub(r"\{(\w+)(?::path)?\}", lambda m: PLACE[m[1]], route.path)
        found += [(method, path) for method in sorted(route.methods)]
    return found


def test_the_route_table_is_not_empty():
    assert len(table()) > 40
    assert {"PUT", "POST", "DELETE", "GET", "HEAD"} <= {method for method, _ in table()}


def headers_of(running, attack: str) -> dict[str, str]:
    good = {
        "Origin": running.origin,
        "X-Dipsmith-Token": running.page_token,
        "Cookie": f"dipsmith-{running.port}={running.cookie}",
    }
    plain = f"127.0.0.1:{running.port}"
    if attack == "bad host":
        # as after DNS rebinding: the page believes that it is at home, so host and origin agree
        return good | {
            "Host": f"rebound.example:{running.port}",
            "Origin": f"http://rebound.example:{running.port}",
        }
    if attack == "plain host":
        return good | {"Host": plain, "Origin": f"http://{plain}"}
    if attack == "localhost":
        return good | {"Host": f"localhost:{running.port}", "Origin": f"http://localhost:{running.port}"}
    if attack == "bad port":
        return {k: v for k, v in good.items() if k != "Origin"} | {"Host": running.origin[7:].split(":")[0] + ":1"}
    if attack == "foreign origin":
        return good | {"Origin": "https://evil.example"}
    if attack == "other port's origin":
        return good | {"Origin": running.origin.rpartition(":")[0] + ":1"}
    if attack == "null origin":
        return good | {"Origin": "null"}
    if attack == "no cookie":
        return {k: v for k, v in good.items() if k != "Cookie"}
    if attack == "wrong cookie":
        return good | {"Cookie": f"dipsmith-{running.port}=guessed"}
    if attack == "wrong secret":
        return good | {"X-Dipsmith-Token": "guessed"}
    if attack == "other site":
        return good | {"Sec-Fetch-Site": "cross-site"}
    if attack == "other port":
        return good | {"Sec-Fetch-Site": "same-site"}
    assert attack == "cookie alone"
    return {k: v for k, v in good.items() if k != "X-Dipsmith-Token"}


def is_public(method: str, path: str) -> bool:
    """What everyone gets who knows the studio's name: files of the package, and the shell in a page's place."""
    return method in ("GET", "HEAD") and (path.startswith("/static/") or path == "/enter")


@pytest.mark.parametrize(
    "attack",
    [
        "bad host",
        "plain host",
        "localhost",
        "bad port",
        "foreign origin",
        "other port's origin",
        "null origin",
        "no cookie",
        "wrong cookie",
        "wrong secret",
        "other site",
        "other port",
    ],
)
def test_every_route_refuses(shared, attack):
    refused = 0
    with shared.stranger() as stranger:
        for method, path in table():
            answer = stranger.request(
                method,
                path,
                headers=headers_of(shared, attack),
                content=b"{}" if method in ("POST", "PUT") else None,
            )
            assert_headers(answer, (attack, method, path))
            assert "set-cookie" not in answer.headers
            if is_public(method, path) and attack in ("no cookie", "wrong cookie", "wrong secret"):
                continue
            if path == "/enter" and method in ("GET", "HEAD") and attack in ("other site", "other port"):
                assert answer.text in (SHELL, "")  # a terminal in a browser opens it by a link
                continue
            assert 400 <= answer.status_code < 500, (attack, method, path, answer.status_code)
            refused += 1
    assert refused > 40


SHELL = (Path(gate.__file__).parent / "static" / "shell.html").read_text("utf-8")


def test_the_cookie_alone_opens_nothing_but_the_empty_shell(shared):
    """Replayed by a stranger who got it on another port: no page, no data, no file, no change."""
    project = shared.project()
    shells = 0
    with shared.stranger() as stranger:
        for method, path in [*table(), ("GET", f"/p/{project}/schema"), ("GET", f"/p/{project}/schema.yaml")]:
            answer = stranger.request(
                method,
                path,
                headers=headers_of(shared, "cookie alone"),
                content=b"{}" if method in ("POST", "PUT") else None,
            )
            assert_headers(answer, (method, path))
            if answer.status_code == 200:
                assert is_public(method, path) or answer.text in (SHELL, "")
                shells += answer.text == SHELL
            else:
                assert answer.status_code in (401, 403, 405), (method, path, answer.status_code)
            assert project not in answer.text
        granted = {"name": "people", "currency": "epsilon", "amount": "1000"}
        replayed = headers_of(shared, "cookie alone")
        assert stranger.post("/api/grant", json=granted, headers=replayed).status_code == 401
    assert shells > 8
    assert shared.page_token not in SHELL
    assert Ledger(shared.folder / "budget.db").show("people").granted < 1000


def test_pages_are_what_the_gate_takes_for_pages():
    """The shell stands in for pages alone: what is downloaded or asked by a script is refused, not replaced."""
    made = {path for _, path, view in ADDRESSES if view.__annotations__["return"] == "Screen"}
    for route in routes():
        if isinstance(route, Route):
            path = re.sub(r"\{(\w+)(?::path)?\}", lambda m: PLACE[m[1]], route.path)
            assert bool(gate.PAGE.fullmatch(path)) == (route.path in made), path
    assert len(made) == 13


def test_a_request_that_hides_where_it_comes_from_changes_nothing(shared):
    with shared.stranger() as stranger:
        for method, path in table():
            if method not in ("GET", "HEAD"):
                headers = {k: v for k, v in headers_of(shared, "foreign origin").items() if k != "Origin"}
                assert stranger.request(method, path, headers=headers, content=b"{}").status_code == 403


def test_pages_cannot_be_had_from_another_site_even_with_the_secrets(shared):
    """A page must be opened by the user or by the studio itself."""
    pages = [(m, p) for m, p in table() if m == "GET" and not p.startswith("/api/") and p != "/enter"]
    for _, path in pages:
        assert shared.client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def assert_headers(answer, what=""):
    for name, value in HEADERS.items():
        if name == "Cache-Control":
            continue
        assert answer.headers.get_list(name) == [value], (what, name)
    assert "server" not in answer.headers
    assert "cache-control" in answer.headers, what


def test_headers_on_pages_data_downloads_errors_and_nonsense(shared):
    own = {"Origin": shared.origin, "X-Dipsmith-Token": shared.page_token}
    for path in (
        "/",
        "/static/studio.css",
        "/interval.csv",
        "/nowhere",
        "/p/nobody/schema",
        "/static/../app.py",
    ):
        assert_headers(shared.client.get(path), path)
    assert_headers(shared.client.post("/api/codes", headers=own, content=b"not json"), "bad json")
    assert_headers(shared.client.request("BREW", "/", headers=own), "unknown method")
    with socket.create_connection(("127.0.0.1", shared.port), 5) as raw:
        raw.sendall(b"NOT HTTP AT ALL\r\n\r\n")
        said = raw.recv(65536).decode("latin-1")
    assert said.startswith("HTTP/1.1 400")
    for name, value in HEADERS.items():
        assert f"{name}: {value}" in said


def test_policy_allows_nothing_but_own_files():
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not re.search(r"https?:|\*|data:", policy)
    assert [part for part in policy.split("; ") if "blob:" in part] == ["img-src 'self' blob:"]


def test_two_hosts_are_refused(shared):
    with socket.create_connection(("127.0.0.1", shared.port), 5) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: {shared.origin[7:]}\r\nHost: evil.example\r\n\r\n".encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 4")


def offer(client, running, what: object):
    return client.post("/enter", json={"offer": what}, headers={"Origin": running.origin})


def test_the_code_works_once_and_the_cookie_is_locked_up(studio):
    running = studio(enter=False)
    assert re.fullmatch(r"http://[0-9a-z]{16}\.localhost:\d+/enter", running.address)
    assert re.fullmatch(r"[0-9A-Z]{5}-[0-9A-Z]{5}", running.code)
    with running.stranger() as client:
        assert client.get("/enter").text == SHELL
        assert offer(client, running, "guess").json() == {"error": "This is not the code; 4 tries are left."}
        first = offer(client, running, running.code)
        assert first.status_code == 200
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "domain" not in cookie.lower()
        own = {"X-Dipsmith-Token": first.json()["secret"]}
        assert "Begin with a file" in client.get("/", headers=own).text
    with running.stranger() as other:
        assert "entered already" in offer(other, running, running.code).json()["error"]
        assert other.get("/", headers=own).status_code == 401
        assert other.get("/").text == SHELL
    # nothing was needed to start, and nothing was written
    assert list(running.folder.iterdir()) == []


def test_guessing_is_over_after_five_tries(studio):
    running = studio(enter=False)
    with running.stranger() as client:
        for wrong in ("", "0" * 10, "A" * 10, {"a": 1}, "x" * 20):
            assert offer(client, running, wrong).status_code == 403
        assert client.post("/enter", content=b"x" * 5000, headers={"Origin": running.origin}).status_code == 413
        assert client.put("/enter", json={"offer": running.code}, headers={"Origin": running.origin}).status_code == 403
        assert offer(client, running, "Z" * 10).status_code == 403
        told = offer(client, running, running.code)
        assert told.status_code == 403
        assert "Too many wrong codes" in told.json()["error"]


def test_plain_host_name_for_browsers_without_names_under_localhost(studio):
    running = studio("--host-name", "plain")
    assert running.origin == f"http://127.0.0.1:{running.port}"
    assert running.client.get("/").status_code == 200
    replayed = {"Cookie": f"dipsmith-{running.port}={running.cookie}"}
    with running.stranger() as other:
        assert other.get("/", headers=replayed).text == SHELL
        assert other.get("/api/interval", headers=replayed).status_code == 401


def test_listens_on_the_loopback_address_only(shared):
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    listening = "".join(t.read_text() for t in tables if t.exists())
    port = f"{shared.port:04X}"
    found = [
        line.split()[1]
        for line in listening.splitlines()
        if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"
    ]
    assert found[0] == f"0100007F:{port}"
    assert found[1:] in ([], [f"{'0' * 24}01000000:{port}"])


def test_a_port_that_somebody_has_on_the_other_loopback_address_is_not_taken(tmp_path):
    """A browser may try ::1 first: whoever listens there would get what is meant for the studio."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as theirs:
        try:
            theirs.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 loopback address here")
        theirs.listen()
        with pytest.raises(UsageError, match="cannot be used"):
            Studio.on(Workspace.of(tmp_path), theirs.getsockname()[1])


def test_uploads_are_private_limited_and_named_safely(shared):
    own = {"Origin": shared.origin, "X-Dipsmith-Token": shared.page_token}
    done = shared.client.put("/api/upload/mine.csv", headers=own, content=b"a,b\n1,2\n")
    assert done.json() == {"data": ".dipsmith-studio/uploads/mine.csv"}
    kept = shared.folder / done.json()["data"]
    assert kept.stat().st_mode & 0o077 == 0
    assert (shared.folder / ".dipsmith-studio").stat().st_mode & 0o077 == 0
    assert shared.client.put("/api/upload/mine.csv", headers=own, content=b"x").status_code == 400

    def endless():
        for _ in range(40):
            yield b"x" * 65_536

    assert shared.client.put("/api/upload/large.csv", headers=own, content=endless()).status_code == 413
    for name in (
        "..%2Fout.csv",
        "a%2Fb.csv",
        ".hidden.csv",
        "run.exe",
        "x%00.csv",
        "a" * 300 + ".csv",
        "..csv/../../x.csv",
    ):
        assert 400 <= shared.client.put(f"/api/upload/{name}", headers=own, content=b"x").status_code < 500, name
    assert sorted(p.name for p in kept.parent.iterdir()) == ["mine.csv"]
    big = b'{"text": "' + b"x" * (9 << 20) + b'"}'
    assert shared.client.post("/api/codes", headers=own, content=big).status_code == 413


def test_paths_stay_in_the_workspace(shared, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("code\nx\n")
    link = shared.folder / "link.csv"
    link.symlink_to(secret)
    try:
        for data in (
            "../secret.csv",
            str(secret),
            "/etc/passwd",
            "link.csv",
            "",
            "people.csv\0",
            "postgresql://x/y",
            ".",
        ):
            refused = shared.ask("POST", "/api/projects", {"data": data}, expect=400)
            assert any(w in refused["error"] for w in ("workspace", "path", "no such file", "printable"))
        assert "link.csv" not in shared.client.get("/").text
        project = shared.project(grant=None)
        for enum in ("/etc/passwd", "../../x.csv", "link.csv"):
            document = {
                "name": "p",
                "unit": "row",
                "neighbours": "add-remove",
                "fields": [{"name": "a", "type": "string", "enum": enum}],
            }
            told = shared.ask(
                "POST",
                f"/api/p/{project}/schema",
                {"revision": _revision(shared, project), "document": document},
            )
            assert "workspace" in told["report"]["columns"][0]["error"]
            assert "root" not in str(told)
    finally:
        link.unlink()
    for path in (
        "/p/../../x/schema",
        "/p/%2e%2e/schema",
        "/static/%2e%2e/app.py",
        "/p/people/compare/..%2f..%2f/files/x",
    ):
        assert 400 <= shared.client.get(path).status_code < 500


def _revision(running, project):
    import json

    return json.loads((running.folder / ".dipsmith-studio" / "projects" / f"{project}.json").read_text())["revision"]


def test_an_unexpected_failure_tells_nothing(shared):
    project = shared.project(grant=None)
    file = shared.folder / ".dipsmith-studio" / "projects" / f"{project}.json"
    held = file.read_text()
    file.write_text('{"secret": "value-17"}')
    answer = shared.client.get(f"/p/{project}/schema")
    file.write_text(held)
    assert answer.status_code == 500
    assert "value-17" not in answer.text
    assert "Traceback" not in answer.text
    assert_headers(answer)


def test_missing_extra_is_named(tmp_path):
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['dipsmith', 'studio']; from dipsmith.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ),
        check=False,
    )
    assert ran.returncode == 6
    assert "pip install 'dipsmith[studio]'" in ran.stderr
