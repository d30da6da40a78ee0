"""Analysis of variance: which parameters matter, and which pairs matter together.

Main effects and two-way interactions of categorical factors, type II sums of squares (each term after all terms that
do not contain it), which for a full factorial with equal repeats are the usual ones. A parameter that was drawn from a
range is a number: its main effect is a slope and a bend, its interactions are those of the slope. Repeats are blocks: all
settings of a repeat saw the same rows. What neither main effects nor pairs explain (triples, noise) is the residual. A term that a
fraction cannot tell from others has no degrees of freedom and says so.

Searle, Casella and McCulloch, Variance Components (1992), chapter 4; Langsrud, Statistics and Computing 13 (2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats
from dipsmith.experiments.results import Response

TOLERANCE = 1e-9


@dataclass(frozen=True)
class AnovaEffect:
    """A main effect or interaction: its share of the variation, and whether chance would give as much.

    `freedom` is 0 where the design cannot tell it from other terms; `f` and `p` are against the residual, and nan where
    that has no degrees of freedom.
    """

    factors: tuple[str, ...]
    freedom: int
    squares: float
    share: float
    f: float
    p: float

    @property
    def name(self) -> str:
        """For tables: a × b."""
        return " × ".join(self.factors)


@dataclass(frozen=True)
class Anova:
    """All terms, the largest share first, and the residual."""

    terms: tuple[AnovaEffect, ...]
    residual_freedom: int
    residual_squares: float
    residual_share: float
    runs: int


def anova(response: Response) -> Anova:
    """Divide the variation of a response among factors, pairs of factors, and the rest."""
    from scipy.special import fdtrc

    response = response.where(np.isfinite(response.values))
    y = response.values - response.values.mean() if len(response.values) else response.values
    factors, numbers = response.factors, response.numbers
    blocks: dict[tuple[str, ...], Floats] = {
        (n,): numbers[n].curve if n in numbers else _dummies(v) for n, v in factors.items()
    }
    for a, b in combinations(factors, 2):
        one, other = (numbers[n].slope if n in numbers else _dummies(factors[n]) for n in (a, b))
        blocks[(a, b)] = (one[:, :, None] * other[:, None, :]).reshape(len(y), -1)
    base = [np.ones((len(y), 1))]
    if len(set(response.repeat.tolist())) > 1:
        base.append(_dummies(response.repeat.astype(str)))
    total = float((y**2).sum())
    whole, rank = _residual(y, [*base, *blocks.values()])
    freedom = len(y) - rank
    found = []
    for names, block in blocks.items():
        others = [b for n, b in blocks.items() if not set(names) <= set(n)]
        without, before = _residual(y, [*base, *others])
        with_it, after = _residual(y, [*base, *others, block])
        found.append((names, after - before, max(0.0, without - with_it)))
    error = whole / freedom if freedom > 0 else float("nan")
    terms = []
    for names, df, squares in found:
        f = squares / df / error if df and error and error > 0 else float("nan")
        p = float(fdtrc(df, freedom, f)) if f == f else float("nan")
        terms.append(AnovaEffect(names, df, squares, squares / total if total else float("nan"), f, p))
    share = whole / total if total else float("nan")
    return Anova(tuple(sorted(terms, key=lambda t: -t.share)), freedom, whole, share, len(y))


def _dummies(labels: Sequence[str] | NDArray[np.str_]) -> Floats:
    _, index = np.unique(np.asarray(labels), return_inverse=True)
    return np.asarray(np.eye(int(index.max(initial=0)) + 1)[index])


def _residual(y: Floats, blocks: Sequence[Floats]) -> tuple[float, int]:
    """Residual sum of squares after projection on the blocks, and their rank."""
    design = np.concatenate(blocks, axis=1)
    u, s, _ = np.linalg.svd(design, full_matrices=False)
    basis = u[:, s > TOLERANCE * max(1.0, float(s.max(initial=0.0))) * np.sqrt(len(y))]
    left = y - basis @ (basis.T @ y)
    return float((left**2).sum()), basis.shape[1]
