"""Rows that are already encoded and held in memory: simulated tables, public stand-ins, tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.counting.memory import CountMemory, View
from dipsmith.counting.tally import Tally, count_sparse, distinct
from dipsmith.schema import Cells, Codes, Schema


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Codes as countable rows. Units are taken to be truncated already."""

    held: Codes
    _memory: CountMemory = field(default_factory=CountMemory, repr=False)

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.held.schema

    @cached_property
    def _lawful(self) -> Codes:
        return self._keeping(self.held.names)

    @cached_property
    def _public(self) -> Codes:
        return self._keeping([n for n in self.held.names if self.schema[n].role == "public"])

    def _keeping(self, names: Sequence[str]) -> Codes:
        fine = self.held.project(names).lawful()
        return self.held if bool(fine.all()) else self.held.take(fine)

    def count(self, cells: Sequence[Cells], view: View = "lawful") -> list[NDArray[np.int64]]:
        """Exact counts of every partition over the rows of a view: what is not remembered, in one pass."""
        known = self._memory.recall((), view, cells)
        tally = Tally([table for table, counts in zip(cells, known, strict=True) if counts is None])
        if any(counts is None for counts in known):
            tally.add(self._lawful if view == "lawful" else self._public)
        return self._memory.complete((), view, cells, known, tally.counts())

    def count_public(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Exact counts over the rows that break no rule of the public columns."""
        return self.count(cells, "public")

    def count_sparse(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The occupied cells, sorted, and their counts."""
        return count_sparse([self._lawful], cells)

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """The distinct combinations of public attributes, sorted, and their multiplicities."""
        return distinct([self._public], self.schema, attributes)

    def total(self) -> int:
        """The number of rows, lawful or not: what is public where n is public."""
        return len(self.held)

    def within(self, attribute: str, code: int) -> Rows:
        """Only the rows with this code."""
        return HeldRows(self.held.take(self.held[attribute] == code))
