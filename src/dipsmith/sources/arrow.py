"""Tables in memory: pyarrow, polars, and whatever else speaks the Arrow C stream; and pandas frames.

Guarantee: what a batch says about one row depends on that row and on the types of the table, never on
the values of other rows. Arrow tables carry their types. A pandas column of Python objects does not, so
each of its values becomes text by itself; no type is inferred from the rows. A frame's
index is never read.

Whether a table is refused depends on its types and on damage to its memory (`layout`), never on what a value means:
a table that is refused is refused without its rows too.

Of pandas columns: how a column is read depends on its dtype alone, how a value is read on that value alone. An object
may be anything: text that no encoding has, a subclass that answers otherwise than its base, a method that raises. Texts
and numbers are read by the methods of their base classes, everything else is asked for its text; an object that does
not give one is missing. Nothing that it raises is passed on: its message might quote the value.
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

from dipsmith.errors import SourceError
from dipsmith.sources.fingerprint import of_columns
from dipsmith.sources.header import check_header
from dipsmith.sources.layout import BATCH_ROWS, check_layout, check_type, make_plain
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


_READ = ("ArrowDtype", "PeriodDtype", "IntervalDtype")
_MASKED = ("BaseMaskedDtype", "NumericDtype", "BooleanDtype")


def column_array(column: Any) -> pa.Array | pa.ChunkedArray | None:
    """A pandas column, or an index, as Arrow data; None where its dtype cannot be read, with rows or without."""
    kind = column.dtype
    if isinstance(kind, np.dtype):
        if kind.kind == "O":
            return objects(column)
        # without the index, and without what pandas thinks of the values
        known = kind.kind in "bM" or (kind.kind in "iufm" and kind.itemsize <= 8)
        return pa.array(column.to_numpy(kind.newbyteorder("=")), from_pandas=True) if known else None
    names = _names(kind)
    if "StringDtype" in names:
        return objects(column) if kind.storage == "python" else pa.array(column.array)
    if "CategoricalDtype" in names:
        return _categories(column)
    if "DatetimeTZDtype" in names:
        return _to_utc(column.array)
    if "SparseDtype" in names:
        return column_array(column.sparse.to_dense())
    known = any(name in names for name in (*_READ, *_MASKED))
    return pa.array(column.array, from_pandas=True) if known else None


def _to_utc(moments: Any) -> pa.Array:
    """Points in time, in UTC where Arrow has no name for their zone."""
    try:
        pa.array(moments[:0])
    except (pa.ArrowException, TypeError, ValueError):
        moments = moments.tz_convert("UTC")
    return pa.array(moments, from_pandas=True)


def holds_arrow(kind: Any) -> bool:
    """Whether there is Arrow memory behind a pandas dtype."""
    names = _names(kind)
    if "CategoricalDtype" in names:
        return holds_arrow(kind.categories.dtype)
    return "ArrowDtype" in names or ("StringDtype" in names and kind.storage != "python")


def _names(kind: Any) -> list[str]:
    """What pandas calls a dtype and its bases: pandas is not imported for the question."""
    return [base.__name__ for base in type(kind).__mro__ if base.__module__.partition(".")[0] == "pandas"]


def _categories(column: Any) -> pa.Array | pa.ChunkedArray | None:
    values = column_array(column.cat.categories)
    if values is None:
        return None
    codes = column.cat.codes.to_numpy()
    indices = pa.array(codes, mask=codes < 0)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pa.DictionaryArray.from_arrays(indices, values)
    return values.take(indices)


def objects(column: Any) -> pa.Array:
    """Python objects as text, value by value.

    >>> objects(["F", 3.0, None]).to_pylist()
    ['F', '3', None]
    """
    if all(type(value) is str or value is None for value in column):
        try:
            return pa.array(column, type=pa.string(), from_pandas=True)
        except (pa.ArrowException, ValueError):
            pass  # text that no encoding has; Arrow is given nothing else, since it calls methods of what it is given
    return pa.array([text_of(value) for value in column], type=pa.string())


def text_of(value: object) -> str | None:
    """One Python object as text, as it would stand in a CSV file; None when it is missing or has none.

    >>> [text_of(v) for v in (True, 3, 3.0, 2.5, None, float("nan"), "F", dt.date(2011, 1, 2))]
    ['true', '3', '3', '2.5', None, None, 'F', '2011-01-02']
    """
    try:
        return _spell(value)
    except KeyboardInterrupt:
        pass  # Ctrl-C must end the run; raised anew below, so that nothing a value says comes with it
    except BaseException:  # noqa: BLE001  # code of the value's own, which may raise anything, SystemExit too
        return None
    raise KeyboardInterrupt


def _spell(value: object) -> str | None:
    # by the type, and by the base's own methods: what an object says it is, is code of its own
    kind = type(value)
    if issubclass(kind, str):
        return str.encode(value, "utf-8", "replace").decode()  # type: ignore[arg-type]
    if issubclass(kind, bytes | bytearray | memoryview):
        return memoryview(value).tobytes().decode("utf-8", "replace")  # type: ignore[arg-type]
    if issubclass(kind, bool | np.bool_):
        return "true" if value else "false"
    if value is None or kind.__name__ in ("NAType", "NaTType"):
        return None
    if issubclass(kind, float | np.floating):
        return _number(float.__float__(value) if issubclass(kind, float) else float(value))  # type: ignore[arg-type]
    if issubclass(kind, decimal.Decimal):
        return None if decimal.Decimal.is_nan(value) else decimal.Decimal.__str__(value)  # type: ignore[arg-type]
    if issubclass(kind, int):
        # Python itself spells no integer of more than 4300 digits
        return str(decimal.Decimal(int.__int__(value)))  # type: ignore[arg-type]
    if issubclass(kind, dt.date | dt.datetime | dt.time):
        return _require_text(value.isoformat())  # type: ignore[attr-defined]
    return _require_text(str(value))


def _number(number: float) -> str | None:
    if number != number:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _require_text(text: object) -> str | None:
    """What an object gave for its text, if it is one."""
    return str.encode(text, "utf-8", "replace").decode() if issubclass(type(text), str) else None  # type: ignore[arg-type]
