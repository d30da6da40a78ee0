"""Rows of an engine that are needed one by one: handed over once, in batches, and held here.

An engine promises no order of rows: PostgreSQL reads one column from an index and two from the table, in another order. What
is computed of a row in one pass, such as its weight or whether it counts, must meet the same row in the next. So an engine is
asked for its rows once, for all columns together, and every later pass reads what it handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from dipsmith.sources.fingerprint import fingerprint
from dipsmith.sources.source import Progress, Source


@dataclass(frozen=True, eq=False)
class FetchedRows:
    """A source whose rows are read once, when a column is first asked for that is not `free`.

    `names` are the columns that are fetched then. Until then `free` columns, which may be read before anything is paid for, come
    from the source itself, in an order of their own.
    """

    engine: Source
    names: tuple[str, ...]
    free: frozenset[str] = frozenset()

    @classmethod
    def of(cls, engine: Source, names: Sequence[str], free: Sequence[str] = ()) -> Source:
        """The source itself where it gives its rows in one order every time: engines, which count for themselves, do not."""
        if getattr(engine, "counter", None) is None:
            return engine
        return cls(engine, tuple(names), frozenset(free))

    @property
    def columns(self) -> tuple[str, ...]:
        """The header."""
        return self.engine.columns

    def check(self, required: Sequence[str]) -> None:
        """As the source checks it."""
        self.engine.check(required)

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, only the named columns; in one order from the time on when they were handed over."""
        if "_rows" not in self.__dict__ and self.free.issuperset(columns):
            yield from self.engine.batches(columns, progress)
            return
        yield from (batch.select(list(columns)) for batch in self._rows)
        if progress is not None:
            progress(1.0)

    def describe(self) -> str:
        """What the source is."""
        return self.engine.describe()

    def fingerprint(self) -> str | None:
        """What tells the source from others."""
        return fingerprint(self.engine)

    def fetch(self) -> None:
        """Read the rows now, unless they are here."""
        self._rows  # noqa: B018  # is read when it is first looked at

    @cached_property
    def _rows(self) -> tuple[pa.RecordBatch, ...]:
        return tuple(self.engine.batches(self.names))
