"""How precise synthetic labels will be where they are made: in the leaves of trees, in the cells of effects.

For each ensemble of trees and each effect: how many rows a typical leaf or cell has
(public under `label`), and the width of the interval in which the synthetic share of a label will lie
(`leaf_interval`, discrete law). With more than two labels the counts are projected on the public size, which
leaves 1 − 1/K of the noise's variance; that is taken into λ.

The law is that of a leaf on its own. Methods that estimate leaves and cells together make small ones narrower than this (and draw them towards the others): the width is what is known for certain.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import acosh, sqrt
from typing import Any, Final

from dipsmith.methods.outlook import QUANTILES, LabelCells, Outlook
from dipsmith.planning.law import LARGEST, NoiseLaw
from dipsmith.planning.leaf_interval import interval

SHARE: Final = 0.5
"""The authentic share for which widths are given unless another is: the widest."""


@dataclass(frozen=True)
class LabelWidths:
    """Sizes of the leaves or cells in which labels are made, and the interval widths that follow.

    `rows` are sizes at the `QUANTILES`, counted over rows: half of all rows are labelled from leaves of at least the
    middle one; empty when sizes are unknown. `shrunk` is known where leaves are estimated together: the width in the
    leaf of the median row by simulation, if leaves differ by about half a log-odds.
    """

    what: str  # the ensemble or effect
    labels: int  # joint ones
    lam: float  # ε/Δ of the noise on a count as it is left after projection
    law: NoiseLaw
    leaves: int  # or cells, those that have rows
    rows: tuple[int, ...]
    widths: tuple[float, ...]  # one for each of `rows`
    of_trees: bool = False
    shrunk: float | None = None

    @property
    def typical(self) -> tuple[int, float] | None:
        """Size and width of the leaf or cell of the median row."""
        middle = QUANTILES.index(0.5)
        return (self.rows[middle], self.widths[middle]) if self.rows else None

    def to_dict(self) -> dict[str, Any]:
        """The widths as JSON-able values."""
        facts = {name: value for name, value in asdict(self).items() if name not in ("of_trees", "shrunk")}
        return {**facts, "quantiles": list(QUANTILES), "shrunk_width": self.shrunk}


def label_widths(
    outlook: Outlook, law: NoiseLaw, *, p0: float = SHARE, level: float = 0.9, pooled: bool = False
) -> tuple[LabelWidths, ...]:
    """The widths of a labeller, one line per ensemble or effect; `pooled`: with what pooling leaves makes of them."""
    return tuple(_widths(cells, law, p0, level, pooled) for cells in outlook.label_cells)


def _widths(cells: LabelCells, law: NoiseLaw, p0: float, level: float, pooled: bool) -> LabelWidths:
    lam = rate(cells.sd * (sqrt(1 - 1 / cells.labels) if cells.labels > 2 else 1.0), law)
    known = {}
    for n in set(cells.sizes):
        # Beyond a million records the width only halves with every fourfold size: no need for the exact law.
        size = min(n, LARGEST // 5)
        known[n] = interval(p0, lam, size, kind="interp", noise=law, level=level).width * sqrt(size / n)
    widths = tuple(known[n] for n in cells.sizes)
    found = LabelWidths(cells.what, cells.labels, lam, law, cells.cells, cells.sizes, widths, cells.leaves)
    simulated = pooled and cells.cells > 1 and cells.labels > 1 and 0 < p0 < 1
    if not simulated or cells.pooled_width is None or found.typical is None:
        return found
    size = min(found.typical[0], LARGEST // 5)
    return replace(found, shrunk=cells.pooled_width(p0, level, lam, size, cells.cells))


def rate(sd: float, law: NoiseLaw) -> float:
    """λ of noise with a given standard deviation: of discrete Laplace cosh λ = 1 + 1/sd².

    >>> from fractions import Fraction
    >>> from dipsmith.privacy.noise import DiscreteLaplace
    >>> round(rate(DiscreteLaplace(Fraction(5, 2)).variance ** 0.5, "discrete"), 9)
    0.4
    """
    sd = max(sd, 1e-6)
    return acosh(1 + 1 / sd**2) if law == "discrete" else sqrt(2) / sd if law == "continuous" else 1 / sd
