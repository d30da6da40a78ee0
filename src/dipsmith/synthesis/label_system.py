"""How cells of noisy label tables add up to public weights of the rows, with the least noise (`label_tables`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy import sparse

from dipsmith.analyses.design import Float, Ints
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Schema
from dipsmith.synthesis.label_table import LabelTable

MOST_CELLS = 1500
"""Cells of all tables that are asked together: their cross-products are inverted."""

SINGULAR = 1e-12
"""Directions in which cells are told apart by less than this share of the largest are the same direction."""

EXACT = 1e-6
"""Weights are met up to this share of the largest."""


@dataclass(frozen=True, eq=False)
class LabelSystem:
    """The tables that tell some labels, and how their cells add up to weights of the rows."""

    labels: tuple[str, ...]
    tables: tuple[int, ...]
    cells: sparse.csr_array
    noise: Float

    @classmethod
    def of(cls, tables: Sequence[LabelTable], labels: tuple[str, ...], schema: Schema) -> LabelSystem:
        """Of tables that have these labels, the smallest first, as many as fit."""
        having = sorted(
            (i for i, t in enumerate(tables) if set(labels) <= set(t.labels)), key=lambda i: len(tables[i].values)
        )
        ends = np.cumsum([len(tables[i].values) for i in having])
        used = tuple(i for i, end in zip(having, ends, strict=True) if end <= MOST_CELLS)
        if not used:
            return cls(labels, (), sparse.csr_array((0, 0)), np.zeros(0))
        chosen, starts = [tables[i] for i in used], [0, *ends[: len(used)]]
        variance = np.concatenate([t.noise_of(prod(schema[n].size for n in labels)) for t in chosen])
        size = np.sqrt(np.maximum(variance, 1e-12 * (float(variance.max()) or 1.0)))
        # Every row lies in one cell of each table.
        places = np.stack([t.cell + start for t, start in zip(chosen, starts[:-1], strict=True)], axis=1)
        weights = np.stack([np.ones(len(places)) if t.weight is None else t.weight for t in chosen], axis=1)
        each = np.arange(0, places.size + 1, len(used))
        cells = sparse.csr_array((weights.ravel(), places.ravel(), each), shape=(len(places), starts[-1]))
        return cls(labels, used, cells, size)

    @cached_property
    def inverse(self) -> Float:
        """The pseudo-inverse of cross-products: it finds the functions with the least noise. Cells without rows have none."""
        cells, found = self.cells, np.zeros(2 * self.noise.shape)
        scaled = sparse.csr_array((cells.data / self.noise[cells.indices], cells.indices, cells.indptr), cells.shape)
        products = np.asarray((scaled.T @ scaled).toarray())
        there = np.flatnonzero(np.diag(products) > 0)
        values, vectors = np.linalg.eigh(products[np.ix_(there, there)])  # a fifth of the time of scipy's pinvh
        kept = values > SINGULAR * values.max(initial=0.0)
        found[np.ix_(there, there)] = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        return found

    @cached_property
    def alike(self) -> tuple[Ints, Ints]:
        """Rows in order, those together that lie in the same cells with the same weights, and where each such group begins."""
        wide = (len(self.cells.indptr) - 1, len(self.tables))
        marks = generator(0).integers(1, 2**63, (2, len(self.noise)), dtype=np.uint64)
        places, weights = self.cells.indices.reshape(wide), self.cells.data.view(np.uint64).reshape(wide)
        mark = (marks[0, places] + marks[1, places] * weights).sum(axis=1)
        order = np.argsort(mark, kind="stable")
        return order, np.flatnonzero(np.diff(mark[order], prepend=~mark[order[:1]]))


@dataclass(frozen=True, eq=False)
class LabelWeights:
    """Weights of the rows, rows × groups, that functions of cells are to add up to."""

    system: LabelSystem
    columns: sparse.csr_array

    @cached_property
    def chance(self) -> Float:
        """Weights that were met in one direction chosen by chance are met in all."""
        return generator(0).normal(size=(self.columns.shape[1], 2))

    @cached_property
    def wanted(self) -> tuple[Float, float]:
        """The weights in that direction, and by how much they may be missed."""
        found = self.columns @ self.chance
        return found, EXACT * max(float(np.abs(found).max(initial=0.0)), 1e-300)

    @property
    def may_be_met(self) -> bool:
        """Of rows that lie in the same cells, a function of cells misses one by half of what their weights differ."""
        if not self.system.tables:
            return False
        (found, most), (order, starts) = self.wanted, self.system.alike
        apart = np.maximum.reduceat(found[order], starts) - np.minimum.reduceat(found[order], starts)
        return bool(apart.max(initial=0.0) <= 2 * most)

    def solve(self) -> SolvedWeights | None:
        """The functions of cells that add up to the weights, with the least noise; None where there are none."""
        system, (wanted, most) = self.system, self.wanted
        right = np.asarray((system.cells.T @ self.columns).toarray()) / system.noise[:, None]
        found = (system.inverse @ right) / system.noise[:, None]
        if np.abs(system.cells @ (found @ self.chance) - wanted).max(initial=0.0) > most:
            return None
        return SolvedWeights(system.labels, system.tables, found)


@dataclass(frozen=True, eq=False)
class SolvedWeights:
    """Sums of some labels: functions of the cells of tables, cells × groups."""

    labels: tuple[str, ...]
    tables: tuple[int, ...]
    functions: Float
