"""How a column lies in memory: which types can be read, what damage is, and one layout for all readers.

Arrow has many layouts for the same values: dictionaries, run ends, views, types that extend other types, any of
them inside another. Readers know the plain ones and dictionaries of them; `make_plain` makes those of all others.

What is refused, and why it tells nothing about a row:

* by type (`check_type`): lists, structures, durations. A table of that type without rows is refused as well.
* as damaged (`check_layout`): memory that does not hold what the *format* says, whatever its values mean: offsets
  that do not grow or point beyond the data, text that is not UTF-8, indices outside their dictionary, run ends that
  do not grow, views into nowhere, buffers that are too short, a count of nulls that is not theirs. That is syntax,
  as quotes and field counts are in a CSV file.

What a value *means* is no syntax: a day in the year 300000, a time of day beyond midnight, a date in milliseconds
that is no midnight, a decimal with more digits than its type promises. Arrow's own full validation refuses those,
so numbers and times are validated as the bits they are stored as (`_bits`), and read by the schema's policy.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import SourceError

BATCH_ROWS = 1 << 17


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
    """Refuse columns whose memory is not laid out as the format says; what the values mean is not looked at."""
    for name, column in zip(table.schema.names, table.columns, strict=True):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if not all(_is_sound(chunk) for chunk in chunks):
            raise SourceError(f"{where}: column '{name}' is damaged; write it again as valid Arrow data")


def _is_sound(array: pa.Array) -> bool:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _is_sound(array.storage)
    if pa.types.is_dictionary(kind):
        # the same as validating in full, but the range of the indices is found ten times as fast
        low, high = (bound.as_py() for bound in pc.min_max(array.indices).values())
        inside = high is None or (low >= 0 and high < len(array.dictionary))
        return inside and _is_sound(array.dictionary)
    if pa.types.is_run_end_encoded(kind):
        return _validates(_run_ends(array)) and _is_sound(array.values)
    return _validates(_bits(array))


def _validates(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _run_ends(array: pa.Array) -> pa.Array:
    """The runs of an array without their values."""
    ends = array.run_ends
    kind = pa.run_end_encoded(ends.type, pa.null())
    nothing = pa.nulls(len(array.values))
    return pa.Array.from_buffers(kind, len(array), [None], 0, array.offset, children=[ends, nothing])


def _bits(array: pa.Array) -> pa.Array:
    """Numbers and times as the bits they are stored as, of which every pattern is lawful."""
    kind = array.type
    if pa.types.is_decimal(kind):
        return array.view(pa.binary(kind.byte_width))
    if pa.types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return array


def make_plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows without the view and run-end layouts that few compute kernels know.

    Types that extend another one are handed on as that one, except UUIDs, which are text as in every database.
    """
    if not any(map(_is_layout, batch.schema.types)):
        return batch
    return pa.RecordBatch.from_arrays([lay_out(array) for array in batch.columns], names=batch.schema.names)


def _is_layout(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_layout(kind.value_type) or pa.types.is_dictionary(kind.value_type)
    extends, view = isinstance(kind, pa.BaseExtensionType), _is_view(kind)
    return bool(extends or view or pa.types.is_run_end_encoded(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def lay_out(array: pa.Array) -> pa.Array:
    """The same values as a plain array, or as a dictionary of plain values; from the outside inwards.

    >>> runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array(["a", "b"]).cast(pa.string_view()))
    >>> lay_out(runs[1:]).to_pylist()
    ['a', 'b']
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        uuid = getattr(kind, "extension_name", "") == "arrow.uuid"
        return _uuids(array.storage) if uuid else lay_out(array.storage)
    if pa.types.is_run_end_encoded(kind):
        # not by Arrow's own decoding, which knows few types of values
        first, count = array.find_physical_offset(), array.find_physical_length()
        ends = array.run_ends.slice(first, count).to_numpy(zero_copy_only=False)
        runs = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), side="right")
        values = lay_out(array.values.slice(first, count))
        places = pa.array(runs, pa.int64())
        # long texts in long runs would not fit into memory one by one
        return values.take(places) if _is_short(values.type) else pa.DictionaryArray.from_arrays(places, values)
    if _is_layout(kind) and pa.types.is_dictionary(kind):
        values = lay_out(array.dictionary)
        if pa.types.is_dictionary(values.type):
            return pa.DictionaryArray.from_arrays(values.indices.take(array.indices), values.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values)
    if _is_view(kind):
        return array.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
    return array


def _is_short(kind: pa.DataType) -> bool:
    tests = (pa.types.is_dictionary, pa.types.is_null, pa.types.is_primitive, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _uuids(array: pa.Array) -> pa.Array:
    """Sixteen bytes each as text.

    >>> _uuids(pa.array([bytes(range(16)), None], pa.binary(16))).to_pylist()
    ['00010203-0405-0607-0809-0a0b0c0d0e0f', None]
    """
    stored = array.fill_null(bytes(16))
    raw = stored.buffers()[1][stored.offset * 16 :][: len(stored) * 16].to_pybytes()
    digits = pa.array(np.frombuffer(raw.hex().encode(), dtype="S32"), pa.binary()).cast(pa.string())
    text = pc.replace_substring_regex(digits, "^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-")
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))
