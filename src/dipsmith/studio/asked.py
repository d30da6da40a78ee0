"""A request as a view sees it, and the kinds of answers: a page, a file, or data for a page's script.

A view is a plain function that may block: it runs in a thread of its own. What it refuses, it raises as one of
dipsmith's errors, whose one line is shown where it happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from dipsmith.errors import BudgetError, DipsmithError, InputError, SameSourceError, UsageError
from dipsmith.studio.gate import refusal
from dipsmith.studio.workspace import Workspace

STEPS = ("schema", "plan", "run", "release", "compare")


@dataclass(frozen=True)
class Asked:
    """What was asked: the workspace, the parts of the address, the body."""

    workspace: Workspace
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    def text(self, name: str, most: int = 1000) -> str:
        """A line of text from the body."""
        found = self.body.get(name, "")
        if not isinstance(found, str) or len(found) > most or not found.replace("\n", "").isprintable():
            raise UsageError(f"'{name}' must be text of at most {most} printable characters")
        return found.strip()


@dataclass(frozen=True)
class Shown:
    """A template with its values."""

    template: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Download:
    """A file, or text made for this answer, to be saved under a name."""

    name: str
    kind: str
    text: str | None = None
    file: Path | None = None


PageView = Callable[[Asked], Shown]
DownloadView = Callable[[Asked], Download]
DataView = Callable[[Asked], Mapping[str, Any]]


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
    made.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return made


def download(view: DownloadView) -> Callable[[Request], Any]:
    """An endpoint that answers with a file."""

    async def endpoint(request: Request) -> Response:
        try:
            found = await run_in_threadpool(view, _asked(request, {}))
        except DipsmithError as error:
            return refusal(_status(error), escape(str(error)))
        safe = re.sub(r"[^\w.() -]", "_", found.name, flags=re.ASCII)
        named = {"Content-Disposition": f'attachment; filename="{safe}"'}
        if found.file is not None:
            return FileResponse(found.file, media_type=found.kind, headers=named)
        return Response(found.text or "", media_type=found.kind, headers=named)

    return endpoint


def page(view: PageView) -> Callable[[Request], Any]:
    """An endpoint that answers with a page."""

    async def endpoint(request: Request) -> Response:
        try:
            found = await run_in_threadpool(view, _asked(request, {}))
        except DipsmithError as error:
            return _rendered(
                request,
                Shown("refused.html", {"why": str(error), "project": None, "step": ""}),
                _status(error),
            )
        return _rendered(request, found, 200)

    return endpoint


def data(view: DataView) -> Callable[[Request], Any]:
    """An endpoint that answers a script with JSON."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await _body(request)
            return JSONResponse(dict(await run_in_threadpool(view, _asked(request, body))))
        except DipsmithError as error:
            # A refusal that a person may overrule says by which field.
            confirm = {"confirm": "another_grant"} if isinstance(error, SameSourceError) else {}
            return JSONResponse({"error": str(error), **confirm}, _status(error))
        except ClientDisconnect:
            return refusal(413, "The request is too large.")

    return endpoint


async def _body(request: Request) -> Mapping[str, Any]:
    raw = await request.body()
    if not raw:
        return {}
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise UsageError("the request is not JSON; reload the page") from None
    if not isinstance(found, dict):
        raise UsageError("the request is not a JSON object; reload the page")
    return found


def _asked(request: Request, body: Mapping[str, Any]) -> Asked:
    return Asked(request.app.state.workspace, dict(request.path_params), dict(request.query_params), body)


def _rendered(request: Request, shown: Shown, status: int) -> Response:
    template = request.app.state.templates.get_template(shown.template)
    return HTMLResponse(template.render(**shown.values), status)


def _status(error: DipsmithError) -> int:
    if isinstance(error, BudgetError):
        return 409
    return 400 if isinstance(error, UsageError | InputError) else 422
