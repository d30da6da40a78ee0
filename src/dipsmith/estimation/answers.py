"""Answers from a noisy table: counts, ranges and means with a standard error that the noise alone explains.

A noisy histogram is a synthetic representation of the data: any number of questions can be put to
it at no further cost (post-processing). Every answer carries the standard error that follows from
the known noise, so that a reader knows what the table can and cannot tell.

The table's cells have independent noise of one variance v; the total T is known with variance σ²
(0 when n is public, ∞ when it was not measured). Generalised least squares moves every cell by the
same amount so that they agree with the total, and the variance of a weighted sum Σ wᵢxᵢ becomes
v·Σwᵢ² − (v·Σwᵢ)² / (N·v + σ²).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf, sqrt
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.simplex import clip, project
from dipsmith.schema import Bins, Categories, Marginal, Schema

Post = Literal["project", "clip"]

_Z95 = 1.959963984540054

EXACT = 1e-100
"""A smaller variance is none."""


@dataclass(frozen=True)
class Answer:
    """A number and its standard error from the noise."""

    value: float
    standard_error: float

    def __float__(self) -> float:
        return self.value

    def scaled(self, total: float, rows: int | None) -> Answer:
        """The same share of `rows` rows instead of `total`; unchanged when `rows` is None."""
        if rows is None or total <= 0:
            return self
        return Answer(self.value * rows / total, self.standard_error * rows / total)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the noise around the value."""
        return self.value - _Z95 * self.standard_error, self.value + _Z95 * self.standard_error

    def __str__(self) -> str:
        return f"{self.value:,.6g} ± {self.standard_error:,.3g}"


class CellSums(Protocol):
    """A noisy cross-table that knows any weighted sum of its cells."""

    @property
    def marginal(self) -> Marginal:
        """The cross-table."""

    @property
    def total(self) -> float:
        """The best estimate of the number of rows."""

    def answer(self, weights: Floats) -> Answer:
        """The sum of the cells with these weights, and its standard error."""


class Answering(Protocol):
    """What tables and the models made of them have in common: counts, ranges and means at no further cost."""

    def about(self, *attributes: str) -> CellSums:
        """The noisy table to ask about these attributes."""

    def range_query(self, attribute: str, low: float, high: float, rows: int | None = None) -> Answer:
        """How many rows have low ≤ value < high, of all or rescaled to `rows`; a bin cut by the range in proportion."""
        table = self.about(attribute)
        weights = _spread(table.marginal, attribute, overlap(_bins(table.marginal, attribute), low, high))
        return table.answer(weights).scaled(table.total, rows)

    def count(self, where: Mapping[str, str], rows: int | None = None) -> Answer:
        """How many rows have the given labels."""
        table = self.about(*where)
        weights = np.ones(table.marginal.size)
        for name, label in where.items():
            labels = table.marginal.schema[name].labels
            if label not in labels:
                raise UsageError(f"column '{name}' has no label '{label}'; it has: {', '.join(labels[:10])}")
            weights *= _spread(table.marginal, name, np.arange(len(labels)) == labels.index(label))
        return table.answer(weights).scaled(table.total, rows)

    def mean(self, attribute: str) -> Answer:
        """The mean of a numeric attribute, each bin standing for its middle (missing values left out)."""
        table = self.about(attribute)
        bins = _bins(table.marginal, attribute)
        middles, known = np.zeros(bins.size), np.zeros(bins.size)
        middles[: len(bins.labels)] = midpoints(bins)
        known[: len(bins.labels)] = 1.0
        rows = table.answer(_spread(table.marginal, attribute, known)).value
        if rows <= 0:
            return Answer(float("nan"), inf)
        mean = table.answer(_spread(table.marginal, attribute, middles * known)).value / rows
        # Delta method: the error of a ratio is the error of Σ(mᵢ − mean)·xᵢ over the rows.
        error = table.answer(_spread(table.marginal, attribute, (middles - mean) * known)).standard_error / rows
        return Answer(mean, error)


@dataclass(frozen=True, eq=False)
class NoisyTable(Answering):
    """The noisy counts of a marginal as measured, the noise variance of a cell, and what is known of the total.

    `total` is the best estimate of the number of rows, `total_variance` its variance (0: public). `kept`, for a
    table too large to hold, has the cells that `values` belong to: such a table can be sampled from; it does not
    answer questions, because what was left out would bias them. `mechanism` names the law of the noise, where known.
    """

    marginal: Marginal
    values: Ints
    variance: float
    total: float
    total_variance: float
    kept: Ints | None = None
    mechanism: str = ""

    @property
    def own_total(self) -> tuple[float, float]:
        """The sum of the noisy cells and its variance."""
        return float(self.values.sum()), self._free_cells * self.variance

    @cached_property
    def possible(self) -> Bools | None:
        """Cells that no rule forbids."""
        return None if self.kept is not None else self.marginal.possible()

    @property
    def _free_cells(self) -> int:
        return len(self.values) if self.possible is None else int(self.possible.sum())

    @cached_property
    def estimates(self) -> Floats:
        """Unbiased estimates that agree with the total: generalised least squares, before any clipping."""
        raw = self.values.astype(np.float64)
        spread = self._free_cells * self.variance
        if self.kept is not None or isinf(self.total_variance) or spread == 0:
            return raw
        shift = (self.total - raw.sum()) * self.variance / (spread + self.total_variance)
        moved: Floats = raw + (shift if self.possible is None else shift * self.possible)
        return moved

    def table(self, post: Post) -> Floats:
        """Non-negative counts that sum to the total: what rows are drawn from."""
        adjust = project if post == "project" else clip
        adjusted: Floats = adjust(self.estimates, max(self.total, 0.0), self.possible)
        return adjusted

    def answer(self, weights: Floats) -> Answer:
        """The sum of cells with these weights, and its standard error."""
        if self.kept is not None:
            raise UsageError("this table was too large to keep whole; sample rows from it instead")
        free = weights if self.possible is None else weights * self.possible
        moved = self.variance * float(free.sum())
        pooled = self._free_cells * self.variance + self.total_variance
        gained = 0.0 if isinf(pooled) or pooled == 0 else moved * moved / pooled
        variance = self.variance * float(np.dot(free, free)) - gained
        return Answer(float(np.dot(free, self.estimates)), sqrt(max(variance, 0.0)))

    def about(self, *attributes: str) -> NoisyTable:
        """The table itself."""
        return self

    def state(self) -> tuple[dict[str, Any], dict[str, Ints]]:
        """The table as JSON-able facts and arrays."""
        facts = {
            "attributes": list(self.marginal.attributes),
            "variance": self.variance,
            "total": self.total,
            "total_variance": None if isinf(self.total_variance) else self.total_variance,
            "mechanism": self.mechanism,
        }
        arrays = {"values": self.values}
        return facts, arrays if self.kept is None else {**arrays, "kept": self.kept}

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The table back from its state."""
        variance = facts["total_variance"]
        return cls(
            Marginal.of(schema, facts["attributes"]),
            arrays["values"],
            facts["variance"],
            facts["total"],
            inf if variance is None else variance,
            arrays.get("kept"),
            facts.get("mechanism", ""),
        )


def _spread(table: Marginal, attribute: str, per_code: NDArray[Any]) -> Floats:
    """Weights over all cells from weights over one attribute's codes."""
    shape = [1] * len(table.shape)
    shape[table.attributes.index(attribute)] = -1
    codes = np.asarray(per_code, dtype=np.float64).reshape(shape)
    return np.broadcast_to(codes, table.shape).ravel()


def _bins(table: Marginal, attribute: str) -> Bins:
    domain = table.schema[attribute].domain
    if isinstance(domain, Categories):
        message = f"column '{attribute}' is a list of categories; ranges and means need a number or a date"
        raise UsageError(message)
    return domain


def pool_estimates(estimates: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """One estimate from several independent ones (value, variance), weighted by inverse variance."""
    # At a very large ε a variance may be so small that its inverse is infinite.
    exact = [value for value, variance in estimates if variance < EXACT]
    if exact:
        return exact[0], 0.0
    weights = [1 / variance for _, variance in estimates]
    if sum(weights) == 0:
        return estimates[0]
    return sum(w * v for w, (v, _) in zip(weights, estimates, strict=True)) / sum(weights), 1 / sum(weights)


def overlap(bins: Bins, low: float, high: float) -> Floats:
    """The share of each bin that lies in [low, high); 0 for missing."""
    start, stop = bins.cuts[:-1], bins.cuts[1:]
    inside = np.minimum(stop, high) - np.maximum(start, low)
    share = np.zeros(bins.size)
    share[: len(bins.labels)] = np.clip(inside / (stop - start), 0.0, 1.0)
    return share


def midpoints(bins: Bins) -> Floats:
    """The middle of each bin: on whole-number scales the middle of its first and last whole value."""
    last = 1.0 if bins.scale in ("integer", "date") else 0.0
    middle: Floats = (bins.cuts[:-1] + bins.cuts[1:] - last) / 2
    return middle
