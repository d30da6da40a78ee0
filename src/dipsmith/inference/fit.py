"""`fit`: a regression on every set of a release, and one honest table of coefficients.

A formula is fitted to each set as it would be to a sample, and the results are combined by the rule that the
card calls for: T = ū + B/m for sets that were sanitised separately (`combine`), the mechanism run again for
one set or sets of one model (`noise_aware`). A plain table can be given as well; then nothing is known of any
noise, and the result says so.

Families: ordinary least squares with any number of fixed effects (pyfixest), ridge, logistic regression
by maximum likelihood or with a ridge, and Firth's for separated data. "auto" takes least squares for numbers
and logistic regression for two levels, Firth's for all sets where one is separated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.inference.combine import DRAWN, Combined, Estimate, as_text, combine
from dipsmith.inference.design import Design, Levels, binary, design, extra, levels_of
from dipsmith.inference.estimates import Estimates, stacked
from dipsmith.inference.formula import Analysed, analysed
from dipsmith.inference.least_squares import least_squares
from dipsmith.inference.logistic import firth, maximum_likelihood, ridge_logistic
from dipsmith.inference.noise_aware import REPLICATES, noise_aware, sampling_only
from dipsmith.inference.ridge import ridge
from dipsmith.inference.tests import Significance, referred
from dipsmith.methods.method import Method
from dipsmith.report.content import Table
from dipsmith.schema import Schema
from dipsmith.sources import source
from dipsmith.synthesis.release import Release

Family = Literal["auto", "ols", "ridge", "logistic", "firth"]
Rule = Literal["auto", "combine", "noise-aware", "sampling"]

NAMES: Final[Mapping[str, str]] = {
    "ols": "Least squares",
    "ridge": "Ridge regression",
    "logistic": "Logistic regression",
    "firth": "Firth's logistic regression",
}

LEVEL: Final = re.compile(r"\[(?:T\.)?.*?\](?=:|$)")
"""The level in a coefficient's name: what it leaves is the term."""

SEPARATED: Final = (
    "a combination of columns predicts some responses without error (separation), so that maximum likelihood does "
    "not exist; use family='firth', or family='logistic' with penalty=1"
)


@dataclass(frozen=True, eq=False)
class Analysis:
    """A formula with everything that is needed to fit it to any set of a release: an estimator.

    Attributes
    ----------
    formula
        In parts.
    levels
        Of its categories, the reference first.
    family
        Never "auto".
    robust, cluster
        Which errors.
    penalty
        λ of a ridge.
    falls_back
        Whether a separated set is fitted by Firth's method instead of refused.
    """

    formula: Analysed
    levels: Levels
    family: str
    robust: bool = False
    cluster: str | None = None
    penalty: float | None = None
    falls_back: bool = False

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
        parts = analysed(formula, tables[0].column_names)
        levels = levels_of(parts, tables, schema, dict(reference or {}))
        analysis = cls(parts, levels, family, robust, cluster, penalty)
        if family == "auto":
            logistic = all(binary(parts, t, levels) for t in tables)
            return replace(analysis, family="logistic" if logistic else "ols", falls_back=True)
        return analysis

    def design(self, table: pa.Table) -> Design:
        """The numbers of one table."""
        return design(self.formula, table, self.levels, self.cluster)

    def __call__(self, table: pa.Table) -> Estimates:
        """Fit one table."""
        made = self.design(table)
        if self.family == "ols":
            return least_squares(made, robust=self.robust)
        if self.family == "ridge":
            return ridge(made, self.penalty)
        if self.family == "firth":
            return firth(made, robust=self.robust)
        if self.penalty:
            return ridge_logistic(made, self.penalty, robust=self.robust)
        found = maximum_likelihood(made, robust=self.robust)
        if found is not None:
            return found
        if self.falls_back:
            return replace(firth(made, robust=self.robust), family="firth")
        raise UsageError(SEPARATED)

    @property
    def name(self) -> str:
        """What it is called in print."""
        errors = (
            f", errors clustered by {self.cluster}"
            if self.cluster
            else ", robust errors"
            if self.robust
            else ""
        )
        return NAMES[self.family] + errors

    @property
    def references(self) -> str:
        """The levels that coefficients are relative to."""
        used = {n: v[0] for n, v in self.levels.items() if n in self.formula.inside}
        return ", ".join(f"{n} = {level}" for n, level in used.items() if n != self.formula.plain)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted formula: combined coefficients, and what every set said by itself.

    Attributes
    ----------
    analysis
        What was fitted.
    combined
        Estimates, standard errors, intervals and p-values.
    each
        The estimates from every set.
    """

    analysis: Analysis
    combined: Combined
    each: tuple[Estimates, ...]

    @property
    def formula(self) -> str:
        """As it was written."""
        return self.analysis.formula.text

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients."""
        return self.combined.names

    def __getitem__(self, name: str) -> Estimate:
        return self.combined[name]

    def at(self, level: float) -> Fit:
        """The same with intervals of another level."""
        return replace(self, combined=self.combined.at(level))

    def joint(self, *terms: str) -> Significance:
        """Test that all coefficients of some terms are 0 together.

        Parameters
        ----------
        terms
            Terms or single coefficients: "race" means every level of race, "race:sex" every product of the two.
        """
        at = [i for i, n in enumerate(self.names) if n in terms or LEVEL.sub("", n) in terms]
        at = [i for i in at if np.isfinite(self.combined.estimate[i])]
        if not at:
            raise UsageError(
                f"there is no coefficient of {' or '.join(terms)}; there are: {', '.join(self.names[:20])}"
            )
        within = np.mean([e.covariance[np.ix_(at, at)] for e in self.each], axis=0)
        try:
            whiten = np.linalg.inv(np.linalg.cholesky(within)).T
        except np.linalg.LinAlgError:
            raise UsageError(
                f"the coefficients of {' and '.join(terms)} vary by chance too little to be tested together: the response "
                "is fitted without error, or one follows from the others"
            ) from None
        z = self.combined.estimate[at] @ whiten
        if self.combined.runs is not None:
            moved = self.combined.runs[:, at]
            scattered, share = moved[np.isfinite(moved).all(axis=1)], 1.0
        elif self.combined.variance_is_sampling:
            scattered, share = np.zeros((2, len(at))), 1.0
        else:
            scattered, share = np.array([e.values[at] for e in self.each]), 1 / len(self.each)
        residual = min(e.df for e in self.each)
        return referred(
            float(z @ z), len(at), scattered @ whiten, share, f"{' and '.join(terms)} all 0", residual
        )

    def to_arrow(self) -> Any:
        """The coefficients as a `pyarrow.Table`."""
        return self.combined.to_arrow()

    def to_pandas(self) -> Any:
        """The coefficients as a pandas frame, indexed by name."""
        return self.combined.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.combined.__arrow_c_stream__(requested_schema)

    def content(self) -> Table:
        """The coefficients as a table of a report."""
        rows, m = self.each[0].rows, len(self.each)
        said = f"{self.formula}: {self.analysis.name}, {rows:,} rows" + (
            f" in each of {m} sets" if m > 1 else ""
        )
        references = self.analysis.references
        table = self.combined.content(said)
        return replace(
            table,
            note=" ".join(filter(None, (f"Reference: {references}." if references else "", table.note))),
        )

    def __str__(self) -> str:
        table = self.content()
        return f"{table.caption}\n\n{as_text(table)}"

    def _repr_html_(self) -> str:
        from dipsmith.report.sections import loose

        return loose(self.content())


def fit(
    data: Any,
    formula: str,
    *,
    reference: Mapping[str, object] | None = None,
    family: Family = "auto",
    rule: Rule = "auto",
    robust: bool = False,
    cluster: str | None = None,
    penalty: float | None = None,
    level: float = 0.95,
    replicates: int = REPLICATES,
    correct: bool = True,
    method: Method | None = None,
    seed: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Fit:
    """Fit a regression to a release and combine its sets honestly.

    Parameters
    ----------
    data
        A release, its folder, or any table (frame, Arrow table, file).
    formula
        ``"log(pay) ~ sex + race + age + I(age**2) | agency + occupation"``: terms, and fixed effects after the bar.
    reference
        For categories, the level that the others are compared with; default: the schema's first.
    family
        "auto", "ols", "ridge", "logistic" or "firth".
    rule
        "auto" takes the rule that the card calls for; "combine" (T = ū + B/m, only for sets that were sanitised
        separately), "noise-aware" (the mechanism is run again), or "sampling" (ordinary intervals, which leave the
        noise out).
    robust, cluster
        Robust (HC1) errors, or errors clustered by a column.
    penalty
        λ of a ridge; without it "ridge" chooses one by generalised cross-validation.
    level
        Of the intervals.
    replicates, correct, method, seed
        For noise-aware intervals: how often the mechanism is run again, whether bias is corrected, the method
        where the card cannot tell it, and a seed to find the same again.
    progress
        Called with (stage, share done).

    Returns
    -------
    Fit
        Prints as a table; `fit["sex[T.F]"]` is one coefficient, `to_pandas()` and `to_arrow()` are all.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"y": [1.0, 2.0, 4.0, 5.0, 9.0], "x": ["a", "a", "b", "b", "b"]})
    >>> print(fit(table, "y ~ x"))
    y ~ x: Least squares, 5 rows
    <BLANKLINE>
               estimate   s.e.  95% from     to      p
    Intercept       1.5  1.555    -3.447  6.447  0.406
    x[T.b]          4.5  2.007    -1.887  10.89  0.111
    Reference: x = a. Ordinary intervals: nothing is known of any noise in this table.
    """
    extra("pyfixest")
    release, tables = _tables(data)
    analysis = Analysis.of(
        formula,
        tables,
        schema=None if release is None else release.schema,
        reference=reference,
        family=family,
        robust=robust,
        cluster=cluster,
        penalty=penalty,
    )
    analysis, each = _each(analysis, tables)
    chosen = _rule(release, rule)
    if chosen == "combine":
        combined = combine(*stacked(each), names=each[0].names, level=level, release=release)
        combined = replace(combined, notes=tuple(dict.fromkeys(n for e in each for n in e.notes)))
    elif chosen == "noise-aware":
        assert release is not None
        combined = noise_aware(
            release,
            replace(analysis, falls_back=True),
            replicates=replicates,
            correct=correct,
            level=level,
            method=method,
            seed=seed,
            progress=progress,
        )
    else:
        why = (
            "Ordinary intervals: nothing is known of any noise in this table"
            if release is None
            else "Ordinary intervals: the noise of privacy is left out, so that they are too short"
        )
        combined = sampling_only(each, level, why)
    return Fit(analysis, combined, each)


def _each(analysis: Analysis, tables: Sequence[pa.Table]) -> tuple[Analysis, tuple[Estimates, ...]]:
    """Every set by itself; all by Firth's method where "auto" finds one of them separated."""
    each = tuple(analysis(table) for table in tables)
    if any(e.family == "firth" for e in each) and analysis.family != "firth":
        analysis = replace(analysis, family="firth")
        each = tuple(analysis(table) for table in tables)
    return analysis, each


def _rule(release: Release | None, rule: Rule) -> Rule:
    if rule not in get_args(Rule):
        raise UsageError(f"rule is '{rule}', expected one of {', '.join(get_args(Rule))}")
    if release is None:
        if rule in ("auto", "sampling"):
            return "sampling"
        raise UsageError(f"rule='{rule}' needs a release: a table by itself does not say how it was made")
    several = release.card.sets > 1
    if rule == "auto":
        return "combine" if several and release.card.each == "split" else "noise-aware"
    if rule == "combine" and several and release.card.each != "split":
        raise UnsupportedError(DRAWN)
    return rule


def _tables(data: Any) -> tuple[Release | None, tuple[pa.Table, ...]]:
    """The sets of a release, or one table."""
    if isinstance(data, Release):
        return data, tuple(data.tables)
    if isinstance(data, str | Path) and Path(data, "card.json").is_file():
        release = Release.load(data)
        return release, tuple(release.tables)
    if isinstance(data, pa.Table):
        return None, (data,)
    rows = source(data)
    batches = list(rows.batches(rows.columns))
    if not batches:
        raise UsageError(f"{rows.describe()}: there is no row to fit a regression to")
    return None, (pa.Table.from_batches(batches),)
