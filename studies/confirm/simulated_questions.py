"""10,000 simulated questions for every cell: the estimates of parts are drawn, voted on, noised and judged as in a run.

A part's estimate is normal about the truth, with an error √M times that of the whole table; z is how far the truth lies on the
claimed side of the threshold, in standard errors of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dipsmith.confirm.power import outlook
from dipsmith.confirm.verdict import judge
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.calibration import noise_of
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import poll_sensitivity

QUESTIONS = 10_000
CELLS = ((50, "1"), (100, "0.25"), (25, "0.25"), (50, "0.5"), (100, "1"), (20, "2"))
DISTANCES = (0.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True)
class Cell:
    """The verdicts of one cell, counted and expected."""

    parts: int
    epsilon: str
    z: float
    confirmed: float
    contradicted: float
    expected: float


def simulate(parts: int, epsilon: str, z: float, questions: int = QUESTIONS, seed: int = 0) -> Cell:
    """Count the verdicts of many questions."""
    rng = np.random.default_rng([seed, parts, int(float(epsilon) * 1000), int(z * 10)])
    votes = (z + np.sqrt(parts) * rng.normal(size=(questions, parts)) > 0).sum(axis=1)
    budget = PureDP(epsilon)
    law = noise_of(poll_sensitivity("label", 2, budget), budget)
    noisy = votes + law.sample(Stream.for_testing(f"{parts} {epsilon} {z} {seed}"), questions)
    told = judge(noisy, parts, law)
    expected = outlook(z, parts, budget, "label").confirmed
    return Cell(parts, epsilon, z, float(told.confirmed.mean()), float(told.contradicted.mean()), expected)


def simulate_all(questions: int = QUESTIONS) -> Iterator[Cell]:
    """All cells."""
    for parts, epsilon in CELLS:
        for z in DISTANCES:
            yield simulate(parts, epsilon, z, questions)
