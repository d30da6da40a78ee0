"""Rows as integers over a schema: what crosses every door inside the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dipsmith.schema.schema import Schema


def code_dtype(size: int) -> DTypeLike:
    """The smallest unsigned type that holds the codes of a domain."""
    return np.min_scalar_type(max(size - 1, 0))


@dataclass(frozen=True, eq=False)
class Codes:
    """Integer rows over (some of) the attributes of a schema, column by column.

    Every column is an unsigned array of the smallest type that holds its domain; all have the same length. Where rows
    belong together, `units` numbers whose they are; households that a model drew come with their `members`.
    """

    schema: Schema
    columns: Mapping[str, NDArray[np.unsignedinteger]]
    rows: int
    units: NDArray[np.int64] | None = None
    members: Codes | None = None

    @classmethod
    def of(cls, schema: Schema, columns: Mapping[str, NDArray[np.integer]], rows: int | None = None) -> Codes:
        """Make codes from integer arrays, in the order of the schema."""
        ordered = {
            a.name: np.ascontiguousarray(columns[a.name], dtype=code_dtype(a.size))
            for a in schema.attributes
            if a.name in columns
        }
        if rows is None:
            rows = len(next(iter(ordered.values()))) if ordered else 0
        return cls(schema, ordered, rows)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> NDArray[np.unsignedinteger]:
        return self.columns[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes present."""
        return tuple(self.columns)

    def project(self, names: Sequence[str]) -> Codes:
        """Keep only the named columns."""
        return Codes(self.schema, {n: self.columns[n] for n in self.columns if n in set(names)}, self.rows, self.units)

    def take(self, index: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Codes:
        """Keep only the rows at `index`."""
        kept = {n: c[index] for n, c in self.columns.items()}
        rows = len(next(iter(kept.values()))) if kept else len(np.zeros(self.rows, dtype=bool)[index])
        return Codes(self.schema, kept, rows, None if self.units is None else self.units[index])

    def lawful(self) -> NDArray[np.bool_]:
        """Which rows break no rule of the schema (rules over columns not present do not apply)."""
        fine = np.ones(self.rows, dtype=bool)
        sizes = {a.name: a.size for a in self.schema.attributes}
        for rule in (rule for rule in self.schema.rules if set(rule.attributes) <= set(self.columns)):
            fine &= ~rule.broken_by(self.columns, sizes)
        return fine

    @classmethod
    def concatenate(cls, parts: Sequence[Codes]) -> Codes:
        """Put batches of the same columns one after another."""
        first = parts[0]
        columns = {n: np.concatenate([p.columns[n] for p in parts]) for n in first.columns}
        units = None if first.units is None else np.concatenate([p.units for p in parts if p.units is not None])
        return cls(first.schema, columns, sum(p.rows for p in parts), units)
