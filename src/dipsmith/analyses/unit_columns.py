"""Public columns added up over the rows of units that share one label: what `PublicColumns` are to rows, these are to units.

A label that all rows of a unit share enters every sum Σ x·h(label) with the unit's own Σ x. A unit lies in as many groups of a
fixed effect as it has rows, so that the columns are kept as a sparse matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy

from dipsmith.analyses.design import Float, Ints
from dipsmith.analyses.public_columns import PublicColumns


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
        """Zγ."""
        return np.asarray(self.matrix @ coefficients)

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
