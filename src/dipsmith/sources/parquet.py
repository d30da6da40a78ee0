"""Parquet files: read column by column, text columns by their dictionaries.

A Parquet file carries its types, so nothing is inferred from rows. Text columns that the file stores with
a dictionary are handed on that way: whoever encodes them looks up a handful of dictionary entries instead
of every row.

The syntax pass decodes every page of the required columns once, so that a damaged page is noticed before
anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.errors import SourceError
from dipsmith.sources.fingerprint import Stamp, reading
from dipsmith.sources.layout import BATCH_ROWS, check_layout, check_type, make_plain
from dipsmith.sources.readahead import read_ahead
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress

MAGIC = b"PAR1"
_INT96: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
"""How old timestamps of 96 bits are read: in nanoseconds, Arrow's own choice, far years wrap around silently."""
_RUN_ROWS = 1 << 19
_FEW = 16
"""Up to so many columns are decoded in batches twice as long: fewer calls, a tenth less time."""


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file."""

    path: Path
    stamp: Stamp

    @cached_property
    def _schema(self) -> pa.Schema:
        with reading(self.path, self.stamp), self._open() as file:
            return file.schema_arrow

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the footer."""
        return tuple(self._schema.names)

    def types(self) -> dict[str, pa.DataType]:
        """The types in the footer."""
        return {field.name: field.type for field in self._schema}

    def check_types(self, required: Sequence[str]) -> None:
        """Refuse columns whose values are not single values."""
        for name in required:
            check_type(str(self.path), name, self._schema.field(name).type)

    def check(self, required: Sequence[str]) -> None:
        """Every page of the required columns; their names and types were checked before (`Files`)."""
        for batch in self.batches(required):
            check_layout(str(self.path), batch)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        with reading(self.path, self.stamp), self._open() as file:
            texts = [name for name in columns if _has_dictionary(file, name)]
            done, rows = 0, max(file.metadata.num_rows, 1)
            decoded = self._decode(file.metadata, list(columns), texts)
            try:
                with closing(read_ahead(decoded)) as batches:
                    for batch in batches:
                        yield batch
                        done += batch.num_rows
                        if progress is not None:
                            progress(done / rows)
            except pa.ArrowException:
                retell(self._damage_error())

    def _decode(self, metadata: pq.FileMetaData, columns: list[str], texts: list[str]) -> Iterator[pa.RecordBatch]:
        rows = BATCH_ROWS if len(columns) > _FEW else 2 * BATCH_ROWS
        with pq.ParquetFile(self.path, metadata=metadata, read_dictionary=texts, **_INT96) as file:
            for groups in _runs_of_groups(metadata):
                for batch in file.iter_batches(rows, groups, columns):
                    # in the order asked, without the file's metadata
                    arrays = [batch.column(name) for name in columns]
                    yield make_plain(pa.RecordBatch.from_arrays(arrays, names=columns))

    def _open(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path, **_INT96)
        except pa.ArrowException:
            retell(self._damage_error())

    def _damage_error(self) -> SourceError:
        return SourceError(f"{self.path}: not a readable Parquet file (damaged or cut short); write it again")


def _runs_of_groups(metadata: pq.FileMetaData) -> list[list[int]]:
    """Divide the row groups into runs of half a million rows or more: Arrow holds the bytes of a whole run."""
    runs: list[list[int]] = [[]]
    rows = 0
    for group in range(metadata.num_row_groups):
        if rows >= _RUN_ROWS:
            runs.append([])
            rows = 0
        runs[-1].append(group)
        rows += metadata.row_group(group).num_rows
    return runs


def _has_dictionary(file: pq.ParquetFile, name: str) -> bool:
    """Whether a text column is stored mostly as dictionary indices.

    An identifier with as many values as rows is not: hashing it into a dictionary would cost more than
    it saves. Its chunk takes more than four bytes a value.
    """
    kind = file.schema_arrow.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or not file.num_row_groups:
        return False
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    chunk = file.metadata.row_group(0).column(paths.index(name))
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= 4 * max(chunk.num_values, 64))
