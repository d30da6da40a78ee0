"""Rows that trees may grow on for free: public ones, or ones synthesised from what was already paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.methods.forest.settings import EnsembleSpec
from dipsmith.methods.public_table import PublicTable
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Marginal


@dataclass(frozen=True, eq=False)
class GrowthRows:
    """Codes with the columns that trees ask, and for how many private rows each of them stands."""

    rows: Codes
    weights: NDArray[np.float64]

    @classmethod
    def scaled(cls, rows: Codes, total: float) -> GrowthRows:
        """Rows that stand for `total` rows together."""
        return cls(rows, np.full(len(rows), total / max(len(rows), 1)))

    @classmethod
    def public(cls, curator: Curator, spec: EnsembleSpec, table: PublicTable | None) -> GrowthRows:
        """Rows of a public table, else the public columns of the private table's own rows (neighbours `label`)."""
        names = spec.growth_columns(curator.schema, curator.relation)
        if table is not None:
            codes = table.codes.project(names)
            found = cls.scaled(codes, len(codes) if curator.rows is None else curator.rows)
        elif names:
            rows, often = curator.public_rows(names)
            found = cls(rows, often.astype(np.float64))
        else:
            # A sequence of targets without public columns: to the public, all rows are alike.
            (often,) = curator.public_counts([Marginal(curator.schema, ())])
            found = cls(Codes(curator.schema, {}, len(often)), often.astype(np.float64))
        return found.crossed([n for n in spec.predictors if n not in names])

    def crossed(self, names: Sequence[str]) -> GrowthRows:
        """Every row once for each combination of private attributes, which say nothing about growth."""
        if not names:
            return self
        schema, size = self.rows.schema, self.rows.schema.size(names)
        grid = np.unravel_index(np.arange(size), [schema[n].size for n in names])
        columns = {n: np.repeat(c, size) for n, c in self.rows.columns.items()}
        columns |= {n: np.tile(c, len(self.rows)) for n, c in zip(names, grid, strict=True)}
        codes = Codes.of(schema, columns, len(self.rows) * size)
        return GrowthRows(codes, np.repeat(self.weights, size) / size)
