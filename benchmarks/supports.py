"""How long a release takes to say whether it carries a formula: the first call after it was loaded, and later ones.

    python benchmarks/supports.py                # 40,000 rows of example personnel; 135 and 1,151 cells of noisy tables

Releases are made first and not counted, and one call of another release pays for imports. One thread, processor time.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_NUM_THREADS"):
    os.environ[name] = "1"

import dipsmith as ds  # noqa: E402
from dipsmith.examples import personnel  # noqa: E402
from dipsmith.schema.bins import by_width  # noqa: E402

PLANNED = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"
FORMULAS = ("education ~ sex | year + agency", "education ~ sex + age + agency", "sex ~ age + agency", PLANNED)
ROWS, TIMES, WANTED = 10_000, 3, 0.1
"""Rows a year; fresh releases that are asked; seconds that an answer may take."""


def finely() -> ds.Schema:
    """The example's schema with pay in a thousand bins and every year of age."""
    fine = {"pay": by_width("number", 0, 250_000, 250), "age": by_width("integer", 17, 75, 1)}
    schema = personnel.schema()
    attributes = tuple(replace(a, domain=fine.get(a.name, a.domain)) for a in schema.attributes)
    return replace(schema, attributes=attributes, rules=())


def releases(folder: Path) -> Iterator[tuple[str, Path]]:
    """Releases that are asked."""
    table, _ = personnel.simulate(ROWS)
    labels = ds.LogLinear(targets=["sex", "race"])
    for title, schema, method, planned in (
        ("log-linear", personnel.schema(), labels, []),
        ("log-linear, planned", personnel.schema(), labels, [PLANNED]),
        ("forest, planned", personnel.schema(), ds.Forest(targets=["sex", "race"]), [PLANNED]),
        ("log-linear, fine bins", finely(), ds.LogLinear(targets=["sex"]), []),
    ):
        made = ds.synthesize(
            table, schema, method, budget=ds.PureDP("0.75"), testing=True, noise_seed=1, seed=1, analyses=planned
        )
        made.save(folder / title)
        yield title, folder / title


def main() -> None:
    """Ask every formula of every release, loaded anew, twice; print the median of both."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as given:
        found = list(releases(Path(given)))
        ds.Release.load(found[0][1]).supports(FORMULAS[0])
        for title, folder in found:
            for formula in FORMULAS:
                if "race" in formula and "fine" in title:
                    continue  # it has no race
                took = sorted(_ask(folder, formula) for _ in range(TIMES))[TIMES // 2]
                told = "ok    " if max(took) < WANTED else "MISSED"
                print(f"  {told} {title:22} first {took[0]:.3f} s, later {took[1]:.3f} s: {formula}", flush=True)


def _ask(folder: Path, formula: str) -> tuple[float, float]:
    release, times = ds.Release.load(folder), [time.process_time()]
    for _ in range(2):
        release.supports(formula)
        times.append(time.process_time())
    return times[1] - times[0], times[2] - times[1]


if __name__ == "__main__":
    main()
