"""The figure of the scoreboard: error of pairs against CPU seconds, a panel for each table, at one ε."""

from __future__ import annotations

from pathlib import Path

NAMES = {
    "mst": "MST", "aim": "AIM", "privbayes": "PrivBayes", "smartnoise": "SmartNoise", "opendp": "OpenDP",
    "adult": "Adult", "acs": "ACS 2019",
    "loans": "Loans", "salary": "Salaries",
}  # fmt: skip
"""What readers call methods, packages and tables."""


def draw_scoreboard(found: dict[tuple[str, str, str, str], dict], path: Path, epsilon: str = "1") -> None:
    """One mark for each method: ours in colour, peers grey; down and to the left is better."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from dipsmith.report.canvas import COLOURS, INK, MARKS, SOFT, apply_theme

    ended = {key: line for key, line in found.items() if key[3] == epsilon and "tvd2" in line}
    tables = list(dict.fromkeys(key[0] for key in ended))
    style = {
        "svg.hashsalt": "dipsmith", "font.family": "DejaVu Serif", "font.size": 9, "axes.titlesize": 9,
        "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT, "text.color": INK,
    }  # fmt: skip
    with mpl.rc_context(style):
        figure = Figure(figsize=(2.4 + 2.2 * len(tables), 3.0), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, max(len(tables), 1), squeeze=False)[0]
        for axis, table in zip(panels, tables, strict=False):
            for (_, whose, method, _), line in ((k, v) for k, v in ended.items() if k[0] == table):
                i = ("mst", "aim", "privbayes").index(method)
                colour = COLOURS[i] if whose == "dipsmith" else SOFT
                axis.plot(line["cpu"], line["tvd2"], MARKS[i], color=colour, markerfacecolor="white", markersize=6)
                own = NAMES.get(method, method)
                name = own if whose == "dipsmith" else f"{NAMES.get(whose, whose)} {own}"
                # Ours lie close together: each has its own side.
                left = line["cpu"] >= (4 if whose == "dipsmith" and method == "privbayes" else 50)
                axis.annotate(
                    name,
                    (line["cpu"], line["tvd2"]),
                    xytext=(-6 if left else 6, -10 if whose == "dipsmith" and method == "aim" else 4),
                    ha="right" if left else "left",
                    textcoords="offset points",
                    color=colour,
                    fontsize=7.5,
                )
            axis.set_xscale("log")
            axis.set_xlim(0.1, 2000)
            axis.set_xticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
            axis.margins(y=0.2)
            axis.set_ylim(0, 1.12 * axis.get_ylim()[1])
            axis.set_title(NAMES.get(table, table))
            axis.set_xlabel("CPU seconds (logarithmic)")
        panels[0].set_ylabel(f"TVD of pairs, ε = {epsilon}")
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        Path(path).write_text(apply_theme(Path(path).read_text("utf-8")), "utf-8")
