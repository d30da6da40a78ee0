"""Evidence: noisy tables of counts, as a fit reads them.

Privacy: reads noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, sqrt
from statistics import median
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.simplex import project
from dipsmith.methods.graph.junction import Array, Attributes, sum_to
from dipsmith.privacy.measurement import Measurement

LEAST_SD = 0.02
"""Noise below this changes no count, and dividing by it would only slow the fit down."""

FLOOR_SD = 0.1
FLOOR_SHARE = 0.01
"""A level with a noisy count at or below 0 may still exist: it keeps a tenth of the noise, all of them at most 1 %."""

POSSIBLE, NONE = (0.03, 16.0, 68), 5
"""Counts that a noisy one may stand for, in units of the noise: evenly in their logarithms, and 0 as often as five."""

ROUGH, CLOSE = (1e-5, 10.0, 1e-3), (1e-7, 0.1, 1e-5)
"""Tolerance of fits between rounds and of the last one: at least, by how many times the noise, at most; nats per row."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A noisy table: its attributes, the noisy counts (one axis per attribute), and the variance of their noise.

    `possible` says which cells no rule forbids; None when all are possible. The others carry no noise.
    """

    attributes: Attributes
    values: Array
    variance: float
    possible: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """The evidence in a measured marginal."""
        cells, possible = measurement.cells, measurement.cells.possible()
        shape = tuple(cells.schema[n].size for n in cells.attributes)
        values = measurement.values.astype(np.float64).reshape(shape)
        mask = None if possible is None else possible.reshape(shape)
        return cls(cells.attributes, values, measurement.variance, mask)

    @property
    def free(self) -> int:
        """Number of cells that carry noise."""
        return self.values.size if self.possible is None else int(self.possible.sum())

    def noise_per_row(self, total: float) -> float:
        """What its noise amounts to among so many rows, in nats per row, were every cell as full as the others."""
        return self.variance * (self.values.size / max(total, 1.0)) ** 2 / 2

    def reorder(self, attributes: Sequence[str]) -> Self:
        """The same table with its axes in the order given."""
        axes = [self.attributes.index(n) for n in attributes]
        values = np.ascontiguousarray(self.values.transpose(axes))
        possible = None if self.possible is None else self.possible.transpose(axes)
        return replace(self, attributes=tuple(attributes), values=values, possible=possible)

    def summing_to(self, total: float) -> Array:
        """The table moved evenly, where it is possible, to the total that it should have."""
        shift = (total - self.values.sum()) / max(self.free, 1)
        moved: Array = self.values + (shift if self.possible is None else shift * self.possible)
        return moved


def join_repeats(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Join measurements of the same attributes into one, weighted by inverse variance.

    >>> twice = [Evidence(("a",), np.array([4.0, 0.0]), 1.0), Evidence(("a",), np.array([0.0, 4.0]), 3.0)]
    >>> [(e.values.tolist(), e.variance) for e in join_repeats(twice)]
    [([3.0, 1.0], 0.75)]
    """
    found: dict[frozenset[str], Evidence] = {}
    for new in evidence:
        old = found.setdefault(frozenset(new.attributes), new)
        if old is not new:
            both = old.variance + new.variance
            weight = old.variance / both if both > 0 else 0.5
            values = old.values + weight * (new.reorder(old.attributes).values - old.values)
            joined = replace(old, values=values, variance=weight * new.variance)
            found[frozenset(new.attributes)] = joined
    return list(found.values())


def tolerance(evidence: Sequence[Evidence], total: float, bounds: tuple[float, float, float]) -> float:
    """How closely to fit: what is left must be small beside the noise of a typical table of several columns.

    Else rounds go where only the fit is behind: small tables of many rows are measured again and again.
    """
    least, times, most = bounds
    noise = [e.noise_per_row(total) for e in evidence if len(e.attributes) > 1]
    return min(max(times * median(noise), least), most) if noise else most


def pool_total(evidence: Sequence[Evidence]) -> float:
    """The number of rows as the tables have it, weighted by inverse variance, at least 1 (and 1 without tables)."""
    if not evidence:
        return 1.0
    sums = [float(e.values.sum()) for e in evidence]
    weights = [1 / max(e.free * e.variance, LEAST_SD**2) for e in evidence]
    return max(1.0, sum(w * s for w, s in zip(weights, sums, strict=True)) / sum(weights))


def denoise_columns(tables: Sequence[Evidence], total: float) -> list[Evidence]:
    """Move columns that were measured by themselves half way to their likely counts (`likely_counts`).

    Half way, because where noise is small what was measured is the better of the two, and where it is large the other.
    """
    moved = []
    for table in tables:
        if len(table.attributes) == 1 and table.possible is None:
            counts, sd = pool_column(table.attributes[0], table.values.size, tables, total)
            table = replace(table, values=(table.summing_to(total) + likely_counts(counts, sd, total)) / 2)
        moved.append(table)
    return moved


def pool_column(name: str, size: int, tables: Sequence[Evidence], total: float) -> tuple[Array, float]:
    """The counts of one attribute from every table that has it, and the noise on each; ∞ where none has it."""
    weight, weighted = 0.0, np.zeros(size)
    for table in tables:
        if name in table.attributes:
            cells = max(table.values.size // size, 1)
            w = 1 / (max(table.variance, LEAST_SD**2) * cells)
            weight += w
            weighted += w * sum_to(table.summing_to(total), table.attributes, (name,))
    return (weighted / weight, 1 / sqrt(weight)) if weight > 0 else (weighted, inf)


def column_distribution(name: str, size: int, tables: Sequence[Evidence], total: float) -> Array:
    """The distribution of one attribute from every table that has it, everywhere above 0."""
    counts, sd = pool_column(name, size, tables, total)
    if sd == inf:
        return np.full(size, 1 / size)
    likely = likely_counts(counts, sd, total) + min(FLOOR_SD * sd, FLOOR_SHARE * total / size)
    return np.asarray(likely / likely.sum(), dtype=np.float64)


def likely_counts(noisy: Array, sd: float, total: float) -> Array:
    """Posterior medians of counts whose logarithms are as likely as one another, summing to the total.

    Cutting noisy counts at 0 leaves noise on every rare level: of 41 levels with 120 rows each and noise of 220, half
    would have none and the others 250. The median of what a noisy count may stand for brings rare levels together, and
    leaves levels alone that noise cannot make.
    """
    at, medians = _median_curve()
    z = noisy / sd
    return project(sd * np.where(z < at[-1], np.interp(z, at, medians), z), total)


@cache
def _median_curve() -> tuple[Array, Array]:
    """Noisy counts in units of the noise, and the posterior median of each."""
    at = np.linspace(-8.0, 8.0, 641)
    counts = np.concatenate([np.zeros(NONE), np.geomspace(*POSSIBLE)])
    likelihood = np.cumsum(np.exp(-((at[:, None] - counts) ** 2) / 2), axis=1)
    return at, counts[(likelihood >= likelihood[:, -1:] / 2).argmax(axis=1)]
