"""Stand-ins: every method tried over several budgets on rows that need no protection, so that a plan can be chosen for free.

The rows are simulated from the schema alone, or those of a file that the steward says is public. Nothing confidential is
read and nothing is charged.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.errors import DipsmithError, UsageError
from dipsmith.schema import Codes, Schema
from dipsmith.studio import jobs
from dipsmith.studio.choices import Choices, supported_for
from dipsmith.studio.plan import choices_of, facts_of
from dipsmith.studio.schema import schema_of
from dipsmith.studio.views import Visit
from dipsmith.studio.workspace import name_files

AMOUNTS = {"epsilon": ("0.1", "0.3", "1", "3", "10"), "approx": ("0.1", "0.3", "1", "3", "10")}
AMOUNTS["rho"] = ("0.001", "0.01", "0.1", "0.5", "1")
CLASSES, CONCENTRATION = 6, 0.4
"""Kinds of people among simulated rows, and how much their columns differ."""
MOST_ROWS = 20_000
USUAL_ROWS = 10_000
RESULT = "tradeoff.json"


def simulate(schema: Schema, rows: int, seed: int = 0) -> Codes:
    """Rows whose columns depend on one another: a mixture of kinds of people, drawn from nothing but the schema."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(CLASSES, size=rows, p=rng.dirichlet(np.full(CLASSES, 2.0)))
    columns = {}
    for attribute in schema:
        chances = rng.dirichlet(np.full(attribute.size, CONCENTRATION), CLASSES).cumsum(axis=1)
        drawn = (rng.random(rows)[:, None] > chances[kind]).sum(axis=1) if attribute.size > 1 else np.zeros(rows)
        columns[attribute.name] = np.minimum(drawn, attribute.size - 1).astype(np.int64)
    codes = Codes.of(schema, columns, rows)
    return codes.take(codes.lawful())


def begin(visit: Visit) -> Mapping[str, Any]:
    """Try every method, in a process of its own; an unfinished trial goes on instead of a second one."""
    workspace, project = visit.workspace, visit.project
    going = [j for j in jobs.list_jobs(workspace, project.id, "rehearse") if j.status in ("waiting", "running")]
    if going:
        return {"job": going[0].id}
    schema = schema_of(workspace, project)
    if schema.members is not None:
        raise UsageError(
            "households cannot be tried on a stand-in: one method makes them, and there is no other to choose"
        )
    choices = choices_of(workspace, project, schema)
    facts = facts_of(workspace, project, schema, choices)
    chosen = visit.text("stand_in", 4096)
    stand_in = workspace.public_file(chosen) if chosen else None
    asked = {
        "schema": schema.to_dict(),
        "choices": asdict(choices),
        "stand_in": "" if stand_in is None else workspace.relative(stand_in),
        "rows": min(facts.rows or USUAL_ROWS, MOST_ROWS),
        "out": "",
        "says": f"all methods on {name_files(chosen) or 'simulated rows'}",
    }
    job = uuid.uuid4().hex
    if jobs.submit(workspace, job, "rehearse", project.id, asked):
        jobs.launch(workspace, job, 0.0)
    return {"job": job}


def watch(visit: Visit) -> Mapping[str, Any]:
    """The last trial: how far it is, and what it has found so far."""
    found = next(iter(jobs.list_jobs(visit.workspace, visit.project.id, "rehearse")), None)
    return {"jobs": [found.to_dict()] if found else [], "result": _result(found) if found else None}


def _result(job: jobs.Job) -> Any:
    file = job.folder / RESULT
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def rehearse(asked: Mapping[str, Any], root: Path, say: Callable[[str, float], None]) -> Iterator[dict[str, Any]]:
    """Fit every method at every amount; gives all points so far, each time there is one more."""
    from dipsmith.tuning.public_tuning import tune

    schema, choices, rows = Schema.from_dict(asked["schema"]), Choices.of(asked["choices"]), asked["rows"]
    rows_from = root / asked["stand_in"] if asked["stand_in"] else simulate(schema, rows)
    amounts, names = AMOUNTS[choices.currency], supported_for(schema)
    points: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    for i, amount in enumerate(amounts):
        for j, name in enumerate(names):
            if name in refused:
                continue
            say(f"trying {name} at {amount}", (i * len(names) + j) / (len(amounts) * len(names)))
            mine = replace(choices, method=name, settings={}, amount=amount)
            try:
                found = tune(
                    mine.method_for(schema),
                    [{}],
                    tune_on=rows_from,
                    schema=schema,
                    budget=mine.budget,
                    metric="tvd",
                    repeats=1,
                    rows=rows if asked["stand_in"] else None,
                )
                points.append({"method": name, "amount": amount, "tvd": found.trials[0].mean})
            except (DipsmithError, MemoryError) as error:
                refused[name] = str(error) or "needs too much memory"
            yield {"points": points, "refused": refused, "rows": rows, "symbol": mine.budget.symbol}
