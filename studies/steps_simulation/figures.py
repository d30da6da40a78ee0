"""Figures 2 and 3 of the paper: bias, RMSE and coverage of every coefficient, and the prediction error, against ε."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from studies.steps_simulation.findings import by_scenario
from studies.steps_simulation.scenarios import DRAWN, EPSILONS, SIZES, Line

from dipsmith.examples import regression
from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, PAPER, RULE, SOFT, standalone, surface

Pick = Callable[[Line], float]
Each = Callable[[Line], tuple[float, ...]]

MEANS: tuple[tuple[str, Pick], ...] = (
    ("mean |bias|", lambda line: line.bias),
    ("RMSE", lambda line: line.rmse),
    ("coverage (95 %)", lambda line: line.coverage),
    ("prediction MSE", lambda line: line.prediction),
)
EACH: tuple[tuple[str, Each, float | None], ...] = (
    ("bias", lambda line: line.biases, 0.0),
    ("RMSE", lambda line: line.errors, None),
    ("coverage", lambda line: line.coverages, 0.95),
)
TITLES = {
    1: "Model 1: the flat table, which the paper leaves out, has the smallest error from ε = 2 on",
    2: "Model 2: a network of degree 2 cannot hold 120 cell means at any ε",
}
EACH_TITLES = {
    1: "Model 1, n = {n:,}: one line per coefficient (11); the grey line is the coefficient that is named",
    2: "Model 2, n = {n:,}: the middle half and 95 % of 120 coefficients",
}


def draw(lines: Sequence[Line], folder: Path) -> None:
    """Write one figure of means for each model, and one of its coefficients for each n."""
    tables = {noise: by_scenario(lines, noise) for noise in ("continuous", "discrete")}
    drawn = {name: {k: tables[law][(*k[:2], method, k[2])] for k in _PLACES} for (method, law), name in DRAWN.items()}
    exact = {(m, n): tables["continuous"][m, n, "no privacy", 0.0] for m, n, _ in _PLACES}
    for model, title in TITLES.items():
        (folder / f"steps-simulation-{model}.svg").write_text(_means(model, title, drawn, exact), "utf-8")
        for n in SIZES:
            made = _coefficients(model, n, drawn)
            (folder / f"steps-simulation-{model}-{n}.svg").write_text(made, "utf-8")


_PLACES = list(product((1, 2), SIZES, EPSILONS))
Drawn = Mapping[str, Mapping[tuple[int, int, float], Line]]


def _means(model: int, title: str, drawn: Drawn, exact: Mapping[tuple[int, int], Line]) -> str:
    """Means over the coefficients: a row of panels for each n."""
    with surface(9.0, 4.9) as (figure, done):
        figure.suptitle(f"{title} (m = 4 sets at ε/4)", fontsize=9.5, x=0.01, ha="left")
        grid = figure.subplots(len(SIZES), len(MEANS), sharex=True, sharey="col")
        for n, row in zip(SIZES, grid, strict=True):
            for (name, pick), axis in zip(MEANS, row, strict=True):
                axis.axhline(pick(exact[model, n]), color=INK, linewidth=0.9)
                for i, (shown, found) in enumerate(drawn.items()):
                    values = [pick(found[model, n, e]) for e in EPSILONS]
                    axis.plot(EPSILONS, values, MARKS[i], label=shown, **_look(i))
                _logarithmic(axis)
                axis.set_title(name if n == SIZES[0] else "")
            row[0].set_ylabel(f"n = {n:,}")
        for axis in grid[-1]:
            axis.set_xlabel("ε (logarithmic)")
        floor = (EPSILONS[0], exact[model, SIZES[0]].coverage)
        grid[0, 2].annotate("no privacy", floor, xytext=(0, 3), textcoords="offset points", fontsize=7)
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
        return standalone(done(), f"{title}. Bias, error, coverage and prediction error against ε by method.")


def _coefficients(model: int, n: int, drawn: Drawn) -> str:
    """A column of panels for each method: bias, error and coverage of every coefficient."""
    title = EACH_TITLES[model].format(n=n)
    with surface(9.0, 6.2) as (figure, done):
        figure.suptitle(title, fontsize=9.5, x=0.01, ha="left")
        grid = figure.subplots(len(EACH), len(drawn), sharex=True, sharey="row")
        for j, (shown, found) in enumerate(drawn.items()):
            for (name, pick, reference), axis in zip(EACH, grid[:, j], strict=True):
                values = np.array([pick(found[model, n, e]) for e in EPSILONS])
                if reference is not None:
                    axis.axhline(reference, color=SOFT, linewidth=0.7)
                _curves(axis, values, j) if model == 1 else _boxes(axis, values, j)
                _logarithmic(axis)
                if j == 0:
                    axis.set_ylabel(name)
            grid[0, j].set_title(shown)
            grid[-1, j].set_xlabel("ε (logarithmic)")
        return standalone(done(), f"{title}: bias, root mean squared error and coverage against ε by method.")


def _curves(axis: Any, values: Any, j: int) -> None:
    """A line for each coefficient; the one that is farthest from the median at the smallest ε has its name."""
    names = regression.truth(1).names
    far = int(np.abs(values[0] - np.median(values[0])).argmax())
    for k, curve in enumerate(values.T):
        axis.plot(EPSILONS, curve, linestyle=DASH, linewidth=0.9, color=SOFT if k == far else COLOURS[j])
    beside = {"xytext": (7, 1), "textcoords": "offset points", "va": "center"}
    axis.annotate(names[far], (EPSILONS[0], values[0, far]), **beside, fontsize=7, color=SOFT)


def _boxes(axis: Any, values: Any, j: int) -> None:
    """The middle half as a box, 95 % as a whisker, the median as a mark; at even distances on the logarithmic scale."""
    at = np.array(EPSILONS)
    low, first, median, third, high = values.T
    axis.vlines(at, low, high, color=COLOURS[j], linewidth=0.9)
    axis.vlines(at, first, third, color=COLOURS[j], linewidth=5.0, alpha=0.45)
    axis.plot(at, median, MARKS[j], **_look(j) | {"linestyle": "none"})


def _look(i: int) -> dict[str, Any]:
    return {
        "linestyle": DASH,
        "color": COLOURS[i],
        "markerfacecolor": PAPER,
        "markersize": 4.5,
        "linewidth": 1.1,
    }


def _logarithmic(axis: Any) -> None:
    axis.set_xscale("log")
    axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    axis.minorticks_off()
    axis.grid(axis="y", color=RULE, linewidth=0.4)
