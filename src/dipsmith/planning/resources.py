"""About how much memory and time a run will take, to within a factor of two.

A sum of parts, each a count from the plan times a constant: starting (libraries, card, report), reading
(fields), counting and noise (cells), estimation (by method), drawing and writing (fields). The constants are CPU
seconds and bytes measured by ``benchmarks/planning.py`` on one core of a 2-core virtual machine of 2024 (it
prints predicted beside measured figures); a faster or slower machine scales all times alike. Nothing
here depends on private rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from dipsmith.methods.method import Method, Planned, PublicFacts
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

START_SECONDS: Final = 5.0
START_BYTES: Final = 240_000_000
READ_SECONDS: Final = 4e-7
"""Per field: CSV, encoding, first pass."""
DRAW_SECONDS: Final = 3e-7
"""Per field: drawing, decoding, writing."""
FIELD_BYTES: Final = 20
"""Per released field: codes, decoded column, compressed file."""
TREE_SECONDS, TREE_BYTES = 6e-7, 160.0
"""Per noisy number of a hierarchy: counting, least squares, projection, drawing."""
TABLE_SECONDS, TABLE_BYTES = 1.3e-7, 30.0
"""Per noisy number of a single table."""
LABEL_SECONDS, LABEL_BYTES = 4e-6, 110.0
"""Per distinct public row and label of a log-linear model: its gradients and curvatures."""
GRAPH_SECONDS: Final = 2.5
"""Fitting a graphical model to many overlapping tables."""


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
    method: Method,
    budget: Budget,
    steps: Sequence[Planned],
    facts: PublicFacts,
    *,
    sets: int = 1,
    each: str | None = None,
) -> Resources:
    """Estimate memory and time of `synthesize` and `Release.save`."""
    rows = facts.rows or 0
    fields = rows * len(schema.names)
    fits = sets if each == "split" else 1
    cells = sum(s.cells or 0 for s in steps)
    layered = method.name in ("steps", "universal")
    kinds = _kinds(schema, method, facts)
    estimation = LABEL_SECONDS * kinds + (GRAPH_SECONDS if method.name in ("aim", "marginals") else 0.0)
    parts = {
        "start": START_SECONDS,
        "reading": READ_SECONDS * fields,
        "fitting": fits * (cells * (TREE_SECONDS if layered else TABLE_SECONDS) + estimation),
        "drawing": sets * fields * DRAW_SECONDS,
    }
    memory = START_BYTES + fields * FIELD_BYTES * sets + cells * (TREE_BYTES if layered else TABLE_BYTES)
    memory += kinds * LABEL_BYTES
    return Resources(int(memory), sum(parts.values()), parts)


def _kinds(schema: Schema, method: Method, facts: PublicFacts) -> int:
    """Distinct public rows times joint labels, where a log-linear model is fitted to them."""
    if method.name != "loglinear":
        return 0
    distinct = facts.rows or 0 if facts.public_rows is None else len(facts.public_rows[0])
    return distinct * prod(schema[t].size for t in getattr(method, "targets", ()) if t in schema)
