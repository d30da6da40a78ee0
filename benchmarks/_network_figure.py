"""The figure of `networks.py --draw`: error against ε, our methods in colour, peers grey."""

from __future__ import annotations

import json
from pathlib import Path

from _scoreboard_figure import NAMES


def draw(results: str, path: str, methods: tuple[str, ...]) -> None:
    """Two- and three-way error against ε: our methods in colour, peers open and grey, two real halves as the floor."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from dipsmith.report.canvas import COLOURS, DASH, INK, MARKS, SOFT, apply_theme

    lines = [json.loads(text) for text in Path(results).read_text("utf-8").splitlines()]
    lines = [line for line in lines if line.get("tvd")]
    floor = next(line for line in lines if line["what"].startswith("one real half"))
    style = {
        "svg.hashsalt": "dipsmith", "font.family": "DejaVu Serif", "font.size": 9, "axes.titlesize": 9,
        "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "text.color": INK,
    }  # fmt: skip
    with mpl.rc_context(style):
        figure = Figure(figsize=(8.0, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(
            "At ε = 1 AIM misses about as much as two real halves differ by (Adult, n = 48,842, δ = 1e-9)",
            fontsize=9.5, x=0.01, ha="left",
        )  # fmt: skip
        for k, axis in enumerate(figure.subplots(1, 2), start=1):
            axis.axhline(floor["tvd"][k], color=SOFT, linewidth=0.8)
            axis.annotate("two real halves", (0.1, floor["tvd"][k]), xytext=(0, 3), textcoords="offset points",
                          color=SOFT, fontsize=7.5)  # fmt: skip
            for i, method in enumerate(methods):
                found = [(e, line) for e in (0.1, 1, 10) for line in lines if line["what"] == f"{method} ε = {e:g}"]
                if not found:
                    continue
                axis.errorbar(
                    [e for e, _ in found], [line["tvd"][k] for _, line in found],
                    yerr=[2 * line["sd"][k] for _, line in found], fmt=MARKS[i], linestyle=DASH,
                    color=COLOURS[i], markerfacecolor="white", markersize=5, linewidth=1.2,
                )  # fmt: skip
                axis.annotate(NAMES.get(method, method), (found[-1][0], found[-1][1]["tvd"][k]), xytext=(7, 0), textcoords="offset points",
                              va="center", color=COLOURS[i], fontsize=8)  # fmt: skip
            for line in lines:
                if line["what"].startswith(("mbi", "dpmm", "smartnoise")):
                    epsilon = float(line["what"].rsplit("= ", 1)[1])
                    axis.plot(epsilon * 1.12, line["tvd"][k], "x", color=SOFT, markersize=5)
            axis.set_xscale("log")
            axis.set_xlim(0.07, 40)
            axis.set_ylim(bottom=0)
            axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
            axis.set_xlabel("ε (logarithmic); × mbi, dpmm or SmartNoise")
            axis.set_title(f"{'two' if k == 1 else 'three'}-way tables")
            axis.set_ylabel("mean total-variation distance")
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        Path(path).write_text(apply_theme(Path(path).read_text("utf-8")), "utf-8")
