"""Check: how many cells of the file the schema does not hold. Exact counts of private rows, logged as a look, CONFIDENTIAL.

A run may say nothing that depends on a value, so that cells which cannot be read count silently as missing or at a bound. Whoever
may look at the rows can count them here before anything is spent.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dipsmith.errors import SchemaError
from dipsmith.report.commands import command
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.sources.header import check_header
from dipsmith.studio import jobs
from dipsmith.studio.members import members_file
from dipsmith.studio.schema import schema_file, schema_of
from dipsmith.studio.views import Screen, Visit
from dipsmith.studio.workspace import Project, Workspace, name_files
from dipsmith.synthesis.checked import is_checked

RESULT = "check.json"
LEFT_OUT = ": missing"
"""Missing cells fit wherever the schema has a level for them."""


def show(visit: Visit) -> Screen:
    """The page."""
    workspace, project = visit.workspace, visit.project
    words: list[str | Path] = [Path(schema_file(project)), "--source", Path(project.data)]
    if people := members_file(workspace, project.document):
        words += ["--members", Path(people)]
    shown = command("schema", "check", *words, "--ledger", Path(workspace.ledger_name))
    problem = ""
    try:
        schema_of(workspace, project)
    except SchemaError as error:
        problem = str(error)
    state = {"project": project.id, **watch(visit)}
    return Screen(
        "check.html", {"project": project, "step": "check", "command": shown, "problem": problem, "state": state}
    )


def begin(visit: Visit) -> Mapping[str, Any]:
    """Count, in a process of its own; a check that has not ended goes on instead of a second one."""
    workspace, project = visit.workspace, visit.project
    going = [j for j in jobs.list_jobs(workspace, project.id, "check") if j.status in ("waiting", "running")]
    if going:
        return {"job": going[0].id}
    schema = schema_of(workspace, project)
    people = members_file(workspace, project.document)
    check_header(project.file, source(workspace.inside(project.data)).columns, schema.columns)
    asked = {"data": project.data, "members": people, "schema": schema.to_dict(), "says": f"Checking {project.file}"}
    job = uuid.uuid4().hex
    if jobs.submit(workspace, job, "check", project.id, asked):
        jobs.launch(workspace, job, 0.0)
    return {"job": job}


def watch(visit: Visit) -> Mapping[str, Any]:
    """The last check: how far it is, what it found, and whether the schema has changed since."""
    found = next(iter(jobs.list_jobs(visit.workspace, visit.project.id, "check")), None)
    if found is None:
        return {"jobs": [], "result": None}
    file = found.folder / RESULT
    if found.status != "finished" or not file.is_file():
        return {"jobs": [found.to_dict()], "result": None}
    counts: dict[str, int] = json.loads(file.read_text("utf-8"))
    amiss = sorted(
        ((n, what) for what, n in counts.items() if n and what != "rows" and not what.endswith(LEFT_OUT)), reverse=True
    )
    result = {
        "rows": counts["rows"],
        "amiss": [{"what": what, "cells": n} for n, what in amiss],
        "of": name_files(found.asked["data"]),
    }
    return {"jobs": [found.to_dict()], "result": {**result, "stale": _is_stale(visit, found)}}


def _is_stale(visit: Visit, job: jobs.Job) -> bool:
    try:
        return bool(schema_of(visit.workspace, visit.project).to_dict() != job.asked["schema"])
    except SchemaError:
        return True


def is_unchecked(workspace: Workspace, project: Project, schema: Schema) -> bool:
    """Whether nobody has counted, by the log of looks; no row is read."""
    return not is_checked(source(workspace.inside(project.data)), schema, workspace.ledger)
