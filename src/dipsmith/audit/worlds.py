"""Two worlds that differ in one unit, made so that every answer tells the most: three or four columns, one odd row.

The row that differs moves every table of counts by as much as the relation allows, and lies in a cell of the full table
that is empty otherwise, so that nothing hides it. It agrees with the others about how two columns go together and
contradicts them about the third, so that it does not move the scores of all candidates alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Ints
from dipsmith.counting.count import MemoryRows, Rows
from dipsmith.counting.values import ValueReading, Values
from dipsmith.errors import UsageError
from dipsmith.schema import Attribute, Categories, Cells, Codes, Schema, Unit

OTHERS: Final = 60
"""Rows that both worlds share."""

TARGETS: Final = ("c",)


def worst_schema(relation: str, targets: Sequence[str] = TARGETS) -> Schema:
    """Two public columns and one or more private ones, each with two values."""
    return Schema(
        "worlds",
        tuple(
            Attribute(name, "string", Categories.of("01", other="0"), "private" if name in targets else "public")
            for name in ("a", "b", *targets)
        ),
        Unit(),
        relation,  # type: ignore[arg-type]  # refused by the schema if it is none
    )


def worst_worlds(relation: str, targets: Sequence[str] = TARGETS) -> tuple[Codes, Codes]:
    """The table without, or with another, odd row; and the table with it.

    Under `label` all labels of the odd row differ; what is asked of one label after another is then moved each time.

    >>> [len(world) for world in worst_worlds("add-remove")]
    [60, 61]
    >>> [dict(zip("abcd", row)) for row in zip(*(worst_worlds("label", ("c", "d"))[1][n].tolist()[-1:] for n in "abcd"))]
    [{'a': 1, 'b': 1, 'c': 1, 'd': 1}]
    """
    if relation != "label" and tuple(targets) != TARGETS:
        raise UsageError("several labels are attacked under neighbours 'label' only")
    schema = worst_schema(relation, targets)
    none, all_ = [0] * len(targets), [1] * len(targets)
    rows = {"add-remove": ([], [1, 1, 0]), "replace": ([0, 0, 0], [1, 1, 1]), "label": ([1, 1, *none], [1, 1, *all_])}
    other = {"add-remove": [1, 1, 1], "replace": [1, 1, 0], "label": [0, 0, *none]}[relation]
    others = [[0] * len(schema.names), other] * (OTHERS // 2)
    first, second = (_with(schema, others, row) for row in rows[relation])
    return first, second


def _with(schema: Schema, others: list[list[int]], row: Sequence[int]) -> Codes:
    table = np.array([*others, row] if row else others).T
    return Codes.of(schema, dict(zip(schema.names, table, strict=True)))


@dataclass(eq=False)
class TwinRows:
    """The rows of both worlds; the curator sees one of them, and the attacker knows both tables."""

    worlds: tuple[Rows, Rows]
    active: int
    counts_of_both: dict[str, tuple[Ints, Ints]] = field(default_factory=dict)
    blocks: dict[tuple[str, int], TwinRows] = field(default_factory=dict)

    @classmethod
    def of(cls, worlds: tuple[Codes, Codes]) -> TwinRows:
        """Both tables; `seen_as` chooses which of them a run sees."""
        return cls((MemoryRows(worlds[0]), MemoryRows(worlds[1])), 0)

    def seen_as(self, world: int) -> TwinRows:
        """The same rows as they are in one of the worlds."""
        return TwinRows(self.worlds, world, self.counts_of_both, self.blocks)

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.worlds[0].schema

    def both(self, cells: Cells) -> tuple[Ints, Ints]:
        """The counts in both worlds; a partition's name stands for it, so that it is counted once for all trials."""
        if cells.key not in self.counts_of_both:
            first, second = (rows.count([cells])[0] for rows in self.worlds)
            self.counts_of_both[cells.key] = (first, second)
        return self.counts_of_both[cells.key]

    def count(self, cells: Sequence[Cells]) -> list[Ints]:
        """The counts in this world."""
        return [self.both(c)[self.active] for c in cells]

    def __getattr__(self, verb: str) -> Any:
        """All else is asked of this world alone."""
        return getattr(self.worlds[self.active], verb)

    def values(self, reading: ValueReading) -> Iterator[tuple[Values, pa.Array | None]]:
        """The values of the rows in this world."""
        return self.worlds[self.active].values(reading)

    def with_public_columns(self, schema: Schema, columns: Mapping[str, NDArray[np.integer]]) -> Rows:
        """Both worlds with more public columns."""
        one, other = (rows.with_public_columns(schema, columns) for rows in self.worlds)
        return TwinRows((one, other), self.active)

    def within(self, attribute: str, code: int) -> Rows:
        """The block of both worlds."""
        key = (attribute, code)
        if key not in self.blocks:
            first, second = (rows.within(attribute, code) for rows in self.worlds)
            self.blocks[key] = TwinRows((first, second), 0)
        return self.blocks[key].seen_as(self.active)
