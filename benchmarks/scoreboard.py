"""The scoreboard: ours and every peer that installs, on real tables, in one go; stop it and run it again to go on.

    python benchmarks/scoreboard.py --data DIR --out results.jsonl --page docs/scoreboard.md

`DIR` holds the tables (`adult.csv`, `acs_national2019.csv`, `loans_coded.parquet` with `loans-domain.json`,
`salary_coded.parquet` with `salary-domain.json`); one that is missing is left out. `--table FILE DOMAIN` adds any table of
integer codes (Parquet) with the sizes of its columns (JSON). Every run has a process of its own, which reports CPU
seconds and peak memory before anything is scored; a peer has a virtual environment of its own as well
(`_peer_homes.py`) and is stopped after `--limit` CPU seconds. All are scored by the functions below:

TVD1, 2, 3     mean total-variation distance of one-way, two-way and three-way marginals (at most 150 pairs, 50 triples)
k-marginal     1000 · (1 − mean TVD of all pairs by group), as SDNist 2.4 defines it (`metrics/kmarginal.py`); on our bins
KS             two-sample distance of propensity scores by gradient boosting, cross-fitted: 0 cannot be told apart
accuracy       of gradient boosting that is trained on synthetic rows and tested on a held-out fifth of the real ones,
               which took no part in the fit

--peers [NAME …]   also the peers; --seeds, --epsilon, --tables, --methods   what to run
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np

from _peer_homes import DEFAULT_HOME, PEERS, interpreter
from _scoreboard_figure import draw_scoreboard
from networks import HERE, METHODS, NUMBERS, SHAPE, adult, base_task, counts, in_own_process

ACS_NUMBERS = {"AGEP": (0, 100), "PINCP": (-10_000, 200_000), "POVPIP": (0, 501)}
"""Public ranges, in 16 equal bins; 'N' (not applicable) is a level of its own."""

ACS_COLUMNS = (
    "PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "EDU", "PINCP",
    "PINCP_DECILE", "POVPIP", "DVET", "DREM", "DPHY", "DEYE", "DEAR",
)  # fmt: skip
BINS = 16


@dataclass(frozen=True)
class Table:
    """A table of codes: the public size of every column, the column that places are in, the one to be predicted."""

    codes: dict[str, np.ndarray]
    sizes: dict[str, int]
    group: str | None = None
    target: str | None = None

    def rows(self, which: np.ndarray) -> dict[str, np.ndarray]:
        """Some of the rows."""
        return {name: column[which] for name, column in self.codes.items()}


def acs(path: Path) -> Table:
    """The NIST excerpt of the American Community Survey; category lists as its data dictionary has them."""
    import pyarrow.csv as pv

    table = pv.read_csv(path, convert_options=pv.ConvertOptions(column_types=dict.fromkeys(ACS_COLUMNS, "string")))
    codes, sizes = {}, {}
    for name in ACS_COLUMNS:
        column = np.array(table[name].to_pylist(), dtype=object)
        if name in ACS_NUMBERS:
            low, high = ACS_NUMBERS[name]
            there = column != "N"
            binned = np.full(len(column), BINS)
            scaled = (column[there].astype(float) - low) / (high - low) * BINS
            binned[there] = np.clip(scaled.astype(int), 0, BINS - 1)
            codes[name], sizes[name] = binned, BINS + 1
        else:
            levels, codes[name] = np.unique(column.astype(str), return_inverse=True)
            sizes[name] = len(levels)
    return Table(codes, sizes, group="PUMA", target="OWN_RENT")


def coded(path: Path, domain: Path) -> Table:
    """A Parquet file of integer codes with a JSON file of sizes."""
    import pyarrow.parquet as pq

    sizes = {name: int(size) for name, size in json.loads(domain.read_text("utf-8")).items()}
    table = pq.read_table(path, columns=list(sizes))
    codes = {name: table[name].to_numpy().astype(np.int64) for name in sizes}
    binary = [name for name, size in sizes.items() if size == 2]
    return Table(codes, sizes, target=binary[-1] if binary else None)


def load(given: argparse.Namespace) -> dict[str, Table]:
    """The tables that are there."""
    data, found = given.data, {}
    if (data / "adult.csv").exists():
        found["adult"] = Table(adult(str(data / "adult.csv")), dict(SHAPE), target="income")
    if (data / "acs_national2019.csv").exists():
        found["acs"] = acs(data / "acs_national2019.csv")
    for name in ("loans", "salary"):
        if (data / f"{name}_coded.parquet").exists():
            found[name] = coded(data / f"{name}_coded.parquet", data / f"{name}-domain.json")
    for path, domain in given.table or ():
        found[Path(path).stem] = coded(Path(path), Path(domain))
    return {name: table for name, table in found.items() if not given.tables or name in given.tables}


def score(table: Table, made: dict[str, np.ndarray], train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """All measures of one synthetic table."""
    real, sizes = table.rows(train), table.sizes
    found = {f"tvd{k}": _distance(real, made, sizes, k) for k in (1, 2, 3)}
    group = () if table.group is None else (table.group,)
    pairs = _some(list(combinations([n for n in sizes if n not in group], 2)), 150)
    apart = np.mean([_apart(real, made, sizes, (*group, *pair)) for pair in pairs])
    found["k_marginal"] = 1000 * (1 - float(apart))
    found["ks"] = propensity(real, made, sizes)
    if table.target is not None:
        found["accuracy"] = accuracy(made, table.rows(test), sizes, table.target)
        found["accuracy_real"] = accuracy(real, table.rows(test), sizes, table.target)
    return found


def _some(sets: list, most: int) -> list:
    if len(sets) <= most:
        return sets
    return [sets[i] for i in sorted(np.random.RandomState(0).choice(len(sets), most, replace=False))]


def _apart(real: dict, made: dict, sizes: dict[str, int], names: tuple[str, ...]) -> float:
    return 0.5 * float(np.abs(counts(real, names, sizes) - counts(made, names, sizes)).sum())


def _distance(real: dict, made: dict, sizes: dict[str, int], ways: int) -> float:
    sets = _some(list(combinations(sizes, ways)), 150 if ways == 2 else 50)
    return float(np.mean([_apart(real, made, sizes, names) for names in sets]))


def _boosting(sizes: dict[str, int], names: list[str]):
    from sklearn.ensemble import HistGradientBoostingClassifier

    nominal = [n not in NUMBERS and n not in ACS_NUMBERS and sizes[n] <= 255 for n in names]
    return HistGradientBoostingClassifier(
        max_iter=100, categorical_features=nominal, random_state=0, early_stopping=False, class_weight="balanced"
    )


def propensity(real: dict, made: dict, sizes: dict[str, int]) -> float:
    """The two-sample distance of propensity scores, cross-fitted in two folds."""
    from scipy.stats import ks_2samp
    from sklearn.model_selection import cross_val_predict

    names = list(sizes)
    rows = [np.column_stack([side[n] for n in names])[:50_000] for side in (real, made)]
    which = np.repeat([0, 1], [len(r) for r in rows])
    order = np.random.default_rng(0).permutation(len(which))
    all_rows, which = np.concatenate(rows)[order], which[order]
    chance = cross_val_predict(_boosting(sizes, names), all_rows, which, cv=2, method="predict_proba")[:, 1]
    return float(ks_2samp(chance[which == 0], chance[which == 1]).statistic)


def accuracy(rows: dict, held: dict, sizes: dict[str, int], target: str) -> float:
    """Trained on some rows, tested on others."""
    names = [n for n in sizes if n != target]
    model = _boosting(sizes, names).set_params(class_weight=None)
    model.fit(np.column_stack([rows[n] for n in names])[:50_000], rows[target][:50_000])
    return float(model.score(np.column_stack([held[n] for n in names]), held[target]))


class Lines:
    """What was run so far, by its name, kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        held = path.read_text("utf-8").splitlines() if path.exists() else []
        self.by_name = {line["what"]: line for line in map(json.loads, held)}

    def add(self, line: dict) -> None:
        """Write a line down."""
        self.by_name[line["what"]] = line
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(kept) + "\n" for kept in self.by_name.values()), "utf-8")
        print(json.dumps(line), flush=True)


def run(given: argparse.Namespace, lines: Lines, name: str, table: Table, python: str, peer: str | None) -> None:
    """Every method of ours, or of a peer, on one table at every ε."""
    rows = len(next(iter(table.codes.values())))
    shuffled = np.random.default_rng(12).permutation(rows)
    test, train = shuffled[: rows // 5], shuffled[rows // 5 :]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.savez(here / "codes.npz", **table.rows(train))
        for epsilon in given.epsilon:
            for method in given.methods if peer is None else PEERS[peer].runs:
                what = f"{name} {'dipsmith' if peer is None else peer} {method} {epsilon:g}"
                for seed in range(given.seeds if peer is None else 1):
                    if f"{what} {seed}" in lines.by_name or (peer and _is_too_slow(lines, name, peer, method)):
                        continue
                    task = base_task(given, here, "made", table.sizes, method, epsilon, given.delta, [seed])
                    script = HERE / ("networks.py" if peer is None else "_network_peers.py")
                    task |= {"peer": peer, "rho": _rho(epsilon, given.delta)} if peer else {}
                    done = in_own_process(python, script, task, given.limit)
                    line = {"what": f"{what} {seed}", "date": datetime.now(UTC).date().isoformat()}
                    if done is None:
                        lines.add(line | {"limit": given.limit})
                    elif not done:
                        lines.add(line | {"failed": True})
                    else:
                        made = dict(np.load(here / f"made-{seed}.npz"))
                        found = score(table, {n: made[n].astype(np.int64) for n in table.sizes}, train, test)
                        spent = {"cpu": done[0]["fit"] + done[0]["sample"], "memory": done[0]["rss"]}
                        lines.add(line | found | spent)


def _is_too_slow(lines: Lines, name: str, peer: str, method: str) -> bool:
    """Whether a run of this peer on this table did not end: at another ε it would not either."""
    begins = f"{name} {peer} {method} "
    return any(what.startswith(begins) and "limit" in line for what, line in lines.by_name.items())


def _rho(epsilon: float, delta: float) -> float:
    from dipsmith.privacy.budget import ZCDP

    return ZCDP.from_approx(epsilon, delta).rho


COLUMNS = ("tvd1", "tvd2", "ratio", "tvd3", "k_marginal", "ks", "accuracy", "cpu", "memory")
HEADS = ("TVD1", "TVD2", "ratio", "TVD3", "k-marginal", "KS", "accuracy", "CPU s", "MB")


def means(lines: dict[str, dict]) -> dict[tuple[str, str, str, str], dict]:
    """Over seeds: by table, whose, method and ε."""
    found: dict[tuple[str, str, str, str], list[dict]] = {}
    for what, line in lines.items():
        found.setdefault(tuple(what.split(" ")[:4]), []).append(line)
    made = {}
    for key, group in found.items():
        ended = [line for line in group if "tvd1" in line]
        one = {
            c: float(np.mean([line[c] for line in ended]))
            for c in (*COLUMNS, "accuracy_real")
            if ended and c in ended[0]
        }
        limit = next((g["limit"] for g in group if "limit" in g), None)
        failed = any("failed" in line for line in group)
        made[key] = one | {
            "seeds": len(ended),
            "limit": limit,
            "failed": failed,
            "before": any("before" in g for g in group),
        }
    return made


def page(lines: dict[str, dict]) -> str:
    """The table of all that was run, losses like wins."""
    today = max((line["date"] for line in lines.values()), default="never")
    text = [
        "# Scoreboard",
        "",
        f"Last run {today}, by `benchmarks/scoreboard.py`, which says what is measured and resumes (`make scoreboard DATA=DIR`",
        "runs all of it). δ = 1e-9, neighbours add-remove; four fifths of the rows are synthesised, one fifth tests what is",
        "trained on synthetic rows. Bold: the best of its table and ε. What is not listed was not run.",
        "",
    ]
    if not any(key[1] != "dipsmith" for key in means(lines)):
        text += ["No peer was run so far.", ""]
    text += [
        "Peers run with their own defaults, one thread, and so many CPU seconds at most as `> …` says where one did not end;",
        "what did not end at one ε is not run at the others. *failed*: the peer ended with an error of its own. More of",
        "them, of an earlier run, stand in [0006](decisions/0006-own-inference.md). SmartNoise and OpenDP draw rows with mbi",
        "1.1.0, whose sampler correlates what should be independent. *Ratio*: TVD2 divided by that of our AIM.",
        "",
    ]
    text += [
        "The k-marginal is SDNist's formula on our bins and on all columns (ACS: by PUMA), not its official report.",
        "",
    ]
    if any("before" in line for line in lines.values()):
        text += ["†: run before rows were balanced ([0019](decisions/0019-balanced-rows.md)).", ""]
    text += ["![Error of pairs and CPU seconds](images/scoreboard.svg)", ""]
    found = means(lines)
    for name in dict.fromkeys(key[0] for key in found):
        real = next((r["accuracy_real"] for k, r in found.items() if k[0] == name and "accuracy_real" in r), None)
        text += [f"## {name}", ""]
        text += [f"Trained on the real rows the accuracy is {real:.3f}.", ""] if real is not None else []
        text += ["| method | ε | seeds | " + " | ".join(HEADS) + " |", "|---|---|---|" + "---:|" * len(HEADS)]
        for key in sorted((k for k in found if k[0] == name), key=lambda k: (float(k[3]), k[1], k[2])):
            ours = found.get((name, "dipsmith", "aim", key[3]), {})
            if "tvd2" in ours and "tvd2" in found[key]:
                found[key]["ratio"] = found[key]["tvd2"] / ours["tvd2"]
            rivals = [r for k, r in found.items() if (k[0], k[3]) == (name, key[3])]
            cells = [_cell(found[key], column, rivals) for column in COLUMNS]
            mark = " †" if found[key]["before"] else ""
            text.append(f"| {key[1]} {key[2]}{mark} | {key[3]} | {found[key]['seeds']} | " + " | ".join(cells) + " |")
        text.append("")
    results = HERE / "results"
    return "\n".join([*text, *trained(results / "trained.jsonl"), *official(results / "nist.jsonl")])


def trained(path: Path) -> list[str]:
    """What is lost by training on synthetic rows (`trained.py`), as a section; nothing where it was not run."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    text = [
        "## Trained on synthetic rows",
        "",
        "Accuracy of gradient boosting that predicts the income of a fifth of Adult, trained on the other rows or on",
        "synthetic ones in their place. The tables above have one division of the rows; this one has several, since the",
        "loss varies by half a point from one to the next: `python benchmarks/trained.py`, δ = 1e-9.",
        "",
        "| method | ε | divisions | real rows | synthetic rows | points lost | ± |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for line in lines:
        figures = f"{line['real']:.3f} | {line['synthetic']:.3f} | {line['lost']:.2f} | {line['error']:.2f}"
        text.append(f"| dipsmith {line['method']} | {line['epsilon']:g} | {line['divisions']} | {figures} |")
    return [*text, ""]


def official(path: Path) -> list[str]:
    """What NIST's own package says (`nist.py`), as a section; nothing where it was not run."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    text = [
        "## NIST's own score",
        "",
        "The k-marginal of `sdnist` 2.4 on ten demographic columns of the excerpt `national2019` (27,253 rows; age, sex,",
        "marital status, race, housing, tenure, education, income decile, veterans, eyesight), ε = 1, δ = 1e-9:",
        "`python benchmarks/nist.py`, which says what schema and rules were taken from the public data dictionary. NIST's",
        "archive has 976 for SmartNoise's AIM and 958 for its MST, by submissions that chose their own schemas, perhaps on",
        "other columns.",
        "",
        "| method | seeds | mean | least | most | CPU s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for line in lines:
        scores = line["scores"]
        figures = f"{line['mean']:.1f} | {min(scores):.1f} | {max(scores):.1f} | {line['cpu']:.1f}"
        text.append(f"| dipsmith {line['method']} | {len(scores)} | {figures} |")
    return [*text, ""]


def _cell(line: dict, column: str, rivals: list[dict]) -> str:
    if column not in line:
        ending = f"> {line['limit']:g}" if line["limit"] else "failed" if line["failed"] else ""
        return ending if column == "cpu" else ""
    best = (max if column in ("k_marginal", "accuracy") else min)(r[column] for r in rivals if column in r)
    form = {"ratio": ".2f", "k_marginal": ".0f", "cpu": ".1f", "memory": ".0f", "ks": ".3f", "accuracy": ".3f"}.get(
        column, ".4f"
    )
    shown = format(line[column], form)
    return f"**{shown}**" if line[column] == best and len(rivals) > 1 and column != "ratio" else shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--table", nargs=2, action="append", metavar=("FILE", "DOMAIN"))
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS))
    parser.add_argument("--peers-home", type=Path, default=DEFAULT_HOME)
    parser.add_argument("--limit", type=float, default=900)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "scoreboard.jsonl")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    given.max_cells = given.richness = None
    lines = Lines(given.out)
    tables = load(given)
    if not tables:
        print(f"no table in {given.data}: give --data DIR, or --table FILE DOMAIN")
    names = [] if given.peers is None else given.peers or list(PEERS)
    for name, table in tables.items():
        run(given, lines, name, table, sys.executable, None)
    for peer in names:
        if (python := interpreter(peer, given.peers_home)) is not None:
            for name, table in tables.items():
                run(given, lines, name, table, python, peer)
    if given.page:
        given.page.write_text(page(lines.by_name), "utf-8")
        draw_scoreboard(means(lines.by_name), given.page.parent / "images" / "scoreboard.svg")


if __name__ == "__main__":
    main()
