"""A table of sums Σ w·1[group, labels]: which group and weight every distinct public row has."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dipsmith.analyses.design import Float, Ints
from dipsmith.schema import Attribute
from dipsmith.schema.bins import singles

STEPS = 4095
"""A weight is rounded to a whole number of so many steps between 0 and its largest: 1/8000 of it at most is lost."""

FEW = 100
"""Groups that are added up rather than bought a second time together."""


@dataclass(frozen=True, eq=False)
class SumTable:
    """One table of sums: the group of every distinct public row (−1: not counted), its weight, and the labels.

    Groups are the combinations that occur; `places` says where each stands among all `whole` combinations.
    """

    name: str
    groups: Ints
    places: Ints
    whole: int
    weight: Float | None
    labels: tuple[str, ...]
    label_cells: int

    @classmethod
    def of(
        cls, name: str, groups: Ints, whole: int, weight: Float | None, labels: tuple[str, ...], label_cells: int
    ) -> SumTable:
        """Number the groups that occur; −1 marks rows that are not counted."""
        places, code = number_values(groups, -1, whole - 1)
        if len(places) and places[0] == -1:
            places, code = places[1:], code - 1
        return cls(name, code, places, whole, weight, labels, label_cells)

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.places)

    @cached_property
    def key(self) -> str:
        """Tables of the same sums have the same key, whatever they are called."""
        held = hashlib.sha256(self.groups.tobytes())
        held.update(b"" if self.weight is None else self.steps.tobytes() + np.float64(self.unit).tobytes())
        return f"{held.hexdigest()[:16]} {' × '.join(self.labels)}"

    @property
    def is_single(self) -> bool:
        """Whether one sum per group is drawn: two labels."""
        return self.label_cells == 2

    def is_sum_of(self, other: SumTable) -> bool:
        """Whether it has one group, and another table the same sums in a few."""
        if self.size != 1 or not 1 < other.size <= FEW or self.labels != other.labels:
            return False
        return self.unit == other.unit and np.array_equal(self.steps, other.steps)

    def spread(self, values: Float) -> Float:
        """Sums at the places of their groups among all combinations; 0 where there are no rows."""
        found = np.zeros((len(values), self.whole))
        found[:, self.places] = values
        return found

    @cached_property
    def unit(self) -> float:
        """What one step of the rounded weight stands for."""
        if self.weight is None:
            return 1.0
        used = np.abs(self.weight[self.groups >= 0])
        most = float(used.max(initial=0.0))
        if most <= STEPS and bool((used == np.rint(used)).all()):
            return 1.0
        return most / STEPS if most else 1.0

    @cached_property
    def steps(self) -> Ints:
        """The weight of every row in whole steps."""
        if self.weight is None:
            return np.ones(len(self.groups), np.int64)
        inside = np.where(self.groups >= 0, self.weight, 0.0)
        return np.rint(inside / self.unit).astype(np.int64)

    @cached_property
    def heaviest(self) -> int:
        """The largest weight in steps."""
        return max(1, int(np.abs(self.steps).max(initial=0)))

    def totals(self, often: Float) -> Float:
        """The public weight of every group, in the weight's own unit."""
        inside = self.groups >= 0
        heavy = (self.steps * often)[inside] * self.unit
        return np.bincount(self.groups[inside], weights=heavy, minlength=self.size).astype(np.float64)


def whole_numbers(name: str, size: int) -> Attribute:
    """A public column of the numbers 0 … size − 1."""
    return Attribute(name, "integer", singles("integer", 0, size - 1, missing=False), "public")


def number_values(values: Ints, least: int, most: int) -> tuple[Ints, Ints]:
    """The whole numbers that occur, rising, and the place of each value among them; fast where they lie close together.

    >>> [part.tolist() for part in number_values(np.array([5, -1, 5]), -1, 7)]
    [[-1, 5], [1, 0, 1]]
    """
    if most - least > 4 * max(len(values), 1 << 20):
        found, code = np.unique(values, return_inverse=True)
        return found.astype(np.int64), code.astype(np.int64)
    present = np.zeros(most - least + 1, dtype=bool)
    present[values - least] = True
    return np.flatnonzero(present) + least, (np.cumsum(present) - 1)[values - least]
