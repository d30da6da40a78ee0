"""Pictures that the studio draws itself: a budget as a bar, the intervals of a leaf against its records.

SVG text without styles inside, so that the strictest content policy shows it: colours come from classes of the style
sheet, and from attributes in a picture that is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from dipsmith.privacy.budget import decimal_text
from dipsmith.privacy.statement import Statement

BAR = 1000.0
"""Width of a budget bar in its own units."""


def symbol(currency: str | None) -> str:
    """ε or ρ."""
    return "ρ" if currency == "rho" else "ε"


def budget_bar(statement: Statement, planned: bool = False) -> str:
    """Granted, spent and left: every run is a piece of the bar, what is left is its open end.

    With `planned` there is an empty piece that the Plan page moves as its slider does.
    """
    whole = max(statement.granted_units, 1)
    at, pieces = 0.0, []
    sign = symbol(statement.currency)
    for run in statement.runs:
        if run.state == "cancelled":
            continue
        width = BAR * run.charge / whole
        kind = "held" if run.state == "reserved" else "spent"
        told = f"{run.method}, {run.budget}, {run.state}"
        pieces.append(
            f'<rect class="{kind}" x="{at:.2f}" y="4" width="{max(width - 1.5, 0.5):.2f}" height="22"><title>{escape(told)}</title></rect>'
        )
        at += width
    left = decimal_text(statement.remaining_units)
    move = (
        f'<rect class="planned" data-from="{at:.2f}" x="{at:.2f}" y="4" width="0" height="22"/>'
        if planned
        else ""
    )
    words = f"{sign} = {decimal_text(statement.granted_units)} granted, {decimal_text(statement.spent_units)} spent, {left} left"
    return (
        f'<svg class="budget" viewBox="0 0 {BAR:g} 30" preserveAspectRatio="none" role="img" aria-label="{escape(words)}">'
        f'<rect class="granted" x="0.5" y="4.5" width="{BAR - 1:g}" height="21"/>{"".join(pieces)}{move}</svg>'
    )


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


W, H, LEFT, RIGHT, TOP, BOTTOM = 760.0, 380.0, 58.0, 20.0, 34.0, 46.0
_COLOURS = {
    "ink": "#1b1b1b",
    "soft": "#5c5a55",
    "rule": "#cfcabf",
    "accent": "#0072b2",
    "paper": "#fffdf9",
}


def leaf_picture(
    curve: Curve,
    n: int,
    interval: tuple[float, float],
    width: float,
    least: int | None,
    *,
    alone: bool = False,
) -> str:
    """The interval as a band over the records of a leaf, the chosen leaf, and the width that is wanted.

    Parameters
    ----------
    curve
        The band.
    n, interval
        The chosen leaf and its interval.
    width, least
        The width that is wanted, and the fewest records that give it (None while unknown).
    alone
        Whether the picture stands on its own (a download) and carries its colours and its title.
    """
    span = max(max(curve.highs) - curve.p0, curve.p0 - min(curve.lows), width / 2, 0.005)
    low, high = max(-0.02, curve.p0 - 1.05 * span), min(1.02, curve.p0 + 1.05 * span)
    first, last = curve.sizes[0], curve.sizes[-1]

    def x(records: float) -> float:
        share = (log10(records) - log10(first)) / (log10(last) - log10(first))
        return LEFT + (W - LEFT - RIGHT) * min(max(share, 0.0), 1.0)

    def y(share: float) -> float:
        return TOP + (H - TOP - BOTTOM) * (high - min(max(share, low), high)) / (high - low)

    up = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in zip(curve.sizes, curve.highs, strict=True))
    down = " ".join(
        f"{x(s):.1f},{y(v):.1f}" for s, v in zip(reversed(curve.sizes), reversed(curve.lows), strict=True)
    )
    parts = [
        _ticks(x, y, low, high, curve.sizes),
        f'<polygon class="band" points="{up} {down}"/>',
        f'<polyline class="edge" points="{up}"/><polyline class="edge" points="{down}"/>',
        f'<line class="reference" x1="{LEFT}" x2="{W - RIGHT}" y1="{y(curve.p0):.1f}" y2="{y(curve.p0):.1f}"/>',
        f'<text class="soft" x="{W - RIGHT}" y="{y(curve.p0) - 5:.1f}" text-anchor="end">authentic share {curve.p0:g}</text>',
    ]
    for side in (-1, 1):
        at = y(curve.p0 + side * width / 2)
        parts.append(
            f'<line class="wanted" data-drag="width" x1="{LEFT}" x2="{W - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
    if least is not None and first <= least <= last:
        at, top = x(least), y(curve.p0 + width / 2)
        bottom = y(curve.p0 - width / 2)
        words = f"{least:,} records"
        anchor = "end" if at > W - 150 else "start"
        shift = -6 if anchor == "end" else 6
        parts.append(
            f'<line class="least" x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{H - BOTTOM:.1f}"/>'
        )
        parts.append(
            f'<circle class="ring" cx="{at:.1f}" cy="{top:.1f}" r="4"/><circle class="ring" cx="{at:.1f}" cy="{bottom:.1f}" r="4"/>'
        )
        parts.append(
            f'<text class="ink" x="{at + shift:.1f}" y="{H - BOTTOM - 8:.1f}" text-anchor="{anchor}">{words}</text>'
        )
    at = x(n)
    parts.append(
        f'<line class="chosen" data-drag="n" x1="{at:.1f}" x2="{at:.1f}" y1="{y(interval[1]):.1f}" y2="{y(interval[0]):.1f}"/>'
        f'<circle class="dot" cx="{at:.1f}" cy="{y(interval[1]):.1f}" r="3.5"/><circle class="dot" cx="{at:.1f}" cy="{y(interval[0]):.1f}" r="3.5"/>'
    )
    said = f"{curve.level:.0%} of synthetic shares lie between {interval[0]:.5g} and {interval[1]:.5g} with {n:,} records"
    title = f'<text class="ink" x="{LEFT}" y="18">{escape(said)}</text>'
    axes = (
        f'<text class="soft" x="{(LEFT + W - RIGHT) / 2}" y="{H - 8}" text-anchor="middle">records in the leaf (logarithmic)</text>'
        f'<text class="soft" x="{LEFT - 46}" y="{TOP - 14}">share</text>'
        if not alone
        else f'<text class="soft" x="{(LEFT + W - RIGHT) / 2}" y="{H - 8}" text-anchor="middle">records in the leaf (logarithmic); λ = ε/Δ = {curve.lam:g}, '
        f"{curve.law} Laplace noise, {curve.kind} interval</text>"
    )
    space = (
        f' xmlns="http://www.w3.org/2000/svg" width="{W:g}" height="{H:g}" font-family="serif"'
        if alone
        else ""
    )
    svg = (
        f'<svg class="explorer"{space} viewBox="0 0 {W:g} {H:g}" role="img" aria-label="{escape(said)}" '
        f'data-low="{low:.6g}" data-high="{high:.6g}" data-first="{first}" data-last="{last}">'
        f"{title if alone else ''}{''.join(parts)}{axes}</svg>"
    )
    return _coloured(svg) if alone else svg


def _ticks(x: object, y: object, low: float, high: float, sizes: Sequence[int]) -> str:
    assert callable(x)
    assert callable(y)
    lines = []
    for n in (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 20_000):
        if sizes[0] <= n <= sizes[-1]:
            lines.append(
                f'<text class="soft" x="{x(n):.1f}" y="{H - BOTTOM + 16:.1f}" text-anchor="middle">{n:,}</text>'
            )
            lines.append(
                f'<line class="tick" x1="{x(n):.1f}" x2="{x(n):.1f}" y1="{H - BOTTOM}" y2="{H - BOTTOM + 4}"/>'
            )
    step = _step((high - low) / 5)
    share = step * -(-low // step)
    while share <= high + 1e-12:
        lines.append(
            f'<text class="soft" x="{LEFT - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{abs(share) if abs(share) < 1e-9 else share:.3g}</text>'
        )
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{W - RIGHT}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>'
        )
        share += step
    return "".join(lines)


def _step(rough: float) -> float:
    """A round number near a rough one."""
    power = 10.0 ** int(log10(rough) // 1)
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)


def _coloured(svg: str) -> str:
    ink, soft, rule, accent = (_COLOURS[c] for c in ("ink", "soft", "rule", "accent"))
    for name, drawn in {
        "band": f'fill="{accent}" fill-opacity="0.14"',
        "edge": f'fill="none" stroke="{accent}" stroke-width="1.5"',
        "reference": f'stroke="{soft}" stroke-width="0.8"',
        "wanted": f'stroke="{ink}" stroke-width="1" stroke-dasharray="5 4"',
        "least": f'stroke="{ink}" stroke-width="1"',
        "ring": f'fill="{_COLOURS["paper"]}" stroke="{ink}" stroke-width="1.4"',
        "chosen": f'stroke="{accent}" stroke-width="2"',
        "dot": f'fill="{accent}"',
        "tick": f'stroke="{soft}"',
        "grid": f'stroke="{rule}" stroke-width="0.5"',
        "ink": f'fill="{ink}" font-size="13"',
        "soft": f'fill="{soft}" font-size="11.5"',
    }.items():
        svg = svg.replace(f'class="{name}"', drawn)
    return svg
