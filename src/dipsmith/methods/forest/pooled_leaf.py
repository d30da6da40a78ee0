"""Simulated leaves that are estimated together, where the shares of a small leaf come mostly from its siblings.

Nothing private is read: shares, sizes and λ are assumptions of whoever plans.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.methods.forest.leaves import LeafCounts, join_marginals
from dipsmith.methods.forest.shrinkage import shrink
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Attribute, Categories, Schema, Unit

MARGINAL_LAM = 0.2
"""λ of the label marginal against that of the leaves, with the default shares (15 % : 75 %)."""
SIBLINGS, REPETITIONS = 50, 200
"""Leaves and repetitions of a plan's simulation: enough for two digits."""


def pooled_width(p0: float, level: float, lam: float, n: int, leaves: int) -> float:
    """The width of the interval of a label's share in a leaf of `n` rows that is estimated with its siblings."""
    shares = simulate_pooled_leaf(p0, lam, n, leaves=min(leaves, SIBLINGS), draws=REPETITIONS, seed=1)
    lo, hi = np.quantile(shares, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return float(hi - lo)


def simulate_pooled_leaf(
    p0: float, lam: float, n: int, *, leaves: int = 50, spread: float = 0.5, draws: int = 400, seed: int
) -> Floats:
    """Synthetic shares of one of two labels in a leaf that is estimated together with its siblings.

    The leaf in question has an authentic share `p0`; it and each of its siblings have `n` records, which is public.
    `lam` is ε/Δ of the noise on every leaf's counts; the label marginal is measured with a fifth of it. `spread` is
    the standard deviation of the siblings' log-odds around that of `p0`: how different branches are.
    """
    if not 0 < p0 < 1 or not 0 < lam < float("inf") or n < 1 or leaves < 2 or spread < 0 or draws < 1:
        raise UsageError(
            f"a leaf with a share of {p0}, λ = {lam}, {n} rows, {leaves} leaves, spread {spread}, {draws} draws: expected a "
            "share between 0 and 1, λ above 0, a row or more, two leaves or more, a spread from 0, a draw or more"
        )
    rng = generator(seed)
    tree, scale = _bush(leaves), 1 / Fraction(lam)
    found = np.empty(draws)
    for i in range(draws):
        odds = np.log(p0 / (1 - p0)) + np.sqrt(2.0) * spread * rng.normal(size=leaves)
        first = rng.binomial(n, 1 / (1 + np.exp(-odds))).astype(np.float64)
        first[0] = round(n * p0)
        noisy = first + _noise(lam, leaves, rng)
        counts = LeafCounts(
            tree,
            np.stack([noisy, n - noisy], axis=1),
            DiscreteLaplace(scale).variance,
            np.full(leaves, float(n)),
            public=True,
        )
        whole = first.sum() + _noise(MARGINAL_LAM * lam, 1, rng)[0]
        marginal = np.array([whole, n * leaves - whole])
        variance = DiscreteLaplace(scale / Fraction(MARGINAL_LAM)).variance
        found[i] = shrink(counts, join_marginals([(marginal, variance), counts.totals]))[0, 0]
    return rng.binomial(n, np.clip(found, 0.0, 1.0)) / n


def _noise(lam: float, size: int, rng: np.random.Generator) -> Floats:
    stop = -np.expm1(-lam)
    return (rng.geometric(stop, size) - rng.geometric(stop, size)).astype(np.float64)


def _bush(leaves: int) -> TreeShape:
    """A root with so many leaves."""
    labels = [str(i) for i in range(leaves)]
    schema = Schema("leaf", (Attribute("branch", "string", Categories.of(labels)),), Unit(), "add-remove")
    asked: Ints = np.zeros(1, dtype=np.int64)
    return TreeShape.root(schema, ["branch"]).split(asked)
