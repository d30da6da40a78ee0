"""The comparison as a page: three sentences, the scores at a glance, then a chapter for each question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dipsmith.report.content import Cell, Page, Section, Table
from dipsmith.utility import chapters
from dipsmith.utility.analysis_chapter import regressions
from dipsmith.utility.disclosure_chapter import disclosure
from dipsmith.utility.findings import Findings
from dipsmith.utility.panel_chapters import panels, subgroups
from dipsmith.version import VERSION

if TYPE_CHECKING:
    from dipsmith.utility.comparison import Comparison


SEEN = {
    "logistic": "a model of main effects",
    "interactions": "a model of two-way effects",
    "cart": "a decision tree",
    "forest": "a random forest",
    "svm": "a support vector machine",
    "boosting": "boosted trees",
}
"""Classifiers, in words."""

NOTICEABLE = 1.5
"""A distance this many times its floor is worth a sentence."""


def comparison_page(comparison: Comparison) -> Page:
    """The whole page."""
    found = comparison.findings
    sections = [
        Section("At a glance", (glance(comparison),)),
        chapters.classifiers(found),
        chapters.marginals(found),
        chapters.associations(found),
        panels(found),
        regressions(comparison.regressions, found),
        subgroups(found),
        chapters.full_table(found),
        disclosure(found),
        chapters.method(comparison),
    ]
    return Page(
        title=f"Comparison with authentic rows: {comparison.dataset}",
        lead=lead(comparison),
        sections=tuple(s for s in sections if s.blocks),
        confidential=True,
        sortable=True,
        contents=True,
        footer=f"dipsmith {VERSION}. CONFIDENTIAL: every number on this page was computed from authentic rows without "
        f"protection. Looks at '{comparison.dataset}' logged so far: {comparison.looks}.",
    )


def lead(comparison: Comparison) -> tuple[str, ...]:
    """What was released under which guarantee; what is kept well; what is not, and who is served worst."""
    found = comparison.findings
    first = found[0]
    guarantees = list(dict.fromkeys(f.card.guarantee for f in found))
    if len(found) == 1:
        released = f"{first.rows[1]:,} synthetic rows by {first.card.method}, {first.card.guarantee}"
    elif len(guarantees) == 1:
        each = ", ".join(f"{f.name} ({f.rows[1]:,} rows by {f.card.method})" for f in found)
        released = f"{len(found)} releases, {each}, each under {guarantees[0]}"
    else:
        released = "; ".join(
            f"{f.name}: {f.rows[1]:,} synthetic rows by {f.card.method}, {f.card.guarantee}" for f in found
        )

    def told(of: Callable[[Findings], str]) -> str:
        return of(first) if len(found) == 1 else ". ".join(f"{f.name}: {of(f)}" for f in found)

    return (
        f"{first.rows[0]:,} authentic rows of '{comparison.dataset}' are compared with {released}. {first.card.meaning}",
        f"Kept: {told(_kept)}.",
        f"Not kept: {told(_not_kept)}.",
    )


def glance(comparison: Comparison) -> Table:
    """One line per score, with what chance would give beside it."""
    found = comparison.findings
    lines: list[tuple[str, list[tuple[Cell, Cell]]]] = []
    for i, score in enumerate(found[0].specks):
        lines.append(
            (f"SPECKS, {score.classifier}", [(f.specks[i].value, f.specks[i].null_95) for f in found])
        )
    lines.append(("pMSE ratio, logistic", [(f.pmse.ratio, _independent(f)) for f in found]))
    for i, error in enumerate(found[0].marginals):
        lines.append(
            (f"mean TVD, {error.ways}-way tables", [(f.set_tvd[i], f.marginals[i].floor) for f in found])
        )
    lines.append(("χ² conclusions at 5 %: κ", [(f.agreement[1].kappa, 0.0) for f in found]))
    lines.append(("Cramér's V, rank correlation", [(f.associations.rank_correlation, 0.0) for f in found]))
    lines.append(("joint proportions, correlation", [(f.joint.correlation, 0.0) for f in found]))
    lines.append(("p-slopes: synthetic on authentic", [(f.slopes.slope, 0.0) for f in found]))
    lines.append(("invented combinations, share of rows", [(f.cells.invented_rows, None) for f in found]))
    for regression in comparison.regressions:
        shown = [[a for a in regression.agreements if a.release == f.name] for f in found]
        means = [float(np.mean([a.overlap for a in part])) if part else float("nan") for part in shown]
        formula = regression.regression.formula
        said = formula if len(formula) <= 34 else formula[:33] + "…"
        by = f", by {regression.regression.by}" if regression.regression.by else ""
        lines.append((f"interval overlap: {said}{by}", [(m, None) for m in means]))
    columns = ["score"]
    for f in found:
        columns += [f.name if len(found) > 1 else "value", "chance"]
    rows = [[name, *(cell for pair in values for cell in pair)] for name, values in lines]
    return Table.of(
        "Scores, and what chance alone would give",
        columns,
        rows,
        "Chance: for SPECKS the 95 % point under the null; for pMSE the ratio that an independent sample of the population "
        "would get; for TVD the expectation when rows are exchanged at random; for κ and correlations an answer that ignores the data.",
    )


def _independent(found: Findings) -> float:
    return (
        found.pmse.independent_mean / found.pmse.resampled_mean if found.pmse.resampled_mean else float("nan")
    )


def _kept(found: Findings) -> str:
    parts = []
    best = found.marginals[0] if found.marginals else None
    if best is not None and best.tables:
        which = "the synthesised columns" if found.given else "single columns"
        close = best.mean / best.floor if best.floor else float("inf")
        near = "" if close > 1.5 else f"{'nearly ' if close > 1.1 else ''}as close as two samples are, "
        parts.append(
            f"the distributions of {which} ({near}mean TVD {best.mean:.2g}, by chance {best.floor:.2g})"
        )
    if found.associations.rank_correlation >= 0.9:
        parts.append(
            f"the order of the associations (rank correlation {found.associations.rank_correlation:.2f})"
        )
    if found.joint.correlation >= 0.95:
        parts.append(f"joint proportions (correlation {found.joint.correlation:.3f})")
    blind = [SEEN.get(s.classifier, s.classifier) for s in found.specks if not s.beyond_chance]
    if blind:
        parts.append(f"no difference beyond chance is seen by {' or '.join(blind)}")
    return "; ".join(parts) or "little of what is measured here"


def _not_kept(found: Findings) -> str:
    parts = []
    if found.marginals:
        worst = max(
            (m.worst for m in found.marginals if m.worst), key=lambda t: t.tvd - t.floor, default=None
        )
        if worst is not None and worst.tvd > NOTICEABLE * worst.floor:
            parts.append(
                f"the table of {' × '.join(worst.names)} is farthest off (TVD {worst.tvd:.2g}, floor {worst.floor:.2g})"
            )
    told = [s for s in found.specks if s.beyond_chance]
    if told:
        sharpest = max(told, key=lambda s: s.value - s.null_95)
        parts.append(
            f"{SEEN.get(sharpest.classifier, sharpest.classifier)} can tell the tables apart "
            f"(KS {sharpest.value:.3g}, by chance up to {sharpest.null_95:.3g})"
        )
    if found.subgroups.worst:
        group = found.subgroups.worst[0]
        parts.append(
            f"served worst: {group} (n = {group.authentic:,}), whose distributions are off by {group.tvd:.2g}, "
            f"{group.excess:.2g} more than chance"
        )
    return "; ".join(parts) or "nothing measured here stands out"
