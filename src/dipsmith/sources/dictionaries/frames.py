"""Frames: their dtypes, and the categories of categorical columns, which somebody declared. No value is looked at."""

from __future__ import annotations

from typing import Any

from dipsmith.errors import UsageError
from dipsmith.schema.dictionary import ColumnFacts
from dipsmith.sources.declared import type_name


def read_frame(frame: Any) -> list[ColumnFacts]:
    """The facts of a pandas frame's dtypes."""
    if type(frame).__module__.partition(".")[0] != "pandas":
        raise UsageError(f"a dictionary is a path, a database address or a pandas frame, got a {type(frame).__name__}")
    import pyarrow as pa

    found = []
    for name in frame.columns:
        dtype = frame[name].dtype
        if hasattr(dtype, "categories"):
            values = tuple((str(c), "") for c in dtype.categories)
            found.append(ColumnFacts(str(name), "string", values=values, ordered=bool(dtype.ordered)))
            continue
        kind = None if dtype.kind == "O" else type_name(pa.array(frame[name].iloc[:0]).type)
        found.append(ColumnFacts(str(name), "number" if kind is None and dtype.kind == "f" else kind))  # type: ignore[arg-type]
    return found
