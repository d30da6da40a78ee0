"""What the peers do with the same table or the same measurements; run by an interpreter that has the peer.

`mbi` (McKenna's Private-PGM on JAX) fits the measurements that dipsmith made, with its default estimator and
1,000 steps as its mechanisms use, and draws rows. `dpmm` runs its own methods.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib.metadata import version

import numpy as np


def mbi(task: dict) -> dict:
    import jax

    jax.config.update("jax_enable_x64", True)
    # As mbi itself advises: it compiles many small programs.
    jax.config.update("jax_enable_compilation_cache", False)
    from mbi import Domain, LinearMeasurement, estimation

    held = np.load(f"{task['out']}-0-measured.npz")
    sizes = json.loads(task["sizes"])
    measured = [
        LinearMeasurement(held[str(i)].astype(float), tuple(names), max(sd, 0.02))
        for i, (names, sd) in enumerate(json.loads(str(held["about"])))
    ]
    started = time.process_time()
    model = estimation.MirrorDescent().estimate(
        Domain.fromdict(sizes), measured, known_total=float(held["total"]), iters=1000
    )
    fitted = time.process_time()
    made = model.synthetic_data(rows=round(float(held["total"])))
    sampled = time.process_time()
    columns = made.to_dict() if hasattr(made, "to_dict") else {n: made.df[n] for n in sizes}
    np.savez(f"{task['out']}-0-mbi.npz", **{n: np.asarray(columns[n]).astype(int) for n in sizes})
    return {"fit": fitted - started, "sample": sampled - fitted, "version": version("mbi")}


def dpmm(task: dict) -> dict:
    import pandas as pd
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    held = np.load(task["codes"])
    sizes = json.loads(task["sizes"])
    frame = pd.DataFrame({n: held[n].astype(int) for n in sizes})
    kind = {"mst": MSTGM, "privbayes": PrivBayesGM}[task["method"]]
    more = {"degree": 1} if task["method"] == "privbayes" else {}
    started = time.process_time()
    model = kind(epsilon=task["epsilon"], delta=task["delta"], n_jobs=1, **more)
    model.set_random_state(np.random.RandomState(0))
    model.set_domain(domain=sizes)
    model.fit(frame)
    fitted = time.process_time()
    made = model.generate(n_records=len(frame))
    sampled = time.process_time()
    np.savez(f"{task['out']}-0.npz", **{n: made[n].to_numpy().astype(int) for n in sizes})
    return {"fit": fitted - started, "sample": sampled - fitted, "version": version("dpmm")}


def main() -> None:
    task = json.loads(sys.argv[sys.argv.index("--task") + 1])
    done = {"mbi": mbi, "dpmm": dpmm}[task["peer"]](task)
    done["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(done))


if __name__ == "__main__":
    main()
