"""Run: confirm what will be spent, watch it, stop it while that is still possible."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from dipsmith.errors import DipsmithError, SchemaError, UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.planning.plan import plan as make
from dipsmith.privacy.budget import Budget, decimal_text
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.statement import Statement
from dipsmith.report.commands import command
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.sources.header import check_header
from dipsmith.studio import jobs
from dipsmith.studio.accounts import account_of
from dipsmith.studio.budget_bar import budget_bar, symbol
from dipsmith.studio.check import is_unchecked
from dipsmith.studio.choices import Choices
from dipsmith.studio.members import members_file
from dipsmith.studio.plan import choices_of, commands, facts_of, ready, spending
from dipsmith.studio.schema import schema_of
from dipsmith.studio.views import Screen, Visit
from dipsmith.studio.workspace import Project, Workspace, name_files
from dipsmith.synthesis.public import require_apart
from dipsmith.synthesis.settings_in_words import settings_in_words
from dipsmith.synthesis.writing import require_absent


def show(visit: Visit) -> Screen:
    """The page."""
    workspace, project = visit.workspace, visit.project
    values: dict[str, Any] = {"project": project, "step": "run", "grace": workspace.grace}
    try:
        schema = schema_of(workspace, project)
        choices = choices_of(workspace, project, schema)
        account = account_of(workspace, project.name)
        spends = spending(account, choices.budget, schema)
        analyses = choices.all_analyses(schema)
        if refused := _find_refusal(workspace, project, schema, choices):
            spends = {"sentence": f"{refused}. Mend it on the Plan page.", "allowed": False, "units": None}
    except (SchemaError, UsageError) as error:
        return Screen("run.html", {**values, "command": "", "problem": str(error)})
    seen = watch(visit)
    values |= {
        "problem": "",
        "schema": schema,
        "choices": choices,
        "spending": spends,
        "analyses": [str(a) for a in analyses],
        "before": any(j["status"] not in ("cancelled", "failed") for j in seen["jobs"]),
        "going": any(j["status"] in ("waiting", "running", "stopped") for j in seen["jobs"]),
        "method": METHODS[choices.method].summary,
        "settings": settings_in_words(choices.settings) or "as by default",
        "members": members_file(workspace, project.document),
        "command": commands(workspace, project, schema, choices)["run"],
        "unchecked": is_unchecked(workspace, project, schema),
        "bar": budget_bar(account, planned=spends["units"] if spends["allowed"] else None),
        "state": {"project": project.id, "request": uuid.uuid4().hex, **seen},
    }
    return Screen("run.html", values)


def _find_refusal(workspace: Workspace, project: Project, schema: Schema, choices: Choices) -> str:
    """Why a run would be refused, before anybody is asked to spend; nothing where it would not be."""
    try:
        ready(workspace, project, schema, choices)
        choices.files.target(schema, workspace.public_file)
    except DipsmithError as error:
        return name_files(str(error), workspace.folder)
    return ""


def start(visit: Visit) -> Mapping[str, Any]:
    """Charge the ledger and start the worker; the same request twice is one run."""
    workspace, project, request = visit.workspace, visit.project, visit.text("request", 64)
    if jobs.folder_of(workspace, request).exists():
        return {"job": request}
    schema = schema_of(workspace, project)
    choices = choices_of(workspace, project, schema)
    file = workspace.inside(project.data)
    check_header(project.file, source(file).columns, schema.columns)
    people = members_file(workspace, project.document)
    if schema.members is not None:
        check_header(name_files(people), source(workspace.inside(people)).columns, schema.members.schema.columns)
    out = f"releases/{project.id}-{request[:8]}"
    target = workspace.inside(out)
    target.parent.mkdir(exist_ok=True)
    require_absent(target)
    # Raises what no budget can pay for, before anything is charged.
    facts = facts_of(workspace, project, schema, choices)
    method, expected = ready(workspace, project, schema, choices)
    make(schema, method, choices.budget, public=facts, sets=choices.sets, each=choices.each, forecast=expected)
    choices.files.target(schema, workspace.public_file)
    job = {"data": project.data, "members": people, "schema": schema.to_dict(), "choices": asdict(choices), "out": out}
    job["says"] = f"{choices.method}, {choices.budget}"
    return charge_and_launch(visit, request, "run", job, schema, choices.budget, request, method.name)


def charge_and_launch(
    visit: Visit,
    job: str,
    kind: str,
    asked: dict[str, Any],
    schema: Schema,
    budget: Budget,
    request: str,
    method: str,
    delta: Fraction = Fraction(0),
) -> Mapping[str, Any]:
    """Make a job, charge the ledger and start the worker; of two tabs that ask at once, one makes the job."""
    workspace, project = visit.workspace, visit.project
    private = source(workspace.inside(project.data))
    people = source(workspace.inside(asked["members"])) if asked.get("members") else None
    require_apart(schema, [private, people], workspace.ledger)
    if jobs.submit(workspace, job, kind, project.id, asked):
        try:
            # The charge comes first, alone and durably: of two jobs that spend at once, the ledger refuses one.
            workspace.ledger.reserve(
                schema.name,
                budget,
                protects=protection_of(schema),
                source=fingerprint(private),
                also=[mark for mark in [None if people is None else fingerprint(people)] if mark is not None],
                request_id=request,
                method=method,
                another_grant=visit.body.get("another_grant") is True,
                delta=delta,
            )
        except DipsmithError:
            jobs.withdraw(workspace, job)
            raise
        jobs.launch(workspace, job, workspace.grace)
    return {"job": job}


def watch(visit: Visit) -> Mapping[str, Any]:
    """How far the project's runs are."""
    account = account_of(visit.workspace, visit.project.name)
    left = f"{symbol(account.currency)} = {decimal_text(account.remaining_units)}"
    return {"jobs": [facts for _, facts in paid_jobs(visit, account, "run")], "left": left, "bar": budget_bar(account)}


def paid_jobs(visit: Visit, account: Statement, kind: str) -> list[tuple[jobs.Job, dict[str, Any]]]:
    """The project's jobs of a kind that the ledger charges, and what a page says of each."""
    states = {run.id: run.state for run in account.runs}
    found = []
    for job in jobs.list_jobs(visit.workspace, visit.project.id, kind):
        state = states.get(job.charge or "", "")
        facts = job.to_dict() | {
            "ledger": state,
            "can_cancel": state == "reserved" and job.status in ("waiting", "stopped"),
            "can_resume": state == "reserved" and job.status == "stopped",
            "verify": command("verify", Path(job.asked["out"]), "--ledger", Path(visit.workspace.ledger_name)),
        }
        found.append((job, facts))
    return found


def cancel(visit: Visit) -> Mapping[str, Any]:
    """Stop a job before it reads."""
    jobs.cancel(visit.workspace, visit.path["job"])
    return {"cancelled": True}


def dismiss(visit: Visit) -> Mapping[str, Any]:
    """Leave a failed job out of the list."""
    jobs.dismiss(visit.workspace, visit.path["job"])
    return {"dismissed": True}


def resume(visit: Visit) -> Mapping[str, Any]:
    """Go on with a job that was killed before it read."""
    jobs.resume(visit.workspace, visit.path["job"])
    return {"resumed": True}
