"""How much an attribute matters for dividing rows: the scores by which STEPS orders attributes.

*Information criteria* (Bowen, Liu and Su, arXiv 1803.06763, section 2.2.3). Of an attribute with K levels,
counts n_k and n = Σ n_k in a node, the saturated univariate model has

    AIC = −2·log L + 2K,   log L = log n! − Σ log n_k! + Σ n_k·log(n_k/n),

K from the **schema**. With H(x) = log x! − x·log x + x this is AIC = 2K − 2H(n) + 2ΣH(n_k), and since
H(x) − H(x−1) = 1 − g(x), g(x) = (x−1)·log(x/(x−1)), g(1) = 0, g increasing to 1,

    AIC(D) − AIC(D − a record of level j) = 2·(g(n) − g(n_j)) ∈ [0, 2).

A record never lowers any AIC (monotone under add-remove); a changed record moves it by less than 2 either
way. With K the number of *observed* levels, as in the paper's proof, both bounds would be 4; without the
multinomial coefficient there is no bound. BIC replaces 2K by K·log n; its n must be public, because K·log n
by itself moves by up to K·log 2.

AIC is small for few levels and for skewed ones; it does not look at what an attribute has to do with
others. *Marginal error* asks what a split is for: how many rows would be in the wrong place if the node
were spread evenly over the attribute's levels, less those that the noise on the split would misplace.

Privacy
-------
Sensitivities are stated by each class and proved in ``docs/proofs/steps.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, pi, sqrt

import numpy as np

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UnsupportedError
from dipsmith.methods.outlook import Names
from dipsmith.privacy.score import Score
from dipsmith.schema import Marginal, Schema

_SMALL = np.cumsum([0.0, 1.0, *(1 - (x - 1) * log(x / (x - 1)) for x in range(2, 16))])
"""H(0) … H(15), summed up from its differences 1 − g(x)."""


def log_factorial_excess(counts: Ints) -> Floats:
    """H(x) = log x! − x·log x + x, to within 1e-13 of itself: no difference of large numbers is taken.

    >>> log_factorial_excess(np.array([0, 1, 2])).round(6).tolist()
    [0.0, 1.0, 1.306853]
    """
    small = counts < _SMALL.size
    x = np.where(small, _SMALL.size, counts).astype(np.float64)
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)
    return np.where(small, _SMALL[np.where(small, counts, 0)], 0.5 * np.log(2 * pi * x) + series)


@dataclass(frozen=True, eq=False)
class InformationCriterion:
    """Minus the information criterion of an attribute, averaged over the attributes of a group.

    The criterion is summed over the nodes into which the attributes `within` already divide the rows. `penalty` is
    what one level costs in one node: 2 for AIC, log n with a **public** n for BIC.
    """

    schema: Schema
    within: Names = ()
    penalty: float = 2.0
    name: str = "aic"

    def tables(self, candidate: Names) -> Sequence[Marginal]:
        """The marginal of each attribute of the group, in every node."""
        return [Marginal(self.schema, (*self.within, name)) for name in candidate]

    def value(self, candidate: Names, counts: Sequence[Ints]) -> float:
        """Larger is better: fewer levels, more skewed."""
        return -sum(
            information_criterion(table.reshape(-1, self.schema[name].size), self.penalty)
            for name, table in zip(candidate, counts, strict=True)
        ) / len(candidate)

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """2 for each row: a row lies in one node, and the criterion's change there is within [0, 2)."""
        _refuse_unproved(self.name, relation)
        return Fraction(2 * max_rows)

    def monotone(self, relation: str) -> bool:
        """Under add-remove every criterion moves the same way."""
        return relation == "add-remove"


def information_criterion(counts: Ints, penalty: float = 2.0) -> float:
    """Σ over the nodes (lines) of −2·log L + penalty · levels; levels are those of the schema.

    >>> round(information_criterion(np.array([[30, 10]])), 6)
    7.87083
    """
    nodes, levels = counts.shape
    within = log_factorial_excess(counts).sum() - log_factorial_excess(counts.sum(axis=1)).sum()
    return float(penalty * nodes * levels + 2 * within)


@dataclass(frozen=True, eq=False)
class MisplacedRows(Score[Names]):
    """Rows that an even spread over the group's cells would misplace, less those that noise would.

    `cost` has for each candidate the rows that noise on the split misplaces (`misplaced_by_noise`); public. Errors
    are summed over the nodes into which the attributes `within` already divide the rows.
    """

    schema: Schema
    cost: Mapping[Names, float]
    within: Names = ()
    name: str = "marginal error"

    def tables(self, candidate: Names) -> Sequence[Marginal]:
        """The cross-table of the group, in every node."""
        return [Marginal(self.schema, (*self.within, *candidate))]

    def value(self, candidate: Names, counts: Sequence[Ints]) -> float:
        """Half the L1 distance from an even spread, less the cost of noise."""
        nodes = counts[0].reshape(-1, self.schema.size(candidate)).astype(np.float64)
        even = nodes.mean(axis=1, keepdims=True)
        return float(np.abs(nodes - even).sum() / 2) - self.cost[candidate]

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """1 for each row; 2 where a row may leave one node and enter another."""
        moves = 2 if relation == "replace" and self.within else 1
        _refuse_unproved(self.name, relation)
        return Fraction(moves * max_rows)


def misplaced_by_noise(cells: int, sd: float) -> float:
    """The rows that noise of standard deviation `sd` misplaces among so many cells: ½·cells·√(2/π)·sd."""
    return cells * sd / sqrt(2 * pi)


@dataclass(frozen=True, eq=False)
class Contrast(Score[Names]):
    """How much better the attributes of a group score, on average, than those outside it.

    The paper chooses among unordered pairs of clusters by |difference of their mean AIC| and then puts the
    better one first by looking at the data again, which no budget pays for. Ordered candidates with the
    signed difference choose both at once, for the same price.
    """

    each: Score[Names]
    names: Names

    @property
    def name(self) -> str:
        """The name that the ledger shows."""
        return f"contrast of {self.each.name}"

    def tables(self, candidate: Names) -> Sequence[Marginal]:
        """Every attribute by itself."""
        return [table for name in self.names for table in self.each.tables((name,))]

    def value(self, candidate: Names, counts: Sequence[Ints]) -> float:
        """Mean score inside the group less mean score outside it."""
        scores = {n: self.each.value((n,), [c]) for n, c in zip(self.names, counts, strict=True)}
        inside = [s for n, s in scores.items() if n in candidate]
        outside = [s for n, s in scores.items() if n not in candidate]
        return sum(inside) / len(inside) - sum(outside) / len(outside)

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """As one score's where all move the same way, else twice that."""
        return self.each.sensitivity(relation, max_rows) * (1 if self.each.monotone(relation) else 2)


def _refuse_unproved(name: str, relation: str) -> None:
    if relation not in ("add-remove", "replace"):
        wanted = "proved for neighbours add-remove or replace"
        raise UnsupportedError(f"the score '{name}' is {wanted}, not {relation}")
