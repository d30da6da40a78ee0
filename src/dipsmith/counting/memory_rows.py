"""Rows that are already encoded and held in memory: simulated tables, public stand-ins, tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import Rows
from dipsmith.counting.tally import Tally, fused
from dipsmith.errors import UsageError
from dipsmith.schema import Cells, Codes, Marginal, Schema


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Codes as countable rows. Units are taken to be truncated already."""

    held: Codes

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

    def count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Exact counts of every partition over the lawful rows."""
        return _count(self._lawful, cells)

    def count_public(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Exact counts over the rows that break no rule of the public columns."""
        return _count(self._public, cells)

    def count_sparse(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The occupied cells, sorted, and their counts."""
        indices, counts = np.unique(cells.index(self._lawful), return_counts=True)
        return indices, counts.astype(np.int64)

    def distinct(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """The distinct combinations among lawful rows and their multiplicities."""
        return _distinct(self._lawful, attributes)

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """The distinct combinations of public attributes and their multiplicities."""
        return _distinct(self._public, attributes)

    def total(self) -> int:
        """The number of rows, lawful or not: what is public where n is public."""
        return len(self.held)

    def within(self, attribute: str, code: int) -> Rows:
        """Only the rows with this code."""
        return HeldRows(self.held.take(self.held[attribute] == code))

    def codes(self) -> Iterator[Codes]:
        """The lawful rows, in the order of their codes."""
        if len(self._lawful):
            yield self._lawful.take(np.lexsort(fused(self._lawful, self.held.names)[::-1]))


def _count(codes: Codes, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
    tally = Tally(cells)
    tally.add(codes)
    return tally.counts()


def _distinct(codes: Codes, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
    marginal = Marginal.of(codes.schema, attributes)
    if marginal.size > np.iinfo(np.int64).max:
        raise UsageError(f"{marginal.size:.3g} combinations cannot be numbered; name fewer attributes")
    keys, counts = np.unique(marginal.index(codes), return_counts=True)
    columns = np.unravel_index(keys, marginal.shape)
    found = dict(zip(attributes, columns, strict=True))
    return Codes.of(codes.schema, found, len(keys)), counts.astype(np.int64)
