"""How long a run takes depends on the rows: no answer of the studio, and no line of a command, tells it."""

import os
import pty
import re
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import httpx

from dipsmith.studio.jobs import Job

TOLD = {"id", "kind", "status", "stage", "share", "message", "out", "says"}
OF_A_RUN = TOLD | {"ledger", "can_cancel", "can_resume", "verify"}
DURATION = re.compile(
    r"\b\d+:\d\d\b|-:--|\b\d+(?:\.\d+)? ?(?:s|sec|secs|seconds?|min|minutes?|h|hours?|ms)\b|\b(?:elapsed|ETA)\b|\btime left\b"
)


def numbers(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in an answer, and where it stands."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, path)
    elif isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        yield path, value


def test_no_answer_of_the_studio_tells_how_long_a_run_takes(studio, people, tmp_path):
    people(tmp_path)
    running = studio("--grace", "0.5")
    heard: list[httpx.Response] = []
    running.client.event_hooks["response"].append(heard.append)
    project = running.project()
    running.choose(project)
    heard.clear()
    job = running.start(project, uuid.uuid4().hex)
    told = running.wait(project, job, "finished", "failed")
    assert told["status"] == "finished", told
    assert set(told) == OF_A_RUN
    look = {"releases": [job], "analyses": "", "by": "", "reference": "", "classifiers": ["logistic"]}
    look["request"] = uuid.uuid4().hex
    running.ask("POST", f"/api/p/{project}/compare", look)
    while (compared := running.ask("GET", f"/api/p/{project}/comparisons")["jobs"][0])["status"] in (
        "waiting",
        "running",
    ):
        time.sleep(0.2)
    assert compared["status"] == "finished", compared
    assert set(compared) == TOLD
    for step in ("run", "release", "compare"):
        running.client.get(f"/p/{project}/{step}")
    running.client.get(f"/p/{project}/release/{job}/files/card.json")
    assert len(heard) > 8
    for answer in heard:
        assert not {"last-modified", "etag", "date", "server-timing", "age"} & set(answer.headers)
        if answer.headers["content-type"].startswith("application/json"):
            for path, _ in numbers(answer.json()):
                if path.startswith(".jobs"):
                    assert path == ".jobs.share", path
    page = running.client.get(f"/p/{project}/run").text
    assert DURATION.findall(re.sub(r"For 0\.5 seconds", "", page)) == []
    assert "left" not in Job.__dataclass_fields__
    assert "seconds" not in Job.__dataclass_fields__


def test_a_command_that_reads_rows_shows_stages_and_no_times(people, tmp_path):
    """On a terminal, where the bar is drawn."""
    people(tmp_path, 20_000)
    command = [sys.executable, "-m", "dipsmith.cli.main"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "OMP_NUM_THREADS": "1"}
    grant = [*command, "ledger", "grant", "people", "--ledger", "b.db", "--epsilon", "2"]
    subprocess.run(grant, cwd=tmp_path, env=environment, check=True, capture_output=True)
    spend = ["--method", "mst", "--epsilon", "1", "--rows", "20000", "--ledger", "b.db"]
    run = [*command, "synthesize", "people.csv", "--schema", "people.yaml", *spend, "--out", "release"]
    shown = typed(run, tmp_path, environment)
    assert "%" in shown
    assert "reading" in shown
    assert DURATION.findall(shown) == []
    look = [
        *command,
        "compare",
        "people.csv",
        "release",
        "--ledger",
        "b.db",
        "--out",
        "c",
        "--classifier",
        "logistic",
    ]
    shown = typed(look, tmp_path, environment)
    assert "%" in shown
    assert DURATION.findall(shown) == []


def typed(command: list[str], folder, environment) -> str:
    """What a terminal shows on standard error, without its signs for colours and places."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = b""
    while True:
        if not select.select([ours], [], [], 120)[0]:
            break
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    said, _ = process.communicate()
    assert process.returncode == 0, (shown, said)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode("utf-8", "replace"))
