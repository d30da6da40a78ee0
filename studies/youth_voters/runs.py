"""Synthetic voters by every method and ε of the paper's application, and what becomes of its conclusions."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import exp
from pathlib import Path

import numpy as np
from studies.youth_voters.conclusions import Agreement, Conclusions, agreement
from studies.youth_voters.cps import read_cps
from studies.youth_voters.propensity import Propensity

import dipsmith as ds
from dipsmith.examples import voters
from dipsmith.methods.graph.privbayes import PrivBayes
from dipsmith.methods.method import Method
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes

HERE = Path(__file__).parent
SETS = 5
REPETITIONS = 10
LOG_EPSILONS = (-2, -1, 0, 1, 2)
_ORDER = [["voted"], ["college_degree"], ["preregistration_state"]]

AS_IN_THE_PAPER: dict[str, Method] = {
    "flat": ds.Flat(post="clip"),
    "STEPS-2": ds.Steps(layers=_ORDER[:2], layer_weights=[1] * 3, post="clip"),
    "STEPS-3": ds.Steps(layers=_ORDER, layer_weights=[1] * 4, post="clip"),
    "UH-2": ds.Universal(depth=2, layer_weights=[1] * 3, post="clip"),
    "UH-3": ds.Universal(depth=3, layer_weights=[1] * 4, post="clip"),
    "PrivBayes": PrivBayes(degree=2, share=0.5),
}
"""Every level with the same budget, negative counts clipped, the network's budget in two halves, as in the paper;
noise, least squares and the choice of the network are the package's."""

AS_BY_DEFAULT: dict[str, Method] = {
    "flat, projected": ds.Flat(),
    "STEPS-3, cube root, projected": ds.Steps(layers=_ORDER),
    "STEPS, auto": ds.Steps(),
    "STEPS, auto, AIC": ds.Steps(select="aic"),
    "MST": ds.MST(),
    "AIM": ds.AIM(),
    "AIM, planned": ds.AIM(
        workload=[["voted", "registered", n] for n in voters.NAMES if n not in ("voted", "registered")]
    ),
}
"""The package's own settings; "planned" serves the tables that the regression of voting among the registered rests on."""

METHODS = AS_IN_THE_PAPER | AS_BY_DEFAULT
FLOOR = "other people"
"""Five further samples of the same population instead of synthetic sets: no method can be expected to do better."""


@dataclass(frozen=True)
class Run:
    """One repetition: all sets of one method at one ε.

    `ks` is the mean SPECKS distance with interactions, `voted` the error of the share that voted, `seconds` the
    processor time of making all sets, `scoring` that of comparing them, `layers` what divided the first set.
    """

    method: str
    log_epsilon: int
    repetition: int
    ks: float
    agreement: Agreement
    voted: float
    seconds: float
    scoring: float
    layers: str

    @property
    def key(self) -> tuple[str, int, int]:
        """Which run it is."""
        return self.method, self.log_epsilon, self.repetition


@lru_cache(maxsize=1)
def authentic(cps: str | None = None) -> tuple[Codes, Propensity, Conclusions]:
    """The simulated people (or those of a survey file), the classifier between them and others, and what they say."""
    codes = Codes.of(voters.schema("add-remove"), voters.codes()) if cps is None else read_cps(cps)
    return codes, Propensity(codes, interactions=True), Conclusions.of(codes)


def asked(repetitions: int, of_defaults: int) -> list[tuple[str, int, int]]:
    """All runs: first one of everything, then the paper's repetitions, then further ones of the package's settings."""
    floor = [(FLOOR, 0, r) for r in range(repetitions)]
    first = [(name, e, 0) for name in METHODS for e in LOG_EPSILONS]
    paper = [(name, e, r) for r in range(1, repetitions) for name in AS_IN_THE_PAPER for e in LOG_EPSILONS]
    further = [(name, e, r) for r in range(1, of_defaults) for name in AS_BY_DEFAULT for e in LOG_EPSILONS]
    return [*floor, *first, *paper, *further]


def run(name: str, log_epsilon: int, repetition: int, sets: int = SETS, cps: str | None = None) -> Run:
    """Make m sets at ε/m each, tell them from the authentic rows, and compare the conclusions."""
    codes, classifier, conclusions = authentic(cps)
    started = time.process_time()
    # One seed for each set, whatever ε: random orders are then the same at all of them.
    seeds = [repetition * sets + i for i in range(sets)]
    drawn, layers = [], ""
    for seed in seeds:
        one, order = _made(name, log_epsilon, codes, seed, sets, simulated=cps is None)
        drawn.append(one)
        layers = layers or order
    made = time.process_time()
    distances, start = [], None
    for one in drawn:
        distance, start = classifier.distance(one, start)
        distances.append(distance)
    found = agreement(conclusions, [Conclusions.of(one) for one in drawn])
    wrong = abs(np.mean([one["voted"].mean() for one in drawn]) - codes["voted"].mean())
    scored = time.process_time()
    return Run(
        name,
        log_epsilon,
        repetition,
        float(np.mean(distances)),
        found,
        float(wrong),
        made - started,
        scored - made,
        layers,
    )


def _made(name: str, log_epsilon: int, codes: Codes, seed: int, sets: int, *, simulated: bool) -> tuple[Codes, str]:
    if name == FLOOR and simulated:
        return Codes.of(codes.schema, voters.codes(seed=seed + 1)), ""
    if name == FLOOR:
        # Of a survey there is no second sample; its own people drawn with replacement are the nearest to one.
        return codes.take(np.random.default_rng(seed).integers(0, len(codes), len(codes))), ""
    curator = Curator.rehearse(codes, ds.PureDP(exp(log_epsilon) / sets), given_rows=len(codes), seed=seed)
    model = METHODS[name].fit(curator)
    order = getattr(getattr(getattr(model, "noisy", None), "hierarchy", None), "order", None)
    return model.sample(len(codes), seed=seed), ", ".join(" × ".join(group) for group in order or ())


# --- the file -------------------------------------------------------------------------------------

_LISTS = ("consistent", "p_classes", "overlap_primary")


def write(runs: Sequence[Run], path: Path) -> None:
    """Write the runs as CSV, one line each; lists are separated by spaces."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        inner = [f.name for f in fields(Agreement)]
        outer = [f.name for f in fields(Run) if f.name != "agreement"]
        writer.writerow([*outer, *inner])
        for one in runs:
            writer.writerow([_text(getattr(one, n)) for n in outer] + [_text(getattr(one.agreement, n)) for n in inner])


def read(path: Path) -> list[Run]:
    """Read the runs back."""
    found = []
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            inner = {}
            for f in fields(Agreement):
                if f.name in _LISTS:
                    kind = int if f.name == "p_classes" else float
                    inner[f.name] = tuple(kind(v) for v in line[f.name].split())
                else:
                    inner[f.name] = float(line[f.name])
            found.append(
                Run(
                    line["method"],
                    int(line["log_epsilon"]),
                    int(line["repetition"]),
                    float(line["ks"]),
                    Agreement(**inner),
                    float(line["voted"]),
                    float(line["seconds"]),
                    float(line["scoring"]),
                    line["layers"],
                )
            )
    return found


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(_text(v) for v in value)
    return f"{value:.4f}" if isinstance(value, float) else str(value)
