"""What a planned analysis adds to a run: processor time with and without it, for a labeller that carries it.

    python benchmarks/planned.py                  # 1.3 million rows, log-linear and forest
    python benchmarks/planned.py --rows 40000     # fewer
    python benchmarks/planned.py --profile forest # where the time goes

Each run is a process of its own with one thread; the simulation of the rows is not counted.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import time
import warnings

import pyarrow as pa

import dipsmith as ds
from dipsmith.examples import personnel

FORMULA = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"
WANTED = 2.0
"""Seconds that an analysis may add at 1.3 million rows."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS")


def release(table: pa.Table, method: ds.Method, planned: bool) -> ds.Release:
    """Make one release, with the analysis or without."""
    asked = [FORMULA] if planned else []
    return ds.synthesize(
        table, personnel.schema(), method, budget=ds.PureDP("0.75"), testing=True, noise_seed=1, seed=1, analyses=asked
    )


def run(name: str, rows: int, planned: bool, profile: bool) -> None:
    """Make one release of simulated rows, and print what it took."""
    warnings.simplefilter("ignore")
    pa.set_cpu_count(1)
    table, _ = personnel.simulate(rows // len(personnel.YEARS))
    method = {"loglinear": ds.LogLinear, "forest": ds.Forest}[name](targets=["sex", "race"])
    watch = cProfile.Profile(time.process_time)
    release(personnel.simulate(500)[0], method, planned)  # imports, which any run needs
    start = os.times()
    if profile:
        watch.enable()
    release(table, method, planned)
    watch.disable()
    end = os.times()
    print(end.user - start.user, end.system - start.system)
    if profile:
        pstats.Stats(watch).sort_stats("cumulative").print_stats(70)


def seconds(name: str, rows: int, planned: bool) -> tuple[float, float]:
    """Processor time of a run in a process of its own, and how much of it is the system's (memory that is handed out)."""
    asked = [sys.executable, __file__, "--rows", str(rows), "--run", name, *(["--planned"] if planned else [])]
    quiet = {**os.environ, **dict.fromkeys(THREADS, "1")}
    told = subprocess.run(asked, check=True, capture_output=True, text=True, env=quiet).stdout
    user, system = (float(part) for part in told.split())
    return user + system, system


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_300_000)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, of which the fastest counts")
    parser.add_argument("--profile", choices=("loglinear", "forest"))
    parser.add_argument("--run", choices=("loglinear", "forest"), help=argparse.SUPPRESS)
    parser.add_argument("--planned", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run or options.profile:
        run(options.run or options.profile, options.rows, options.planned or not options.run, not options.run)
        return 0
    print(f"{options.rows:,} rows, {FORMULA}")
    fine = True
    for name in ("loglinear", "forest"):
        plain, planned = (
            min(seconds(name, options.rows, asked) for _ in range(options.repeat)) for asked in (False, True)
        )
        added = planned[0] - plain[0]
        fine &= added < WANTED
        told = "ok    " if added < WANTED else "MISSED"
        print(
            f"  {told} {name:9}  {plain[0]:5.1f} s without, {planned[0]:5.1f} s with: {added:+.2f} s "
            f"(wanted < {WANTED:g}), of which the system's {planned[1] - plain[1]:+.2f}; × {planned[0] / plain[0]:.2f}",
            flush=True,
        )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
