"""Contingency tables: a partition of rows and how many rows fall in each of its cells.

Two forms of the same thing. `Contingency` holds a count for every cell. `SparseContingency` holds the
occupied cells only, for partitions too large to hold; every cell that it does not list counts zero.

Privacy
-------
These are exact counts of private rows. Only the curator and the confidential comparison may hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.joint import summed
from dipsmith.errors import UsageError
from dipsmith.schema import Cells, Marginal

MAX_CELLS = 1 << 27
"""The most cells that are held at once: a gigabyte of counts."""

MAX_INDEX = 1 << 62
"""The most cells that a partition can number in 64-bit integers with room for arithmetic."""


@dataclass(frozen=True, eq=False)
class Contingency:
    """A count for every cell of a partition, in the order of its cells."""

    cells: Cells
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.counts.shape != (self.cells.size,):
            raise UsageError(f"{self.cells.key} has {self.cells.size} cells, got {self.counts.size} counts")

    @property
    def total(self) -> int:
        """How many rows were counted."""
        return int(self.counts.sum())

    def marginal(self, attributes: Sequence[str]) -> Contingency:
        """Return the table of some attributes of a marginal, in the given order, with counts of its own.

        >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
        >>> s = Schema("t", tuple(Attribute(n, "string", Categories.of("ab")) for n in "xyz"), Unit(), "replace")
        >>> Contingency(Marginal.of(s, "xyz"), np.arange(8)).marginal("zx").counts.tolist()
        [2, 10, 4, 12]
        """
        cells = Marginal.of(self.cells.schema, attributes)
        if not isinstance(self.cells, Marginal) or not set(attributes) <= set(self.cells.attributes):
            raise UsageError(f"{cells.key} cannot be summed from {self.cells.key}; count it instead")
        names = self.cells.attributes
        counts = summed(self.counts, self.cells.shape, [name in attributes for name in names])
        left = [name for name in names if name in attributes]
        shaped = counts.reshape([self.cells.schema[name].size for name in left])
        return Contingency(cells, shaped.transpose([left.index(name) for name in attributes]).flatten())

    def sparse(self) -> SparseContingency:
        """Return the occupied cells alone."""
        indices = np.flatnonzero(self.counts)
        return SparseContingency(self.cells, indices.astype(np.int64), self.counts[indices])


@dataclass(frozen=True, eq=False)
class SparseContingency:
    """The occupied cells of a partition, in increasing order, and their counts."""

    cells: Cells
    indices: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """How many rows were counted."""
        return int(self.counts.sum())

    def dense(self) -> Contingency:
        """Spread the counts over all cells."""
        check_size([self.cells])
        counts = np.zeros(self.cells.size, dtype=np.int64)
        counts[self.indices] = self.counts
        return Contingency(self.cells, counts)


def check_size(cells: list[Cells], limit: int = MAX_CELLS) -> None:
    """Refuse, before anything is allocated, tables that would not fit; say what makes them big.

    Examples
    --------
    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> letters = Categories.of("abcdefgh")
    >>> s = Schema("t", tuple(Attribute(n, "string", letters) for n in "xyz"), Unit(), "replace")
    >>> check_size([Marginal.of(s, "xyz")], limit=100)
    Traceback (most recent call last):
    dipsmith.errors.UsageError: table x × y × z has 512 cells, the limit is 100; it crosses x (8), \
y (8), z (8): use coarser bins, collapse labels or leave an attribute out
    """
    if sum(table.size for table in cells) <= limit:
        return
    largest = max(cells, key=lambda table: table.size)
    if largest.size <= limit:
        whole = sum(table.size for table in cells)
        raise UsageError(
            f"{len(cells)} tables have {whole:,} cells in all, the limit is {limit:,}; the largest is "
            f"{largest.key} ({largest.size:,}): ask for fewer at a time, use coarser bins or collapse labels"
        )
    sizes = sorted(
        ((largest.schema[name].size, name) for name in largest.attributes), key=lambda pair: -pair[0]
    )
    crossed = ", ".join(f"{name} ({size:,})" for size, name in sizes)
    what = "crosses" if isinstance(largest, Marginal) else "reads"
    raise UsageError(
        f"table {largest.key} has {largest.size:,} cells, the limit is {limit:,}; it {what} {crossed}: "
        "use coarser bins, collapse labels or leave an attribute out"
    )
