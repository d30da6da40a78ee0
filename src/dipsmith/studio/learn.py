"""Learn: what columns hold, found in the rows with noise and paid from the grant; it opens as a draft on the Schema page.

Only columns that are neither complete nor left out are learned. What is found fills the draft as it is then, so that nothing
which was written meanwhile is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.neighbours import RELATIONS
from dipsmith.schema import Schema, Unit
from dipsmith.schema.domain import DATA_DERIVED
from dipsmith.schema.markup import parse
from dipsmith.sources import source
from dipsmith.studio import jobs
from dipsmith.studio.accounts import account_of
from dipsmith.studio.plan import spending
from dipsmith.studio.run import charge_and_launch, paid_jobs
from dipsmith.studio.schema import report
from dipsmith.studio.views import Visit
from dipsmith.studio.workspace import Project, Workspace
from dipsmith.synthesis.learn import METHOD, advise_rho, blank_schema, divide_delta
from dipsmith.synthesis.learn_noise import foresee_noise

_OF_A_COLUMN = ("name", "role", "title")
"""What a draft says of a column that stays when its values are learned."""


def price(visit: Visit) -> Mapping[str, Any]:
    """What learning would cost, and of which columns; nothing is read."""
    terms = _terms(visit.workspace, visit.project)
    blank = _blank(visit.workspace, visit.project, terms)
    budget, delta = _budget(visit)
    told = spending(account_of(visit.workspace, blank.name), budget, blank, f"Learning {_many(len(blank.names))}")
    advice = advise_rho(len(blank.names), budget, delta).partition(" would from")[0]
    return {
        "spending": told,
        "columns": list(blank.names),
        "hides": f"{foresee_noise(blank, budget)}.",
        "advice": f"{advice} would from a grant in “ε with δ” on the Ledger page." if advice else "",
    }


def begin(visit: Visit) -> Mapping[str, Any]:
    """Charge the ledger and start the worker; the same request twice is one job."""
    workspace, project, request = visit.workspace, visit.project, visit.text("request", 64)
    if jobs.folder_of(workspace, request).exists():
        return {"job": request}
    terms = _terms(workspace, project)
    blank = _blank(workspace, project, terms)
    budget, delta = _budget(visit)
    out = f"learned/{project.id}-{request[:8]}.yaml"
    workspace.inside(out).parent.mkdir(mode=0o700, exist_ok=True)
    amounts = {"epsilon": visit.text("epsilon"), "delta": visit.text("delta")}
    asked = {**terms, **amounts, "name": blank.name, "data": project.data, "out": out}
    asked["says"] = f"Learning {_many(len(blank.names))}, {budget}"
    return charge_and_launch(visit, request, "learn", asked, blank, budget, request, METHOD, delta or Fraction(0))


def watch(visit: Visit) -> Mapping[str, Any]:
    """How far it is; what is finished waits to be taken into the draft."""
    account = account_of(visit.workspace, visit.project.name)
    return {"jobs": [facts for _, facts in paid_jobs(visit, account, "learn")]}


def take(visit: Visit) -> Mapping[str, Any]:
    """Fill the draft with what was learned, and leave the job out of the list."""
    workspace, project, revision = visit.workspace, visit.project, visit.body.get("revision")
    job = jobs.find(workspace, visit.text("job", 64))
    if job.kind != "learn" or job.project != project.id or job.status != "finished":
        raise UsageError("nothing was learned here yet; reload the page")
    if not isinstance(revision, int):
        raise UsageError("the draft has no revision; reload the page")
    learned = parse(workspace.inside(job.asked["out"]).read_text("utf-8"))
    assert isinstance(learned, dict)
    document, unsaid = _fill_draft(workspace, project.document, learned, job.asked["skip"])
    kept = workspace.save(project.id, revision, document)
    jobs.dismiss(workspace, job.id)
    told = {"revision": kept.revision, "document": document, "report": report(workspace, document)}
    return {**told, "unsaid": unsaid, "file": job.asked["out"]}


def _terms(workspace: Workspace, project: Project) -> dict[str, Any]:
    """What learning needs to know, from the draft, as plain data: whose presence, which columns and which not."""
    draft = project.document
    unit, relation = draft.get("unit"), draft.get("neighbours")
    if relation not in RELATIONS or not unit:
        raise UsageError("say first what is protected: neighbours and unit, above; the first charge fixes both")
    if draft.get("members") is not None or unit == "household":
        raise UnsupportedError("households with members are not learned at once; describe their columns by hand")
    if unit != "row" and not (isinstance(unit, dict) and isinstance(unit.get("column"), str)):
        raise UsageError(
            "say whose rows are protected, above: each row by itself, or those of a unit that a column names"
        )
    if isinstance(unit, dict) and not str(unit.get("max_rows", "")).isdecimal():
        raise UsageError("say how many rows of one unit there are at most, above")
    complete = {c["name"] for c in report(workspace, draft)["columns"] if not c["error"]}
    fields = {str(f.get("name")): f for f in draft["fields"] if isinstance(f, dict)}
    private = [n for n, f in fields.items() if f.get("role") == "private"] if relation == "label" else []
    wanted = [n for n in fields if n not in complete or n in private]
    if not [n for n in fields if n not in complete]:
        raise UsageError("every column is complete: there is nothing to learn")
    whom = [unit["column"], int(unit["max_rows"]), unit.get("per")] if isinstance(unit, dict) else []
    skip = [c for c in project.columns if c not in wanted and c not in whom[:1]]
    return {"unit": whom, "neighbours": relation, "private": private, "skip": skip}


def _blank(workspace: Workspace, project: Project, terms: Mapping[str, Any]) -> Schema:
    unit, private = Unit(*terms["unit"]), terms["private"] or None
    rows = source(workspace.inside(project.data))
    return blank_schema(rows, project.name, unit, terms["neighbours"], private, terms["skip"])


def _budget(visit: Visit) -> tuple[Budget, Fraction | None]:
    epsilon, delta = visit.text("epsilon", 40), visit.text("delta", 40)
    return divide_delta(visit.workspace.ledger, visit.project.name, epsilon, delta or None)


def _fill_draft(
    workspace: Workspace, draft: Mapping[str, Any], learned: Mapping[str, Any], skip: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """The draft with learned values where it had none, and the columns of which nothing could be told."""
    complete = {c["name"] for c in report(workspace, draft)["columns"] if not c["error"]}
    found = {f["name"]: f for f in learned.get("fields") or []}
    fields, unsaid = [], []
    for field in (f for f in draft["fields"] if isinstance(f, dict)):
        name = str(field.get("name"))
        if name in found and name not in complete:
            field = {**found[name], **{key: field[key] for key in _OF_A_COLUMN if key in field}}
        elif name not in found and name not in skip and name not in complete:
            unsaid.append(name)
        fields.append(field)
    before, now = draft.get("provenance") or "declared", str(learned["provenance"])
    if before != "declared":
        now = before if before == DATA_DERIVED else f"{now}; other columns {before}"
    return {**draft, "provenance": now, "fields": fields}, unsaid


def _many(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"
