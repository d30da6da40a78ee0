"""Authentic and synthetic rows side by side, as codes over one schema.

Both tables are encoded with the schema that the release was made by, so that a comparison sees exactly
the distinctions that the release could keep. Authentic rows are taken as they are: neither rows beyond
`max_rows` of a unit nor rows that break a rule are left out, because losing them is part of what a
release does to the data; only rows with a value that has no code cannot be compared, and are counted.

Confidential by nature: whoever makes a pair has logged the look first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.codec.decode import released_schema
from dipsmith.codec.encode import Encoder
from dipsmith.counting.tally import fuse
from dipsmith.schema import Codes, Schema, Unit
from dipsmith.sources import Source

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Pair:
    """One authentic and one synthetic table over the same columns.

    `given` columns are shared row for row (up to order), because the release holds the public columns as they stand.
    Comparing them with themselves would flatter every score, so metrics leave tables of them alone, and nulls keep them
    fixed.
    """

    authentic: Codes
    synthetic: Codes
    given: tuple[str, ...] = ()

    @classmethod
    def of(cls, authentic: Codes, synthetic: Codes, public: Sequence[str] = ()) -> Pair:
        """Pair two tables; `public` columns count as given when both tables have exactly the same rows of them."""
        names = [n for n in authentic.names if n in synthetic.columns]
        left, right = authentic.project(names), synthetic.project(names)
        pair = cls(left, right)
        shared = tuple(n for n in names if n in set(public))
        if shared and len(shared) < len(names) and len(left) == len(right):
            mine, other, groups = pair.number_groups(shared)
            if np.array_equal(np.bincount(mine, minlength=groups), np.bincount(other, minlength=groups)):
                return cls(left, right, shared)
        return pair

    @property
    def schema(self) -> Schema:
        """What the codes mean."""
        return self.authentic.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The columns compared."""
        return self.authentic.names

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that were synthesised."""
        return tuple(n for n in self.names if n not in self.given)

    @property
    def share(self) -> float:
        """The share of synthetic rows among all: c = n_s / (n_a + n_s)."""
        whole = len(self.authentic) + len(self.synthetic)
        return len(self.synthetic) / whole if whole else 0.0

    @cached_property
    def strata(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """For every authentic and every synthetic row the number of its combination of given columns."""
        return self.number_groups(self.given)[:2] if self.given else None

    def number_groups(self, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Number the combinations of some columns: of every authentic and every synthetic row, and how many there are."""
        both = Codes.concatenate([self.authentic.project(names), self.synthetic.project(names)])
        number, first = group_of(both, names)
        return number[: len(self.authentic)], number[len(self.authentic) :], len(first)

    def sample(self, rows: int, rng: np.random.Generator) -> Pair:
        """At most `rows` rows of each table; where columns are given, whole strata of both tables."""
        if max(len(self.authentic), len(self.synthetic)) <= rows:
            return self
        if self.strata is None:
            return Pair(_some(self.authentic, rows, rng), _some(self.synthetic, rows, rng))
        left, right = self.strata
        sizes = np.bincount(left, minlength=int(max(left.max(), right.max())) + 1)
        order = rng.permutation(len(sizes))
        chosen = np.zeros(len(sizes), dtype=bool)
        chosen[order[np.cumsum(sizes[order]) <= rows]] = True
        return Pair(self.authentic.take(chosen[left]), self.synthetic.take(chosen[right]), self.given)


def authentic_codes(
    source: Source, schema: Schema, names: Sequence[str], progress: Progress | None = None
) -> tuple[Codes, int]:
    """The rows of a source as codes, and how many rows had a value without a code.

    Privacy
    -------
    Reads private rows; the result is private. Log a look first.
    """
    visible = comparable(schema, names)
    encoder = Encoder(visible)
    parts, left_out = [Codes.of(visible, {n: np.zeros(0, dtype=np.int64) for n in visible.names}, 0)], 0
    for batch in source.batches(visible.names, progress):
        codes, keep = encoder.encode(batch)
        left_out += int(np.count_nonzero(~keep))
        parts.append(codes if keep.all() else codes.take(keep))
    return Codes.concatenate(parts), left_out


def released_codes(table: pa.Table, schema: Schema, names: Sequence[str]) -> Codes:
    """The rows of a released table as codes of the schema that it was made by."""
    visible = comparable(schema, names)
    codes, keep = Encoder(released_schema(visible)).encode(table.select(list(visible.names)))
    found = Codes(visible, codes.columns, codes.rows)
    return found if keep.all() else found.take(keep)


def comparable(schema: Schema, names: Sequence[str]) -> Schema:
    """The schema of some columns, without unit and rules: every row counts."""
    return replace(schema.project(names), unit=Unit(), rules=())


def group_of(codes: Codes, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct combinations of `names`: the number of every row, and one row of every number."""
    number = np.zeros(len(codes), dtype=np.int64)
    first = np.zeros(min(1, len(codes)), dtype=np.int64)
    for word in fuse(codes, list(names)):
        _, dense = np.unique(word, return_inverse=True)
        joint = number * (int(dense.max(initial=0)) + 1) + dense
        _, first, number = np.unique(joint, return_index=True, return_inverse=True)
    return number, first


def _some(codes: Codes, rows: int, rng: np.random.Generator) -> Codes:
    if len(codes) <= rows:
        return codes
    return codes.take(np.sort(rng.choice(len(codes), rows, replace=False, shuffle=False)))
