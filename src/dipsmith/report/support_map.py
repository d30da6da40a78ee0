"""A map of columns × columns in three shades, as SVG that needs no library.

Shades differ in how dark they are, so that the map reads in grey too; each cell says in words what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from dipsmith.report.canvas import shorten

CELL, GAP = 26, 3
CHARACTER, CAPITAL = 7.2, 10.0
LONGEST = 20

FULL = '<rect{place} fill="var(--accent)"/>'
HALF = '<rect{place} fill="var(--accent)" fill-opacity=".38"/>'
EMPTY = '<rect{place} fill="none" stroke="var(--soft)" stroke-width="1"/>'
GREY = '<rect{place} fill="var(--rule)"/>'
SHADES = {"measured": FULL, "carried": HALF, "not carried": EMPTY, "public": GREY}


@dataclass(frozen=True)
class Shade:
    """What a cell of the map shows, one of `SHADES`, and what it says."""

    level: str
    words: str


def support_map(names: Sequence[str], at: Callable[[str, str], Shade]) -> str:
    """The lower triangle of all pairs, each column by itself on the diagonal; labels left and at the diagonal's foot.

    What belongs to the i-th column is marked ci.
    """
    n = len(names)
    longest = max(_width(shorten(x, LONGEST)) for x in names)
    left, foot = longest + 12, longest * 0.8 + 16
    top = 30
    parts = [_key(left, at, names)]
    for i, row in enumerate(names):
        y = top + i * CELL
        parts.append(
            f'<text x="{left - 8:.0f}" y="{y + CELL * 0.66:.0f}" text-anchor="end" '
            f'class="c{i}">{escape(shorten(row, LONGEST))}</text>'
        )
        for j, column in enumerate(names[: i + 1]):
            shade = at(row, column)
            place = f' x="{left + j * CELL:.0f}" y="{y}" width="{CELL - GAP}" height="{CELL - GAP}" rx="{CELL / 2 if i == j else 2}"'
            drawn = SHADES[shade.level].format(place=place)
            parts.append(f'<g class="c{i} c{j}"><title>{escape(shade.words)}</title>{drawn}</g>')
    for j, column in enumerate(names):
        x, y = left + j * CELL + CELL * 0.6, top + n * CELL + 10
        parts.append(
            f'<text x="{x:.0f}" y="{y}" text-anchor="end" class="c{j}" transform="rotate(-50 {x:.0f} {y})">'
            f"{escape(shorten(column, LONGEST))}</text>"
        )
    width, height = max(left + n * CELL + 10, left + 400), top + n * CELL + foot
    return (
        f'<svg class="map" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="max-width: {width:.0f}px" font-size="12" fill="var(--ink)">{"".join(parts)}</svg>'
    )


def _width(label: str) -> float:
    """Pixels that a label takes at most: names in capitals are wider."""
    return sum(CAPITAL if c.isupper() else CHARACTER for c in label)


def _key(left: float, at: Callable[[str, str], Shade], names: Sequence[str]) -> str:
    """The shades that occur, named once."""
    used = {at(a, b).level for i, a in enumerate(names) for b in names[: i + 1]}
    parts, x = [], left
    for level in (level for level in SHADES if level in used):
        place = f' x="{x:.0f}" y="4" width="14" height="14" rx="2"'
        parts.append(f'{SHADES[level].format(place=place)}<text x="{x + 20:.0f}" y="16">{level}</text>')
        x += 34 + CHARACTER * len(level) + 10
    return "".join(parts)
