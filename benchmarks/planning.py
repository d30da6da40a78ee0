"""Memory and time that `plan` foresees, beside what `synthesize` and `Release.save` take.

Every case is a process of its own: simulated rows are written to CSV, then one process reads, fits, draws and saves.
Its user and system time and its peak memory (children included) are compared with the plan, which knows only the schema,
the budget, the number of rows and, under `label`, the public columns. Reach: within a factor of two.

Run: ``python benchmarks/planning.py [CASE …]``; figures depend on the machine.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.csv

EPSILON = "1"


@dataclass(frozen=True)
class Case:
    """A method on simulated rows."""

    name: str
    example: str
    rows: int
    method: str
    settings: tuple[str, ...] = ()
    neighbours: str = "replace"
    drop: tuple[str, ...] = ()
    options: tuple[str, ...] = field(default=())


CASES = (
    Case("flat, small", "regression", 10_000, "flat"),
    Case("flat, 1.3 M cells", "voters", 44_821, "flat"),
    Case("steps, 1.3 M cells", "voters", 44_821, "steps", ("layers=2", "same_order=true")),
    Case("universal, small", "regression", 10_000, "universal"),
    Case(
        "marginals, pairs",
        "voters",
        44_821,
        "marginals",
        ("cliques=2",),
        drop=("family_income", "length_of_residence"),
    ),
    Case("mst", "voters", 44_821, "mst"),
    Case("aim", "voters", 44_821, "aim"),
    Case("privbayes", "voters", 44_821, "privbayes"),
    Case("forest, 100,000 labels", "personnel", 100_000, "forest", neighbours="label"),
    Case("forest, 1,000,000 labels", "personnel", 1_000_000, "forest", neighbours="label"),
    Case("log-linear, 100,000 labels", "personnel", 100_000, "loglinear", neighbours="label"),
    Case("forest, whole rows", "personnel", 40_000, "forest", drop=("year", "occupation", "agency")),
    Case("mst, 1,000,000 rows", "personnel", 1_000_000, "mst", drop=("year",)),
)


def prepared(case: Case, folder: Path) -> tuple[Path, Path]:
    """Write the rows and the schema of a case."""
    from dipsmith.experiments.datasets import dataset
    from dipsmith.experiments.study import DataEntry

    years = [1988, 1996, 2003, 2011] if case.example == "personnel" else None
    per = case.rows // 4 if case.example == "personnel" else case.rows
    relation = None if case.neighbours == "label" else case.neighbours
    entry = DataEntry.model_validate(
        {"example": case.example, "rows": per, "years": years, "neighbours": relation}
    )
    change: dict[str, Any] = {}
    if case.drop:
        change = {"drop": list(case.drop)} | ({"rules": []} if case.example == "personnel" else {})
    made = dataset(entry, 1, change=change or None)
    data, schema = folder / "rows.csv", folder / "schema.yaml"
    pyarrow.csv.write_csv(made.rows, data)
    made.schema.write(schema, overwrite=True)
    return data, schema


def planned(case: Case, data: Path, schema: Path) -> dict[str, float]:
    """What the command foresees."""
    words = ["plan", *([str(data)] if case.neighbours == "label" else []), "--schema", str(schema)]
    words += ["--rows", str(case.rows)] if case.neighbours != "label" else []
    return json.loads(_dipsmith([*words, *_common(case), "--json"])[0])["resources"]


def measured(case: Case, data: Path, schema: Path, folder: Path) -> tuple[float, int]:
    """CPU seconds and peak bytes of the command."""
    ledger = folder / "budget.db"
    name = json.loads(_dipsmith(["schema", "check", str(schema), "--json"])[0])["name"]
    _dipsmith(["ledger", "grant", name, "--ledger", str(ledger), "--epsilon", "5"])
    words = ["synthesize", str(data), "--schema", str(schema), *_common(case)]
    _, seconds, peak = _dipsmith([*words, "--ledger", str(ledger), "--out", str(folder / "release")])
    return seconds, peak


def _common(case: Case) -> list[str]:
    settings = [word for s in case.settings for word in ("--set", s)]
    return ["--method", case.method, "--epsilon", EPSILON, *settings]


def _dipsmith(words: list[str]) -> tuple[str, float, int]:
    """Standard output, CPU seconds and peak bytes of one command."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 1)
        os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "dipsmith.cli.main", *words])
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"failed: dipsmith {' '.join(words)}")
    return text, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main() -> None:
    wanted = sys.argv[1:]
    print(
        f"{'case':<28}{'MB planned':>12}{'measured':>10}{'ratio':>7}{'s planned':>12}{'measured':>10}{'ratio':>7}"
    )
    for case in CASES:
        if wanted and case.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            data, schema = prepared(case, folder)
            foreseen = planned(case, data, schema)
            seconds, peak = measured(case, data, schema, folder)
        memory = foreseen["memory_bytes"]
        print(
            f"{case.name:<28}{memory / 1e6:>12,.0f}{peak / 1e6:>10,.0f}{peak / memory:>7.2f}"
            f"{foreseen['seconds']:>12.1f}{seconds:>10.1f}{seconds / foreseen['seconds']:>7.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
