"""Figures of leaf intervals: how they narrow with records and ε, and that simulation agrees.

After figures 1 and 2 of the first report of the synthetic data project of Duke University (2018). Each
figure comes with its numbers as rows for a CSV and with a text alternative. Drawing needs matplotlib
(the `analysis` extra).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dipsmith.errors import MissingExtraError, OutputError, UsageError
from dipsmith.planning.law import NoiseLaw
from dipsmith.planning.leaf_interval import Kind, interval, intervals
from dipsmith.planning.leaf_simulation import simulate_label

SHARES: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5)
LAMS: Final = tuple(i / 10 for i in range(1, 11))
SIZES: Final = (25, 50, 100, 250, 500, 1000, 2000, 5000)

INK, GREY, BLUE = "#1a1a1a", "#8a8a8a", "#0072B2"
PALEST: Final = 0.68
"""How pale the bars of the smallest λ are: 0 is the accent itself, 1 white."""

NAMES: Final = {"continuous": "Laplace", "discrete": "discrete Laplace", "gaussian": "discrete Gaussian"}


@dataclass(frozen=True, eq=False)
class LeafFigure:
    """A figure that can be drawn, read aloud, and recomputed from its numbers.

    Attributes
    ----------
    title, caption
        The finding, and what was computed.
    columns, rows
        The numbers.
    """

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[float | int, ...], ...]
    _draw: Callable[[Any], None]

    @property
    def alternative(self) -> str:
        """The figure in words."""
        return f"{self.title}. {self.caption}"

    def save(self, path: Path) -> Path:
        """Write PATH (.svg or .png) and, beside it, its numbers as CSV; returns the CSV's path."""
        if path.suffix.lower() not in (".svg", ".png"):
            raise UsageError(f"figures are written as .svg or .png, got '{path.name}'")
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError.of("Drawing figures", "analysis") from None
        style = {
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.edgecolor": GREY,
            "axes.linewidth": 0.6,
            "xtick.color": INK,
            "ytick.color": INK,
            "svg.fonttype": "none",
            "svg.hashsalt": "dipsmith",
        }
        numbers = path.with_suffix(".csv")
        for taken in (path, numbers):
            if taken.exists():
                raise OutputError(f"'{taken}' exists already and is not overwritten; choose another name")
        with mpl.rc_context(style):
            figure = Figure(figsize=(11.0, 7.4))
            room = {"rect": (0.025, 0.075, 0.97, 0.865), "w_pad": 0.08, "h_pad": 0.06}
            figure.set_layout_engine("constrained", **room)
            figure.text(0.012, 0.985, self.title, ha="left", va="top", fontsize=13, color=INK)
            figure.text(0.012, 0.012, self.caption, ha="left", va="bottom", fontsize=8.5, color="#4d4d4d")
            self._draw(figure)
            about = {"Title": self.title, "Description": self.alternative, "Date": None}
            try:
                kept = about if path.suffix.lower() == ".svg" else {"Title": self.title, "Software": None}
                figure.savefig(path, dpi=150, metadata=kept)
                with numbers.open("w", encoding="utf-8", newline="") as file:
                    writer = csv.writer(file)
                    writer.writerow(self.columns)
                    writer.writerows(self.rows)
            except OSError as error:
                raise OutputError(f"cannot write '{path}': {error.strerror}; choose another place") from None
        return numbers


def interval_figure(
    *,
    kind: Kind = "sym",
    noise: NoiseLaw = "continuous",
    level: float = 0.9,
    shares: Sequence[float] = SHARES,
    lams: Sequence[float] = LAMS,
    sizes: Sequence[int] = SIZES,
) -> LeafFigure:
    """Intervals against the size of the leaf, one panel per authentic share, one bar per λ."""
    ends = {(p, n): intervals(p, lams, n, kind=kind, noise=noise, level=level) for p in shares for n in sizes}
    rows = tuple(
        (p, n, lam, float(lo), float(hi))
        for p in shares
        for n in sizes
        for lam, (lo, hi) in zip(lams, ends[p, n], strict=True)
    )

    def draw(figure: Any) -> None:
        panels = figure.subplots(*_grid(len(shares)), sharex=True, sharey=True, squeeze=False)
        for panel, p in zip(panels.flat, shares, strict=False):
            panel.axhline(0, color=GREY, linewidth=0.6, zorder=1)
            for at, n in enumerate(sizes):
                x = at + np.linspace(-0.36, 0.36, len(lams))
                below, above = (100 * (ends[p, n] - p)).T
                panel.vlines(x, below, above, colors=_shades(len(lams)), linewidth=1.7, zorder=2)
            panel.set_title(f"authentic share {p:g}", loc="left", fontsize=10, color=INK)
            panel.set_yscale("symlog", linthresh=1, linscale=0.6)
            panel.set_ylim(-100, 100)
            panel.set_yticks([-100, -10, -1, 0, 1, 10, 100], ["−100", "−10", "−1", "0", "+1", "+10", "+100"])
            panel.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes], fontsize=8)
            panel.tick_params(length=2)
            _bare(panel)
        told = f"in each group, from left to right:\nλ = {lams[0]:g} … {lams[-1]:g}\ngrey line: no difference"
        corner = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        panels.flat[0].annotate(told, (0.99, 0.98), fontsize=8.5, color=INK, **corner)
        _axis_titles(
            figure,
            "records in the leaf, authentic and synthetic",
            "synthetic minus authentic share, percentage points (logarithmic beyond ±1)",
        )

    whole = (
        "Rare labels need large leaves or more ε: noise still matters at 1,000 records when a share is small"
    )
    return LeafFigure(
        whole if tuple(shares) == SHARES else "How intervals narrow with the records of a leaf and with ε",
        f"{level:.0%} intervals ({kind}) of a label's synthetic share; {NAMES[noise]} noise on its count; in each group λ = ε/Δ from "
        f"{lams[0]:g} (pale) to {lams[-1]:g} (dark).",
        ("p0", "n", "lam", "lo", "hi"),
        rows,
        draw,
    )


def simulation_figure(
    *,
    draws: int = 10_000,
    lam: float = 0.3,
    n: int = 1000,
    m: int | None = None,
    noise: NoiseLaw = "continuous",
    level: float = 0.9,
    shares: Sequence[float] = SHARES,
    seed: int = 2018,
) -> LeafFigure:
    """Histograms of simulated shares with their empirical intervals, the exact ones beside."""
    made = {p: simulate_label(p, lam, n, m=m, noise=noise, draws=draws, seed=seed) for p in shares}
    exact = {p: interval(p, lam, n, m=m, kind="equal", noise=noise, level=level) for p in shares}
    rows = tuple(
        (
            p,
            *made[p].interval(level=level),
            exact[p].lo,
            exact[p].hi,
            float(made[p].mean[0]),
            float(made[p].sd[0]),
        )
        for p in shares
    )
    apart = max(max(abs(r[1] - r[3]), abs(r[2] - r[4])) for r in rows)

    def draw(figure: Any) -> None:
        panels = figure.subplots(*_grid(len(shares)), squeeze=False)
        for panel, p in zip(panels.flat, shares, strict=False):
            found = made[p].shares[:, 0]
            # Bins of whole records whose edges lie between records, so that no share falls on an edge.
            step = max(1, round((found.max() - found.min()) * exact[p].m / 40)) / exact[p].m
            edges = np.arange(found.min() - 0.5 / exact[p].m, found.max() + step, step)
            panel.hist(found, edges, color=BLUE, alpha=0.35, linewidth=0)
            top = panel.get_ylim()[1]
            lo, hi = made[p].interval(level=level)
            panel.hlines(1.06 * top, lo, hi, color=BLUE, linewidth=1.6, linestyles=(0, (4, 2)))
            panel.hlines(1.14 * top, exact[p].lo, exact[p].hi, color=INK, linewidth=1.6)
            for end in (lo, hi):
                panel.axvline(end, ymax=0.83, color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)))
            panel.axvline(p, ymax=0.83, color=GREY, linewidth=0.6)
            panel.set_ylim(0, 1.28 * top)
            panel.set_title(f"authentic share {p:g}", loc="left", fontsize=10, color=INK)
            panel.set_title(
                f"exact {exact[p].lo:.3f} to {exact[p].hi:.3f}", loc="right", fontsize=8.5, color=INK
            )
            told = f"simulated {lo:.3f} to {hi:.3f}"
            panel.annotate(told, (1, 0.95), xycoords="axes fraction", ha="right", fontsize=8.5, color=BLUE)
            panel.tick_params(length=2, labelsize=8)
            panel.set_yticks([])
            _bare(panel, left=False)
        _axis_titles(figure, "synthetic share", "simulated leaves")

    return LeafFigure(
        f"Simulated intervals agree with the exact ones to within {max(apart, 0.0005):.3f}",
        f"{draws:,} simulated leaves of {n:,} records, λ = ε/Δ = {lam:g}, {NAMES[noise]} noise; {level:.0%} equal-tailed intervals: exact (solid) "
        "and simulated (dashed).",
        ("p0", "simulated_lo", "simulated_hi", "exact_lo", "exact_hi", "mean", "sd"),
        rows,
        draw,
    )


def _axis_titles(figure: Any, across: str, up: str) -> None:
    figure.supxlabel(across, y=0.045, fontsize=9.5, color=INK)
    figure.supylabel(up, x=0.012, fontsize=9.5, color=INK)


def _grid(panels: int) -> tuple[int, int]:
    across = min(3, panels)
    return -(-panels // across), across


def _shades(count: int) -> list[tuple[float, float, float]]:
    """From pale to the accent itself: an order that survives printing in grey."""
    accent = np.array([int(BLUE[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    mixed = [accent + (1 - accent) * pale for pale in np.linspace(PALEST, 0.0, count)]
    return [(float(r), float(g), float(b)) for r, g, b in mixed]


def _bare(panel: Any, *, left: bool = True) -> None:
    for side in ("top", "right", *(() if left else ("left",))):
        panel.spines[side].set_visible(False)
