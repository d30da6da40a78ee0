"""How long a comparison takes: 1.3 million rows × 9 columns, stage by stage.

    python benchmarks/compare.py [--rows 325000] [--relation label] [--draws 40] [--cli]

Simulates personnel records, releases them once (a forest under `label`, marginals under `replace`), compares, saves the
page, and prints the processor time and the wall time of each stage. Boosting and the draws of null distributions are
shown apart from the rest: their length is the reader's choice (`--classifier`, `draws=`). `--cli` also runs
`dipsmith compare` as a user would, in a process of its own, and prints what that took in all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dipsmith as ds
from dipsmith.examples import personnel
from dipsmith.utility import (
    association,
    disclosure,
    full_table,
    marginal_error,
    panel_figures,
    propensity,
    side_by_side,
    subgroups,
    telling_apart,
)
from dipsmith.utility import compare as comparing
from dipsmith.utility.regression import Regression

ANALYSIS = "log(pay) ~ sex + race + age + I(age**2) + education | agency + occupation"
REFERENCE = {"sex": "M", "race": "E"}


class Stages:
    """Processor and wall time by stage; a stage within another is taken off the outer one."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self._open: list[list[float]] = []

    def timed(self, name: Callable[..., str] | str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed under a name (or a name found from its arguments)."""

        def run(*arguments: Any, **options: Any) -> Any:
            stage = name if isinstance(name, str) else name(*arguments, **options)
            inner = [0.0, 0.0]
            self._open.append(inner)
            before = time.process_time(), time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                used = time.process_time() - before[0], time.perf_counter() - before[1]
                self._open.pop()
                line = self.spent.setdefault(stage, [0.0, 0.0])
                for i in (0, 1):
                    line[i] += used[i] - inner[i]
                    if self._open:
                        self._open[-1][i] += used[i]

        return run

    def watch(self, module: Any, names: dict[str, Callable[..., str] | str]) -> None:
        """Time functions where a module uses them."""
        for name, stage in names.items():
            setattr(module, name, self.timed(stage, getattr(module, name)))


def watched() -> Stages:
    """Timers on every stage of a comparison."""
    stages = Stages()
    stages.watch(
        comparing,
        {
            "authentic_codes": "reading and encoding authentic rows",
            "authentic_table": "reading values for regressions",
            "compare_regression": "regressions",
        },
    )
    scores, panels = "SPECKS, pMSE, binned scores", "panels"
    for module, names in {
        side_by_side: {
            "released_codes": "encoding synthetic rows",
            "propensity": lambda pair, classifier="logistic", **_: f"classifier {classifier}",
        },
        telling_apart: dict.fromkeys(("specks", "pmse", "binned_scores"), scores),
        marginal_error: {
            "marginal_error": "all 1-, 2- and 3-way tables",
            "range_error": "range queries",
        },
        association: {"associations": "associations"},
        subgroups: {"subgroups": "subgroups"},
        full_table: {"cell_sizes": "full cross-tabulation"},
        disclosure: {
            "disclosure": "disclosure (boosting)",
            "expected_correct": "correct labels (model's probabilities)",
        },
        panel_figures: dict.fromkeys(
            ("logistic_panel", "joint_bars", "joint_proportions", "p_slopes", "correlations"), panels
        ),
    }.items():
        stages.watch(module, names)
    half = propensity._Stacked.half_relabelled
    propensity._Stacked.half_relabelled = stages.timed("null draws", _listed(half))
    propensity._one_step = stages.timed("null draws", _listed(propensity._one_step))
    return stages


def _listed(generator: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A generator that is run to its end at once, so that its time is its own."""
    return lambda *arguments, **options: list(generator(*arguments, **options))


def release_of(folder: Path, rows: int, relation: str) -> tuple[Path, Path]:
    """Authentic rows and a release of them."""
    personnel.write(folder, rows, csv=False)
    schema = ds.Schema.read(folder / "personnel.yaml")
    method: Any = ds.Forest(targets=["sex", "race"])
    if relation != "label":
        declared = schema.to_dict()
        declared.update(neighbours=relation, unit="row")
        schema = ds.Schema.from_dict(declared)
        method = ds.Marginals(cliques=[["sex", "race"], ["sex", "occupation"], ["agency", "occupation"]])
    release = ds.synthesize(
        folder / "personnel.parquet", schema, method, budget=ds.PureDP(1), testing=True, noise_seed=1, seed=1
    )
    release.save(folder / "release")
    return folder / "personnel.parquet", folder / "release"


def main() -> None:
    """Print the stages."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rows", type=int, default=325_000, help="employees in each of four years")
    options.add_argument("--relation", choices=("label", "replace"), default="label")
    options.add_argument("--draws", type=int, default=40)
    options.add_argument("--cli", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data, release = release_of(folder, chosen.rows, chosen.relation)
        stages = watched()
        analysis = Regression(ANALYSIS, reference=REFERENCE, by="year")
        whole = stages.timed("the rest", ds.compare)
        before = time.process_time(), time.perf_counter()
        found = whole(data, release, ledger=folder / "budget.db", analyses=[analysis], draws=chosen.draws)
        saved = stages.timed("drawing and saving the page", found.save)(folder / "comparison")
        cpu, wall = time.process_time() - before[0], time.perf_counter() - before[1]
        size = (saved / "comparison.html").stat().st_size
        print(f"{4 * chosen.rows:,} rows × 9 columns, {chosen.relation}; {os.cpu_count()} cores")
        print(f"{'stage':<42}{'CPU s':>8}{'wall s':>8}")
        for stage, (used, passed) in sorted(stages.spent.items(), key=lambda item: -item[1][0]):
            print(f"{stage:<42}{used:>8.1f}{passed:>8.1f}")
        excepted = [v for k, v in stages.spent.items() if "boosting" in k or k == "null draws"]
        less = [sum(v[i] for v in excepted) for i in (0, 1)]
        print(f"{'in all':<42}{cpu:>8.1f}{wall:>8.1f}")
        print(f"{'without boosting and null draws':<42}{cpu - less[0]:>8.1f}{wall - less[1]:>8.1f}")
        print(f"page: {size / 1e6:.2f} MB; peak memory {_peak():.2f} GB", flush=True)
        if chosen.cli:
            _command(folder, data, release)


def _command(folder: Path, data: Path, release: Path) -> None:
    """`dipsmith compare` in a process of its own, which says at its end what it took."""
    words = ["compare", str(data), str(release), "--ledger", str(folder / "budget.db")]
    words += ["--out", str(folder / "again"), "--classifier", "logistic", "--classifier", "interactions"]
    words += ["--classifier", "cart", "--analysis", ANALYSIS, "--reference", "sex=M", "--reference", "race=E"]
    before = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, capture_output=True, text=True)
    wall = time.perf_counter() - before
    cpu, peak = map(float, ran.stderr.splitlines()[-1].split())
    print(
        f"dipsmith compare, classifiers logistic, interactions, cart, one regression: {cpu:.1f} CPU s, "
        f"{wall:.1f} s wall, peak memory {peak:.2f} GB"
    )


COMMAND = """
import atexit, sys, time
def said():
    high = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))
    print('\\n', time.process_time(), int(high.split()[1]) / 1e6, file=sys.stderr)
atexit.register(said)
from dipsmith.cli.main import main
sys.argv[0] = 'dipsmith'
main()
"""
"""The command line, with its own processor time and its own peak at the end (not those of a child of this process)."""


def _peak() -> float:
    """The largest memory of this process, GB."""
    high = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(high.split()[1]) / 1e6


if __name__ == "__main__":
    main()
