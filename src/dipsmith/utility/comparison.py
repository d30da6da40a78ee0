"""A comparison as users hold it: prints, shows itself in a notebook, saves a page with its numbers. CONFIDENTIAL.

The page has three sentences, the scores at a glance, then a chapter for each question.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.inference.combine import as_text
from dipsmith.report import figures
from dipsmith.report.content import Block, Facts, Page, Section, Table
from dipsmith.report.sections import frame, number, page
from dipsmith.schema import Schema
from dipsmith.synthesis.writing import whole_folder
from dipsmith.utility.association import in_words, lost_most
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.findings import Findings
from dipsmith.utility.marginal_error import TableErrors
from dipsmith.utility.metric import Chapter, Metric
from dipsmith.utility.panels import Points
from dipsmith.utility.regression import RegressionComparison, analyses, summary_line
from dipsmith.utility.unfit_cells import UnfitCells, tell_unfit
from dipsmith.utility.wide_bins import COARSE
from dipsmith.version import VERSION

NOTICE = (
    "CONFIDENTIAL\n\nEverything in this folder was computed from authentic rows without any protection.\n"
    "None of it may be released: publishing how well a release fits tells about single people.\n"
)
CLASSIFIERS = {
    "logistic": "a model of main effects",
    "interactions": "a model of two-way effects (at most 120 of them)",
    "cart": "a decision tree",
    "forest": "a random forest",
    "svm": "a support vector machine",
    "boosting": "boosted trees",
}
"""Classifiers, in words."""

SCORES = ("overlap", "covered", "same_conclusion", "width_ratio")
"""Measures of all coefficients of a regression together."""
NOTICEABLE = 1.5
"""A distance this many times its floor is worth a sentence."""
FAR = 0.05
"""Single columns that are off by more, and noticeably, are not called kept."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was found out about one or more releases.

    `findings` has one entry for each release, `regressions` one for each analysis. `left_out` counts the authentic rows with
    a value that has no code; `looks` is how many the ledger has logged for the dataset, this one included. The page is made
    of `chapters`, in their order, and of the `metrics` that have none. `tables` are the counts of each release's first
    set, from which distributions can be looked up without reading anything again. `unfit` are the authentic cells that
    the schema does not hold; `widened` the columns of very many bins, compared in fewer.
    """

    dataset: str
    schema: Schema
    findings: tuple[Findings, ...]
    regressions: tuple[RegressionComparison, ...]
    left_out: int
    looks: int
    seed: int
    chapters: tuple[Chapter, ...]
    metrics: tuple[Metric, ...]
    tables: tuple[Crosstabs, ...] = ()
    unfit: tuple[UnfitCells, ...] = ()
    widened: tuple[str, ...] = ()

    @cached_property
    def page(self) -> Page:
        """The whole comparison as content."""
        return comparison_page(self)

    def save(self, folder: str | Path) -> Path:
        """Write comparison.html, comparison.json and the numbers of every figure into a new folder.

        The page is one self-contained file that opens from disk; the folder can be read by its owner only.
        """
        target = Path(folder)
        with whole_folder(target, 0o700) as work:
            (work / "CONFIDENTIAL.txt").write_text(NOTICE, "utf-8")
            (work / "comparison.html").write_text(page(self.page), "utf-8")
            (work / "comparison.json").write_text(self.to_json(), "utf-8")
            for figure in self.page.figures():
                if figure.file and figure.numbers is not None:
                    stem = work / figure.file
                    stem.parent.mkdir(exist_ok=True)
                    stem.with_suffix(".csv").write_text(figure.numbers.to_csv(), "utf-8")
                    content = {"columns": figure.numbers.columns, "rows": figure.numbers.rows}
                    text = _json({"confidential": True, "title": figure.title, **content})
                    stem.with_suffix(".json").write_text(text, "utf-8")
        return target

    def to_dict(self) -> dict[str, Any]:
        """Every score as plain values (point by point numbers are in the figures' files)."""
        return {
            "confidential": True,
            "dataset": self.dataset,
            "looks": self.looks,
            "left_out": self.left_out,
            "unfit": [_plain(m) for m in self.unfit],
            "seed": self.seed,
            "releases": _plain(self.findings),
            "analyses": [
                _plain(r) | {"agreements": [_plain(a) | {s: getattr(a, s) for s in SCORES} for a in r.agreements]}
                for r in self.regressions
            ],
        }

    def to_json(self) -> str:
        """comparison.json."""
        return _json(self.to_dict(), indent=1)

    def __str__(self) -> str:
        table = glance_table(self)
        text = as_text(Table.of("", table.columns, [[number(c) for c in row] for row in table.rows]))
        amiss = tell_unfit(self.unfit)
        first = f"{amiss}\n\n" if amiss else ""
        return f"CONFIDENTIAL comparison: reads authentic rows, not for release\n\n{first}{text}"

    def _repr_html_(self) -> str:
        return frame(page(self.page))


def _json(content: dict[str, Any], indent: int | None = None) -> str:
    """Text with null for numbers that JSON cannot hold."""
    try:
        return json.dumps(content, ensure_ascii=False, indent=indent, allow_nan=False) + "\n"
    except ValueError:
        finite = json.loads(json.dumps(content), parse_constant=lambda constant: None)
        return json.dumps(finite, ensure_ascii=False, indent=indent) + "\n"


def _plain(value: Any) -> Any:
    """Frozen values as JSON-able ones; points only by their summary, without what no repr shows."""
    if isinstance(value, Points):
        fit = {"correlation": value.correlation, "slope": value.slope, "rmse": value.rmse}
        return {"points": len(value)} | fit
    if isinstance(value, Findings):
        own = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name != "results"}
        return own | _plain(value.results)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.repr}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def comparison_page(comparison: Comparison) -> Page:
    """The whole page."""
    found = comparison.findings
    sections = [
        *(Section(c.heading, tuple(c.blocks(found))) for c in comparison.chapters if c.place < 1),
        Section("At a glance", (glance_table(comparison),)),
        analyses(comparison.regressions, found),
        *(Section(c.heading, tuple(c.blocks(found))) for c in comparison.chapters if c.place >= 1),
        how_section(comparison),
    ]
    return Page(
        title=f"Comparison with authentic rows: {comparison.dataset}",
        lead=lead_sentences(comparison),
        sections=tuple(s for s in sections if s.blocks),
        confidential=True,
        sortable=True,
        contents=True,
        footer=f"dipsmith {VERSION}. CONFIDENTIAL: every number on this page was computed from authentic rows without "
        f"protection. Looks at '{comparison.dataset}' logged so far: {comparison.looks}.",
    )


def lead_sentences(comparison: Comparison) -> tuple[str, ...]:
    """What was released under which guarantee; what is kept well; what is not, and who is served worst."""
    found = comparison.findings
    first = found[0]

    rows = [f"{f.rows[1]:,} synthetic rows by {f.card.method}, {f.card.guarantee}" for f in found]
    named = [f"{f.name}: " if len(found) > 1 else "" for f in found]
    released = "; ".join(name + told for name, told in zip(named, rows, strict=True))
    if len(found) > 1 and len({f.card.guarantee for f in found}) == 1:
        each = ", ".join(f"{f.name} ({f.rows[1]:,} rows by {f.card.method})" for f in found)
        released = f"{len(found)} releases, {each}, each under {first.card.guarantee}"
    return (
        f"{first.rows[0]:,} authentic rows of '{comparison.dataset}' are compared with {released}. {first.card.meaning}",
        *filter(None, [tell_unfit(comparison.unfit)]),
        *(f"{name}Kept: {_strengths(f)}." for name, f in zip(named, found, strict=True)),
        *(f"{name}Not kept: {_weaknesses(f)}." for name, f in zip(named, found, strict=True)),
    )


def glance_table(comparison: Comparison) -> Table:
    """One line per score, with what chance would give beside it."""
    found = comparison.findings
    lines = []
    for f in found:
        values = [line for chapter in comparison.chapters for line in chapter.lines(f)]
        for metric in comparison.metrics:
            values += [
                (metric.title + (f", {v.level}" if v.level else ""), v.value, v.reference)
                for v in f["metrics"].get(metric.name, ())
            ]
        lines.append([*values, *(summary_line(r, f) for r in comparison.regressions)])
    columns = ["score"]
    for f in found:
        columns += [f.name if len(found) > 1 else "value", "chance"]
    rows = [(line[0][0], *(cell for part in line for cell in part[1:])) for line in zip(*lines, strict=True)]
    return Table.of(
        "Scores, and what chance alone would give",
        columns,
        rows,
        "Chance: for SPECKS the 95 % point under the null; for pMSE the ratio that an independent sample of the population "
        "would get; for TVD the expectation when rows are exchanged at random; for κ and correlations an answer that ignores the data."
        + "".join(f" {m.title}: {m.reference}; {m.better} is better." for m in comparison.metrics),
    )


def how_section(comparison: Comparison) -> Section:
    """What was compared with what."""
    first = comparison.findings[0]
    facts = [
        ("Columns compared", ", ".join((*first.given, *first.changed))),
        ("Synthesised", ", ".join(first.changed)),
        ("Authentic rows left out", f"{comparison.left_out:,} (a value without a code)"),
        ("Authentic cells not as the schema says", "; ".join(map(str, comparison.unfit)) or "none"),
        ("Seed", f"{comparison.seed} (samples, folds and null draws)"),
        ("Looks logged", f"{comparison.looks} at '{comparison.dataset}', this one included"),
    ]
    if comparison.widened:
        names = ", ".join(comparison.widened)
        facts.append(("In wider bins", f"{names}: {COARSE} of neighbouring values, but for the values as they are"))
    blocks: list[Block] = [
        Facts(tuple(facts)),
        "Values are compared as the codes of the schema: bins and collapsed labels. Scores of several sets are means over the "
        "sets; lists and figures are of the first set. Definitions: docs/reference/metrics.md.",
    ]
    if not figures.available():
        blocks.append("Figures need more libraries (pip install 'dipsmith[analysis]'); this page has tables only.")
    return Section("How this was compared", tuple(blocks))


def _strengths(found: Findings) -> str:
    parts = []
    best, told = _single_columns(found)
    if best is not None and not _far(best):
        close = best.mean / best.floor if best.floor else float("inf")
        near = "" if close > 1.5 else f"{'nearly ' if close > 1.1 else ''}as close as two samples are, "
        parts.append(f"the distributions of {told} ({near}mean TVD {best.mean:.2g}, by chance {best.floor:.2g})")
    if (rank := found["associations"].rank_correlation) >= 0.9:
        parts.append(f"the order of the associations (rank correlation {rank:.2f})")
    if (joint := found["joint"].correlation) >= 0.95:
        parts.append(f"joint proportions (correlation {joint:.3f})")
    blind = [CLASSIFIERS.get(s.classifier, s.classifier) for s in found["specks"] if not s.beyond_chance]
    if blind:
        parts.append(f"no difference beyond chance is seen by {' or '.join(blind)}")
    return "; ".join(parts) or "little of what is measured here"


def _single_columns(found: Findings) -> tuple[TableErrors | None, str]:
    """The score of single columns, where there is one, and what they are called."""
    best = next(iter(found["marginals"]), None)
    which = "the synthesised columns" if found.given else "single columns"
    return (best if best is not None and best.tables else None), which


def _far(score: TableErrors) -> bool:
    """Whether single columns are too far off to be called kept: by their size, and not by chance."""
    return bool(score.mean > FAR and score.mean > NOTICEABLE * score.floor)


def _weaknesses(found: Findings) -> str:
    parts = []
    best, told = _single_columns(found)
    if best is not None and _far(best):
        parts.append(f"the distributions of {told} are off (mean TVD {best.mean:.2g}, by chance {best.floor:.2g})")
    if lost := lost_most(found["associations"]):
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        parts.append(f"the association of {in_words(lost[0])}{more} was lost or weakened")
    worst = max((m.worst for m in found["marginals"] if m.worst), key=lambda t: t.tvd - t.floor, default=None)
    if worst is not None and worst.tvd > NOTICEABLE * worst.floor:
        names = " × ".join(worst.names)
        parts.append(f"the table of {names} is farthest off (TVD {worst.tvd:.2g}, floor {worst.floor:.2g})")
    apart = [s for s in found["specks"] if s.beyond_chance]
    if apart:
        sharpest = max(apart, key=lambda s: s.value - s.null_95)
        parts.append(
            f"{CLASSIFIERS.get(sharpest.classifier, sharpest.classifier)} can tell the tables apart "
            f"(KS {sharpest.value:.3g}, by chance up to {sharpest.null_95:.3g})"
        )
    if found["subgroups"].worst:
        group = found["subgroups"].worst[0]
        parts.append(
            f"served worst: {group} (n = {group.authentic:,}), whose distributions are off by {group.tvd:.2g}, "
            f"{group.excess:.2g} more than chance"
        )
    return "; ".join(parts) or "nothing measured here stands out"
