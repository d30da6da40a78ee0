"""Tables in memory: the same rows from pyarrow, polars and pandas, read as often as needed."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dipsmith.counting import BatchRows
from dipsmith.errors import SourceError, UsageError
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.schema.bins import singles
from dipsmith.sources import arrow, source

SECRET = "s3cr3t"
TABLE = pa.table({"age": [30, 41, None], "sex": ["F", None, "M"]})


def rows(data: object, columns: list[str]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in data.batches(columns) for row in batch.to_pylist()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        lambda: TABLE.to_reader(),
        lambda: pl.from_arrow(TABLE),
        lambda: TABLE.to_pandas(),
        lambda: TABLE.to_pandas().convert_dtypes(),
        lambda: TABLE.to_pandas().convert_dtypes(dtype_backend="pyarrow"),
        lambda: TABLE.to_pandas().astype({"sex": "category"}),
        lambda: TABLE.to_pandas().astype(object),
        lambda: pl.from_arrow(TABLE).cast({"sex": pl.Categorical}),
        lambda: TABLE.cast(pa.schema({"age": pa.int64(), "sex": pa.string_view()})),
        lambda: pa.table({"age": TABLE["age"], "sex": TABLE["sex"].dictionary_encode()}),
    ],
)
def test_any_table_can_be_read_twice(make) -> None:  # type: ignore[no-untyped-def]
    data = source(make())
    assert data.columns == ("age", "sex")
    data.check(["age", "sex"])
    for _ in range(2):
        found = rows(data, ["sex", "age"])
        assert [sex for sex, _ in found] == ["F", None, "M"]
        assert [None if age is None else int(age) for _, age in found] == [30, 41, None]  # type: ignore[call-overload]
    for batch in data.batches(["sex"]):
        kind = batch.schema.field("sex").type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        assert pa.types.is_string(kind) or pa.types.is_large_string(kind)


def test_the_index_of_a_frame_is_not_read() -> None:
    frame = TABLE.to_pandas().set_index("age")
    data = source(frame)
    assert data.columns == ("sex",)
    with pytest.raises(SourceError, match="column 'age' not found"):
        data.check(["age"])


def test_python_objects_become_text_one_by_one() -> None:
    values = [
        "F",
        3,
        3.0,
        2.5,
        True,
        None,
        np.nan,
        pd.NA,
        pd.NaT,
        dt.date(2011, 1, 2),
        decimal.Decimal("1.50"),
        "\ud800",
        b"M",
        bytearray(b"M"),
        b"\xff",
        10**20,
        -(10**5000),
    ]
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    found = [value for (value,) in rows(source(frame), ["x"])]
    assert found == [
        *(
            "F",
            "3",
            "3",
            "2.5",
            "true",
            None,
            None,
            None,
            None,
            "2011-01-02",
            "1.50",
            "?",
            "M",
            "M",
            "\ufffd",
        ),
        *("1" + "0" * 20, "-1" + "0" * 5000),
    ]
    # a row reads the same whatever stands in the other rows
    for i in range(len(values)):
        alone = pd.DataFrame({"x": pd.Series(values[i : i + 1], dtype=object)})
        assert [value for (value,) in rows(source(alone), ["x"])] == found[i : i + 1]


@pytest.mark.parametrize("values", [[1, "a", 2.5], [10**30, True], ["a", ("b", 1)], [b"F", "M"]], ids=str)
def test_categories_that_are_objects_become_text_one_by_one(values: list[object]) -> None:
    """What one row says must not decide how a whole column is read."""
    frame = pd.DataFrame({"x": pd.Series([*values, None], dtype=object)})
    sorted_out = frame.astype("category")
    assert sorted_out["x"].cat.categories.dtype == object
    data = source(sorted_out)
    data.check(["x"])
    assert rows(data, ["x"]) == rows(source(frame), ["x"])


UUIDS = [uuid.UUID(int=5), None, uuid.UUID(int=2**128 - 7)]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([u and u.bytes for u in UUIDS], pa.uuid()), [u and str(u) for u in UUIDS]),
        (
            pa.array([u and u.bytes for u in UUIDS], pa.uuid())[1:],
            [u and str(u) for u in UUIDS[1:]],
        ),
        (pa.array([], pa.uuid()), []),
        (pa.array(["1", None], pa.json_()), ["1", None]),
        (pa.array([1, 0, None], pa.int8()).cast(pa.bool8()), [1, 0, None]),
        (pc.run_end_encode(pa.array(["a", "a", None])), ["a", "a", None]),
    ],
    ids=["uuid", "slice of uuid", "no uuid", "json", "bool8", "run ends"],
)
def test_types_that_extend_others_are_read(column: pa.Array, expected: list[object], tmp_path: Path) -> None:
    table = pa.table({"x": column})
    if not pa.types.is_run_end_encoded(column.type):
        pq.write_table(table, tmp_path / "x.parquet")
    for data in (table, *tmp_path.iterdir()):
        found = source(data)
        found.check(["x"])
        assert [x for (x,) in rows(found, ["x"])] == expected


def test_units_of_an_extending_type_are_told_apart() -> None:
    """Two rows of each of 40 people, by UUID: one of each counts, not one of all."""
    people = pa.array([uuid.UUID(int=i % 40).bytes for i in range(80)], pa.uuid())
    schema = Schema("t", (Attribute("x", "integer", singles("integer", 0, 9)),), Unit("person", 1), "add-remove")
    rows = BatchRows(source(pa.table({"person": people, "x": pa.array([3] * 80)})), schema)
    assert rows.total() == 40


def test_rows_of_crowded_units_may_be_bytes() -> None:
    """Few compute kernels know the layout in which polars hands bytes over."""
    schema = Schema("t", (Attribute("x", "string", Categories.of("ab", other="b")),), Unit("person", 1), "replace")
    table = pl.DataFrame({"person": [b"P", b"P", b"Q", None], "x": [b"a", b"a", b"\xff", None]})
    assert BatchRows(source(table), schema).count([Marginal.of(schema, "x")])[0].tolist() == [1, 1]


def test_large_frames_come_in_bounded_batches() -> None:
    n = 3 * arrow.BATCH_ROWS + 5
    told: list[float] = []
    for data in (pd.DataFrame({"x": np.arange(n)}), pa.table({"x": np.arange(n)})):
        batches = list(source(data).batches(["x"], told.append))
        assert [b.num_rows for b in batches] == [arrow.BATCH_ROWS] * 3 + [5]
        assert told[-1] == 1.0
        assert pa.Table.from_batches(batches)["x"].to_pylist() == list(range(n))


def test_refusals_name_the_column_and_no_value() -> None:
    twice = pd.DataFrame([[SECRET, SECRET]], columns=["x", "x"])
    lists = pa.table({"x": [[SECRET]]})
    spans = pa.table({"x": pa.array([1], pa.duration("s"))})
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), [2]), pa.array([[1, 2]], pa.list_(pa.int8(), 2))
    )
    for data, expected in (
        (twice, "same name"),
        (lists, "column 'x' holds lists"),
        (pa.table({"x": tensors}), "column 'x' holds lists"),
        (
            pa.table({"x": pa.RunEndEncodedArray.from_arrays([1], lists["x"].chunk(0))}),
            "column 'x' holds lists",
        ),
        (pd.DataFrame({"x": pd.cut(pd.Series([1, 2]), 2)}), "column 'x' holds lists"),
        (spans, "column 'x' holds durations"),
    ):
        with pytest.raises(SourceError, match=expected) as caught:
            source(data).check(["x"])
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="collect"):
        source(pl.DataFrame({"x": [1]}).lazy())


def test_broken_arrow_memory_is_refused() -> None:
    outside = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array([SECRET, "b"]), safe=False)
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    for column in (outside, broken):
        with pytest.raises(SourceError, match="column 'x' is damaged") as caught:
            source(pa.table({"x": column})).check(["x"])
        assert SECRET not in str(caught.value)


def test_column_names_that_are_not_text() -> None:
    data = source(pd.DataFrame({2010: [1], 2011: [2]}))
    assert data.columns == ("2010", "2011")
    assert rows(data, ["2011"]) == [(2,)]


def test_stream_that_breaks_is_one_line() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError(SECRET)

    with pytest.raises(SourceError, match="cannot be read as Arrow data") as caught:
        source(Broken()).check(["x"])
    assert SECRET not in str(caught.value)


def test_describe_tells_no_rows() -> None:
    assert source(TABLE).describe() == "pyarrow Table"
    assert source(TABLE.to_pandas()).describe() == "pandas DataFrame"
    assert source(pl.from_arrow(TABLE)).describe() == "polars DataFrame"


def test_objects_of_polars_are_refused_instead_of_their_addresses() -> None:
    frame = pl.DataFrame({"kept": [1, 2], "held": pl.Series([object(), object()], dtype=pl.Object)})
    source(frame).check(["kept"])
    with pytest.raises(SourceError, match="column 'held' holds Python objects; convert it to text"):
        source(frame).check(["held"])
