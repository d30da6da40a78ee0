"""The points of a panel that lie farthest from its line: a number beside each, and what they are.

The words stand in a corner of the panel that its points leave free, or below the panel where they leave none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.report.canvas import INK, SOFT, shorten_all

NAMED = 3
"""How many of the farthest points carry their label."""
SIDE = 220.0
"""About how many points of type a panel is wide where two stand in a row."""
ALONE = 290.0
"""The same of a panel that stands alone."""
FAR = 10.0
"""A number farther than this from its point is tied to it by a line."""
LINE, CHARACTER, MARGIN = 10.0, 4.0, 4.0
"""How high a line of the names is, how wide one of their characters, and how near a point may come, in points."""


Corner = Literal["lower right", "upper left", "below"]


@dataclass(frozen=True, eq=False)
class Farthest:
    """The farthest points of a panel, where their numbers stand beside them, and where their names have room."""

    at: Floats
    beside: Floats
    names: str
    corner: Corner = "lower right"
    note_lines: int = 0

    @classmethod
    def of(
        cls,
        authentic: Floats,
        synthetic: Floats,
        labels: Sequence[str],
        note: str,
        stretch: Callable[[Any], Any],
        bounds: tuple[float, float],
        across: int,
    ) -> Farthest:
        """Choose the points, and the places, of a panel in a row of so many; `note` stands in its upper left corner."""
        if not len(authentic):
            return cls(np.zeros((0, 2)), np.zeros((0, 2)), "")
        x, y = stretch(authentic), stretch(synthetic)
        chosen = np.argsort(-np.abs(y - x), kind="stable")[:NAMED]
        low, high = (float(stretch(np.float64(end))) for end in bounds)
        side = ALONE if across == 1 else SIDE
        points = side * (np.column_stack([x, y]) - low) / (high - low)
        beside = _apart(points[chosen], side)
        short = shorten_all([labels[int(i)] for i in chosen], 40)
        names = [f"{rank} {label}" for rank, label in enumerate(short, start=1)]
        lines = note.count("\n") + 1 if note else 0
        size = np.array([CHARACTER * max(map(len, names)), LINE * len(names)])
        top = 0.97 * side - (LINE * (lines + 1) if lines else 0.0)
        corners: dict[Corner, Floats] = {
            "lower right": np.array([0.98 * side - size[0], 0.02 * side]),
            "upper left": np.array([0.03 * side, top - size[1]]),
        }
        taken = np.concatenate([points, points[chosen] + beside])
        hit = {c: ((taken > least - MARGIN) & (taken < least + size + MARGIN)).all(1) for c, least in corners.items()}
        corner: Corner = next((c for c in corners if not hit[c].any()), "below")
        return cls(np.column_stack([authentic, synthetic])[chosen], beside, "\n".join(names), corner, lines)

    @property
    def below(self) -> bool:
        """Whether the names need room below the panel."""
        return self.corner == "below"

    def draw(self, axis: Any) -> None:
        """Number the points, and say what they are."""
        number = {"ha": "center", "va": "center", "fontsize": 7.5, "fontweight": "bold", "color": INK}
        tie = {"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkA": 4, "shrinkB": 2}
        for rank, (point, place) in enumerate(zip(self.at, self.beside, strict=True), start=1):
            far = float(np.hypot(*place)) > FAR
            beside = {"xytext": tuple(place), "textcoords": "offset points"}
            axis.annotate(str(rank), tuple(point), **beside, **number, arrowprops=tie if far else None)
        look = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 7.5, "color": INK}
        if self.corner == "lower right":
            axis.annotate(self.names, (0.98, 0.02), xytext=(0, 0), ha="right", va="bottom", **look)
        elif self.corner == "upper left":
            under = LINE * (self.note_lines + 1) if self.note_lines else 0.0
            axis.annotate(self.names, (0.03, 0.97), xytext=(0, -under), ha="left", va="top", **look)
        else:
            axis.annotate(self.names, (0, 0), xytext=(0, -36), ha="left", va="top", annotation_clip=False, **look)


def _apart(at: Floats, side: float = SIDE) -> Floats:
    """Where to put a number beside each point (offsets in points): away from the line, inside the panel, none on another.

    >>> _apart(np.array([[50.0, 80.0], [50.0, 80.0]])).tolist()
    [[-6.0, 6.0], [-6.0, 15.0]]
    """
    steps = [(6, 6), (6, 15), (15, 6), (0, 10), (6, 24), (15, 15), (24, 6), (15, 24), (24, 15), (0, 20)]
    places: list[Floats] = []
    taken: list[Floats] = list(at)
    for point in at:
        away = np.array([-1.0, 1.0]) if point[1] >= point[0] else np.array([1.0, -1.0])
        tries = [away * step for step in steps]
        # at the edge of the panel the other way as well
        tries += [t * (-1, 1) for t in tries] + [t * (1, -1) for t in tries]
        inside = [t for t in tries if ((point + t >= 5) & (point + t <= side - 5)).all()] or tries[:1]
        room = [min(float(np.hypot(*(point + t - other))) for other in taken) for t in inside]
        free = [i for i, distance in enumerate(room) if distance >= 8]
        best = inside[free[0] if free else int(np.argmax(room))]
        places.append(best)
        taken.append(point + best)
    return np.array(places).reshape(-1, 2)
