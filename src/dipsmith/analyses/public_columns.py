"""Public columns block by block, and their cross-products: what a regression needs of them without a matrix of rows.

The columns of a block are w·1[group], so that a row lies in one of them at most. Products with all columns are then sums
by group, and the cross-products of two blocks a table of counts. A fixed effect with many groups is absorbed: its own
cross-products are a diagonal, and what is left of the other columns is a small matrix (Schur's complement).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints, PublicBlock, small_type

DENSE = 1000
"""Columns whose cross-products are inverted as one matrix; beyond, the largest fixed effect is absorbed."""

BESIDE = 3000
"""Columns beside the largest fixed effect at most: their cross-products are inverted as one matrix."""


PIECE = 1 << 15
"""Rows that are gone through at once: what is computed of them stays in the processor's cache."""


@dataclass(frozen=True, eq=False)
class RowRuns:
    """Rows that follow one another and agree in every public column, as one: where each run starts, and its rows."""

    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, blocks: Sequence[PublicBlock], rows: int) -> RowRuns:
        """Of rows in the order in which they stand: those that are sorted by other columns last have few runs."""
        new = np.zeros(rows, dtype=bool)
        new[:1] = True
        for numbers in (part for b in blocks for part in (b.groups if b.size > 1 else None, b.weight)):
            if numbers is not None:
                new[1:] |= numbers[1:] != numbers[:-1]
        starts = np.flatnonzero(new)
        return cls(starts, np.diff(starts, append=rows))

    def sums(self, values: Float) -> Float:
        """Numbers of rows, added up in every run."""
        return np.asarray(np.add.reduceat(values, self.starts) if len(self.starts) else values, np.float64)

    def spread(self, values: Float) -> Float:
        """Numbers of runs, as those of their rows."""
        return np.repeat(values, self.lengths)

    def block(self, block: PublicBlock) -> PublicBlock:
        """The columns of a block in every run."""
        weight = None if block.weight is None else block.weight[self.starts]
        groups = block.groups[self.starts] if block.size > 1 else block.groups[: len(self.starts)]
        return replace(block, groups=groups, weight=weight)


@dataclass(frozen=True, eq=False)
class GroupColumns:
    """Columns weight·1[group]: the column of every row, `width` where it lies in none; one column of all rows without `at`."""

    at: NDArray[np.signedinteger] | None
    width: int
    weight: Float | None

    @classmethod
    def of(cls, block: PublicBlock, weight: Float | None) -> GroupColumns:
        """The columns of a block, whose weight may have been replaced."""
        width = len(block.levels)
        if block.size == 1 and width == 1:
            return cls(None, 1, weight)
        if width == block.size:
            return cls(block.groups, width, weight)
        place = np.full(block.size, width, small_type(width))
        place[block.levels] = np.arange(width)
        return cls(place[block.groups], width, weight)

    @property
    def is_table(self) -> bool:
        """Whether its columns do not meet and every row in them weighs 1."""
        return self.weight is None and self.at is not None

    def take(self, rows: Ints | slice) -> GroupColumns:
        """Of some rows."""
        at = None if self.at is None else self.at[rows]
        return GroupColumns(at, self.width, None if self.weight is None else self.weight[rows])

    def weigh(self, factor: Float) -> GroupColumns:
        """The same columns times a number of every row."""
        return GroupColumns(self.at, self.width, factor if self.weight is None else self.weight * factor)

    def times(self, coefficients: Float) -> Float:
        """The columns times their coefficients, added up in every row; of several such vectors one after the other."""
        if self.at is None:
            return coefficients if self.weight is None else coefficients * self.weight
        outside = np.zeros((*coefficients.shape[:-1], 1))
        found: Float = np.concatenate([coefficients, outside], axis=-1)[..., self.at]
        return found if self.weight is None else found * self.weight

    def cross(self, values: Float) -> Float:
        """The sum of values over the rows of each column."""
        heavy = values if self.weight is None else self.weight * values
        if self.at is None:
            return np.array([heavy.sum()])
        return np.asarray(np.bincount(self.at, weights=heavy, minlength=self.width + 1)[: self.width], np.float64)

    def pair(self, other: GroupColumns, often: Float) -> Float:
        """Cross-products with another block's columns."""
        if other.at is None:
            return self.cross(often if other.weight is None else often * other.weight)[:, None]
        if self.at is None:
            return other.pair(self, often).T
        for weight in (self.weight, other.weight):
            often = often if weight is None else often * weight
        shape = self.width + 1, other.width + 1
        joint = np.multiply(self.at, shape[1], dtype=np.int64) + other.at
        found = np.bincount(joint, weights=often, minlength=shape[0] * shape[1])
        return np.asarray(found.reshape(shape)[:-1, :-1], np.float64)

    def by_label(self, labels: Ints, many: int) -> Float:
        """The sum of the weights over the rows of each column with each label."""
        at = labels if self.at is None else np.multiply(self.at, many, dtype=np.int64) + labels
        wide = 1 if self.at is None else self.width + 1
        found = np.bincount(at, weights=self.weight, minlength=wide * many)
        return np.asarray(found.reshape(wide, many)[: self.width], np.float64)


@dataclass(frozen=True, eq=False)
class PublicColumns:
    """All public columns Z of a regression, block after block."""

    blocks: tuple[GroupColumns, ...]
    rows: int

    @cached_property
    def places(self) -> tuple[Ints, ...]:
        """Where each block's columns stand."""
        ends = np.cumsum([0, *(b.width for b in self.blocks)])
        return tuple(np.arange(a, b) for a, b in pairwise(ends))

    @property
    def width(self) -> int:
        """How many columns there are."""
        return sum(b.width for b in self.blocks)

    def take(self, rows: Ints | slice) -> PublicColumns:
        """Of some rows."""
        many = len(range(*rows.indices(self.rows))) if isinstance(rows, slice) else len(rows)
        return PublicColumns(tuple(b.take(rows) for b in self.blocks), many)

    def pieces(self) -> Iterator[tuple[slice, PublicColumns]]:
        """The rows in pieces that stay in the processor's cache."""
        for here in pieces(self.rows):
            yield here, self.take(here)

    def times(self, coefficients: Float) -> Float:
        """Zγ, for one vector of coefficients or several."""
        found = np.zeros((*coefficients.shape[:-1], self.rows))
        for here, piece in self.pieces():
            for block, at in zip(piece.blocks, self.places, strict=True):
                found[..., here] += block.times(coefficients[..., at])
        return found

    def cross(self, values: Float) -> Float:
        """Z′v."""
        found = np.zeros(self.width)
        for here, piece in self.pieces():
            for block, at in zip(piece.blocks, self.places, strict=True):
                found[at] += block.cross(values[here])
        return found

    def squares(self) -> Float:
        """The sum of squares of each column."""
        one = np.broadcast_to(1.0, self.rows)
        found = [b.cross(one if b.weight is None else b.weight) for b in self.blocks]
        return np.concatenate([np.zeros(0), *found])

    def by_label(self, labels: Ints, many: int) -> Float:
        """Z′S for the indicators S of drawn labels."""
        return np.concatenate([np.zeros((0, many)), *(b.by_label(labels, many) for b in self.blocks)])

    def gram(self, often: Float) -> Float:
        """Z′WZ with these weights W of rows."""
        found = np.zeros((self.width, self.width))
        corners = [slice(int(at[0]), int(at[-1]) + 1) if len(at) else slice(0, 0) for at in self.places]
        for here, piece in self.pieces():
            for i, (block, at) in enumerate(zip(piece.blocks, corners, strict=True)):
                for other, beside in zip(piece.blocks[i:], corners[i:], strict=True):
                    found[at, beside] += block.pair(other, often[here])
        whole = np.triu(found)
        return whole + np.triu(found, 1).T


@dataclass(frozen=True, eq=False)
class Gram:
    """Z′Z: of the columns `at` as a matrix; of an absorbed fixed effect its counts, and its cross-products with them."""

    matrix: Float
    at: Ints
    absorbed: Ints
    counts: Float
    beside: scipy.sparse.csr_array

    @classmethod
    def of(cls, columns: PublicColumns, often: Float, at: Sequence[Ints]) -> Gram:
        """The cross-products of some blocks that stand `at` these columns."""
        large = absorbed_block([b.width if b.is_table else 0 for b in columns.blocks], columns.width)
        chosen = [i for i in range(len(columns.blocks)) if i != large]
        small = PublicColumns(tuple(columns.blocks[i] for i in chosen), columns.rows)
        here = np.concatenate([np.zeros(0, np.int64), *(at[i] for i in chosen)])
        if large is None:
            none = np.zeros(0, np.int64)
            return cls(small.gram(often), here, none, np.zeros(0), scipy.sparse.csr_array((0, len(here))))
        whole = columns.blocks[large]
        parts = [_table(whole, block, often) for block in small.blocks]
        beside = scipy.sparse.csr_array(scipy.sparse.hstack(parts) if parts else (whole.width, 0))
        return cls(small.gram(often), here, at[large], whole.cross(often), beside)

    def with_column(self, cross: Float, square: float, at: int) -> Gram:
        """With one more column: its cross-products with those that there are, in the order of all columns, and with itself."""
        new = cross[self.at]
        matrix = np.block([[self.matrix, new[:, None]], [new[None, :], np.array([[square]])]])
        more = scipy.sparse.csr_array(cross[self.absorbed][:, None])
        beside = scipy.sparse.csr_array(scipy.sparse.hstack([self.beside, more]))
        return Gram(matrix, np.append(self.at, at), self.absorbed, self.counts, beside)

    @cached_property
    def inverse(self) -> Inverse:
        """A generalised inverse."""
        each = np.divide(1.0, self.counts, out=np.zeros_like(self.counts), where=self.counts > 0)
        left = self.matrix
        if len(each):
            left = left - np.asarray((self.beside.T @ (self.beside * each[:, None])).toarray())
        core, rank = pseudo_inverse(left, np.diag(self.matrix))
        return Inverse(self, core, each, rank + int((each > 0).sum()))

    def times(self, values: Float) -> Float:
        """Z′ZX for an X of several columns."""
        found = np.zeros(values.shape)
        own, absorbed = values[self.at], values[self.absorbed]
        found[self.at] = self.matrix @ own + self.beside.T @ absorbed
        found[self.absorbed] = self.counts[:, None] * absorbed + self.beside @ own
        return found

    @property
    def diagonal(self) -> Float:
        """The squares of all columns, in their order."""
        found = np.zeros(len(self.at) + len(self.absorbed))
        found[self.at], found[self.absorbed] = np.diag(self.matrix), self.counts
        return found


@dataclass(frozen=True, eq=False)
class Inverse:
    """A generalised inverse G of Z′Z, and the rank of Z."""

    gram: Gram
    core: Float
    each: Float
    rank: int

    def times(self, values: Float) -> Float:
        """GX for an X of one column or several."""
        X = values if values.ndim == 2 else values[:, None]
        g, found = self.gram, np.zeros(X.shape)
        own = X[g.at]
        if len(self.each):
            shares = X[g.absorbed] * self.each[:, None]
            found[g.at] = self.core @ (own - g.beside.T @ shares)
            found[g.absorbed] = shares - (g.beside @ found[g.at]) * self.each[:, None]
        else:
            found[g.at] = self.core @ own
        return found.reshape(values.shape)

    def each_times(self, values: Float) -> Float:
        """GX for every X of draws × columns × k."""
        draws, wide, k = values.shape
        flat = values.transpose(1, 0, 2).reshape(wide, draws * k)
        return self.times(flat).reshape(wide, draws, k).transpose(1, 0, 2)

    def rows(self, chosen: Ints) -> Float:
        """Some of its rows."""
        unit = np.zeros((len(self.gram.at) + len(self.gram.absorbed), len(chosen)))
        unit[chosen, np.arange(len(chosen))] = 1.0
        return self.times(unit).T


def absorbed_block(tables: Sequence[int], wide: int) -> int | None:
    """Which block is absorbed, by the number of columns of those that may be; None where all are few."""
    return int(np.argmax(tables)) if wide > DENSE and max(tables, default=0) else None


def pseudo_inverse(matrix: Float, squares: Float | None = None) -> tuple[Float, int]:
    """The pseudo-inverse of cross-products, found on columns of the same size, and their rank.

    `squares` are those of the columns before others were taken out of them.
    """
    scale = np.sqrt(np.maximum(np.diag(matrix) if squares is None else squares, 1e-300))
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    kept = values > 1e-10 * max(values.max(initial=0.0), 1e-300)
    found = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return np.asarray(found / np.outer(scale, scale)), int(kept.sum())


def compose(steps: Float, plain: Sequence[int]) -> Float:
    """One matrix for numbers that were taken out of others one after another: the last is put back first."""
    whole = np.eye(len(steps))
    for i in plain:
        one = np.eye(len(steps))
        one[:, i] = steps[:, i]
        whole = whole @ one
    return whole


def pieces(rows: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for start in range(0, rows, PIECE):
        yield slice(start, min(start + PIECE, rows))


def _table(one: GroupColumns, other: GroupColumns, often: Float) -> scipy.sparse.csr_array:
    """Cross-products of two blocks, of which most are 0."""
    assert one.at is not None
    weight = often if other.weight is None else often * other.weight
    at = np.zeros(len(weight), np.int64) if other.at is None else other.at
    inside = np.flatnonzero((at < other.width) & (one.at < one.width))
    places = one.at[inside], at[inside]
    return scipy.sparse.csr_array(scipy.sparse.coo_array((weight[inside], places), shape=(one.width, other.width)))
