"""The surface that every figure is drawn on: the palette, type, and SVG that belongs to its page.

Colours are written as the page's custom properties, so that a figure follows the page into dark mode and onto paper.
Text stays text: readers can select it and screen readers can read it. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

WIDTH = 7.2
"""Inches; the page shows a figure at about 105 pixels to the inch, so that 7.5 points are 11 pixels."""

PALETTE = {
    "paper": ("#fffdf9", "#16171a"),
    "ink": ("#1b1b1b", "#e9e6df"),
    "soft": ("#5c5a55", "#a7a39a"),
    "rule": ("#cfcabf", "#44423d"),
    "accent": ("#0072b2", "#6bb7e8"),
    "second": ("#b84a00", "#f0925a"),
    "third": ("#00795a", "#4fc4a1"),
    "fourth": ("#9c4f7f", "#dc9cc4"),
    "alarm": ("#b3261e", "#c8453c"),
}
"""Every colour by the custom property that holds it: in light and in dark mode. Blue, vermilion, bluish green and purple
are those of Okabe and Ito, made dark enough to read on paper."""
PAPER, INK, SOFT, RULE, *_accents, ALARM = (light for light, _ in PALETTE.values())
COLOURS = tuple(_accents)
LIGHT, DARK = ("; ".join(f"--{name}: {modes[i]}" for name, modes in PALETTE.items()) + ";" for i in range(2))
ROOT = f":root {{ {LIGHT} }}\n@media (prefers-color-scheme: dark) {{\n  :root {{ {DARK} }}\n}}\n"
"""The palette as styles, for a page or for a drawing that stands alone."""
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
def surface(width: float, height: float, **style: str) -> Iterator[tuple[Any, Callable[[], str]]]:
    """An empty figure in our style, and the function that turns it into SVG."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()  # a matplotlibrc of the current folder or of the user changes no figure
        mpl.rcParams.update(STYLE | style)
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        figure.draw = _once(figure)  # type: ignore[assignment, method-assign]

        def done() -> str:
            text = io.StringIO()
            figure.savefig(text, format="svg", dpi=150, metadata={"Date": None, "Creator": None})
            return _clean(text.getvalue())

        yield figure, done


def _once(figure: Any) -> Callable[[Any], None]:
    """How a figure is drawn: matplotlib first draws all of it unseen to place its panels, and placing them is enough."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    whole: Callable[[Any], None] = figure.draw

    def draw(renderer: Any) -> None:
        engine = figure.get_layout_engine()
        if isinstance(engine, ConstrainedLayoutEngine) and figure.axes:
            with suppress(ValueError):  # as matplotlib does
                engine.execute(figure)
        else:
            whole(renderer)

    return draw


def write_figure(path: Path, title: str, caption: str, draw: Callable[[Any], None]) -> None:
    """Draw a whole page, title above and caption below, into a file (.svg or .png)."""
    white = {"figure.facecolor": "white", "savefig.facecolor": "white"}
    with surface(11.0, 7.4, **white) as (figure, _):
        room = {"rect": (0.025, 0.075, 0.97, 0.865), "w_pad": 0.08, "h_pad": 0.06}
        figure.set_layout_engine("constrained", **room)
        figure.text(0.012, 0.985, title, ha="left", va="top", fontsize=13)
        figure.text(0.012, 0.012, caption, ha="left", va="bottom", fontsize=8.5, color=SOFT)
        draw(figure)
        about = {"Title": title, "Description": f"{title}. {caption}", "Date": None}
        metadata = about if path.suffix.lower() == ".svg" else {"Title": title, "Software": None}
        figure.savefig(path, dpi=150, metadata=metadata)


def _clean(svg: str) -> str:
    """The drawing alone: no XML prologue, no metadata, page colours, ids that no other drawing of the page has."""
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r' (?:version|xmlns(?::xlink)?)="[^"]*"', "", svg, count=3).replace("xlink:href=", "href=")
    for name, (colour, _) in PALETTE.items():
        svg = svg.replace(colour, f"var(--{name})")
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
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(?<=[ \"(,LMCQ])(-?\d+\.\d{2})\d+(?=[ \"),\n])", r"\1", tag[0]), svg)


def standalone(svg: str, alternative: str = "") -> str:
    """A drawing as a file of its own: with its colours, its size, and what it shows in words."""
    *_, width, height = svg[svg.index('viewBox="') + 9 :].split('"')[0].split()
    head, rest = svg.split(">", 1)
    size = f' width="{float(width) * 1.25:.0f}" height="{float(height) * 1.25:.0f}"'
    return (
        f'{head}{size} xmlns="http://www.w3.org/2000/svg" font-family="Charter, Georgia, \'DejaVu Serif\', serif">'
        f"<style>{ROOT}</style>{f'<desc>{escape(alternative)}</desc>' if alternative else ''}{rest}\n"
    )


def apply_theme(svg: str) -> str:
    """A whole SVG file in the page's colours: it follows light and dark mode, and nothing is painted behind it.

    >>> made = apply_theme('<svg viewBox="0 0 1 1"><path d="M 0 0 z" style="fill: #ffffff"/><text fill="#1b1b1b">a</text></svg>')
    >>> made[made.index("</style>"):]
    '</style><path d="M 0 0 z" style="fill: none"/><text fill="var(--ink)">a</text></svg>'
    """
    svg = re.sub(r"(<path [^>]*?style=\"fill: )#ffffff", r"\1none", svg, count=1, flags=re.DOTALL)
    for name, (colour, _) in (*PALETTE.items(), ("paper", ("#ffffff", ""))):
        svg = svg.replace(colour, f"var(--{name})")
    head, rest = svg[svg.index("<svg ") :].split(">", 1)
    return f'{svg[: svg.index("<svg ")]}{head} fill="var(--ink)"><style>{ROOT}</style>{rest}'


def shorten(label: str, most: int) -> str:
    """A label of at most so many characters."""
    return label if len(label) <= most else label[: most - 1] + "…"


def shorten_all(labels: Sequence[str], most: int) -> list[str]:
    """Labels of at most so many characters; those that would look the same are cut in their middle.

    >>> shorten_all(["income of men", "income of women", "age"], 11)
    ['incom…f men', 'incom…women', 'age']
    """
    short = [shorten(label, most) for label in labels]
    alike, tail = Counter(shorten(label, most) for label in set(labels)), (most - 1) // 2
    return [
        s if alike[s] == 1 else f"{label[: most - 1 - tail]}…{label[-tail:]}"
        for s, label in zip(short, labels, strict=True)
    ]


def panel_room(axis: Any) -> int:
    """How many characters have room below a panel: 24 where three stand in a row."""
    return 24 * 3 // int(axis.get_gridspec().ncols)


def few_labels(labels: Sequence[str], room: int) -> tuple[list[int], list[str]]:
    """Which of many positions are named, all or two to four, and how, so that their texts have room beside one another.

    A range is named by where it begins.

    >>> few_labels([f"{i}000-{i}999" for i in range(1, 10)], 18)
    ([0, 4, 8], ['1000', '5000', '9000'])
    >>> few_labels(["2003-01", "2003-02", "2003-03"], 27)
    ([0, 1, 2], ['2003-01', '2003-02', '2003-03'])
    """
    for many in (max(len(labels), 2), 4, 3, 2):
        named = sorted({round(i * (len(labels) - 1) / (many - 1)) for i in range(many)})
        texts = shorten_all([range_start(labels[i]) for i in named], 11)
        if sum(map(len, texts)) + 2 * len(texts) <= room:
            break
    return named, texts


def range_start(label: str) -> str:
    """Where a range begins; any other label as it is.

    >>> [range_start(label) for label in ("30-39", "[10000, 12500)", "2003-01", "less than 5")]
    ['30', '10000', '2003-01', 'less than 5']
    """
    if " to " in label:
        return label.partition(" to ")[0]
    number = r"(-?\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"{number}[-–]{number}", label) or re.fullmatch(rf"\[{number}, {number}[)\]]", label)
    return found[1] if found and float(found[1]) <= float(found[2]) else label


def wrap_label(text: str, most: int, lines: int = 2) -> str:
    r"""A text on so many lines of so many characters; cut only where they are too few.

    >>> wrap_label("agency 60, occupation 20", 14)
    'agency 60,\noccupation 20'
    """
    found = wrap(text, max(4, most), break_long_words=False)
    found[lines - 1 :] = [" ".join(found[lines - 1 :])] if found[lines - 1 :] else []
    return "\n".join(shorten(line, max(4, most)) for line in found)
