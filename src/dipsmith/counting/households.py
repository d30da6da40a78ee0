"""Households and their members as countable rows: one line for every household (`schema.households`).

Both tables are brought together by the household's key, which needs the codes of all rows at once: about two bytes a
value. They are read when the first table is counted, not before.

What counts is decided as for rows (`counting.count`), with the household as the unit of both tables: one row of a
household, at most `max_members` of its members, chosen by the keyed hash, none that breaks a rule. A member whose household
is not there counts nowhere, and so does a household that breaks a rule, with its members. Which of the members a
line tells beside the head is chosen by the keyed hash too. All of this is a function of the household's own rows and
the key, and none of it depends on the order of the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.counting.count import BatchRows, DerivedRows, Rows, linked_rows
from dipsmith.counting.tally import fuse
from dipsmith.counting.values import ValueReading, Values
from dipsmith.schema import Codes, Schema
from dipsmith.schema.households import EARLIER, NONE, ONE, SIZE, line_schema, members_of, of_earlier, of_head, of_member
from dipsmith.sources import Progress, Source


@dataclass(frozen=True, eq=False)
class HouseholdRoster:
    """Households and their members in order: those of one household together, from `starts` on, `sizes` of them."""

    households: Codes
    members: Codes
    sizes: Ints

    @property
    def starts(self) -> Ints:
        """Where the members of each household begin."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def owners(self) -> Ints:
        """The household of every member."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def places(self) -> Ints:
        """The place of every member in its household; 0 is the head's."""
        return np.arange(len(self.members)) - np.repeat(self.starts, self.sizes)

    def head_pairs(self) -> tuple[Ints, Ints]:
        """Every member beside the head, and its head: places of heads, places of members."""
        others = np.flatnonzero(self.places > 0)
        return self.starts[self.owners[others]], others

    def next_pairs(self) -> tuple[Ints, Ints]:
        """Neighbours in the list of a household, without its head: places of the earlier and of the later one."""
        later = np.flatnonzero(self.places > 1)
        return later - 1, later


def arrange(households: Codes, members: Codes, owners: Ints, schema: Schema) -> HouseholdRoster:
    """Put lawful members beside their households, whose places `owners` gives, and in order."""
    described = members_of(schema)
    both = {**{n: households[n][owners] for n in schema.names}, **members.columns}
    sizes = {a.name: a.size for a in (*schema.attributes, *described.schema.attributes)}
    fine = np.ones(len(members), dtype=bool)
    for rule in described.rules:
        fine &= ~rule.broken_by(both, sizes)
    members, owners = members.take(fine), owners[fine]
    first = [] if described.order is None else [members[described.order]]
    by = np.lexsort([*reversed(fuse(members, members.schema.names)), *first, owners])
    members, owners = members.take(by), owners[by]
    if described.order is not None:  # the first level is the head's alone
        follows = np.append(False, owners[1:] == owners[:-1])[: len(owners)]
        kept = ~(follows & (members[described.order] == 0))
        members, owners = members.take(kept), owners[kept]
    return HouseholdRoster(households, members, np.bincount(owners, minlength=len(households)))


def lines_of(found: HouseholdRoster, chosen: Ints, schema: Schema) -> Codes:
    """The lines of households; `chosen` is the place of the member that a line tells, where there are two or more."""
    people, sizes, starts = members_of(schema).schema, found.sizes, found.starts
    columns: dict[str, NDArray[np.integer]] = dict(found.households.columns)
    columns[SIZE] = sizes
    columns[EARLIER] = np.where((sizes > 2) & (chosen > 1), ONE, NONE)
    for copy, there, places in (
        (of_head, sizes > 0, starts),
        (of_member, sizes > 1, starts + chosen),
        (of_earlier, columns[EARLIER] == ONE, starts + chosen - 1),
    ):
        for column in people.attributes:
            codes = np.full(len(sizes), column.size, dtype=np.int64)
            codes[there] = found.members[column.name][places[there]]
            columns[copy(column.name)] = codes
    return Codes.of(line_schema(schema), columns, len(sizes))


def choose_places(names: Sequence[bytes], sizes: Ints, key: bytes) -> Ints:
    """The place of one member beside the head in each household, by the keyed hash; 1 where there is no choice.

    >>> choose_places([b"a", b"b"], np.array([1, 2]), bytes(32)).tolist()
    [1, 1]
    """
    places = np.ones(len(sizes), dtype=np.int64)
    for i in np.flatnonzero(sizes > 2).tolist():
        digest = hashlib.sha256(b"|".join((key.hex().encode(), names[i], b"member"))).digest()
        places[i] += int.from_bytes(digest[:8], "big") % (int(sizes[i]) - 1)
    return places


class HouseholdRows(BatchRows):
    """The rows of the table of households, counted batch by batch; its steps are the lines of households.

    `key` is the secret by which members are chosen; both tables are truncated by it.

    Privacy
    -------
    Everything here is exact and private, as in `BatchRows`.
    """

    def __init__(
        self, households: Source, members: Source, schema: Schema, key: bytes, progress: Progress | None = None
    ) -> None:
        super().__init__(households, schema, key, progress=progress)
        self._people = BatchRows(members, members_of(schema).schema, key)
        self._key = key

    def steps(self) -> Rows:
        """The lines of households; no row is read yet."""
        return DerivedRows(line_schema(self.schema), self._lines, self.total)

    def values(self, reading: ValueReading) -> Iterator[tuple[Values, pa.Array | None]]:
        """The values of households; or of members, where it is their columns that are read, orphans' too."""
        of_members = reading.schema.name == self._people.schema.name
        yield from self._people.values(reading) if of_members else super().values(reading)

    def roster(self) -> tuple[HouseholdRoster, pa.Array]:
        """All households that count, with their members, and the text of each household's key."""
        (households, names), (members, theirs) = linked_rows(self), linked_rows(self._people)
        names, theirs = names.combine_chunks(), theirs.combine_chunks()
        at = pc.index_in(theirs, value_set=names)
        known = at.is_valid().to_numpy(zero_copy_only=False)
        owners = at.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        return arrange(households, members.take(known), owners, self.schema), names

    def _lines(self) -> Codes:
        found, names = self.roster()
        # bytes: a key that is not valid UTF-8 must not raise
        spelled = names.cast(pa.large_binary()).to_pylist()
        return lines_of(found, choose_places(spelled, found.sizes, self._key), self.schema)
