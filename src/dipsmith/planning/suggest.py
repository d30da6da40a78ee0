"""Which method to use, from public facts alone: attributes, domain sizes, rows, budget, relation.

The rules follow from how each method spends: a full table is best while its noise is small against
the rows; a tree of pairs costs little and never blows up; adaptive marginals need budget for their
rounds and pay back when there is some; under `label` the log-linear labeller keeps every predictor at
once with tables of a few dozen cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from dipsmith.methods.method import count_noise
from dipsmith.privacy.budget import Budget, PureDP, zcdp_to_approx
from dipsmith.schema import Schema

FLAT_NOISE = 0.02
"""A full table is suggested while the noise in its empty cells is below this share of the rows."""

AIM_SIGNAL = 4_000.0
"""Rows × ε above which adaptive marginals repay their rounds.

Measured on Adult and on simulated voters (``benchmarks/suggest.py``): at 300 to 1,500 MST errs less on both, at 3,000
on one of the two, from 5,000 on AIM errs less on both.
"""

ASSUMED_ROWS = 10_000


@dataclass(frozen=True)
class Suggestion:
    """A method's name and the reason in one sentence."""

    method: str
    reason: str


def suggest(schema: Schema, budget: Budget, rows: int | None = None) -> Suggestion:
    """The method to try first.

    Examples
    --------
    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> sex = Attribute("sex", "string", Categories.of("FM", other="M"))
    >>> suggest(Schema("t", (sex,), Unit(), "replace"), PureDP(1), 1000).method
    'flat'
    """
    if schema.neighbours == "label":
        return Suggestion(
            "loglinear",
            "private columns beside public ones: a log-linear model holds all public columns at once with one small noisy "
            "table each, and keeps planned regressions at a fraction of the ε that trees need",
        )
    n = ASSUMED_ROWS if rows is None else max(rows, 1)
    said = "" if rows is not None else f" (assuming {n:,} rows; give --rows)"
    sd = count_noise(schema.neighbours, schema.unit.max_rows, budget).sd
    cells = schema.size()
    if cells * sd / sqrt(8) <= FLAT_NOISE * n:
        return Suggestion(
            "flat",
            f"the full table has only {cells:,} cells, and its noise is small against {n:,} rows{said}: nothing need be modelled",
        )
    if len(schema.attributes) < 3:
        return Suggestion(
            "marginals",
            f"two columns with {cells:,} cells: one noisy table, projected; coarser bins would help{said}",
        )
    epsilon = budget.epsilon if isinstance(budget, PureDP) else zcdp_to_approx(budget.rho, 1e-9)
    if n * epsilon / schema.unit.max_rows >= AIM_SIGNAL:
        return Suggestion(
            "aim",
            f"{len(schema.attributes)} columns, and rows × ε = {n * epsilon:,.0f} is enough to choose marginals adaptively{said}",
        )
    return Suggestion(
        "mst",
        f"{len(schema.attributes)} columns, and rows × ε = {n * epsilon:,.0f} is too little for more than a tree of pairs{said}",
    )
