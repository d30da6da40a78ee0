"""Purchases: tables of sums as they are bought, each once for all designs that need it.

A formula that is fitted to every year by itself needs the same table of each year. A row lies in one year, so that
these tables are bought as one, at the price of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.noisy_sums import NoisySums
from dipsmith.analyses.sum_table import SumTable, whole_numbers
from dipsmith.analyses.sums import Layout
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Attribute, Schema, WeightedSums


@dataclass(frozen=True, eq=False)
class Purchase:
    """A table that is bought, and the tables of designs that it is made of, group after group."""

    table: SumTable
    parts: tuple[SumTable, ...]

    @classmethod
    def of(cls, parts: Sequence[SumTable]) -> Purchase:
        """One table of several, whose rows are disjoint."""
        if len(parts) == 1:
            return cls(parts[0], tuple(parts))
        groups, offset = np.full(len(parts[0].groups), -1, np.int64), 0
        weight = None if parts[0].weight is None else np.zeros(len(groups))
        for part in parts:
            inside = part.groups >= 0
            groups[inside] = part.groups[inside].astype(np.int64) + offset
            if weight is not None and part.weight is not None:
                weight[inside] = part.weight[inside]
            offset += part.size
        first = parts[0]
        return cls(SumTable.of(first.name, groups, offset, weight, first.labels, first.label_cells), tuple(parts))

    @property
    def keys(self) -> tuple[str, ...]:
        """The tables that it gives."""
        return tuple(part.key for part in self.parts)

    @property
    def title(self) -> str:
        """How measured tables call it, without their number."""
        return self.table.name.replace("|", "")

    @property
    def group(self) -> str:
        """The name of the public column that has the group of every row."""
        return f"group {self.table.public_key}"

    @property
    def weight(self) -> str:
        """The name of the public column that has the weight of every row."""
        return f"weight {self.table.public_key}"

    def columns(self) -> dict[Attribute, NDArray[np.signedinteger]]:
        """Group and weight as public columns, numbered: the code of every distinct public row; −1 is the last group."""
        table = self.table
        groups = np.where(table.groups < 0, table.size, table.groups) if table.has_uncounted else table.groups
        found = {whole_numbers(self.group, table.size + 1): groups}
        if table.weight is not None:
            values, code = table.numbered_steps
            found[whole_numbers(self.weight, len(values))] = code
        return found

    def question(self, schema: Schema, i: int) -> WeightedSums:
        """What the curator is asked, with the columns of `columns`."""
        table, group = self.table, (self.group,)
        title = f"{self.title} ({i + 1})"
        if table.weight is None:
            return WeightedSums(schema, group, table.labels, title=title)
        return WeightedSums(schema, group, table.labels, self.weight, tuple(table.numbered_steps[0].tolist()), title)

    def answers(self, measurement: Measurement) -> dict[str, NoisySums]:
        """The sums of every design's table."""
        whole = NoisySums.of(self.table, measurement)
        found, start = {}, 0
        for part in self.parts:
            found[part.key] = whole.cut(part, start)
            start += part.size
        return found


def purchases_of(layouts: Sequence[Sequence[Layout]]) -> list[Purchase]:
    """What must be bought for some analyses, each with a layout for every value of `by`: each table once."""
    found: dict[tuple[str, ...], Purchase] = {}
    for parts in layouts:
        if len(parts) == 1:
            for table in parts[0].tables:
                found.setdefault((table.key,), Purchase.of([table]))
            continue
        by_name: dict[tuple[str, tuple[str, ...]], list[SumTable]] = {}
        for layout in parts:
            for table in layout.tables:
                by_name.setdefault((table.name, table.labels), []).append(table)
        for tables in by_name.values():
            found.setdefault(tuple(t.key for t in tables), Purchase.of(tables))
    return list(found.values())
