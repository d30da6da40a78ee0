"""Plan: the method, the budget and what they are worth, before anything is spent; from public facts alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field, asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dipsmith.errors import BudgetError, DipsmithError, SchemaError, UsageError
from dipsmith.methods.catalogue import METHODS, public_setting
from dipsmith.methods.method import Method, PublicFacts
from dipsmith.planning.analysis_plan import AnalysisPlan
from dipsmith.planning.plan import Plan
from dipsmith.planning.plan import plan as make
from dipsmith.planning.suggest import suggest
from dipsmith.privacy.accountant import convert
from dipsmith.privacy.budget import Budget, decimal_text
from dipsmith.privacy.protection import protection_of, require_agreement
from dipsmith.privacy.statement import USUAL_DELTA, Statement
from dipsmith.report.commands import command
from dipsmith.schema import Schema
from dipsmith.schema.households import line_schema
from dipsmith.studio.accounts import account_of
from dipsmith.studio.analyses import forecast, forecast_facts
from dipsmith.studio.budget_bar import budget_bar, symbol
from dipsmith.studio.choices import Choices, supported_for
from dipsmith.studio.jobs import list_jobs
from dipsmith.studio.meaning import BETS, RELATIONS, meaning, practice
from dipsmith.studio.members import members_file
from dipsmith.studio.public_files import PublicFiles
from dipsmith.studio.schema import schema_file, schema_of
from dipsmith.studio.views import Download, Screen, Visit
from dipsmith.studio.workspace import Project, Workspace, name_files
from dipsmith.synthesis.planned import ready_method
from dipsmith.synthesis.public import public_facts

SHOWN, MOST_SHOWN = 8, 200
"""Lines of a list, and those of one that was asked to be long."""


def show(visit: Visit) -> Screen:
    """The page; without a complete schema it says what is missing."""
    workspace, project = visit.workspace, visit.project
    values: dict[str, Any] = {"project": project, "step": "plan", "command": "", "problem": ""}
    try:
        schema = schema_of(workspace, project)
    except SchemaError as error:
        return Screen("plan.html", {**values, "problem": str(error)})
    account = account_of(workspace, project.name)
    choices = choices_of(workspace, project, schema)
    values |= {
        "schema": schema,
        "choices": choices,
        "methods": [(name, METHODS[name].summary) for name in supported_for(schema)],
        "statement": account,
        "symbol": symbol(account.currency),
        "bar": budget_bar(account, planned=0),
        "practice": practice(),
        "relation": RELATIONS[schema.neighbours],
        "files": [name for name in workspace.data_files() if name != project.data],
        "command": commands(workspace, project, schema, choices)["plan"],
        "state": {
            "project": project.id,
            "choices": asdict(choices),
            "settings": {name: {f.name: list(f.metadata["knob"]) for f in _knobs(name)} for name in METHODS},
            "defaults": {
                name: {f.name: f.default if isinstance(f.default, int) else None for f in _knobs(name)}
                for name in METHODS
            },
            "granted_units": account.granted_units,
            "remaining_units": account.remaining_units,
            "spent_units": account.spent_units,
            "bet": BETS[schema.neighbours],
            "delta": USUAL_DELTA,
            "currency": account.currency,
            "neighbours": schema.neighbours,
            "names": list(schema.names),
            "words": {name: METHODS[name].summary for name in supported_for(schema)},
            "agreed": [str(a) for a in schema.analyses],
            "grows": [name for name in METHODS if public_setting(METHODS[name])],
        },
    }
    return Screen("plan.html", values)


def _knobs(method: str) -> list[Field[Any]]:
    """The parameters of a method that people may want to turn."""
    return [f for f in fields(METHODS[method]) if "knob" in f.metadata]  # type: ignore[arg-type]


def choices_of(workspace: Workspace, project: Project, schema: Schema) -> Choices:
    """What was chosen so far; the suggested method before anything was."""
    choices = Choices.of(project.choices)
    if choices.method in supported_for(schema):
        return choices
    if not project.choices:
        left = account_of(workspace, project.name)
        if left.currency is not None and left.remaining_units:
            amount = decimal_text(min(left.remaining_units, max(left.granted_units // 2, 1)))
            choices = replace(choices, amount=amount, currency=left.currency)
    return replace(choices, method=suggest(schema, choices.budget, choices.rows).method, settings={})


def commands(workspace: Workspace, project: Project, schema: Schema, choices: Choices) -> dict[str, str]:
    """What to type instead of clicking."""
    file, ledger = schema_file(project), workspace.ledger_name
    return {
        "plan": choices.plan_command(file, project.data, schema.neighbours),
        "run": choices.run_command(
            file,
            project.data,
            schema.neighbours,
            ledger,
            f"{project.id}-release",
            members_file(workspace, project.document),
        ),
        "grant": command("ledger", "grant", schema.name, "--ledger", Path(ledger), "--epsilon", 1),
    }


def answer(visit: Visit) -> Mapping[str, Any]:
    """The plan of the choices on the page, which are kept."""
    workspace, project = visit.workspace, visit.project
    given = visit.body.get("choices")
    if not isinstance(given, dict):
        raise UsageError("the choices are missing; reload the page")
    choices = Choices.of(given)
    schema = schema_of(workspace, project)
    if not project.choices or Choices.of(project.choices) != choices:
        workspace.choose(project.id, asdict(choices))
    facts = facts_of(workspace, project, schema, choices)
    budget, account = choices.budget, account_of(workspace, project.name)
    try:
        method, expected = ready(workspace, project, schema, choices)
        problem = ""
    except DipsmithError as error:
        # Said beside the formulas; the rest of the page goes on without them.
        method, expected, problem = choices.method_for(schema), None, str(error)
    trouble = _trouble(workspace, schema, choices)
    asked = () if problem else choices.all_analyses(schema)
    run: dict[str, Any] = {"public": facts, "sets": choices.sets, "each": choices.each, "analyses": asked}
    try:
        planned = make(schema, method, budget, forecast=expected, **run)
    except DipsmithError as error:
        if not choices.files.grow:
            raise
        trouble, method = str(error), choices.method_for(schema)
        planned = make(schema, method, budget, forecast=expected, **run)
    # What is refused is no part of the plan that is shown, nor of the command that makes it.
    kept = replace(choices, analyses=() if problem else choices.analyses)
    kept = replace(kept, files=PublicFiles()) if trouble else kept
    return {
        **_plan_facts(planned, schema, visit.text("seek", 200), all_of_them=visit.body.get("all") is True),
        "files": trouble,
        "analyses": {"problem": "" if trouble else problem}
        if planned.analyses is None
        else {"problem": "", **forecast_facts(planned.analyses, budget)},
        "spending": spending(account, budget, schema),
        "meaning": meaning(account, budget),
        "suggestion": {name: on_the_page(words) for name, words in asdict(suggest(schema, budget, facts.rows)).items()},
        "commands": commands(workspace, project, schema, kept),
    }


def ready(
    workspace: Workspace, project: Project, schema: Schema, choices: Choices
) -> tuple[Method, AnalysisPlan | None]:
    """The method as a run would use it, and under `label` what planned analyses take; raises what a run would refuse."""
    analyses = choices.all_analyses(schema)
    method = ready_method(choices.method_for(schema, workspace.public_file), analyses, schema, choices.budget)
    return method, forecast(workspace, project, schema, analyses, choices.budget)


def _trouble(workspace: Workspace, schema: Schema, choices: Choices) -> str:
    """What is wrong with public files beside the confidential one; nothing where they can be used."""
    try:
        choices.method_for(schema, workspace.public_file)
        choices.files.target(schema, workspace.public_file)
    except (DipsmithError, OSError) as error:
        told = str(error) if isinstance(error, DipsmithError) else "the file is not there"
        return name_files(told, workspace.folder)
    return ""


def facts_of(workspace: Workspace, project: Project, schema: Schema, choices: Choices) -> PublicFacts:
    """The public facts: under `label` the public columns of the file, otherwise the number that was stated."""
    if schema.neighbours != "label" or not project.data:
        return PublicFacts(rows=schema.known_rows if choices.rows is None else choices.rows)
    file = workspace.inside(project.data)
    stamp = file.stat()
    return _public(schema, file, stamp.st_size, stamp.st_mtime_ns)


@lru_cache(maxsize=2)
def _public(schema: Schema, file: Path, size: int, changed: int) -> PublicFacts:
    """The public columns, read once per state of the file."""
    return public_facts(schema, file)


def spending(statement: Statement, budget: Budget, schema: Schema, what: str = "This run") -> dict[str, Any]:
    """What will be spent, under which unit and neighbours, and what remains: in one sentence."""
    under = f"for the unit '{schema.unit}' and neighbours '{schema.neighbours}'"
    sign, units, allowed = symbol(statement.currency), 0, False
    granted, remaining = map(decimal_text, (statement.granted_units, statement.remaining_units))
    try:
        if statement.currency is not None:
            require_agreement(schema.name, statement.protects, protection_of(schema))
            units = convert(budget, statement.currency)
    except BudgetError as error:
        return {"sentence": f"{error}.", "allowed": False, "units": None}
    price = "" if budget.currency == statement.currency else f", which costs {sign} = {decimal_text(units)},"
    left = statement.remaining_units - units
    if statement.currency is None:
        sentence = f"{what} would spend {budget} {under}. Nothing is granted to '{schema.name}' yet: grant a budget on the Ledger page."
    elif left < 0:
        sentence = (
            f"{what} asks for {budget}{price} {under}, but only {sign} = {remaining} of {granted} is left: "
            "the ledger will refuse it."
        )
    else:
        allowed = True
        sentence = (
            f"{what} spends {budget}{price} of the {sign} = {granted} granted to '{schema.name}', {under}; "
            f"{sign} = {decimal_text(left)} remains."
        )
    return {"sentence": sentence, "allowed": allowed, "units": units}


def _plan_facts(found: Plan, schema: Schema, seek: str = "", *, all_of_them: bool = False) -> dict[str, Any]:
    """The plan as the page shows it: of columns and pairs those that are sought, the worst first."""
    errors, most = {}, MOST_SHOWN if all_of_them or seek else SHOWN
    measured = schema if schema.members is None else line_schema(schema)
    words = seek.lower().split()
    for ways in (1, 2):
        group = [e for e in found.errors if len(e.attributes) == ways and e.how != "public"]
        if words:
            group = [e for e in group if all(w in " ".join(e.attributes).lower() for w in words)]
        known = sorted((e for e in group if e.tvd is not None), key=lambda e: -(e.tvd or 0.0))
        errors[str(ways)] = {
            "worst": [e.to_dict() | {"levels": measured[e.attributes[0]].size} for e in known[:most]],
            "more": max(0, len(known) - most),
            "least": known[-1].tvd if known else None,
            "unknown": [" × ".join(e.attributes) for e in group if e.how == "unknown"][:most],
            "apart": sum(e.how == "unknown" for e in group),
            "all": len(group),
        }
    delta = [found.delta.sentence] if found.delta else []
    steps = sorted((s for s in found.steps if s.cells), key=lambda s: -(s.cells or 0))
    return {
        "stages": [s.to_dict() for s in found.stages],
        "tables": [
            {"what": s.what, "cells": s.cells, "cost": float(s.budget.exact), "sd": s.sd} for s in steps[:SHOWN]
        ],
        "more_tables": max(0, len(steps) - SHOWN),
        "cells": found.cells,
        "rows": found.rows,
        "errors": errors,
        "widths": [
            {"what": w.what, "leaves": w.leaves, "lam": w.lam, "shrunk": w.shrunk}
            | dict(zip(("rows", "width"), w.typical, strict=True))
            for w in found.widths
            if w.typical is not None and w.labels > 1
        ][:SHOWN],
        "bins": [b.to_dict() for b in found.bins[:most]],
        "more_bins": max(0, len(found.bins) - most),
        "level": found.level,
        "p0": found.p0,
        "resources": found.resources.to_dict(),
        "warnings": [on_the_page(w) for w in dict.fromkeys((*found.warnings, *delta))],
        "symbol": found.budget.symbol,
    }


def on_the_page(words: str) -> str:
    """Words of the planner without options of the command line, which the page has as fields.

    >>> on_the_page("a table suits (assuming 10,000 rows; give --rows)")
    'a table suits (assuming 10,000 rows)'
    >>> on_the_page("With δ = 1e-09 (--delta 1e-09) the noise would be smaller")
    'With δ = 1e-09 the noise would be smaller'
    """
    return re.sub(r"(;[^;()]*--[^)]*(?=\)))|( \(--[^)]*\))", "", words)


def export(visit: Visit) -> Download:
    """The choices as YAML."""
    workspace, project = visit.workspace, visit.project
    choices = choices_of(workspace, project, schema_of(workspace, project))
    text = choices.to_yaml(project.data, schema_file(project), _last_comparison(workspace, project))
    return Download(f"{project.id}-choices.yaml", "application/yaml", text)


def script(visit: Visit) -> Download:
    """Everything as a script."""
    workspace, project = visit.workspace, visit.project
    schema = schema_of(workspace, project)
    files, compared = (project.data, workspace.ledger_name), _last_comparison(workspace, project)
    choices = choices_of(workspace, project, schema)
    text = choices.script(schema, *files, f"{project.id}-release", compared, members_file(workspace, project.document))
    return Download(f"{project.id}.py", "text/x-python; charset=utf-8", text)


def _last_comparison(workspace: Workspace, project: Project) -> Mapping[str, Any] | None:
    """What the last comparison was asked to do."""
    return next((job.asked for job in list_jobs(workspace, project.id, "compare")), None)
