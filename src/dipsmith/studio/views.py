"""What a view is asked, and the kinds of answers: a page, a file, or data for a page's script.

A view is a plain function that may block: it runs in a thread of its own. What it refuses, it raises as one of
dipsmith's errors, whose one line is shown where it happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from dipsmith.errors import BudgetError, DipsmithError, InputError, SameSourceError, UsageError
from dipsmith.report.moments import mark_moments
from dipsmith.studio.gate import PAGE, refusal
from dipsmith.studio.workspace import Project, Workspace, label_file, name_files

STEPS = ("schema", "plan", "run", "release", "questions", "compare")


@dataclass(frozen=True)
class Visit:
    """What was asked: the workspace, the parts of the address, the body."""

    workspace: Workspace
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def project(self) -> Project:
        """The project that the address names."""
        return self.workspace.project(self.path["project"])

    def text(self, name: str, most: int = 1000) -> str:
        """A line of text from the body."""
        found = self.body.get(name, "")
        if not isinstance(found, str) or len(found) > most or not found.replace("\n", "").isprintable():
            raise UsageError(f"'{name}' must be text of at most {most} printable characters")
        return found.strip()


@dataclass(frozen=True)
class Screen:
    """A template with its values."""

    template: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Download:
    """A file, or text made for this answer, to be saved under a name."""

    name: str
    kind: str
    text: str = ""
    file: Path | None = None

    @classmethod
    def of(cls, file: Path) -> Download:
        """A file under its own name."""
        return cls(file.name, guess_type(file.name)[0] or "application/octet-stream", file=file)


View = Callable[[Visit], Screen | Download | Mapping[str, Any]]


def templates() -> Environment:
    """The templates; everything is escaped unless it is marked as made by us."""
    made = Environment(
        loader=PackageLoader("dipsmith.studio"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["STEPS"] = STEPS
    made.filters |= {"label_file": label_file, "name_files": name_files, "moment": _moment}
    made.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return made


def _moment(stamp: str) -> str:
    """An exact moment as people write it, as HTML."""
    return mark_moments(escape(stamp))


def endpoint(view: View) -> Callable[[Request], Any]:
    """What answers a request by a view."""

    async def answer(request: Request) -> Response:
        for_script = request.url.path.startswith("/api/")
        try:
            body = await _body(request) if for_script else {}
            found = await run_in_threadpool(lambda: view(_visit(request, body)))
        except DipsmithError as error:
            return _show_refusal(request, error)
        except ClientDisconnect:
            return refusal(413, "The request is too large.")
        if isinstance(found, Screen):
            return _render(request, found, 200)
        return _download_response(found) if isinstance(found, Download) else JSONResponse(dict(found))

    return answer


def _visit(request: Request, body: Mapping[str, Any]) -> Visit:
    """What was asked, with the ledger that the project uses."""
    path, workspace = dict(request.path_params), request.app.state.workspace
    own = workspace.for_project(path["project"]) if "project" in path else workspace
    return Visit(own, path, dict(request.query_params), body)


def in_page_words(text: str) -> str:
    """What the ledger says, without what to type: the pages have a Ledger page, and a box to confirm.

    >>> in_page_words("nothing is left; to grant more: dipsmith ledger grant a --ledger b.db --epsilon 1")
    'nothing is left; grant more on the Ledger page'
    """
    text = re.sub(r"; to grant (it|more): dipsmith .*$", r"; grant \1 on the Ledger page", text)
    return text.replace("confirm with --another-grant (another_grant=True)", "confirm that both add up")


def _show_refusal(request: Request, error: DipsmithError) -> Response:
    why = in_page_words(name_files(str(error), request.app.state.workspace.folder))
    status = 400 if isinstance(error, UsageError | InputError) else 422
    status = 409 if isinstance(error, BudgetError) else status
    if request.url.path.startswith("/api/"):
        # A refusal that a person may overrule says by which field.
        confirm = {"confirm": "another_grant"} if isinstance(error, SameSourceError) else {}
        return JSONResponse({"error": why, **confirm}, status)
    if PAGE.fullmatch(request.url.path):
        return _render(request, Screen("refused.html", {"why": why, "project": None, "step": ""}), status)
    return refusal(status, escape(why))


def _download_response(found: Download) -> Response:
    safe = re.sub(r"[^\w.() -]", "_", found.name, flags=re.ASCII)
    named = {"Content-Disposition": f'attachment; filename="{safe}"'}
    if found.file is not None:
        return FileResponse(found.file, media_type=found.kind, headers=named)
    return Response(found.text, media_type=found.kind, headers=named)


async def _body(request: Request) -> Mapping[str, Any]:
    raw = await request.body()
    try:
        found = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise UsageError("the request is not JSON; reload the page") from None
    if not isinstance(found, dict):
        raise UsageError("the request is not a JSON object; reload the page")
    return found


def _render(request: Request, screen: Screen, status: int) -> Response:
    template = request.app.state.templates.get_template(screen.template)
    return HTMLResponse(template.render(**screen.values), status)
