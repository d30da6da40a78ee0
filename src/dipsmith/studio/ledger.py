"""Ledger: who granted what and why, which runs spent it, and what is left; grants are made and withdrawn here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dipsmith.confirm.answer import is_answer
from dipsmith.errors import UsageError
from dipsmith.privacy.account import PaidRun
from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import USUAL_DELTA, Statement
from dipsmith.report.commands import command
from dipsmith.schema.naming import check_name
from dipsmith.studio.accounts import account_of, accounts, as_csv, burn_down, entries
from dipsmith.studio.budget_bar import budget_bar, held_units, symbol
from dipsmith.studio.choices import Choices
from dipsmith.studio.views import Download, Screen, Visit
from dipsmith.studio.workspace import Project, Workspace

MOST_GRANTED = 100
"""ε or ρ of one grant: more promises nobody anything, and is a slip of the keyboard."""


def show(visit: Visit) -> Screen:
    """The page: every dataset of the workspace's ledger, or the one of a project."""
    workspace = visit.workspace
    project = visit.project if "project" in visit.path else None
    found = [account_of(workspace, project.name)] if project else accounts(workspace)
    projects = [project] if project else [p for p in workspace.projects() if not p.ledger]
    known = {s.name for s in found}
    found += [account_of(workspace, p.name) for p in projects if p.name not in known]
    values = {
        "project": project,
        "step": "ledger",
        "accounts": [_account(s, projects, workspace) for s in sorted(found, key=lambda s: s.name)],
        "ledger": workspace.ledger_name,
        "ledger_exists": workspace.ledger_file.exists(),
        "command": command("ledger", "show", "--ledger", Path(workspace.ledger_name)),
        "state": {"project": project.id if project else ""},
    }
    return Screen("ledger.html", values)


def _account(statement: Statement, projects: list[Project], workspace: Workspace) -> dict[str, Any]:
    dated, runs = entries(statement), {run.id: run for run in statement.runs}
    mine = [p for p in projects if p.name == statement.name]
    return {
        "statement": statement,
        "bar": budget_bar(statement),
        "burn": burn_down(statement, dated),
        "symbol": symbol(statement.currency),
        "granted": decimal_text(statement.granted_units),
        "spent": decimal_text(statement.spent_units - held_units(statement)),
        "held": decimal_text(held_units(statement)) if held_units(statement) else "",
        "left": decimal_text(statement.remaining_units),
        "epsilon": _as_epsilon(statement),
        "untouched": bool(statement.granted_units) and not statement.runs,
        "projects": mine,
        "entries": [
            {
                "entry": e,
                "amount": decimal_text(e.units) if e.taken else "0",
                "left": decimal_text(e.left),
                "where": _where(workspace, runs[e.request]) if e.request else "",
                "page": page_of(runs[e.request]) if e.request and mine else "",
            }
            for e in reversed(dated)
        ],
    }


def _as_epsilon(statement: Statement) -> str:
    """What a balance in ρ means as ε; nothing for one in ε."""
    if statement.currency != "rho" or not statement.remaining_units:
        return ""
    return f"ε = {statement.epsilon_of(statement.remaining_units):.3g} at δ = {USUAL_DELTA:g}"


def _where(workspace: Workspace, run: PaidRun) -> str:
    return workspace.relative(Path(run.path)) if run.path else ""


def page_of(run: PaidRun) -> str:
    """The page within its project that shows what a run made; none for a count, and for what is gone."""
    if is_answer(run.path):
        return f"questions/{run.id.removeprefix('question ')}"
    return f"release/{run.id}" if Path(run.path, "card.json").is_file() else ""


def export(visit: Visit) -> Download:
    """Every entry as CSV."""
    workspace = visit.workspace
    found = [account_of(workspace, visit.project.name)] if "project" in visit.path else accounts(workspace)
    return Download("ledger.csv", "text/csv; charset=utf-8", as_csv(found))


def _dataset_name(visit: Visit) -> str:
    """The dataset that a grant is for."""
    name = visit.project.name if "project" in visit.path else visit.text("name")
    if not name:
        raise UsageError("say which dataset the grant is for")
    return name


def withdraw(visit: Visit) -> Mapping[str, Any]:
    """Take back what was granted to a dataset, while nothing was spent from it."""
    name = _dataset_name(visit)
    visit.workspace.ledger.withdraw(name, why="on the Ledger page")
    return {"name": name}


def grant(visit: Visit) -> Mapping[str, Any]:
    """Grant budget to a dataset."""
    name = _dataset_name(visit)
    check_name(name)
    amounts = {"amount": visit.text("amount"), "delta": visit.text("delta") or None}
    budget = Choices.of({"currency": visit.body.get("currency"), **amounts}).budget
    if budget.exact > MOST_GRANTED:
        raise UsageError(
            f"{budget} would protect nobody: at most {budget.symbol} = {MOST_GRANTED} can be granted here at once; "
            "few public releases spend more than 10"
        )
    visit.workspace.ledger.grant(name, budget, by=visit.text("by") or None, why=visit.text("why"))
    return {"name": name, "granted": str(budget)}
