"""Wide and long tables: AIM and MST on 100 columns × 1 million rows, 24 × 300,000, and a column of 100,000 values.

``python benchmarks/wide.py [long] [codes] [wide] [aim] [mst]``: for every shape and method the processor seconds and the peak memory of a whole run (from a
Parquet file to a saved release) beside what `plan` foretold. Every run is a process of its own, with one thread.

Columns depend on one another in a chain of groups, so that there is something to find; all rows are simulated.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
EPSILON, DELTA, BATCH = 1.0, 1e-9, 1 << 17


@dataclass(frozen=True)
class Shape:
    """A simulated table: rows, columns, and how many raw values a column of codes has (0: no such column)."""

    rows: int
    columns: int
    codes: int = 0


SHAPES = {
    "small": Shape(20_000, 12),
    "long": Shape(300_000, 24),
    "wide": Shape(1_000_000, 100),
    "hundred": Shape(200_000, 100),
    "codes": Shape(300_000, 12, 100_000),
}


def schema_of(shape: Shape) -> dict[str, object]:
    """The schema; codes of seven characters are collapsed to their first two."""
    fields: list[dict[str, object]] = []
    for i in range(shape.columns):
        labels = [f"v{j}" for j in range(SIZES[i % len(SIZES)])]
        fields.append({"name": f"c{i:02d}", "type": "string", "enum": labels, "other": labels[0]})
    if shape.codes:
        codes = [f"{j % 40:02d}{j:05d}" for j in range(shape.codes)]
        fields.append({"name": "code", "type": "string", "enum": codes, "collapse": {"prefix": 2}, "other": codes[0]})
    return {"name": "wide", "unit": "row", "neighbours": "add-remove", "fields": fields}


def write(shape: Shape, path: Path, seed: int = 0) -> None:
    """Write the table batch by batch."""
    random = np.random.default_rng(seed)
    sizes = [SIZES[i % len(SIZES)] for i in range(shape.columns)]
    laws = [
        random.dirichlet(np.full(n, 0.6), sizes[i - 1]) if i % 5 else random.dirichlet(np.full(n, 1.5), 1)
        for i, n in enumerate(sizes)
    ]
    names = [f"c{i:02d}" for i in range(shape.columns)] + (["code"] if shape.codes else [])
    with pq.ParquetWriter(path, pa.schema([(n, pa.string()) for n in names])) as file:
        for start in range(0, shape.rows, BATCH):
            rows, before = min(BATCH, shape.rows - start), np.zeros(0, dtype=np.int64)
            columns = []
            for i, law in enumerate(laws):
                given = law[before] if i % 5 else np.broadcast_to(law[0], (rows, sizes[i]))
                reached = np.cumsum(given, axis=1)
                before = (random.random((rows, 1)) * reached[:, -1:] > reached[:, :-1]).sum(axis=1)
                labels = pa.array([f"v{j}" for j in range(sizes[i])])
                columns.append(labels.take(pa.array(before)))
            if shape.codes:
                drawn = np.minimum(random.pareto(0.7, rows) * 50, shape.codes - 1).astype(np.int64)
                columns.append(pa.array([f"{j % 40:02d}{j:05d}" for j in drawn.tolist()]))
            file.write_table(pa.table(dict(zip(names, columns, strict=True))))


def forecast(shape: Shape, method: str) -> dict[str, float]:
    """What `plan` says of time and memory."""
    import dipsmith as ds

    plan = ds.plan(
        ds.Schema.from_dict(schema_of(shape)), _method(method), ds.ZCDP.from_approx(EPSILON, DELTA), rows=shape.rows
    )
    return {"planned_seconds": plan.resources.seconds, "planned_megabytes": plan.resources.memory / 1e6}


def run_once(name: str, method: str, path: str) -> None:
    """One run in this process; prints a line of JSON."""
    import dipsmith as ds

    shape = SHAPES[name]
    started = time.process_time()
    schema = ds.Schema.from_dict(schema_of(shape))
    release = ds.synthesize(
        path, schema, _method(method), budget=ds.ZCDP.from_approx(EPSILON, DELTA), testing=True, noise_seed=1
    )
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "release", format="parquet")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": time.process_time() - started, "megabytes": peak}))


def _method(name: str) -> object:
    import dipsmith as ds

    return {"aim": ds.AIM, "mst": ds.MST}[name]()


def main(arguments: list[str]) -> None:
    """Run the shapes that are named, or all but the small one."""
    if arguments[:1] == ["--once"]:
        run_once(*arguments[1:])
        return
    methods = [a for a in arguments if a in ("aim", "mst")] or ["mst", "aim"]
    for name in [a for a in arguments if a in SHAPES] or ["long", "codes", "wide"]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "wide.parquet"
            write(SHAPES[name], file)
            for method in methods:
                command = [sys.executable, __file__, "--once", name, method, str(file)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1]) | forecast(SHAPES[name], method)
                shown = "  ".join(f"{key} {value:,.1f}" for key, value in found.items())
                print(f"{name:6} {method:4} {shown}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
