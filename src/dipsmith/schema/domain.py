"""The public domain of an attribute: the finite list of codes that its values can take.

A domain is an input, never computed from private rows. It is one of two things: `Categories`, a list
of raw values with the (possibly collapsed) label under which each is released; or `Bins`, intervals
of a number, an integer or a point in time. Codes are 0 … size − 1 in the order of the labels; where
missing values are allowed they are the last code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MISSING_LABEL = "(missing)"

Scale = Literal["integer", "number", "date", "datetime"]


@dataclass(frozen=True)
class Categories:
    """A finite list of raw values, each with the code of the label it is released under.

    Attributes
    ----------
    values
        The raw values as text, in the order of the code list.
    labels
        The distinct labels after collapsing, in code order.
    codes
        For each raw value the code of its label.
    other
        The code that a value outside the list gets, or None when there is no such label.
    missing
        Whether missing values are a level of their own (the last code).
    ordered
        Whether neighbouring codes are neighbours in meaning (years of education, grades).

    Examples
    --------
    >>> Categories.of(["F", "M"], other="M").size
    2
    """

    values: tuple[str, ...]
    labels: tuple[str, ...]
    codes: tuple[int, ...]
    other: int | None = None
    missing: bool = False
    ordered: bool = False

    @classmethod
    def of(
        cls,
        values: Sequence[str],
        *,
        other: str | None = None,
        missing: bool = False,
        ordered: bool = False,
    ) -> Categories:
        """Make an uncollapsed list; `other` is one of its raw values."""
        listed = tuple(values)
        return cls(
            values=listed,
            labels=listed,
            codes=tuple(range(len(listed))),
            other=None if other is None else listed.index(other),
            missing=missing,
            ordered=ordered,
        )

    @property
    def size(self) -> int:
        """Number of codes, the missing level included."""
        return len(self.labels) + self.missing

    @property
    def missing_code(self) -> int | None:
        """The code of missing values, or None."""
        return len(self.labels) if self.missing else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every code, the missing level included."""
        return (*self.labels, MISSING_LABEL) if self.missing else self.labels


@dataclass(frozen=True)
class Bins:
    """Intervals of an ordered scale: code i covers [edges[i], edges[i+1]), the last one closed.

    Times are held as numbers: dates as days, datetimes as microseconds since 1970-01-01. On the
    integer and date scales an edge is the first whole value of its bin and the last edge is one
    past the maximum.

    Attributes
    ----------
    edges
        Strictly increasing, one more than there are bins.
    scale
        What the numbers stand for.
    labels
        The name of every bin.
    missing
        Whether missing values are a level of their own (the last code).
    minimum, maximum
        The declared bounds; values outside are clipped to them.
    """

    edges: tuple[float, ...]
    scale: Scale
    labels: tuple[str, ...]
    minimum: float
    maximum: float
    missing: bool = False

    @property
    def size(self) -> int:
        """Number of codes, the missing level included."""
        return len(self.labels) + self.missing

    @property
    def ordered(self) -> bool:
        """Bins are always ordered."""
        return True

    @property
    def missing_code(self) -> int | None:
        """The code of missing values, or None."""
        return len(self.labels) if self.missing else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every code, the missing level included."""
        return (*self.labels, MISSING_LABEL) if self.missing else self.labels

    @cached_property
    def cuts(self) -> NDArray[np.float64]:
        """The edges as an array."""
        return np.asarray(self.edges, dtype=np.float64)


Domain = Categories | Bins
