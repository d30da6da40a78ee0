"""Small tables and schemas for the tests of this room."""

import numpy as np
import pyarrow as pa

from dipsmith.schema import Attribute, Categories, Schema, Unit
from dipsmith.schema.bins import by_width

GROUPS = ("a", "b", "c")


def schema_of(relation, *, unit=None, max_rows=1):
    return Schema(
        "people",
        (
            Attribute("y", "number", by_width("number", -10, 10, 1), "public"),
            Attribute("x", "number", by_width("number", -10, 10, 1), "public"),
            Attribute("g", "string", Categories.of(GROUPS, other="a"), "public"),
            Attribute("s", "string", Categories.of("FM", other="M"), "private"),
        ),
        Unit() if unit is None else Unit(unit, max_rows),
        relation,
    )


def table_of(rows, seed=0, *, effect=0.0, units=None):
    """Rows with a known effect of s = F on y."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, rows)
    g = rng.integers(0, 3, rows)
    x = rng.normal(size=rows)
    y = 1 + 0.5 * x + 0.3 * g + effect * (s == 0) + rng.normal(size=rows)
    made = {
        "y": y,
        "x": x,
        "g": pa.array([GROUPS[i] for i in g]),
        "s": pa.array(["FM"[i] for i in s]),
    }
    if units is not None:
        made["id"] = pa.array([f"u{i}" for i in rng.integers(0, units, rows)])
    return pa.table(made)
