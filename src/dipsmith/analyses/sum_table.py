"""A table of sums Σ w·1[group, labels]: which group and weight every distinct public row has."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dipsmith.analyses.design import Float, Ints, small_type
from dipsmith.analyses.public_columns import pieces
from dipsmith.schema import Attribute, Bins

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
    groups: NDArray[np.signedinteger]
    places: Ints
    whole: int
    weight: Float | None
    labels: tuple[str, ...]
    label_cells: int

    @classmethod
    def of(
        cls,
        name: str,
        groups: NDArray[np.signedinteger],
        whole: int,
        weight: Float | None,
        labels: tuple[str, ...],
        label_cells: int,
    ) -> SumTable:
        """Number the groups that occur; −1 marks rows that are not counted."""
        least = int(groups.min(initial=0))
        places, code = number_values(groups, least, whole - 1)
        if least < 0:
            places, code = places[1:], code - 1
        return cls(name, code, places, whole, weight, labels, label_cells)

    def by(self, name: str, labels: tuple[str, ...], label_cells: int) -> SumTable:
        """The same groups and weights by other labels."""
        other = replace(self, name=name, labels=labels, label_cells=label_cells)
        shared = ["public_key", "has_uncounted"]
        if self.weight is not None:
            shared += ["unit", "steps", "numbered_steps", "heaviest"]
        vars(other).update({key: getattr(self, key) for key in shared})
        return other

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.places)

    @cached_property
    def public_key(self) -> str:
        """Tables of the same groups and weights have the same."""
        held = hashlib.sha256()
        for numbers in [self.groups] if self.weight is None else [self.groups, self.steps, np.array([self.unit])]:
            for here in pieces(len(numbers)):
                held.update(np.ascontiguousarray(numbers[here]).data)
        return held.hexdigest()[:16]

    @property
    def key(self) -> str:
        """Tables of the same sums have the same key, whatever they are called."""
        return f"{self.public_key} {' × '.join(self.labels)}"

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
        if self.size == self.whole:
            return values
        found = np.zeros((len(values), self.whole, *values.shape[2:]))
        found[:, self.places] = values
        return found

    @cached_property
    def unit(self) -> float:
        """What one step of the rounded weight stands for."""
        if self.weight is None:
            return 1.0
        used = self.weight[self.groups >= 0] if self.has_uncounted else self.weight
        most = max(float(used.max(initial=0.0)), -float(used.min(initial=0.0)))
        if most <= STEPS and all(bool((some == np.rint(some)).all()) for some in (used[:100], used)):
            return 1.0
        return most / STEPS if most else 1.0

    @cached_property
    def steps(self) -> NDArray[np.int16]:
        """The weight of every row in whole steps."""
        if self.weight is None:
            return np.broadcast_to(np.int16(1), len(self.groups))
        found = np.empty(len(self.groups), np.int16)
        for here in pieces(len(found)):
            inside = np.where(self.groups[here] >= 0, self.weight[here], 0.0)
            np.rint(inside / self.unit, out=found[here], casting="unsafe")
        return found

    @cached_property
    def has_uncounted(self) -> bool:
        """Whether some rows are in no group."""
        return bool(self.groups.min(initial=0) < 0)

    @cached_property
    def numbered_steps(self) -> tuple[Ints, NDArray[np.signedinteger]]:
        """The weights that occur, in whole steps, and which of them every row has."""
        return number_values(self.steps, -self.heaviest, self.heaviest)

    @cached_property
    def heaviest(self) -> int:
        """The largest weight in steps."""
        return max(1, int(self.steps.max(initial=0)), -int(self.steps.min(initial=0)))

    def totals(self, often: Float) -> Float:
        """The public weight of every group, in the weight's own unit."""
        found = np.zeros(self.size + 1)
        for here in pieces(len(often)):
            heavy = often[here] if self.weight is None else often[here] * self.steps[here]
            found += np.bincount(self.groups[here] + np.int64(1), weights=heavy, minlength=self.size + 1)
        return found[1:] * self.unit


def whole_numbers(name: str, size: int) -> Attribute:
    """A public column of the numbers 0 … size − 1."""
    numbers = range(size)
    domain = Bins(
        tuple(map(float, range(size + 1))), "integer", tuple(map(str, numbers)), 0.0, size - 1.0, missing=False
    )
    return Attribute(name, "integer", domain, "public")


def number_values(values: NDArray[np.signedinteger], least: int, most: int) -> tuple[Ints, NDArray[np.signedinteger]]:
    """The whole numbers that occur, rising, and the place of each value among them; fast where they lie close together.

    >>> [part.tolist() for part in number_values(np.array([5, -1, 5]), -1, 7)]
    [[-1, 5], [1, 0, 1]]
    """
    if most - least > 4 * max(len(values), 1 << 20):
        found, place = np.unique(values, return_inverse=True)
        return found.astype(np.int64), place.astype(small_type(len(found)))
    present = np.zeros(most - least + 1, dtype=bool)
    for here in pieces(len(values)):
        present[values[here] - np.int64(least)] = True
    if least == 0 and present.all():
        return np.arange(most + 1), values.astype(small_type(most + 1), copy=False)
    where = (np.cumsum(present) - 1).astype(small_type(len(present)))
    code = np.empty_like(where, shape=len(values))
    for here in pieces(len(values)):
        code[here] = where[values[here] - np.int64(least)]
    return np.flatnonzero(present) + least, code
