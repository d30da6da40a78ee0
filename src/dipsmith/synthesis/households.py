"""Households in a release: two tables that belong together, what the card says of them, and what is checked of them.

Everything here is drawn from a noisy model; keys are new numbers from 1 on, in a random order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dipsmith.codec.encode import Encoder
from dipsmith.counting.households import HouseholdRoster, arrange
from dipsmith.errors import DamageError
from dipsmith.privacy.randomness import named_seed
from dipsmith.schema import Codes, Schema
from dipsmith.schema.households import members_of
from dipsmith.synthesis.fitted import drawn_table
from dipsmith.synthesis.writing import damage


def drawn_tables(codes: Codes, seed: int | None) -> dict[str, pa.Table]:
    """Drawn codes as tables by their names: one, or households and their members."""
    made = {codes.schema.name: drawn_table(codes, seed)}
    if codes.members is not None:
        # Randomness of their own: values within bins of a household and of a member have nothing to do with each other.
        own = None if seed is None else named_seed(seed, ("members",))
        made[codes.members.schema.name] = drawn_table(codes.members, own)
    return made


def household_notes(schema: Schema) -> tuple[str, ...]:
    """What the card says of households and their members."""
    if schema.members is None:
        return ()
    people = schema.members.schema
    whom: tuple[str, ...] = ()
    if schema.unit.protects == "person":
        joins = "is there or not" if schema.neighbours == "add-remove" else "is another one in the same household"
        whom = (
            f"Protected is one person, who {joins}: a row of '{people.name}', and all that this person changes in the row of "
            f"its household, whether '{schema.name}' has such a row included. Who moves leaves one household and joins another.",
        )
    return (
        *whom,
        f"'{people.name}' are the members of '{schema.name}', at most {people.unit.max_rows} in each; of an authentic "
        "household with more, so many were counted.",
        "What a member is depends on the household, its size, its head and the member listed before: how three or more "
        "members go together is not kept beyond that.",
    )


def roster_of(households: pa.Table, members: pa.Table, schema: Schema) -> HouseholdRoster:
    """The tables of a release as codes, members beside their households."""
    people, key = members_of(schema).schema, str(schema.unit.column)
    codes, theirs = Encoder(schema).encode(households)[0], Encoder(people).encode(members)[0]
    by = np.argsort(_numbers(households, key), kind="stable")
    return arrange(codes.take(by), theirs, _numbers(members, key) - 1, schema)


def check_households(households: pa.Table, members: pa.Table, schema: Schema) -> None:
    """Refuse tables that do not belong together: keys, caps, the order of members, and rules over both tables."""
    people, key = members_of(schema).schema, str(schema.unit.column)
    keys, owners = _numbers(households, key), _numbers(members, key)
    if not np.array_equal(np.sort(keys), np.arange(1, len(keys) + 1)):
        raise damage(f"column '{key}' of '{schema.name}' is not each number from 1 on once")
    if len(owners) and not (owners.min() >= 1 and owners.max() <= len(keys)):
        raise damage(f"'{people.name}' has a member whose household ('{key}') is not there")
    if np.bincount(owners, minlength=1).max() > people.unit.max_rows:
        raise damage(f"'{people.name}' has more than {people.unit.max_rows} members of one household")
    if len(roster_of(households, members, schema).members) != len(members):
        raise damage(f"'{people.name}' has members that break a rule, or two heads of one household")


def _numbers(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    column = table.column(name)
    if not len(column):  # a CSV without rows does not say what they would be
        return np.zeros(0, dtype=np.int64)
    if column.null_count or not pa.types.is_integer(column.type):
        raise DamageError(f"column '{name}' is not a whole number in every row; take the release from its source again")
    return np.asarray(column.to_numpy(), dtype=np.int64)
