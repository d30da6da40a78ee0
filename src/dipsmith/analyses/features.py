"""The sums that calibrated labels reach: public numbers x added up by a function h of the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.measure import Part
from dipsmith.analyses.public_columns import GroupColumns, PublicColumns
from dipsmith.analyses.unit_columns import UnitColumns
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
        crossed = self.columns.gram(np.ones(self.columns.rows))[np.ix_(self.column, self.column)]
        return independent(by_label * crossed / np.outer(self.size, self.size))

    def tilt(self, lam: Float) -> Float:
        """The tilt of every label in every row: labels × rows."""
        coefficients = np.zeros((len(self.h), self.columns.width))
        np.add.at(coefficients, (self.which, self.column), lam / self.size)
        along = np.array([self.columns.times(c) for c in coefficients]).reshape(len(self.h), self.columns.rows)
        return np.clip(_product(self.h.T, along), -LARGEST, LARGEST)

    def sums(self, q: Float) -> Float:
        """What they sum to under probabilities, labels × rows."""
        crossed = [self.columns.cross(m) for m in _product(self.h, q)]
        return self._picked(np.array(crossed).reshape(len(self.h), self.columns.width).T)

    def drawn(self, labels: Ints) -> Float:
        """What they sum to with drawn labels."""
        return self._picked(self.columns.by_label(labels, self.h.shape[1]) @ self.h.T)

    def moved(self, rows: Ints, labels: Ints, others: Ints) -> Float:
        """By how much each of some rows or units would move the sums with another label: rows × sums."""
        columns = self.columns.take(rows)
        found = np.empty((len(rows), len(self.which)))
        for column in np.unique(self.column):
            x = columns.times(np.eye(1, columns.width, column)[0])
            for f in np.flatnonzero(self.column == column):
                h = self.h[self.which[f]]
                found[:, f] = x * (h[others] - h[labels]) / self.size[f]
        return found

    def _picked(self, crossed: Float) -> Float:
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
    """A small matrix times one of many columns; not by a library that would wake threads for it."""
    return np.asarray(np.einsum("ij,jk->ik", few, many))
