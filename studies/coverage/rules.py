"""The combining rules by themselves: a proportion whose count is given Laplace noise, many times over.

No release is made: one count among n is sanitised and n rows are drawn from it, so that 20,000 repeats take a
second and the rules are seen to the third digit.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from studies.coverage.lines import Line

from dipsmith.inference.noise_aware import REPLICATES, Runs, with_noise
from dipsmith.privacy.randomness import generator
from dipsmith.regression.estimates import Estimates

TRUTH, SETS, REPEATS = 0.3, 5, 20_000
CASES = ((1000, 0.1), (1000, 1.0), (10_000, 0.1), (1000, 0.03))
SPLIT = "separately sanitised, T = ū + B/m"
REFUSED = "drawn from one table, T = ū + B/m (refused)"
AWARE = "drawn from one table, T = ū + B/m + Var_noise"
SEEN = f"one set, Var_noise from {REPLICATES} runs"

Floats = NDArray[np.float64]


def rules(rows: int, epsilon: float, first: int, repeats: int = REPEATS) -> list[Line]:
    """Coverage and width of four intervals; all repeats are one piece, drawn from one seed."""
    started = time.process_time()
    found = []
    for kind, noise in ((SPLIT, 0.0), (REFUSED, 0.0), (AWARE, 2 / (epsilon * rows) ** 2)):
        q = proportions(rows, epsilon, repeats, seed=2024 + first, split=kind == SPLIT)
        found.append((kind, *covered(q, q * (1 - q) / rows, noise)))
    found.append((SEEN, *seen(rows, epsilon, repeats, seed=2024 + first)))
    seconds = time.process_time() - started
    return [Line("rules", "share of .3", rows, epsilon, k, repeats, c, w, seconds) for k, c, w in found]


def proportions(rows: int, epsilon: float, repeats: int, *, seed: int, split: bool) -> Floats:
    """The proportions of `SETS` sets, repeats × sets."""
    random = generator(seed)
    sampled = random.binomial(rows, TRUTH, repeats) / rows
    if split:
        noisy = sampled[:, None] + random.laplace(0, SETS / epsilon, (repeats, SETS)) / rows
    else:
        noisy = (sampled + random.laplace(0, 1 / epsilon, repeats) / rows)[:, None].repeat(SETS, axis=1)
    return np.asarray(random.binomial(rows, np.clip(noisy, 0, 1)) / rows)


def covered(q: Floats, u: Floats, noise: float) -> tuple[float, float]:
    """How often T = ū + B/m (+ known noise) covers, and the mean width."""
    within, between = u.mean(axis=1), q.var(axis=1, ddof=1)
    total = within + between / SETS + noise
    df = (SETS - 1) * (1 + SETS * within / between) ** 2
    multiple = stats.norm.ppf(0.975) if noise else stats.t.ppf(0.975, df)
    half = multiple * np.sqrt(total)
    return float((np.abs(q.mean(axis=1) - TRUTH) <= half).mean()), float(2 * half.mean())


def seen(rows: int, epsilon: float, repeats: int, *, seed: int, block: int = 250) -> tuple[float, float]:
    """How often the rule of `noise_aware` covers, which finds the noise by running the mechanism, and the mean width."""
    random = generator(seed)
    hits = width = 0.0
    for start in range(0, repeats, block):
        size = min(block, repeats - start)
        sampled = random.binomial(rows, TRUTH, size) / rows
        q = np.clip(sampled + random.laplace(0, 1 / epsilon, size) / rows, 0, 1)
        again = np.clip(q + random.laplace(0, 1 / epsilon, (REPLICATES, size)) / rows, 0, 1)
        # one estimate after the other, so that a block is one call
        each = Estimates(tuple(map(str, range(size))), q, np.diag(q * (1 - q) / rows), rows)
        found = with_noise((each,), Runs(again - q, np.zeros(size), 1), method="Laplace noise")
        low, high = found.interval
        hits += float(((low <= TRUTH) & (high >= TRUTH)).sum())
        width += float((high - low).sum())
    return hits / repeats, width / repeats
