"""Projects: the datasets under the ledger, what is granted, spent and left, and every release so far."""

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

from dipsmith.confirm.answer import is_answer
from dipsmith.errors import DipsmithError, InputError, OutputError, UsageError
from dipsmith.privacy.account import PaidRun
from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import Statement
from dipsmith.report.commands import command
from dipsmith.schema.drafts import draft
from dipsmith.schema.markup import parse
from dipsmith.schema.naming import check_name, plain_name
from dipsmith.sources import source
from dipsmith.studio.budget_bar import budget_bar, symbol
from dipsmith.studio.choices import Choices
from dipsmith.studio.views import Screen, Visit
from dipsmith.studio.workspace import DATA_ENDINGS, Project, Workspace

_NAME = re.compile(r"[\w][\w. ()-]{0,120}")
MOST_GRANTED = 100
"""ε or ρ of one grant: more promises nobody anything, and is a slip of the keyboard."""
LEAST_FREE = 256 << 20
"""An upload stops when the disk has less than this left."""


def accounts(workspace: Workspace) -> list[Statement]:
    """Every account of the ledger; none when there is no ledger yet."""
    return list(workspace.ledger.show()) if workspace.ledger_file.exists() else []


def account_of(workspace: Workspace, name: str) -> Statement:
    """The account of a dataset, empty if it has none."""
    found = next((s for s in accounts(workspace) if s.name == name), None)
    return found or Statement(name, None, 0, 0, None, None, 0, (), ())


def show(visit: Visit) -> Screen:
    """The page."""
    workspace = visit.workspace
    found = {s.name: s for s in accounts(workspace)}
    projects = workspace.projects()
    for project in projects:
        found.setdefault(project.name, account_of(workspace, project.name))
    ordered = sorted(found.values(), key=lambda s: s.name)
    values = {
        "project": None,
        "step": "projects",
        "accounts": [_account(s, projects, workspace) for s in ordered],
        "files": workspace.data_files(),
        "folder": str(workspace.folder),
        "ledger": workspace.ledger_name,
        "ledger_exists": workspace.ledger_file.exists(),
        "command": command("ledger", "show", "--ledger", Path(workspace.ledger_name)),
    }
    return Screen("projects.html", values)


def _account(statement: Statement, projects: list[Project], workspace: Workspace) -> dict[str, Any]:
    return {
        "statement": statement,
        "bar": budget_bar(statement),
        "symbol": symbol(statement.currency),
        "granted": decimal_text(statement.granted_units),
        "spent": decimal_text(statement.spent_units),
        "left": decimal_text(statement.remaining_units),
        "projects": [p for p in projects if p.name == statement.name],
        "runs": [
            {
                "run": run,
                "charge": decimal_text(run.charge),
                "where": workspace.relative(Path(run.path)) if run.path else "",
                "page": page_of(run),
                "time": run.time[:16].replace("T", " "),
            }
            for run in reversed(statement.runs)
        ],
    }


def page_of(run: PaidRun) -> str:
    """The page within its project that shows what a run made; none for a count, and for what is gone."""
    if is_answer(run.path):
        return f"questions/{run.id.removeprefix('question ')}"
    return f"release/{run.id}" if Path(run.path, "card.json").is_file() else ""


async def upload(request: Request) -> Response:
    """Stream a file into the private folder, within limits; what has no readable header is not kept."""
    workspace: Workspace = request.app.state.workspace
    name = request.path_params["name"]
    folder = workspace.private("uploads")
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
            await _stream(request, part, workspace.most_upload)
            part.rename(target)
            await run_in_threadpool(_require_header, target)
        finally:
            part.unlink(missing_ok=True)
    except DipsmithError as error:
        return JSONResponse({"error": str(error).replace(f"{folder}/", "")}, 413 if "larger" in str(error) else 400)
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


async def _stream(request: Request, part: Path, most: int) -> None:
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
    columns = source(file).columns
    document = parse(draft(columns, name))
    assert isinstance(document, dict)
    made = visit.workspace.create(name, visit.workspace.relative(file), columns, document)
    return {"project": made.id}


def remove(visit: Visit) -> Mapping[str, Any]:
    """Forget a draft."""
    visit.workspace.remove(visit.path["project"])
    return {"removed": True}


def grant(visit: Visit) -> Mapping[str, Any]:
    """Grant budget to a dataset."""
    name = visit.text("name")
    if not name:
        raise UsageError("say which dataset the grant is for")
    check_name(name)
    amounts = {"amount": visit.text("amount"), "delta": visit.text("delta") or None}
    budget = Choices.of({"currency": visit.body.get("currency"), **amounts}).budget
    if budget.exact > MOST_GRANTED:
        raise UsageError(
            f"{budget} would protect nobody: at most {budget.symbol} = {MOST_GRANTED} can be granted here at once; "
            "few public releases spend more than 10"
        )
    visit.workspace.ledger.grant(name, budget, by=visit.text("by") or None, why=visit.text("why"))
    return {"statement": visit.workspace.ledger.show(name).as_dict()}
