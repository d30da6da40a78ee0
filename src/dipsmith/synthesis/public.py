"""What a plan may read of a file: under `label`, its public columns; otherwise only that it can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dipsmith.counting.count import BatchRows
from dipsmith.errors import UsageError
from dipsmith.methods.method import PublicFacts
from dipsmith.schema import Schema, Unit
from dipsmith.sources import source


def public_facts(schema: Schema, data: Any = None, rows: int | None = None) -> PublicFacts:
    """The public facts that a plan is made from.

    Privacy
    -------
    Under `label`, reads the public columns of `data`; its private columns and unit column are never
    read (rows beyond `max_rows` are therefore not left out: the plan is for at least as many rows as will
    count). Under other relations nothing of `data` is public, and giving it is refused.
    """
    if data is None:
        return PublicFacts(rows=rows)
    if schema.neighbours != "label":
        raise UsageError(
            f"under neighbours '{schema.neighbours}' a plan reads no file: leave it out, and give --rows if n is public"
        )
    visible = replace(schema.project(schema.public), unit=Unit())
    found = source(data)
    found.check(visible.names)
    codes, multiplicities = BatchRows(found, visible).distinct_public(visible.names)
    return PublicFacts(rows=int(multiplicities.sum()), public_rows=(codes, multiplicities))
