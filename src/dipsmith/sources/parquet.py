"""Parquet files: read column by column, text columns by their dictionaries.

A Parquet file carries its types, so nothing is inferred from rows. Text columns that the file stores with
a dictionary are handed on that way: whoever encodes them looks up a handful of dictionary entries instead
of every row.

The syntax pass decodes every page of the required columns once, so that a damaged page is noticed before
anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.errors import SourceError
from dipsmith.sources.arrow import BATCH_ROWS, check_layout, check_type, plain
from dipsmith.sources.header import check_header
from dipsmith.sources.source import Progress
from dipsmith.sources.stamp import Stamp, reading

MAGIC = b"PAR1"


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file."""

    path: Path

    @cached_property
    def stamp(self) -> Stamp:
        """The file as it was when first looked at."""
        return Stamp.of(self.path)

    @cached_property
    def _schema(self) -> pa.Schema:
        with reading(self.path, self.stamp), self._open() as file:
            return file.schema_arrow

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the footer."""
        return tuple(self._schema.names)

    def check(self, required: Sequence[str]) -> None:
        """Footer, header, types, and every page of the required columns."""
        check_header(str(self.path), self.columns, required)
        for name in required:
            check_type(str(self.path), name, self._schema.field(name).type)
        for batch in self.batches(required):
            check_layout(str(self.path), batch)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        check_header(str(self.path), self.columns, columns)
        with reading(self.path, self.stamp), self._open(columns) as file:
            done, rows = 0, max(file.metadata.num_rows, 1)
            try:
                for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                    yield plain(batch.select(list(columns)))
                    done += batch.num_rows
                    if progress is not None:
                        progress(done / rows)
            except pa.ArrowException:
                raise self._damaged() from None

    def _open(self, columns: Sequence[str] = ()) -> pq.ParquetFile:
        try:
            file = pq.ParquetFile(self.path)
            by_dictionary = [name for name in columns if _has_dictionary(file, name)]
            if by_dictionary:
                file.close()
                file = pq.ParquetFile(self.path, read_dictionary=by_dictionary)
        except pa.ArrowException:
            raise self._damaged() from None
        return file

    def _damaged(self) -> SourceError:
        return SourceError(f"{self.path}: not a readable Parquet file (damaged or cut short); write it again")


def _has_dictionary(file: pq.ParquetFile, name: str) -> bool:
    """Whether a text column is stored mostly as dictionary indices.

    An identifier with as many values as rows is not: hashing it into a dictionary would cost more than
    it saves. Its chunk takes more than four bytes a value.
    """
    schema = file.schema_arrow
    kind = schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or not file.num_row_groups:
        return False
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    chunk = file.metadata.row_group(0).column(paths.index(name))
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= 4 * max(chunk.num_values, 64))
