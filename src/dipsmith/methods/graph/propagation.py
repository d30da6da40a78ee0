"""Propagation: from factors over a few attributes to the marginals of their product, exactly.

One pass up and one pass down a junction tree (Hugin propagation: Lauritzen and Spiegelhalter, JRSS B 50,
1988), which a fit repeats hundreds of times with other numbers in the same factors. Everything that
depends on the shapes only is therefore worked out once.

A large clique is hardly ever filled. Most of its factors and separators have no more than two or three
of its attributes, so that there are two attributes x and y which occur together in few of them, with few
others c, and the clique's table is a product of three small ones,

    table[c, r, x, y] = left[c, r, x] · core[c, x, y] · right[c, r, y],        r: all other attributes.

Its sums over y, over x and over r are matrix products of these, one for each c: as many multiplications as
the clique has cells, at the speed of matrix multiplication and without a pass through memory for each
factor. (Eliminating inside a clique: Koller and Friedman, *Probabilistic Graphical Models*, 2009, section
9.3.) Where no x and y leave anything for r, and where the clique is small, one table is kept. A factor whose
attributes are among another's is multiplied into that one first.

Factors are kept as plain numbers, rescaled at every message, not as logarithms: an exponential costs
twenty multiplications.

Privacy: knows sizes of public domains and factors made from noisy numbers; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, log, prod

import numpy as np

from dipsmith.methods.graph.junction import Array, Attributes, JunctionTree, divide, product, sum_axes

SMALL = 1 << 11
"""Cliques of at most so many cells are kept as one table: three would be more calls than they save."""

FAINTEST = 1e-140
"""A sum below this is taken for nothing: its cells may be lost in rounding, and dividing by it may overflow."""

LEFT, RIGHT, CORE = 0, 1, 2


@dataclass(frozen=True)
class _Embedding:
    """Where a factor goes in a clique: into which table, and how it is turned and spread over it."""

    table: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    own_axes: tuple[int, ...]


def _within(tree: JunctionTree, scope: Attributes, axes: Attributes, table: int = LEFT) -> _Embedding:
    """How a table of some attributes lies along axes among which they are."""
    return _Embedding(
        table,
        tuple(scope.index(n) for n in axes if n in scope),
        tuple(tree.sizes[n] if n in scope else 1 for n in axes),
        tuple(axes.index(n) for n in scope),
    )


class _Clique:
    """The tables of one clique, and their sums."""

    def __init__(self, tree: JunctionTree, names: Attributes, scopes: Sequence[Attributes], small: int) -> None:
        x, y, tied = _apart(tree, names, scopes, small)
        rest = tuple(n for n in names if n not in (*x, *y, *tied))
        self.names = names
        left = (*tied, *rest, *x)
        self.axes = [left, (*tied, *rest, *y), (*tied, *x, *y)] if y else [left]
        self.shapes = [tree.shape(axes) for axes in self.axes]
        self.flat = tuple(prod(tree.shape(part)) for part in (tied, rest, x, y))
        self.fixed = [np.ones(shape) for shape in self.shapes]
        self.tables: list[Array] = []
        self.sums: list[Array | None] = []

    def place(self, tree: JunctionTree, scope: Attributes) -> _Embedding:
        """Where a factor of these attributes goes: into the smallest table that has them."""
        fitting = [i for i, axes in enumerate(self.axes) if set(scope) <= set(axes)]
        table = min(fitting, key=lambda i: prod(self.shapes[i]))
        return _within(tree, scope, self.axes[table], table)

    def clear(self) -> None:
        """Only the factors that never change."""
        self.tables = [table.copy() for table in self.fixed]
        self.sums = [None] * len(self.tables)

    def times(self, place: _Embedding, factor: Array) -> None:
        """Multiply by one more factor; what was summed along its own table stays a sum."""
        turned = factor.transpose(place.axes).reshape(place.shape)
        self.tables[place.table] *= turned
        known = self.sums[place.table]
        self.sums = [None] * len(self.tables)
        if known is not None and len(self.tables) > 1:
            known *= turned
            self.sums[place.table] = known

    def sum(self, place: _Embedding) -> Array:
        """Sum over everything but a factor's attributes, in their order."""
        return sum_axes(self.sum_along(place.table), place.own_axes)

    def sum_along(self, table: int) -> Array:
        """The clique summed to the axes of one of its tables."""
        if len(self.tables) == 1:
            return self.tables[0]
        known = self.sums[table]
        if known is None:
            left, right, core = self._stacks()
            if table == LEFT:
                known = left * product(right, core.transpose(0, 2, 1))
            elif table == RIGHT:
                known = right * product(left, core)
            else:
                known = core * product(left.transpose(0, 2, 1), right)
            known = self.sums[table] = known.reshape(self.shapes[table])
        return known

    def fill(self) -> Array:
        """The whole table, in the order of the clique's attributes."""
        table, axes = self.tables[0], self.axes[0]
        if len(self.tables) > 1:
            left, right, core = self._stacks()
            whole = left[:, :, :, None] * core[:, None, :, :]
            whole *= right[:, :, None, :]
            axes = (*self.axes[LEFT], self.axes[RIGHT][-1])
            table = whole.reshape((*self.shapes[LEFT], self.flat[-1]))
        return np.ascontiguousarray(table.transpose([axes.index(n) for n in self.names]))

    def _stacks(self) -> tuple[Array, Array, Array]:
        """Left, right and core as one matrix for each c."""
        tied, rest, x, y = self.flat
        return (
            self.tables[LEFT].reshape(tied, rest, x),
            self.tables[RIGHT].reshape(tied, rest, y),
            self.tables[CORE].reshape(tied, x, y),
        )


class Propagation:
    """The marginals of a product of factors over a junction tree.

    `scopes` has the attributes of every factor that changes, in the order of its axes, each inside one clique;
    `fixed` the factors that never change, with their attributes. Cliques of at most `small` cells are kept as one
    table.

    >>> tree = JunctionTree.of({"a": 2, "b": 2}, [("a",), ("b",)])
    >>> product = Propagation(tree, [("a",), ("b",)])
    >>> round(float(np.exp(product.run([np.array([1.0, 3.0]), np.array([2.0, 2.0])]))), 9)
    16.0
    >>> product.marginals()[0].tolist()
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
        self._hosts = _hosts(scopes)
        hosted = dict(self._hosts)
        self._own = [i for i in range(len(scopes)) if i not in hosted]
        self._spread = [_within(tree, scopes[i], scopes[j]) for i, j in self._hosts]
        self._holders = {i: _holder(tree, scopes[i]) for i in self._own}
        constant = [_holder(tree, scope) for scope, _ in fixed]
        self._cliques = []
        for k, names in enumerate(tree.cliques):
            inside = [scopes[i] for i, holder in self._holders.items() if holder == k]
            inside += [s for (s, _), holder in zip(fixed, constant, strict=True) if holder == k]
            inside += [tree.separators[j] for j in (k, *tree.children[k])]
            self._cliques.append(_Clique(tree, names, inside, small))
        for (scope, table), holder in zip(fixed, constant, strict=True):
            clique = self._cliques[holder]
            place = clique.place(tree, scope)
            clique.fixed[place.table] *= table.transpose(place.axes).reshape(place.shape)
        self._places = {i: self._cliques[k].place(tree, scopes[i]) for i, k in self._holders.items()}
        self._whole = self._cliques[0].place(tree, ())
        pairs = list(zip(tree.separators, tree.parents, strict=True))
        self._below = [c.place(tree, s) for c, (s, _) in zip(self._cliques, pairs, strict=True)]
        self._above = [self._cliques[max(p, 0)].place(tree, s) for s, p in pairs]

    def run(self, factors: Sequence[Array]) -> float:
        """Multiply the factors, make the product sum to 1, and return the logarithm of what it summed to.

        −∞ where it sums to nothing that doubles can hold; marginals and beliefs are then not to be had.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._run(list(factors))

    def _run(self, tables: list[Array]) -> float:
        for (i, host), place in zip(self._hosts, self._spread, strict=True):
            tables[host] = tables[host] * tables[i].transpose(place.axes).reshape(place.shape)
        for clique in self._cliques:
            clique.clear()
        for i in self._own:
            self._cliques[self._holders[i]].times(self._places[i], tables[i])
        messages: list[Array] = [np.ones(())] * len(self._cliques)
        log_sum = 0.0
        for child in range(len(self._cliques) - 1, 0, -1):
            message = self._cliques[child].sum(self._below[child])
            scale = float(message.max())
            if not FAINTEST < scale < inf:
                return -inf
            log_sum += log(scale)
            messages[child] = message
            self._parent(child).times(self._above[child], message * (1 / scale))
        whole = float(self._cliques[0].sum_along(LEFT).sum())
        if not FAINTEST < whole < inf:
            return -inf
        self._cliques[0].times(self._whole, np.array(1 / whole))
        for child in range(1, len(self._cliques)):
            above = self._parent(child).sum(self._above[child])
            self._cliques[child].times(self._below[child], divide(above, messages[child]))
        return log_sum + log(whole)

    def marginals(self) -> list[Array]:
        """The probabilities of the attributes of every factor, in the order of its axes, after a run."""
        found = {i: self._cliques[k].sum(self._places[i]) for i, k in self._holders.items()}
        for (i, host), place in zip(reversed(self._hosts), reversed(self._spread), strict=True):
            found[i] = sum_axes(found[host], place.own_axes)
        return [found[i] for i in range(len(found))]

    def beliefs(self) -> tuple[Array, ...]:
        """The probabilities of every clique, in the order of its axes, after a run."""
        return tuple(clique.fill() for clique in self._cliques)

    def _parent(self, child: int) -> _Clique:
        return self._cliques[self.tree.parents[child]]


def _holder(tree: JunctionTree, scope: Attributes) -> int:
    clique = tree.find_clique(scope)
    assert clique is not None
    return clique


def _apart(
    tree: JunctionTree, names: Attributes, scopes: Sequence[Attributes], small: int
) -> tuple[Attributes, Attributes, Attributes]:
    """The attributes x and y that split a clique's table best, and those that factors tie to both of them."""
    best: tuple[Attributes, Attributes, Attributes] = (names[-1:], (), ())
    least = prod(tree.shape(names))
    if least <= small:
        return best
    for x, y in combinations(names, 2):
        met = {n for scope in scopes if {x, y} <= set(scope) for n in scope}
        tied = tuple(n for n in names if n in met and n not in (x, y))
        rest = prod(tree.shape([n for n in names if n not in (x, y)]))
        cells = rest * (tree.sizes[x] + tree.sizes[y]) + prod(tree.shape((*tied, x, y)))
        if cells < least and len(tied) + 2 < len(names):
            best, least = ((x,), (y,), tied), cells
    return best


def _hosts(scopes: Sequence[Attributes]) -> list[tuple[int, int]]:
    """Each factor whose attributes are among another's, with that other; factors of fewer attributes first."""
    found = []
    for i in sorted(range(len(scopes)), key=lambda i: (len(scopes[i]), i)):
        wider = [
            j
            for j in range(len(scopes))
            if set(scopes[i]) <= set(scopes[j]) and (len(scopes[j]), j) > (len(scopes[i]), i)
        ]
        if wider:
            found.append((i, min(wider, key=lambda j: len(scopes[j]))))
    return found
