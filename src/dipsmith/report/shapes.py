"""Lines, boxes and words at their places: one drawing that becomes SVG for a page or pixels for a picture.

Colours are names of the palette, so that SVG follows its page into dark mode; pixels are those of light paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from dipsmith.report.canvas import PALETTE

SIZE = 12.0
"""Height of the type, in pixels."""
CHARACTER = 6.3
"""About how wide a character is."""
LEADING = 15.0
"""From one line of text to the next."""
EDGE = 16.0
"""Around a drawing that is a file of its own."""


@dataclass(frozen=True)
class Stroke:
    """From one point to another."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: str = "soft"
    width: float = 1.0


@dataclass(frozen=True)
class Rectangle:
    """A box by its left upper corner; `dashed` where it stands for something noisy."""

    corner: tuple[float, float]
    width: float
    height: float
    colour: str = "ink"
    dashed: bool = False


@dataclass(frozen=True)
class Words:
    """A line of text on its baseline; `anchor` is start, middle or end; `whole` is what it says where it was cut."""

    at: tuple[float, float]
    text: str
    colour: str = "ink"
    anchor: str = "middle"
    bold: bool = False
    whole: str = ""


Shape = Stroke | Rectangle | Words


@dataclass(frozen=True)
class Drawing:
    """Shapes on a surface of so many pixels."""

    width: float
    height: float
    shapes: tuple[Shape, ...]

    def add_title(self, title: str, caption: str) -> Drawing:
        """The same with a title above and a caption below, for a file of its own."""
        most = int((self.width - 2 * EDGE) / CHARACTER)
        above, below = wrap(title, int(most / 1.1)), wrap(caption, most)
        down = EDGE + LEADING * len(above) + 4
        moved = [_move(shape, EDGE, down) for shape in self.shapes]
        heads = [Words((EDGE, EDGE + LEADING * (i + 0.6)), text, "ink", "start", True) for i, text in enumerate(above)]
        foot = down + self.height + 8
        tail = [Words((EDGE, foot + LEADING * (i + 1)), text, "soft", "start") for i, text in enumerate(below)]
        height = foot + LEADING * (len(below) + 0.5) + EDGE
        width = self.width + 2 * EDGE
        paper = Rectangle((-1, -1), width + 2, height + 2, "paper")
        return Drawing(width, height, (paper, *heads, *moved, *tail))

    def to_svg(self) -> str:
        """The drawing as part of a page; narrow screens scroll it instead of making its words small."""
        style = f"max-width: {self.width:.0f}px; min-width: {min(self.width, 720):.0f}px"
        box = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" style="{style}"'
        inner = "".join(_svg(shape) for shape in self.shapes)
        return f'<svg class="map" {box} font-size="{SIZE:g}" fill="var(--ink)">{inner}</svg>'

    def to_png(self, path: Path) -> None:
        """The drawing as a picture on light paper, two dots to the pixel."""
        from dipsmith.report.canvas import surface

        paper = PALETTE["paper"][0]
        with surface(self.width / 96, self.height / 96, **{"savefig.facecolor": paper}) as (figure, _):
            figure.set_layout_engine("none")
            axis = figure.add_axes((0, 0, 1, 1))
            axis.set_axis_off()
            axis.set_xlim(0, self.width)
            axis.set_ylim(self.height, 0)
            for order, shape in enumerate(self.shapes):
                _paint(axis, shape, order)
            figure.savefig(path, format="png", dpi=192, metadata={"Software": None})


def _move(shape: Shape, x: float, y: float) -> Shape:
    match shape:
        case Stroke(start, end):
            return replace(shape, start=(start[0] + x, start[1] + y), end=(end[0] + x, end[1] + y))
        case Rectangle(corner):
            return replace(shape, corner=(corner[0] + x, corner[1] + y))
        case Words(at):
            return replace(shape, at=(at[0] + x, at[1] + y))


def _svg(shape: Shape) -> str:
    match shape:
        case Stroke((x, y), (to_x, to_y)):
            ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
            return f'<line {ends} stroke="var(--{shape.colour})" stroke-width="{shape.width:.2g}"/>'
        case Rectangle((x, y)):
            place = f'x="{x:.1f}" y="{y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}" rx="2"'
            dash = ' stroke-dasharray="5 3"' if shape.dashed else ""
            return f'<rect {place} fill="var(--paper)" stroke="var(--{shape.colour})"{dash}/>'
        case Words((x, y)):
            weight = ' font-weight="600"' if shape.bold else ""
            colour = "" if shape.colour == "ink" else f' fill="var(--{shape.colour})"'
            whole = f"<title>{escape(shape.whole)}</title>" if shape.whole not in ("", shape.text) else ""
            place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{shape.anchor}"'
            return f"<text {place}{weight}{colour}>{whole}{escape(shape.text)}</text>"


def _paint(axis: Any, shape: Shape, order: int) -> None:
    from matplotlib.patches import Rectangle as Patch

    colour = PALETTE[shape.colour][0]
    match shape:
        case Stroke((x, y), (to_x, to_y)):
            axis.plot(
                [x, to_x], [y, to_y], color=colour, linewidth=0.75 * shape.width, solid_capstyle="butt", zorder=order
            )
        case Rectangle(corner):
            style: Any = {"edgecolor": colour, "facecolor": PALETTE["paper"][0], "linewidth": 0.75, "zorder": order}
            dash = (0, (5, 3)) if shape.dashed else "-"
            axis.add_patch(Patch(corner, shape.width, shape.height, linestyle=dash, **style))
        case Words((x, y)):
            weight = "bold" if shape.bold else "normal"
            side = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            look: Any = {"color": colour, "fontsize": 0.75 * SIZE, "fontweight": weight, "zorder": order}
            axis.text(x, y, shape.text, ha=side, va="baseline", **look)
