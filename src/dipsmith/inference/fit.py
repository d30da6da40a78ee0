"""`fit`: a regression on every set of a release, and one honest table of coefficients.

A formula is fitted to each set as it would be to a sample (`analysis`), and the results are combined by the rule that
the card calls for: T = ū + B/m for sets that were sanitised separately (`combine`), the mechanism run again for one
set or sets of one model (`noise_aware`). A plain table can be given as well; then nothing is known of any noise, and
the result says so.

Families: ordinary least squares with any number of fixed effects (pyfixest), ridge, logistic regression by maximum
likelihood or with a ridge, and Firth's for separated data. "auto" takes least squares for numbers and logistic
regression for two levels, Firth's for all sets where one is separated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.codec.parse import is_text
from dipsmith.errors import NotCarried, UsageError
from dipsmith.inference.combine import (
    Combined,
    Estimate,
    Rule,
    as_text,
    check_level,
    choose_rule,
    recurrence_notes,
    weighting_notes,
)
from dipsmith.inference.direct import direct_estimate
from dipsmith.inference.noise_aware import REPLICATES, Flags, Progress, Replication, combine_by, without_intervals
from dipsmith.inference.parts import PartByPart
from dipsmith.inference.tests import Significance, refer
from dipsmith.inference.weighted import weighted_estimate
from dipsmith.methods.method import Method
from dipsmith.regression.analysis import Analysis, Family
from dipsmith.regression.estimates import Estimates, term_of
from dipsmith.regression.model_frame import extra
from dipsmith.report.content import Table
from dipsmith.report.sections import inline_table
from dipsmith.schema import Schema
from dipsmith.schema.analysis import split_by
from dipsmith.schema.formula.tree import Column, Node, nodes
from dipsmith.sources import source
from dipsmith.synthesis.answers import AnswerRoute, planned_references
from dipsmith.synthesis.canonical import canonical_values
from dipsmith.synthesis.gaps import Gap, member_gap
from dipsmith.synthesis.release import Release


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted formula: combined coefficients, and what every set said by itself."""

    analysis: Analysis
    combined: Combined
    each: tuple[Estimates, ...]
    direct: bool = False
    """Whether the estimates are those of noisy sums or tables, and `each` has them with their whole covariance."""
    by: str | None = None
    """The column by whose values it was repeated."""

    @property
    def formula(self) -> str:
        """As it was written."""
        return self.analysis.formula.text + (f" | by {self.by}" if self.by else "")

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

        "race" means every level of race, in all parts of the rows, "race:sex" every product of the two; single coefficients
        can be named too.
        """
        at = [i for i, n in enumerate(self.names) if n in terms or term_of(n) in terms]
        at = [i for i in at if np.isfinite(self.combined.estimate[i])]
        if at and not np.isfinite(self.combined.variance[at]).all():
            raise NotCarried(
                f"the coefficients of {' and '.join(terms)} have no interval here, so that there is no test"
            )
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
        elif self.direct or self.combined.variance_is_sampling:
            scattered, share = np.zeros((2, len(at))), 1.0
        else:
            scattered, share = np.array([e.values[at] for e in self.each]), 1 / len(self.each)
        name, residual = f"{' and '.join(terms)} all 0", min(e.df for e in self.each)
        return refer(float(z @ z), len(at), scattered @ whiten, share, name, residual)

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
        m, references = len(self.each), self.analysis.references
        sets = f" in each of {m} sets" if m > 1 else ""
        table = self.combined.content(f"{self.formula}: {self.analysis.name}, {self.each[0].rows:,} rows{sets}")
        return replace(table, note=f"Reference: {references}. {table.note}" if references else table.note)

    def __str__(self) -> str:
        table = self.content()
        return f"{table.caption}\n\n{as_text(table)}"

    def _repr_html_(self) -> str:
        return inline_table(self.content())


def fit(
    data: Any,
    formula: str,
    *,
    reference: Mapping[str, object] | None = None,
    family: Family = "auto",
    rule: Rule = "auto",
    robust: bool = False,
    cluster: str | None = None,
    weights: str | None = None,
    penalty: float | None = None,
    level: float = 0.95,
    replicates: int = REPLICATES,
    correct: bool = True,
    method: Method | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    allow_unsupported: bool = False,
) -> Fit:
    """Fit a regression to a release: with honest intervals, or a sentence that says why this release cannot tell.

    The first of these that exists is used: the result of a planned analysis; a direct estimate from noisy tables that
    hold every two terms together; the synthetic rows, where they carry response, terms and controls together, with
    intervals found by running the mechanism again. Anything else raises `NotCarried`.

    The result prints as a table; `fit["sex[T.F]"]` is one coefficient, `to_pandas()` and `to_arrow()` are all.

    Parameters
    ----------
    data, formula
        A release, its folder, or any table (frame, Arrow table, file); and a formula:
        ``"log(pay) ~ sex + race + age + I(age**2) | agency + occupation"``: terms, and fixed effects after the bar;
        with ``| by year`` at the end it is fitted to each year by itself.
    reference
        For categories, the level that the others are compared with; default: as planned, else the schema's first.
    family
        "auto", "ols", "ridge", "logistic" or "firth".
    rule
        "auto" takes the rule that the card calls for; "combine" (T = ū + B/m, only for sets that were sanitised
        separately), "noise-aware" (the mechanism is run again), or "sampling" (ordinary intervals, which leave the
        noise out).
    robust, cluster, level
        Robust (HC1) errors, or errors clustered by a column; and the level of the intervals.
    weights
        The column that says how many people a row stands for: weighted least squares, weighted means and shares
        (``"employed ~ 1"``), with the robust errors of a sample drawn with unequal probabilities (no strata, no clusters
        but `cluster`). Without it nothing is weighted.
    penalty
        λ of a ridge; without it "ridge" chooses one by generalised cross-validation.
    replicates, correct, method, seed, progress
        For noise-aware intervals: how the mechanism is run again (`dipsmith.inference.noise_aware.Replication`).
    allow_unsupported
        Give the estimates of the synthetic rows, without intervals, where the release does not carry the formula.

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
    if not isinstance(formula, str):
        raise UsageError(
            f"formula is a {type(formula).__name__}, expected text such as 'log(pay) ~ sex | agency'; a function of a table goes to "
            "ds.noise_aware"
        )
    release, tables = _tables(data)
    chosen = choose_rule(release, rule)
    if release is not None and (of_members := member_gap(release, formula)) is not None:
        raise NotCarried(of_members.reason_and_ask)
    inner, by = split_by(formula)
    reference = {**({} if release is None else planned_references(release, formula)), **(reference or {})}
    analysis = Analysis.of(
        inner,
        tables,
        schema=None if release is None else release.schema,
        reference=reference,
        family=family,
        robust=robust,
        cluster=cluster,
        penalty=penalty,
        weights=weights,
    )
    check_level(level)
    parts = None if by is None else PartByPart.of(analysis, by, tables)
    answer = AnswerRoute()
    if release is not None and chosen != "sampling" and weights is not None and not allow_unsupported:
        combined, estimates = weighted_estimate(release, analysis, formula, reference, parts or analysis)
        combined = replace(combined, level=level, notes=(*combined.notes, *recurrence_notes(release)))
        return Fit(analysis, combined, (estimates,), direct=True, by=by)
    if release is not None and chosen != "sampling":
        direct = rule == "auto" and _is_plain(analysis)
        answer = AnswerRoute.of(release, analysis, formula, reference, direct=direct, estimate=parts)
        if weights is not None:
            unknown = f"estimates of the rows, weighted by {weights}, are biased by more than anything shows"
            answer = AnswerRoute(gap=Gap(formula, unknown, "Leave allow_unsupported out to see what noisy tables tell"))
        if answer.gap is not None and not allow_unsupported:
            raise NotCarried(answer.gap.sentence)
        if answer.results:
            combined, estimates = direct_estimate(release, answer, formula, reference)
            notes = () if any("independent" in note for note in combined.notes) else recurrence_notes(release)
            notes += weighting_notes(release, weights)
            combined = replace(combined, level=level, notes=(*combined.notes, *notes))
            return Fit(analysis, combined, (estimates,), direct=True, by=by)
    each = tuple((parts or analysis)(table) for table in tables)
    agreed = analysis.of_one_family(each)
    if agreed is not analysis:
        analysis, parts = agreed, None if parts is None else replace(parts, analysis=agreed)
        each = tuple((parts or analysis)(table) for table in tables)
    if answer.gap is not None:
        return Fit(analysis, without_intervals(each, level, answer.gap.reason_and_ask), each, by=by)
    why = (
        "Ordinary intervals: nothing is known of any noise in this table"
        if release is None
        else "Ordinary intervals: the noise of privacy is left out, so that they are too short"
    )
    how = Replication(replicates, correct, method, seed, progress)
    estimate = replace(analysis, falls_back=True) if parts is None else parts.falling_back()
    follows = None if release is None else _follows(analysis, each[0].names, release.schema)
    combined = combine_by(chosen, release, estimate, each, how, level=level, why=why, follows=follows)
    if answer.doubt is not None:
        wider = (combined.std_error + answer.doubt) ** 2
        combined = replace(combined, variance=wider, notes=(*combined.notes, *answer.notes))
    if release is not None and cluster is None:
        combined = replace(combined, notes=(*combined.notes, *recurrence_notes(release)))
    combined = replace(combined, notes=(*combined.notes, *weighting_notes(release, weights)))
    return Fit(analysis, combined, each, by=by)


def _is_plain(analysis: Analysis) -> bool:
    """Whether direct estimates can answer it: no robust errors, clusters, penalty or weights."""
    plain = not analysis.robust and analysis.cluster is None and analysis.penalty is None
    return plain and analysis.weights is None


def _follows(analysis: Analysis, names: tuple[str, ...], schema: Schema) -> Flags | None:
    """Which coefficients name public columns alone: they are biased by what those of private columns lose."""
    private = set(schema.private)
    if schema.neighbours != "label" or private & _name_columns(analysis.formula.response):
        return None
    terms = {str(t) for t in analysis.formula.terms if private & {n for f in t.factors for n in _name_columns(f)}}
    return np.array([term_of(name) not in terms for name in names])


def _name_columns(node: Node) -> set[str]:
    return {n.name for n in nodes(node) if isinstance(n, Column)}


def _tables(data: Any) -> tuple[Release | None, tuple[pa.Table, ...]]:
    """The sets of a release, or one table."""
    if isinstance(data, str | Path) and Path(data, "card.json").is_file():
        data = Release.load(data)
    if isinstance(data, Release):
        return data, tuple(data.tables)
    if isinstance(data, pa.Table):
        return None, (data,)
    rows = source(data)
    batches = list(rows.batches(rows.columns))
    if not batches:
        raise UsageError(f"{rows.describe()}: there is no row to fit a regression to")
    return None, (parse_numbers(pa.Table.from_batches(batches)),)


def parse_numbers(table: pa.Table) -> pa.Table:
    """A table in which texts that are all numbers, as a CSV file has them, are numbers; codes such as 007 stay texts.

    >>> parse_numbers(pa.table({"age": ["31", "", "47.5"], "zip": ["01067", "04103", "1"]})).schema.types
    [DataType(double), DataType(string)]
    """
    columns = []
    for column in table.columns:
        plain = column.combine_chunks()
        plain = plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain
        typed = canonical_values(plain, "integer") if is_text(plain.type) else plain
        typed = canonical_values(plain, "number") if is_text(typed.type) and not _has_codes(typed) else typed
        columns.append(column if is_text(typed.type) else typed)
    return pa.table(columns, names=table.column_names)


def _has_codes(text: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, "^ *0[0-9]")).as_py())
