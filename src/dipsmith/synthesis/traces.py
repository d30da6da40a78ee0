"""Traces of the private file in a released Parquet file, as versions before 0.1.1 could leave them.

Two kinds: metadata that was copied from the table that was read, and text dictionaries in the order in which the
private file first used their entries. A dictionary that a Parquet writer built from the released rows stands in the order of
their first appearance in those rows, and one that comes from the schema in the schema's; any other order comes
from somewhere else. What the exit writes has neither trace.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.schema import Bins, Schema

ADVICE = "it may tell private values: withdraw it, see SECURITY.md, and make it anew with this version"

_ARROW = b"ARROW:schema"
_SPARK = b"org.apache.spark."
_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
_FIELD_ID = b"PARQUET:field_id"


def find_trace(file: Path, schema: Schema) -> str | None:
    """What a Parquet file of a release tells about the file that was read; None if nothing."""
    with pq.ParquetFile(file) as opened:
        found = _foreign_metadata(opened)
        texts = [f.name for f in opened.schema_arrow if _is_text(f.type)]
    if found is not None:
        return f"'{file.name}' carries metadata ({found}) of the table that it was made from; {ADVICE}"
    for name in texts:
        if not _has_lawful_dictionary(file, name, schema):
            return (
                f"column '{name}' of '{file.name}' has its distinct values in an order that is neither the schema's nor that of "
                f"the released rows: the order of the confidential file; {ADVICE}"
            )
    return None


def _foreign_metadata(file: pq.ParquetFile) -> str | None:
    """The first key that neither Arrow nor Spark needs to describe columns."""
    stored = file.metadata.metadata or {}
    foreign = [key for key in stored if key != _ARROW and not key.startswith(_SPARK)]
    foreign += [key for key in file.schema_arrow.metadata or {} if key not in stored]
    foreign += [key for field in file.schema_arrow for key in field.metadata or {} if key != _FIELD_ID]
    if _ROW_METADATA in stored:
        foreign += [_ROW_METADATA] if _has_comments(stored[_ROW_METADATA]) else []
    return foreign[0].decode("utf-8", "replace")[:60] if foreign else None


def _has_comments(described: bytes) -> bool:
    """Whether Spark's description of the columns says more than names and types."""
    try:
        fields = json.loads(described)["fields"]
        return any(field.get("metadata") for field in fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return True


def _has_lawful_dictionary(path: Path, name: str, schema: Schema) -> bool:
    domain = schema[name].domain if name in schema.names else None
    labels = [] if domain is None or isinstance(domain, Bins) else list(domain.labels)
    with pq.ParquetFile(path, read_dictionary=[name]) as file:
        for group in range(file.num_row_groups):
            for chunk in file.read_row_group(group, [name]).column(0).chunks:
                if pa.types.is_dictionary(chunk.type) and not (
                    _is_by_first_use(chunk) or chunk.dictionary.to_pylist() == labels
                ):
                    return False
    return True


def _is_by_first_use(chunk: pa.DictionaryArray) -> bool:
    """Whether the entries stand in the order in which the rows use them, and all of them are used."""
    used = chunk.indices.drop_null().to_numpy()
    found, first = np.unique(used, return_index=True)
    return len(found) == len(chunk.dictionary) and bool(np.all(np.diff(first) > 0))


def _is_text(kind: pa.DataType) -> bool:
    """Whether Parquet keeps a dictionary as it was handed over: text, and bytes that are read as text."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return inner in kinds
