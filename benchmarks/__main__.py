"""Run the benchmarks: `python -m benchmarks` runs all, `python -m benchmarks noise counting` some of them.

Each prints ratios against a peer or a bound measured in the same run; no figure is asserted, because
machines are noisy. Those that need a public data set or a peer that is not installed say so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    known = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_"))
    chosen = sys.argv[1:] or known
    unknown = set(chosen) - set(known)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
        return 2
    worst = 0
    for name in chosen:
        print(f"\n=== {name} ===", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
