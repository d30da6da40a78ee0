"""The tables of sums that labels themselves have: of drawn labels, or expected under probabilities of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.public_columns import pieces
from dipsmith.analyses.sum_table import SumTable
from dipsmith.analyses.sums import Layout


@dataclass(frozen=True, eq=False)
class LabelSums:
    """What a design's A and N are made of, for joint labels of rows that are the distinct public rows at `place`, or all.

    Tables of the same groups and weights, by different labels, are added up once, by the joint label; `folds` leads from
    there to each table's own labels. `share` is how many rows there are for each that counts.
    """

    layout: Layout
    tables: tuple[SumTable, ...]
    place: Ints | None
    folds: tuple[tuple[SumTable, Float], ...]
    many: int
    share: float

    @classmethod
    def of(cls, layout: Layout, place: Ints | None, labels: Sequence[str], sizes: Mapping[str, int]) -> LabelSums:
        """Of rows that are the distinct public rows at `place` (all of them once where None), labelled with `labels`."""
        alike = {t.public_key: t for t in layout.cross_tables}
        grid = dict(zip(labels, np.indices([sizes[n] for n in labels]).reshape(len(labels), -1), strict=True))
        many = int(np.prod([sizes[n] for n in labels]))
        folds = []
        for table in layout.cross_tables:
            code = np.zeros(many, np.int64)
            for name in table.labels:
                code = code * sizes[name] + grid[name]
            folds.append((table, (code[:, None] == np.arange(table.label_cells)).astype(np.float64)))
        counted = layout.design.often > 0
        share = float(np.count_nonzero(counted if place is None else counted[place])) / max(layout.design.rows, 1.0)
        return cls(layout, tuple(alike.values()), place, tuple(folds), many, share)

    @property
    def size(self) -> int:
        """How many sums there are."""
        return sum(t.size for t in self.tables) * self.many

    def sum_labels(self, labels: Ints) -> Float:
        """The sums of drawn labels, table after table."""
        found = [np.zeros((t.size + 1) * self.many) for t in self.tables]
        for here in pieces(len(labels)):
            shifted = labels[here] + self.many  # rows that are not counted are in group −1
            rows = here if self.place is None else self.place[here]
            for sums, table in zip(found, self.tables, strict=True):
                at = shifted
                if table.size > 1 or table.has_uncounted:
                    at = np.multiply(table.groups[rows], self.many, dtype=np.int64) + shifted
                weight = None if table.weight is None else table.weight[rows]
                sums += np.bincount(at, weights=weight, minlength=len(sums))
        return np.concatenate([np.zeros(0), *(sums[self.many :] for sums in found)])

    def expect(self, q: Float) -> Float:
        """The sums expected under probabilities, labels × rows."""
        found = [np.zeros(0)]
        rows = slice(None) if self.place is None else self.place
        for table in self.tables:
            heavy = q if table.weight is None else q * table.weight[rows]
            at = table.groups[rows] + np.int64(1)
            by_label = [np.bincount(at, weights=row, minlength=table.size + 1)[1:] for row in heavy]
            found.append(np.column_stack(by_label).astype(np.float64).ravel())
        return np.concatenate(found)

    def cross_products(self, sums: Float, share: float) -> tuple[Float, Float]:
        """A and N of labels with these sums, for each row that counts, where there are `share` of them for it."""
        joint, start = {}, 0
        for table in self.tables:
            end = start + table.size * self.many
            joint[table.public_key] = sums[start:end].reshape(table.size, self.many) / share
            start = end
        tables = {t.key: (joint[t.public_key] @ fold)[None] for t, fold in self.folds}
        A, N = (part[0] for part in self.layout.cross_products(tables))
        return A, N

    def variation(self, sums: Float, share: float) -> Float:
        """V = N − A′(Z′Z)⁻¹A of labels with these sums, where there are `share` of them for each row that counts."""
        A, N = self.cross_products(sums, share)
        return np.asarray(share * (N - A.T @ self.layout.inverse.times(A)))
