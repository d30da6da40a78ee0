"""Survey weights: which weighted totals are measured, for which share of a budget, and weights that agree with them.

*Which.* The table of every planned analysis where it is small enough, else of its columns one by one; without planned
analyses every column by itself. Households and their members each have totals of their own weight, where they have one.

*Agreement.* Weights that a model drew are raked to the noisy totals (Deming and Stephan 1940), within their public bounds.
A total is believed as far as its noise allows: where the model's total of a cell is m and the noisy one T, with noise of
variance σ², the target is m + (T − m)·τ²/(τ² + σ²). τ² = θm is how far the model's totals are off, and θ is estimated from
all cells of the table (empirical Bayes). So a small cell is not blown up by noise, and a large one has its noisy total.

Privacy: reads noisy totals and drawn rows; post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Bins, Codes, Schema, WeightTotals
from dipsmith.schema.analysis import PlannedAnalysis

SHARE: Final = 0.2
"""Of a run's budget, for weighted totals."""

MOST_CELLS: Final = 60
"""A planned analysis has totals of all its columns together up to so many cells."""

ROUNDS: Final = 50
CLOSE: Final = 1e-4
"""Raking ends when no total moves by more than this share."""


def weighted_tables(schema: Schema, analyses: Sequence[PlannedAnalysis] = ()) -> tuple[WeightTotals, ...]:
    """The tables whose weighted totals are measured; none without a weight."""
    weight = schema.weight
    of_members = () if schema.members is None else weighted_tables(schema.members.schema)
    if weight is None:
        return of_members
    wanted: list[tuple[str, ...]] = []
    for analysis in analyses:
        names = tuple(n for n in schema.names if n in analysis.columns and n != weight)
        wanted += [names] if schema.size(names) <= MOST_CELLS else [(n,) for n in names]
    wanted = wanted or [(n,) for n in schema.names if n != weight]
    own = (WeightTotals(schema, names) for names in dict.fromkeys(filter(None, wanted)))
    return (*own, *of_members)


def split_budget(budget: Budget, tables: Sequence[WeightTotals]) -> tuple[list[Budget], Budget]:
    """What each table of totals may cost, and what is left for the rows."""
    if not tables:
        return [], budget
    ours, rest = budget.split([SHARE, 1 - SHARE])
    return list(ours.split(len(tables))), rest


@dataclass(frozen=True, eq=False)
class NoisyTotals:
    """Noisy totals of the weight over the cells of a table, in the weight's own unit, and the variance of their noise."""

    cells: WeightTotals
    values: Floats
    variance: float


def rake(codes: Codes, weights: Floats, totals: Sequence[NoisyTotals]) -> Floats:
    """Weights of drawn rows that agree with noisy totals as far as these are believed, within the weight's bounds."""
    if not totals or not len(weights):
        return weights
    schema = totals[0].cells.schema
    domain = schema[str(schema.weight)].domain
    assert isinstance(domain, Bins)
    low, high, step = domain.minimum, domain.maximum, totals[0].cells.step
    start = float(weights.sum())
    whole = _grand_total(totals, start)
    weights = np.clip(weights * (whole / start), low, high) if whole > 0 and start > 0 else weights
    places = [t.cells.index(codes) for t in totals]
    wanted = [_targets(at, weights, t, low, high) for at, t in zip(places, totals, strict=True)]
    for _ in range(ROUNDS):
        before = weights
        for at, target in zip(places, wanted, strict=True):
            now = np.bincount(at, weights=weights, minlength=len(target))
            factor = np.divide(target, now, out=np.ones_like(target), where=now > 0)
            weights = np.clip(weights * factor[at], low, high)
        if np.abs(weights - before).max() <= CLOSE * high:
            break
    unit = 1.0 if domain.whole else max(step, domain.step or 0.0)
    decimals = max(0, -floor(log10(unit)))
    return np.asarray(np.clip(np.round(np.rint(weights / unit) * unit, decimals), low, high), np.float64)


def _grand_total(totals: Sequence[NoisyTotals], model: float) -> float:
    """What all weights should add up to: the mean over tables, as far as it is farther from the model's than noise puts it."""
    precision = np.array([1 / (t.variance * len(t.values)) for t in totals])
    apart = float(np.average([t.values.sum() for t in totals], weights=precision)) - model
    return model + apart * max(0.0, 1 - 1 / float(precision.sum()) / apart**2) if apart else model


def _targets(at: NDArray[np.int64], weights: Floats, noisy: NoisyTotals, low: float, high: float) -> Floats:
    """What the weights of each cell should add up to."""
    size = len(noisy.values)
    model = np.bincount(at, weights=weights, minlength=size)
    rows = np.bincount(at, minlength=size)
    apart = noisy.values - model
    theta = max(0.0, float((apart**2 - noisy.variance).sum()) / max(model.sum(), 1e-12))
    spread = theta * model
    believed = np.divide(spread, spread + noisy.variance, out=np.zeros(size), where=spread > 0)
    return np.asarray(np.clip(model + believed * apart, rows * low, rows * high), np.float64)
