"""Rows that are counted where they are: an engine groups, and only aggregated counts come back.

`PushedRows` fulfils `Rows` with one question: for some sets of attributes, which combinations of codes
occur and how often? Every verb of the curator is an integer sum over such tables, so every partition of
rows can be counted, also one that no engine knows, such as the leaves of a tree. Sets that are asked for
together are answered by one scan; small ones share a joint table; what was answered before is not asked
again.

Guarantee: the same counts, row for row, as `BatchRows` gives for the same rows and key
(``docs/proofs/counting.md``; `tests/sources/` compares them on every engine).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NoReturn, Protocol

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.codec.encode import Encoder
from dipsmith.counting.count import BatchRows, Rows, View
from dipsmith.counting.memory import JOINT, AnswerMemory, CountMemory
from dipsmith.counting.memory import FixedCodes as FixedCodes
from dipsmith.counting.tally import check_index, check_size, fuse, merged_keys, unfuse, words_of
from dipsmith.errors import UnsupportedError
from dipsmith.schema import Cells, Codes, Rule, Schema
from dipsmith.sources import Progress, Source
from dipsmith.sources.source import companion

STAYS = "these rows are counted by their engine and stay there; export the table to Parquet, or ask what needs no single rows"

Keys = list[Ints]


class Grouping(Protocol):
    """Whoever groups rows: an SQL engine, a cluster."""

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""

    def count_groups(
        self, sets: Sequence[tuple[str, ...]], fixed_codes: FixedCodes, view: View
    ) -> list[tuple[Keys, Ints]]:
        """For each set of attributes the combinations that occur and how often, in one scan.

        A combination is a mixed-radix number over the attributes in the given order, in the words of
        `tally.words_of`. Combinations come in any order, each once.

        Privacy
        -------
        Exact and private. Only these aggregates leave the engine.
        """


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """The combinations of some attributes that occur, and how often."""

    codes: Codes
    counts: Ints

    def cells(self, cells: Cells) -> Ints:
        """How many rows fall in each cell of a partition."""
        found = np.zeros(cells.size, dtype=np.int64)
        np.add.at(found, cells.index(self.codes), self.counts)
        return found


@dataclass(frozen=True, eq=False)
class PushedRows:
    """Rows behind a `Grouping`, or the block of them with given codes.

    Privacy
    -------
    Everything here is exact and private, as in `BatchRows`.
    """

    grouping: Grouping
    fixed_codes: FixedCodes = ()
    read: Callable[[], Rows] | None = field(default=None, repr=False)  # the rows themselves, batch by batch
    _groups: AnswerMemory[GroupCounts] = field(default_factory=AnswerMemory, repr=False)
    _memory: CountMemory = field(default_factory=CountMemory, repr=False)

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.grouping.schema

    def count(self, cells: Sequence[Cells], view: View = "lawful") -> list[Ints]:
        """Count the rows of a view in every cell of every partition: what is not remembered, in one scan."""
        check_size(cells)
        known = self._memory.recall(self.fixed_codes, view, cells)
        asked = [table for table, counts in zip(cells, known, strict=True) if counts is None]
        tables = self._tables([table.attributes for table in asked], view)
        fresh = [grouped.cells(table) for grouped, table in zip(tables, asked, strict=True)]
        return self._memory.complete(self.fixed_codes, view, cells, known, fresh)

    def count_public(self, cells: Sequence[Cells]) -> list[Ints]:
        """Count the rows that break no rule of the public columns."""
        return self.count(cells, "public")

    def count_sparse(self, cells: Cells) -> tuple[Ints, Ints]:
        """Return the occupied cells, sorted, and the number of lawful rows in each."""
        check_index(cells)
        grouped = self._tables([cells.attributes], "lawful")[0]
        keys, counts = merged_keys([cells.index(grouped.codes)], grouped.counts)
        return keys[0].astype(np.int64, copy=False), counts

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, Ints]:
        """Return the distinct combinations of public attributes, sorted, and how often each occurs."""
        grouped = self._tables([tuple(attributes)], "public")[0]
        keys, counts = merged_keys(fuse(grouped.codes, attributes), grouped.counts)
        return unfuse(keys, len(counts), attributes, self.schema), counts

    def total(self) -> int:
        """Return the number of rows held, lawful or not."""
        return int(self._tables([()], "held")[0].counts.sum())

    def _refuse(self, *_: object) -> NoReturn:
        """Refuse what needs single rows, their order or their values: these stay in the engine."""
        raise UnsupportedError(STAYS)

    public_mask = with_public_columns = values = raw = with_fewer_steps = _refuse

    def steps(self) -> Rows:
        """The steps of a panel: rows are brought together by unit here, not in the engine."""
        if self.read is None:
            raise UnsupportedError(STAYS)
        return self.read().steps()

    def with_larger_places(self, level: int) -> Rows:
        """The same rows with larger places, grouped by the engine and then by the larger place."""
        from dipsmith.counting.steps import CoarseGrouping

        return PushedRows(CoarseGrouping(self.grouping, level))

    def within(self, attribute: str, code: int) -> Rows:
        """Return the block of rows with this code."""
        self.schema[attribute]
        return PushedRows(self.grouping, (*self.fixed_codes, (attribute, code)), None, self._groups, self._memory)

    def _tables(self, sets: Sequence[tuple[str, ...]], view: View) -> list[GroupCounts]:
        """For each set a table that has its attributes; one scan for all that are not known yet."""
        known = [self._groups.find(self.fixed_codes, view, names) for names in sets]
        asked = cover([names for names, found in zip(sets, known, strict=True) if found is None], self.schema)
        answers: list[GroupCounts] = []
        if asked:
            for names, (keys, counts) in zip(
                asked, self.grouping.count_groups(asked, self.fixed_codes, view), strict=True
            ):
                answers.append(GroupCounts(unfuse(keys, len(counts), names, self.schema), counts))
                self._groups.keep(self.fixed_codes, view, names, len(counts), answers[-1])
        return [
            next(a for a in answers if set(names) <= set(a.codes.names)) if found is None else found
            for names, found in zip(sets, known, strict=True)
        ]


def rows_of(source: Source, schema: Schema, progress: Progress | None = None, key: bytes | None = None) -> Rows:
    """The rows of a source, counted by the source itself where it can, else batch by batch (`BatchRows`)."""
    grouping = companion(source, "counter")
    if grouping is None:
        return BatchRows(source, schema, key, progress=progress)
    Encoder(schema)  # refuses what the batch path refuses
    source.check(schema.columns)
    return PushedRows(grouping(source, schema, key), read=lambda: BatchRows(source, schema, key, progress=progress))


def cover(sets: Sequence[tuple[str, ...]], schema: Schema, limit: int = JOINT) -> list[tuple[str, ...]]:
    """Few sets of attributes such that each given set lies in one of them.

    A set inside another is answered by it; sets are put together as long as their joint table has at
    most `limit` cells.

    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> s = Schema("t", tuple(Attribute(n, "string", Categories.of("ab")) for n in "xyz"), Unit(), "replace")
    >>> cover([("x",), ("x", "y"), ("z",), ()], s)
    [('x', 'y', 'z')]
    >>> cover([("x",), ("x", "y"), ("z",), ()], s, limit=4)
    [('x', 'y'), ('z',)]
    """
    made: list[set[str]] = []
    for names in sorted({frozenset(s) for s in sets}, key=lambda s: (-schema.size(tuple(s)), sorted(s))):
        if any(names <= whole for whole in made):
            continue
        sizes = [(prod(schema[n].size for n in whole | names), i) for i, whole in enumerate(made)]
        size, at = min(sizes, default=(limit + 1, 0))
        if size <= limit:
            made[at] |= names
        else:
            made.append(set(names))
    return [tuple(n for n in schema.names if n in whole) for whole in made]


def rules_of(schema: Schema, view: View) -> list[Rule]:
    """The rules that a row of a view must not break."""
    public = set(schema.public)
    return [rule for rule in schema.rules if view == "lawful" or (view == "public" and set(rule.attributes) <= public)]


def radix_words(schema: Schema, names: Sequence[str]) -> list[list[tuple[str, int]]]:
    """The words of the mixed-radix key of some attributes: each attribute with what its code is multiplied by."""
    sizes = [schema[n].size for n in names]
    return [[(n, prod(sizes[i + 1 : b])) for i, n in enumerate(names[a:b], start=a)] for a, b in words_of(sizes)]


def runs(codes: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last codes of the runs that some codes form.

    >>> runs([4, 1, 2])
    [(1, 2), (4, 4)]
    """
    found: list[tuple[int, int]] = []
    for code in sorted(codes):
        if found and code == found[-1][1] + 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def deciding_columns(schema: Schema, fixed_codes: FixedCodes, view: View) -> set[str]:
    """The attributes that decide whether a row is counted at all."""
    ruled = {name for rule in rules_of(schema, view) for name in rule.attributes}
    return ruled | {name for name, _ in fixed_codes} | {a.name for a in schema if not a.domain.total}


def by_set(columns: Keys, widths: Sequence[int]) -> list[tuple[Keys, Ints]]:
    """The lines of an answer, apart for each set of attributes: columns tag, words of the key, number of rows."""
    tag, *words, counts = columns
    return [([word[tag == i] for word in words[:width]], counts[tag == i]) for i, width in enumerate(widths)]
