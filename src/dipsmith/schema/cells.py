"""Cells: a data-independent partition of rows, such as a marginal or the leaves of a tree.

A `Cells` object maps every possible row to one of `size` cells. It is built from the schema and
public facts alone, so asking which cell a row falls in is the only way in which private rows meet
it, and only the curator does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dipsmith.schema.codes import Codes
from dipsmith.schema.rules import impossible
from dipsmith.schema.schema import Schema


class Cells(Protocol):
    """A partition of rows into numbered cells."""

    @property
    def schema(self) -> Schema:
        """The schema whose rows are partitioned."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that decide the cell."""

    @property
    def size(self) -> int:
        """The number of cells."""

    @property
    def key(self) -> str:
        """A short text that names the partition: two cells with one key are the same partition."""

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The cell of every row."""

    def possible(self) -> NDArray[np.bool_] | None:
        """Which cells no rule forbids; None when all are possible."""
        return None

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """Split as (public cells, private cells) with cell = public · size of private + private.

        (None, self) when the partition does not factor that way.
        """
        return None, self


@dataclass(frozen=True, eq=False)
class Condition:
    """What cells demand of one attribute: for each of them a place in `words`, −1 where any value will do."""

    words: tuple[str, ...]
    places: NDArray[np.integer]

    def texts(self) -> list[str | None]:
        """The words themselves."""
        return [None if p < 0 else self.words[p] for p in self.places.tolist()]


Conditions = dict[str, Condition]


@runtime_checkable
class Described(Protocol):
    """Cells that can say in words which rows they hold."""

    def conditions(self, cells: NDArray[np.int64]) -> Conditions:
        """What each of the given cells demands of every attribute that decides."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """The cross-table of some attributes, the last one varying fastest.

    >>> from dipsmith.schema import Attribute, Categories, Schema, Unit
    >>> s = Schema("t", (Attribute("a", "string", Categories.of("xy")),
    ...                  Attribute("b", "string", Categories.of("uvw"))), Unit(), "replace")
    >>> Marginal.of(s, ["b", "a"]).shape
    (3, 2)
    """

    schema: Schema
    attributes: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, attributes: Sequence[str]) -> Marginal:
        """The marginal of the named attributes, in the given order."""
        for name in attributes:
            schema[name]
        return cls(schema, tuple(attributes))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(self.schema[name].size for name in self.attributes)

    @cached_property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @property
    def key(self) -> str:
        """The names joined."""
        return " × ".join(self.attributes) or "(total)"

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """Mixed-radix key of every row (Horner)."""
        cell = np.zeros(len(codes), dtype=np.int64)
        for name, size in zip(self.attributes, self.shape, strict=True):
            cell *= size
            cell += codes[name]
        return cell

    def possible(self) -> NDArray[np.bool_] | None:
        """Cells that no rule over these attributes forbids."""
        if not any(set(rule.attributes) <= set(self.attributes) for rule in self.schema.rules):
            return None
        return ~impossible(self.schema.rules, self.attributes, self.shape).ravel()

    def conditions(self, cells: NDArray[np.int64]) -> Conditions:
        """One label of every attribute."""
        places = np.unravel_index(cells, self.shape) if self.attributes else ()
        return {n: Condition(self.schema[n].labels, p) for n, p in zip(self.attributes, places, strict=True)}

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """Public attributes first, private last: the two marginals; otherwise not factored."""
        roles = [self.schema[name].role for name in self.attributes]
        split = roles.count("public")
        if "private" in roles[:split]:
            return None, self
        public, private = (Marginal(self.schema, part) for part in (self.attributes[:split], self.attributes[split:]))
        return public if public.attributes else None, private if private.attributes else None


@dataclass(frozen=True, eq=False)
class Crossed:
    """Two partitions at once: cell = first · second.size + second (a tree's leaves × the labels)."""

    first: Cells
    second: Cells

    @property
    def schema(self) -> Schema:
        """The schema of both."""
        return self.first.schema

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of both."""
        return tuple(dict.fromkeys((*self.first.attributes, *self.second.attributes)))

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.first.size * self.second.size

    @property
    def key(self) -> str:
        """Both keys."""
        return f"{self.first.key} × {self.second.key}"

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """The cell of every row."""
        return self.first.index(codes) * self.second.size + self.second.index(codes)

    def possible(self) -> NDArray[np.bool_] | None:
        """Cells possible in both; rules that link the two are the methods' to add."""
        masks = [(part, part.possible()) for part in (self.first, self.second)]
        if all(mask is None for _, mask in masks):
            return None
        first, second = (np.ones(part.size, dtype=bool) if mask is None else mask for part, mask in masks)
        return np.logical_and.outer(first, second).ravel()

    def conditions(self, cells: NDArray[np.int64]) -> Conditions:
        """Those of both parts."""
        first, second = np.divmod(cells, self.second.size)
        return conditions_of(self.first, first) | conditions_of(self.second, second)

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """The two parts when the first reads only public and the second only private attributes."""
        roles = [{self.schema[n].role for n in part.attributes} for part in (self.first, self.second)]
        if roles[0] <= {"public"} and roles[1] <= {"private"}:
            return self.first, self.second
        return None, self


def conditions_of(cells: Cells, numbers: NDArray[np.int64]) -> Conditions:
    """What cells demand of every attribute; nothing for a partition that cannot say it."""
    return cells.conditions(numbers) if isinstance(cells, Described) else {}
