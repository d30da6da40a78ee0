"""Chi-squared tests of m separately sanitised cross-tables: the corrected test, D2, and one set's ordinary test."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from studies.coverage.lines import Line

from dipsmith.estimation.simplex import project
from dipsmith.inference.tests import d2, independence_on_average
from dipsmith.privacy.randomness import generator

REPEATS, SETS = 4000, 5
CASES = (
    ((2, 2), 1000, 0.5),
    ((3, 3), 1000, 0.5),
    ((3, 3), 1000, 2.0),
    ((3, 3), 10_000, 1.0),
    ((5, 6), 1000, 2.0),
    ((5, 6), 10_000, 1.0),
)
KINDS = ("corrected", "D2", "one set, ordinary")
ASSOCIATION = {1000: 0.35, 10_000: 0.12}
"""Log-odds ratio between opposite corners, over 4."""

Floats = NDArray[np.float64]


def name_of(shape: tuple[int, int], linked: bool) -> str:
    """The case as results.csv calls it."""
    return f"{shape[0]} × {shape[1]}, {'associated' if linked else 'independent'}"


def several_sets(
    shape: tuple[int, int], rows: int, epsilon: float, linked: bool, first: int, repeats: int = REPEATS
) -> list[Line]:
    """How often three tests reject at 5 %; all repeats are one piece, drawn from one seed."""
    started = time.process_time()
    random = generator(1 + first + 10**6 * linked)
    corners = np.multiply.outer(*(np.linspace(-1, 1, s) for s in shape))
    p = np.exp((ASSOCIATION[rows] if linked else 0.0) * corners)
    freedom = (shape[0] - 1) * (shape[1] - 1)
    counts = np.zeros(len(KINDS))
    for _ in range(repeats):
        table = random.multinomial(rows, (p / p.sum()).ravel()).reshape(shape)
        sets = [sanitised(table, epsilon / SETS, random) for _ in range(SETS)]
        chi = [pearson(t) for t in sets]
        values = (
            independence_on_average(sets).p_value,
            d2(chi, freedom).p_value,
            float(stats.chi2.sf(chi[0], freedom)),
        )
        counts += np.array(values) < 0.05
    seconds = time.process_time() - started
    case = name_of(shape, linked)
    return [
        Line("several sets", case, rows, epsilon, kind, repeats, float(c), float("nan"), seconds)
        for kind, c in zip(KINDS, counts / repeats, strict=True)
    ]


def sanitised(table: NDArray[np.int64], epsilon: float, random: np.random.Generator) -> Floats:
    """A table with Laplace noise of scale 1/ε, projected, and as many rows drawn from it."""
    n = int(table.sum())
    clean = project(table + random.laplace(0, 1 / epsilon, table.shape), float(n))
    return random.multinomial(n, (clean / clean.sum()).ravel()).reshape(table.shape).astype(np.float64)


def pearson(table: Floats) -> float:
    """Pearson's statistic of independence."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    kept = expected > 0
    return float(((table - expected)[kept] ** 2 / expected[kept]).sum())
