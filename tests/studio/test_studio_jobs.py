"""Jobs: charged once, cancelled before they read or not at all, alive without their server, right in the ledger."""

import os
import signal
import subprocess
import threading
import time
import uuid

import pytest

from dipsmith.errors import BudgetError, UsageError
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.protection import Replace
from dipsmith.schema import Unit
from dipsmith.studio import jobs, worker
from dipsmith.studio.workspace import Workspace
from dipsmith.synthesis.verify import verify


def new() -> str:
    return uuid.uuid4().hex


def pid_of(job: str) -> int:
    found = subprocess.run(
        ["pgrep", "-f", f"dipsmith.studio.worker .*{job}"], capture_output=True, text=True, check=False
    ).stdout
    return int(found.split()[0])


def test_cancel_resume_restart_and_a_server_killed_mid_job(studio, people, tmp_path):
    people(tmp_path)
    running = studio("--grace", "8")
    project = running.project()
    running.choose(project)
    ledger = Ledger(tmp_path / "budget.db")

    # cancelled while it waits: everything is given back, nothing is written
    first = running.start(project, new())
    assert ledger.show("people").spent == 0.5
    assert running.job(project, first)["can_cancel"]
    running.ask("POST", f"/api/jobs/{first}/cancel", {})
    assert ledger.show("people").spent == 0
    assert running.job(project, first)["status"] == "cancelled"
    running.ask("POST", f"/api/jobs/{first}/cancel", {}, expect=400)

    # its process killed before it read: it can go on, without a new charge, or be given back
    second, third = running.start(project, new()), running.start(project, new())
    for job in (second, third):
        end = time.monotonic() + 240
        while running.job(project, job)["stage"] == jobs.STARTING and time.monotonic() < end:
            time.sleep(0.1)
        os.kill(pid_of(job), signal.SIGKILL)
        assert running.wait(project, job, "stopped")["can_resume"]
    assert ledger.show("people").spent == 1.0
    running.ask("POST", f"/api/jobs/{third}/cancel", {})
    assert ledger.show("people").spent == 0.5

    # the server killed while a job is under way: the job ends without it
    running.ask("POST", f"/api/jobs/{second}/resume", {})
    running.kill()
    again = studio("--grace", "0")
    done = again.wait(project, second, "finished", "failed")
    assert done["status"] == "finished", done
    assert not (tmp_path / "releases" / f"{project}-{first[:8]}").exists()
    assert verify(tmp_path / done["out"], ledger).ledger
    states = [(r.state, r.charge) for r in ledger.show("people").runs]
    assert sorted(states) == [("cancelled", 5 * 10**11), ("cancelled", 5 * 10**11), ("finished", 5 * 10**11)]
    assert ledger.show("people").spent == 0.5
    assert ledger.verify().rows

    # too late: what was released stays charged, and the same request draws no second time
    again.ask("POST", f"/api/jobs/{second}/cancel", {}, expect=400)
    again.ask("POST", f"/api/jobs/{second}/resume", {}, expect=400)
    assert again.start(project, second) == second
    assert ledger.show("people").spent == 0.5


def test_many_tabs_at_once_never_overspend(studio, people, tmp_path):
    people(tmp_path)
    running = studio("--grace", "60")
    project = running.project(grant="1")
    running.choose(project, amount="0.4")
    answers: list[int] = []

    def spend():
        headers = {"Origin": running.origin, "X-Dipsmith-Token": running.page_token}
        answer = running.client.post(f"/api/p/{project}/run", json={"request": new()}, headers=headers)
        answers.append(answer.status_code)

    tabs = [threading.Thread(target=spend) for _ in range(6)]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    assert sorted(answers) == [200, 200, 409, 409, 409, 409]
    assert Ledger(tmp_path / "budget.db").show("people").spent == 0.8
    held = running.ask("GET", f"/api/p/{project}/jobs")["jobs"]
    assert len(held) == 2
    for job in held:
        running.ask("POST", f"/api/jobs/{job['id']}/cancel", {})
    assert Ledger(tmp_path / "budget.db").show("people").spent == 0


def test_one_file_under_two_names_must_be_confirmed(studio, people, tmp_path):
    people(tmp_path)
    running = studio("--grace", "60")
    first = running.project()
    running.choose(first)
    running.start(first, new())
    other = running.project(schema=(tmp_path / "people.yaml").read_text().replace("name: people", "name: others"))
    running.choose(other)
    refused = running.ask("POST", f"/api/p/{other}/run", {"request": new()}, expect=409)
    assert "'others' has the same source as 'people'" in refused["error"]
    assert refused["confirm"] == "another_grant"
    assert refused["error"].endswith("use that name, or confirm that both add up"), "the page's own words"
    ledger = Ledger(tmp_path / "budget.db")
    assert ledger.show("others").spent == 0
    running.ask("POST", f"/api/p/{other}/run", {"request": new(), "another_grant": True})
    assert ledger.show("others").runs[0].another_grant


def test_a_file_that_cannot_be_read_costs_nothing(shared):
    project = shared.project()
    shared.choose(project)
    before = Ledger(shared.folder / "budget.db").show("people").spent
    file = shared.folder / "people.csv"
    held = file.read_text()
    file.write_text(held + "1,2\n")
    try:
        job = shared.start(project, new())
        failed = shared.wait(project, job, "failed", "finished")
    finally:
        file.write_text(held)
    assert failed["status"] == "failed"
    assert failed["message"].endswith("no data was read, so nothing was spent")
    assert Ledger(shared.folder / "budget.db").show("people").spent == before


# Without processes: what the ledger says decides ---------------------------------------------------------------


@pytest.fixture
def stopped(tmp_path):
    """A job whose process is gone, and its reservation."""
    workspace = Workspace.of(tmp_path)
    workspace.ledger.grant("people", PureDP(1))
    job = new()
    assert jobs.submit(workspace, job, "run", "people", {"out": "x"})
    run = workspace.ledger.reserve(
        "people", PureDP("0.5"), protects=Replace(Unit()), source=None, request_id=job, method="flat"
    )
    return workspace, job, run


def test_killed_after_reading_the_charge_stays(stopped):
    workspace, job, run = stopped
    run.read()
    jobs.write_state(jobs.folder_of(workspace, job), "running", "reading", 0.5)
    assert jobs.find(workspace, job).status == "stopped"
    with pytest.raises(BudgetError, match="charge stays"):
        jobs.resume(workspace, job)
    with pytest.raises(BudgetError, match="its charge stays"):
        jobs.cancel(workspace, job)
    assert workspace.ledger.show("people").spent == 0.5


def test_killed_before_reading_it_is_given_back(stopped):
    workspace, job, _ = stopped
    assert jobs.find(workspace, job).status == "stopped"
    jobs.cancel(workspace, job)
    assert jobs.find(workspace, job).status == "cancelled"
    assert workspace.ledger.show("people").spent == 0
    with pytest.raises(UsageError, match="ended already"):
        jobs.cancel(workspace, job)


def test_a_job_that_passes_the_door_cannot_be_cancelled(stopped):
    import fcntl

    workspace, job, _ = stopped
    with (jobs.folder_of(workspace, job) / "door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        with pytest.raises(BudgetError, match="too late"):
            jobs.cancel(workspace, job)
    assert workspace.ledger.show("people").spent == 0.5


def test_a_cancelled_job_never_runs(stopped, people, tmp_path):
    """The worker starts late, after the cancellation: it must not reserve anew."""
    from dipsmith.studio.worker import main

    workspace, job, _ = stopped
    people(tmp_path)
    jobs.cancel(workspace, job)
    main(jobs.folder_of(workspace, job), 0.0)
    assert workspace.ledger.show("people").spent == 0
    assert jobs.find(workspace, job).status == "cancelled"


def test_a_starting_worker_is_given_time(stopped):
    workspace, job, _ = stopped
    folder = jobs.folder_of(workspace, job)
    jobs.write_state(folder, "waiting", jobs.STARTING, 0.0)
    assert jobs.find(workspace, job).status == "waiting"
    state = (folder / "state.json").read_text()
    import json

    (folder / "state.json").write_text(json.dumps({**json.loads(state), "time": time.time() - jobs.PATIENCE - 1}))
    assert jobs.find(workspace, job).status == "stopped"


def test_a_job_runs_no_file_that_lies_beside_the_data(studio, people, tmp_path):
    """Called as libraries are, and as what Python itself looks for when it starts."""
    people(tmp_path)
    marker = tmp_path / "RAN"
    for name in ("pyarrow", "numpy", "yaml", "json", "pickle", "sitecustomize", "usercustomize", "dipsmith"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r})\n")
    running = studio("--grace", "0")
    project = running.project()
    running.choose(project)
    job = running.start(project, new())
    told = running.wait(project, job, "finished", "failed", "stopped")
    assert not marker.exists(), marker.read_text()
    assert told["status"] == "finished", told
    look = {
        "request": new(),
        "releases": [job],
        "analyses": "age ~ sex",
        "by": "",
        "reference": "",
        "classifiers": [],
    }
    running.ask("POST", f"/api/p/{project}/compare", look)
    while (done := running.ask("GET", f"/api/p/{project}/comparisons")["jobs"][0]["status"]) in (
        "waiting",
        "running",
    ):
        time.sleep(0.2)
    assert done == "finished"
    assert not marker.exists(), marker.read_text()


def test_the_share_of_a_comparison_is_that_of_the_whole(tmp_path):
    """Stages each go from nothing to all; what is told never falls, and drawing begins near the end."""
    told = []
    show = worker._whole(lambda stage, share: told.append(share), 2, fits=True)
    for stage in ("reading", "comparing a: Marginals", "comparing a: Disclosure", "comparing b: Marginals", "fitting"):
        part = 0.5 if stage == "comparing a: Disclosure" else 0.0
        for share in (part, 0.5, 0.5 if stage == "comparing a: Marginals" else 1.0):
            show(stage, share)
    show("drawing the figures", 0.0)
    assert told == sorted(told)
    assert told[0] == 0
    assert 0.8 < told[-1] < 1
