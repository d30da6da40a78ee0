"""Growth: how fast a number changes within one unit of a panel, as two sums over units.

With t the periods of a unit's rows and x their numbers, each as far from the unit's own mean, the regression of x on t with
an effect for every unit has the slope Σ Σ t·x / Σ Σ t². Both sums are sums over units, and a unit's part of either is bounded
by public facts. A number is known as its bin: x is the middle of the bin, in logarithms where the bins' law is.

How far units differ from that slope is one more sum over units, of squares that are bounded too (`GrowthSpread`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.codes import Codes
from dipsmith.schema.domain import Bins
from dipsmith.schema.schema import Schema
from dipsmith.schema.steps import changing_columns

WHOLE: Final = 1 << 16
"""Whole steps in the largest sum of squares of one unit; its sum of products is counted twice as finely."""

FINER: Final = 2

LARGEST: Final = 1e100
"""Numbers beyond it have no growth: their sums might overflow, and what overflows has no bound."""

SURE: Final = 8.0
"""The sum of squares that a slope is divided by has to be so many times its noise."""


def growing_columns(schema: Schema) -> tuple[str, ...]:
    """The numbers of a panel that may change."""
    return tuple(n for n in changing_columns(schema) if is_number(schema[n]))


def is_number(column: Attribute) -> bool:
    """Whether the levels of a column are bins of a number, none of them so large that sums overflow."""
    domain = column.domain
    if not isinstance(domain, Bins) or domain.scale not in ("integer", "number"):
        return False
    return float(np.abs(domain.cuts.astype(np.float64)).max()) <= LARGEST


def in_logarithms(column: Attribute) -> bool:
    """Whether bins are drawn evenly in logarithms, and none reaches 0."""
    return isinstance(column.domain, Bins) and column.domain.law == "log" and float(column.domain.cuts[0]) > 0


def level_scores(column: Attribute) -> NDArray[np.float64]:
    """The middle of every bin, in logarithms where they are drawn so; nan where the number is missing."""
    domain = column.domain
    assert isinstance(domain, Bins)
    cuts = np.log(domain.cuts) if in_logarithms(column) else domain.cuts.astype(np.float64)
    scores = np.full(column.size, np.nan)
    scores[: len(cuts) - 1] = (cuts[1:] + cuts[:-1]) / 2
    return scores


@dataclass(frozen=True, eq=False)
class GrowthSums:
    """Two sums over the units of a panel: of squares of its periods, and of their products with a number, in whole steps.

    A unit adds between 0 and WHOLE to the first and between −2·WHOLE and 2·WHOLE to the second, whatever its rows say.
    """

    schema: Schema
    column: str

    attributes: ClassVar[tuple[str, ...]] = ()
    size: ClassVar[int] = 2
    reach: ClassVar[dict[str, tuple[int, ...]]] = {"add-remove": (1, FINER), "replace": (1, 2 * FINER)}
    """How far one unit moves each sum, in multiples of WHOLE."""

    def __post_init__(self) -> None:
        if self.column not in growing_columns(self.schema):
            raise UsageError(f"growth is that of a number which may change; '{self.column}' is none")

    @property
    def key(self) -> str:
        """What it is the growth of."""
        return f"growth of {self.column}"

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """The number of every level."""
        return level_scores(self.schema[self.column])

    @cached_property
    def squares(self) -> float:
        """The largest sum of squares that one unit can have: rows in every period, or half of them at either end."""
        periods, rows = self.schema[str(self.schema.unit.order)].size, self.schema.unit.max_rows
        return max(1.0, min(periods * (periods**2 - 1) / 12, rows * (periods - 1) ** 2 / 4))

    @cached_property
    def products(self) -> float:
        """The largest sum of products that counts: that of a unit which goes through half of all levels in its life."""
        periods, known = self.schema[str(self.schema.unit.order)].size, self.scores[np.isfinite(self.scores)]
        return max(float(known.max() - known.min()) / (2 * max(periods - 1, 1)) * self.squares, 1e-9)

    @property
    def steps(self) -> tuple[float, ...]:
        """The units of the sums."""
        return self.squares / WHOLE, self.products / (FINER * WHOLE)

    @property
    def words(self) -> str:
        """What is added up, in which units."""
        squares, products = self.steps
        return (
            f"squares of periods, in steps of {squares:g}; their products with {self.column}, in steps of {products:g}"
        )

    def slope(self, noisy: NDArray[np.integer], variance: float) -> tuple[float, float, float] | None:
        """What noisy sums in whole steps tell: the slope, the variance of its noise, and the sum of squares.

        None where noise hides what the slope is divided by.
        """
        a, b = self.steps
        squares, products = float(noisy[0]) * a, float(noisy[1]) * b
        if squares < SURE * a * variance**0.5:
            return None
        slope = products / squares
        return slope, variance * (b**2 + slope**2 * a**2) / squares**2, squares

    def add_up(self, unit: NDArray[np.integer], rows: Codes) -> NDArray[np.int64]:
        """The sums over rows of which `unit` says whose they are, one row of a unit in a period."""
        return np.array([part.sum() for part in self.parts(unit, rows)], dtype=np.int64)

    def parts(self, unit: NDArray[np.integer], rows: Codes) -> tuple[NDArray[np.int64], ...]:
        """What every unit adds to each sum, in whole steps and within its bounds."""
        squares, products = self.unit_sums(unit, rows)
        a, b = self.steps
        return (
            np.clip(np.rint(squares / a), 0, WHOLE).astype(np.int64),
            np.clip(np.rint(products / b), -FINER * WHOLE, FINER * WHOLE).astype(np.int64),
        )

    def unit_sums(self, unit: NDArray[np.integer], rows: Codes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sums of every unit by themselves, not bounded; rows without the number do not count."""
        x = self.scores[rows[self.column]]
        known = np.isfinite(x)
        at, x, t = unit[known], x[known], rows[str(self.schema.unit.order)].astype(np.float64)[known]
        most = int(unit.max(initial=-1)) + 1
        count = np.maximum(np.bincount(at, minlength=most), 1)
        t = t - (np.bincount(at, weights=t, minlength=most) / count)[at]
        squares, products = (np.bincount(at, weights=t * y, minlength=most).astype(np.float64) for y in (t, x))
        return squares, products

    def index(self, codes: Codes) -> NDArray[np.int64]:
        """Refuse: codes of one row do not say how it grows."""
        raise UsageError(f"{self.key} is no partition of rows")

    def possible(self) -> None:
        """All sums are possible."""

    def by_role(self) -> tuple[None, GrowthSums]:
        """It does not factor."""
        return None, self


@dataclass(frozen=True, eq=False)
class GrowthSpread(GrowthSums):
    """One sum over units, of squares: of what a unit's products differ by from a public slope times its squares.

    A unit adds between 0 and WHOLE. Who differs by more than a life through a quarter of all levels does, counts as such.
    """

    about: float = 0.0

    size: ClassVar[int] = 1
    reach: ClassVar[dict[str, tuple[int, ...]]] = {"add-remove": (1,), "replace": (1,)}

    @property
    def key(self) -> str:
        """What it is the spread of."""
        return f"spread of the growth of {self.column}"

    @property
    def steps(self) -> tuple[float, ...]:
        """The unit of the sum."""
        return ((self.products / 2) ** 2 / WHOLE,)

    @property
    def words(self) -> str:
        """What is added up, in which unit."""
        return f"squares of products with {self.column} less {self.about:g} times squares of periods, in steps of {self.steps[0]:g}"

    def parts(self, unit: NDArray[np.integer], rows: Codes) -> tuple[NDArray[np.int64], ...]:
        """What every unit adds, in whole steps and within its bounds."""
        squares, products = self.unit_sums(unit, rows)
        away = (products - self.about * squares) ** 2
        return (np.clip(np.rint(away / self.steps[0]), 0, WHOLE).astype(np.int64),)
