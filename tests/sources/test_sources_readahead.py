"""Reading ahead changes neither order nor errors, and stops when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dipsmith.sources import source
from dipsmith.sources.readahead import read_ahead


def numbers(n: int, made: list[int], closed: list[bool], fail_at: int = -1) -> Iterator[int]:
    try:
        for i in range(n):
            if i == fail_at:
                raise ValueError("broken")
            made.append(i)
            yield i
    finally:
        closed.append(True)


def threads() -> int:
    return sum(thread.name.startswith("dipsmith-read") for thread in threading.enumerate())


def test_order_and_end() -> None:
    closed: list[bool] = []
    assert list(read_ahead(numbers(1000, [], closed), 3)) == list(range(1000))
    assert closed == [True]
    assert threads() == 0


def test_errors_come_after_the_items_before_them() -> None:
    seen = []
    items = read_ahead(numbers(10, [], [], fail_at=4))
    with pytest.raises(ValueError, match="broken"):
        seen.extend(items)
    assert seen == [0, 1, 2, 3]
    assert list(items) == []
    assert threads() == 0


def test_at_most_depth_items_wait() -> None:
    made: list[int] = []
    items = read_ahead(numbers(100, made, []), 3)
    assert next(items) == 0
    while len(made) < 3:  # the one that was taken, and as many as may wait
        time.sleep(0.01)
    time.sleep(0.2)
    assert len(made) <= 5
    items.close()


def test_closing_stops_the_thread_and_closes_the_iterator() -> None:
    made: list[int] = []
    closed: list[bool] = []
    items = read_ahead(numbers(10**9, made, closed), 2)
    assert next(items) == 0
    items.close()
    assert closed == [True]
    assert threads() == 0
    assert len(made) < 10


def test_closing_before_the_first_item_leaves_no_thread() -> None:
    made: list[int] = []
    read_ahead(numbers(10**9, made, []), 2).close()
    assert threads() == 0
    assert made == []


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_read_in_part_leave_no_thread(tmp_path: Path, kind: str) -> None:
    table = pa.table({"x": [str(i % 7) for i in range(1_500_000)]})
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=300_000)
    batches = source(path).batches(["x"])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert threads() == 0
    assert sum(batch.num_rows for batch in source(path).batches(["x"])) == 1_500_000
    assert threads() == 0
