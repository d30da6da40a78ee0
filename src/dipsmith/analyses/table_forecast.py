"""What to expect of planned regressions of whole rows, before anything is measured.

The tables that will be measured, and the noise on them, are known from the plan. The estimate is made from tables as they
would be, were columns unrelated and levels equally frequent; its standard errors are the forecast.

Privacy
-------
Reads formulas, the schema, a plan and a number of rows that is public or stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, sqrt

import numpy as np

from dipsmith.analyses.agreed_tables import NoisyMarginal
from dipsmith.analyses.measure import Expectation
from dipsmith.analyses.odds import estimate_planned
from dipsmith.analyses.results import DirectCoefficient, Result
from dipsmith.methods.method import Planned
from dipsmith.privacy.budget import PureDP
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis


def expect_from_tables(
    analyses: Iterable[PlannedAnalysis], schema: Schema, steps: Sequence[Planned], rows: int
) -> tuple[Expectation, ...]:
    """How precise every coefficient can be, if these tables are measured of so many rows; raises where tables cannot tell."""
    tables = [_expected_table(schema, step, rows) for step in steps if step.attributes and step.sd is not None]
    found: list[Expectation] = []
    for analysis in analyses:
        for result in estimate_planned(analysis, schema, tables, rows=rows):
            found += [_expectation(analysis, result, c) for c in result.coefficients if c.name != "Intercept"]
    return tuple(found)


def _expected_table(schema: Schema, step: Planned, rows: int) -> NoisyMarginal:
    cells = Marginal.of(schema, step.attributes)
    possible = cells.possible()
    noisy = np.ones(cells.size) if possible is None else possible.astype(np.float64)
    values = rows * noisy / noisy.sum()
    variance = (step.sd or 0.0) ** 2 * noisy
    pure = isinstance(step.budget, PureDP)
    return NoisyMarginal(cells.attributes, values.reshape(cells.shape), variance.reshape(cells.shape), pure)


def _expectation(analysis: PlannedAnalysis, result: Result, found: DirectCoefficient) -> Expectation:
    """A coefficient that would not be told, or whose noise is wider than the response varies, is hopeless."""
    if found.se is None or found.noise_share is None:
        return Expectation(result.title, found.name, inf, inf, inf, analysis.width, True)
    noise, sampling = found.se * sqrt(found.noise_share), found.se * sqrt(max(1 - found.noise_share, 0.0))
    hopeless = result.sigma is not None and 1.96 * noise > result.sigma
    return Expectation(result.title, found.name, sampling, noise, 3.92 * found.se, analysis.width, hopeless)
