"""Whether somebody has counted the cells of a file that a schema does not hold, as the ledger's log of looks tells.

A run may say nothing that depends on a value, so that cells which cannot be read count silently as missing or as the minimum. It
may say that nobody has looked yet: that depends on the log, the schema and the file's name, which are no private rows.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.sources import Source


def describe_check(rows: Source, schema: Schema) -> str:
    """What the log notes of such a look: the file, and the schema that it was read by."""
    reading = replace(schema, analyses=(), rules=(), notes=(), provenance="declared", known_rows=None)
    return f"schema check of {Path(rows.describe()).name}, fields {reading.digest[:12]}"


def is_checked(rows: Source, schema: Schema, ledger: Ledger) -> bool:
    """Whether the log has such a look.

    Privacy
    -------
    Reads the log and the file's name; no row.
    """
    return describe_check(rows, schema) in ledger.looked(schema.name)
