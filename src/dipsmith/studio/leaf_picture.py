"""The leaf-interval explorer's picture: how a label's synthetic share spreads around the authentic one.

After figure 1 of the first report of the synthetic data project of Duke University (2018), for one authentic share: a band
that narrows with the records of the leaf, the chosen leaf, the width that is wanted and the fewest records that give it.
SVG text without styles inside: on the page colours come from the style sheet, in a download from attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import copysign, log10, sqrt

W, H, LEFT, RIGHT, TOP, BOTTOM = 780.0, 430.0, 62.0, 30.0, 34.0, 46.0
MOST = 0.4
"""The scale ends at a difference of 40 percentage points."""
ACROSS = (25, 50, 100, 250, 500, 1000, 2500, 5000)
UP = (0.01, 0.05, 0.1, 0.2, 0.4)

_INK, _SOFT, _RULE, _ACCENT, _PAPER = "#1b1b1b", "#5c5a55", "#cfcabf", "#0072b2", "#fffdf9"
_COLOURS = {
    "band": f'fill="{_ACCENT}" fill-opacity="0.14"',
    "edge": f'fill="none" stroke="{_ACCENT}" stroke-width="1.5"',
    "other": f'fill="none" stroke="{_SOFT}" stroke-width="0.7"',
    "reference": f'stroke="{_SOFT}" stroke-width="0.8"',
    "wanted": f'stroke="{_INK}" stroke-width="1" stroke-dasharray="5 4"',
    "least": f'stroke="{_INK}" stroke-width="1"',
    "ring": f'fill="{_PAPER}" stroke="{_INK}" stroke-width="1.4"',
    "chosen": f'stroke="{_ACCENT}" stroke-width="2"',
    "dot": f'fill="{_ACCENT}"',
    "tick": f'stroke="{_SOFT}"',
    "grid": f'stroke="{_RULE}" stroke-width="0.5"',
    "ink": f'fill="{_INK}" font-size="13"',
    "soft": f'fill="{_SOFT}" font-size="11.5"',
}


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
        lines = ["p0,lam,n,lo,hi,width,level,kind,law"]
        for n, lo, hi in zip(self.sizes, self.lows, self.highs, strict=True):
            said = f"{self.p0!r},{self.lam!r},{n},{lo!r},{hi!r},{hi - lo!r},{self.level!r}"
            lines.append(f"{said},{self.kind},{self.law}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Chosen:
    """What the sliders say: a leaf with its interval, a width, and the fewest records for it (None while unknown)."""

    n: int
    interval: tuple[float, float]
    width: float
    least: int | None


def leaf_picture(curve: Curve, chosen: Chosen, others: Sequence[Curve] = (), *, alone: bool = False) -> str:
    """Draw the band of a curve, thin lines for other λ, and what was chosen.

    With `alone` the picture stands on its own, as a download: it carries its colours and its title.
    """
    said = (
        f"{curve.level:.0%} of synthetic shares lie between {chosen.interval[0]:.5g} and {chosen.interval[1]:.5g} "
        f"with {chosen.n:,} records; authentic share {curve.p0:g}"
    )
    parts = [
        _axes(),
        *(_other(c) for c in others),
        _band(curve),
        _wanted(curve.p0, chosen),
        _leaf(curve.p0, chosen),
    ]
    head = ""
    if alone:
        head = f'<text class="ink" x="{LEFT}" y="16">{escape(said)}</text>'
        parts.append(
            f'<text class="soft" x="{W - RIGHT}" y="{TOP + 10}" text-anchor="end">λ = ε/Δ = {curve.lam:g}, {curve.law} Laplace noise, {curve.kind}</text>'
        )
    space = (
        f' xmlns="http://www.w3.org/2000/svg" width="{W:g}" height="{H:g}" font-family="serif"'
        if alone
        else ""
    )
    svg = (
        f'<svg class="explorer"{space} viewBox="0 0 {W:g} {H:g}" role="img" aria-label="{escape(said)}" '
        f'data-middle="{_y(0.0):g}" data-half="{_y(0.0) - TOP:g}" data-most="{MOST}">{head}{"".join(parts)}</svg>'
    )
    if alone:
        for name, drawn in _COLOURS.items():
            svg = svg.replace(f'class="{name}"', drawn)
    return svg


def _x(records: float) -> float:
    share = log10(records / ACROSS[0]) / log10(ACROSS[-1] / ACROSS[0])
    return LEFT + (W - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def _y(difference: float) -> float:
    """Square roots, so that a band of one point shows beside one of forty."""
    at = copysign(sqrt(min(abs(difference), MOST) / MOST), difference)
    return TOP + (H - TOP - BOTTOM) * (1 - at) / 2


def _line(name: str, x1: float, x2: float, y1: float, y2: float, more: str = "") -> str:
    return f'<line class="{name}"{more} x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _axes() -> str:
    floor, end = H - BOTTOM, W - RIGHT
    parts = []
    for n in ACROSS:
        parts.append(_line("tick", _x(n), _x(n), floor, floor + 4))
        parts.append(f'<text class="soft" x="{_x(n):.1f}" y="{floor + 17}" text-anchor="middle">{n:,}</text>')
    for size in UP:
        for sign, mark in ((1, "+"), (-1, "−")):
            at = _y(sign * size)
            parts.append(_line("grid", LEFT, end, at, at))
            parts.append(
                f'<text class="soft" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{mark}{100 * size:g}</text>'
            )
    parts.append(_line("reference", LEFT, end, _y(0), _y(0)))
    parts.append(f'<text class="soft" x="{LEFT - 8}" y="{_y(0) + 4:.1f}" text-anchor="end">0</text>')
    parts.append(
        f'<text class="soft" x="{(LEFT + end) / 2}" y="{H - 6}" text-anchor="middle">records in the leaf, authentic and synthetic (logarithmic)</text>'
    )
    parts.append(
        f'<text class="soft" x="6" y="{TOP - 12}">synthetic minus authentic share, percentage points (square-root scale)</text>'
    )
    return "".join(parts)


def _edges(curve: Curve) -> tuple[str, str]:
    up = [f"{_x(n):.1f},{_y(v - curve.p0):.1f}" for n, v in zip(curve.sizes, curve.highs, strict=True)]
    down = [f"{_x(n):.1f},{_y(v - curve.p0):.1f}" for n, v in zip(curve.sizes, curve.lows, strict=True)]
    return " ".join(up), " ".join(reversed(down))


def _band(curve: Curve) -> str:
    up, down = _edges(curve)
    words = f'<text class="ink" x="{LEFT + 10}" y="{_y(0.0) - 8:.1f}">λ = {curve.lam:g}: {curve.level:.0%} of synthetic shares</text>'
    return (
        f'<polygon class="band" points="{up} {down}"/><polyline class="edge" points="{up}"/>'
        f'<polyline class="edge" points="{down}"/>{words}'
    )


def _other(curve: Curve) -> str:
    """Thin lines, named where they leave the left edge of the picture or come into it from above."""
    up, down = _edges(curve)
    inside = [i for i, v in enumerate(curve.highs) if v - curve.p0 < 0.9 * MOST]
    at = inside[0] if inside else 0
    x, y = _x(curve.sizes[at]) + 5, _y(curve.highs[at] - curve.p0) - 5
    words = f'<text class="soft" x="{x:.1f}" y="{y:.1f}">λ = {curve.lam:g}</text>'
    return f'<polyline class="other" points="{up}"/><polyline class="other" points="{down}"/>{words}'


def _wanted(p0: float, chosen: Chosen) -> str:
    """The lines that can be dragged, and where they meet the band."""
    half = chosen.width / 2
    parts = [
        _line("wanted", LEFT, W - RIGHT, _y(s * half), _y(s * half), ' data-drag="width"') for s in (1, -1)
    ]
    if chosen.least is not None and ACROSS[0] <= chosen.least <= ACROSS[-1]:
        at, right = _x(chosen.least), _x(chosen.least) > W - 160
        parts.append(_line("least", at, at, _y(half), H - BOTTOM))
        parts.append(f'<circle class="ring" cx="{at:.1f}" cy="{_y(half):.1f}" r="4.5"/>')
        parts.append(
            f'<text class="ink" x="{at + (-7 if right else 7):.1f}" y="{H - BOTTOM - 8:.1f}" text-anchor="{"end" if right else "start"}">'
            f"at least {chosen.least:,} records</text>"
        )
    return "".join(parts)


def _leaf(p0: float, chosen: Chosen) -> str:
    at, (low, high) = _x(chosen.n), (_y(v - p0) for v in chosen.interval)
    ends = "".join(f'<circle class="dot" cx="{at:.1f}" cy="{y:.1f}" r="3.8"/>' for y in (low, high))
    return _line("chosen", at, at, high, low) + ends
