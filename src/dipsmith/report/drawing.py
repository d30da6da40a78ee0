"""What charts share: how a series looks, grids of panels, the key above them, and logarithmic axes.

Authentic is near-black, solid and filled; synthetic is blue, dashed and open; further releases are vermilion, bluish
green and purple. Public facts and reference lines are grey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, SOFT, WIDTH, surface

Look = Mapping[str, Any]

AUTHENTIC: Look = {"color": INK, "linestyle": "-", "marker": "o", "markerfacecolor": INK}
REFERENCE: Look = {"color": SOFT, "linestyle": "-", "marker": None}


def release_look(i: int) -> Look:
    """Colour, dashes and open marks of release number i, counted from 0."""
    marks = {"marker": MARKS[i % len(MARKS)], "markerfacecolor": "none"}
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASH, **marks}


@dataclass(frozen=True, eq=False)
class ChartLine:
    """A series: values with 95 % half-widths (nan where unknown)."""

    name: str
    values: Floats
    half_width: Floats | None = None


@contextmanager
def panels(
    count: int, across: int, height: Callable[[int, int], float], y: str = "", **shared: Any
) -> Iterator[tuple[Any, list[Any], Callable[[], str]]]:
    """A figure with so many panels, at most `across` in a row: the figure, its panels, and what makes it SVG.

    `height` gives the inches from the numbers of rows and columns. Empty places of the last row are hidden; the panel
    above one keeps the labels of the axis that they would share.
    """
    columns = min(across, max(1, count))
    rows = -(-count // columns)
    with surface(WIDTH, height(rows, columns)) as (figure, done):
        grid = figure.subplots(rows, columns, squeeze=False, **shared)
        for i, axis in enumerate(grid.ravel()):
            if i >= count:
                axis.set_visible(False)
            elif i + columns >= count:
                axis.tick_params(labelbottom=True)
        for row in grid:
            row[0].set_ylabel(y)
        yield figure, list(grid.ravel()[:count]), done


def draw_line(
    axis: Any, at: Floats, line: ChartLine, look: Look, size: float = 4.5, ends: tuple[float, float] = (-np.inf, np.inf)
) -> None:
    """A series with its marks, and whiskers where it has half-widths: none beyond the ends that its values cannot pass."""
    widths = None
    if line.half_width is not None:
        half, values = np.nan_to_num(line.half_width), np.nan_to_num(line.values)
        widths = np.maximum(0.0, [np.minimum(half, values - ends[0]), np.minimum(half, ends[1] - values)])
    style = dict(look) | {"fmt": look["marker"], "linewidth": 1.2, "elinewidth": 0.7, "zorder": 5}
    del style["marker"]
    axis.errorbar(at, line.values, yerr=widths, markersize=size, **style)


def draw_key(figure: Any, entries: Sequence[tuple[str, Look]], columns: int | None = None) -> None:
    """Say above the panels what each series is, once for all of them."""
    from matplotlib.lines import Line2D

    if entries:
        ncols = columns or len(entries)
        # a legend fills its columns one after the other; people read along the lines
        ordered = [entry for column in range(ncols) for entry in entries[column::ncols]]
        handles = [Line2D([], [], **{"markersize": 4.5, **look}) for _, look in ordered]
        names = [name for name, _ in ordered]
        figure.legend(handles, names, loc="outside upper right", ncols=ncols, frameon=False, fontsize=8)


def comparison_key(names: Sequence[str], *, marks: bool = True) -> list[tuple[str, Look]]:
    """The entries of a key whose first name is the authentic series and whose others are releases."""
    looks = [AUTHENTIC, *(release_look(i) for i in range(len(names) - 1))][: len(names)]
    return [(n, look if marks else {**look, "marker": None}) for n, look in zip(names, looks, strict=True)]


def name_reference(axis: Any, text: str, at: tuple[float, float], below: float, size: float) -> None:
    """Name a reference line, just under the place that is given."""
    axis.annotate(text, at, xytext=(4, -below), textcoords="offset points", color=SOFT, fontsize=size)


def make_logarithmic(axis: Any) -> None:
    """A logarithmic y-axis whose ticks are plain numbers; matplotlib's own are written as mathematics."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(Plain())
    axis.yaxis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))
