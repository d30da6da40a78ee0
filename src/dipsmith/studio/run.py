"""Run: confirm what will be spent, watch it, stop it while that is still possible."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Route

from dipsmith.errors import DipsmithError, SchemaError, UsageError
from dipsmith.planning.plan import plan as make
from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.protection import protection_of
from dipsmith.report.commands import command
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.sources.header import check_header
from dipsmith.studio import jobs
from dipsmith.studio.asked import Asked, Shown, data, page
from dipsmith.studio.budget_bar import budget_bar, symbol
from dipsmith.studio.plan import chosen, commands, facts_of, spending
from dipsmith.studio.projects import statement_of
from dipsmith.studio.schema import schema_of
from dipsmith.studio.workspace import Workspace
from dipsmith.synthesis.writing import require_absent


def routes() -> list[BaseRoute]:
    """The addresses of this page."""
    return [
        Route("/p/{project}/run", page(show), methods=["GET"]),
        Route("/api/p/{project}/run", data(start), methods=["POST"]),
        Route("/api/p/{project}/jobs", data(watch), methods=["GET"]),
        Route("/api/jobs/{job}/cancel", data(cancel), methods=["POST"]),
        Route("/api/jobs/{job}/resume", data(resume), methods=["POST"]),
    ]


def show(asked: Asked) -> Shown:
    """The page."""
    workspace = asked.workspace
    project = workspace.project(asked.path["project"])
    held: dict[str, Any] = {
        "project": project,
        "step": "run",
        "command": "",
        "problem": "",
        "grace": workspace.grace,
    }
    try:
        schema = schema_of(workspace, project)
        choices = chosen(workspace, project, schema)
        spent = spending(statement_of(workspace, project.name), choices.budget, schema)
    except (SchemaError, UsageError) as error:
        return Shown("run.html", {**held, "problem": str(error)})
    held |= {
        "schema": schema,
        "choices": choices,
        "spending": spent,
        "settings": ", ".join(f"{k} = {v}" for k, v in choices.settings.items()) or "as by default",
        "command": commands(workspace, project, schema, choices)["run"],
        "bar": budget_bar(statement_of(workspace, project.name)),
        "state": {"project": project.id, "request": uuid.uuid4().hex, **_watched(workspace, project.id)},
    }
    return Shown("run.html", held)


def start(asked: Asked) -> Mapping[str, Any]:
    """Charge the ledger and start the worker; the same request twice is one run."""
    workspace = asked.workspace
    project = workspace.project(asked.path["project"])
    request = asked.text("request", 64)
    if jobs.folder_of(workspace, request).exists():
        return {"job": request}
    schema = schema_of(workspace, project)
    choices = chosen(workspace, project, schema)
    file = workspace.inside(project.data)
    check_header(project.data, source(file).columns, schema.columns)
    method = choices.made(schema)
    out = f"releases/{project.id}-{request[:8]}"
    target = workspace.inside(out)
    target.parent.mkdir(exist_ok=True)
    require_absent(target)
    # Raises what no budget can pay for, before anything is charged.
    make(
        schema,
        method,
        choices.budget,
        public=facts_of(workspace, project, schema, choices),
        sets=choices.sets,
        each=choices.each,
    )
    held = {
        "data": project.data,
        "schema": schema.to_dict(),
        "choices": asdict(choices),
        "out": out,
        "says": f"{choices.method}, {choices.budget}",
    }
    if not jobs.submit(workspace, request, "run", project.id, held):
        return {"job": request}
    try:
        # The charge comes first, alone and durably: of two tabs that ask at once, the ledger refuses one.
        workspace.ledger.reserve(
            schema.name,
            choices.budget,
            protects=protection_of(schema),
            source=fingerprint(source(file)),
            request_id=request,
            method=method.name,
            another_grant=asked.body.get("another_grant") is True,
        )
    except DipsmithError:
        jobs.withdraw(workspace, request)
        raise
    jobs.launch(workspace, request, workspace.grace)
    return {"job": request}


def watch(asked: Asked) -> Mapping[str, Any]:
    """How far the project's runs are."""
    return _watched(asked.workspace, asked.workspace.project(asked.path["project"]).id)


def _watched(workspace: Workspace, project: str) -> dict[str, Any]:
    statement = statement_of(workspace, workspace.project(project).name)
    states = {run.id: run.state for run in statement.runs}
    found = []
    for job in jobs.listed(workspace, project, "run"):
        ledger = states.get(job.id, "")
        told = job.to_dict() | {
            "ledger": ledger,
            "can_cancel": ledger == "reserved" and job.status in ("waiting", "stopped"),
        }
        found.append(
            told
            | {
                "can_resume": ledger == "reserved" and job.status == "stopped",
                "verify": _verify(workspace, job),
            }
        )
    return {
        "jobs": found,
        "left": f"{symbol(statement.currency)} = {decimal_text(statement.remaining_units)}",
        "bar": budget_bar(statement),
    }


def _verify(workspace: Workspace, job: jobs.Job) -> str:
    return command("verify", Path(job.asked["out"]), "--ledger", Path(workspace.shown(workspace.ledger_file)))


def cancel(asked: Asked) -> Mapping[str, Any]:
    """Stop a job before it reads."""
    jobs.cancel(asked.workspace, asked.path["job"])
    return {"cancelled": True}


def resume(asked: Asked) -> Mapping[str, Any]:
    """Go on with a job that was killed before it read."""
    jobs.resume(asked.workspace, asked.path["job"])
    return {"resumed": True}
