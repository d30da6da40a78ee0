"""Compare: authentic and synthetic rows side by side. CONFIDENTIAL: every comparison is a look that the ledger logs."""

from __future__ import annotations

import mimetypes
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from starlette.routing import BaseRoute, Route

from dipsmith.errors import InputError, UsageError
from dipsmith.report.commands import command
from dipsmith.schema.formula import Formula
from dipsmith.studio import jobs
from dipsmith.studio.asked import Asked, Download, Shown, data, page
from dipsmith.studio.asked import download as saved
from dipsmith.studio.projects import statement_of
from dipsmith.studio.release import released
from dipsmith.studio.workspace import Workspace
from dipsmith.synthesis.release import read_card

MOST_ANALYSES = 12
MOST_RELEASES = 4


def routes() -> list[BaseRoute]:
    """The addresses of this page."""
    return [
        Route("/p/{project}/compare", page(show), methods=["GET"]),
        Route("/p/{project}/compare/{job}", page(show), methods=["GET"]),
        Route("/p/{project}/compare/{job}/files/{name:path}", saved(download), methods=["GET"]),
        Route("/api/p/{project}/compare", data(start), methods=["POST"]),
        Route("/api/p/{project}/comparisons", data(watch), methods=["GET"]),
    ]


def show(asked: Asked) -> Shown:
    """The page: the newest finished comparison unless the address names another."""
    # Imported here: the first page need not wait for the libraries that comparisons use.
    from dipsmith.utility.classifiers import available
    from dipsmith.utility.compare import DEFAULT_CLASSIFIERS

    workspace = asked.workspace
    project = workspace.project(asked.path["project"])
    found = released(workspace, project)
    done = [j for j in jobs.listed(workspace, project.id, "compare") if j.status == "finished"]
    job = next((j for j in done if j.id == asked.path.get("job", j.id)), None)
    if "job" in asked.path and job is None:
        raise InputError("there is no such comparison; see the list on the Compare page")
    ledger = workspace.shown(workspace.ledger_file)
    first = workspace.shown(next(iter(found.values()))) if found else "RELEASE"
    files = Path(project.data or "FILE"), Path(first)
    typed = command("compare", *files, "--ledger", Path(ledger), "--out", "comparison/")
    return Shown(
        "compare.html",
        {
            "project": project,
            "step": "compare",
            "releases": [(r, read_card(p), workspace.shown(p)) for r, p in found.items()],
            "columns": [
                str(f.get("name")) for f in project.document.get("fields", []) if isinstance(f, dict)
            ],
            "classifiers": [(c, c in DEFAULT_CLASSIFIERS) for c in available()],
            "looks": statement_of(workspace, project.name).looks,
            "job": job,
            "others": done,
            "fragment": (job.folder / "fragment.html").read_text("utf-8") if job else "",
            "command": job.asked["command"] if job else typed,
            "state": {
                "project": project.id,
                "request": uuid.uuid4().hex,
                "data": project.data,
                "ledger": ledger,
                **_watched(workspace, project.id),
            },
        },
    )


def start(asked: Asked) -> Mapping[str, Any]:
    """Start a comparison in a process of its own."""
    from dipsmith.utility.classifiers import require_known

    workspace = asked.workspace
    project = workspace.project(asked.path["project"])
    request = asked.text("request", 64)
    found = released(workspace, project)
    wanted = asked.body.get("releases")
    if (
        not isinstance(wanted, list)
        or not 1 <= len(wanted) <= MOST_RELEASES
        or not all(r in found for r in wanted)
    ):
        raise UsageError(f"choose one to {MOST_RELEASES} releases of this dataset")
    chosen = asked.body.get("classifiers") or []
    require_known(tuple(chosen) if isinstance(chosen, list) else ())
    by, levels = asked.text("by"), _levels(asked.text("reference", 4000))
    formulas = [line.strip() for line in asked.text("analyses", 20_000).splitlines() if line.strip()]
    if len(formulas) > MOST_ANALYSES:
        raise UsageError(f"{len(formulas)} analyses, at most {MOST_ANALYSES} are made at once")
    analyses = []
    for formula in formulas:
        named = Formula.parse(formula).attributes
        analyses.append(
            {
                "formula": formula,
                "by": by or None,
                "reference": {c: v for c, v in levels.items() if c in named},
            }
        )
    workspace.inside(project.data)
    out = f"comparisons/{project.id}-{request[:8]}"
    held = {
        "data": project.data,
        "releases": [workspace.shown(found[r]) for r in wanted],
        "analyses": analyses,
        "classifiers": chosen,
        "out": out,
        "says": ", ".join(formulas) or "no analyses",
        "command": _command(
            workspace,
            project.data,
            [workspace.shown(found[r]) for r in wanted],
            formulas,
            by,
            levels,
            chosen,
            out,
        ),
    }
    if jobs.submit(workspace, request, "compare", project.id, held):
        jobs.launch(workspace, request, 0.0)
    return {"job": request}


def _levels(text: str) -> dict[str, str]:
    found = {}
    for entry in text.replace("\n", ",").split(","):
        if entry.strip():
            column, equals, level = entry.partition("=")
            if not equals or not column.strip() or not level.strip():
                raise UsageError(f"reference '{entry.strip()}': expected column=level, such as sex=M")
            found[column.strip()] = level.strip()
    return found


def _command(
    workspace: Workspace,
    file: str,
    releases: list[str],
    formulas: list[str],
    by: str,
    levels: Mapping[str, str],
    classifiers: list[str],
    out: str,
) -> str:
    words: list[str | Path] = ["compare", Path(file), *map(Path, releases)]
    for formula in formulas:
        words += ["--analysis", formula]
    words += ["--by", by] if by and formulas else []
    for column, level in levels.items():
        words += ["--reference", f"{column}={level}"]
    for name in classifiers:
        words += ["--classifier", name]
    ledger = workspace.shown(workspace.ledger_file)
    return command(*words, "--ledger", Path(ledger), "--out", Path(out))


def watch(asked: Asked) -> Mapping[str, Any]:
    """How far the comparisons are."""
    return _watched(asked.workspace, asked.workspace.project(asked.path["project"]).id)


def _watched(workspace: Workspace, project: str) -> dict[str, Any]:
    return {"jobs": [j.to_dict() for j in jobs.listed(workspace, project, "compare")]}


def download(asked: Asked) -> Download:
    """The numbers behind a figure, an image inside one, or the whole page as a file."""
    job = jobs.find(asked.workspace, asked.path["job"])
    if job.project != asked.path["project"] or job.kind != "compare":
        raise InputError("there is no such comparison")
    name = PurePosixPath(asked.path["name"])
    if name.name.startswith("image-"):
        root = job.folder.resolve()
    else:
        root = asked.workspace.inside(str(job.asked["out"]))
    file = (root / name).resolve()
    if not file.is_relative_to(root) or not file.is_file():
        raise InputError("the comparison has no such file")
    return Download(file.name, mimetypes.guess_type(file.name)[0] or "application/octet-stream", file=file)
