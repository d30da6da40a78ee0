"""Jobs: paid runs, schemas learned, answers and comparisons, each in a process of its own that outlives the server.

A job is a folder: what was asked (`job.json`, written once), how far it is (`state.json`, written by the worker), and two
locks. The worker holds `alive` while it lives, so that a job whose lock is free and that has not ended was
killed. It holds `door` from its last look for a cancellation until the ledger has noted that data is being read; whoever
cancels takes the same lock, so that a job is cancelled before it reads or not at all. The ledger decides what a
killed job means: reserved, it can go on or be given back; read, its charge stays.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dipsmith.errors import BudgetError, InputError, UsageError
from dipsmith.privacy.ledger import Ledger
from dipsmith.processes import safe_environment
from dipsmith.studio.workspace import HIDDEN, Workspace, open_lock, write_json, write_whole

Status = Literal["waiting", "running", "finished", "failed", "cancelled", "stopped"]
ENDED = ("finished", "failed", "cancelled")
STARTING = "starting"
PATIENCE = 20.0
"""Seconds that a worker may take to start before its job counts as stopped."""


@dataclass(frozen=True)
class Job:
    """One job and how far it is: its id, and what was asked, as plain data.

    `status` is `waiting` until data is read, `stopped` if its process is gone; `stage` and `share` are what it does and how
    much of that is done (never how long it takes: that depends on the rows); `message` says why it failed.
    """

    id: str
    kind: Literal["run", "learn", "confirm", "compare", "check", "rehearse"]
    project: str
    asked: Mapping[str, Any]
    created: float
    status: Status
    stage: str
    share: float
    message: str
    folder: Path
    ledger: Path

    @property
    def charge(self) -> str | None:
        """Its request id in the ledger; None for what costs nothing: a comparison, a check, a trial on a stand-in."""
        return charge_of({"id": self.id, "kind": self.kind, "asked": self.asked})

    def to_dict(self) -> dict[str, Any]:
        """The job for a page."""
        facts = {name: getattr(self, name) for name in ("id", "kind", "status", "stage", "share", "message")}
        return {**facts, "out": self.asked.get("out", ""), "says": self.asked.get("says", "")}


def charge_of(job: Mapping[str, Any]) -> str | None:
    """The request id under which the ledger charges what `job.json` asks for; a run's is the job's own."""
    return None if job["kind"] in ("compare", "check", "rehearse") else job["asked"].get("request", job["id"])


def folder_of(workspace: Workspace, job: str) -> Path:
    """Where a job lies."""
    if not job.replace("-", "").isalnum() or not 8 <= len(job) <= 64:
        raise InputError("there is no such job; reload the page")
    return workspace.folder / HIDDEN / "jobs" / job


def submit(workspace: Workspace, job: str, kind: str, project: str, asked: Mapping[str, Any]) -> bool:
    """Write down what was asked; False if this job was asked for before."""
    folder = folder_of(workspace, job)
    workspace.private("jobs")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    facts = {"id": job, "kind": kind, "project": project, "created": time.time(), "asked": dict(asked)}
    places = {"folder": str(workspace.folder), "ledger": str(workspace.ledger_file)}
    write_json(folder / "job.json", {**facts, **places})
    return True


def withdraw(workspace: Workspace, job: str) -> None:
    """Forget a job that never began."""
    shutil.rmtree(folder_of(workspace, job))


def launch(workspace: Workspace, job: str, wait: float) -> None:
    """Start the worker in a session of its own: it is nobody's child that matters.

    It works in the root folder with a safe path: no file beside the data can stand in for a library.
    """
    folder = folder_of(workspace, job)
    write_state(folder, "waiting", STARTING, 0.0)
    subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", "dipsmith.studio.worker", str(folder), str(wait)],
        cwd="/",
        env=safe_environment(workspace.folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def find(workspace: Workspace, job: str) -> Job:
    """A job as it is now."""
    folder = folder_of(workspace, job)
    try:
        facts = json.loads((folder / "job.json").read_text("utf-8"))
    except (OSError, ValueError):
        raise InputError("there is no such job; reload the page") from None
    state = _state(folder)
    if (folder / "cancelled").exists():
        state |= {"status": "cancelled", "stage": "cancelled before any data was read"}
    elif state.get("status") not in ENDED and lock_is_free(folder / "alive"):
        # The lock may have been let go between the two looks: the state written last decides.
        state = _state(folder)
        if state.get("status") not in ENDED:
            starting = state.get("stage") == STARTING and time.time() - state["time"] < PATIENCE
            state["status"] = "waiting" if starting else "stopped"
    told: dict[str, Any] = {"status": "waiting", "stage": STARTING, "share": 0.0, "message": ""} | state
    told.pop("time", None)
    named = {name: facts[name] for name in ("id", "kind", "project", "asked", "created")}
    return Job(**named, **told, folder=folder, ledger=Path(facts["ledger"]))


def list_jobs(workspace: Workspace, project: str, kind: str) -> list[Job]:
    """The jobs of a project that were not dismissed, the newest first."""
    folder = workspace.folder / HIDDEN / "jobs"
    there = [f.parent for f in folder.glob("*/job.json")] if folder.is_dir() else []
    found = [find(workspace, f.name) for f in there if not (f / "dismissed").exists()]
    return sorted((j for j in found if j.project == project and j.kind == kind), key=lambda j: -j.created)


def cancel(workspace: Workspace, job: str) -> None:
    """Stop a job before it reads data, and give its budget back; refused once it reads."""
    found = find(workspace, job)
    if found.status in ENDED:
        raise UsageError(f"the job has ended already ({found.status})")
    with open_lock(found.folder / "door") as door:
        try:
            fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BudgetError("too late to cancel: the data is being read, and what was spent stays spent") from None
        if found.charge is not None:
            Ledger(found.ledger).cancel(found.charge)
        elif found.kind in ("compare", "check") and _state(found.folder).get("status") == "running":
            raise UsageError("too late to cancel: the data is being read, and the look is logged")
        write_whole(found.folder / "cancelled", b"")
        write_state(found.folder, "cancelled", "cancelled before any data was read", 1.0)


def resume(workspace: Workspace, job: str) -> None:
    """Go on with a job whose process was killed before it read anything; nothing is charged again."""
    found = find(workspace, job)
    if found.status != "stopped":
        raise UsageError(f"only a stopped job can go on; this one is {found.status}")
    if found.charge is not None:
        run = Ledger(found.ledger).run(found.charge)
        state = None if run is None else run.state
        if state != "reserved":
            raise BudgetError(
                "the data was read before the job was stopped, so that its charge stays: plan a new run"
                if state == "read"
                else f"the ledger says that this run is {state or 'unknown'}: plan a new run"
            )
    launch(workspace, job, 0.0)


def dismiss(workspace: Workspace, job: str) -> None:
    """Leave a job that has ended out of the lists; what it was stays in its folder and in the ledger."""
    found = find(workspace, job)
    if found.status not in (*ENDED, "stopped"):
        raise UsageError("a job that has not ended cannot be dismissed: cancel it, or wait")
    write_whole(found.folder / "dismissed", b"")


def write_state(folder: Path, status: Status, stage: str, share: float, message: str = "") -> None:
    """Note how far a job is; the time is for the server alone, which tells it nobody."""
    facts = {"status": status, "stage": stage, "share": share, "message": message, "time": time.time()}
    write_json(folder / "state.json", facts)


def lock_is_free(path: Path) -> bool:
    """Whether nobody holds a lock."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def _state(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "state.json").read_text("utf-8")))
    except (OSError, ValueError):
        return {}
