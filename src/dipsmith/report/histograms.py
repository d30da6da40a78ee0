"""Authentic and synthetic histograms over each other, one small panel for each column.

Authentic bars are near-black and filled; every release is a dashed outline in its colour, with a rim of paper so that
it is seen on the bars. Scales end at one of a few shares, so that panels with the same end can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import COLOURS, DASH, INK, PAPER, RULE, SOFT, few_labels, panel_room, shorten, shorten_all
from dipsmith.report.drawing import panels

ENDS = (0.02, 0.05, 0.1, 0.15, 0.25, 0.4, 0.5, 0.75, 1.0)
"""Where scales end."""
MOST_ROWS = 8
"""Levels of a list that have a bar of their own; the others share one."""
UPRIGHT = 6
"""More ordered levels than this stand side by side."""
NARROW = 40
"""Of more levels outlines are finer and have no rim, so that they do not cover the bars."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """One panel: shares by level in the authentic rows, and in each release.

    `ordered` levels keep their order, others are sorted by their authentic share; `public` ones are the same in all.
    """

    title: str
    note: str
    labels: Sequence[str]
    authentic: Floats
    synthetic: Sequence[Floats]
    ordered: bool
    public: bool = False


def overlays(drawn: Sequence[Overlay], names: Sequence[str]) -> str:
    """All panels, three in a row; `names` are those of the releases."""
    with panels(len(drawn), 3, lambda rows, _: 0.5 + 2.05 * rows) as (figure, axes, done):
        for panel, axis in zip(drawn, axes, strict=True):
            sides = [panel.authentic, *panel.synthetic]
            if panel.ordered and len(panel.labels) > UPRIGHT:
                _draw_upright(axis, panel, sides)
            else:
                _draw_rows(axis, *_largest(panel, sides), public=panel.public)
            axis.set_title(f"{shorten(panel.title, 30)}\n{panel.note}", fontsize=8.5)
        _draw_key(figure, names, public=any(panel.public for panel in drawn))
        # narrow screens scroll small panels instead of making their words smaller
        return done().replace("<svg ", '<svg class="map" style="min-width: 40rem" ', 1)


def scale_end(shares: Sequence[Floats]) -> float:
    """The least of the ends that holds all shares.

    >>> scale_end([np.array([0.03, 0.2])]), scale_end([np.zeros(2)])
    (0.25, 0.02)
    """
    highest = max((float(side.max(initial=0.0)) for side in shares), default=0.0)
    return next((end for end in ENDS if highest <= end), 1.0)


def _largest(panel: Overlay, sides: Sequence[Floats]) -> tuple[list[str], list[Floats]]:
    """The levels that get a bar, and one for all others."""
    labels = list(panel.labels)
    if panel.ordered:
        return labels, list(sides)
    order = np.argsort(-panel.authentic, kind="stable")
    most = len(order) if len(order) <= MOST_ROWS else MOST_ROWS - 1
    first, rest = order[:most], order[most:]
    shown = [labels[i] for i in first] + ([f"{len(rest)} others"] if len(rest) else [])
    return shown, [np.append(side[first], [side[rest].sum()] if len(rest) else []) for side in sides]


def _outline_style(i: int, of: int) -> dict[str, Any]:
    """The look of one release's outline; the dashes of several take turns, so that equal ones are all seen."""
    dash = DASH if of == 1 else (4 * i, (4, 4 * (of - 1)))
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": dash, "linewidth": 1.2}


def _draw_upright(axis: Any, panel: Overlay, sides: Sequence[Floats]) -> None:
    edges = np.arange(len(panel.labels) + 1) - 0.5
    fill = RULE if panel.public else INK
    axis.stairs(sides[0], edges, fill=True, color=fill, linewidth=0)
    made = () if panel.public else sides[1:]
    finer = min(1.0, NARROW / len(panel.labels))
    for side in made if finer == 1 else ():
        axis.stairs(side, edges, color=PAPER, linewidth=2.6)
    for i, side in enumerate(made):
        look = _outline_style(i, len(made))
        axis.stairs(side, edges, **{**look, "linewidth": max(0.6, look["linewidth"] * finer)})
    axis.set_xticks(*few_labels(panel.labels, panel_room(axis)))
    axis.set_xlim(edges[0] - 0.2, edges[-1] + 0.2)
    end = scale_end(sides)
    axis.set_ylim(0, end)
    axis.set_yticks([0, end / 2, end], ["0", f"{100 * end / 2:g}", f"{100 * end:g} %"])


def _draw_rows(axis: Any, labels: Sequence[str], sides: Sequence[Floats], *, public: bool) -> None:
    at = np.arange(len(labels), dtype=float)
    axis.barh(at, sides[0], 0.74, color=RULE if public else INK, linewidth=0)
    made = () if public else sides[1:]
    for side in made:
        axis.barh(at, side, 0.74, facecolor="none", edgecolor=PAPER, linewidth=2.6)
    for i, side in enumerate(made):
        look = _outline_style(i, len(made))
        axis.barh(at, side, 0.74, facecolor="none", edgecolor=look.pop("color"), **look)
    axis.set_yticks(at, shorten_all(labels, 18), fontsize=7.5)
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(max(len(labels), 3) - 0.4, -0.6)
    end = scale_end(sides)
    axis.set_xlim(0, end * 1.01)
    axis.set_xticks([0, end / 2, end], ["0", f"{100 * end / 2:g}", f"{100 * end:g} %"])


def _draw_key(figure: Any, names: Sequence[str], *, public: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(facecolor=INK, label="authentic")]
    handles += [Line2D([], [], label=name, **_outline_style(i, len(names))) for i, name in enumerate(names)]
    if public:
        handles.append(Patch(facecolor=RULE, edgecolor=SOFT, linewidth=0.5, label="public, the same in both"))
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False, fontsize=8)
