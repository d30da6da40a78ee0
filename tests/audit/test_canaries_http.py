"""Canaries in every answer of `dipsmith studio`: a real server, every address it has, sound and spoilt requests alike."""

import importlib.util
import io
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from starlette.routing import Route
from test_canaries import NUMBER, PASSWORD, PLACE, PRIVATE, SCHEMA, UNIT, VALUE, hits, write_rows

from dipsmith.confirm.question import Inquiry
from dipsmith.privacy.budget import PureDP
from dipsmith.studio.app import routes
from dipsmith.synthesis.writing import digest

NAMES = Path(__file__).parents[1] / "studio" / "conftest.py"
DECLARED = SCHEMA.format(neighbours="replace")
SPOILT = f"id,age,sex,pay\n{UNIT},{VALUE},F\n{UNIT},1,2,3,{NUMBER}\n"

SABOTAGE = f"""
import os, sys
switch = os.environ.get("SABOTAGE_SWITCH")
if switch and any("dipsmith" in argument for argument in sys.orig_argv):
    import dipsmith.counting.count as counting
    import dipsmith.studio.accounts as accounts
    import dipsmith.studio.projects as projects

    def broken(name, original):
        def fail(*given, **named):
            if os.path.exists(os.path.join(switch, name)):
                raise RuntimeError("could not parse {VALUE} of {UNIT} with {PASSWORD}")
            return original(*given, **named)
        return fail

    counting.Tally = broken('job', counting.Tally)
    projects.accounts = accounts.accounts = broken('server', accounts.accounts)
"""


def studio_process():
    """The studio that the tests of the page start, in a process of its own."""
    found = importlib.util.spec_from_file_location("studio_process", NAMES)
    module = importlib.util.module_from_spec(found)
    sys.modules["studio_process"] = module
    found.loader.exec_module(module)
    return module


class Listener:
    """Every answer of a server, as text that can be searched, and which addresses gave it."""

    def __init__(self, running):
        self.running = running
        self.answers = []
        self.asked = set()
        running.client.event_hooks["response"].append(self.heard)
        # A connection that idles while a job runs may be closed just when it is used again.
        running.client.headers["Connection"] = "close"

    def heard(self, answer):
        answer.read()
        told = [str(answer.headers), answer.text, *unpacked(answer.content)]
        self.answers.append((answer.request.method, answer.request.url.path, answer.status_code, told))
        for route in addresses():
            if answer.request.method in route.methods and route.path_regex.match(answer.request.url.path):
                self.asked.add((route.path, answer.status_code < 400))

    def send(self, method, path, **more):
        own = {"Origin": self.running.origin, "X-Dipsmith-Token": self.running.page_token}
        return self.running.client.request(method, path, headers=own, **more)

    def found(self, canaries):
        """Hits of canaries in everything that was heard."""
        return [
            f"{hit}: {method} {path} {status}"
            for method, path, status, told in self.answers
            for hit in hits(canaries, *told)
        ]


def unpacked(data):
    """The contents of arrays and Parquet files, which are compressed."""
    if data[:4] == b"PAR1":
        return [repr(pq.read_table(io.BytesIO(data)).to_pydict())]
    if data[:2] == b"PK" and zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            if not all(name.endswith(".npy") for name in parts.namelist()):
                files = [parts.read(name) for name in parts.namelist()]
                return [text for file in files for text in (repr(file), *unpacked(file))]
        with np.load(io.BytesIO(data)) as arrays:
            return [repr(arrays[name].tolist()) for name in arrays.files]
    return []


def addresses():
    return [route for route in routes() if isinstance(route, Route)]


@pytest.fixture
def listening(tmp_path, monkeypatch):
    serving = studio_process()
    started = []

    def start(name=PLACE):
        folder = tmp_path / name
        folder.mkdir()
        write_rows(folder / "people.csv")
        (folder / "broken.csv").write_text(SPOILT)
        running = serving.serve(folder, "--grace", "0")
        started.append(running)
        running.enter()
        return Listener(running)

    yield start
    for running in started:
        running.stop()


def spoilt(listener, project):
    """Requests that cannot be served, to every address."""
    for route in addresses():
        for method in route.methods - {"HEAD"}:
            for value in (project, "nothing", "..%2f..%2fetc", "0" * 32):
                path = route.path.replace("{name:path}", value)
                for name in ("project", "request", "job", "name", "question"):
                    path = path.replace("{" + name + "}", value)
                bodies = (b"{", b"[1]", b'{"request": 7, "releases": ["x"], "data": ["x"], "text": "{"}')
                for body in (None,) if method in ("GET", "DELETE") else bodies if value == project else bodies[-1:]:
                    listener.send(method, path, content=body)


def compared(running, project, job):
    found = running.ask("GET", f"/api/p/{project}/comparisons")["jobs"]
    return next(j for j in found if j["id"] == job)["status"]


def ask_questions(listener, project, release):
    """One question is answered, another declined; every address of both is asked."""
    running, said = listener.running, {"dataset": "people", "release": digest(release / "card.json")}
    answered, declined = (
        Inquiry(formula="age ~ sex", claim=claim, budget=PureDP("0.25"), parts=5, **said)
        for claim in ("sex[M] < 9", "sex[M] > 3")
    )
    for question in (answered, declined):
        listener.send("POST", f"/api/p/{project}/questions", json={"text": question.to_yaml()})
    listener.send("GET", f"/p/{project}/questions")
    one, other = (q.request.removeprefix("question ") for q in (answered, declined))
    here = f"/p/{project}/questions/{one}"
    listener.send("GET", f"/api{here}/prospect")
    listener.send("POST", f"/api/p/{project}/questions/{other}/decline", json={"why": "one a week"})
    listener.send("POST", f"/api{here}/approve", json={})
    end = time.monotonic() + 240
    while (job := running.ask("GET", f"/api/p/{project}/questions")["jobs"][0])["status"] not in ("finished", "failed"):
        assert time.monotonic() < end
        time.sleep(0.3)
    assert job["status"] == "finished"
    for path in (here, f"{here}/files/answer.json", f"/p/{project}/questions"):
        assert listener.send("GET", path).status_code == 200


def learn_columns(listener):
    """A draft of names alone, filled from the rows with noise."""
    running = listener.running
    project = running.ask("POST", "/api/projects", {"data": "people.csv"})["project"]
    document = yaml.safe_load(DECLARED)
    document["fields"] = [{"name": f["name"], "role": f.get("role", "private")} for f in document["fields"]]
    running.ask("POST", f"/api/p/{project}/schema", {"revision": 1, "document": document})
    amounts, here = {"epsilon": "0.1", "delta": "1e-9"}, f"/api/p/{project}/learn"
    assert listener.send("POST", f"{here}/price", json=amounts).status_code == 200
    job = listener.send("POST", here, json={**amounts, "request": "f" * 32}).json()["job"]
    end = time.monotonic() + 240
    while (found := listener.send("GET", here).json()["jobs"][0])["status"] not in ("finished", "failed"):
        assert time.monotonic() < end
        time.sleep(0.3)
    assert found["status"] == "finished", found
    assert listener.send("POST", f"{here}/take", json={"job": job, "revision": 2}).status_code == 200
    assert listener.send("GET", f"/p/{project}/schema").status_code == 200


def test_no_canary_in_any_answer(listening, capfd):
    listener = listening()
    running = listener.running
    for page in (
        "/",
        "/interval.csv?n=100&lam=1&p0=0.3",
        "/interval.svg?n=100&lam=1&p0=0.3",
        "/api/interval?n=100&lam=1&p0=0.3",
    ):
        listener.send("GET", page)
    listener.send("PUT", "/api/upload/more.csv", content=SPOILT.encode())
    listener.send("POST", "/api/projects", json={"data": f"postgresql://someone:{PASSWORD}@127.0.0.1:1/people"})
    listener.send("POST", "/api/projects", json={"data": f"../{PLACE}/people.csv"})
    listener.send("POST", "/api/codes", json={"text": "F\nM\n"})
    project = running.project(schema=DECLARED)
    running.choose(project, rows=None)
    job = running.start(project, "a" * 32)
    assert running.wait(project, job, "finished", "failed")["status"] == "finished"
    listener.send("POST", f"/api/jobs/{job}/cancel", json={})
    listener.send("POST", f"/api/jobs/{job}/resume", json={})
    release = running.folder / "releases" / f"{project}-{'a' * 8}"
    for step in (
        "schema",
        "schema.yaml",
        "check",
        "plan",
        "choices.yaml",
        "script.py",
        "run",
        "release",
        f"release/{job}",
        f"release/{job}/release.zip",
        "ledger",
        "ledger.csv",
        "compare",
    ):
        assert listener.send("GET", f"/p/{project}/{step}").status_code == 200, step
    for file in sorted(p for p in release.iterdir() if p.is_file()):
        assert listener.send("GET", f"/p/{project}/release/{job}/files/{file.name}").status_code == 200
    listener.send("POST", f"/api/p/{project}/check", json={})
    end = time.monotonic() + 120
    while (found := listener.send("GET", f"/api/p/{project}/check").json())["jobs"][0]["status"] != "finished":
        assert time.monotonic() < end, found
        time.sleep(0.3)
    book = listener.send("PUT", f"/api/upload/{project}/dictionary/book.csv", content=b"name,label\nage,Age in years\n")
    assert book.status_code == 200
    learn_columns(listener)
    listener.send("GET", f"/api/p/{project}/release/{job}/report")
    listener.send("POST", f"/api/p/{project}/release/{job}/verify", json={})
    looked = running.ask(
        "POST", f"/api/p/{project}/compare", {"request": "b" * 32, "releases": [job], "classifiers": []}
    )
    end = time.monotonic() + 240
    while (status := compared(running, project, looked["job"])) not in ("finished", "failed"):
        assert time.monotonic() < end
        time.sleep(0.3)
    assert status == "finished"
    listener.send("GET", f"/p/{project}/compare/{looked['job']}")
    for shown in (
        f"/p/{project}/compare/{looked['job']}/distribution.csv",
        f"/api/p/{project}/compare/{looked['job']}/distribution",
    ):
        assert listener.send("GET", shown, params={"column": "sex"}).status_code == 200
    for file in sorted((running.folder / "comparisons" / f"{project}-{'b' * 8}").rglob("*.*")):
        listener.send("GET", f"/p/{project}/compare/{looked['job']}/files/{file.name}")
    ask_questions(listener, project, release)
    broken = running.project("broken.csv", schema=DECLARED, grant=None)
    running.choose(broken, rows=None)
    lost = running.start(broken, "c" * 32)
    assert running.wait(broken, lost, "finished", "failed")["status"] == "failed"
    for step in ("run", "release", "compare"):
        listener.send("GET", f"/p/{broken}/{step}")
    listener.send("POST", f"/api/jobs/{lost}/dismiss", json={})
    listener.send("POST", f"/api/p/{project}/grant", json={"currency": "epsilon", "amount": "1"})
    unspent = running.project(schema=DECLARED.replace("name: ", "name: un", 1))
    listener.send("POST", f"/api/p/{unspent}/withdraw", json={})
    bins = {"column": "age", "bins": {"width": 10}}
    assert listener.send("POST", f"/api/p/{unspent}/schema/bins", json=bins).status_code == 200
    for what in ("grant", "withdraw"):
        listener.send("POST", f"/api/{what}", json={"name": "unread", "currency": "epsilon", "amount": "1"})
    listener.send("POST", f"/api/p/{project}/tradeoff", json={"stand_in": ""})
    spoilt(listener, project)
    unheard = {route.path for route in addresses()} - {path for path, _ in listener.asked}
    assert unheard == set()
    assert {path for path, well in listener.asked if well} >= {r.path for r in addresses()} - {
        "/api/jobs/{job}/resume",
        "/api/jobs/{job}/cancel",
    }
    assert listener.found((*PRIVATE, PASSWORD)) == []
    # Only the first page names the workspace's folder, to the person who started the studio in it.
    assert {hit.split(": ")[1] for hit in listener.found([PLACE])} <= {"GET / 200"}
    running.stop()
    said = capfd.readouterr()
    assert hits((*PRIVATE, PASSWORD), said.out, said.err) == []
    # The check itself can fail: what the released file shows of its own columns is found.
    assert listener.found(["age"])


def test_no_canary_where_the_server_or_a_job_fails(listening, tmp_path, monkeypatch, capfd):
    """Server and worker raise errors that quote private values, in processes of their own."""
    (tmp_path / "sitecustomize.py").write_text(SABOTAGE)
    switch = tmp_path / "switch"
    switch.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SABOTAGE_SWITCH", str(switch))
    listener = listening("office")
    running = listener.running
    project = running.project(schema=DECLARED)
    running.choose(project, rows=None)
    (switch / "job").touch()
    job = running.start(project, "a" * 32)
    failed = running.wait(project, job, "finished", "failed")
    assert failed["status"] == "failed"
    assert "RuntimeError" in str(failed)
    (switch / "server").touch()
    pages = [listener.send("GET", path).status_code for path in ("/", f"/p/{project}/plan", f"/p/{project}/compare")]
    assert pages == [500] * 3
    assert listener.send("POST", f"/api/p/{project}/plan", json={"choices": {}}).status_code >= 400
    (switch / "server").unlink()
    for step in ("run", "release", "compare"):
        assert listener.send("GET", f"/p/{project}/{step}").status_code == 200
    running.stop()
    said = capfd.readouterr()
    assert listener.found((*PRIVATE, PASSWORD)) == []
    assert hits((*PRIVATE, PASSWORD), said.out, said.err) == []
    kept = [path for path in running.folder.rglob("*") if path.is_file() and path.suffix != ".csv"]
    assert hits((*PRIVATE, PASSWORD), *kept) == []
