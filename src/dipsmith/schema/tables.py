"""Public tables given in memory: anything that offers an Arrow stream, or a mapping of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dipsmith.errors import UsageError


def as_table(given: object) -> Any:
    """View a public table as a `pyarrow.Table`.

    >>> as_table({"a": ["x", "y"]}).num_rows
    2
    """
    import pyarrow as pa

    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    if isinstance(given, Mapping):
        return pa.table(dict(given))
    raise UsageError(
        f"expected a table (pandas, polars, pyarrow, or a dict of arrays), got {type(given).__name__}"
    )
