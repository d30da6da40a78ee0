"""Arrow arrays → plain arrays of one kind: texts, numbers, truth values, days, microseconds.

Each function takes an array of any Arrow type and returns the values with a mask of those that could
be read (None when all could). Each decides value by value, by one path: there is no "try the fast
conversion, fall back if it raises", because then one unreadable value would change how the other
rows of its batch are read. Nothing here raises because of a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.codec.spelled import parts_of_date, plain_numbers
from dipsmith.schema import Bins
from dipsmith.schema.spelling import Spelling

KnownMask = Bools | None

_NUMBER = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity))$"
_DATE = r"^(?P<y>[0-9]{4})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})"
_TIME = r"(?:[T ](?P<H>[0-9]{2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.(?P<f>[0-9]{1,9}))?)?"
_ZONE = r"(?P<z>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
TRUE, FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")

_DAY = 86_400_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def texts(array: pa.Array) -> pa.Array:
    """Values as text without the spaces around them; empty text and NaN are null.

    >>> texts(pa.array([" a ", "", None])).to_pylist()
    ['a', None, None]
    >>> texts(pa.array([60.0, 0.5, float("nan")])).to_pylist()
    ['60', '0.5', None]
    """
    kind = array.type
    if is_text(kind):
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            target = pa.string() if pa.types.is_binary(kind) else pa.large_string()
            array = pc.cast(array, options=pc.CastOptions(target_type=target, allow_invalid_utf8=True))
        # bytes, not characters: trimming must not raise on text that is not valid UTF-8
        trimmed = pc.ascii_trim(array, characters=" ")
        empty = pc.equal(pc.binary_length(trimmed), 0)
        return pc.if_else(empty, pa.scalar(None, trimmed.type), trimmed)
    if pa.types.is_floating(kind):
        return _number_texts(array.cast(pa.float64()))
    if pa.types.is_decimal(kind) and kind.scale != 0:
        return _number_texts(_floats(array.cast(pa.string())))
    if pa.types.is_date64(kind):
        # not always a midnight; Arrow's own spelling of other moments cuts off towards 1970
        limits = np.iinfo(np.int32)
        whole = np.clip(_ticks(array) // 86_400_000, limits.min, limits.max).astype(np.int32)
        return (
            pa.array(whole, mask=~array.is_valid().to_numpy(zero_copy_only=False)).cast(pa.date32()).cast(pa.string())
        )
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).cast(pa.timestamp(kind.unit)).cast(pa.string())
    if pa.types.is_time(kind):
        # without the zeros that only the unit adds, as databases write times of day
        return pc.replace_substring_regex(array.cast(pa.string()), r"(\.[0-9]*[1-9])0+$|\.0+$", r"\1")
    if any(test(kind) for test in (pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_date)):
        return array.cast(pa.string())
    return pa.nulls(len(array), pa.string())


def _number_texts(array: pa.Array) -> pa.Array:
    """Floats as text, whole ones without a point: codes read as floats are codes again."""
    array = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
    whole = pc.and_(pc.equal(array, pc.floor(array)), pc.less(pc.abs(array), 2.0**53))
    integers = pc.if_else(whole, array, pa.scalar(None, pa.float64())).cast(pa.int64())
    return pc.coalesce(integers.cast(pa.string()), array.cast(pa.string()))


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text, or bytes that may be."""
    plain = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    others = (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in (*plain, *others))


def numbers(array: pa.Array, spelling: Spelling | None = None) -> tuple[NDArray[Any], KnownMask]:
    """Values as int64 (from integers that it can hold) or float64 (from anything else), never NaN where known.

    >>> numbers(pa.array(["34", "3.4e1", "x", " +7 "]))[0][[0, 1, 3]].tolist()
    [34.0, 34.0, 7.0]
    >>> numbers(pa.array(["22.842,69 €"]), Spelling(",", ".", bare=False))[0].tolist()
    [22842.69]
    """
    if pa.types.is_uint64(array.type):
        array = array.cast(pa.float64(), safe=False)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    kind = array.type
    if pa.types.is_integer(kind):
        return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), _valid(array)
    if is_text(kind):
        array = _floats(texts(array) if spelling is None else plain_numbers(texts(array), spelling))
    elif pa.types.is_decimal(kind):
        # by way of text, which is read exactly: Arrow's own conversion of a 256-bit 60.00000 is not 60
        array = _floats(array.cast(pa.string()))
    elif pa.types.is_floating(kind):
        array = array.cast(pa.float64())
    else:
        array = pa.nulls(len(array), pa.float64())
    values = array.fill_null(np.nan).to_numpy(zero_copy_only=False)
    unreadable = np.isnan(values)
    return values, ~unreadable if unreadable.any() else None


def _floats(text: pa.Array) -> pa.Array:
    """Trimmed text as float64, null where it is no number."""
    readable = pc.match_substring_regex(text, _NUMBER)
    clean = pc.if_else(pc.fill_null(readable, False), text, pa.scalar(None, text.type))
    # a leading plus is a number to people but not to every version of Arrow
    return pc.ascii_ltrim(clean, characters="+").cast(pa.float64())


def booleans(array: pa.Array) -> tuple[Bools, Bools]:
    """Truth values and which could be read: true/false, yes/no, t/f, y/n in any case, 1 and 0.

    >>> [a.tolist() for a in booleans(pa.array(["Yes", "0", "maybe"]))]
    [[True, False, False], [True, True, False]]
    """
    if pa.types.is_boolean(array.type):
        return array.fill_null(False).to_numpy(zero_copy_only=False), array.is_valid().to_numpy(zero_copy_only=False)
    if is_text(array.type):
        lower = pc.ascii_lower(texts(array))
        yes, no = (_among(lower, words) for words in (TRUE, FALSE))
        values, known = numbers(array)
        number = np.ones(len(values), dtype=bool) if known is None else known
        return yes | number & (values == 1), yes | no | number & ((values == 1) | (values == 0))
    values, known = numbers(array)
    read = (values == 0) | (values == 1)
    return values == 1, read if known is None else read & known


def _among(text: pa.Array, words: tuple[str, ...]) -> Bools:
    found = pc.index_in(text, value_set=pa.array(words, text.type))
    return found.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def days(array: pa.Array, spelling: Spelling | None = None) -> tuple[Ints, KnownMask]:
    """Days since 1970-01-01; a moment counts as its day in UTC.

    >>> days(pa.array(["1970-01-02", "2021-02-30"]))[1].tolist()
    [True, False]
    """
    per_day = _per_day(array.type)
    if per_day is not None:
        return _ticks(array) // per_day, _valid(array)
    found, known = moments(array, spelling)
    return found // _DAY, known


def microseconds(array: pa.Array, low: int, high: int, spelling: Spelling | None = None) -> tuple[Ints, KnownMask]:
    """Microseconds since 1970-01-01 in UTC, clipped to [low, high] where the unit could overflow."""
    per_day = _per_day(array.type)
    if per_day is None:
        return moments(array, spelling)
    if per_day > _DAY:
        return _ticks(array) // (per_day // _DAY), _valid(array)
    step = _DAY // per_day
    return np.clip(np.clip(_ticks(array), low // step, high // step + 1) * step, low, high), _valid(array)


def _per_day(kind: pa.DataType) -> int | None:
    """Ticks per day of a date or timestamp type; None for the others."""
    if pa.types.is_date32(kind):
        return 1
    if pa.types.is_date64(kind):
        return 86_400_000
    return 86_400 * _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else None


def _ticks(array: pa.Array) -> Ints:
    """Dates and timestamps as the integers they are stored as; zoned ones are stored in UTC."""
    stored = array.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(array.type) else array.cast(pa.int64())
    return stored.fill_null(0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def moments(array: pa.Array, spelling: Spelling | None = None) -> tuple[Ints, KnownMask]:
    """Text, in ISO 8601 or as it is spelled, as microseconds; impossible dates and times are not known."""
    if spelling is not None and pa.types.is_integer(array.type):
        array = array.cast(pa.string())  # 20111231
    if not is_text(array.type):
        return np.zeros(len(array), dtype=np.int64), np.zeros(len(array), dtype=bool)
    text = texts(array)
    text = text.cast(pa.string()) if text.nbytes < 1 << 31 else text
    fields = (
        pc.extract_regex(text, pattern=_DATE + _TIME + _ZONE) if spelling is None else parts_of_date(text, spelling)
    )
    known = fields.is_valid().to_numpy(zero_copy_only=False)

    def part(name: str) -> Ints:
        digits = fields.field(name)
        filled = pc.if_else(pc.fill_null(pc.equal(pc.binary_length(digits), 0), True), "0", digits)
        return filled.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    year, month, day = part("y"), part("m"), part("d")
    hour, minute, second = part("H"), part("M"), part("S")
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    length = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64) - first
    known &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    known &= (hour <= 23) & (minute <= 59) & (second <= 59)
    shift, fine = _offsets(fields.field("z"))
    known &= fine
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(fields.field("f"), ""), 6, "0"), 0, 6)
    micros = fraction.cast(pa.int64()).to_numpy(zero_copy_only=False)
    total = ((first + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second - shift * 60) * 1_000_000 + micros
    return np.where(known, total, 0), known


def _offsets(zone: pa.Array) -> tuple[Ints, Bools]:
    """Minutes east of UTC, and which are possible."""
    digits = pc.replace_substring_regex(pc.fill_null(zone, ""), "[Z:+-]", "")
    padded = pc.utf8_rpad(digits, 4, "0")
    value = padded.cast(pa.int64()).to_numpy(zero_copy_only=False)
    west = pc.starts_with(pc.fill_null(zone, ""), "-").to_numpy(zero_copy_only=False)
    minutes = value // 100 * 60 + value % 100
    return np.where(west, -minutes, minutes), (value // 100 <= 23) & (value % 100 <= 59)


def _valid(array: pa.Array) -> KnownMask:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def values_of(column: pa.Array, domain: Bins, beyond: int = 0) -> tuple[NDArray[Any], KnownMask]:
    """The numbers of a column, days and moments as integers, and which are readable (None: all).

    Moments whose unit could overflow are clipped to the bounds, or so many microseconds beyond them.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if domain.scale == "date":
        return days(column, domain.spelling)
    if domain.scale == "datetime":
        return microseconds(column, int(domain.minimum) - beyond, int(domain.maximum) + beyond, domain.spelling)
    return numbers(column, domain.spelling)
