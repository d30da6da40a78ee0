"""Would an analyst conclude the same? The steward's regressions in both tables, by year where asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipsmith.report import figures
from dipsmith.report.content import Block, Cell, Figure, Heading, Section, Table
from dipsmith.utility.findings import Findings, figure, mean, series
from dipsmith.utility.regression import Agreement, RegressionComparison

MOST_COEFFICIENTS, MOST_TRENDS, MOST_IN_WORDS = 30, 12, 6


def analyses(compared: Sequence[RegressionComparison], found: Sequence[Findings]) -> Section:
    """The steward's analyses in both tables."""
    blocks: list[Block] = []
    for i, comparison in enumerate(compared, start=1):
        blocks.append(Heading(comparison.regression.formula))
        if not comparison.agreements:
            blocks += [f"Could not be fitted. {note}" for note in comparison.notes]
            continue
        draw = _trends if comparison.levels else _intervals
        blocks += [
            _agreement(comparison),
            draw(comparison, found, _choose_coefficients(comparison, found), i),
        ]
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


def _intervals(
    comparison: RegressionComparison, found: Sequence[Findings], terms: list[str], number: int
) -> Figure:
    agreements = [(f, a) for f in found if (a := comparison.of(f.name)) is not None]
    first = agreements[0][1]
    svg = ""
    if figures.available():
        lines = [_line(series(found, f), [(a, t) for t in terms], authentic=False) for f, a in agreements]
        original = _line("authentic", [(first, t) for t in terms], authentic=True)
        svg = figures.intervals(terms, original, lines, "coefficient, 95 % interval")
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


def _trends(
    comparison: RegressionComparison, found: Sequence[Findings], terms: list[str], number: int
) -> Figure:
    by = comparison.regression.by or ""
    levels = [level for level in comparison.levels if comparison.of(found[0].name, level) is not None]
    at = {f.name: [comparison.of(f.name, level) for level in levels] for f in found}
    svg = ""
    if figures.available() and terms:
        panels = [
            figures.Trend(
                term,
                _line("authentic", [(a, term) for a in at[found[0].name]], authentic=True),
                [_line(series(found, f), [(a, term) for a in at[f.name]], authentic=False) for f in found],
            )
            for term in terms[:MOST_TRENDS]
        ]
        svg = figures.trends(levels, panels, "coefficient")
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
