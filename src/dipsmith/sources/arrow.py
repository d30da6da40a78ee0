"""Tables in memory: pyarrow, polars, and whatever else speaks the Arrow C stream; and pandas frames.

Guarantee: what a batch says about one row depends on that row and on the types of the table, never on
the values of other rows. Arrow tables carry their types. A pandas column of Python objects does not, so
each of its values becomes text by itself (`objects`); no type is inferred from the rows. A frame's
index is never read.

Whether a table is refused depends on its types and on damage to its memory (`layout`), never on what a value means:
a table that is refused is refused without its rows too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from dipsmith.errors import SourceError
from dipsmith.sources.fingerprint import of_columns
from dipsmith.sources.header import check_header
from dipsmith.sources.layout import BATCH_ROWS, check_layout, check_type, make_plain
from dipsmith.sources.objects import column_array, holds_arrow
from dipsmith.sources.retelling import retell
from dipsmith.sources.source import Progress


@dataclass(frozen=True, eq=False, repr=False)
class ArrowSource:
    """A table that speaks the Arrow C stream.

    A pyarrow table is read in place. Anything else is taken over once, at first use (without a copy
    where the other library shares its memory): it might be a stream that flows only once, such as a
    `RecordBatchReader`, and counting may need several passes.
    """

    table: Any

    @cached_property
    def _table(self) -> pa.Table:
        if isinstance(self.table, pa.Table):
            return self.table
        if isinstance(self.table, pa.RecordBatch):
            return pa.Table.from_batches([self.table])
        try:
            return pa.RecordBatchReader.from_stream(self.table).read_all()
        except Exception:  # noqa: BLE001  # whatever the stream of another library raises
            retell(SourceError(f"{self.describe()}: cannot be read as Arrow data; convert it to a pyarrow.Table"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return tuple(self._table.schema.names)

    def check_columns(self, required: Sequence[str]) -> None:
        """Header and column types."""
        check_header(self.describe(), self.columns, required)
        for name in required:
            check_type(self.describe(), name, self._type(name))

    def check(self, required: Sequence[str]) -> None:
        """Header, column types, and that Arrow memory behind a column is laid out as Arrow says."""
        self.check_columns(required)
        for table in self._tables([name for name in required if self._is_arrow(name)]):
            check_layout(self.describe(), table)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        check_header(self.describe(), self.columns, columns)
        done = 0
        for table in self._tables(columns):
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                yield make_plain(batch)
                done += batch.num_rows
                if progress is not None:
                    progress(done / self._rows)

    def describe(self) -> str:
        """Name the kind of table."""
        kind = type(self.table)
        return f"{kind.__module__.partition('.')[0]} {kind.__name__}"

    def fingerprint(self) -> str:
        """What tells these columns from others."""
        return of_columns(self)

    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns."""
        return {name: self._type(name) for name in self.columns}

    @property
    def _rows(self) -> int:
        return int(self._table.num_rows)

    def _type(self, name: str) -> pa.DataType:
        # Arrow is told the addresses of Python objects
        if type(self.table).__module__.startswith("polars.") and str(self.table.schema[name]) == "Object":
            raise SourceError(
                f"{self.describe()}: column '{name}' holds Python objects; convert it to text, numbers, booleans or dates"
            )
        return self._table.schema.field(name).type

    def _is_arrow(self, name: str) -> bool:
        return True

    def _tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        yield self._table.select(list(columns))


class FrameSource(ArrowSource):
    """A pandas frame, converted slice by slice; the index is not part of it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return tuple(str(name) for name in self.table.columns)

    def describe(self) -> str:
        """Name the kind of table."""
        return f"pandas {type(self.table).__name__}"

    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns but those of Python objects, which say nothing."""
        return {name: self._type(name) for name in self.columns if self._column(name).dtype.kind != "O"}

    @property
    def _rows(self) -> int:
        return len(self.table)

    def _type(self, name: str) -> pa.DataType:
        return self._slice(name, 0).type

    def _is_arrow(self, name: str) -> bool:
        return holds_arrow(self._column(name).dtype)

    def _tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for start in range(0, self._rows if columns else 0, BATCH_ROWS):
            yield pa.table([self._slice(name, start, BATCH_ROWS) for name in columns], names=list(columns))

    def _column(self, name: str) -> Any:
        return self.table.iloc[:, self.columns.index(name)]

    def _slice(self, name: str, start: int, rows: int = 0) -> pa.Array | pa.ChunkedArray:
        found = column_array(self._column(name).iloc[start : start + rows])
        if found is None:
            raise SourceError(
                f"{self.describe()}: column '{name}' has a type that cannot be read; convert it to text or numbers"
            )
        return found
