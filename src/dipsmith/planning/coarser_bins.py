"""Bins with which planned odds would be told, where noise is likely to hide them: tried on the forecast, coarser and coarser.

Odds of whole rows come from one table of all their columns, and each bin of a number is a bin more beside every combination
of the others. Noise on a cell does not depend on how many cells there are, so that fewer of them have less of it in all.

Public facts only: the formula, the schema, the plan of the run, the stated number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from dipsmith.analyses.bin_doubt import number_names
from dipsmith.analyses.table_forecast import expect_from_tables
from dipsmith.methods.method import Planned
from dipsmith.regression.formula import RegressionFormula
from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.bins import by_width
from dipsmith.schema.proposals import nice_step

TRIED = (32, 16, 8)
"""Bins of every number of the formula."""


def advise_bins(analysis: PlannedAnalysis, schema: Schema, steps: Sequence[Planned], rows: int) -> str:
    """In words, the bins with which planned odds of whole rows are likely to be told; empty where none were found."""
    formula = RegressionFormula.parse(analysis.formula, schema.names)
    for count in TRIED:
        widths = _choose_widths(number_names(formula), schema, count)
        coarser = replace(schema, attributes=tuple(_with_width(a, widths.get(a.name)) for a in schema))
        found = expect_from_tables([analysis], coarser, steps, rows) if widths else ()
        if found and not any(e.hopeless for e in found):
            named = " and ".join(f"{name} in bins of {width:g}" for name, width in widths.items())
            return f"with {named} ({_cells(formula, coarser):,} cells instead of {_cells(formula, schema):,}) it is likely to be told"
    return ""


def _choose_widths(names: Sequence[str], schema: Schema, count: int) -> dict[str, float]:
    """The width of about so many bins, of the columns among some that have more."""
    found = {}
    for name in names:
        domain = schema[name].domain
        if isinstance(domain, Bins) and domain.scale in ("integer", "number") and len(domain.cuts) - 1 > count:
            whole = domain.scale == "integer"
            step = nice_step(domain.maximum - domain.minimum + whole, count)
            found[name] = ceil(step) if whole else step
    return found


def _with_width(attribute: Attribute, width: float | None) -> Attribute:
    """The same column in bins of one width."""
    old = attribute.domain
    if width is None or not isinstance(old, Bins):
        return attribute
    bins = by_width(old.scale, old.minimum, old.maximum, width)
    return replace(attribute, domain=replace(bins, missing=old.missing, open=old.open))


def _cells(formula: RegressionFormula, schema: Schema) -> int:
    return schema.size([n for n in schema.names if n in formula.columns])
