"""MST and AIM on the excerpt of the American Community Survey that NIST evaluates, scored by NIST's own package.

    python benchmarks/nist.py --acs acs_national2019.csv --scorer-python VENV/bin/python [--methods aim mst] [--seeds 10]

`VENV` is an environment of its own with `pip install sdnist==2.4`: the k-marginal score is computed there by its own
class (`sdnist.metrics.kmarginal.KMarginal`) on data binned by its own functions (numbers by twentieths of the real
rows, missing values apart), all places together and by place (PUMA) where that column is among the features.

Schema, from the public data dictionary: ages in steps of `--age-width` years up to 99 and drawn evenly within them;
every category list as it stands, 'N' (not applicable) is a level; and as rules, who has it: marital status and income
below the age of 15, education below 3 (so that a width of 3 fits both). ε = 1, δ = 1e-9, neighbours add-remove.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

FEATURES = ("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE")
"""The demographic features, all of whose values the data dictionary lists."""

LEVELS = {
    "AGEP": [str(i) for i in range(100)],
    "SEX": ["1", "2"],
    "MSP": ["N", *map(str, range(1, 7))],
    "HISP": [str(i) for i in range(5)],
    "RAC1P": [str(i) for i in range(1, 10)],
    "HOUSING_TYPE": ["1", "2", "3"],
    "OWN_RENT": ["0", "1", "2"],
    "EDU": ["N", *map(str, range(1, 13))],
    "PINCP_DECILE": ["N", *map(str, range(10))],
    "DVET": ["N", *map(str, range(1, 7))],
    "DEYE": ["1", "2"],
    "DEAR": ["1", "2"],
    "DPHY": ["N", "1", "2"],
    "DREM": ["N", "1", "2"],
}

YOUNGEST = {"MSP": 15, "PINCP_DECILE": 15, "EDU": 3}
"""The age from which a column applies; below it the data dictionary has 'N'."""

SCORER = """
import json, sys
import pandas as pd
import sdnist.report.dataset  # first: the package imports itself in a circle
from sdnist.metrics.kmarginal import KMarginal
from sdnist.report.dataset.binning import add_bin_for_NA, percentile_rank_synthetic, percentile_rank_target

numbers = ["AGEP"]
real, *made = [pd.read_csv(path, dtype={"AGEP": int}, keep_default_na=False).astype(object) for path in sys.argv[1:]]
binned = add_bin_for_NA(percentile_rank_target(real, numbers), real, numbers)
for table in made:
    synthetic = add_bin_for_NA(percentile_rank_synthetic(table, real, binned, numbers), table, numbers)
    groups = ["PUMA"] if "PUMA" in real else []
    columns = [c for c in real.columns]
    whole = KMarginal(binned[columns].astype(str), synthetic[columns].astype(str), groups)
    print(json.dumps(float(whole.compute_score())), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acs", required=True)
    parser.add_argument("--scorer-python", required=True)
    parser.add_argument("--methods", nargs="*", default=["aim", "mst"])
    parser.add_argument("--features", nargs="*", default=list(FEATURES))
    parser.add_argument("--age-width", type=int, default=3)
    parser.add_argument("--no-rules", action="store_true")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add to, such as results/nist.jsonl")
    given = parser.parse_args()
    codes = read_codes(given.acs, given.features)
    rows = coded_rows(codes, given)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        write(here / "real.csv", codes, given.features)
        for method in given.methods:
            seeds = range(given.first_seed, given.first_seed + given.seeds)
            seconds = [draw(rows, given, method, seed, here / f"{seed}.csv") for seed in seeds]
            scores = score(given.scorer_python, here, seeds)
            line = {"method": method, "epsilon": given.epsilon, "mean": round(float(np.mean(scores)), 1)}
            line |= {"scores": [round(s, 1) for s in scores], "cpu": round(float(np.mean(seconds)), 2)}
            print(json.dumps(line), flush=True)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(line | {"date": datetime.now(UTC).date().isoformat()}) + "\n")


def read_codes(path: str, features: list[str]) -> dict[str, np.ndarray]:
    """The table in codes of the public levels."""
    import pyarrow.csv as pv

    table = pv.read_csv(path, convert_options=pv.ConvertOptions(column_types=dict.fromkeys(features, "string")))
    return {n: np.array([LEVELS[n].index(v) for v in table[n].to_pylist()]) for n in features}


def coded_rows(codes: dict[str, np.ndarray], given: argparse.Namespace):
    """The same with ages in steps, and the rules."""
    from dipsmith.schema import Attribute, Categories, Codes, Rule, Schema, Unit

    width, sizes = given.age_width, {n: len(LEVELS[n]) for n in given.features}
    sizes["AGEP"] = -(-sizes["AGEP"] // width)
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in sizes.items()
    )
    rules = []
    for name in () if given.no_rules else (n for n in given.features if n in YOUNGEST and YOUNGEST[n] % width == 0):
        first = YOUNGEST[name] // width
        young, grown = tuple(range(first)), tuple(range(first, sizes["AGEP"]))
        rules += [Rule((("AGEP", young), (name, tuple(range(1, sizes[name]))))), Rule((("AGEP", grown), (name, (0,))))]
    schema = Schema("acs", attributes, Unit(), "add-remove", tuple(rules))
    return Codes.of(schema, codes | {"AGEP": codes["AGEP"] // width})


def draw(rows, given: argparse.Namespace, method: str, seed: int, path: Path) -> float:
    """Fit, draw, write; the CPU seconds of fitting and drawing."""
    from dipsmith.methods.catalogue import METHODS
    from dipsmith.privacy.budget import ZCDP
    from dipsmith.privacy.curator import Curator

    started = time.process_time()
    model = METHODS[method]().fit(Curator.rehearse(rows, ZCDP.from_approx(given.epsilon, 1e-9), seed=seed))
    made = model.sample(seed=seed)
    spent = time.process_time() - started
    within = np.random.default_rng(seed).integers(0, given.age_width, len(made))
    ages = np.minimum(made["AGEP"] * given.age_width + within, 99)
    write(path, {n: made[n] for n in given.features} | {"AGEP": ages}, given.features)
    return spent


def write(path: Path, codes: dict[str, np.ndarray], features: list[str]) -> None:
    lines = zip(*([LEVELS[n][c] for c in codes[n]] for n in features), strict=True)
    path.write_text("\n".join([",".join(features), *(",".join(line) for line in lines)]) + "\n", "utf-8")


def score(python: str, here: Path, seeds: range) -> list[float]:
    """What SDNist says of every table."""
    files = [str(here / "real.csv"), *(str(here / f"{seed}.csv") for seed in seeds)]
    done = subprocess.run([python, "-c", SCORER, *files], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1].isdigit()]


if __name__ == "__main__":
    main()
