"""Encoding: every policy, every way a value can arrive, and that a row never depends on another."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_strategies import schemas

from dipsmith.codec import Encoder
from dipsmith.errors import SchemaError, SourceError
from dipsmith.schema import Attribute, Bins, Categories, Schema, Unit

INF, NAN = float("inf"), float("nan")


def schema_of(neighbours: str = "add-remove", **entry: Any) -> Schema:
    data = {"name": "t", "unit": "row", "neighbours": neighbours, "fields": [{"name": "x"} | entry]}
    return Schema.from_dict(data)


def encode(schema: Schema, values: Any, kind: pa.DataType | None = None) -> list[int | None]:
    """Codes of one column; None where the row is not kept."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    codes, keep = Encoder(schema).encode(pa.record_batch({"x": array}))
    return [int(c) if k else None for c, k in zip(codes["x"], keep, strict=True)]


SEX = {"type": "string", "enum": ["F", "M", "X"]}
VALUES = ["F", "M", " X  ", "", "   ", None, "new", "f", "=1+1"]


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        ({}, [0, 1, 2, None, None, None, None, None, None]),
        ({"other": "M"}, [0, 1, 2, 1, 1, 1, 1, 1, 1]),
        ({"missing": True}, [0, 1, 2, 3, 3, 3, 3, 3, 3]),
        ({"other": "M", "missing": True}, [0, 1, 2, 3, 3, 3, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "dictionary", "run-end"])
def test_categories(entry: dict[str, Any], codes: list[int | None], kind: str) -> None:
    array = pa.array(VALUES)
    if kind == "dictionary":
        array = array.dictionary_encode()
    elif kind == "run-end":
        array = pa.compute.run_end_encode(array)
    else:
        array = array.cast(getattr(pa, kind)())
    assert encode(schema_of(**SEX, **entry), array) == codes


def test_a_dictionary_with_a_null_or_a_repeated_value() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), pa.array(["F", None, "M"]))
    assert encode(schema_of(**SEX, missing=True), array) == [0, 3, 1, 3]
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["F", "F "]))
    assert encode(schema_of(**SEX, missing=True), array) == [0, 0]


def test_a_sliced_array_is_read_from_its_offset() -> None:
    schema = schema_of(**SEX, other="X")
    for array in (pa.array(["M", "F", None, "M"]), pa.array(["M", "F", None, "M"]).dictionary_encode()):
        assert encode(schema, array.slice(1, 2)) == [0, 2]
    assert encode(schema_of(type="integer", minimum=0, maximum=9), pa.array([7, None, 3]).slice(1)) == [0, 3]


def test_bytes_that_are_not_text_are_values_outside() -> None:
    assert encode(schema_of(**SEX, other="X"), pa.array([b"F", b"\xff\xfe", b" M"])) == [0, 2, 1]
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    for schema in (
        schema_of(**SEX, other="X"),
        schema_of(type="integer", minimum=0, maximum=3),
        schema_of(type="date", minimum="2020-01-01", maximum="2020-01-09"),
        schema_of(type="boolean"),
    ):
        assert encode(schema, broken) == [2 if "sex" in schema.names or schema["x"].type == "string" else 0]


def test_codes_stay_codes_when_read_as_numbers() -> None:
    schema = schema_of(type="string", enum=["60", "601", "0.5"], missing=True)
    expected = [0, 1, 3]
    assert encode(schema, [60, 601, None]) == expected
    assert encode(schema, [60.0, 601.0, NAN]) == expected
    assert encode(schema, [Decimal("60.00"), Decimal("601.00"), None]) == expected
    assert encode(schema, [Decimal(60), Decimal(601), None], pa.decimal256(60, 5)) == expected
    assert encode(schema, [Decimal(60), Decimal(601), None], pa.decimal256(50, 0)) == expected
    assert encode(schema, [60, 601, 7], pa.uint16()) == expected
    assert encode(schema, [0.5, 60.5, INF]) == [2, 3, 3]
    assert encode(schema, ["060", "60.0"]) == [3, 3]


@pytest.mark.parametrize("missing", [False, True])
def test_integers(missing: bool) -> None:
    schema = schema_of(type="integer", minimum=17, maximum=90, bins={"width": 5}, missing=missing)
    gone = 15 if missing else 0
    assert encode(schema, [17, 21, 22, 90, 16, -(2**63), 2**63 - 1, None]) == [0, 0, 1, 14, 0, 0, 14, gone]
    assert encode(schema, [2**64 - 1, 18, None], pa.uint64()) == [14, 0, gone]
    assert encode(schema, [-128, 127, None], pa.int8()) == [0, 14, gone]
    assert encode(schema, [21.999, 22.0, 90.9, INF, -INF, NAN, None, -0.0]) == [
        0,
        1,
        14,
        14,
        0,
        gone,
        gone,
        0,
    ]
    texts = [
        "21",
        " 22 ",
        "22.7",
        "+22",
        "1e9",
        "inf",
        "-INF",
        "Infinity",
        "nan",
        "",
        "x",
        "0x1F",
        "1_0",
        "٢٢",
        "22,5",
    ]
    assert encode(schema, texts) == [0, 1, 1, 1, 14, 14, 0, 14, *[gone] * 7]
    assert encode(schema, [Decimal("21.99"), None, Decimal("1e9")]) == [0, gone, 14]
    assert encode(schema, [True, False, None]) == [0, 0, gone]
    assert encode(schema, pa.array([dt.date(2020, 1, 1)])) == [gone]
    assert encode(schema, pa.array([[1], None])) == [gone, gone]
    assert encode(schema, pa.nulls(2)) == [gone, gone]


def test_integer_levels() -> None:
    schema = schema_of(type="integer", enum=[12, -3, 10**9], other=12, missing=True)
    assert encode(schema, [12, -3, 10**9, 0, 11, 13, 10**12, None]) == [0, 1, 2, 0, 0, 0, 0, 3]
    assert encode(schema, [12.0, 12.5, -3.0, NAN, INF, 1e9]) == [0, 0, 1, 3, 0, 2]
    assert encode(schema, ["12", "12.0", " -3", "1e9", "", "?"]) == [0, 0, 1, 2, 3, 3]
    assert encode(schema_of(type="integer", enum=[1, 2]), [1, 3, None, 2]) == [0, None, None, 1]
    assert encode(schema_of(type="integer", enum=[1, 2]), ["1", "3", "x", "2.5"]) == [0, None, None, None]


@pytest.mark.parametrize("missing", [False, True])
def test_numbers(missing: bool) -> None:
    schema = schema_of(type="number", minimum=0, maximum=10, bins={"round": 5}, missing=missing)
    gone = 3 if missing else 0
    below = float(np.nextafter(2.5, 0))
    assert encode(schema, [0.0, below, 2.5, 7.5, 10.0, 10.1, -3.0, INF, -INF, NAN, None]) == [
        *[0, 0, 1, 2, 2, 2, 0, 2, 0, gone, gone]
    ]
    assert encode(schema, [0, 3, 99, None]) == [0, 1, 2, gone]
    assert encode(schema, ["2.5", "-inf", "x", " 7.5 ", "1e999", "-1e999"]) == [1, 0, gone, 2, 2, 0]
    assert encode(schema, [2.5, NAN, None], pa.float32()) == [1, gone, gone]
    assert encode(schema, np.array([2.5, np.nan], dtype=np.float16)) == [1, gone]


@pytest.mark.parametrize("missing", [False, True])
def test_booleans(missing: bool) -> None:
    schema = schema_of(type="boolean", missing=missing, neighbours="label")
    gone = 2 if missing else 0
    assert encode(schema, [True, False, None]) == [1, 0, gone]
    assert encode(schema, ["TRUE", "no", " y ", "F", "1", "0.0", "1.0", "", "2", "maybe", None]) == [
        *[1, 0, 1, 0, 1, 0, 1, gone, gone, gone, gone]
    ]
    assert encode(schema, [1, 0, 2, None]) == [1, 0, gone, gone]
    assert encode(schema, [1.0, 0.0, 0.5, NAN]) == [1, 0, gone, gone]


@pytest.mark.parametrize("missing", [False, True])
def test_dates(missing: bool) -> None:
    schema = schema_of(
        type="date", minimum="2020-01-15", maximum="2020-03-31", bins={"width": "month"}, missing=missing
    )
    gone = 3 if missing else 0
    days = [dt.date(2020, 1, 31), dt.date(2020, 2, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
    assert encode(schema, days, pa.date32()) == encode(schema, days, pa.date64()) == [0, 1, 0, 2, gone]
    texts = [
        "2020-01-31",
        " 2020-02-29 ",
        "2021-02-29",
        "2020-02-30",
        "2020-00-10",
        "2020-13-01",
        "20200201",
        "",
        "x",
    ]
    # 2021 is no leap year: its 29 February is no date at all, not a late one
    assert encode(schema, texts) == [0, 1, *[gone] * 7]
    assert encode(schema, ["2020-01-31T23:30:00-01:00", "2020-02-01T00:30:00+01:00", "2020-02-01T24:00:00"]) == [
        *[1, 0, gone]
    ]
    moments = [dt.datetime(2020, 1, 31, 23, 59, 59), dt.datetime(2020, 2, 1), None]
    for unit in ("s", "ms", "us", "ns"):
        assert encode(schema, moments, pa.timestamp(unit)) == [0, 1, gone]
    zoned = pa.array([dt.datetime(2020, 1, 31, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-1)))])
    assert encode(schema, zoned) == [1]
    assert encode(schema, [20200201, 3]) == [gone, gone]


def test_datetimes() -> None:
    schema = schema_of(type="datetime", minimum="2020-01-01", maximum="2020-01-02T12:00", bins={"width": 0.5})
    assert schema["x"].size == 4  # the maximum itself is the fourth bin's only moment
    texts = [
        "2020-01-01T11:59:59.999999",
        "2020-01-01 12:00",
        "2020-01-02T12:00:00",
        "2031-01-01",
        "1020-01-01",
    ]
    assert encode(schema, texts) == [0, 1, 3, 3, 0]
    assert encode(schema, ["2020-01-01T13:00:00.1234567+01", "2020-01-01T12:60", "2020-01-01T12:00+25:00"]) == [1, 0, 0]
    far = pa.array([2**62, -(2**62), None], pa.int64()).cast(pa.timestamp("s"))
    assert encode(schema, far) == [3, 0, 0]
    assert encode(schema, [dt.date(2020, 1, 2)]) == [2]
    for unit in ("s", "ms", "us", "ns"):
        assert encode(
            schema, [dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 1, 11, 59, 59)], pa.timestamp(unit)
        ) == [1, 0]


def test_long_ranges_are_searched() -> None:
    schema = schema_of(type="integer", minimum=-(10**12), maximum=10**12, bins={"edges": [-(10**12), 0, 5, 10**12]})
    assert encode(schema, [-(10**15), -1, 0, 4, 5, 10**15]) == [0, 0, 1, 1, 2, 2]


# The guarantees ----------------------------------------------------------------------------------------------

cells = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats().map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["true", "No", "1", " 0 ", "inf", "NaN", "2021-02-30", "0x1F", "1e400", "\x00", "34.0"]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    schema=schemas(max_fields=3),
    rows=st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=5),
)
def test_a_row_depends_on_itself_alone(schema: Schema, rows: list[list[str | None]]) -> None:
    """The codes of a batch are the codes of its rows, one by one, whatever the values and their order."""
    encoder = Encoder(schema)

    def batch(chosen: list[list[str | None]], kind: pa.DataType | None) -> pa.RecordBatch:
        columns = {n: pa.array([r[i] for r in chosen], pa.string()) for i, n in enumerate(schema.names)}
        return pa.record_batch({n: c.dictionary_encode() if kind else c for n, c in columns.items()})

    whole, keep = encoder.encode(batch(rows, None))
    assert len(whole) == len(rows)
    for i, row in enumerate(rows):
        for kind in (None, pa.int32()):
            alone, kept = encoder.encode(batch([row], kind))
            assert kept[0] == keep[i]
            assert all(alone[n][0] == whole[n][i] for n in schema.names)
    if schema.neighbours != "add-remove":
        assert keep.all()
    for attribute in schema:
        assert (whole[attribute.name] < attribute.size).all()


arrow_values = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.timestamp("s"): st.integers(-(2**63), 2**63 - 1),
    pa.timestamp("ns", "UTC"): st.integers(-(2**63), 2**63 - 1),
    pa.decimal128(38, 10): st.decimals(-(10**20), 10**20, places=10),
    pa.binary(): st.binary(max_size=4),
    pa.time64("us"): st.integers(0, 10**10),
    pa.list_(pa.int8()): st.lists(st.integers(-128, 127), max_size=2),
    pa.duration("s"): st.integers(-(10**9), 10**9),
}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(schema=schemas(max_fields=1), data=st.data())
def test_no_value_of_any_type_fails(schema: Schema, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(arrow_values)))
    values = data.draw(st.lists(st.none() | arrow_values[kind], max_size=6))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        array = pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    else:
        array = pa.array(values, kind)
    (attribute,) = schema.attributes
    encoder = Encoder(schema)
    codes, keep = encoder.encode(pa.record_batch({attribute.name: array}))
    assert (codes[attribute.name] < attribute.size).all()
    for i in range(len(array)):
        alone, kept = encoder.encode(pa.record_batch({attribute.name: array.slice(i, 1)}))
        assert (alone[attribute.name][0], kept[0]) == (codes[attribute.name][i], keep[i])


@settings(max_examples=80, deadline=None)
@given(
    schema=schemas(max_fields=1),
    values=st.lists(st.none() | st.integers(-(2**53) + 1, 2**53 - 1), max_size=6),
)
def test_a_number_means_the_same_in_every_arrow_type(schema: Schema, values: list[int | None]) -> None:
    """One value more that is not whole, or not a number, makes pandas change a column's type."""
    (attribute,) = schema.attributes
    if attribute.type in ("date", "datetime"):
        return
    integers = pa.array(values, pa.int64())
    results = []
    for array in (
        integers,
        integers.cast(pa.float64()),
        integers.cast(pa.string()),
        integers.cast(pa.decimal128(38, 3)),
        integers.cast(pa.decimal256(60, 5)),
    ):
        codes, keep = Encoder(schema).encode(pa.record_batch({attribute.name: array}))
        results.append((codes[attribute.name].tolist(), keep.tolist()))
    assert results.count(results[0]) == len(results)


@settings(max_examples=100, deadline=None)
@given(schema=schemas(max_fields=1), data=st.data())
def test_bins_agree_with_their_edges(schema: Schema, data: st.DataObject) -> None:
    """Table, arithmetic and search all give the bin that the edges name, at the edges above all."""
    (attribute,) = schema.attributes
    domain = attribute.domain
    if not isinstance(domain, Bins) or domain.scale not in ("integer", "number"):
        return
    edges = domain.cuts
    points = np.concatenate(
        [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), (edges[1:] + edges[:-1]) / 2]
    )
    clipped = np.clip(points, domain.minimum, domain.maximum)
    wanted = np.searchsorted(edges[1:-1], np.floor(clipped) if domain.whole else clipped, side="right")
    codes, _ = Encoder(schema).encode(pa.record_batch({attribute.name: points}))
    assert codes[attribute.name].tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_day_are_texts_without_needless_zeros(kind: pa.DataType) -> None:
    schema = schema_of(type="string", enum=["10:20:00", "10:20:30", "10:20:30.5", "00:00:00"], missing=True)
    values = [dt.time(10, 20), dt.time(10, 20, 30), dt.time(0), dt.time(11), None]
    expected = [0, 1, 3, 4, 4]
    if kind.unit != "s":
        values, expected = [*values, dt.time(10, 20, 30, 500_000)], [*expected, 2]
    assert encode(schema, values, kind) == expected


@pytest.mark.parametrize("kind", [pa.uint64(), pa.float64(), pa.decimal128(20, 0)], ids=str)
def test_numbers_that_64_bits_with_a_sign_cannot_hold(kind: pa.DataType) -> None:
    values = [2**64 - 1, 2**63 + 5, 94 * 10**17, 12 * 10**18, 7, None]
    bins = schema_of(type="number", bins={"edges": [0, 9.3e18, 1e19, 1.5e19, 2e19]}, missing=True)
    listed = schema_of(type="integer", enum=[7, 8], other=8, missing=True)
    whole = schema_of(type="integer", minimum=0, maximum=9, missing=True)
    array = pa.array([None if v is None else str(v) for v in values])
    assert encode(bins, array) == [3, 0, 1, 2, 0, 4]
    for schema in (bins, listed, whole):
        assert encode(schema, array.cast(kind)) == encode(schema, array)


@pytest.mark.parametrize(
    "edges",
    [
        [-100, 0, 1, 2, 3, 4, 100],
        [-1e12, 0, 1, 2, 3, 1e12],
        [-1e307, -1e-300, 0, 1e-300, 1e307],
        [-1e308, -2, -1, 0, 7e307],
        [-(2.0**53) - 4, -(2.0**53), -(2.0**53) + 1, -(2.0**53) + 2, 0],
    ],
    ids=str,
)
def test_outer_bins_may_be_wider_than_the_others(edges: list[float]) -> None:
    """Evenly spaced inner edges are found by arithmetic, which must hold far out as well."""
    schema = schema_of(type="number", bins={"edges": edges})
    ends = np.array(edges)
    points = np.concatenate(
        [ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf), ends / 2, ends / 33, [INF, -INF]]
    )
    wanted = np.searchsorted(ends[1:-1], points, side="right")
    assert encode(schema, points.tolist(), pa.float64()) == wanted.tolist()


LONG: list[tuple[dict[str, Any], list[Any]]] = [
    (SEX | {"other": "X"}, ["F", "M ", "new", None, ""]),
    ({"type": "integer", "minimum": 0, "maximum": 9, "missing": True}, ["3", " 4", "x", None, "1e9", "7.9"]),
    ({"type": "number", "minimum": 0, "maximum": 9, "missing": True}, [0.0, 3.3, NAN, None, INF, -INF, 8.99]),
    ({"type": "date", "minimum": "2020-01-01", "maximum": "2020-12-31"}, ["2020-03-01", "2020-02-30", None]),
    ({"type": "boolean", "missing": True}, ["yes", "No", "?", None]),
]


NUMERALS = [{"minimum": 2, "maximum": 9}, {"minimum": -3, "maximum": 9}, {"enum": [2, 5, 9], "other": 5}]


@pytest.mark.parametrize("entry", NUMERALS, ids=["bins", "bins below 0", "levels"])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("far", [[], [17], [18], [-1], [2**31 - 1], [-(2**31)]], ids=str)
def test_integers_in_a_long_column_are_clipped_as_in_a_short_one(
    entry: dict[str, Any], kind: pa.DataType, far: list[int]
) -> None:
    """Where nothing is far beyond the bounds, values are looked up as they are."""
    schema = schema_of(type="integer", **entry)
    values = [*range(12), *far]
    column = np.resize(values, 20_000)
    codes, keep = Encoder(schema).encode(pa.record_batch({"x": pa.array(column, kind)}))
    assert keep.all()
    assert codes["x"].tolist() == np.resize(encode(schema, values, kind), 20_000).tolist()


@pytest.mark.parametrize(("entry", "values"), LONG, ids=[str(e["type"]) for e, _ in LONG])
def test_a_long_column_is_encoded_like_its_values(entry: dict[str, Any], values: list[Any]) -> None:
    """Long enough to be looked at in blocks, and through a dictionary where values repeat."""
    schema = schema_of(**entry)
    short = np.array(encode(schema, values))
    which = np.random.default_rng(0).integers(0, len(values), 70_001)
    column = pa.array(values).take(pa.array(which))
    codes, keep = Encoder(schema).encode(pa.record_batch({"x": column}))
    assert keep.all()
    assert (codes["x"] == short[which]).all()


def test_missing_and_doubled_columns_fail_before_any_value() -> None:
    schema = schema_of(type="boolean")
    with pytest.raises(SourceError, match=r"column 'x' .* nowhere"):
        Encoder(schema).encode(pa.record_batch({"y": [1]}))
    doubled = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(SourceError, match=r"column 'x' .* twice"):
        Encoder(schema).encode(doubled)


def test_rows_cannot_be_dropped_under_replace() -> None:
    schema = Schema("t", (Attribute("x", "string", Categories.of("ab")),), Unit(), "replace")
    with pytest.raises(SchemaError, match="column 'x'"):
        Encoder(schema)


def test_only_the_columns_asked_for_are_read() -> None:
    data = {
        "name": "t",
        "unit": "row",
        "neighbours": "replace",
        "fields": [{"name": n, "type": "boolean"} for n in ("a", "b", "c")],
    }
    table = pa.table({"c": [True], "a": [True]})
    codes, _ = Encoder(Schema.from_dict(data), columns=["c", "a"]).encode(table)
    assert codes.names == ("a", "c")
    empty, keep = Encoder(Schema.from_dict(data), columns=["a"]).encode(table.slice(0, 0))
    assert (len(empty), len(keep)) == (0, 0)
    chunked = pa.chunked_array([pa.array(["yes"]), pa.array([], pa.string()), pa.array(["no"])])
    codes, _ = Encoder(Schema.from_dict(data), columns=["a"]).encode(pa.table({"a": chunked}))
    assert codes["a"].tolist() == [1, 0]
    assert len(Encoder(Schema.from_dict(data), columns=[]).encode(table)[0]) == 1
