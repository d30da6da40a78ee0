"""`make mutants`: plant each bug in a copy of the package, run its test, print which were caught.

python tests/audit/mutants/run.py [--only TEXT] [--results FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutants_catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "dipsmith"


def planted(mutant: Mutant, package: Path) -> dict[str, str]:
    """The files' texts with the bug; refuses when a place is not found exactly once."""
    texts: dict[str, str] = {}
    for file, old, new in (*((mutant.file, *edit) for edit in mutant.edits), *mutant.also):
        text = texts.get(file) or (package / file).read_text("utf-8")
        found = text.count(old)
        if found != 1:
            raise SystemExit(
                f"mutant '{mutant.name}': its place occurs {found} times in {file}; the code moved, "
                "so move the mutant after it (tests/audit/mutants/mutants_catalogue.py)"
            )
        texts[file] = text.replace(old, new)
    return texts


def caught(mutant: Mutant, seconds: float = 300.0) -> tuple[bool, str]:
    """Whether the mutant's test fails on a copy of the package with the bug, and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "dipsmith"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for file, text in planted(mutant, PACKAGE).items():
            (copy / file).write_text(text, "utf-8")
        ran = subprocess.run(
            # An empty -m: whatever tier the test is of.
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                "--no-header",
                "-m",
                "",
                mutant.test,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    last = lines[-1] if lines else ran.stderr.strip()[-200:]
    # 1: tests ran and failed. Anything else (no such test, broken collection) is no catch.
    return ran.returncode == 1 and " failed" in last, last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path)
    asked = parser.parse_args()
    chosen = [m for m in MUTANTS if asked.only in m.name]
    for mutant in chosen:
        planted(mutant, PACKAGE)
    rows = []
    for mutant in chosen:
        start = time.perf_counter()
        found, last = caught(mutant)
        rows.append({"mutant": mutant.name, "file": mutant.file, "test": mutant.test, "caught": found, "said": last})
        mark = "caught" if found else "MISSED"
        print(f"{mark}  {mutant.name}: {mutant.test} ({time.perf_counter() - start:.0f} s)", flush=True)
        if not found:
            print(f"        {last}")
    total = sum(row["caught"] for row in rows)
    print(f"{total} caught of {len(rows)} planted")
    if asked.results is not None:
        asked.results.parent.mkdir(parents=True, exist_ok=True)
        held = json.loads(asked.results.read_text("utf-8"))["mutants"] if asked.results.exists() else []
        known = {row["mutant"]: row for row in (*held, *rows)}
        kept = [known[m.name] for m in MUTANTS if m.name in known]
        facts = {"done": datetime.now(UTC).isoformat(timespec="seconds"), "mutants": kept}
        asked.results.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return int(total < len(rows))


if __name__ == "__main__":
    sys.exit(main())
