"""Charts of a comparison as SVG text: one visual language for every figure.

What a series looks like is in `drawing`, what it is drawn on in `canvas`. More than `RASTERISED` points are drawn as an
image inside the drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from textwrap import fill
from typing import Any

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import (
    COLOURS,
    DASH,
    INK,
    MARKS,
    RULE,
    SOFT,
    WIDTH,
    few_labels,
    panel_room,
    shorten,
    shorten_all,
    surface,
)
from dipsmith.report.drawing import AUTHENTIC, comparison_key, draw_key, draw_line, name_reference, panels, release_look
from dipsmith.report.drawing import ChartLine as ChartLine
from dipsmith.report.farthest import Farthest

RASTERISED = 5000


def available() -> bool:
    """Whether figures can be drawn here."""
    return find_spec("matplotlib") is not None


@dataclass(frozen=True, eq=False)
class Against:
    """One panel of authentic (x) against synthetic (y) values; the farthest points are named.

    `release` and `mark` count from 0: whose colour it has, and which mark its points.
    """

    title: str
    authentic: Floats
    synthetic: Floats
    labels: Sequence[str]
    note: str = ""
    authentic_error: Floats | None = None
    synthetic_error: Floats | None = None
    release: int = 0
    mark: int = 0


@dataclass(frozen=True, eq=False)
class Trend:
    """One panel of a quantity over ordered positions: authentic, and one line per release."""

    title: str
    authentic: ChartLine
    synthetic: Sequence[ChartLine]


@dataclass(frozen=True, eq=False)
class Distribution:
    """One panel of shares by level; `ordered` levels keep their order, others are sorted by share.

    `public` shares are facts, drawn grey and filled; others are synthetic, with the 95 % half-width of the noise on one
    share where it is known.
    """

    title: str
    labels: Sequence[str]
    shares: Floats
    ordered: bool
    public: bool = False
    noise: float | None = None
    of: str = "rows"


def against(drawn: Sequence[Against], x: str, y: str, *, power: float = 1.0) -> str:
    """Authentic against synthetic, panels by release or attribute, two in a row, equal axes, the slope-1 line.

    With `power` below 1 the axes are stretched near 0 (values to that power), for proportions of many sizes.
    """
    shape = {"sharex": True, "sharey": True}
    values = np.concatenate([np.concatenate([p.authentic, p.synthetic]) for p in drawn] or [np.zeros(1)])
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.06 * (high - low or 1.0)
    bounds = (0.0 if low >= 0 and power < 1 else low - margin, high + margin)
    stretch = _power(power)[0]
    across = min(2, max(1, len(drawn)))
    farthest = [Farthest.of(p.authentic, p.synthetic, p.labels, p.note, stretch, bounds, across) for p in drawn]
    below = sum(any(f.below for f in farthest[i : i + across]) for i in range(0, len(drawn), across))

    def height(rows: int, columns: int) -> float:
        return rows * min(4.4, WIDTH / columns + 0.5) + 0.5 * below

    with panels(len(drawn), 2, height, y, **shape) as (_, axes, done):
        for i, (panel, axis) in enumerate(zip(drawn, axes, strict=True)):
            colour = COLOURS[panel.release % len(COLOURS)]
            axis.plot(bounds, bounds, color=SOFT, linewidth=0.8, zorder=1)
            if i == 0:
                # where few points are: below them all, or on stretched axes, which crowd them near 0, above most
                at = bounds[0] + (0.06 if power == 1 else 0.62 ** (1 / power)) * (bounds[1] - bounds[0])
                name_reference(axis, "equal", (at, at), 9, 7.5)
            _draw_points(axis, panel, colour, MARKS[panel.mark % len(MARKS)])
            farthest[i].draw(axis)
            axis.set_xlim(bounds)
            axis.set_ylim(bounds)
            if power != 1:
                axis.set_xscale("function", functions=_power(power))
                axis.set_yscale("function", functions=_power(power))
                ticks = _power_ticks(bounds[1])
                axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
                axis.set_yticks(ticks, [f"{t:g}" for t in ticks])
                axis.minorticks_off()
            axis.set_box_aspect(1)
            axis.set_title(panel.title, color=colour if len(drawn) > 1 else INK)
            axis.set_xlabel(x)
            axis.tick_params(labelbottom=True)
            if panel.note:
                axis.text(0.03, 0.97, panel.note, transform=axis.transAxes, va="top", fontsize=8, color=INK)
        return done()


def bars(labels: Sequence[str], authentic: Floats, synthetic: Sequence[ChartLine], x: str) -> str:
    """Horizontal bars, authentic filled and one open bar per release under it, in the given order."""
    rows, groups = len(labels), 1 + len(synthetic)
    with surface(WIDTH, 1.0 + rows * (0.12 + 0.085 * groups)) as (figure, done):
        axis = figure.subplots()
        thick = 0.8 / groups
        at = np.arange(rows, dtype=float)
        axis.barh(at - 0.4 + thick / 2, authentic, thick * 0.92, color=INK, label="authentic")
        for i, line in enumerate(synthetic):
            open_bar = {"facecolor": "none", "edgecolor": COLOURS[i % len(COLOURS)], "linestyle": DASH}
            place = at - 0.4 + thick * (i + 1.5)
            axis.barh(place, line.values, thick * 0.8, linewidth=0.9, label=line.name, **open_bar)
        _name_rows(axis, labels, x)
        axis.tick_params(axis="y", length=0)
        handles, names = axis.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=len(names), frameon=False, fontsize=8)
        return done()


def trends(positions: Sequence[str], drawn: Sequence[Trend], y: str, *, zero: bool = True) -> str:
    """Coefficients over ordered positions, one panel each: authentic solid and filled, synthetic dashed and open."""
    shape = {"sharex": True, "sharey": True}
    with panels(len(drawn), 3, lambda rows, _: 0.5 + 2.3 * rows, y, **shape) as (figure, axes, done):
        at = np.arange(len(positions), dtype=float)
        mark = 4 if len(positions) <= 12 else 2.4
        # as many labels as a panel has room for: about twelve characters to the inch
        widest = max((len(p) for p in positions), default=0) + 2
        every = max(1, -(-len(positions) * widest * min(3, len(drawn)) // int(11 * WIDTH)))
        for panel, axis in zip(drawn, axes, strict=True):
            if zero:
                axis.axhline(0, color=RULE, linewidth=0.8, zorder=1)
            if panel.authentic.half_width is not None:
                low, high = (panel.authentic.values + s * panel.authentic.half_width for s in (-1, 1))
                axis.fill_between(at, low, high, color=INK, alpha=0.12, linewidth=0, zorder=1)
            axis.plot(at, panel.authentic.values, markersize=mark, linewidth=1.3, zorder=4, **AUTHENTIC)
            for i, line in enumerate(panel.synthetic):
                draw_line(axis, at + 0.05 * (i + 1), line, release_look(i), 1.1 * mark)
            axis.set_title(shorten(panel.title, 30))
            axis.set_xticks(at[::every], positions[::every])
            axis.margins(x=0.12)
        names = ["authentic", *(line.name for line in drawn[0].synthetic)] if drawn else []
        draw_key(figure, comparison_key(names))
        return done()


def intervals(labels: Sequence[str], authentic: ChartLine, synthetic: Sequence[ChartLine], x: str) -> str:
    """Estimates with 95 % intervals, one row each: authentic filled and solid, releases open and dashed under it."""
    rows = len(labels)
    with surface(WIDTH, 1.0 + rows * (0.2 + 0.13 * len(synthetic))) as (figure, done):
        axis = figure.subplots()
        at = np.arange(rows, dtype=float)
        step = 0.62 / (1 + len(synthetic))
        axis.axvline(0, color=RULE, linewidth=0.8, zorder=1)
        entries = comparison_key(["authentic", *(line.name for line in synthetic)])
        for i, (line, (_, look)) in enumerate(zip([authentic, *synthetic], entries, strict=True)):
            style = dict(look) | {"fmt": look["marker"], "markersize": 4.5, "elinewidth": 1.1, "zorder": 3}
            dash = style.pop("linestyle")
            del style["marker"]
            marks = axis.errorbar(line.values, at - 0.31 + step * (i + 0.5), xerr=line.half_width, **style)
            for whisker in marks[2]:
                whisker.set_linestyle(dash)
        _name_rows(axis, labels, x)
        draw_key(figure, entries)
        return done()


def by_size(labels: Sequence[str], floor: Floats, synthetic: Sequence[ChartLine], x: str, y: str) -> str:
    """An error by class of size on a log scale, one line per release, above the error of chance in grey."""
    with surface(WIDTH, 3.6) as (figure, done):
        axis = figure.subplots()
        at = np.arange(len(labels), dtype=float)
        axis.plot(at, floor, "-", color=SOFT, linewidth=1.2, marker=".", markersize=5)
        ends = [("chance alone", float(floor[-1]), SOFT)] if len(floor) else []
        for i, line in enumerate(synthetic):
            axis.plot(at, line.values, markersize=5, linewidth=1.3, **release_look(i))
            ends.append((line.name, float(line.values[-1]), COLOURS[i % len(COLOURS)]))
        every = np.concatenate([floor, *(line.values for line in synthetic)])
        every = every[np.isfinite(every) & (every > 0)]
        if len(every):
            axis.set_yscale("log")
            low, high = float(every.min()) * 0.8, float(every.max()) * 1.25
            axis.set_ylim(low, high)
            ticks = [t for t in _decades(low, high) if low <= t <= high]
            axis.set_yticks(ticks, [f"{t:g}" for t in ticks])
            axis.minorticks_off()
            _name_ends(axis, at[-1], ends, np.log(high / low))
        axis.set_xticks(at, [label.replace(" to ", "–") for label in labels])
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        axis.set_xlim(-0.3, len(labels) + 0.25)
        return done()


def curves(drawn: Sequence[tuple[str, ChartLine, Sequence[ChartLine]]], at: Floats, x: str, y: str) -> str:
    """ROC curves, one panel per target: the ceiling near-black and solid, each release dashed, chance the diagonal."""
    shape = {"sharex": True, "sharey": True}
    # broken into lines: a title that is wider than its panel would be cut
    titles = [fill(title, 26) for title, _, _ in drawn]
    lines = max((title.count("\n") for title in titles), default=0)

    def height(rows: int, columns: int) -> float:
        return 0.75 + rows * (WIDTH / max(columns, 2) + 0.07 + 0.2 * lines)

    with panels(len(drawn), 3, height, y, **shape) as (figure, axes, done):
        for i, ((_, ceiling, releases), axis) in enumerate(zip(drawn, axes, strict=True)):
            axis.plot([0, 1], [0, 1], color=SOFT, linewidth=0.8)
            if i == 0:
                name_reference(axis, "baseline", (0.62, 0.62), 10, 8)
            axis.plot(at, ceiling.values, color=INK, linewidth=1.3)
            for j, line in enumerate(releases):
                axis.plot(at, line.values, linestyle=DASH, color=COLOURS[j % len(COLOURS)], linewidth=1.3)
            axis.set_title(titles[i])
            axis.set_xlabel(x)
            axis.tick_params(labelbottom=True)
            axis.set_box_aspect(1)
        names = [drawn[0][1].name, *(line.name for line in drawn[0][2])] if drawn else []
        draw_key(figure, comparison_key(names, marks=False))
        return done()


def distributions(drawn: Sequence[Distribution], *, most: int = 12) -> str:
    """Shares by level of each column: synthetic ones open and blue, public ones grey; long lists show their largest levels."""
    with panels(len(drawn), 3, lambda rows, _: 0.4 + 2.3 * rows) as (_, axes, done):
        for panel, axis in zip(drawn, axes, strict=True):
            style: dict[str, Any] = {"edgecolor": SOFT if panel.public else COLOURS[0], "linewidth": 0.9}
            style["facecolor"] = RULE if panel.public else "none"
            upright = panel.ordered and len(panel.labels) > 6
            if panel.noise is not None:
                style["error_kw"] = {"ecolor": COLOURS[0], "elinewidth": 0.9, "capsize": 0}
            (_draw_columns if upright else _draw_rows)(axis, panel, most, style)
            rest = not panel.ordered and len(panel.labels) > most
            axis.set_title(shorten(panel.title, 26) + (f", {most} of {len(panel.labels)}" if rest else ""))
        return done()


MANY_BARS = 40


def _whiskers(panel: Distribution) -> Floats | None:
    """How far whiskers reach below and above each share: none leaves 0 to 1, whatever the noise."""
    if panel.noise is None:
        return None
    room: Floats = np.clip([panel.shares, 1 - panel.shares], 0.0, 1.0)
    return np.minimum(room, panel.noise)


def _draw_columns(axis: Any, panel: Distribution, most: int, style: dict[str, Any]) -> None:
    """Upright bars for many ordered levels, a few of them named."""
    labels = panel.labels
    if len(labels) < MANY_BARS:
        axis.bar(np.arange(len(labels)), panel.shares, 0.86, yerr=_whiskers(panel), **style)
    else:  # one outline instead of a shape for each bar, which takes seconds where there are many columns
        look = {
            "fill": panel.public,
            "edgecolor": style["edgecolor"],
            "facecolor": style["facecolor"],
            "linewidth": 0.9,
        }
        axis.stairs(panel.shares, np.arange(len(labels) + 1) - 0.5, **look)
        whiskers = _whiskers(panel)
        if whiskers is not None:
            low, high = panel.shares - whiskers[0], panel.shares + whiskers[1]
            axis.vlines(np.arange(len(labels)), low, high, colors=COLOURS[0], linewidth=0.5)
    axis.set_xticks(*few_labels(labels, panel_room(axis)))
    axis.set_ylim(bottom=0)
    axis.set_ylabel(f"share of {panel.of}")
    axis.locator_params(axis="y", nbins=4)


def _draw_rows(axis: Any, panel: Distribution, most: int, style: dict[str, Any]) -> None:
    """Horizontal bars, each level named."""
    order = np.arange(len(panel.labels)) if panel.ordered else np.argsort(-panel.shares, kind="stable")
    order = order[:most]
    whiskers = _whiskers(panel)
    kept = None if whiskers is None else whiskers[:, order]
    axis.barh(np.arange(len(order)), panel.shares[order], 0.72, xerr=kept, **style)
    axis.set_yticks(np.arange(len(order)), shorten_all([panel.labels[i] for i in order], 14))
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(max(len(order), 3) - 0.4, -0.6)
    axis.set_xlim(left=0)
    axis.set_xlabel(f"share of {panel.of}")
    axis.locator_params(axis="x", nbins=4)


def _draw_points(axis: Any, panel: Against, colour: str, mark: str) -> None:
    many = len(panel.authentic) > RASTERISED
    if panel.authentic_error is not None or panel.synthetic_error is not None:
        errors = {"xerr": panel.authentic_error, "yerr": panel.synthetic_error, "ecolor": colour}
        place = panel.authentic, panel.synthetic
        axis.errorbar(*place, fmt="none", elinewidth=0.6, alpha=0.45, zorder=2, **errors)
    size = {"markersize": 2.2 if many else 4, "markeredgewidth": 0.5 if many else 0.9}
    open_mark = {"markerfacecolor": "none", "markeredgecolor": colour, "alpha": 0.35 if many else 0.9}
    axis.plot(panel.authentic, panel.synthetic, mark, rasterized=many, zorder=3, **size, **open_mark)


def _name_rows(axis: Any, labels: Sequence[str], x: str) -> None:
    axis.set_yticks(np.arange(len(labels), dtype=float), shorten_all(labels, 44))
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(x)


def _name_ends(axis: Any, x: float, ends: Sequence[tuple[str, float, str]], height: float) -> None:
    """Name lines at their right ends on a log scale, moved apart where they would touch."""
    known = sorted((e for e in ends if e[1] > 0), key=lambda e: e[1])
    least = 0.055 * height
    places: list[float] = []
    for _, value, _ in known:
        places.append(max(float(np.log(value)), places[-1] + least) if places else float(np.log(value)))
    # what was pushed up is centred on where it would have been
    shift = (places[-1] - float(np.log(known[-1][1]))) / 2 if places else 0.0
    for (name, _, colour), place in zip(known, places, strict=True):
        # "loglinear, ε = 0.75" is told from "loglinear, ε = 0.7" by its end: smaller rather than cut
        size = 8 if len(name) <= 18 else 7
        beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "fontsize": size}
        axis.annotate(shorten(name, 20), (x, float(np.exp(place - shift))), color=colour, **beside)


def _decades(low: float, high: float) -> list[float]:
    """1, 2, 5 × powers of ten around a range; only the ones where that is plenty."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    return [m * 10.0**e for e in range(first, last + 1) for m in steps]


def _power(power: float) -> tuple[Any, Any]:
    return lambda v: np.sign(v) * np.abs(v) ** power, lambda v: np.sign(v) * np.abs(v) ** (1 / power)


def _power_ticks(high: float) -> list[float]:
    chosen = [0.0]
    for tick in (m * 10.0**e for e in range(-4, 1) for m in (1, 2, 5)):
        if tick <= high and tick**0.5 - chosen[-1] ** 0.5 >= 0.13 * high**0.5:
            chosen.append(tick)
    return chosen
