"""Synthetic voters by every method and ε of the paper's application, and how well they can be told from authentic ones."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import exp
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from studies.youth_voters.propensity import design, distance

import dipsmith as ds
from dipsmith.examples import voters
from dipsmith.methods.method import Method
from dipsmith.methods.privbayes import PrivBayes
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes

HERE = Path(__file__).parent
SETS = 5
LOG_EPSILONS = (-2, -1, 0, 1, 2)
_ORDER = [["voted"], ["college_degree"], ["preregistration_state"]]

AS_IN_THE_PAPER: dict[str, Method] = {
    "flat": ds.Flat(post="clip"),
    "STEPS-2": ds.Steps(layers=_ORDER[:2], layer_weights=[1] * 3, post="clip"),
    "STEPS-3": ds.Steps(layers=_ORDER, layer_weights=[1] * 4, post="clip"),
    "UH-2": ds.Universal(depth=2, layer_weights=[1] * 3, post="clip"),
    "UH-3": ds.Universal(depth=3, layer_weights=[1] * 4, post="clip"),
    "PrivBayes": PrivBayes(degree=2),
}
"""Every level with the same budget and negative counts clipped, as in the paper; noise, least squares and network
are the package's."""

AS_BY_DEFAULT: dict[str, Method] = {
    "flat, projected": ds.Flat(),
    "STEPS-3, cube root, clipped": ds.Steps(layers=_ORDER, post="clip"),
    "STEPS-3, cube root, projected": ds.Steps(layers=_ORDER),
    "STEPS, auto": ds.Steps(),
    "STEPS, auto, AIC": ds.Steps(select="aic"),
    "MST": ds.MST(),
}

METHODS = AS_IN_THE_PAPER | AS_BY_DEFAULT


@dataclass(frozen=True)
class Run:
    """All sets of one method at one ε.

    `main` and `pairs` are the mean distances by main effects and with interactions; `layers` says what
    divided the first set; `seconds` is the processor time of making all sets.
    """

    method: str
    log_epsilon: int
    main: float
    pairs: float
    voted: float
    seconds: float
    layers: str


@lru_cache(maxsize=1)
def authentic() -> tuple[Codes, NDArray[np.float32], NDArray[np.float32]]:
    """The simulated people, and their design matrices."""
    codes = Codes.of(voters.schema("add-remove"), voters.codes())
    return codes, design(codes, interactions=False), design(codes, interactions=True)


def run(name: str, log_epsilon: int, scored: int, sets: int = SETS) -> Run:
    """Make m sets at ε/m each, and tell them from the authentic rows."""
    codes, main, pairs = authentic()
    method = METHODS[name]
    budget = ds.PureDP(exp(log_epsilon) / sets)
    started, drawn, layers = time.process_time(), [], ""
    for i in range(sets):
        curator = Curator.rehearse(codes, budget, given_rows=len(codes), seed=1000 * (log_epsilon + 5) + i)
        model = method.fit(curator)
        drawn.append(model.sample(len(codes), seed=i))
        order = getattr(getattr(getattr(model, "noisy", None), "hierarchy", None), "order", None)
        layers = layers or ", ".join(" × ".join(group) for group in order or ())
    seconds = time.process_time() - started
    by_main = [distance(main, design(one, interactions=False)) for one in drawn]
    by_pairs = [distance(pairs, design(one, interactions=True)) for one in drawn[:scored]]
    wrong = abs(np.mean([one["voted"].mean() for one in drawn]) - codes["voted"].mean())
    return Run(
        name, log_epsilon, float(np.mean(by_main)), float(np.mean(by_pairs)), float(wrong), seconds, layers
    )


def write(runs: Sequence[Run], path: Path) -> None:
    """Write the runs as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(runs[0])), lineterminator="\n")
        writer.writeheader()
        for one in runs:
            writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in asdict(one).items()})


def read(path: Path) -> list[Run]:
    """Read the runs back."""
    with path.open(newline="") as file:
        return [
            Run(
                r["method"],
                int(r["log_epsilon"]),
                float(r["main"]),
                float(r["pairs"]),
                float(r["voted"]),
                float(r["seconds"]),
                r["layers"],
            )
            for r in csv.DictReader(file)
        ]
