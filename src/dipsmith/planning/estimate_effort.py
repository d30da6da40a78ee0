"""What the estimates of planned analyses take: the noise of their tables is drawn again and again, and sent through the equations.

Of whole rows a table is drawn, split into one part for each subset of its columns, made to agree and put together again
(`analyses.agreed_tables`); for odds Newton's steps follow (`analyses.odds`). Under `label` the sums are few, and a forecast of
them is most of the work.

Odds that noise hides altogether are given up after a few draws. Whether it does depends on the rows, where noise on the whole
table is about a tenth of them (`HIDDEN`): there an estimate takes a fifth or five times of what is foreseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final

from dipsmith.analyses.cross_products import CrossProducts
from dipsmith.analyses.direct import AT_A_TIME, DECIDE, DRAWS
from dipsmith.analyses.odds import AT_ONCE, FEWEST, MOST_NUMBERS, MOST_WORK
from dipsmith.errors import UsageError
from dipsmith.methods.method import Planned
from dipsmith.methods.outlook import Effort
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.tables import asks_for_odds, tables_needed
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis

DRAWN_SECONDS, SUBSET_SECONDS = 2.5e-8, 5e-9
"""Per draw and cell: drawing and putting together; and for each subset of the table's columns."""
SOLVED_SECONDS, PAIR_SECONDS = 7.5e-8, 5e-10
"""Per draw and cell of odds: Newton's steps; and for each pair of coefficients."""
ODDS_BYTES, SUMS_BYTES = 64, 16
"""Per cell and draw that are handled at once."""
LABEL_SECONDS, LABEL_BYTES = 0.35, 25e6
"""Per analysis of public columns and labels: forecast, sums, labels that carry them."""
HIDDEN: Final = 0.09
"""Noise on the number of rows by the table of all columns, as a share of the rows, beyond which odds are likely to be hidden."""


def estimate_effort(
    analyses: Sequence[PlannedAnalysis], schema: Schema, steps: Sequence[Planned], rows: int | None
) -> Effort:
    """CPU seconds of all estimates, and the bytes of the largest."""
    if schema.neighbours == "label":
        each = [Effort(LABEL_SECONDS, LABEL_BYTES)] * len(analyses)
    else:
        each = [_of_whole_rows(a, schema, steps, rows) for a in analyses if schema.unit.order is None]
    return Effort(sum(e.seconds for e in each), max((e.memory for e in each), default=0.0))


def _of_whole_rows(analysis: PlannedAnalysis, schema: Schema, steps: Sequence[Planned], rows: int | None) -> Effort:
    if analysis.by is None and asks_for_odds(analysis, schema):
        return _of_odds(analysis, schema, steps, rows)
    tables = tables_needed([analysis], schema)
    parts = 1 if analysis.by is None else schema[analysis.by].size
    seconds = sum(DRAWS * schema.size(names) * _draw_seconds(len(names)) for names in tables)
    numbers = sum(map(schema.size, tables))
    return Effort(parts * seconds, SUMS_BYTES * min(DRAWS * numbers, max(AT_A_TIME, DECIDE * numbers)))


def _of_odds(analysis: PlannedAnalysis, schema: Schema, steps: Sequence[Planned], rows: int | None) -> Effort:
    formula = RegressionFormula.parse(analysis.formula, schema.names)
    cells = schema.size(formula.columns)
    try:
        numbers = cells * len(CrossProducts.terms_alone(formula, schema).names) ** 2
    except UsageError:  # too many columns to be estimated
        return Effort()
    if numbers > MOST_NUMBERS:
        return Effort()
    holding = [s for s in steps if s.sd is not None and set(formula.columns) <= set(s.attributes)]
    noise = min(((s.sd or 0.0) * sqrt(s.cells or cells) for s in holding), default=0.0)
    draws = min(DRAWS, max(DECIDE, MOST_WORK // numbers))
    first = DECIDE if DECIDE * cells <= AT_ONCE else FEWEST
    tried = first if noise > HIDDEN * (rows or 0) else draws
    each = _draw_seconds(len(formula.columns)) + SOLVED_SECONDS + PAIR_SECONDS * numbers / cells
    return Effort(tried * cells * each, ODDS_BYTES * min(tried * cells, max(AT_A_TIME, FEWEST * cells)))


def _draw_seconds(columns: int) -> float:
    return DRAWN_SECONDS + SUBSET_SECONDS * 2.0**columns
