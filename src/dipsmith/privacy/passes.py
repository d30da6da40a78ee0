"""Passes over the rows: what is asked and what was prefetched are counted together, as far as memory allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.counting.memory import ROOM
from dipsmith.privacy.score import Score
from dipsmith.schema import Cells, Marginal

C = TypeVar("C")


class Passes:
    """Exact counts for a curator; the rows remember them, so that nothing is counted twice.

    Privacy
    -------
    Exact and private: used by a curator, which gives noisy answers alone.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._prefetched: list[Marginal] = []

    def prefetch(self, tables: Iterable[Marginal]) -> None:
        """Count these in the next pass, so that later choices need none."""
        self._prefetched = list(tables)

    def count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count partitions, in one pass with what was prefetched."""
        ahead, self._prefetched = self._prefetched, []
        asked = {c.key for c in cells}
        more = {table.key: table for table in ahead if table.key not in asked}
        room = ROOM - sum(c.size for c in cells) if more else 0
        fitting = [table for table in more.values() if (room := room - table.size) >= 0]
        return self._rows.count([*cells, *fitting])[: len(cells)]

    def scores(self, candidates: Sequence[C], score: Score[C]) -> NDArray[np.float64]:
        """The exact score of every candidate, counted in as few passes as memory allows."""
        tables = [list(score.tables(candidate)) for candidate in candidates]
        scores: list[float] = []
        while len(scores) < len(candidates):
            start = stop = len(scores)
            asked: dict[tuple[str, ...], Marginal] = {}
            cells = 0
            while stop < len(candidates) and cells <= ROOM:
                fresh = {t.attributes: t for t in tables[stop] if t.attributes not in asked}
                asked |= fresh
                cells += sum(table.size for table in fresh.values())
                stop += 1
            counts = dict(zip(asked, self.count(list(asked.values())), strict=True))
            scores += [
                score.value(candidate, [counts[table.attributes] for table in needed])
                for candidate, needed in zip(candidates[start:stop], tables[start:stop], strict=True)
            ]
        return np.array(scores)
