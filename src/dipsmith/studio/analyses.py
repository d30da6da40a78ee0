"""Planned analyses on the Plan page: what each coefficient will be worth, or why an analysis cannot be planned.

Like the rest of the plan it is made from public facts: under `label` the public columns of the file, otherwise the tables
that the method will measure and the number of rows that was stated.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.planning.analysis_plan import AnalysisPlan
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.studio.wording import in_steward_words
from dipsmith.studio.workspace import Project, Workspace
from dipsmith.synthesis.planned import forecast_labels

NO_FILE = "planned analyses are forecast from the public columns: choose a file"


def forecast(
    workspace: Workspace, project: Project, schema: Schema, analyses: tuple[PlannedAnalysis, ...], budget: Budget
) -> AnalysisPlan | None:
    """Under `label`, what the analyses take of the budget and give; None where nothing is planned."""
    if not analyses or schema.neighbours != "label":
        return None
    if not project.data:
        raise UsageError(NO_FILE)
    file = workspace.inside(project.data)
    stamp = file.stat()
    return _forecast(analyses, schema, file, stamp.st_size, stamp.st_mtime_ns, budget)


@lru_cache(maxsize=16)
def _forecast(
    analyses: tuple[PlannedAnalysis, ...], schema: Schema, file: Path, size: int, changed: int, budget: Budget
) -> AnalysisPlan:
    """Read and forecast once per state of the file."""
    return forecast_labels(analyses, schema, file, budget)


def forecast_facts(found: AnalysisPlan, budget: Budget) -> dict[str, Any]:
    """The forecast as the page shows it."""
    return {
        **found.to_dict(),
        "cost": float(budget.exact) * found.share,
        "hopeless": [in_steward_words(words) for words in found.hopeless],
        "enough": None if found.enough is None else str(found.enough),
        "beyond": found.beyond_reach,
    }
