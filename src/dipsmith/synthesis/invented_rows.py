"""Rows that a schema allows, made of nothing but the schema: what a release will look like, before any row is read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dipsmith.codec.decode import decode
from dipsmith.schema import Codes, Schema

TRIES = 50


def invent_rows(schema: Schema, rows: int = 5, seed: int = 0) -> pa.Table:
    """Rows whose codes are drawn evenly, lawful ones where such are found; values as a release would have them.

    >>> from dipsmith.examples import voters
    >>> invent_rows(voters.schema(), 5).num_rows
    5
    """
    rng = np.random.default_rng(seed)
    drawn = Codes.of(schema, {a.name: rng.integers(0, a.size, rows * TRIES) for a in schema})
    lawful = np.flatnonzero(drawn.lawful())
    others = np.setdiff1d(np.arange(rows * TRIES), lawful)
    chosen = np.sort(np.concatenate([lawful, others])[:rows])
    return decode(drawn.take(chosen), rng)
