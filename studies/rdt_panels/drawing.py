"""The report's panels: (a) bars and (b) joint proportions, (c) p-slopes and (d) correlations, logistic coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from studies.rdt_panels.settings import Compared

from dipsmith.report.canvas import COLOURS, DASH, INK, SOFT, standalone, surface
from dipsmith.utility.metric import SideBySide
from dipsmith.utility.panels import Points, correlations, joint_bars, joint_proportions, logistic_panel, p_slopes

BARS = 20
NAMED = 3
_LOOKS = {"agency": (COLOURS[0], "o"), "occupation": (COLOURS[1], "s"), "": (COLOURS[0], "o")}
_OTHERS = (SOFT, "^")

Panel = tuple[str, Points]


def points_of(compared: Compared, both: SideBySide) -> list[Panel]:
    """The panels of one release, by their letters: what is drawn, and what the page's table sums up."""
    tables = both.tables[0]
    if compared.panels == "logistic":
        found = logistic_panel(both.pairs[0], compared.predictors)
        assert found is not None
        return [(f"P(female) on {' + '.join(compared.predictors)}", found.points)]
    if compared.panels == "ab":
        return [("(a)", joint_bars(tables, "occupation")), ("(b)", _without_year(joint_proportions(tables)))]
    return [
        ("(c) p-slopes", _between(p_slopes(tables), both_ways=False)),
        ("(d) correlations", _between(correlations(tables), both_ways=True)),
    ]


def _without_year(points: Points) -> Points:
    """All but the categories of the only year."""
    kept = np.array(["year " not in label for label in points.labels])
    labels = tuple(label for label, keep in zip(points.labels, kept, strict=True) if keep)
    return Points(labels, points.authentic[kept], points.synthetic[kept])


def _between(points: Points, *, both_ways: bool) -> Points:
    """What lies between a synthetic label and a public level: slopes of the former on the latter, or both ways."""
    kept = np.array([_is_between(label, both_ways) for label in points.labels])
    labels = tuple(label for label, keep in zip(points.labels, kept, strict=True) if keep)
    groups = tuple(group for group, keep in zip(points.groups, kept, strict=True) if keep)
    return Points(labels, points.authentic[kept], points.synthetic[kept], groups=groups)


def _is_between(label: str, both_ways: bool) -> bool:
    left, right = (side.split(" = ")[0] in ("sex", "race") for side in label.split(" by "))
    return left != right and (left or both_ways) and "year =" not in label


def draw(compared: Compared, found: Sequence[Sequence[Panel]]) -> str:
    """One figure: a column for each setting."""
    rows = len(found[0])
    with surface(7.4, 3.95 * rows) as (figure, done):
        grid = figure.subplots(rows, 2, squeeze=False)
        for r in range(rows):
            pair = [panels[r] for panels in found]
            if pair[0][0] == "(a)":
                _bars(grid[r], pair)
            else:
                bounds = _bounds([points for _, points in pair])
                for axis, (name, points) in zip(grid[r], pair, strict=True):
                    _against(axis, name, points, bounds, power=0.5 if name == "(b)" else 1.0)
        for axis, name in zip(grid[0], compared.names, strict=True):
            axis.set_title(name, pad=22 if grid[0, 0].get_title() else None)
        _key(figure, found)
        words = f"Figure {compared.number} of the report on simulated employees: {compared.varied}, left {compared.names[0]}, "
        return standalone(done(), f"{words}right {compared.names[1]}; authentic values across, synthetic ones upwards.")


def _bars(axes: Any, pair: Sequence[Panel]) -> None:
    for axis, (name, points) in zip(axes, pair, strict=True):
        top = points.top(BARS)
        at = np.arange(len(top))
        axis.barh(at - 0.2, top.authentic, 0.36, color=INK, label="authentic")
        look = {"facecolor": "none", "edgecolor": COLOURS[0], "linestyle": DASH, "linewidth": 0.9}
        axis.barh(at + 0.2, top.synthetic, 0.36, label="synthetic", **look)
        axis.set_yticks(at, [label.replace("occupation ", "") for label in top.labels], fontsize=6.5)
        axis.set_ylim(len(top) - 0.4, -0.6)
        axis.set_xlabel(f"{name} share of rows: occupation · sex · race")
    axes[1].legend(frameon=False, fontsize=7.5, loc="lower right")


def _against(axis: Any, name: str, points: Points, bounds: tuple[float, float], *, power: float) -> None:
    axis.plot(bounds, bounds, color=SOFT, linewidth=0.8, zorder=1)
    # The many points of other columns first: those of agency and occupation must not lie under them.
    for group, part in reversed(points.by_group()):
        colour, mark = _LOOKS.get(group, _OTHERS)
        look = {"markersize": 3.2, "markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 0.8}
        axis.plot(part.authentic, part.synthetic, mark, zorder=3, **look)
    if power != 1:
        functions = (lambda v: np.sign(v) * np.abs(v) ** power, lambda v: np.sign(v) * np.abs(v) ** (1 / power))
        ticks = [t for t in (0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5) if t <= bounds[1]]
        for which in ("x", "y"):
            getattr(axis, f"set_{which}scale")("function", functions=functions)
            getattr(axis, f"set_{which}ticks")(ticks, [f"{t:g}" for t in ticks])
        axis.minorticks_off()
    axis.set_xlim(bounds)
    axis.set_ylim(bounds)
    axis.set_box_aspect(1)
    axis.set_xlabel("authentic")
    axis.set_ylabel(f"{'(b) joint proportions' if name == '(b)' else name}: synthetic")
    note = f"r = {points.correlation:.3f}, slope {points.slope:.2f}"
    axis.text(0.03, 0.97, note, transform=axis.transAxes, va="top", fontsize=8)
    far = np.argsort(-np.abs(points.synthetic - points.authentic), kind="stable")[:NAMED]
    names = "\n".join(f"{i} {points.labels[k]}" for i, k in enumerate(far, start=1))
    axis.text(0.98, 0.02, names, transform=axis.transAxes, ha="right", va="bottom", fontsize=6.5, color=SOFT)
    for i, k in enumerate(far, start=1):
        up = 1 if points.synthetic[k] > points.authentic[k] else -1
        place = {"xytext": (-5 * up, 5 * up), "textcoords": "offset points"}
        axis.annotate(str(i), (points.authentic[k], points.synthetic[k]), **place, fontsize=7, ha="center", va="center")


def _bounds(parts: Sequence[Points]) -> tuple[float, float]:
    values = np.concatenate([side for p in parts for side in (p.authentic, p.synthetic)])
    margin = 0.06 * float(np.ptp(values))
    return (0.0 if values.min() >= 0 else float(values.min()) - margin), float(values.max()) + margin


def _key(figure: Any, found: Sequence[Sequence[Panel]]) -> None:
    """Which mark is which attribute, said once."""
    from matplotlib.lines import Line2D

    groups = [name for name, _ in found[0][-1][1].by_group() if name]
    if not groups:
        return
    handles = []
    for name in groups:
        colour, mark = _LOOKS.get(name, _OTHERS)
        look = {"linestyle": "none", "markerfacecolor": "none", "markeredgecolor": colour, "markersize": 4}
        handles.append(Line2D([], [], marker=mark, label=name, **look))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(groups), frameon=False, fontsize=8)
