"""Counting many marginals: rows with the usual value of a lopsided column are subtracted, not counted.

Where most rows have the same value of a column (no capital gain, not a veteran), a table of that column with
others is counted over the remaining rows alone. What is then missing is the difference to the table of the
others, which is counted over all rows (after Moore and Lee, "Cached sufficient statistics for efficient machine
learning with large datasets", JAIR 8, 1998, whose trees leave the most common value out).

Guarantee: exact counts, whichever value is taken for the usual one. What is usual among the first rows decides
only how long counting takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.joint import Joints, summed
from dipsmith.schema import Codes, Marginal

USUAL = 0.6
"""The share of rows with the usual value from which a column is lopsided."""
WORTHWHILE = 24
"""In how many marginals of three or more attributes a column must be: picking rows out costs as some joint tables."""
_LOOKED_AT = 1 << 13

Attributes = tuple[str, ...]


class MarginalTally:
    """Dense counts of marginals, fed chunk by chunk."""

    def __init__(self, marginals: Sequence[Marginal]) -> None:
        self._wanted = [m.attributes for m in marginals]
        self._marginals = {m.attributes: m for m in marginals}
        self._parts: list[_Part] | None = None

    def add(self, chunk: Codes) -> None:
        """Count more rows, few enough to stay in the processor's cache."""
        if self._parts is None:
            self._parts = _parts(self._marginals, _lopsided(list(self._marginals), chunk))
        for part in self._parts:
            part.add(chunk)

    def counts(self) -> list[NDArray[np.int64]]:
        """Return the counts so far, one array per marginal, in the order given."""
        if self._parts is None:
            return [np.zeros(self._marginals[names].size, dtype=np.int64) for names in self._wanted]
        parts = {names: (part, n) for part in self._parts for names, n in part.counts().items()}
        found: dict[Attributes, NDArray[np.int64]] = {}
        for names in sorted(parts, key=len):
            part, counts = parts[names]
            found[names] = counts if part.column is None else part.filled(names, counts, found)
        # A marginal that was asked for twice is given twice.
        last = {names: i for i, names in enumerate(self._wanted)}
        return [found[n] if last[n] == i else found[n].copy() for i, n in enumerate(self._wanted)]


@dataclass(frozen=True, eq=False)
class _Part:
    """Marginals that are counted over all rows, or over those without the usual value of a column."""

    column: str | None
    usual: int
    marginals: dict[Attributes, Marginal]
    joints: Joints

    def add(self, chunk: Codes) -> None:
        if self.column is not None:
            rows = np.flatnonzero(chunk[self.column] != self.usual)
            read = dict.fromkeys(name for names in self.marginals for name in names)
            chunk = Codes(chunk.schema, {name: chunk[name][rows] for name in read}, len(rows))
        self.joints.add(chunk)

    def counts(self) -> dict[Attributes, NDArray[np.int64]]:
        return dict(zip(self.marginals, self.joints.counts(), strict=True))

    def filled(
        self, names: Attributes, counts: NDArray[np.int64], found: Mapping[Attributes, NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """The counts with those of the usual value: what is missing to the marginal of the other attributes."""
        shape = self.marginals[names].shape
        axis = names.index(str(self.column))
        others = found[names[:axis] + names[axis + 1 :]]
        missing = others - summed(counts, shape, [name != self.column for name in names])
        table = counts.reshape(prod(shape[:axis]), shape[axis], -1).copy()
        table[:, self.usual, :] = missing.reshape(len(table), -1)
        return table.ravel()


def _parts(marginals: Mapping[Attributes, Marginal], usual: Mapping[str, int]) -> list[_Part]:
    """Divide marginals by the most lopsided column that each has, with those that they are filled from."""
    divided: dict[str | None, dict[Attributes, Marginal]] = {None: {}} | {column: {} for column in usual}
    waiting = dict(marginals)
    while waiting:
        names, marginal = waiting.popitem()
        column = next((column for column in usual if column in names), None)
        divided[column][names] = marginal
        if column is not None:
            others = tuple(name for name in names if name != column)
            waiting[others] = Marginal(marginal.schema, others)
    return [
        _Part(column, usual.get(column or "", 0), among, Joints(list(among.values())))
        for column, among in divided.items()
        if among
    ]


def _lopsided(tables: Sequence[Attributes], chunk: Codes) -> dict[str, int]:
    """The usual values of the columns that have one and are in many marginals, the most lopsided column first."""
    large = [names for names in tables if len(names) > 2]
    often = Counter(name for names in large for name in names)
    shares: dict[str, tuple[float, int]] = {}
    for name in (name for name, times in often.items() if times >= WORTHWHILE):
        frequencies = np.bincount(chunk[name][:: max(1, len(chunk) // _LOOKED_AT)])
        shares[name] = (frequencies.max() / frequencies.sum(), int(frequencies.argmax()))
    usual: dict[str, int] = {}
    for name, (share, code) in sorted(shares.items(), key=lambda item: -item[1][0]):
        has = [name in names for names in large]
        if share >= USUAL and sum(has) >= WORTHWHILE:
            usual[name] = code
            large = [names for names, there in zip(large, has, strict=True) if not there]
    return usual
