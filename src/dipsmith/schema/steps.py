"""Steps: the rows of a panel, each beside the row of the same unit in the period before.

A panel's rows belong to units that go through periods (``unit: {column: person, max_rows: 24, order: year}``). Its steps
are a table with one line for every row that counts: the row itself, what the unit was in the period before (every column
that may change, with the level `ABSENT`), how it came (`ARRIVAL`: first, again after a gap, or it was here before) and
whether it goes on (`NEXT`). Columns with `fixed: true` do not change and stand there once.

So whatever measures tables of rows can measure transitions, entries and exits as well, and a unit has no more steps
than rows: the sensitivity of every table is that of rows (``docs/proofs/panel.md``).

A unit's *entry* is one line: its first row, the period of its last one, and whether it was away in between. One line moves
one count, however long the career: who comes, how long they stay, and all columns that are fixed for life are known far
better from entries than from steps.

Whether a unit is *there* in the periods after its first one and up to its last one is one line for each of these: it is away,
there again, or was here before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.domain import Categories
from dipsmith.schema.rules import Rule

if TYPE_CHECKING:
    from dipsmith.schema.codes import Codes
    from dipsmith.schema.schema import Schema

ARRIVAL: Final = "(arrival)"
FIRST, AGAIN, HERE = range(3)
NEXT: Final = "(next)"
STAYS, LEAVES = range(2)
ABSENT: Final = "(absent)"
PRESENCE: Final = "(presence)"
AWAY = 0
"""Beside AGAIN and HERE: a period between a unit's first and last one, without a row."""

END: Final = "(last period)"
GAPS: Final = "(gaps)"
WHOLE, BROKEN = range(2)

MOST_PERIODS: Final = 1_000
MOST_BANDS: Final = 48
"""Where there are more periods, the last one is told in so many bands of neighbouring periods, or fewer."""


def before(name: str) -> str:
    """What the column of a step is called that has the value in the period before.

    >>> before("pay")
    'pay (before)'
    """
    return f"{name} (before)"


def entry_name(name: str) -> str:
    """What the column of an entry is called: the value in a unit's first row.

    >>> entry_name("pay")
    'pay (first)'
    """
    return f"{name} (first)"


def presence_name(name: str) -> str:
    """What the column of a unit's presence is called: a period after its first one and up to its last one.

    >>> presence_name("year")
    'year (between)'
    """
    return f"{name} (between)"


def fixed_columns(schema: Schema) -> tuple[str, ...]:
    """The columns that do not change in time."""
    return tuple(a.name for a in schema.attributes if a.fixed and a.name != schema.unit.order)


def changing_columns(schema: Schema) -> tuple[str, ...]:
    """The columns that may change from one period to the next; the period itself is not among them."""
    return tuple(a.name for a in schema.attributes if not a.fixed and a.name != schema.unit.order)


def step_schema(schema: Schema) -> Schema:
    """The schema of a panel's steps."""
    attributes = [
        *schema.attributes,
        Attribute(ARRIVAL, "string", Categories.of(["first", "again", "here before"], other="first")),
        Attribute(NEXT, "string", Categories.of(["stays", "leaves"], other="leaves")),
    ]
    order, last = str(schema.unit.order), schema[str(schema.unit.order)].size - 1
    rules = [
        *schema.rules,
        Rule(((order, (0,)), (ARRIVAL, (AGAIN, HERE))), "in the first period everybody is new"),
        Rule(((order, (last,)), (NEXT, (STAYS,))), "in the last period everybody leaves"),
    ]
    for name in changing_columns(schema):
        column = schema[name]
        labels = [f"{i}: {label}" for i, label in enumerate(column.labels)]
        domain = Categories.of([*labels, ABSENT], other=ABSENT, ordered=column.domain.ordered)
        attributes.append(Attribute(before(name), "string", domain))
        codes = tuple(range(column.size))
        rules += [
            Rule(((ARRIVAL, (HERE,)), (before(name), (column.size,))), "who was here before has a value before"),
            Rule(((ARRIVAL, (FIRST, AGAIN)), (before(name), codes)), "who was absent before has none"),
        ]
    most = min(schema.unit.max_rows, schema[str(schema.unit.order)].size)  # one step in a period
    unit = replace(schema.unit, max_rows=most, order=None)
    return replace(schema, attributes=tuple(attributes), unit=unit, rules=tuple(rules), analyses=(), known_rows=None)


def steps_of(codes: Codes, units: NDArray[np.integer], schema: Schema) -> dict[str, NDArray[np.integer]]:
    """The columns of the steps of rows that are sorted by unit and period, at most one row of a unit in a period."""
    period = codes[str(schema.unit.order)].astype(np.int64)
    same = np.append(False, units[1:] == units[:-1]) if len(units) else np.zeros(0, dtype=bool)
    here = same.copy()
    here[1:] &= period[1:] == period[:-1] + 1
    columns: dict[str, NDArray[np.integer]] = dict(codes.columns)
    columns[ARRIVAL] = np.where(here, HERE, np.where(same, AGAIN, FIRST))
    columns[NEXT] = np.where(np.append(here[1:], False)[: len(here)], STAYS, LEAVES)
    for name in changing_columns(schema):
        earlier = np.roll(codes[name].astype(np.int64), 1)
        columns[before(name)] = np.where(here, earlier, schema[name].size)
    return columns


def band_width(schema: Schema) -> int:
    """How many neighbouring periods make a band: 1 unless there are very many periods."""
    return -(-schema[str(schema.unit.order)].size // MOST_BANDS)


def entry_schema(schema: Schema) -> Schema:
    """The schema of a panel's entries, one line for each unit.

    Its columns have names of their own: counts of first rows are no counts of rows.
    """
    order, width = str(schema.unit.order), band_width(schema)
    labels = schema[order].labels
    bands = tuple(range(-(-len(labels) // width)))
    names = [f"{i}: {labels[i * width]}" for i in bands]
    inside = [tuple(range(i * width, min((i + 1) * width, len(labels)))) for i in bands]
    begin = entry_name(order)
    rules = [Rule(tuple((entry_name(n), codes) for n, codes in rule.never), rule.text) for rule in schema.rules]
    rules += [Rule(((begin, inside[i]), (END, bands[:i])), "nobody leaves before entering") for i in bands[1:]]
    if width == 1:
        rules += [
            Rule(((begin, (i,)), (END, bands[i : i + 2]), (GAPS, (BROKEN,))), "a gap lies between") for i in bands
        ]
    attributes = (
        *(replace(a, name=entry_name(a.name)) for a in schema.attributes),
        Attribute(END, "string", Categories.of(names, other=names[0], ordered=True)),
        Attribute(GAPS, "string", Categories.of(["none", "some"], other="none")),
    )
    unit = replace(schema.unit, max_rows=1, order=None)
    return replace(schema, attributes=attributes, unit=unit, rules=tuple(rules), analyses=(), known_rows=None)


def entries_of(steps: Codes, schema: Schema) -> dict[str, NDArray[np.integer]]:
    """The columns of the entries of steps that are sorted by unit and period."""
    period, starts, ends = _lives(steps, schema)
    broken = period[ends] - period[starts] > ends - starts
    columns: dict[str, NDArray[np.integer]] = {entry_name(n): steps[n][starts] for n in schema.names}
    return columns | {END: period[ends] // band_width(schema), GAPS: np.where(broken, BROKEN, WHOLE)}


def _lives(steps: Codes, schema: Schema) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The period of every step; and the first and the last step of each unit."""
    period = steps[str(schema.unit.order)].astype(np.int64)
    starts = np.flatnonzero(steps[ARRIVAL] == FIRST)
    return period, starts, np.append(starts[1:], len(period)) - 1 if len(starts) else starts


def presence_schema(schema: Schema, most: int) -> Schema:
    """The schema of where units are after their first period, at most so many lines of each.

    Its column of periods has a name of its own: lines are no rows.
    """
    period = schema[str(schema.unit.order)]
    presence = Attribute(PRESENCE, "string", Categories.of(["away", "again", "here before"], other="away"))
    unit = replace(schema.unit, max_rows=max(1, min(most, period.size - 1)), order=None)
    attributes = (replace(period, name=presence_name(period.name)), presence)
    return replace(schema, attributes=attributes, unit=unit, rules=(), analyses=(), known_rows=None)


def presence_of(
    steps: Codes, schema: Schema
) -> tuple[NDArray[np.bool_], NDArray[np.int64], dict[str, NDArray[np.integer]]]:
    """Where units are after their first period, of steps that are sorted by unit and period.

    Which lines are the first of a unit, the step with which each line's unit begins, and the columns.
    """
    period, starts, ends = _lives(steps, schema)
    lengths = period[ends] - period[starts]
    first = np.cumsum(lengths) - lengths
    begins = np.repeat(starts, lengths)
    periods = np.arange(len(begins)) - np.repeat(first, lengths) + period[begins] + 1
    presence = np.full(len(begins), AWAY)
    later = np.flatnonzero(steps[ARRIVAL] != FIRST)
    unit = np.cumsum(steps[ARRIVAL] == FIRST)[later] - 1
    presence[first[unit] + period[later] - period[starts[unit]] - 1] = steps[ARRIVAL][later]
    opens = np.zeros(len(begins), dtype=bool)
    opens[first[lengths > 0]] = True
    return opens, begins, {presence_name(str(schema.unit.order)): periods, PRESENCE: presence}


def check_order(schema: Schema) -> None:
    """Refuse an order that is no column of periods, or names of columns that steps need."""
    name = str(schema.unit.order)
    if name not in schema:
        raise SchemaError(f"unit.order '{name}' must be one of the columns in fields; add it")
    if not schema[name].domain.ordered or schema[name].domain.missing:
        raise SchemaError(
            f"column '{name}' is unit.order: it needs periods in order and none missing; give it minimum and maximum, or "
            "an enum with ordered: true, and leave missing out"
        )
    if schema[name].size > MOST_PERIODS:
        raise SchemaError(
            f"column '{name}' is unit.order and has {schema[name].size:,} periods, at most {MOST_PERIODS}"
        )
    if schema.neighbours == "label":
        raise SchemaError(
            "unit.order makes a panel of whole rows, under add-remove or replace; under label leave it out"
        )
    own = {
        ARRIVAL,
        NEXT,
        END,
        GAPS,
        PRESENCE,
        presence_name(name),
        *map(entry_name, schema.names),
        *map(before, changing_columns(schema)),
    }
    taken = own & set(schema.names)
    if taken:
        raise SchemaError(f"column '{min(taken)}' has a name that steps of a panel need; rename it")
