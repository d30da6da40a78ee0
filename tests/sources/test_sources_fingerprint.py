"""Fingerprints: the same rows byte by byte, wherever they lie; never a failure on account of a value."""

from __future__ import annotations

import gzip

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dipsmith.errors import SourceError
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint


def of(data, **more):
    return fingerprint(source(data, **more))


def test_a_file_is_known_by_its_bytes(tmp_path):
    for name, text in (("a.csv", "x,y\n1,2\n"), ("b.csv", "x,y\n1,2\n"), ("c.csv", "x,y\n1,3\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n"))
    assert of(tmp_path / "a.csv") == of(str(tmp_path / "b.csv"))
    assert of(tmp_path / "a.csv") != of(tmp_path / "c.csv")
    assert of(tmp_path / "a.csv") != of(tmp_path / "a.csv.gz")
    assert of(tmp_path / "a.csv", delimiter=",") == of(tmp_path / "a.csv")


def test_several_files_are_known_in_any_order_and_under_any_names(tmp_path):
    for folder, names in (("one", ("a.csv", "b.csv")), ("two", ("z.csv", "c.csv"))):
        (tmp_path / folder).mkdir()
        for name, text in zip(names, ("x\n1\n", "x\n2\n"), strict=True):
            (tmp_path / folder / name).write_text(text)
    assert of(tmp_path / "one") == of(tmp_path / "two")
    assert of(tmp_path / "one") == of([tmp_path / "one" / "b.csv", tmp_path / "one" / "a.csv"])
    assert of(tmp_path / "one") != of(tmp_path / "one" / "a.csv")


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x\n1\n")
    found = source(file)
    found.check(["x"])
    file.write_text("x\n1\n2\n")
    with pytest.raises(SourceError, match="changed"):
        fingerprint(found)


CELLS = st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))), max_size=12)


@settings(deadline=None, max_examples=60)
@given(CELLS, CELLS, st.integers(1, 5))
def test_columns_are_known_however_they_are_cut_and_coded(one, two, size):
    table = pa.table({"x": pa.array(one, pa.string())})
    whole = of(table)
    chunks = [table.slice(i, size) for i in range(0, len(one), size)]
    assert of(pa.concat_tables(chunks) if chunks else table) == whole
    coded = pa.table({"x": pa.array(one, pa.string()).dictionary_encode()})
    assert of(coded) == whole
    assert (of(pa.table({"x": pa.array(two, pa.string())})) == whole) == (one == two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pa.array([1, 2]), pa.array([1, 3])),
        (pa.array([1, None]), pa.array([1, 0])),
        (pa.array(["a", "bc"]), pa.array(["ab", "c"])),
        (pa.array([True, False]), pa.array([True, True])),
        (pa.array([0.5, 1.5]), pa.array([0.5, 1.25])),
        (pa.array([0, 1], pa.date32()), pa.array([0, 2], pa.date32())),
        (pa.array([0, 1], pa.timestamp("us")), pa.array([0, 2], pa.timestamp("us"))),
        (pa.array(["1.5"]).cast(pa.decimal128(5, 2)), pa.array(["1.25"]).cast(pa.decimal128(5, 2))),
        (pa.array([b"a"]), pa.array([b"b"])),
    ],
    ids=lambda a: str(a.type),
)
def test_every_kind_of_column_is_told_apart(one, two):
    assert of(pa.table({"x": one})) != of(pa.table({"x": two}))
    assert of(pa.table({"x": one})) == of(pa.table({"x": one.slice(0)}))
    assert of(pa.table({"x": one})) != of(pa.table({"y": one}))


def test_frames_are_known():
    for frame in (pd.DataFrame, pl.DataFrame):
        one, two = (frame({"x": [1, 2], "s": ["a", b]}) for b in ("b", "c"))
        assert of(one) == of(frame({"x": [1, 2], "s": ["a", "b"]}))
        assert of(one) != of(two)


def test_no_value_makes_it_fail():
    """What cannot be read fails after the charge, where it always did; a free failure would tell the value."""

    class Awkward:
        def __str__(self):
            raise RuntimeError("mine")

    odd = pd.DataFrame({"x": [Awkward(), "a"], "s": ["\ud800", "b"]}, dtype=object)
    assert len(of(odd)) == 64


def test_a_database_is_known_by_its_address(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    for name in ("one.db", "two.db"):
        with duckdb.connect(str(tmp_path / name)) as made:
            made.execute("CREATE TABLE t (x INTEGER)")
            made.execute("CREATE TABLE u (x INTEGER)")
    address = f"duckdb:///{tmp_path}/one.db"
    assert of(address, table="t") == of(address, table="t")
    assert of(address, table="t") != of(address, table="u")
    assert of(address, table="t") != of(f"duckdb:///{tmp_path}/two.db", table="t")


def test_a_source_may_say_it_itself():
    class Own:
        columns = ("x",)

        def check(self, required):
            pass

        def batches(self, columns, progress=None):
            raise AssertionError("not read")

        def describe(self):
            return "own"

        def fingerprint(self):
            return "e" * 64

    assert of(Own()) == "e" * 64


def test_a_database_in_a_file_is_known_from_every_folder(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with duckdb.connect(str(tmp_path / name / "rows.db")) as made:
            made.execute("CREATE TABLE t AS SELECT 1 AS x")
    monkeypatch.chdir(tmp_path / "one")
    known = of("duckdb://rows.db", table="t")
    assert known == of(f"duckdb:///{tmp_path}/one/rows.db", table="t")
    monkeypatch.chdir(tmp_path / "two")
    assert known != of("duckdb://rows.db", table="t")
