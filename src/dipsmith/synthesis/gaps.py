"""Gaps: what a release does not carry of an analysis, in a sentence that says what to ask the steward for.

Least squares is a function of the tables of its response with each term and of terms with each other. Two things ask for more:

* rows in which a column is missing are left out, and which rows these are may depend on two columns together;
* errors by clusters take how alike the rows of a cluster are from the synthetic rows: by sums of two terms by cluster.

Privacy
-------
Reads the release and nothing else: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dipsmith.analyses.complete_cases import never_missing
from dipsmith.errors import UsageError
from dipsmith.regression.analysis import Analysis
from dipsmith.schema.analysis import PlannedAnalysis, split_by
from dipsmith.schema.formula.tree import Column, nodes
from dipsmith.synthesis.needs import Need
from dipsmith.synthesis.supports import Support, quote

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

INSTEAD: Final = "allow_unsupported=True prints the estimate without an interval"


@dataclass(frozen=True)
class Gap:
    """What a release does not carry of an analysis, and what to ask the steward for."""

    asked: str
    reason: str
    ask: str

    @property
    def reason_and_ask(self) -> str:
        """One line for people."""
        ask = f"; {lower(self.ask)}" if self.ask else ""
        return f"this release cannot tell '{self.asked}': {lower(self.reason)}{ask}"

    @property
    def sentence(self) -> str:
        """The same, and what can be had instead."""
        return f"{self.reason_and_ask} ({INSTEAD})"


def member_gap(release: Release, asked: str) -> Gap | None:
    """Why a formula over columns of members of households is not answered; None for other formulas."""
    members = release.schema.members
    if members is None:
        return None
    named = [n for n in PlannedAnalysis.of(asked).columns if n in members.schema]
    if not named:
        return None
    alike = (
        f"'{named[0]}' is a column of '{members.schema.name}', and members of one household are alike: how much of that is "
        "noise is not measured"
    )
    return Gap(asked, alike, f"Ask the steward for a release of '{members.schema.name}' alone")


def left_out_gap(release: Release, analysis: Analysis, asked: str) -> Gap | None:
    """What is not carried of the rows that least squares leaves out, because a column of theirs is missing.

    Which rows these are may depend on two terms together, and sums of both terms over the rows that are left depend on it: in
    releases of all pairs, whose synthetic rows then leave out others, intervals held between .00 and .60 of the time.
    """
    names = never_missing(analysis.formula, split_by(asked)[1])
    gaps = [n for n in names if release.schema[n].domain.missing]
    together = _find_missing_beside(release, analysis, asked, gaps) if gaps else None
    if together is None:
        return None
    some = " or ".join(f"'{name}'" for name in gaps)
    reason = f"rows without {some} are left out, and which these are is not carried: {lower(together.reason)}"
    return Gap(asked, reason, together.ask)


def cluster_gap(release: Release, analysis: Analysis, asked: str) -> Gap | None:
    """Why errors by clusters cannot be told: how alike their rows are is lost in rows that do not carry the clusters.

    These errors are made of X′(y − Xβ) summed within each cluster, and therefore of the sums of every two terms by cluster. Where
    an effect differs by cluster and only pairs of columns were measured, intervals held .42 of the time.
    """
    by = analysis.cluster
    if by is None or by not in release.schema:
        return None
    together = _find_missing_beside(release, analysis, asked, [by])
    if together is None:
        return None
    reason = f"how alike rows of one {by} are is not carried: {lower(together.reason)}"
    return Gap(asked, reason, f"{together.ask.rstrip('.')}. Or leave cluster out" if together.ask else "")


def _find_missing_beside(release: Release, analysis: Analysis, asked: str, more: Sequence[str]) -> Gap | None:
    """What is not carried of the groups of columns that a formula needs, each with some columns more."""
    need = Need.of(analysis.formula, split_by(asked)[1])
    together = (missing_for(release, *dict.fromkeys((*group, *more))) for group in (*need.main, *need.rest))
    return next((gap for gap in together if gap is not None), None)


def label_gap(release: Release, analysis: Analysis, asked: str) -> Gap | None:
    """What labels are shrunk in by more than a run on shrunk rows shows: odds of public columns, and rare products.

    In 37 releases (4,000 rows, ε = 1, a label of .16) odds of a public column were covered .70 of the time, the product of
    two private columns .79.
    """
    formula, private = analysis.formula, set(release.schema.private)
    odds = analysis.family in ("logistic", "firth")
    named = [{n.name for f in term.factors for n in nodes(f) if isinstance(n, Column)} for term in formula.terms]
    response = {n.name for n in nodes(formula.response) if isinstance(n, Column)}
    for term, names in zip(formula.terms, named, strict=True):
        if len(term.factors) > 1 and len(names & private) >= (1 if odds else 2):
            what = " × ".join(f"'{name}'" for name in sorted(names))
            reason = (
                f"labels of rare combinations of {what} are shrunk farther than running the mechanism again can show"
            )
            instead = ", or with family='ols'" if odds else ", or ask the steward to plan it"
            return Gap(asked, reason, f"Ask without the product{instead}")
    if odds and not response & private and any(names & private for names in named):
        reason = "odds of a public column are lost by shrunk labels, farther than running the mechanism again can show"
        return Gap(asked, reason, "Ask for differences of shares (family='ols'), or for the odds of the label")
    return None


def missing_for(release: Release, *asked: str) -> Gap | None:
    """What an interval for a formula, or for columns together, would need and the release lacks; None where all is there."""
    if not release.models:
        return None  # it cannot be run again either, and says so
    try:
        index = release.support_index
    except UsageError as unknown:
        return Gap(", ".join(asked), str(unknown), "")
    formula = len(asked) == 1 and asked[0] not in release.schema and "~" in asked[0]
    found = index.formula(asked[0]) if formula else index.columns(*asked)
    if release.results and release.card.neighbours == "label" and not found.public:
        # The mechanism that is run again does not adjust labels, so that it cannot show what adjusting them did.
        reason = (
            "the labels were adjusted to other analyses that were planned, and nothing shows what this did to this one"
        )
        return Gap(found.asked, reason, found.ask or f"Ask the steward to plan it too: --analysis {quote(found.asked)}")
    if carries(found):
        return None
    weakest = next((p for p in found.parts if not carries(p)), found)
    told = found if found.level == "not carried" else weakest
    reason = told.reason
    if told.level != "not carried" and not told.in_rows:
        reason = f"a noisy table holds {told.asked}, but the synthetic rows follow it badly. {reason}"
    return Gap(found.asked, reason, found.ask or weakest.ask)


def carries(found: Support) -> bool:
    """Whether synthetic rows, with the mechanism run again on them, can be believed: every group of columns is there."""
    if found.level == "not carried" or not found.in_rows:
        return False
    return all(carries(part) for part in found.parts)


def lower(sentence: str) -> str:
    """A sentence as a part of another."""
    text = sentence.strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[:2].istitle() or text[1:2].islower() else text


def sentence(part: str) -> str:
    """A part of a sentence by itself."""
    text = part.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""
