"""How fast and in how much memory rows are counted.

Generates its data in a temporary folder, then prints ratios measured in one run on one machine:

* a 6-way table over 10 M rows of Parquet (dictionary-encoded strings), against numpy's chunked
  Horner + bincount on codes already in memory, and against DuckDB's GROUP BY on the same file with the
  same number of threads (pinned to the same cores). Each runs in a process of its own, as anyone would
  run it. How fast numpy is depends on what its process did before: scratch arrays of half a megabyte
  come from fresh pages at first, and from the heap, three times as fast, once a larger array was freed.
  Both are shown;
* many tables in one pass, against one pass each;
* the syntax pass over CSV in MB/s;
* unit truncation;
* with ``--large``: peak memory over 100 M rows.

Run: ``python benchmarks/counting.py [--rows 10000000] [--large]``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dipsmith.counting import BatchRows, memory
from dipsmith.schema import Attribute, Categories, Marginal, Schema, Unit
from dipsmith.sources import source

SIZES = (4, 15, 8, 30, 2, 5)
NAMES = tuple(f"c{i}" for i in range(len(SIZES)))
GROUP = 1_000_000


def labels(column: int) -> list[str]:
    return [f"label {column}-{j}" for j in range(SIZES[column])]


def schema_of(unit: Unit | None = None) -> Schema:
    attributes = tuple(
        Attribute(name, "string", Categories.of(labels(i), other=labels(i)[0])) for i, name in enumerate(NAMES)
    )
    return Schema("benchmark", attributes, unit or Unit(), "add-remove")


def write(path: Path, rows: int, *, units: bool = False) -> None:
    """Six columns of text with uneven frequencies, as pandas or Spark would write them."""
    rng = np.random.default_rng(1)
    writer = None
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        columns = {}
        for i, size in enumerate(SIZES):
            codes = np.minimum(rng.geometric(1.2 / size, n) - 1, size - 1).astype(np.int32)
            order = pa.array(rng.permutation(labels(i)).tolist())
            columns[NAMES[i]] = pa.DictionaryArray.from_arrays(pa.array(codes), order)
        if units:
            columns["person"] = pa.array(rng.integers(0, rows // 2, n)).cast(pa.string())
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def best(work: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """Least wall and CPU seconds of several runs: the machine's noise only adds."""
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def show(name: str, wall: float, cpu: float, note: str = "") -> None:
    print(f"  {name:<44} {wall * 1e3:9.0f} ms wall {cpu * 1e3:9.0f} ms CPU   {note}", flush=True)


def horner(codes: list[np.ndarray]) -> np.ndarray:
    """What anyone would write: keys by Horner's rule, bincount, in chunks that fit the cache."""
    counts = np.zeros(prod(SIZES), dtype=np.int64)
    chunk = 1 << 17
    for start in range(0, len(codes[0]), chunk):
        key = codes[0][start : start + chunk].astype(np.int32)
        for column, size in zip(codes[1:], SIZES[1:], strict=True):
            key *= size
            key += column[start : start + chunk]
        counts += np.bincount(key, minlength=len(counts))
    return counts


def six_way(path: Path, rows: int) -> None:
    schema = schema_of()
    joint = Marginal.of(schema, NAMES)
    table = source(path)
    memory.ROOM = 0  # passes over codes in memory are to be timed, not answers that are remembered
    held = BatchRows(table, schema, cache_bytes=1 << 31)
    blocks = ([c[n] for n in NAMES] for c in held._encoded.blocks(NAMES, "lawful"))
    codes = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    np.save(path.with_suffix(".npy"), np.stack(codes))
    expected = horner(codes)
    np.testing.assert_array_equal(BatchRows(table, schema).count([joint])[0], expected)
    base, base_cpu = alone("numpy", path, 1)
    warm, warm_cpu = alone("numpy-warm", path, 1)
    for threads in (1, 2):
        if len(os.sched_getaffinity(0)) < threads:
            continue
        print(f"6-way table of {rows:,} rows, {prod(SIZES):,} cells, {threads} thread(s)")
        show("numpy on codes in memory (one thread)", base, base_cpu)
        show("the same after a large array was freed", warm, warm_cpu)
        wall, cpu = alone("dipsmith", path, threads)
        against = f"{wall / base:.1f}x numpy's wall, {wall / warm:.1f}x the faster one's (reach: 5x)"
        show("dipsmith from Parquet", wall, cpu, against)
        duck, duck_cpu = alone("duckdb", path, threads)
        against = f"{duck / wall:.1f}x wall, {duck_cpu / cpu:.1f}x CPU (reach: 3x)"
        show("DuckDB GROUP BY", duck, duck_cpu, against)
    np.testing.assert_array_equal(held.count([joint])[0], expected)
    wall, cpu = best(lambda: held.count([joint]))
    show("dipsmith, codes cached by an earlier pass", wall, cpu, f"{wall / warm:.1f}x numpy")
    pairs = [Marginal.of(schema, pair) for k in (1, 2, 3) for pair in itertools.combinations(NAMES, k)]
    wall, cpu = best(lambda: held.count(pairs))
    show(f"all {len(pairs)} 1-, 2-, 3-way tables together, cached", wall, cpu)
    apart, apart_cpu = best(lambda: [held.count([pair]) for pair in pairs], 2)
    show("the same one by one", apart, apart_cpu, f"{apart / wall:.1f}x")


def alone(who: str, path: Path, threads: int) -> tuple[float, float]:
    """Least wall and CPU seconds of one contestant, in three processes of its own."""
    command = [sys.executable, __file__, "--contest", who, str(threads), "--measure", str(path)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
    walls, cpus = zip(*((float(part) for part in run.split()) for run in runs), strict=True)
    return min(walls), min(cpus)


def contest(who: str, path: Path, threads: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    pa.set_cpu_count(threads)
    work: Callable[[], object]
    if who == "dipsmith":
        schema = schema_of()
        work = lambda: BatchRows(source(path), schema).count([Marginal.of(schema, NAMES)])  # noqa: E731
    elif who == "duckdb":
        import duckdb

        connection = duckdb.connect()
        connection.execute(f"set threads={threads}")
        query = f"select {', '.join(NAMES)}, count(*) from '{path}' group by all"
        work = lambda: connection.execute(query).fetchnumpy()  # noqa: E731
    else:
        codes = list(np.load(path.with_suffix(".npy")))
        if who == "numpy-warm":
            np.ones((1 << 25) - (1 << 16), dtype=np.uint8)
        work = partial(horner, codes)
    print(*best(work))


def csv_pass(folder: Path) -> None:
    rows = 500_000
    plain, quoted = folder / "plain.csv", folder / "quoted.csv"
    rng = np.random.default_rng(2)
    pay = rng.integers(10_000, 250_000, rows)
    for path, mark in ((plain, ""), (quoted, '"')):
        lines = (f"{i},{2000 + i % 4},{mark}Doe {i % 77}{mark},{i % 90},{p}\n" for i, p in enumerate(pay))
        path.write_text("id,year,name,age,pay\n" + "".join(lines))
        table = source(path)
        wall, cpu = best(lambda table=table: table.check(["age", "pay"]), 3)
        size = path.stat().st_size / 1e6
        show(f"CSV syntax pass, {path.stem}", wall, cpu, f"{size / wall:.0f} MB/s (reach: 100)")
        wall, cpu = best(lambda table=table: [None for _ in table.batches(["age", "pay"])], 3)
        show(f"CSV read of two columns, {path.stem}", wall, cpu, f"{size / wall:.0f} MB/s")


def units(folder: Path) -> None:
    rows = 2_000_000
    path = folder / "units.parquet"
    write(path, rows, units=True)
    joint = [NAMES]
    for k in (20, 2):
        schema = schema_of(Unit("person", k))
        cells = [Marginal.of(schema, names) for names in joint]
        wall, cpu = best(lambda schema=schema, cells=cells: BatchRows(source(path), schema).count(cells), 2)
        show(f"{rows:,} rows, unit truncation at {k} rows", wall, cpu, f"{rows / wall / 1e6:.1f} M rows/s")


def large(folder: Path) -> None:
    rows = 100_000_000
    path = folder / "large.parquet"
    write(path, rows)
    print(f"{rows:,} rows, {path.stat().st_size / 1e6:.0f} MB of Parquet")
    found = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    seconds, megabytes, total = float(found[0]), float(found[1]), int(found[2])
    assert total == rows
    print(f"  6-way table: {seconds:.1f} s, peak memory {megabytes:.0f} MB (reach: < 1000)")


def measure(path: Path) -> None:
    """In a process of its own: time and peak memory of one count."""
    schema = schema_of()
    start = time.perf_counter()
    counts = BatchRows(source(path), schema).count([Marginal.of(schema, NAMES)])[0]
    seconds = time.perf_counter() - start
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(seconds, int(peak.split()[1]) / 1e3, counts.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--large", action="store_true", help="count 100 M rows and report peak memory")
    parser.add_argument("--contest", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contest is not None:
        contest(options.contest[0], options.measure, int(options.contest[1]))
        return
    if options.measure is not None:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory(prefix="dipsmith-bench-") as name:
        folder = Path(name)
        if options.large:
            large(folder)
            return
        path = folder / "rows.parquet"
        write(path, options.rows)
        six_way(path, options.rows)
        csv_pass(folder)
        units(folder)


if __name__ == "__main__":
    main()
