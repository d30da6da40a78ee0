"""Figures of leaf intervals: how they narrow with records and ε, and that simulation agrees.

After figures 1 and 2 of the first report of the synthetic data project of Duke University (2018). Each
figure comes with its numbers as rows for a CSV and with a text alternative. Drawing needs matplotlib
(the `analysis` extra).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from dipsmith.errors import MissingExtraError, OutputError, UsageError
from dipsmith.planning.law import NoiseLaw
from dipsmith.planning.leaf_interval import Kind, interval, intervals
from dipsmith.planning.leaf_simulation import simulate_label
from dipsmith.report.canvas import write_figure
from dipsmith.report.content import Table
from dipsmith.report.leaves import Simulated, draw_intervals, draw_simulations

SHARES: Final = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5)
LAMS: Final = tuple(i / 10 for i in range(1, 11))
SIZES: Final = (25, 50, 100, 250, 500, 1000, 2000, 5000)

NAMES: Final = {"continuous": "Laplace", "discrete": "discrete Laplace", "gaussian": "discrete Gaussian"}


@dataclass(frozen=True, eq=False)
class LeafFigure:
    """A figure that can be drawn, read aloud, and recomputed from its numbers: the finding, and what was computed."""

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
        numbers = path.with_suffix(".csv")
        for taken in (path, numbers):
            if taken.exists():
                raise OutputError(f"'{taken}' exists already and is not overwritten; choose another name")
        try:
            write_figure(path, self.title, self.caption, self._draw)
            numbers.write_text(Table.of(self.title, self.columns, self.rows).to_csv(), "utf-8")
        except ImportError:
            raise MissingExtraError.of("Drawing figures", "analysis") from None
        except OSError as error:
            raise OutputError(f"cannot write '{path}': {error.strerror}; choose another place") from None
        return numbers


def interval_figure(
    kind: Kind, noise: NoiseLaw, level: float, shares: Sequence[float], lams: Sequence[float], sizes: Sequence[int]
) -> LeafFigure:
    """Intervals against the size of the leaf, one panel per authentic share, one bar per λ."""
    ends = {p: np.array([intervals(p, lams, n, kind=kind, noise=noise, level=level) for n in sizes]) for p in shares}
    rows = tuple(
        (p, n, lam, float(lo), float(hi))
        for p in shares
        for n, bars in zip(sizes, ends[p], strict=True)
        for lam, (lo, hi) in zip(lams, bars, strict=True)
    )
    differences = {p: 100 * (ends[p] - p) for p in shares}
    whole = "Rare labels need large leaves or more ε: noise still matters at 1,000 records when a share is small"
    return LeafFigure(
        whole if tuple(shares) == SHARES else "How intervals narrow with the records of a leaf and with ε",
        f"{level:.0%} intervals ({kind}) of a label's synthetic share; {NAMES[noise]} noise on its count; in each group λ = ε/Δ from "
        f"{lams[0]:g} (pale) to {lams[-1]:g} (dark).",
        ("p0", "n", "lam", "lo", "hi"),
        rows,
        lambda figure: draw_intervals(figure, differences, lams, sizes),
    )


def simulation_figure(
    draws: int, lam: float, n: int, m: int | None, noise: NoiseLaw, level: float, shares: Sequence[float], seed: int
) -> LeafFigure:
    """Histograms of simulated shares with their empirical intervals, the exact ones beside."""
    rows, found = [], []
    for p in shares:
        made = simulate_label(p, lam, n, m=m, noise=noise, draws=draws, seed=seed)
        exact = interval(p, lam, n, m=m, kind="equal", noise=noise, level=level)
        lo, hi = made.interval(level=level)
        rows.append((p, lo, hi, exact.lo, exact.hi, float(made.mean[0]), float(made.sd[0])))
        found.append(Simulated(p, made.shares[:, 0], exact.m, (lo, hi), (exact.lo, exact.hi)))
    apart = max(max(abs(r[1] - r[3]), abs(r[2] - r[4])) for r in rows)
    return LeafFigure(
        f"Simulated intervals agree with the exact ones to within {max(apart, 0.0005):.3f}",
        f"{draws:,} simulated leaves of {n:,} records, λ = ε/Δ = {lam:g}, {NAMES[noise]} noise; {level:.0%} equal-tailed intervals: exact (solid) "
        "and simulated (dashed).",
        ("p0", "simulated_lo", "simulated_hi", "exact_lo", "exact_hi", "mean", "sd"),
        tuple(rows),
        lambda figure: draw_simulations(figure, found),
    )
