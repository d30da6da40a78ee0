"""Exact counts behind the curator: each marginal that choices look at is counted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.schema import Cells, Marginal

_CELLS_PER_PASS = 1 << 25
"""Tables of so many cells are counted together in one pass over the rows."""


class ExactCounts:
    """The counts of some rows, and a memory of those that choices have looked at.

    Privacy
    -------
    Exact and private: held by a curator, which gives noisy answers alone.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self._prefetched: list[Marginal] = []

    def prefetch(self, tables: Iterable[Marginal]) -> None:
        """Count these in the next pass, so that later choices need none."""
        self._prefetched = list(tables)

    def count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count partitions in one pass; marginals that are known are not counted again."""
        if self._prefetched:
            self.remember(c for c in cells if isinstance(c, Marginal))
        known = [self._known.get(c.attributes) if isinstance(c, Marginal) else None for c in cells]
        unknown = [c for c, counts in zip(cells, known, strict=True) if counts is None]
        fresh = iter(self._rows.count(unknown) if unknown else [])
        return [next(fresh) if counts is None else counts for counts in known]

    def remember(self, tables: Iterable[Marginal]) -> None:
        """Count and keep marginals, with the prefetched ones, in as few passes as memory allows."""
        batch: dict[tuple[str, ...], Marginal] = {}
        cells = 0
        prefetched, self._prefetched = self._prefetched, []
        for marginal in [*tables, *prefetched]:
            if marginal.attributes in self._known or marginal.attributes in batch:
                continue
            batch[marginal.attributes] = marginal
            cells += marginal.size
            if cells > _CELLS_PER_PASS:
                self._count_batch(batch)
                batch, cells = {}, 0
        self._count_batch(batch)

    def _count_batch(self, batch: dict[tuple[str, ...], Marginal]) -> None:
        if batch:
            self._known.update(zip(batch, self._rows.count(list(batch.values())), strict=True))
