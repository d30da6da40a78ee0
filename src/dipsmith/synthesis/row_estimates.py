"""Planned analyses of whole rows, estimated directly; and beside direct estimates, what a plain regression of the rows gives.

Labels are adjusted to carry planned results, and do not always reach them. So the regression that a reader would run is run
on the first set, and reported where it differs. Where all rows count and the response is public, the sums of the
labels that were drawn say the same (`analyses.calibrate.plain_coefficients`), and no row is read again.

Privacy
-------
Reads synthetic rows, noisy tables and noisy results: post-processing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.analyses.odds import estimate_planned
from dipsmith.analyses.results import Result
from dipsmith.errors import HopelessNoise, UsageError
from dipsmith.privacy.curator import Curator
from dipsmith.regression.analysis import Analysis
from dipsmith.regression.model_frame import text_of
from dipsmith.schema import Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.synthesis.order import Order


def estimate_whole_rows(order: Order, curator: Curator) -> tuple[Result, ...]:
    """Estimate planned regressions from the tables that were measured for them; none where tables cannot tell.

    Privacy
    -------
    Reads noisy tables, and the number of rows where it is public.
    """
    if not order.analyses or len(order.shares(order.budget)) > 1 or order.schema.unit.order is not None:
        return ()
    found: list[Result] = []
    for analysis in order.analyses:
        try:
            tables = [answer.measurement for answer in curator.answers if not answer.block]
            found += estimate_planned(analysis, order.schema, tables, rows=curator.rows)
        except UsageError as error:
            warnings.warn(f"{analysis}: no direct estimate, {error}", HopelessNoise, stacklevel=3)
    return tuple(found)


def add_row_estimates(
    results: Sequence[Result], analyses: Sequence[PlannedAnalysis], table: pa.Table, schema: Schema
) -> tuple[Result, ...]:
    """Results with what the rows of a set give for each coefficient; nothing is added where they cannot be fitted.

    What the sums of drawn labels have said already is left as it is.
    """
    planned = {a.text: a for a in analyses}
    return tuple(
        r if any(c.in_rows is not None for c in r.coefficients) else _with_rows(r, planned[r.formula], table, schema)
        for r in results
    )


def _with_rows(result: Result, planned: PlannedAnalysis, table: pa.Table, schema: Schema) -> Result:
    if planned.by is not None and result.part is not None:
        value = result.part.removeprefix(f"{planned.by} ")
        table = table.filter(pc.equal(text_of(table.column(planned.by)), value))
    try:
        analysis = Analysis.of(
            planned.formula,
            [table],
            schema=schema,
            reference=dict(planned.reference),
            family="logistic" if result.model == "logistic" else "ols",
        )
        found = analysis(table)
    except UsageError:  # labels that predict without error, or of which only one was drawn
        return result
    plain = {n: float(b) for n, b in zip(found.names, found.values, strict=True) if np.isfinite(b)}
    return result.with_rows(plain.get(c.name) for c in result.coefficients)


def row_notes(results: Sequence[Result]) -> tuple[str, ...]:
    """What the card says of planned analyses that a plain regression of the rows does not give: one note for each."""
    apart: dict[str, list[Result]] = {}
    for result in results:
        if result.row_difference:
            apart.setdefault(result.formula, []).append(result)
    notes = []
    for first, *others in apart.values():
        more = f" (and {len(others)} other parts)" if others else ""
        notes.append(
            f"The rows do not carry {first.title}{more}: {first.row_difference}. Use results.json or ds.fit "
            "for it, not lm or another regression of the rows."
        )
    return tuple(notes)
