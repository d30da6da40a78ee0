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
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.public_columns import pieces
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Schema
from dipsmith.synthesis.label_table import LabelTable, Weights

MOST_CELLS = 1500
"""Cells of all tables that are asked together: their cross-products are factored."""

FEW = 4
"""Rows that are asked first, for each cell."""

SINGULAR = 1e-12
"""Cells that are told apart by less than this share of the largest are the same."""

EXACT, TINY = 1e-6, 1e-9
"""Weights are met up to this share of the largest; what is as small as the second is not looked at row by row."""

RowDifference = tuple[Float, NDArray[np.signedinteger], Weights | None]
"""What the cell of a row adds, which cell that is, and what the row weighs."""


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of the rows, each in one group; rows of group −1 count nowhere."""

    groups: NDArray[np.signedinteger]
    size: int
    weight: Weights | None

    def of(self, rows: Ints) -> RowWeights:
        """Those of some rows."""
        return RowWeights(self.groups[rows], self.size, None if self.weight is None else self.weight[rows])

    @property
    def heaviest(self) -> float:
        """The largest weight."""
        return (
            1.0
            if self.weight is None
            else max(float(self.weight.max(initial=0.0)), -float(self.weight.min(initial=0.0)))
        )

    def is_of(self, table: LabelTable) -> bool:
        """Whether a table's cells and weights are these, in the same memory."""
        return _is_same(self.groups, table.cell) and _is_same(self.weight, table.weight)


@dataclass(frozen=True, eq=False)
class LabelSystem:
    """The tables that tell some labels, and how their cells add up to weights of the rows."""

    labels: tuple[str, ...]
    tables: tuple[int, ...]
    chosen: tuple[LabelTable, ...]
    starts: tuple[int, ...]
    """Where the cells of each begin; those of the largest are the last."""
    noise: Float

    @classmethod
    def of(cls, tables: Sequence[LabelTable], labels: tuple[str, ...], schema: Schema) -> LabelSystem:
        """Of tables that have these labels, the smallest first, as many as fit."""
        having = sorted(
            (i for i, t in enumerate(tables) if set(labels) <= set(t.labels)), key=lambda i: len(tables[i].values)
        )
        ends = np.cumsum([len(tables[i].values) for i in having])
        used = tuple(i for i, end in zip(having, ends, strict=True) if end <= MOST_CELLS)
        chosen, starts = tuple(tables[i] for i in used), (0, *ends.tolist())
        many = prod(schema[n].size for n in labels)
        variance = np.concatenate([np.zeros(0), *(t.noise_of(many) for t in chosen)])
        size = np.sqrt(np.maximum(variance, 1e-12 * (float(variance.max(initial=0.0)) or 1.0)))
        return cls(labels, used, chosen, starts[: len(used)], size)

    def solve(self, asked: Mapping[str, RowWeights]) -> dict[str, SolvedWeights] | None:
        """The functions of cells that add up to weights, with the least noise; None where there are none for some."""
        if not self.tables:
            return None
        random, directions = generator(0), []
        for one in asked.values():
            direction = random.normal(size=one.size)  # what is met in a direction chosen by chance is met in all
            directions.append(direction / (float(np.abs(direction).max(initial=0.0)) * one.heaviest or 1.0))
        for all_rows in (False, True):
            equations = self.every_row if all_rows else self.few_rows
            found = equations.least_noise(list(asked.values()))
            along = found @ np.concatenate(directions)
            left_over = self._left_over(along, asked, directions)
            if not self._is_met(*left_over, equations.rows):
                return None
            if all(self._is_met(*left_over, here) for here in pieces(self.rows)):
                ends = np.cumsum([one.size for one in asked.values()])[:-1]
                parts = np.split(found, ends, axis=1)
                return {k: SolvedWeights(self.labels, self.tables, f) for k, f in zip(asked, parts, strict=True)}
        return None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.chosen[0].cell)

    def _left_over(
        self, functions: Float, asked: Mapping[str, RowWeights], directions: Sequence[Float]
    ) -> tuple[list[RowDifference], float]:
        """What functions of cells add to rows beyond what is asked along some directions; and how much is too small to look at."""
        found, slack, left = [], 0.0, dict(zip(asked, directions, strict=True))
        for table, start in zip(self.chosen, self.starts, strict=True):
            told = functions[start : start + len(table.values)].copy()
            for key in [key for key in left if asked[key].is_of(table)]:  # what is asked is what the table itself has
                direction = left.pop(key)
                told[: len(direction)] -= direction
            most = float(np.abs(told).max(initial=0.0)) * table.heaviest
            if most > TINY:
                found.append((told, table.cell, table.weight))
            slack += 0.0 if most > TINY else most
        return [*found, *((np.append(-d, 0.0), asked[k].groups, asked[k].weight) for k, d in left.items())], slack

    def _is_met(self, left_over: Sequence[RowDifference], slack: float, rows: Ints | slice) -> bool:
        """Whether functions of cells add up to what is asked, on some rows."""
        off = np.zeros(len(self.chosen[0].cell[rows]))
        for told, groups, weight in left_over:
            off += told[groups[rows]] if weight is None else told[groups[rows]] * weight[rows]
        return float(np.abs(off).max(initial=0.0)) + slack <= EXACT

    @cached_property
    def few_rows(self) -> _Equations:
        """Rows that show every cell, and some by chance."""
        shown = np.concatenate([t.example_rows for t in self.chosen])
        some = generator(0).integers(0, self.rows, FEW * len(self.noise))
        return self._equations(np.unique(np.concatenate([shown[shown >= 0], some])))

    @cached_property
    def every_row(self) -> _Equations:
        """Every row."""
        return self._equations(np.arange(self.rows))

    def _equations(self, rows: Ints) -> _Equations:
        each = [np.ones(len(rows)) if t.weight is None else t.weight[rows] for t in self.chosen]
        heavy = np.stack(each, dtype=np.float64)
        cells = [t.cell[rows].astype(np.int64) + start for t, start in zip(self.chosen, self.starts, strict=True)]
        return _Equations(rows, np.stack(cells), heavy, self.noise, self.starts[-1])


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


def _is_same(one: NDArray[np.generic] | None, other: NDArray[np.generic] | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.__array_interface__ == other.__array_interface__)
