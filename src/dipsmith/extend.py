"""What authors of methods, metrics and sources import: this module, `dipsmith.testing` and `dipsmith` itself, nothing else.

A package registers a method by an entry point, and `dipsmith.testing.check_method` shows that it keeps the rules::

    [project.entry-points."dipsmith.methods"]
    one-column = "my_package:OneColumn"

``docs/tutorials/method-author.md`` walks through a whole package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dipsmith.errors import DipsmithError, InputError, SourceError, UnsupportedError, UsageError
from dipsmith.estimation.answers import Answer, NoisyTable
from dipsmith.estimation.lawful import lawful_rows, require_possible
from dipsmith.estimation.sampling import sample_cells
from dipsmith.estimation.simplex import project, project_within, round_to, round_within
from dipsmith.methods.method import (
    Arrays,
    CountNoise,
    Keeping,
    Labeller,
    Method,
    Model,
    Planned,
    PlansAnalyses,
    PublicFacts,
    count_noise,
    knob,
    require_relation,
)
from dipsmith.methods.model_tree import ModelTree, PathShares, TreeNode, WithPaths, WithTrees
from dipsmith.methods.outlook import Effort, LabelCells, Outlook, PlannedTable, Suitability, tables_of
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.randomness import generator
from dipsmith.privacy.score import Score
from dipsmith.report.content import Figure, Table
from dipsmith.schema import Attribute, Bins, Categories, Cells, Codes, Marginal, Rule, Schema, Unit
from dipsmith.sources.source import Input, Source

if TYPE_CHECKING:
    from dipsmith.utility.findings import Findings
    from dipsmith.utility.metric import Chapter, Metric, MetricValue, SideBySide, mean_over_sets

_METRICS = {
    "Chapter": "dipsmith.utility.metric",
    "Findings": "dipsmith.utility.findings",
    "Metric": "dipsmith.utility.metric",
    "MetricValue": "dipsmith.utility.metric",
    "SideBySide": "dipsmith.utility.metric",
    "mean_over_sets": "dipsmith.utility.metric",
}
"""Imported when they are first used: they bring scipy along, which authors of methods need not wait for."""


def __getattr__(name: str) -> object:
    if name not in _METRICS:
        raise AttributeError(f"module 'dipsmith.extend' has no attribute '{name}'")
    return getattr(import_module(_METRICS[name]), name)


__all__ = [
    "Answer",
    "Arrays",
    "Attribute",
    "Bins",
    "Budget",
    "Categories",
    "Cells",
    "Chapter",
    "Codes",
    "CountNoise",
    "Curator",
    "DipsmithError",
    "Effort",
    "Figure",
    "Findings",
    "Input",
    "InputError",
    "Keeping",
    "LabelCells",
    "Labeller",
    "Marginal",
    "Measurement",
    "Method",
    "Metric",
    "MetricValue",
    "Model",
    "ModelTree",
    "NoisyTable",
    "Outlook",
    "PathShares",
    "Planned",
    "PlannedTable",
    "PlansAnalyses",
    "PublicFacts",
    "PublicTable",
    "Rule",
    "Schema",
    "Score",
    "SideBySide",
    "Source",
    "SourceError",
    "Suitability",
    "Table",
    "TreeNode",
    "Unit",
    "UnsupportedError",
    "UsageError",
    "WithPaths",
    "WithTrees",
    "count_noise",
    "generator",
    "knob",
    "lawful_rows",
    "mean_over_sets",
    "project",
    "project_within",
    "require_possible",
    "require_relation",
    "round_to",
    "round_within",
    "sample_cells",
    "tables_of",
]
