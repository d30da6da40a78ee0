"""What the noise alone did to a release, from what its card says was measured.

A line of the card names a table, its noise mechanism, sensitivity and price; that fixes the variance v of the noise
on one count: 2q/(1 − q)² with q = e^{−ε/Δ} for discrete Laplace noise, Δ₂²/(2ρ) for discrete Gaussian noise (to many
digits, at any σ² that is not tiny). A level of a column is a sum over the other columns of such a table, with variance
v·cells/levels; several tables that hold the column are joined by inverse variance. This is the error before counts are
made consistent, which lowers it, and before rows are drawn, which adds √(p(1 − p)/n) to a share.

Reads the card and the schema: public facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, prod, sqrt

from dipsmith.schema import Schema
from dipsmith.synthesis.card import Card

LEAST_VARIANCE = 1e-12
"""Less noise than this is none."""

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Measured:
    """A table that was measured `times` times with noise of standard deviation `sd` on each of its `cells` counts."""

    what: str
    attributes: tuple[str, ...] | None
    cells: int
    sd: float
    mechanism: str
    times: int


@dataclass(frozen=True)
class ColumnNoise:
    """The noise on the count of one level of a column; None where no measured table holds the column by itself."""

    name: str
    levels: int
    sd: float | None


def measured(card: Card, schema: Schema) -> list[Measured]:
    """The measured tables of a release, the loudest noise last; equal lines are counted once."""
    seen: Counter[tuple[str, int, float, str]] = Counter()
    for line in card.spending:
        if line["cells"] is None or not line["cost"]:
            continue
        what = str(line["what"])
        sd = sqrt(
            _variance(str(line["mechanism"]), float(line["sensitivity"]), float(line["cost"]), card.currency)
        )
        seen[(what, int(line["cells"]), sd, str(line["mechanism"]))] += 1
    found = [
        Measured(what.replace("counts of ", "", 1), _attributes(what, schema), cells, sd, mechanism, times)
        for (what, cells, sd, mechanism), times in seen.items()
    ]
    return sorted(found, key=lambda m: m.sd)


def column_noise(tables: Sequence[Measured], schema: Schema) -> list[ColumnNoise]:
    """The noise on one level of every column, from all measured tables that hold it."""
    found = []
    for attribute in schema:
        information = 0.0
        for table in tables:
            if table.attributes is not None and attribute.name in table.attributes:
                # A table leaves out the cells that rules forbid, so count what it has.
                summed = max(1.0, table.cells / attribute.size)
                # At a very large ε the noise is 0 to double precision.
                information += table.times / (max(table.sd**2, LEAST_VARIANCE) * summed)
        found.append(
            ColumnNoise(attribute.name, attribute.size, 1 / sqrt(information) if information else None)
        )
    return found


def drowned_below(tables: Sequence[Measured]) -> float:
    """The count that the noise of the finest measured tables drowns: twice its standard deviation."""
    return 2 * max((t.sd for t in tables), default=inf)


def _attributes(what: str, schema: Schema) -> tuple[str, ...] | None:
    """The columns of a table that crosses columns of the schema; None for others (the leaves of a tree)."""
    _, said, cells = what.partition("counts of ")
    names = tuple(cells.split(" × "))
    if not said or not all(name in schema for name in names) or len(set(names)) < len(names):
        return None
    return names if prod(schema[n].size for n in names) else None


def _variance(mechanism: str, sensitivity: float, cost: float, currency: str) -> float:
    if mechanism == "discrete Laplace":
        epsilon = cost if currency == "epsilon" else sqrt(2 * cost)
        q = exp(-epsilon / sensitivity)
        return 2 * q / (1 - q) ** 2
    return sensitivity / (2 * cost)
