"""Counting rows: many contingency tables in one pass over a source, in bounded memory.

`Rows` is the contract between whoever holds rows and the curator. `BatchRows` fulfils it for any source
that can be read batch by batch: `encoded` makes codes of its rows and leaves out what must not be counted, `tally`
counts, and `memory` keeps the counts. `MemoryRows` are encoded already: simulated tables, public stand-ins, tests.

What counts (proof: ``docs/proofs/counting.md``):

1. a row with a value that has no code (add-remove only) is left out, and one without a unit;
2. of each unit at most `max_rows` rows are held, chosen by a keyed hash;
3. of the rows held, those that break a rule are counted nowhere. Under `label` public sizes
   (`count_public`) leave out only the rows that break a rule over public columns, because which rows break
   other rules is private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Ints
from dipsmith.counting.encoded import CACHE_BYTES, EncodedRows
from dipsmith.counting.memory import CountMemory, FixedCodes, rows_in
from dipsmith.counting.memory import View as View
from dipsmith.counting.tally import Tally, check_size, count_sparse, distinct
from dipsmith.counting.units import unit_text
from dipsmith.counting.values import ValueReading, Values, read_values, values_of_codes
from dipsmith.errors import UnsupportedError
from dipsmith.schema import Cells, Codes, Schema
from dipsmith.sources import Progress, Source

Codings = Mapping[str, NDArray[np.integer]]
"""Columns as codes."""


class Rows(Protocol):
    """Encoded rows that can be counted; exact, so for the curator's eyes only.

    Rows remember the marginals that they have counted (`memory.CountMemory`): what was asked before, or is a sum
    over it, is answered without reading a row. Arrays of counts may be read-only.
    """

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""

    def count(self, cells: Sequence[Cells]) -> list[Ints]:
        """Count the lawful rows in every cell of every partition, in one pass."""

    def count_public(self, cells: Sequence[Cells]) -> list[Ints]:
        """Count the rows that break no rule of the public columns, for partitions by public columns."""

    def count_sparse(self, cells: Cells) -> tuple[Ints, Ints]:
        """Return the occupied cells, sorted, and the number of lawful rows in each."""

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, Ints]:
        """Return the distinct combinations of public attributes, sorted, and how often each occurs."""

    def total(self) -> int | None:
        """Return the number of rows held, lawful or not: what is public where n is public; None if it never is."""

    def within(self, attribute: str, code: int) -> Rows:
        """Return the block of rows with this code."""

    def public_mask(self, kinds: Ints) -> Bools:
        """Which rows of the source `count_public` counts, in its order; their public values, numbered, help to decide."""

    def with_public_columns(self, schema: Schema, columns: Codings) -> Rows:
        """The same rows with more public columns: codes of every row of the source, in its order."""

    def values(self, reading: ValueReading) -> Iterator[tuple[Values, pa.Array | None]]:
        """The values of the lawful rows, block by block in the order of the source, and the text of each row's unit."""

    def raw(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the lawful rows as they stand in the source, block by block."""

    def steps(self) -> Rows:
        """The steps of a panel: each lawful row beside the row of its unit in the period before; or lines of households."""

    def with_larger_places(self, level: int) -> Rows:
        """The same rows with the larger places of a level instead of their places."""

    def with_fewer_steps(self, most: int, away: bool = False) -> Rows:
        """At most so many steps of each unit of a panel, drawn by the key; which ones depends on the unit's own rows alone.

        With `away`: of the periods after its first one up to its last one, whether it is there.
        """


class BatchRows:
    """The rows of a source, encoded and counted batch by batch.

    `key` is the secret by which rows beyond `max_rows` are chosen, drawn from the operating system when omitted. Codes
    are kept in memory up to `cache_bytes`, column by column; other columns are read again for each pass that needs
    them. `progress` is called with the fraction of a pass that is done.

    Privacy
    -------
    Everything here is exact and private. No exception, and nothing that is printed, depends on a value.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        key: bytes | None = None,
        cache_bytes: int = CACHE_BYTES,
        progress: Progress | None = None,
    ) -> None:
        self.schema = schema
        self._encoded = EncodedRows(source, schema, key, cache_bytes, progress)
        self._memory = CountMemory()
        self._fixed_codes: FixedCodes = ()

    def count(self, cells: Sequence[Cells], view: View = "lawful") -> list[Ints]:
        """Count the rows of a view in every cell of every partition: what is not remembered, in one pass."""
        check_size(cells)
        known = self._memory.recall(self._fixed_codes, view, cells)
        asked = [table for table, counts in zip(cells, known, strict=True) if counts is None]
        if not asked:
            return [counts for counts in known if counts is not None]
        tally = Tally(asked)
        for codes in self._blocks([name for table in asked for name in table.attributes], view):
            tally.add(codes)
        return self._memory.complete(self._fixed_codes, view, cells, known, tally.counts())

    def count_public(self, cells: Sequence[Cells]) -> list[Ints]:
        """Count the rows that break no rule of the public columns."""
        return self.count(cells, "public")

    def count_sparse(self, cells: Cells) -> tuple[Ints, Ints]:
        """Return the occupied cells, sorted, and the number of lawful rows in each."""
        return count_sparse(self._blocks(cells.attributes, "lawful"), cells)

    def distinct_public(self, attributes: Sequence[str]) -> tuple[Codes, Ints]:
        """Return the distinct combinations of public attributes, sorted, and how often each occurs."""
        return distinct(self._blocks(attributes, "public"), self.schema, attributes)

    def total(self) -> int:
        """Return the number of rows held, lawful or not."""
        if not self._fixed_codes:
            return self._encoded.total()
        return sum(len(codes) for codes in self._blocks([], "held"))

    def within(self, attribute: str, code: int) -> Rows:
        """Return the block of rows with this code; it shares what is kept in memory."""
        self.schema[attribute]
        block = object.__new__(BatchRows)
        block.schema, block._encoded, block._memory = self.schema, self._encoded, self._memory
        block._fixed_codes = (*self._fixed_codes, (attribute, code))
        return block

    def public_mask(self, kinds: Ints) -> Bools:
        """Which rows of the source `count_public` counts, in its order; their public values, numbered, help to decide."""
        return self._encoded.mask("public", kinds)

    def values(self, reading: ValueReading) -> Iterator[tuple[Values, pa.Array | None]]:
        """The values of the lawful rows, block by block in the order of the source, and the text of each row's unit."""
        if self._fixed_codes:
            raise UnsupportedError("values are read of all rows, not of a block of them")
        yield from read_values(self._encoded, reading)

    def raw(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the lawful rows as they stand in the source, block by block."""
        lawful, start = self._encoded.mask("lawful"), 0
        for batch in self._encoded.raw(names):
            kept = lawful[start : start + batch.num_rows]
            start += batch.num_rows
            yield batch if bool(kept.all()) else batch.filter(pa.array(kept))

    def steps(self) -> Rows:
        """The steps of a panel; no row is read yet."""
        from dipsmith.counting.steps import numbered_rows, step_rows

        return step_rows(self.schema, lambda: numbered_rows(self, self._encoded.key), self.total)

    def with_larger_places(self, level: int) -> Rows:
        """The same rows with the larger places of a level instead of their places."""
        from dipsmith.counting.steps import CoarseRows

        return CoarseRows(self, level)

    def with_fewer_steps(self, most: int, away: bool = False) -> Rows:
        """Refused: only the steps of a panel can be thinned."""
        raise UnsupportedError("only the steps of a panel can be thinned; rows are limited by max_rows")

    def with_public_columns(self, schema: Schema, columns: Codings) -> Rows:
        """The same rows with more public columns: codes of every row of the source, in its order."""
        wider = object.__new__(BatchRows)
        wider.schema = schema
        wider._encoded = self._encoded.with_public_columns(schema, columns)
        wider._memory, wider._fixed_codes = CountMemory(), ()
        return wider

    def _blocks(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield the rows of a view that have the fixed codes."""
        for codes in self._encoded.blocks([*names, *(name for name, _ in self._fixed_codes)], view):
            yield codes.take(rows_in(codes, "held", self._fixed_codes)) if self._fixed_codes else codes


class MemoryRows(BatchRows):
    """Codes as countable rows, by the verbs of `BatchRows`. Units are taken to be truncated already."""

    def __init__(self, codes: Codes) -> None:
        self.codes, self.schema = codes, codes.schema
        self._views: dict[View, Codes] = {}
        self._memory, self._fixed_codes = CountMemory(), ()

    def _blocks(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield the rows of a view, all at once and with all their columns."""
        if view not in self._views:
            inside = rows_in(self.codes, view)
            self._views[view] = self.codes if bool(inside.all()) else self.codes.take(inside)
        yield self._views[view]

    def total(self) -> int:
        """The number of rows, lawful or not: what is public where n is public."""
        return len(self.codes)

    def public_mask(self, kinds: Ints) -> Bools:
        """Which rows `count_public` counts."""
        return rows_in(self.codes, "public")

    def values(self, reading: ValueReading) -> Iterator[tuple[Values, pa.Array | None]]:
        """Values that stand for the codes of the lawful rows; each row is a unit."""
        for codes in self._blocks([], "lawful"):
            yield values_of_codes(codes, reading), None

    def raw(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Codes do not say what stood in a source."""
        raise UnsupportedError("rows that are held as codes have no raw values")

    def steps(self) -> Rows:
        """The steps of a panel."""
        from dipsmith.counting.steps import given_rows, step_rows

        return step_rows(self.schema, lambda: given_rows(next(self._blocks([], "lawful"))), self.total)

    def with_public_columns(self, schema: Schema, columns: Codings) -> Rows:
        """The same rows with more public columns."""
        return MemoryRows(Codes.of(schema, {**self.codes.columns, **columns}, len(self.codes)))

    def within(self, attribute: str, code: int) -> Rows:
        """Only the rows with this code, apart from the others."""
        return MemoryRows(self.codes.take(self.codes[attribute] == code))


class DerivedRows(MemoryRows):
    """Rows made from others that break no rule; `make` gives them when they are first needed.

    `total` gives the number of rows behind them, lawful or not: what is public where that number is, None where it never
    is. Their own is not.
    """

    def __init__(self, schema: Schema, make: Callable[[], Codes], total: Callable[[], int | None]) -> None:
        self.schema, self._make, self._total = schema, make, total
        self._memory, self._fixed_codes = CountMemory(), ()

    @cached_property
    def codes(self) -> Codes:  # type: ignore[override]
        """All rows that were made."""
        return self._make()

    def _blocks(self, names: Sequence[str], view: View) -> Iterator[Codes]:
        """Yield all of them, in every view."""
        yield self.codes

    def total(self) -> int | None:  # type: ignore[override]
        """The number of rows behind them."""
        return self._total()


def linked_rows(rows: BatchRows) -> tuple[Codes, pa.ChunkedArray]:
    """The rows that count, and the text of the unit of each."""
    schema = rows.schema
    empty = Codes.of(schema, {name: np.zeros(0, dtype=np.int64) for name in schema.names}, 0)
    codes = Codes.concatenate([empty, *rows._blocks(schema.names, "lawful")])
    texts = [unit_text(batch.column(0)) for batch in rows.raw([str(schema.unit.column)])]
    return codes, pa.chunked_array(texts, pa.large_string())
