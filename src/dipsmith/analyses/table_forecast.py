"""What to expect of planned regressions of whole rows, before anything is measured.

The tables that will be measured, and the noise on them, are known from the plan. What they will count is not: the forecast
takes numbers to lie in a bell around the middle of their bounds, of several labels the first to be frequent and the others
alike, columns to be unrelated, and of a logistic regression the answer to be yes in one row of four, with odds that its terms
move by one in logarithms (`ASSUMED` says it). The estimate is made from tables as they would be then; its standard errors are the
forecast. Were levels equally frequent instead, numbers would reach their bounds in as many rows as their middle, and noise
would seem several times smaller than it is of real tables, whose cells at the bounds hold noise and no rows.

Privacy
-------
Reads formulas, the schema, a plan and a number of rows that is public or stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, sqrt

import numpy as np
import scipy

from dipsmith.analyses.agreed_tables import Float, Names, NoisyMarginal
from dipsmith.analyses.cross_products import CrossProducts
from dipsmith.analyses.direct import DECIDE
from dipsmith.analyses.forecast import RARER
from dipsmith.analyses.measure import Expectation
from dipsmith.analyses.odds import HIDDEN, estimate_planned
from dipsmith.analyses.results import DirectCoefficient, Result
from dipsmith.methods.method import Planned
from dipsmith.privacy.budget import PureDP
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.tables import asks_for_odds
from dipsmith.schema import Attribute, Bins, Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

ASSUMED = (
    "nothing is known of the rows yet: numbers are taken to lie in a bell between their bounds, columns to be unrelated, and the "
    "answers of odds to be yes in one row of four; of rarer labels and answers intervals are wider, or they are not told"
)

REACH = 3.0
"""Standard deviations of a number from the middle of its bounds to each of them."""

CAUTION = 2.0
"""Odds are not promised that would not be told with so many times the noise: real tables are less even than these."""

MOST_CELLS = 5_000_000
"""Of odds that are estimated from one table."""

SHARE, MOVED = 0.25, 1.0
"""Of a logistic regression: the rows whose answer is yes, and the standard deviation of the logarithm of their odds."""


def expect_from_tables(
    analyses: Iterable[PlannedAnalysis], schema: Schema, steps: Sequence[Planned], rows: int
) -> tuple[Expectation, ...]:
    """How precise every coefficient can be, if these tables are measured of so many rows; raises where tables cannot tell."""
    found: list[Expectation] = []
    for analysis in analyses:
        rates = _Rates.of(analysis, schema)
        tables = [rates.expected_table(step, rows) for step in steps if step.attributes and step.sd is not None]
        for result in estimate_planned(analysis, schema, tables, rows=rows, caution=CAUTION, draws=DECIDE):
            found += [_expectation(analysis, result, c) for c in result.coefficients if c.name != "Intercept"]
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Rates:
    """How often every combination of labels is taken to occur: columns unrelated, but for odds of `names` by a factor."""

    schema: Schema
    names: Names = ()
    unrelated: Float | None = None
    related: Float | None = None

    @classmethod
    def of(cls, analysis: PlannedAnalysis, schema: Schema) -> _Rates:
        """What an analysis would find."""
        if analysis.by is not None or not asks_for_odds(analysis, schema):
            return cls(schema)
        formula = RegressionFormula.parse(analysis.formula, schema.names)
        names = tuple(n for n in schema.names if n in formula.columns)
        if schema.size(names) > MOST_CELLS:
            return cls(schema)
        unrelated = _unrelated(schema, names)
        columns = CrossProducts.terms_alone(formula, schema).columns_on(names, schema)
        return cls(schema, names, unrelated, _with_odds(unrelated, columns[:, :-1], columns[:, -1]))

    def expected_table(self, step: Planned, rows: int) -> NoisyMarginal:
        """A table that will be measured, as it would be without its noise."""
        cells = Marginal.of(self.schema, step.attributes)
        possible = cells.possible()
        noisy = (np.ones(cells.size) if possible is None else possible.astype(np.float64)).reshape(cells.shape)
        values = noisy * self._rates(cells.attributes)
        variance = (step.sd or 0.0) ** 2 * noisy
        return NoisyMarginal(cells.attributes, rows * values / values.sum(), variance, isinstance(step.budget, PureDP))

    def _rates(self, attributes: Names) -> Float:
        rates = _unrelated(self.schema, attributes)
        if self.unrelated is None or self.related is None:
            return rates
        dropped = tuple(i for i, n in enumerate(self.names) if n not in attributes)
        factor = self.related.sum(axis=dropped) / self.unrelated.sum(axis=dropped)
        shape = [self.schema[n].size if n in self.names else 1 for n in attributes]
        return np.asarray(rates * factor.reshape(shape))


def _unrelated(schema: Schema, names: Names) -> Float:
    """How often combinations of labels occur, were columns unrelated."""
    return reduce(lambda rates, n: np.multiply.outer(rates, _frequencies(schema[n])), names, np.ones(()))


def _frequencies(attribute: Attribute) -> Float:
    """How often each label of a column is taken to occur."""
    size = attribute.size
    if isinstance(attribute.domain, Bins) or attribute.type == "integer":
        place = (2 * np.arange(size) + 1) / size - 1
        bell = np.exp(-((REACH * place) ** 2) / 2)
        return np.asarray(bell / bell.sum())
    if size <= 2:
        return np.full(size, 1 / size)
    return np.array([1 - RARER * (size - 1) / size, *[RARER / size] * (size - 1)])


def _with_odds(rates: Float, X: Float, yes: Float) -> Float:
    """The same with answers whose odds all terms move alike."""
    whole = rates.ravel()
    spread = np.sqrt(np.maximum(whole @ X**2 - (whole @ X) ** 2, 0.0))
    along = (X - whole @ X)[:, spread > 1e-9] @ (1 / spread[spread > 1e-9])
    moved = MOVED * along / max(sqrt(whole @ along**2), 1e-9)

    def answers(intercept: float) -> Float:
        return np.asarray(scipy.special.expit(intercept + moved))

    share = answers(scipy.optimize.brentq(lambda a: whole @ answers(a) - SHARE, -30.0, 30.0))
    said = whole @ yes
    if not 0 < said < 1:
        return rates
    found = whole * np.where(yes > 0, share / said, (1 - share) / (1 - said))
    return np.asarray((found / found.sum()).reshape(rates.shape))


def _expectation(analysis: PlannedAnalysis, result: Result, found: DirectCoefficient) -> Expectation:
    """A coefficient is hopeless that would not be told, or whose noise is wider than the response varies."""
    if found.se is None or found.noise_share is None:
        refusal = None if result.refusal == HIDDEN else result.refusal
        reason = "" if refusal is None else f"{refusal.reason}; {refusal.ask[0].lower()}{refusal.ask[1:]}"
        return Expectation(result.title, found.name, inf, inf, inf, analysis.width, True, reason)
    noise, sampling = found.se * sqrt(found.noise_share), found.se * sqrt(max(1 - found.noise_share, 0.0))
    hopeless = result.sigma is not None and 1.96 * noise > result.sigma
    return Expectation(result.title, found.name, sampling, noise, 3.92 * found.se, analysis.width, hopeless)
