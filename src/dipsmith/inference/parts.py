"""Formulas that end in "| by year": the same regression in each part of the rows.

Coefficients of all parts stand in one table, "year 1996: sex[T.M]". Parts share no row, so that estimates of two parts vary
by chance independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy

from dipsmith.errors import UsageError
from dipsmith.inference.combine import Combined
from dipsmith.regression.analysis import Analysis
from dipsmith.regression.estimates import Estimates, join_notes
from dipsmith.regression.model_frame import by_number, text_of

MOST_PARTS = 200


@dataclass(frozen=True, eq=False)
class PartByPart:
    """An estimator that fits an analysis to the rows of every value of a column."""

    analysis: Analysis
    column: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, analysis: Analysis, column: str, tables: Sequence[pa.Table]) -> PartByPart:
        """For the values that occur in some tables."""
        if column not in tables[0].column_names:
            some = ", ".join(tables[0].column_names[:20])
            raise UsageError(f"there is no column '{column}' to repeat the formula by; there are: {some}")
        if column in analysis.formula.columns:
            raise UsageError(f"the formula is repeated by '{column}', which is also one of its terms; leave one out")
        found = {v for t in tables for v in pc.unique(text_of(t.column(column))).to_pylist() if v is not None}
        if len(found) > MOST_PARTS:
            raise UsageError(
                f"'{column}' has {len(found)} values, at most {MOST_PARTS} parts are fitted; use a coarser one"
            )
        return cls(analysis, column, tuple(sorted(found, key=by_number)))

    def __call__(self, table: pa.Table) -> Estimates:
        """Fit every part; NaN where one has too few rows to be fitted."""
        text = text_of(table.column(self.column))
        each: dict[str, Estimates] = {}
        for value in self.values:
            try:
                each[value] = self.analysis(table.filter(pc.equal(text, value)))
            except UsageError:
                continue
        if not each:
            return self.analysis(table)  # says why it cannot be fitted
        names = next(iter(each.values())).names
        nothing = Estimates(names, np.full(len(names), np.nan), np.full((len(names),) * 2, np.nan), 0)
        found = [(f"{self.column} {v}", each.get(v, nothing)) for v in self.values]
        return stack_parts(found)

    def falling_back(self) -> PartByPart:
        """The same with Firth's method where a part is separated."""
        return replace(self, analysis=replace(self.analysis, falls_back=True))


def stack_parts(parts: Sequence[tuple[str, Estimates]]) -> Estimates:
    """The estimates of all parts in one table."""
    each = [e for _, e in parts]
    return Estimates(
        names=tuple(f"{part}: {name}" for part, e in parts for name in e.names),
        values=np.concatenate([e.values for e in each]),
        covariance=scipy.linalg.block_diag(*(e.covariance for e in each)),
        rows=sum(e.rows for e in each),
        df=min(e.df for e in each),
        notes=join_notes(each),
        family="firth" if any(e.family == "firth" for e in each) else each[0].family,
    )


def stack_combined(parts: Sequence[tuple[str, Combined]]) -> Combined:
    """The same for estimates that know their noise."""
    each = [c for _, c in parts]
    return replace(
        each[0],
        names=tuple(f"{part}: {name}" for part, c in parts for name in c.names),
        estimate=np.concatenate([c.estimate for c in each]),
        within=np.concatenate([c.within for c in each]),
        between=np.concatenate([c.between for c in each]),
        noise=np.concatenate([c.noise for c in each]),
        variance=np.concatenate([c.variance for c in each]),
        df=np.concatenate([c.df for c in each]),
        notes=tuple(dict.fromkeys(note for c in each for note in c.notes)),
    )
