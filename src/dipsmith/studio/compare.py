"""Compare: authentic and synthetic rows side by side. CONFIDENTIAL: every comparison is a look that the ledger logs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from dipsmith.errors import InputError, UsageError
from dipsmith.report.commands import command
from dipsmith.schema.formula import Formula
from dipsmith.studio import jobs
from dipsmith.studio.accounts import account_of
from dipsmith.studio.members import members_file
from dipsmith.studio.release import releases_of
from dipsmith.studio.views import Download, Screen, Visit
from dipsmith.synthesis.release import read_card

if TYPE_CHECKING:
    from dipsmith.studio.distributions import ShownDistribution

MOST_ANALYSES = 12
MOST_RELEASES = 4


def show(visit: Visit) -> Screen:
    """The page: the newest finished comparison unless the address names another."""
    # Imported here: the first page need not wait for the libraries that comparisons use.
    from dipsmith.studio import distributions
    from dipsmith.utility.classifiers import available
    from dipsmith.utility.compare import DEFAULT_CLASSIFIERS

    workspace, project = visit.workspace, visit.project
    found = releases_of(workspace, project)
    done = [j for j in jobs.list_jobs(workspace, project.id, "compare") if j.status == "finished"]
    job = next((j for j in done if j.id == visit.path.get("job", j.id)), None)
    if "job" in visit.path and job is None:
        raise InputError("there is no such comparison; see the list on the Compare page")
    told = distributions.index(job.folder) if job else None
    ledger = workspace.ledger_name
    first = workspace.relative(next(iter(found.values()))) if found else "RELEASE"
    files = Path(project.data or "FILE"), Path(first)
    example = command("compare", *files, "--ledger", Path(ledger), "--out", "comparison/")
    fields = [f for f in project.document.get("fields", []) if isinstance(f, dict)]
    values = {
        "project": project,
        "step": "compare",
        "releases": [(r, read_card(p), workspace.relative(p)) for r, p in found.items()],
        "columns": [str(f.get("name")) for f in fields],
        "classifiers": [(c, c in DEFAULT_CLASSIFIERS) for c in available()],
        "looks": account_of(workspace, project.name).looks,
        "job": job,
        "told": told,
        "others": done,
        "fragment": (job.folder / "fragment.html").read_text("utf-8") if job else "",
        "command": job.asked["command"] if job else example,
        "state": {
            "project": project.id,
            "request": uuid.uuid4().hex,
            "data": project.data,
            "ledger": ledger,
            "job": job.id if job else "",
            "browser": told and {name: told[name] for name in ("columns", "pairs")},
            **watch(visit),
        },
    }
    return Screen("compare.html", values)


def start(visit: Visit) -> Mapping[str, Any]:
    """Start a comparison in a process of its own; the same request twice is one, and the next has an id of its own."""
    from dipsmith.utility.classifiers import require_known

    workspace, project, request = visit.workspace, visit.project, visit.text("request", 64)
    found = releases_of(workspace, project)
    wanted = visit.body.get("releases")
    if not isinstance(wanted, list) or not 1 <= len(wanted) <= MOST_RELEASES or not all(r in found for r in wanted):
        raise UsageError(f"choose one to {MOST_RELEASES} releases of this dataset")
    classifiers = visit.body.get("classifiers") or []
    require_known(tuple(classifiers) if isinstance(classifiers, list) else ())
    by, levels = visit.text("by") or None, _levels(visit.text("reference", 4000))
    formulas = [line.strip() for line in visit.text("analyses", 20_000).splitlines() if line.strip()]
    if len(formulas) > MOST_ANALYSES:
        raise UsageError(f"{len(formulas)} analyses, at most {MOST_ANALYSES} are made at once")
    analyses = []
    for formula in formulas:
        named = Formula.parse(formula).attributes
        used = {column: level for column, level in levels.items() if column in named}
        analyses.append({"formula": formula, "by": by, "reference": used})
    workspace.inside(project.data)
    job = {
        "data": project.data,
        "releases": [workspace.relative(found[r]) for r in wanted],
        "analyses": analyses,
        "classifiers": classifiers,
        "members": members_file(workspace, project.document),
        "out": f"comparisons/{project.id}-{request[:8]}",
        "says": ", ".join(formulas) or "all columns and pairs",
    }
    job["command"] = _command(job, by, levels, workspace.ledger_name)
    if jobs.submit(workspace, request, "compare", project.id, job):
        jobs.launch(workspace, request, 0.0)
    return {"job": request, "next": uuid.uuid4().hex}


def _levels(text: str) -> dict[str, str]:
    found = {}
    for entry in filter(str.strip, text.replace("\n", ",").split(",")):
        column, _, level = (part.strip() for part in entry.partition("="))
        if not column or not level:
            raise UsageError(f"reference '{entry.strip()}': expected column=level, such as sex=M")
        found[column] = level
    return found


def _command(job: Mapping[str, Any], by: str | None, levels: Mapping[str, str], ledger: str) -> str:
    words: list[str | Path] = ["compare", Path(job["data"]), *map(Path, job["releases"])]
    for analysis in job["analyses"]:
        words += ["--analysis", analysis["formula"]]
    words += ["--by", by] if by and job["analyses"] else []
    for column, level in levels.items():
        words += ["--reference", f"{column}={level}"]
    for name in job["classifiers"]:
        words += ["--classifier", name]
    words += ["--members", Path(job["members"])] if job["members"] else []
    return command(*words, "--ledger", Path(ledger), "--out", Path(job["out"]))


def watch(visit: Visit) -> Mapping[str, Any]:
    """How far the comparisons are."""
    return {"jobs": [j.to_dict() for j in jobs.list_jobs(visit.workspace, visit.project.id, "compare")]}


def distribution(visit: Visit) -> Mapping[str, Any]:
    """The distribution of a column, or of one within the levels of another."""
    shown = _look_up(visit)
    return {"title": shown.title, "html": shown.html}


def numbers(visit: Visit) -> Download:
    """The same as CSV."""
    return Download("distribution.csv", "text/csv; charset=utf-8", _look_up(visit).numbers.to_csv())


def _look_up(visit: Visit) -> ShownDistribution:
    from dipsmith.studio import distributions

    job = _job(visit)
    if distributions.index(job.folder) is None:
        raise InputError("this comparison was made by an earlier version: compare again to browse distributions")
    return distributions.look_up(job.folder, visit.query.get("column", ""), visit.query.get("within", ""))


def _job(visit: Visit) -> jobs.Job:
    job = jobs.find(visit.workspace, visit.path["job"])
    if job.project != visit.path["project"] or job.kind != "compare" or job.status != "finished":
        raise InputError("there is no such comparison")
    return job


def download(visit: Visit) -> Download:
    """The numbers behind a figure, an image inside one, or the whole page as a file."""
    job = _job(visit)
    name = PurePosixPath(visit.path["name"])
    image = name.name.startswith("image-")
    root = job.folder.resolve() if image else visit.workspace.inside(str(job.asked["out"]))
    file = (root / name).resolve()
    if not file.is_relative_to(root) or not file.is_file():
        raise InputError("the comparison has no such file")
    return Download.of(file)
