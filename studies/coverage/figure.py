"""Figure of the page: every cell's share with its Monte-Carlo interval, a panel for each question, lowest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from studies.coverage.cell import Cell
from studies.coverage.methods import LEAST, NOMINAL

from dipsmith.report.canvas import COLOURS, INK, RULE, SOFT, standalone, surface

LOW, HIGH = 0.64, 1.0
"""The scale of shares; whiskers of cells with few answers go on below."""
FEW = 50
"""Cells with fewer answers are drawn lightly: their whiskers say nearly nothing."""


ALTERNATIVE = (
    "Five panels, one for each question: the share of 95 % intervals that hold the truth in every cell, lowest first, with "
    "Monte-Carlo intervals, beside .95 and the band from .93 to .97."
)


def draw(questions: Sequence[tuple[str, Sequence[Cell]]]) -> str:
    """The figure, as a drawing that stands alone."""
    named = min((c for _, cells in questions for c in cells if c.answered >= FEW), key=lambda c: c.held, default=None)
    with surface(9.0, 3.9) as (figure, done):
        panels = figure.subplots(1, len(questions), sharey=True)
        for axis, (name, cells) in zip(panels, questions, strict=True):
            told = sorted((c for c in cells if c.answered), key=lambda c: c.held)
            axis.axhspan(2 * NOMINAL - 0.97, 0.97, color=RULE, alpha=0.35, linewidth=0)
            axis.axhline(NOMINAL, color=SOFT, linewidth=0.7)
            for few, colour in ((True, SOFT), (False, COLOURS[0])):
                at = [i for i, c in enumerate(told) if (c.answered < FEW) == few]
                held = np.array([told[i].held for i in at])
                ends = np.array([told[i].interval for i in at]).reshape(-1, 2)
                whiskers = np.clip(np.abs(ends.T - held), 0.0, None)
                axis.errorbar(
                    at, held, whiskers, fmt="o", markersize=2.6, markerfacecolor="none", linewidth=0.6, color=colour
                )
            if named in told:
                axis.annotate(
                    named.name.rsplit(", ", 1)[0],
                    (told.index(named), named.held),
                    (2, LOW + 0.02),
                    fontsize=7.5,
                    color=INK,
                    arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.6},
                )
            axis.set_title(f"{name}\n{len(told)} answered, {len(cells) - len(told)} refused")
            axis.set_xticks([])
            axis.set_ylim(LOW, HIGH + 0.005)
        panels[0].set_yticks([0.7, 0.8, LEAST, NOMINAL, 1.0])
        panels[0].set_ylabel("share of 95 % intervals that hold the truth")
        return standalone(done(), ALTERNATIVE)
