"""What authors of methods, metrics and sources import: this module and `dipsmith` itself, nothing else.

A package registers a method by an entry point, and `dipsmith.testing.check_method` shows that it keeps the rules::

    [project.entry-points."dipsmith.methods"]
    one-column = "my_package:OneColumn"

``docs/tutorials/method-author.md`` walks through a whole package.
"""

from dipsmith.errors import DipsmithError, InputError, SourceError, UnsupportedError, UsageError
from dipsmith.estimation.answers import Answer, NoisyTable
from dipsmith.estimation.lawful import lawful_rows, require_possible
from dipsmith.estimation.sampling import sample_cells
from dipsmith.estimation.simplex import project, project_within, round_to, round_within
from dipsmith.methods.method import (
    Arrays,
    CountNoise,
    Labeller,
    Method,
    Model,
    Planned,
    PublicFacts,
    count_noise,
    knob,
    require_relation,
)
from dipsmith.methods.outlook import Effort, LabelCells, Outlook, PlannedTable, Suitability, tables_of
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.curator import Curator, Score
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Bins, Categories, Cells, Codes, Marginal, Rule, Schema, Unit
from dipsmith.sources.source import Input, Source

__all__ = [
    "Answer",
    "Arrays",
    "Attribute",
    "Bins",
    "Budget",
    "Categories",
    "Cells",
    "Codes",
    "CountNoise",
    "Curator",
    "DipsmithError",
    "Effort",
    "Input",
    "InputError",
    "LabelCells",
    "Labeller",
    "Marginal",
    "Measurement",
    "Method",
    "Model",
    "NoisyTable",
    "Outlook",
    "Planned",
    "PlannedTable",
    "PublicFacts",
    "PublicTable",
    "Rule",
    "Schema",
    "Score",
    "Source",
    "SourceError",
    "Suitability",
    "Unit",
    "UnsupportedError",
    "UsageError",
    "count_noise",
    "generator",
    "knob",
    "lawful_rows",
    "project",
    "project_within",
    "require_possible",
    "require_relation",
    "round_to",
    "round_within",
    "sample_cells",
    "tables_of",
]
