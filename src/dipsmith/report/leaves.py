"""How a label's synthetic share spreads around the authentic one: charts of leaf intervals.

After figures 1 and 2 of the first report of the synthetic data project of Duke University (2018). `draw_intervals` and
`draw_simulations` draw panels for many shares, sizes and λ on a matplotlib figure. `leaf_picture` draws the studio's explorer
for one share, as SVG text without styles inside, which the strictest content policy shows: a band that narrows with the
records of the leaf, the chosen leaf, the width that is wanted and the fewest records that give it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import copysign, log10, sqrt
from typing import Any

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import COLOURS, DASH, INK, PALETTE, SOFT
from dipsmith.report.content import Table

PALEST = 0.68
"""How pale the bars of the smallest λ are: 0 is the accent itself, 1 white."""

W, H, LEFT, RIGHT, TOP, BOTTOM = 780.0, 430.0, 62.0, 30.0, 34.0, 46.0
MOST = 0.4
"""The scale ends at a difference of 40 percentage points."""
ACROSS = (25, 50, 100, 250, 500, 1000, 2500, 5000)
UP = (0.01, 0.05, 0.1, 0.2, 0.4)

_LOOKS = {
    "band": 'fill="var(--accent)" fill-opacity="0.14"',
    "edge": 'fill="none" stroke="var(--accent)" stroke-width="1.5"',
    "other": 'fill="none" stroke="var(--soft)" stroke-width="0.8" stroke-opacity="0.75"',
    "reference": 'stroke="var(--soft)" stroke-width="0.8"',
    "wanted": 'class="wanted" stroke="var(--ink)" stroke-width="1.2" stroke-dasharray="5 4"',
    "least": 'stroke="var(--ink)" stroke-width="1"',
    "ring": 'fill="var(--paper)" stroke="var(--ink)" stroke-width="1.4"',
    "chosen": 'stroke="var(--accent)" stroke-width="2"',
    "dot": 'fill="var(--accent)"',
    "tick": 'stroke="var(--soft)"',
    "grid": 'stroke="var(--rule)" stroke-width="0.5"',
    "ink": 'fill="var(--ink)" font-size="13" font-weight="600"',
    "soft": 'fill="var(--soft)" font-size="12"',
}


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated shares of a label, their interval, and the exact one; `records` were drawn in each leaf."""

    p0: float
    shares: Floats
    records: int
    simulated: tuple[float, float]
    exact: tuple[float, float]


def draw_intervals(figure: Any, ends: Mapping[float, Floats], lams: Sequence[float], sizes: Sequence[int]) -> None:
    """Differences from the authentic share against the size of the leaf: a panel per share, a bar per λ.

    `ends` holds for each share an array of sizes × λ × (lower, upper), in percentage points.
    """
    panels = figure.subplots(*_grid(len(ends)), sharex=True, sharey=True, squeeze=False)
    for panel, (p, bars) in zip(panels.flat, ends.items(), strict=False):
        panel.axhline(0, color=SOFT, linewidth=0.6, zorder=1)
        for at, sides in enumerate(bars):
            x = at + np.linspace(-0.36, 0.36, len(lams))
            panel.vlines(x, *sides.T, colors=_shades(len(lams)), linewidth=1.7, zorder=2)
        panel.set_title(f"authentic share {p:g}", fontsize=10)
        panel.set_yscale("symlog", linthresh=1, linscale=0.6)
        panel.set_ylim(-100, 100)
        panel.set_yticks([-100, -10, -1, 0, 1, 10, 100], ["−100", "−10", "−1", "0", "+1", "+10", "+100"])
        panel.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
        panel.tick_params(length=2)
    words = f"in each group, from left to right:\nλ = {lams[0]:g} … {lams[-1]:g}\ngrey line: no difference"
    corner = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
    panels.flat[0].annotate(words, (0.99, 0.98), fontsize=8.5, **corner)
    figure.supxlabel("records in the leaf, authentic and synthetic", y=0.045, fontsize=9.5)
    figure.supylabel(
        "synthetic minus authentic share, percentage points (logarithmic beyond ±1)", x=0.012, fontsize=9.5
    )


def draw_simulations(figure: Any, found: Sequence[Simulated]) -> None:
    """Histograms of simulated shares, with the simulated interval dashed and the exact one solid above them."""
    panels = figure.subplots(*_grid(len(found)), squeeze=False)
    dashed = {"color": COLOURS[0], "linestyle": DASH}
    for panel, leaf in zip(panels.flat, found, strict=False):
        # Bins of whole records whose edges lie between records, so that no share falls on an edge.
        low, high = leaf.shares.min(), leaf.shares.max()
        step = max(1, round((high - low) * leaf.records / 40)) / leaf.records
        edges = np.arange(low - 0.5 / leaf.records, high + step, step)
        panel.hist(leaf.shares, edges, color=COLOURS[0], alpha=0.35, linewidth=0)
        top = panel.get_ylim()[1]
        panel.hlines(1.06 * top, *leaf.simulated, linewidth=1.6, **dashed)
        panel.hlines(1.14 * top, *leaf.exact, color=INK, linewidth=1.6)
        for end in leaf.simulated:
            panel.axvline(end, ymax=0.83, linewidth=0.9, **dashed)
        panel.axvline(leaf.p0, ymax=0.83, color=SOFT, linewidth=0.6)
        panel.set_ylim(0, 1.28 * top)
        panel.set_title(f"authentic share {leaf.p0:g}", fontsize=10)
        panel.set_title("exact {:.3f} to {:.3f}".format(*leaf.exact), loc="right", fontsize=8.5)
        words = "simulated {:.3f} to {:.3f}".format(*leaf.simulated)
        panel.annotate(words, (1, 0.95), xycoords="axes fraction", ha="right", fontsize=8.5, color=COLOURS[0])
        panel.tick_params(length=2)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    figure.supxlabel("synthetic share", y=0.045, fontsize=9.5)
    figure.supylabel("simulated leaves", x=0.012, fontsize=9.5)


def _grid(panels: int) -> tuple[int, int]:
    across = min(3, panels)
    return -(-panels // across), across


def _shades(count: int) -> list[tuple[float, float, float]]:
    """From pale to the accent itself: an order that survives printing in grey."""
    accent = np.array([int(COLOURS[0][i : i + 2], 16) for i in (1, 3, 5)]) / 255
    mixed = [accent + (1 - accent) * pale for pale in np.linspace(PALEST, 0.0, count)]
    return [(float(r), float(g), float(b)) for r, g, b in mixed]


@dataclass(frozen=True)
class Curve:
    """Intervals of a label's synthetic share against the records of the leaf."""

    p0: float
    lam: float
    level: float
    kind: str
    law: str
    sizes: tuple[int, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def to_csv(self) -> str:
        """The numbers of the picture."""
        columns = ("p0", "lam", "n", "lo", "hi", "width", "level", "kind", "law")
        ends = zip(self.sizes, self.lows, self.highs, strict=True)
        rows = [(self.p0, self.lam, n, lo, hi, hi - lo, self.level, self.kind, self.law) for n, lo, hi in ends]
        return Table.of("", columns, rows).to_csv()


@dataclass(frozen=True)
class ChosenLeaf:
    """What the sliders say: a leaf with its interval, a width, and the fewest records for it (None while unknown)."""

    n: int
    interval: tuple[float, float]
    width: float
    least: int | None


def leaf_picture(curve: Curve, chosen: ChosenLeaf, others: Sequence[Curve] = (), *, alone: bool = False) -> str:
    """Draw the band of a curve, thin lines for other λ, and what was chosen.

    With `alone` the picture stands on its own, as a download: it carries its colours and its title.
    """
    words = (
        f"{curve.level:.0%} of synthetic shares lie between {chosen.interval[0]:.5g} and {chosen.interval[1]:.5g} "
        f"with {chosen.n:,} records; authentic share {curve.p0:g}"
    )
    parts = [_axes(), *map(_other, others), _band(curve), _draw_wanted(chosen), _leaf(curve.p0, chosen)]
    space = ""
    if alone:
        law = f"λ = ε/Δ = {curve.lam:g}, {curve.law} Laplace noise, {curve.kind}"
        parts += [_text("ink", LEFT, 16, escape(words)), _text("soft", W - RIGHT, TOP + 10, law, "end")]
        space = f' xmlns="http://www.w3.org/2000/svg" width="{W:g}" height="{H:g}" font-family="serif"'
    svg = (
        f'<svg class="explorer"{space} viewBox="0 0 {W:g} {H:g}" role="img" aria-label="{escape(words)}" '
        f'data-middle="{_y(0.0):g}" data-half="{_y(0.0) - TOP:g}" data-most="{MOST}">{"".join(parts)}</svg>'
    )
    if alone:
        for name, (colour, _) in PALETTE.items():
            svg = svg.replace(f"var(--{name})", colour)
    return svg


def _x(records: float) -> float:
    share = log10(records / ACROSS[0]) / log10(ACROSS[-1] / ACROSS[0])
    return LEFT + (W - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def _y(difference: float) -> float:
    """Square roots, so that a band of one point shows beside one of forty."""
    at = copysign(sqrt(min(abs(difference), MOST) / MOST), difference)
    return TOP + (H - TOP - BOTTOM) * (1 - at) / 2


def _line(name: str, x1: float, x2: float, y1: float, y2: float, more: str = "") -> str:
    return f'<line {_LOOKS[name]}{more} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(name: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text {_LOOKS[name]} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _circle(name: str, x: float, y: float, radius: float) -> str:
    return f'<circle {_LOOKS[name]} cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def _axes() -> str:
    floor, end = H - BOTTOM, W - RIGHT
    across = "records in the leaf, authentic and synthetic (logarithmic)"
    up = "synthetic minus authentic share, percentage points (square-root scale)"
    parts = [_text("soft", (LEFT + end) / 2, H - 6, across, "middle"), _text("soft", 6, TOP - 12, up)]
    for n in ACROSS:
        parts.append(_line("tick", _x(n), _x(n), floor, floor + 4))
        parts.append(_text("soft", _x(n), floor + 17, f"{n:,}", "middle"))
    for size in (*UP, *(-size for size in UP), 0.0):
        at, sign = _y(size), "+" if size > 0 else "−" if size else ""
        parts.append(_line("grid" if size else "reference", LEFT, end, at, at))
        parts.append(_text("soft", LEFT - 8, at + 4, f"{sign}{100 * abs(size):g}", "end"))
    return "".join(parts)


def _edges(curve: Curve) -> tuple[str, str]:
    """The upper edge from left to right, and the lower one back."""
    sides = [
        [f"{_x(n):.1f},{_y(v - curve.p0):.1f}" for n, v in zip(curve.sizes, values, strict=True)]
        for values in (curve.highs, curve.lows)
    ]
    return " ".join(sides[0]), " ".join(reversed(sides[1]))


def _band(curve: Curve) -> str:
    up, down = _edges(curve)
    edges = "".join(f'<polyline {_LOOKS["edge"]} points="{edge}"/>' for edge in (up, down))
    words = f"λ = {curve.lam:g}: {curve.level:.0%} of synthetic shares"
    band = f'<polygon {_LOOKS["band"]} points="{up} {down}"/>'
    beyond = max(h - curve.p0 for h in curve.highs) > MOST or max(curve.p0 - low for low in curve.lows) > MOST
    end = _text("soft", LEFT + 10, TOP + 14, f"beyond ± {100 * MOST:g} points: the scale ends here") if beyond else ""
    return band + edges + end + _text("ink", LEFT + 10, _y(0.0) - 8, words)


def _other(curve: Curve) -> str:
    """Thin lines, named where they leave the left edge of the picture or come into it from above."""
    edges = "".join(f'<polyline {_LOOKS["other"]} points="{edge}"/>' for edge in _edges(curve))
    inside = [i for i, v in enumerate(curve.highs) if v - curve.p0 < 0.9 * MOST]
    at = inside[0] if inside else 0
    x, y = _x(curve.sizes[at]) + 5, _y(curve.highs[at] - curve.p0) - 5
    return edges + _text("soft", x, y, f"λ = {curve.lam:g}")


def _draw_wanted(chosen: ChosenLeaf) -> str:
    """The lines that can be dragged, and where they meet the band."""
    ends, drag = (_y(chosen.width / 2), _y(-chosen.width / 2)), ' data-drag="width"'
    parts = [_line("wanted", LEFT, W - RIGHT, at, at, drag) for at in ends]
    if chosen.least is not None and ACROSS[0] <= chosen.least <= ACROSS[-1]:
        at = _x(chosen.least)
        parts += [_line("least", at, at, ends[0], H - BOTTOM), _circle("ring", at, ends[0], 4.5)]
        x, anchor = (at - 7, "end") if at > W - 160 else (at + 7, "start")
        parts.append(_text("ink", x, H - BOTTOM - 8, f"at least {chosen.least:,} records", anchor))
    return "".join(parts)


def _leaf(p0: float, chosen: ChosenLeaf) -> str:
    at, (low, high) = _x(chosen.n), (_y(v - p0) for v in chosen.interval)
    return _line("chosen", at, at, high, low) + _circle("dot", at, low, 3.8) + _circle("dot", at, high, 3.8)
