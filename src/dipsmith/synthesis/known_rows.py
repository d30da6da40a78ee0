"""Whether noisy counts contradict a number of rows that the steward stated as publicly known.

Under add-remove a stated number costs nothing, and counts are made to add up to it: a wrong one distorts every share.
Each measured table is a partition of all rows, so that its noisy counts add up to the number of rows plus noise whose law is
known. A table contradicts the number when its sum is farther from it than that noise would bring it with a
probability below `FALSE_ALARMS`, shared among the tables.

Privacy
-------
Post-processing of answers that were paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import acosh, log, sqrt

import numpy as np

from dipsmith.privacy.events import labels_of_block
from dipsmith.privacy.measurement import Measurement, NoisyAnswer
from dipsmith.schema import WeightedSums, WeightTotals

FALSE_ALARMS = 1e-6
"""How often a true number of rows is contradicted, at most."""

GAUSSIAN_SLACK = 0.1
"""The parameter sigma2 of a discrete Gaussian is at most so much larger than its variance."""


def contradiction(answers: Sequence[NoisyAnswer], known: int) -> str:
    """What noisy counts say against a known number of rows; empty when they agree with it."""
    tables = [a.measurement for a in answers if _counts_all_rows(a)]
    worst, said = 1.0, ""
    for i, table in enumerate(tables, start=1):
        # Σ 6/(πi)² = 1: every table has its own share, however many there will be. Noise is fresh in each, so that
        # tables may be chosen after seeing others.
        allowed = farthest(table, FALSE_ALARMS * 6 / (np.pi * i) ** 2)
        found = int(table.values.sum())
        if abs(found - known) > worst * allowed:
            worst = abs(found - known) / max(allowed, 1.0)
            said = (
                f"the number of rows was stated as {known:,}, but noisy counts add up to {found:,}, more than {allowed:,.0f} "
                "away (one false alarm in a million): shares are distorted. State the true number or none; or see "
                "whether rows lie outside the domains and rules of the schema, which count nowhere"
            )
    return said


def farthest(table: Measurement, probability: float) -> float:
    """How far the noise moves the sum of a table, but with a probability below the given one (Chernoff's bound)."""
    cells = len(table.values) if table.noisy is None else int(table.noisy.sum())
    variance, least = table.variance, log(2 / probability)
    if cells == 0 or variance == 0:
        return 0.0
    if table.mechanism != "discrete Laplace":
        return sqrt(2 * cells * (variance + GAUSSIAN_SLACK) * least)
    # The discrete Laplace law has E exp(sX) = 1/(1 - v(cosh s - 1)), v its variance.
    s = acosh(1 + 1 / variance) * np.linspace(0, 1, 2001)[1:-1]
    return float(np.min((least - cells * np.log1p(-variance * (np.cosh(s) - 1))) / s))


def _counts_all_rows(answer: NoisyAnswer) -> bool:
    table = answer.measurement
    return (
        table.kept is None
        and not isinstance(table.cells, WeightedSums | WeightTotals)
        and not labels_of_block(answer.block)
    )
