"""Ways to sanitise the simulation's table, as printed in the STEPS paper and as corrected.

Everything works on a stack of tables at once: (tables, 2, 3, 4, 5, 15) counts of x1, x2, x3, x4 and binned y.
Variants that exist only to reproduce printed errors live here and nowhere in the package:

*printed*: equation (3) of Bowen, Liu and Su (arXiv 1803.06763) sets the leaves to their own noisy counts and
corrects the others, so that what is released is a flat table at half the budget. (Equation (2) besides has
weights that do not add up to 1: `printed_upper`.)

*phantom*: Hay et al.'s formula for b children everywhere, with categories of count 0 for those that do not
exist. Only c of the b children are noisy, and only c/b of the discrepancy is corrected, or more than all of it
where c > b.

Noise is continuous Laplace, as in the paper and in the reference values, or the package's discrete Laplace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream

Float = NDArray[np.float64]
Noise = Callable[[float, tuple[int, ...]], Float]
"""Noise that makes a table of counts cost ε under add-remove: (ε, shape) → array."""

SHAPE = (2, 3, 4, 5, 15)
UPPER = (0, 1, 3)
"""The first layer of the paper: x1, x2 and x4; x3 and y are the second."""
NODES, BELOW = 30, 60
CHOICE = 0.1
"""Share of ε that the paper sets aside for choosing the order, used or not."""
NOMINAL = 15
"""The paper's number of children of every node, phantom ones included: the bins of y."""


def laplace(rng: np.random.Generator) -> Noise:
    """Continuous Laplace noise."""
    return lambda epsilon, shape: rng.laplace(0.0, 1 / epsilon, shape)


def discrete_laplace(seed: int) -> Noise:
    """The package's discrete Laplace noise."""
    stream = Stream.for_testing(seed)

    def draw(epsilon: float, shape: tuple[int, ...]) -> Float:
        law = DiscreteLaplace(1 / Fraction(epsilon).limit_denominator(10**9))
        return law.sample(stream, prod(shape)).reshape(shape).astype(np.float64)

    return draw


# --- negative counts ---------------------------------------------------------------------------------


def clip(x: Float, total: Float) -> Float:
    """Negative counts to zero, the rest rescaled to the total; along the last axis."""
    kept = np.maximum(x, 0.0)
    kept = np.where(kept.sum(axis=-1, keepdims=True) > 0, kept, 1.0)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True) * total[..., None])


def project(x: Float, total: Float) -> Float:
    """The nearest non-negative table with the total; along the last axis."""
    falling = -np.sort(-x, axis=-1)
    excess = np.cumsum(falling, axis=-1) - total[..., None]
    above = falling > excess / np.arange(1, x.shape[-1] + 1)
    last = np.maximum(above.sum(axis=-1), 1)
    tau = np.take_along_axis(excess, last[..., None] - 1, axis=-1) / last[..., None]
    return np.asarray(np.maximum(x - tau, 0.0))


# --- two levels --------------------------------------------------------------------------------------


def exact_two_levels(upper: Float, leaves: Float, var_upper: float, var_leaf: float) -> tuple[Float, Float]:
    """Generalised least squares of a node and its c children, for whole arrays of nodes."""
    c, below = leaves.shape[-1], leaves.sum(axis=-1)
    weight = c * var_leaf / (c * var_leaf + var_upper)
    node = weight * upper + (1 - weight) * below
    return node, leaves + ((node - below) / c)[..., None]


def phantom_two_levels(upper: Float, leaves: Float, b: int = NOMINAL) -> tuple[Float, Float]:
    """Hay's formula for b children where there are c: the others are phantoms that stay at 0."""
    below = leaves.sum(axis=-1)
    node = b / (b + 1) * upper + below / (b + 1)
    return node, leaves + ((node - below) / b)[..., None]


def phantom_tree(levels: Sequence[Float], total: Float, b: int) -> Float:
    """Hay's formula on several levels with a nominal fan-out; the leaves that it releases.

    Parameters
    ----------
    levels
        The noisy counts of each level below the root, nodes along the first axis; any further axes are
        carried along.
    total
        The exact count of the root.
    b
        The nominal number of children of every node.
    """
    estimates = [levels[-1]]
    for height, own in enumerate(reversed(levels[:-1]), start=2):
        below = _children(estimates[0], len(own)).sum(axis=1)
        whole = b**height - 1
        estimates.insert(0, (b**height - b ** (height - 1)) / whole * own + (b ** (height - 1) - 1) / whole * below)
    made = total[None]
    for level in estimates:
        children = _children(level, len(made))
        made = (children + ((made - children.sum(axis=1)) / b)[:, None]).reshape(level.shape)
    return made


def _children(level: Float, parents: int) -> Float:
    return level.reshape(parents, len(level) // parents, *level.shape[1:])


def printed_upper(upper: Float, leaves: Float, b: int = NOMINAL, height: int = 1) -> Float:
    """Equation (2) as printed: exponents one too small, and a "−1" missing, so that the weights exceed 1."""
    own = (b**height - b ** (height - 1)) / (b**height - 1)
    rest = b ** (height - 1) / (b**height - 1)
    return np.asarray(own * upper + rest * leaves.sum(axis=-1))


def by_node(tables: Float) -> Float:
    """The stack as (tables, 30 nodes of x1·x2·x4, 60 cells of x3·y)."""
    return tables.transpose(0, 1, 2, 4, 3, 5).reshape(len(tables), NODES, BELOW)


def by_cell(nodes: Float) -> Float:
    """Back from `by_node`."""
    return nodes.reshape(-1, 2, 3, 5, 4, 15).transpose(0, 1, 2, 4, 3, 5).reshape(-1, *SHAPE)


# --- the variants ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sanitised:
    """Everything that a variant needs: the true tables, ε for each, the public n, and noise."""

    tables: Float
    epsilon: float
    rows: int
    noise: Noise
    rng: np.random.Generator

    @property
    def totals(self) -> Float:
        """N for every table."""
        return np.full(len(self.tables), float(self.rows))

    def flat(self, negative: Callable[[Float, Float], Float]) -> Float:
        """Noise on every cell."""
        noisy = self.tables + self.noise(self.epsilon, self.tables.shape)
        return negative(noisy.reshape(len(noisy), -1), self.totals).reshape(self.tables.shape)

    def steps(self, upper_share: float) -> tuple[Float, Float, float, float]:
        """Noise on both levels: noisy nodes, noisy leaves and their variances (up to a common factor)."""
        nodes = by_node(self.tables)
        spent = self.epsilon * (1 - CHOICE)
        up, low = spent * upper_share, spent * (1 - upper_share)
        upper = nodes.sum(axis=-1) + self.noise(up, nodes.shape[:2])
        return upper, nodes + self.noise(low, nodes.shape), 2 / up**2, 2 / low**2

    def exact(self, upper_share: float, *, projected: bool) -> Float:
        """STEPS with exact least squares; projected from the root down, or clipped once at the leaves."""
        node, leaves = exact_two_levels(*self.steps(upper_share))
        if not projected:
            return self._clipped(leaves)
        # n is public: the nodes' estimates share what is missing.
        node = node + ((self.rows - node.sum(axis=-1)) / NODES)[:, None]
        return by_cell(project(leaves, project(node, self.totals)))

    def phantom(self) -> Float:
        """STEPS with phantom categories, clipped."""
        upper, leaves, _, _ = self.steps(0.5)
        return self._clipped(phantom_two_levels(upper, leaves)[1])

    def printed(self) -> Float:
        """STEPS as printed, clipped: the released leaves are the raw noisy ones."""
        return self._clipped(self.steps(0.5)[1])

    def universal(self) -> Float:
        """Four levels in random order, exact least squares, clipped: a new order for every table."""
        return np.stack([self._universal(table) for table in self.tables])

    def _universal(self, table: Float) -> Float:
        order = self.rng.permutation(len(SHAPE))
        turned = table.transpose(order)
        share = self.epsilon / 4
        noisy = []
        for level in (1, 2, 3, 5):
            true = turned.reshape(prod(turned.shape[:level]), -1).sum(axis=1)
            noisy.append(true + self.noise(share, true.shape))
        estimates, spread = [noisy[3]], 1.0
        for upper in (noisy[2], noisy[1], noisy[0]):
            children = estimates[0].reshape(upper.size, -1)
            below, variance = children.sum(axis=1), children.shape[1] * spread
            weight = variance / (variance + 1.0)
            estimates.insert(0, weight * upper + (1 - weight) * below)
            spread = weight
        made = estimates[0] + (self.rows - estimates[0].sum()) / estimates[0].size
        for level in estimates[1:]:
            children = level.reshape(made.size, -1)
            made = (children + ((made - children.sum(axis=1)) / children.shape[1])[:, None]).ravel()
        clipped = clip(made[None], np.array([float(self.rows)]))[0]
        return clipped.reshape(turned.shape).transpose(np.argsort(order))

    def star(self) -> Float:
        """P(y)·Π P(xⱼ | y) from four two-way tables with a quarter of ε each: a Bayesian network of degree 1."""
        parts, margins = [], []
        for j in range(4):
            table = self.tables.sum(axis=tuple(1 + a for a in range(4) if a != j))
            table = np.maximum(table + self.noise(self.epsilon / 4, table.shape), 0.0)
            sums = table.sum(axis=1, keepdims=True)
            parts.append(np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1 / table.shape[1]))
            margins.append(table.sum(axis=1) / table.sum(axis=(1, 2))[:, None])
        y = np.mean(margins, axis=0)
        return np.einsum("rb,rib,rjb,rkb,rlb->rijklb", y, *parts, optimize=True) * self.rows

    def _clipped(self, leaves: Float) -> Float:
        return by_cell(clip(leaves.reshape(len(leaves), -1), self.totals).reshape(leaves.shape))


VARIANTS: dict[str, Callable[[Sanitised], Float]] = {
    "flat clip": lambda s: s.flat(clip),
    "flat projection": lambda s: s.flat(project),
    "STEPS-2 GLS 50/50 clip": lambda s: s.exact(0.5, projected=False),
    "STEPS-2 GLS 50/50 proj": lambda s: s.exact(0.5, projected=True),
    "STEPS-2 GLS 20/80 proj": lambda s: s.exact(0.2, projected=True),
    "STEPS-2 phantom b=15": lambda s: s.phantom(),
    "STEPS-2 eq3 printed": lambda s: s.printed(),
    "UH-4 random GLS clip": lambda s: s.universal(),
    "star network": lambda s: s.star(),
}
