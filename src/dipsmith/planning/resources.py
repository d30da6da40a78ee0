"""About how much memory and processor time a run will take, to within a factor of 1.5.

A sum of parts, each a count from the plan times a constant: starting (libraries, card, report), reading
(fields), counting and noise (cells), estimation (by method), drawing and writing (fields). The constants, here and of
each family of methods, are seconds and bytes measured by ``benchmarks/planning.py`` on one core of a 2-core virtual
machine (it prints predicted beside measured figures) that others kept busy; `PACE` turns these into seconds of a core
that has little else to do. A faster or slower machine scales all times alike. Nothing here depends on private rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dipsmith.methods.outlook import Outlook
from dipsmith.schema import Schema

PACE: Final = 0.55
START_SECONDS: Final = 2.7
START_BYTES: Final = 240_000_000
DRAWN_SECONDS: Final = 0.1
MOST_DRAWN: Final = 24
"""Per column whose distribution the report draws, and how many it draws."""
LEVEL_SECONDS: Final = 1.2e-5
LEVEL_BYTES: Final = 950
"""Per level of a column: labels, codebook, figures and pages."""
READ_SECONDS: Final = 4e-7
"""Per field: CSV, encoding, first pass."""
DRAW_SECONDS: Final = 3e-7
"""Per field: drawing, decoding, writing."""
FIELD_BYTES: Final = 14
"""Per released field: codes, decoded column, compressed file."""


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
    schema: Schema, outlook: Outlook, rows: int | None, *, sets: int = 1, each: str | None = None
) -> Resources:
    """Estimate memory and time of `synthesize` and `Release.save`."""
    fields, levels = (rows or 0) * len(schema.names), sum(a.size for a in schema.attributes)
    slow = {
        "start": START_SECONDS + DRAWN_SECONDS * min(len(schema.names), MOST_DRAWN) + LEVEL_SECONDS * levels,
        "reading": READ_SECONDS * fields,
        "fitting": (sets if each == "split" else 1) * outlook.effort.seconds,
        "drawing": sets * fields * DRAW_SECONDS,
    }
    parts = {name: PACE * seconds for name, seconds in slow.items()}
    memory = START_BYTES + LEVEL_BYTES * levels + fields * FIELD_BYTES * sets + outlook.effort.memory
    return Resources(int(memory), sum(parts.values()), parts)
