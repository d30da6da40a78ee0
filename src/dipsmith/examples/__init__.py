"""Simulated tables with known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dipsmith.schema import Schema


def write_example(folder: str | Path, table: Any, schema: Schema) -> None:
    """Write a table as NAME.parquet and its schema as NAME.yaml into a folder."""
    import pyarrow.parquet

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, place / f"{schema.name}.parquet")
    schema.write(place / f"{schema.name}.yaml", overwrite=True)
