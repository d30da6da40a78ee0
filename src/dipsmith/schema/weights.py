"""Survey weights: how many people of a population each row stands for.

A weight is a bounded private number of its row (``role: weight``). It is synthesised as any column, and weighted totals
of tables are measured beside it. Nothing else is weighted: counts behind a model are counts of rows.
"""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING

from dipsmith.errors import SchemaError
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.domain import Bins

if TYPE_CHECKING:
    from dipsmith.schema.schema import Schema

FINEST = 6
"""The largest weight, times the rows of a unit, is less than 10 to so many whole steps."""


def check_weight(schema: Schema) -> None:
    """Refuse a weight that is no bounded positive number, or that nobody could use."""
    weights = [a for a in schema.attributes if a.role == "weight"]
    if not weights:
        return
    if len(weights) > 1:
        raise SchemaError(
            f"columns '{weights[0].name}' and '{weights[1].name}' are both weights; keep one role: weight"
        )
    (weight,) = weights
    where, domain = f"column '{weight.name}': role: weight", weight.domain
    if schema.neighbours == "label":
        raise SchemaError(
            f"{where} is for whole rows; under label a weight is public (role: public, released as it stands) or left out"
        )
    if not isinstance(domain, Bins) or weight.type not in ("number", "integer"):
        raise SchemaError(f"{where} needs a number with public bounds; give type, minimum and maximum, and no enum")
    if domain.missing or domain.minimum < 0 or domain.maximum <= 0:
        raise SchemaError(f"{where} needs a minimum of 0 or more, a maximum above 0 and no missing values")
    if schema.unit.order is not None:
        raise SchemaError(f"{where} does not go with a panel (unit.order): weights of careers are not calibrated")
    if len(schema.attributes) < 2:
        raise SchemaError(f"{where} needs another column, whose weighted totals are measured")


def weight_step(weight: Attribute, max_rows: int) -> float:
    """The unit in which weights are added up: a power of ten, so fine that rounding is small beside any noise.

    >>> from dipsmith.schema.bins import by_count
    >>> weight_step(Attribute("w", "number", by_count("number", 1, 500, 5), "weight"), 1)
    0.001
    """
    domain = weight.domain
    assert isinstance(domain, Bins)
    places = FINEST - 1 - floor(log10(domain.maximum * max_rows))
    return float(f"1e{-places}")
