"""Careers of a million people over ten years: processor seconds, seconds by the clock and memory of one run of AIM.

    python benchmarks/panels.py [PEOPLE]

The table (8 columns, about 6.5 million rows for a million people) is simulated into a Parquet file by a process of its own,
so that its memory is not counted. ε = 1 for a whole career.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

SIMULATE = """
import sys
from dipsmith.examples.personnel import write_panel
write_panel(sys.argv[1], round(int(sys.argv[2]) / 1.527), seed=5)
"""


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", SIMULATE, folder, str(people)], check=True)
        import dipsmith as ds

        begun, cpu = time.perf_counter(), time.process_time()
        release = ds.synthesize(
            Path(folder) / "panel.parquet",
            ds.Schema.read(Path(folder) / "panel.yaml"),
            ds.AIM(),
            budget=ds.PureDP(1),
            testing=True,
            noise_seed=1,
            seed=1,
        )
        made = release.tables[0]
        print(
            f"{people:,} people asked for, {made.num_rows:,} rows of {made['employee_id'].to_numpy().max():,} made: "
            f"{time.process_time() - cpu:.0f} s of CPU, {time.perf_counter() - begun:.0f} s by the clock, "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB at most"
        )


if __name__ == "__main__":
    main()
