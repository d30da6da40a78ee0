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
        labels = []
        for axis, table in zip(panels, tables, strict=False):
            for (_, whose, method, _), line in ((k, v) for k, v in ended.items() if k[0] == table):
                i = ("mst", "aim", "privbayes").index(method)
                colour = COLOURS[i] if whose == "dipsmith" else SOFT
                axis.plot(line["cpu"], line["tvd2"], MARKS[i], color=colour, markerfacecolor="white", markersize=6)
                own = NAMES.get(method, method)
                name = own if whose == "dipsmith" else f"{NAMES.get(whose, whose)} {own}"
                labels.append((axis, name, (line["cpu"], line["tvd2"]), colour))
            axis.set_xscale("log")
            axis.set_xlim(0.1, 2000)
            axis.set_xticks([0.1, 1, 10, 100, 1000], ["0.1", "1", "10", "100", "1,000"])
            axis.margins(y=0.2)
            axis.set_ylim(0, 1.12 * axis.get_ylim()[1])
            axis.set_title(NAMES.get(table, table))
            axis.set_xlabel("CPU seconds (logarithmic)")
        panels[0].set_ylabel(f"TVD of pairs, ε = {epsilon}")
        _place(figure, labels)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        Path(path).write_text(apply_theme(Path(path).read_text("utf-8")), "utf-8")


SIDES = [(6, 4, "left"), (6, -11, "left"), (-6, 4, "right"), (-6, -11, "right"), (0, 10, "center"), (0, -17, "center")]
"""Where a label may stand beside its mark: points to the right and up, and what of it stands there."""


def _place(figure, labels: list) -> None:
    """Write every label on the first side of its mark where it lies on no other label, no mark and within its panel."""
    figure.canvas.draw()
    taken = [_mark_box(axis, point) for axis, _, point, _ in labels]
    for axis, name, point, colour in labels:
        for right, up, side in SIDES:
            text = axis.annotate(
                name, point, xytext=(right, up), ha=side, textcoords="offset points", color=colour, fontsize=7.5
            )
            box = text.get_window_extent()
            inside = axis.bbox.x0 <= box.x0 and box.x1 <= axis.bbox.x1
            if (inside and not any(box.overlaps(other) for other in taken)) or (right, up, side) == SIDES[-1]:
                taken.append(box)
                break
            text.remove()


def _mark_box(axis, point: tuple[float, float]):
    """The square that a mark fills."""
    from matplotlib.transforms import Bbox

    x, y = axis.transData.transform(point)
    return Bbox.from_extents(x - 4, y - 4, x + 4, y + 4)
