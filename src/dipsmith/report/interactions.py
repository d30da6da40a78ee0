"""Interaction plots: two parameters varied at once, one along the lines and one across the panels.

As in the reports of the synthetic data project of Duke University (2018, 2019): left and right panels for the levels of
one parameter, a dashed line for each level of another, and where coefficients are drawn over years the authentic ones
solid. Lines that run in parallel mean that the parameters do not interact. Whiskers are 95 % intervals of means over
repeats and over the parameters that are not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import COLOURS, RULE, SOFT, WIDTH, shorten, surface, wrap_label
from dipsmith.report.drawing import (
    AUTHENTIC,
    REFERENCE,
    ChartLine,
    draw_key,
    draw_line,
    make_logarithmic,
    panels,
    release_look,
)

MOST_LINES = len(COLOURS)
CHARACTERS = 96
"""Of a label that fit side by side into the width of a drawing."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel: lines over the same positions, and a solid or grey line to hold them against."""

    title: str
    lines: Sequence[ChartLine]
    reference: Floats | None = None


@dataclass(frozen=True)
class Axes:
    """Words and scales: what runs along x and y, what tells the lines apart, which axes are logarithmic, and the `ends` of y."""

    x: str
    y: str
    lines: str = ""
    reference: str = ""
    authentic: bool = False
    log_x: bool = False
    log_y: bool = False
    ends: tuple[float, float] = (-np.inf, np.inf)


def interaction(positions: Sequence[str], rows: Mapping[str, Sequence[Panel]], axes: Axes) -> str:
    """Rows of panels (one row per quantity) with shared scales in a row; the lines are named once."""
    columns = max(len(drawn) for drawn in rows.values())
    at = _places(positions, axes)
    with surface(WIDTH, 0.7 + 2.35 * len(rows)) as (figure, done):
        grid = figure.subplots(len(rows), columns, sharex=True, sharey="row", squeeze=False)
        for i, (quantity, drawn) in enumerate(rows.items()):
            for panel, axis in zip(drawn, grid[i], strict=False):
                _draw(axis, at, panel, axes)
                if i == 0:
                    axis.set_title(wrap_label(panel.title, CHARACTERS // columns - 4))
                axis.set_xticks(at, _ticks(positions, columns))
                axis.margins(x=0.1)
            grid[i][0].set_ylabel(_title(quantity or axes.y, axes, 44))
            for axis in grid[i][len(drawn) :]:
                axis.set_visible(False)
        for axis in grid[-1]:
            axis.set_xlabel(axes.x)
        first = next(iter(rows.values()))[0]
        _draw_key(figure, [line.name for line in first.lines], axes, first.reference is not None)
        return done()


def multiples(positions: Sequence[str], panel: Panel, axes: Axes) -> str:
    """Many lines as small multiples: one line to a panel, in blue, the others behind it in grey; scales are shared."""
    at, lines, columns = _places(positions, axes), panel.lines, min(3, len(panel.lines))
    shape: dict[str, Any] = {"y": _title(axes.y, axes, 26), "sharex": True, "sharey": True}
    with panels(len(lines), 3, lambda rows, _: 0.5 + 1.9 * rows, **shape) as (figure, drawn, done):
        for i, (line, axis) in enumerate(zip(lines, drawn, strict=True)):
            for other in lines:
                if other is not line:
                    axis.plot(at, other.values, color=RULE, linewidth=0.8, zorder=1)
            _draw(axis, at, Panel(line.name, [line], panel.reference), axes)
            axis.set_title(wrap_label(line.name, CHARACTERS // columns - 2), color=COLOURS[0])
            axis.set_xticks(at, _ticks(positions, columns))
            if i + columns >= len(lines):
                axis.set_xlabel(axes.x)
        if panel.reference is not None:
            _draw_key(figure, [], axes, True)
        return done()


def positive_numbers(labels: Sequence[str]) -> Floats | None:
    """The numbers that labels are, if all are numbers above 0; else None."""
    try:
        found = np.array([float(v) for v in labels])
    except ValueError:
        return None
    return found if (found > 0).all() else None


def _places(positions: Sequence[str], axes: Axes) -> Floats:
    numbers = positive_numbers(positions) if axes.log_x else None
    return np.arange(len(positions), dtype=float) if numbers is None else np.log10(numbers)


def _draw(axis: Any, at: Floats, panel: Panel, axes: Axes) -> None:
    if panel.reference is not None and axes.authentic:
        axis.plot(at, panel.reference, markersize=3.5, linewidth=1.3, zorder=4, **AUTHENTIC)
    elif panel.reference is not None:
        axis.plot(at, panel.reference, "-", color=SOFT, linewidth=0.9, zorder=1)
    if axes.authentic:
        axis.axhline(0, color=RULE, linewidth=0.8, zorder=1)
    width = float(at[-1] - at[0]) if len(at) > 1 else 1.0
    for i, line in enumerate(panel.lines[:MOST_LINES]):
        shift = (i - (len(panel.lines) - 1) / 2) * 0.012 * width
        draw_line(axis, at + shift, line, release_look(i), ends=axes.ends)
    if axes.log_y:
        make_logarithmic(axis)


def _draw_key(figure: Any, names: Sequence[str], axes: Axes, reference: bool) -> None:
    entries = [
        (shorten(f"{axes.lines} = {name}" if axes.lines else name, 34), release_look(i))
        for i, name in enumerate(names[:MOST_LINES])
    ]
    if reference and axes.authentic:
        entries.insert(0, ("authentic", {**AUTHENTIC, "markersize": 3.5}))
    elif reference:
        entries.insert(0, (shorten(axes.reference, 48), REFERENCE))
    longest = max((len(text) for text, _ in entries), default=1)
    draw_key(figure, entries, max(1, min(len(entries), 110 // (longest + 7))))


def _title(text: str, axes: Axes, most: int) -> str:
    """The title of a vertical axis; says so where its scale is logarithmic."""
    return wrap_label(text, most) + ("\nlogarithmic scale" if axes.log_y else "")


def _ticks(positions: Sequence[str], columns: int) -> list[str]:
    """Names of positions in the room that they have."""
    room = CHARACTERS // columns // len(positions)
    return [wrap_label(p, min(14, max(8, room - 2)), lines=3) for p in positions]
