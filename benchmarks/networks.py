"""MST, AIM and PrivBayes on the Adult table, and every peer that installs, in one go.

    python benchmarks/networks.py --adult adult.csv --peers --tenfold --out results.jsonl

Numeric columns in 16 equal-width bins over public ranges, category lists public, neighbours add-remove, unit
row. TVDk is the mean total-variation distance over all one-way, all two-way and 50 random three-way
marginals. Every method runs in a process of its own, which reports CPU seconds and peak memory (VmHWM) before
anything is scored; peers are scored by the same function, and the table ends with the ratios.

--peers [NAME …]  also run the peers (all of them without names: see `_peer_homes.py`), each in a virtual
                  environment of its own that is made on first use under --peers-home (default: the user's cache);
                  what cannot be installed is left out with a line that says so
--limit SECONDS   of CPU that one run of a peer may take (300); what takes longer is killed and shown as "> 300 s"
--peer-epsilon, --peer-seeds   where and how often peers run (ε = 1, one seed: they are slow)
--scorer FILE     a module with `score(real, synthetic)`, called for the first seed of each line (propensity scores)
--loans FILE      another table of integer codes (Parquet), with --loans-domain FILE (JSON: sizes), at ε = 1, with
                  --wide-seeds seeds
--tenfold         also time the fit on ten times the rows: every row ten times, so that shares of cells stay what they
                  are and signal against noise grows tenfold, the worst case for a model that grows with it
--ancestral       also draw from PrivBayes's very measurements by conditionals, as published
--max-cells       instead of each method's default limit on the model's size (AIM and PrivBayes)
--richness        instead of MST's own preference for pairs of rich columns
--out FILE        also write every line as JSON, beside what the file holds; lines and seeds that it holds already are
                  not run again, so that a run may be stopped and resumed; `--draw FILE SVG` makes a figure of it

Without --adult a simulated table of the same shape is used, and the figures mean nothing but time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from _network_figure import draw
from _network_peers import peak_memory
from _peer_homes import DEFAULT_HOME, PEERS, interpreter

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
            n: np.where(rng.random(48_842) < 0.6, hidden % s, np.minimum(rng.geometric(0.3, 48_842) - 1, s - 1))
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
                raise SystemExit(f"{path}: column {name} has {len(levels)} categories, expected at most {size}")
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
    budget = PureDP(task["epsilon"]) if task["delta"] is None else ZCDP.from_approx(task["epsilon"], task["delta"])
    if task["richness"] is not None:
        from dipsmith.methods.graph import mst

        mst.RICHNESS = task["richness"]
    limit = {} if task["max_cells"] is None else {"max_cells": task["max_cells"]}
    method = CATALOGUE[task["method"]](**limit)
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
            "rss": peak_memory(),
            "cells": model.tree.cells,
        }
        np.savez(f"{task['out']}-{seed}.npz", **{n: made[n] for n in sizes})
        if task["ancestral"]:
            made = ancestral(curator.measured, sizes, model.rows, np.random.default_rng(seed))
            np.savez(f"{task['out']}-{seed}-ancestral.npz", **made)
        if task["measured"]:
            tables = {f"{i}": m.values for i, m in enumerate(curator.measured)}
            about = [[list(m.cells.attributes), m.variance**0.5] for m in curator.measured]
            np.savez(f"{task['out']}-{seed}-measured.npz", about=json.dumps(about), total=model.total, **tables)
        print(json.dumps(out), flush=True)


def ancestral(measured, sizes, rows: int, rng) -> dict[str, np.ndarray]:
    """PrivBayes as published: each noisy family cut at 0, turned into P(column | parents), and drawn in turn."""
    made: dict[str, np.ndarray] = {}
    families = [m for m in measured if len(m.cells.attributes) > 1]
    alone = [m for m in measured if len(m.cells.attributes) == 1]
    order = [n for m in families for n in m.cells.attributes]
    for m in [*(a for a in alone if a.cells.attributes[0] not in order), *families]:
        names = m.cells.attributes
        table = np.maximum(m.values.reshape([sizes[n] for n in names]).astype(float), 0)
        for column in [n for n in names if n not in made]:
            parents = [n for n in names if n in made]
            joint = table.sum(axis=tuple(i for i, n in enumerate(names) if n not in (*parents, column)))
            kept = [n for n in names if n in (*parents, column)]
            joint = np.moveaxis(joint, kept.index(column), -1).reshape(-1, sizes[column])
            joint[joint.sum(axis=1) == 0] = 1
            limits = np.cumsum(joint / joint.sum(axis=1, keepdims=True), axis=1)
            at = np.zeros(rows, dtype=int)
            for n in [n for n in kept if n != column]:
                at = at * sizes[n] + made[n]
            drawn = (rng.random(rows)[:, None] > limits[at]).sum(axis=1)
            made[column] = np.minimum(drawn, sizes[column] - 1)
    return made


def in_own_process(python: str, script: Path, task: dict, limit: float | None = None) -> list[dict] | None:
    """What the process reports, line by line; None if it took more CPU seconds than it may."""

    def confine() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))

    # One thread: CPU seconds of several would count waiting for each other.
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    alone["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    done = subprocess.run(
        [python, str(script), "--task", json.dumps(task)],
        stdout=subprocess.PIPE, stderr=None if limit is None else subprocess.PIPE, text=True, check=False,
        env=os.environ | alone, preexec_fn=confine,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return lines
    if limit is not None and done.returncode < 0:
        return None
    said = (done.stderr or "").strip().splitlines() or ["no message"]
    print(f"FAILED: {task.get('peer', 'ours')} {task['method']}: {said[-1]}", flush=True)
    return []


# --- the table ------------------------------------------------------------------------------------


class Results:
    """The lines so far: printed, kept in a file, and read back from it when a run is resumed."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        held = Path(path).read_text("utf-8").splitlines() if path and Path(path).exists() else []
        self.lines = {line["what"]: line for line in map(json.loads, held)}

    def has(self, what: str) -> bool:
        """Whether a line is there already; prints it if so."""
        if what in self.lines:
            show(self.lines[what])
        return what in self.lines

    def missing(self, what: str, seeds: list[int]) -> list[int]:
        """The seeds that a line does not have yet."""
        held = [r["seed"] for r in self.lines.get(what, {}).get("runs", [])]
        return [seed for seed in seeds if seed not in held]

    def add(self, line: dict) -> None:
        """Write a line down, in the place of one of the same name, and show it."""
        self.lines[line["what"]] = line
        if self.path:
            whole = "".join(json.dumps(kept, ensure_ascii=False) + "\n" for kept in self.lines.values())
            Path(self.path).write_text(whole, "utf-8")
        show(line)

    def report(self, what: str, runs: list[dict], scores: list, extra: str = "") -> None:
        """Add runs to a line and take the means of all that it has."""
        before = self.lines.get(what, {})
        new = [
            {"seed": r.get("seed", 0), "fit": r["fit"], "sample": r["sample"], "rss": r["rss"], "tvd": s}
            for r, s in zip(runs, [[round(float(x), 6) for x in s] for s in scores], strict=True)
        ]
        every = sorted([*before.get("runs", []), *new], key=lambda r: r["seed"])
        tvd = np.array([r["tvd"] for r in every])
        means = {k: float(np.mean([r[k] for r in every])) for k in ("fit", "sample", "rss")}
        self.add(
            {
                "what": what,
                "seeds": len(every),
                **means,
                "tvd": tvd.mean(axis=0).tolist(),
                "sd": tvd.std(axis=0).tolist(),
                "extra": before.get("extra") or extra,
                "runs": every,
            }
        )

    def ratios(self) -> None:
        """Our CPU seconds and memory against each peer's, method by method."""
        for method in METHODS:
            ours = self.lines.get(f"{method} ε = 1")
            for what, line in self.lines.items():
                if not ours or not what.endswith(f" {method} ε = 1") or "honest" in what or "measure" in what:
                    continue
                mine = ours["fit"] + ours["sample"]
                if line.get("limit"):
                    print(f"{what}: ours takes less than 1/{line['limit'] / mine:.0f} of its CPU time")
                else:
                    times = (line["fit"] + line["sample"]) / mine
                    print(f"{what}: {times:.0f} times our CPU time, {line['rss'] / ours['rss']:.1f} times our memory")


def show(line: dict) -> None:
    if "ratio" in line:
        base, ten = line["seconds"]
        print(f"{line['what']}: {ten:.2f} s against {base:.2f} s, {line['ratio']:.2f} times as long", flush=True)
    elif line.get("limit"):
        print(f"{line['what']:<34} fit > {line['limit']:g} s of CPU: stopped", flush=True)
    else:
        tvd, sd = line["tvd"], line["sd"]
        print(
            f"{line['what']:<34} fit {line['fit']:7.2f} s  sample {line['sample']:5.2f} s  peak {line['rss']:5.0f} MB   "
            f"TVD1 {tvd[0]:.4f}  TVD2 {tvd[1]:.4f} ± {sd[1]:.4f}  TVD3 {tvd[2]:.4f} ± {sd[2]:.4f}   {line['extra']}",
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult")
    parser.add_argument("--scorer")
    parser.add_argument("--loans")
    parser.add_argument("--loans-domain")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS))
    parser.add_argument("--peers-home", type=Path, default=DEFAULT_HOME)
    parser.add_argument("--peer-epsilon", type=float, nargs="*", default=[1.0])
    parser.add_argument("--peer-seeds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--law", choices=["zcdp", "pure", "both"], default="zcdp")
    parser.add_argument("--out")
    parser.add_argument("--draw", nargs=2, metavar=("FILE", "SVG"))
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--max-cells", type=int)
    parser.add_argument("--richness", type=float)
    parser.add_argument("--wide-seeds", type=int, default=1)
    parser.add_argument("--tenfold", action="store_true")
    parser.add_argument("--tenfold-seeds", type=int, default=5)
    parser.add_argument("--ancestral", action="store_true")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        run_one(json.loads(given.task))
        return
    if given.draw:
        draw(*given.draw, METHODS)
        return
    names = [] if given.peers is None else given.peers or list(PEERS)
    pythons = {name: interpreter(name, given.peers_home) for name in names}
    peers = {name: python for name, python in pythons.items() if python is not None}
    codes = adult(given.adult)
    n = len(codes["age"])
    title = "Adult" if given.adult else "simulated"
    print(f"{title}: {n:,} × {len(SHAPE)}, δ = {given.delta:g}, {given.seeds} seeds")
    results = Results(given.out)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.savez(here / "codes.npz", **codes)
        if not results.has("one real half against the other"):
            half = np.random.default_rng(0).permutation(n)
            first, second = ({c: v[i] for c, v in codes.items()} for i in (half[: n // 2], half[n // 2 :]))
            nothing = [{"fit": 0, "sample": 0, "rss": 0}]
            results.report("one real half against the other", nothing, [scored(first, second, SHAPE)])
        laws = {"zcdp": [given.delta], "pure": [None], "both": [given.delta, None]}[given.law]
        methods = given.method or METHODS
        for epsilon in given.epsilon:
            for delta in laws:
                for method in methods:
                    compare(given, results, peers, here, codes, method, epsilon, delta)
        for name in peers:
            for epsilon in given.peer_epsilon:
                for method in PEERS[name].runs:
                    if method in methods:
                        compare_peer(given, results, peers, here, codes, name, method, epsilon)
        if given.tenfold:
            tenfold(given, results, here, codes)
        if given.loans:
            wide(given, results, here)
        results.ratios()


def base_task(given, here, name, sizes, method, epsilon, delta, seeds, codes="codes.npz") -> dict:
    return {
        "codes": str(here / codes), "sizes": json.dumps(sizes), "method": method, "epsilon": epsilon,
        "delta": delta, "seeds": seeds, "out": str(here / name), "measured": False, "ancestral": False,
        "max_cells": given.max_cells if method != "mst" else None, "richness": given.richness,
    }  # fmt: skip


def compare(given, results, peers, here, codes, method, epsilon, delta) -> None:
    """One line of ours, and one of mbi on the measurements of the first seed."""
    seeds = list(range(given.first_seed, given.first_seed + given.seeds))
    label = f"{method} ε = {epsilon:g}{' pure' if delta is None else ''}"
    again = "mbi" in peers and delta is not None and method != "privbayes" and epsilon in given.peer_epsilon
    theirs = f"mbi on the measurements of {label}"
    todo = results.missing(label, seeds)
    again = again and theirs not in results.lines
    if again:
        todo = [seeds[0], *(seed for seed in todo if seed != seeds[0])]
    if not todo:
        results.has(label)
        return
    name = f"{method}-{epsilon:g}-{'pure' if delta is None else 'zcdp'}"
    apart = method == "privbayes" and given.ancestral
    task = base_task(given, here, name, SHAPE, method, epsilon, delta, todo)
    task |= {"measured": again, "ancestral": apart}
    runs = in_own_process(sys.executable, HERE / "networks.py", task) or []
    if not runs:
        return
    new = [r for r in runs if r["seed"] in results.missing(label, seeds)]
    if new:
        drawn = [np.load(f"{task['out']}-{r['seed']}.npz") for r in new]
        told = results.lines.get(label, {}).get("extra")
        extra = told or by_scorer(given.scorer, codes, drawn[0])
        results.report(label, new, [scored(codes, d, SHAPE) for d in drawn], extra)
    if apart:
        made = [np.load(f"{task['out']}-{r['seed']}-ancestral.npz") for r in runs]
        results.report(f"{label}, ancestral conditionals", runs, [scored(codes, d, SHAPE) for d in made])
    if again:
        same = {**task, "peer": "mbi", "seeds": seeds[:1]}
        fits = in_own_process(peers["mbi"], HERE / "_network_peers.py", same, given.limit)
        if fits is None:
            results.add({"what": theirs, "limit": given.limit})
        elif fits:
            made = np.load(f"{task['out']}-{seeds[0]}-mbi.npz")
            results.report(theirs, fits, [scored(codes, made, SHAPE)], by_scorer(given.scorer, codes, made))


def compare_peer(given, results, peers, here, codes, name, method, epsilon) -> None:
    """One line of a peer's own method."""
    from dipsmith.privacy.budget import ZCDP

    label = f"{PEERS[name].package.replace('==', ' ')} {method} ε = {epsilon:g}"
    if results.has(label):
        return
    rho = ZCDP.from_approx(epsilon, given.delta).rho
    runs, scores, honest, extra, extra_honest = [], [], [], "", ""
    for seed in range(given.peer_seeds):
        task = base_task(given, here, f"{name}-{method}-{epsilon}", SHAPE, method, epsilon, given.delta, [seed])
        task |= {"peer": name, "rho": float(rho)}
        found = in_own_process(peers[name], HERE / "_network_peers.py", task, given.limit)
        if found is None:
            results.add({"what": label, "limit": given.limit})
            return
        if not found:
            return
        runs += found
        made = np.load(f"{task['out']}-{seed}.npz")
        scores.append(scored(codes, made, SHAPE))
        extra = extra or by_scorer(given.scorer, codes, made)
        apart = Path(f"{task['out']}-{seed}-honest.npz")
        if apart.exists():
            honest.append(scored(codes, np.load(apart), SHAPE))
            extra_honest = extra_honest or by_scorer(given.scorer, codes, np.load(apart))
    results.report(label, runs, scores, extra)
    if honest:
        results.report(f"{label.split(' ε')[0]}, sampled honestly, ε = {epsilon:g}", runs, honest, extra_honest)


def tenfold(given, results, here, codes) -> None:
    """CPU seconds of the fit on every row ten times against once, in turns: median ratio over --tenfold-seeds seeds.

    Each process fits twice and the second time counts, so that nothing is loaded in it.
    """
    np.savez(here / "tenfold.npz", **{c: np.tile(v, 10) for c, v in codes.items()})
    for method in given.method or METHODS:
        what = f"{method}, ten times the rows"
        if results.has(what):
            continue
        taken: list[tuple[float, float]] = []
        for seed in range(given.first_seed, given.first_seed + given.tenfold_seeds):
            pair = []
            for held in ("codes.npz", "tenfold.npz"):
                task = base_task(given, here, f"{method}-{held}", SHAPE, method, 1.0, given.delta, [seed] * 2, held)
                runs = in_own_process(sys.executable, HERE / "networks.py", task) or []
                pair.append(runs[-1]["fit"])
            taken.append((pair[0], pair[1]))
        ratio = float(np.median([ten / once for once, ten in taken]))
        results.add({"what": what, "seconds": np.median(taken, axis=0).tolist(), "ratio": ratio})


def wide(given, results, here) -> None:
    import pyarrow.parquet as pq

    sizes = json.loads(Path(given.loans_domain).read_text())
    table = pq.read_table(given.loans)
    codes = {n: table[n].to_numpy().astype(int) for n in sizes}
    np.savez(here / "wide.npz", **codes)
    for method in given.method or METHODS:
        what = f"{method} ε = 1, {len(sizes)} columns"
        if results.has(what):
            continue
        seeds = list(range(given.first_seed, given.first_seed + given.wide_seeds))
        task = base_task(given, here, f"wide-{method}", sizes, method, 1.0, given.delta, seeds, "wide.npz")
        runs = in_own_process(sys.executable, HERE / "networks.py", task) or []
        if runs:
            made = [np.load(f"{task['out']}-{r['seed']}.npz") for r in runs]
            results.report(what, runs, [scored(codes, m, sizes) for m in made])


if __name__ == "__main__":
    main()
