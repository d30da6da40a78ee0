"""SPECKS: how well a classifier tells synthetic rows from authentic ones.

Authentic and synthetic rows are pooled, a logistic regression estimates the probability that a row is
synthetic, and the Kolmogorov–Smirnov distance between the two groups' scores is the measure (Bowen, Liu and
Su, arXiv 1803.06763, section 2.4). 0: the regression cannot tell; 1: it always can. Main effects see the
margins, interactions of two see the pairs as well.

In the package this is `dipsmith.compare`, which reads any frame. Here thousands of sets over the same fifteen
columns are scored, so the columns are put into three blocks of 64, 64 and 420 joint values: every effect and
interaction lies within two of them, and a score is the sum of three table look-ups instead of 502 products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from dipsmith.schema import Codes, Schema

Float = NDArray[np.float64]
Int = NDArray[np.int64]

RIDGE = 1e-4
"""Penalty per row: enough for a solution to exist where a column of the design separates the groups."""
BLOCKS = 3
STEPS = 200
TOLERANCE = 1e-7
"""Relative change of the likelihood at which the search ends; distances are then stable to about 0.001."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some columns and their joint values.

    Attributes
    ----------
    names
        The columns.
    dummies
        One line per joint value, one column per label but the first of each attribute.
    products
        The same for the interactions within the block.
    """

    schema: Schema
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Labels of each column."""
        return tuple(self.schema[n].size for n in self.names)

    def index(self, codes: Codes) -> Int:
        """The joint value of every row."""
        return np.ravel_multi_index([codes[n] for n in self.names], self.shape).astype(np.int64)

    @cached_property
    def _each(self) -> list[Float]:
        levels = np.stack(np.unravel_index(np.arange(int(np.prod(self.shape))), self.shape))
        return [(levels[i][:, None] == np.arange(1, s)).astype(float) for i, s in enumerate(self.shape)]

    @cached_property
    def dummies(self) -> Float:
        """Main effects by joint value."""
        return np.concatenate(self._each, axis=1)

    @cached_property
    def products(self) -> Float:
        """Interactions of two columns of this block by joint value."""
        pairs = [(a[:, :, None] * b[:, None, :]).reshape(len(a), -1) for a, b in combinations(self._each, 2)]
        return np.concatenate(pairs, axis=1) if pairs else np.zeros((int(np.prod(self.shape)), 0))


class Propensity:
    """The classifier between one authentic table and any number of synthetic ones."""

    def __init__(self, authentic: Codes, *, interactions: bool) -> None:
        self.blocks = [Block(authentic.schema, names) for names in in_blocks(authentic.schema)]
        self.pairs = list(combinations(range(len(self.blocks)), 2))
        self.interactions = interactions
        self.authentic = self._cells(authentic)

    @property
    def effects(self) -> int:
        """How many coefficients the regression has, the constant included."""
        main = [b.dummies.shape[1] for b in self.blocks]
        if not self.interactions:
            return 1 + sum(main)
        within = sum(b.products.shape[1] for b in self.blocks)
        return 1 + sum(main) + within + sum(main[i] * main[j] for i, j in self.pairs)

    def distance(self, synthetic: Codes, start: Float | None = None) -> tuple[float, Float]:
        """The Kolmogorov–Smirnov distance of the scores, and the coefficients, from which a similar set may start."""
        cells = [np.concatenate(both) for both in zip(self.authentic, self._cells(synthetic), strict=True)]
        n = len(self.authentic[0])
        is_synthetic = np.zeros(len(cells[0]))
        is_synthetic[n:] = 1.0
        found = minimize(
            self._loss,
            np.zeros(self.effects) if start is None else start,
            args=(cells, is_synthetic),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "ftol": TOLERANCE, "maxcor": 20},
        )
        scores = self._scores(found.x, cells)
        return _separation(scores[:n], scores[n:]), found.x

    # --- the likelihood by tables -----------------------------------------------------------------

    def _cells(self, codes: Codes) -> list[Int]:
        """For each pair of blocks the cell of every row."""
        at = [block.index(codes) for block in self.blocks]
        return [at[i] * len(self.blocks[j].dummies) + at[j] for i, j in self.pairs]

    def _parts(self, beta: Float) -> tuple[float, list[Float], list[Float], list[Float]]:
        """The constant; main effects and inner interactions of each block; interactions between blocks."""
        sizes = [b.dummies.shape[1] for b in self.blocks]
        inner = [b.products.shape[1] for b in self.blocks] if self.interactions else []
        outer = [sizes[i] * sizes[j] for i, j in self.pairs] if self.interactions else []
        cut = np.split(beta[1:], np.cumsum([*sizes, *inner, *outer])[:-1])
        k = len(sizes)
        between = [c.reshape(sizes[i], sizes[j]) for c, (i, j) in zip(cut[2 * k :], self.pairs, strict=False)]
        return float(beta[0]), cut[:k], cut[k : 2 * k], between

    def _scores(self, beta: Float, cells: Sequence[Int]) -> Float:
        constant, main, inner, between = self._parts(beta)
        own = [b.dummies @ m for b, m in zip(self.blocks, main, strict=True)]
        if self.interactions:
            own = [o + b.products @ c for o, b, c in zip(own, self.blocks, inner, strict=True)]
        scores = np.full(len(cells[0]), constant)
        for k, (i, j) in enumerate(self.pairs):
            table = np.zeros((own[i].size, own[j].size))
            if self.interactions:
                table += self.blocks[i].dummies @ between[k] @ self.blocks[j].dummies.T
            # Each block's own part is looked up once: with the first pair in which it occurs.
            if j == i + 1:
                table += own[i][:, None]
            if k == len(self.pairs) - 1:
                table += own[j][None, :]
            scores += table.ravel()[cells[k]]
        return scores

    def _loss(self, beta: Float, cells: Sequence[Int], is_synthetic: Float) -> tuple[float, Float]:
        eta = self._scores(beta, cells)
        value = np.logaddexp(0.0, eta).mean() - (is_synthetic * eta).mean() + RIDGE / 2 * (beta @ beta)
        left = (expit(eta) - is_synthetic) / len(eta)
        sizes = [len(b.dummies) for b in self.blocks]
        tables = [
            np.bincount(c, left, sizes[i] * sizes[j]).reshape(sizes[i], sizes[j])
            for c, (i, j) in zip(cells, self.pairs, strict=True)
        ]
        own = [tables[0].sum(axis=1), tables[-1].sum(axis=1), tables[-1].sum(axis=0)]
        slope = [np.array([left.sum()])]
        slope += [b.dummies.T @ o for b, o in zip(self.blocks, own, strict=True)]
        if self.interactions:
            slope += [b.products.T @ o for b, o in zip(self.blocks, own, strict=True)]
            slope += [
                (self.blocks[i].dummies.T @ t @ self.blocks[j].dummies).ravel()
                for t, (i, j) in zip(tables, self.pairs, strict=True)
            ]
        return float(value), np.concatenate(slope) + RIDGE * beta


def in_blocks(schema: Schema) -> list[tuple[str, ...]]:
    """The columns in three blocks with about as many joint values each."""
    held: list[list[str]] = [[] for _ in range(BLOCKS)]
    size = [1] * BLOCKS
    for attribute in sorted(schema, key=lambda a: -a.size):
        least = int(np.argmin(size))
        held[least].append(attribute.name)
        size[least] *= attribute.size
    return [tuple(names) for names in held]


def _separation(first: Float, second: Float) -> float:
    """The largest difference of two empirical distribution functions."""
    points = np.concatenate([first, second])
    below = [np.searchsorted(np.sort(g), points, side="right") / len(g) for g in (first, second)]
    return float(np.abs(below[0] - below[1]).max())
