"""One analysis: a formula with everything that is needed to fit it to any set of a release.

The one path from a formula to coefficients: the formula is parsed and its terms expanded (`formula`), its columns
made (`model_frame`), and least squares or a logistic regression solved. `dipsmith.fit`, `compare` and studies use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import pyarrow as pa

from dipsmith.errors import UsageError
from dipsmith.regression.arithmetic import evaluate
from dipsmith.regression.estimates import Estimates
from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.least_squares import least_squares, ridge
from dipsmith.regression.logistic import firth, maximum_likelihood, ridge_logistic
from dipsmith.regression.matrix import split_factors
from dipsmith.regression.model_frame import (
    Levels,
    ModelFrame,
    has_binary_response,
    levels_of,
    model_frame,
    read_columns,
)
from dipsmith.schema import Schema

Family = Literal["auto", "ols", "ridge", "logistic", "firth"]

NAMES: Final[Mapping[str, str]] = {
    "ols": "Least squares",
    "ridge": "Ridge regression",
    "logistic": "Logistic regression",
    "firth": "Firth's logistic regression",
}

SEPARATED: Final = (
    "a combination of columns predicts some responses without error (separation), so that maximum likelihood does "
    "not exist; use family='firth', or family='logistic' with penalty=1"
)


@dataclass(frozen=True, eq=False)
class Analysis:
    """A formula that is ready to be fitted to a table: an estimator.

    `levels` are those of its categories, the reference first; `family` is never "auto"; `penalty` is λ of a ridge;
    with `falls_back` a separated table is fitted by Firth's method instead of refused; `weights` is the column by which rows
    are weighted.
    """

    formula: RegressionFormula
    levels: Levels
    family: str
    robust: bool = False
    cluster: str | None = None
    penalty: float | None = None
    falls_back: bool = False
    weights: str | None = None

    @classmethod
    def of(
        cls,
        formula: str,
        tables: Sequence[pa.Table],
        *,
        schema: Schema | None = None,
        reference: Mapping[str, object] | None = None,
        family: Family = "auto",
        robust: bool = False,
        cluster: str | None = None,
        penalty: float | None = None,
        weights: str | None = None,
    ) -> Analysis:
        """Read a formula against the tables that it is for, and decide the family."""
        if family not in get_args(Family):
            raise UsageError(f"family is '{family}', expected one of {', '.join(get_args(Family))}")
        if penalty is not None and not (penalty >= 0 and family in ("ridge", "logistic")):
            raise UsageError("penalty is a number of 0 or more, for family='ridge' or family='logistic'")
        if family == "ridge" and (robust or cluster is not None):
            raise UsageError(
                "a ridge regression has no robust or clustered errors; leave them out, or use family='ols'"
            )
        if weights is not None and family not in ("auto", "ols"):
            raise UsageError(
                f"weights go with least squares; use family='ols' (a share, of two levels), not '{family}'"
            )
        parts, levels = read_formula(formula, tables, schema, reference or {})
        if family != "auto" or weights is not None:
            family = "ols" if family == "auto" else family
            return cls(parts, levels, family, robust, cluster, penalty, weights=weights)
        logistic = all(has_binary_response(parts, t, levels) for t in tables)
        return cls(parts, levels, "logistic" if logistic else "ols", robust, cluster, penalty, True)

    def frame(self, table: pa.Table) -> ModelFrame:
        """The numbers of one table."""
        return model_frame(self.formula, table, self.levels, self.cluster, self.weights)

    def __call__(self, table: pa.Table) -> Estimates:
        """Fit one table."""
        frame = self.frame(table)
        if self.family == "ols":
            return least_squares(frame, robust=self.robust)
        if self.family == "ridge":
            return ridge(frame, self.penalty)
        if self.family == "firth":
            return firth(frame, robust=self.robust)
        if self.penalty:
            return ridge_logistic(frame, self.penalty, robust=self.robust)
        found = maximum_likelihood(frame, robust=self.robust)
        if found is not None:
            return found
        if self.falls_back:
            return replace(firth(frame, robust=self.robust), family="firth")
        raise UsageError(SEPARATED)

    def of_one_family(self, each: Sequence[Estimates]) -> Analysis:
        """Firth's method for all tables where one was separated: coefficients of two methods do not compare."""
        return replace(self, family="firth") if any(e.family == "firth" for e in each) else self

    @property
    def name(self) -> str:
        """What it is called in print."""
        robust = ", robust errors" if self.robust or self.weights else ""
        weighted = f" weighted by {self.weights}" if self.weights else ""
        return NAMES[self.family] + weighted + (f", errors clustered by {self.cluster}" if self.cluster else robust)

    @property
    def references(self) -> str:
        """The levels that coefficients are relative to."""
        used = {n: v[0] for n, v in self.levels.items() if n in self.formula.inside}
        return ", ".join(f"{n} = {level}" for n, level in used.items() if n != self.formula.response_column)


def read_formula(
    formula: str, tables: Sequence[pa.Table], schema: Schema | None, reference: Mapping[str, object]
) -> tuple[RegressionFormula, Levels]:
    """A formula and the levels of its categories; a function of a category is refused here, whatever the rows say."""
    parts = RegressionFormula.parse(formula, tables[0].column_names)
    levels = levels_of(parts, tables, schema, reference)
    columns, _ = read_columns(parts, tables[0].slice(0, 0), levels)
    factors, categories = split_factors(parts.terms, columns)
    for part in (*(() if parts.response_column in levels else (parts.response,)), *factors):
        if part not in categories:
            evaluate(part, columns, 0)
    return parts, levels
