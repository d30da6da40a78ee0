"""The gate: every route refuses every kind of stranger, and every answer carries the headers."""

import os
import re
import socket
import subprocess
import sys

import httpx
import pytest
from starlette.routing import Mount, Route

from dipsmith.studio.app import routes
from dipsmith.studio.gate import HEADERS

PLACE = {"project": "people", "job": "0" * 32, "request": "0" * 32, "name": "people.csv"}


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
        "Cookie": f"dipsmith-{running.port}={running.client.cookies[f'dipsmith-{running.port}']}",
    }
    if attack == "bad host":
        # as after DNS rebinding: the page believes that it is at home, so host and origin agree
        return good | {
            "Host": f"rebound.example:{running.port}",
            "Origin": f"http://rebound.example:{running.port}",
        }
    if attack == "bad port":
        return {k: v for k, v in good.items() if k != "Origin"} | {"Host": "127.0.0.1:1"}
    if attack == "foreign origin":
        return good | {"Origin": "https://evil.example"}
    if attack == "other port's origin":
        return good | {"Origin": "http://127.0.0.1:1"}
    if attack == "null origin":
        return good | {"Origin": "null"}
    if attack == "no token":
        return {k: v for k, v in good.items() if k != "Cookie"}
    if attack == "wrong token":
        return good | {"Cookie": f"dipsmith-{running.port}=guessed"}
    if attack == "other site":
        return good | {"Sec-Fetch-Site": "cross-site"}
    if attack == "other port":
        return good | {"Sec-Fetch-Site": "same-site"}
    assert attack == "no csrf"
    return {k: v for k, v in good.items() if k != "X-Dipsmith-Token"}


@pytest.mark.parametrize(
    "attack",
    [
        "bad host",
        "bad port",
        "foreign origin",
        "other port's origin",
        "null origin",
        "no token",
        "wrong token",
        "other site",
        "other port",
    ],
)
def test_every_route_refuses(shared, attack):
    with httpx.Client(base_url=shared.origin) as stranger:
        for method, path in table():
            answer = stranger.request(
                method,
                path,
                headers=headers_of(shared, attack),
                content=b"{}" if method in ("POST", "PUT") else None,
            )
            assert 400 <= answer.status_code < 500, (attack, method, path, answer.status_code)
            assert_headers(answer, (attack, method, path))
            assert "set-cookie" not in answer.headers


def test_every_route_that_changes_or_tells_data_refuses_without_its_pages_token(shared):
    refused = 0
    with httpx.Client(base_url=shared.origin) as stranger:
        for method, path in table():
            if method in ("GET", "HEAD") and not path.startswith("/api/"):
                continue
            for missing in ("X-Dipsmith-Token", "Origin"):
                headers = (
                    headers_of(shared, "no csrf")
                    if missing == "X-Dipsmith-Token"
                    else headers_of(shared, "wrong token")
                )
                if missing == "Origin":
                    headers = {k: v for k, v in headers.items() if k not in ("Origin", "X-Dipsmith-Token")}
                answer = stranger.request(
                    method, path, headers=headers, content=b"{}" if method in ("POST", "PUT") else None
                )
                assert 400 <= answer.status_code < 500, (method, path, answer.status_code)
                assert_headers(answer, (method, path))
                refused += 1
        for method, path in table():
            if method not in ("GET", "HEAD"):
                # the page's token alone is not enough: a request that hides where it comes from is refused
                headers = {k: v for k, v in headers_of(shared, "foreign origin").items() if k != "Origin"}
                assert stranger.request(method, path, headers=headers, content=b"{}").status_code == 403
    assert refused > 20


def test_pages_cannot_be_had_from_another_site_even_with_the_cookie(shared):
    """What a page's address has instead of a token: it must be opened by the user or by the studio itself."""
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
    assert not re.search(r"https?:|\*|data:|blob:", policy)


def test_two_hosts_are_refused(shared):
    with socket.create_connection(("127.0.0.1", shared.port), 5) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{shared.port}\r\nHost: evil.example\r\n\r\n".encode())
        assert raw.recv(4096).startswith(b"HTTP/1.1 4")


def test_token_works_once_and_cookie_is_locked_up(studio):
    running = studio(enter=False)
    with httpx.Client(base_url=running.origin) as client:
        assert client.get("/enter?token=guess").status_code == 403
        first = client.get(running.address)
        assert first.status_code == 303
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert client.get("/").status_code == 200
    with httpx.Client(base_url=running.origin) as other:
        assert other.get(running.address).status_code == 403
        assert other.get("/").status_code == 401
    # nothing was needed to start, and nothing was written
    assert list(running.folder.iterdir()) == []


def test_listens_on_the_loopback_address_only(shared):
    listening = subprocess.run(
        ["cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True, check=False
    ).stdout
    port = f"{shared.port:04X}"
    found = [
        line.split()[1]
        for line in listening.splitlines()
        if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"
    ]
    assert found == [f"0100007F:{port}"]


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
        assert 400 <= shared.client.put(f"/api/upload/{name}", headers=own, content=b"x").status_code < 500, (
            name
        )
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

    return json.loads((running.folder / ".dipsmith-studio" / "projects" / f"{project}.json").read_text())[
        "revision"
    ]


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
