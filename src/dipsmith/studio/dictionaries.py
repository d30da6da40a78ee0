"""Data dictionaries on the Schema page: what a code book says of columns fills a draft where it has nothing yet.

The file is streamed into the private folder, read for what it says of columns, never for rows, and removed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from dipsmith.errors import DipsmithError, InputError
from dipsmith.schema.markup import parse
from dipsmith.schema.naming import plain_name
from dipsmith.studio.projects import stream
from dipsmith.studio.schema import report
from dipsmith.studio.workspace import Project, Workspace
from dipsmith.synthesis.drafting import draft_schema


async def upload(request: Request) -> Response:
    """Fill the draft by a dictionary; the page keeps what comes back."""
    workspace: Workspace = request.app.state.workspace
    name = Path(request.path_params["name"]).name
    part = workspace.private("dictionaries") / f"{secrets.token_hex(8)}{Path(name).suffix[:12]}"
    try:
        project = workspace.project(request.path_params["project"])
        await stream(request, part, workspace.most_upload)
        found = await run_in_threadpool(_fill_draft, workspace, project, part, plain_name(name))
    except DipsmithError as error:
        return JSONResponse({"error": _plain(str(error), part, name)}, 400)
    except ClientDisconnect:
        return JSONResponse({"error": "the upload was interrupted; nothing was kept"}, 400)
    finally:
        part.unlink(missing_ok=True)
    return JSONResponse(found)


def _plain(said: str, part: Path, name: str) -> str:
    """A refusal that names the file as its owner does, without options of the command line."""
    said = said.replace(str(part), name).replace(plain_name(part.name), name)
    return re.sub(r"; for the rows of a public file.*", "", said)


def _fill_draft(workspace: Workspace, project: Project, file: Path, called: str) -> Mapping[str, Any]:
    """The draft with what the dictionary says of columns that are not complete; the others stay."""
    draft = project.document
    if draft.get("members") is not None:
        raise InputError(
            "give the dictionary to the project of the members, and to that of the households before they are joined"
        )
    text = draft_schema(file, name=project.name, header=project.columns)
    # Of a column that is left open the type and the title are known: the draft has them in a comment.
    drafted = parse(re.sub(r"(?m)^# (?=- \{name: )", "", text))
    assert isinstance(drafted, dict)
    known = {f["name"]: {k: v for k, v in f.items() if v is not None} for f in drafted["fields"]}
    told = {name: facts for name, facts in known.items() if set(facts) - {"name", "role"}}
    complete = {c["name"] for c in report(workspace, draft)["columns"] if not c["error"]}
    fields = [
        {**told[f["name"]], "role": f.get("role", "private")} if f["name"] in told and f["name"] not in complete else f
        for f in draft["fields"]
    ]
    provenance = draft.get("provenance") or "declared"
    document = {**draft, "fields": fields, "provenance": f"from {called}" if provenance == "declared" else provenance}
    filled = [f["name"] for f in draft["fields"] if f["name"] in told and f["name"] not in complete]
    return {"document": document, "report": report(workspace, document), "filled": filled}
