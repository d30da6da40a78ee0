"""MST, AIM and PrivBayes on the Adult table, against the peers: `python benchmarks/networks.py --adult adult.csv`.

Numeric columns in 16 equal-width bins over public ranges, category lists public, neighbours add-remove, unit
row. TVDk is the mean total-variation distance over all one-way, all two-way and 50 random three-way
marginals. Every method runs in a process of its own, which reports CPU seconds and peak memory before
anything is scored.

--scorer FILE     a module with `score(real, synthetic)`, called once per method and ε (propensity scores too)
--loans FILE      a wide table of integer codes (Parquet), with --loans-domain FILE (JSON: sizes)
--peer mbi=PYTHON, --peer dpmm=PYTHON   interpreters in which a peer is installed: mbi gets the very
                  measurements that MST and AIM made and only has to fit and sample; dpmm runs its own methods
--tenfold         also time every method on ten times the rows
--only-peers      leave our own table out
--out FILE        also write every line as JSON, added to what the file holds; `--draw FILE SVG` makes a figure of it

Without --adult a simulated table of the same shape is used, and the figures mean nothing but time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent

NUMBERS = {
    "age": (17, 91),
    "fnlwgt": (0, 1_600_000),
    "education-num": (1, 17),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 100),
}
BINS = 16
SHAPE = {
    "age": 16, "workclass": 9, "fnlwgt": 16, "education": 16, "education-num": 16, "marital-status": 7,
    "occupation": 15, "relationship": 6, "race": 5, "sex": 2, "capital-gain": 16, "capital-loss": 16,
    "hours-per-week": 16, "native-country": 42, "income": 2,
}  # fmt: skip
METHODS = ("mst", "aim", "privbayes")


# --- data -----------------------------------------------------------------------------------------


def adult(path: str | None) -> dict[str, np.ndarray]:
    """Codes of the Adult table; simulated ones of the same shape without a file."""
    if path is None:
        rng = np.random.default_rng(0)
        hidden = rng.integers(0, 6, 48_842)
        return {
            n: np.where(
                rng.random(48_842) < 0.6, hidden % s, np.minimum(rng.geometric(0.3, 48_842) - 1, s - 1)
            )
            for n, s in SHAPE.items()
        }
    import pyarrow.csv as pv

    table = pv.read_csv(path)
    codes = {}
    for name, size in SHAPE.items():
        column = table[name].to_numpy(zero_copy_only=False)
        if name in NUMBERS:
            low, high = NUMBERS[name]
            scaled = (column.astype(float) - low) / (high - low) * BINS
            codes[name] = np.clip(scaled.astype(int), 0, BINS - 1)
        else:
            # Which code a category has is of no consequence; the public list has as many as SHAPE says.
            levels, codes[name] = np.unique([str(v).strip() for v in column], return_inverse=True)
            if len(levels) > size:
                raise SystemExit(
                    f"{path}: column {name} has {len(levels)} categories, expected at most {size}"
                )
    return codes


def counts(codes: dict[str, np.ndarray], names: tuple[str, ...], sizes: dict[str, int]) -> np.ndarray:
    key = np.zeros(len(codes[names[0]]), dtype=np.int64)
    for n in names:
        key = key * sizes[n] + codes[n]
    return np.bincount(key, minlength=int(np.prod([sizes[n] for n in names]))) / len(key)


def distance(real: dict, made: dict, sizes: dict[str, int], ways: int, most: int | None = None) -> float:
    sets = list(combinations(sizes, ways))
    if most is not None and len(sets) > most:
        chosen = np.random.RandomState(0).choice(len(sets), most, replace=False)
        sets = [sets[i] for i in sorted(chosen)]
    return float(np.mean([0.5 * np.abs(counts(real, s, sizes) - counts(made, s, sizes)).sum() for s in sets]))


# --- one method in a process of its own -----------------------------------------------------------


def rows_of(codes, sizes):
    from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit

    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in sizes.items()
    )
    return Codes.of(Schema("benchmark", attributes, Unit(), "add-remove"), codes)


class Recording:
    """A curator that remembers what it measured, for a peer to fit."""

    def __init__(self, curator):
        self._curator = curator
        self.measured = []

    def __getattr__(self, name):
        return getattr(self._curator, name)

    def measure(self, cells, budgets):
        """Measure, and remember what came out."""
        found = self._curator.measure(cells, budgets)
        self.measured += found
        return found


def run_one(task: dict) -> None:
    from dipsmith.methods.catalogue import METHODS as CATALOGUE
    from dipsmith.privacy.budget import ZCDP, PureDP
    from dipsmith.privacy.curator import Curator

    held = np.load(task["codes"])
    sizes = json.loads(task["sizes"])
    rows = rows_of({n: held[n] for n in sizes}, sizes)
    budget = (
        PureDP(task["epsilon"]) if task["delta"] is None else ZCDP.from_approx(task["epsilon"], task["delta"])
    )
    method = CATALOGUE[task["method"]]()
    out = {}
    for seed in task["seeds"]:
        started = time.process_time()
        curator = Recording(Curator.rehearse(rows, budget, seed=seed))
        model = method.fit(curator)
        fitted = time.process_time()
        made = model.sample(seed=seed)
        sampled = time.process_time()
        out = {
            "seed": seed,
            "fit": fitted - started,
            "sample": sampled - fitted,
            "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "cells": model.tree.cells,
        }
        np.savez(f"{task['out']}-{seed}.npz", **{n: made[n] for n in sizes})
        if task["measured"]:
            tables = {f"{i}": m.values for i, m in enumerate(curator.measured)}
            about = [[list(m.cells.attributes), m.variance**0.5] for m in curator.measured]
            np.savez(
                f"{task['out']}-{seed}-measured.npz", about=json.dumps(about), total=model.total, **tables
            )
        print(json.dumps(out), flush=True)


def in_own_process(python: str, script: Path, task: dict) -> list[dict]:
    done = subprocess.run(
        [python, str(script), "--task", json.dumps(task)], stdout=subprocess.PIPE, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode and not lines:
        print(f"  {task.get('method')} did not run ({python})")
    return lines


# --- the table ------------------------------------------------------------------------------------


def report(
    label: str,
    runs: list[dict],
    scores: list[tuple[float, float, float]],
    extra: str = "",
    out: str | None = None,
) -> None:
    fit, sample, rss = (float(np.mean([r[k] for r in runs])) for k in ("fit", "sample", "rss"))
    means, spread = np.mean(scores, axis=0), np.std(scores, axis=0)
    if out is not None:
        line = {
            "what": label, "seeds": len(scores), "fit": fit, "sample": sample, "rss": rss,
            "tvd": [float(m) for m in means], "sd": [float(d) for d in spread], "extra": extra,
        }  # fmt: skip
        with Path(out).open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(
        f"{label:<34} fit {fit:7.2f} s  sample {sample:5.2f} s  peak {rss:5.0f} MB   "
        f"TVD1 {means[0]:.4f}  TVD2 {means[1]:.4f} ± {spread[1]:.4f}  TVD3 {means[2]:.4f}   {extra}",
        flush=True,
    )


def scored(codes, made, sizes) -> tuple[float, float, float]:
    return tuple(distance(codes, made, sizes, k, 50 if k == 3 else None) for k in (1, 2, 3))


def by_scorer(path: str | None, codes, made) -> str:
    if path is None:
        return ""
    import pandas as pd

    spec = importlib.util.spec_from_file_location("scorer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.score(pd.DataFrame(codes), pd.DataFrame({n: made[n].astype(int) for n in codes}))
    return f"KS logit {found['ks_logit']:.3f}  KS boosting {found['ks_hgb']:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adult")
    parser.add_argument("--scorer")
    parser.add_argument("--loans")
    parser.add_argument("--loans-domain")
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--law", choices=["zcdp", "pure", "both"], default="zcdp")
    parser.add_argument("--only-peers", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--draw", nargs=2, metavar=("FILE", "SVG"))
    parser.add_argument("--method", action="append")
    parser.add_argument("--tenfold", action="store_true")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        run_one(json.loads(given.task))
        return
    if given.draw:
        draw(*given.draw)
        return
    peers = dict(p.split("=", 1) for p in given.peer)
    codes = adult(given.adult)
    n = len(codes["age"])
    print(
        f"{'Adult' if given.adult else 'simulated'}: {n:,} × {len(SHAPE)}, δ = {given.delta:g}, {given.seeds} seeds"
    )
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.savez(here / "codes.npz", **codes)
        half = np.random.default_rng(0).permutation(n)
        first, second = ({c: v[i] for c, v in codes.items()} for i in (half[: n // 2], half[n // 2 :]))
        nothing = [{"fit": 0, "sample": 0, "rss": 0}]
        report("one real half against the other", nothing, [scored(first, second, SHAPE)], out=given.out)
        laws = {"zcdp": [given.delta], "pure": [None], "both": [given.delta, None]}[given.law]
        for epsilon in [] if given.only_peers else given.epsilon:
            for delta in laws:
                for method in given.method or METHODS:
                    compare(given, peers, here, codes, method, epsilon, delta)
        if "dpmm" in peers:
            for epsilon in given.epsilon:
                for method in given.method or ("mst", "privbayes"):
                    task = base_task(
                        here, f"dpmm-{method}-{epsilon}", SHAPE, method, epsilon, given.delta, [0]
                    )
                    runs = in_own_process(peers["dpmm"], HERE / "_network_peers.py", {**task, "peer": "dpmm"})
                    if runs:
                        made = np.load(f"{task['out']}-0.npz")
                        report(
                            f"dpmm {runs[0]['version']} {method} ε = {epsilon:g}",
                            runs,
                            [scored(codes, made, SHAPE)],
                            out=given.out,
                        )
        if given.tenfold:
            tenfold(given, here, codes)
        if given.loans:
            wide(given, here)


def base_task(here, name, sizes, method, epsilon, delta, seeds, codes="codes.npz", measured=False) -> dict:
    return {
        "codes": str(here / codes), "sizes": json.dumps(sizes), "method": method, "epsilon": epsilon,
        "delta": delta, "seeds": seeds, "out": str(here / name), "measured": measured,
    }  # fmt: skip


def compare(given, peers, here, codes, method, epsilon, delta) -> None:
    seeds = list(range(given.first_seed, given.first_seed + given.seeds))
    name = f"{method}-{epsilon:g}-{'pure' if delta is None else 'zcdp'}"
    task = base_task(here, name, SHAPE, method, epsilon, delta, seeds, measured="mbi" in peers)
    runs = in_own_process(sys.executable, HERE / "networks.py", task)
    drawn = [np.load(f"{task['out']}-{r['seed']}.npz") for r in runs]
    label = f"{method} ε = {epsilon:g}{' pure' if delta is None else ''}"
    extra = by_scorer(given.scorer, codes, drawn[0])
    report(label, runs, [scored(codes, d, SHAPE) for d in drawn], extra, given.out)
    if "mbi" in peers and delta is not None and method in ("mst", "aim"):
        fits = in_own_process(
            peers["mbi"], HERE / "_network_peers.py", {**task, "peer": "mbi", "seeds": [0], "name": name}
        )
        if fits:
            made = np.load(f"{task['out']}-0-mbi.npz")
            peer = f"mbi {fits[0]['version']} on the measurements of {label}"
            report(peer, fits, [scored(codes, made, SHAPE)], out=given.out)


def tenfold(given, here, codes) -> None:
    np.savez(here / "tenfold.npz", **{c: np.tile(v, 10) for c, v in codes.items()})
    for method in given.method or METHODS:
        seconds: list[float] = []
        for held in ("codes.npz", "tenfold.npz"):
            task = base_task(here, f"{method}-{held}", SHAPE, method, 1.0, given.delta, [0, 1], held)
            runs = in_own_process(sys.executable, HERE / "networks.py", task)
            seconds.append(float(np.mean([r["fit"] for r in runs])))
        ratio = seconds[1] / seconds[0]
        print(f"{method}: ten times the rows take {ratio:.2f} times as long to fit", flush=True)
        if given.out:
            with Path(given.out).open("a") as file:
                line = {"what": f"{method}, ten times the rows", "seconds": seconds, "ratio": ratio}
                file.write(json.dumps(line) + "\n")


def wide(given, here) -> None:
    import pyarrow.parquet as pq

    sizes = json.loads(Path(given.loans_domain).read_text())
    table = pq.read_table(given.loans)
    codes = {n: table[n].to_numpy().astype(int) for n in sizes}
    np.savez(here / "wide.npz", **codes)
    for method in given.method or METHODS:
        task = base_task(here, f"wide-{method}", sizes, method, 1.0, given.delta, [0], "wide.npz")
        runs = in_own_process(sys.executable, HERE / "networks.py", task)
        made = np.load(f"{task['out']}-0.npz")
        report(f"{method} ε = 1, {len(sizes)} columns", runs, [scored(codes, made, sizes)], out=given.out)


# --- the figure -----------------------------------------------------------------------------------


def draw(results: str, path: str) -> None:
    """Two- and three-way error against ε: our methods in colour, peers open and grey, two real halves as the floor."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, SOFT

    lines = [json.loads(text) for text in Path(results).read_text("utf-8").splitlines()]
    lines = [line for line in lines if "tvd" in line]
    floor = next(line for line in lines if line["what"].startswith("one real half"))
    style = {
        "svg.hashsalt": "dipsmith", "font.family": "DejaVu Serif", "font.size": 9, "axes.titlesize": 9,
        "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "text.color": INK,
    }  # fmt: skip
    with mpl.rc_context(style):
        figure = Figure(figsize=(8.0, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(
            "At ε = 1 AIM misses about as much as two real halves differ by (Adult, n = 48,842, δ = 1e-9)",
            fontsize=9.5, x=0.01, ha="left",
        )  # fmt: skip
        for k, axis in enumerate(figure.subplots(1, 2), start=1):
            axis.axhline(floor["tvd"][k], color=SOFT, linewidth=0.8)
            axis.annotate("two real halves", (0.1, floor["tvd"][k]), xytext=(0, 3), textcoords="offset points",
                          color=SOFT, fontsize=7.5)  # fmt: skip
            for i, method in enumerate(METHODS):
                found = [
                    (e, line) for e in (0.1, 1, 10) for line in lines if line["what"] == f"{method} ε = {e:g}"
                ]
                if not found:
                    continue
                axis.errorbar(
                    [e for e, _ in found], [line["tvd"][k] for _, line in found],
                    yerr=[2 * line["sd"][k] for _, line in found], fmt=MARKS[i], linestyle=DASH,
                    color=COLOURS[i], markerfacecolor="white", markersize=5, linewidth=1.2,
                )  # fmt: skip
                axis.annotate(method, (found[-1][0], found[-1][1]["tvd"][k]), xytext=(7, 0), textcoords="offset points",
                              va="center", color=COLOURS[i], fontsize=8)  # fmt: skip
            for line in lines:
                if line["what"].startswith(("mbi", "dpmm")):
                    epsilon = float(line["what"].rsplit("= ", 1)[1])
                    axis.plot(epsilon * 1.12, line["tvd"][k], "x", color=SOFT, markersize=5)
            axis.set_xscale("log")
            axis.set_xlim(0.07, 40)
            axis.set_ylim(bottom=0)
            axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
            axis.set_xlabel("ε (logarithmic); × mbi or dpmm")
            axis.set_title(f"{'two' if k == 1 else 'three'}-way tables")
            axis.set_ylabel("mean total-variation distance")
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
