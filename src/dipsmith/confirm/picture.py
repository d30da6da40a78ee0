"""The pictures of an answer, drawn from its numbers alone: small enough for a telephone, in the page's own colours."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 420, 236
LEFT, RIGHT, TOP, BOTTOM = 16, 404, 30, 196


def density_picture(
    grid: Floats, prior: Floats, density: Floats, *, threshold: float, ends: Sequence[str], axis: str
) -> str:
    """What was known before (grey), what is known now (blue), and the threshold between them (thin line)."""
    low, high = float(grid[0]), float(grid[-1])
    most = max(float(density.max()), float(prior.max()), 1e-12)

    def across(x: float) -> float:
        return LEFT + (x - low) / (high - low) * (RIGHT - LEFT)

    def up(y: float) -> float:
        return BOTTOM - y / most * (BOTTOM - TOP)

    def path(values: Floats) -> str:
        return "M" + "L".join(f"{across(float(x)):.1f},{up(float(y)):.1f}" for x, y in zip(grid, values, strict=True))

    line = across(threshold)
    area = f"{path(density)}L{RIGHT},{BOTTOM}L{LEFT},{BOTTOM}Z"
    peak = int(np.argmax(density))
    # The name stands beside the peak, on the side where there is room.
    side = "start" if across(float(grid[peak])) < WIDTH / 2 else "end"
    shift = 8 if side == "start" else -8
    parts = [
        f'<path d="{area}" fill="var(--accent)" fill-opacity=".16"/>',
        f'<path d="{path(prior)}" fill="none" stroke="var(--soft)" stroke-width="1.2"/>',
        f'<path d="{path(density)}" fill="none" stroke="var(--accent)" stroke-width="1.8"/>',
        f'<path d="M{line:.1f},{TOP - 12}V{BOTTOM}" stroke="var(--soft)" stroke-width=".8"/>',
        f'<path d="M{LEFT},{BOTTOM}H{RIGHT}" stroke="var(--soft)" stroke-width=".8"/>',
        _text(line - 6, TOP - 16, ends[0], "end"),
        _text(line + 6, TOP - 16, ends[1], "start"),
        _text(across(float(grid[peak])) + shift, up(float(density[peak])) + 12, "after", side, "accent"),
        _text(LEFT + 2, up(float(prior[0])) - 4, "before", "start"),
        _text((LEFT + RIGHT) / 2, BOTTOM + 30, axis, "middle", "ink"),
    ]
    for x in np.linspace(low, high, 5):
        parts.append(_text(across(float(x)), BOTTOM + 15, f"{x:.3g}", "middle"))
    return _svg(parts)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "soft") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{colour})">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int = HEIGHT) -> str:
    style = "max-width:36rem;font-size:11px;font-family:inherit"
    return f'<svg viewBox="0 0 {WIDTH} {height}" style="{style}">{"".join(parts)}</svg>'
