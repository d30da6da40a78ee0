"""The steps of a panel as countable rows: every row that counts beside the row of its unit in the period before.

Rows are brought together by unit, which needs the codes of all of them at once: about two bytes a value. They are read
when the first table is counted, not before.

What counts is decided as for rows (`counting.count`): at most `max_rows` rows of a unit, none that breaks a rule. Of
several rows of a unit in one period the first in the order of their codes counts. All of this is a function of the
unit's own rows and the key, and none of it depends on the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.counting.count import BatchRows, HeldRows
from dipsmith.counting.memory import CountMemory, View
from dipsmith.counting.tally import fused
from dipsmith.counting.units import unit_text
from dipsmith.errors import UnsupportedError
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import step_schema, steps_of


class StepRows(HeldRows):
    """The steps of a panel's rows; `read` gives those rows, with their units, when they are first needed.

    `total` gives the number of rows, lawful or not.
    """

    def __init__(self, schema: Schema, read: Callable[[], Codes], total: Callable[[], int]) -> None:
        if schema.members is not None:
            raise UnsupportedError("households are made from two tables, and the table of their members is not here")
        if schema.unit.order is None:
            raise UnsupportedError(
                "this table is no panel: its schema does not say in which order the rows of a unit come; write "
                "unit: {column: person, max_rows: 24, order: year}"
            )
        self.schema, self._read, self._total = step_schema(schema), read, total
        self._views: dict[View, Codes] = {}
        self._memory, self._fixed = CountMemory(), ()
        self._panel = schema

    @property
    def held(self) -> Codes:  # type: ignore[override]
        """All steps."""
        if "held" not in self._views:
            self._views["held"] = _steps(self._read(), self._panel, self.schema)
        return self._views["held"]

    def _passing(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield all steps: every row behind them breaks no rule."""
        yield self.held

    def total(self) -> int:
        """The number of rows, lawful or not: what is public where their number is public. That of steps is not."""
        return self._total()


def linked_rows(rows: BatchRows) -> Codes:
    """The rows that count, whose units are numbered."""
    schema = rows.schema
    parts = list(rows._passing(schema.names, "lawful"))
    texts = [unit_text(batch.column(0)) for batch in rows.raw([str(schema.unit.column)])]
    numbers = pa.chunked_array(texts, pa.large_string()).dictionary_encode().unify_dictionaries()
    units = [chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64) for chunk in numbers.chunks]
    empty = Codes.of(schema, {name: np.zeros(0, dtype=np.int64) for name in schema.names}, 0)
    return replace(Codes.concatenate([empty, *parts]), units=np.concatenate([np.zeros(0, dtype=np.int64), *units]))


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
