"""At which resolution a column was seen: labels may stand for several values, bins for a range of numbers.

Under `label` public columns are released as they stand, while private labels were made from what the schema collapses
them to: within one label or bin they say nothing of one another. Otherwise values within a bin are drawn evenly, and the
columns of a release are no finer than the schema.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.regression.arithmetic import evaluate
from dipsmith.schema import Attribute, Bins
from dipsmith.schema.formula.tree import Node

MOST_LOST = 0.02
"""A number is used at the schema's resolution if its bins leave at most this share of its variance within them."""

LOOKED_AT = 20_000
"""Rows that are looked at: the first ones, in the release's own (random) order."""


def coarseness(attribute: Attribute, uses: Sequence[Node], column: pa.ChunkedArray | None) -> str:
    """In words, how much coarser the schema is than the values that a formula uses; empty where it is fine enough.

    `uses` are the numbers that are made of the column alone; none where its values are taken as categories. `column` has the
    values that were released, if they are at hand.
    """
    domain = attribute.domain
    if not isinstance(domain, Bins):
        listed, labels = len(domain.values), len(domain.labels)
        return f"the schema collapses its {listed:,} values to {labels:,} labels" if labels < listed else ""
    if domain.whole and np.all(np.diff(domain.cuts) == 1):
        return ""
    bins = len(domain.labels)
    if not uses:
        return f"the schema puts its values into {bins} bins, and the formula takes each value by itself"
    values = None if column is None else _numbers(domain, column)
    # Of an even spread where the values are not at hand.
    lost = 1 / bins**2 if values is None else max(_lost_share(domain, values, attribute.name, use) for use in uses)
    return f"{lost:.0%} of its variance lies within the schema's {bins} bins" if lost > MOST_LOST else ""


def _lost_share(domain: Bins, values: Floats, name: str, use: Node) -> float:
    """The share of a number's variance that lies within the bins of the column that it is made of."""
    try:
        made = evaluate(use, {name: values}, len(values))
    except UsageError:
        # A comparison with a label: as much is lost as of an even spread.
        return float(1 / len(domain.labels) ** 2)
    known = np.isfinite(made)
    made, code = made[known], np.searchsorted(domain.cuts[1:-1], values[known], side="right")
    if len(made) < 2 or made.var() == 0:
        return 0.0
    means = np.bincount(code, weights=made) / np.maximum(np.bincount(code), 1)
    return float(np.mean((made - means[code]) ** 2) / made.var())


def _numbers(domain: Bins, column: pa.ChunkedArray) -> Floats | None:
    some = column.slice(0, LOOKED_AT).drop_null()
    try:
        if domain.scale == "date":
            some = some.cast(pa.date32()).cast(pa.int32())
        elif domain.scale == "datetime":
            some = some.cast(pa.timestamp("us")).cast(pa.int64())
        values = some.cast(pa.float64()).to_numpy().astype(np.float64)
    except (pa.ArrowException, ValueError):
        return None
    clipped: Floats = np.clip(values[np.isfinite(values)], domain.minimum, domain.maximum)
    return clipped
