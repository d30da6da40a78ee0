"""About how much memory and processor time a run will take, to within a factor of 1.5.

A sum of parts, each a count from the plan times a constant: starting (libraries, card, report), reading
(fields), counting and noise (cells), estimation (by method), planned analyses, drawing and writing (fields). The constants,
here and of each family of methods, are seconds and bytes measured by ``benchmarks/planning.py`` (it prints predicted beside
measured figures) on one core of a 2-core virtual machine. A faster or slower machine scales all times alike. Nothing here
depends on private rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dipsmith.methods.method import Planned
from dipsmith.methods.outlook import Outlook
from dipsmith.planning.estimate_effort import estimate_effort
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis

START_SECONDS: Final = 1.1
START_BYTES: Final = 255_000_000
DRAWN_SECONDS: Final = 0.03
MOST_DRAWN: Final = 24
"""Per column whose distribution the report draws, and how many it draws."""
LEVEL_SECONDS: Final = 7e-6
LEVEL_BYTES: Final = 950
"""Per level of a column: labels, codebook, figures and pages."""
READ_SECONDS: Final = 2.2e-7
"""Per field: CSV, encoding, first pass."""
DRAW_SECONDS: Final = 1.6e-7
"""Per field: drawing, decoding, writing."""
FIELD_BYTES: Final = 17
"""Per released field: codes, decoded column, compressed file."""
BLOCK_BYTES, BLOCK_FIELDS = 60, 1_000_000
"""Per field that is read at once, and how many are at most."""
ROW_BYTES: Final = 200
"""Per row that is labelled: its place, its order, its labels' probabilities."""


@dataclass(frozen=True)
class Resources:
    """Bytes and CPU seconds, and what the seconds go to."""

    memory: int
    seconds: float
    parts: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON-able values."""
        return {"memory_bytes": self.memory, "seconds": self.seconds, "parts": dict(self.parts)}


def resources(
    schema: Schema,
    outlook: Outlook,
    rows: int | None,
    *,
    steps: Sequence[Planned] = (),
    analyses: Sequence[PlannedAnalysis] = (),
    sets: int = 1,
    each: str | None = None,
) -> Resources:
    """Estimate memory and time of `synthesize` and `Release.save`."""
    fields, levels = (rows or 0) * len(schema.names), sum(a.size for a in schema.attributes)
    split = each == "split"
    # What is measured for several sets apart tells of no analysis by itself.
    estimates = estimate_effort(() if split and schema.neighbours != "label" else analyses, schema, steps, rows)
    parts = {
        "start": START_SECONDS + DRAWN_SECONDS * min(len(schema.names), MOST_DRAWN) + LEVEL_SECONDS * levels,
        "reading": READ_SECONDS * fields,
        "fitting": (sets if split else 1) * outlook.effort.seconds,
        "analyses": estimates.seconds,
        "drawing": sets * fields * DRAW_SECONDS,
    }
    labelled = ROW_BYTES * (rows or 0) if schema.neighbours == "label" else 0
    held = BLOCK_BYTES * min(fields, BLOCK_FIELDS) + FIELD_BYTES * fields * sets + labelled
    memory = START_BYTES + LEVEL_BYTES * levels + max(held, outlook.effort.memory, estimates.memory)
    return Resources(int(memory), sum(parts.values()), parts)
