"""The sums that calibrated labels reach: public numbers x added up by a function h of the label.

What `PublicColumns` are to rows, `UnitColumns` are to units that share one label. A label that all rows of a unit share
enters every sum Σ x·h(label) with the unit's own Σ x. A unit lies in as many groups of a fixed effect as it has rows,
so that the columns are kept as a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.measure import Part
from dipsmith.analyses.public_columns import GroupColumns, PublicColumns
from dipsmith.regression.least_squares import independent

LARGEST = 30.0
"""The largest tilt: beyond, a label is certain anyway."""


@dataclass(frozen=True, eq=False)
class Target:
    """Sums Σ x·h(label) that labels reach, of one part of an analysis: their goals are fixed, or V·β with the labels' own V.

    `columns` are the x of every distinct public row; `column` and `on_label` say of each sum which x and which h it has.
    """

    part: Part
    columns: PublicColumns
    column: Ints
    on_label: Float
    goals: Float | None
    beta: Float


@dataclass(frozen=True, eq=False)
class Features:
    """The sums that labels reach: of each the column x, which of the functions `h` of the label, and the column's size."""

    columns: PublicColumns | UnitColumns
    column: Ints
    which: Ints
    h: Float
    size: Float

    @classmethod
    def of(
        cls, targets: Sequence[Target], totals: Sequence[Float], place: Ints | None, rows: int, starts: Ints | None
    ) -> Features:
        """How often labels occur, then what targets ask for, of rows that are the distinct public rows at `place`.

        Of units, where `starts` says from which row on each unit's stand.
        """
        ones = PublicColumns((GroupColumns(None, 1, None),), rows)
        parts = [ones, *(t.columns if place is None else t.columns.take(place) for t in targets)]
        columns = PublicColumns(tuple(b for p in parts for b in p.blocks), rows)
        ends = np.cumsum([0, *(p.width for p in parts)])
        column = [np.zeros(len(totals), np.int64)]
        column += [t.column + start for t, start in zip(targets, ends[1:-1], strict=True)]
        functions = [*totals, *(h for t in targets for h in t.on_label)]
        # Few functions of the label occur, each with many columns.
        distinct: dict[bytes, int] = {}
        which = [distinct.setdefault(np.ascontiguousarray(h).tobytes(), len(distinct)) for h in functions]
        summed = columns if starts is None else UnitColumns.of(columns, starts)
        size = np.sqrt(np.maximum(summed.squares() / max(summed.rows, 1), 1e-300))
        at = np.concatenate(column)
        wide = len(functions[0]) if functions else 1
        h = np.array([np.frombuffer(key) for key in distinct]).reshape(len(distinct), wide)
        return cls(summed, at, np.array(which, np.int64), h, size[at])

    def take(self, rows: Ints | slice) -> Features:
        """Of some rows."""
        return Features(self.columns.take(rows), self.column, self.which, self.h, self.size)

    def only(self, some: Ints) -> Features:
        """Some of the sums."""
        return Features(self.columns, self.column[some], self.which[some], self.h, self.size[some])

    def independent(self) -> Ints:
        """The sums that those before them do not already say, whatever the labels: by their slope were all as likely."""
        apart = self.h - self.h.mean(axis=1, keepdims=True)
        by_label = (apart @ apart.T)[np.ix_(self.which, self.which)]
        crossed = self.columns.gram(np.broadcast_to(1.0, self.columns.rows))[np.ix_(self.column, self.column)]
        return independent(by_label * crossed / np.outer(self.size, self.size))

    def tilt(self, lam: Float) -> Float:
        """The tilt of every label in every row: labels × rows."""
        coefficients = np.zeros((len(self.h), self.columns.width))
        np.add.at(coefficients, (self.which, self.column), lam / self.size)
        found = _product(self.h.T, self.columns.times(coefficients))
        return np.clip(found, -LARGEST, LARGEST, out=found)

    def sums(self, q: Float) -> Float:
        """What they sum to under probabilities, labels × rows."""
        crossed = [self.columns.cross(m) for m in _product(self.h, q)]
        return self._pick(np.array(crossed).reshape(len(self.h), self.columns.width).T)

    def sum_labels(self, labels: Ints) -> Float:
        """What they sum to with drawn labels."""
        return self._pick(self.columns.by_label(labels, self.h.shape[1]) @ self.h.T)

    def changes(self, rows: Ints, labels: Ints, others: Ints) -> Float:
        """By how much each of some rows or units would move the sums with another label: rows × sums."""
        columns = self.columns.take(rows)
        found = np.empty((len(rows), len(self.which)))
        for column in np.unique(self.column):
            x = columns.times(np.eye(1, columns.width, column)[0])
            for f in np.flatnonzero(self.column == column):
                h = self.h[self.which[f]]
                found[:, f] = x * (h[others] - h[labels]) / self.size[f]
        return found

    def _pick(self, crossed: Float) -> Float:
        return crossed[self.column, self.which] / self.size

    def slope(self, q: Float) -> Float:
        """By how much the sums grow with λ."""
        m = _product(self.h, q)
        # Most products of two labels' functions are one of them, or nothing.
        known = {h.tobytes(): mean for h, mean in zip(self.h, m, strict=True)}
        by_function = [np.flatnonzero(self.which == j) for j in range(len(self.h))]
        H = np.zeros((len(self.which), len(self.which)))
        for j, one in enumerate(by_function):
            for k, other in list(enumerate(by_function))[j:]:
                both = self.h[j] * self.h[k]
                mean = known.get(both.tobytes())
                if mean is None:
                    mean = known[both.tobytes()] = _product(both[None], q)[0]
                part = self.columns.gram(mean - m[j] * m[k])[self.column[one][:, None], self.column[other]]
                H[one[:, None], other], H[other[:, None], one] = part, part.T
        return H / np.outer(self.size, self.size)


def _product(few: Float, many: Float) -> Float:
    """A small matrix, most of it zeros and ones, times one of many columns."""
    found = np.zeros((len(few), many.shape[1]))
    for i, j in zip(*np.nonzero(few), strict=True):
        found[i] += many[j] if few[i, j] == 1 else few[i, j] * many[j]
    return found


@dataclass(frozen=True, eq=False)
class UnitColumns:
    """Columns of units: units × width."""

    matrix: scipy.sparse.csr_array

    @classmethod
    def of(cls, columns: PublicColumns, starts: Ints) -> UnitColumns:
        """Add up the rows of each unit, which stand together from `starts` on."""
        parts = []
        every = np.arange(columns.rows + 1)
        for block in columns.blocks:
            weight = np.ones(columns.rows) if block.weight is None else np.asarray(block.weight, np.float64)
            at = np.zeros(columns.rows, np.int64) if block.at is None else np.asarray(block.at, np.int64)
            # A row that lies in none of the columns is in one beyond them, which is cut off.
            wide = scipy.sparse.csr_array((weight, at, every), shape=(columns.rows, block.width + 1))
            parts.append(scipy.sparse.csr_array(wide[:, : block.width]))
        owner = np.repeat(np.arange(len(starts)), [b - a for a, b in pairwise([*starts, columns.rows])])
        adding = scipy.sparse.csr_array((np.ones(columns.rows), (owner, every[:-1])), shape=(len(starts), columns.rows))
        return cls(scipy.sparse.csr_array(adding @ scipy.sparse.hstack(parts, format="csr")))

    @property
    def rows(self) -> int:
        """How many units there are."""
        return int(self.matrix.shape[0])

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int(self.matrix.shape[1])

    def take(self, rows: Ints | slice) -> UnitColumns:
        """Of some units."""
        return UnitColumns(scipy.sparse.csr_array(self.matrix[rows]))

    def times(self, coefficients: Float) -> Float:
        """Zγ, for one vector of coefficients or several."""
        return np.asarray((self.matrix @ coefficients.T).T)

    def cross(self, values: Float) -> Float:
        """Z′v."""
        return np.asarray(self.matrix.T @ values)

    def squares(self) -> Float:
        """The sum of squares of each column."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=0), np.float64).ravel()

    def by_label(self, labels: Ints, many: int) -> Float:
        """Z′S for the indicators S of drawn labels."""
        rows = len(labels)
        shown = scipy.sparse.csr_array((np.ones(rows), labels, np.arange(rows + 1)), shape=(rows, many))
        return np.asarray((self.matrix.T @ shown).toarray())

    def gram(self, often: Float) -> Float:
        """Z′WZ with these weights W of units."""
        heavy = scipy.sparse.csr_array(self.matrix.multiply(often[:, None]))
        return np.asarray((self.matrix.T @ heavy).toarray())
