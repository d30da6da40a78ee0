"""How cells of noisy label tables add up to public weights of the rows, with the least noise (`label_tables`).

Functions f of cells must meet w(row) = Σ_t f_t(cell of the row in t) on every row. Of those that do, the one with the least
noise is the only one that is itself a sum of what rows ask. So a few rows are enough to find it: if it meets all the others
too, it is the same that all of them would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from dipsmith.analyses.design import Float, Ints
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Schema
from dipsmith.synthesis.label_table import LabelTable

MOST_CELLS = 1500
"""Cells of all tables that are asked together: their cross-products are factored."""

FEW = 4
"""Rows that are asked first, for each cell."""

SINGULAR = 1e-12
"""Cells that are told apart by less than this share of the largest are the same."""

EXACT = 1e-6
"""Weights are met up to this share of the largest."""


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of the rows, each in one group; rows of group −1 count nowhere."""

    groups: Ints
    size: int
    weight: Float | None

    def of(self, rows: Ints) -> RowWeights:
        """Those of some rows."""
        return RowWeights(self.groups[rows], self.size, None if self.weight is None else self.weight[rows])

    def along(self, direction: Float) -> Float:
        """Of all rows, groups added up by a direction."""
        found = np.append(direction, 0.0)[self.groups]
        return found if self.weight is None else found * self.weight


@dataclass(frozen=True, eq=False)
class LabelSystem:
    """The tables that tell some labels, and how their cells add up to weights of the rows."""

    labels: tuple[str, ...]
    tables: tuple[int, ...]
    cells: tuple[Ints, ...]
    weights: tuple[Float | None, ...]
    noise: Float
    start: int

    @classmethod
    def of(cls, tables: Sequence[LabelTable], labels: tuple[str, ...], schema: Schema) -> LabelSystem:
        """Of tables that have these labels, the smallest first, as many as fit."""
        having = sorted(
            (i for i, t in enumerate(tables) if set(labels) <= set(t.labels)), key=lambda i: len(tables[i].values)
        )
        ends = np.cumsum([len(tables[i].values) for i in having])
        used = tuple(i for i, end in zip(having, ends, strict=True) if end <= MOST_CELLS)
        chosen, starts = [tables[i] for i in used], [0, *ends]
        many = prod(schema[n].size for n in labels)
        variance = np.concatenate([np.zeros(0), *(t.noise_of(many) for t in chosen)])
        size = np.sqrt(np.maximum(variance, 1e-12 * (float(variance.max(initial=0.0)) or 1.0)))
        cells = tuple(t.cell + start for t, start in zip(chosen, starts, strict=False))
        start = starts[max(len(used) - 1, 0)]  # of the largest
        return cls(labels, used, cells, tuple(t.weight for t in chosen), size, int(start))

    def solve(self, asked: Mapping[str, RowWeights]) -> dict[str, SolvedWeights] | None:
        """The functions of cells that add up to weights, with the least noise; None where there are none for some."""
        if not self.tables:
            return None
        random, target, directions = generator(0), np.zeros(len(self.cells[0])), []
        for one in asked.values():
            direction = random.normal(size=one.size)  # what is met in a direction chosen by chance is met in all
            along = one.along(direction)
            most = float(np.abs(along).max(initial=0.0)) or 1.0
            directions.append(direction / most)
            target += along / most
        for all_rows in (False, True):
            equations = self.every_row if all_rows else self.few_rows
            found = equations.least_noise(list(asked.values()))
            missed = np.abs(self._on_rows(found @ np.concatenate(directions)) - target) > EXACT
            if not missed.any():
                ends = np.cumsum([one.size for one in asked.values()])[:-1]
                parts = np.split(found, ends, axis=1)
                return {k: SolvedWeights(self.labels, self.tables, f) for k, f in zip(asked, parts, strict=True)}
            if missed[equations.rows].any():
                break
        return None

    def _on_rows(self, functions: Float) -> Float:
        """What functions of cells add up to on every row."""
        found = np.zeros(len(self.cells[0]))
        for cell, weight in zip(self.cells, self.weights, strict=True):
            found += functions[cell] if weight is None else functions[cell] * weight
        return found

    @cached_property
    def few_rows(self) -> _Equations:
        """Rows that show every cell, and some by chance."""
        first = np.full(len(self.noise), -1)
        for cell in self.cells:
            first[cell] = np.arange(len(cell))
        some = generator(0).integers(0, len(self.cells[0]), FEW * len(self.noise))
        return self._equations(np.unique(np.concatenate([first[first >= 0], some])))

    @cached_property
    def every_row(self) -> _Equations:
        """Every row."""
        return self._equations(np.arange(len(self.cells[0])))

    def _equations(self, rows: Ints) -> _Equations:
        heavy = np.stack([np.ones(len(rows)) if w is None else w[rows] for w in self.weights])
        return _Equations(rows, np.stack([cell[rows] for cell in self.cells]), heavy, self.noise, self.start)


@dataclass(frozen=True, eq=False)
class _Equations:
    """What some rows ask of functions of cells. Every row lies in one cell of each table; the last begins at `start`."""

    rows: Ints
    cells: Ints
    weights: Float
    noise: Float
    start: int

    def least_noise(self, wanted: Sequence[RowWeights]) -> Float:
        """The functions with the least noise, cells × groups, if any meet what is wanted."""
        right = np.concatenate([self._times(one.of(self.rows)) for one in wanted], axis=1)
        return np.asarray(self._factor.solve(right / self.noise[:, None]) / self.noise[:, None])

    def _times(self, wanted: RowWeights) -> Float:
        """Weights of these rows added up by cell and group."""
        shape = (len(self.noise), wanted.size + 1)
        groups = np.where(wanted.groups < 0, wanted.size, wanted.groups)
        heavy = self.weights if wanted.weight is None else self.weights * wanted.weight
        found = np.bincount((self.cells * shape[1] + groups).ravel(), heavy.ravel(), shape[0] * shape[1])
        return np.asarray(found.reshape(shape)[:, :-1], np.float64)

    @cached_property
    def _factor(self) -> _Factor:
        """Of the cross-products of cells, in units of noise."""
        start, noise = self.start, self.noise
        own = np.bincount(self.cells[-1] - start, self.weights[-1] ** 2, len(noise) - start) / noise[start:] ** 2
        products = np.zeros((len(noise), start))
        for cell, weight in zip(self.cells[:-1], self.weights[:-1], strict=True):
            products += self._times(RowWeights(cell, start, weight))
        return _Factor.of(products / np.outer(noise, noise[:start]), own)


@dataclass(frozen=True, eq=False)
class _Factor:
    """A factor of cross-products of cells, the largest table last.

    No row lies in two cells of one table, so that the largest one's cross-products are a diagonal, and what is left of the
    others' once it is taken out (`through`) is small. Of their cells those that are told `apart` have the factor `upper`; no
    row tells what lies in `same`, an orthonormal base: tables that say the same, cells without rows.
    """

    inverse: Float
    through: Float
    apart: Ints
    upper: Float
    same: Float

    @classmethod
    def of(cls, products: Float, own: Float) -> _Factor:
        """Of the others' cross-products with all cells, and of the largest one's own."""
        size = products.shape[1]
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        through = inverse[:, None] * products[size:]
        left = products[:size] - products[size:].T @ through
        least = max(SINGULAR * float(np.diag(products).max(initial=0.0)), 1e-300)
        upper, pivots, rank = left, np.arange(1, size + 1), 0
        if np.diag(left).max(initial=0.0) > least:  # the first is taken whatever it is
            upper, pivots, rank, _ = dpstrf(left, tol=least)
        apart, others = np.split(pivots.astype(np.int64) - 1, [rank])
        same = np.zeros((size, size - rank))
        same[apart] = -solve_triangular(upper[:rank, :rank], upper[:rank, rank:])
        same[others] = np.eye(size - rank)
        whole = np.concatenate([same, -through @ same])
        return cls(inverse, through, apart, np.triu(upper[:rank, :rank]), np.linalg.qr(whole)[0])

    def solve(self, right: Float) -> Float:
        """The smallest solution."""
        size = self.through.shape[1]
        first, last = right[:size], right[size:]
        found = np.zeros_like(right)
        found[self.apart] = cho_solve((self.upper, False), (first - self.through.T @ last)[self.apart])
        found[size:] = self.inverse[:, None] * last - self.through @ found[:size]
        return np.asarray(found - self.same @ (self.same.T @ found))


@dataclass(frozen=True, eq=False)
class SolvedWeights:
    """Sums of some labels: functions of the cells of tables, cells × groups."""

    labels: tuple[str, ...]
    tables: tuple[int, ...]
    functions: Float
