"""Pages without levels: the values are those that Arrow reads from the file itself, whoever wrote it."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dipsmith.errors import SourceError
from dipsmith.sources import compact, pages, parquet, source
from dipsmith.sources.pages import Pages

N = 5_000
KINDS = {
    "text": pa.string(),
    "long": pa.large_string(),
    "word": pa.dictionary(pa.int32(), pa.string()),
    "whole": pa.int64(),
    "short": pa.int16(),
    "small": pa.uint8(),
    "real": pa.float64(),
    "truth": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us", "UTC"),
    "pay": pa.decimal128(9, 2),
    "empty": pa.string(),
}


def values(kind: pa.DataType, rng: np.random.Generator, rows: int) -> pa.Array:
    drawn = rng.geometric(0.1, rows) % 60
    if pa.types.is_decimal(kind):
        return pa.array([decimal.Decimal(int(v)) / 4 for v in drawn], kind)
    if pa.types.is_boolean(kind):
        return pa.array(drawn > 30)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.array(
            [dt.datetime(2003, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=int(v)) for v in drawn]
        ).cast(kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array(drawn).cast(kind)
    return pa.array([f"value {v}" for v in drawn]).cast(kind)


def people(rng: np.random.Generator, rows: int = N, missing: float = 0.0) -> pa.Table:
    """One column of every kind; in the second half of the rows some values of every other column are missing."""
    columns = {}
    for place, (name, kind) in enumerate(KINDS.items()):
        column = values(kind, rng, rows)
        if name == "empty":
            column = pa.nulls(rows, kind)
        elif place % 2 and missing:
            gone = (rng.random(rows) < missing) & (np.arange(rows) >= rows // 2)
            column = pa.array([None if g else v for v, g in zip(column.to_pylist(), gone, strict=True)], kind)
        columns[name] = column
    return pa.table(columns)


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small row groups and pages are rewritten too."""
    monkeypatch.setattr(pages, "_GROUP_ROWS", 1)
    monkeypatch.setattr(pages, "_PAGE_ROWS", 1)


def plain(batches: Iterator[pa.RecordBatch]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for batch in batches:
        for name in batch.schema.names:
            found.setdefault(name, []).extend(batch.column(name).to_pylist())
    return found


def rewritten(path: Path, names: list[str]) -> list[pa.Buffer | None]:
    with pq.ParquetFile(path) as file, path.open("rb") as opened:
        made = Pages.of(file, path, names)
        groups = range(file.num_row_groups)
        return [made.group(opened, g) if made else None for g in groups]


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_every_type_codec_and_page_is_read_as_arrow_reads_it(
    tmp_path: Path, codec: str, version: str, dictionary: bool
) -> None:
    path = tmp_path / "t.parquet"
    table = people(np.random.default_rng(1), missing=0.01)
    pq.write_table(
        table,
        path,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=1_300,
        data_page_size=700,
        write_batch_size=100,
        write_page_checksum=codec == "zstd",
    )
    names = list(KINDS)[::-1]
    found = plain(source(path).batches(names))
    assert list(found) == names
    assert found == {name: table[name].to_pylist() for name in names}
    used = [made is not None for made in rewritten(path, names)]
    assert used == [version == "1.0" and codec != "lz4"] * 4


@pytest.mark.usefixtures("everywhere")
def test_only_columns_without_missing_values_lose_their_levels(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = people(np.random.default_rng(2), missing=0.01)
    pq.write_table(table, path, row_group_size=N // 2)
    for group, made in enumerate(rewritten(path, list(KINDS))):
        assert made is not None
        read = pq.ParquetFile(pa.BufferReader(made))
        part = table.slice(group * (N // 2), N // 2)
        needed = {field.name for field in read.schema_arrow if field.nullable}
        assert needed == {name for name in KINDS if part[name].null_count}
        # types as the file's own, with time zones and all
        assert [f.type for f in read.schema_arrow] == [f.type for f in pq.read_schema(path)]
        assert read.read().to_pylist() == part.to_pylist()


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip"])
@pytest.mark.parametrize("missing_from", [400, 3_900, 4_000])
def test_pages_with_one_header_may_have_other_levels(tmp_path: Path, codec: str, missing_from: int) -> None:
    """Without statistics the headers of all pages are alike: only the levels tell where values are missing."""
    path = tmp_path / "t.parquet"
    drawn = np.random.default_rng(4).integers(0, 9, 4_000)
    table = pa.table({"x": pa.array(drawn, mask=(np.arange(4_000) >= missing_from) & (drawn < 4))})
    pq.write_table(
        table, path, compression=codec, write_statistics=False, data_page_size=10, write_batch_size=100
    )
    assert plain(source(path).batches(["x"])) == {"x": table["x"].to_pylist()}
    (made,) = rewritten(path, ["x"])
    assert (made is not None) == (missing_from == 4_000)


def test_row_groups_that_fit_are_rewritten_and_batches_have_one_schema(tmp_path: Path) -> None:
    rows = 1 << 16
    path = tmp_path / "t.parquet"
    drawn = np.random.default_rng(3).integers(0, 9, 2 * rows)
    text = pa.array(drawn).cast(pa.string())
    last = pa.array([*text[:-1].to_pylist(), None])
    pq.write_table(pa.table({"a": text, "b": last}), path, row_group_size=rows)
    both = rewritten(path, ["a", "b"])
    assert [made is not None for made in both] == [True, True]
    assert rewritten(path, ["b"])[1] is None, "nothing to leave out"
    batches = list(source(path).batches(["b", "a"]))
    assert len({str(batch.schema) for batch in batches}) == 1
    assert plain(iter(batches)) == {"b": last.to_pylist(), "a": text.to_pylist()}
    assert sum(made.size for made in both if made) < 4 * path.stat().st_size


@pytest.mark.parametrize("case", ["small", "required", "nested", "large", "tiny pages"])
def test_what_cannot_pay_is_left_to_arrow(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 1 << 16 if case != "small" else 1_000
    path = tmp_path / "t.parquet"
    column = pa.array(np.random.default_rng(4).integers(0, 9, rows)).cast(pa.string())
    if case == "nested":
        column = pa.StructArray.from_arrays([column], ["in"])
    table = pa.table([column], schema=pa.schema([pa.field("a", column.type, nullable=case != "required")]))
    pq.write_table(
        table, path, **({"data_page_size": 100, "write_batch_size": 500} if case == "tiny pages" else {})
    )
    if case == "large":
        monkeypatch.setattr(pages, "_GROUP_BYTES", 1_000)
    assert rewritten(path, ["a"]) == [None]
    assert plain(parquet.ParquetFile(path).batches(["a"]))["a"] == column.to_pylist()


@pytest.mark.usefixtures("everywhere")
def test_a_column_with_the_name_of_a_nested_one_is_left_to_arrow(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    inner = pa.StructArray.from_arrays([pa.array(["x", "x"])], ["b"])
    pq.write_table(pa.table({"a": inner, "a.b": ["y", "z"], "c": ["u", "v"]}), path)
    assert rewritten(path, ["a.b"]) == [None]
    assert rewritten(path, ["c"])[0] is not None


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("writer", ["duckdb", "polars", "pandas"])
def test_files_of_other_writers(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "t.parquet"
    kept = [name for name in KINDS if name not in ("empty", "word")]
    table = people(np.random.default_rng(5), missing=0.01).select(kept)
    if writer == "duckdb":
        import duckdb

        duckdb.from_arrow(table).write_parquet(str(path), row_group_size=2_048)
    elif writer == "polars":
        import polars as pl

        pl.from_arrow(table).write_parquet(path, row_group_size=1_000, compression="snappy")  # type: ignore[union-attr]
    else:
        table.to_pandas().to_parquet(path)
    expected = pq.read_table(path)
    assert plain(source(path).batches(kept)) == {name: expected[name].to_pylist() for name in kept}
    assert any(made is not None for made in rewritten(path, ["text", "whole"]))


@pytest.mark.usefixtures("everywhere")
def test_damage_never_makes_other_values_than_arrow_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any byte of the pages may be wrong: what comes is what Arrow makes of the file, or the right values."""
    path = tmp_path / "t.parquet"
    table = people(np.random.default_rng(6), 600).select(["text", "whole", "short"])
    pq.write_table(table, path, data_page_size=300, write_batch_size=100)
    whole = path.read_bytes()
    right = plain(source(path).batches(table.column_names))
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    rng = np.random.default_rng(7)
    damaged = 0

    def outcome() -> dict[str, list[Any]] | str:
        try:
            file = parquet.ParquetFile(path)
            file.check(table.column_names)
            return plain(file.batches(table.column_names))
        except SourceError as error:
            return str(error)

    for _ in range(150):
        wrong = bytearray(whole)
        wrong[rng.integers(4, end)] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(wrong))
        found = outcome()
        with monkeypatch.context() as patch:
            patch.setattr(Pages, "of", classmethod(lambda *_: None))
            arrow = outcome()
        assert found in (right, arrow)
        damaged += found != right
    assert damaged > 50


def test_a_footer_that_lies_about_sizes_is_left_to_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_GROUP_ROWS", 1)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["x"] * 5_000}), path)
    with pq.ParquetFile(path) as file, path.open("rb") as opened:
        made = Pages.of(file, path, ["a"])
        assert made is not None
        os.truncate(path, 20)
        assert made.group(opened, 0) is None
        for wrong in (b"", b"\x15", b"\xff" * 50):
            path.write_bytes(wrong + len(wrong).to_bytes(4, "little") + b"PAR1")
            assert Pages.of(file, path, ["a"]) is None


@pytest.mark.usefixtures("everywhere")
def test_no_changed_bit_ends_in_anything_but_a_file_or_none(tmp_path: Path) -> None:
    """Sizes that are texts, structs that are numbers, lists without end: every bit of the pages and of the footer."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["x", "y", "y"], "b": [1, 2, 2]}), path)
    whole = path.read_bytes()
    left = 0
    with pq.ParquetFile(pa.BufferReader(whole)) as file:
        for place, bit in itertools.product(range(len(whole)), range(8)):
            wrong = bytearray(whole)
            wrong[place] ^= 1 << bit
            path.write_bytes(wrong)
            with path.open("rb") as opened:
                made = Pages.of(file, path, ["a", "b"])
                left += made is None or made.group(opened, 0) is None
    assert left > 200


STRUCTS = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from([compact.I16, compact.I32, compact.I64]), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(compact.BINARY), st.binary(max_size=200)),
        st.tuples(st.just(compact.BYTE), st.binary(min_size=1, max_size=1)),
        st.tuples(st.just(compact.DOUBLE), st.binary(min_size=8, max_size=8)),
        st.booleans().map(lambda b: (compact.TRUE if b else compact.FALSE, b)),
        st.tuples(
            st.just(compact.LIST),
            st.tuples(st.just(compact.I32), st.lists(st.integers(-9, 2**31 - 1), max_size=20)),
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just(compact.STRUCT), st.dictionaries(st.integers(1, 40), inner, max_size=5)),
        st.dictionaries(st.integers(1, 40), inner, max_size=2).map(
            lambda s: (compact.LIST, (compact.STRUCT, [s, s]))
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.integers(1, 300), STRUCTS, max_size=6), st.binary(max_size=5))
def test_structs_are_read_as_they_were_written(fields: dict[int, Any], after: bytes) -> None:
    written = compact.write(fields)
    assert compact.read(written + after) == (dict(sorted(fields.items())), len(written))
    for cut in range(len(written)):
        with pytest.raises((IndexError, ValueError)):
            compact.read(written[:cut])


def test_headers_are_those_that_the_format_prescribes() -> None:
    """Bytes by hand: a page header of 20,000 values in 10,049 bytes."""
    written = bytes.fromhex(
        "15 00 15 82 9d 01 15 8c 9d 01 2c 15 c0 b8 02 15 10 15 06 15 06 00 00".replace(" ", "")
    )
    fields, end = compact.read(written)
    inner = {1: (5, 20_000), 2: (5, 8), 3: (5, 3), 4: (5, 3)}
    assert fields == {1: (5, 0), 2: (5, 10_049), 3: (5, 10_054), 5: (12, inner)}
    assert end == len(written)
    assert compact.write(fields) == written
    assert compact.read(written, until=5) == ({1: (5, 0), 2: (5, 10_049), 3: (5, 10_054)}, 11)
    assert pages._Page.data(inner).after == written[10:]
    found = pages._DATA_HEADER.match(written)
    assert found is not None
    assert pages._sizes(found[0]) == (10_049, 10_054)
    assert pages._Page.data(inner).header(10_049) == written.replace(b"\x8c\x9d", b"\x82\x9d")
    assert found.end() == 11


@pytest.mark.parametrize(
    ("levels", "rows", "there"),
    [
        (b"\x14\x01", 10, True),  # one run of ten ones
        (b"\x14\x01", 11, False),  # of eleven rows
        (b"\x14\x00", 10, False),
        (b"\x05\xff\xff", 16, True),  # two groups of eight, bit by bit
        (b"\x05\xff\xfe", 16, False),
        (b"\x05\xff", 16, False),
        (b"\x08\x01\x03\xff", 12, True),
        (b"", 1, False),
    ],
)
def test_levels_say_whether_all_is_there(levels: bytes, rows: int, there: bool) -> None:
    assert pages._all_there(levels, rows) is there
