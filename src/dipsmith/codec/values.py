"""The exact values of a column of numbers or moments, as its domain reads them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.arrays import Bools
from dipsmith.codec.parse import days, microseconds, numbers
from dipsmith.schema import Bins


def values_of(column: pa.Array, domain: Bins, beyond: int = 0) -> tuple[NDArray[Any], Bools | None]:
    """The numbers of a column, days and moments as integers, and which are readable (None: all).

    Moments whose unit could overflow are clipped to the bounds, or so many microseconds beyond them.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if domain.scale == "date":
        return days(column)
    if domain.scale == "datetime":
        return microseconds(column, int(domain.minimum) - beyond, int(domain.maximum) + beyond)
    return numbers(column)
