"""Drift: careers that grow as fast as measured.

How fast a number grows within one unit is the sum of many small moves, each of which noise draws towards the middle of its
column. Two sums over units tell it directly (`schema.growth`). The law of what units are next is tilted, every level of the
number by exp(drift · number), until careers that are drawn from it grow so: the nearest law by relative entropy that moves
units that far (Csiszár, Annals of Probability 3, 1975).

As far as noise may explain that the model's careers grow otherwise, they are left as they are.

Privacy: reads a model and sums made of noisy answers; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.graph.propagation import Propagation
from dipsmith.methods.graph.queries import given_separator
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Codes, Schema
from dipsmith.schema.growth import GrowthSums, level_scores

Drift = Mapping[str, float]

ROUNDS, LARGEST, FARTHEST = 4, 2.0, 4.0
"""How often careers are drawn to find a drift; the largest, in standard deviations of a move; how far two guesses of what a
tilt does may lie apart."""

STEEPEST = 100.0
"""The largest drift from one end of a column to the other: where hardly anybody moves, exp(drift · number) would overflow."""


@dataclass(frozen=True)
class Growth:
    """The noisy slope of a number on its period within units, and the variance of its noise."""

    column: str
    slope: float
    variance: float

    @classmethod
    def of(cls, cells: GrowthSums, found: Measurement) -> Growth | None:
        """The slope that noisy sums tell; None where noise hides what it is divided by."""
        told = cells.slope(found.values, found.variance)
        return None if told is None else cls(cells.column, *told[:2])


def tilt(model: GraphModel, drift: Drift) -> GraphModel:
    """The model with every level of some columns as many times as frequent as their drift says, all else as it follows."""
    odds = {n: d * np.nan_to_num(_centre(level_scores(model.schema[n]))) for n, d in drift.items() if d}
    if not odds:
        return model
    tree = model.tree
    factors = [
        (names, given_separator(belief, names, separator))
        for names, separator, belief in zip(tree.cliques, tree.separators, model.beliefs, strict=True)
    ]
    product = Propagation(tree, [], [*factors, *(((n,), np.exp(o)) for n, o in odds.items())])
    product.run([])
    return replace(model, beliefs=product.beliefs())


def find_drift(growth: Sequence[Growth], schema: Schema, draw: Callable[[Drift], Codes]) -> Drift:
    """The drift with which drawn careers grow as measured; `draw` gives careers, the same but for their drift."""
    names = [g.column for g in growth]
    measured, noise = (np.array([getattr(g, what) for g in growth]) for what in ("slope", "variance"))
    ranges = [np.nanmax(scores) - np.nanmin(scores) for scores in (level_scores(schema[n]) for n in names)]
    steepest, drift = STEEPEST / np.maximum(ranges, 1e-9), np.zeros(len(names))
    tried: list[tuple[Floats, Floats]] = []
    for _ in range(ROUNDS if names else 0):
        made = draw(dict(zip(names, drift.tolist(), strict=True)))
        slope, spread = (np.array(both) for both in zip(*(_moves(made, schema, n) for n in names), strict=True))
        if not tried:
            away = measured - slope
            wanted = slope + away * np.maximum(0.0, 1 - noise / np.maximum(away**2, 1e-300))
            rate = np.maximum(spread, 1e-12)  # a tilt moves the mean by itself times the variance of a move
        else:
            before, told = tried[-1]
            moved = drift - before
            seen = np.divide(slope - told, moved, out=rate.copy(), where=moved != 0)
            rate = np.clip(seen, rate / FARTHEST, rate * FARTHEST)
        tried.append((drift, slope))
        most = np.minimum(LARGEST / np.sqrt(spread), steepest)
        drift = np.clip(drift + (wanted - slope) / rate, -most, most)
    if tried:  # where hardly anybody moves a tilt does not lead there, and none is better
        first, last = (np.abs(wanted - slope) for _, slope in (tried[0], tried[-1]))
        drift = np.where(last <= first, drift, 0.0)
    return dict(zip(names, drift.tolist(), strict=True))


def _moves(made: Codes, schema: Schema, column: str) -> tuple[float, float]:
    """The slope of a number on its period within drawn units, and the variance of its moves."""
    assert made.units is not None
    _, unit = np.unique(made.units, return_inverse=True)
    squares, products = (s.sum() for s in GrowthSums(schema, column).unit_sums(unit, made))
    period, x = made[str(schema.unit.order)].astype(np.int64), level_scores(schema[column])[made[column]]
    by = np.lexsort([period, unit])
    follows = (np.diff(unit[by]) == 0) & (np.diff(period[by]) == 1)
    change = np.diff(x[by])[follows]
    change = change[np.isfinite(change)]
    return float(products / max(squares, 1e-300)), max(float(change.var()) if len(change) else 0.0, 1e-12)


def _centre(scores: Floats) -> Floats:
    return np.asarray(scores - np.nanmean(scores))
