"""A score: how good a candidate is, as a function of counts, with a proven sensitivity; and how counts are read for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.counting.count import Rows
from dipsmith.counting.memory import ROOM
from dipsmith.schema import Cells, Marginal

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)


class Score(Protocol[C_contra]):
    """What `Curator.choose` compares candidates by.

    What a score needs besides counts (a model's estimate, the public n) is a constructor argument.
    """

    @property
    def name(self) -> str:
        """The name that the ledger shows."""

    def tables(self, candidate: C_contra) -> Sequence[Marginal]:
        """The marginals whose counts decide the candidate's score."""

    def value(self, candidate: C_contra, counts: Sequence[Ints]) -> float:
        """The score; larger is better."""

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """By how much one unit can change a score."""

    def monotone(self, relation: str) -> bool:
        """Whether one unit moves all scores the same way (halves the noise needed); unless a score says so, it may not."""
        return False


class ExactCounts:
    """Exact counts for a curator, in few passes; the rows remember them, so that nothing is counted twice.

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

    def count(self, cells: Sequence[Cells]) -> list[Ints]:
        """Count partitions, in one pass with what was prefetched."""
        ahead, self._prefetched = self._prefetched, []
        asked = {c.key for c in cells}
        more = {table.key: table for table in ahead if table.key not in asked}
        room = ROOM - sum(c.size for c in cells) if more else 0
        fitting = [table for table in more.values() if (room := room - table.size) >= 0]
        return self._rows.count([*cells, *fitting])[: len(cells)]

    def scores(self, candidates: Sequence[C], score: Score[C]) -> Floats:
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
