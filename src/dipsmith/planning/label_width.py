"""How precise synthetic labels will be where they are made: in the leaves of trees, in the cells of effects.

For each ensemble of a `Forest` and each effect of a `LogLinear`: how many rows a typical leaf or cell has
(public under `label`), and the width of the interval in which the synthetic share of a label will lie
(`leaf_interval`, discrete law). With more than two labels the counts are projected on the public size, which
leaves 1 − 1/K of the noise's variance; that is taken into λ.

The law is that of a leaf on its own. `Forest` with `shrink` and `LogLinear` estimate leaves and cells
together, so that small ones are narrower than this (and drawn towards the others): the width is what is
known for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import acosh, sqrt
from typing import Any, Final

import numpy as np

from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.forest.preview import QUANTILES, Preview
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.methods.method import Method, Planned, PublicFacts
from dipsmith.planning.expected_error import table_of
from dipsmith.planning.law import LARGEST, NoiseLaw
from dipsmith.planning.leaf_interval import interval
from dipsmith.planning.leaf_simulation import simulate_shrunk_leaf
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Marginal, Schema

SIBLINGS, SIMULATED = 50, 200
"""Leaves and repetitions of the simulation of shrunk leaves: enough for two digits."""

SHARE: Final = 0.5
"""The authentic share for which widths are given unless another is: the widest."""


@dataclass(frozen=True)
class LabelWidths:
    """Sizes of the leaves or cells in which labels are made, and the interval widths that follow.

    Attributes
    ----------
    what
        The ensemble or effect.
    labels
        Its (joint) labels.
    lam, noise
        ε/Δ of the noise on a count as it is left after projection, and its law.
    rows
        Sizes at the quantiles `QUANTILES`, counted over rows: half of all rows are labelled from leaves
        of at least the middle one. Empty when sizes are unknown.
    widths
        The width of the interval at each of them.
    leaves
        How many leaves or cells have rows.
    shrunk
        For a forest that estimates its leaves together: the width in the leaf of the median row by simulation,
        if leaves differ by about half a log-odds; None otherwise.
    """

    what: str
    labels: int
    lam: float
    noise: NoiseLaw
    rows: tuple[int, ...]
    widths: tuple[float, ...]
    leaves: int
    shrunk: float | None = None

    @property
    def typical(self) -> tuple[int, float] | None:
        """Size and width of the leaf or cell of the median row."""
        middle = QUANTILES.index(0.5)
        return (self.rows[middle], self.widths[middle]) if self.rows else None

    def to_dict(self) -> dict[str, Any]:
        """The widths as JSON-able values."""
        return {
            "what": self.what,
            "labels": self.labels,
            "lam": self.lam,
            "law": self.noise,
            "leaves": self.leaves,
            "quantiles": list(QUANTILES),
            "rows": list(self.rows),
            "widths": list(self.widths),
            "shrunk_width": self.shrunk,
        }


def label_widths(
    schema: Schema,
    method: Method,
    budget: Budget,
    steps: Sequence[Planned],
    facts: PublicFacts,
    *,
    p0: float = SHARE,
    level: float = 0.9,
) -> tuple[LabelWidths, ...]:
    """The widths of a labeller, one line per ensemble or effect; nothing for other methods."""
    if schema.neighbours != "label":
        return ()
    law: NoiseLaw = "discrete" if budget.currency == "epsilon" else "gaussian"
    if isinstance(method, Forest):
        preview = method.preview(schema, budget, facts)
        return tuple(_of_shape(schema, preview, i, law, p0, level) for i in range(len(preview.shapes)))
    if isinstance(method, LogLinear):
        found = [_of_effect(schema, step, facts, law, p0, level, method.strata) for step in steps]
        return tuple(w for w in found if w is not None)
    return ()


def with_shrunk(
    widths: tuple[LabelWidths, ...], method: Method, p0: float, level: float
) -> tuple[LabelWidths, ...]:
    """The widths of a forest together with what shrinkage makes of the typical leaf."""
    if not (isinstance(method, Forest) and method.shrink):
        return widths
    return tuple(replace(w, shrunk=_shrunk(w, p0, level)) for w in widths)


def _shrunk(found: LabelWidths, p0: float, level: float) -> float | None:
    if found.typical is None or found.leaves < 2 or found.labels < 2 or not 0 < p0 < 1:
        return None
    size = min(found.typical[0], LARGEST // 5)
    leaf = simulate_shrunk_leaf(
        [p0, 1 - p0], found.lam, size, leaves=min(found.leaves, SIBLINGS), draws=SIMULATED, seed=1
    )
    lo, hi = leaf.interval(level=level)
    return hi - lo


def _of_shape(
    schema: Schema, preview: Preview, i: int, law: NoiseLaw, p0: float, level: float
) -> LabelWidths:
    shape = preview.shapes[i]
    labels = schema.size([n for n in schema.names if n in shape.ensemble.split(" × ")])
    sizes = tuple(max(1, round(s)) for s in shape.typical_sizes)
    return _widths(shape.ensemble, labels, shape.noise, sizes, shape.leaves, law, p0, level)


def _of_effect(
    schema: Schema,
    step: Planned,
    facts: PublicFacts,
    law: NoiseLaw,
    p0: float,
    level: float,
    strata: str | None,
) -> LabelWidths | None:
    names = table_of(schema, step)
    if names is None or step.sd is None:
        return None
    public = [n for n in names if schema[n].role == "public"]
    private = [n for n in names if n not in public]
    labels = schema.size(private)
    if facts.public_rows is None:
        cells = max(1, (step.cells or labels) // labels) * (schema[strata].size if strata else 1)
        sizes = (max(1, facts.rows // cells),) * len(QUANTILES) if facts.rows else ()
        return _widths(" × ".join(names), labels, step.sd, sizes, cells, law, p0, level)
    codes, often = facts.public_rows
    public += [strata] if strata is not None else []
    groups = np.bincount(
        Marginal.of(schema, public).index(codes), weights=often, minlength=schema.size(public)
    )
    order = np.sort(groups[groups > 0])
    if not len(order):
        return None
    reached = np.cumsum(order) / order.sum()
    typical = order[np.minimum(np.searchsorted(reached, QUANTILES), len(order) - 1)]
    return _widths(
        " × ".join(names), labels, step.sd, tuple(int(s) for s in typical), len(order), law, p0, level
    )


def _widths(
    what: str,
    labels: int,
    sd: float,
    sizes: tuple[int, ...],
    leaves: int,
    law: NoiseLaw,
    p0: float,
    level: float,
) -> LabelWidths:
    lam = rate(sd * (sqrt(1 - 1 / labels) if labels > 2 else 1.0), law)
    known = {n: _width(n, p0, lam, law, level) for n in set(sizes)}
    return LabelWidths(what, labels, lam, law, sizes, tuple(known[n] for n in sizes), leaves)


def _width(n: int, p0: float, lam: float, law: NoiseLaw, level: float) -> float:
    # Beyond a million records the width only halves with every fourfold size: no need for the exact law.
    size = min(n, LARGEST // 5)
    return interval(p0, lam, size, kind="interp", noise=law, level=level).width * sqrt(size / n)


def rate(sd: float, law: NoiseLaw) -> float:
    """λ of noise with a given standard deviation: of discrete Laplace cosh λ = 1 + 1/sd².

    >>> from fractions import Fraction
    >>> from dipsmith.privacy.noise import DiscreteLaplace
    >>> round(rate(DiscreteLaplace(Fraction(5, 2)).variance ** 0.5, "discrete"), 9)
    0.4
    """
    sd = max(sd, 1e-6)
    return acosh(1 + 1 / sd**2) if law == "discrete" else sqrt(2) / sd if law == "continuous" else 1 / sd
