"""Memory and time that `plan` foresees, beside what `synthesize` and `Release.save` take.

Every case is a process of its own: simulated rows are written to CSV, then one process reads, fits, draws and saves.
Its user and system time and its peak memory (its own, as the kernel counts it: VmHWM) are compared with the plan, which
knows only the schema, the budget, the number of rows and, under `label`, the public columns. Reach: within a factor of
1.5. The pace is that of fixed work just before and after, and measured seconds are divided by it, so that what else the
machine does counts for little. The constants of `planning/resources.py` were fitted to cases like the first ones; those of ``--others`` have other sizes
and another ε, and no constant was fitted to them. The cases of ``--shapes`` label simulated columns, from 3,000 × 4 to
1.3 million × 14, with and without strata, interactions and analyses: their time is to hold within a factor of 1.5. The cases
of ``--long`` have columns of very many levels, or very many columns.

Run: ``python benchmarks/planning.py [--others | --shapes | --long] [CASE …]``, which prints a table in Markdown; figures
depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

MEASURED = """
import atexit, os, re, sys
from pathlib import Path

def told():
    peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)
    used = os.times()
    Path(sys.argv[0]).write_text(f"{used.user + used.system + used.children_user + used.children_system} {peak}")

sys.argv = sys.argv[1:]
atexit.register(told)
from dipsmith.cli.main import main
main()
"""
"""A command that says at its end what it took: ru_maxrss would remember the process that started it."""


BYTECODE = os.environ.get("PYTHONPYCACHEPREFIX") or tempfile.mkdtemp(prefix="bytecode-")
YARDSTICK = 0.017
"""CPU seconds of `pace`'s work on the machine of the constants when nothing else runs."""


def pace() -> float:
    """How much longer fixed work takes now than on an idle machine: neighbours share caches and memory."""
    values = np.random.default_rng(0).random(400_000)
    keys = (values * 1000).astype(int)
    took = []
    for _ in range(9):
        began, found = time.process_time(), dict.fromkeys(range(997), 0)
        np.sort(values)
        np.bincount(keys, values)
        for i in range(150_000):
            found[i % 997] += i
        values.reshape(400, 1000) @ values.reshape(1000, 400)
        took.append(time.process_time() - began)
    return sorted(took)[4] / YARDSTICK


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
    epsilon: str = "1"
    levels: tuple[int, ...] = ()
    """Of simulated columns instead of an example: levels of the public ones, below zero for ordered ones."""
    labels: tuple[int, ...] = (2, 3)
    analyses: tuple[str, ...] = ()
    """Planned analyses."""
    sets: str = ""
    """How many sets, and whether each is drawn or has its own part of the budget: "5 draw"."""


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

_SHORT = ("family_income", "length_of_residence", "business_or_farm")
OTHERS = (
    Case("flat, 20,000 rows", "regression", 20_000, "flat", epsilon="2"),
    Case("flat, 100,000 rows", "voters", 100_000, "flat", epsilon="2"),
    Case("steps, 1 layer", "voters", 20_000, "steps", ("layers=1", "same_order=true"), epsilon="2"),
    Case("universal, 40,000 rows", "regression", 40_000, "universal", epsilon="2"),
    Case("pairs, 20,000 rows", "voters", 20_000, "marginals", ("cliques=2",), drop=_SHORT, epsilon="2"),
    Case("mst, 100,000 rows", "voters", 100_000, "mst", epsilon="2"),
    Case("aim, 20,000 rows", "voters", 20_000, "aim", drop=_SHORT, epsilon="2"),
    Case("aim, 100,000 rows", "voters", 100_000, "aim", epsilon="2"),
    Case("privbayes, 20,000 rows", "voters", 20_000, "privbayes", drop=_SHORT, epsilon="2"),
    Case("forest, 40,000 labels", "personnel", 40_000, "forest", neighbours="label", epsilon="2"),
    Case("forest, 400,000 labels", "personnel", 400_000, "forest", neighbours="label", epsilon="2"),
    Case("log-linear, 40,000 labels", "personnel", 40_000, "loglinear", neighbours="label", epsilon="2"),
    Case("log-linear, 200,000 labels", "personnel", 200_000, "loglinear", neighbours="label", epsilon="2"),
    Case(
        "forest, 100,000 whole rows",
        "personnel",
        100_000,
        "forest",
        drop=("year", "occupation", "agency"),
        epsilon="2",
    ),
    Case("mst, 400,000 rows", "personnel", 400_000, "mst", drop=("year",), epsilon="2"),
)


_FEW = (-10, 6)
_SIX = (-16, 12, 8, -30, 5, 9)
_PANEL = (-40, -30, -25, -60, -50, 12, 30, 20, 2, 2, -15, 10)
_WIDE = (*_PANEL, -20, 5, 8, -6, 3, 2)


def _label(
    name: str, rows: int, method: str, levels: tuple[int, ...], *settings: str, epsilon: str = "1", labels: int = 3
) -> Case:
    labels_rows = method in ("forest", "loglinear")
    targets = ("targets=[y0,y1]",) if labels_rows else ()
    relation = "label" if labels_rows else "replace"
    return Case(name, "columns", rows, method, (*targets, *settings), relation, (), epsilon, levels, (2, labels))


SHAPES = (
    _label("log-linear, 3,000 × 4", 3_000, "loglinear", _FEW),
    _label("log-linear, 10,000 × 8", 10_000, "loglinear", _SIX),
    _label("log-linear, 28,500 × 14", 28_500, "loglinear", _PANEL),
    _label("log-linear, 28,500 × 14, ε = 5", 28_500, "loglinear", _PANEL, epsilon="5"),
    _label("log-linear, 28,500 × 14, analysis", 28_500, "loglinear", _PANEL, "analyses=[x0 ~ y0*x5 + x1]"),
    _label("log-linear, 30,000 × 20", 30_000, "loglinear", _WIDE, labels=5),
    _label("log-linear, 100,000 × 9, strata", 100_000, "loglinear", (7, *_SIX), "strata=x0", labels=5),
    _label("log-linear, 300,000 × 8", 300_000, "loglinear", _SIX, "interactions=0", labels=5),
    _label("log-linear, 1,300,000 × 8", 1_300_000, "loglinear", _SIX),
    _label("log-linear, 1,300,000 × 14", 1_300_000, "loglinear", _PANEL, "interactions=0"),
    _label("forest, 3,000 × 4", 3_000, "forest", _FEW),
    _label("forest, 28,500 × 14", 28_500, "forest", _PANEL),
    _label("forest, 30,000 × 20", 30_000, "forest", _WIDE, labels=5),
    _label("forest, 100,000 × 9, strata", 100_000, "forest", (7, *_SIX), "strata=x0", labels=5),
    _label("forest, 1,300,000 × 8", 1_300_000, "forest", _SIX),
    _label("aim, 3,000 × 4", 3_000, "aim", _FEW),
    _label("aim, 10,000 × 8", 10_000, "aim", _SIX),
    _label("aim, 28,500 × 14", 28_500, "aim", _PANEL),
    _label("aim, 30,000 × 20", 30_000, "aim", _WIDE, labels=5),
    _label("aim, 300,000 × 8", 300_000, "aim", _SIX),
)

_LONG = (-100_000, 6)
LONG = (
    _label("aim, 10,000 × 4, 100,000 levels", 10_000, "aim", _LONG),
    _label("mst, 10,000 × 4, 100,000 levels", 10_000, "mst", _LONG),
    _label("privbayes, 10,000 × 4, 100,000 levels", 10_000, "privbayes", _LONG),
    _label("marginals, 10,000 × 4, 100,000 levels", 10_000, "marginals", _LONG),
    _label("universal, 10,000 × 3, 1,000 levels", 10_000, "universal", (-1_000,)),
    _label("aim, 10,000 × 6, 2 × 2,000 levels", 10_000, "aim", (-2_000, -2_000, 6, 4)),
    _label("mst, 5,000 × 60", 5_000, "mst", (-20, 8) * 29),
    _label("aim, 5,000 × 30", 5_000, "aim", (-20, 8) * 14),
    _label("aim, 2,000 × 60", 2_000, "aim", (-20, 8) * 29),
    _label("aim, 50,000 × 60", 50_000, "aim", (-20, 8) * 29),
    _label("privbayes, 5,000 × 30", 5_000, "privbayes", (-20, 8) * 14),
)


def simulated(case: Case, data: Path, schema: Path) -> None:
    """Write rows whose labels depend on every column, and their schema."""
    rng = np.random.default_rng(20_261)
    shared, columns, fields = rng.normal(size=case.rows), {}, []
    odds = np.log(rng.dirichlet(np.full(int(np.prod(case.labels)), 2.0))) + np.zeros((case.rows, 1))
    for i, levels in enumerate(case.levels):
        size, name = abs(levels), f"x{i}"
        if levels < 0:
            code = np.clip((shared / 2 + rng.normal(size=case.rows) + 2.5) / 5 * size, 0, size - 1).astype(int)
            odds += np.outer(np.linspace(-0.5, 0.5, size), rng.normal(size=odds.shape[1]))[code]
            domain = {"type": "integer", "minimum": 0, "maximum": size - 1, "bins": {"width": 1}}
        else:
            code = rng.choice(size, case.rows, p=rng.dirichlet(np.ones(size)))
            odds += rng.normal(0, 0.3, (size, odds.shape[1]))[code]
            domain = {"type": "string", "enum": [f"v{v}" for v in range(size)], "other": "v0"}
        columns[name] = code if levels < 0 else np.char.add("v", code.astype(str))
        fields.append({"name": name, "role": "public"} | domain)
    reached = np.cumsum(np.exp(odds), axis=1)
    label = (reached < rng.random((case.rows, 1)) * reached[:, -1:]).sum(axis=1)
    for i, code in enumerate(np.unravel_index(label, case.labels)):
        values = [f"v{v}" for v in range(case.labels[i])]
        columns[f"y{i}"] = np.char.add("v", code.astype(str))
        fields.append({"name": f"y{i}", "type": "string", "role": "private", "enum": values, "other": "v0"})
    pyarrow.csv.write_csv(pyarrow.table(columns), data)
    if case.neighbours != "label":
        fields = [{k: v for k, v in field.items() if k != "role"} for field in fields]
    described = {"name": "columns", "unit": "row", "neighbours": case.neighbours, "fields": fields}
    schema.write_text(json.dumps(described))


def prepared(case: Case, folder: Path) -> tuple[Path, Path]:
    """Write the rows and the schema of a case."""
    data, schema = folder / "rows.csv", folder / "schema.yaml"
    if case.levels:
        simulated(case, data, schema)
        return data, schema
    from dipsmith.experiments.datasets import dataset
    from dipsmith.experiments.study import DataEntry

    years = [1988, 1996, 2003, 2011] if case.example == "personnel" else None
    per = case.rows // 4 if case.example == "personnel" else case.rows
    relation = None if case.neighbours == "label" else case.neighbours
    entry = DataEntry.model_validate({"example": case.example, "rows": per, "years": years, "neighbours": relation})
    change: dict[str, Any] = {}
    if case.drop:
        change = {"drop": list(case.drop)} | ({"rules": []} if case.example == "personnel" else {})
    made = dataset(entry, 1, change=change or None)
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
    words = [word for s in case.settings for word in ("--set", s)]
    words += [word for a in case.analyses for word in ("--analysis", a)]
    if case.sets:
        number, each = case.sets.split()
        words += ["--sets", number, "--each", each]
    return ["--method", case.method, "--epsilon", case.epsilon, *words]


def _dipsmith(words: list[str]) -> tuple[str, float, int]:
    """Standard output, CPU seconds and peak bytes of one command."""
    # Bytecode is kept, as where the package is installed.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": BYTECODE}
    with tempfile.NamedTemporaryFile() as said:
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, said.name, *words],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env=kept | own,
        )
        if done.returncode:
            raise SystemExit(f"failed: dipsmith {' '.join(words)}")
        seconds, peak = Path(said.name).read_text().split()
    return done.stdout, float(seconds), int(peak) * 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="CASE")
    options.add_argument("--others", action="store_true", help="other sizes, which no constant was fitted to")
    options.add_argument("--shapes", action="store_true", help="simulated columns from 3,000 × 4 to 1.3 million × 14")
    options.add_argument("--long", action="store_true", help="columns of very many levels, and very many columns")
    chosen = options.parse_args()
    cases = LONG if chosen.long else SHAPES if chosen.shapes else OTHERS if chosen.others else CASES
    print(
        "| | MB planned | measured | ratio | CPU s planned | measured | pace | ratio |\n|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as place:  # compiles what the others read
        small = replace(SHAPES[0], name="first")
        measured(small, *prepared(small, Path(place)), Path(place))
    for case in cases:
        if chosen.names and case.name not in chosen.names:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            data, schema = prepared(case, folder)
            foreseen, before = planned(case, data, schema), pace()
            seconds, peak = measured(case, data, schema, folder)
            now = (before + pace()) / 2
        memory = foreseen["memory_bytes"]
        print(
            f"| {case.name} | {memory / 1e6:,.0f} | {peak / 1e6:,.0f} | {peak / memory:.2f} | "
            f"{foreseen['seconds']:.1f} | {seconds:.1f} | {now:.2f} | {seconds / now / foreseen['seconds']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
