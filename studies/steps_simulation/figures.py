"""Figures 2 and 3 of the paper: bias, RMSE, coverage and prediction error against ε, one figure per model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from studies.steps_simulation.findings import by_scenario
from studies.steps_simulation.scenarios import EPSILONS, SIZES, Line

from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, SOFT

DRAWN = (
    ("STEPS-2 eq3 printed", "STEPS as printed", "continuous"),
    ("UH-4 random GLS clip", "universal histogram", "continuous"),
    ("star network", "network of degree 1", "continuous"),
    ("dipsmith Steps, auto", "Steps(), this package", "discrete"),
)
MEASURES: tuple[tuple[str, Callable[[Line], float]], ...] = (
    ("mean |bias|", lambda line: line.bias),
    ("RMSE", lambda line: line.rmse),
    ("coverage (95 %)", lambda line: line.coverage),
    ("prediction MSE", lambda line: line.prediction),
)
TITLES = {
    1: "Model 1, 11 coefficients: Steps() is better than STEPS as printed at every ε",
    2: "Model 2, 120 cell means: the same with ten times as many coefficients",
}
_STYLE = {
    "svg.hashsalt": "dipsmith",
    "svg.fonttype": "none",
    "font.family": "DejaVu Serif",
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
}


def draw(lines: Sequence[Line], folder: Path) -> None:
    """Write one figure for each model."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tables = {noise: by_scenario(lines, noise) for noise in ("continuous", "discrete")}
    for model, title in TITLES.items():
        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(9.0, 4.8), layout="constrained")
            FigureCanvasAgg(figure)
            figure.suptitle(f"{title} (200 repeats, m = 4 sets at ε/4)", fontsize=9.5, x=0.01, ha="left")
            grid = figure.subplots(len(SIZES), len(MEASURES), sharex=True, sharey="col")
            for n, row in zip(SIZES, grid, strict=True):
                for (name, pick), axis in zip(MEASURES, row, strict=True):
                    floor = pick(tables["continuous"][model, n, "no privacy", 0.0])
                    axis.axhline(floor, color=INK, linewidth=0.9)
                    for i, (method, shown, noise) in enumerate(DRAWN):
                        axis.plot(
                            EPSILONS,
                            [pick(tables[noise][model, n, method, e]) for e in EPSILONS],
                            MARKS[i],
                            linestyle=DASH,
                            color=COLOURS[(i + 1) % 4],
                            markerfacecolor="white",
                            markersize=4.5,
                            linewidth=1.1,
                            label=shown,
                        )
                    axis.set_xscale("log")
                    axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
                    axis.minorticks_off()
                    axis.set_title(name if n == SIZES[0] else "")
                row[0].set_ylabel(f"n = {n:,}")
            for axis in grid[-1]:
                axis.set_xlabel("ε (logarithmic)")
            grid[0, 2].annotate("no privacy", (0.5, 0.95), xytext=(0, 3), textcoords="offset points", fontsize=7)
            handles, names = grid[0, 0].get_legend_handles_labels()
            figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
            figure.savefig(
                folder / f"steps-simulation-{model}.svg",
                format="svg",
                metadata={"Date": None, "Creator": None},
            )
