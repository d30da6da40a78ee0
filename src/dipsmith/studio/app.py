"""The application: the gate around a table of routes, one file per page."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from dipsmith.studio import compare, explorer, plan, projects, release, run, schema
from dipsmith.studio.asked import templates
from dipsmith.studio.gate import Gate, refusal
from dipsmith.studio.session import Session
from dipsmith.studio.workspace import Workspace


def routes() -> list[BaseRoute]:
    """Every address that the studio answers."""
    found: list[BaseRoute] = [
        Mount("/static", StaticFiles(packages=[("dipsmith.studio", "static")]), name="static")
    ]
    for room in (projects, schema, plan, explorer, run, release, compare):
        found += room.routes()
    return found


def build(workspace: Workspace, session: Session, port: int, more: Sequence[BaseRoute] = ()) -> Gate:
    """The application behind its gate."""
    app = Starlette(
        routes=[*routes(), *more], exception_handlers={404: _unknown, 405: _unknown, 500: _failed}
    )
    app.state.workspace = workspace
    app.state.templates = templates()
    return Gate(app, session, port)


async def _unknown(request: Request, error: Exception) -> Response:
    return refusal(
        getattr(error, "status_code", 404), "There is no such page; go back to the studio's first page."
    )


async def _failed(request: Request, error: Exception) -> Response:
    # A traceback may quote private values, so that nobody sees it by accident.
    why = f"unexpected failure ({type(error).__name__}); nothing was spent by this page"
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": why}, 500)
    return refusal(500, why.capitalize() + ".")
