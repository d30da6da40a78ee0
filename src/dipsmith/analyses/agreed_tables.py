"""Agreed tables: noisy tables of the same rows, made to say the same where they overlap.

Two noisy tables that share a column disagree on it by their noise. Every table splits into orthogonal parts, one for each
subset of its columns: the total, what each column adds to it, what each pair adds to its columns, and so on (the
analysis of variance). White noise stays independent from part to part, so the best linear estimate of a part is the
average of what all tables say of it, weighted by inverse variance, and the parts put together again are generalised least
squares over all tables at once (Xiao, He, Zhang and Kifer, "An optimal and scalable matrix mechanism for noisy marginals
under convex loss functions", NeurIPS 2023, section 4). Where rules forbid cells, which then carry no noise, the weights are
no longer the best ones, and the estimate is still linear and unbiased.

Privacy
-------
Reads noisy tables and public sizes: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.answers import NoisyTable
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Marginal

Float = NDArray[np.float64]
Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts with one axis per column, the variance of every cell's noise, and whether its law is Laplace's."""

    attributes: Names
    values: Float
    variance: Float
    laplace: bool

    @classmethod
    def of(cls, table: Measurement | NoisyTable | MeasuredTable | NoisyMarginal) -> NoisyMarginal | None:
        """A table as it was measured; None for what is no whole table of some columns."""
        if isinstance(table, NoisyMarginal):
            return table
        if isinstance(table, MeasuredTable):
            return cls._from_table(table)
        cells = table.cells if isinstance(table, Measurement) else table.marginal
        if table.kept is not None or not isinstance(cells, Marginal):
            return None
        possible = cells.possible()
        noisy = np.ones(cells.size) if possible is None else possible.astype(np.float64)
        values = np.asarray(table.values, np.float64).reshape(cells.shape)
        return cls(
            cells.attributes,
            values,
            (table.variance * noisy).reshape(cells.shape),
            table.mechanism != "discrete Gaussian",
        )

    @classmethod
    def _from_table(cls, table: MeasuredTable) -> NoisyMarginal | None:
        if table.kind != "cross-table" or table.threshold is not None or table.within or table.counts_some_rows:
            return None
        if len(table.shape) != len(table.attributes):
            return None  # a column of it was not released
        noise = np.asarray(table.carries_noise * table.variance, np.float64)
        return cls(table.attributes, table.array.astype(np.float64), noise, table.law != "discrete Gaussian")

    def keeping(self, names: Iterable[str]) -> NoisyMarginal:
        """The table of some of its columns, the others added up."""
        wanted = set(names)
        dropped = tuple(i for i, n in enumerate(self.attributes) if n not in wanted)
        if not dropped:
            return self
        kept = tuple(n for n in self.attributes if n in wanted)
        # A sum of many noises is close to normal.
        return NoisyMarginal(kept, self.values.sum(axis=dropped), self.variance.sum(axis=dropped), False)

    def draw(self, random: np.random.Generator, draws: int) -> Float:
        """The noise again."""
        shape = (draws, *self.values.shape)
        noise = random.laplace(0.0, np.sqrt(0.5), shape) if self.laplace else random.normal(0.0, 1.0, shape)
        return np.asarray(noise * np.sqrt(self.variance))


@dataclass(frozen=True, eq=False)
class AgreedTables:
    """How tables are averaged, part by part: for every part the tables that have it, and how much each is believed.

    `total` is the number of rows where it is public.
    """

    tables: tuple[NoisyMarginal, ...]
    believed: Mapping[Names, tuple[tuple[int, float], ...]]
    sizes: Mapping[str, int]
    total: float | None

    @classmethod
    def of(
        cls, tables: Sequence[NoisyMarginal], wanted: Iterable[Names], sizes: Mapping[str, int], total: float | None
    ) -> AgreedTables:
        """The parts of the wanted tables; each of these has to lie in a table that was measured."""
        wanted = list(wanted)
        inside = {n for names in wanted for n in names}
        reduced = tuple(t.keeping(inside) for t in tables)
        parts = dict.fromkeys(chain.from_iterable(subsets(names) for names in wanted))
        believed = {}
        for part in parts:
            having = [i for i, t in enumerate(reduced) if set(part) <= set(t.attributes)]
            noise = [_part_variance(reduced[i], part) for i in having]
            exact = [i for i, v in zip(having, noise, strict=True) if v <= 0]
            weights = [(i, 1.0) for i in exact[:1]] or [(i, 1 / v) for i, v in zip(having, noise, strict=True)]
            whole = sum(w for _, w in weights)
            believed[part] = tuple((i, w / whole) for i, w in weights)
        return cls(reduced, believed, sizes, total)

    def agree(self, values: Sequence[Float], total: float | None) -> dict[Names, Float]:
        """All parts, from the counts of every table (draws first); linear, so that noise can be sent through it."""
        margins = [{t.attributes: v} for t, v in zip(self.tables, values, strict=True)]
        found = {}
        for part, weights in sorted(self.believed.items(), key=lambda item: -len(item[0])):
            if not part and total is not None:
                found[part] = np.full(len(values[0]), total)
                continue
            found[part] = np.asarray(sum(w * _part_of(margins[i], part) for i, w in weights), np.float64)
        return found

    def measured_sums(self) -> dict[Names, Float]:
        """The parts as they were measured."""
        return self.agree([t.values[None] for t in self.tables], self.total)

    def redraw(self, random: np.random.Generator, draws: int) -> dict[Names, Float]:
        """The noise on all parts again."""
        return self.agree([t.draw(random, draws) for t in self.tables], None if self.total is None else 0.0)

    def table(self, names: Names, parts: Mapping[Names, Float]) -> Float:
        """A table put together from its parts: draws first, then one axis per column."""
        shape = [self.sizes[n] for n in names]
        draws = len(parts[()])
        found = np.zeros((draws, *shape))
        for part in subsets(names):
            spread = [self.sizes[n] if n in part else 1 for n in names]
            others = prod(self.sizes[n] for n in names if n not in part)
            found += parts[part].reshape(draws, *spread) / others
        return found


def subsets(names: Names) -> list[Names]:
    """All subsets of some columns, in their order, the empty one first."""
    return list(chain.from_iterable(combinations(names, k) for k in range(len(names) + 1)))


def _part_of(margins: dict[Names, Float], part: Names) -> Float:
    """What a table says of a part: its margin there, with the means of all smaller margins taken off."""
    found = _margin(margins, part)
    for axis in range(1, 1 + len(part)):
        found = found - found.mean(axis=axis, keepdims=True)
    return found


def _margin(margins: dict[Names, Float], names: Names) -> Float:
    """A margin of a table, draws first, added up from the smallest one known that holds it; remembered."""
    if names not in margins:
        within = min((n for n in margins if set(names) <= set(n)), key=lambda n: margins[n].size)
        dropped = tuple(1 + i for i, n in enumerate(within) if n not in names)
        found = margins[within].sum(axis=dropped)
        kept = [n for n in within if n in names]
        margins[names] = np.transpose(found, [0, *(1 + kept.index(n) for n in names)])
    return margins[names]


def _part_variance(table: NoisyMarginal, part: Names) -> float:
    """The mean variance of a margin's cells."""
    cells = prod(n for n, name in zip(table.values.shape, table.attributes, strict=True) if name in part)
    return float(table.variance.sum()) / float(cells)
