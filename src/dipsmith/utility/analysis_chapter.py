"""The chapter of a comparison about the steward's analyses: coefficients in both tables, by year where asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Heading, Section, Table
from dipsmith.utility.captions import Rows, parameters, sizes
from dipsmith.utility.findings import Findings
from dipsmith.utility.regression import Agreement, RegressionComparison


def regressions(compared: Sequence[RegressionComparison], found: Sequence[Findings]) -> Section:
    """The steward's analyses in both tables."""
    blocks: list[Block] = []
    for i, comparison in enumerate(compared, start=1):
        blocks.append(Heading(comparison.regression.formula))
        if not comparison.agreements:
            blocks += [f"Could not be fitted. {note}" for note in comparison.notes]
            continue
        blocks.append(_agreement(comparison))
        shown = _shown(comparison, found)
        blocks.append(
            _trends(comparison, found, shown, i)
            if comparison.levels
            else _intervals(comparison, found, shown, i)
        )
        blocks += [f"Left out: {note}" for note in comparison.notes]
    return Section("Analyses", tuple(blocks))


def _agreement(comparison: RegressionComparison) -> Table:
    rows: Rows = []
    several = len({a.release for a in comparison.agreements}) > 1
    for a in comparison.agreements:
        place = (*((a.release,) if several else ()), *((a.level,) if comparison.levels else ()))
        rows.append((*place, len(a.coefficients), a.overlap, a.covered, a.same_conclusion, a.width_ratio))
    by = (
        *(("release",) if several else ()),
        *((comparison.regression.by or "",) if comparison.levels else ()),
    )
    return Table.of(
        f"{comparison.name}: would an analyst of the release conclude the same?",
        (
            *by,
            "coefficients",
            "overlap",
            "authentic interval covers",
            "same conclusion",
            "width ratio",
        ),
        rows,
        "Overlap: Karr's J, 1 is equality, at least ½ where one interval lies in the other. Covers: share of the authentic "
        f"95 % intervals that contain the synthetic estimate. {comparison.rule}."
        + (f" Reference: {comparison.references}." if comparison.references else ""),
    )


def _shown(comparison: RegressionComparison, found: Sequence[Findings]) -> list[str]:
    """The coefficients to draw: as asked, else those of synthesised columns, else all."""
    names = list(dict.fromkeys(c.name for a in comparison.agreements for c in a.coefficients))
    starts = comparison.regression.shown or found[0].changed
    chosen = [n for n in names if n.startswith(tuple(starts)) and n != "Intercept"]
    return (chosen or [n for n in names if n != "Intercept"] or names)[:30]


def _intervals(
    comparison: RegressionComparison, found: Sequence[Findings], shown: list[str], number: int
) -> Figure:
    agreements = [a for f in found if (a := comparison.of(f.name)) is not None]
    lines = [
        _line(a, shown, "synthetic" if len(found) == 1 else a.release, authentic=False) for a in agreements
    ]
    original = _line(agreements[0], shown, "authentic", authentic=True)
    svg = (
        figures.intervals(shown, original, lines, "coefficient, 95 % interval") if figures.available() else ""
    )
    mean = agreements[0].overlap
    return Figure(
        title=f"Coefficients: mean interval overlap {mean:.2f}"
        + ("" if len(found) == 1 else f" ({agreements[0].release})"),
        svg=svg,
        caption=f"{comparison.regression.formula}. {sizes(found)}",
        alternative=_coefficients_in_words(agreements[0], shown),
        numbers=_coefficient_numbers(agreements, comparison.regression.by),
        parameters=parameters(found),
        file=f"numbers/coefficients-{number}",
    )


def _trends(
    comparison: RegressionComparison, found: Sequence[Findings], shown: list[str], number: int
) -> Figure:
    by = comparison.regression.by or ""
    levels = [level for level in comparison.levels if comparison.of(found[0].name, level) is not None]
    made = []
    for name in shown[:12]:
        original = _over(
            [comparison.of(found[0].name, lv) for lv in levels], name, "authentic", authentic=True
        )
        lines = [
            _over(
                [comparison.of(f.name, lv) for lv in levels],
                name,
                "synthetic" if len(found) == 1 else f.name,
                authentic=False,
            )
            for f in found
        ]
        made.append(figures.Trend(name, original, lines))
    svg = figures.trends(levels, made, "coefficient") if figures.available() and made else ""
    first = comparison.of(found[0].name, levels[0]) if levels else None
    return Figure(
        title=f"Coefficients by {by}: is the trend kept?",
        svg=svg,
        caption=f"{comparison.regression.formula}, one regression for each {by}; authentic solid with its 95 % band, synthetic dashed with 95 % whiskers. {sizes(found)}",
        alternative=f"Coefficients by {by}. "
        + (f"In {levels[0]}: {_coefficients_in_words(first, shown)}" if first else ""),
        numbers=_coefficient_numbers(comparison.agreements, comparison.regression.by),
        parameters=parameters(found),
        file=f"numbers/coefficients-{number}",
    )


def _line(agreement: Agreement, shown: Sequence[str], name: str, *, authentic: bool) -> figures.Line:
    held = {c.name: c for c in agreement.coefficients}
    values, halves = [], []
    for term in shown:
        c = held.get(term)
        interval = None if c is None else c.authentic_interval if authentic else c.synthetic_interval
        values.append(np.nan if c is None else c.authentic if authentic else c.synthetic)
        halves.append(np.nan if interval is None else (interval[1] - interval[0]) / 2)
    return figures.Line(name, np.array(values), np.array(halves))


def _over(agreements: Sequence[Agreement | None], term: str, name: str, *, authentic: bool) -> figures.Line:
    lines = [_line(a, [term], name, authentic=authentic) if a is not None else None for a in agreements]
    values = np.array([np.nan if ln is None else ln.values[0] for ln in lines])
    halves = np.array([np.nan if ln is None or ln.half_width is None else ln.half_width[0] for ln in lines])
    return figures.Line(name, values, halves)


def _coefficients_in_words(agreement: Agreement, shown: Sequence[str]) -> str:
    held = [c for c in agreement.coefficients if c.name in set(shown)][:6]
    return "; ".join(f"{c.name} {c.authentic:.3g} authentic, {c.synthetic:.3g} synthetic" for c in held) + "."


def _coefficient_numbers(agreements: Sequence[Agreement], by: str | None) -> Table:
    place = (by,) if by else ()
    columns = (
        *("release", *place, "coefficient"),
        *("authentic", "from", "to", "synthetic", "synthetic from", "synthetic to"),
        *("overlap", "covered"),
    )
    rows: Rows = [
        (
            a.release,
            *((a.level,) if by else ()),
            c.name,
            c.authentic,
            *c.authentic_interval,
            c.synthetic,
            *c.synthetic_interval,
            c.overlap,
            "yes" if c.covered else "no",
        )
        for a in agreements
        for c in a.coefficients
    ]
    return Table.of("Coefficients", columns, rows)
