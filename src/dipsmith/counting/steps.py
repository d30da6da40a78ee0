"""The steps of a panel as countable rows: every row that counts beside the row of its unit in the period before.

Rows are brought together by unit, which needs the codes of all of them at once: about two bytes a value. They are read
when the first table is counted, not before. Of steps, in turn, `steps` are entries: one line
for every unit.

What counts is decided as for rows (`counting.count`): at most `max_rows` rows of a unit, none that breaks a rule. Of
several rows of a unit in one period the first in the order of their codes counts. All of this is a function of the
unit's own rows and the key, and none of it depends on the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.count import BatchRows, DerivedRows, Rows, linked_rows
from dipsmith.counting.tally import fused
from dipsmith.errors import UnsupportedError
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import entries_of, entry_schema, step_schema, steps_of


class StepRows(DerivedRows):
    """The steps of a panel."""

    def __init__(self, panel: Schema, read: Callable[[], Codes], total: Callable[[], int]) -> None:
        steps = step_schema(panel)
        super().__init__(steps, lambda: _steps(read(), panel, steps), total)
        self._panel = panel

    def steps(self) -> Rows:
        """The entries of the units, one line each; how many there are is private under every relation."""
        entries, panel = entry_schema(self._panel), self._panel
        return DerivedRows(entries, lambda: Codes.of(entries, entries_of(self.held, panel)), lambda: None)


def step_rows(schema: Schema, read: Callable[[], Codes], total: Callable[[], int]) -> StepRows:
    """The steps of a panel; `read` gives its rows, with their units, `total` their number, lawful or not."""
    if schema.members is not None:
        raise UnsupportedError("households are made from two tables, and the table of their members is not here")
    if schema.unit.order is None:
        raise UnsupportedError(
            "this table is no panel: its schema does not say in which order the rows of a unit come; write "
            "unit: {column: person, max_rows: 24, order: year}"
        )
    return StepRows(schema, read, total)


def numbered_rows(rows: BatchRows) -> Codes:
    """The rows that count, whose units are numbered."""
    codes, texts = linked_rows(rows)
    chunks = texts.dictionary_encode().unify_dictionaries().chunks
    units = [chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64) for chunk in chunks]
    return replace(codes, units=np.concatenate([np.zeros(0, dtype=np.int64), *units]))


def _steps(rows: Codes, panel: Schema, schema: Schema) -> Codes:
    """The steps of rows: sorted by unit and period, one row of a unit in each period."""
    order = str(panel.unit.order)
    units = np.arange(len(rows)) if rows.units is None else rows.units
    others = [name for name in panel.names if name != order]
    by = np.lexsort([*reversed(fused(rows, others)), rows[order], units])
    rows, units = rows.take(by), units[by]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (units[1:] != units[:-1]) | (rows[order][1:] != rows[order][:-1])
    rows, units = rows.take(first), units[first]
    columns: dict[str, NDArray[np.integer]] = steps_of(rows, units, panel)
    return Codes.of(schema, columns, len(rows))
