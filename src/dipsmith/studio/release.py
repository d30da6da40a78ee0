"""Release: the card, the first synthetic rows, every file to download, and the releasable report."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.routing import BaseRoute, Route

from dipsmith.errors import DipsmithError, InputError
from dipsmith.report.commands import command
from dipsmith.report.content import Page
from dipsmith.studio.asked import Asked, Download, Shown, data, page
from dipsmith.studio.asked import download as saved
from dipsmith.studio.fragments import fragment
from dipsmith.studio.projects import statement_of
from dipsmith.studio.workspace import HIDDEN, Project, Workspace, write_whole
from dipsmith.synthesis.release import Release, read_card, read_schema, read_table, set_file
from dipsmith.synthesis.verify import verify
from dipsmith.synthesis.writing import digest

PREVIEWED = 12


def routes() -> list[BaseRoute]:
    """The addresses of this page."""
    return [
        Route("/p/{project}/release", page(show), methods=["GET"]),
        Route("/p/{project}/release/{request}", page(show), methods=["GET"]),
        Route("/p/{project}/release/{request}/files/{name}", saved(download), methods=["GET"]),
        Route("/api/p/{project}/release/{request}/report", data(report), methods=["GET"]),
        Route("/api/p/{project}/release/{request}/verify", data(check), methods=["POST"]),
    ]


def released(workspace: Workspace, project: Project) -> dict[str, Path]:
    """The releases of a project that lie in the workspace, by request id, the newest first."""
    runs = [r for r in statement_of(workspace, project.name).runs if r.state == "finished"]
    found = {}
    for run in reversed(runs):
        path = Path(run.path)
        if path.is_dir() and path.resolve().is_relative_to(workspace.folder):
            found[run.id] = path.resolve()
    return found


def folder_of(asked: Asked) -> tuple[Project, str, Path]:
    """The release that an address names."""
    project = asked.workspace.project(asked.path["project"])
    found = released(asked.workspace, project)
    request = asked.path["request"]
    if request not in found:
        raise InputError("there is no such release in the workspace; see the Run page")
    return project, request, found[request]


def show(asked: Asked) -> Shown:
    """The page: the newest release unless the address names another."""
    workspace = asked.workspace
    project = workspace.project(asked.path["project"])
    found = released(workspace, project)
    request = asked.path.get("request", next(iter(found), ""))
    held: dict[str, Any] = {
        "project": project,
        "step": "release",
        "request": request,
        "command": "",
        "card": None,
    }
    if request not in found:
        return Shown("release.html", held)
    folder = found[request]
    card = read_card(folder)
    where = workspace.shown(folder)
    ledger = workspace.shown(workspace.ledger_file)
    held |= {
        "card": card,
        "where": where,
        "others": [(r, read_card(p)) for r, p in found.items()],
        "sections": fragment(Page("", (), card.page().sections[:3]), "").html,
        "preview": _preview(folder),
        "files": [(p.name, p.stat().st_size, card.files.get(p.name, "")) for p in sorted(folder.iterdir())],
        "command": command("verify", Path(where), "--ledger", Path(ledger)),
        "report_command": command("report", Path(where), "--out", "report.html"),
        "state": {"project": project.id, "request": request},
    }
    return Shown("release.html", held)


def _preview(folder: Path) -> tuple[list[tuple[str, bool]], list[list[str]]]:
    """Names of the columns, whether each is a number, and the first rows."""
    table = read_table(set_file(folder, 1), read_schema(folder)).slice(0, PREVIEWED)
    columns = [[_shown(v) for v in c.to_pylist()] for c in table.columns]
    numeric = [pa.types.is_integer(t) or pa.types.is_floating(t) for t in table.schema.types]
    names = list(zip(table.column_names, numeric, strict=True))
    return names, [list(row) for row in zip(*columns, strict=True)]


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def download(asked: Asked) -> Download:
    """One file of a release."""
    _, _, folder = folder_of(asked)
    name = asked.path["name"]
    if name.startswith("image-") and name not in {p.name for p in folder.iterdir()}:
        held = asked.workspace.folder / HIDDEN / "reports" / digest(folder / "card.json")
        names, folder = {p.name for p in held.glob("image-*.png")}, held
    else:
        names = {p.name for p in folder.iterdir() if p.is_file()}
    if name not in names or not (folder / name).resolve().is_relative_to(folder):
        raise InputError("the release has no such file")
    return Download(name, mimetypes.guess_type(name)[0] or "application/octet-stream", file=folder / name)


def report(asked: Asked) -> Mapping[str, Any]:
    """The releasable report: made once per release, from the release alone, and kept."""
    project, request, folder = folder_of(asked)
    kept = asked.workspace.private("reports", digest(folder / "card.json"))
    if not (kept / "fragment.html").exists():
        made = fragment(Release.load(folder).report_page(), f"/p/{project.id}/release/{request}/files")
        for i, image in enumerate(made.images, start=1):
            write_whole(kept / f"image-{i}.png", image)
        write_whole(kept / "fragment.html", made.html.encode())
    return {"html": (kept / "fragment.html").read_text("utf-8")}


def check(asked: Asked) -> Mapping[str, Any]:
    """Whether every file is what the card says, and the ledger knows it."""
    _, _, folder = folder_of(asked)
    try:
        found = verify(folder, asked.workspace.ledger)
    except DipsmithError as error:
        return {"whole": False, "says": str(error)}
    return {
        "whole": True,
        "says": f"Whole: {found.files} files agree with the card, and the card with the ledger.",
    }
