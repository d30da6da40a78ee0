"""How long a comparison takes, chapter by chapter: 1.3 million rows × 9 columns, or any file and its release.

    python -m benchmarks.compare [--rows 325000] [--relation label] [--draws 40]
    python -m benchmarks.compare --data adult.csv --release release/

Simulates personnel records, releases them once (a forest under `label`, marginals under `replace`), compares with
defaults, saves the page, and prints the processor time and the wall time of each chapter.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import dipsmith as ds
from dipsmith.examples import personnel
from dipsmith.utility.regression import Regression

ANALYSIS = "log(pay) ~ sex + race + age + I(age**2) + education | agency + occupation"
REFERENCE = {"sex": "M", "race": "E"}


class Stopwatch:
    """Processor and wall time by stage, from what a comparison says of its progress."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.stage, self.begun = "importing", [0.0, time.perf_counter()]

    def __call__(self, stage: str, share: float) -> None:
        """Begin a stage, or go on with it."""
        now = [time.process_time(), time.perf_counter()]
        line = self.spent.setdefault(self.stage, [0.0, 0.0])
        self.spent[self.stage] = [old + new - was for old, new, was in zip(line, now, self.begun, strict=True)]
        self.stage, self.begun = stage.partition(": ")[2] or stage.partition(",")[0], now


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
    options.add_argument("--data", type=Path, help="instead of simulated records: a file")
    options.add_argument("--release", type=Path, help="and the folder of its release")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, analyses = Path(place), []
        data, release = chosen.data, chosen.release
        if data is None:
            data, release = release_of(folder, chosen.rows, chosen.relation)
            analyses = [Regression(ANALYSIS, reference=REFERENCE, by="year")]
        watch = Stopwatch()
        watch.begun = [time.process_time(), time.perf_counter()]
        whole = list(watch.begun)
        found = ds.compare(
            data, release, ledger=folder / "budget.db", analyses=analyses, draws=chosen.draws, progress=watch
        )
        watch("drawing and saving the page", 0.0)
        saved = found.save(folder / "comparison")
        watch("", 1.0)
        size = (saved / "comparison.html").stat().st_size
        print(f"{found.findings[0].rows[0]:,} rows × {len(found.schema.names)} columns; {os.cpu_count()} cores")
        print(f"{'stage':<42}{'CPU s':>8}{'wall s':>8}")
        for stage, (used, passed) in sorted(watch.spent.items(), key=lambda item: -item[1][0]):
            print(f"{stage:<42}{used:>8.1f}{passed:>8.1f}")
        print(f"{'in all':<42}{watch.begun[0] - whole[0]:>8.1f}{watch.begun[1] - whole[1]:>8.1f}")
        print(f"page: {size / 1e6:.2f} MB; peak memory {_peak():.2f} GB", flush=True)


def _peak() -> float:
    """The largest memory of this process, GB."""
    high = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(high.split()[1]) / 1e6


if __name__ == "__main__":
    main()
