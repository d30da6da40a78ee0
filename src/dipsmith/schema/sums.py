"""Weighted sums: a public whole number of every row, added up by public group and private label.

Under `label` a regression depends on the private labels only through sums Σ wᵢ·1[row i is in group g and has label l],
whose weights (a residual, an age, a product of public columns) are public. Weights are the values of a public column
of few distinct numbers, so that rows are counted by (group, weight, label) as any table, and the counts are folded.

Under `add-remove` and `replace` a survey weight is private itself: `WeightTotals` are its sums over the cells of a table.

Proofs: ``docs/proofs/weighted-sums.md``, ``docs/proofs/weight-totals.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.schema.cells import Cells, Conditions, Marginal
from dipsmith.schema.codes import Codes
from dipsmith.schema.domain import Bins
from dipsmith.schema.schema import Schema
from dipsmith.schema.weights import weight_step


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Sums of a weight over the rows of each cell, groups × labels, the last label varying fastest; `title` names them.

    `weight` is the public column whose codes stand for `values`; without one every row weighs 1. `groups` are public
    columns, `labels` private ones.
    """

    schema: Schema
    groups: tuple[str, ...]
    labels: tuple[str, ...]
    weight: str | None = None
    values: tuple[int, ...] = (1,)
    title: str = ""

    def __post_init__(self) -> None:
        for name in (*self.groups, *(() if self.weight is None else (self.weight,))):
            if self.schema[name].role != "public":
                raise UsageError(f"column '{name}' is private; groups and weights of a sum must be public")
        for name in self.labels:
            if self.schema[name].role != "private":
                raise UsageError(f"column '{name}' is public; the labels of a sum are private columns")
        known = 1 if self.weight is None else self.schema[self.weight].size
        if len(self.values) != known:
            raise UsageError(f"{len(self.values)} weights for {known} codes of '{self.weight}'")

    @property
    def table(self) -> Marginal:
        """What is counted: groups × weights × labels."""
        weight = () if self.weight is None else (self.weight,)
        return Marginal.of(self.schema, (*self.groups, *weight, *self.labels))

    @property
    def public(self) -> Marginal:
        """Its public part: groups × weights."""
        return Marginal(self.schema, tuple(n for n in self.table.attributes if n not in self.labels))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns that decide the sums."""
        return self.table.attributes

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of groups, and of labels."""
        return self.schema.size(self.groups), self.schema.size(self.labels)

    @property
    def size(self) -> int:
        """Number of sums."""
        groups, labels = self.shape
        return groups * labels

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The sum that every row is added to."""
        return Marginal(self.schema, (*self.groups, *self.labels)).index(codes)

    def conditions(self, cells: NDArray[np.int64]) -> Conditions:
        """One label of every group and private column."""
        return Marginal(self.schema, (*self.groups, *self.labels)).conditions(cells)

    def possible(self) -> NDArray[np.bool_] | None:
        """Every sum is possible."""
        return None

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """Groups and labels."""
        return Marginal(self.schema, self.groups), Marginal(self.schema, self.labels)

    @cached_property
    def heaviest(self) -> int:
        """The largest weight in absolute value; 1 where all are 0."""
        return max(1, max(self.values), -min(self.values))

    @property
    def key(self) -> str:
        """The title, or the columns joined, the weight marked."""
        if self.title:
            return self.title
        weight = () if self.weight is None else (f"Σ {self.weight}",)
        return " × ".join((*self.groups, *weight, *self.labels))

    def fold(self, counts: Sequence[int] | NDArray[np.int64], labels: int) -> NDArray[np.int64]:
        """Sums from counts of groups × weights × `labels` cells: exact, in whole numbers."""
        table = np.asarray(counts, dtype=np.int64).reshape(self.shape[0], len(self.values), labels)
        folded: NDArray[np.int64] = np.einsum("gwl,w->gl", table, np.array(self.values, dtype=np.int64)).ravel()
        return folded


@dataclass(frozen=True, eq=False)
class WeightTotals:
    """Totals of the survey weight over the rows of each cell of a table, in whole steps of `step`."""

    schema: Schema
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.schema.weight is None or self.schema.weight in self.columns:
            raise UsageError("weighted totals need a column with role: weight, and are totals by other columns")

    @cached_property
    def table(self) -> Marginal:
        """The cells whose totals these are."""
        return Marginal.of(self.schema, self.columns)

    @property
    def weight(self) -> str:
        """The column that is added up."""
        return str(self.schema.weight)

    @cached_property
    def step(self) -> float:
        """The unit of the totals, and of each weight in them."""
        return weight_step(self.schema[self.weight], self.schema.unit.max_rows)

    @cached_property
    def heaviest(self) -> int:
        """The largest weight in whole steps: a public bound."""
        domain = self.schema[self.weight].domain
        assert isinstance(domain, Bins)
        return max(1, round(domain.maximum / self.step))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The columns that decide in which cell a row's weight is added."""
        return self.table.attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Labels of each column."""
        return self.table.shape

    @property
    def size(self) -> int:
        """Number of totals."""
        return self.table.size

    @property
    def key(self) -> str:
        """The weight and the columns."""
        return f"Σ {self.weight} by {self.table.key}"

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The total that every row's weight is added to."""
        return self.table.index(codes)

    def conditions(self, cells: NDArray[np.int64]) -> Conditions:
        """The labels of cells."""
        return self.table.conditions(cells)

    def possible(self) -> NDArray[np.bool_] | None:
        """Every total is possible as far as the table goes."""
        return None

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """It does not factor: the weight is private."""
        return None, self

    def add_up(self, index: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Exact totals of weights that lie within their bounds, in whole steps."""
        whole = np.rint(weights / self.step)
        found: NDArray[np.int64] = np.bincount(index, weights=whole, minlength=self.size).astype(np.int64)
        return found
