"""How a release answers a regression: the one decision behind `fit` and `Release.supports`.

The first of these that there is:

* the results of a planned analysis;
* direct estimates from noisy tables that hold all it needs (`dipsmith.analyses.pairs`, `dipsmith.analyses.odds`,
  `dipsmith.synthesis.label_tables`): they do not depend on what the synthetic rows carry;
* the mechanism run again on the synthetic rows, where these carry every group of columns that the analysis is computed from:
  the response with each term, and terms with each other, because what confounds them moves the coefficients as well. What a
  mechanism never carried it cannot lose a second time, and the interval would be confident and wrong: in simulations estimates
  whose pair of response and term was not measured were never covered, and those whose confounders were not were covered
  between .09 and 1.

A number that is known in bins, or whose ends are open, may move a coefficient (`dipsmith.analyses.bin_doubt`): the interval is as
much wider, or there is none.

Of households with members, regressions of the households' own columns have direct estimates or none: one line of a
household is one row of its table. Of members there is a `Gap` always: those of one household are alike.

Else there is a `Gap`: a sentence that says what is not carried, and what to ask the steward for.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from dipsmith.analyses.agreed_tables import NoisyMarginal
from dipsmith.analyses.bin_doubt import binned_numbers, cut_bin, doubts_of_rows, raw_numbers, widening
from dipsmith.analyses.complete_cases import complete_cases, never_missing
from dipsmith.analyses.direct import DECIDE, DRAWS, estimate_from, is_logistic
from dipsmith.analyses.measure import Agenda
from dipsmith.analyses.odds import HIDDEN, hides_odds, odds_from_tables
from dipsmith.analyses.pairs import estimate_from_tables, find_unmeasured
from dipsmith.analyses.results import Result, result_for
from dipsmith.arrays import Floats
from dipsmith.errors import UsageError
from dipsmith.regression.analysis import Analysis, Family, read_formula
from dipsmith.regression.estimates import Estimates, Estimator, term_of
from dipsmith.schema.analysis import Model, PlannedAnalysis, split_by
from dipsmith.synthesis.gaps import (
    Gap,
    cluster_gap,
    label_gap,
    left_out_gap,
    lower,
    member_gap,
    missing_for,
    sentence,
)
from dipsmith.synthesis.supports import Support, quote

if TYPE_CHECKING:
    from dipsmith.schema import Schema
    from dipsmith.synthesis.label_tables import LabelTables
    from dipsmith.synthesis.release import Release

MODELS: Final = {"ols": "least squares", "logistic": "logistic"}
"""What results call a family: the odds that were asked for are not told by differences of shares that were planned."""

References = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class AnswerRoute:
    """Direct estimates, of a planned analysis or not; without them the mechanism is run again, unless there is a `gap`.

    `doubt` is what numbers known in bins add to the standard errors of the rows, and `notes` say so.
    """

    results: tuple[Result, ...] = ()
    planned: bool = False
    gap: Gap | None = None
    doubt: Floats | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        release: Release,
        analysis: Analysis,
        asked: str,
        references: References,
        *,
        direct: bool = True,
        draws: int = DRAWS,
        estimate: Estimator | None = None,
    ) -> AnswerRoute:
        """Decide; `direct` says whether an estimate that does not look at the rows would do, `estimate` fits one set of rows.

        With `draws` of the noise from DECIDE on the decision is the same, and intervals are known the better.
        """
        unit = release.schema.unit
        if unit.order is not None:  # an interval that took a person's years for so many people would be too short
            alike = f"rows of one {unit.column} follow one another, and how alike they are is not measured"
            return cls(
                gap=Gap(
                    asked,
                    alike,
                    f"Ask the steward for a release of one {unit.order}; how fast a number changes within one {unit.column} "
                    "is measured: ds.growth(…)",
                )
            )
        if (cut := cut_bin(analysis.formula, release.schema)) is not None:
            return cls(gap=Gap(asked, cut.reason, cut.ask))
        if (of_clusters := cluster_gap(release, analysis, asked)) is not None:
            return cls(gap=of_clusters)
        found: Sequence[Result] = ()
        planned = False
        if direct and analysis.family in MODELS:
            found = [r for r in result_for(release.results, asked) if r.model == MODELS[analysis.family]]
            planned = bool(found)
            found = found or _from_measured_tables(release, asked, analysis, references, draws)
        if (refusal := next((part.refusal for part in found if part.refusal), None)) is not None:
            return cls(gap=Gap(asked, refusal.reason, refusal.ask))
        if any(loses_a_term(part) for part in found):
            return cls(gap=_hidden_by_noise(asked))
        if found:
            return cls(tuple(found), planned)
        if release.schema.members is not None:
            alone = "no noisy tables of households hold every two of its columns, and households are not drawn a second time"
            return cls(gap=Gap(asked, alone, f"Ask the steward to plan it (--analysis {quote(asked)})"))
        gap = _gap(release, analysis, asked)
        return cls(gap=gap) if gap is not None else cls._of_rows(release, analysis, asked, estimate or analysis)

    @classmethod
    def _of_rows(cls, release: Release, analysis: Analysis, asked: str, estimate: Estimator) -> AnswerRoute:
        """The mechanism run again, unless numbers known in bins leave too much doubt."""
        numbers = binned_numbers(analysis.formula, release.schema)
        if not numbers:
            return cls()
        table = release.tables[0]
        plain = Estimates.of(estimate(table), table.num_rows)
        doubts = doubts_of_rows(numbers, table, release.schema, estimate, analysis.formula.response_column)
        factor, notes, refusal = widening(plain.names, np.sqrt(plain.variances), doubts)
        if refusal is not None:
            return cls(gap=Gap(asked, refusal.reason, refusal.ask))
        return cls(doubt=(factor - 1) * np.sqrt(plain.variances), notes=notes)


def supports(release: Release, asked: str, family: Family = "auto") -> Support:
    """What a release carries of a formula: *not carried* where `fit` refuses it, *measured* where estimates are direct."""
    if (of_members := member_gap(release, asked)) is not None:
        return Support(asked, (), "not carried", sentence(of_members.reason), ask=sentence(of_members.ask))
    found = release.support_index.formula(asked)
    if not release.tables.in_memory:
        return found  # the workers make the rows when the release is saved
    references = planned_references(release, asked)
    tables, schema = tuple(release.tables), release.schema
    inner, _ = split_by(asked)
    try:
        analysis = Analysis.of(inner, tables, schema=schema, reference=references, family=family)
        # The doubt that bins leave is compared with a standard error, which has to be the one that `fit` tells.
        draws = DRAWS if binned_numbers(analysis.formula, schema) else DECIDE
        answer = AnswerRoute.of(release, analysis, asked, references, draws=draws)
    except UsageError:
        read_formula(inner, tables, schema, references)  # what is wrong with the formula itself is said here,
        return found  # and what is wrong with it beside these rows by `fit`
    if answer.gap is not None:
        return replace(found, level="not carried", reason=sentence(answer.gap.reason), ask=sentence(answer.gap.ask))
    if answer.results and found.level != "measured":
        reason = "Noisy tables determine all sums that it needs, so that its estimates are direct."
        return replace(found, level="measured", reason=reason, ask="")
    return found


def planned_references(release: Release, formula: str) -> dict[str, str]:
    """The levels that others are compared with, as they were agreed for a planned formula; none where it was not planned."""
    asked = " ".join(formula.split())
    planned = (PlannedAnalysis.of(a) for a in release.card.analyses)
    return next((dict(a.reference) for a in planned if " ".join(a.text.split()) == asked), {})


# --- direct estimates ------------------------------------------------------------------------------------


def _from_measured_tables(
    release: Release, asked: str, analysis: Analysis, references: References, draws: int
) -> Sequence[Result]:
    """What measured tables say of a formula; nothing where they do not hold all of it."""
    try:
        # Under `label` the design itself knows the reference; tables of whole rows are told with the schema's first level.
        if release.schema.neighbours == "label":
            return _from_labels(release, asked, analysis, references, draws)
        return _from_tables(release, asked, analysis, draws)
    except UsageError:
        return ()  # a term without a value in some bin: synthetic rows may still tell


def _from_tables(release: Release, asked: str, analysis: Analysis, draws: int) -> Sequence[Result]:
    """What noisy tables of whole rows say, once or for each part of the rows."""
    schema, tables, rows = _complete_rows(release, asked, analysis)
    if analysis.family == "logistic":
        one = None if split_by(asked)[1] else odds_from_tables(analysis.formula, schema, tables, rows=rows, draws=draws)
        return [] if one is None else [one]
    planned = PlannedAnalysis(asked, model="ols")
    if find_unmeasured(planned, schema, [t.attributes for t in tables]):
        return []
    return estimate_from_tables(planned, schema, tables, rows=rows, draws=draws)


def _complete_rows(release: Release, asked: str, analysis: Analysis) -> tuple[Schema, list[NoisyMarginal], int | None]:
    """Noisy tables of the rows that a formula uses, and how many these are where that is no estimate."""
    names = never_missing(analysis.formula, split_by(asked)[1])
    return complete_cases(release.schema, noisy_tables(release), public_rows(release), names)


def _from_labels(
    release: Release, asked: str, analysis: Analysis, references: References, draws: int
) -> Sequence[Result]:
    """What noisy label tables say beside public columns; nothing where they do not determine its sums."""
    reference, family = tuple((n, str(level)) for n, level in references.items()), analysis.family
    planned = PlannedAnalysis(asked, model=cast("Model", family), reference=reference)
    tables = release.label_tables
    assert tables.public is not None
    parts = Agenda.of([planned], release.schema, tables.public, tables.often).all_parts
    if any(MODELS[family] != ("logistic" if is_logistic(p.layout) else "least squares") for p in parts):
        return []

    def told_by(tables: LabelTables) -> Sequence[Result]:
        sums = [tables.sums(part.layout) for part in parts]
        pairs = [(part, one) for part, one in zip(parts, sums, strict=True) if one is not None]
        if len(pairs) < len(parts):
            return []
        return [
            Result.of(planned.text, MODELS[family], part.value, estimate_from(part.layout, one, draws=draws))
            for part, one in pairs
        ]

    # Sums of other planned analyses only make more precise what counts tell: who wants to know that asks no more. Counts by
    # bins do not tell sums of numbers that differ within a bin.
    counted = draws < DRAWS and release.card.analyses and not raw_numbers(analysis.formula, release.schema)
    found = told_by(tables) if counted else []
    return found if found and not any(loses_a_term(part) for part in found) else told_by(tables.whole)


def noisy_tables(release: Release) -> list[NoisyMarginal]:
    """The tables of whole rows; of one that a set was asked for again only the last answer.

    A method that looks for what fits badly (AIM) asks again where its first answer was far off by chance. Averaged with it,
    the noise is larger than its law says: noise of the coefficient that this happens to most had 1.06 times its standard
    error (387 releases), and .99 by the last answers alone.
    """
    last: dict[tuple[str, tuple[str, ...]], NoisyMarginal] = {}
    for table in release.measurements:
        made = NoisyMarginal.of(table)
        if made is not None:
            sanitised = table.block.split("/")[0] if table.block.startswith("set ") else ""
            last[sanitised, table.attributes] = made
    return list(last.values())


def public_rows(release: Release) -> int | None:
    """The number of rows, where it is no estimate."""
    card = release.card
    return card.rows if card.rows_known == "public" else card.known_rows


def loses_a_term(found: Result) -> bool:
    """Whether a whole term is not told: without it the coefficients of the others would mean something else."""
    told: dict[str, bool] = {}
    for c in found.coefficients:
        term = term_of(c.name)
        told[term] = told.get(term, False) or c.estimate is not None
    return not all(told.values())


# --- what is lacking -------------------------------------------------------------------------------------


def _gap(release: Release, analysis: Analysis, asked: str) -> Gap | None:
    """What the release lacks for intervals; odds of whole rows need one table of all columns, not of every two."""
    gap = missing_for(release, asked)
    if gap is None and release.schema.neighbours == "label":
        return label_gap(release, analysis, asked)
    if gap is not None:
        return gap
    if analysis.family not in ("logistic", "firth"):
        return left_out_gap(release, analysis, asked)
    together = missing_for(release, *analysis.formula.columns)
    if together is None:
        return _hidden_by_noise(asked) if _noise_hides(release, asked, analysis) else None
    reason = f"odds need one noisy table of all columns, and {lower(together.reason)}"
    return Gap(asked, reason, f"Ask the steward to plan it (--analysis {quote(asked)})")


def _noise_hides(release: Release, asked: str, analysis: Analysis) -> bool:
    """Whether noise hides odds of some group in the noisy table that holds all columns."""
    try:
        schema, tables, rows = _complete_rows(release, asked, analysis)
        return hides_odds(analysis.formula, schema, tables, rows=rows)
    except UsageError:
        return False  # a term without a value in some bin


def _hidden_by_noise(asked: str) -> Gap:
    return Gap(asked, HIDDEN.reason, HIDDEN.ask)
