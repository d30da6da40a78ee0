"""What the peers do with the same table or the same measurements; run by an interpreter that has the peer.

`smartnoise` and `dpmm` run their own methods with their own defaults (dpmm's PrivBayes: one parent). SmartNoise draws rows with mbi 1.1.0, whose
sampler correlates what should be independent; the same model is therefore also drawn from row by row ("honest").
`opendp` runs its AIM and MST with their own defaults on keys that are known, at the ρ that dipsmith has.
`mbi` (McKenna's Private-PGM on JAX) has no mechanism in its package: it fits the measurements that dipsmith
made, with its default estimator and 1,000 steps, or those of MST as published (JPC 11, 2021, section 3: thirds of the
budget for columns, choices and pairs; no bonus, no shrinking), with 5,000 steps as private-pgm's script has it.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def smartnoise(task: dict) -> dict:
    import pandas as pd
    from snsynth import Synthesizer

    frame, sizes = held_rows(task)
    frame = pd.DataFrame({n: c.astype(str) for n, c in frame.items()})
    np.random.seed(task["seeds"][0])
    started = time.process_time()
    model = Synthesizer.create(task["method"], epsilon=float(task["epsilon"]), delta=task["delta"])
    model.fit(frame, categorical_columns=list(sizes), preprocessor_eps=0.0)
    fitted = time.process_time()
    made = model.sample(len(frame))
    sampled = time.process_time()
    keep(task, "", {n: made[n].to_numpy().astype(int) for n in sizes})
    # Not timed: the same model, drawn from independently row by row.
    drawn = model.synthesizer.synthetic_data
    model.synthesizer = SimpleNamespace(synthetic_data=lambda rows: drawn(rows=rows, method="sample"))
    honest = model.sample(len(frame))
    keep(task, "-honest", {n: honest[n].to_numpy().astype(int) for n in sizes})
    return {"fit": fitted - started, "sample": sampled - fitted, "version": version("smartnoise-synth")}


def dpmm(task: dict) -> dict:
    import pandas as pd
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    columns, sizes = held_rows(task)
    frame = pd.DataFrame(columns)
    kind = {"mst": MSTGM, "privbayes": PrivBayesGM, "aim": AIMGM}[task["method"]]
    started = time.process_time()
    model = kind(epsilon=task["epsilon"], delta=task["delta"], n_jobs=1)
    model.set_random_state(np.random.RandomState(task["seeds"][0]))
    model.set_domain(domain=sizes)
    model.fit(frame)
    fitted = time.process_time()
    made = model.generate(n_records=len(frame))
    sampled = time.process_time()
    keep(task, "", {n: made[n].to_numpy().astype(int) for n in sizes})
    return {"fit": fitted - started, "sample": sampled - fitted, "version": version("dpmm")}


def opendp(task: dict) -> dict:
    import opendp.prelude as dp
    import polars as pl
    from opendp.mod import OpenDPException

    columns, sizes = held_rows(task)
    dp.enable_features("contrib", "honest-but-curious")
    keys = {name: list(range(size)) for name, size in sizes.items()}
    algorithm = {"aim": dp.mbi.AIM, "mst": dp.mbi.MST}[task["method"]]()

    def release(rho: float):
        context = dp.Context.compositor(
            data=pl.LazyFrame(columns),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho),
            split_evenly_over=1,
        )
        return context.query().contingency_table(keys=keys, algorithm=algorithm).release()

    # Shares of ρ often add up to more than ρ by a rounding error, and MST then refuses its own question; another ρ, a
    # millionth smaller, may not.
    for shaved in range(20):
        started = time.process_time()
        try:
            table = release(task["rho"] * (1 - shaved * 1e-6))
            break
        except OpenDPException as error:
            if "insufficient budget" not in str(error) or shaved == 19:
                raise
    fitted = time.process_time()
    made = table.synthesize(rows=len(columns[next(iter(sizes))]))
    sampled = time.process_time()
    # It adds a level for missing values to every column; nothing is missing here, so that such cells are noise.
    keep(task, "", {n: made[n].fill_null(0).to_numpy().astype(int) for n in sizes})
    return {"fit": fitted - started, "sample": sampled - fitted, "version": version("opendp")}


def mbi(task: dict) -> dict:
    import jax

    jax.config.update("jax_enable_x64", True)
    # As mbi itself advises: it compiles many small programs.
    jax.config.update("jax_enable_compilation_cache", False)
    from mbi import Domain

    sizes = json.loads(task["sizes"])
    started = time.process_time()
    if task["measured"]:
        held = np.load(f"{task['out']}-{task['seeds'][0]}-measured.npz")
        about = json.loads(str(held["about"]))
        measured = [(held[str(i)].astype(float), tuple(names), sd) for i, (names, sd) in enumerate(about)]
        total, steps = float(held["total"]), 1000
    else:
        columns, _ = held_rows(task)
        measured = published_mst(columns, sizes, task["rho"], task["seeds"][0])
        total, steps = float(len(columns[next(iter(sizes))])), 5000
    model = _mbi_fit(Domain.fromdict(sizes), measured, total, steps)
    fitted = time.process_time()
    made = model.synthetic_data(rows=round(total))
    sampled = time.process_time()
    found = made.to_dict() if hasattr(made, "to_dict") else {n: made.df[n] for n in sizes}
    keep(task, "-mbi" if task["measured"] else "", {n: np.asarray(found[n]).astype(int) for n in sizes})
    return {"fit": fitted - started, "sample": sampled - fitted, "version": version("mbi")}


def _mbi_fit(domain, measured, total: float, steps: int):
    from mbi import LinearMeasurement, estimation

    noisy = [LinearMeasurement(y, names, max(sd, 0.02)) for y, names, sd in measured]
    return estimation.MirrorDescent().estimate(domain, noisy, known_total=total, iters=steps)


def published_mst(columns, sizes, rho: float, seed: int) -> list:
    """The measurements of MST as published: (noisy counts, names, standard deviation) of columns and tree."""
    rng = np.random.default_rng(seed)
    rows = len(columns[next(iter(sizes))])

    def counts(names):
        index = np.ravel_multi_index([columns[n] for n in names], [sizes[n] for n in names])
        return np.bincount(index, minlength=int(np.prod([sizes[n] for n in names]))).astype(float)

    def measure(sets):
        sd = np.sqrt(len(sets) / (2 * rho / 3))
        return [(c + rng.normal(0, sd, c.size), tuple(s), float(sd)) for s in sets for c in [counts(s)]]

    one_way = measure([(n,) for n in sizes])
    share = {names[0]: np.maximum(y, 0) / np.maximum(y, 0).sum() for y, names, _ in one_way}
    misses = {
        (a, b): float(np.abs(counts((a, b)) - rows * np.outer(share[a], share[b]).ravel()).sum())
        for a, b in combinations(sizes, 2)
    }
    part, tree = {n: n for n in sizes}, []
    rate = np.sqrt(8 * (rho / 3) / (len(sizes) - 1)) / 2
    while len(tree) < len(sizes) - 1:
        open_ = [p for p in misses if part[p[0]] != part[p[1]]]
        scores = rate * np.array([misses[p] for p in open_])
        weights = np.exp(scores - scores.max())
        a, b = open_[rng.choice(len(open_), p=weights / weights.sum())]
        tree.append((a, b))
        gone = part[a]
        part = {n: part[b] if p == gone else p for n, p in part.items()}
    return one_way + measure(tree)


def held_rows(task: dict) -> tuple[dict, dict]:
    held, sizes = np.load(task["codes"]), json.loads(task["sizes"])
    return {n: held[n].astype(int) for n in sizes}, sizes


def keep(task: dict, suffix: str, columns: dict) -> None:
    np.savez(f"{task['out']}-{task['seeds'][0]}{suffix}.npz", **columns)


def peak_memory() -> float:
    """The most memory that this process ever held, in MB; not what its parent held before it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    task = json.loads(sys.argv[sys.argv.index("--task") + 1])
    done = {"mbi": mbi, "dpmm": dpmm, "smartnoise": smartnoise, "opendp": opendp}[task["peer"]](task)
    done |= {"rss": peak_memory(), "seed": task["seeds"][0]}
    print(json.dumps(done))


if __name__ == "__main__":
    main()
