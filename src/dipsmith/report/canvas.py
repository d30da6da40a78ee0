"""The surface that every figure is drawn on: colours, type, and SVG that belongs to its page.

Colours are written as the page's custom properties, so that a figure follows the page into dark mode and onto paper.
Text stays text: readers can select it and screen readers can read it. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

WIDTH = 7.2
"""Inches; the page shows a figure at about 105 pixels to the inch, so that 7.5 points are 11 pixels."""

INK, SOFT, RULE = "#1b1b1b", "#5c5a55", "#cfcabf"
COLOURS = ("#0072b2", "#b84a00", "#00795a", "#9c4f7f")
"""Blue, vermilion, bluish green, purple, each dark enough to read on paper."""
_PROPERTIES = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    RULE: "var(--rule)",
    "#fffdf9": "var(--paper)",
    **dict(zip(COLOURS, ("var(--accent)", "var(--second)", "var(--third)", "var(--fourth)"), strict=True)),
}
DASH = (0, (4, 2))
MARKS = ("o", "s", "^", "D")

STYLE = {
    "svg.hashsalt": "dipsmith",
    "svg.fonttype": "none",
    "font.family": "DejaVu Serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlecolor": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.color": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.unicode_minus": True,
    "text.parse_math": False,
}
"""Matplotlib's settings of every figure; nothing is painted behind it, and no text is read as mathematics."""


@contextmanager
def surface(width: float, height: float) -> Iterator[tuple[Any, Callable[[], str]]]:
    """An empty figure in our style, and the function that turns it into SVG."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()  # a matplotlibrc of the current folder or of the user changes no figure
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)

        def done() -> str:
            held = io.StringIO()
            figure.savefig(held, format="svg", dpi=150, metadata={"Date": None, "Creator": None})
            return _cleaned(held.getvalue())

        yield figure, done


def _cleaned(svg: str) -> str:
    """The drawing alone: no XML prologue, no metadata, page colours, ids that no other drawing of the page has."""
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r' (?:version|xmlns(?::xlink)?)="[^"]*"', "", svg, count=3).replace("xlink:href=", "href=")
    for colour, name in _PROPERTIES.items():
        svg = svg.replace(colour, name)
    svg = svg.replace("'DejaVu Serif'", "inherit").replace('"DejaVu Serif"', "inherit")
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    mark = sha256(svg.encode()).hexdigest()[:8]

    def renamed(found: re.Match[str]) -> str:
        return f' id="{mark}-{found[1]}"' if found[1] in used else ""

    svg = re.sub(r' id="([^"]+)"', renamed, svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{mark}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{mark}-\1"', svg)
    return _shorter(re.sub(r"\n\s*", "\n", svg).strip())


_MARKS = re.compile(r"<g([^>]*)>\n((?:<use [^>]*/>\n)+)</g>")


def _shorter(svg: str) -> str:
    """The same drawing in fewer bytes: coordinates to a hundredth of a point, the style of a row of marks said once."""

    def hoisted(found: re.Match[str]) -> str:
        styles = set(re.findall(r' style="([^"]*)"', found[2]))
        if len(styles) != 1 or found[2].count("<use ") < 3:
            return found[0]
        marks = re.sub(r' style="[^"]*"', "", found[2])
        return f'<g{found[1]}>\n<g style="{styles.pop()}">\n{marks}</g>\n</g>'

    svg = _MARKS.sub(hoisted, svg)
    # Within tags only: the numbers of a label are for a reader.
    return re.sub(
        r"<[^>]*>",
        lambda tag: re.sub(r"(?<=[ \"(,LMCQ])(-?\d+\.\d{2})\d+(?=[ \"),\n])", r"\1", tag[0]),
        svg,
    )


def short(label: str, most: int) -> str:
    """A label of at most so many characters."""
    return label if len(label) <= most else label[: most - 1] + "…"
