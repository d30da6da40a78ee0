"""What the noise alone did to a release, from what its card says was measured.

A line of the card names a table, its noise mechanism, sensitivity and price; that fixes the variance v of the noise
on one count: 2q/(1 − q)² with q = e^{−ε/Δ} for discrete Laplace noise, Δ₂²/(2ρ) for discrete Gaussian noise (to many
digits, at any σ² that is not tiny), and a little more where ρ is Gaussian. A level of a column is a sum over the other columns of such a table, with variance
v·cells/levels; several tables that hold the column are joined by inverse variance. This is the error before counts are
made consistent, which lowers it, and before rows are drawn, which adds √(p(1 − p)/n) to a share.

Of a panel some tables count some rows of each unit, or one line of it: noise on a share of rows is that much larger.

Reads the card and the schema, which are public facts, and of a panel how long synthetic careers are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, inf, sqrt
from typing import Any

from dipsmith.privacy.gaussian_price import variance_needed
from dipsmith.schema import Schema
from dipsmith.schema.steps import PRESENCE, entry_schema
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.panel_facts import PanelFacts

LEAST_VARIANCE = 1e-12
"""Less noise than this is none."""

Z95 = 1.959963984540054


@dataclass(frozen=True)
class TableNoise:
    """A table that was measured `times` times with noise of standard deviation `sd` on each of its `cells` counts.

    `share` is what it counts of the rows; None where that is not known.
    """

    what: str
    attributes: tuple[str, ...] | None
    cells: int
    sd: float
    mechanism: str
    times: int = 1
    share: float | None = 1.0


def table_noise(card: Card, schema: Schema, careers: PanelFacts | None = None) -> list[TableNoise]:
    """The measured tables of a release, the loudest noise last; equal lines are counted once.

    `careers` are those of a panel: how many rows a table counts follows from how long they are.
    """
    # Sums of weights have noise in units of their weights: it says nothing about counts.
    asked = [line for line in card.spending if not line.get("weighted")]
    lines = [line for line in asked if line["cells"] is not None and line["cost"]]
    tables = Counter(_noise_of_line(line, schema, card, careers) for line in lines)
    return sorted((replace(table, times=n) for table, n in tables.items()), key=lambda table: table.sd)


def column_noise(tables: Sequence[TableNoise], schema: Schema) -> dict[str, float | None]:
    """By column, the standard deviation of the noise on the count of one level, from all measured tables that hold it.

    None where no measured table holds the column by itself.
    """
    found = {}
    for attribute in schema:
        information = 0.0
        for table in tables:
            if table.attributes is not None and table.share and attribute.name in table.attributes:
                # A table leaves out the cells that rules forbid, so count what it has.
                summed = max(1.0, table.cells / attribute.size)
                # At a very large ε the noise is 0 to double precision.
                information += table.times * table.share**2 / (max(table.sd**2, LEAST_VARIANCE) * summed)
        found[attribute.name] = 1 / sqrt(information) if information else None
    return found


def least_visible_count(tables: Sequence[TableNoise]) -> float:
    """The count of rows that the noise of the finest measured tables drowns: twice its standard deviation."""
    of_rows = [t for t in tables if t.attributes is not None] or tables
    return 2 * max((t.sd / t.share for t in of_rows if t.share), default=inf)


def _noise_of_line(
    line: Mapping[str, Any], schema: Schema, card: Card, careers: PanelFacts | None = None
) -> TableNoise:
    what, mechanism = str(line["what"]), str(line["mechanism"])
    some = _SOME_STEPS.match(what)
    if some:
        what = f"{what[some.end() :]}, at most {some[1]} rows of one {schema.unit.column}"
    names = line["attributes"] if "attributes" in line else _attributes_before_0_2(what)
    return TableNoise(
        what=what.replace("counts of ", "", 1),
        # None for other partitions (the leaves of a tree), and where a column was not released.
        attributes=tuple(names) if names and all(name in schema for name in names) else None,
        cells=int(line["cells"]),
        sd=sqrt(_variance(mechanism, float(line["sensitivity"]), float(line["cost"]), card)),
        mechanism=mechanism,
        share=1.0 if careers is None else _share_counted(schema, names or (), some and int(some[1]), careers),
    )


_SOME_STEPS = re.compile(r"steps of a unit=at most (\d+): ")


def _share_counted(schema: Schema, names: Sequence[str], most: int | None, careers: PanelFacts) -> float | None:
    """Which share of a panel's rows a table counts: some of each unit, or one line of it."""
    if PRESENCE in names:
        return None
    if not set(entry_schema(schema).names).isdisjoint(names):
        most = 1
    return 1.0 if most is None else careers.share_of_steps(most)


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
