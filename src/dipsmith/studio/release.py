"""Release: its picture, the first synthetic rows, card and report to read, and all of it as one file to send."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dipsmith.errors import DipsmithError, InputError
from dipsmith.report.commands import command
from dipsmith.report.content import Page
from dipsmith.report.moments import day_in_words
from dipsmith.studio.accounts import account_of
from dipsmith.studio.archive import archive, files_of
from dipsmith.studio.fragments import fragment
from dipsmith.studio.views import Download, Screen, Visit
from dipsmith.studio.workspace import HIDDEN, Project, Workspace
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.release import Release, read_card, read_schema, read_table, set_file
from dipsmith.synthesis.verify import verify
from dipsmith.synthesis.writing import digest

CARD = "card.json"
PREVIEWED = 12


def releases_of(workspace: Workspace, project: Project) -> dict[str, Path]:
    """The releases of a project that lie in the workspace, by request id, the newest first; answers and counts are none."""
    runs = reversed(account_of(workspace, project.name).runs)
    found = {run.id: Path(run.path) for run in runs if run.state == "finished"}
    there = {request: path.resolve() for request, path in found.items() if (path / CARD).is_file()}
    return {request: path for request, path in there.items() if path.is_relative_to(workspace.folder)}


def release_of(visit: Visit) -> tuple[Project, str, Path]:
    """The release that an address names."""
    project, request = visit.project, visit.path["request"]
    found = releases_of(visit.workspace, project)
    if request not in found:
        raise InputError("there is no such release in the workspace; see the Run page")
    return project, request, found[request]


def show(visit: Visit) -> Screen:
    """The page: the newest release unless the address names another."""
    workspace, project = visit.workspace, visit.project
    found = releases_of(workspace, project)
    request = visit.path.get("request", next(iter(found), ""))
    values: dict[str, Any] = {"project": project, "step": "release", "request": request, "command": ""}
    if request not in found:
        return Screen("release.html", {**values, "card": None})
    folder = found[request]
    card, where = read_card(folder), workspace.relative(folder)
    # The results of planned analyses stand at the top of the page.
    sections = tuple(s for s in card.page().sections if s.heading != card.result_section.heading)
    values |= {
        "card": card,
        "where": where,
        "others": [(r, read_card(p)) for r, p in found.items()],
        "results": fragment(Page("", (), (card.result_section,)), "").html if card.results else "",
        "sections": fragment(Page("", (), sections), "").html,
        "previews": _previews(folder),
        "files": [(name, (folder / name).stat().st_size) for name in files_of(folder)],
        "citation": citation(card),
        "command": command("verify", Path(where), "--ledger", Path(workspace.ledger_name)),
        "state": {"project": project.id, "request": request},
    }
    return Screen("release.html", values)


Preview = tuple[str, list[tuple[str, bool]], list[list[str]]]
"""A table's name, the names of its columns, whether each is a number, and its first rows."""


def _previews(folder: Path) -> list[Preview]:
    """The first rows of every table of the first set: one, or households and their members."""
    schema = read_schema(folder)
    found = [_preview(schema.name, read_table(set_file(folder, 1), schema))]
    if schema.members is not None:
        people = schema.members.schema
        found.append(_preview(people.name, read_table(set_file(folder, 1, people.name), people)))
    return found


def _preview(name: str, whole: pa.Table) -> Preview:
    table = whole.slice(0, PREVIEWED)
    columns = [[_as_text(v) for v in c.to_pylist()] for c in table.columns]
    numeric = [pa.types.is_integer(t) or pa.types.is_floating(t) for t in table.schema.types]
    names = list(zip(table.column_names, numeric, strict=True))
    return name, names, [list(row) for row in zip(*columns, strict=True)]


def _as_text(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def download(visit: Visit) -> Download:
    """One file of a release, or an image of its report."""
    _, _, folder = release_of(visit)
    name = visit.path["name"]
    names = set(files_of(folder))
    if name.startswith("image-") and name not in names:
        folder = visit.workspace.folder / HIDDEN / "reports" / digest(folder / CARD)
        names = {p.name for p in folder.glob("image-*.png")}
    if name not in names or not (folder / name).resolve().is_relative_to(folder):
        raise InputError("the release has no such file")
    return Download.of(folder / name)


def citation(card: Card) -> str:
    """How to cite a release: what it is, when it was made, under which guarantee, and by which request."""
    return (
        f"Synthetic data in place of {card.dataset}. Differentially private release, {card.guarantee}. {day_in_words(card.created)}. "
        f"Made with dipsmith {card.version} ({card.method}), request {card.request}."
    )


def pack_release(visit: Visit) -> Download:
    """The whole release as one zip."""
    _, _, folder = release_of(visit)
    return Download.of(archive(folder, visit.workspace.private("reports", digest(folder / CARD))))


def report(visit: Visit) -> Mapping[str, Any]:
    """The releasable report: made once per release, from the release alone, and kept."""
    project, request, folder = release_of(visit)
    store = visit.workspace.private("reports", digest(folder / CARD))
    if not (store / "fragment.html").exists():
        made = fragment(Release.load(folder).report_page(), f"/p/{project.id}/release/{request}/files")
        made.write(store)
    return {"html": (store / "fragment.html").read_text("utf-8")}


def check(visit: Visit) -> Mapping[str, Any]:
    """Whether every file is what the card says, and the ledger knows it."""
    _, _, folder = release_of(visit)
    try:
        found = verify(folder, visit.workspace.ledger)
    except DipsmithError as error:
        return {"whole": False, "says": str(error)}
    says = f"Whole: {found.files} files agree with the card, and the card with the ledger."
    return {"whole": True, "says": says}
