"""Transitions from one period to the next as small multiples: marks whose area is the share of those who had a value before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import COLOURS, RULE, WIDTH, range_start, shorten
from dipsmith.report.drawing import panels

LARGEST = 0.86
"""The side of the mark of a share of 1, in units of a cell."""
NAMED = 8
"""Levels that carry their label at most."""


@dataclass(frozen=True, eq=False)
class Moves:
    """One panel: how often a value before (rows) is followed by a value now (columns)."""

    title: str
    labels: Sequence[str]
    counts: Floats


def transitions(drawn: Sequence[Moves], order: str) -> str:
    """All panels, three in a row; values before run down, values now run across."""
    with panels(len(drawn), 3, lambda rows, columns: 0.5 + rows * (WIDTH / max(columns, 2) + 0.15)) as (_, axes, done):
        for i, (panel, axis) in enumerate(zip(drawn, axes, strict=True)):
            _draw(axis, panel)
            axis.set_xlabel("now")
            axis.set_ylabel(f"a {order} before" if i % 3 == 0 else "")
        return done().replace("<svg ", '<svg class="map" style="min-width: 40rem" ', 1)


def _draw(axis: Any, panel: Moves) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    size = len(panel.labels)
    shares = panel.counts / np.maximum(panel.counts.sum(axis=1, keepdims=True), 1.0)
    axis.plot([-0.5, size - 0.5], [-0.5, size - 0.5], color=RULE, linewidth=0.8, zorder=1)
    marks = []
    for before, now in np.argwhere(shares >= 0.002):
        side = LARGEST * float(shares[before, now]) ** 0.5
        marks.append(Rectangle((now - side / 2, before - side / 2), side, side))
    axis.add_collection(PatchCollection(marks, facecolor="none", edgecolor=COLOURS[0], linewidth=1.0, zorder=3))
    named = range(0, size, -(-size // NAMED))  # evenly, so that no two labels meet
    words = [shorten(range_start(panel.labels[i]), 10) for i in named]
    axis.set_xticks(
        named,
        words,
        rotation=45 if max(map(len, words)) > 3 else 0,
        ha="right" if max(map(len, words)) > 3 else "center",
    )
    axis.set_yticks(named, words)
    axis.set_xlim(-0.6, size - 0.4)
    axis.set_ylim(size - 0.4, -0.6)
    axis.set_aspect("equal")
    axis.set_title(shorten(panel.title, 34))
