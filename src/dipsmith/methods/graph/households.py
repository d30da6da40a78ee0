"""A model of households: how many members they have, their heads, and the other members one after the other.

Behind it is a graphical model of lines (`schema.households`), one for each household. Households are drawn from it with
their size and their head; then every further member, given the household, its size, the head and the member drawn before.
Members of one household depend on each other through these and nothing else.

Privacy: computed from noisy measurements and public facts; post-processing, free. ``docs/proofs/household.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.estimation.answers import NoisyTable
from dipsmith.methods.graph.model import GraphModel
from dipsmith.methods.graph.planned import carried_sets
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.schema import Codes, Schema
from dipsmith.schema.households import EARLIER, NONE, ONE, SIZE, line_schema, members_of, of_earlier, of_head, of_member

Columns = dict[str, NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class HouseholdModel:
    """Households with their members, drawn from a graphical model of lines."""

    schema: Schema
    lines: GraphModel

    kind: ClassVar[str] = "households"

    @property
    def rows(self) -> int:
        """How many households were measured."""
        return self.lines.rows

    @property
    def measurements(self) -> tuple[NoisyTable, ...]:
        """All noisy tables of lines."""
        return self.lines.measurements

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw `n` households, numbered from 1 on, with their members, who have the number of their household."""
        drawn = self.lines.sample(n, None if seed is None else named_seed(seed, ("households",)))
        random = generator(seed)
        drawn = drawn.take(random.permutation(len(drawn)))  # so that numbers say nothing
        households = replace(drawn.project(self.schema.names), schema=self.schema, units=np.arange(len(drawn)) + 1)
        return replace(households, members=self._members(drawn, random))

    def _members(self, drawn: Codes, random: Generator) -> Codes:
        """The members of drawn households: heads first, then those who come after them, one by one."""
        people = members_of(self.schema).schema
        given = (*self.schema.names, SIZE, *map(of_head, people.names))
        at = np.flatnonzero(drawn[SIZE] > 0)
        last: Columns = {name: drawn[of_head(name)][at] for name in people.names}
        parts = [(at, last)]
        for place in range(1, people.unit.max_rows):
            going = drawn[SIZE][at] > place
            at = at[going]
            known: Columns = {name: drawn[name][at] for name in given}
            known[EARLIER] = np.full(len(at), ONE if place > 1 else NONE)
            for column in people.attributes:
                before = last[column.name][going] if place > 1 else np.full(len(at), column.size)
                known[of_earlier(column.name)] = before
            made, lawful = self.lines.complete(known, len(at), random)
            at = at[lawful]  # a household for which no further member is lawful has fewer
            last = {name: made[of_member(name)][lawful] for name in people.names}
            parts.append((at, last))
        owners = np.concatenate([where for where, _ in parts])
        order = np.argsort(owners, kind="stable")
        columns = {name: np.concatenate([column[name] for _, column in parts])[order] for name in people.names}
        return replace(Codes.of(people, columns, len(owners)), units=owners[order] + 1)

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of columns of households; those of members are kept too, but are no tables of households."""
        inside = (tuple(n for n in clique if n in self.schema) for clique in self.lines.kept_tables())
        return tuple(names for names in inside if names)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state of the model of lines."""
        return self.lines.state()

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model back from its state."""
        return cls(schema, GraphModel.from_state(line_schema(schema), facts, arrays))


def compositions(schema: Schema) -> list[tuple[str, ...]]:
    """The tables of lines that households need: every column of a member with that of the head and of the member before.

    Besides, who comes in which place in a household of which size, where members have an order.
    """
    members = members_of(schema)
    tables: list[tuple[str, ...]] = [
        (copy(name), of_member(name)) for copy in (of_head, of_earlier) for name in members.schema.names
    ]
    listed = [] if members.order is None else [(of_member(members.order), n) for n in (SIZE, EARLIER)]
    return [*tables, *listed]


def covered_columns(schema: Schema, max_cells: int) -> set[str]:
    """The columns of lines that need no table of their own: a member's, and of the one before, which compositions tell."""
    own = {copy(name) for copy in (of_member, of_earlier) for name in members_of(schema).schema.names}
    return own & {n for names in carried_sets(line_schema(schema), compositions(schema), max_cells) for n in names}


def line_pairs(schema: Schema) -> list[tuple[str, ...]]:
    """The pairs of lines that are drawn: not those of two columns of the earlier member, which are always given."""
    past = {EARLIER, *map(of_earlier, members_of(schema).schema.names)}
    return [pair for pair in combinations(line_schema(schema).names, 2) if not set(pair) <= past]
