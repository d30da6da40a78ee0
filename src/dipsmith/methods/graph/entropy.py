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
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.estimation.simplex import project
from dipsmith.methods.graph.junction import Array, Attributes, JunctionTree, sum_to
from dipsmith.methods.graph.propagation import Propagation
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Schema
from dipsmith.schema.rules import impossible

SHRINK = 0.4
"""Penalty per unit of noise, chosen on census and survey tables at ε from 0.1 to 10: flat between 0.2 and 0.8."""

LEAST_SD = 0.02
"""Noise below this changes no count, and dividing by it would only slow the fit down."""

FLOOR_SD = 0.1
FLOOR_SHARE = 0.01
"""A level with a noisy count at or below 0 may still exist: it keeps a tenth of the noise, all of them at most 1 %."""

_HISTORY = 4
_LONGEST_STEP = 3.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """A noisy table of some attributes: what a fit may know about it.

    Attributes
    ----------
    attributes
        The axes of the table.
    values
        The noisy counts, shaped as the table.
    variance
        Variance of the noise on a cell that carries it.
    possible
        Cells that no rule forbids, shaped as the table; None when all are possible.
    """

    attributes: Attributes
    values: Array
    variance: float
    possible: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, measurement: Measurement) -> Self:
        """The evidence in a measured marginal."""
        cells = measurement.cells
        shape = tuple(cells.schema[n].size for n in cells.attributes)
        possible = cells.possible()
        return cls(
            cells.attributes,
            measurement.values.astype(np.float64).reshape(shape),
            measurement.variance,
            None if possible is None else possible.reshape(shape),
        )

    @property
    def free(self) -> int:
        """Number of cells that carry noise."""
        return self.values.size if self.possible is None else int(self.possible.sum())

    @property
    def total(self) -> tuple[float, float]:
        """The sum of the table and its variance."""
        return float(self.values.sum()), self.free * self.variance

    def ordered(self, attributes: Sequence[str]) -> Self:
        """The same table with its axes in the order given."""
        axes = [self.attributes.index(n) for n in attributes]
        possible = None if self.possible is None else self.possible.transpose(axes)
        return replace(
            self,
            attributes=tuple(attributes),
            values=np.ascontiguousarray(self.values.transpose(axes)),
            possible=possible,
        )

    def summing_to(self, total: float) -> Array:
        """The table moved evenly, where it is possible, to the total that it should have."""
        shift = (total - self.values.sum()) / max(self.free, 1)
        moved: Array = self.values + (shift if self.possible is None else shift * self.possible)
        return moved


def gathered(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Join measurements of the same attributes into one, weighted by inverse variance.

    Examples
    --------
    >>> twice = [Evidence(("a",), np.array([4.0, 0.0]), 1.0), Evidence(("a",), np.array([0.0, 4.0]), 3.0)]
    >>> [(e.values.tolist(), e.variance) for e in gathered(twice)]
    [([3.0, 1.0], 0.75)]
    """
    found: dict[frozenset[str], Evidence] = {}
    for new in evidence:
        key = frozenset(new.attributes)
        if key not in found:
            found[key] = new
            continue
        old = found[key]
        new = new.ordered(old.attributes)
        weight = old.variance / (old.variance + new.variance) if old.variance + new.variance > 0 else 0.5
        found[key] = replace(
            old,
            values=old.values + weight * (new.values - old.values),
            variance=weight * new.variance,
        )
    return list(found.values())


def pooled_total(evidence: Sequence[Evidence]) -> float:
    """The number of rows as the tables have it, weighted by inverse variance, at least 1."""
    sums = [e.total for e in evidence]
    weights = [1 / max(variance, LEAST_SD**2) for _, variance in sums]
    return max(1.0, sum(w * s for w, (s, _) in zip(weights, sums, strict=True)) / sum(weights))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted distribution: clique marginals over a junction tree, and the potentials that made them.

    Attributes
    ----------
    tree
        The cliques.
    beliefs
        Probabilities of every clique, in the order of its axes.
    potentials
        θ of every table of evidence, by its attributes: where the next fit may start.
    total
        The number of rows that the evidence has in all.
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
    start: Fitted | None = None,
    shrink: float = SHRINK,
    tolerance: float = 1e-5,
    iterations: int = 300,
) -> Fitted:
    """Fit the distribution of maximum entropy to noisy tables.

    Parameters
    ----------
    schema
        Attributes and rules; rules whose attributes lie in one clique hold exactly in the result.
    evidence
        The noisy tables; tables of the same attributes are joined first.
    total
        The number of rows.
    linked
        Further sets of attributes that must lie in one clique, such as those of a rule.
    start
        An earlier fit to start from.
    shrink
        Penalty per unit of noise.
    tolerance
        Stop when a step would gain less than this, in nats per row.
    iterations
        Steps at most.

    Notes
    -----
    The junction tree is as large as `junction.cells_needed` says for the attributes of the evidence and
    `linked`; callers decide before they measure.
    """
    tables = gathered(evidence)
    sizes = {a.name: a.size for a in schema.attributes}
    tree = JunctionTree.of(sizes, [*(e.attributes for e in tables), *linked])
    dual = _Dual(tree, tables, max(total, 1.0), _base(schema, tree, tables, max(total, 1.0)), shrink)
    theta = dual.theta(start.potentials if start is not None else {})
    return dual.fitted(dual.minimise(theta, tolerance, iterations))


def _base(
    schema: Schema, tree: JunctionTree, tables: Sequence[Evidence], total: float
) -> list[tuple[Attributes, Array]]:
    """Independent columns, and the indicator of what is possible for every rule that lies in one clique."""
    base: list[tuple[Attributes, Array]] = [
        ((name,), independent(name, size, tables, total)) for name, size in tree.sizes.items()
    ]
    for rule in schema.rules:
        if tree.holding(rule.attributes) is not None:
            names = tuple(rule.attributes)
            possible = ~impossible([rule], names, tree.shape(names))
            base.append((names, possible.astype(np.float64)))
    return base


def independent(name: str, size: int, tables: Sequence[Evidence], total: float) -> Array:
    """The distribution of one attribute from every table that has it, everywhere above 0."""
    weight, weighted = 0.0, np.zeros(size)
    for table in tables:
        if name in table.attributes:
            cells = max(table.values.size // size, 1)
            w = 1 / (max(table.variance, LEAST_SD**2) * cells)
            weight += w
            weighted += w * sum_to(table.summing_to(total), table.attributes, (name,))
    if weight == 0:
        return np.full(size, 1 / size)
    counts = project(weighted / weight, total)
    counts += min(FLOOR_SD / sqrt(weight), FLOOR_SHARE * total / size)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


class _Dual:
    """The dual problem of a fit: value and gradient, and its minimum."""

    def __init__(
        self,
        tree: JunctionTree,
        tables: Sequence[Evidence],
        total: float,
        base: Sequence[tuple[Attributes, Array]],
        shrink: float,
    ) -> None:
        self.tree, self.total = tree, total
        self.scopes = [t.attributes for t in tables]
        self.product = Propagation(tree, self.scopes, base)
        sizes = [t.values.size for t in tables]
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        self.parts = [slice(a, a + n) for a, n in zip(self.starts, sizes, strict=True)]
        self.owner = np.repeat(np.arange(len(tables)), sizes)
        self.counts = np.concatenate([t.summing_to(total).ravel() for t in tables])
        penalties = [shrink * max(sqrt(t.variance), LEAST_SD) for t in tables]
        self.penalty = np.repeat(penalties, sizes)
        self.known: Array | None = None
        self.held = self.used = np.zeros(len(tables))

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
        offered = [np.maximum.reduceat(theta, self.starts)]
        if self.known is not None:
            offered = [np.add.reduceat(self.known * theta, self.starts), self.held, *offered]
        for shifts in offered:
            with np.errstate(over="ignore"):
                factors = np.exp(theta - shifts[self.owner])
            log_sum = self.product.run(self._tables(factors))
            if isfinite(log_sum):
                self.used = shifts
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
            self.known, self.held = expected / self.total, self.used
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
        self.known, self.held = expected / self.total, self.used
        return theta

    def fitted(self, theta: Array) -> Fitted:
        """The fitted distribution at θ."""
        self.propagate(theta)
        potentials = dict(zip(self.scopes, self._tables(theta), strict=True))
        return Fitted(self.tree, self.product.beliefs(), potentials, self.total)

    def _tables(self, flat: Array) -> list[Array]:
        return [
            flat[part].reshape(self.tree.shape(scope))
            for scope, part in zip(self.scopes, self.parts, strict=True)
        ]


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
