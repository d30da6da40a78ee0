"""The first page: begin with a file or with invented people, and go on with a project."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from dipsmith.errors import DipsmithError, InputError, OutputError
from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import Statement
from dipsmith.report.commands import command
from dipsmith.report.moments import day_in_words
from dipsmith.schema.drafts import draft
from dipsmith.schema.markup import parse
from dipsmith.schema.naming import check_name, plain_name
from dipsmith.sources import source
from dipsmith.sources.header import declared_types
from dipsmith.studio.accounts import NOT_RUNS, account_of, accounts
from dipsmith.studio.budget_bar import budget_bar, symbol
from dipsmith.studio.views import Screen, Visit
from dipsmith.studio.workspace import DATA_ENDINGS, UPLOADS, Project, Workspace, name_files

_NAME = re.compile(r"[\w][\w. ()-]{0,120}")
RECENT = 8
"""Projects of which the first page says how they stand; it only names the others."""
LEAST_FREE = 256 << 20
"""An upload stops when the disk has less than this left."""


def show(visit: Visit) -> Screen:
    """The page: what the studio does in three steps, one way to begin, and the projects so far."""
    workspace = visit.workspace
    projects, files = workspace.projects(), workspace.data_files()
    commands = {file: command("schema", "init", Path(file or "FILE")) for file in ("", *files)}
    main = {s.name: s for s in accounts(workspace)}
    values = {
        "project": None,
        "step": "projects",
        "recent": [_recent(p, main, workspace) for p in projects[:RECENT]],
        "earlier": [p.id for p in projects[RECENT:]],
        "files": files,
        "folder": str(workspace.folder),
        "ledger": workspace.ledger_name,
        "ledger_exists": workspace.ledger_file.exists(),
        "unbegun": sorted(set(main) - {p.name for p in projects}),
        "commands": commands,
        "command": command("ledger", "show", "--ledger", Path(workspace.ledger_name))
        if workspace.ledger_file.exists()
        else commands[next(iter(files), "")],
    }
    return Screen("projects.html", values)


def _recent(project: Project, main: Mapping[str, Statement], workspace: Workspace) -> dict[str, Any]:
    """A project as the first page lists it; `next` is the page to go on with."""
    own = workspace.for_project(project.id) if project.ledger else workspace
    account = account_of(own, project.name) if project.ledger else main.get(project.name)
    done = [run for run in account.runs if run.state == "finished"] if account else []
    made = [run for run in done if run.method not in NOT_RUNS]
    return {
        "project": project,
        "bar": budget_bar(account) if account and account.currency else "",
        "symbol": symbol(account.currency if account else None),
        "granted": decimal_text(account.granted_units) if account and account.currency else "",
        "left": decimal_text(account.remaining_units) if account else "",
        "runs": len(made),
        "answers": sum(NOT_RUNS.get(run.method) == "answer" for run in done),
        "last": day_in_words(made[-1].time) if made else "",
        "next": "release" if made else "plan" if project.choices or project.ledger else "schema",
    }


async def upload(request: Request) -> Response:
    """Stream a file into the private folder, within limits; what has no readable header is not kept."""
    workspace: Workspace = request.app.state.workspace
    name = request.path_params["name"]
    folder = workspace.private(UPLOADS)
    try:
        if not _NAME.fullmatch(name) or not name.lower().endswith(DATA_ENDINGS):
            raise InputError(
                f"'{name[:60]}' is not a name for data: use letters and digits, ending in .csv or .parquet"
            )
        target = folder / name
        if target.exists():
            raise OutputError(f"'{name}' was uploaded before; choose it below, or rename the new file")
        part = folder / f".{secrets.token_hex(8)}.partial"
        try:
            await stream(request, part, workspace.most_upload)
            part.rename(target)
            await run_in_threadpool(_require_header, target)
        finally:
            part.unlink(missing_ok=True)
    except DipsmithError as error:
        return JSONResponse({"error": name_files(str(error), workspace.folder)}, 413 if "larger" in str(error) else 400)
    except ClientDisconnect:
        return JSONResponse({"error": "the upload was interrupted; nothing was kept"}, 400)
    return JSONResponse({"data": workspace.relative(target)})


def _require_header(file: Path) -> None:
    """Forget a file that no project can begin with, so that it is not offered again."""
    try:
        draft(source(file).columns, "table")
    except DipsmithError:
        file.unlink()
        raise


async def stream(request: Request, part: Path, most: int) -> None:
    """Write what is sent into a new file, within limits."""
    seen, handle = 0, os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        async for chunk in request.stream():
            seen += len(chunk)
            if seen > most:
                raise InputError(
                    f"the file is larger than {most / 1e9:.3g} GB; put it into the workspace's folder instead"
                )
            if os.statvfs(part.parent).f_bavail * os.statvfs(part.parent).f_frsize < LEAST_FREE:
                raise OutputError("the disk is nearly full; make room first")
            file.write(chunk)


def create(visit: Visit) -> Mapping[str, Any]:
    """A project from a file's header; no row is read."""
    file = visit.workspace.inside(visit.text("data", 4096))
    if not file.is_file():
        raise InputError("there is no such file in the workspace; choose one of the list")
    name = visit.text("name") or plain_name(file.name.split(".")[0])
    check_name(name)
    rows = source(file)
    columns = rows.columns
    document = parse(draft(columns, name, declared_types(rows)))
    assert isinstance(document, dict)
    made = visit.workspace.create(name, visit.workspace.relative(file), columns, document)
    return {"project": made.id}


def remove(visit: Visit) -> Mapping[str, Any]:
    """Forget a draft."""
    visit.workspace.remove(visit.path["project"])
    return {"removed": True}
