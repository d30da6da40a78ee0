"""Rows seen with larger places: every code of a column of places is told as the place that holds it.

Which rows count, and which break a rule, is decided as for the rows themselves; only afterwards places are coarsened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from dipsmith.arrays import Ints
from dipsmith.counting.count import BatchRows, Rows
from dipsmith.counting.memory import CountMemory, Fixed, View, rows_in
from dipsmith.counting.pushed import Grouping, Keys
from dipsmith.counting.tally import fuse, merged_keys, unfuse
from dipsmith.schema import Codes, Schema
from dipsmith.schema.places import coarse_schema, coarsen


class CoarseRows(BatchRows):
    """The rows of a source with larger places; they count by the verbs of `BatchRows`."""

    def __init__(self, rows: BatchRows, level: int) -> None:
        self.rows, self.level = rows, level
        self.schema, self._memory, self._fixed = coarse_schema(rows.schema, level), CountMemory(), ()
        self._own = dict(zip(self.schema.names, rows.schema.names, strict=True))

    def _passing(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield the rows of a view that have the fixed codes, with larger places."""
        wanted = [self._own[name] for name in (*names, *(name for name, _ in self._fixed))]
        for codes in self.rows._passing(wanted, view):
            coarse = Codes.of(self.schema, coarsen(codes.columns, self.rows.schema, self.level), len(codes))
            yield coarse.take(rows_in(coarse, "held", self._fixed)) if self._fixed else coarse

    def total(self) -> int:
        """The number of rows held, lawful or not."""
        return sum(len(codes) for codes in self._passing([], "held")) if self._fixed else self.rows.total()

    def within(self, attribute: str, code: int) -> Rows:
        """The block of rows with this code."""
        self.schema[attribute]
        block = copy(self)
        block._fixed = (*self._fixed, (attribute, code))
        return block


@dataclass(frozen=True, eq=False)
class CoarseGrouping:
    """Whoever groups rows, seen with larger places: what it gives is added up by them."""

    grouping: Grouping
    level: int

    @cached_property
    def schema(self) -> Schema:
        """The schema with larger places."""
        return coarse_schema(self.grouping.schema, self.level)

    def grouped(self, sets: Sequence[tuple[str, ...]], fixed: Fixed, view: View) -> list[tuple[Keys, Ints]]:
        """For each set of attributes the combinations that occur and how often, in one scan."""
        own, schema = self.grouping.schema, self.schema
        back = dict(zip(schema.names, own.names, strict=True))
        needed = [tuple(dict.fromkeys([*names, *(name for name, _ in fixed)])) for names in sets]
        behind = [tuple(back[n] for n in names) for names in needed]
        answers = []
        for names, real, (keys, counts) in zip(sets, behind, self.grouping.grouped(behind, (), view), strict=True):
            codes = unfuse(keys, len(counts), real, own)
            coarse = Codes.of(schema, coarsen(codes.columns, own, self.level), len(counts))
            kept = rows_in(coarse, "held", fixed)
            answers.append(merged_keys(fuse(coarse.take(kept), names), counts[kept]))
        return answers
