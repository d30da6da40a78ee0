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
from numpy.typing import NDArray

from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, RULE, SOFT, WIDTH, short, surface

MOST_LINES = len(COLOURS)
CHARACTERS = 96
"""Of a label that fit side by side into the width of a drawing."""
ROOT = (
    ":root{--paper:#fffdf9;--ink:#1b1b1b;--soft:#5c5a55;--rule:#cfcabf;--accent:#0072b2;--second:#b84a00;"
    "--third:#00795a;--fourth:#9c4f7f}@media(prefers-color-scheme:dark){:root{--paper:#16171a;--ink:#e9e6df;"
    "--soft:#a7a39a;--rule:#44423d;--accent:#6bb7e8;--second:#f0925a;--third:#4fc4a1;--fourth:#dc9cc4}}"
)
"""What a page would define, for a drawing that stands alone."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Line:
    """Means at the positions of a panel, with 95 % half-widths; nan where nothing was run."""

    name: str
    values: Floats
    half_width: Floats


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel: lines over the same positions, and a solid or grey line to hold them against."""

    title: str
    lines: Sequence[Line]
    reference: Floats | None = None


@dataclass(frozen=True)
class Axes:
    """Words and scales: what runs along x and y, what tells the lines apart, and which axes are logarithmic."""

    x: str
    y: str
    lines: str = ""
    reference: str = ""
    authentic: bool = False
    log_x: bool = False
    log_y: bool = False


def mean_and_width(values: Floats) -> tuple[float, float]:
    """The mean and the 95 % half-width of a mean, by Student's law."""
    from scipy.special import stdtrit

    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    if len(known) < 2:
        return float(known[0]), float("nan")
    spread = float(known.std(ddof=1)) / np.sqrt(len(known))
    return float(known.mean()), float(stdtrit(len(known) - 1, 0.975)) * spread


def interaction(positions: Sequence[str], rows: Mapping[str, Sequence[Panel]], axes: Axes) -> str:
    """Rows of panels (one row per quantity) with shared scales in a row; the lines are named once."""
    quantities = list(rows)
    columns = max(len(panels) for panels in rows.values())
    numeric = _numbers(positions) if axes.log_x else None
    at = np.arange(len(positions), dtype=float) if numeric is None else np.log10(numeric)
    with surface(WIDTH, 0.7 + 2.35 * len(quantities)) as (figure, done):
        grid = figure.subplots(len(quantities), columns, sharex=True, sharey="row", squeeze=False)
        for i, quantity in enumerate(quantities):
            for panel, axis in zip(rows[quantity], grid[i], strict=False):
                _draw(axis, at, panel, axes)
                if i == 0:
                    axis.set_title(wrapped(panel.title, CHARACTERS // columns - 4))
                axis.set_xticks(at, _ticks(positions, columns))
                axis.margins(x=0.1)
                if axes.log_y:
                    _make_logarithmic(axis)
            grid[i][0].set_ylabel(_title(quantity or axes.y, axes, 44))
            for axis in grid[i][len(rows[quantity]) :]:
                axis.set_visible(False)
        for axis in grid[-1]:
            axis.set_xlabel(axes.x)
        first = rows[quantities[0]][0]
        _key(figure, [line.name for line in first.lines], axes, first.reference is not None)
        return done()


def multiples(positions: Sequence[str], panel: Panel, axes: Axes) -> str:
    """Many lines as small multiples: one line to a panel, in blue, the others behind it in grey; scales are shared."""
    numeric = _numbers(positions) if axes.log_x else None
    at = np.arange(len(positions), dtype=float) if numeric is None else np.log10(numeric)
    columns = min(3, len(panel.lines))
    rows = -(-len(panel.lines) // columns)
    with surface(WIDTH, 0.5 + 1.9 * rows) as (figure, done):
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for line, axis in zip(panel.lines, grid.ravel(), strict=False):
            for other in panel.lines:
                if other is not line:
                    axis.plot(at, other.values, color=RULE, linewidth=0.8, zorder=1)
            _draw(axis, at, Panel(line.name, [line], panel.reference), axes)
            axis.set_title(wrapped(line.name, CHARACTERS // columns - 2), color=COLOURS[0])
            axis.set_xticks(at, _ticks(positions, columns))
            if axes.log_y:
                _make_logarithmic(axis)
        for axis in grid.ravel()[len(panel.lines) :]:
            axis.set_visible(False)
        for axis in grid[-1]:
            axis.set_xlabel(axes.x)
        for row in grid:
            row[0].set_ylabel(_title(axes.y, axes, 26))
        if panel.reference is not None:
            _key(figure, [], axes, True)
        return done()


def _draw(axis: Any, at: Floats, panel: Panel, axes: Axes) -> None:
    if panel.reference is not None:
        if axes.authentic:
            axis.plot(at, panel.reference, "-o", color=INK, markersize=3.5, linewidth=1.3, zorder=4)
        else:
            axis.plot(at, panel.reference, "-", color=SOFT, linewidth=0.9, zorder=1)
    if axes.authentic:
        axis.axhline(0, color=RULE, linewidth=0.8, zorder=1)
    width = float(at[-1] - at[0]) if len(at) > 1 else 1.0
    for i, line in enumerate(panel.lines[:MOST_LINES]):
        shift = (i - (len(panel.lines) - 1) / 2) * 0.012 * width
        axis.errorbar(
            at + shift,
            line.values,
            yerr=np.nan_to_num(line.half_width),
            fmt=MARKS[i],
            linestyle=DASH,
            color=COLOURS[i],
            markerfacecolor="none",
            markersize=4.5,
            linewidth=1.2,
            elinewidth=0.7,
            zorder=5,
        )


def _key(figure: Any, names: Sequence[str], axes: Axes, reference: bool) -> None:
    from matplotlib.lines import Line2D

    handles, said = [], []
    if reference:
        dark = axes.authentic
        handles.append(
            Line2D([], [], color=INK if dark else SOFT, marker="o" if dark else None, markersize=3.5)
        )
        said.append("authentic" if dark else short(axes.reference, 48))
    for i, name in enumerate(names[:MOST_LINES]):
        handles.append(
            Line2D(
                [],
                [],
                color=COLOURS[i],
                linestyle=DASH,
                marker=MARKS[i],
                markerfacecolor="none",
                markersize=4.5,
            )
        )
        said.append(short(f"{axes.lines} = {name}" if axes.lines else name, 34))
    longest = max((len(text) for text in said), default=1)
    columns = max(1, min(len(said), 110 // (longest + 7)))
    figure.legend(handles, said, loc="outside upper right", ncols=columns, frameon=False, fontsize=8)


def _title(text: str, axes: Axes, most: int) -> str:
    """The title of a vertical axis; says so where its scale is logarithmic."""
    return wrapped(text, most) + ("\nlogarithmic scale" if axes.log_y else "")


def wrapped(text: str, most: int, lines: int = 2) -> str:
    r"""A text on so many lines of so many characters; cut only where they are too few.

    >>> wrapped("agency 60, occupation 20", 14)
    'agency 60,\noccupation 20'
    >>> wrapped("a, b", 14)
    'a, b'
    """
    from textwrap import wrap

    found = wrap(text, max(4, most), break_long_words=False)
    kept = [*found[: lines - 1], *([" ".join(found[lines - 1 :])] if found[lines - 1 :] else [])]
    return "\n".join(short(line, max(4, most)) for line in kept)


def _ticks(positions: Sequence[str], columns: int) -> list[str]:
    """Names of positions in the room that they have."""
    room = CHARACTERS // columns // len(positions)
    return [wrapped(p, min(14, max(8, room - 2)), lines=3) for p in positions]


def _numbers(labels: Sequence[str]) -> Floats | None:
    try:
        found = np.array([float(v) for v in labels])
    except ValueError:
        return None
    return found if (found > 0).all() else None


def standalone(svg: str) -> str:
    """A drawing as a file of its own: with its colours, and its size."""
    box = svg[svg.index('viewBox="') + 9 :].split('"')[0].split()
    head, rest = svg.split(">", 1)
    size = f' width="{float(box[2]) * 1.25:.0f}" height="{float(box[3]) * 1.25:.0f}"'
    return (
        f'{head}{size} xmlns="http://www.w3.org/2000/svg" font-family="Charter, Georgia, \'DejaVu Serif\', serif">'
        f"<style>{ROOT}</style>{rest}\n"
    )


def _make_logarithmic(axis: Any) -> None:
    """A logarithmic scale whose ticks are plain numbers; matplotlib's own are written as mathematics."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(Plain())
    axis.yaxis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))
