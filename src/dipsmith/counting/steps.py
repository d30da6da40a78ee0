"""The steps of a panel as countable rows: every row that counts beside the row of its unit in the period before.

Rows are brought together by unit, which needs the codes of all of them at once: about two bytes a value. They are read
when the first table is counted, not before. The `steps` of steps are entries, one line for every unit;
`with_fewer_steps` gives some steps of every unit, which still know the period before, or some of the periods in which
the unit might be there.

What counts is decided as for rows (`counting.count`): at most `max_rows` rows of a unit, none that breaks a rule. Of
several rows of a unit in one period the first in the order of their codes counts. All of this is a function of the
unit's own rows and the key, and none of it depends on the order of the file.

Rows can also be seen with larger places: every code of a column of places becomes the larger place around it. Which
rows count, and which break a rule, is decided before that, as for the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.counting.count import BatchRows, DerivedRows, Rows, linked_rows
from dipsmith.counting.memory import CountMemory, FixedCodes, View, rows_in
from dipsmith.counting.pushed import Grouping, Keys
from dipsmith.counting.tally import fuse, merged_keys, unfuse
from dipsmith.counting.units import hash_units
from dipsmith.errors import UnsupportedError
from dipsmith.schema import Codes, Schema
from dipsmith.schema.places import coarse_schema, coarsen
from dipsmith.schema.steps import (
    ARRIVAL,
    FIRST,
    entries_of,
    entry_schema,
    presence_name,
    presence_of,
    presence_schema,
    step_schema,
    steps_of,
)

Hashes = NDArray[np.uint64]


class StepRows(DerivedRows):
    """The steps of a panel."""

    def __init__(self, panel: Schema, read: Callable[[], tuple[Codes, Hashes]], total: Callable[[], int]) -> None:
        steps = step_schema(panel)
        # In one period a unit has one step: that makes the number of its rows no more public than it was.
        super().__init__(steps, self._arrange, total if panel.unit.max_rows == 1 else lambda: None)
        self._panel, self._read = panel, read

    def _arrange(self) -> Codes:
        steps, self._hashes = _steps(*self._read(), self._panel, self.schema)
        return steps

    def with_fewer_steps(self, most: int, away: bool = False) -> Rows:
        """At most so many steps of each unit; how many these are together is private under every relation.

        With `away`: of the periods after a unit's first one up to its last one, whether it is there or not.
        """
        if away:
            presence = presence_schema(self._panel, most)
            return DerivedRows(presence, lambda: self._presence(presence), lambda: None)
        if most >= self.schema.unit.max_rows:
            return self
        schema = replace(self.schema, unit=replace(self.schema.unit, max_rows=most))
        return DerivedRows(schema, lambda: replace(self._some(most), schema=schema), lambda: None)

    def _some(self, most: int) -> Codes:
        steps = self.codes
        return steps.take(drawn_steps(steps[ARRIVAL] == FIRST, self._hashes, steps[str(self._panel.unit.order)], most))

    def _presence(self, schema: Schema) -> Codes:
        opens, begins, columns = presence_of(self.codes, self._panel)
        periods = columns[presence_name(str(self._panel.unit.order))]
        drawn = drawn_steps(opens, self._hashes[begins], periods, schema.unit.max_rows)
        return Codes.of(schema, columns, len(opens)).take(drawn)

    def steps(self) -> Rows:
        """The entries of the units, one line each; how many there are is private under every relation."""
        entries, panel = entry_schema(self._panel), self._panel
        return DerivedRows(entries, lambda: Codes.of(entries, entries_of(self.codes, panel)), lambda: None)


def step_rows(schema: Schema, read: Callable[[], tuple[Codes, Hashes]], total: Callable[[], int]) -> StepRows:
    """The steps of a panel; `read` gives its rows, with their units and hashes of these, `total` their number, lawful or not."""
    if schema.members is not None:
        raise UnsupportedError("households are made from two tables, and the table of their members is not here")
    if schema.unit.order is None:
        raise UnsupportedError(
            "this table is no panel: its schema does not say in which order the rows of a unit come; write "
            "unit: {column: person, max_rows: 24, order: year}"
        )
    return StepRows(schema, read, total)


def numbered_rows(rows: BatchRows, key: bytes) -> tuple[Codes, Hashes]:
    """The rows that count, whose units are numbered; and the keyed hash of each row's unit."""
    codes, texts = linked_rows(rows)
    chunks = texts.dictionary_encode().unify_dictionaries().chunks
    units = [chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64) for chunk in chunks]
    named = pa.concat_arrays([chunk.dictionary for chunk in chunks[:1]] or [pa.array([], pa.large_string())])
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *units])
    return replace(codes, units=numbers), hash_units(named, key)[numbers]


def given_rows(rows: Codes) -> tuple[Codes, Hashes]:
    """Codes whose units have numbers already, which stand for their names; without units every row is one."""
    units = np.arange(len(rows)) if rows.units is None else rows.units
    return replace(rows, units=units), units.astype(np.uint64)


def drawn_steps(starts: Bools, hashes: Hashes, periods: NDArray[np.integer], most: int) -> Bools:
    """Which steps are drawn: of each unit at most so many, those that its hash and the period put first.

    `starts` marks the first step of each unit. Every draw of as many of a unit's periods is about as likely as any other.

    >>> starts, own = np.array([True, False, False, True]), np.array([7, 7, 7, 8], dtype=np.uint64)
    >>> drawn_steps(starts, own, np.array([0, 1, 2, 1]), most=2).sum()
    np.int64(3)
    """
    x = hashes ^ ((periods.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    # the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    unit = np.cumsum(starts)
    by = np.lexsort([x ^ (x >> np.uint64(31)), unit])
    first = np.flatnonzero(starts)
    rank = np.empty(len(starts), dtype=np.int64)
    rank[by] = np.arange(len(starts)) - first[unit[by] - 1]
    return np.asarray(rank < most)


def _steps(rows: Codes, hashes: Hashes, panel: Schema, schema: Schema) -> tuple[Codes, Hashes]:
    """The steps of rows, sorted by unit and period, one row of a unit in each period; and the hash of each step's unit."""
    order = str(panel.unit.order)
    assert rows.units is not None
    units = rows.units
    others = [name for name in panel.names if name != order]
    by = np.lexsort([*reversed(fuse(rows, others)), rows[order], units])
    rows, units = rows.take(by), units[by]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (units[1:] != units[:-1]) | (rows[order][1:] != rows[order][:-1])
    rows, units = rows.take(first), units[first]
    columns: dict[str, NDArray[np.integer]] = steps_of(rows, units, panel)
    return Codes.of(schema, columns, len(rows)), hashes[by][first]


class CoarseRows(BatchRows):
    """The rows of a source with larger places; they count by the verbs of `BatchRows`."""

    def __init__(self, rows: BatchRows, level: int) -> None:
        self.rows, self.level = rows, level
        self.schema, self._memory, self._fixed_codes = coarse_schema(rows.schema, level), CountMemory(), ()
        self._own = dict(zip(self.schema.names, rows.schema.names, strict=True))

    def _blocks(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield the rows of a view that have the fixed codes, with larger places."""
        wanted = [self._own[name] for name in (*names, *(name for name, _ in self._fixed_codes))]
        for codes in self.rows._blocks(wanted, view):
            coarse = Codes.of(self.schema, coarsen(codes.columns, self.rows.schema, self.level), len(codes))
            yield coarse.take(rows_in(coarse, "held", self._fixed_codes)) if self._fixed_codes else coarse

    def total(self) -> int:
        """The number of rows held, lawful or not."""
        return sum(len(codes) for codes in self._blocks([], "held")) if self._fixed_codes else self.rows.total()

    def within(self, attribute: str, code: int) -> Rows:
        """The block of rows with this code."""
        self.schema[attribute]
        block = copy(self)
        block._fixed_codes = (*self._fixed_codes, (attribute, code))
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

    def count_groups(
        self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View
    ) -> list[tuple[Keys, Ints]]:
        """For each set of attributes the combinations that occur and how often, in one scan."""
        own, schema = self.grouping.schema, self.schema
        back = dict(zip(schema.names, own.names, strict=True))
        needed = [tuple(dict.fromkeys([*names, *(name for name, _ in fixed_codes)])) for names in sets]
        behind = [tuple(back[n] for n in names) for names in needed]
        answers = []
        for names, real, (keys, counts) in zip(sets, behind, self.grouping.count_groups(behind, (), view), strict=True):
            codes = unfuse(keys, len(counts), real, own)
            coarse = Codes.of(schema, coarsen(codes.columns, own, self.level), len(counts))
            kept = rows_in(coarse, "held", fixed_codes)
            answers.append(merged_keys(fuse(coarse.take(kept), names), counts[kept]))
        return answers
