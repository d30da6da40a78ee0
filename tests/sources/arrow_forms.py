"""Every type that Arrow has for single values, at its extremes, in every layout in which a column may lie."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa

_LEAST, _MOST = -(2**63), 2**63 - 1
_TICKS = [0, 1, -1, _LEAST, _MOST, 9_467_085_600_000, 86_399_999, 86_400_000]


def _stored(kind: pa.DataType, values: list[int], width: str) -> pa.Array:
    """An array whose memory holds these integers, whether or not they are lawful values of the type."""
    held = np.array([*values, 0], dtype=width)
    valid = np.packbits([True] * len(values) + [False], bitorder="little")
    return pa.Array.from_buffers(kind, len(held), [pa.py_buffer(valid), pa.py_buffer(held)])


def _beyond(kind: pa.DataType) -> pa.Array:
    """Decimals with more digits than their type allows."""
    width = kind.byte_width
    values = [0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))]
    held = b"".join(v.to_bytes(width, "little", signed=True) for v in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(held)])


def extremes() -> dict[str, pa.Array]:
    """One column for every type, with what its memory can hold at most, least and in between."""
    text = [
        "a",
        "",
        " ",
        "\ufeffé\U0001f600",
        "0\x001",
        "1e999",
        "-Infinity",
        "nan",
        "99999-12-31",
        "x" * 5000,
        None,
    ]
    blob = [b"a", b"", b"\xff\xfe\x00", None, b"\xed\xa0\x80"]
    made: dict[str, pa.Array] = {
        "null": pa.nulls(3),
        "bool": pa.array([True, False, None]),
        "utf8": pa.array(text, pa.string()),
        "large_utf8": pa.array(text, pa.large_string()),
        "binary": pa.array(blob, pa.binary()),
        "large_binary": pa.array(blob, pa.large_binary()),
        "fixed_size_binary": pa.array([b"abc", b"\xff\x00\xfe", None], pa.binary(3)),
        "fixed_size_binary_of_none": pa.array([b"", None], pa.binary(0)),
        "float16": pa.array(np.array([0, 1.5, -65504, np.inf, -np.inf, np.nan], np.float16)),
        "date32": _stored(pa.date32(), [0, -1, 2**31 - 1, -(2**31), 109_207_000], "i4"),
        "date64": _stored(pa.date64(), _TICKS, "i8"),
        "uuid": pa.array([uuid.UUID(int=5).bytes, None, uuid.UUID(int=2**128 - 1).bytes], pa.uuid()),
        "json": pa.array(['{"a": 1}', "1", None, "not json"], pa.json_()),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 7, -128, None], pa.int8())),
        "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "t", "v"), pa.array(blob, pa.binary())),
    }  # fmt: skip
    for kind in ("float32", "float64"):
        odd = [0.0, -0.0, 0.5, float("nan"), float("inf"), -float("inf"), 3e38, 1e-45, 2.0**53, None]
        made[kind] = pa.array(odd, kind)
    for bits in (8, 16, 32, 64):
        made[f"int{bits}"] = pa.array([0, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None], f"int{bits}")
        made[f"uint{bits}"] = pa.array([0, 2**bits - 1, None], f"uint{bits}")
    for unit in ("s", "ms"):
        made[f"time32_{unit}"] = _stored(pa.time32(unit), [0, -1, 86_399, 2**31 - 1, -(2**31)], "i4")
    for unit in ("us", "ns"):
        made[f"time64_{unit}"] = _stored(pa.time64(unit), _TICKS, "i8")
    for unit in ("s", "ms", "us", "ns"):
        made[f"timestamp_{unit}"] = _stored(pa.timestamp(unit), _TICKS, "i8")
        made[f"timestamp_{unit}_zoned"] = _stored(pa.timestamp(unit, "Europe/Berlin"), _TICKS, "i8")
        made[f"duration_{unit}"] = _stored(pa.duration(unit), _TICKS, "i8")
    made["timestamp_of_no_zone"] = _stored(pa.timestamp("us", "Nowhere/At_All"), _TICKS, "i8")
    for name, kind in {
        "decimal32": pa.decimal32(9, 2),
        "decimal64": pa.decimal64(18, 0),
        "decimal128": pa.decimal128(38, 10),
        "decimal128_whole": pa.decimal128(5, 0),
        "decimal128_tens": pa.decimal128(5, -3),
        "decimal256": pa.decimal256(76, 20),
        "decimal256_whole": pa.decimal256(76, 0),
    }.items():
        made[name] = _beyond(kind)
    made["decimal"] = pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2))
    months = pa.array([pa.MonthDayNano([1, 2, 3]), None])
    made["interval"] = months
    made["list"] = pa.array([[1], None])
    made["struct"] = pa.array([{"a": dt.date(2011, 1, 2)}, None])
    return made


def _dictionary(array: pa.Array) -> pa.Array:
    indices = pa.array([*reversed(range(len(array))), None, 0], pa.int16())
    return pa.DictionaryArray.from_arrays(indices, array)


def _runs(array: pa.Array) -> pa.Array:
    ends = pa.array([2 * i + 2 for i in range(len(array))], pa.int32())
    kind = pa.run_end_encoded(pa.int32(), array.type)
    return pa.Array.from_buffers(kind, 2 * len(array), [None], children=[ends, array])


def _view(array: pa.Array) -> pa.Array:
    kind = pa.string_view() if pa.types.is_string(array.type) else pa.binary_view()
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        raise NotImplementedError
    return array.cast(kind)


LAYOUTS: dict[str, Callable[[pa.Array], pa.Array | pa.ChunkedArray]] = {
    "plain": lambda a: a,
    "sliced": lambda a: pa.concat_arrays([a, a])[1:-1],
    "chunked": lambda a: pa.chunked_array([a[:1], a[1:1], a[1:]]),
    "dictionary": _dictionary,
    "sliced dictionary": lambda a: _dictionary(a)[1:],
    "dictionary of a slice": lambda a: _dictionary(pa.concat_arrays([a, a])[1:-1]),
    "dictionary in wide indices": lambda a: pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint64()), a),
    "runs": _runs,
    "sliced runs": lambda a: _runs(a)[1:-1],
    "runs of a slice": lambda a: _runs(pa.concat_arrays([a, a])[1:-1]),
    "runs of a dictionary": lambda a: _runs(_dictionary(a)),
    "dictionary of runs": lambda a: _dictionary(_runs(a)),
    "view": _view,
    "sliced view": lambda a: _view(a)[1:],
    "dictionary of views": lambda a: _dictionary(_view(a)),
    "runs of views": lambda a: _runs(_view(a)),
    "sliced runs of views": lambda a: _runs(_view(a))[1:],
    "runs of a dictionary of views": lambda a: _runs(_dictionary(_view(a))),
}


def forms() -> dict[str, pa.ChunkedArray]:
    """Every type in every layout that Arrow can make of it."""
    made = {}
    for name, array in extremes().items():
        for layout, lay in LAYOUTS.items():
            try:
                laid = lay(array)
                chunked = laid if isinstance(laid, pa.ChunkedArray) else pa.chunked_array([laid])
            except (pa.ArrowException, NotImplementedError, TypeError):
                continue
            made[f"{name}, {layout}"] = chunked
    return made
