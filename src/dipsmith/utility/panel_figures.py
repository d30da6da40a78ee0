"""Panels of authentic against synthetic quantities, as in the Duke studies, and logistic coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Table
from dipsmith.utility.findings import Findings, Rows, decimal, figure, series
from dipsmith.utility.metric import ONE_IS_PERFECT, ZERO_IS_PERFECT, Chapter, Metric, SideBySide
from dipsmith.utility.panels import (
    FEWEST,
    LogisticPanel,
    Points,
    bar_columns,
    correlations,
    joint_bars,
    joint_proportions,
    logistic_panel,
    p_slopes,
)

MOST_BARS = 24
ATTENUATED = 0.95
"""A slope of synthetic on authentic below this is attenuation that a title should tell."""


def _find(both: SideBySide) -> dict[str, Any]:
    tables = both.tables[0]
    return {
        "bars": joint_bars(tables, both.third),
        "bar_columns": bar_columns(both.pairs[0], both.third),
        "joint": joint_proportions(tables),
        "slopes": p_slopes(tables),
        "correlations": correlations(tables),
        "logistic": logistic_panel(both.pairs[0]),
    }


@dataclass(frozen=True)
class _Panel:
    """A panel of points: where they are found, the file of its numbers, and its words."""

    key: str
    file: str
    title: str
    axis: str
    caption: str
    power: float = 1.0


_PANELS = (
    _Panel(
        "joint",
        "joint-proportions",
        "(b) Joint proportions",
        "share of {} rows",
        "Shares of rows in the joint categories of the synthesised columns and every other column. Axes are stretched near 0 (square root).",
        power=0.5,
    ),
    _Panel(
        "slopes",
        "p-slopes",
        "(c) p-slopes of all level indicators",
        "{} slope",
        f"P(y | x) − P(y | not x) for every pair of levels of two columns, levels with fewer than {FEWEST} rows left out. A slope below 1 is attenuation.",
    ),
    _Panel(
        "correlations",
        "correlations",
        "(d) Correlations of all level indicators",
        "{} correlation",
        "Correlation of the indicators of every pair of levels of two columns, the same levels.",
    ),
)


def _blocks(found: Sequence[Findings]) -> list[Block]:
    blocks: list[Block] = [_bars(found)] if len(found[0]["bars"]) else []
    blocks += [_against(found, [f[p.key] for f in found], p) for p in _PANELS if len(found[0][p.key])]
    fitted = [f for f in found if f["logistic"] is not None and len(f["logistic"].points)]
    if fitted:
        first: LogisticPanel = fitted[0]["logistic"]
        references = [f"{p} = {r}" for p, r in zip(first.predictors, first.references, strict=True)]
        panel = _Panel(
            "logistic",
            "logistic",
            f"Logistic coefficients: {first.target} = {first.level} on {' + '.join(first.predictors)}",
            "{} log-odds",
            f"Against {', '.join(references)}; bars: 95 % intervals of an ordinary analysis. Levels with fewer than five "
            "rows of either outcome are left out.",
        )
        blocks.append(_against(fitted, [f["logistic"].points for f in fitted], panel))
    return blocks


def _bars(found: Sequence[Findings]) -> Figure:
    bars: Points = found[0]["bars"]
    top = bars.top(MOST_BARS)
    columns = [top.authentic]
    for f in found:
        shares = dict(zip(f["bars"].labels, f["bars"].synthetic, strict=True))
        columns.append(np.array([shares.get(label, 0.0) for label in top.labels]))
    lines = [figures.ChartLine(series(found, f), v) for f, v in zip(found, columns[1:], strict=True)]
    rest = len(bars) - len(top)
    largest = zip(top.labels[:5], columns[0][:5], columns[1][:5], strict=True)
    in_words = "; ".join(f"{label} {a:.3f} authentic, {s:.3f} synthetic" for label, a, s in largest)
    left_out = f"; {rest:,} smaller ones are not shown" if rest > 0 else ""
    heads = ("category", "authentic", *(f.name for f in found))
    rows: Rows = [(label, *(float(c[i]) for c in columns)) for i, label in enumerate(top.labels)]
    return figure(
        found,
        f"(a) Are the largest joint categories of {' × '.join(found[0]['bar_columns'])} kept?",
        figures.bars(top.labels, top.authentic, lines, "share of rows") if figures.available() else "",
        f"Share of the rows in the joint categories, largest first{left_out}.",
        f"Bars of joint proportions. Largest: {in_words}.",
        Table.of("Joint proportions", heads, rows),
        "joint-bars",
    )


def _against(found: Sequence[Findings], points: Sequence[Points], panel: _Panel) -> Figure:
    """Authentic against synthetic values, a panel for each release."""
    each = list(zip(found, points, strict=True))
    panels = []
    for i, (f, p) in enumerate(each):
        for j, (group, part) in enumerate(p.by_group()):
            text = f"r = {decimal(part.correlation, 3)}\nslope {decimal(part.slope, 2)}"
            x_bars, y_bars = (None if se is None else 1.96 * se for se in (part.authentic_se, part.synthetic_se))
            name = ": ".join(filter(None, (series(found, f, ""), group)))
            values = part.authentic, part.synthetic, part.labels
            panels.append(figures.Against(name, *values, text, x_bars, y_bars, i, i + j))
    axes = [panel.axis.format(side) for side in ("authentic", "synthetic")]
    svg = figures.against(panels, *axes, power=panel.power) if figures.available() else ""
    first = points[0]
    order = np.argsort(-np.abs(first.synthetic - first.authentic), kind="stable")[:3]
    named = [(first.labels[i], first.authentic[i], first.synthetic[i]) for i in order]
    farthest = "; ".join(f"{label} ({a:.3g} authentic, {s:.3g} synthetic)" for label, a, s in named)
    fits = [(f.name, decimal(p.correlation, 3), decimal(p.slope, 2)) for f, p in each]
    fit = "; ".join(f"{name}: correlation {r}, slope {slope}" for name, r, slope in fits)
    summary = Table.of(
        panel.title,
        ("release", "points", "correlation", "slope", "root mean squared difference"),
        [(f.name, len(p), p.correlation, p.slope, p.rmse) for f, p in each],
    )
    return figure(
        found,
        f"{panel.title}: {_verdict(each)}",
        svg,
        f"{panel.caption} {len(first):,} points, the three farthest are named{_in_panels(first)}.",
        f"{panel.title}, authentic against synthetic. {fit}. Farthest from equality: {farthest}.",
        _point_numbers(each) if svg else summary,
        panel.file,
    )


def _in_panels(points: Points) -> str:
    """What the panels are, where there are several for one release."""
    names = [name for name, _ in points.by_group()]
    return f" in each panel; panels by attribute: {', '.join(names)}" if len(names) > 1 else ""


def _verdict(each: Sequence[tuple[Findings, Points]]) -> str:
    """The finding of a panel in a few words."""
    if len(each) > 1:
        return "correlation " + ", ".join(f"{decimal(p.correlation, 3)} ({f.name})" for f, p in each)
    p = each[0][1]
    shrunk = f", shrunk to {p.slope:.0%}" if p.slope < ATTENUATED else ""
    return f"correlation {decimal(p.correlation, 3)}{shrunk}"


def _point_numbers(each: Sequence[tuple[Findings, Points]]) -> Table:
    marked = bool(each[0][1].groups)
    columns = ["release", *(["attribute"] if marked else []), "point", "authentic", "synthetic"]
    if each[0][1].authentic_se is not None:
        columns += ["authentic s.e.", "synthetic s.e."]
    rows: Rows = []
    for f, p in each:
        parts = [v.tolist() for v in (p.authentic, p.synthetic, p.authentic_se, p.synthetic_se) if v is not None]
        groups = [p.groups] if marked else []
        rows += [(f.name, *values) for values in zip(*groups, p.labels, *parts, strict=True)]
    return Table.of("Points", columns, rows)


PANELS = Chapter(
    "Panels: authentic against synthetic",
    _find,
    _blocks,
    lambda found: [
        ("joint proportions, correlation", found["joint"].correlation, 0.0),
        ("p-slopes: synthetic on authentic", found["slopes"].slope, 0.0),
    ],
    place=4,
)


def _rmse(name: str, what: str, points: Callable[[SideBySide], Points | None]) -> Metric:
    def measure(both: SideBySide) -> tuple[float, float]:
        found = points(both)
        return (float("nan") if found is None else found.rmse), 0.0

    return Metric(name, f"error of {what}, root mean square", "lower", measure, ZERO_IS_PERFECT, PANELS)


JOINT_CORRELATION = Metric(
    "joint-correlation",
    "correlation of joint proportions",
    "higher",
    lambda both: (joint_proportions(both.tables[0]).correlation, 1.0),
    ONE_IS_PERFECT,
    PANELS,
)
SLOPE_RMSE = _rmse("slope-rmse", "p-slopes", lambda both: p_slopes(both.tables[0]))
CORRELATION_RMSE = _rmse("correlation-rmse", "level correlations", lambda both: correlations(both.tables[0]))
LOGISTIC_RMSE = _rmse(
    "logistic-rmse",
    "logistic coefficients",
    lambda both: panel.points if (panel := logistic_panel(both.pairs[0])) else None,
)
