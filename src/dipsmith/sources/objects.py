"""Python objects and pandas columns as Arrow arrays, whatever the objects do.

How a column is read depends on its dtype alone, how a value is read on that value alone. An object may be anything:
text that no encoding has, a subclass that answers otherwise than its base, a method that raises. Texts and numbers
are read by the methods of their base classes, everything else is asked for its text; an object that does not give
one is missing. Nothing that it raises is passed on: its message might quote the value.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa

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
