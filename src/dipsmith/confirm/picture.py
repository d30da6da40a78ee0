"""The pictures of an answer, drawn from its numbers alone: small enough for a telephone, in the page's own colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from dipsmith.arrays import Floats, Ints

WIDTH, HEIGHT = 420, 236
LEFT, RIGHT, TOP, BOTTOM = 16, 404, 30, 196
NAMED, ROOM = 0.6, 0.86
"""A curve's name stands beside it, at this share of its height, on the side that is free up to there."""


def density_picture(
    grid: Floats, prior: Floats, densities: Mapping[str, Floats], *, threshold: float, ends: Sequence[str], axis: str
) -> str:
    """Densities on 0 to 1: what was known before (grey), what is known now (in colour), and the threshold (thin line)."""
    low, high = 0.0, 1.0
    most = max(float(prior.max()), 1e-12, *(float(d.max()) for d in densities.values()))

    def across(x: float) -> float:
        return LEFT + (x - low) / (high - low) * (RIGHT - LEFT)

    def up(y: float) -> float:
        return BOTTOM - y / most * (BOTTOM - TOP)

    def path(values: Floats) -> str:
        return "M" + "L".join(f"{across(float(x)):.1f},{up(float(y)):.1f}" for x, y in zip(grid, values, strict=True))

    line = across(threshold)
    parts = [
        f'<path d="M{line:.1f},{TOP - 12}V{BOTTOM}" stroke="var(--soft)" stroke-width=".8"/>',
        f'<path d="{path(prior)}" fill="none" stroke="var(--soft)" stroke-width="1.2"/>',
        _text(line - 6, TOP - 16, ends[0], "end"),
        _text(line + 6, TOP - 16, ends[1], "start"),
    ]
    peaks: list[int] = []
    for (name, density), colour in zip(densities.items(), ("accent", "second"), strict=False):
        peak, tall = int(np.argmax(density)), grid[density > NAMED * density.max()]
        right = tall[-1] < ROOM and (peak > len(grid) // 2 or tall[0] < 1 - ROOM)
        place, side, shift = (tall[-1], "start", 7) if right or tall[0] < 1 - ROOM else (tall[0], "end", -7)
        # Two peaks at one place: the second name stands a line lower.
        height = up(NAMED * float(density[peak])) + 15 * sum(abs(p - peak) < 30 for p in peaks)
        peaks.append(peak)
        parts += [
            f'<path d="{path(density)}L{RIGHT},{BOTTOM}L{LEFT},{BOTTOM}Z" fill="var(--{colour})" fill-opacity=".14"/>',
            f'<path d="{path(density)}" fill="none" stroke="var(--{colour})" stroke-width="1.8"/>',
            _text(across(float(place)) + shift, height, name, side, colour),
        ]
    # "before" stands where no curve is, at an end or right of the middle.
    step = len(grid) // 8
    free = {"start": 0, "end": 7 * step, "middle": 5 * step}
    above = {side: max(float(d[at : at + step].max()) for d in densities.values()) for side, at in free.items()}
    side = min(above, key=lambda name: above[name])
    x = {"start": LEFT + 2, "end": RIGHT - 2, "middle": across(float(grid[free["middle"] + step // 2]))}[side]
    before = float(prior[free[side] : free[side] + step].max())
    parts += [
        _text(x, up(before) - 4, "before", side),
        f'<path d="M{LEFT},{BOTTOM}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>',
        _text((LEFT + RIGHT) / 2, BOTTOM + 30, axis, "middle", "ink"),
    ]
    parts += [_text(across(x), BOTTOM + 15, f"{x:g}", "middle") for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return _svg(parts)


def estimate_picture(value: float, error: float, ends: Sequence[float], axis: str) -> str:
    """The bell curve of an estimate, the flat line of what was known before, and the ends of what is claimed."""
    low = min([value - 4 * error, *(e - error for e in ends)])
    high = max([value + 4 * error, *(e + error for e in ends)])
    grid = np.linspace(low, high, 200)
    bell = np.exp(-(((grid - value) / error) ** 2) / 2)

    def across(x: float) -> float:
        return LEFT + (x - low) / (high - low) * (RIGHT - LEFT)

    points = "L".join(
        f"{across(float(x)):.1f},{BOTTOM - float(y) * (BOTTOM - TOP):.1f}" for x, y in zip(grid, bell, strict=True)
    )
    flat = BOTTOM - 14
    parts = [
        f'<path d="M{points}L{RIGHT},{BOTTOM}L{LEFT},{BOTTOM}Z" fill="var(--accent)" fill-opacity=".14"/>',
        f'<path d="M{points}" fill="none" stroke="var(--accent)" stroke-width="1.8"/>',
        f'<path d="M{LEFT},{flat}H{RIGHT}" stroke="var(--soft)" stroke-width="1.2"/>',
        f'<path d="M{LEFT},{BOTTOM}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>',
        _text(LEFT + 2, flat - 4, "before", "start"),
        _text(across(value) + 4, TOP - 4, "after", "start", "accent"),
        _text((LEFT + RIGHT) / 2, BOTTOM + 30, axis, "middle", "ink"),
    ]
    for end in ends:
        parts.append(f'<path d="M{across(end):.1f},{TOP - 12}V{BOTTOM}" stroke="var(--soft)" stroke-width=".8"/>')
        parts.append(_text(across(end), TOP - 16, f"{end:g}", "middle"))
    for x in np.linspace(low, high, 5):
        parts.append(_text(min(max(across(float(x)), LEFT + 10), RIGHT - 12), BOTTOM + 15, f"{x:.3g}", "middle"))
    return _svg(parts)


def grid_picture(counts: Ints, noise: float, across: str, upwards: str) -> str:
    """Counts of a grid as areas of circles, hollow where noise alone could be as large (two standard deviations)."""
    columns, rows = counts.shape
    step = (RIGHT - LEFT) / columns
    height = max(12.0, min(step, 24.0))
    bottom = TOP + height * rows
    most = max(1.0, float(counts.max()))
    parts = []
    for i, j in np.ndindex(columns, rows):
        value = float(counts[i, j])
        if value <= 0:
            continue
        radius = max(0.8, 0.48 * height * float(np.sqrt(value / most)))
        sure = value > 2 * noise
        look = 'fill="var(--accent)"' if sure else 'fill="none" stroke="var(--soft)" stroke-width=".6"'
        parts.append(
            f'<circle cx="{LEFT + (i + 0.5) * step:.1f}" cy="{bottom - (j + 0.5) * height:.1f}" r="{radius:.1f}" {look}/>'
        )
    parts.append(f'<path d="M{LEFT},{bottom:.1f}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>')
    parts.append(_text((LEFT + RIGHT) / 2, bottom + 16, f"{across} →", "middle", "ink"))
    parts.append(_text(LEFT, TOP - 10, f"↑ {upwards}", "start", "ink"))
    return _svg(parts, int(bottom + 26))


def curve_picture(x: Floats, y: Floats) -> str:
    """An ROC curve with the diagonal of a model that knows nothing."""
    left, right, bottom = 90, 330, TOP + 240
    points = [(left + float(a) * (right - left), bottom - float(b) * (bottom - TOP)) for a, b in zip(x, y, strict=True)]
    parts = [
        f'<path d="M{left},{bottom}L{right},{TOP}" stroke="var(--soft)" stroke-width=".8"/>',
        f'<path d="M{"L".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" stroke="var(--accent)" stroke-width="1.8"/>',
        f'<path d="M{left},{TOP}V{bottom}H{right}" fill="none" stroke="var(--soft)" stroke-width=".8"/>',
        _text((left + right) / 2, bottom + 30, "false positives", "middle", "ink"),
        _text(left, TOP - 10, "true positives", "start", "ink"),
        _text((left + right) / 2 + 8, (TOP + bottom) / 2 + 12, "knows nothing", "start"),
    ]
    parts += [_text(left + t * (right - left), bottom + 15, f"{t:g}", "middle") for t in (0.0, 0.5, 1.0)]
    parts += [_text(left - 6, bottom - t * (bottom - TOP) + 4, f"{t:g}", "end") for t in (0.5, 1.0)]
    return _svg(parts, bottom + 40)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "soft") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{colour})">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int = HEIGHT) -> str:
    style = "max-width:36rem;font-size:11px;font-family:inherit"
    return f'<svg viewBox="0 0 {WIDTH} {height}" style="{style}">{"".join(parts)}</svg>'
