"""The application: the gate around a table of addresses, one file per page."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dipsmith.studio import (
    check,
    compare,
    dictionaries,
    explorer,
    learn,
    ledger,
    plan,
    practice,
    projects,
    questions,
    release,
    run,
    schema,
    stand_in,
)
from dipsmith.studio.gate import Gate, refusal
from dipsmith.studio.session import Session
from dipsmith.studio.views import View, endpoint, templates
from dipsmith.studio.workspace import Workspace

ADDRESSES: Sequence[tuple[str, str, View]] = (
    ("GET", "/", projects.show),
    ("POST", "/api/projects", projects.create),
    ("DELETE", "/api/projects/{project}", projects.remove),
    ("POST", "/api/practice", practice.begin),
    ("GET", "/ledger", ledger.show),
    ("GET", "/ledger.csv", ledger.export),
    ("POST", "/api/grant", ledger.grant),
    ("POST", "/api/withdraw", ledger.withdraw),
    ("GET", "/p/{project}/ledger", ledger.show),
    ("GET", "/p/{project}/ledger.csv", ledger.export),
    ("POST", "/api/p/{project}/grant", ledger.grant),
    ("POST", "/api/p/{project}/withdraw", ledger.withdraw),
    ("GET", "/p/{project}/schema", schema.show),
    ("GET", "/p/{project}/schema.yaml", schema.export),
    ("POST", "/api/p/{project}/schema", schema.save),
    ("POST", "/api/p/{project}/schema/import", schema.read_yaml),
    ("POST", "/api/p/{project}/schema/bins", schema.cut),
    ("POST", "/api/codes", schema.codes),
    ("POST", "/api/p/{project}/learn/price", learn.price),
    ("POST", "/api/p/{project}/learn", learn.begin),
    ("GET", "/api/p/{project}/learn", learn.watch),
    ("POST", "/api/p/{project}/learn/take", learn.take),
    ("GET", "/p/{project}/check", check.show),
    ("POST", "/api/p/{project}/check", check.begin),
    ("GET", "/api/p/{project}/check", check.watch),
    ("GET", "/p/{project}/plan", plan.show),
    ("GET", "/p/{project}/choices.yaml", plan.export),
    ("GET", "/p/{project}/script.py", plan.script),
    ("POST", "/api/p/{project}/plan", plan.answer),
    ("POST", "/api/p/{project}/tradeoff", stand_in.begin),
    ("GET", "/api/p/{project}/tradeoff", stand_in.watch),
    ("GET", "/api/interval", explorer.answer),
    ("GET", "/interval.csv", explorer.as_csv),
    ("GET", "/interval.svg", explorer.as_svg),
    ("GET", "/p/{project}/run", run.show),
    ("POST", "/api/p/{project}/run", run.start),
    ("GET", "/api/p/{project}/jobs", run.watch),
    ("POST", "/api/jobs/{job}/cancel", run.cancel),
    ("POST", "/api/jobs/{job}/resume", run.resume),
    ("POST", "/api/jobs/{job}/dismiss", run.dismiss),
    ("GET", "/p/{project}/release", release.show),
    ("GET", "/p/{project}/release/{request}", release.show),
    ("GET", "/p/{project}/release/{request}/release.zip", release.pack_release),
    ("GET", "/p/{project}/release/{request}/files/{name:path}", release.download),
    ("GET", "/api/p/{project}/release/{request}/report", release.report),
    ("POST", "/api/p/{project}/release/{request}/verify", release.check),
    ("GET", "/p/{project}/questions", questions.show),
    ("GET", "/p/{project}/questions/{question}", questions.answer),
    ("GET", "/p/{project}/questions/{question}/files/{name}", questions.download),
    ("POST", "/api/p/{project}/questions", questions.add),
    ("GET", "/api/p/{project}/questions", questions.watch),
    ("GET", "/api/p/{project}/questions/{question}/prospect", questions.prospects),
    ("POST", "/api/p/{project}/questions/{question}/approve", questions.approve),
    ("POST", "/api/p/{project}/questions/{question}/decline", questions.refuse),
    ("GET", "/p/{project}/compare", compare.show),
    ("GET", "/p/{project}/compare/{job}", compare.show),
    ("GET", "/p/{project}/compare/{job}/files/{name:path}", compare.download),
    ("GET", "/p/{project}/compare/{job}/distribution.csv", compare.numbers),
    ("GET", "/api/p/{project}/compare/{job}/distribution", compare.distribution),
    ("POST", "/api/p/{project}/compare", compare.start),
    ("GET", "/api/p/{project}/comparisons", compare.watch),
)


def routes() -> list[BaseRoute]:
    """Every address that the studio answers."""
    static = StaticFiles(packages=[("dipsmith.studio", "static")])
    return [
        Mount("/static", static, name="static"),
        Route("/api/upload/{name}", projects.upload, methods=["PUT"]),
        Route("/api/upload/{project}/dictionary/{name}", dictionaries.upload, methods=["PUT"]),
        *(Route(path, endpoint(view), methods=[method]) for method, path, view in ADDRESSES),
    ]


def build(workspace: Workspace, session: Session, port: int, more: Sequence[BaseRoute] = ()) -> Gate:
    """The application behind its gate."""
    app = Starlette(routes=[*routes(), *more], exception_handlers={404: _unknown, 405: _unknown, 500: _show_failure})
    app.state.workspace = workspace
    app.state.templates = templates()
    return Gate(app, session, port)


async def _unknown(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return refusal(status, "There is no such page; go back to the studio's first page.")


async def _show_failure(request: Request, error: Exception) -> Response:
    # A traceback may quote private values, so that nobody sees it by accident.
    why = f"unexpected failure ({type(error).__name__}); nothing was spent by this page"
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": why}, 500)
    return refusal(500, why.capitalize() + ".")
