"""A measured table: the noisy numbers of one partition as they are published, with everything that is known of their noise.

It is a `Measurement` that has left the run: names and labels in place of a partition that only code can read. Numbers are
those that were drawn; nothing is rounded, clipped or made to agree, so that whoever knows the law of the noise can do
inference with them (for the US census this is the *noisy measurement file*).

Privacy: a function of noisy answers and public facts; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import Literal

import numpy as np

from dipsmith.arrays import Bools, Ints
from dipsmith.errors import UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.events import labels_of_block
from dipsmith.privacy.measurement import Measurement, NoisyAnswer
from dipsmith.schema import (
    Cells,
    Condition,
    Conditions,
    Crossed,
    Marginal,
    Schema,
    WeightedSums,
    WeightTotals,
    conditions_of,
)
from dipsmith.schema.growth import GrowthSums

Kind = Literal["cross-table", "regions", "weighted sums", "weighted totals", "growth sums"]


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """Noisy numbers of one table, in the order of its cells.

    `kind` is "cross-table" (every combination of labels of `attributes`, `shape` codes of each), "regions" (the leaves
    or nodes of a tree, which demand different columns; crossed with labels, if any) or "weighted sums" (groups × labels
    of sums of a public weight, which `weight` describes) or "weighted totals" (a cross-table of totals of the survey
    weight, in the unit that `weight` tells) or "growth sums" (of a panel, in the units that `weight` tells). `block` is the path of the step that asked, empty at the top; where
    it names a label (``year=1996``), only rows with it are counted, and `within` says so.

    `cells` are the numbers of the cells that are told, rising, and `values` theirs; what is not told is exactly 0, unless
    there is a `threshold`, above which noisy counts were kept. `noisy` says which carry noise of variance `variance`; the
    others are public. Cells of one public group are `in_group` neighbours (0: there are no public groups), and `totals`
    has what they are known to add up to. With `single` only the second cell of a group was drawn; the first is the total
    minus it. `demands` finds out which labels the cells demand.
    """

    name: str
    attributes: tuple[str, ...]
    kind: Kind
    shape: tuple[int, ...]
    block: str
    cells: Ints
    values: Ints
    noisy: Bools
    variance: float
    law: str
    budget: Budget
    demands: Callable[[Ints | None], Conditions] = field(repr=False)
    in_group: int = 0
    totals: Ints | None = None
    single: bool = False
    threshold: int | None = None
    weight: str = ""
    within: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, answer: NoisyAnswer, schema: Schema) -> MeasuredTable:
        """An answer as it is published; `schema` is the run's, whose columns alone are named."""
        m = answer.measurement
        told = m.kept
        values = m.values
        noisy = np.ones(len(values), dtype=bool) if m.noisy is None else m.noisy
        if told is None:
            told = np.flatnonzero(noisy | (values != 0))
            values, noisy = values[told], noisy[told]
        named = m.cells.labels if isinstance(m.cells, WeightedSums) else m.cells.attributes
        schema = (
            m.cells.schema if isinstance(m.cells, WeightTotals) else schema
        )  # that of members of households, perhaps
        return cls(
            name=(m.cells.title or m.cells.key) if isinstance(m.cells, WeightedSums) else m.cells.key,
            attributes=tuple(n for n in named if n in schema),
            kind=_kind(m),
            shape=_shape(m),
            block=answer.block,
            cells=told,
            values=values,
            noisy=noisy,
            variance=m.variance,
            law=m.mechanism,
            budget=m.budget,
            demands=partial(_demands, m.cells, told, schema),
            within=labels_within(answer.block, schema),
            in_group=0 if m.totals is None else m.cells.size // len(m.totals),
            totals=m.totals,
            single=m.single,
            threshold=m.threshold,
            weight=_weight(m),
        )

    @property
    def conditions(self) -> Conditions:
        """The labels of every released cell, column by column; computed anew each time, since it may be large."""
        return self.conditions_at(None)

    def conditions_at(self, places: Ints | None) -> Conditions:
        """The same for some of the released cells, by their places among them."""
        everywhere = np.zeros(len(self.cells if places is None else places), dtype=np.int32)
        return {n: Condition((label,), everywhere) for n, label in self.within} | self.demands(places)

    @property
    def counts_some_rows(self) -> bool:
        """Whether only rows are counted that no released column tells apart, such as some steps of each unit."""
        return len(labels_of_block(self.block)) != len(self.within)

    @property
    def size(self) -> int:
        """Number of cells, released or not."""
        return prod(self.shape)

    @property
    def standard_error(self) -> float:
        """Of the noise on one number."""
        return float(self.variance**0.5)

    @property
    def groups(self) -> Ints | None:
        """The public group of every released cell."""
        return self.cells // self.in_group if self.in_group else None

    @property
    def derived(self) -> Bools:
        """Which released counts were not drawn: the public total minus the one that was."""
        return self.noisy & (self.cells % 2 == 0) if self.single else np.zeros(len(self.cells), dtype=bool)

    @cached_property
    def array(self) -> Ints:
        """All numbers, in `shape`; refused where only those above a threshold were kept."""
        if self.threshold is not None:
            raise UsageError(f"only counts above {self.threshold} of '{self.name}' were kept; use cells and values")
        full = np.zeros(self.size, dtype=np.int64)
        full[self.cells] = self.values
        return full.reshape(self.shape)

    @cached_property
    def carries_noise(self) -> Bools:
        """Which of all cells carry noise, in `shape`."""
        full = np.zeros(self.size, dtype=bool)
        full[self.cells] = self.noisy
        return full.reshape(self.shape)

    def __str__(self) -> str:
        where = f" in {self.block}" if self.block else ""
        return f"{self.name}{where}: {len(self.values):,} noisy numbers, standard error {self.standard_error:.3g}"


def measured_tables(answers: Sequence[NoisyAnswer], schema: Schema) -> tuple[MeasuredTable, ...]:
    """All answers of a run as they are published, in the order in which they were asked for."""
    return tuple(MeasuredTable.of(answer, schema) for answer in answers)


def _demands(cells: Cells, told: Ints, schema: Schema, places: Ints | None) -> Conditions:
    found = conditions_of(cells, told if places is None else told[places])
    return {n: c for n, c in found.items() if n in schema}


def labels_within(block: str, schema: Schema) -> tuple[tuple[str, str], ...]:
    """The columns that are constant in a block, and their labels."""
    found = labels_of_block(block).items()
    return tuple((n, label) for n, label in found if n in schema and label in schema[n].labels)


def _kind(m: Measurement) -> Kind:
    if isinstance(m.cells, WeightedSums):
        return "weighted sums"
    if isinstance(m.cells, WeightTotals):
        return "weighted totals"
    if isinstance(m.cells, GrowthSums):
        return "growth sums"
    return "cross-table" if isinstance(m.cells, Marginal) else "regions"


def _shape(m: Measurement) -> tuple[int, ...]:
    if isinstance(m.cells, WeightedSums | Marginal | WeightTotals):
        return m.cells.shape
    return (m.cells.first.size, m.cells.second.size) if isinstance(m.cells, Crossed) else (m.cells.size,)


def _weight(m: Measurement) -> str:
    if isinstance(m.cells, WeightTotals):
        return f"column {m.cells.weight}, in whole steps of {m.cells.step:g}"
    if isinstance(m.cells, GrowthSums):
        return m.cells.words
    if not isinstance(m.cells, WeightedSums):
        return ""
    if m.cells.weight is None:
        return "1 for every row"
    low, high = min(m.cells.values), max(m.cells.values)
    return f"a public whole number of every row, from {low} to {high}"
