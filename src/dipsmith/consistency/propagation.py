"""Propagation: from factors over a few attributes to the marginals of their product, exactly.

One pass up and one pass down a junction tree (Hugin propagation: Lauritzen and Spiegelhalter, JRSS B 50,
1988), which a fit repeats hundreds of times with other numbers in the same factors. Everything that
depends on the shapes only is therefore worked out once.

A large clique is hardly ever filled. Most of its factors and separators have no more than two or three
of its attributes, so that there are two attributes x and y which occur together in no factor but one of
the two alone, and the clique's table is a product of three small ones,

    table[r, x, y] = left[r, x] · core[x, y] · right[r, y],        r: all other attributes.

Its sums over y, over x and over r are matrix products of these: as many multiplications as the clique has
cells, at the speed of matrix multiplication and without a pass through memory for each factor.
(Eliminating inside a clique: Koller and Friedman, *Probabilistic Graphical Models*, 2009, section 9.3.)
Where there are no such x and y, and where the clique is small, one table is kept.

Factors are kept as plain numbers, rescaled at every message, not as logarithms: an exponential costs
twenty multiplications.

Privacy: knows sizes of public domains and factors made from noisy numbers; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log, prod

import numpy as np

from dipsmith.consistency.junction import Array, Attributes, JunctionTree, sum_axes
from dipsmith.consistency.matrix import product
from dipsmith.errors import UsageError

SMALL = 1 << 11
"""Cliques of at most so many cells are kept as one table: three would be more calls than they save."""

LEFT, RIGHT, CORE = 0, 1, 2


@dataclass(frozen=True)
class _Place:
    """Where a factor goes in a clique: into which table, and how it is turned and spread over it."""

    table: int
    turned: tuple[int, ...]
    spread: tuple[int, ...]
    kept: tuple[int, ...]


class _Clique:
    """The tables of one clique, and their sums."""

    def __init__(
        self, tree: JunctionTree, names: Attributes, scopes: Sequence[Attributes], small: int
    ) -> None:
        x, y = _apart(tree, names, scopes, small)
        rest = tuple(n for n in names if n not in (*x, *y))
        self.names = names
        self.axes = [(*rest, *x), (*rest, *y), (*x, *y)] if y else [(*rest, *x)]
        self.shapes = [tree.shape(axes) for axes in self.axes]
        self.flat = (prod(tree.shape(rest)), prod(tree.shape(x)), prod(tree.shape(y)))
        self.fixed = [np.ones(shape) for shape in self.shapes]
        self.tables: list[Array] = []
        self.sums: list[Array | None] = []

    def place(self, tree: JunctionTree, scope: Attributes) -> _Place:
        """Where a factor of these attributes goes."""
        table = next(i for i, axes in enumerate(self.axes) if set(scope) <= set(axes))
        axes = self.axes[table]
        within = [n for n in axes if n in scope]
        return _Place(
            table,
            tuple(scope.index(n) for n in within),
            tuple(tree.sizes[n] if n in scope else 1 for n in axes),
            tuple(axes.index(n) for n in scope),
        )

    def clear(self) -> None:
        """Only the factors that never change."""
        self.tables = [table.copy() for table in self.fixed]
        self.sums = [None] * len(self.tables)

    def times(self, place: _Place, factor: Array) -> None:
        """Multiply by one more factor; what was summed along its own table stays a sum."""
        turned = factor.transpose(place.turned).reshape(place.spread)
        self.tables[place.table] *= turned
        known = self.sums[place.table]
        self.sums = [None] * len(self.tables)
        if known is not None and len(self.tables) > 1:
            known *= turned
            self.sums[place.table] = known

    def sum(self, place: _Place) -> Array:
        """Sum over everything but a factor's attributes, in their order."""
        return sum_axes(self.summed(place.table), place.kept)

    def summed(self, table: int) -> Array:
        """The clique summed to the axes of one of its tables."""
        if len(self.tables) == 1:
            return self.tables[0]
        known = self.sums[table]
        if known is None:
            rest, x, y = self.flat
            left, right = self.tables[LEFT].reshape(rest, x), self.tables[RIGHT].reshape(rest, y)
            core = self.tables[CORE].reshape(x, y)
            if table == LEFT:
                known = left * product(right, core.T)
            elif table == RIGHT:
                known = right * product(left, core)
            else:
                known = core * product(left.T, right)
            known = self.sums[table] = known.reshape(self.shapes[table])
        return known

    def filled(self) -> Array:
        """The whole table, in the order of the clique's attributes."""
        if len(self.tables) == 1:
            table, axes = self.tables[0], self.axes[0]
        else:
            rest, x, y = self.flat
            sides = self.tables[LEFT].reshape(rest, x, 1) * self.tables[CORE].reshape(1, x, y)
            sides *= self.tables[RIGHT].reshape(rest, 1, y)
            axes = (*self.axes[LEFT], self.axes[RIGHT][-1])
            table = sides.reshape((*self.shapes[LEFT], y))
        return np.ascontiguousarray(table.transpose([axes.index(n) for n in self.names]))


class Propagation:
    """The marginals of a product of factors over a junction tree.

    Parameters
    ----------
    tree
        The cliques.
    scopes
        The attributes of every factor that changes, in the order of its axes; each inside one clique.
    fixed
        Factors that never change, with their attributes.
    small
        Cliques of at most so many cells are kept as one table.

    Examples
    --------
    >>> tree = JunctionTree.of({"a": 2, "b": 2}, [("a",), ("b",)])
    >>> product = Propagation(tree, [("a",), ("b",)])
    >>> round(float(np.exp(product.run([np.array([1.0, 3.0]), np.array([2.0, 2.0])]))), 9)
    16.0
    >>> product.marginal(0).tolist()
    [0.25, 0.75]
    """

    def __init__(
        self,
        tree: JunctionTree,
        scopes: Sequence[Attributes],
        fixed: Sequence[tuple[Attributes, Array]] = (),
        small: int = SMALL,
    ) -> None:
        self.tree = tree
        self._holders = [_holder(tree, scope) for scope in scopes]
        constant = [_holder(tree, scope) for scope, _ in fixed]
        self._cliques = []
        for i, names in enumerate(tree.cliques):
            inside = [s for s, holder in zip(scopes, self._holders, strict=True) if holder == i]
            inside += [s for (s, _), holder in zip(fixed, constant, strict=True) if holder == i]
            inside += [tree.separators[j] for j in (i, *tree.children[i])]
            self._cliques.append(_Clique(tree, names, inside, small))
        for (scope, table), holder in zip(fixed, constant, strict=True):
            clique = self._cliques[holder]
            place = clique.place(tree, scope)
            clique.fixed[place.table] *= table.transpose(place.turned).reshape(place.spread)
        self._places = [
            self._cliques[holder].place(tree, scope)
            for scope, holder in zip(scopes, self._holders, strict=True)
        ]
        pairs = list(zip(tree.separators, tree.parents, strict=True))
        self._below = [c.place(tree, s) for c, (s, _) in zip(self._cliques, pairs, strict=True)]
        self._above = [self._cliques[p].place(tree, s) if p >= 0 else None for s, p in pairs]

    def run(self, factors: Sequence[Array]) -> float:
        """Multiply the factors, make the product sum to 1, and return the logarithm of what it summed to."""
        for clique in self._cliques:
            clique.clear()
        for holder, place, factor in zip(self._holders, self._places, factors, strict=True):
            self._cliques[holder].times(place, factor)
        messages: list[Array] = [np.ones(())] * len(self._cliques)
        log_sum = 0.0
        for child in range(len(self._cliques) - 1, 0, -1):
            message = self._cliques[child].sum(self._below[child])
            scale = _some(float(message.max()))
            log_sum += log(scale)
            messages[child] = message
            self._parent(child).times(self._place_above(child), message * (1 / scale))
        whole = _some(float(self._cliques[0].summed(LEFT).sum()))
        self._cliques[0].times(self._cliques[0].place(self.tree, ()), np.array(1 / whole))
        for child in range(1, len(self._cliques)):
            above, below = self._parent(child).sum(self._place_above(child)), messages[child]
            ratio = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
            self._cliques[child].times(self._below[child], ratio)
        return log_sum + log(whole)

    def marginal(self, factor: int) -> Array:
        """The probabilities of the attributes of a factor, in the order of its axes, after a run."""
        return self._cliques[self._holders[factor]].sum(self._places[factor])

    def beliefs(self) -> tuple[Array, ...]:
        """The probabilities of every clique, in the order of its axes, after a run."""
        return tuple(clique.filled() for clique in self._cliques)

    def _parent(self, child: int) -> _Clique:
        return self._cliques[self.tree.parents[child]]

    def _place_above(self, child: int) -> _Place:
        place = self._above[child]
        assert place is not None
        return place


def _holder(tree: JunctionTree, scope: Attributes) -> int:
    clique = tree.holding(scope)
    assert clique is not None
    return clique


def _apart(
    tree: JunctionTree, names: Attributes, scopes: Sequence[Attributes], small: int
) -> tuple[Attributes, Attributes]:
    """The two attributes that split a clique's table best: the largest ones that only a factor of their own ties."""
    whole: tuple[Attributes, Attributes] = (
        ((max(names, key=lambda n: tree.sizes[n]),), ()) if names else ((), ())
    )
    if prod(tree.shape(names)) <= small:
        return whole
    tied = {frozenset(p) for s in scopes if len(set(s)) > 2 for p in combinations(set(s), 2)}
    free = [p for p in combinations(names, 2) if frozenset(p) not in tied]
    if not free:
        return whole
    x, y = min(free, key=lambda p: 1 / tree.sizes[p[0]] + 1 / tree.sizes[p[1]])
    return (x,), (y,)


def _some(mass: float) -> float:
    if not mass > 0:
        raise UsageError("The rules and measurements leave no combination possible; check the schema's rules")
    return mass
