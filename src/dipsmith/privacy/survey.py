"""A survey: histograms of many columns over public cells, counted in one pass and released with noise.

Before a schema exists nothing is known of a column's values; but any fixed way to sort *all possible* values into cells
(blank, a whole number, a date, text; or 1 to 2, 2 to 5, 5 to 10, …) is a data-independent partition of rows. A
survey counts several of them, each of one column.

Privacy
-------
One unit moves at most k rows in each of m histograms: Δ₁ = m·k (add-remove) or 2mk (replace, label), Δ₂² = m·k² or 2mk²
(``docs/proofs/learn.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.values import plain_column
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import priced_counts, sensitivity_for
from dipsmith.privacy.events import Measured
from dipsmith.privacy.noise import NoiseLaw
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import NamedCounts
from dipsmith.schema import Schema


class ColumnCells(Protocol):
    """A public partition of all values that a column could have."""

    @property
    def column(self) -> str:
        """The column."""

    @property
    def size(self) -> int:
        """The number of cells."""

    def place(self, values: pa.Array) -> Ints:
        """The cell of each value, 0 … size − 1, a function of that value alone; −1 for none."""


@dataclass(frozen=True, eq=False)
class Survey:
    """Histograms of columns: a question to the values of rows. `what` names it in the ledger."""

    what: str
    schema: Schema
    tables: tuple[ColumnCells, ...]

    def __post_init__(self) -> None:
        if not self.tables:
            raise UsageError("a survey has at least one column")

    @property
    def cells(self) -> NamedCounts:
        """What is counted."""
        return NamedCounts(self.schema, f"{self.what} of {len(self.tables)} columns", self._starts()[-1])

    def priced(self, relation: str, max_rows: int, budget: Budget, block: str) -> tuple[NoiseLaw, Measured]:
        """The noise on all histograms for a price."""
        if block:
            raise UnsupportedError("a survey is of all rows, not of a block of them")
        sensitivity = len(self.tables) * sensitivity_for(relation, max_rows, budget)
        return priced_counts(self.cells, sensitivity, budget, block)

    def count(self, rows: Rows, stream: Stream) -> Ints:
        """The exact numbers of all histograms, one after the other."""
        starts = self._starts()
        found = np.zeros(starts[-1], np.int64)
        for batch in rows.raw([*dict.fromkeys(table.column for table in self.tables)]):
            for table, start in zip(self.tables, starts, strict=False):
                cells = table.place(plain_column(batch.column(table.column)))
                found[start : start + table.size] += np.bincount(cells[cells >= 0], minlength=table.size)
        return found

    def apart(self, counts: Ints) -> list[Ints]:
        """The histograms of an answer, one for each table."""
        return np.split(counts, self._starts()[1:-1])

    def _starts(self) -> list[int]:
        return [0, *np.cumsum([table.size for table in self.tables]).tolist()]
