"""What the noise alone did to a release, from what its card says was measured.

A line of the card names a table, its noise mechanism, sensitivity and price; that fixes the variance v of the noise
on one count: 2q/(1 − q)² with q = e^{−ε/Δ} for discrete Laplace noise, Δ₂²/(2ρ) for discrete Gaussian noise (to many
digits, at any σ² that is not tiny), and a little more where ρ is Gaussian. A level of a column is a sum over the other columns of such a table, with variance
v·cells/levels; several tables that hold the column are joined by inverse variance. This is the error before counts are
made consistent, which lowers it, and before rows are drawn, which adds √(p(1 − p)/n) to a share.

Reads the card and the schema: public facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, inf, sqrt
from typing import Any

from dipsmith.privacy.gaussian_price import variance_needed
from dipsmith.schema import Schema
from dipsmith.synthesis.card import Card

LEAST_VARIANCE = 1e-12
"""Less noise than this is none."""

Z95 = 1.959963984540054


@dataclass(frozen=True)
class TableNoise:
    """A table that was measured `times` times with noise of standard deviation `sd` on each of its `cells` counts."""

    what: str
    attributes: tuple[str, ...] | None
    cells: int
    sd: float
    mechanism: str
    times: int = 1


def table_noise(card: Card, schema: Schema) -> list[TableNoise]:
    """The measured tables of a release, the loudest noise last; equal lines are counted once."""
    # Sums of weights have noise in units of their weights: it says nothing about counts.
    asked = [line for line in card.spending if not line.get("weighted")]
    lines = [line for line in asked if line["cells"] is not None and line["cost"]]
    tables = Counter(_noise_of_line(line, schema, card) for line in lines)
    return sorted((replace(table, times=n) for table, n in tables.items()), key=lambda table: table.sd)


def column_noise(tables: Sequence[TableNoise], schema: Schema) -> dict[str, float | None]:
    """By column, the standard deviation of the noise on the count of one level, from all measured tables that hold it.

    None where no measured table holds the column by itself.
    """
    found = {}
    for attribute in schema:
        information = 0.0
        for table in tables:
            if table.attributes is not None and attribute.name in table.attributes:
                # A table leaves out the cells that rules forbid, so count what it has.
                summed = max(1.0, table.cells / attribute.size)
                # At a very large ε the noise is 0 to double precision.
                information += table.times / (max(table.sd**2, LEAST_VARIANCE) * summed)
        found[attribute.name] = 1 / sqrt(information) if information else None
    return found


def least_visible_count(tables: Sequence[TableNoise]) -> float:
    """The count that the noise of the finest measured tables drowns: twice its standard deviation."""
    return 2 * max((t.sd for t in tables), default=inf)


def _noise_of_line(line: Mapping[str, Any], schema: Schema, card: Card) -> TableNoise:
    what, mechanism = str(line["what"]), str(line["mechanism"])
    names = line["attributes"] if "attributes" in line else _attributes_before_0_2(what)
    return TableNoise(
        what=what.replace("counts of ", "", 1),
        # None for other partitions (the leaves of a tree), and where a column was not released.
        attributes=tuple(names) if names and all(name in schema for name in names) else None,
        cells=int(line["cells"]),
        sd=sqrt(_variance(mechanism, float(line["sensitivity"]), float(line["cost"]), card)),
        mechanism=mechanism,
    )


def _attributes_before_0_2(what: str) -> list[str] | None:
    """The columns of a table by the text of its line, on cards of versions before 0.2, which do not list them."""
    _, counts, cells = what.partition("counts of ")
    names = cells.split(" × ")
    return names if counts and len(set(names)) == len(names) else None


def _variance(mechanism: str, sensitivity: float, cost: float, card: Card) -> float:
    if mechanism == "discrete Laplace":
        epsilon = cost if card.currency == "epsilon" else sqrt(2 * cost)
        q = exp(-epsilon / sensitivity)
        return 2 * q / (1 - q) ** 2
    normal = Fraction(sensitivity / (2 * cost))
    return float(variance_needed(normal) if card.gaussian else normal)
