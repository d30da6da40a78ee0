"""Maximum entropy: the least presumptuous distribution that explains noisy marginals.

Given noisy tables y_m with noise of standard deviation σ_m, a total N and a product distribution q
(the columns as if independent), the fitted distribution minimises

    KL(p ‖ q) · N  +  Σ_m ‖N·p_m − y_m‖² / (2 λ_m),          λ_m = shrink · σ_m,

over all distributions that the impossible combinations allow. With λ → 0 this is the Private-PGM
estimate (McKenna, Sheldon and Miklau, "Graphical-model based estimation and inference for differential
privacy", ICML 2019, section 3); the entropy term does what every user of noisy tables wants besides:
a cell moves away from independence only as far as its noise allows, by λ·θ for a log-ratio of θ. The
dual problem is smooth and has no constraints,

    min_θ  N·log Σ q·exp(Σ_m θ_m)  −  Σ_m θ_m·y_m  +  Σ_m λ_m ‖θ_m‖² / 2,

with gradient N·p_m − y_m + λ_m·θ_m: regularised maximum likelihood of a log-linear model (Dudík,
Phillips and Schapire, JMLR 8, 2007, section 5.2). It is solved by L-BFGS (Nocedal and Wright 2006,
algorithm 7.5) with the diagonal of the Hessian, N·p_m + λ_m, as its first metric; one evaluation is one
propagation over the junction tree.

Privacy: reads noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np

from dipsmith.errors import UsageError
from dipsmith.methods.graph.evidence import LEAST_SD, Evidence, column_distribution, denoise_columns, join_repeats
from dipsmith.methods.graph.junction import Array, Attributes, JunctionTree
from dipsmith.methods.graph.propagation import Propagation
from dipsmith.schema import Schema
from dipsmith.schema.rules import impossible

SHRINK = 0.4
"""Penalty per unit of noise, chosen on census and survey tables at ε from 0.1 to 10: flat between 0.2 and 0.8."""

Factors = Sequence[tuple[Attributes, Array]]

_HISTORY = 4
_LONGEST_STEP = 3.0


@dataclass(frozen=True, eq=False)
class EntropyFit:
    """A fitted distribution: the probabilities (`beliefs`) of every clique of a junction tree, in the order of its axes.

    `potentials` has θ of every table of evidence, by its attributes: where the next fit may start. `total` is
    the number of rows.
    """

    tree: JunctionTree
    beliefs: tuple[Array, ...]
    potentials: Mapping[Attributes, Array]
    total: float


def fit(
    schema: Schema,
    evidence: Sequence[Evidence],
    total: float,
    *,
    linked: Sequence[Collection[str]] = (),
    start: EntropyFit | None = None,
    prior: Factors = (),
    shrink: float = SHRINK,
    tolerance: float = 1e-5,
    iterations: int = 300,
) -> EntropyFit:
    """Fit the distribution of maximum entropy to noisy tables of `total` rows.

    Rules whose attributes lie in one clique hold exactly in the result, so `linked` names further sets of attributes
    that must lie in one. The model is as large as `junction.cells_needed` says for these and the evidence; callers
    decide before they measure. q is the columns as if independent, times the factors of a `prior`, whose attributes must be
    linked (`prior`). `start` is an earlier fit to start from; the fit stops when a step would gain less
    than `tolerance`, in nats per row.
    """
    total = max(total, 1.0)
    measured = join_repeats(evidence)
    tables = denoise_columns(measured, total)
    sizes = {a.name: a.size for a in schema.attributes}
    tree = JunctionTree.of(sizes, [*(e.attributes for e in tables), *linked])
    base: list[tuple[Attributes, Array]] = [
        ((name,), column_distribution(name, n, measured, total)) for name, n in sizes.items()
    ]
    base += prior
    for rule in schema.rules:
        if tree.find_clique(rule.attributes) is not None:
            possible = ~impossible([rule], rule.attributes, tree.shape(rule.attributes))
            base.append((rule.attributes, possible.astype(np.float64)))
    dual = _Dual(tree, tables, total, base, shrink)
    theta = dual.theta(start.potentials if start is not None else {})
    return dual.distribution_at(dual.minimise(theta, tolerance, iterations))


class _Dual:
    """The dual problem of a fit: value and gradient, and its minimum."""

    def __init__(
        self, tree: JunctionTree, tables: Sequence[Evidence], total: float, base: Factors, shrink: float
    ) -> None:
        self.tree, self.total = tree, total
        self.scopes = [t.attributes for t in tables]
        self.product = Propagation(tree, self.scopes, base)
        sizes = [t.values.size for t in tables]
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self.parts = [slice(a, a + n) for a, n in zip(self.starts, sizes, strict=True)]
        self.owner = np.repeat(np.arange(len(tables)), sizes)
        self.counts = np.concatenate([t.summing_to(total).ravel() for t in tables])
        self.penalty = np.repeat([shrink * max(sqrt(t.variance), LEAST_SD) for t in tables], sizes)
        self.at: Array | None = None
        self.last_shares: Array | None = None
        self.last_shifts = self.shifts = np.zeros(len(tables))

    def theta(self, known: Mapping[Attributes, Array]) -> Array:
        """Potentials to start from: those of an earlier fit, 0 for tables that are new."""
        start = np.zeros_like(self.counts)
        earlier = {frozenset(names): (names, table) for names, table in known.items()}
        for scope, part in zip(self.scopes, self.parts, strict=True):
            if frozenset(scope) in earlier:
                names, table = earlier[frozenset(scope)]
                start[part] = table.transpose([names.index(n) for n in scope]).ravel()
        return start

    def propagate(self, theta: Array) -> float:
        """Propagate at θ and return the logarithm of the sum over all combinations, −∞ if doubles cannot hold it.

        With the mean of θ under any p taken off, the product sums to exp(−KL(p ‖ q)) or more (Jensen), where with
        the largest θ taken off many noisy tables would leave a product of nothing. Taken is the p of the last
        point; where factors are so large that they overflow on the way, what held there, or the largest.
        """
        self.at = theta
        offered = [np.maximum.reduceat(theta, self.starts)]
        if self.last_shares is not None:
            offered = [np.add.reduceat(self.last_shares * theta, self.starts), self.last_shifts, *offered]
        for shifts in offered:
            with np.errstate(over="ignore"):
                factors = np.exp(theta - shifts[self.owner])
            log_sum = self.product.run(self._tables(factors))
            if isfinite(log_sum):
                self.shifts = shifts
                return log_sum + float(shifts.sum())
        return -inf

    def value(self, theta: Array) -> tuple[float, Array, Array]:
        """The objective, its gradient, and the expected counts of every table; ∞ where doubles cannot hold them."""
        log_sum = self.propagate(theta)
        if not isfinite(log_sum):
            return inf, theta, self.counts
        expected = np.concatenate([table.ravel() for table in self.product.marginals()])
        expected *= self.total
        pull = self.penalty * theta
        objective = self.total * log_sum - _dot(theta, self.counts) + 0.5 * _dot(pull, theta)
        return objective, expected - self.counts + pull, expected

    def minimise(self, theta: Array, tolerance: float, iterations: int) -> Array:
        """L-BFGS with the diagonal of the Hessian as first metric and Armijo's rule for the step."""
        steps: list[tuple[Array, Array, float]] = []
        value, gradient, expected = self.value(theta)
        if not isfinite(value):
            # A start that doubles cannot hold; at 0 the product is q, as far as the rules leave it.
            theta = np.zeros_like(theta)
            value, gradient, expected = self.value(theta)
        if not isfinite(value):
            raise UsageError("the rules leave no combination of values possible; check the schema's rules")
        for _ in range(iterations):
            self.last_shares, self.last_shifts = expected / self.total, self.shifts
            metric = 1 / (expected + self.penalty)
            direction = _direction(gradient, metric, steps)
            slope = _dot(gradient, direction)
            if slope >= 0:
                steps.clear()
                direction = -gradient * metric
                slope = _dot(gradient, direction)
            if -slope <= tolerance * self.total:
                break
            size = min(1.0, _LONGEST_STEP / float(np.abs(direction).max()))
            while True:
                ahead = theta + size * direction
                new_value, new_gradient, expected = self.value(ahead)
                if new_value <= value + 1e-4 * size * slope:
                    break
                size *= 0.4
                if size < 1e-8:
                    return theta
            moved, bent = ahead - theta, new_gradient - gradient
            curvature = _dot(moved, bent)
            if curvature > 1e-12 * sqrt(_dot(moved, moved) * _dot(bent, bent)):
                steps.append((moved, bent, 1 / curvature))
                del steps[:-_HISTORY]
            theta, value, gradient = ahead, new_value, new_gradient
        self.last_shares, self.last_shifts = expected / self.total, self.shifts
        return theta

    def distribution_at(self, theta: Array) -> EntropyFit:
        """The fitted distribution at θ."""
        if self.at is not theta:
            self.propagate(theta)
        potentials = dict(zip(self.scopes, self._tables(theta), strict=True))
        return EntropyFit(self.tree, self.product.beliefs(), potentials, self.total)

    def _tables(self, flat: Array) -> list[Array]:
        parts = zip(self.scopes, self.parts, strict=True)
        return [flat[part].reshape(self.tree.shape(scope)) for scope, part in parts]


def _dot(left: Array, right: Array) -> float:
    """The inner product, without BLAS: its threads cost far more than they save on a busy machine."""
    return float(np.einsum("i,i->", left, right))


def _direction(gradient: Array, metric: Array, steps: Sequence[tuple[Array, Array, float]]) -> Array:
    """The two-loop recursion of L-BFGS."""
    q = gradient.copy()
    along = []
    for moved, bent, rho in reversed(steps):
        a = rho * _dot(moved, q)
        q -= a * bent
        along.append(a)
    q *= metric
    if steps:
        moved, bent, rho = steps[-1]
        q *= 1 / (rho * _dot(bent, metric * bent))
    for (moved, bent, rho), a in zip(steps, reversed(along), strict=True):
        q += moved * (a - rho * _dot(bent, q))
    return -q
