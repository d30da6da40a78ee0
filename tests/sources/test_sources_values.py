"""No value makes a run fail: what is refused is refused by its type, so also where the table has no rows."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from arrow_forms import extremes, forms

from dipsmith.codec.encode import Encoder
from dipsmith.counting import BatchRows
from dipsmith.counting.units import unit_text
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.schema.bins import by_calendar, by_edges, by_width, point
from dipsmith.sources import source
from dipsmith.sources.arrow import text_of
from dipsmith.synthesis.canonical import PublicColumn, as_type, canonical_type
from dipsmith.synthesis.exit import TYPES

SECRET = "s3cr3t"
FORMS = forms()
ATTRIBUTES = (
    Attribute("x", "string", Categories.of(["a", "1"], other="1", missing=True)),
    Attribute("x", "integer", Categories.of(["1", "2"], other="1", missing=True)),
    Attribute("x", "integer", by_width("integer", 0, 99, 5)),
    Attribute("x", "number", by_edges("number", [0, 1.5, 3])),
    Attribute.boolean("x"),
    Attribute("x", "date", by_calendar("date", point("date", "2009-06-15"), point("date", "2012-12-31"), "month")),
    Attribute(
        "x",
        "datetime",
        by_calendar("datetime", point("datetime", "2009-06-15"), point("datetime", "2012-12-31"), "month", missing=True),
    ),
)  # fmt: skip
ENCODERS = [Encoder(Schema("t", (attribute,), Unit(), "replace")) for attribute in ATTRIBUTES]


def outcome(data: object) -> str:
    """Why a table is refused, or that it is read, encoded as every kind of attribute, and as a unit."""
    found = source(data)
    try:
        found.check(["x"])
    except SourceError as refused:
        return str(refused).rpartition(": ")[2]
    for batch in found.batches(["x"]):
        for encoder in ENCODERS:
            codes, keep = encoder.encode(batch)
            assert keep.all()
            assert len(codes) == batch.num_rows
        assert unit_text(batch.column(0)).null_count == 0
    return "read"


def reader(table: pa.Table, folder: Path) -> object:
    del folder
    return table.to_reader(max_chunksize=max(1, (table.num_rows + 1) // 2))  # more than one batch, and few


def batch(table: pa.Table, folder: Path) -> object:
    del folder
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)


def polars(table: pa.Table, folder: Path) -> object:
    del folder
    return pl.from_arrow(table)


def pandas(table: pa.Table, folder: Path) -> object:
    del folder
    kind = table.schema.field("x").type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType):
        raise NotImplementedError
    return table.to_pandas()


def pandas_of_arrow(table: pa.Table, folder: Path) -> object:
    del folder
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def parquet(table: pa.Table, folder: Path) -> object:
    pq.write_table(table, folder / "x.parquet", row_group_size=2)
    return folder / "x.parquet"


def old_parquet(table: pa.Table, folder: Path) -> object:
    pq.write_table(table, folder / "x.parquet", use_deprecated_int96_timestamps=True, use_dictionary=False)
    return folder / "x.parquet"


def csv(table: pa.Table, folder: Path) -> object:
    path = folder / "x.csv"
    pa.csv.write_csv(table, path)
    # NUL bytes and what is not UTF-8 are broken syntax in a CSV file, whatever the values
    path.write_text(path.read_bytes().replace(b"\0", b"").decode("utf-8", "replace"), "utf-8")
    return path


MAKERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "table": lambda table, folder: table,
    **{make.__name__: make for make in (reader, batch, polars, pandas, pandas_of_arrow, parquet, old_parquet, csv)},
}  # fmt: skip
MADE_AT_LEAST = {
    "table": 640, "reader": 640, "batch": 370, "polars": 150, "pandas": 150, "pandas_of_arrow": 300, "parquet": 170,
    "old_parquet": 170, "csv": 100,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_refused_is_refused_without_rows_too(name: str, tmp_path: Path) -> None:
    made = 0
    for form, column in FORMS.items():
        tables = [pa.table({"x": column}), pa.table({"x": pa.chunked_array([], column.type)})]
        folders = [tmp_path / str(made), tmp_path / f"{made} without rows"]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        try:
            full, empty = (MAKERS[name](table, folder) for table, folder in zip(tables, folders, strict=True))
        except (KeyboardInterrupt, SourceError):
            raise
        except BaseException:  # noqa: BLE001  # pandas and polars cannot hold every type; polars panics
            continue
        made += 1
        if name == "pandas":
            empty = full.iloc[:0]  # without rows pandas is given other types
        assert outcome(full) == outcome(empty), form
    assert made >= MADE_AT_LEAST[name]


@pytest.mark.slow
def test_no_value_of_a_public_column_makes_a_release_fail() -> None:
    """Under `label` it is released after the charge."""
    read = 0
    for form, column in FORMS.items():
        found = source(pa.table({"x": column}))
        try:
            found.check(["x"])
        except SourceError:
            continue
        chunks = [batch.column(0) for batch in found.batches(["x"])]
        for attribute in ATTRIBUTES:
            released = PublicColumn.of(chunks, attribute.type).take(np.arange(len(column)))
            assert released.type in TYPES, form
            for chunk in chunks:
                assert as_type(chunk, canonical_type(chunk.type, attribute)).type in TYPES, form
        read += 1
    assert read >= 300


@pytest.mark.slow
def test_the_same_types_are_read_in_every_layout() -> None:
    refused = {form.partition(",")[0] for form, column in FORMS.items() if outcome(pa.table({"x": column})) != "read"}
    assert refused == {
        "interval",
        "list",
        "struct",
        *(f"duration_{unit}" for unit in ("s", "ms", "us", "ns")),
    }


def test_every_layout_says_the_same() -> None:
    for name, array in extremes().items():
        table = pa.table({"x": array})
        if outcome(table) != "read":
            continue
        for encoder in ENCODERS:
            one = next(encoder.encode(b)[0]["x"] for b in source(table).batches(["x"]))
            for layout, take in {
                "runs": lambda codes: np.repeat(codes, 2),
                "sliced runs": lambda codes: np.repeat(codes, 2)[1:-1],
                "runs of views": lambda codes: np.repeat(codes, 2),
                "sliced runs of views": lambda codes: np.repeat(codes, 2)[1:],
                "chunked": lambda codes: codes,
                "view": lambda codes: codes,
            }.items():
                column = FORMS.get(f"{name}, {layout}")
                if column is None:
                    continue
                batches = source(pa.table({"x": column})).batches(["x"])
                found = np.concatenate([encoder.encode(b)[0]["x"] for b in batches])
                np.testing.assert_array_equal(found, take(one), err_msg=f"{name}, {layout}")


def days_of(column: pa.Array) -> list[int]:
    schema = Schema("t", (ATTRIBUTES[5],), Unit(), "replace")
    found = source(pa.table({"x": column}))
    found.check(["x"])
    return [int(code) for b in found.batches(["x"]) for code in Encoder(schema).encode(b)[0]["x"]]


def test_far_times_are_clipped_and_a_moment_counts_as_its_day() -> None:
    last = ATTRIBUTES[5].size - 1
    july = int(dt.datetime(2011, 7, 1, tzinfo=dt.UTC).timestamp())
    for kind, ticks in ((pa.date64(), 1000), (pa.timestamp("ms"), 1000), (pa.timestamp("s"), 1)):
        far = 9_467_085_600_000 * ticks // 1000 * 1000 // 1000
        values = [july * ticks, july * ticks + (7 if ticks > 1 else 0), max(far, 2**62), -(2**62)]
        found = days_of(pa.array(values, pa.int64()).view(kind))
        assert found == [25, 25, last, 0], kind
    assert days_of(pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())) == [last, 0]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32(), pa.decimal128(5, 2), pa.time64("us")], ids=str)
def test_long_parquet_columns_may_hold_anything(kind: pa.DataType, tmp_path: Path) -> None:
    """Long enough for pages to be read without their levels."""
    width = kind.byte_width
    rng = np.random.default_rng(7)
    held = pa.py_buffer(rng.bytes(70_000 * width))
    table = pa.table({"x": pa.Array.from_buffers(kind, 70_000, [None, held])})
    pq.write_table(table, tmp_path / "x.parquet")
    assert outcome(tmp_path / "x.parquet") == outcome(table) == "read"


def test_old_timestamps_far_away_are_clipped_not_wrapped(tmp_path: Path) -> None:
    far = pa.array([253_402_300_799_000_000, -62_135_596_800_000_000], pa.int64()).view(pa.timestamp("us"))
    pq.write_table(pa.table({"x": far}), tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    schema = Schema("t", (ATTRIBUTES[6],), Unit(), "replace")
    found = source(tmp_path / "x.parquet")
    found.check(["x"])
    codes = [int(c) for b in found.batches(["x"]) for c in Encoder(schema).encode(b)[0]["x"]]
    assert codes == [ATTRIBUTES[6].size - 2, 0]


# Python objects ------------------------------------------------------------------------------------------


class Raises:
    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


class RaisesAnything:
    def __str__(self) -> str:
        raise type("Odd", (BaseException,), {})(SECRET)


class Exits:
    def __str__(self) -> str:
        raise SystemExit(SECRET)


class Interrupts:
    def __str__(self) -> str:
        raise KeyboardInterrupt(SECRET)


class GivesNoText:
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]


class HostileText(str):
    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        raise ValueError(SECRET)

    __str__ = __repr__ = encode  # type: ignore[assignment]


class HostileInteger(int):
    def __int__(self) -> int:
        raise ValueError(SECRET)

    __str__ = __repr__ = __index__ = __float__ = __int__  # type: ignore[assignment]


class HostileFloat(float):
    def __float__(self) -> float:
        raise ValueError(SECRET)

    __str__ = __repr__ = is_integer = __eq__ = __ne__ = __float__  # type: ignore[assignment]
    __hash__ = float.__hash__


class HostileDecimal(decimal.Decimal):
    def is_nan(self) -> bool:
        raise ValueError(SECRET)

    __str__ = __repr__ = is_nan  # type: ignore[assignment]


class HostileDate(dt.date):
    def isoformat(self) -> str:
        raise ValueError(SECRET)


class HostileMoment(dt.datetime):
    def isoformat(self, *_: Any) -> str:
        return b"2011"  # type: ignore[return-value]


class HostileZone(dt.tzinfo):
    def utcoffset(self, _: Any) -> dt.timedelta:
        raise ValueError(SECRET)


class HostileClass:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError(SECRET)

    def __str__(self) -> str:
        return "a"


class _Meta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError(SECRET)


class HostileName(metaclass=_Meta):
    def __str__(self) -> str:
        return "a"


HOSTILE: list[tuple[object, str | None]] = [
    (Raises(), None),
    (RaisesAnything(), None),
    (Exits(), None),
    (GivesNoText(), None),
    (HostileText("a"), "a"),
    (HostileInteger(7), "7"),
    (HostileFloat(2.5), "2.5"),
    (HostileDecimal("1.50"), "1.50"),
    (HostileDate(2011, 1, 2), None),
    (HostileMoment(2011, 1, 2), None),
    (dt.datetime(2011, 1, 2, tzinfo=HostileZone()), None),
    (HostileClass(), "a"),
    (HostileName(), None),
    ("\ud800", "?"),
    (decimal.Decimal("sNaN"), None),
]


@pytest.mark.parametrize(("value", "text"), HOSTILE, ids=lambda v: type(v).__qualname__ if type(v) is not str else "")
def test_an_object_that_gives_no_text_is_missing(value: object, text: str | None) -> None:
    assert text_of(value) == text
    for others in ([], ["a", None], [3, 2.5]):
        column = pd.Series([value, *others], dtype=object)
        frame = pd.DataFrame({"x": column})
        assert outcome(frame) == "read"
        first = next(iter(source(frame).batches(["x"])))
        assert first.column(0)[0].as_py() == text


def test_an_interruption_says_nothing_of_the_value() -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        text_of(Interrupts())
    assert stopped.value.args == ()
    assert stopped.value.__context__ is None


@pytest.mark.parametrize("absent", [pd.NA, np.nan], ids=["NA", "NaN"])
@pytest.mark.parametrize("categories", [False, True], ids=["texts", "categories"])
def test_text_that_no_encoding_has_is_read_from_pandas_strings(absent: object, categories: bool) -> None:
    kind = pd.StringDtype("python", na_value=absent)
    column = pd.Series(["a", "\ud800", None, "a\udfff"], dtype=kind)
    frame = pd.DataFrame({"x": column.astype("category") if categories else column})
    assert outcome(frame) == "read"
    found = [value for b in source(frame).batches(["x"]) for value in b.column(0).to_pylist()]
    assert found == ["a", "?", None, "a?"]


def pandas_columns() -> dict[str, Any]:
    moments = pd.Series(pd.to_datetime(["2011-01-01", None]))
    months = pd.Series(pd.period_range("2011", "2012", freq="M"))
    texts = pd.Series(["a", None], dtype="string[pyarrow]")
    return {
        "texts": texts,
        "categories of texts": texts.astype("category"),
        "categories of numbers": pd.Series([1, None], dtype="Int64").astype("category"),
        "categories of moments": moments.astype("category"),
        "categories of durations": pd.Series(pd.to_timedelta([1, 2])).astype("category"),
        "categories of intervals": pd.cut(pd.Series([1, 2]), 2),
        "categories of periods": months.astype("category"),
        "durations": pd.Series(pd.to_timedelta([1, 2])),
        "intervals": pd.Series(pd.interval_range(0, 2)),
        "periods": months,
        "sparse": pd.Series(pd.arrays.SparseArray([0.0, np.nan])),
        "sparse objects": pd.Series(pd.arrays.SparseArray([Raises(), None], dtype=pd.SparseDtype(object))),
        "complex numbers": pd.Series([1j]),
        "long doubles": pd.Series(np.array([1], np.longdouble)),
        "half floats": pd.Series(np.array([1, np.nan], np.float16)),
        "swapped bytes": pd.Series(np.array([1, 2], ">i4")),
        "masked": pd.Series([1, None], dtype="Float32"),
        "truths": pd.Series([True, None], dtype="boolean"),
        "far seconds": pd.Series(np.array([2**62, -(2**62), 0], "M8[s]")),
        "far zoned seconds": pd.Series(np.array([2**60, -(2**60), 0], "M8[s]")).dt.tz_localize("UTC"),
        "zoned": moments.dt.tz_localize("Europe/Berlin"),
        "zone of seconds": moments.dt.tz_localize(dt.timezone(dt.timedelta(minutes=90, seconds=7))),
    }


@pytest.mark.parametrize("name", pandas_columns())
def test_a_pandas_column_is_refused_by_its_type_or_never(name: str) -> None:
    frame = pd.DataFrame({"x": pandas_columns()[name]})
    assert outcome(frame) == outcome(frame.iloc[:0])


@pytest.mark.parametrize(
    "kind",
    [
        pl.Enum(["a", "b"]), pl.Categorical(), pl.Decimal(10, 2), pl.Datetime("ms", "Europe/Berlin"), pl.Datetime("ns"),
        pl.Date(), pl.Time(), pl.Duration(), pl.Object(), pl.Binary(), pl.Null(), pl.Int128(), pl.List(pl.Int8()),
        pl.Struct({"a": pl.Int8()}),
    ],
    ids=str,
)  # fmt: skip
def test_a_polars_column_is_refused_by_its_type_or_never(kind: pl.DataType) -> None:
    text = isinstance(kind, pl.Enum | pl.Categorical)
    values: list[Any] = ["a", None] if text else [None, None]
    if isinstance(kind, pl.Date | pl.Time | pl.Datetime | pl.Duration):
        full = pl.DataFrame({"x": pl.Series([2**31 - 1, -(2**31), None], dtype=pl.Int32).cast(kind, strict=False)})
    else:
        full = pl.DataFrame({"x": pl.Series([object()] if kind == pl.Object else values, dtype=kind)})
    assert outcome(full) == outcome(full.clear())


# Chains of exceptions ------------------------------------------------------------------------------------


def chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in found:
            found.append(one)
            waiting += [one.__cause__, one.__context__]
    return found


class Broken:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise ValueError(SECRET)


def test_no_error_carries_one_that_may_quote_a_value(tmp_path: Path) -> None:
    (tmp_path / "torn.csv").write_bytes(b"x\n" + SECRET.encode() + b'"\xff\n')
    (tmp_path / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00" + SECRET.encode())
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"x": [SECRET] * 1000}), whole, compression="none", use_dictionary=False)
    torn = bytearray(whole.read_bytes())
    torn[200:400] = b"\xff" * 200
    (tmp_path / "torn.parquet").write_bytes(torn)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1" + SECRET.encode() * 9)
    data = [Broken(), *(path for path in sorted(tmp_path.iterdir()) if path != whole)]
    for given in data:
        with pytest.raises(SourceError) as caught:
            source(given).check(["x"])
        assert chain(caught.value) == [caught.value], given
        assert SECRET not in str(caught.value)


def test_a_csv_file_that_breaks_while_it_is_read_carries_nothing_along(tmp_path: Path) -> None:
    """Arrow's message repeats the record; it is not even the context of ours."""
    path = tmp_path / "x.csv"
    path.write_text(f"x,y\n1,2\n{SECRET}\n")
    with pytest.raises(SourceError, match="line 3") as caught:
        list(source(path).batches(["x"]))
    assert chain(caught.value) == [caught.value]
    assert SECRET not in str(caught.value)


def test_counts_are_the_same_whatever_else_stands_in_a_column() -> None:
    """A whole run over hostile objects: counted by the policy, never refused."""
    schema = Schema("t", (ATTRIBUTES[0],), Unit(), "replace")
    values = [value for value, _ in HOSTILE]
    rows = BatchRows(source(pd.DataFrame({"x": pd.Series(values, dtype=object)})), schema)
    expected = [sum(text == "a" for _, text in HOSTILE), 0, sum(text is None for _, text in HOSTILE)]
    expected[1] = len(HOSTILE) - sum(expected)
    assert rows.count([Marginal.of(schema, "x")])[0].tolist() == expected
