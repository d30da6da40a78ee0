"""Places: a column whose codes lie in larger places, such as tracts in counties in states, from a public list.

``hierarchy: [state, county, tract]`` names the levels, the largest places first; the last are the column's own codes.
Every level is a partition of all rows that is finer than the one above, and all of it is public: code lists, and
`totals` that the steward states of some places, from a published table. Totals are never computed from the private rows.
A missing place is a place of its own on every level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import SchemaError
from dipsmith.schema.domain import MISSING_LABEL, Categories

if TYPE_CHECKING:
    from dipsmith.schema.attribute import Attribute
    from dipsmith.schema.cells import Cells, Conditions
    from dipsmith.schema.codes import Codes
    from dipsmith.schema.schema import Schema


LARGEST_TOTAL: Final = 10**10


@dataclass(frozen=True)
class Level:
    """One level of places: its name, the label of the place that holds each listed code, and public totals by label."""

    name: str
    labels: tuple[str, ...]
    totals: tuple[tuple[str, int], ...] = ()


def check_levels(levels: Sequence[Level], domain: Categories) -> None:
    """Refuse levels that are not nested in one another, and totals of places that are not there."""
    names = [level.name for level in levels]
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise SchemaError("hierarchy needs two or more levels with different names, the largest places first")
    if levels[-1].labels != domain.labels:
        raise SchemaError(f"the last level of hierarchy, {names[-1]}, is the column's own values; give them whole")
    for above, below in pairwise(levels):
        inside: dict[str, str] = {}
        for place, larger in zip(below.labels, above.labels, strict=True):
            if inside.setdefault(place, larger) != larger:
                raise SchemaError(
                    f"{below.name} '{place}' lies in several places of {above.name}; give each its own code, such as "
                    "that of the larger place and its own together"
                )
    for level in levels:
        known = set(level.labels)
        for place, total in level.totals:
            if place not in known:
                raise SchemaError(f"totals of {level.name} name '{place}', which is not in the list; remove it")
            if not 0 <= total <= LARGEST_TOTAL:
                raise SchemaError(f"totals of {level.name}: '{place}' has {total}, expected 0 to {LARGEST_TOTAL:,}")
    _check_totals(levels)


def _check_totals(levels: Sequence[Level]) -> None:
    """Refuse totals that contradict each other: parts of more than their place, or all parts of less."""
    for above, below in combinations(levels, 2):
        parts, known, lacking = dict(below.totals), defaultdict[str, int](int), set[str]()
        for place, larger in dict(zip(below.labels, above.labels, strict=True)).items():
            known[larger] += parts.get(place, 0)
            lacking |= set() if place in parts else {larger}
        for place, total in above.totals:
            if known[place] > total or (place not in lacking and known[place] < total):
                raise SchemaError(
                    f"totals contradict each other: {above.name} '{place}' has {total:,}, its places of {below.name} "
                    f"{known[place]:,}; correct one of them"
                )


@dataclass(frozen=True, eq=False)
class PlaceTree:
    """The tree of a column's places, all rows at its root (level 0), the column's codes as leaves.

    The nodes of a level are numbered so that those of one larger place stand together.
    """

    attribute: Attribute

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels, all rows first."""
        return ("all", *(level.name for level in self.attribute.levels))

    @cached_property
    def _paths(self) -> list[NDArray[np.object_]]:
        missing = (MISSING_LABEL,) if self.attribute.domain.missing else ()
        columns = [np.array([*level.labels, *missing], dtype=object) for level in self.attribute.levels]
        return [np.full(self.attribute.size, "", dtype=object), *columns]

    @cached_property
    def nodes(self) -> tuple[Ints, ...]:
        """For every level the node of each code."""
        found = [np.zeros(self.attribute.size, dtype=np.int64)]
        for labels in self._paths[1:]:
            first = {label: i for i, label in reversed(list(enumerate(labels)))}
            keys = np.array([first[label] for label in labels], dtype=np.int64)
            _, node = np.unique(found[-1] * (self.attribute.size + 1) + keys, return_inverse=True)
            found.append(node.astype(np.int64))
        return tuple(found)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of places on each level."""
        return tuple(int(node.max()) + 1 for node in self.nodes)

    @cached_property
    def parents(self) -> tuple[Ints, ...]:
        """For every level below the root the node above of each of its nodes."""
        return tuple(above[self.first(level)] for level, above in enumerate(self.nodes[:-1], start=1))

    def first(self, level: int) -> Ints:
        """One code of every node of a level."""
        return np.unique(self.nodes[level], return_index=True)[1].astype(np.int64)

    def labels(self, level: int) -> tuple[str, ...]:
        """The label of every node of a level."""
        return tuple(self._paths[level][self.first(level)])

    def totals(self, level: int) -> Floats:
        """The public total of every node of a level; NaN where none is stated."""
        stated = dict(self.attribute.levels[level - 1].totals) if level else {}
        return np.array([stated.get(label, np.nan) for label in self.labels(level)], dtype=np.float64)

    def known_rows(self) -> int | None:
        """The number of rows, where the totals of all places of a level are public."""
        sums = [self.totals(level).sum() for level in range(1, len(self.sizes))]
        return next((int(s) for s in sums if np.isfinite(s)), None)


def check_places(schema: Schema) -> None:
    """Refuse a second column of places, rules over places, and what cannot be where totals of places are public."""
    columns = [a.name for a in schema.attributes if a.levels]
    if len(columns) > 1:
        raise SchemaError(f"columns '{columns[0]}' and '{columns[1]}' both have a hierarchy; one column may")
    if not columns:
        return
    if rule := next((r for r in schema.rules if columns[0] in r.attributes), None):
        raise SchemaError(f"column '{columns[0]}' has a hierarchy, and no rule may name it; remove '{rule.text}'")
    if schema.unit.order is not None or schema.members is not None:
        raise SchemaError(
            f"column '{columns[0]}' has a hierarchy, which panels and households do not follow; remove it"
        )
    if schema.neighbours == "label":
        raise SchemaError(
            f"column '{columns[0]}' has a hierarchy, which is for whole tables under add-remove or replace; remove it"
        )
    known = PlaceTree(schema[columns[0]]).known_rows()
    if schema.known_rows is not None and known not in (None, schema.known_rows):
        raise SchemaError(f"totals of '{columns[0]}' sum to {known:,}, but rows is {schema.known_rows:,}; correct one")
    taken = {area_name(columns[0], level.name) for level in schema[columns[0]].levels} & set(schema.names)
    if taken:
        raise SchemaError(f"column '{min(taken)}' has a name that places of '{columns[0]}' need; rename it")


def tree_of(schema: Schema) -> PlaceTree:
    """The tree of a schema that has a column of places."""
    assert schema.places is not None
    return schema.places


def area_name(column: str, level: str) -> str:
    """What the column is called that has the larger place instead of the place.

    >>> area_name("tract", "state")
    'tract (state)'
    """
    return f"{column} ({level})"


def coarse_schema(schema: Schema, level: int) -> Schema:
    """The same schema with the places of one level instead of the column's own."""
    tree = tree_of(schema)
    labels = [label for label in tree.labels(level) if label != MISSING_LABEL]
    # Labels are numbered as nodes are: a missing place, whose code is the last, is the last node.
    domain = Categories.of(labels, other=labels[0], missing=tree.attribute.domain.missing)
    coarse = replace(
        tree.attribute, name=area_name(tree.attribute.name, tree.names[level]), type="string", domain=domain, levels=()
    )
    attributes = tuple(coarse if a.levels else a for a in schema.attributes)
    return replace(schema, attributes=attributes, analyses=())


def coarsen(codes: Mapping[str, NDArray[np.integer]], schema: Schema, level: int) -> dict[str, NDArray[np.integer]]:
    """The columns with larger places instead of the column's own; others as they are."""
    tree = tree_of(schema)
    own, area = tree.attribute.name, area_name(tree.attribute.name, tree.names[level])
    return {area if n == own else n: tree.nodes[level][c] if n == own else c for n, c in codes.items()}


@dataclass(frozen=True, eq=False)
class PlaceTable:
    """The cross-table of the places of one level with some other attributes, the last one varying fastest."""

    schema: Schema
    level: int
    others: tuple[str, ...]

    @cached_property
    def tree(self) -> PlaceTree:
        """The tree of places."""
        return tree_of(self.schema)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The column of places, and the others; of all rows together, the others alone."""
        return (self.tree.attribute.name, *self.others) if self.level else self.others

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of places, and of codes of each of the others."""
        return (self.tree.sizes[self.level], *(self.schema[n].size for n in self.others))

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @property
    def key(self) -> str:
        """The level and the others."""
        return " × ".join([self.tree.names[self.level], *self.others])

    def index(self, codes: Codes) -> Ints:
        """The cell of every row."""
        cell = np.zeros(len(codes), dtype=np.int64)
        if self.level:
            cell += self.tree.nodes[self.level][codes[self.tree.attribute.name]]
        for name in self.others:
            cell *= self.schema[name].size
            cell += codes[name]
        return cell

    def possible(self) -> Bools | None:
        """The cells that no rule over the others forbids, in every place."""
        from dipsmith.schema.cells import Marginal

        mask = Marginal(self.schema, self.others).possible()
        return None if mask is None else np.tile(mask, self.shape[0])

    def conditions(self, cells: Ints) -> Conditions:
        """The place, and one label of every other attribute."""
        from dipsmith.schema.cells import Condition

        places = np.unravel_index(cells, self.shape)
        found = {n: Condition(self.schema[n].labels, p) for n, p in zip(self.others, places[1:], strict=True)}
        if self.level:
            found = {self.tree.attribute.name: Condition(self.tree.labels(self.level), places[0]), **found}
        return found

    def by_role(self) -> tuple[Cells | None, Cells | None]:
        """Not factored."""
        return None, self
