"""The chapters of a comparison that are figures: the panels, and who is served worst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dipsmith.report import figures
from dipsmith.report.content import Block, Figure, Section, Table
from dipsmith.utility.captions import Rows, parameters, sizes, table, told
from dipsmith.utility.findings import Findings
from dipsmith.utility.panels import FEWEST, Points
from dipsmith.utility.subgroups import SMALLEST

MOST_BARS = 24
SHRUNK = 0.95
"""A slope of synthetic on authentic below this is attenuation that a title should tell."""


def panels(found: Sequence[Findings]) -> Section:
    """The panels of the Duke studies, and logistic coefficients."""
    blocks: list[Block] = []
    if len(found[0].bars):
        blocks.append(_bars(found))
    if len(found[0].joint):
        blocks.append(
            _against(
                found,
                [f.joint for f in found],
                "joint-proportions",
                "(b) Joint proportions",
                "share of authentic rows",
                "share of synthetic rows",
                "Shares of rows in the joint categories of the synthesised columns and every other column. Axes are stretched near 0 (square root).",
                power=0.5,
            )
        )
    if len(found[0].slopes):
        blocks.append(
            _against(
                found,
                [f.slopes for f in found],
                "p-slopes",
                "(c) p-slopes of all level indicators",
                "authentic slope",
                "synthetic slope",
                f"P(y | x) − P(y | not x) for every pair of levels of two columns, levels with fewer than {FEWEST} rows left out. A slope below 1 is attenuation.",
            )
        )
        blocks.append(
            _against(
                found,
                [f.correlations for f in found],
                "correlations",
                "(d) Correlations of all level indicators",
                "authentic correlation",
                "synthetic correlation",
                "Correlation of the indicators of every pair of levels of two columns, the same levels.",
            )
        )
    logistic = [(f, f.logistic) for f in found if f.logistic is not None and len(f.logistic.points)]
    if logistic:
        first = logistic[0][1]
        said = " + ".join(first.predictors)
        blocks.append(
            _against(
                [f for f, _ in logistic],
                [panel.points for _, panel in logistic],
                "logistic",
                f"Logistic coefficients: {first.target} = {first.level} on {said}",
                "authentic log-odds",
                "synthetic log-odds",
                f"Against {', '.join(f'{p} = {r}' for p, r in zip(first.predictors, first.references, strict=True))}; bars: 95 % "
                "intervals of an ordinary analysis. Levels with fewer than five rows of either outcome are left out.",
                errors=True,
            )
        )
    return Section("Panels: authentic against synthetic", tuple(blocks))


def subgroups(found: Sequence[Findings]) -> Section:
    """Error by size of subgroup, and who is served worst."""
    if not found[0].subgroups.classes:
        return Section("Who is served worst", ())
    rows: list[tuple[Findings, Rows]] = [
        (f, [(str(c), c.groups, c.lost, c.tvd, c.floor, c.tvd - c.floor) for c in f.subgroups.classes])
        for f in found
    ]
    columns = ("authentic rows", "groups", "lost", "mean TVD", "floor", "excess")
    labels = [str(c) for c in found[0].subgroups.classes]
    lines = [
        figures.Line(
            f.name if len(found) > 1 else "synthetic", np.array([c.tvd for c in f.subgroups.classes])
        )
        for f in found
        if len(f.subgroups.classes) == len(labels)
    ]
    floor = np.array([c.floor for c in found[0].subgroups.classes])
    smallest = found[0].subgroups.classes[0]
    svg = ""
    if figures.available():
        svg = figures.by_size(
            labels, floor, lines, "authentic rows in the subgroup", "mean TVD within it (log scale)"
        )
    figure = Figure(
        title="How far off is the distribution within a subgroup, by its size?",
        svg=svg,
        caption=f"Mean total variation distance of all other columns within subgroups by one and two columns. {sizes(found)}",
        alternative=f"Mean distance by size of subgroup. In the smallest class, {smallest}, it is {smallest.tvd:.2g} against "
        f"{smallest.floor:.2g} by chance; in the largest {found[0].subgroups.classes[-1].tvd:.2g}.",
        numbers=table("Error by size of subgroup", columns, rows),
        parameters=parameters(found),
        file="numbers/subgroups",
    )
    worst = table(
        "The subgroups served worst, beyond what chance explains",
        ("subgroup", "authentic rows", "synthetic rows", "TVD", "floor", "excess"),
        [
            (f, [(str(g), g.authentic, g.synthetic, g.tvd, g.floor, g.excess) for g in f.subgroups.worst])
            for f in found
        ],
        f"Groups of fewer than {SMALLEST} authentic rows are counted above but not named.",
    )
    by_class = table("Error by size of subgroup", columns, rows, "Lost: the synthetic table has no such row.")
    return Section("Who is served worst", (figure, by_class, worst) if svg else (figure, worst))


def _bars(found: Sequence[Findings]) -> Figure:
    shown = found[0].bars.top(MOST_BARS)
    place = {label: i for i, label in enumerate(shown.labels)}
    lines, columns = [], [shown.authentic]
    for f in found:
        values = np.zeros(len(shown))
        for label, value in zip(f.bars.labels, f.bars.synthetic, strict=True):
            if label in place:
                values[place[label]] = value
        lines.append(figures.Line("synthetic" if len(found) == 1 else f.name, values))
        columns.append(values)
    rest = len(found[0].bars) - len(shown)
    svg = figures.bars(shown.labels, shown.authentic, lines, "share of rows") if figures.available() else ""
    return Figure(
        title="(a) Are the largest joint categories kept?",
        svg=svg,
        caption=f"Share of the rows in the joint categories, largest first{f'; {rest:,} smaller ones are not shown' if rest > 0 else ''}. {sizes(found)}",
        alternative="Bars of joint proportions. Largest: "
        + "; ".join(
            f"{label} {a:.3f} authentic, {s:.3f} synthetic"
            for label, a, s in zip(shown.labels[:5], columns[0][:5], columns[1][:5], strict=True)
        )
        + ".",
        numbers=Table.of(
            "Joint proportions",
            ("category", "authentic", *(f.name for f in found)),
            [(label, *(float(c[i]) for c in columns)) for i, label in enumerate(shown.labels)],
        ),
        parameters=parameters(found),
        file="numbers/joint-bars",
    )


def _against(
    found: Sequence[Findings],
    points: Sequence[Points],
    file: str,
    title: str,
    x: str,
    y: str,
    caption: str,
    *,
    power: float = 1.0,
    errors: bool = False,
) -> Figure:
    svg = ""
    if figures.available():
        made = [
            figures.Against(
                f.name if len(found) > 1 else "",
                p.authentic,
                p.synthetic,
                p.labels,
                f"r = {told(p.correlation, 3)}\nslope {told(p.slope, 2)}",
                1.96 * p.authentic_se if errors and p.authentic_se is not None else None,
                1.96 * p.synthetic_se if errors and p.synthetic_se is not None else None,
            )
            for f, p in zip(found, points, strict=True)
        ]
        svg = figures.against(made, x, y, power=power)
    far = points[0]
    order = np.argsort(-np.abs(far.synthetic - far.authentic), kind="stable")[:3]
    farthest = "; ".join(
        f"{far.labels[i]} ({far.authentic[i]:.3g} authentic, {far.synthetic[i]:.3g} synthetic)" for i in order
    )
    kept = "; ".join(
        f"{f.name}: correlation {told(p.correlation, 3)}, slope {told(p.slope, 2)}"
        for f, p in zip(found, points, strict=True)
    )
    summary = Table.of(
        title,
        ("release", "points", "correlation", "slope", "root mean squared difference"),
        [(f.name, len(p), p.correlation, p.slope, p.rmse) for f, p in zip(found, points, strict=True)],
    )
    return Figure(
        title=f"{title}: {_verdict(found, points)}",
        svg=svg,
        caption=f"{caption} {len(far):,} points, the three farthest are named. {sizes(found)}",
        alternative=f"{title}, authentic against synthetic. {kept}. Farthest from equality: {farthest}.",
        numbers=_point_numbers(found, points) if svg else summary,
        parameters=parameters(found),
        file=f"numbers/{file}",
    )


def _verdict(found: Sequence[Findings], points: Sequence[Points]) -> str:
    """The finding of a panel in a few words."""
    if len(found) == 1:
        p = points[0]
        shrunk = f", shrunk to {p.slope:.0%}" if p.slope < SHRUNK else ""
        return f"correlation {told(p.correlation, 3)}{shrunk}"
    return ", ".join(f"{f.name} {told(p.correlation, 3)}" for f, p in zip(found, points, strict=True))


def _point_numbers(found: Sequence[Findings], points: Sequence[Points]) -> Table:
    columns = ["release", "point", "authentic", "synthetic"]
    with_errors = points[0].authentic_se is not None
    if with_errors:
        columns += ["authentic s.e.", "synthetic s.e."]
    rows: Rows = []
    for f, p in zip(found, points, strict=True):
        parts = [p.authentic, p.synthetic]
        if with_errors and p.authentic_se is not None and p.synthetic_se is not None:
            parts += [p.authentic_se, p.synthetic_se]
        rows += [
            (f.name, label, *values)
            for label, *values in zip(p.labels, *(v.tolist() for v in parts), strict=True)
        ]
    return Table.of("Points", columns, rows)
