"""Adult: a logistic regression of income on real rows, `python -m studies.coverage.adult --adult FILE`.

Ten releases by each method at ε = 1. What is counted is whether an accepted interval holds the coefficient that the authentic
rows give themselves. The file is the UCI Adult extract with its column names; it is read where it lies.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
from studies.coverage.people import FIRST
from studies.coverage.tally import Asked, Question

import dipsmith as ds

RESULTS = Path(__file__).parent / "adult.csv"
QUESTION = Question("", "income ~ sex + age + `education-num` + `hours-per-week`")
EPSILON, RELEASES, REPLICATES = "1", 10, 20
METHODS = {"aim": ds.AIM, "mst": ds.MST, "privbayes": ds.PrivBayes}
CASES = (("aim", True), ("mst", True), ("privbayes", True), ("aim", False), ("mst", False), ("privbayes", False))
SCHEMA = ds.Schema.from_dict(
    {
        "name": "adult",
        "unit": "row",
        "neighbours": "replace",
        "fields": [
            {"name": "age", "type": "integer", "minimum": 15, "maximum": 94, "bins": {"width": 5}},
            {"name": "education-num", "type": "integer", "minimum": 1, "maximum": 16},
            {"name": "hours-per-week", "type": "integer", "minimum": 0, "maximum": 99, "bins": {"width": 10}},
            {"name": "sex", "type": "string", "enum": ["Female", "Male"], "other": "Male"},
            {"name": "income", "type": "string", "enum": ["<=50K", ">50K"], "other": "<=50K"},
            {
                "name": "marital-status",
                "type": "string",
                "enum": [
                    "Divorced",
                    "Married-AF-spouse",
                    "Married-civ-spouse",
                    "Married-spouse-absent",
                    "Never-married",
                    "Separated",
                    "Widowed",
                ],
                "other": "Divorced",
            },
            {
                "name": "race",
                "type": "string",
                "enum": ["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"],
                "other": "Other",
            },
        ],
    }
)


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of one release: what the authentic rows give, and its interval; or the sentence that refused it."""

    method: str
    planned: bool
    seed: int
    coefficient: str
    authentic: float
    low: float
    high: float
    reason: str = ""


def read_adult(path: Path) -> pa.Table:
    """The columns of the schema; a dot after the income of the second half of the file is taken off."""
    table = pa_csv.read_csv(path).select(list(SCHEMA.names))
    at = table.column_names.index("income")
    income = pa.array([str(v).strip().rstrip(".") for v in table["income"].to_pylist()])
    return table.set_column(at, "income", income)


def run(table: pa.Table, method: str, planned: bool, seed: int) -> list[Coefficient]:
    """One release, and its answer."""
    own = ds.fit(table, QUESTION.formula, reference={"sex": "Female"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = ds.synthesize(
            table,
            SCHEMA,
            METHODS[method](),
            budget=ds.PureDP(EPSILON),
            analyses=[QUESTION.planned] if planned else [],
            testing=True,
            noise_seed=FIRST + seed,
        )
    asked = Asked.of(release, QUESTION, replicates=REPLICATES, seed=seed)
    told = {name: (low, high) for name, low, high in asked.intervals()}
    nan = float("nan")
    return [
        Coefficient(method, planned, seed, n, round(own[n].value, 6), *told.get(n, (nan, nan)), asked.reason[:200])
        for n in own.names
        if n != "Intercept"
    ]


def read(path: Path = RESULTS) -> list[Coefficient]:
    """The results of earlier runs."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as held:
        return [
            Coefficient(
                r["method"],
                r["planned"] == "True",
                int(r["seed"]),
                r["coefficient"],
                *(float(r[n]) for n in ("authentic", "low", "high")),
                r["reason"],
            )
            for r in csv.DictReader(held)
        ]


def write(found: Sequence[Coefficient], path: Path = RESULTS) -> None:
    """Write all results."""
    with path.open("w", encoding="utf-8", newline="") as held:
        writer = csv.DictWriter(held, [f.name for f in fields(Coefficient)], lineterminator="\n")
        writer.writeheader()
        for one in found:
            row = asdict(one)
            writer.writerow(row | {n: f"{row[n]:.6g}" for n in ("authentic", "low", "high")})


TEXT = """## Real rows: income in Adult

48,842 rows of the UCI Adult extract, seven columns (age in bins of five years, hours in bins of ten), ε = {epsilon}, neighbours replace; the logistic regression
`{formula}`. Counted is whether an accepted interval holds the coefficient of the authentic rows themselves, which have no
noise. *Planned*: the steward was told the formula, so that one noisy table holds its columns.
`python -m studies.coverage.adult --adult FILE` repeats it.

{table}
"""


def tell(found: Sequence[Coefficient]) -> str:
    """The section of the page."""
    shown = ["| release | releases | accepted | coefficient | authentic | intervals from | covers |", "|---" * 7 + "|"]
    for method, planned in CASES:
        mine = [c for c in found if (c.method, c.planned) == (method, planned)]
        told = [c for c in mine if c.low == c.low]
        name, many = f"{method}{', planned' if planned else ''}", len({c.seed for c in mine})
        if not mine:
            continue
        if not told:
            shown.append(f"| {name} | {many} | 0 | all | | refused | – |")
        for coefficient in dict.fromkeys(c.coefficient for c in told):
            some = [c for c in told if c.coefficient == coefficient]
            held = sum(c.low <= c.authentic <= c.high for c in some)
            ends = f"{min(c.low for c in some):.3f} to {max(c.high for c in some):.3f}"
            shown.append(
                f"| {name} | {many} | {len(some)} | {coefficient} | {some[0].authentic:.4f} | {ends} | {held} of {len(some)} |"
            )
    return TEXT.format(epsilon=EPSILON, formula=QUESTION.formula, table="\n".join(shown))


def main() -> None:
    """Run what is missing."""
    options = argparse.ArgumentParser(prog="python -m studies.coverage.adult", description=__doc__)
    options.add_argument("--adult", type=Path, required=True, help="the UCI Adult extract, with column names")
    options.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    chosen = options.parse_args()
    table, started, done = read_adult(chosen.adult), time.monotonic(), read()
    for seed in range(RELEASES):
        for method, planned in CASES:
            known = any((c.method, c.planned, c.seed) == (method, planned, seed) for c in done)
            if known or time.monotonic() - started > 60 * chosen.minutes:
                continue
            began = time.process_time()
            done += run(table, method, planned, seed)
            write(done)
            print(f"{time.process_time() - began:6.1f} s  {method} {planned} {seed}", flush=True)


if __name__ == "__main__":
    main()
