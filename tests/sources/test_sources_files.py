"""Parquet files, folders, globs; what a path stands for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dipsmith.errors import SourceError, UsageError
from dipsmith.sources import parquet, source
from dipsmith.sources.files import Files

SECRET = "s3cr3t"
TABLE = pa.table({"age": [30, 41, None], "sex": ["F", "M", SECRET], "note": ["x", "y", "z"]})


def rows(data: object, columns: list[str]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for batch in source(data).batches(columns) for row in batch.to_pylist()]


def refusal(data: object, required: list[str]) -> str:
    with pytest.raises(SourceError) as caught:
        source(data).check(required)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert ";" in message
    assert caught.value.__cause__ is None
    return message


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    pq.write_table(TABLE, path)
    return path


def test_parquet_reads_only_what_is_asked(people: Path) -> None:
    table = source(people)
    assert table.columns == ("age", "sex", "note")
    table.check(["sex", "age"])
    assert rows(people, ["sex", "age"]) == [("F", 30), ("M", 41), (SECRET, None)]
    assert [batch.schema.names for batch in table.batches(["sex"])] == [["sex"]]
    assert table.describe() == str(people)


def test_parquet_text_comes_by_dictionary_and_identifiers_plain(tmp_path: Path) -> None:
    n = 300_000
    path = tmp_path / "t.parquet"
    table = pa.table({"id": [f"person {i}" for i in range(n)], "sex": ["F", "M", "M"] * (n // 3)})
    pq.write_table(table, path, row_group_size=100_000)
    batches = list(source(path).batches(["id", "sex"]))
    assert {str(batch.schema.field("id").type) for batch in batches} == {"string"}
    assert all(pa.types.is_dictionary(batch.schema.field("sex").type) for batch in batches)
    assert pa.Table.from_batches([b.select(["id"]) for b in batches]) == table.select(["id"])
    assert [v for b in batches for v in b["sex"].to_pylist()] == table["sex"].to_pylist()
    assert max(batch.num_rows for batch in batches) <= 1 << 18


def test_parquet_refusals(tmp_path: Path, people: Path) -> None:
    assert "column 'pay' not found among its 3 columns" in refusal(people, ["age", "pay"])
    whole = people.read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole[:-20])
    assert "not a readable Parquet file" in refusal(cut, ["age"])
    false = tmp_path / "false.parquet"
    false.write_text(f"age,sex\n30,{SECRET}\n")
    assert "not a Parquet file" in refusal(false, ["age"])
    nothing = tmp_path / "nothing.parquet"
    nothing.touch()
    assert "empty" in refusal(nothing, ["age"])
    nested = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"age": [[1], [2]], "sex": ["F", "M"]}), nested)
    assert "column 'age' holds lists or structures" in refusal(nested, ["age"])
    source(nested).check(["sex"])


def test_parquet_damaged_page_is_seen_by_the_syntax_pass(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"a": [f"{SECRET} {i % 50}" for i in range(20_000)], "b": list(range(20_000))})
    pq.write_table(table, path, compression="gzip")
    bytes_ = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = chunk.data_page_offset + 60
    for i in range(start, start + 40):
        bytes_[i] ^= 0xFF
    path.write_bytes(bytes(bytes_))
    assert refusal(path, ["a"]).startswith(str(path))
    source(path).check(["b"])


def test_parquet_text_that_is_not_utf8_is_seen_by_the_syntax_pass(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    offsets, data = np.array([0, 1, 3], np.int32), b"a\xff\xfe"
    bad = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    pq.write_table(pa.table({"a": bad, "b": [1, 2]}), path)
    assert "column 'a' is damaged" in refusal(path, ["a"])
    source(path).check(["b"])


def test_parquet_names_with_dots(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a.b": ["x", "y"], "a": ["u", "v"]}), path)
    source(path).check(["a.b", "a"])
    assert rows(path, ["a.b", "a"]) == [("x", "u"), ("y", "v")]
    assert rows(path, ["a"]) == [("u",), ("v",)]


def test_parquet_that_changes_between_passes(people: Path) -> None:
    table = source(people)
    table.check(["age"])
    pq.write_table(TABLE.slice(1), people)
    with pytest.raises(SourceError, match="changed while"):
        list(table.batches(["age"]))


def test_parquet_without_rows(tmp_path: Path) -> None:
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    source(tmp_path / "t.parquet").check(["age", "sex"])
    assert rows(tmp_path / "t.parquet", ["age"]) == []


def test_name_does_not_decide_what_a_file_is(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "people.csv")
    assert rows(tmp_path / "people.csv", ["age"]) == [(30,), (41,), (None,)]


def test_folder_and_glob_are_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    (folder / "deep").mkdir(parents=True)
    pq.write_table(TABLE.slice(0, 1), folder / "a.parquet")
    pq.write_table(TABLE.slice(1, 1).select(["sex", "note", "age"]), folder / "b.parquet")
    pq.write_table(TABLE.slice(2, 1), folder / "deep" / "c.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").write_text("no")
    (folder / "readme.md").write_text("no")
    source(folder).check(["age", "sex"])
    expected = [("F", 30), ("M", 41), (SECRET, None)]
    assert rows(folder, ["sex", "age"]) == expected
    assert rows(str(folder / "**" / "*.parquet"), ["sex", "age"]) == expected
    assert rows([folder / "a.parquet", str(folder / "b.parquet")], ["sex", "age"]) == expected[:2]
    told: list[float] = []
    list(source(folder).batches(["age"], told.append))
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_files_of_one_table_need_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n30,F\n")
    (tmp_path / "b.csv").write_text(f"age,{SECRET}\n30,F\n")
    message = refusal(tmp_path, ["age"])
    assert message.startswith(str(tmp_path / "b.csv"))
    assert "same header" in message
    assert "column 'sex' not found" in refusal(tmp_path, ["sex"])


def test_fault_in_the_second_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n30,F\n")
    (tmp_path / "b.csv").write_text("age,sex\n30\n")
    assert refusal(str(tmp_path / "*.csv"), ["age"]).startswith(f"{tmp_path / 'b.csv'}: line 2")


def test_csv_and_parquet_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n30,F\n")
    pq.write_table(TABLE.select(["age", "sex"]).slice(1, 1), tmp_path / "b.parquet")
    source(tmp_path).check(["age", "sex"])
    assert rows(tmp_path, ["age", "sex"]) == [("30", "F"), (41, "M")]


def test_folder_names_give_columns(tmp_path: Path) -> None:
    for year, code in (("2010", 0), ("2011", 1), ("__HIVE_DEFAULT_PARTITION__", 2)):
        folder = tmp_path / f"year={year}" / "agency=a%20b"
        folder.mkdir(parents=True)
        pq.write_table(TABLE.slice(code, 1).select(["age"]), folder / "part.parquet")
    table = source(tmp_path)
    assert table.columns == ("age", "year", "agency")
    table.check(["year", "age", "agency"])
    assert rows(tmp_path, ["year", "age", "agency"]) == [
        ("2010", 30, "a b"),
        ("2011", 41, "a b"),
        (None, None, "a b"),
    ]
    assert rows(tmp_path, ["year"]) == [("2010",), ("2011",), (None,)]


@pytest.mark.slow
def test_urls(tmp_path: Path, people: Path) -> None:
    assert rows(f"file://{people}", ["age"]) == [(30,), (41,), (None,)]
    password = "hunter2"
    for url in (
        f"spark://me:{password}@host:7077",
        f"s3://{password}@bucket/key",
        f"nonsense://{password}",
        f"postgresql://me:hun@{password}@host/db",
        f"postgresql://me:hun/{password}@host/db",
        f"postgresql://me:hun?@{password}/@host/db",
        f"duckdb://md:people?motherduck_token={password}",
        f"duckdb://me:{password}@host/people.db",
    ):
        with pytest.raises((UsageError, SourceError)) as caught:
            source(url, table="people")
        assert password not in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="which table"):
        source("duckdb:///file.db")


def test_contradictory_arguments(people: Path) -> None:
    with pytest.raises(UsageError, match="table="):
        source(people, table="people")
    with pytest.raises(UsageError, match="for CSV files"):
        source(TABLE, delimiter=";")
    with pytest.raises(UsageError, match="cannot be read from a dict"):
        source({"age": [1]})
    assert isinstance(source(source(people)), Files)


def test_home_folder_is_expanded(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(people.parent))
    assert len(rows("~/people.parquet", ["age"])) == 3


def test_magic_is_what_parquet_writes(people: Path) -> None:
    assert people.read_bytes()[:4] == parquet.MAGIC
