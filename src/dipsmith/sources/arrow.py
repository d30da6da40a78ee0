"""Tables in memory: pyarrow, polars, and whatever else speaks the Arrow C stream; and pandas frames.

Guarantee: what a batch says about one row depends on that row and on the types of the table, never on
the values of other rows. Arrow tables carry their types. A pandas column of Python objects does not, so
each of its values becomes text by itself (see `_text`); no type is inferred from the rows. A frame's
index is never read.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import SourceError
from dipsmith.sources.header import check_header
from dipsmith.sources.source import Progress

BATCH_ROWS = 1 << 17


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
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            raise SourceError(
                f"{self.describe()}: cannot be read as Arrow data; convert it to a pyarrow.Table"
            ) from None

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return tuple(self._table.schema.names)

    def check(self, required: Sequence[str]) -> None:
        """Header, column types, and that the memory of the columns is laid out as Arrow says."""
        check_header(self.describe(), self.columns, required)
        for name in required:
            if _holds_objects(self.table, name):
                raise SourceError(
                    f"{self.describe()}: column '{name}' holds Python objects; convert it to text, numbers, booleans or dates"
                )
            check_type(self.describe(), name, self._table.schema.field(name).type)
        check_layout(self.describe(), self._table.select(list(required)))

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        check_header(self.describe(), self.columns, columns)
        table = self._table.select(list(columns))
        done = 0
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield plain(batch)
            done += batch.num_rows
            if progress is not None:
                progress(done / table.num_rows)

    def describe(self) -> str:
        """Name the kind of table."""
        kind = type(self.table)
        return f"{kind.__module__.partition('.')[0]} {kind.__name__}"


@dataclass(frozen=True, eq=False, repr=False)
class FrameSource:
    """A pandas frame, converted slice by slice."""

    frame: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """The header; the index is not part of it."""
        return tuple(str(name) for name in self.frame.columns)

    def check(self, required: Sequence[str]) -> None:
        """Header and column types."""
        check_header(self.describe(), self.columns, required)
        for name in required:
            check_type(self.describe(), name, self._slice(name, 0, 0).type)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns."""
        check_header(self.describe(), self.columns, columns)
        rows = len(self.frame)
        for start in range(0, rows, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, rows)
            yield plain(
                pa.RecordBatch.from_arrays(
                    [self._slice(name, start, stop) for name in columns], names=list(columns)
                )
            )
            if progress is not None:
                progress(stop / rows)

    def describe(self) -> str:
        """Name the kind of table."""
        return f"pandas {type(self.frame).__name__}"

    def _slice(self, name: str, start: int, stop: int) -> pa.Array:
        column = self.frame.iloc[start:stop, self.columns.index(name)]
        if column.dtype == object:
            return _objects(column)
        if column.dtype == "category" and column.cat.categories.dtype == object:
            codes = column.cat.codes.to_numpy()
            return pa.DictionaryArray.from_arrays(
                pa.array(codes, mask=codes < 0), _objects(column.cat.categories)
            )
        try:
            array = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError, OverflowError):
            raise SourceError(
                f"{self.describe()}: column '{name}' cannot be read; convert it to text or numbers"
            ) from None
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type) and not _is_text(array.type.value_type):
            return array.dictionary_decode()
        return array


def _holds_objects(table: Any, name: str) -> bool:
    """Whether a column of polars holds Python objects, of which Arrow is told the addresses."""
    return type(table).__module__.startswith("polars.") and str(table.schema[name]) == "Object"


def is_frame(data: object) -> bool:
    """Whether this is a pandas frame (found by name: pandas is not imported for the question)."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"
        for kind in type(data).__mro__
    )


def check_type(where: str, name: str, kind: pa.DataType) -> None:
    """Refuse a column whose values are not single values."""
    while (inner := _inner(kind)) is not None:
        kind = inner
    if pa.types.is_nested(kind):
        problem = "holds lists or structures"
    elif pa.types.is_duration(kind) or pa.types.is_interval(kind):
        problem = "holds durations"
    else:
        return
    raise SourceError(f"{where}: column '{name}' {problem}; convert it to text, numbers, booleans or dates")


def _inner(kind: pa.DataType) -> pa.DataType | None:
    """The type of the values that a type lays out in its own way, or means something by."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) else None


def check_layout(where: str, table: pa.Table | pa.RecordBatch) -> None:
    """Refuse columns whose memory is not what their type says: broken UTF-8, indices outside a dictionary."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if not all(_is_valid(chunk) for chunk in chunks):
            raise SourceError(f"{where}: column '{name}' is damaged; write it again as valid Arrow data")


def _is_valid(array: pa.Array) -> bool:
    if pa.types.is_dictionary(array.type):
        # the same as validating in full, but the range of the indices is found ten times as fast
        low, high = (bound.as_py() for bound in pc.min_max(array.indices).values())
        inside = high is None or (low >= 0 and high < len(array.dictionary))
        return inside and _is_valid(array.dictionary)
    try:
        array.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows without the view and run-end layouts that few compute kernels know.

    Types that extend another one are handed on as that one, except UUIDs, which are text as in every database.
    """
    if not any(_is_layout(kind) for kind in batch.schema.types):
        return batch
    arrays = [_laid_out(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _is_layout(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_layout(kind.value_type)
    extends, view = isinstance(kind, pa.BaseExtensionType), _is_view(kind)
    return bool(extends or view or pa.types.is_run_end_encoded(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _laid_out(array: pa.Array) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        uuid = getattr(array.type, "extension_name", "") == "arrow.uuid"
        return _uuids(array.storage) if uuid else _laid_out(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _laid_out(pc.run_end_decode(array))
    if pa.types.is_dictionary(array.type) and _is_layout(array.type.value_type):
        return pa.DictionaryArray.from_arrays(array.indices, _laid_out(array.dictionary))
    if _is_view(array.type):
        return array.cast(pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary())
    return array


def _uuids(array: pa.Array) -> pa.Array:
    """Sixteen bytes each as text.

    >>> _uuids(pa.array([bytes(range(16)), None], pa.binary(16))).to_pylist()
    ['00010203-0405-0607-0809-0a0b0c0d0e0f', None]
    """
    stored = array.fill_null(bytes(16))
    raw = stored.buffers()[1][stored.offset * 16 :][: len(stored) * 16].to_pybytes()
    spelled = np.full((len(stored), 36), ord("-"), dtype=np.uint8)
    digits = np.frombuffer(raw.hex().encode(), dtype=np.uint8).reshape(-1, 32)
    start = 0
    for length, at in ((8, 0), (4, 9), (4, 14), (4, 19), (12, 24)):
        spelled[:, at : at + length] = digits[:, start : start + length]
        start += length
    text = pa.array(spelled.view("S36").ravel(), pa.binary()).cast(pa.string())
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _objects(column: Any) -> pa.Array:
    """Python objects as text, value by value."""
    try:
        return pa.array(column, type=pa.string(), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([_text(value) for value in column], type=pa.string())


def _text(value: object) -> str | None:
    """One Python object as text, as it would stand in a CSV file; None when it is missing.

    >>> [_text(v) for v in (True, 3, 3.0, 2.5, None, float("nan"), "F", dt.date(2011, 1, 2))]
    ['true', '3', '3', '2.5', None, None, 'F', '2011-01-02']
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float | np.floating):
        number = float(value)
        if number != number:
            return None
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, dt.date | dt.datetime | dt.time):
        return value.isoformat()
    if isinstance(value, int):
        return str(decimal.Decimal(value))  # Python itself spells no integer of more than 4300 digits
    return str(value)
