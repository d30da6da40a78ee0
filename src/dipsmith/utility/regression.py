"""Regressions in both tables: would an analyst of the release have concluded the same.

A formula is fitted to the authentic rows and to every set of every release by the same code
(`dipsmith.regression.analysis`), with the same levels and references. The ordinary intervals of a set are taken, which leave
the noise out, as most analysts would do, or the noise-aware ones (`replicates`). Sets that were sanitised separately get
the latter: T = ū + B/m (`separate="combine"`) sees what differs between them, and not the bias that all share.
Differences in differences, fixed effects, ridge and logistic models are formulas and families like any other.

Per coefficient: Karr's interval overlap with the ratio of the widths, whether the authentic interval covers the
synthetic estimate, and whether sign and significance agree. `by` fits one regression per level of a column (a year).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dipsmith.errors import UsageError
from dipsmith.inference.combine import Combined, Rule
from dipsmith.inference.noise_aware import Replication, combine_by, sampling_only
from dipsmith.regression.analysis import Analysis, Family
from dipsmith.regression.estimates import Estimates
from dipsmith.regression.model_frame import distinct_values, text_of
from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Figure, Heading, Section, Table
from dipsmith.schema.formula import Formula
from dipsmith.utility.findings import Findings, figure, mean, series

if TYPE_CHECKING:
    from dipsmith.schema import Schema
    from dipsmith.synthesis.release import Release

MOST_LEVELS = 60
MOST_COEFFICIENTS, MOST_TRENDS, MOST_IN_WORDS = 30, 12, 6

Interval = tuple[float, float]

SEPARATE_RUNS = 20
"""Runs of the mechanism for sets that were sanitised separately, where nothing else is asked."""


def overlap(original: Interval, synthetic: Interval) -> float:
    """Karr's J of two intervals, for the same quantity: what they have in common.

    Karr, Kohnen, Oganian, Reiter and Sanil (The American Statistician 60, 2006): with I the length of the
    intersection, J = ½[I / (U_o − L_o) + I / (U_s − L_s)], and 0 where the intervals do not meet. 1 is equality.
    An interval inside the other always scores at least ½ (a tiny one in a huge one: .500), so a wide, uninformative
    interval looks fine: the ratio of the widths belongs beside it.

    >>> overlap((0, 2), (1, 3)), overlap((0, 1), (2, 3)), overlap((0, 1), (0, 1))
    (0.5, 0.0, 1.0)
    >>> round(overlap((-1000, 1000), (-0.01, 0.01)), 3)
    0.5
    """
    common = min(original[1], synthetic[1]) - max(original[0], synthetic[0])
    if not common >= 0:
        return 0.0
    widths = [high - low for low, high in (original, synthetic)]
    if min(widths) == 0:
        # a point inside the other interval has all of itself in common with it
        return 1.0 if max(widths) == 0 else 0.5
    return 0.5 * (common / widths[0] + common / widths[1])


def width_ratio(original: Interval, synthetic: Interval) -> float:
    """How many times as wide the synthetic interval is."""
    width = original[1] - original[0]
    return (synthetic[1] - synthetic[0]) / width if width else float("nan")


@dataclass(frozen=True)
class Regression:
    """An analysis to compare.

    Formula, reference and family are as for `dipsmith.fit`; every level of the column `by` gets a regression.
    Coefficients that begin with one of `shown` are drawn (default: those of the synthesised columns); `replicates`
    above 0 ask for noise-aware intervals, by so many runs of the mechanism (sets that were sanitised separately: 20).
    `separate="combine"` takes T = ū + B/m for such sets instead, as the literature does.
    """

    formula: str
    by: str | None = None
    reference: Mapping[str, object] = field(default_factory=dict)
    family: Family = "auto"
    shown: tuple[str, ...] = ()
    replicates: int = 0
    separate: Literal["noise-aware", "combine"] = "noise-aware"

    @classmethod
    def of(cls, given: Regression | str | Mapping[str, Any]) -> Regression:
        """A regression from a formula or a mapping of its attributes."""
        if isinstance(given, Regression):
            return given
        if isinstance(given, str):
            return cls(given)
        try:
            return cls(**given)
        except TypeError:
            known = "formula, by, reference, family, shown, replicates, separate"
            raise UsageError(f"an analysis is a formula, or a mapping with {known}") from None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        names = Formula.parse(self.formula).attributes
        return names if self.by is None or self.by in names else (*names, self.by)


@dataclass(frozen=True)
class Coefficient:
    """One coefficient in both tables."""

    name: str
    authentic: float
    authentic_interval: Interval
    synthetic: float
    synthetic_interval: Interval

    @property
    def overlap(self) -> float:
        """Karr's overlap of the intervals."""
        return overlap(self.authentic_interval, self.synthetic_interval)

    @property
    def covered(self) -> bool:
        """Whether the authentic interval contains the synthetic estimate."""
        low, high = self.authentic_interval
        return low <= self.synthetic <= high

    @property
    def width_ratio(self) -> float:
        """How many times as wide the synthetic interval is."""
        return width_ratio(self.authentic_interval, self.synthetic_interval)

    @property
    def same_conclusion(self) -> bool:
        """Whether both are significantly positive, both significantly negative, or neither is significant."""
        signs = [
            1 if low > 0 else -1 if high < 0 else 0 for low, high in (self.authentic_interval, self.synthetic_interval)
        ]
        return signs[0] == signs[1]


@dataclass(frozen=True)
class Agreement:
    """What an analyst of one release would have found, beside the authentic finding."""

    release: str
    coefficients: tuple[Coefficient, ...]
    level: str = ""

    @property
    def overlap(self) -> float:
        """Mean interval overlap."""
        return mean([c.overlap for c in self.coefficients])

    @property
    def covered(self) -> float:
        """Share of the authentic intervals that cover the synthetic estimate."""
        return mean([float(c.covered) for c in self.coefficients])

    @property
    def same_conclusion(self) -> float:
        """Share of the coefficients with the same sign and significance."""
        return mean([float(c.same_conclusion) for c in self.coefficients])

    @property
    def width_ratio(self) -> float:
        """Median ratio of the widths."""
        ratios = [c.width_ratio for c in self.coefficients if c.width_ratio == c.width_ratio]
        return float(np.median(ratios or [np.nan]))


@dataclass(frozen=True)
class RegressionComparison:
    """A regression in the authentic table and in every release; with `by` once per level."""

    regression: Regression
    name: str
    references: str
    rule: str
    agreements: tuple[Agreement, ...]
    levels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, release: str, level: str = "") -> Agreement | None:
        """The agreement of one release (at one level)."""
        return next((a for a in self.agreements if (a.release, a.level) == (release, level)), None)


def compare_regression(
    regression: Regression, authentic: pa.Table, releases: Mapping[str, Release], schema: Schema
) -> RegressionComparison:
    """Fit a regression to the authentic rows and to every set of every release.

    Privacy
    -------
    Exact function of private rows: confidential.
    """
    tables = [authentic, *(t for r in releases.values() for t in r.tables)]
    tables = [t.select([c for c in authentic.column_names if c in t.column_names]) for t in tables]
    reference = {k: str(v) for k, v in regression.reference.items()}
    analysis = Analysis.of(regression.formula, tables, schema=schema, reference=reference, family=regression.family)
    levels = _levels(tables, regression.by)
    analysis = _one_family(analysis, tables, regression.by, levels)
    found: list[Agreement] = []
    notes: list[str] = []
    rule = ""
    for level in levels or [""]:
        try:
            original = sampling_only((analysis(_at(authentic, regression.by, level)),), 0.95, "")
            for name, release in releases.items():
                combined = _combine(analysis, release, regression, level)
                rule = combined.rule
                if untold := [e.name for e in combined if np.isfinite(e.value) and not np.isfinite(e.low)]:
                    notes.append(f"{name}: {', '.join(untold[:5])} left out: a run of the mechanism loses most of it")
                found.append(Agreement(name, tuple(_coefficients(original, combined)), level))
        except UsageError as error:
            notes.append(f"{regression.by} = {level}: {error}" if level else str(error))
    return RegressionComparison(
        regression, analysis.name, analysis.references, rule, tuple(found), tuple(levels), tuple(notes)
    )


def _one_family(analysis: Analysis, tables: Sequence[pa.Table], by: str | None, levels: Sequence[str]) -> Analysis:
    """Firth's method for all tables where "auto" finds one of them separated."""
    if not (analysis.falls_back and analysis.family == "logistic"):
        return analysis
    for level in levels or [""]:
        for table in tables:
            try:
                agreed = analysis.of_one_family([analysis(_at(table, by, level))])
            except UsageError:
                break  # the level will be left out, with the reason
            if agreed is not analysis:
                return agreed
    return analysis


def _combine(analysis: Analysis, release: Release, regression: Regression, level: str) -> Combined:
    def estimate(table: pa.Table) -> Estimates:
        return analysis(_at(table, regression.by, level))

    runs = regression.replicates
    rule: Rule = "noise-aware" if runs else "sampling"
    if not runs and release.card.sets > 1 and release.card.each == "split":
        runs, rule = SEPARATE_RUNS, regression.separate
    each = tuple(estimate(t) for t in release.tables)
    why = "Ordinary intervals, which leave the noise of privacy out"
    how = Replication(runs, seed=0)
    return combine_by(rule, release, estimate, each, how, why=why)


def _coefficients(original: Combined, synthetic: Combined) -> list[Coefficient]:
    theirs = {e.name: e for e in synthetic}
    found = []
    for ours in original:
        other = theirs.get(ours.name)
        if other is not None and np.isfinite([ours.value, ours.low, other.value, other.low]).all():
            intervals = (ours.low, ours.high), (other.low, other.high)
            found.append(Coefficient(ours.name, ours.value, intervals[0], other.value, intervals[1]))
    return found


def _levels(tables: Sequence[pa.Table], by: str | None) -> list[str]:
    if by is None:
        return []
    if any(by not in t.column_names for t in tables):
        raise UsageError(f"by='{by}': there is no such column in every table")
    seen = distinct_values(tables, by)
    if len(seen) > MOST_LEVELS:
        raise UsageError(f"by='{by}' has {len(seen)} values, at most {MOST_LEVELS} regressions are made")
    return seen


def _at(table: pa.Table, by: str | None, level: str) -> pa.Table:
    return table if by is None else table.filter(pc.equal(text_of(table.column(by)), level))


def analyses(compared: Sequence[RegressionComparison], found: Sequence[Findings]) -> Section:
    """The steward's analyses in both tables."""
    blocks: list[Block] = []
    for i, comparison in enumerate(compared, start=1):
        blocks.append(Heading(comparison.regression.formula))
        if not comparison.agreements:
            blocks += [f"Could not be fitted. {note}" for note in comparison.notes]
            continue
        draw, terms = _trends if comparison.levels else _intervals, _choose_coefficients(comparison, found)
        blocks += [_agreement(comparison), draw(comparison, found, terms, i)]
        blocks += [f"Left out: {note}" for note in comparison.notes]
    return Section("Analyses", tuple(blocks))


def summary_line(compared: RegressionComparison, found: Findings) -> tuple[str, Cell, Cell]:
    """The mean interval overlap of one release."""
    overlaps = [a.overlap for a in compared.agreements if a.release == found.name]
    formula, by = compared.regression.formula, compared.regression.by
    short = formula if len(formula) <= 34 else formula[:33] + "…"
    return f"interval overlap: {short}" + (f", by {by}" if by else ""), mean(overlaps), None


def _agreement(comparison: RegressionComparison) -> Table:
    # The columns that say which agreement it is, where there are several releases or levels.
    place = {"release": "release"} if len({a.release for a in comparison.agreements}) > 1 else {}
    if comparison.levels:
        place[comparison.regression.by or ""] = "level"
    rows: list[list[Cell]] = []
    for a in comparison.agreements:
        at = [getattr(a, name) for name in place.values()]
        rows.append([*at, len(a.coefficients), a.overlap, a.covered, a.same_conclusion, a.width_ratio])
    return Table.of(
        f"{comparison.name}: would an analyst of the release conclude the same?",
        (*place, "coefficients", "overlap", "authentic interval covers", "same conclusion", "width ratio"),
        rows,
        "Overlap: Karr's J, 1 is equality, at least ½ where one interval lies in the other. Covers: share of the authentic "
        f"95 % intervals that contain the synthetic estimate. {comparison.rule}."
        + (f" Reference: {comparison.references}." if comparison.references else ""),
    )


def _choose_coefficients(comparison: RegressionComparison, found: Sequence[Findings]) -> list[str]:
    """The coefficients to draw: as asked, else those of synthesised columns, else all."""
    names = list(dict.fromkeys(c.name for a in comparison.agreements for c in a.coefficients))
    starts = comparison.regression.shown or found[0].changed
    effects = [n for n in names if n != "Intercept"]
    chosen = [n for n in effects if n.startswith(tuple(starts))]
    return (chosen or effects or names)[:MOST_COEFFICIENTS]


def _intervals(comparison: RegressionComparison, found: Sequence[Findings], terms: list[str], number: int) -> Figure:
    agreements = [(f, a) for f in found if (a := comparison.of(f.name)) is not None]
    first = agreements[0][1]
    lines = [_line(series(found, f), [(a, t) for t in terms], authentic=False) for f, a in agreements]
    original = _line("authentic", [(first, t) for t in terms], authentic=True)
    svg = figures.intervals(terms, original, lines, "coefficient, 95 % interval") if figures.available() else ""
    of = "" if len(found) == 1 else f" ({first.release})"
    return figure(
        found,
        f"Coefficients: mean interval overlap {first.overlap:.2f}{of}",
        svg,
        f"{comparison.regression.formula}.",
        _in_words(first, terms),
        _numbers([a for _, a in agreements], comparison.regression.by),
        f"coefficients-{number}",
    )


def _trends(comparison: RegressionComparison, found: Sequence[Findings], terms: list[str], number: int) -> Figure:
    by = comparison.regression.by or ""
    levels = [level for level in comparison.levels if comparison.of(found[0].name, level) is not None]
    at = {f.name: [comparison.of(f.name, level) for level in levels] for f in found}
    panels = []
    for term in terms[:MOST_TRENDS]:
        original = _line("authentic", [(a, term) for a in at[found[0].name]], authentic=True)
        lines = [_line(series(found, f), [(a, term) for a in at[f.name]], authentic=False) for f in found]
        panels.append(figures.Trend(term, original, lines))
    svg = figures.trends(levels, panels, "coefficient") if figures.available() and terms else ""
    first = at[found[0].name][0] if levels else None
    return figure(
        found,
        f"Coefficients by {by}: is the trend kept?",
        svg,
        f"{comparison.regression.formula}, one regression for each {by}; authentic solid with its 95 % band, synthetic dashed with 95 % whiskers.",
        f"Coefficients by {by}. " + (f"In {levels[0]}: {_in_words(first, terms)}" if first else ""),
        _numbers(comparison.agreements, comparison.regression.by),
        f"coefficients-{number}",
    )


def _line(name: str, places: Sequence[tuple[Agreement | None, str]], *, authentic: bool) -> figures.ChartLine:
    """One estimate with its half-width at each place; nan where there is none."""
    values, halves = np.full(len(places), np.nan), np.full(len(places), np.nan)
    for i, (agreement, term) in enumerate(places):
        c = next((c for c in agreement.coefficients if c.name == term), None) if agreement else None
        if c is not None:
            low, high = c.authentic_interval if authentic else c.synthetic_interval
            values[i], halves[i] = c.authentic if authentic else c.synthetic, (high - low) / 2
    return figures.ChartLine(name, values, halves)


def _in_words(agreement: Agreement, terms: Sequence[str]) -> str:
    some = [c for c in agreement.coefficients if c.name in set(terms)][:MOST_IN_WORDS]
    return "; ".join(f"{c.name} {c.authentic:.3g} authentic, {c.synthetic:.3g} synthetic" for c in some) + "."


def _numbers(agreements: Sequence[Agreement], by: str | None) -> Table:
    estimates = ("authentic", "from", "to", "synthetic", "synthetic from", "synthetic to")
    rows: list[list[Cell]] = []
    for a in agreements:
        place = [a.release, a.level] if by else [a.release]
        for c in a.coefficients:
            both = (c.authentic, *c.authentic_interval, c.synthetic, *c.synthetic_interval)
            rows.append([*place, c.name, *both, c.overlap, "yes" if c.covered else "no"])
    columns = ("release", *([by] if by else []), "coefficient", *estimates, "overlap", "covered")
    return Table.of("Coefficients", columns, rows)
