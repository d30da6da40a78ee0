"""Figures 5 to 7 of the paper: one small panel per method, shared scales, the repetitions' spread as whiskers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from studies.youth_voters.findings import PAPER, TABLE, Summary, Survey, constant_answers
from studies.youth_voters.runs import AS_IN_THE_PAPER, LOG_EPSILONS, Run

from dipsmith.examples import voters
from dipsmith.report.canvas import COLOURS, DASH, MARKS, SOFT, standalone, surface
from dipsmith.report.canvas import PAPER as GROUND

WHISKER = 2.0
"""Standard deviations."""

Pick = Callable[[Run], float]


def draw(runs: Sequence[Run], folder: Path, survey: Survey | None = None) -> None:
    """Write the three figures."""
    found = Summary(runs)
    people = voters.PEOPLE if survey is None else survey.people
    n, times = f"n = {people:,}, five sets at ε/5 each", found.repetitions("STEPS-2")
    _panels(
        found,
        folder / "youth-voters-specks.svg",
        f"Only the network comes near the people ({n}, {times} repetitions)",
        "SPECKS distance (0: cannot be told apart)",
        [("this study", TABLE[0][1])],
        _paper,
    )
    nothing, everything = constant_answers(runs)
    _panels(
        found,
        folder / "youth-voters-tests.svg",
        f"Chi-squared conclusions stay below the constant answer 'everything is significant' ({n})",
        "tests with the authentic conclusion",
        [(name.removeprefix("χ² "), pick) for name, pick, _ in TABLE[1:4]],
        lambda axis, first, _: _constants(axis, first, nothing, everything),
    )
    _panels(
        found,
        folder / "youth-voters-overlap.svg",
        f"Intervals without a finite estimate overlap whatever the data say ({n})",
        "overlap of 95 % intervals",
        [(name.removeprefix("overlap, "), pick) for name, pick, _ in TABLE[4:]],
        lambda axis, first, method: None,
    )


def _panels(
    found: Summary,
    path: Path,
    title: str,
    y: str,
    lines: Sequence[tuple[str, Pick]],
    beside: Callable[[Any, bool, str], None],
) -> None:
    with surface(8.0, 4.9) as (figure, done):
        figure.suptitle(title, fontsize=9.5, x=0.01, ha="left")
        grid = figure.subplots(2, 3, sharex=True, sharey=True)
        at = np.array(LOG_EPSILONS, dtype=float)
        for k, (method, axis) in enumerate(zip(AS_IN_THE_PAPER, grid.ravel(), strict=True)):
            beside(axis, k == 0, method)
            for i, (name, pick) in enumerate(lines):
                axis.errorbar(
                    at + 0.06 * (i - (len(lines) - 1) / 2),
                    [found.mean(method, e, pick) for e in LOG_EPSILONS],
                    yerr=[WHISKER * found.sd(method, e, pick) for e in LOG_EPSILONS],
                    fmt=MARKS[i],
                    linestyle=DASH,
                    color=COLOURS[i],
                    markerfacecolor=GROUND,
                    markersize=4.5,
                    linewidth=1.2,
                    elinewidth=0.7,
                    label=name,
                )
            axis.set_title(method)
            axis.set_ylim(-0.02, 1.02)
            axis.set_xticks(LOG_EPSILONS)
        for axis in grid[1]:
            axis.set_xlabel("log ε")
        figure.supylabel(y, fontsize=8.5)
        if len(lines) > 1:
            grid[0, 0].legend(frameon=False, fontsize=7.5, loc="center left")
        path.write_text(standalone(done(), title), "utf-8")


def _paper(axis: Any, first: bool, method: str) -> None:
    axis.plot(LOG_EPSILONS, PAPER[method], color=SOFT, linewidth=0.9)
    if first:
        axis.annotate("the paper", (-2, 0.981), xytext=(2, -24), textcoords="offset points", color=SOFT, fontsize=7.5)
        axis.annotate(
            "this study",
            (-2, 0.8),
            xytext=(2, -10),
            textcoords="offset points",
            color=COLOURS[0],
            fontsize=7.5,
        )


def _constants(axis: Any, first: bool, nothing: float, everything: float) -> None:
    for value, name, above in ((nothing, "nothing", 12), (everything, "everything", 3)):
        axis.axhline(value, color=SOFT, linewidth=0.8)
        if first:
            axis.annotate(
                f"'{name} is significant'",
                (-2, value),
                xytext=(0, above),
                textcoords="offset points",
                color=SOFT,
                fontsize=7,
            )
