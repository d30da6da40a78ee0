"""Another file's columns under the schema's names: renamed, or computed from numbers of the file.

``pay=basic_pay*1.08`` says that the schema's column `pay` is 1.08 times what the file calls `basic_pay`. The right side is
the name of a column, or arithmetic as formulas have it (`dipsmith.schema.formula`): a tree that is walked, never run.
Factors that differ by group come from a public table beside the file: it has columns that the file has too (`agency`) and
columns of numbers (`ratio`), which can then be used as if they were the file's (``pay=basic_pay*ratio``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats, Ints
from dipsmith.codec.parse import numbers, texts
from dipsmith.errors import SourceError, UsageError
from dipsmith.regression.arithmetic import evaluate
from dipsmith.schema import Schema
from dipsmith.schema.formula.parser import parse
from dipsmith.schema.formula.tree import Column, Node
from dipsmith.schema.formula.tree import columns as names_in
from dipsmith.sources import Source, source
from dipsmith.sources.fingerprint import fingerprint, fingerprints
from dipsmith.sources.source import Progress

ColumnMap = Mapping[str, str]
"""For names of a schema: the name of another file's column, or arithmetic on its columns."""


def read_map(entries: Sequence[str], option: str, schema: Schema) -> dict[str, str]:
    """A map from entries such as ``pay=basic_pay*1.08``; `option` is where they were given."""
    found: dict[str, str] = {}
    for entry in entries:
        name, _, meaning = (part.strip() for part in entry.partition("="))
        if not name or not meaning or name in found:
            raise UsageError(
                f"{option} {entry}: expected NAME=COLUMN or arithmetic, once for each NAME: pay=basic*1.08"
            )
        if name not in schema.columns:
            raise UsageError(
                f"{option} {entry}: '{name}' is no column of the schema; it has: {', '.join(schema.columns)}"
            )
        found[name] = meaning
    return found


def map_columns(data: Any, columns: ColumnMap | None = None, beside: Any = None) -> Source:
    """A file or frame with its columns under other names; `beside` is a public table of factors by group.

    >>> pay = map_columns(pa.table({"basic": [100.0, 50.0]}), {"pay": "basic * 2"})
    >>> [batch.to_pydict() for batch in pay.batches(["pay"])]
    [{'pay': [200.0, 100.0]}]
    """
    rows = source(data)
    if not columns:
        if beside is not None:
            raise UsageError("a table of factors goes with a column map that uses them: pay=basic_pay*ratio")
        return rows
    factors = None if beside is None else Factors.of(source(beside), rows.columns)
    there = {*rows.columns, *(() if factors is None else factors.values)}
    nodes = {
        name: Column(meaning) if meaning in there else _arithmetic(name, meaning) for name, meaning in columns.items()
    }
    for name, node in nodes.items():
        if absent := [n for n in names_in(node) if n not in there]:
            has = ", ".join(sorted(there)[:12])
            raise SourceError(
                f"{rows.describe()}: column '{name}' is made of '{absent[0]}', which is not there; it has: {has}"
            )
        evaluate(node, dict.fromkeys(names_in(node), np.zeros(0)), 0)  # refuses what no numbers could be put into
    return MappedRows(rows, nodes, factors)


def _arithmetic(name: str, meaning: str) -> Node:
    try:
        return parse(f"{meaning} ~ 1").response
    except UsageError:
        raise UsageError(
            f"column map {name}={meaning}: expected a column, or arithmetic on columns, such as basic_pay*1.08"
        ) from None


@dataclass(frozen=True, eq=False)
class Factors:
    """Numbers by group, from a public table: for each combination of its keys one row."""

    keys: tuple[str, ...]
    place: Mapping[tuple[str | None, ...], int]
    values: Mapping[str, Floats]
    marks: frozenset[str]

    @classmethod
    def of(cls, table: Source, columns: Sequence[str]) -> Factors:
        """Read the table; its keys are the columns that the file has too."""
        keys = tuple(name for name in table.columns if name in columns)
        others = [name for name in table.columns if name not in columns]
        if not keys or not others:
            raise SourceError(
                f"{table.describe()}: a table of factors has a column of the file (the group) and another of numbers"
            )
        table.check(table.columns)
        batches = list(table.batches(table.columns))
        groups = [group for batch in batches for group in _groups(batch, keys)]
        place = {group: i for i, group in enumerate(groups)}
        if len(place) < len(groups):
            raise SourceError(
                f"{table.describe()}: two rows have the same {', '.join(keys)}; each group has one factor"
            )
        values = {n: np.concatenate([_floats(b.column(n)) for b in batches] or [np.zeros(0)]) for n in others}
        ended = {name: np.append(found, np.nan) for name, found in values.items()}
        return cls(keys, place, ended, fingerprints(table))

    def rows_for(self, batch: pa.RecordBatch) -> Ints:
        """Which row of the table belongs to each row of a batch; the last, which has no values, where none does."""
        return np.array([self.place.get(group, -1) for group in _groups(batch, self.keys)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MappedRows:
    """A source whose columns have other names, or are computed from its numbers."""

    rows: Source
    nodes: Mapping[str, Node]
    factors: Factors | None = field(default=None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the map, then the others of the file."""
        return (*self.nodes, *(n for n in self.rows.columns if n not in self.nodes))

    def check(self, required: Sequence[str]) -> None:
        """Check what the required columns are made of."""
        self.rows.check(self._list_needed(required))

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in the order of the file."""
        for batch in self.rows.batches(self._list_needed(columns), progress):
            yield pa.record_batch([self._column(batch, name) for name in columns], names=list(columns))

    def describe(self) -> str:
        """As the file says."""
        return self.rows.describe()

    def fingerprint(self) -> str | None:
        """The file's own: under other names its rows are the same."""
        return fingerprint(self.rows)

    def fingerprints(self) -> frozenset[str]:
        """Those of the file, and of the table of factors, which is read too."""
        return fingerprints(self.rows) | (frozenset() if self.factors is None else self.factors.marks)

    def _list_needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        wanted = [n for name in columns for n in (names_in(self.nodes[name]) if name in self.nodes else (name,))]
        if self.factors is not None and any(n in self.factors.values for n in wanted):
            wanted = [*self.factors.keys, *wanted]
        factors = () if self.factors is None else self.factors.values
        return tuple(dict.fromkeys(n for n in wanted if n not in factors))

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        node = self.nodes.get(name, Column(name))
        if isinstance(node, Column) and node.name in batch.schema.names:
            return batch.column(node.name)
        found: dict[str, Floats] = {}
        for column in names_in(node):
            if self.factors is not None and column in self.factors.values:
                found[column] = self.factors.values[column][self.factors.rows_for(batch)]
            else:
                found[column] = _floats(batch.column(column))
        values = _tidy(evaluate(node, found, batch.num_rows))
        return pa.array(values, mask=~np.isfinite(values))


def require_factors(rows: Source) -> None:
    """Refuse a public file with groups that have no row in its table of factors: their numbers would go missing unseen.

    It reads the file: never for confidential rows. Should it be given some nevertheless, it quotes none.
    """
    if not isinstance(rows, MappedRows) or rows.factors is None:
        return
    keys, known = rows.factors.keys, rows.factors.place
    if any(group not in known for batch in rows.rows.batches(keys) for group in _groups(batch, keys)):
        raise SourceError(
            f"{rows.describe()}: it has groups ({', '.join(keys)}) without a row in the table of factors; "
            "add them there, with an empty number where there is none"
        )


def _groups(batch: pa.RecordBatch, keys: Sequence[str]) -> list[tuple[str | None, ...]]:
    return list(zip(*(texts(_plain(batch.column(key))).to_pylist() for key in keys), strict=True))


def _tidy(values: Floats) -> Floats:
    """Without the last binary digits of a product, which people would read: 28248 times 1.08 is 30507.84.

    >>> _tidy(np.array([28248 * 1.08, np.nan, 0.0])).tolist()
    [30507.84, nan, 0.0]
    """
    sizes = np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0))
    unit = 10.0 ** (11 - np.floor(np.log10(sizes)))
    return np.where(np.isfinite(unit), np.round(values * unit) / unit, values)


def _floats(column: pa.Array) -> Floats:
    """The numbers of a column; those that cannot be read are not numbers."""
    values, known = numbers(_plain(column))
    found = values.astype(np.float64)
    return found if known is None else np.where(known, found, np.nan)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
