"""Whether noisy counts contradict what the steward stated as publicly known: the number of rows, or totals by place.

Under add-remove a stated number costs nothing, and counts are made to add up to it: a wrong one distorts every share.
Each table of rows is a partition of all of them, so that its noisy counts add up to the number of rows plus noise whose law is
known. A table contradicts the number when its sum is farther from it than that noise would bring it with a
probability below `FALSE_ALARMS`, shared among the tables. Public totals by place are held against the sums of noisy counts
by place in the same way, each place with its own share of false alarms.

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
from dipsmith.schema import Cells, Marginal, Schema, WeightedSums, WeightTotals
from dipsmith.schema.growth import GrowthSums
from dipsmith.schema.places import PlaceTable, tree_of

FALSE_ALARMS = 1e-6
"""How often a true number of rows is contradicted, at most."""

GAUSSIAN_SLACK = 0.1
"""The parameter sigma2 of a discrete Gaussian is at most so much larger than its variance."""


def contradiction(answers: Sequence[NoisyAnswer], known: int, schema: Schema) -> str:
    """What noisy counts say against a known number of rows of a schema; empty when they agree with it."""
    tables = [a.measurement for a in answers if _counts_all_rows(a, schema)]
    worst, said = 1.0, ""
    for i, table in enumerate(tables, start=1):
        # Σ 6/(πi)² = 1: every table has its own share, however many there will be. Noise is fresh in each, so that
        # tables may be chosen after seeing others.
        allowed = noise_reach(table, FALSE_ALARMS * 6 / (np.pi * i) ** 2)
        found = int(table.values.sum())
        if abs(found - known) > worst * allowed:
            worst = abs(found - known) / max(allowed, 1.0)
            said = (
                f"the number of rows was stated as {known:,}, but noisy counts add up to {found:,}, more than {allowed:,.0f} "
                "away (one false alarm in a million): shares are distorted. State the true number or none; or see "
                "whether rows lie outside the domains and rules of the schema, which count nowhere"
            )
    return said


def contradicted_totals(answers: Sequence[NoisyAnswer], schema: Schema) -> str:
    """What noisy counts by place say against the public totals of places; empty when they agree with all."""
    worst, said, asked = 1.0, "", 0
    for table in (a.measurement for a in answers if _counts_all_rows(a, schema)):
        if (level := _place_level(table.cells)) is None:
            continue
        tree = tree_of(table.cells.schema)
        stated = tree.totals(level)
        if level == len(tree.sizes) - 1:
            stated = stated[tree.nodes[level]]  # a cross-table has the places in the order of their codes
        known = np.flatnonzero(np.isfinite(stated))
        if not known.size:
            continue
        asked += 1
        values = table.values.reshape(stated.size, -1)
        allowed = noise_reach(table, FALSE_ALARMS * 6 / (np.pi * asked) ** 2 / known.size, values.shape[1])
        away = np.abs(values.sum(axis=1)[known] - stated[known])
        if away.max() > worst * allowed:
            worst, place = away.max() / max(allowed, 1.0), known[int(away.argmax())]
            name, total, found = tree.names[level], int(stated[place]), int(values[place].sum())
            label = tree.labels(level)[place if level < len(tree.sizes) - 1 else tree.nodes[level][place]]
            said = (
                f"the public total of {name} '{label}' is {total:,}, but noisy counts add up to {found:,}, more than "
                f"{allowed:,.0f} away (one false alarm in a million): counts by place are distorted. Correct the totals or leave "
                "them out; or see whether rows lie outside the domains and rules of the schema, which count nowhere"
            )
    return said


def _place_level(cells: Cells) -> int | None:
    """The level of the places by which a table counts, None where it is no table by place."""
    if isinstance(cells, PlaceTable):
        return cells.level or None
    tree = cells.schema.places if isinstance(cells, Marginal) else None
    by_place = tree is not None and cells.attributes[:1] == (tree.attribute.name,)
    return len(tree.sizes) - 1 if tree is not None and by_place else None


def noise_reach(table: Measurement, probability: float, cells: int | None = None) -> float:
    """How far noise moves the sum of a table's cells, but with a probability below the given one (Chernoff's bound).

    Of so many `cells`, by default all that carry noise.
    """
    if cells is None:
        cells = len(table.values) if table.noisy is None else int(table.noisy.sum())
    variance, least = table.variance, log(2 / probability)
    if cells == 0 or variance == 0:
        return 0.0
    if table.mechanism != "discrete Laplace":
        return sqrt(2 * cells * (variance + GAUSSIAN_SLACK) * least)
    # The discrete Laplace law has E exp(sX) = 1/(1 - v(cosh s - 1)), v its variance.
    s = acosh(1 + 1 / variance) * np.linspace(0, 1, 2001)[1:-1]
    return float(np.min((least - cells * np.log1p(-variance * (np.cosh(s) - 1))) / s))


def _counts_all_rows(answer: NoisyAnswer, schema: Schema) -> bool:
    table = answer.measurement
    return (
        table.kept is None
        and table.cells.schema.unit.max_rows == schema.unit.max_rows  # else its lines are a panel's units, not its rows
        and not isinstance(table.cells, WeightedSums | WeightTotals | GrowthSums)
        and not labels_of_block(answer.block)
    )
