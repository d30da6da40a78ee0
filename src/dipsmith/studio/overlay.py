"""One distribution as the Compare page shows it: authentic bars, synthetic outlines, and every value as a number.

Authentic is near-black and filled, synthetic dashed and open; the colours come from the style sheet. A list of levels is a
table whose rows are the bars; many ordered levels are a histogram with the table below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil

import numpy as np

from dipsmith.report.canvas import range_start
from dipsmith.report.histograms import UPRIGHT, Overlay, scale_end

WIDE, TALL = 640.0, 200.0
LEFT, BELOW = 64.0, 26.0
"""Margins of a histogram, for its scales."""
LETTER = 11.5
"""Room of a letter in the labels of narrow windows, where they are largest."""
MOST_ROWS = 60
"""Levels with a row of their own, those that differ most; the others are in the numbers."""


def percent(share: float) -> str:
    """A share in per cent, with as many decimals as the others of its column.

    >>> percent(0.12345), percent(0.00012), percent(0.00002), percent(0.0)
    ('12.35', '0.01', '< 0.01', '0')
    """
    value = 100 * float(share)
    return f"{value:.2f}" if value >= 0.005 else "< 0.01" if value else "0"


def points(difference: float) -> str:
    """A difference of shares in percentage points, with its sign.

    >>> points(0.0123), points(-0.2), points(0.0)
    ('+1.23', '−20.00', '0')
    """
    value = f"{100 * float(difference):+.2f}".replace("-", "−")
    return "0" if value in ("+0.00", "−0.00") else value


def picture(drawn: Overlay, names: Sequence[str]) -> str:
    """A distribution with its values; `names` are those of the releases."""
    upright = drawn.ordered and len(drawn.labels) > UPRIGHT
    return (histogram(drawn) if upright else "") + values(drawn, names, bars=not upright)


def histogram(drawn: Overlay, together: Sequence[Overlay] = ()) -> str:
    """Ordered levels side by side; those that are seen `together` have one scale."""
    end = scale_end([side for seen in (together or [drawn]) for side in (seen.authentic, *seen.synthetic)])
    count = len(drawn.labels)
    step, high = (WIDE - LEFT) / count, TALL - BELOW - 8
    base = TALL - BELOW

    def y(share: float) -> float:
        return base - high * min(float(share) / end, 1.0)

    bars = "".join(
        f'<rect class="authentic" x="{LEFT + i * step + 0.08 * step:.1f}" y="{y(share):.1f}" width="{0.84 * step:.1f}" height="{base - y(share):.1f}"/>'
        for i, share in enumerate(drawn.authentic)
    )
    lines = ""
    for kind in ("rim", "synthetic"):
        for number, side in enumerate(() if drawn.public else drawn.synthetic):
            path = f"M{LEFT:.1f} {base:.1f}" + "".join(
                f"V{y(share):.1f}H{LEFT + (i + 1) * step:.1f}" for i, share in enumerate(side)
            )
            lines += f'<path class="{kind} r{number}" d="{path}V{base:.1f}"/>'
    scale = "".join(
        f'<line class="grid" x1="{LEFT:g}" x2="{WIDE:g}" y1="{y(at):.1f}" y2="{y(at):.1f}"/><text x="{LEFT - 6:g}" y="{y(at) + 4:.1f}" text-anchor="end">{100 * at:g}{" %" if at == end else ""}</text>'
        for at in (0.0, end / 2, end)
    )
    labels = "".join(
        f'<text x="{x:.1f}" y="{TALL - 8:g}">{escape(text)}</text>' for x, text in _named(drawn.labels, step)
    )
    told = f"Histogram of {drawn.title}; the table below has its values."
    return f'<svg class="overlay" viewBox="0 0 {WIDE:g} {TALL:g}" role="img" aria-label="{escape(told)}">{scale}{bars}{lines}{labels}</svg>'


def values(drawn: Overlay, names: Sequence[str], *, bars: bool) -> str:
    """The table: a row for each level, in order or by authentic share; with a bar where there is no histogram."""
    order = np.arange(len(drawn.labels)) if drawn.ordered else np.argsort(-drawn.authentic, kind="stable")
    left_out = ""
    if len(order) > MOST_ROWS:
        gap = np.max([np.abs(side - drawn.authentic) for side in drawn.synthetic], axis=0)
        kept = set(np.argsort(-gap, kind="stable")[:MOST_ROWS].tolist())
        left_out = f" The {MOST_ROWS} of {len(order)} levels that differ most; all are in the numbers."
        order = np.array([i for i in order if i in kept])
    end = scale_end([drawn.authentic, *drawn.synthetic])
    sides = () if drawn.public else drawn.synthetic
    heads = ["authentic, %"]
    for name in names if not drawn.public else ():
        heads += [f"{name}, %", "difference, points"]
    head = "".join(f'<th scope="col" class="n">{escape(h)}</th>' for h in heads)
    picture_head = f'<th scope="col">bars end at {100 * end:g} %</th>' if bars else ""
    rows = ""
    for i in order:
        share = float(drawn.authentic[i])
        cells = f'<td class="n">{percent(share)}</td>'
        for side in sides:
            cells += f'<td class="n">{percent(side[i])}</td><td class="n">{points(side[i] - share)}</td>'
        bar = f'<td class="bar">{_bar(share, [float(s[i]) for s in sides], end)}</td>' if bars else ""
        rows += f'<tr><th scope="row">{escape(str(drawn.labels[i]))}</th>{bar}{cells}</tr>'
    caption = f"{escape(drawn.title)}: shares of the rows.{left_out}"
    tall = " tall" if not bars else ""
    return (
        f'<div class="scroll{tall}" tabindex="0" role="group" aria-label="Values of {escape(drawn.title)}"><table class="levels">'
        f'<caption>{caption}</caption><thead><tr><th scope="col">level</th>{picture_head}{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _bar(authentic: float, synthetic: Sequence[float], end: float) -> str:
    def width(share: float) -> float:
        return 100 * min(share / end, 1.0)

    # One release is laid over the authentic bar; several stand below it, so that each is seen.
    below = len(synthetic) > 1
    tall = 6 if below else 12
    tops = [1 + 7 * (i + 1) if below else 1 for i in range(len(synthetic))]
    outlines = "".join(
        f'<rect class="{kind}" x="0" y="{top}" width="{width(s):.2f}" height="{tall}"/>'
        for i, (s, top) in enumerate(zip(synthetic, tops, strict=True))
        for kind in ("rim", f"synthetic r{i}")
    )
    size = f' m{len(synthetic)}" viewBox="0 0 101 {8 + 7 * len(synthetic)}' if below else '" viewBox="0 0 101 14'
    return f'<svg class="overlay{size}" preserveAspectRatio="none" aria-hidden="true"><rect class="authentic" x="0" y="1" width="{width(authentic):.2f}" height="{tall}"/>{outlines}</svg>'


def _named(labels: Sequence[str], step: float) -> list[tuple[float, str]]:
    """Which bars are named, from their left ends on: each label has room until the next, and none is cut at the end.

    A range is named by where it begins.

    >>> _named(["[0, 40)", "[40, 80)", "[80, 120]"], 30.0)
    [(64.0, '0'), (124.0, '80')]
    """
    texts = [_short(range_start(label)) for label in labels]
    room = LETTER * max(map(len, texts)) + 10
    every = max(1, ceil(room / step))
    places = [(LEFT + i * step, texts[i]) for i in range(0, len(texts), every)]
    return [(x, text) for x, text in places if x + LETTER * len(text) <= WIDE]


def _short(label: str, most: int = 14) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
